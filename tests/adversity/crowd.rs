//! A thousand clients, and not all of them are good ones: some read slowly, some not at
//! all, some go without a word, some are cut off in the middle of what they say. The
//! others notice nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::link::{End, Guest, Link, request};
use crate::seen::{health, number, records};
use crate::stage::{Api, admin, call, scripted, told};
use crate::support::Gateway;

const ALL: usize = 1_000;
/// Of those: who talks, and how often.
const CHATTING: usize = 12;
const MESSAGES: usize = 3;
/// Who takes a break after everything that he reads.
const SLOW: usize = 40;
const BREAK: Duration = Duration::from_millis(10);
/// Who reads nothing any more, and hears so much that he is given up.
const STALLED: usize = 40;
/// Who reads nothing any more either, and then is not there.
const VANISHING: usize = 40;
/// Who is cut off in the middle of a frame; and who only takes his time there.
const CUT: usize = 20;
const HALTING: usize = 20;
/// What the systems of those take for them who do not read.
const LITTLE_ROOM: Option<u32> = Some(8 * 1024);
/// A server lets only so many of one address wait for their login.
const AT_ONCE: usize = 16;

/// Only those hear of it who may write: the chatting and the stalled. It takes more of
/// them than may wait for one client and what the system holds.
const LOUD: usize = 512 * 1024;
const MOST_LOUD: usize = 300;
/// What waits for those that stall they have together, and it is 50 MiB; besides, each
/// has something that is being written, and a thousand connections need some.
const MAX_GROWTH_MIB: u64 = 200;
/// For most answers to `health`, in a debug build that shares its machine with a thousand
/// clients. Whoever waited for those that stall would wait until they are given up.
const HEALTH_LIMIT: Duration = Duration::from_millis(500);
/// How long something may take that comes by itself, on two busy cores.
const LIMIT: Duration = Duration::from_secs(40);

const READS: &[&str] = &["operator.read"];
const WRITES: &[&str] = &["operator.read", "operator.write"];
const GIVEN_UP: &str = "clawgate_slow_consumers_closed_total";
const SLOWNESS: &str = "closed with 1008 slow consumer";

/// This process holds the other ends.
fn allow_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

async fn come(gateway: &Gateway, name: &str, count: usize, room: Option<u32>) -> Vec<Link> {
    let scopes = if ["chatting", "stalled"].contains(&name) { WRITES } else { READS };
    let address = gateway.address();
    let mut links = Vec::new();
    while links.len() < count {
        let some = (links.len()..count.min(links.len() + AT_ONCE)).map(|number| {
            let (address, name) = (&address, format!("{name}-{number}"));
            async move { Link::open(address, &Guest { name: &name, scopes, room }).await }
        });
        links.extend(try_join_all(some).await.unwrap());
    }
    links
}

/// Waits until a family of `/metrics` has this sum.
async fn until(gateway: &Gateway, family: &str, wanted: usize) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let found = number(gateway, family).await;
        if (found - wanted as f64).abs() < 0.5 {
            return;
        }
        assert!(Instant::now() < deadline, "{family} is {found}, not {wanted}");
        sleep(Duration::from_millis(50)).await;
    }
}

fn run_of(client: usize, message: usize) -> String {
    format!("run-{client}-{message}")
}

fn text_of(run: &str) -> String {
    format!("{run} @mock text text=answer-to-{run} n=2 delay=5")
}

/// Sends its messages, each when the one before was answered, and listens on.
async fn chat(mut link: Link, client: usize, over: watch::Receiver<bool>) -> Result<Link, End> {
    for message in 0..MESSAGES {
        let run = run_of(client, message);
        let params = json!({"sessionKey": format!("crowd-{client}"), "message": text_of(&run),
            "idempotencyKey": run});
        let ack = link.call("chat.send", &params).await?;
        assert_eq!(ack, json!({"runId": run, "status": "started"}));
        while !link.ends().contains(&run) {
            link.next().await?;
        }
    }
    listen(link, Duration::ZERO, over).await
}

