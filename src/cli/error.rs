//! How a command ends when it fails.

use std::io;

use super::client::{ClientError, TargetError};
use super::format::compact;
use super::screen::Screen;

/// Why a client command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The flags or the environment name no gateway.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The gateway could not be talked to, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The command was used in a wrong way.
    #[error("{0}")]
    Usage(String),
    /// The terminal, pipe or file failed.
    #[error("cannot read or write: {0}")]
    Io(#[from] io::Error),
}

impl CliError {
    /// Tells the user; gives the exit code.
    pub fn report(&self, screen: &mut Screen) -> u8 {
        if self.is_broken_pipe() {
            // Whoever read our output has seen enough.
            return 1;
        }
        // When stderr is gone too, the exit code has to do.
        let _ = screen.error(&self.to_string());
        if let Self::Client(ClientError::Request(error) | ClientError::Handshake(error)) = self
            && let Some(details) = &error.details
        {
            let _ = screen.note(&format!("details: {}", compact(details)));
        }
        match self {
            Self::Target(_) | Self::Usage(_) => 2,
            Self::Client(_) | Self::Io(_) => 1,
        }
    }

    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
