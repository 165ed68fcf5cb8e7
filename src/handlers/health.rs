//! `health`, and the snapshot behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::channels::Seen;
use super::health_parts::parts;
use super::shared::{Asked, shared};
use crate::bus::{Audience, Bus, Event, EventKind, Presence};
use crate::protocol::ErrorShape;
use crate::protocol::methods::system::HealthParams;
use crate::registry::{Ctx, Reply, Services, Shared};
use crate::sessions::SessionError;
use crate::support::{json, millis, trouble, without_nulls};
use crate::telemetry::metrics::History;

/// A snapshot is made anew after this time.
const REFRESH_EVERY: Duration = Duration::from_mins(1);
/// Connects and disconnects come in bursts; one event tells of a whole burst.
const SETTLE: Duration = Duration::from_millis(200);
/// For each so many clients a burst lasts as long again: what is told goes to all of
/// them, and where a thousand come and go it would be most of the work.
const CLIENTS_PER_SETTLE: usize = 100;
/// Nobody hears later than this who is there.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// Who does not ask for a new snapshot waits no longer for one when there is an older one.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a look at a disk waits for it: many who ask give up after a second.
const DISK_LIMIT: Duration = Duration::from_millis(500);
/// How often a disk is tried that took nothing. A write is little work.
const TRY_EVERY: Duration = Duration::from_secs(2);
/// However many ask, the disk is tried once at a time.
static TRYING: Semaphore = Semaphore::const_new(1);
/// Sessions that a snapshot names.
const RECENT: u32 = 5;

/// How the gateway was: the last health snapshot, and the wish for a new one; the
/// numbers of the last hour.
#[derive(Default)]
pub struct HealthCache {
    /// Numbers of the last hour.
    pub history: History,
    last: ArcSwapOption<Snapshot>,
    /// How often something has changed that it is answered with at once.
    changes: AtomicU64,
    refresh: Notify,
    presence: Notify,
    /// Held by who makes a snapshot until it is told, so that the last is the newest.
    making: tokio::sync::Mutex<()>,
    /// Held by who tells who is there, for the same.
    telling: Mutex<()>,
}

/// How the gateway was at one time.
struct Snapshot {
    told: Arc<Box<RawValue>>,
    /// How often something had changed before it was made.
    known: u64,
}

impl HealthCache {
    /// The last snapshot.
    pub fn last(&self) -> Option<Arc<Box<RawValue>>> {
        self.last.load().as_ref().map(|last| Arc::clone(&last.told))
    }

    /// Asks for a new snapshot within a moment.
    pub fn refresh_soon(&self) {
        self.refresh.notify_one();
    }

    /// The same; who asks meanwhile does not get the last one.
    pub fn outdate(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.refresh_soon();
    }

    /// How much has changed: here, and what is wrong with parts.
    fn known(&self) -> u64 {
        self.changes.load(Ordering::Acquire) + trouble::changes()
    }

    /// The last snapshot, if it tells of all that is told at once.
    fn current(&self) -> Option<Arc<Box<RawValue>>> {
        self.last_of(self.known())
    }

    /// The last snapshot, if it knows of so many changes.
    fn last_of(&self, known: u64) -> Option<Arc<Box<RawValue>>> {
        let last = self.last.load();
        let current = last.as_ref().filter(|it| it.known == known);
        current.map(|it| Arc::clone(&it.told))
    }

    /// Keeps one that knows of so many changes.
    fn keep(&self, told: Arc<Box<RawValue>>, known: u64) {
        self.last.store(Some(Arc::new(Snapshot { told, known })));
    }

    /// Asks for a `presence` event within a moment.
    pub fn presence_changed(&self) {
        self.presence.notify_one();
    }

    /// Sends the presence list to everybody.
    fn publish(&self, presence: &Presence, bus: &Bus, now_ms: u64) {
        if !bus.wants(EventKind::Presence, &Audience::Everyone) {
            return;
        }
        let _turn = self.telling.lock();
        let (list, version) = presence.snapshot(now_ms);
        let payload = BTreeMap::from([("presence", list)]);
        let event = Event::new(EventKind::Presence, &payload).versioned(version);
        bus.deliver(event, &Audience::Everyone);
    }
}

