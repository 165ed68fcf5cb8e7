//! The measurements.

mod appends;
mod chat;
mod fanout;
mod health;
mod history;
mod memory;
mod quiet;
mod relay;
mod sessions;
mod silence;
mod soak;
mod start;
mod starting;

use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum as _;

use super::bare_server;
use super::gateway::Home;
use super::options::{Options, Row};
use super::provider::Provider;
use super::server::Server;
use super::state;
use super::stats::Samples;

/// Connects are told to everybody a moment later; then it is quiet.
const SETTLE: Duration = Duration::from_millis(700);

/// A row that takes longer hangs.
const PATIENCE: Duration = Duration::from_mins(2);

/// What the measurements share. The large states are made once.
pub struct Lab {
    options: Options,
    provider: Provider,
    /// With 5 000 sessions.
    many: Option<Home>,
    /// With one large transcript.
    long: Option<Home>,
}

impl Lab {
    async fn new(options: &Options) -> anyhow::Result<Self> {
        let provider = Provider::start().await?;
        let mut lab = Self { options: options.clone(), provider, many: None, long: None };
        if options.wants(Row::Sessions) {
            let home = lab.home()?;
            state::sessions(&home, sessions::COUNT)?;
            lab.many = Some(indexed(home).await?);
        }
        if options.wants(Row::History) {
            let home = lab.home()?;
            state::long_session(&home, options.transcript)?;
            lab.long = Some(home);
        }
        Ok(lab)
    }

    fn home(&self) -> anyhow::Result<Home> {
        Home::new(self.provider.address())
    }
}

/// The first start takes the sessions into the index.
async fn indexed(home: Home) -> anyhow::Result<Home> {
    home.start().await?.terminate()?;
    Ok(home)
}

/// A gateway on a fresh state, with its home, which has to outlive it.
async fn fresh(lab: &Lab) -> anyhow::Result<(Server, Home)> {
    let home = lab.home()?;
    Ok((home.start().await?, home))
}

async fn bare() -> anyhow::Result<Server> {
    bare_server::start().await
}

/// Measures everything that is wanted, round by round.
pub async fn measure(options: &Options) -> anyhow::Result<Samples> {
    let lab = Lab::new(options).await?;
    let mut samples = Samples::default();
    for round in 1..=options.rounds() {
        for row in Row::value_variants().iter().filter(|row| options.wants(**row)) {
            eprintln!("round {round} of {}: {row:?}", options.rounds());
            tokio::time::timeout(patience(*row), one(*row, &lab, &mut samples))
                .await
                .with_context(|| format!("{row:?} takes too long"))?
                .with_context(|| format!("{row:?}"))?;
        }
    }
    Ok(samples)
}

fn patience(row: Row) -> Duration {
    // It goes on for as long as it was told to, and ends when a user fails.
    if row == Row::Soak { Duration::MAX } else { PATIENCE }
}

async fn one(row: Row, lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    match row {
        Row::Start => start::measure(lab, samples).await,
        Row::Memory => memory::measure(lab, samples).await,
        Row::Health => health::measure(lab, samples).await,
        Row::Fanout => fanout::measure(lab, samples).await,
        Row::Chat => chat::measure(lab, samples).await,
        Row::Relay => relay::measure(lab, samples).await,
        Row::Sessions => sessions::measure(lab, samples).await,
        Row::History => history::measure(lab, samples).await,
        Row::Appends => appends::measure(lab, samples).await,
        Row::Silence => silence::measure(lab, samples).await,
        Row::Quiet => quiet::measure(lab, samples).await,
        Row::Starting => starting::measure(lab, samples).await,
        Row::Soak => soak::measure(lab, samples).await,
    }
}