/// Reads until it is over.
async fn hear(
    link: &mut Link,
    pause: Duration,
    mut over: watch::Receiver<bool>,
) -> Result<(), End> {
    loop {
        tokio::select! {
            message = link.next() => drop(message?),
            _ = over.wait_for(|over| *over) => return Ok(()),
        }
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
}

/// Reads until it is over, and all that came before.
async fn listen(mut link: Link, pause: Duration, over: watch::Receiver<bool>) -> Result<Link, End> {
    hear(&mut link, pause, over).await?;
    link.call("health", &json!({})).await?;
    Ok(link)
}

/// Sends half of a request; its rest.
async fn halt(link: &mut Link) -> Vec<u8> {
    let mut whole = request("halted", "health", &json!({}));
    let rest = whole.split_off(whole.len() / 2);
    link.send(&whole).await.unwrap();
    rest
}

/// Listens until it is over, and then sends the rest of the request.
async fn go_on(mut link: Link, rest: Vec<u8>, over: watch::Receiver<bool>) -> Result<Link, End> {
    hear(&mut link, Duration::ZERO, over).await?;
    link.send(&rest).await?;
    link.answer("halted").await?;
    Ok(link)
}

/// What is seen of the gateway all the time.
#[derive(Debug, Default)]
struct Watched {
    /// How long each `health` took.
    waits: Vec<Duration>,
    most_kib: u64,
}

/// Asks for `health` until it is over: each time it is answered, and all is well.
async fn watch(gateway: &Gateway, over: watch::Receiver<bool>) -> Watched {
    let guest = Guest { name: "watching", scopes: &[], room: None };
    let mut link = Link::open(&gateway.address(), &guest).await.unwrap();
    let mut watched = Watched::default();
    while !*over.borrow() {
        let asked_at = Instant::now();
        let told = link.call("health", &json!({})).await.unwrap();
        assert_eq!(told["ok"], true, "{told}");
        watched.waits.push(asked_at.elapsed());
        watched.most_kib = watched.most_kib.max(gateway.resident_kib().unwrap());
        sleep(Duration::from_millis(20)).await;
    }
    watched.waits.sort_unstable();
    watched
}

/// Is loud until those are given up who do not listen; how often.
async fn be_loud(gateway: &Gateway) -> usize {
    let guest = Guest { name: "loud", scopes: WRITES, room: None };
    let mut link = Link::open(&gateway.address(), &guest).await.unwrap();
    let params = json!({"enabled": true, "phase": "x".repeat(LOUD)});
    let loud = request("loud", "talk.mode", &params);
    let mut times = 0;
    while number(gateway, GIVEN_UP).await < STALLED as f64 - 0.5 {
        assert!(times < MOST_LOUD, "not all are given up");
        link.send(&loud).await.unwrap();
        while !link.next().await.unwrap().starts_with(r#"{"type":"res","id":"loud","ok":true"#) {}
        times += 1;
    }
    times
}

/// Reads on after it was given up. What is left is without a gap; whether the end of it
/// says why: there is time for that, but not for ever.
async fn read_on(mut link: Link) -> bool {
    let end = loop {
        if let Err(end) = link.next().await {
            break end;
        }
    };
    let is_told = end.starts_with("closed");
    assert!(!is_told || end == "closed 1008 slow consumer", "{end}");
    is_told
}

/// All clients, by what becomes of them.
struct Crowd {
    /// Who reads to the end.
    reading: JoinSet<Result<Link, End>>,
    stalled: Vec<Link>,
    vanishing: Vec<Link>,
}

impl Crowd {
    async fn gather(gateway: &Gateway, over: &watch::Receiver<bool>) -> Self {
        let mut reading = JoinSet::new();
        let stalled = come(gateway, "stalled", STALLED, LITTLE_ROOM).await;
        let vanishing = come(gateway, "vanishing", VANISHING, LITTLE_ROOM).await;
        for link in come(gateway, "slow", SLOW, LITTLE_ROOM).await {
            reading.spawn(listen(link, BREAK, over.clone()));
        }
        for mut link in come(gateway, "cut", CUT, None).await {
            halt(&mut link).await;
        }
        for mut link in come(gateway, "halting", HALTING, None).await {
            let rest = halt(&mut link).await;
            reading.spawn(go_on(link, rest, over.clone()));
        }
        let others = ALL - STALLED - VANISHING - SLOW - CUT - HALTING - CHATTING;
        for link in come(gateway, "listening", others, None).await {
            reading.spawn(listen(link, Duration::ZERO, over.clone()));
        }
        let talkers = come(gateway, "chatting", CHATTING, None).await;
        for (client, link) in talkers.into_iter().enumerate() {
            reading.spawn(chat(link, client, over.clone()));
        }
        Self { reading, stalled, vanishing }
    }

    /// What they do to each other. Afterwards those are there who read.
    async fn live(&mut self, gateway: &Gateway) {
        let times = be_loud(gateway).await;
        println!("{STALLED} were given up after {times} events of {} KiB", LOUD / 1024);
        let given_up: Vec<String> = self.stalled.iter().map(|link| link.conn_id.clone()).collect();
        let left = join_all(self.stalled.drain(..).map(read_on));
        let left = timeout(LIMIT, left).await.expect("an end of what is left");
        let told = left.iter().filter(|is_told| **is_told).count();
        println!("{told} of them read why");
        assert!(told > 0, "nobody was told");
        for link in self.vanishing.drain(..) {
            link.reset();
        }
        until(gateway, "clawgate_runs_ended_total", CHATTING * MESSAGES).await;
        // Whoever watches is there, too.
        until(gateway, "clawgate_connections", self.reading.len() + 1).await;
        for conn in given_up {
            let mut told = records(gateway, &conn);
            told.retain(|line| line.contains("disconnected"));
            assert!(told.len() == 1 && told[0].contains(SLOWNESS), "{told:#?}");
        }
        assert_eq!(records(gateway, SLOWNESS).len(), STALLED, "and nobody else");
    }

    /// Each that has read to the end has heard of the end of each run, once.
    async fn check_heard(mut self) -> Vec<Link> {
        let runs = (0..CHATTING)
            .flat_map(|client| (0..MESSAGES).map(move |message| run_of(client, message)));
        let expected: BTreeSet<String> = runs.collect();
        let mut links = Vec::new();
        while let Some(read) = self.reading.join_next().await {
            let link = read.unwrap().unwrap();
            assert_eq!(link.ends().len(), expected.len(), "{:?}", link.ends());
            assert_eq!(link.ends().iter().cloned().collect::<BTreeSet<_>>(), expected);
            links.push(link);
        }
        links
    }
}

/// Each message is stored once, and so is its answer.
async fn check_stored(gateway: &Gateway) {
    let mut client = admin(gateway).await;
    for number in 0..CHATTING {
        let mut expected = Vec::new();
        for message in 0..MESSAGES {
            let run = run_of(number, message);
            expected.push(("user".to_owned(), text_of(&run)));
            expected.push(("assistant".to_owned(), format!("answer-to-{run}")));
        }
        assert_eq!(told(&mut client, &format!("crowd-{number}")).await, expected);
    }
}

/// Whoever has an entry in the list of those present that says that he is there is one
/// of the thousand that read to the end.
async fn check_present(gateway: &Gateway, are_here: bool) {
    let mut client = admin(gateway).await;
    let list = call(&mut client, "system-presence", json!({})).await;
    let here = list.as_array().unwrap().iter().filter(|entry| entry["reason"] == "connect");
    let here: Vec<&str> = here.filter_map(|entry| entry["instanceId"].as_str()).collect();
    let is_gone =
        |name: &&&str| ["stalled", "vanishing", "cut"].iter().any(|it| name.starts_with(it));
    assert_eq!(here.iter().find(is_gone), None, "{list:#}");
    assert_eq!(!here.is_empty(), are_here, "{list:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_a_thousand_clients_the_bad_ones_disturb_nobody() {
    allow_files();
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let before = gateway.resident_kib().unwrap();
    let (over, is_over) = watch::channel(false);
    let story = async {
        let mut crowd = Crowd::gather(&gateway, &is_over).await;
        crowd.live(&gateway).await;
        over.send_replace(true);
        crowd.check_heard().await
    };
    let (watched, links) = tokio::join!(watch(&gateway, is_over.clone()), story);
    let waits = &watched.waits;
    let (middle, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    println!("health: {} times, {middle:?}, at most {longest:?}", waits.len());
    assert!(middle < HEALTH_LIMIT && longest < LIMIT, "{middle:?}, at most {longest:?}");
    let grown = (watched.most_kib - before) / 1024;
    println!("the gateway grew by {grown} MiB");
    assert!(grown < MAX_GROWTH_MIB, "the gateway grew by {grown} MiB");
    assert_eq!(mock.calls().len(), CHATTING * MESSAGES, "each is asked once");
    check_stored(&gateway).await;
    check_present(&gateway, true).await;

    drop(links);
    until(&gateway, "clawgate_connections", 0).await;
    until(&gateway, "clawgate_outbox_bytes", 0).await;
    check_present(&gateway, false).await;
    assert_eq!(health(&mut admin(&gateway).await).await["ok"], true);
    let complaints = number(&gateway, "clawgate_log_messages_total").await;
    assert!(complaints < 0.5, "{:#?} {:#?}", records(&gateway, "WARN"), records(&gateway, "ERROR"));
}