/// The last snapshot, to be answered with.
pub fn kept(services: &Services, answer: &mut dyn FnMut(&str) -> bool) -> bool {
    services.health.current().is_some_and(|last| answer(last.get()))
}

/// `health`: the last snapshot, or a new one for `{probe:true}`.
pub async fn health(cx: Ctx, p: HealthParams) -> Reply<Shared> {
    let services = &cx.services;
    if !p.probe
        && let Some(last) = services.health.current()
    {
        return Ok(last.into());
    }
    let probe = async {
        let fresh = refresh(services).await;
        fresh.map_err(|error| ErrorShape::unavailable(format!("Error: {error}")))
    };
    let fresh = Box::pin(shared(services, Asked::Health, probe));
    match services.health.last().filter(|_| !p.probe) {
        Some(last) => Ok(or_last(fresh, last).await),
        None => fresh.await,
    }
}

/// What `fresh` comes to, or `last` while a database that refuses to be read, or does not
/// answer, keeps it from coming.
async fn or_last(fresh: impl Future<Output = Reply<Shared>>, last: Arc<Box<RawValue>>) -> Shared {
    let fresh = timeout(PATIENCE, fresh).await;
    fresh.ok().and_then(Result::ok).unwrap_or_else(|| last.into())
}

/// Makes snapshots and tells of them, until the task is dropped.
pub async fn keep_fresh(services: Arc<Services>) {
    let mut next_try = None;
    loop {
        if let Err(error) = refresh(&services).await {
            tracing::error!(%error, "health snapshot failed");
        }
        let is_news = tokio::select! {
            () = sleep(REFRESH_EVERY) => false,
            () = try_disk(&services, &mut next_try) => true,
            () = services.health.refresh.notified() => true,
            () = trouble::changed() => true,
        };
        if is_news {
            settle(&services).await;
            // The next one tells of both.
            let _ = services.health.refresh.notified().now_or_never();
            let _ = trouble::changed().now_or_never();
        }
    }
}

/// Tries a disk that took nothing until it has room: nobody else may, and it would not be
/// known. Where nothing is to be tried this does not end. `next` is when it is tried next,
/// also by who begins anew since there was other news.
async fn try_disk(services: &Services, next: &mut Option<Instant>) {
    if !is_unstored() {
        *next = None;
        std::future::pending::<()>().await;
    }
    while is_unstored() {
        until_due(next).await;
        look_again(services).await;
        *next = None;
    }
}

/// Waits for the next try. Who gives that up does not begin to wait anew.
async fn until_due(next: &mut Option<Instant>) {
    sleep_until(*next.get_or_insert_with(|| Instant::now() + TRY_EVERY)).await;
}

/// Whether the last write was not stored.
fn is_unstored() -> bool {
    ["store", "transcripts"].into_iter().any(|part| trouble::of(part).is_some())
}

/// Tries a write where the last one was not stored: a gateway that gets no work
/// because it is not ready would not learn that the disk has room again. Of a disk
/// that hangs it learns by what waits for it already.
pub async fn look_again(services: &Services) {
    if trouble::disk_hangs() || !is_unstored() {
        return;
    }
    let fails = |part: &str| trouble::of(part).is_some();
    let Ok(_turn) = TRYING.try_acquire() else { return };
    let parts = services.runs.parts();
    // What comes of it is on the board.
    let both = async {
        if fails("store") {
            let _ = parts.store.try_write().await;
        }
        if fails("transcripts") {
            let _ = parts.sessions.look_again().await;
        }
    };
    let _ = timeout(DISK_LIMIT, both).await;
}

/// Waits for the end of a burst.
async fn settle(services: &Services) {
    let times = 1 + services.bus.load().connections / CLIENTS_PER_SETTLE;
    let burst = SETTLE.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX));
    sleep(burst.min(SETTLE_MAX)).await;
}

/// Tells of departures, one event for a whole burst.
pub async fn tell_presence(services: Arc<Services>) {
    loop {
        services.health.presence.notified().await;
        settle(&services).await;
        publish_presence(&services);
    }
}

/// Sends the presence list to everybody.
pub fn publish_presence(services: &Services) {
    services.health.publish(&services.presence, &services.bus, services.clock.now_ms());
}

