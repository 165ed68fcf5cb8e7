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

/// Messages in one session, one after the other, then a slow stream.
pub async fn measure(lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    let (gateway, _home) = fresh(lab).await?;
    let mut link = Link::hello(gateway.address()).await?;
    tokio::time::sleep(SETTLE).await;
    let first = to_provider(&mut link, &lab.provider, 0).await?;
    samples.add("send-first", Side::Gateway, millis(first));
    let mut times = Vec::new();
    for run in 1..=lab.options.size(30, 5) {
        times.push(millis(to_provider(&mut link, &lab.provider, run).await?));
    }
    samples.add("send", Side::Gateway, percentile(&times, 50).context("nothing sent")?);
    let chunks = lab.options.size(200, 20);
    let times = to_client(&mut link, &lab.provider, chunks).await?;
    samples.add("chunk", Side::Gateway, percentile(&times, 50).context("no events")?);
    Ok(())
}

/// From the client's write to the provider's read of the request.
async fn to_provider(link: &mut Link, provider: &Provider, run: usize) -> anyhow::Result<Duration> {
    provider.forget();
    let sent = Instant::now();
    link.send(&send(run, 1, Duration::ZERO)).await?;
    while find(link.next().await?, FINAL).is_none() {}
    let came = provider.times().requests.first().copied().context("the provider was not asked")?;
    Ok(came - sent)
}

/// From each chunk of the provider to the event that carries it.
async fn to_client(
    link: &mut Link,
    provider: &Provider,
    chunks: usize,
) -> anyhow::Result<Vec<f64>> {
    provider.forget();
    link.send(&send(PACED, chunks, PACE)).await?;
    let mut came = Vec::new();
    loop {
        let frame = link.next().await?;
        let now = Instant::now();
        if find(frame, ASSISTANT).is_some() {
            came.push(now);
        } else if find(frame, FINAL).is_some() {
            break;
        }
    }
    let sent = provider.times().chunks;
    Ok(sent.iter().zip(&came).map(|(sent, came)| micros(*came - *sent)).collect())
}

fn send(number: usize, chunks: usize, pause: Duration) -> Vec<u8> {
    let params = json!({
        "sessionKey": "main",
        "message": provider::message(number, chunks, pause),
        "idempotencyKey": format!("run-{number}"),
    });
    request("send", "chat.send", &params)
}
