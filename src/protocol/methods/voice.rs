//! `voicewake.*`, `tts.*`, `talk.*`.

use serde_json::Value;

use crate::protocol::decode::{
    Fields, Params, any, boolean, integer_from, non_empty, number, text,
};

/// Params of `voicewake.set`, read by hand as the original does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VoicewakeSetParams {
    /// The words; `None` when it is no list of texts.
    pub triggers: Option<Vec<String>>,
}

impl Params for VoicewakeSetParams {
    fn read(f: &mut Fields) -> Self {
        let triggers = f.optional("triggers", any());
        f.ignore_rest();
        let words = triggers.as_ref().and_then(Value::as_array);
        let word = |word: &Value| word.as_str().map(str::to_owned);
        Self { triggers: words.and_then(|words| words.iter().map(word).collect()) }
    }
}

/// Params of `voicewake.routing.set`, read by hand as the original does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VoicewakeRoutingSetParams {
    /// The table; `None` when it is no object.
    pub config: Option<Value>,
}

impl Params for VoicewakeRoutingSetParams {
    fn read(f: &mut Fields) -> Self {
        let config = f.optional("config", any());
        f.ignore_rest();
        Self { config: config.filter(Value::is_object) }
    }
}

/// Params of `tts.setProvider`, `tts.setPersona` and `tts.convert`, read by
/// hand as the original does: what is no text counts as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TtsParams {
    /// What is to be spoken; trimmed.
    pub text: Option<String>,
    /// For which channel.
    pub channel: Option<String>,
    /// Which service.
    pub provider: Option<String>,
    /// Which persona.
    pub persona: Option<String>,
    /// Which model.
    pub model: Option<String>,
    /// Which voice.
    pub voice: Option<String>,
}

impl Params for TtsParams {
    fn read(f: &mut Fields) -> Self {
        let mut word = |name| {
            let value = f.optional(name, any());
            let text = value.as_ref().and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let params = Self {
            text: word("text"),
            channel: word("channel"),
            provider: word("provider"),
            persona: word("persona"),
            model: word("modelId"),
            voice: word("voiceId"),
        };
        f.ignore_rest();
        params
    }
}

/// Params of `talk.config`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TalkConfigParams {
    /// Whether keys are wanted.
    pub include_secrets: bool,
}

impl Params for TalkConfigParams {
    fn read(f: &mut Fields) -> Self {
        Self { include_secrets: f.optional("includeSecrets", boolean()).unwrap_or_default() }
    }
}

/// Params of `talk.mode`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TalkModeParams {
    /// Whether somebody talks.
    pub enabled: bool,
    /// What happens, in a word.
    pub phase: Option<String>,
}

impl Params for TalkModeParams {
    fn read(f: &mut Fields) -> Self {
        Self { enabled: f.required("enabled", boolean()), phase: f.optional("phase", text()) }
    }
}

/// Params of `talk.speak`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TalkSpeakParams {
    /// What is to be spoken.
    pub text: String,
    /// Which voice.
    pub voice_id: Option<String>,
    /// Which model.
    pub model_id: Option<String>,
    /// How the sound is written.
    pub output_format: Option<String>,
    /// How fast; 1 is usual.
    pub speed: Option<f64>,
    /// The same in words a minute.
    pub rate_wpm: Option<u64>,
    /// 0 to 1.
    pub stability: Option<f64>,
    /// 0 to 1.
    pub similarity: Option<f64>,
    /// 0 to 1.
    pub style: Option<f64>,
    /// Whether to be closer to the speaker.
    pub speaker_boost: Option<bool>,
    /// The same number is the same speech.
    pub seed: Option<u64>,
    /// `auto`, `on` or `off`.
    pub normalize: Option<String>,
    /// Two letters.
    pub language: Option<String>,
}

impl Params for TalkSpeakParams {
    fn read(f: &mut Fields) -> Self {
        let params = Self {
            text: f.required("text", non_empty()),
            voice_id: f.optional("voiceId", text()),
            model_id: f.optional("modelId", text()),
            output_format: f.optional("outputFormat", text()),
            speed: f.optional("speed", number()),
            rate_wpm: f.optional("rateWpm", integer_from(1)),
            stability: f.optional("stability", number()),
            similarity: f.optional("similarity", number()),
            style: f.optional("style", number()),
            speaker_boost: f.optional("speakerBoost", boolean()),
            seed: f.optional("seed", integer_from(0)),
            normalize: f.optional("normalize", text()),
            language: f.optional("language", text()),
        };
        // ElevenLabs has taken it out of its API.
        f.optional("latencyTier", integer_from(0));
        params
    }
}

/// Params of `talk.realtime.session`. No service is asked for one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TalkRealtimeSessionParams;

impl Params for TalkRealtimeSessionParams {
    fn read(f: &mut Fields) -> Self {
        for name in ["sessionKey", "provider", "model", "voice"] {
            f.optional(name, text());
        }
        Self
    }
}

/// Params of `talk.realtime.relayAudio`. There is no session to relay it into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TalkRelayAudioParams;

impl Params for TalkRelayAudioParams {
    fn read(f: &mut Fields) -> Self {
        f.required("relaySessionId", non_empty());
        f.required("audioBase64", non_empty());
        f.optional("timestamp", number());
        Self
    }
}

/// Params of `talk.realtime.relayMark`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TalkRelayMarkParams;

impl Params for TalkRelayMarkParams {
    fn read(f: &mut Fields) -> Self {
        f.required("relaySessionId", non_empty());
        f.optional("markName", text());
        Self
    }
}

/// Params of `talk.realtime.relayStop`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TalkRelayStopParams;

impl Params for TalkRelayStopParams {
    fn read(f: &mut Fields) -> Self {
        f.required("relaySessionId", non_empty());
        Self
    }
}

/// Params of `talk.realtime.relayToolResult`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TalkRelayToolResultParams;

impl Params for TalkRelayToolResultParams {
    fn read(f: &mut Fields) -> Self {
        f.required("relaySessionId", non_empty());
        f.required("callId", non_empty());
        f.required("result", any());
        Self
    }
}
