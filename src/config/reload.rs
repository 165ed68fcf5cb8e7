//! `gateway.reload`: what happens when the config file changes.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// As in the original: an editor has written all of a file by then.
const DEFAULT_DEBOUNCE_MS: u64 = 300;
/// Whoever changes the file wants to see what becomes of it.
const MAX_DEBOUNCE_MS: u64 = 60_000;

/// `gateway.reload.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadMode {
    /// The file is not watched.
    Off,
    /// What can change is changed; the rest waits for a restart.
    Hot,
    /// Each change restarts the gateway.
    Restart,
    /// What can change is changed; for the rest the gateway restarts.
    Hybrid,
}

impl ReloadMode {
    fn parse(text: &str) -> Option<Self> {
        [Self::Off, Self::Hot, Self::Restart, Self::Hybrid]
            .into_iter()
            .find(|mode| mode.as_str() == text)
    }

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Hot => "hot",
            Self::Restart => "restart",
            Self::Hybrid => "hybrid",
        }
    }
}

impl fmt::Display for ReloadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What happens when the config file changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReloadSettings {
    /// What is done.
    pub mode: ReloadMode,
    /// How long the file must have been left alone.
    pub debounce: Duration,
}

pub(super) fn read(
    gateway: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<ReloadSettings, ConfigError> {
    let node = gateway.member("reload")?;
    let mode = node.member("mode")?.word("off, hot, restart, hybrid", ReloadMode::parse)?;
    let mode = ledger.settle("gateway.reload.mode", Choice::file(file, mode), ReloadMode::Hybrid);
    let wait = node.member("debounceMs")?.bounded(0, MAX_DEBOUNCE_MS)?;
    let wait =
        ledger.settle("gateway.reload.debounceMs", Choice::file(file, wait), DEFAULT_DEBOUNCE_MS);
    Ok(ReloadSettings { mode, debounce: Duration::from_millis(wait) })
}
