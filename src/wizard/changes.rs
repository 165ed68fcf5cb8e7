//! The one write at the end.

use std::sync::Arc;

use serde_json::Value;

use crate::config::Env;
use crate::config::document::{self, ConfigBase, ConfigIssue, ConfigWrite};
use crate::support::{BoxFuture, blocking};

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

/// Whether a gateway would work with a text of the config file.
type WouldWork = dyn Fn(&str) -> Result<(), ConfigIssue> + Send + Sync;

/// Writes the file itself.
pub struct FileWriter {
    env: Env,
    would_work: Arc<WouldWork>,
}

impl FileWriter {
    /// That of these surroundings, which writes only what would work.
    pub fn new(
        env: &Env,
        would_work: impl Fn(&str) -> Result<(), ConfigIssue> + Send + Sync + 'static,
    ) -> Self {
        Self { env: env.clone(), would_work: Arc::new(would_work) }
    }
}

impl ConfigWriter for FileWriter {
    fn merge<'a>(&'a mut self, patch: &'a Value) -> BoxFuture<'a, Result<Written, WriteRefused>> {
        let (env, raw) = (self.env.clone(), patch.to_string());
        let would_work = Arc::clone(&self.would_work);
        Box::pin(async move {
            let written = blocking(move || write(&raw, &env, &*would_work)).await;
            let refused = |text: String| WriteRefused(text);
            written.map_err(|_| refused("the write was given up".into()))?.map_err(refused)
        })
    }
}

fn write(raw: &str, env: &Env, would_work: &WouldWork) -> Result<Written, String> {
    let change = ConfigWrite::Merge(raw.to_owned());
    let written = document::write(&change, &ConfigBase::Any, env, would_work);
    let written = written.map_err(|error| error.to_string())?;
    Ok(Written { needs_restart: written.needs_restart })
}
