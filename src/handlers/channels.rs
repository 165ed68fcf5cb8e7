//! `channels.*`.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value};

use crate::channels::{AccountState, Channels, ControlError, PairingError, TargetError};
use crate::config::channels::{ChannelAccount, ChannelKind, PeerId};
use crate::config::edit::{self, ValuePath};
use crate::config::edit_file;
use crate::protocol::ErrorShape;
use crate::protocol::methods::NoParams;
use crate::protocol::methods::channels::{
    ChannelParams, ChannelsStatusParams, PairingCodeParams, PairingRemoveParams,
};
use crate::registry::{Ctx, Reply, Services};
use crate::store::{OutboxCounts, StoreError};
use crate::support::{json, without_nulls};

/// How long services may take to answer a probe, when nobody says.
const PROBE: Duration = Duration::from_secs(10);
/// Bounds of that: a shorter one proves nothing, a longer one holds the caller.
const PROBE_BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Names of a channel for people.
const fn label(kind: ChannelKind) -> (&'static str, &'static str, &'static str) {
    match kind {
        ChannelKind::Telegram => ("Telegram", "Telegram Bot", "paperplane"),
        ChannelKind::Webhook => ("Webhook", "Signed webhook", "link"),
    }
}

/// Who gets to see what is told of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Every connection, whatever its scopes.
    ByEverybody,
    /// Who may call `channels.status`.
    ByReaders,
}

fn channels_of(cx: &Ctx) -> &Channels {
    &cx.services.runs.parts().channels
}

/// `channels.status`: what is configured and how it is.
pub async fn status(cx: Ctx, p: ChannelsStatusParams) -> Reply<Value> {
    let limit = p.timeout_ms.map_or(PROBE, Duration::from_millis);
    let limit = p.probe.then(|| limit.clamp(PROBE_BOUNDS.0, PROBE_BOUNDS.1));
    let mut answer = json!({"ts": cx.now_ms()});
    if let Value::Object(members) = &mut answer {
        let listed = listing(&cx.services, Seen::ByReaders, limit).await;
        members.extend(listed.map_err(unavailable)?);
    }
    name_offered(&mut answer);
    if cx.caller.is_dashboard {
        let items = items(&answer);
        answer["items"] = items;
    }
    Ok(answer)
}

/// A row for each account, as dashboards read them. That of the default account has the id of
/// its channel, by which `channels.logout` is called. The id of another one only tells it from
/// the others: no method takes it.
fn items(answer: &Value) -> Value {
    let mut items = Vec::new();
    for (channel, rows) in answer["channelAccounts"].as_object().into_iter().flatten() {
        let default = &answer["channelDefaultAccountId"][channel];
        for row in rows.as_array().into_iter().flatten() {
            let id = match row["accountId"].as_str() {
                Some(account) if default != account => format!("{channel}:{account}"),
                _ => channel.clone(),
            };
            let mut item = row.clone();
            item["id"] = json!(id);
            item["channel"] = json!(channel);
            items.push(item);
        }
    }
    items.into()
}

/// Lists the channels as well that could be configured, after those that are, so
/// that a page shows a form for each that this gateway has and for no other.
fn name_offered(answer: &mut Value) {
    for kind in ChannelKind::ALL {
        let id = kind.as_str();
        if answer["channels"].get(id).is_some() {
            continue;
        }
        answer["channels"][id] = json!({"configured": false, "running": false});
        answer["channelAccounts"][id] = json!([]);
        if let Some(order) = answer["channelOrder"].as_array_mut() {
            order.push(id.into());
        }
        if let Some(meta) = answer["channelMeta"].as_array_mut() {
            meta.push(meta_of(kind));
        }
        let (name, detail, image) = label(kind);
        answer["channelLabels"][id] = name.into();
        answer["channelDetailLabels"][id] = detail.into();
        answer["channelSystemImages"][id] = image.into();
    }
}

fn meta_of(kind: ChannelKind) -> Value {
    let (name, detail, image) = label(kind);
    json!({"id": kind.as_str(), "label": name, "detailLabel": detail, "systemImage": image})
}

