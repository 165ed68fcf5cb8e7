//! `sessions.list` of many sessions.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::client::{Link, count, request};
use super::super::provider;
use super::super::state;
use super::super::stats::{Samples, Side, millis, percentile};
use super::{Lab, SETTLE};

/// Sessions in the index.
pub const COUNT: usize = 5_000;
const RUNS: usize = 20;
const ACTIVE: &[u8] = br#""hasActiveRun":true"#;
/// One chunk every 20 ms is what fast models do.
const PACE: Duration = Duration::from_millis(20);
/// Longer than the measurement takes; the gateway is killed before.
const CHUNKS: usize = 3_000;

/// A server that needs longer is asked less often.
const LONG_ENOUGH: Duration = Duration::from_secs(10);

/// Lists as clients do, 100 rows, in quiet and while runs stream; and all rows.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let home = lab.many.get(&side).context("no home with sessions")?;
    let gateway = home.start().await?;
    let mut link = Link::hello(gateway.address()).await?;
    tokio::time::sleep(SETTLE).await;
    let times = list(&mut link, &json!({"limit": 100}), lab.options.size(300, 50)).await?;
    add(samples, side, "list-p50", &times, 50)?;
    add(samples, side, "list-p99", &times, 99)?;
    rows(&mut link, &json!({"limit": COUNT}), br#""sessionId":"#, COUNT).await?;
    let times = list(&mut link, &json!({"limit": COUNT}), lab.options.size(10, 2)).await?;
    add(samples, side, "list-all", &times, 50)?;

    if side == Side::Original {
        // Its lists take longer than its runs.
        return Ok(());
    }
    let round = gateway.address().port();
    for run in 0..RUNS {
        let params = json!({
            "sessionKey": state::key(run),
            "message": provider::message(run, CHUNKS, PACE),
            "idempotencyKey": format!("list-{round}-{run}"),
        });
        let answer = link.ask(&request("send", "chat.send", &params)).await?;
        ensure!(count(answer, b"started") == 1, "{}", String::from_utf8_lossy(answer));
    }
    rows(&mut link, &json!({"limit": 100}), ACTIVE, RUNS).await?;
    lab.provider.forget();
    let times = list(&mut link, &json!({"limit": 100}), lab.options.size(300, 50)).await?;
    rows(&mut link, &json!({"limit": 100}), ACTIVE, RUNS).await?;
    let chunks = lab.provider.times().chunks.len();
    ensure!(chunks >= RUNS, "only {chunks} chunks were streamed meanwhile");
    add(samples, side, "list-streaming-p99", &times, 99)
}

/// Makes sure that the answer is what is meant to be measured.
async fn rows(link: &mut Link, params: &Value, mark: &[u8], wanted: usize) -> anyhow::Result<()> {
    let found = count(link.ask(&request("list", "sessions.list", params)).await?, mark);
    ensure!(
        found == wanted,
        "{found} rows with {} instead of {wanted}",
        String::from_utf8_lossy(mark)
    );
    Ok(())
}

async fn list(link: &mut Link, params: &Value, times: usize) -> anyhow::Result<Vec<f64>> {
    let request = request("list", "sessions.list", params);
    let mut taken = Vec::with_capacity(times);
    let end = Instant::now() + LONG_ENOUGH;
    while taken.len() < times && (taken.is_empty() || Instant::now() < end) {
        let began = Instant::now();
        link.ask(&request).await?;
        taken.push(millis(began.elapsed()));
    }
    Ok(taken)
}

fn add(
    samples: &mut Samples,
    side: Side,
    metric: &'static str,
    times: &[f64],
    percent: usize,
) -> anyhow::Result<()> {
    samples.add(metric, side, percentile(times, percent).context("nothing listed")?);
    Ok(())
}
