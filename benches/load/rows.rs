//! The measurements.

mod appends;
mod chat;
mod fanout;
mod health;
mod history;
mod latency;
mod left;
mod memory;
mod quiet;
mod relay;
mod sessions;
mod silence;
mod soak;
mod start;
mod starting;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum as _;
use tokio::time::Instant;

use super::bare_server;
use super::gateway::Home;
use super::options::{Options, Row};
use super::original::Original;
use super::provider::Provider;
use super::server::Server;
use super::state;
use super::stats::{Samples, Side};

/// Connects are told to everybody a moment later; then it is quiet.
const SETTLE: Duration = Duration::from_millis(700);

/// A row that takes longer hangs. The original needs minutes to let 1 000 clients in.
const PATIENCE: Duration = Duration::from_mins(10);

/// What the measurements share. The large states are made once.
pub struct Lab {
    options: Options,
    provider: Provider,
    original: Option<Original>,
    /// With 5 000 sessions.
    many: BTreeMap<Side, Home>,
    /// With one large transcript.
    long: Option<Home>,
}

impl Lab {
    async fn new(options: &Options, original: Option<Original>) -> anyhow::Result<Self> {
        let provider = Provider::start().await?;
        let (options, many) = (options.clone(), BTreeMap::new());
        let mut lab = Self { options, provider, original, many, long: None };
        if lab.options.wants(Row::Sessions) {
            for side in Row::Sessions.sides() {
                if lab.has(*side) {
                    let home = lab.home_of(*side)?;
                    state::sessions(&home, sessions::COUNT)?;
                    lab.many.insert(*side, indexed(home).await?);
                }
            }
        }
        if lab.options.wants(Row::History) {
            let home = lab.home()?;
            state::long_session(&home, lab.options.transcript)?;
            lab.long = Some(home);
        }
        Ok(lab)
    }

    fn has(&self, side: Side) -> bool {
        side != Side::Original || self.original.is_some()
    }

    /// An empty one of the gateway.
    fn home(&self) -> anyhow::Result<Home> {
        self.home_of(Side::Gateway)
    }

    /// An empty one of a side that has homes.
    fn home_of(&self, side: Side) -> anyhow::Result<Home> {
        let original = self.original.as_ref().filter(|_| side == Side::Original);
        Home::new(self.provider.address(), original)
    }
}

/// The first start takes the sessions into the index.
async fn indexed(home: Home) -> anyhow::Result<Home> {
    home.start().await?.terminate()?;
    Ok(home)
}

/// A server on a fresh state, with its home, which has to outlive it.
async fn fresh(lab: &Lab, side: Side) -> anyhow::Result<(Server, Option<Home>)> {
    if side == Side::Bare {
        return Ok((bare_server::start().await?, None));
    }
    let home = lab.home_of(side)?;
    Ok((home.start().await?, Some(home)))
}

/// Measures everything that is wanted, round by round. What fails is told, and loses
/// nothing of the rest.
pub async fn measure(
    options: &Options,
    original: Option<Original>,
) -> anyhow::Result<(Samples, Vec<String>)> {
    let all = Instant::now();
    let lab = Lab::new(options, original).await?;
    let (mut samples, mut failures) = (Samples::default(), Vec::new());
    for round in 1..=options.rounds() {
        for row in Row::value_variants().iter().filter(|row| options.wants(**row)) {
            let wanted = |side: &&Side| lab.has(**side) && round <= row.most_rounds(**side);
            for side in row.sides().iter().filter(wanted) {
                let began = Instant::now();
                eprint!("round {round} of {}: {row:?}, {} …", options.rounds(), side.name());
                let measured =
                    tokio::time::timeout(patience(*row), one(*row, *side, &lab, &mut samples));
                let measured = measured.await.context("it takes too long").flatten();
                eprintln!(" {:.0} s", began.elapsed().as_secs_f64());
                if let Err(error) = measured {
                    let failure = format!("{row:?}, {}, round {round}: {error:#}", side.name());
                    eprintln!("failed: {failure}");
                    failures.push(failure);
                }
            }
        }
    }
    eprintln!("all of it: {:.0} min", all.elapsed().as_secs_f64() / 60.0);
    Ok((samples, failures))
}

fn patience(row: Row) -> Duration {
    // It goes on for as long as it was told to, and ends when a user fails.
    if row == Row::Soak { Duration::MAX } else { PATIENCE }
}

async fn one(row: Row, side: Side, lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    match row {
        Row::Start => start::measure(lab, side, samples).await,
        Row::Memory => memory::measure(lab, side, samples).await,
        Row::Crowd => memory::crowd(lab, side, samples).await,
        Row::Health => health::measure(lab, side, samples).await,
        Row::Fanout => fanout::measure(lab, side, samples).await,
        Row::Chat => chat::measure(lab, side, samples).await,
        Row::Relay => relay::measure(lab, samples).await,
        Row::Sessions => sessions::measure(lab, side, samples).await,
        Row::History => history::measure(lab, side, samples).await,
        Row::Appends => appends::measure(lab, side, samples).await,
        Row::Silence => silence::measure(lab, side, samples).await,
        Row::Quiet => quiet::measure(lab, side, samples).await,
        Row::Starting => starting::measure(lab, side, samples).await,
        Row::Latency => latency::measure(lab, side, samples).await,
        Row::Left => left::measure(lab, samples).await,
        Row::Soak => soak::measure(lab, samples).await,
    }
}
