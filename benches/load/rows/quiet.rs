//! What it costs that nothing happens, and what the command line waits for.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::time::Instant;

use super::super::client::crowd;
use super::super::state;
use super::super::stats::{Samples, Side, millis, percentile};
use super::{Lab, SETTLE, indexed};

const SESSIONS: usize = 500;
const CLIENTS: usize = 50;

/// CPU time while clients are connected and nobody does anything; then how long
/// `clawgate health` takes.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let home = lab.home_of(side)?;
    state::sessions(&home, SESSIONS)?;
    let home = indexed(home).await?;
    let gateway = home.start().await?;
    let _links = crowd(gateway.address(), CLIENTS).await?;
    tokio::time::sleep(SETTLE).await;
    let time = lab.options.size(Duration::from_mins(1), Duration::from_secs(3));
    let before = gateway.cpu()?;
    tokio::time::sleep(time).await;
    let used = gateway.cpu_since(before)?;
    samples.add("quiet", side, used.as_secs_f64() / time.as_secs_f64() * 100.0);

    let mut times = Vec::new();
    let count = if side == Side::Original { 3 } else { lab.options.size(20, 3) };
    for _ in 0..count {
        let mut command = home.command();
        // The gateway's is found by its state directory.
        command.env("OPENCLAW_GATEWAY_PORT", gateway.address().port().to_string());
        command.arg("health").stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        ensure!(command.status()?.success(), "the command `health` fails");
        times.push(millis(began.elapsed()));
    }
    samples.add("command", side, percentile(&times, 50).context("never asked")?);
    Ok(())
}
