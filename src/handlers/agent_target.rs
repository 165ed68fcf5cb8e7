//! Where a message of `agent` goes, and on which terms it is answered.
//!
//! Promises: what is wrong with a message is refused before anything is accepted, and changes
//! nothing; a message that was taken before changes nothing again.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::session_settings::{edit_as, unedited};
use super::sessions::unavailable;
use super::{chat, reply, voicewake};
use crate::agent::RunTerms;
use crate::config::channels::ChannelKind;
use crate::protocol::decode::Setting;
use crate::protocol::methods::agent::{AgentParams, ReplyRoute};
use crate::protocol::methods::session_settings::SessionSettings;
use crate::protocol::{ErrorShape, Scope};
use crate::providers::{NameError, ThinkingLevel};
use crate::registry::{Ctx, Reply};
use crate::sessions::{AgentId, SessionEntry, SessionError, SessionId, SessionKey};

/// The channels of OpenClaw with their other names, and what stands for none.
const CHANNELS: &str = "last webchat heartbeat cron webhook telegram whatsapp discord slack \
    signal imessage imsg bluebubbles bb irc internet-relay-chat matrix mattermost googlechat gchat \
    google-chat msteams teams line feishu lark nextcloud-talk nc-talk nc nostr qqbot \
    synology-chat tlon twitch twitch-chat wecom qywx wework enterprise-wechat yuanbao yb \
    tencent-yuanbao zalo zl zalouser zlu";
/// Longest name of a provider or model, in characters.
const NAME_MAX: usize = 256;

fn invalid(text: impl Display) -> ErrorShape {
    ErrorShape::invalid(format!("invalid agent params: {text}"))
}

/// What is blank says nothing of where a message goes.
pub(super) fn leave_out_blanks(p: &mut AgentParams) {
    for place in [&mut p.session_key, &mut p.agent_id, &mut p.session_id, &mut p.to] {
        place.take_if(|text| text.trim().is_empty());
    }
}

/// What must be refused whatever session is meant.
pub(super) fn check(cx: &Ctx, p: &AgentParams) -> Reply<()> {
    check_rights(cx, p)?;
    check_channels(p)?;
    let agent = p.agent_id.as_deref().map(AgentId::normalize);
    if let Some(agent) = &agent
        && !cx.services.settings.now().agents.has(agent.as_str())
    {
        let written = p.agent_id.as_deref().unwrap_or_default();
        return Err(invalid(format_args!("unknown agent id \"{written}\"")));
    }
    if let Some(written) = p.session_key.as_deref() {
        let key = cx.session_key(written);
        if key.is_malformed() {
            return Err(invalid(format_args!("malformed session key \"{written}\"")));
        }
        check_agent(cx, p, &key)?;
    }
    reply::check_agent(cx, p)
}

fn is_admin(cx: &Ctx) -> bool {
    cx.caller.principal.allows(Scope::Admin)
}

/// Members that only admins may send.
fn check_rights(cx: &Ctx, p: &AgentParams) -> Reply<()> {
    if is_admin(cx) {
        return Ok(());
    }
    if p.provider.is_some() || p.model.is_some() {
        let text = "provider/model overrides are not authorized for this caller.";
        return Err(ErrorShape::denied(text));
    }
    // What is said to come from another session is not shown whole to people.
    if p.provenance.is_some() {
        return Err(ErrorShape::denied("system provenance fields require admin scope"));
    }
    Ok(())
}

/// Whether the channels that are named are some, be they here or not.
fn check_channels(p: &AgentParams) -> Reply<()> {
    for name in [&p.place.channel, &p.reply.channel].into_iter().flatten() {
        let name = name.trim().to_lowercase();
        if !CHANNELS.split(' ').any(|known| known == name) {
            return Err(invalid(format_args!("unknown channel: {name}")));
        }
    }
    Ok(())
}

/// Whether the agent that is named is the session's.
fn check_agent(cx: &Ctx, p: &AgentParams, key: &SessionKey) -> Reply<()> {
    let of_key = key.agent(&cx.services.keys.now());
    match p.agent_id.as_deref().map(AgentId::normalize) {
        Some(agent) if agent != of_key => Err(invalid(format_args!(
            "agent \"{agent}\" does not match session key agent \"{of_key}\""
        ))),
        _ => Ok(()),
    }
}

