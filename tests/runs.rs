//! Runs as real tasks: whatever happens in whatever order, every accepted
//! message ends once and the next one starts.
//!
//! `CLAWGATE_CHAOS_SEED` repeats a run's choices.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "runs/by_the_clock.rs"]
mod by_the_clock;
#[path = "runs/commanded.rs"]
mod commanded;
#[path = "runs/cut_calls.rs"]
mod cut_calls;
#[path = "chaos/dice.rs"]
#[allow(dead_code, reason = "each test crate uses its own part of this module")]
mod dice;
#[path = "runs/faults.rs"]
mod faults;
#[path = "runs/file_locks.rs"]
mod file_locks;
#[path = "runs/held.rs"]
mod held;
#[path = "runs/kept.rs"]
mod kept;
#[path = "runs/lanes.rs"]
mod lanes;
#[path = "runs/notices.rs"]
mod notices;
#[path = "runs/outbox.rs"]
mod outbox;
#[path = "runs/subagents.rs"]
mod subagents;
#[path = "support/mod.rs"]
mod support;
#[path = "runs/unrecorded.rs"]
mod unrecorded;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use clawgate::agent::approvals::{Approvals, ApprovalsParts};
use clawgate::agent::feed::Feed;
use clawgate::agent::skills::Skills;
use clawgate::agent::workspace::Workspaces;
use clawgate::agent::{
    AbortReason, Accepted, CommandAnswer, Family, Models, Notices, RestartNotes, RunEnd, RunTerms,
    Runs, RunsParts, SendRequest, SessionEvents, Tally, Unrecorded,
};
use clawgate::auth::{Owner, Principal};
use clawgate::bus::{Audience, Backplane, Bus, Event, EventKind};
use clawgate::channels::{Channels, ChannelsParts};
use clawgate::config::{Env, Overrides, Settings, load};
use clawgate::cron::{Cron, CronParts};
use clawgate::nodes::{Nodes, NodesParts};
use clawgate::protocol::message::UserMessage;
use clawgate::sessions::{
    HistoryOptions, KeyRules, SessionKey, Sessions, SessionsOptions, TranscriptFormat,
};
use clawgate::store::{NewRun, RunOutcome, RunState, SqliteStore, Store};
use clawgate::support::{Clock, Live, RandomIds, SystemClock, Tasks};
use parking_lot::Mutex;
use rusqlite::Connection;
use serde_json::Value;
use support::{MockProvider, default_config, program};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use dice::Dice;

const LIMIT: Duration = Duration::from_secs(30);
const MODES: [&str; 6] = ["steer", "queue", "followup", "collect", "steer-backlog", "interrupt"];

/// Keeps the ends of runs that are told, panics once for each run that is to
/// break, and holds back one event when that is wanted. It may be deaf to some.
#[derive(Default)]
struct Ear {
    breaks: Mutex<BTreeSet<String>>,
    held: Mutex<Option<held::Held>>,
    deaf_to: Mutex<Option<EventKind>>,
    ends: Mutex<BTreeMap<String, Vec<String>>>,
}

#[derive(Clone)]
struct Listening(Arc<Ear>);

impl Backplane for Listening {
    fn wants(&self, kind: EventKind, _: &Audience) -> bool {
        *self.0.deaf_to.lock() != Some(kind)
    }

    fn publish(&self, event: &Arc<Event>, _: &Audience) {
        let payload: Value = serde_json::from_str(event.payload()).unwrap();
        let held = self.0.held.lock().take_if(|held| held.is(&payload));
        if let Some(held) = held {
            held.wait();
        }
        let Some(run) = payload["runId"].as_str() else { return };
        match (event.kind, payload["state"].as_str()) {
            (EventKind::Chat, Some(state)) if state != "delta" => {
                self.0.ends.lock().entry(run.to_owned()).or_default().push(state.to_owned());
            }
            (EventKind::Agent, _) => {
                let breaks = self.0.breaks.lock().remove(run);
                assert!(!breaks, "as the test wants it");
            }
            _ => {}
        }
    }

    fn close_device(&self, _: &str, _: Option<&str>, _: &clawgate::bus::Closing, _: &str) {}

    fn load(&self) -> clawgate::bus::Load {
        clawgate::bus::Load { connections: 1, events: 0 }
    }
}

struct Place {
    runs: Arc<Runs>,
    ear: Arc<Ear>,
    sessions: Sessions,
    store: Arc<dyn Store>,
    tasks: Tasks,
    _mock: MockProvider,
    root: TempDir,
}

