//! The `logging` section: where the log file is and what goes into it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::explain::{Choice, Ledger};
use super::schema::Node;
use super::{ConfigError, Env, Paths};

/// A log file of this size is put away and a new one begun: some days of a busy
/// gateway, and still opened by any editor.
const MAX_FILE_BYTES: u64 = 20 * 1024 * 1024;
/// Less than this and lines are put away while somebody reads them.
const MAX_FILE_BYTES_LEAST: u64 = 64 * 1024;
/// No log comes near it.
const MAX_FILE_BYTES_MOST: u64 = 1 << 40;
/// Says where the files of days are.
const LOG_DIR: &str = "OPENCLAW_LOG_DIR";

/// How much is logged, in the words of OpenClaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Every step.
    Trace,
    /// Details.
    Debug,
    /// What happens.
    Info,
    /// What should not happen.
    Warn,
    /// What failed.
    Error,
    /// What ends the gateway.
    Fatal,
    /// Nothing.
    Silent,
}

impl LogLevel {
    const ALL: [Self; 7] =
        [Self::Silent, Self::Fatal, Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// The word in config files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Fatal => "fatal",
            Self::Silent => "silent",
        }
    }

    /// The level of this name, in any case.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(word))
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is logged, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggingSettings {
    /// `logging.level`: of the file.
    pub level: LogLevel,
    /// `logging.consoleLevel`: of standard error.
    pub console_level: LogLevel,
    /// `logging.file`; without it there is one file per day in `dir`.
    pub file: Option<PathBuf>,
    /// Where the files of days are.
    pub dir: PathBuf,
    /// `logging.maxFileBytes`.
    pub max_file_bytes: u64,
}

pub(super) fn read(
    root: &Node<'_>,
    env: &Env,
    paths: &Paths,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<LoggingSettings, ConfigError> {
    let node = root.member("logging")?;
    let words = LogLevel::ALL.map(LogLevel::as_str).join(", ");
    let level = node.at("level")?.word(&words, LogLevel::parse)?;
    let console = node.at("consoleLevel")?.word(&words, LogLevel::parse)?;
    let place = node.member("file")?.path(paths)?;
    let max_bytes =
        node.member("maxFileBytes")?.bounded(MAX_FILE_BYTES_LEAST, MAX_FILE_BYTES_MOST)?;
    Ok(LoggingSettings {
        level: ledger.settle("logging.level", Choice::file(file, level), LogLevel::Info),
        console_level: ledger.settle(
            "logging.consoleLevel",
            Choice::file(file, console),
            LogLevel::Info,
        ),
        file: place,
        dir: default_dir(env, paths),
        max_file_bytes: ledger.settle(
            "logging.maxFileBytes",
            Choice::file(file, max_bytes),
            MAX_FILE_BYTES,
        ),
    })
}

/// OpenClaw's place for the usual state directory. A gateway with another one
/// is a second gateway, and its log is its own. A service whose temporary files
/// nobody else sees names another place.
fn default_dir(env: &Env, paths: &Paths) -> PathBuf {
    if let Some(dir) = env.get(LOG_DIR).and_then(|dir| paths.expand(&dir).ok()) {
        return dir;
    }
    let usual = env.home().map(|home| home.join(".openclaw"));
    if usual.as_ref() == Some(&paths.state_dir) {
        PathBuf::from(env.get("TMPDIR").unwrap_or_else(|| "/tmp".into())).join("openclaw")
    } else {
        paths.state_dir.join("logs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir<const N: usize>(variables: [(&str, &str); N]) -> PathBuf {
        let env = Env::fixed(variables, "/home/u");
        default_dir(&env, &Paths::resolve(&env).unwrap())
    }

    #[test]
    fn the_log_is_where_openclaw_has_it_and_a_second_gateway_has_its_own() {
        assert_eq!(dir([]), Path::new("/tmp/openclaw"));
        assert_eq!(dir([("TMPDIR", "/var/tmp")]), Path::new("/var/tmp/openclaw"));
        assert_eq!(dir([("OPENCLAW_STATE_DIR", "/srv/x")]), Path::new("/srv/x/logs"));
        assert_eq!(dir([("OPENCLAW_HOME", "/srv")]), Path::new("/srv/.openclaw/logs"));
        assert_eq!(dir([("OPENCLAW_LOG_DIR", "/var/log/x")]), Path::new("/var/log/x"));
        assert_eq!(dir([("OPENCLAW_LOG_DIR", "logs")]), Path::new("/home/u/.openclaw/logs"));
    }

    #[test]
    fn levels_have_openclaws_names() {
        assert_eq!(LogLevel::parse("WARN"), Some(LogLevel::Warn));
        assert_eq!(LogLevel::parse("loud"), None);
        assert!(
            LogLevel::ALL.into_iter().all(|level| LogLevel::parse(level.as_str()) == Some(level))
        );
    }
}
