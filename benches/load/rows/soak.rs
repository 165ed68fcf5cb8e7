//! Hours of use in a short time: does anything grow that should not?

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use super::super::client::{Link, SECRET, find, request};
use super::super::gateway::Home;
use super::super::options::Options;
use super::super::provider::{self, Provider};
use super::super::server::Server;
use super::super::stats::{Samples, Side, float, percentile};
use super::Lab;

/// Users that come, talk and go at the same time.
const USERS: usize = 8;
/// Turns in one session before it is reset or deleted.
const TURNS: usize = 10;
/// What a day of heavy use comes to; spread evenly over the time.
const TURNS_OF_A_DAY: u32 = 100_000;
const DAY: Duration = Duration::from_hours(1);
/// Sizes are read so often, whatever the time.
const LOOKS: u32 = 120;
/// Every fourth turn is a slow answer that is stopped, or left, in the middle.
const SLOW_EVERY: usize = 4;
const SLOW_CHUNKS: usize = 100;
const PACE: Duration = Duration::from_millis(10);
const FINAL: &[u8] = br#""state":"final""#;
const ABORTED: &[u8] = br#""state":"aborted""#;
const ASSISTANT: &[u8] = br#""stream":"assistant""#;

/// What was done so far.
#[derive(Debug, Default)]
struct Done {
    turns: AtomicUsize,
    connects: AtomicUsize,
    sessions: AtomicUsize,
}

/// How large the process was at one moment.
#[derive(Debug, Clone, Copy)]
struct Look {
    minutes: f64,
    memory: f64,
    own: f64,
    files: f64,
    tasks: f64,
}

/// Users talk for as long as the options say; then all have gone.
pub async fn measure(lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    let home = lab.home()?;
    let gateway = home.start().await?;
    let time = length(&lab.options);
    let done = Arc::new(Done::default());
    let mut users = JoinSet::new();
    for number in 0..USERS {
        let user = User { number, gateway: gateway.address(), done: Arc::clone(&done) };
        users.spawn(user.talk(time));
    }
    let looks = watch(&gateway, &lab.provider, time, &mut users, &done).await?;
    while let Some(ended) = users.join_next().await {
        ended??;
    }
    report(&looks, &done, samples)?;
    healthy(&gateway).await?;
    after_a_restart(gateway, &home).await
}

fn length(options: &Options) -> Duration {
    let minutes = |minutes| Duration::from_mins(u64::from(minutes));
    options.soak.map_or(options.size(DAY, Duration::from_secs(20)), minutes)
}

/// Looks at the process until the time is over, and tells how it goes.
async fn watch(
    gateway: &Server,
    provider: &Provider,
    time: Duration,
    users: &mut JoinSet<anyhow::Result<()>>,
    done: &Done,
) -> anyhow::Result<Vec<Look>> {
    let began = Instant::now();
    let mut pause = interval(time / LOOKS);
    let mut looks = Vec::new();
    while began.elapsed() < time {
        pause.tick().await;
        while let Some(ended) = users.try_join_next() {
            ended?.context("a user")?;
        }
        // What it remembers is only for those who measure times.
        provider.forget();
        let look = Look {
            minutes: began.elapsed().as_secs_f64() / 60.0,
            memory: gateway.memory()? / 1024.0,
            own: gateway.own_memory()? / 1024.0,
            files: gateway.open_files()?,
            tasks: tasks(gateway).await?,
        };
        eprintln!(
            "{:5.1} min: {} turns, {:.1} MiB, of that its own {:.1}, {} files, {} tasks",
            look.minutes,
            done.turns.load(Ordering::Relaxed),
            look.memory,
            look.own,
            look.files,
            look.tasks,
        );
        looks.push(look);
    }
    Ok(looks)
}

/// What has grown since a tenth of the time was over.
fn report(looks: &[Look], done: &Done, samples: &mut Samples) -> anyhow::Result<()> {
    let (early, late) = looks.split_at(looks.len() / 10);
    ensure!(!early.is_empty() && late.len() > 1, "too short to tell anything");
    // Both ends are told by some looks: one alone may meet a busy moment.
    let grown = |of: fn(&Look) -> f64, percent: usize| -> f64 {
        let few = (late.len() / 10).max(1);
        let end = |looks: &[Look]| percentile(&looks.iter().map(of).collect::<Vec<_>>(), percent);
        end(&late[late.len() - few..])
            .zip(end(&late[..few]))
            .map_or(0.0, |(end, begin)| end - begin)
    };
    for (metric, value) in [
        ("soak-turns", float(done.turns.load(Ordering::Relaxed))),
        ("soak-connects", float(done.connects.load(Ordering::Relaxed))),
        ("soak-sessions", float(done.sessions.load(Ordering::Relaxed))),
        ("soak-memory", grown(|look| look.memory, 50)),
        ("soak-own", grown(|look| look.own, 50)),
        ("soak-files", grown(|look| look.files, 50)),
        // They come and go with each turn; what stays is there in quiet moments, too.
        ("soak-tasks", grown(|look| look.tasks, 0)),
    ] {
        samples.add(metric, Side::Gateway, value);
    }
    for look in looks {
        samples.point("soak-memory", look.minutes, look.memory);
        samples.point("soak-own", look.minutes, look.own);
    }
    Ok(())
}

/// Nothing may have failed on the way.
async fn healthy(gateway: &Server) -> anyhow::Result<()> {
    let numbers = numbers(gateway).await?;
    let panics = number(&numbers, "clawgate_task_panics_total ")?;
    let failures = number(&numbers, "clawgate_store_commit_failures_total ")?;
    ensure!(panics + failures == 0.0, "{panics} panics, {failures} writes that failed");
    Ok(())
}

