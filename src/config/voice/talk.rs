//! `talk`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::options::SpeechOptions;

/// `talk`: what programs need that talk with an agent.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TalkConfig {
    provider: Option<String>,
    /// The services, by id.
    pub providers: BTreeMap<String, SpeechOptions>,
    /// What is spoken.
    pub speech_locale: Option<String>,
    /// Whether speech stops the speech of the agent.
    pub interrupt_on_speech: Option<bool>,
    /// How long a silence ends what is said.
    pub silence_timeout_ms: Option<u64>,
    #[serde(skip)]
    section: Option<Value>,
}

impl TalkConfig {
    /// Keeps the section as it is written, its variables filled in.
    pub(super) fn with_section(self, section: Option<&Value>) -> Self {
        Self { section: section.cloned(), ..self }
    }

    /// The section as it is written, its variables filled in: it may hold keys.
    pub const fn section(&self) -> Option<&Value> {
        self.section.as_ref()
    }

    /// Which service speaks: the one that is named, or the only one.
    pub fn active(&self) -> Option<&str> {
        let named = self.provider.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let mut all = self.providers.keys();
        let only = || all.next().filter(|_| self.providers.len() == 1).map(String::as_str);
        named.or_else(only)
    }
}

/// Leaves out the section with its keys.
impl fmt::Debug for TalkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TalkConfig")
            .field("provider", &self.provider)
            .field("providers", &self.providers)
            .finish_non_exhaustive()
    }
}