/// Whether a provider and a model that are named can be names.
fn check_names(p: &AgentParams) -> Reply<()> {
    let named = [("Provider", &p.provider), ("Model", &p.model)];
    let named = named.into_iter().filter_map(|(what, name)| Some((what, name.as_deref()?)));
    for (what, name) in named {
        let fault = if name.trim().is_empty() {
            "must be non-empty."
        } else if name.chars().count() > NAME_MAX {
            "exceeds 256 characters."
        } else if name.chars().any(char::is_control) {
            "contains invalid control characters."
        } else {
            continue;
        };
        return Err(ErrorShape::invalid(format!("{what} override {fault}")));
    }
    Ok(())
}

/// The session that is meant, if any is, with its lane entered. Looking for a
/// transcript takes time; that those who look for the same one keep their
/// order, they have a lane for this as well.
pub(super) async fn enter_session(cx: &Ctx, p: &AgentParams) -> Reply<Option<SessionKey>> {
    let looking = match &p.session_id {
        Some(id) if p.session_key.is_none() => {
            Some(cx.services.lanes.enter(format!("sessionId {id}")).await)
        }
        _ => None,
    };
    let key = session(cx, p).await?;
    if let Some(key) = &key {
        cx.enter_lane(key).await;
    }
    drop(looking);
    Ok(key)
}

async fn session(cx: &Ctx, p: &AgentParams) -> Reply<Option<SessionKey>> {
    if let Some(key) = voicewake::woken(cx, p).await {
        return Ok(Some(key));
    }
    if let Some(written) = p.session_key.as_deref() {
        return Ok(Some(cx.session_key(written)));
    }
    let keys = &cx.services.keys.now();
    let agent = p.agent_id.as_deref().map(AgentId::normalize);
    if let Some(id) = p.session_id.as_deref() {
        if let Some(key) = with_id(cx, id).await? {
            check_agent(cx, p, &key)?;
            return Ok(Some(key));
        }
        if agent.is_some() || p.to.is_none() {
            let agent = agent.unwrap_or_else(|| keys.default_agent.clone());
            return Ok(Some(SessionKey::explicit(&agent, id)));
        }
    }
    let agent = agent.or_else(|| p.to.as_ref().map(|_| keys.default_agent.clone()));
    Ok(agent.map(|agent| SessionKey::main(&agent, keys)))
}

/// The session whose transcript has this id.
async fn with_id(cx: &Ctx, id: &str) -> Reply<Option<SessionKey>> {
    let row = cx.services.sessions.by_id(id).await;
    let row = row.map_err(|error| ErrorShape::unavailable(format!("Error: {error}")))?;
    Ok(row.map(|row| SessionKey::from_canonical(row.key)))
}

/// The terms of the run, and how hard its model thinks.
pub(super) async fn terms(
    cx: &Ctx,
    p: &AgentParams,
    key: &SessionKey,
) -> Reply<(RunTerms, Option<ThinkingLevel>)> {
    if let Some(id) = p.session_id.as_deref()
        && SessionId::parse(id).is_none()
    {
        return Err(ErrorShape::invalid(format!("Invalid session ID: {id}")));
    }
    check_names(p)?;
    let thinking = chat::thinking(cx, p.thinking.as_deref())?;
    let model = model(cx, p, key).await?;
    let terms = RunTerms {
        // Who names a model wants that one's answer, or to hear that there is none.
        fallbacks: model.as_ref().map(|_| Vec::new()),
        model,
        prompt: p.prompt_mode,
        is_light: p.is_light,
        instructions: p.instructions.clone(),
        ..chat::terms(cx)
    };
    Ok((terms, thinking))
}

