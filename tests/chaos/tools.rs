//! Turns with tools that are stopped, left and killed at any moment: each run
//! ends once, each call has a result, nothing is asked after a stop, and no
//! process stays.
//!
//! `CLAWGATE_CHAOS_TURNS` says how often the gateway is killed or stopped,
//! `CLAWGATE_CHAOS_SEED` repeats the choices.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::conversation::Asked;
use crate::dice::Dice;
use crate::ledger::{Ledger, Sent};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};
use crate::turns::{Course, Turn, is_whole};
use crate::{number, processes, settle};

/// How often the gateway is ended. A hundred take some minutes.
const ROUNDS: u64 = 6;
/// Each has a session of its own.
const CLIENTS: u64 = 5;
/// How long a turn is left alone at most, in milliseconds.
const SPAN: u64 = 350;
/// From the call until the `aborted` event, among so many others in a debug build.
const ABORT_LIMIT: Duration = Duration::from_millis(500);
/// From the end of a run, or of the gateway, until no process of it is there, on
/// a machine that has time.
const DEAD_LIMIT: Duration = Duration::from_secs(2);
/// A run that takes longer than this has no end.
const END_LIMIT: Duration = Duration::from_secs(20);

/// A run that was accepted.
#[derive(Debug, Clone)]
struct Accepted {
    id: String,
    session: String,
    text: String,
    /// Somebody has asked for its end.
    is_stopped: bool,
    /// The states of its `chat` events that end a run, as a watcher has seen.
    ends: Vec<String>,
}

/// What is written down while clients come and go.
#[derive(Clone, Default)]
struct Notes {
    ledger: Ledger,
    accepted: Arc<Mutex<Vec<Accepted>>>,
    aborts: Arc<Mutex<Vec<Duration>>>,
    deaths: Arc<Mutex<Vec<Duration>>>,
}

impl Notes {
    fn accept(&self, id: &str, session: &str, text: &str) {
        let (id, session, text) = (id.to_owned(), session.to_owned(), text.to_owned());
        self.ledger.acknowledge(Sent { session: session.clone(), text: text.clone() });
        let run = Accepted { id, session, text, is_stopped: false, ends: vec![] };
        self.accepted.lock().push(run);
    }

    fn note_stop(&self, run: &str) {
        let mut accepted = self.accepted.lock();
        accepted.iter_mut().find(|accepted| accepted.id == run).unwrap().is_stopped = true;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_a_tool_turn_it_ends_once_and_leaves_no_process() {
    let rounds = number("CLAWGATE_CHAOS_TURNS").unwrap_or(ROUNDS);
    let mut dice = Dice::new(number("CLAWGATE_CHAOS_SEED"));
    println!("CLAWGATE_CHAOS_SEED={}", dice.seed());
    let mock = MockProvider::start().await;
    let options = GatewayOptions::with_config(default_config(mock.address()));
    let mut gateway = Gateway::start(options).await;
    fs::write(gateway.workspace().join("AGENTS.md"), "Work.\n").unwrap();
    let (notes, mut asked) = (Notes::default(), Asked::default());
    let (mut seen, mut ended) = (0, Ends::default());
    for round in 0..rounds {
        let first = notes.accepted.lock().len();
        let watcher = connect(&gateway.address()).await.unwrap();
        let clients = act(&gateway, &notes, round, &mut dice);
        sleep(Duration::from_millis(300 + dice.up_to(2200))).await;
        let is_killed = dice.up_to(3) != 0;
        end(&mut gateway, &notes, round, is_killed).await;
        // Each finds its connection gone and returns; what it asserts counts.
        watcher.wait_closed(END_LIMIT).await.expect("the watcher is told");
        timeout(END_LIMIT, clients.join_all()).await.expect("the clients have ended");
        gateway.restart().await;
        let mut client = connect(&gateway.address()).await.unwrap();
        settle(&mut client).await;
        let runs = &mut notes.accepted.lock().clone()[first..];
        for run in runs {
            run.ends = ends_of(&watcher, &run.id);
            ended.count(run, is_killed);
            check_settled(&mut client, run).await;
        }
        go_on(&mut client, &notes, round).await;
        check_quiet(&mut client).await;
        notes.ledger.check_transcripts(&gateway.state_dir().join("agents/main/sessions"));
        check_files(&gateway);
        let requests = mock.requests();
        for request in requests.iter().skip(seen) {
            asked.check(&request.body, run_of);
        }
        seen = requests.len();
    }
    assert!(gateway.terminate().await.unwrap().success());
    assert!(processes::tagged("r").is_empty(), "{:?}", processes::tagged("r"));
    notes.ledger.check_store(&gateway.state_dir()).await;
    println!("{} model calls; {ended:?}", asked.count());
    distribution("from an abort to its event", ABORT_LIMIT, &notes.aborts);
    distribution("from an end to the last process", DEAD_LIMIT, &notes.deaths);
    assert!(ended.all > rounds, "the clients got nothing done");
}

/// How runs ended, for the report.
#[derive(Debug, Default)]
struct Ends {
    all: u64,
    finals: u64,
    aborted: u64,
    /// Cut by the end of the gateway.
    cut: u64,
}

impl Ends {
    /// Once is right; none only when the gateway was killed before.
    fn count(&mut self, run: &Accepted, is_killed: bool) {
        self.all += 1;
        match run.ends.as_slice() {
            [] => {
                assert!(is_killed, "{run:?} has no end");
                self.cut += 1;
            }
            [end] => match end.as_str() {
                "final" => self.finals += 1,
                "aborted" => self.aborted += 1,
                other => panic!("{run:?} ended with {other}"),
            },
            _ => panic!("{run:?} ended more than once"),
        }
    }
}

/// The name of a run that a message begins with, wherever a gateway puts it.
fn run_of(text: &str) -> Option<String> {
    let (before, _) = text.split_once(" @mock ")?;
    before.split_whitespace().next_back().map(str::to_owned)
}

/// Clients that start turns and disturb them until the gateway is gone.
fn act(gateway: &Gateway, notes: &Notes, round: u64, dice: &mut Dice) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (address, notes, mut dice) = (gateway.address(), notes.clone(), dice.fork());
        clients.spawn(async move {
            let Some(mut socket) = connect(&address).await else { return };
            if choose_model(&mut socket, client).await.is_none() {
                return;
            }
            for turn in 0.. {
                let run = format!("r{round}-c{client}-t{turn}-");
                let did = one_turn(&mut socket, &address, &notes, client, &run, &mut dice);
                if did.await.is_none() {
                    return;
                }
            }
        });
    }
    clients
}

