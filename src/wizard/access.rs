//! How a model is let in, and where its key is kept.

use std::path::PathBuf;
use std::sync::Arc;

use super::asker::Stopped;
use super::draft::{Draft, blocking};
use crate::config::profiles::ProfileMode;
use crate::config::secrets::{SecretRef, SecretSource};
use crate::providers::ModelInfo;
use crate::providers::credentials::{Credentials, ProfileFile, path_below};
use crate::support::{Secret, json};

/// What tells a token of a Claude subscription from a key.
const SETUP_TOKEN: &str = "sk-ant-oat";

/// How a provider lets us in.
#[derive(Debug, Clone)]
pub enum Access {
    /// By this key.
    Key(Secret),
    /// By the key in this variable.
    Variable(String),
    /// By what is already there.
    AsIs,
}

/// A key that is to be stored.
#[derive(Debug, Clone)]
pub struct StoredKey {
    /// Whose it is.
    pub provider: String,
    /// It, or where it is.
    pub access: Access,
}

impl Access {
    /// What kind of credential it is.
    fn mode(key: &Secret) -> ProfileMode {
        if key.begins_with(SETUP_TOKEN) { ProfileMode::Token } else { ProfileMode::ApiKey }
    }

    /// `model`, let in this way.
    pub async fn apply(&self, draft: &Draft, model: &Arc<ModelInfo>) -> Arc<ModelInfo> {
        match self {
            Self::Key(key) if Self::mode(key) == ProfileMode::Token => {
                Arc::new(model.with_bearer(key))
            }
            Self::Key(key) => Arc::new(model.with_key(key.clone())),
            Self::Variable(name) => match draft.env.get(name) {
                Some(key) => Arc::new(model.with_key(Secret::new(key))),
                None => Arc::clone(model),
            },
            Self::AsIs => {
                let clock = Arc::clone(&draft.clock);
                let credentials = Credentials::new(&draft.settings, &draft.env, clock);
                let agent = &draft.settings.agents.default_id;
                let first = credentials.for_model(agent, model).await.into_iter().next();
                first.map_or_else(|| Arc::clone(model), |credential| credential.apply(model))
            }
        }
    }
}

impl StoredKey {
    /// Its id among the credentials.
    pub fn id(&self) -> String {
        format!("{}:default", self.provider)
    }

    /// Has it tried before others of its provider that are stored already.
    ///
    /// # Errors
    /// When no gateway would start with that.
    pub async fn prefer(&self, draft: &mut Draft) -> Result<(), Stopped> {
        let clock = Arc::clone(&draft.clock);
        let credentials = Credentials::new(&draft.settings, &draft.env, clock);
        let stored = credentials.profiles(&draft.settings.agents.default_id).await;
        let own = stored.into_iter().filter(|it| it.profile.provider == self.provider);
        let used = own.filter(|it| !it.is_left_out).map(|it| it.profile.id);
        let others: Vec<_> = used.filter(|id| *id != self.id()).collect();
        if others.is_empty() {
            return Ok(());
        }
        let order: Vec<_> = std::iter::once(self.id()).chain(others).collect();
        let place = vec!["auth", "order", self.provider.as_str()];
        draft.set(vec![(place, json!(order))]).await.map_err(Stopped::from)
    }

    /// Where it goes.
    pub fn file(draft: &Draft) -> PathBuf {
        let settings = &draft.settings;
        path_below(&settings.paths.agent_dir(&settings.agents.default_id))
    }

    /// Stores it.
    ///
    /// # Errors
    /// When the file is not readable or not writable.
    pub async fn store(self, draft: &Draft) -> Result<(), Stopped> {
        let path = Self::file(draft);
        let stored = blocking(move || {
            let (id, provider) = (self.id(), self.provider.as_str());
            match &self.access {
                Access::Key(key) => ProfileFile::add(&path, &id, provider, Access::mode(key), key),
                Access::Variable(name) => {
                    let reference = variable(name);
                    ProfileFile::add_reference(&path, &id, provider, &reference)
                }
                Access::AsIs => Ok(()),
            }
        });
        stored.await?.map_err(|error| Stopped::Failed(format!("the key is not stored: {error}")))
    }
}

/// A reference to the variable `name`.
pub fn variable(name: &str) -> SecretRef {
    let provider = Some("default".to_owned());
    SecretRef { source: SecretSource::Env, provider, id: name.to_owned() }
}

/// What a key looks like: one word of ASCII.
///
/// # Errors
/// In words for people.
pub fn check_key(text: &str) -> Result<(), String> {
    if text.is_empty() {
        Err("give a key".into())
    } else if text.chars().all(|c| c.is_ascii_graphic()) {
        Ok(())
    } else {
        Err("a key is one line of ASCII characters without spaces".into())
    }
}