/// It ends when it is told to, and starts on what was left.
async fn after_a_restart(gateway: Server, home: &Home) -> anyhow::Result<()> {
    gateway.terminate()?;
    let gateway = home.start().await?;
    let mut link = Link::hello(gateway.address()).await?;
    link.ask(&request("list", "sessions.list", &json!({"limit": 100}))).await.map(drop)
}

async fn tasks(gateway: &Server) -> anyhow::Result<f64> {
    number(&numbers(gateway).await?, "clawgate_process_tasks ")
}

/// All numbers of the gateway, by HTTP.
async fn numbers(gateway: &Server) -> anyhow::Result<String> {
    let address = gateway.address();
    let mut stream = TcpStream::connect(address).await?;
    let ask = format!(
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {SECRET}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "no metrics: {answer}");
    Ok(answer)
}

fn number(numbers: &str, name: &str) -> anyhow::Result<f64> {
    let value = numbers.lines().find_map(|line| line.strip_prefix(name));
    Ok(value.with_context(|| format!("no {name}in the metrics"))?.parse()?)
}

/// One who comes, talks and goes, again and again.
struct User {
    number: usize,
    gateway: SocketAddr,
    done: Arc<Done>,
}

impl User {
    async fn talk(self, time: Duration) -> anyhow::Result<()> {
        // Who had to wait for a slow answer makes up for it.
        let mut pace = interval(DAY / TURNS_OF_A_DAY * u32::try_from(USERS)?);
        let end = Instant::now() + time;
        for visit in 0.. {
            // Fixed width: no key is the beginning of another one.
            let session = format!("agent:main:soak-{}-{visit:06}", self.number);
            let mut link = self.come().await?;
            for turn in 0..TURNS {
                pace.tick().await;
                if Instant::now() >= end {
                    return Ok(());
                }
                self.turn(&mut link, &session, visit, turn).await?;
            }
            look_around(&mut link, &session).await?;
            leave(&mut link, &session, visit).await?;
            self.done.sessions.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn come(&self) -> anyhow::Result<Link> {
        self.done.connects.fetch_add(1, Ordering::Relaxed);
        Link::hello(self.gateway).await
    }

    /// A question and its answer: whole, stopped in the middle, or read by the
    /// next connection since this one is gone.
    async fn turn(
        &self,
        link: &mut Link,
        session: &str,
        visit: usize,
        turn: usize,
    ) -> anyhow::Result<()> {
        let is_slow = turn % SLOW_EVERY == SLOW_EVERY - 1;
        let chunks = if is_slow { SLOW_CHUNKS } else { 5 };
        let pause = if is_slow { PACE } else { Duration::ZERO };
        let number = visit * TURNS + turn;
        let params = json!({
            "sessionKey": session,
            "message": provider::message(number, chunks, pause),
            "idempotencyKey": format!("{session}-{turn}"),
        });
        link.send(&request("send", "chat.send", &params)).await?;
        if !is_slow {
            until(link, FINAL, session).await?;
        } else if visit.is_multiple_of(2) {
            until(link, ASSISTANT, session).await?;
            let params = json!({"sessionKey": session});
            link.send(&request("abort", "chat.abort", &params)).await?;
            until(link, ABORTED, session).await?;
        } else {
            until(link, ASSISTANT, session).await?;
            *link = self.come().await?;
            until(link, FINAL, session).await?;
        }
        self.done.turns.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Reads until something is told of a session.
async fn until(link: &mut Link, what: &[u8], session: &str) -> anyhow::Result<()> {
    loop {
        let frame = link.next().await?;
        if find(frame, what).is_some() && find(frame, session.as_bytes()).is_some() {
            return Ok(());
        }
    }
}

/// What a page asks for when somebody looks at it, and a job that comes and goes.
async fn look_around(link: &mut Link, session: &str) -> anyhow::Result<()> {
    for (method, params) in [
        ("chat.history", json!({"sessionKey": session, "limit": 200})),
        ("sessions.list", json!({"limit": 50})),
        ("models.list", json!({})),
        ("config.get", json!({})),
        ("health", json!({})),
        ("system-presence", json!({})),
    ] {
        ask(link, method, params).await?;
    }
    let job = json!({
        "name": session, "sessionTarget": "isolated", "wakeMode": "next-heartbeat",
        "schedule": {"kind": "every", "everyMs": 3_600_000},
        "payload": {"kind": "agentTurn", "message": "Nothing"},
    });
    let answer = ask(link, "cron.add", job).await?;
    let id = answer["payload"]["id"].as_str().context("no id of a job")?;
    ask(link, "cron.remove", json!({"id": id})).await.map(drop)
}

/// Half of the sessions are deleted, the others begin anew and stay.
async fn leave(link: &mut Link, session: &str, visit: usize) -> anyhow::Result<()> {
    if visit.is_multiple_of(2) {
        ask(link, "sessions.delete", json!({"key": session, "deleteTranscript": true})).await?;
    } else {
        ask(link, "sessions.reset", json!({"key": session})).await?;
    }
    Ok(())
}

async fn ask(link: &mut Link, method: &str, params: Value) -> anyhow::Result<Value> {
    let answer = link.ask(&request("ask", method, &params)).await;
    Ok(serde_json::from_slice(answer.with_context(|| method.to_owned())?)?)
}
