//! From message to provider to client.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use tokio::time::Instant;

use super::super::client::{Link, find, request};
use super::super::provider::{self, Provider};
use super::super::stats::{Samples, Side, micros, millis, percentile};
use super::{Lab, SETTLE, fresh};

const PACE: Duration = Duration::from_millis(5);
/// Number of the message that is answered slowly; the others are fewer.
const PACED: usize = 1_000;
const ASSISTANT: &[u8] = br#""stream":"assistant""#;
const FINAL: &[u8] = br#""state":"final""#;

/// The original keeps a session for a moment after `final`, and lets the next message wait.
const BETWEEN: Duration = Duration::from_secs(1);

/// Messages in one session, one after the other, then a slow stream.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let (gateway, _home) = fresh(lab, side).await?;
    let mut link = Link::hello(gateway.address()).await?;
    tokio::time::sleep(SETTLE).await;
    let first = to_provider(&mut link, &lab.provider, 0).await?;
    let first = first.context("the provider was not asked")?;
    samples.add("send-first", side, millis(first));
    let mut times = Vec::new();
    for run in 1..=lab.options.size(30, 5) {
        between(side).await;
        times.extend(to_provider(&mut link, &lab.provider, run).await?.map(millis));
    }
    samples.add("send", side, percentile(&times, 50).context("nothing sent")?);
    between(side).await;
    let chunks = lab.options.size(200, 20);
    let times = to_client(&mut link, &lab.provider, chunks).await?;
    samples.add("chunk", side, percentile(&times, 50).context("no events")?);
    Ok(())
}

async fn between(side: Side) {
    if side == Side::Original {
        tokio::time::sleep(BETWEEN).await;
    }
}

/// From the client's write to the provider's read of the request. Nothing when the
/// message had to wait for the one before.
async fn to_provider(
    link: &mut Link,
    provider: &Provider,
    run: usize,
) -> anyhow::Result<Option<Duration>> {
    provider.forget();
    let sent = Instant::now();
    link.send(&send(run, 1, Duration::ZERO)).await?;
    let own = format!("\"run-{run}\"");
    while !is_of(link.next().await?, &own, FINAL) {}
    Ok(provider.times().requests.first().map(|came| *came - sent))
}

/// From each chunk of the provider to the event that carries it.
async fn to_client(
    link: &mut Link,
    provider: &Provider,
    chunks: usize,
) -> anyhow::Result<Vec<f64>> {
    provider.forget();
    link.send(&send(PACED, chunks, PACE)).await?;
    let own = format!("\"run-{PACED}\"");
    let mut came = Vec::new();
    loop {
        let frame = link.next().await?;
        let now = Instant::now();
        if is_of(frame, &own, ASSISTANT) {
            came.push(now);
        } else if is_of(frame, &own, FINAL) {
            break;
        }
    }
    let sent = provider.times().chunks;
    Ok(sent.iter().zip(&came).map(|(sent, came)| micros(*came - *sent)).collect())
}

/// Messages that had to wait have runs too, later.
fn is_of(frame: &[u8], run: &str, what: &[u8]) -> bool {
    find(frame, what).is_some() && find(frame, run.as_bytes()).is_some()
}

fn send(number: usize, chunks: usize, pause: Duration) -> Vec<u8> {
    let params = json!({
        "sessionKey": if number == PACED { "paced" } else { "main" },
        "message": provider::message(number, chunks, pause),
        "idempotencyKey": format!("run-{number}"),
    });
    request("send", "chat.send", &params)
}
