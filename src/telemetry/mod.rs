//! Log output.
//!
//! Owns: the process's log subscriber. Promises: everything goes to stderr, so
//! that stdout stays for answers; no credential is in it, see [`mask`]. Must not: be called by a library user who has
//! a subscriber of their own.

mod mask;
mod quote;

use tracing_subscriber::EnvFilter;

use mask::MaskedStderr;
pub use mask::{hide, without_secrets};
pub use quote::quoted;

/// How to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// What to let through, in the words of `RUST_LOG`.
    pub filter: String,
    /// One JSON object per line instead of text.
    pub json: bool,
    /// Colour the text; for terminals.
    pub colour: bool,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter makes no sense.
    #[error("`{filter}` is not a log filter; use a level such as `debug` or `clawgate=debug,info`")]
    Filter {
        /// What was asked for.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// Something else in this process logs already.
    #[error("cannot set up logging: {0}")]
    Taken(Box<dyn std::error::Error + Send + Sync>),
}

/// Starts logging; once per process.
pub fn init(options: &LogOptions) -> Result<(), TelemetryError> {
    let filter = EnvFilter::try_new(&options.filter)
        .map_err(|source| TelemetryError::Filter { filter: options.filter.clone(), source })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(MaskedStderr { has_colour: options.colour })
        .with_ansi(options.colour);
    if options.json { lines.json().try_init() } else { lines.try_init() }
        .map_err(TelemetryError::Taken)
}

/// The filter for a level as OpenClaw names it. Details are wanted of the
/// gateway, not of the libraries under it.
pub fn filter_for_level(level: &str) -> String {
    match level {
        "silent" => "off".to_owned(),
        "fatal" => "error".to_owned(),
        "debug" | "trace" => format!("info,clawgate={level}"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_of_openclaw_is_a_valid_filter() {
        for level in ["silent", "fatal", "error", "warn", "info", "debug", "trace"] {
            assert!(EnvFilter::try_new(filter_for_level(level)).is_ok(), "{level}");
        }
    }

    #[test]
    fn a_bad_filter_is_named() {
        let options = LogOptions { filter: "a=b=c".into(), json: false, colour: false };
        let error = init(&options).unwrap_err();
        assert!(error.to_string().starts_with("`a=b=c` is not a log filter"), "{error}");
    }
}
