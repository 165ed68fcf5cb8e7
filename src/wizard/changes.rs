//! The one write at the end.

use std::sync::Arc;

use serde_json::Value;

use crate::config::Env;
use crate::config::document::{self, ConfigIssue, ConfigWrite, ConfigWriteError, merged};
use crate::support::{BoxFuture, blocking, json, with_cause};

/// What is to be merged into a config that says this, with what it includes.
type Change = dyn Fn(&Value) -> Value + Send + Sync;

/// What is to be changed. Each change is worked out from what the file says when it is made:
/// what somebody else has written since the questions counts.
#[derive(Clone, Default)]
pub struct Changes(Vec<Arc<Change>>);

impl Changes {
    /// The same with another one after them.
    #[must_use]
    pub(super) fn with(&self, change: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        let mut changes = self.0.clone();
        changes.push(Arc::new(change));
        Self(changes)
    }

    /// What is to be merged into the file that says `config`, with what it includes.
    pub fn patch(&self, config: &Value) -> Value {
        let add = |patch: Value, change: &Arc<Change>| merged(&patch, &change(config));
        self.0.iter().fold(json!({}), add)
    }
}

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

/// Makes changes in the config file.
pub trait ConfigWriter: Send {
    /// Does it.
    ///
    /// # Errors
    /// When nothing was written.
    fn write<'a>(
        &'a mut self,
        changes: &'a Changes,
    ) -> BoxFuture<'a, Result<Written, WriteRefused>>;
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
    fn write<'a>(
        &'a mut self,
        changes: &'a Changes,
    ) -> BoxFuture<'a, Result<Written, WriteRefused>> {
        let (env, changes) = (self.env.clone(), changes.clone());
        let would_work = Arc::clone(&self.would_work);
        Box::pin(async move {
            let written = blocking(move || write(&changes, &env, &*would_work)).await;
            let refused = |text: String| WriteRefused(text);
            written.map_err(|_| refused("the write was given up".into()))?.map_err(refused)
        })
    }
}

fn write(changes: &Changes, env: &Env, would_work: &WouldWork) -> Result<Written, String> {
    let work_out = |config: &Value| -> Result<ConfigWrite, ConfigWriteError> {
        Ok(ConfigWrite::Merge(changes.patch(config).to_string()))
    };
    let written = document::write_by(env, work_out, would_work);
    let written = written.map_err(|error| with_cause(&error))?;
    Ok(Written { needs_restart: written.needs_restart })
}
