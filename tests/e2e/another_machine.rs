//! Packets that are lost, late, doubled and overtaken by others, and machines that are
//! gone without a word. That takes a minute and a half to be found out, in which others of
//! this crate compute.
//!
//! What is real here: TCP of the kernel at both ends, over an IP link between two
//! networks that does this to it (`lossy.py`), in private namespaces. The gateway is in
//! one of them, with its provider; each client is in the other, behind a program that
//! passes on what it says. What is not: a network of more than one hop, and a queue that
//! overflows.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::dice::Dice;
use crate::seen::{health, number, records};
use crate::stage::{Api, admin, ask, config, history};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, not_run};
use crate::traveller::{
    Journey, Seen, Traveller, Way, check_asked, check_counted, converse, shown,
};

/// Says to this program that it has a network of its own.
const ALONE: &str = "CLAWGATE_TEST_NETWORK";
const IN_A_NETWORK: &str = r#"ip link set lo up && exec "$@""#;
/// Where clients come from; see `lossy.py`.
const FAR: [&str; 2] = ["10.77.0.2", "10.77.0.3"];

const CLIENTS: u64 = 3;
const MESSAGES: u64 = 5;
/// An answer takes two tenths of a second on this road, or a second when it is lost.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long nothing gets through, so that somebody loses patience.
const OUTAGE: Duration = Duration::from_secs(4);
/// How long something may take that comes by itself. A connection whose end was lost is
/// found out when something is sent: a ping at the latest, each half a minute.
const LIMIT: Duration = Duration::from_secs(60);
/// The same of a machine that is gone: a minute and a half, and until something is sent.
const GONE_LIMIT: Duration = Duration::from_secs(150);

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/lossy.py")
}

/// Starts a program in a network of its own.
fn isolated(way: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(way).args(["--", "sh", "-c", IN_A_NETWORK, "sh"]);
    command
}

/// How a program gets a network of its own, and may make a link to another; or why not.
fn way_out() -> Result<&'static [&'static str], String> {
    let folder = TempDir::with_prefix("clawgate-test-").unwrap();
    let mut why = String::new();
    // Whoever is root needs no other user to be it in.
    let ways: [&[&str]; 2] = [&["--net"], &["--net", "--map-root-user"]];
    for way in ways {
        let mut tried = isolated(way);
        tried.arg("python3").arg(script()).arg("--folder").arg(folder.path());
        // It ends with its input: at once.
        tried.args(["--port", "1", "--seed", "1"]).stdin(Stdio::piped());
        match tried.output() {
            Ok(output) if output.status.success() => return Ok(way),
            Ok(output) => why = String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why.trim().lines().last().unwrap_or_default().to_owned())
}

/// Runs a test of this file in a network of its own: this program is started there once
/// more, for it alone.
fn apart<F: Future<Output = ()>>(name: &str, test: impl FnOnce() -> F) {
    if std::env::var_os(ALONE).is_some() {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(test());
    }
    let way = match way_out() {
        Ok(way) => way,
        Err(why) => {
            return not_run(&format!(
                "{name} needs network namespaces, /dev/net/tun, `ip` (iproute2) and python3; \
                 run it as root with CAP_NET_ADMIN and CAP_SYS_ADMIN ({why})"
            ));
        }
    };
    let mut again = isolated(way);
    again.arg(std::env::current_exe().unwrap());
    again.args([&format!("another_machine::{name}"), "--exact", "--nocapture"]).env(ALONE, "1");
    let output = again.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "there is no test {name}");
}

/// The link, and the network behind it.
struct Road {
    _link: Child,
    orders: ChildStdin,
    told: Lines<BufReader<ChildStdout>>,
    doors: TempDir,
}

