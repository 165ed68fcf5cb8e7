//! `talk.*`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use crate::bus::{Audience, EventKind};
use crate::config::edit::Step;
use crate::config::redact::redacted_at;
use crate::config::voice::{SpeechOptions, TalkConfig};
use crate::protocol::methods::voice::{
    TalkConfigParams, TalkModeParams, TalkRealtimeSessionParams, TalkRelayAudioParams,
    TalkRelayMarkParams, TalkRelayStopParams, TalkRelayToolResultParams, TalkSpeakParams,
};
use crate::protocol::{ErrorShape, Scope};
use crate::registry::{Ctx, Reply};
use crate::support::json;
use crate::voice::tts::{SpeakRequest, SpeechError};

/// Words a minute at the usual speed, as in the original.
const USUAL_WPM: f64 = 175.0;
/// Bounds of what is made of them.
const SPEED: (f64, f64) = (0.5, 2.0);

/// `talk.config`: what programs need that talk with an agent. Keys are for
/// those who may see them, and only when they ask.
pub async fn config(cx: Ctx, p: TalkConfigParams) -> Reply<Value> {
    let principal = &cx.caller.principal;
    if p.include_secrets && !principal.allows(Scope::TalkSecrets) {
        return Err(ErrorShape::lacks(Scope::TalkSecrets.as_str()));
    }
    let settings = cx.services.settings.now();
    let mut config = Map::new();
    if let Some(talk) = shown(&settings.voice.talk, p.include_secrets) {
        config.insert("talk".into(), talk);
    }
    let text = |section: &str, name: &str| settings.raw.get(section)?.get(name)?.as_str();
    if let Some(main_key) = text("session", "mainKey") {
        config.insert("session".into(), json!({"mainKey": main_key}));
    }
    if let Some(color) = text("ui", "seamColor") {
        config.insert("ui".into(), json!({"seamColor": color}));
    }
    Ok(json!({"config": config}))
}

/// The section with what comes of it, in the members that the schema has.
fn shown(talk: &TalkConfig, with_secrets: bool) -> Option<Value> {
    let section = talk.section()?;
    let mut shown = Map::new();
    for name in ["providers", "speechLocale", "interruptOnSpeech", "silenceTimeoutMs"] {
        if let Some(value) = section.get(name).filter(|value| !value.is_null()) {
            shown.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(provider) = talk.active() {
        shown.insert("provider".into(), json!(provider));
        let config = section.get("providers").and_then(|all| all.get(provider));
        let config = config.cloned().unwrap_or_else(|| json!({}));
        shown.insert("resolved".into(), json!({"provider": provider, "config": config}));
    }
    if shown.is_empty() {
        return None;
    }
    let mut shown = Value::Object(shown);
    if !with_secrets {
        shown = redacted_at(&[Step::Key("talk".into())], &shown);
        if let Some(provider) = talk.active() {
            // The copy is hidden as what it is a copy of.
            let hidden = shown["providers"].get(provider).cloned();
            shown["resolved"]["config"] = hidden.unwrap_or_else(|| json!({}));
        }
    }
    Some(shown)
}

/// `talk.mode`: tells everybody that somebody talks, or no longer does.
pub async fn mode(cx: Ctx, p: TalkModeParams) -> Reply<Value> {
    if cx.caller.is_webchat && !cx.services.nodes.has_talking() {
        let error = "talk disabled: no connected Talk-capable nodes";
        return Err(ErrorShape::unavailable(error));
    }
    let payload = json!({"enabled": p.enabled, "phase": p.phase, "ts": cx.now_ms()});
    cx.services.bus.publish(EventKind::TalkMode, &Audience::Everyone, &payload);
    Ok(payload)
}

/// `talk.speak`: speaks a text with the service of `talk`, and answers with the
/// sound.
pub async fn speak(cx: Ctx, p: TalkSpeakParams) -> Reply<Value> {
    if p.text.trim().is_empty() {
        return Err(ErrorShape::invalid("talk.speak requires text"));
    }
    let speed = match (p.speed, p.rate_wpm) {
        (Some(speed), _) => Some(speed),
        (None, Some(rate)) => Some(speed_of(rate).ok_or_else(wrong_rate)?),
        (None, None) => None,
    };
    let mut wish = SpeechOptions::default().wished(p.model_id, p.voice_id, p.output_format);
    wish.speed = speed;
    wish.seed = p.seed;
    wish.apply_text_normalization = p.normalize;
    wish.language_code = p.language;
    wish.voice_settings.stability = p.stability;
    wish.voice_settings.similarity_boost = p.similarity;
    wish.voice_settings.style = p.style;
    wish.voice_settings.use_speaker_boost = p.speaker_boost;
    let request = SpeakRequest { text: p.text, wish, ..SpeakRequest::default() };
    let spoken = cx.services.voice.talk(&request).await.map_err(|error| unspoken(&error))?;
    let audio = &spoken.audio;
    Ok(json!({
        "audioBase64": BASE64_STANDARD.encode(&audio.bytes),
        "provider": spoken.provider.id(),
        "outputFormat": audio.format,
        "voiceCompatible": audio.voice_compatible,
        "mimeType": audio.media_type(),
        "fileExtension": audio.extension,
    }))
}

fn speed_of(words_a_minute: u64) -> Option<f64> {
    let speed = f64::from(u32::try_from(words_a_minute).ok()?) / USUAL_WPM;
    (speed > SPEED.0 && speed < SPEED.1).then_some(speed)
}

fn wrong_rate() -> ErrorShape {
    let rule = "rateWpm must resolve to speed between 0.5 and 2.0";
    ErrorShape::invalid(format!("invalid talk.speak params: {rule}"))
}

/// Nothing was spoken; the particulars say whether a client is to speak itself.
fn unspoken(error: &SpeechError) -> ErrorShape {
    let (reason, fallback) = match error {
        SpeechError::TooLong { .. } => return ErrorShape::invalid(error.to_string()),
        SpeechError::NoTalkProvider => ("talk_unconfigured", true),
        SpeechError::NotOffered(_) => ("talk_provider_unsupported", true),
        _ => ("synthesis_failed", false),
    };
    let details = json!({"reason": reason, "fallbackEligible": fallback});
    ErrorShape::unavailable(error.to_string()).details(details)
}

/// `talk.realtime.session`: a voice session with a realtime service, of which
/// this gateway asks none.
pub async fn realtime_session(_: Ctx, _: TalkRealtimeSessionParams) -> Reply<Value> {
    let error = "Error: No realtime voice provider registered; this gateway offers talk.speak";
    let details = json!({"reason": "method_unavailable", "fallbackEligible": true});
    Err(ErrorShape::unavailable(error).details(details))
}

/// `talk.realtime.relayAudio`: sound for such a session.
pub async fn relay_audio(_: Ctx, _: TalkRelayAudioParams) -> Reply<Value> {
    Err(no_session())
}

/// `talk.realtime.relayMark`: how far its sound was heard.
pub async fn relay_mark(_: Ctx, _: TalkRelayMarkParams) -> Reply<Value> {
    Err(no_session())
}

/// `talk.realtime.relayStop`: its end.
pub async fn relay_stop(_: Ctx, _: TalkRelayStopParams) -> Reply<Value> {
    Err(no_session())
}

/// `talk.realtime.relayToolResult`: what a tool answered to it.
pub async fn relay_tool_result(_: Ctx, _: TalkRelayToolResultParams) -> Reply<Value> {
    Err(no_session())
}

/// There is never one: see [`realtime_session`].
fn no_session() -> ErrorShape {
    ErrorShape::unavailable("Error: Unknown realtime relay session")
}
