//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use super::stats::Side;

/// Measures the gateway side by side with the original and a bare WebSocket server.
#[derive(Debug, Clone, Parser)]
#[command(name = "load")]
#[allow(clippy::struct_excessive_bools)] // switches
pub struct Options {
    /// Fewer connections, shorter runs and one round: to see that it works
    #[arg(long)]
    pub quick: bool,
    /// Measure only these
    #[arg(long, value_delimiter = ',', value_name = "ROW")]
    pub rows: Vec<Row>,
    /// How often everything is measured; the median counts [default: 5]
    #[arg(long)]
    pub rounds: Option<usize>,
    /// Also write the numbers as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Put what was measured into docs/benchmarks.json, and with what that has besides
    /// into the table and the pictures of docs/benchmarks.md
    #[arg(long)]
    pub write: bool,
    /// How long `soak` goes on, in minutes [default: 60]
    #[arg(long, value_name = "MINUTES")]
    pub soak: Option<u32>,
    /// Size of the transcript that `chat.history` reads, in MiB
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    pub transcript: u32,
    /// Leave the original out
    #[arg(long)]
    pub no_original: bool,
    /// There is nothing but loopback here
    #[arg(long, hide = true)]
    pub alone: bool,
    /// Be the server to compare with, on this port
    #[arg(long, hide = true, value_name = "PORT")]
    pub bare_server: Option<u16>,
    /// What `cargo bench` passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Row {
    /// Start and end of the process
    Start,
    /// Memory, idle and per idle client
    Memory,
    /// Memory with 10 000 clients
    Crowd,
    /// Round trips of requests
    Health,
    /// Events to many subscribers
    Fanout,
    /// From message to provider to client
    Chat,
    /// Many small chunks of one answer
    Relay,
    /// `sessions.list` of many sessions
    Sessions,
    /// `chat.history` of a large transcript
    History,
    /// Durable appends
    Appends,
    /// A client among silent connections
    Silence,
    /// CPU when nothing happens, and `clawgate health`
    Quiet,
    /// Others while many runs start
    Starting,
    /// Hours of use: what grows? Only when it is asked for
    Soak,
    /// Paced delivery to many subscribers
    Latency,
    /// Sessions that were used and left
    Left,
}

impl Row {
    /// What is measured beside the gateway.
    pub const fn sides(self) -> &'static [Side] {
        use Side::{Bare, Gateway, Original};
        match self {
            Self::Start | Self::Memory | Self::Fanout | Self::Latency => {
                &[Gateway, Original, Bare]
            }
            Self::Chat
            | Self::Sessions
            | Self::History
            | Self::Appends
            | Self::Quiet
            | Self::Starting
            // Its bare server takes turns with the gateway.
            | Self::Health => &[Gateway, Original],
            Self::Silence | Self::Crowd => &[Gateway, Bare],
            Self::Relay | Self::Left | Self::Soak => &[Gateway],
        }
    }

    /// Rounds beyond these would take longer than they tell: a minute in which nothing
    /// happens says as much as five, and the original needs minutes for what takes the
    /// others seconds.
    pub const fn most_rounds(self, side: Side) -> usize {
        match (self, side) {
            (Self::Start, _) => usize::MAX,
            (Self::Quiet | Self::Left | Self::Crowd | Self::Soak, _) | (_, Side::Original) => 1,
            _ => usize::MAX,
        }
    }
}

impl Options {
    /// How often everything is measured.
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 }).max(1)
    }

    /// Whether a row is wanted.
    pub fn wants(&self, row: Row) -> bool {
        if self.rows.is_empty() { row != Row::Soak } else { self.rows.contains(&row) }
    }

    /// The large number, or the small one for `--quick`.
    pub fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}
