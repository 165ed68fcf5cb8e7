//! Channels whose callers go away, or come when it is too late.

use std::fs;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use clawgate::agent::Family;
use clawgate::channels::webhook::{SIGNATURE, TIMESTAMP, sign};
use clawgate::channels::{
    Channels, ChannelsParts, HookRequest, Inlet, InletError, Outgoing, ReplyTo, Said, Taken, Target,
};
use clawgate::config::channels::ChannelKind;
use clawgate::config::{Env, Overrides, load};
use clawgate::sessions::SessionKey;
use clawgate::store::{
    ExpectedReply, NewPart, NewRun, OutboxAddress, OutboxNext, OutboxState, RunOutcome,
};
use clawgate::support::{BoxFuture, Live, Secret};
use futures_util::FutureExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::faults::faults;
use super::support::default_config;
use super::{LIMIT, Place, key, place};

const SIGNING: &str = "a-secret-of-32-characters-or-more";

/// Channels with a webhook that sends to this address.
fn channels(place: &Place, root: &TempDir, service: SocketAddr) -> Channels {
    channels_that_sign(place, root, service, &json!(SIGNING))
}

/// The same, where this signs.
fn channels_that_sign(
    place: &Place,
    root: &TempDir,
    service: SocketAddr,
    secret: &Value,
) -> Channels {
    let mut config = default_config(&service.to_string());
    config["agents"]["defaults"]["workspace"] = root.path().to_str().unwrap().into();
    config["channels"] = json!({"webhook": {"secret": secret, "allowFrom": ["ann"],
        "url": format!("http://{service}/")}});
    fs::create_dir_all(root.path().join(".openclaw")).unwrap();
    fs::write(root.path().join(".openclaw/openclaw.json"), config.to_string()).unwrap();
    let env = Env::fixed([], root.path());
    let parts = place.runs.parts();
    Channels::new(ChannelsParts {
        settings: Live::new(load(&env, &Overrides::default()).unwrap()),
        env,
        store: Arc::clone(&place.store),
        sessions: place.sessions.clone(),
        keys: parts.keys.clone(),
        clock: Arc::clone(&parts.clock),
        tasks: place.tasks.clone(),
    })
}

/// Where nobody listens.
fn nowhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

fn to(person: &str) -> OutboxAddress {
    OutboxAddress {
        channel: "webhook".into(),
        account: "default".into(),
        target: person.into(),
        thread: String::new(),
    }
}

/// What is expected of a run.
fn reply_of(run: &str) -> ReplyTo {
    ReplyTo {
        run_id: run.into(),
        family: Family::Chat,
        key: key(0),
        address: to("ann"),
        reply_to: None,
        is_overheard: false,
    }
}

/// The same as the last process has left it.
fn left(run: &str, created_at: u64) -> ExpectedReply {
    ExpectedReply {
        run_id: run.into(),
        scope: "chat".into(),
        session_key: key(0).to_string(),
        address: to("ann"),
        reply_to: None,
        preview: None,
        created_at,
    }
}

/// The way to an agent that takes each message once the gate is open, and keeps what was said.
struct Way {
    /// Whether the next message is to come again.
    is_busy: AtomicBool,
    said: Mutex<Vec<String>>,
    gate: Semaphore,
}

impl Way {
    /// One that takes no message the first time.
    fn busy() -> Arc<Self> {
        Arc::new(Self { is_busy: true.into(), said: Mutex::default(), gate: Semaphore::new(1) })
    }

    /// One whose gate is shut.
    fn shut() -> Arc<Self> {
        Arc::new(Self { is_busy: false.into(), said: Mutex::default(), gate: Semaphore::new(0) })
    }
}

impl Inlet for Way {
    fn is_command<'a>(
        &'a self,
        _: &'a SessionKey,
        _: &'a str,
    ) -> BoxFuture<'a, Result<bool, InletError>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    fn is_stop(&self, _: &str) -> bool {
        false
    }

    fn accept(&self, said: Said) -> BoxFuture<'_, Result<Taken, InletError>> {
        Box::pin(async move {
            if self.is_busy.swap(false, Ordering::SeqCst) {
                return Err(InletError::Later("come again".into()));
            }
            self.said.lock().push(said.text);
            drop(self.gate.acquire().await);
            Ok(Taken::Run)
        })
    }
}