fn settings(root: &TempDir, mock: &MockProvider) -> Settings {
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["workspace"] = root.path().to_str().unwrap().into();
    config["messages"]["queue"]["debounceMs"] = 20.into();
    fs::create_dir_all(root.path().join(".openclaw")).unwrap();
    fs::write(root.path().join(".openclaw/openclaw.json"), config.to_string()).unwrap();
    load(&Env::fixed([], root.path()), &Overrides::default()).unwrap()
}

async fn place() -> Place {
    place_at(Arc::new(SystemClock)).await
}

async fn place_at(clock: Arc<dyn Clock>) -> Place {
    let (root, mock) = (TempDir::new().unwrap(), MockProvider::start().await);
    let settings = settings(&root, &mock);
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(&root.path().join("clawgate.sqlite")).unwrap());
    let options = SessionsOptions {
        state_dir: root.path().to_owned(),
        rules: Arc::default(),
        format: TranscriptFormat::OpenClaw,
        reset: clawgate::config::ResetSettings::default(),
    };
    let (ids, tasks) = (Arc::new(RandomIds), Tasks::default());
    let sessions =
        Sessions::open(options, Arc::clone(&store), Arc::clone(&clock), ids.clone()).await.unwrap();
    let failover =
        clawgate::app::models(&settings, &Env::fixed([], root.path()), &clock).await.unwrap();
    let keys = Live::new(KeyRules::default());
    let models = Models::new(failover, keys.clone(), &settings.agents);
    let settings = Live::new(settings);
    let ear = Arc::new(Ear::default());
    let bus = Bus::new(Listening(Arc::clone(&ear)));
    let env = Env::fixed([], root.path());
    let tools = clawgate::agent::tools::Tools::new(&settings, &env, tasks.clone());
    let processes = Arc::new(clawgate::agent::exec::Processes::new(
        settings.clone(),
        program().into(),
        Arc::clone(&clock),
        ids.clone(),
        tasks.clone(),
    ));
    let approvals = Approvals::new(ApprovalsParts {
        settings: settings.clone(),
        sessions: sessions.clone(),
        bus: bus.clone(),
        clock: Arc::clone(&clock),
        ids: ids.clone(),
    });
    let channels = Channels::new(ChannelsParts {
        settings: settings.clone(),
        env: env.clone(),
        store: Arc::clone(&store),
        sessions: sessions.clone(),
        keys: keys.clone(),
        clock: Arc::clone(&clock),
        tasks: tasks.clone(),
    });
    let nodes = Nodes::new(NodesParts {
        settings: settings.clone(),
        original: root.path().join("nodes"),
        store: Arc::clone(&store),
        bus: bus.clone(),
        clock: Arc::clone(&clock),
        ids: ids.clone(),
    });
    let cron = Cron::new(
        CronParts {
            settings: settings.clone(),
            keys: keys.clone(),
            sessions: sessions.clone(),
            store: Arc::clone(&store),
            bus: bus.clone(),
            clock: Arc::clone(&clock),
            ids: ids.clone(),
            outlet: Arc::new(channels.clone()),
            tasks: tasks.clone(),
        },
        &env,
    );
    let runs = Runs::new(RunsParts {
        settings: settings.clone(),
        nodes: Arc::new(nodes),
        keys,
        sessions: sessions.clone(),
        store: Arc::clone(&store),
        models: models.clone(),
        feed: Feed::default(),
        bus: bus.clone(),
        events: SessionEvents::new(bus, models, Arc::clone(&clock)),
        approvals,
        channels,
        tools,
        processes,
        workspaces: Arc::new(Workspaces::new(settings.clone(), Arc::clone(&clock))),
        skills: Arc::new(Skills::new(settings, Env::fixed([], root.path()))),
        notices: Notices::default(),
        restart_notes: RestartNotes::new(root.path().join("restart-sentinel.json")),
        cron,
        tally: Tally::default(),
        unrecorded: Unrecorded::new(Arc::clone(&store), tasks.clone()),
        clock,
        ids,
        tasks: tasks.clone(),
    });
    Place { runs, ear, sessions, store, tasks, _mock: mock, root }
}

fn key(session: u64) -> SessionKey {
    SessionKey::parse(&format!("s{session}"), &KeyRules::default())
}

