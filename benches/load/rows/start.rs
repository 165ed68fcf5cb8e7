//! Start and end of the process.

use super::super::stats::{Samples, Side, millis};
use super::super::{gateway, state};
use super::{Lab, SETTLE, fresh};

const SESSIONS: usize = 1_000;

/// Starts a server on nothing, and those that have sessions on some that they meet
/// for the first and for the second time. The original makes no index of its own.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let (server, _home) = fresh(lab, side).await?;
    samples.add("hello", side, millis(server.first_hello));
    tokio::time::sleep(SETTLE).await;
    samples.add("exit", side, millis(server.terminate()?));
    if side == Side::Bare {
        return Ok(());
    }
    let home = lab.home_of(side)?;
    state::sessions(&home, SESSIONS)?;
    if side == Side::Gateway {
        samples.add("program", side, gateway::size()?);
        let first = home.start().await?;
        samples.add("import-1000", side, millis(first.first_hello));
        first.terminate()?;
    }
    let second = home.start().await?;
    samples.add("hello-1000", side, millis(second.first_hello));
    second.terminate()?;
    Ok(())
}
