//! Speech: `messages.tts` and `talk`.
//!
//! Owns: the shape of both, as OpenClaw writes them, and their bounds.
//! Promises: a key never shows up in `Debug`. Must not: look a secret up; that
//! is done when it is needed.

mod options;
mod talk;
mod tts;

pub use options::{SpeechOptions, VoiceTuning};
pub use talk::TalkConfig;
pub use tts::{Persona, TtsAuto, TtsConfig};

use super::ConfigError;
use super::schema::Node;

/// Both sections.
#[derive(Debug, Clone, Default)]
pub struct VoiceConfig {
    /// `messages.tts`.
    pub tts: TtsConfig,
    /// `talk`.
    pub talk: TalkConfig,
}

/// Reads both; an error names the key inside of them.
pub(super) fn read(root: &Node<'_>) -> Result<VoiceConfig, ConfigError> {
    let (talk, tts) = (root.member("talk")?, root.at("messages.tts")?);
    tts.member("maxTextLength")?.count::<u64>()?;
    let (least, most) = tts::TIMEOUT_BOUNDS_MS;
    tts.member("timeoutMs")?.integer_within::<u64>(least, most)?;
    Ok(VoiceConfig {
        tts: tts.deserialize()?,
        talk: talk.deserialize::<TalkConfig>()?.with_section(talk.value()),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use serde_json::Value;

    use crate::support::json;

    use super::*;

    fn read(config: &Value) -> Result<VoiceConfig, String> {
        super::read(&Node::root(config, Path::new("openclaw.json")))
            .map_err(|error| error.to_string())
    }

    fn tts(tts: &Value) -> TtsConfig {
        read(&json!({"messages": {"tts": tts}})).unwrap().tts
    }

    #[test]
    fn what_is_not_written_is_as_in_openclaw() {
        let tts = tts(&Value::Null);
        assert_eq!((tts.auto(), tts.max_text_length()), (TtsAuto::Off, 4096));
        assert_eq!(tts.timeout(), Duration::from_secs(30));
    }

    #[test]
    fn a_longer_text_than_any_is_spoken_up_to_the_bound() {
        assert_eq!(tts(&json!({"maxTextLength": 200_000})).max_text_length(), 100_000);
    }

    #[test]
    fn the_older_word_for_always_is_read() {
        assert_eq!(tts(&json!({"enabled": true})).auto(), TtsAuto::Always);
        assert_eq!(tts(&json!({"enabled": true, "auto": "tagged"})).auto(), TtsAuto::Tagged);
    }

    #[test]
    fn what_is_out_of_bounds_is_an_error() {
        for (wrong, key) in [
            (json!({"maxTextLength": 0}), "maxTextLength"),
            (json!({"timeoutMs": 999}), "timeoutMs"),
        ] {
            let error = read(&json!({"messages": {"tts": wrong}})).unwrap_err();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn a_service_is_described_in_the_words_of_each() {
        let tts = tts(&json!({"providers": {
            "openai": {"apiKey": "key-1", "model": "m", "voice": "v", "responseFormat": "opus"},
            "elevenlabs": {"modelId": "m2", "voiceId": "v2", "outputFormat": "mp3_44100_128"}}}));
        let openai = &tts.providers["openai"];
        assert_eq!((openai.model(), openai.voice()), (Some("m"), Some("v")));
        assert_eq!(openai.format(), Some("opus"));
        let eleven = &tts.providers["elevenlabs"];
        assert_eq!((eleven.model(), eleven.voice()), (Some("m2"), Some("v2")));
        assert!(!format!("{tts:?}").contains("key-1"));
    }

    #[test]
    fn an_error_names_the_key_and_the_section_is_not_shown() {
        let error = read(&json!({"messages": {"tts": {"auto": "loud"}}})).unwrap_err();
        assert!(error.contains("messages.tts") && error.contains("auto"), "{error}");
        let error = read(&json!({"talk": {"silenceTimeoutMs": "x"}})).unwrap_err();
        assert!(error.contains("talk"), "{error}");
        let talk = read(&json!({"talk": {"providers": {"a": {"apiKey": "key-2"}}}})).unwrap().talk;
        assert!(!format!("{talk:?}").contains("key-2"));
        assert!(talk.section().is_some());
    }

    #[test]
    fn the_only_service_of_talk_is_the_one_that_talks() {
        let talk = |talk: Value| read(&json!({"talk": talk})).unwrap().talk;
        let one = talk(json!({"providers": {"openai": {}}}));
        assert_eq!(one.active(), Some("openai"));
        let two = json!({"providers": {"openai": {}, "elevenlabs": {}}});
        assert_eq!(talk(two).active(), None);
        assert_eq!(talk(json!({"provider": "elevenlabs"})).active(), Some("elevenlabs"));
    }
}