impl Place {
    /// Ann writes a message; the status of the answer to who brings it.
    async fn bring(&self, channels: &Channels, id: &str) -> u16 {
        let body = json!({"id": id, "text": id, "from": {"id": "ann"}}).to_string();
        let now = self.runs.parts().clock.now_ms() / 1000;
        let (timestamp, signature) = sign(&Secret::new(SIGNING), now, body.as_bytes());
        let header = |name: &str| match name {
            TIMESTAMP => Some(timestamp.clone()),
            SIGNATURE => Some(signature.clone()),
            _ => None,
        };
        let request = HookRequest { header: &header, body: body.as_bytes() };
        channels.hook("/webhooks/default", request).await.status
    }

    /// A run of the last process has failed.
    async fn has_failed(&self, run: &str) {
        self.has_ended(run, 1, RunOutcome::Failed("broken".into())).await;
    }

    /// A run that was accepted then has ended so.
    async fn has_ended(&self, run: &str, accepted_at: u64, outcome: RunOutcome) {
        let claim = NewRun {
            scope: "chat".into(),
            key: run.into(),
            run_id: run.into(),
            session_key: key(0).to_string(),
            text_hash: None,
            message: None,
            now_ms: accepted_at,
        };
        self.store.claim_run(claim).await.unwrap();
        let ended = self.store.finish_run("chat", run, outcome, true, accepted_at + 1).await;
        assert!(ended.unwrap());
    }

    /// Waits until the reply of a run is in the outbox.
    async fn replies(&self, run: &str) {
        let replied = async {
            while self.store.outbox_of(run.to_owned()).await.unwrap().is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LIMIT, replied).await.unwrap_or_else(|_| panic!("{run} is not answered"));
        assert!(self.store.expected_replies().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn what_is_in_the_outbox_is_sent_though_whoever_sends_has_gone() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let channels = channels(&place, &root, service.local_addr().unwrap());
    channels.start(ChannelKind::Webhook, None).await.unwrap();
    let target = Target { kind: ChannelKind::Webhook, address: to("ann") };
    let message = Outgoing { text: "hello".into(), ..Outgoing::default() };
    // Gone as soon as there is something to wait for.
    assert!(channels.send("one", &target, &message).now_or_never().is_none());
    timeout(LIMIT, service.accept()).await.expect("it is not sent").unwrap();
}

#[tokio::test]
async fn who_starts_or_stops_an_account_hears_whether_it_is_in_use() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let channels = channels(&place, &root, nowhere());
    let start = async || channels.start(ChannelKind::Webhook, None).await.unwrap();
    assert_eq!(start().await, ("default".to_owned(), true));
    let stopped = channels.stop(ChannelKind::Webhook, None).unwrap();
    assert_eq!(stopped, ("default".to_owned(), true));
    // Nothing begins any more at the end of the gateway.
    channels.end();
    assert_eq!(start().await, ("default".to_owned(), false));
}

#[tokio::test]
async fn what_waits_for_its_turn_is_not_noted_as_being_sent() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    // It takes connections, and answers nobody.
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let channels = channels(&place, &root, service.local_addr().unwrap());
    channels.start(ChannelKind::Webhook, None).await.unwrap();
    let message = Outgoing { text: "hello".into(), ..Outgoing::default() };
    for person in 0..=32 {
        let address = to(&format!("p{person}"));
        let target = Target { kind: ChannelKind::Webhook, address };
        channels.post(&format!("d{person}"), &target, &message).await.unwrap();
    }
    let mut connections = Vec::new();
    for _ in 0..32 {
        let connection = timeout(LIMIT, service.accept()).await.expect("32 are sent at a time");
        connections.push(connection.unwrap());
    }
    // Behind whatever was to be noted by now.
    place.store.keep_channel_note("a".into(), "b".into()).await.unwrap();
    let mut states = Vec::new();
    for person in 0..=32 {
        let parts = place.store.outbox_of(format!("d{person}")).await.unwrap();
        states.extend(parts.iter().map(|part| part.state));
    }
    let count = |state: OutboxState| states.iter().filter(|it| **it == state).count();
    assert_eq!((count(OutboxState::Sending), count(OutboxState::Waiting)), (32, 1));
}

#[tokio::test]
async fn a_reply_goes_out_though_the_database_could_not_tell_how_its_run_ended() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let channels = channels(&place, &root, nowhere());
    Box::pin(channels.clone().begin(Arc::clone(&place.runs), Way::busy())).await;
    place.has_failed("r1").await;
    let expected = channels.expect(reply_of("r1")).await.unwrap();
    let database = place.database();
    database.execute_batch("ALTER TABLE runs RENAME TO away").unwrap();
    let (faults, _log) = faults();
    expected.settle(true).await;
    timeout(LIMIT, faults.notified()).await.expect("the database does not fail");
    database.execute_batch("ALTER TABLE away RENAME TO runs").unwrap();
    place.replies("r1").await;
}