/// Makes a snapshot, keeps it, and sends it to everybody.
pub async fn refresh(services: &Services) -> Result<Arc<Box<RawValue>>, SessionError> {
    let _turn = services.health.making.lock().await;
    let known = services.health.known();
    let snapshot = snapshot(services).await?;
    let raw = Arc::new(to_raw_value(&snapshot).unwrap_or_default());
    services.health.keep(Arc::clone(&raw), known);
    let version = services.presence.bump_health();
    if services.bus.wants(EventKind::Health, &Audience::Everyone) {
        let event = Event::new(EventKind::Health, &raw).versioned(version);
        services.bus.deliver(event, &Audience::Everyone);
    }
    Ok(raw)
}

async fn snapshot(services: &Services) -> Result<Value, SessionError> {
    let began = Instant::now();
    let now_ms = services.clock.now_ms();
    let mut agents = Vec::new();
    for agent in &services.settings.now().agents.list {
        let is_default = agent.id == services.keys.now().default_agent.as_str();
        agents.push(json!({
            "agentId": agent.id,
            "isDefault": is_default,
            "heartbeat": heartbeat(services, &agent.id, true),
            "sessions": sessions_of(services, &agent.id, now_ms).await?,
        }));
    }
    let default_sessions = agents
        .iter()
        .find(|agent| agent.get("isDefault") == Some(&Value::Bool(true)))
        .and_then(|agent| agent.get("sessions").cloned());
    let (active, waiting) = services.runs.counts();
    let processes = &services.runs.parts().processes;
    let commands = json!({"running": processes.count(), "sandboxError": processes.sandbox_error()});
    let channels = super::channels::listing(services, Seen::ByEverybody, None).await?;
    let listed = |name: &str| channels.get(name).cloned().unwrap_or_default();
    let state = services.reload.state.now();
    let repair = services.repair.as_ref().map(|repair| &repair.issue);
    let config = repair
        .or(state.trouble.as_ref())
        .map(|issue| json!({"path": issue.path, "message": issue.message}));
    let parts = parts(services, channels.get("channelAccounts")).await;
    let is_stopping = services.runs.is_stopping();
    let mut told = json!({
        "ok": parts.is_well() && services.repair.is_none() && !is_stopping,
        "ts": now_ms,
        "durationMs": millis(began.elapsed()),
        "uptimeMs": services.uptime_ms(),
        "plugins": {"loaded": [], "errors": []},
        "channels": listed("channels"),
        "channelOrder": listed("channelOrder"),
        "channelLabels": listed("channelLabels"),
        "heartbeatSeconds": heartbeat_seconds(services),
        "defaultAgentId": services.keys.now().default_agent.as_str(),
        "agents": agents,
        "sessions": default_sessions,
        "runs": {"active": active, "waiting": waiting},
        "commands": without_nulls(commands),
        "taskPanics": services.tasks.panics(),
        "degraded": parts.degraded,
        "services": parts.parts,
    });
    // Only where there is something to tell; ours.
    if let Some(issue) = config {
        told["configIssue"] = issue;
    }
    if is_stopping {
        told["stopping"] = Value::Bool(true);
    }
    let settings = services.settings.now();
    if !settings.pending.is_empty() {
        told["restartPending"] = json!(settings.pending);
    }
    Ok(told)
}

/// How often an agent is asked whether something is to be done; in full what it
/// is asked, too.
pub fn heartbeat(services: &Services, agent_id: &str, in_full: bool) -> Value {
    let settings = services.settings.now();
    let own = settings.heartbeats.iter().find(|it| it.agent_id == agent_id);
    let (every, every_ms) = own.map_or(("0m", None), |own| (own.every.as_str(), own.every_ms));
    let mut shown = json!({"enabled": own.is_some(), "every": every, "everyMs": every_ms});
    if let Some(own) = own.filter(|_| in_full) {
        shown["prompt"] = own.prompt.as_str().into();
        shown["target"] = own.target.as_str().into();
        shown["ackMaxChars"] = own.ack_max_chars.into();
    }
    if !in_full {
        shown["agentId"] = agent_id.into();
    }
    shown
}

/// The same of the default agent, in seconds; 0 is never.
fn heartbeat_seconds(services: &Services) -> u64 {
    let (settings, keys) = (services.settings.now(), services.keys.now());
    let default = keys.default_agent.as_str();
    let own = settings.heartbeats.iter().find(|it| it.agent_id == default);
    own.and_then(|own| own.every_ms).unwrap_or_default() / 1000
}

