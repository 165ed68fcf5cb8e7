//! Memory, idle and per idle client.

use super::super::client::Listeners;
use super::super::server::Server;
use super::super::stats::{Samples, Side, float};
use super::{Lab, SETTLE, fresh};

/// A number of clients, and what is told for each: memory, and its own of it.
type Case = (usize, &'static str, &'static str);

const CASES: [Case; 2] =
    [(100, "client-100", "client-100-own"), (1_000, "client-1000", "client-1000-own")];
const CROWD: [Case; 1] = [(10_000, "client-10000", "client-10000-own")];
const CROWD_QUICK: usize = 500;

/// Idle, and with more and more clients.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let (server, _home) = fresh(lab, side).await?;
    tokio::time::sleep(SETTLE).await;
    samples.add("idle", side, server.memory()? / 1024.0);
    samples.add("idle-own", side, server.own_memory()? / 1024.0);
    // The original needs minutes for 1 000: each is told to everybody.
    let cases = if lab.options.quick { &CASES[..1] } else { &CASES };
    grow(&server, side, cases, samples).await
}

/// With very many clients.
pub async fn crowd(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let (server, _home) = fresh(lab, side).await?;
    tokio::time::sleep(SETTLE).await;
    let cases = CROWD.map(|(clients, all, own)| (lab.options.size(clients, CROWD_QUICK), all, own));
    grow(&server, side, &cases, samples).await
}

/// The clients are logged in, have been told of each other and read what comes.
async fn grow(
    server: &Server,
    side: Side,
    cases: &[Case],
    samples: &mut Samples,
) -> anyhow::Result<()> {
    let (idle, own) = (server.memory()?, server.own_memory()?);
    let mut listeners = Listeners::default();
    for (clients, metric, own_metric) in cases {
        listeners.grow(server.address(), *clients).await?;
        tokio::time::sleep(SETTLE).await;
        listeners.all_there()?;
        samples.add(metric, side, (server.memory()? - idle) / float(*clients));
        samples.add(own_metric, side, (server.own_memory()? - own) / float(*clients));
    }
    Ok(())
}
