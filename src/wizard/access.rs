//! How a model is let in, and where its key is kept.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::asker::Stopped;
use super::draft::{Draft, blocking};
use crate::config::models::{is_same_provider, provider_id};
use crate::config::profiles::ProfileMode;
use crate::config::secrets::{SecretRef, SecretSource};
use crate::providers::ModelInfo;
use crate::providers::credentials::{Credentials, ProfileFile, path_below};
use crate::support::{Secret, json, with_cause};

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

    /// Has it tried before others of its provider that its agent has already. For other
    /// agents their own ones stay in front.
    ///
    /// # Errors
    /// When no gateway would start with that.
    pub async fn prefer(&self, draft: &mut Draft) -> Result<(), Stopped> {
        let agents = &draft.settings.agents;
        let clock = Arc::clone(&draft.clock);
        let credentials = Credentials::new(&draft.settings, &draft.env, clock);
        let own = self.stored(&credentials, &agents.default_id).await;
        let mut foreign = Vec::new();
        for agent in agents.list.iter().filter(|agent| agent.id != agents.default_id) {
            for id in self.stored(&credentials, &agent.id).await {
                if !own.contains(&id) && !foreign.contains(&id) {
                    foreign.push(id);
                }
            }
        }
        let file = Self::file(draft);
        let read = blocking(move || ProfileFile::read(&file)).await?;
        // That one comes before what the config says; the key is put into it when it is stored.
        let has_own_order =
            read.is_ok_and(|file| file.order.contains_key(&provider_id(&self.provider)));
        let (id, provider) = (self.id(), self.provider.clone());
        let mode = match &self.access {
            Access::Key(key) => Access::mode(key),
            Access::Variable(_) | Access::AsIs => ProfileMode::ApiKey,
        };
        let change = move |config: &Value| {
            let mut patch = json!({});
            if config["auth"]["profiles"][&id].is_object() {
                // Another kind of credential than is expected would not be used.
                patch["auth"]["profiles"][&id] =
                    json!({"provider": provider, "mode": mode.as_str()});
            }
            if !has_own_order
                && let Some((name, order)) = order(config, &provider, &id, &own, &foreign)
            {
                patch["auth"]["order"][&name] = json!(order);
            }
            patch
        };
        draft.change(change).await.map_err(Stopped::from)
    }

    /// Other credentials of its provider that an agent has, in the order in which they are
    /// tried.
    async fn stored(&self, credentials: &Credentials, agent: &str) -> Vec<String> {
        let stored = credentials.profiles(agent).await.into_iter();
        let others = stored.filter(|it| is_same_provider(&it.profile.provider, &self.provider));
        others.map(|it| it.profile.id).filter(|id| *id != self.id()).collect()
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
            let added = match &self.access {
                Access::Key(key) => ProfileFile::add(&path, &id, provider, Access::mode(key), key),
                Access::Variable(name) => {
                    ProfileFile::add_reference(&path, &id, provider, &variable(name))
                }
                Access::AsIs => return Ok(()),
            };
            added.map_err(|error| format!("the key is not stored: {}", with_cause(&error)))?;
            ProfileFile::put_first(&path, &id, provider).map_err(|error| {
                format!("the key is stored, but is not put first: {}", with_cause(&error))
            })
        });
        stored.await?.map_err(Stopped::Failed)
    }
}

/// In which order a config is to have the credentials of a provider tried, and how it calls the
/// provider, so that `id` comes before those of its own agent; `None` when there is no other.
fn order(
    config: &Value,
    provider: &str,
    id: &str,
    own: &[String],
    foreign: &[String],
) -> Option<(String, Vec<String>)> {
    let orders = config["auth"]["order"].as_object();
    let written = orders.into_iter().flatten().find(|(name, _)| is_same_provider(name, provider));
    let (name, mut order) = match written {
        Some((name, ids)) => {
            let ids = ids.as_array().into_iter().flatten().filter_map(Value::as_str);
            (name.as_str(), ids.map(str::to_owned).collect())
        }
        None if own.is_empty() => return None,
        None => (provider, [foreign, own].concat()),
    };
    order.retain(|known| known != id);
    let place = order.iter().position(|known| own.contains(known)).unwrap_or(order.len());
    order.insert(place, id.to_owned());
    Some((name.to_owned(), order))
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
