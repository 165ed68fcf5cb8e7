//! Events to many subscribers.
//!
//! The events are those of a run whose model streams: the gateway makes one
//! `agent` event of each chunk and sends it to every connection, uncoalesced
//! and unthrottled, so this is its own hot path from the provider's bytes to
//! the sockets. `chat` deltas would be the wrong ones: they are sent at most
//! every 150 ms. `chat.inject` would be too: it waits for the disk. The texts
//! are short, since every event repeats the run's text so far; that makes them
//! about 300 bytes. The bare server sends as many frames of the same size.

use serde_json::json;
use std::time::Duration;

use anyhow::ensure;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::client::{Link, crowd, find, masked, request};
use super::super::provider;
use super::super::server::Server;
use super::super::stats::{Samples, Side, float, micros};
use super::{Lab, SETTLE, bare, fresh};

/// Chunks of one run.
const CHUNKS: usize = 200;
/// Runs at the same time, each in its own session.
const SESSIONS: usize = 4;
const CHAT_EVENT: &[u8] = br#"{"type":"event","event":"chat""#;
const FINAL: &[u8] = br#""state":"final""#;

struct Case {
    subscribers: usize,
    runs: usize,
    rate: &'static str,
    cpu: Option<&'static str>,
}

/// Measures both servers with one, some and many subscribers.
pub async fn measure(lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    let size = |full, quick| lab.options.size(full, quick);
    let cases = [
        Case { subscribers: 1, runs: size(200, 20), rate: "fanout-1", cpu: None },
        Case {
            subscribers: 100,
            runs: size(48, 8),
            rate: "fanout-100",
            cpu: Some("fanout-100-cpu"),
        },
        Case {
            subscribers: 1_000,
            runs: size(16, 4),
            rate: "fanout-1000",
            cpu: Some("fanout-1000-cpu"),
        },
    ];
    for case in cases {
        let (gateway, _home) = fresh(lab).await?;
        let first = chat_sends(case.runs);
        let sent = case.watch(&gateway, Side::Gateway, samples, first, case.runs).await?;
        drop(gateway);
        let chunks = CHUNKS * case.runs * case.subscribers;
        ensure!(sent.frames >= chunks, "{} events for {chunks} chunks", sent.frames);
        let events = sent.frames / case.subscribers;
        let bytes = sent.bytes / sent.frames;
        samples.add("fanout-bytes", Side::Gateway, float(bytes));
        let order = vec![masked(&format!("fanout {events} {bytes}"))];
        let sent = case.watch(&bare().await?, Side::Bare, samples, order, 1).await?;
        samples.add("fanout-bytes", Side::Bare, float(sent.bytes / sent.frames));
    }
    Ok(())
}

fn chat_sends(runs: usize) -> Vec<Vec<u8>> {
    let send = |run: usize| {
        let params = json!({
            "sessionKey": format!("fan-{}", run % SESSIONS),
            "message": provider::message(run, CHUNKS, Duration::ZERO),
            "idempotencyKey": format!("run-{run}"),
        });
        request(&run.to_string(), "chat.send", &params)
    };
    (0..runs).map(send).collect()
}

/// What subscribers got.
#[derive(Default)]
struct Sent {
    frames: usize,
    bytes: usize,
}

impl Case {
    /// Sends `orders`, some at once and each of the others when a run has
    /// ended, and waits until everybody has seen all `ends`.
    async fn watch(
        &self,
        server: &Server,
        side: Side,
        samples: &mut Samples,
        orders: Vec<Vec<u8>>,
        ends: usize,
    ) -> anyhow::Result<Sent> {
        let mut links = crowd(server.address(), self.subscribers).await?;
        tokio::time::sleep(SETTLE).await;
        let cpu = server.cpu()?;
        let began = Instant::now();
        let mut readers = JoinSet::new();
        if let Some(driver) = links.pop() {
            readers.spawn(read(driver, orders, ends));
        }
        for link in links {
            readers.spawn(read(link, Vec::new(), ends));
        }
        let mut sum = Sent::default();
        while let Some(sent) = readers.join_next().await {
            let sent = sent??;
            sum.frames += sent.frames;
            sum.bytes += sent.bytes;
        }
        let seconds = began.elapsed().as_secs_f64();
        ensure!(sum.frames >= self.subscribers, "no events came");
        samples.add(self.rate, side, float(sum.frames) / seconds);
        if let Some(metric) = self.cpu {
            samples.add(metric, side, micros(server.cpu_since(cpu)?) / float(sum.frames));
        }
        Ok(sum)
    }
}

/// Counts what comes until all runs have ended.
async fn read(mut link: Link, orders: Vec<Vec<u8>>, ends: usize) -> anyhow::Result<Sent> {
    let mut orders = orders.into_iter();
    for order in orders.by_ref().take(SESSIONS) {
        link.send(&order).await?;
    }
    let mut sent = Sent::default();
    let mut ended = 0;
    while ended < ends {
        let frame = link.next().await?;
        sent.frames += 1;
        sent.bytes += frame.len();
        if frame.starts_with(CHAT_EVENT) && find(frame, FINAL).is_some() {
            ended += 1;
            if let Some(order) = orders.next() {
                link.send(&order).await?;
            }
        }
    }
    Ok(sent)
}
