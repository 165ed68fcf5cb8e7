//! The memory of a gateway that does nothing.
//!
//! Most of it are pages of the program, and how many depends on the order of its functions:
//! `order`.

use std::process::Command;
use std::time::Duration;

use tokio::time::timeout;

use super::counted::HEALTH_EVENT;
use super::load::client::Link;
use super::load::gateway::Home;
use super::load::provider::Provider;
use super::{PROGRAM, UPDATE, figures, not_run, tested};

const PATIENCE: Duration = Duration::from_mins(1);
/// The budget of `docs/benchmarks.md`, in KiB.
const BUDGET: f64 = 15.0 * 1024.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_gateway_stays_within_its_memory() {
    if std::env::var_os(PROGRAM).is_none() {
        return not_run(&format!(
            "the memory of a quiet gateway: {PROGRAM} has to name a release build; .ci/run does so"
        ));
    }
    if std::env::var_os(UPDATE).is_some() {
        // The order that it was linked by is being renewed.
        return;
    }
    let provider = Provider::start().await.unwrap();
    let home = Home::new(provider.address(), None).unwrap();
    let command = home.on_this_state(Command::new(tested::program()));
    let gateway = home.start_as(command).await.unwrap();
    let mut client = Link::hello(gateway.address()).await.unwrap();
    let heard = async { while !client.next().await.unwrap().starts_with(HEALTH_EVENT) {} };
    timeout(PATIENCE, heard).await.expect("no event of its health");
    let (all, own) = (gateway.memory().unwrap(), gateway.own_memory().unwrap());
    println!("a quiet gateway has {all} KiB, of which {own} are its own");
    assert!(
        all <= BUDGET,
        "a quiet gateway has {all} KiB, of which {own} are its own: {BUDGET} are allowed. \
         Where the rest has grown, src/build.order fits no longer (Cargo.lock and the compiler \
         are in its names), or the linker is not rust-lld: {}",
        figures::RENEW
    );
}