/// Every other session asks by the other API.
async fn choose_model(socket: &mut WsClient, client: u64) -> Option<()> {
    let model = if client.is_multiple_of(2) { "mock/mock-1" } else { "mocka/mock-think" };
    let params = json!({"key": format!("t{client}"), "model": model});
    post(socket, "sessions.patch", params).await.map(drop)
}

/// Starts a turn and disturbs it. `None` when the gateway is gone.
async fn one_turn(
    socket: &mut WsClient,
    address: &str,
    notes: &Notes,
    client: u64,
    run: &str,
    dice: &mut Dice,
) -> Option<()> {
    let (session, turn) = (format!("t{client}"), Turn::choose(run, dice));
    let params = json!({"sessionKey": session, "message": turn.text, "idempotencyKey": run});
    let answer = post(socket, "chat.send", params).await?;
    assert_eq!(answer["payload"]["status"], "started", "{answer}");
    notes.accept(run, &session, &turn.text);
    if turn.course == Course::Asks && dice.up_to(2) == 0 {
        decide(socket, run, dice).await?;
    }
    sleep(Duration::from_millis(dice.up_to(SPAN))).await;
    if dice.up_to(3) == 0 {
        if dice.up_to(2) == 0 {
            socket.close().await;
        }
        *socket = connect(address).await?;
    } else if dice.up_to(4) == 0 && matches!(turn.course, Course::Ends | Course::LeavesOne) {
        return await_end(socket, run).await.map(drop);
    }
    abort(socket, notes, &session, run, turn.course).await
}

/// Answers the question of a run, when it comes.
async fn decide(socket: &mut WsClient, run: &str, dice: &mut Dice) -> Option<()> {
    let asked = socket.wait_for(END_LIMIT, |frame| {
        let command = frame["payload"]["request"]["command"].as_str();
        frame["event"] == "exec.approval.requested"
            && command.is_some_and(|command| command.contains(run))
    });
    let id = asked.await?["payload"]["id"].clone();
    let decision = if dice.up_to(2) == 0 { "allow-once" } else { "deny" };
    let params = json!({"id": id, "decision": decision});
    post(socket, "exec.approval.resolve", params).await.map(drop)
}

/// Stops a run and looks after what it has started.
async fn abort(
    socket: &mut WsClient,
    notes: &Notes,
    session: &str,
    run: &str,
    course: Course,
) -> Option<()> {
    notes.note_stop(run);
    let asked_at = Instant::now();
    let params = json!({"sessionKey": session, "runId": run});
    let answer = post(socket, "chat.abort", params).await?;
    if answer["payload"]["aborted"] == true {
        let (state, at) = await_end(socket, run).await?;
        assert_eq!(state, "aborted", "{run}");
        notes.aborts.lock().push(at - asked_at);
    } else {
        assert_ne!(course, Course::Stays, "{run} was over: {answer}");
    }
    if course != Course::LeavesOne {
        let death = processes::none_left(run, || processes::tagged(run)).await;
        notes.deaths.lock().push(death);
    }
    Some(())
}

/// Waits for the end of a run: its state, and when it was told.
async fn await_end(socket: &WsClient, run: &str) -> Option<(String, Instant)> {
    let end = socket.wait_until(END_LIMIT, |all| {
        all.iter().find_map(|received| {
            let state = end_in(received.what.frame()?, run)?;
            Some((state, received.at))
        })
    });
    let end = end.await;
    assert!(end.is_some() || socket.closed().is_some(), "{run} has no end");
    end
}

