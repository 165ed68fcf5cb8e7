//! The services that speak.

use crate::config::voice::SpeechOptions;

/// Voices of OpenAI.
const OPENAI_VOICES: &[&str] = &[
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "juniper", "marin", "onyx",
    "nova", "sage", "shimmer", "verse",
];

/// A service that speaks. Those with the same way of being asked as `OpenAI`
/// differ in their address, key and usual voice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpeechProvider {
    /// `DeepInfra`.
    DeepInfra,
    /// `ElevenLabs`.
    ElevenLabs,
    /// `OpenAI`, and servers that speak like it.
    OpenAi,
    /// `OpenRouter`.
    OpenRouter,
    /// A program on this machine.
    LocalCli,
}

/// What is usual for a service.
pub(super) struct Usual {
    /// Its address.
    pub base_url: &'static str,
    /// A variable with another one.
    pub base_url_variable: Option<&'static str>,
    /// Variables with its key.
    pub key_variables: &'static [&'static str],
    /// Its model.
    pub model: &'static str,
    /// Its voice.
    pub voice: &'static str,
}

impl SpeechProvider {
    /// All of them, by id.
    pub const ALL: [Self; 5] =
        [Self::DeepInfra, Self::ElevenLabs, Self::OpenAi, Self::OpenRouter, Self::LocalCli];
    /// The same, as they are tried when nobody is chosen: first the services
    /// that most people have, as in the original.
    pub const TRIED: [Self; 5] =
        [Self::OpenAi, Self::ElevenLabs, Self::DeepInfra, Self::OpenRouter, Self::LocalCli];

    /// The id in the config file.
    pub const fn id(self) -> &'static str {
        match self {
            Self::DeepInfra => "deepinfra",
            Self::ElevenLabs => "elevenlabs",
            Self::OpenAi => "openai",
            Self::OpenRouter => "openrouter",
            Self::LocalCli => "tts-local-cli",
        }
    }

    /// The name for people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::DeepInfra => "DeepInfra",
            Self::ElevenLabs => "ElevenLabs",
            Self::OpenAi => "OpenAI",
            Self::OpenRouter => "OpenRouter",
            Self::LocalCli => "Local CLI",
        }
    }

    /// The one that is meant, in any case; the program has two names.
    pub fn find(name: &str) -> Option<Self> {
        let name = name.trim().to_lowercase();
        let name = if name == "cli" { Self::LocalCli.id() } else { &name };
        Self::ALL.into_iter().find(|provider| provider.id() == name)
    }

    /// Models that are known of it.
    pub const fn models(self) -> &'static [&'static str] {
        match self {
            Self::DeepInfra => &[
                "hexgrad/Kokoro-82M",
                "ResembleAI/chatterbox-turbo",
                "sesame/csm-1b",
                "Qwen/Qwen3-TTS",
            ],
            Self::ElevenLabs => &[
                "eleven_v3",
                "eleven_multilingual_v2",
                "eleven_turbo_v2_5",
                "eleven_monolingual_v1",
            ],
            Self::OpenAi => &["gpt-4o-mini-tts", "tts-1", "tts-1-hd"],
            Self::OpenRouter => &[
                "hexgrad/kokoro-82m",
                "google/gemini-3.1-flash-tts-preview",
                "mistralai/voxtral-mini-tts-2603",
                "elevenlabs/eleven-turbo-v2",
            ],
            Self::LocalCli => &[],
        }
    }

    /// Voices that are known of it.
    pub const fn voices(self) -> &'static [&'static str] {
        match self {
            Self::DeepInfra | Self::OpenRouter => &["af_alloy"],
            Self::OpenAi => OPENAI_VOICES,
            Self::ElevenLabs | Self::LocalCli => &[],
        }
    }

    pub(super) const fn usual(self) -> Usual {
        let plain = Usual {
            base_url: "",
            base_url_variable: None,
            key_variables: &[],
            model: "",
            voice: "af_alloy",
        };
        match self {
            Self::OpenAi => Usual {
                base_url: "https://api.openai.com/v1",
                base_url_variable: Some("OPENAI_TTS_BASE_URL"),
                key_variables: &["OPENAI_API_KEY"],
                model: "gpt-4o-mini-tts",
                voice: "coral",
            },
            Self::ElevenLabs => Usual {
                base_url: "https://api.elevenlabs.io",
                key_variables: &["ELEVENLABS_API_KEY", "XI_API_KEY"],
                model: "eleven_multilingual_v2",
                voice: "pMsXgVXv3BLzUgSXRplE",
                ..plain
            },
            Self::DeepInfra => Usual {
                base_url: "https://api.deepinfra.com/v1/openai",
                key_variables: &["DEEPINFRA_API_KEY"],
                model: "hexgrad/Kokoro-82M",
                ..plain
            },
            Self::OpenRouter => Usual {
                base_url: "https://openrouter.ai/api/v1",
                key_variables: &["OPENROUTER_API_KEY"],
                model: "hexgrad/kokoro-82m",
                ..plain
            },
            Self::LocalCli => plain,
        }
    }

    /// Whether it is asked without a key when it has an address of its own.
    pub(super) const fn may_be_keyless(self) -> bool {
        matches!(self, Self::OpenAi)
    }

    /// Whether a program is configured for it.
    pub(super) fn has_command(options: &SpeechOptions) -> bool {
        options.command.as_ref().is_some_and(|command| !command.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_by_its_id_in_any_case() {
        for provider in SpeechProvider::ALL {
            assert_eq!(SpeechProvider::find(&provider.id().to_uppercase()), Some(provider));
            assert!(SpeechProvider::TRIED.contains(&provider));
        }
        assert_eq!(SpeechProvider::find(" cli "), Some(SpeechProvider::LocalCli));
        assert_eq!(SpeechProvider::find("microsoft"), None);
    }
}
