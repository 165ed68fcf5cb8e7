//! Models that the configuration names and that there are not.
//!
//! Owns: what stands in the place of one. Promises: such a name keeps no gateway from
//! starting; a fallback answers, else whoever asks is told where the name stands. Must
//! not: decide which names are meant.

use std::sync::Arc;

use super::build::bare;
use super::model::{Api, ModelInfo, ModelRef};
use crate::config::document::ConfigIssue;
use crate::config::model_options::ModelOptions;

/// So many of the models that there are, are told.
const TOLD: usize = 8;
/// The provider of what is written without one.
const NOBODY: &str = "unknown";

/// A model that the configuration names and that there is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingModel {
    /// Where it stands.
    pub path: String,
    /// What it is called there.
    pub name: String,
    /// Whose it is, where an entry of the list of agents names it.
    pub agent: Option<String>,
    /// Why there is none, and what comes of it.
    pub message: String,
    /// Whether a fallback answers for it.
    pub is_answered: bool,
}

impl MissingModel {
    /// Whether another one is this one. An agent is at another place of the list when one
    /// before it goes.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_there = match (&self.agent, &other.agent) {
            (None, None) => self.path == other.path,
            (own, of_other) => own == of_other,
        };
        is_there && self.name == other.name
    }

    /// The first of `found` that is none of `known`.
    pub fn begun(found: Vec<Self>, known: &[Self]) -> Option<Self> {
        found.into_iter().find(|missing| !known.iter().any(|it| it.is_same(missing)))
    }
}

impl From<MissingModel> for ConfigIssue {
    fn from(MissingModel { path, message, .. }: MissingModel) -> Self {
        Self { path, message }
    }
}

/// That there is no model `name` among these.
pub(super) fn unknown(name: &str, usable: &[Arc<ModelInfo>]) -> String {
    let told = usable.iter().take(TOLD).map(|model| model.reference().to_string());
    let mut known: Vec<_> = told.collect();
    let more = usable.len().saturating_sub(TOLD);
    known.extend((more > 0).then(|| format!("{more} more")));
    let known = known.join(", ");
    format!(
        "there is no model {name:?}; known are {known}. \
         Add others under models.providers.<id>.models"
    )
}

/// What answers where `path` names a model that there is not: the fallback; else what tells
/// everybody who asks it why.
pub(super) fn instead(
    path: &str,
    name: &str,
    why: &str,
    fallback: Option<&Arc<ModelInfo>>,
) -> (Arc<ModelInfo>, MissingModel) {
    let (model, comes_of_it) = match fallback {
        Some(model) => (Arc::clone(model), format!("its fallback {} answers", model.reference())),
        None => (stand_in(name, format!("{path}: {why}")), "runs with it fail".to_owned()),
    };
    let missing = MissingModel {
        path: path.to_owned(),
        name: name.to_owned(),
        agent: None,
        message: format!("{why}; {comes_of_it}"),
        is_answered: fallback.is_some(),
    };
    (model, missing)
}

fn stand_in(name: &str, why: String) -> Arc<ModelInfo> {
    let alone = || ModelRef { provider: NOBODY.into(), model: name.trim().into() };
    let ModelRef { provider, model } = ModelRef::parse(name).unwrap_or_else(alone);
    let options = ModelOptions { missing: Some(why.into()), ..ModelOptions::default() };
    Arc::new(ModelInfo {
        id: model.clone(),
        name: model,
        api: Api::OpenAiCompletions,
        options: Arc::new(options),
        ..bare(&provider)
    })
}
