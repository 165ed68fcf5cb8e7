//! How a command ends when it fails.

use std::io;

use super::client::{ClientError, GatewayError, TargetError};
use super::format::compact;
use super::screen::Screen;

/// The code of a request that is wrong or not allowed.
const INVALID: &str = "INVALID_REQUEST";

/// Why a client command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The flags or the environment name no gateway.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The gateway could not be talked to, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The gateway refused, and there is somewhere to look.
    #[error("{error}; {advice}")]
    Refused {
        /// What the gateway said.
        error: Box<GatewayError>,
        /// Where to look.
        advice: &'static str,
    },
    /// The command was used in a wrong way.
    #[error("{0}")]
    Usage(String),
    /// What was named is not there.
    #[error("{0}")]
    Missing(String),
    /// The terminal, pipe or file failed.
    #[error("cannot read or write: {0}")]
    Io(#[from] io::Error),
}

impl CliError {
    /// Whether the gateway refused a request in words that begin like this.
    pub fn says(&self, beginning: &str) -> bool {
        matches!(self, Self::Client(ClientError::Request(error))
            if error.code == INVALID && error.message.starts_with(beginning))
    }

    /// The same, with where to look, when the gateway refused in words that begin like this:
    /// it speaks as the original does, and knows no commands.
    #[must_use]
    pub fn see(self, beginning: &str, advice: &'static str) -> Self {
        let is_meant = self.says(beginning);
        match self {
            Self::Client(ClientError::Request(error)) if is_meant => {
                Self::Refused { error, advice }
            }
            other => other,
        }
    }

    /// Whether the gateway goes by another token or password than it was shown.
    pub fn is_of_another_secret(&self) -> bool {
        let codes = ["AUTH_TOKEN_MISMATCH", "AUTH_PASSWORD_MISMATCH"];
        matches!(self, Self::Client(ClientError::Handshake(error))
            if error.detail_code().is_some_and(|code| codes.contains(&code)))
    }

    /// Tells the user; gives the exit code.
    pub fn report(&self, screen: &mut Screen) -> u8 {
        if self.is_broken_pipe() {
            // Whoever read our output has seen enough.
            return 1;
        }
        // When stderr is gone too, the exit code has to do.
        let _ = screen.error(&self.to_string());
        if let Self::Client(ClientError::Request(error) | ClientError::Handshake(error))
        | Self::Refused { error, .. } = self
            && let Some(details) = &error.details
        {
            let _ = screen.note(&format!("details: {}", compact(details)));
        }
        match self {
            Self::Target(_) | Self::Usage(_) => 2,
            Self::Client(_) | Self::Refused { .. } | Self::Missing(_) | Self::Io(_) => 1,
        }
    }

    /// Whether whoever read what is printed has gone.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_look_is_told_for_the_refusal_that_is_meant_and_for_no_other() {
        let told = |code: &str, message: &str| {
            let error = GatewayError {
                code: code.to_owned(),
                message: message.to_owned(),
                ..GatewayError::unnamed()
            };
            CliError::from(ClientError::refused(error)).see("unknown deviceId", "look").to_string()
        };
        assert_eq!(told(INVALID, "unknown deviceId"), "INVALID_REQUEST: unknown deviceId; look");
        for (code, message) in [
            (INVALID, "unknown method: device.pair.fly"),
            (INVALID, "it is an unknown deviceId"),
            ("UNAVAILABLE", "unknown deviceId"),
        ] {
            assert_eq!(told(code, message), format!("{code}: {message}"));
        }
    }
}