async fn sessions_of(services: &Services, agent: &str, now_ms: u64) -> Result<Value, SessionError> {
    let (count, recent) = services.sessions.summary(agent, RECENT).await?;
    let recent: Vec<_> = recent
        .into_iter()
        .map(|listed| {
            json!({
                "key": listed.key,
                "updatedAt": listed.entry.updated_at,
                "age": now_ms.saturating_sub(listed.entry.updated_at),
            })
        })
        .collect();
    let path = services.settings.now().paths.sessions_dir(agent).join("sessions.json");
    Ok(json!({"path": path.display().to_string(), "count": count, "recent": recent}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Principal;
    use crate::bus::{Batch, Beacon, Hub, Item, LocalBackplane, Subscriber};
    use crate::registry::Answer;

    fn version(item: &Item) -> u64 {
        let Item::Event(event) = item else { panic!("{item:?}") };
        let frame: Value = serde_json::from_str(&event.frame(0)).unwrap();
        frame["stateVersion"]["presence"].as_u64().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn while_no_snapshot_can_be_made_the_last_one_is_answered() {
        let told = |text: &str| Arc::new(to_raw_value(text).unwrap());
        let answer = async |fresh: Reply<Shared>| {
            let answer = or_last(std::future::ready(fresh), told("last")).await;
            Answer::Shared(answer).json().to_owned()
        };
        assert_eq!(answer(Ok(told("fresh").into())).await, "\"fresh\"");
        assert_eq!(answer(Err(ErrorShape::unavailable("no"))).await, "\"last\"");
        let hangs = or_last(std::future::pending(), told("last")).await;
        assert_eq!(Answer::Shared(hangs).json(), "\"last\"");
    }

    #[tokio::test(start_paused = true)]
    async fn other_news_does_not_put_off_the_next_try_of_a_disk() {
        let (mut next, began) = (None, Instant::now());
        while timeout(SETTLE, until_due(&mut next)).await.is_err() {
            assert!(began.elapsed() <= TRY_EVERY + SETTLE, "{:?}", began.elapsed());
        }
    }

    #[test]
    fn a_snapshot_is_out_of_date_once_something_changes_that_it_does_not_know_of() {
        let told = |text: &str| Arc::new(to_raw_value(text).unwrap());
        let cache = HealthCache::default();
        // Parts that fail elsewhere in the meantime are none of this.
        let changes = || cache.changes.load(Ordering::Acquire);
        let current = || cache.last_of(changes()).map(|told| told.get().to_owned());
        assert_eq!(current(), None);
        cache.keep(told("first"), 0);
        assert_eq!(current().unwrap(), "\"first\"");
        cache.outdate();
        assert_eq!((current(), cache.last().unwrap().get()), (None, "\"first\""));
        // One that was begun before that tells nothing of it.
        cache.keep(told("second"), 0);
        assert_eq!(current(), None);
        cache.keep(told("third"), 1);
        assert_eq!(current().unwrap(), "\"third\"");
        cache.keep(told("fourth"), cache.known());
        trouble::outdate();
        assert!(cache.current().is_none());
    }

    #[test]
    fn of_lists_that_are_told_at_once_the_newest_is_told_last() {
        const THREADS: usize = 4;
        const ROUNDS: usize = 500;
        let (hub, cache) = (Arc::new(Hub::default()), HealthCache::default());
        let presence = Presence::new(Beacon::default());
        let principal = Arc::new(Principal::of_this_machine());
        let subscriber = Arc::new(Subscriber::new("c".into(), principal, &[]));
        hub.join(Arc::clone(&subscriber));
        let bus = Bus::new(LocalBackplane(hub));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (cache, presence, bus) = (&cache, &presence, &bus);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        presence.announce(&format!("{thread} {round}"), Beacon::default(), 1);
                        cache.publish(presence, bus, 1);
                    }
                });
            }
        });
        let mut told = Vec::new();
        while let Batch::Items(items) = subscriber.outbox.take() {
            told.extend(items.iter().map(version));
        }
        assert_eq!(told.len(), THREADS * ROUNDS);
        assert!(told.is_sorted(), "{told:?}");
    }
}
