//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measures the gateway side by side with a bare WebSocket server.
#[derive(Debug, Clone, Parser)]
#[command(name = "load")]
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
    /// Put the table into docs/benchmarks.md
    #[arg(long)]
    pub write: bool,
    /// How long `soak` goes on, in minutes [default: 60]
    #[arg(long, value_name = "MINUTES")]
    pub soak: Option<u32>,
    /// Size of the transcript that `chat.history` reads, in MiB
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    pub transcript: u32,
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
    /// `health` round trips
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
