//! `messages.tts`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::options::SpeechOptions;

/// Longest text that is spoken, as in the original; services take no more.
const TEXT_MAX: usize = 4096;
/// Bound of that: an hour of speech.
const TEXT_MAX_MAX: usize = 100_000;
/// How long a service may take, as in the original.
const TIMEOUT_MS: u64 = 30_000;
/// Bounds of that: the request waits meanwhile.
pub(super) const TIMEOUT_BOUNDS_MS: (u64, u64) = (1000, 600_000);

/// When answers are to be spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TtsAuto {
    /// Never.
    #[default]
    Off,
    /// Always.
    Always,
    /// When what they answer was spoken.
    Inbound,
    /// When the agent marks them.
    Tagged,
}

impl TtsAuto {
    /// The name in the config file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Always => "always",
            Self::Inbound => "inbound",
            Self::Tagged => "tagged",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Off, Self::Always, Self::Inbound, Self::Tagged];
        all.into_iter().find(|auto| auto.as_str() == name)
    }
}

/// `messages.tts`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TtsConfig {
    auto: Option<TtsAuto>,
    enabled: bool,
    /// Which service; who is configured when not set.
    pub provider: Option<String>,
    /// Which of the personas.
    pub persona: Option<String>,
    /// Voices with a name.
    pub personas: BTreeMap<String, Persona>,
    /// The services, by id.
    pub providers: BTreeMap<String, SpeechOptions>,
    max_text_length: Option<usize>,
    timeout_ms: Option<u64>,
    /// Where what people choose is kept, when it is not the usual place.
    pub prefs_path: Option<String>,
}

/// A voice with a name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Persona {
    /// Name for people.
    pub label: Option<String>,
    /// What it is like.
    pub description: Option<String>,
    /// Which service speaks it.
    pub provider: Option<String>,
    /// What happens when that service cannot.
    pub fallback_policy: Option<String>,
    /// How each service speaks it.
    pub providers: BTreeMap<String, SpeechOptions>,
}

impl TtsConfig {
    /// When answers are to be spoken.
    pub fn auto(&self) -> TtsAuto {
        let standard = if self.enabled { TtsAuto::Always } else { TtsAuto::Off };
        self.auto.unwrap_or(standard)
    }

    /// Longest text that is spoken, in characters.
    pub fn max_text_length(&self) -> usize {
        self.max_text_length.unwrap_or(TEXT_MAX).min(TEXT_MAX_MAX)
    }

    /// How long a service may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.unwrap_or(TIMEOUT_MS))
    }
}