fn request(session: u64, id: &str, text: &str, family: Family) -> SendRequest {
    SendRequest {
        family,
        key: key(session),
        written_key: format!("s{session}"),
        idempotency_key: id.to_owned(),
        message: UserMessage::text(text, 0),
        media: None,
        thinking: None,
        owner: Owner::Connection("c".into()),
        dedupe_text: None,
        limit: None,
        terms: RunTerms::default(),
    }
}

impl Place {
    /// Whether the message was accepted.
    async fn send(&self, session: u64, id: &str, text: &str, family: Family) -> bool {
        let sent = self.runs.send(request(session, id, text, family));
        // A start that is dropped begins the run.
        matches!(sent.await, Ok((Accepted::Started, _)))
    }

    /// The database, for somebody else.
    fn database(&self) -> Connection {
        Connection::open(self.root.path().join("clawgate.sqlite")).unwrap()
    }

    /// Waits until no task but those that last is under way.
    async fn idle(&self) {
        let ended = async {
            while !self.tasks.is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LIMIT, ended).await.expect("tasks end");
    }

    async fn end_of(&self, id: &str) -> RunEnd {
        let report = timeout(LIMIT, self.runs.ends(None, id)).await;
        report.unwrap_or_else(|_| panic!("{id} does not end")).unwrap().end.clone()
    }

    /// Each of these has ended once, for its client and in its record, and
    /// nothing is left.
    async fn check(&self, accepted: &[String]) {
        for id in accepted {
            self.end_of(id).await;
        }
        let mut said = Vec::new();
        for session in 0..3 {
            let options = HistoryOptions { limit: 1000, ..HistoryOptions::default() };
            let page = self.runs.history(&key(session), options).await.unwrap().0;
            let users = page.messages.into_iter().filter(|message| message["role"] == "user");
            said.extend(users.map(|it| it["content"][0]["text"].as_str().unwrap().to_owned()));
        }
        for id in accepted {
            let end = self.end_of(id).await;
            let record = self.store.run(id).await.unwrap().unwrap();
            let expected = match end {
                RunEnd::Answered => RunState::Done,
                RunEnd::Failed(_) => RunState::Failed,
                RunEnd::Aborted(_) => RunState::Aborted,
            };
            assert_eq!(record.state, expected, "{id}");
            let was_dropped = record.error.is_some_and(|error| error.starts_with("dropped: "));
            let is_said = said.iter().any(|text| text.split(' ').next() == Some(id));
            assert!(is_said || was_dropped, "{id} is not in the transcript");
        }
        assert_eq!(self.runs.counts(), (0, 0));
        let ends = self.ear.ends.lock();
        for id in accepted {
            assert_eq!(ends.get(id).map_or(0, Vec::len), 1, "{id}: {:?}", ends.get(id));
        }
    }
}