#[tokio::test]
async fn the_end_of_a_run_that_was_stopped_takes_no_reply_from_the_next_one_with_its_key() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let channels = channels(&place, &root, nowhere());
    Box::pin(channels.clone().begin(Arc::clone(&place.runs), Way::busy())).await;
    place.has_ended("r1", 1, RunOutcome::Aborted("rpc")).await;
    let stopped = channels.expect(reply_of("r1")).await.unwrap();
    let database = place.database();
    let refuses = "CREATE TRIGGER full BEFORE DELETE ON channel_replies
        BEGIN SELECT RAISE(ABORT, 'no room'); END";
    database.execute_batch(refuses).unwrap();
    let (faults, _log) = faults();
    stopped.settle(true).await;
    timeout(LIMIT, faults.notified()).await.expect("its end is settled already");
    // It is sent again before that, and is another run.
    let again = channels.expect(reply_of("r1")).await.unwrap();
    place.has_ended("r1", 9, RunOutcome::Failed("broken".into())).await;
    again.settle(true).await;
    database.execute_batch("DROP TRIGGER full").unwrap();
    place.replies("r1").await;
    let parts = place.store.outbox_of("r1".into()).await.unwrap();
    assert!(parts[0].body.contains("No answer: broken"), "{}", parts[0].body);
}

#[tokio::test]
async fn a_message_that_could_not_be_taken_is_answered_when_it_comes_again() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let channels = channels(&place, &root, nowhere());
    Box::pin(channels.clone().begin(Arc::clone(&place.runs), Way::busy())).await;
    let run = "webhook:default:ann:1";
    place.has_failed(run).await;
    let database = place.database();
    let refuses = "CREATE TRIGGER full BEFORE DELETE ON channel_replies
        BEGIN SELECT RAISE(ABORT, 'no room'); END";
    database.execute_batch(refuses).unwrap();
    assert_eq!(place.bring(&channels, "1").await, 503);
    assert_eq!(place.store.expected_replies().await.unwrap().len(), 1, "it cannot be taken back");
    database.execute_batch("DROP TRIGGER full").unwrap();
    assert_eq!(place.bring(&channels, "1").await, 200);
    place.replies(run).await;
}

#[tokio::test]
async fn a_message_keeps_its_place_though_whoever_brings_it_goes_away_before_its_turn() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let channels = channels(&place, &root, nowhere());
    let slow = Way::shut();
    let inlet = Arc::clone(&slow) as Arc<dyn Inlet>;
    Box::pin(channels.clone().begin(Arc::clone(&place.runs), inlet)).await;
    let [mut first, mut gone, mut third] =
        ["1", "2", "3"].map(|id| Box::pin(place.bring(&channels, id)));
    for bringing in [&mut first, &mut gone, &mut third] {
        assert!(futures_util::poll!(bringing).is_pending());
    }
    drop(gone);
    slow.gate.add_permits(1);
    let taken = timeout(LIMIT, async { (first.await, third.await) }).await;
    assert_eq!(taken.expect("they are not taken"), (200, 200));
    assert_eq!(*slow.said.lock(), ["1", "2", "3"]);
}

#[tokio::test]
async fn a_reply_that_is_still_expected_goes_out_though_the_database_could_not_tell_of_it() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let channels = channels(&place, &root, nowhere());
    Box::pin(channels.clone().begin(Arc::clone(&place.runs), Way::busy())).await;
    place.has_failed("r1").await;
    // Somebody was about to have it accepted, and broke.
    drop(channels.expect(reply_of("r1")).await.unwrap());
    let again = channels.expect(reply_of("r1")).await.unwrap();
    let database = place.database();
    database.execute_batch("ALTER TABLE runs RENAME TO away").unwrap();
    let (faults, _log) = faults();
    again.settle(false).await;
    timeout(LIMIT, faults.notified()).await.expect("the database does not fail");
    database.execute_batch("ALTER TABLE away RENAME TO runs").unwrap();
    place.replies("r1").await;
}

