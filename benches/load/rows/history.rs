//! `chat.history` of a large transcript.

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::time::Instant;

use super::super::client::{Link, count, request};
use super::super::gateway::Home;
use super::super::state;
use super::super::stats::{Samples, Side, millis, percentile};
use super::{Lab, SETTLE, indexed};

const MESSAGES: usize = 200;
/// Size of a transcript that the original can read, too: it reads all of it.
const MEBIBYTES: u32 = 16;

/// The session that others write to meanwhile.
const OTHER: usize = 1;

/// Reads a transcript that all servers can read, and the gateway a large one.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    if side == Side::Gateway {
        large(lab, samples).await?;
    }
    let home = lab.home_of(side)?;
    state::long_session(&home, MEBIBYTES)?;
    let home = indexed(home).await?;
    let server = home.start().await?;
    let mut link = Link::hello(server.address()).await?;
    tokio::time::sleep(SETTLE).await;
    let times = read(&mut link, lab.options.size(30, 5)).await?;
    samples.add("history-16", side, percentile(&times, 50).context("nothing read")?);
    Ok(())
}

/// Looks at a transcript that nobody has counted, then at the same one again
/// and again; the first of those also for the memory it needs.
async fn large(lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    let home = lab.long.as_ref().context("no home with a large transcript")?;
    first_look(home, samples).await?;
    let gateway = home.start().await?;
    let mut link = Link::hello(gateway.address()).await?;
    tokio::time::sleep(SETTLE).await;
    let before = gateway.memory()?;
    let messages = count(link.ask(&history()).await?, br#""__openclaw":"#);
    ensure!(messages == MESSAGES, "{messages} messages came");
    let grown = gateway.peak_memory()? - before;
    samples.add("history-memory", Side::Gateway, grown / 1024.0);
    let times = read(&mut link, lab.options.size(30, 5)).await?;
    samples.add("history", Side::Gateway, percentile(&times, 50).context("nothing read")?);
    Ok(())
}

/// The times of so many looks, in milliseconds.
async fn read(link: &mut Link, looks: usize) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..looks {
        let began = Instant::now();
        let messages = count(link.ask(&history()).await?, br#""__openclaw":"#);
        times.push(millis(began.elapsed()));
        ensure!(messages == MESSAGES, "{messages} messages came");
    }
    Ok(times)
}

/// A transcript that the gateway did not write is counted once; the index
/// remembers. Others must not notice.
async fn first_look(home: &Home, samples: &mut Samples) -> anyhow::Result<()> {
    home.forget_index()?;
    let gateway = home.start().await?;
    let mut reader = Link::hello(gateway.address()).await?;
    let mut writer = Link::hello(gateway.address()).await?;
    let params = json!({"sessionKey": state::key(OTHER), "message": "meanwhile"});
    let inject = request("inject", "chat.inject", &params);
    ensure!(count(writer.ask(&inject).await?, br#""ok":true"#) > 0, "nothing was injected");
    tokio::time::sleep(SETTLE).await;
    let began = Instant::now();
    let looking = async {
        let messages = count(reader.ask(&history()).await?, br#""__openclaw":"#);
        ensure!(messages == MESSAGES, "{messages} messages came");
        Ok(millis(began.elapsed()))
    };
    let mut looking = std::pin::pin!(looking);
    let mut waits = Vec::new();
    let taken = loop {
        let asked = Instant::now();
        tokio::select! {
            biased;
            taken = &mut looking => break taken?,
            answer = writer.ask(&inject) => answer?,
        };
        waits.push(millis(asked.elapsed()));
    };
    gateway.terminate()?;
    samples.add("history-first", Side::Gateway, taken);
    let slowest = percentile(&waits, 100).context("nothing was written meanwhile")?;
    samples.add("history-meanwhile", Side::Gateway, slowest);
    Ok(())
}

fn history() -> Vec<u8> {
    request("history", "chat.history", &json!({"sessionKey": state::key(0), "limit": MESSAGES}))
}
