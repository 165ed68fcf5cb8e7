//! `health` round trips.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::client::{ANSWER, Link, crowd, is_ok, request};
use super::super::server::Server;
use super::super::stats::{Samples, Side, float, micros};
use super::{Lab, SETTLE, bare, fresh};

/// Measures both servers.
pub async fn measure(lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    let time = Duration::from_millis(lab.options.size(1_500, 300));
    let (gateway, _home) = fresh(lab).await?;
    of(&gateway, Side::Gateway, time, samples).await?;
    of(&bare().await?, Side::Bare, time, samples).await
}

async fn of(
    server: &Server,
    side: Side,
    time: Duration,
    samples: &mut Samples,
) -> anyhow::Result<()> {
    let (rate, _) = load(server, side, samples, 1, 1, time).await?;
    samples.add("health-1", side, rate);
    let (rate, cpu) = load(server, side, samples, 50, 8, time).await?;
    samples.add("health-50", side, rate);
    samples.add("health-50-cpu", side, cpu);
    Ok(())
}

/// Requests in a second, and server CPU of each in microseconds.
async fn load(
    server: &Server,
    side: Side,
    samples: &mut Samples,
    connections: usize,
    depth: usize,
    time: Duration,
) -> anyhow::Result<(f64, f64)> {
    let mut links = crowd(server.address(), connections).await?;
    tokio::time::sleep(SETTLE).await;
    if let Some(link) = links.first_mut() {
        let bytes = link.ask(&request("1", "health", &json!({}))).await?.len();
        samples.add("health-bytes", side, float(bytes));
    }
    let cpu = server.cpu()?;
    let began = Instant::now();
    let mut pumps = JoinSet::new();
    for link in links {
        pumps.spawn(pump(link, depth, began + time));
    }
    let mut answers = 0;
    while let Some(pumped) = pumps.join_next().await {
        answers += pumped??;
    }
    let rate = float(answers) / began.elapsed().as_secs_f64();
    Ok((rate, micros(server.cpu_since(cpu)?) / float(answers)))
}

/// Keeps `depth` requests under way; answers how many were answered.
async fn pump(mut link: Link, depth: usize, until: Instant) -> anyhow::Result<usize> {
    let one = request("1", "health", &json!({}));
    let burst = one.repeat(depth);
    let mut answers = 0;
    let mut again = depth;
    while again > 0 || Instant::now() < until {
        link.send(&burst[..again * one.len()]).await?;
        again = answered(link.next().await?)?;
        while let Some(frame) = link.ready()? {
            again += answered(frame)?;
        }
        answers += again;
        if Instant::now() >= until {
            break;
        }
    }
    Ok(answers)
}

/// One for an answer, none for an event.
fn answered(frame: &[u8]) -> anyhow::Result<usize> {
    let is_answer = frame.starts_with(ANSWER);
    ensure!(!is_answer || is_ok(frame), "refused: {}", String::from_utf8_lossy(frame));
    Ok(usize::from(is_answer))
}