#[tokio::test]
async fn what_the_last_process_was_sending_is_settled_once_the_database_takes_it() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let channels = channels(&place, &root, nowhere());
    let body = json!({"text": "hello"}).to_string();
    let part = NewPart { delivery: "one".into(), address: to("ann"), part: 0, body };
    place.store.add_outbox(vec![part], 1).await.unwrap();
    let next = place.store.next_outbox(to("ann"), 2).await.unwrap();
    assert!(matches!(next, OutboxNext::Send(_)), "{next:?}");
    let database = place.database();
    let refuses = "CREATE TRIGGER full BEFORE UPDATE ON channel_outbox
        BEGIN SELECT RAISE(ABORT, 'no room'); END";
    database.execute_batch(refuses).unwrap();
    let (faults, _log) = faults();
    let beginning = channels.clone().begin(Arc::clone(&place.runs), Way::busy());
    let beginning = place.tasks.spawn("channels", beginning);
    timeout(LIMIT, faults.notified()).await.expect("the database does not fail");
    database.execute_batch("DROP TRIGGER full").unwrap();
    timeout(LIMIT, beginning).await.expect("they do not begin").unwrap();
    let parts = place.store.outbox_of("one".into()).await.unwrap();
    assert_eq!(parts[0].state, OutboxState::Uncertain);
}

#[tokio::test]
async fn a_reply_of_the_last_process_goes_out_though_the_clock_was_set_back() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    place.has_failed("r1").await;
    let later = place.runs.parts().clock.now_ms() + 3_600_000;
    assert!(place.store.expect_reply(left("r1", later)).await.unwrap());
    let channels = channels(&place, &root, nowhere());
    Box::pin(channels.begin(Arc::clone(&place.runs), Way::busy())).await;
    place.replies("r1").await;
}

#[tokio::test]
async fn replies_that_are_expected_before_the_channels_begin_are_not_lost() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let channels = channels(&place, &root, nowhere());
    // The one is followed already, the run of the other is about to be accepted.
    place.has_failed("r1").await;
    let followed = channels.expect(reply_of("r1")).await.unwrap();
    let open = channels.expect(reply_of("r2")).await.unwrap();
    followed.settle(true).await;
    let beginning = channels.clone().begin(Arc::clone(&place.runs), Way::busy());
    Box::pin(beginning).await;
    let expected = place.store.expected_replies().await.unwrap();
    assert!(expected.iter().any(|it| it.run_id == "r2"), "{expected:?}");
    place.has_failed("r2").await;
    open.settle(true).await;
    let replied = async {
        while !place.store.expected_replies().await.unwrap().is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, replied).await.expect("they are not answered");
    for run in ["r1", "r2"] {
        place.replies(run).await;
    }
}

#[tokio::test]
async fn a_reply_of_the_last_process_goes_out_though_its_message_comes_again_and_is_refused() {
    for has_begun in [false, true] {
        let (place, root) = (place().await, TempDir::new().unwrap());
        let channels = channels(&place, &root, nowhere());
        let begin = async || {
            let inlet = Way::busy();
            Box::pin(channels.clone().begin(Arc::clone(&place.runs), inlet)).await;
        };
        place.has_failed("r1").await;
        assert!(place.store.expect_reply(left("r1", 1)).await.unwrap());
        let again = channels.expect(reply_of("r1")).await.unwrap();
        if has_begun {
            // They begin before it is refused.
            begin().await;
            assert_eq!(place.store.expected_replies().await.unwrap().len(), 1);
        }
        again.settle(false).await;
        if !has_begun {
            begin().await;
        }
        place.replies("r1").await;
    }
}

#[tokio::test]
async fn a_reply_that_is_expected_anew_while_old_ones_are_looked_through_is_kept() {
    let mut cut_off = 0;
    // After each step of that. On a busy machine two of them may look like one.
    for steps in 1_usize.. {
        let (place, root) = (place().await, TempDir::new().unwrap());
        let channels = channels(&place, &root, nowhere());
        assert!(place.store.expect_reply(left("r1", 1)).await.unwrap());
        let beginning = channels.clone().begin(Arc::clone(&place.runs), Way::busy());
        let mut beginning = Box::pin(beginning);
        let mut done = 0;
        let has_begun = poll_fn(|cx| {
            done += 1;
            match beginning.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if done < steps => Poll::Pending,
                Poll::Pending => Poll::Ready(false),
            }
        });
        if has_begun.await {
            if steps < 8 {
                continue;
            }
            assert!(cut_off > 1, "it looks at nothing");
            return;
        }
        cut_off += 1;
        let (expected, ()) = tokio::join!(channels.expect(reply_of("r1")), beginning);
        drop(expected.unwrap());
        let left = place.store.expected_replies().await.unwrap();
        assert_eq!(left.len(), 1, "lost after {steps} steps");
    }
}

