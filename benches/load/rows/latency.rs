//! How long events take to many subscribers when there is time for each of them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use serde_json::json;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::super::client::{Link, crowd, find, masked, request};
use super::super::provider;
use super::super::server::Server;
use super::super::stats::{Samples, Side, millis, percentile};
use super::{Lab, SETTLE, fresh};

const SUBSCRIBERS: usize = 1_000;
/// A fast model, or several that talk at once.
const PACE: Duration = Duration::from_millis(50);
/// About as large as the gateway's events are.
const BYTES: usize = 330;
const STALLED: usize = 50;
const STALLED_QUICK: usize = 5;
/// They come together: the gateway gives up on those who stalled for 30 s.
const AT_ONCE: usize = 16;
/// Nobody who stalls has a large buffer: what does not fit is the server's concern.
const STALLED_BUFFER: u32 = 4 * 1024;
/// What they ask for and do not read is more than the kernel keeps for a connection.
const UNREAD: usize = 8 * 1024 * 1024;
/// A server that takes no more requests for so long has stopped reading.
const FULL: Duration = Duration::from_millis(500);
/// How long it may take until all of them stall; the gateway gives up on them later.
const STALLING: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// One event after the other, first to those who read, then beside some who do not.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let (server, _home) = fresh(lab, side).await?;
    let mut links = crowd(server.address(), lab.options.size(SUBSCRIBERS, 100)).await?;
    tokio::time::sleep(SETTLE).await;
    let events = lab.options.size(200, 40);
    let times = deliver(lab, side, &mut links, events, 0).await?;
    add(samples, side, ["latency-p50", "latency-p99", "latency-max"], &times)?;

    let count = lab.options.size(STALLED, STALLED_QUICK);
    let _stalled = stall(&server, side, count).await?;
    let times = deliver(lab, side, &mut links, events, 1).await.context("beside stalled ones")?;
    let stalled = server.stalled_peers()?;
    ensure!(stalled >= count, "only {stalled} connections stalled until the end");
    add(samples, side, ["stalled-p50", "stalled-p99", "stalled-max"], &times)
}

fn add(
    samples: &mut Samples,
    side: Side,
    metrics: [&'static str; 3],
    times: &[f64],
) -> anyhow::Result<()> {
    for (metric, percent) in metrics.into_iter().zip([50, 99, 100]) {
        samples.add(metric, side, percentile(times, percent).context("nothing delivered")?);
    }
    Ok(())
}

/// From each chunk of the provider, or order to the bare server, to every subscriber.
async fn deliver(
    lab: &Lab,
    side: Side,
    links: &mut Vec<Link>,
    events: usize,
    run: usize,
) -> anyhow::Result<Vec<f64>> {
    let mark: &[u8] =
        if side == Side::Bare { br#""event":"agent""# } else { br#""stream":"assistant""# };
    let mut driver = links.pop().context("nobody is there")?;
    let mut readers = JoinSet::new();
    for mut link in links.drain(..) {
        readers.spawn(async move {
            let came = read(&mut link, mark, events).await?;
            anyhow::Ok((link, came))
        });
    }
    lab.provider.forget();
    let mut sent = Vec::new();
    if side == Side::Bare {
        let order = masked(&format!("tell {BYTES}"));
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..events {
            pace.tick().await;
            sent.push(Instant::now());
            driver.send(&order).await?;
        }
    } else {
        let params = json!({
            "sessionKey": format!("agent:main:paced-{run}"),
            "message": provider::message(run, events, PACE),
            "idempotencyKey": format!("paced-{run}"),
        });
        driver.send(&request("send", "chat.send", &params)).await?;
    }
    // It may not have read while it told: its times say nothing.
    read(&mut driver, mark, events).await?;
    links.push(driver);
    let mut all = Vec::new();
    while let Some(reader) = readers.join_next().await {
        let (link, came) = reader??;
        links.push(link);
        all.push(came);
    }
    if side != Side::Bare {
        sent = lab.provider.times().chunks;
    }
    ensure!(sent.len() == events, "{} chunks instead of {events}", sent.len());
    let times = all.iter().flat_map(|came| sent.iter().zip(came));
    Ok(times.map(|(sent, came)| millis(*came - *sent)).collect())
}

/// When each of so many events came.
async fn read(link: &mut Link, mark: &[u8], events: usize) -> anyhow::Result<Vec<Instant>> {
    let mut came = Vec::with_capacity(events);
    while came.len() < events {
        if find(link.next().await?, mark).is_some() {
            came.push(Instant::now());
        }
    }
    Ok(came)
}

/// Clients that ask for much and read nothing, until the server cannot write to them.
async fn stall(server: &Server, side: Side, count: usize) -> anyhow::Result<Vec<Link>> {
    let mut stalled = Vec::with_capacity(count);
    while stalled.len() < count {
        let some = (count - stalled.len()).min(AT_ONCE);
        let stalling = (0..some).map(|_| stalled_one(server.address(), side));
        stalled.extend(try_join_all(stalling).await.context("a client that stalls")?);
    }
    // What they asked for has to be made before it can wait for them.
    let began = Instant::now();
    loop {
        let there = server.stalled_peers()?;
        if there >= count {
            return Ok(stalled);
        }
        ensure!(began.elapsed() < STALLING, "only {there} connections are stalled");
        tokio::time::sleep(POLL).await;
    }
}

async fn stalled_one(address: SocketAddr, side: Side) -> anyhow::Result<Link> {
    let method = if side == Side::Bare { "health" } else { "config.schema" };
    let question = request("1", method, &json!({}));
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(STALLED_BUFFER)?;
    let mut link = Link::upgrade(socket.connect(address).await?, address).await?;
    link.connect().await?;
    let answer = link.ask(&question).await?.len();
    let questions = question.repeat(UNREAD.div_ceil(answer));
    // Whoever is not read from stalls all the more.
    if let Ok(sent) = timeout(FULL, link.send(&questions)).await {
        sent?;
    }
    Ok(link)
}
