//! How one service of speech is used.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::config::secrets::{SecretInput, SecretRef};
use crate::support::Secret;

/// How long a local program may take, as in the original.
const COMMAND_TIMEOUT_MS: u64 = 120_000;
/// Bound of that: the request waits meanwhile.
const COMMAND_TIMEOUT_MAX_MS: u64 = 600_000;

/// A member of `messages.tts.providers` or `talk.providers`. Each service
/// reads what it knows.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpeechOptions {
    /// Its key.
    pub api_key: Option<SecretInput>,
    /// Its address, when it is not the usual one.
    pub base_url: Option<SecretInput>,
    model: Option<String>,
    model_id: Option<String>,
    voice: Option<String>,
    voice_id: Option<String>,
    output_format: Option<String>,
    response_format: Option<String>,
    /// How fast; 1 is usual.
    pub speed: Option<f64>,
    /// How to speak, in words.
    pub instructions: Option<String>,
    /// Two letters.
    pub language_code: Option<String>,
    /// `auto`, `on` or `off`.
    pub apply_text_normalization: Option<String>,
    /// The same number is the same speech.
    pub seed: Option<u64>,
    /// How the voice is tuned.
    pub voice_settings: VoiceTuning,
    /// Names for voices.
    pub voice_aliases: BTreeMap<String, String>,
    /// A local program.
    pub command: Option<String>,
    /// What it is called with.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: Option<String>,
    /// What it finds in its environment.
    pub env: BTreeMap<String, Secret>,
    timeout_ms: Option<u64>,
}

/// `voiceSettings` of `ElevenLabs`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VoiceTuning {
    /// 0 to 1.
    pub stability: Option<f64>,
    /// 0 to 1.
    pub similarity_boost: Option<f64>,
    /// 0 to 1.
    pub style: Option<f64>,
    /// Whether to be closer to the speaker.
    pub use_speaker_boost: Option<bool>,
    /// 0.5 to 2.
    pub speed: Option<f64>,
}

impl SpeechOptions {
    /// The model.
    pub fn model(&self) -> Option<&str> {
        filled([&self.model, &self.model_id])
    }

    /// The voice.
    pub fn voice(&self) -> Option<&str> {
        filled([&self.voice, &self.voice_id])
    }

    /// How the sound is written.
    pub fn format(&self) -> Option<&str> {
        filled([&self.output_format, &self.response_format])
    }

    /// How long a local program may take.
    pub fn timeout(&self) -> Duration {
        let millis = self.timeout_ms.unwrap_or(COMMAND_TIMEOUT_MS);
        Duration::from_millis(millis.clamp(1000, COMMAND_TIMEOUT_MAX_MS))
    }

    /// Every reference to a secret.
    pub fn references(&self) -> impl Iterator<Item = &SecretRef> {
        self.api_key.iter().chain(&self.base_url).filter_map(SecretInput::reference)
    }

    /// With what `over` says, where it says something.
    #[must_use]
    pub fn overlaid(&self, over: &Self) -> Self {
        let text = |mine: Option<&str>, other: Option<&str>| other.or(mine).map(str::to_owned);
        let (voice, tuning) = (&self.voice_settings, &over.voice_settings);
        Self {
            api_key: over.api_key.clone().or_else(|| self.api_key.clone()),
            base_url: over.base_url.clone().or_else(|| self.base_url.clone()),
            model: text(self.model(), over.model()),
            voice: text(self.voice(), over.voice()),
            output_format: text(self.format(), over.format()),
            model_id: None,
            voice_id: None,
            response_format: None,
            speed: over.speed.or(self.speed),
            instructions: text(self.instructions.as_deref(), over.instructions.as_deref()),
            language_code: text(self.language_code.as_deref(), over.language_code.as_deref()),
            apply_text_normalization: text(
                self.apply_text_normalization.as_deref(),
                over.apply_text_normalization.as_deref(),
            ),
            seed: over.seed.or(self.seed),
            voice_settings: VoiceTuning {
                stability: tuning.stability.or(voice.stability),
                similarity_boost: tuning.similarity_boost.or(voice.similarity_boost),
                style: tuning.style.or(voice.style),
                use_speaker_boost: tuning.use_speaker_boost.or(voice.use_speaker_boost),
                speed: tuning.speed.or(voice.speed),
            },
            voice_aliases: either(&self.voice_aliases, &over.voice_aliases),
            command: text(self.command.as_deref(), over.command.as_deref()),
            args: if over.args.is_empty() { self.args.clone() } else { over.args.clone() },
            cwd: text(self.cwd.as_deref(), over.cwd.as_deref()),
            env: either(&self.env, &over.env),
            timeout_ms: over.timeout_ms.or(self.timeout_ms),
        }
    }

    /// With what a request wishes instead.
    #[must_use]
    pub fn wished(
        &self,
        model: Option<String>,
        voice: Option<String>,
        format: Option<String>,
    ) -> Self {
        self.overlaid(&Self { model, voice, output_format: format, ..Self::default() })
    }
}

fn filled<const N: usize>(texts: [&Option<String>; N]) -> Option<&str> {
    texts.into_iter().flatten().map(|text| text.trim()).find(|text| !text.is_empty())
}

fn either<T: Clone>(mine: &BTreeMap<String, T>, over: &BTreeMap<String, T>) -> BTreeMap<String, T> {
    if over.is_empty() { mine.clone() } else { over.clone() }
}
