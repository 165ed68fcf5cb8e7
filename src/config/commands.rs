//! The `commands` section.

use std::path::Path;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// Which commands of chats are turned on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandsSettings {
    /// `/config`, which reads and writes the config file.
    pub config: bool,
    /// `/restart`.
    pub restart: bool,
}

pub(super) fn read(
    root: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<CommandsSettings, ConfigError> {
    let node = root.member("commands")?;
    let config = Choice::file(file, node.member("config")?.boolean()?);
    let restart = Choice::file(file, node.member("restart")?.boolean()?);
    Ok(CommandsSettings {
        config: ledger.settle("commands.config", config, false),
        restart: ledger.settle("commands.restart", restart, true),
    })
}
