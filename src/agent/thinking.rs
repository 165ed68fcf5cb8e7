//! How hard models think where nobody says so.
//!
//! Owns: that level, in the original's order: what the configuration says of the agent, of the
//! model and of all, then what is usual for the model. Promises: one that cannot think, or of
//! which nothing but the name is known, is not asked to unless somebody says so.

use std::collections::HashMap;

use crate::config::AgentsSettings;
use crate::providers::{Catalog, ModelInfo, ModelRef, ThinkingLevel};
use crate::sessions::AgentId;

/// Providers, and how the names of those of their models begin that think only when they are
/// told to. As in the original; a dot of a name stands as a dash.
const UNASKED: &[(&str, &str)] = &[
    ("anthropic", "claude-opus-4-7"),
    ("claude-cli", "claude-opus-4-7"),
    ("kimi", ""),
    ("mistral", "mistral-small-latest"),
    ("moonshot", ""),
    ("ollama", ""),
    ("opencode", "claude-opus-4-7"),
    ("vercel-ai-gateway", "anthropic/claude-opus-4-7"),
    ("x-ai", ""),
    ("xai", ""),
    ("zai", ""),
];
/// The same of those that think a lot.
const HARD: &[(&str, &str)] = &[
    ("deepseek", "deepseek-v4-flash"),
    ("deepseek", "deepseek-v4-pro"),
    ("openrouter", "deepseek/deepseek-v4-flash"),
    ("openrouter", "deepseek/deepseek-v4-pro"),
];

/// What the configuration says of it.
pub(super) struct Thinking {
    by_agent: HashMap<AgentId, ThinkingLevel>,
    by_model: Vec<(ModelRef, ThinkingLevel)>,
    of_all: Option<ThinkingLevel>,
}

impl Thinking {
    /// Reads it.
    pub fn new(agents: &AgentsSettings) -> Self {
        let level = |written: &Option<String>| ThinkingLevel::meant_by(written.as_deref()?);
        let by_agent = agents.list.iter().filter_map(|agent| {
            Some((AgentId::normalize(&agent.id), level(&agent.thinking_default)?))
        });
        let models = agents.defaults.models.iter();
        let by_model = models
            .filter_map(|model| Some((ModelRef::parse(&model.name)?, level(&model.thinking)?)));
        Self {
            by_agent: by_agent.collect(),
            by_model: by_model.collect(),
            of_all: level(&agents.defaults.thinking_default),
        }
    }

    /// How hard a model thinks for an agent, or for none in particular.
    pub fn of(
        &self,
        agent: Option<&AgentId>,
        model: Option<&ModelInfo>,
        catalog: &Catalog,
    ) -> ThinkingLevel {
        let by_agent = agent.and_then(|agent| self.by_agent.get(agent));
        let by_model = || {
            let model = model?;
            self.by_model.iter().find(|(name, _)| model.is(name)).map(|(_, level)| level)
        };
        let said = by_agent.or_else(by_model).or(self.of_all.as_ref());
        // A name that is not listed is taken for a model like another one, which may think.
        let is_listed = |model: &&ModelInfo| catalog.find(&model.reference()).is_some();
        said.copied().unwrap_or_else(|| {
            let thinker = model.filter(|model| model.reasoning).filter(is_listed);
            thinker.map_or(ThinkingLevel::Off, usual)
        })
    }
}

/// How hard a model that can think does so unasked.
fn usual(model: &ModelInfo) -> ThinkingLevel {
    let id = model.id.to_lowercase().replace('.', "-");
    let is_in = |list: &[(&str, &str)]| {
        list.iter().any(|(provider, begin)| id.starts_with(*begin) && model.is_of(provider))
    };
    if is_in(UNASKED) {
        ThinkingLevel::Off
    } else if is_in(HARD) {
        ThinkingLevel::High
    } else {
        ThinkingLevel::Medium
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing;

    #[test]
    fn some_models_think_only_when_they_are_told_to_and_others_a_lot() {
        for (provider, id, level) in [
            ("mock", "mock-1", ThinkingLevel::Medium),
            ("anthropic", "claude-opus-4.7-20260301", ThinkingLevel::Off),
            ("Anthropic", "claude-opus-4-6", ThinkingLevel::Medium),
            ("openrouter", "anthropic/claude-opus-4.7", ThinkingLevel::Medium),
            ("vercel-ai-gateway", "anthropic/claude-opus-4.7", ThinkingLevel::Off),
            ("z.ai", "glm-5", ThinkingLevel::Off),
            ("kimi-coding", "k3", ThinkingLevel::Off),
            ("xai", "grok-5", ThinkingLevel::Off),
            ("mistral", "magistral-medium", ThinkingLevel::Medium),
            ("deepseek", "deepseek-v4-pro", ThinkingLevel::High),
            ("openrouter", "deepseek/deepseek-v4-flash:free", ThinkingLevel::High),
            ("openrouter", "deepseek/deepseek-r1", ThinkingLevel::Medium),
        ] {
            let model = testing::model("openai-completions");
            let model = ModelInfo { provider: provider.into(), id: id.into(), ..model };
            assert_eq!(usual(&model), level, "{provider}/{id}");
        }
    }
}
