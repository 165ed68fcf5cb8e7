//! `chat.history` of a large transcript.

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::time::Instant;

use super::super::client::{Link, count, request};
use super::super::gateway::Home;
use super::super::state;
use super::super::stats::{Samples, Side, millis, percentile};
use super::{Lab, SETTLE};

const MESSAGES: usize = 200;

/// The first look at a transcript that the gateway did not write counts its
/// messages, once; the index remembers.
pub async fn counted(home: Home) -> anyhow::Result<Home> {
    let gateway = home.start().await?;
    Link::hello(gateway.address()).await?.ask(&history()).await?;
    gateway.terminate()?;
    Ok(home)
}

/// Asks again and again; the first one also for the memory it needs.
pub async fn measure(lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    let home = lab.long.as_ref().context("no home with a large transcript")?;
    let gateway = home.start().await?;
    let mut link = Link::hello(gateway.address()).await?;
    tokio::time::sleep(SETTLE).await;
    let before = gateway.memory()?;
    let messages = count(link.ask(&history()).await?, br#""__openclaw":"#);
    ensure!(messages == MESSAGES, "{messages} messages came");
    let grown = gateway.peak_memory()? - before;
    samples.add("history-memory", Side::Gateway, grown / 1024.0);
    let mut times = Vec::new();
    for _ in 0..lab.options.size(30, 5) {
        let began = Instant::now();
        link.ask(&history()).await?;
        times.push(millis(began.elapsed()));
    }
    samples.add("history", Side::Gateway, percentile(&times, 50).context("nothing read")?);
    Ok(())
}

fn history() -> Vec<u8> {
    request("history", "chat.history", &json!({"sessionKey": state::key(0), "limit": MESSAGES}))
}
