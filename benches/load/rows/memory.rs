//! Memory, idle and per idle client.

use super::super::client::crowd;
use super::super::server::Server;
use super::super::stats::{Samples, Side, float};
use super::{Lab, SETTLE, bare, fresh};

/// Numbers of clients, and what is told for each: memory, and its own of it.
const CLIENTS: [(usize, &str, &str); 2] =
    [(100, "client-100", "client-100-own"), (1_000, "client-1000", "client-1000-own")];

/// Measures both servers.
pub async fn measure(lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    let (gateway, _home) = fresh(lab).await?;
    of(&gateway, Side::Gateway, samples).await?;
    of(&bare().await?, Side::Bare, samples).await
}

/// The clients are logged in and have been told of each other.
async fn of(server: &Server, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    tokio::time::sleep(SETTLE).await;
    let (idle, own) = (server.memory()?, server.own_memory()?);
    samples.add("idle", side, idle / 1024.0);
    samples.add("idle-own", side, own / 1024.0);
    let mut links = Vec::new();
    for (clients, metric, own_metric) in CLIENTS {
        links.extend(crowd(server.address(), clients - links.len()).await?);
        tokio::time::sleep(SETTLE).await;
        samples.add(metric, side, (server.memory()? - idle) / float(clients));
        samples.add(own_metric, side, (server.own_memory()? - own) / float(clients));
    }
    Ok(())
}