#[tokio::test]
async fn an_account_that_cannot_begin_is_tried_again_by_one_at_a_time() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let secret = json!({"source": "env", "id": "NOT_THERE"});
    let channels = channels_that_sign(&place, &root, nowhere(), &secret);
    // As each new configuration does.
    for _ in 0..5 {
        let (runs, inlet) = (Arc::clone(&place.runs), Way::busy());
        Box::pin(channels.clone().begin(runs, inlet)).await;
    }
    let tries = || channels.accounts()[0].1.reconnect_attempts;
    let before = tries();
    // From here on it goes by as soon as nobody has anything to do.
    tokio::time::pause();
    sleep(Duration::from_mins(10)).await;
    let later = tries() - before;
    assert!((5..15).contains(&later), "{later} tries in ten minutes");
}

#[tokio::test]
async fn an_account_that_somebody_starts_and_that_cannot_begin_is_tried_again() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let secret = json!({"source": "env", "id": "NOT_THERE"});
    let channels = channels_that_sign(&place, &root, nowhere(), &secret);
    channels.stop(ChannelKind::Webhook, None).unwrap();
    Box::pin(channels.clone().begin(Arc::clone(&place.runs), Way::busy())).await;
    let tries = || channels.accounts()[0].1.reconnect_attempts;
    assert_eq!(tries(), 0, "it is stopped");
    channels.start(ChannelKind::Webhook, None).await.unwrap_err();
    let tried_again = async {
        while tries() < 2 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, tried_again).await.expect("nobody tries again");
}

#[tokio::test]
async fn what_waits_is_sent_though_the_outbox_could_not_be_read_when_its_account_began() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let channels = channels(&place, &root, service.local_addr().unwrap());
    channels.start(ChannelKind::Webhook, None).await.unwrap();
    channels.stop(ChannelKind::Webhook, None).unwrap();
    let body = json!({"text": "hello"}).to_string();
    let part = NewPart { delivery: "one".into(), address: to("ann"), part: 0, body };
    place.store.add_outbox(vec![part], place.runs.parts().clock.now_ms()).await.unwrap();
    let database = place.database();
    database.execute_batch("ALTER TABLE channel_outbox RENAME TO away").unwrap();
    let (faults, _log) = faults();
    channels.start(ChannelKind::Webhook, None).await.unwrap();
    timeout(LIMIT, faults.notified()).await.expect("the database does not fail");
    database.execute_batch("ALTER TABLE away RENAME TO channel_outbox").unwrap();
    timeout(LIMIT, service.accept()).await.expect("it is not sent").unwrap();
}

#[tokio::test]
async fn nobody_looks_for_what_waits_for_an_account_that_was_stopped_meanwhile() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let channels = channels(&place, &root, nowhere());
    let before = place.tasks.len();
    channels.start(ChannelKind::Webhook, None).await.unwrap();
    channels.stop(ChannelKind::Webhook, None).unwrap();
    let database = place.database();
    database.execute_batch("ALTER TABLE channel_outbox RENAME TO away").unwrap();
    let (faults, _log) = faults();
    channels.start(ChannelKind::Webhook, None).await.unwrap();
    timeout(LIMIT, faults.notified()).await.expect("the database does not fail");
    channels.stop(ChannelKind::Webhook, None).unwrap();
    let gone = async {
        while place.tasks.len() > before {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, gone).await.expect("somebody looks for ever");
}

#[tokio::test]
async fn what_is_sent_by_an_account_that_cannot_be_used_is_refused_and_what_waits_stays() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let channels = channels_that_sign(&place, &root, nowhere(), &json!("short"));
    let body = json!({"text": "hello"}).to_string();
    let part = NewPart { delivery: "one".into(), address: to("ann"), part: 0, body };
    place.store.add_outbox(vec![part], 1).await.unwrap();
    Box::pin(channels.clone().begin(Arc::clone(&place.runs), Way::busy())).await;
    let target = Target { kind: ChannelKind::Webhook, address: to("ann") };
    let message = Outgoing { text: "hello".into(), ..Outgoing::default() };
    let refused = channels.send("two", &target, &message).await.unwrap_err().to_string();
    assert_eq!(refused, "secret must have at least 16 characters");
    assert!(place.store.outbox_of("two".into()).await.unwrap().is_empty());
    let parts = place.store.outbox_of("one".into()).await.unwrap();
    assert_eq!(parts[0].state, OutboxState::Waiting);
}
