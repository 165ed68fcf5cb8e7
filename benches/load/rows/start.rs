//! Start and end of the process.

use super::super::state;
use super::super::stats::{Samples, Side, millis};
use super::{Lab, SETTLE, bare, fresh};

const SESSIONS: usize = 1_000;

/// Starts both servers, and the gateway on sessions that it meets for the
/// first and for the second time.
pub async fn measure(lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    let (gateway, _home) = fresh(lab).await?;
    samples.add("hello", Side::Gateway, millis(gateway.first_hello));
    tokio::time::sleep(SETTLE).await;
    samples.add("exit", Side::Gateway, millis(gateway.terminate()?));
    let bare = bare().await?;
    samples.add("hello", Side::Bare, millis(bare.first_hello));
    samples.add("exit", Side::Bare, millis(bare.terminate()?));

    let home = lab.home()?;
    state::sessions(&home, SESSIONS)?;
    let first = home.start().await?;
    samples.add("import-1000", Side::Gateway, millis(first.first_hello));
    first.terminate()?;
    let second = home.start().await?;
    samples.add("hello-1000", Side::Gateway, millis(second.first_hello));
    second.terminate()?;
    Ok(())
}
