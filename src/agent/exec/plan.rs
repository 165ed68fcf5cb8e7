//! What is told to the process that starts a command.
//!
//! Owns: its form between the gateway and its launcher. Promises: whoever reads
//! one reads it whole, and none that is too large. Must not: start anything.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::sandbox::Confinement;
use crate::support::reading;

/// More than the kernel takes for arguments and environment together.
const MAX_PLAN: u32 = 8 * 1024 * 1024;

/// Everything that decides how a command starts. It has no `Debug`: the
/// environment may hold secrets.
#[derive(Serialize, Deserialize)]
pub(super) struct Plan {
    /// The file to start.
    pub program: PathBuf,
    /// Its name for itself (`argv[0]`).
    pub name: String,
    /// What follows.
    pub args: Vec<String>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// All variables that it gets.
    pub env: BTreeMap<String, String>,
    /// Whether it gets a terminal instead of pipes.
    pub has_terminal: bool,
    /// Where that is, once the keeper has opened it.
    pub terminal: Option<PathBuf>,
    /// What holds it, when it is confined.
    pub confinement: Option<Confinement>,
    /// Our own program, which both launching steps run.
    pub launcher: PathBuf,
}

/// What the keeper reports, one per line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Report {
    /// It runs, under this process id.
    Started(u32),
    /// It could not be started.
    Failed(String),
    /// It has ended, with an exit code or by a signal.
    Ended {
        /// What it returned.
        code: Option<i32>,
        /// What killed it.
        signal: Option<i32>,
    },
}

impl Plan {
    /// As bytes, with their count before them.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let body = serde_json::to_vec(self)?;
        let length = u32::try_from(body.len()).ok().filter(|length| *length <= MAX_PLAN);
        let length = length.ok_or_else(|| io::Error::other("command and environment too large"))?;
        Ok([&length.to_be_bytes(), body.as_slice()].concat())
    }

    /// Reads one, and nothing behind it.
    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if length > MAX_PLAN {
            return Err(io::Error::other("plan too large"));
        }
        let mut body = Vec::new();
        from.take(length.into()).read_to_end(&mut body)?;
        Ok(reading::of(&serde_json::from_slice(&body)?)?)
    }
}

impl Report {
    /// Writes it as a line.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        to.write_all(&line)
    }
}