async fn set_mode(place: &Place, session: u64, mode: &'static str) {
    let change = move |entry: &mut clawgate::store::SessionEntry| {
        entry.queue_mode = Some(mode.into());
        entry.queue_cap = Some(4);
    };
    place.sessions.update(&key(session), change).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_accepted_message_ends_once_whatever_happens_in_whatever_order() {
    let seed = std::env::var("CLAWGATE_CHAOS_SEED").ok().map(|text| text.parse().unwrap());
    let mut dice = Dice::new(seed);
    println!("CLAWGATE_CHAOS_SEED={}", dice.seed());
    let place = Arc::new(place().await);
    for session in 0..3 {
        place.sessions.ensure(&key(session), std::path::Path::new("/")).await.unwrap();
    }
    let mut accepted = Vec::new();
    for index in 0..300 {
        let session = dice.up_to(3);
        match dice.up_to(20) {
            0 | 1 => {
                let mode = MODES[usize::try_from(dice.up_to(6)).unwrap()];
                set_mode(&place, session, mode).await;
            }
            2 => {
                let key = key(session);
                place.runs.interrupt(&key, AbortReason::Rpc).await.unwrap();
            }
            3..=8 => sleep(Duration::from_millis(dice.up_to(40))).await,
            choice => {
                let id = format!("m{index}");
                let text = match dice.up_to(5) {
                    0 => format!("{id} @mock stream n=6 delay=8"),
                    1 => format!("{id} @mock tool name=session_status then=done n=1 delay=2"),
                    2 => format!("{id} @mock err status=400"),
                    _ => format!("{id} @mock text n=1 delay=1"),
                };
                if dice.up_to(6) == 0 {
                    place.ear.breaks.lock().insert(id.clone());
                }
                let family = if choice == 9 { Family::Agent } else { Family::Chat };
                if place.send(session, &id, &text, family).await {
                    accepted.push(id);
                }
            }
        }
    }
    place.check(&accepted).await;
    assert!(accepted.len() > 60, "{} accepted", accepted.len());
    assert!(place.tasks.panics().is_empty(), "{:?}", place.tasks.panics());
}

#[tokio::test]
async fn a_run_that_panics_is_a_failure_and_the_next_one_starts() {
    let place = place().await;
    for id in ["one", "two", "three"] {
        assert!(place.send(0, id, &format!("{id} @mock stream n=9 delay=20"), Family::Agent).await);
    }
    place.ear.breaks.lock().insert("one".into());
    assert!(matches!(place.end_of("one").await, RunEnd::Failed(_)));
    assert_eq!(place.end_of("two").await, RunEnd::Answered);
    let all = ["one", "two", "three"].map(str::to_owned);
    place.check(&all).await;
    assert!(place.ear.breaks.lock().is_empty());
}

#[tokio::test]
async fn what_a_panicking_run_had_taken_in_fails_with_it() {
    let place = place().await;
    assert!(place.send(0, "one", "one @mock stream n=20 delay=20", Family::Chat).await);
    assert!(place.send(0, "two", "two @mock text", Family::Chat).await);
    place.ear.breaks.lock().insert("one".into());
    let ends = [place.end_of("one").await, place.end_of("two").await];
    // The second is in the first when that breaks, or has a run of its own.
    assert!(matches!(ends[0], RunEnd::Failed(_)), "{ends:?}");
    place.check(&["one".into(), "two".into()]).await;
    assert!(place.send(0, "three", "three @mock text", Family::Chat).await);
    assert_eq!(place.end_of("three").await, RunEnd::Answered);
}

/// Many at once: their messages take longer to be kept than what is active takes to end.
const STOPPED: usize = 60;

async fn many_wait(place: &Place) -> Vec<String> {
    let followups = |entry: &mut clawgate::store::SessionEntry| {
        entry.queue_mode = Some("followup".into());
        entry.queue_cap = Some(100);
    };
    place.sessions.ensure(&key(0), std::path::Path::new("/")).await.unwrap();
    place.sessions.update(&key(0), followups).await.unwrap();
    assert!(place.send(0, "one", "one @mock stream n=200 delay=100", Family::Chat).await);
    let waiting: Vec<_> = (0..STOPPED).map(|index| format!("w{index}")).collect();
    for id in &waiting {
        assert!(place.send(0, id, &format!("{id} @mock text"), Family::Chat).await);
    }
    waiting
}

#[tokio::test]
async fn who_makes_a_session_quiet_waits_for_messages_that_others_have_stopped() {
    let (place, key, owner) = (place().await, key(0), Principal::of_this_machine());
    let waiting = many_wait(&place).await;
    let stop = |id| Box::pin(place.runs.abort(&key, Some(id), &owner, AbortReason::Rpc));
    let mut stopping: Vec<_> = waiting.iter().map(|id| stop(id)).collect();
    for aborted in &mut stopping {
        assert!(futures_util::poll!(aborted).is_pending());
    }
    place.runs.interrupt(&key, AbortReason::Rpc).await.unwrap();
    assert!(!place.runs.is_busy(&key));
    let options = HistoryOptions { limit: 1000, ..HistoryOptions::default() };
    let page = place.runs.history(&key, options).await.unwrap().0;
    let users = page.messages.iter().filter(|message| message["role"] == "user").count();
    assert_eq!(users, 1 + STOPPED, "what comes later goes into another session");
    futures_util::future::join_all(stopping).await;
}

#[tokio::test]
async fn a_message_that_is_sent_again_while_it_is_stopped_is_a_new_one() {
    let (place, key, owner) = (place().await, key(0), Principal::of_this_machine());
    many_wait(&place).await;
    let twice = |id| SendRequest {
        dedupe_text: Some("twice".into()),
        ..request(0, id, "twice @mock text", Family::Chat)
    };
    assert_eq!(place.runs.send(twice("first")).await.unwrap().0, Accepted::Started);
    let known = Accepted::InFlight("first".into());
    assert_eq!(place.runs.send(twice("other")).await.unwrap().0, known);
    // Once with a key of its own, and once with the same.
    for (stopped, again) in [("first", "second"), ("second", "second")] {
        let abort = place.runs.abort(&key, Some(stopped), &owner, AbortReason::Rpc);
        let mut abort = std::pin::pin!(abort);
        assert!(futures_util::poll!(&mut abort).is_pending());
        assert_eq!(place.runs.send(twice(again)).await.unwrap().0, Accepted::Started, "{again}");
        assert_eq!(abort.await.unwrap(), [stopped]);
    }
    place.runs.interrupt(&key, AbortReason::Rpc).await.unwrap();
    assert!(matches!(place.end_of("second").await, RunEnd::Aborted(_)));
}

#[tokio::test]
async fn who_waits_for_an_unknown_run_is_woken_by_it_and_by_nothing_else() {
    let place = place().await;
    let mut waiting = Box::pin(place.runs.ends(None, "later"));
    assert!(timeout(Duration::from_millis(50), &mut waiting).await.is_err());
    assert!(place.send(0, "other", "@mock text", Family::Chat).await);
    assert_eq!(place.end_of("other").await, RunEnd::Answered);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    assert!(place.send(1, "later", "@mock text", Family::Chat).await);
    let report = timeout(LIMIT, waiting).await.unwrap().unwrap();
    assert_eq!((&*report.run_id, &report.end), ("later", &RunEnd::Answered));
}

#[tokio::test]
async fn the_end_of_a_run_that_was_stopped_is_told_though_another_method_has_used_its_id() {
    let place = place().await;
    // As an earlier process has left them.
    for (scope, outcome) in [("agent", RunOutcome::Aborted("rpc")), ("chat", RunOutcome::Done)] {
        let run = NewRun {
            scope: scope.into(),
            key: "same".into(),
            run_id: "same".into(),
            session_key: key(0).to_string(),
            text_hash: None,
            message: None,
            now_ms: if scope == "chat" { 2 } else { 1 },
        };
        place.store.claim_run(run).await.unwrap();
        assert!(place.store.finish_run(scope, "same", outcome, true, 3).await.unwrap());
    }
    for (family, end) in [
        (Family::Agent, Some(RunEnd::Aborted(AbortReason::Rpc))),
        (Family::Chat, Some(RunEnd::Answered)),
        (Family::Hold, None),
    ] {
        let report = place.runs.ended(Some(family), "same").await.unwrap();
        assert_eq!(report.map(|report| report.end.clone()), end, "{family:?}");
    }
    // What was stopped may be tried again.
    assert!(!place.runs.is_taken(Family::Agent, "same").await.unwrap());
    assert!(place.runs.is_taken(Family::Chat, "same").await.unwrap());
}

#[tokio::test]
async fn the_session_of_a_run_that_panics_does_not_stay_running() {
    let place = place().await;
    assert!(place.send(0, "one", "one @mock stream n=9 delay=20", Family::Chat).await);
    place.ear.breaks.lock().insert("one".into());
    assert!(matches!(place.end_of("one").await, RunEnd::Failed(_)));
    let entry = place.sessions.entry(&key(0)).await.unwrap().unwrap();
    assert_eq!(entry.status.as_deref(), Some("failed"));
    assert!(entry.started_at <= entry.ended_at && entry.runtime_ms.is_some(), "{entry:?}");
}

#[tokio::test]
async fn who_waits_for_a_message_that_is_turned_away_is_told() {
    let place = place().await;
    place.runs.drain(Duration::ZERO).await;
    let mut waiting = Box::pin(place.runs.ends(Some(Family::Agent), "late"));
    assert!(timeout(Duration::from_millis(50), &mut waiting).await.is_err());
    assert!(!place.send(0, "late", "hi", Family::Agent).await);
    let report = timeout(LIMIT, waiting).await.expect("an end").unwrap();
    assert!(matches!(report.end, RunEnd::Aborted(_)), "{report:?}");
}

#[tokio::test]
async fn a_command_that_panics_is_a_failure_and_not_under_way_for_ever() {
    let place = place().await;
    let command = || request(0, "order", "/status", Family::Chat);
    let answered = place.runs.answer_command(command(), async { panic!("as the test wants it") });
    assert!(answered.await.is_err());
    assert!(matches!(place.end_of("order").await, RunEnd::Failed(_)));
    let again = async { CommandAnswer::Note("not asked again".to_owned()) };
    let (accepted, rest) = place.runs.answer_command(command(), again).await.unwrap();
    assert_eq!((accepted, rest.is_none()), (Accepted::Ended, true));
}