impl Road {
    /// A road to this gateway, with a seed that is printed.
    async fn to(gateway: &Gateway) -> Self {
        let seed = std::env::var("CLAWGATE_ROAD_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = Dice::new(seed).seed();
        println!("CLAWGATE_ROAD_SEED={seed}");
        let doors = TempDir::with_prefix("clawgate-test-").unwrap();
        let mut link = tokio::process::Command::new("python3");
        link.arg(script()).arg("--folder").arg(doors.path()).kill_on_drop(true);
        link.args(["--port", &gateway.port().to_string(), "--seed", &seed.to_string()]);
        let mut link = link.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = link.stdin.take().unwrap();
        let told = BufReader::new(link.stdout.take().unwrap()).lines();
        let mut road = Self { _link: link, orders, told, doors };
        assert_eq!(road.answer().await, "ready");
        road
    }

    async fn answer(&mut self) -> String {
        let line = timeout(LIMIT, self.told.next_line()).await.expect("an answer of the road");
        line.unwrap().expect("the road is there")
    }

    async fn order(&mut self, what: &str) {
        self.orders.write_all(format!("{what}\n").as_bytes()).await.unwrap();
        assert_eq!(self.answer().await, what);
    }

    /// The way of those who come from this address.
    fn way(&self, address: &str) -> Way {
        Way::Far(self.doors.path().join(address).into())
    }

    /// A client that comes from this address, once.
    async fn client(&self, address: &str) -> WsClient {
        let mut client = self.way(address).open().await.expect("a WebSocket");
        let hello = client.connect_simple().await;
        assert_eq!(hello["ok"], true, "{hello}");
        client
    }

    /// What it did to packets.
    async fn end(mut self) -> Value {
        self.orders.shutdown().await.unwrap();
        drop(self.orders);
        let line = timeout(LIMIT, self.told.next_line()).await.expect("an end of the road");
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }
}

/// A gateway that other machines can come to.
async fn open_to_all() -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["bind"] = json!("lan");
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// Waits until so many connections are left.
async fn until_left(gateway: &Gateway, wanted: f64, limit: Duration) {
    let deadline = Instant::now() + limit;
    loop {
        let left = number(gateway, "clawgate_connections").await;
        if (left - wanted).abs() < 0.5 {
            return;
        }
        assert!(Instant::now() < deadline, "{left} connections are left, not {wanted}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// The runs whose end a client has heard, each once.
fn ends(client: &WsClient) -> BTreeSet<String> {
    let mut ends = BTreeSet::new();
    for frame in client.frames() {
        let payload = &frame["payload"];
        if frame["event"] == "chat" && payload["state"] == "final" {
            let run = payload["runId"].as_str().unwrap().to_owned();
            assert!(ends.insert(run), "twice: {payload}");
        }
    }
    ends
}

/// Breaks the road for a while, twice, in the middle of what is said; answers what each
/// client saw, and how often they connected.
async fn bad_weather(
    road: &mut Road,
    mock: &MockProvider,
    mut clients: JoinSet<Journey>,
) -> (Vec<(String, Seen)>, u64) {
    let all = CLIENTS * MESSAGES;
    for part in [all / 3, all * 2 / 3] {
        while (mock.calls().len() as u64) < part {
            assert!(!clients.is_empty(), "they go on");
            sleep(Duration::from_millis(20)).await;
        }
        road.order("down").await;
        sleep(OUTAGE).await;
        road.order("up").await;
    }
    let (mut seen, mut connects) = (Vec::new(), 0);
    while let Some(done) = clients.join_next().await {
        let (session, times, messages) = done.unwrap();
        connects += times;
        seen.push((session, messages));
    }
    (seen, connects)
}

async fn messages_on_a_lossy_road() {
    let (gateway, mock) = open_to_all().await;
    let mut road = Road::to(&gateway).await;
    let began = Instant::now();
    // One that never gives up: all it has is its connection.
    let mut viewer = road.client(FAR[1]).await;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Traveller::new(road.way(FAR[0]), PATIENCE);
        clients.spawn(converse(client, format!("s{number}"), MESSAGES));
    }
    let (seen, connects) = bad_weather(&mut road, &mock, clients).await;
    println!("{connects} connections of {CLIENTS} clients in {:?}", began.elapsed());
    assert!(connects > CLIENTS, "nobody lost patience");

    let mut direct = admin(&gateway).await;
    let mut runs = BTreeSet::new();
    for (session, messages) in &seen {
        assert_eq!(&shown(&history(&mut direct, session).await), messages, "{session}");
        check_asked(session, messages, MESSAGES);
        runs.extend((0..MESSAGES).map(|message| format!("{session}-{message}")));
    }
    assert_eq!(mock.calls().len() as u64, CLIENTS * MESSAGES, "each is asked once");
    // Its answer comes behind all that was to be told before.
    viewer.send(&json!({"type": "req", "id": "last", "method": "health"})).await;
    let last = viewer.wait_for(LIMIT, |frame| frame["id"] == "last").await;
    assert!(last.is_some(), "the one that stayed is served: {:?}", viewer.closed());
    check_counted(&viewer);
    assert_eq!(ends(&viewer), runs, "it has heard of all");

    // Of those that were lost on the road nothing is left but their records.
    until_left(&gateway, 2.0, LIMIT).await;
    let left = records(&gateway, "disconnected").len() as u64;
    assert!(left <= connects, "{left} records for {connects} connections at most");
    assert_eq!(health(&mut direct).await["ok"], true);
    let complaints = number(&gateway, "clawgate_log_messages_total").await;
    assert!(complaints < 0.5, "{}", gateway.stderr());
    drop(viewer);
    let done = road.end().await;
    println!("{done}");
    for what in ["lost", "doubled", "overtaken"] {
        assert!(done[what].as_u64().unwrap() > 0, "none were {what}: {done}");
    }
}

#[test]
fn over_a_link_that_loses_packets_every_message_is_one_run_and_no_event_is_missed() {
    apart(
        "over_a_link_that_loses_packets_every_message_is_one_run_and_no_event_is_missed",
        messages_on_a_lossy_road,
    );
}

async fn a_machine_is_gone() {
    let (gateway, _mock) = open_to_all().await;
    let mut road = Road::to(&gateway).await;
    let mut direct = admin(&gateway).await;
    let (mut here, gone) = (road.client(FAR[0]).await, road.client(FAR[1]).await);
    let id = gone
        .frames()
        .iter()
        .find_map(|frame| frame["payload"]["server"]["connId"].as_str().map(str::to_owned));
    let id = id.expect("the id of its connection");
    road.order(&format!("lose {}", FAR[1])).await;
    let began = Instant::now();
    ask(&mut direct, "main", "@mock text text=first", "run-1").await;
    until_left(&gateway, 2.0, GONE_LIMIT).await;
    println!("given up after {:?}", began.elapsed());
    let told = records(&gateway, &id);
    let told: Vec<_> = told.iter().filter(|line| line.contains("disconnected")).collect();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(number(&gateway, "clawgate_outbox_bytes").await < 0.5, "nothing waits for it");
    // Nobody else has noticed, and it is not wrong that somebody is gone.
    ask(&mut direct, "main", "@mock text text=second", "run-2").await;
    here.send(&json!({"type": "req", "id": "last", "method": "health"})).await;
    let last = here.wait_for(LIMIT, |frame| frame["id"] == "last").await.expect("an answer");
    assert_eq!(last["payload"]["ok"], true, "{last}");
    check_counted(&here);
    assert_eq!(ends(&here), BTreeSet::from(["run-1".to_owned(), "run-2".to_owned()]));
    let complaints = number(&gateway, "clawgate_log_messages_total").await;
    assert!(complaints < 0.5, "{}", gateway.stderr());
    drop((here, gone));
    road.end().await;
}

#[test]
fn a_machine_that_is_gone_is_given_up_and_nothing_waits_for_it() {
    apart("a_machine_that_is_gone_is_given_up_and_nothing_waits_for_it", a_machine_is_gone);
}