/// What `channels.status` and `health` tell of channels.
pub(super) async fn listing(
    services: &Services,
    seen: Seen,
    probe: Option<Duration>,
) -> Result<Map<String, Value>, StoreError> {
    let channels = &services.runs.parts().channels;
    let kinds: Vec<_> = services.settings.now().channels.kinds().collect();
    let by_name = |value: fn(ChannelKind) -> Value| -> Map<String, Value> {
        kinds.iter().map(|kind| (kind.as_str().to_owned(), value(*kind))).collect()
    };
    let meta = kinds.iter().map(|kind| meta_of(*kind));
    let (mut summaries, mut accounts, mut defaults) = (Map::new(), Map::new(), Map::new());
    let all = channels.accounts();
    // All at the same time: one that is slow holds up no other.
    let probing = all.iter().map(|(config, state)| {
        let limit = probe.filter(|_| state.running);
        probe_of(channels, config, limit)
    });
    let probes = join_all(probing).await;
    for kind in &kinds {
        let mut rows = Vec::new();
        let known = all.iter().zip(&probes).filter(|((config, _), _)| config.kind == *kind);
        for ((config, state), probed) in known {
            let counts = channels.outbox_counts(config).await?;
            let mut row = account_row(channels, config, state, counts);
            if seen == Seen::ByReaders {
                add_access(&mut row, config);
            }
            if let Some(probed) = probed {
                row["probe"] = probed.clone();
                row["lastProbeAt"] = json!(services.clock.now_ms());
                if row.get("lastError").is_none() && probed["error"].is_string() {
                    row["lastError"] = probed["error"].clone();
                }
            }
            rows.push((config.is_default, config.id.clone(), row));
        }
        let usual = rows.iter().find(|row| row.0).or_else(|| rows.first());
        if let Some((_, id, row)) = usual {
            let mut summary = row.clone();
            if let Value::Object(members) = &mut summary {
                members.shift_remove("accountId");
            }
            summaries.insert(kind.as_str().into(), summary);
            defaults.insert(kind.as_str().into(), json!(id));
        }
        let rows: Vec<_> = rows.into_iter().map(|row| row.2).collect();
        accounts.insert(kind.as_str().into(), json!(rows));
    }
    let members = json!({
        "channelOrder": kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>(),
        "channelLabels": by_name(|kind| json!(label(kind).0)),
        "channelDetailLabels": by_name(|kind| json!(label(kind).1)),
        "channelSystemImages": by_name(|kind| json!(label(kind).2)),
        "channelMeta": meta.collect::<Vec<_>>(),
        "channels": summaries,
        "channelAccounts": accounts,
        "channelDefaultAccountId": defaults,
    });
    Ok(match members {
        Value::Object(members) => members,
        _ => Map::new(),
    })
}

/// What its service says of an account within a time; nothing without one.
async fn probe_of(
    channels: &Channels,
    config: &ChannelAccount,
    limit: Option<Duration>,
) -> Option<Value> {
    let limit = limit?;
    let told = tokio::time::timeout(limit, channels.probe(config.kind, &config.id)).await;
    Some(match told {
        Ok(Ok(told)) => told,
        Ok(Err(error)) => json!({"ok": false, "error": error}),
        Err(_) => {
            let error = format!("probe timed out after {}ms", limit.as_millis());
            json!({"ok": false, "timedOut": true, "error": error})
        }
    })
}

fn account_row(
    channels: &Channels,
    config: &ChannelAccount,
    state: &AccountState,
    counts: OutboxCounts,
) -> Value {
    without_nulls(json!({
        "accountId": config.id,
        "name": config.name,
        "enabled": config.enabled,
        "configured": config.way.is_ok(),
        "running": state.running,
        "connected": state.running.then_some(state.connected),
        "reconnectAttempts": state.reconnect_attempts,
        "lastConnectedAt": state.last_connected_at,
        "lastError": config.way.as_ref().err().or(state.last_error.as_ref()),
        "lastStartAt": state.last_start_at,
        "lastStopAt": state.last_stop_at,
        "lastInboundAt": state.last_inbound_at,
        "lastOutboundAt": state.last_outbound_at,
        "mode": channels.mode(config.kind, &config.id),
        "outbox": {"waiting": counts.waiting, "uncertain": counts.uncertain,
            "failed": counts.failed},
    }))
}

/// Adds who may write to an account, and where.
fn add_access(row: &mut Value, config: &ChannelAccount) {
    let access = &config.access;
    let allow: Vec<_> = access.allow_from.iter().map(PeerId::as_str).collect();
    row["dmPolicy"] = json!(access.dm_policy.as_str());
    row["groupPolicy"] = json!(access.group_policy.as_str());
    row["allowFrom"] = json!(allow);
    if let Some(path) = config.inbound_path() {
        row["webhookPath"] = json!(path);
    }
}