/// The model that is named for this run alone; with a provider and no model the session's
/// model as that one has it.
async fn model(cx: &Ctx, p: &AgentParams, key: &SessionKey) -> Reply<Option<String>> {
    let models = &cx.services.models;
    let written = match (p.provider.as_deref(), p.model.as_deref()) {
        (None, None) => return Ok(None),
        (None, Some(model)) => model.trim().to_owned(),
        (Some(provider), Some(model)) => format!("{}/{}", provider.trim(), model.trim()),
        (Some(provider), None) => {
            let entry = cx.services.sessions.entry(key).await;
            let entry = entry.map_err(unavailable)?;
            let usual = models.of_session(key, entry.as_ref()).name.model;
            format!("{}/{usual}", provider.trim())
        }
    };
    let agent = key.agent(&cx.services.keys.now());
    match models.named(&written, &agent) {
        Ok(name) if models.catalog().find_or_guess(&name).is_some() => Ok(Some(name.to_string())),
        Ok(name) => Err(ErrorShape::invalid(format!("Unknown model: {name}"))),
        Err(NameError::NotAllowed(name)) => Err(ErrorShape::invalid(format!(
            "Model override \"{name}\" is not allowed for agent \"{agent}\"."
        ))),
        Err(error) => Err(ErrorShape::invalid(error.to_string())),
    }
}

/// Sets what the message says of its session; one that there is not yet gets the id that it
/// names. Where the session already has a place or another one has the label, that stays. Who
/// is no admin does not say where its answers go.
pub(super) async fn open(
    cx: &Ctx,
    p: &AgentParams,
    key: &SessionKey,
    thinking: Option<ThinkingLevel>,
) -> Reply<()> {
    let id = p.session_id.as_deref().and_then(SessionId::parse);
    // Of two sessions that would begin with one id, one gets it.
    let _beginning = match &id {
        Some(id) => Some(cx.services.lanes.enter(format!("begin {id}")).await),
        None => None,
    };
    let sessions = &cx.services.sessions;
    let id = match id {
        Some(id) if sessions.may_begin_as(key, &id).await.map_err(unavailable)? => Some(id),
        _ => None,
    };
    let place = if is_admin(cx) { place(&p.place) } else { None };
    if id.is_none() && place.is_none() && p.label.is_none() && thinking.is_none() {
        return Ok(());
    }
    let setting = |value: Option<String>| value.map_or(Setting::Keep, Setting::Set);
    let mut label = p.label.clone();
    loop {
        let settings = SessionSettings {
            label: setting(label.clone()),
            thinking_level: setting(thinking.map(|level| level.as_str().to_owned())),
            ..SessionSettings::default()
        };
        let place = place.clone();
        let also = |entry: &mut SessionEntry| {
            if let Some(place) = place {
                complete(entry, place);
            }
            Ok(())
        };
        match edit_as(cx, key, id.as_ref(), settings, also).await {
            Err(SessionError::LabelTaken(taken)) if label.take().is_some() => {
                tracing::warn!(session = %key, label = taken, "another session has this label");
            }
            edited => return edited.map(drop).map_err(unedited),
        }
    }
}

/// The place that a message is said to come from, in a channel that there is.
fn place(said: &ReplyRoute) -> Option<Map<String, Value>> {
    let channel = ChannelKind::parse(said.channel.as_deref()?)?.as_str().to_owned();
    let members = [
        ("channel", Some(channel)),
        ("to", said.to.clone()),
        ("accountId", said.account.clone()),
        ("threadId", said.thread.clone()),
    ];
    let members = members.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Some(members.map(|(name, value)| (name.to_owned(), value.into())).collect())
}

/// Adds what a session does not know of its place, unless it is another one.
fn complete(entry: &mut SessionEntry, place: Map<String, Value>) {
    let known = entry.delivery_context.as_ref().and_then(Value::as_object);
    let mut known = known.cloned().unwrap_or_default();
    if let Some(channel) = &entry.last_channel {
        known.insert("channel".into(), channel.as_str().into());
    }
    let is_other = |name: &str| known.get(name).is_some_and(|it| place.get(name) != Some(it));
    let is_elsewhere = place.contains_key("accountId") && is_other("accountId");
    if is_other("channel") || is_other("to") || is_elsewhere {
        return;
    }
    for (name, value) in place {
        known.entry(name).or_insert(value);
    }
    entry.last_channel = known.get("channel").and_then(Value::as_str).map(str::to_owned);
    entry.delivery_context = Some(Value::Object(known));
}
