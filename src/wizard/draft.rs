//! The config as it will be.
//!
//! Promises: nothing is written; the settings are those that a gateway would
//! have with the changes so far.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::access::StoredKey;
use super::asker::Stopped;
use super::changes::Changes;
use crate::config::document::merged;
use crate::config::{self, ConfigError, Env, Settings, preview};
use crate::support::{self, Clock, json, with_cause};

/// Changes that are not written yet, and what they come to.
pub struct Draft {
    /// The surroundings, with the variables of the files.
    pub env: Env,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// As it will be.
    pub settings: Settings,
    /// A key that is to be stored.
    pub key: Option<StoredKey>,
    /// The file as it is.
    raw: Value,
    /// What is to be changed in it.
    changes: Changes,
}

impl Draft {
    /// Of the file as it is.
    ///
    /// # Errors
    /// When there is something wrong with it.
    pub async fn open(env: Env, clock: Arc<dyn Clock>) -> Result<Self, Stopped> {
        let looking = env.clone();
        let read = blocking(move || {
            let overrides = config::Overrides { read_only: true, ..config::Overrides::default() };
            config::load(&looking, &overrides)
        });
        let settings = read.await?.map_err(|error| unusable(&error))?;
        let raw = settings.raw.clone();
        let env = settings.environment(&env);
        Ok(Self { env, clock, settings, key: None, raw, changes: Changes::default() })
    }

    /// What the file says at this place, with the changes so far.
    pub fn written(&self, pointer: &str) -> Option<Value> {
        self.changed(&self.changes).pointer(pointer).cloned().filter(|value| !value.is_null())
    }

    /// What is to be changed in the file.
    pub const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Whether nothing is to be written.
    pub fn is_unchanged(&self) -> bool {
        self.key.is_none() && self.changed(&self.changes) == self.raw
    }

    /// Puts values at places.
    ///
    /// # Errors
    /// When no gateway would start with that; the draft stays as it was.
    pub async fn set(&mut self, values: Vec<(Vec<&str>, Value)>) -> Result<(), DraftError> {
        let values = values.into_iter().map(|(path, value)| nested(&path, value));
        let patch = values.fold(json!({}), |patch, value| merged(&patch, &value));
        self.change(move |_| patch.clone()).await
    }

    /// The same with what has to fit to what the file says by then: `change` gets that,
    /// without the other changes.
    ///
    /// # Errors
    /// As there.
    pub async fn change(
        &mut self,
        change: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Result<(), DraftError> {
        self.put(self.changes.with(change)).await
    }

    /// The same with these changes in place of those so far.
    ///
    /// # Errors
    /// As there.
    pub async fn put(&mut self, changes: Changes) -> Result<(), DraftError> {
        let (text, env) = (self.changed(&changes).to_string(), self.env.clone());
        let read = blocking(move || preview(&text, &env)).await.map_err(DraftError::Stopped)?;
        self.settings = read.map_err(DraftError::Invalid)?;
        self.changes = changes;
        Ok(())
    }

    fn changed(&self, changes: &Changes) -> Value {
        merged(&self.raw, &changes.patch(&self.raw))
    }
}

/// What is told of a config file with something wrong in it.
pub fn unusable(error: &ConfigError) -> Stopped {
    Stopped::Failed(format!(
        "{}. Mend the config file first; `clawgate doctor` says what is wrong",
        with_cause(error)
    ))
}

/// Why a value cannot be put there.
#[derive(Debug)]
pub enum DraftError {
    /// No gateway would start with it.
    Invalid(ConfigError),
    /// The script cannot go on.
    Stopped(Stopped),
}

impl From<DraftError> for Stopped {
    fn from(error: DraftError) -> Self {
        match error {
            DraftError::Invalid(error) => Self::Failed(error.to_string()),
            DraftError::Stopped(stopped) => stopped,
        }
    }
}

fn nested(path: &[&str], value: Value) -> Value {
    path.iter()
        .rev()
        .fold(value, |inner, name| Value::Object(Map::from_iter([((*name).to_owned(), inner)])))
}

/// Does what reads and writes files beside the async threads.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stopped> {
    let done = support::blocking(work).await;
    done.map_err(|_| Stopped::Failed("the work was given up; the log says why".into()))
}
