//! What people call models.
//!
//! Owns: aliases, the list of allowed models, and what a name stands for.
//! Promises: a full name is never taken for another model; a name that may
//! mean several is not guessed at. Must not: know who asks.

use std::sync::Arc;

use super::model::{ModelInfo, ModelRef};
use crate::config::NamedModel;

/// How many models an error names.
const MAX_SHOWN: usize = 8;
/// What belongs to the provider that is used anyway comes first.
const USUAL_PROVIDER: u32 = 5;

/// Why a name stands for no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing is like it.
    #[error("there is no model {0:?}; /models and `clawgate models list` show what there is")]
    Unknown(String),
    /// Several are as much like it.
    #[error("{name:?} may mean {}; say which", candidates.join(", "))]
    Ambiguous {
        /// What was written.
        name: String,
        /// What it may mean.
        candidates: Vec<String>,
    },
    /// There is a list of allowed models, and it is not on it.
    #[error("Model \"{0}\" is not allowed: agents.defaults.models does not name it")]
    NotAllowed(String),
}

/// Other names of models, and which models may be chosen.
#[derive(Debug, Clone, Default)]
pub struct Names {
    aliases: Vec<(String, ModelRef)>,
    /// `None` allows all.
    allowed: Option<Vec<ModelRef>>,
}

impl Names {
    /// From `agents.defaults.models`; `wanted` is what the configuration names
    /// elsewhere, which is always allowed.
    pub fn new(named: &[NamedModel], wanted: &[&str]) -> Self {
        let listed: Vec<_> =
            named.iter().filter_map(|model| Some((model, ModelRef::parse(&model.name)?))).collect();
        let aliases =
            listed.iter().filter_map(|(model, name)| Some((model.alias.clone()?, name.clone())));
        let allowed = listed.iter().map(|(_, name)| name.clone());
        let elsewhere = wanted.iter().filter_map(|name| ModelRef::parse(name));
        Self {
            aliases: aliases.collect(),
            allowed: (!listed.is_empty()).then(|| allowed.chain(elsewhere).collect()),
        }
    }

    /// The model with this alias.
    pub fn of_alias(&self, written: &str) -> Option<&ModelRef> {
        let written = written.trim().to_lowercase();
        self.aliases
            .iter()
            .find_map(|(alias, name)| (alias.to_lowercase() == written).then_some(name))
    }

    /// The alias of a model.
    pub fn alias(&self, model: &ModelInfo) -> Option<&str> {
        self.aliases.iter().find_map(|(alias, name)| model.is(name).then_some(alias.as_str()))
    }

    /// Whether there is a list of allowed models.
    pub const fn is_limited(&self) -> bool {
        self.allowed.is_some()
    }

    /// Whether a model may be chosen.
    pub fn allows(&self, model: &ModelInfo) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|name| model.is(name)))
    }
}

/// The model among `models` that is most like `written`.
pub fn nearest<'a>(
    models: impl Iterator<Item = &'a Arc<ModelInfo>>,
    written: &str,
    usual_provider: &str,
) -> Result<&'a Arc<ModelInfo>, NameError> {
    let (provider, wanted) = match ModelRef::parse(written) {
        Some(full) => (Some(full.provider), full.model),
        None => (None, written.trim().to_owned()),
    };
    let unknown = || NameError::Unknown(written.trim().to_owned());
    let words = words(&wanted);
    if words.is_empty() {
        return Err(unknown());
    }
    let mut best: Vec<&Arc<ModelInfo>> = Vec::new();
    let mut best_score = 0;
    for model in models {
        if provider.as_ref().is_some_and(|provider| !model.is_of(provider)) {
            continue;
        }
        let likeness = likeness(model, &words);
        let bonus = if model.provider == usual_provider { USUAL_PROVIDER } else { 0 };
        let score = if likeness == 0 { 0 } else { likeness + bonus };
        if score > best_score {
            (best_score, best) = (score, vec![model]);
        } else if score == best_score && score > 0 {
            best.push(model);
        }
    }
    match best.as_slice() {
        [] => Err(unknown()),
        [only] => Ok(only),
        several => Err(NameError::Ambiguous {
            name: written.trim().to_owned(),
            candidates: several
                .iter()
                .take(MAX_SHOWN)
                .map(|model| model.reference().to_string())
                .collect(),
        }),
    }
}

/// How much a model is like these words; 0 is not at all.
fn likeness(model: &ModelInfo, wanted: &[String]) -> u32 {
    let joined = wanted.concat();
    let id = words(&model.id).concat();
    let last = model.id.rsplit('/').next().unwrap_or(&model.id);
    let last = words(last).concat();
    let name = words(&model.name).concat();
    let has_all = |text: &str| wanted.iter().all(|word| text.contains(word.as_str()));
    if id == joined {
        100
    } else if last == joined || name == joined {
        90
    } else if last.starts_with(&joined) {
        80
    } else if last.contains(&joined) {
        70
    } else if has_all(&id) {
        60
    } else if has_all(&name) {
        50
    } else {
        0
    }
}

/// Letters and digits in lower case, cut where anything else stands.
fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric());
    parts.filter(|part| !part.is_empty()).map(str::to_lowercase).collect()
}
