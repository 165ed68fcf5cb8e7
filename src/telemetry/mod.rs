//! Log output.
//!
//! Owns: the process's log subscriber and its log file; the numbers of the gateway
//! over time ([`metrics`]); what a request led to ([`traces`]), and which one a line
//! of the log belongs to ([`asked`]). Promises: standard error
//! gets everything that is wanted, so that stdout stays for answers; the file
//! gets the same in OpenClaw's form; no credential is in either, see [`mask`].
//! Must not: be called by a library user who has a subscriber of their own.

pub mod asked;
mod file;
mod line;
mod marked;
mod mask;
pub mod metrics;
mod quote;
pub mod traces;

use std::sync::OnceLock;

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LoggingSettings;

pub use file::{LogPlace, Tail, TailError, flush, flush_at_end, place, tail};
use marked::Marked;
use mask::MaskedStderr;
pub use mask::{hide, hide_variable, result_without_secrets, without_secrets};
pub use quote::quoted;

/// How to log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// What standard error gets, in the words of `RUST_LOG`; without it the
    /// config file decides.
    pub console: Option<String>,
    /// The same for the log file.
    pub file: Option<String>,
    /// One JSON object per line on standard error instead of text.
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
        /// What is wrong with it; nothing where it names a span.
        #[source]
        source: Option<ParseError>,
    },
    /// Something else in this process logs already.
    #[error("cannot set up logging: {0}")]
    Taken(Box<dyn std::error::Error + Send + Sync>),
}

/// The part of the library of MCP that logs the ids of sessions, as errors too.
const NO_SESSIONS: &str = "rmcp::transport::streamable_http_client=off";
/// The library of MCP, which logs what servers send.
const QUIET: &str = "rmcp=warn";

/// What changes a filter of the running log.
type SetFilter = Box<dyn Fn(Targets) + Send + Sync>;

/// The running log: what was asked for at its start, and its two filters.
struct Log {
    options: LogOptions,
    console: SetFilter,
    file: SetFilter,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Starts logging to standard error; once per process.
///
/// # Errors
/// For a filter that makes no sense, and a second call.
pub fn init(options: &LogOptions) -> Result<(), TelemetryError> {
    let usual = filter_for_level("info");
    let console = parsed(options.console.as_deref().unwrap_or(&usual))?;
    let wanted = parsed(options.file.as_deref().unwrap_or(&usual))?;
    let (console, set_console) = reload::Layer::new(console);
    let (wanted, set_file) = reload::Layer::new(wanted);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(MaskedStderr { has_colour: options.colour, is_json: options.json })
        .with_ansi(options.colour);
    let lines = if options.json { lines.json().boxed() } else { lines.boxed() };
    let layers = tracing_subscriber::registry()
        .with(lines.with_filter(console))
        .with(line::FileLayer.with_filter(wanted))
        .with(metrics::ComplaintLayer.with_filter(LevelFilter::WARN));
    Marked(layers).try_init().map_err(|error| TelemetryError::Taken(Box::new(error)))?;
    // The subscriber is there for as long as the process.
    let console: SetFilter = Box::new(move |filter| drop(set_console.reload(filter)));
    let file: SetFilter = Box::new(move |filter| drop(set_file.reload(filter)));
    let _ = LOG.set(Log { options: options.clone(), console, file });
    Ok(())
}

/// Has the running log follow these settings, and opens the log file at the
/// first time. What was asked for at the start goes before them.
pub fn configure(settings: &LoggingSettings) {
    let Some(log) = LOG.get() else { return };
    if log.options.console.is_none() {
        set(&log.console, settings.console_level.as_str());
    }
    if log.options.file.is_none() {
        set(&log.file, settings.level.as_str());
    }
    file::open(LogPlace::of(settings));
}

fn set(filter: &SetFilter, level: &str) {
    if let Ok(wanted) = filter_for_level(level).parse() {
        filter(wanted);
    }
}

fn parsed(filter: &str) -> Result<Targets, TelemetryError> {
    let parts = filter.split(',').map(str::trim).filter(|part| !part.is_empty());
    let failed = |source| TelemetryError::Filter { filter: filter.to_owned(), source };
    // By spans nothing is filtered, so that whoever names one would get something else.
    if filter.contains('[') {
        return Err(failed(None));
    }
    parts.collect::<Vec<_>>().join(",").parse().map_err(|error| failed(Some(error)))
}

/// The filter for a level as OpenClaw names it. Details are wanted of the
/// gateway, not of the libraries under it; least of all what MCP servers say, and
/// the ids of their sessions, which are as good as keys.
pub fn filter_for_level(level: &str) -> String {
    match level {
        "silent" => "off".to_owned(),
        "fatal" | "error" => format!("error,{NO_SESSIONS}"),
        "debug" | "trace" => format!("info,clawgate={level},{QUIET},{NO_SESSIONS}"),
        "info" | "warn" => format!("{level},{QUIET},{NO_SESSIONS}"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_of_openclaw_is_a_valid_filter() {
        for level in ["silent", "fatal", "error", "warn", "info", "debug", "trace"] {
            assert!(parsed(&filter_for_level(level)).is_ok(), "{level}");
        }
    }

    #[test]
    fn a_bad_filter_is_named() {
        for filter in ["a=b=c", "[run]=debug", "info,a[{id=1}]=debug", "a=loud"] {
            let options = LogOptions { console: Some(filter.into()), ..LogOptions::default() };
            let error = init(&options).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{filter}` is not a log filter")), "{error}");
        }
    }

    #[test]
    fn a_filter_has_levels_by_target() {
        let wants = |filter: &str, target: &str, level| {
            parsed(filter).unwrap().would_enable(target, &level)
        };
        for filter in ["info,clawgate=debug", " info, clawgate=debug ,", "clawgate=debug,info"] {
            assert!(wants(filter, "clawgate::http", tracing::Level::DEBUG), "{filter}");
            assert!(wants(filter, "h2", tracing::Level::INFO), "{filter}");
            assert!(!wants(filter, "h2", tracing::Level::DEBUG), "{filter}");
        }
        for level in ["fatal", "error", "warn", "info", "debug", "trace"] {
            let filter = filter_for_level(level);
            assert!(wants(&filter, "rmcp::service", tracing::Level::ERROR), "{filter}");
            let is_warned = !["fatal", "error"].contains(&level);
            let warns = wants(&filter, "rmcp::service", tracing::Level::WARN);
            assert_eq!(warns, is_warned, "{filter}");
            assert!(!wants(&filter, "rmcp::service", tracing::Level::INFO), "{filter}");
            let session = "rmcp::transport::streamable_http_client";
            assert!(!wants(&filter, session, tracing::Level::ERROR), "{filter}");
        }
        assert!(!wants("warn,h2=off", "h2::frame", tracing::Level::ERROR));
        assert!(wants("clawgate::http", "clawgate::http::page", tracing::Level::TRACE));
    }
}