/// The state with which this frame ends the run.
fn end_in(frame: &Value, run: &str) -> Option<String> {
    let payload = &frame["payload"];
    let is_end = frame["event"] == "chat" && payload["runId"] == run && payload["state"] != "delta";
    is_end.then(|| payload["state"].as_str().unwrap().to_owned())
}

fn ends_of(watcher: &WsClient, run: &str) -> Vec<String> {
    watcher.frames().iter().filter_map(|frame| end_in(frame, run)).collect()
}

/// Kills or stops the gateway, and waits until all that it had started is gone.
async fn end(gateway: &mut Gateway, notes: &Notes, round: u64, is_killed: bool) {
    let below = processes::descendants(gateway.pid().unwrap());
    if is_killed {
        gateway.kill9();
    } else {
        assert!(gateway.terminate().await.expect("the gateway stops").success());
    }
    let tag = format!("r{round}-");
    let left = || {
        let mut left = processes::tagged(&tag);
        left.extend(below.iter().filter(|living| processes::lives(living)));
        left
    };
    let death = processes::none_left("the gateway", left).await;
    notes.deaths.lock().push(death);
}

/// A run from before a restart is not begun again, and its end not told again.
async fn check_settled(client: &mut WsClient, run: &Accepted) {
    let Accepted { id, session, text, .. } = run;
    assert_eq!(ends_of(client, id), Vec::<String>::new());
    // The key of a run that was stopped is free again.
    if run.is_stopped || run.ends.iter().any(|end| end == "aborted") {
        return;
    }
    let params = json!({"sessionKey": session, "message": text, "idempotencyKey": id});
    let answer = post(client, "chat.send", params).await.unwrap();
    let is_answered = answer["payload"]["status"] == "ok";
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    // Its answer may have been on disk when nobody could be told any more.
    let is_cut = run.ends.is_empty() && message.contains("new idempotencyKey");
    assert!(is_answered || is_cut, "{run:?}: {answer}");
}

/// Each session answers again, and its model is sent what the kill has left.
async fn go_on(client: &mut WsClient, notes: &Notes, round: u64) {
    for number in 0..CLIENTS {
        let (session, run) = (format!("t{number}"), format!("r{round}-c{number}-back-"));
        let text = format!("{run} @mock text n=1 delay=0");
        let params = json!({"sessionKey": session, "message": text, "idempotencyKey": run});
        let answer = post(client, "chat.send", params).await.unwrap();
        assert_eq!(answer["payload"]["status"], "started", "{answer}");
        notes.ledger.acknowledge(Sent { session, text });
        let (state, _) = await_end(client, &run).await.unwrap();
        assert_eq!(state, "final", "{run}");
    }
}

/// Nobody is asked about a command that nobody waits for, and the index says
/// of every session that nothing runs.
async fn check_quiet(client: &mut WsClient) {
    let open = post(client, "exec.approval.list", json!({})).await.unwrap();
    assert_eq!(open["payload"], json!([]));
    settle(client).await;
}

/// A file is as one of its edits has left it, and nothing half-written stays.
fn check_files(gateway: &Gateway) {
    for entry in fs::read_dir(gateway.workspace()).unwrap() {
        let path = entry.unwrap().path();
        let content = fs::read_to_string(&path).unwrap();
        let is_ours = path.extension().is_some_and(|extension| extension == "txt");
        assert!(!is_ours || is_whole(&content), "{} is torn: {content:?}", path.display());
    }
}

/// Prints how long things took: most of them within the limit, and each within ten of
/// it, as a busy machine is late now and then.
fn distribution(what: &str, limit: Duration, times: &Mutex<Vec<Duration>>) {
    let mut times = times.lock().clone();
    times.sort_unstable();
    assert!(!times.is_empty(), "nothing was measured {what}");
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    let late = times.iter().filter(|time| **time > limit).count();
    println!(
        "{what}: {} times, median {:?}, 90 % {:?}, most {:?}, {late} over {limit:?}",
        times.len(),
        at(50),
        at(90),
        at(100),
    );
    assert!(at(50) < limit, "{what}: {times:?}");
    assert!(at(100) < limit * 10, "{what}: {times:?}");
}

/// A connection that may do everything; `None` when the gateway is gone.
async fn connect(address: &str) -> Option<WsClient> {
    let mut client = WsClient::open_with(address, "/", &[]).await.ok()?;
    let hello = post(&mut client, "connect", standard_connect(&ALL_SCOPES)).await?;
    assert_eq!(hello["ok"], true, "{hello}");
    Some(client)
}

/// The answer to a request; `None` when the connection ends before it, or the
/// gateway is about to end.
async fn post(client: &mut WsClient, method: &str, params: Value) -> Option<Value> {
    let id = format!("{method}-{}", client.received_count());
    client.send(&json!({"type": "req", "id": id, "method": method, "params": params})).await;
    let answer = client.answer(&id).await;
    assert!(answer.is_some() || client.closed().is_some(), "{method} is not answered");
    let is_stopping = |answer: &Value| {
        let message = answer["error"]["message"].as_str();
        message.is_some_and(|message| message.starts_with("gateway is stopping"))
    };
    answer.filter(|answer| !is_stopping(answer))
}
