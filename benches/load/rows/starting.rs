//! Whether others wait while runs start.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use tokio::time::Instant;

use super::super::client::{Link, count, request};
use super::super::provider;
use super::super::stats::{Samples, Side, millis};
use super::{Lab, SETTLE, fresh};

const RUNS: usize = 20;
const CHUNKS: usize = 20;
const PACE: Duration = Duration::from_millis(20);
/// Who has not begun all of them by then has shown enough.
const LONG_ENOUGH: Duration = Duration::from_mins(1);

/// The slowest `health` of one client while another begins runs in as many
/// sessions at once.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let (gateway, _home) = fresh(lab, side).await?;
    let mut sender = Link::hello(gateway.address()).await?;
    let mut prober = Link::hello(gateway.address()).await?;
    tokio::time::sleep(SETTLE).await;
    lab.provider.forget();
    for run in 0..RUNS {
        let params = json!({
            "sessionKey": format!("agent:main:start-{run}"),
            "message": provider::message(run, CHUNKS, PACE),
            "idempotencyKey": format!("start-{run}"),
        });
        sender.send(&request("send", "chat.send", &params)).await?;
    }
    let health = request("health", "health", &json!({}));
    let mut slowest = Duration::ZERO;
    let began = Instant::now();
    while lab.provider.times().requests.len() < RUNS && began.elapsed() < LONG_ENOUGH {
        let asked = Instant::now();
        prober.ask(&health).await?;
        slowest = slowest.max(asked.elapsed());
    }
    if began.elapsed() < LONG_ENOUGH {
        accepted(&mut sender).await?;
    }
    samples.add("starting", side, millis(slowest));
    Ok(())
}

/// Reads the answers to all messages.
async fn accepted(sender: &mut Link) -> anyhow::Result<()> {
    for _ in 0..RUNS {
        let answer = sender.answer().await?;
        ensure!(count(answer, b"started") == 1, "{}", String::from_utf8_lossy(answer));
    }
    Ok(())
}
