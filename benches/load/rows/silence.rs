//! A client among connections that say nothing.

use std::cell::Cell;

use tokio::time::Instant;

use super::super::client::{Link, come_from_elsewhere};
use super::super::stats::{Samples, Side, millis};
use super::{Lab, fresh};

const SILENT: usize = 10_000;
const SILENT_QUICK: usize = 2_000;
/// As many as the gateway lets one address have.
const OF_ONE_ADDRESS: usize = 32;
/// Clients that come after the last silent connection.
const CLIENTS_AFTER: usize = 50;

/// The slowest of all clients that come while silent connections arrive, and
/// after them. The bare server keeps every connection that it gets.
pub async fn measure(lab: &Lab, side: Side, samples: &mut Samples) -> anyhow::Result<()> {
    let count = lab.options.size(SILENT, SILENT_QUICK);
    let (server, _home) = fresh(lab, side).await?;
    let address = server.address();
    let all_there = Cell::new(false);
    let arrive = async {
        let mut silent = Vec::with_capacity(count);
        for number in 0..count {
            silent.push(come_from_elsewhere(address, number / OF_ONE_ADDRESS).await?);
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
