//! What is counted.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::ensure;
use clawgate::support::BoxFuture;
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::load::client::{Link, count, crowd, find, request};
use super::load::provider;
use super::load::state;

/// Who get every event.
const CROWD: usize = 100;
/// Sessions in the index: as many as a list has rows at once.
pub const SESSIONS: usize = 100;
/// Messages that clients ask for.
const HISTORY: usize = 200;

const CHAT_EVENT: &[u8] = br#"{"type":"event","event":"chat""#;
const FINAL: &[u8] = br#""state":"final""#;

/// Something that is done few times and many times.
pub struct Line {
    /// What it is called in the file.
    pub name: &'static str,
    /// How often it is done in the first run.
    pub few: usize,
    /// How often in the second.
    pub many: usize,
    /// For how many each time is done.
    pub share: usize,
    /// By how many percent two counts of one program may differ: what is read and
    /// written at once depends on the moment, and an event costs half as much in a
    /// write that it shares.
    pub tolerance: u64,
    /// Does it so often.
    pub work: fn(SocketAddr, usize) -> BoxFuture<'static, anyhow::Result<()>>,
}

/// All of them.
pub static LINES: [Line; 8] = [
    Line {
        name: "connect",
        few: 5,
        many: 165,
        share: 1,
        tolerance: 20,
        work: |at, times| Box::pin(connects(at, times)),
    },
    Line {
        name: "health",
        few: 50,
        many: 2_850,
        share: 1,
        tolerance: 15,
        work: |at, times| Box::pin(ask(at, "health", json!({}), (br#""type":"res""#, 1), times)),
    },
    Line {
        name: "last-heartbeat",
        few: 50,
        many: 2_850,
        share: 1,
        tolerance: 15,
        work: |at, times| {
            Box::pin(ask(at, "last-heartbeat", json!({}), (br#""type":"res""#, 1), times))
        },
    },
    Line {
        name: "sessions.list of 100",
        few: 5,
        many: 45,
        share: 1,
        tolerance: 10,
        work: |at, times| {
            let rows: (&[u8], _) = (br#""sessionId":"#, SESSIONS);
            Box::pin(ask(at, "sessions.list", json!({}), rows, times))
        },
    },
    Line {
        name: "chat.history of 200",
        few: 2,
        many: 22,
        share: 1,
        tolerance: 10,
        work: |at, times| {
            let params = json!({"sessionKey": state::key(0), "limit": HISTORY});
            Box::pin(ask(at, "chat.history", params, (br#""role":"#, HISTORY), times))
        },
    },
    Line {
        name: "chat.send",
        few: 3,
        many: 33,
        share: 1,
        tolerance: 15,
        work: |at, times| Box::pin(sends(at, times)),
    },
    Line {
        name: "chunk of an answer",
        few: 50,
        many: 2_050,
        share: 1,
        tolerance: 30,
        work: |at, times| Box::pin(chunks(at, 1, times)),
    },
    Line {
        name: "event to one of 100",
        few: 20,
        many: 420,
        share: CROWD,
        tolerance: 40,
        work: |at, times| Box::pin(chunks(at, CROWD, times)),
    },
];

async fn connects(address: SocketAddr, times: usize) -> anyhow::Result<()> {
    for _ in 0..times {
        Link::hello(address).await?;
    }
    Ok(())
}

/// Asks one time after the other; a good answer holds something so often.
async fn ask(
    address: SocketAddr,
    method: &str,
    params: Value,
    (mark, wanted): (&[u8], usize),
    times: usize,
) -> anyhow::Result<()> {
    let mut link = Link::hello(address).await?;
    let request = request("1", method, &params);
    for _ in 0..times {
        let found = count(link.ask(&request).await?, mark);
        ensure!(found == wanted, "{found} instead of {wanted} in an answer to {method}");
    }
    Ok(())
}

/// Messages to sessions that there were not, each answered with one chunk.
async fn sends(address: SocketAddr, times: usize) -> anyhow::Result<()> {
    let mut link = Link::hello(address).await?;
    for number in 0..times {
        link.send(&send(number, 1)).await?;
        until_final(&mut link).await?;
    }
    Ok(())
}

/// One answer of many chunks, which so many clients see.
async fn chunks(address: SocketAddr, clients: usize, chunks: usize) -> anyhow::Result<()> {
    let mut links = crowd(address, clients).await?;
    if let Some(first) = links.first_mut() {
        first.send(&send(0, chunks)).await?;
    }
    try_join_all(links.iter_mut().map(until_final)).await.map(drop)
}

fn send(number: usize, chunks: usize) -> Vec<u8> {
    let params = json!({
        "sessionKey": format!("counted-{number}"),
        "message": provider::message(number, chunks, Duration::ZERO),
        "idempotencyKey": format!("run-{number}"),
    });
    request("send", "chat.send", &params)
}

async fn until_final(link: &mut Link) -> anyhow::Result<()> {
    loop {
        let frame = link.next().await?;
        if frame.starts_with(CHAT_EVENT) && find(frame, FINAL).is_some() {
            return Ok(());
        }
    }
}
