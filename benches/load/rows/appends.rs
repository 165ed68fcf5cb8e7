//! Durable appends: how many, and how long one waits for the others.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::client::{ANSWER, Link, crowd, is_ok, request};
use super::super::server::Server;
use super::super::stats::{Samples, Side, float, millis, percentile};
use super::super::{machine, state};
use super::{Lab, SETTLE, indexed};

const LINKS: usize = 8;
/// Sessions of each connection, one append under way in each.
const SESSIONS: usize = 32;
/// Sessions that are written at once, each by a connection of its own.
const WRITERS: usize = 100;
/// What is appended is about as long as a sentence.
const TEXT: &str = "a note of the usual length, which is not much more than this";

/// Appends through `chat.inject`; each is answered when it is on disk.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let time = Duration::from_millis(lab.options.size(2_000, 500));
    let home = lab.home_of(side)?;
    state::sessions(&home, LINKS * SESSIONS)?;
    let home = indexed(home).await?;
    let gateway = home.start().await?;
    let links = crowd(gateway.address(), LINKS).await?;
    tokio::time::sleep(SETTLE).await;
    let began = Instant::now();
    let mut pumps = JoinSet::new();
    for (index, link) in links.into_iter().enumerate() {
        pumps.spawn(pump(link, index * SESSIONS, began + time));
    }
    let mut appended = 0;
    while let Some(pumped) = pumps.join_next().await {
        appended += pumped??;
    }
    if side == Side::Gateway {
        samples.add("sync", side, machine::sync_time()?);
    }
    samples.add("appends", side, float(appended) / began.elapsed().as_secs_f64());
    waits(&gateway, time, side, samples).await
}

/// How long each append takes while every session is written by somebody who waits for
/// the answer before he sends the next.
async fn waits(
    gateway: &Server,
    time: Duration,
    side: Side,
    samples: &mut Samples,
) -> anyhow::Result<()> {
    let links = crowd(gateway.address(), WRITERS).await?;
    tokio::time::sleep(SETTLE).await;
    let until = Instant::now() + time;
    let mut writers = JoinSet::new();
    for (index, link) in links.into_iter().enumerate() {
        writers.spawn(write(link, index, until));
    }
    let mut taken = Vec::new();
    while let Some(written) = writers.join_next().await {
        taken.extend(written??);
    }
    for (metric, percent) in [("append-p99", 99), ("append-max", 100)] {
        let time = percentile(&taken, percent).context("nothing appended")?;
        samples.add(metric, side, time);
    }
    Ok(())
}

/// Appends to a session, one after the other; answers what each took, in milliseconds.
async fn write(mut link: Link, index: usize, until: Instant) -> anyhow::Result<Vec<f64>> {
    let request = inject("inject", index);
    let mut taken = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        link.ask(&request).await?;
        taken.push(millis(began.elapsed()));
    }
    Ok(taken)
}

fn inject(id: &str, session: usize) -> Vec<u8> {
    let params = json!({"sessionKey": state::key(session), "message": TEXT});
    request(id, "chat.inject", &params)
}

/// Keeps an append under way in each of its sessions, counted from `first`.
async fn pump(mut link: Link, first: usize, until: Instant) -> anyhow::Result<usize> {
    let request = |index: usize| inject(&index.to_string(), first + index);
    let requests: Vec<_> = (0..SESSIONS).map(request).collect();
    link.send(&requests.concat()).await?;
    let mut appended = 0;
    while Instant::now() < until {
        let answer = link.answer().await?;
        ensure!(is_ok(answer), "not appended: {}", String::from_utf8_lossy(answer));
        appended += 1;
        let index = index_of(answer).context("an answer without a number")?;
        link.send(&requests[index]).await?;
    }
    Ok(appended)
}

/// The id of an answer, which is its first string after the type.
fn index_of(answer: &[u8]) -> Option<usize> {
    let id = answer.strip_prefix(ANSWER)?.strip_prefix(br#","id":""#)?;
    let end = id.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&id[..end]).ok()?.parse().ok()
}
