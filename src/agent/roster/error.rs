//! Why the agents stay as they are.

use std::path::PathBuf;

use super::bindings::BindingPlace;
use crate::agent::workspace::FilesError;
use crate::config::SaveError;
use crate::config::document::{ConfigIssue, ConfigWriteError};
use crate::sessions::AgentId;
use crate::store::FileError;

/// Why the agents stay as they are.
#[derive(Debug, thiserror::Error)]
pub enum RosterError {
    /// A new agent cannot be called that.
    #[error("\"{0}\" is reserved")]
    Reserved(AgentId),
    /// There is one already.
    #[error("agent \"{0}\" already exists")]
    Exists(AgentId),
    /// There is none.
    #[error("agent \"{0}\" not found")]
    NotFound(AgentId),
    /// It stays for ever.
    #[error("\"{0}\" cannot be deleted")]
    Needed(AgentId),
    /// A new agent cannot have an account of another one.
    #[error("{0} stays with {1}, so there is no new agent")]
    Taken(BindingPlace, AgentId),
    /// A text is too long.
    #[error("at /{member}: must NOT have more than {max} characters")]
    TooLong {
        /// The param.
        member: &'static str,
        /// Its bound.
        max: usize,
    },
    /// An agent cannot work there.
    #[error("{} cannot be a workspace: {reason}", path.display())]
    Place {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// A folder cannot be made.
    #[error(transparent)]
    Folder(#[from] FileError),
    /// The file that tells who it is cannot be written.
    #[error(transparent)]
    Identity(#[from] FilesError),
    /// The config file cannot be changed so.
    #[error(transparent)]
    Config(#[from] ConfigWriteError),
}

impl From<SaveError> for RosterError {
    fn from(error: SaveError) -> Self {
        Self::Config(error.into())
    }
}

impl RosterError {
    /// A part of the config file is not what it must be.
    pub(super) fn shape(path: &str, message: &str) -> Self {
        let issue = ConfigIssue { path: path.to_owned(), message: message.to_owned() };
        Self::Config(ConfigWriteError::Invalid(issue))
    }
}
