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
use super::{Lab, SETTLE, fresh};

/// Chunks of one run.
const CHUNKS: usize = 200;
/// The most subscribers.
const MANY: usize = 1_000;
/// Runs at the same time, each in its own session.
const SESSIONS: usize = 4;
/// Between two looks whether all runs have been prepared.
const LOOK: Duration = Duration::from_millis(2);
/// Size of an event, where the gateway sent none.
const EVENT_BYTES: f64 = 290.0;
const CHAT_EVENT: &[u8] = br#"{"type":"event","event":"chat""#;
const FINAL: &[u8] = br#""state":"final""#;

struct Case {
    subscribers: usize,
    runs: usize,
    rate: &'static str,
    cpu: Option<&'static str>,
}

/// One, some and many subscribers. The bare server, which is measured last, sends
/// frames of the size that the gateway's had.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    // The original prepares a run for longer than it streams it: all of its runs are
    // prepared before anything is measured.
    let most = if side == Side::Original { SESSIONS } else { usize::MAX };
    let runs = |full: usize, quick: usize| lab.options.size(full, quick).min(most);
    let of = |subscribers, runs, rate, cpu| Case { subscribers, runs, rate, cpu };
    let cases = [
        of(1, runs(200, 20), "fanout-1", None),
        of(100, runs(48, 8), "fanout-100", Some("fanout-100-cpu")),
        of(MANY, runs(16, 4), "fanout-1000", Some("fanout-1000-cpu")),
    ];
    for case in cases {
        let (server, _home) = fresh(lab, side).await?;
        let (orders, ends) = if side == Side::Bare {
            let bytes = samples.median("fanout-bytes", Side::Gateway).unwrap_or(EVENT_BYTES);
            (vec![masked(&format!("fanout {} {bytes:.0}", case.events()))], 1)
        } else {
            (chat_sends(case.runs), case.runs)
        };
        lab.provider.forget();
        let sent = case.watch(lab, &server, side, samples, orders, ends).await?;
        if case.subscribers == MANY {
            samples.add("fanout-bytes", side, float(sent.bytes / sent.frames));
        }
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
    /// What each subscriber gets.
    const fn events(&self) -> usize {
        CHUNKS * self.runs
    }

    /// Sends `orders`, some at once and each of the others when a run has
    /// ended, and waits until everybody has seen all `ends`.
    async fn watch(
        &self,
        lab: &Lab,
        server: &Server,
        side: Side,
        samples: &mut Samples,
        orders: Vec<Vec<u8>>,
        ends: usize,
    ) -> anyhow::Result<Sent> {
        let mut links = crowd(server.address(), self.subscribers).await?;
        tokio::time::sleep(SETTLE).await;
        let orders_at_once = orders.len().min(SESSIONS);
        let mut readers = JoinSet::new();
        if let Some(driver) = links.pop() {
            readers.spawn(read(driver, orders, ends));
        }
        for link in links {
            readers.spawn(read(link, Vec::new(), ends));
        }
        while side == Side::Original && lab.provider.times().requests.len() < orders_at_once {
            tokio::time::sleep(LOOK).await;
        }
        let cpu = server.cpu()?;
        let began = Instant::now();
        let mut sum = Sent::default();
        while let Some(sent) = readers.join_next().await {
            let sent = sent??;
            sum.frames += sent.frames;
            sum.bytes += sent.bytes;
        }
        let seconds = began.elapsed().as_secs_f64();
        let wanted = self.events() * self.subscribers;
        ensure!(sum.frames >= wanted, "{} events instead of {wanted}", sum.frames);
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
