//! Round trips of requests.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::super::client::{ANSWER, Link, crowd, is_ok, request};
use super::super::server::Server;
use super::super::stats::{Samples, Side, float, micros};
use super::{Lab, SETTLE, fresh};

/// What is asked: of the whole state, and the least that can be asked.
struct Case {
    method: &'static str,
    one: &'static str,
    many: &'static str,
    cpu: Option<&'static str>,
    bytes: Option<&'static str>,
}

const CASES: [Case; 2] = [
    Case { method: "last-heartbeat", one: "light-1", many: "light-50", cpu: None, bytes: None },
    Case {
        method: "health",
        one: "health-1",
        many: "health-50",
        cpu: Some("health-50-cpu"),
        bytes: Some("health-bytes"),
    },
];
const CONNECTIONS: usize = 50;
const DEPTH: usize = 8;

/// One after the other on one connection, then several at once on many.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let time = if side == Side::Original {
        // It answers some of these in seconds.
        Duration::from_secs(lab.options.size(10, 5))
    } else {
        Duration::from_millis(lab.options.size(1_500, 300))
    };
    for case in CASES {
        let (server, _home) = fresh(lab, side).await?;
        let one = load(&server, case.method, 1, 1, time).await?;
        samples.add(case.one, side, one.rate);
        let many = load(&server, case.method, CONNECTIONS, DEPTH, time).await?;
        samples.add(case.many, side, many.rate);
        for (metric, value) in [(case.cpu, many.cpu), (case.bytes, many.bytes)] {
            if let Some(metric) = metric {
                samples.add(metric, side, value);
            }
        }
    }
    Ok(())
}

/// Answers in a second, and of each the server's CPU in microseconds and its size.
struct Load {
    rate: f64,
    cpu: f64,
    bytes: f64,
}

async fn load(
    server: &Server,
    method: &str,
    connections: usize,
    depth: usize,
    time: Duration,
) -> anyhow::Result<Load> {
    let mut links = crowd(server.address(), connections).await?;
    tokio::time::sleep(SETTLE).await;
    let question = request("1", method, &json!({}));
    let first = links.first_mut().context("nobody is there")?;
    let bytes = float(first.ask(&question).await?.len());
    let cpu = server.cpu()?;
    let began = Instant::now();
    let mut pumps = JoinSet::new();
    for link in links {
        pumps.spawn(pump(link, question.clone(), depth, began + time));
    }
    let mut answers = 0;
    while let Some(pumped) = pumps.join_next().await {
        answers += pumped??;
    }
    ensure!(answers > 0, "no answer to {method} in {time:?}");
    let rate = float(answers) / began.elapsed().as_secs_f64();
    Ok(Load { rate, cpu: micros(server.cpu_since(cpu)?) / float(answers), bytes })
}

/// Keeps `depth` requests under way; answers how many were answered.
async fn pump(mut link: Link, one: Vec<u8>, depth: usize, until: Instant) -> anyhow::Result<usize> {
    let burst = one.repeat(depth);
    let mut answers = 0;
    let mut again = depth;
    while Instant::now() < until {
        link.send(&burst[..again * one.len()]).await?;
        // What comes later does not count; some answers of the original take minutes.
        let Ok(frame) = timeout_at(until, link.next()).await else { break };
        again = answered(frame?)?;
        while let Some(frame) = link.ready()? {
            again += answered(frame)?;
        }
        answers += again;
    }
    Ok(answers)
}

/// One for an answer, none for an event.
fn answered(frame: &[u8]) -> anyhow::Result<usize> {
    let is_answer = frame.starts_with(ANSWER);
    ensure!(!is_answer || is_ok(frame), "refused: {}", String::from_utf8_lossy(frame));
    Ok(usize::from(is_answer))
}
