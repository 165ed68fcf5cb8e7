//! A client among connections that say nothing.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

use super::super::client::Link;
use super::super::server::Server;
use super::super::stats::{Samples, Side, millis};
use super::{Lab, bare, fresh};

const SILENT: usize = 10_000;
const SILENT_QUICK: usize = 2_000;
/// As many as the gateway lets one address have.
const OF_ONE_ADDRESS: usize = 32;
/// Clients that come after the last silent connection.
const CLIENTS_AFTER: usize = 50;

/// Measures both servers. The bare one keeps every connection that it gets.
pub async fn measure(lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    allow_files()?;
    let count = lab.options.size(SILENT, SILENT_QUICK);
    let (gateway, _home) = fresh(lab).await?;
    of(&gateway, Side::Gateway, count, samples).await?;
    of(&bare().await?, Side::Bare, count, samples).await
}

/// The slowest of all clients that come while silent connections arrive, and
/// after them.
async fn of(
    server: &Server,
    side: Side,
    count: usize,
    samples: &mut Samples,
) -> anyhow::Result<()> {
    let address = server.address();
    let all_there = Cell::new(false);
    let arrive = async {
        let mut silent = Vec::with_capacity(count);
        for number in 0..count {
            silent.push(say_nothing(address, number).await?);
        }
        all_there.set(true);
        anyhow::Ok(silent)
    };
    let connect = async {
        let (mut slowest, mut after) = (0.0_f64, 0);
        while after < CLIENTS_AFTER {
            after += usize::from(all_there.get());
            let began = Instant::now();
            Link::hello(address).await?;
            slowest = slowest.max(millis(began.elapsed()));
        }
        anyhow::Ok(slowest)
    };
    let (_silent, slowest) = tokio::try_join!(arrive, connect)?;
    samples.add("silence", side, slowest);
    Ok(())
}

/// Comes from another loopback address, as if from another machine.
async fn say_nothing(address: SocketAddr, number: usize) -> anyhow::Result<TcpStream> {
    let [high, low] = u16::try_from(number / OF_ONE_ADDRESS + 1)?.to_be_bytes();
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(Ipv4Addr::new(127, 1, high, low).into(), 0))?;
    Ok(socket.connect(address).await?)
}

/// This process holds the other ends, and the bare server inherits the limit.
fn allow_files() -> anyhow::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("this user may not open enough files")
}