/// The configured channel that is meant; recorded for those that are not.
fn known(cx: &Ctx, method: &str, p: &ChannelParams) -> Reply<ChannelKind> {
    let kind = channels_of(cx).kind(Some(&p.channel));
    kind.map_err(|_: TargetError| ErrorShape::invalid(format!("invalid {method} channel")))
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
fn refused(error: ControlError) -> ErrorShape {
    match error {
        ControlError::UnknownAccount(_) => ErrorShape::not_found(error.to_string()),
        ControlError::Unusable { .. } => ErrorShape::unavailable(error.to_string()),
    }
}

/// `channels.start`: an account is used from now on.
pub async fn start(cx: Ctx, p: ChannelParams) -> Reply<Value> {
    let kind = known(&cx, "channels.start", &p)?;
    let started = channels_of(&cx).start(kind, p.account_id.as_deref()).await;
    let (account, is_started) = started.map_err(refused)?;
    Ok(json!({"channel": kind.as_str(), "accountId": account, "started": is_started}))
}

/// `channels.stop`: an account is not used until it is started again.
pub async fn stop(cx: Ctx, p: ChannelParams) -> Reply<Value> {
    let kind = known(&cx, "channels.stop", &p)?;
    let stopped = channels_of(&cx).stop(kind, p.account_id.as_deref());
    let (account, is_stopped) = stopped.map_err(refused)?;
    Ok(json!({"channel": kind.as_str(), "accountId": account, "stopped": is_stopped}))
}

/// `channels.logout`: the credential of an account goes out of the config file,
/// and the account ends.
pub async fn logout(cx: Ctx, p: ChannelParams) -> Reply<Value> {
    let kind = known(&cx, "channels.logout", &p)?;
    let settings = &cx.services.settings.now();
    let config = settings.channels.account(kind, p.account_id.as_deref());
    let unknown = || {
        let account = p.account_id.clone().unwrap_or_default();
        refused(ControlError::UnknownAccount(account))
    };
    let id = config.ok_or_else(unknown)?.id.clone();
    let credential = match kind {
        ChannelKind::Telegram => "botToken",
        ChannelKind::Webhook => "secret",
    };
    let own = &settings.raw["channels"][kind.as_str()]["accounts"][&id][credential];
    let place = if own.is_null() {
        ValuePath::of(&["channels", kind.as_str(), credential])
    } else {
        ValuePath::of(&["channels", kind.as_str(), "accounts", &id, credential])
    };
    let path = settings.file.path.clone();
    let work = move |_| edit_file(&path, |text| edit::remove(text, &place));
    let edited = super::config::in_turn(&cx.services, work);
    let failed = |text: String| ErrorShape::unavailable(format!("Error: {text}"));
    let (cleared, _turn) = edited.await.map_err(|error| failed(error.to_string()))?;
    let cleared = cleared.map_err(|error| failed(error.to_string()))?;
    channels_of(&cx).stop(kind, Some(&id)).map_err(refused)?;
    super::config::take_up(&cx, false).await.map_err(|issue| failed(issue.message))?;
    Ok(json!({"channel": kind.as_str(), "accountId": id, "cleared": cleared, "loggedOut": true}))
}

/// `channels.pairing.list`: who waits to be let in, and who was; ours.
pub async fn pairings(cx: Ctx, _: NoParams) -> Reply<Value> {
    let (waiting, known) = channels_of(&cx).pairings().await.map_err(unavailable)?;
    let requests = waiting.iter().map(|it| {
        without_nulls(json!({"channel": it.channel, "accountId": it.account, "person": it.person,
            "name": it.name, "code": it.code, "createdAtMs": it.created_at}))
    });
    let people = known.iter().map(|it| {
        without_nulls(json!({"channel": it.channel, "accountId": it.account, "person": it.person,
            "name": it.name, "approvedAtMs": it.approved_at}))
    });
    Ok(json!({"requests": requests.collect::<Vec<_>>(), "people": people.collect::<Vec<_>>()}))
}

/// `channels.pairing.approve`: lets the one with this code in; ours.
pub async fn approve(cx: Ctx, p: PairingCodeParams) -> Reply<Value> {
    resolve(cx, p, true, "channels.pairing.approve").await
}

/// `channels.pairing.reject`: the code is worth nothing any more; ours.
pub async fn reject(cx: Ctx, p: PairingCodeParams) -> Reply<Value> {
    resolve(cx, p, false, "channels.pairing.reject").await
}

async fn resolve(cx: Ctx, p: PairingCodeParams, approved: bool, method: &str) -> Reply<Value> {
    let channel = ChannelParams { channel: p.channel, account_id: None };
    let kind = known(&cx, method, &channel)?;
    let request = channels_of(&cx).resolve_pairing(kind, &p.code, approved).await;
    let request = request.map_err(|error| match error {
        PairingError::UnknownCode { .. } => ErrorShape::not_found(error.to_string()),
        PairingError::Store(error) => unavailable(error),
    })?;
    Ok(json!({"channel": request.channel, "accountId": request.account,
        "person": request.person, "approved": approved}))
}

/// `channels.pairing.remove`: somebody is not let in any more; ours.
pub async fn remove(cx: Ctx, p: PairingRemoveParams) -> Reply<Value> {
    let channel = ChannelParams { channel: p.channel, account_id: p.account_id };
    let kind = known(&cx, "channels.pairing.remove", &channel)?;
    let settings = &cx.services.settings.now().channels;
    let account = settings.account(kind, channel.account_id.as_deref());
    let account = account.ok_or_else(|| ErrorShape::not_found("unknown account"))?;
    let removed = channels_of(&cx).unpair(kind, &account.id, &p.person).await;
    Ok(json!({"removed": removed.map_err(unavailable)?}))
}

/// `channelSummary` of `status`: a line for each channel.
pub(super) fn summary(services: &Services) -> Vec<String> {
    let accounts = services.runs.parts().channels.accounts();
    let lines = accounts.iter().map(|(config, state)| {
        let word = match () {
            () if config.way.is_err() => "not configured",
            () if !state.running => "stopped",
            () if state.connected => "connected",
            () => "lost",
        };
        format!("{} ({}): {word}", label(config.kind).0, config.id)
    });
    lines.collect()
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
fn unavailable(error: StoreError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}"))
}
