//! The one write at the end.

use serde_json::Value;

use crate::config::Env;
use crate::config::document::{self, ConfigSnapshot, ConfigWrite, ConfigWriteError};
use crate::support::BoxFuture;

/// How often a file that others change meanwhile is read again.
const TRIES: usize = 3;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Whether a gateway that runs has to restart to use all of it.
    pub needs_restart: bool,
}

/// Why nothing was written, in words for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WriteRefused(pub String);

/// Merges changes into the config file.
pub trait ConfigWriter: Send {
    /// Does it.
    ///
    /// # Errors
    /// When nothing was written.
    fn merge<'a>(&'a mut self, patch: &'a Value) -> BoxFuture<'a, Result<Written, WriteRefused>>;
}

/// Writes the file itself.
pub struct FileWriter(pub Env);

impl ConfigWriter for FileWriter {
    fn merge<'a>(&'a mut self, patch: &'a Value) -> BoxFuture<'a, Result<Written, WriteRefused>> {
        let (env, raw) = (self.0.clone(), patch.to_string());
        Box::pin(async move {
            let written = tokio::task::spawn_blocking(move || write(&raw, &env)).await;
            let refused = |text: String| WriteRefused(text);
            written.map_err(|_| refused("the write was given up".into()))?.map_err(refused)
        })
    }
}

fn write(raw: &str, env: &Env) -> Result<Written, String> {
    let change = ConfigWrite::Merge(raw.to_owned());
    for _ in 0..TRIES {
        let seen = ConfigSnapshot::read(env).map_err(|error| error.to_string())?;
        match document::write(&change, Some(&seen.hash), env) {
            Ok(written) => return Ok(Written { needs_restart: written.needs_restart }),
            Err(ConfigWriteError::Stale) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("the config file changes all the time".into())
}
