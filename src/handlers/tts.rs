//! `tts.*`.

use serde_json::Value;

use crate::config::voice::{Persona, SpeechOptions, TtsAuto};
use crate::protocol::ErrorShape;
use crate::protocol::methods::AnyParams;
use crate::protocol::methods::voice::TtsParams;
use crate::registry::{Ctx, Reply};
use crate::support::{json, without_nulls};
use crate::voice::tts::{SpeakRequest, SpeechError, SpeechProvider, TtsChange};

use super::voicewake::unkept;

/// Channels that show a voice message as one.
const VOICE_CHANNELS: [&str; 4] = ["telegram", "whatsapp", "feishu", "matrix"];
/// Words that choose no persona.
const NOBODY: [&str; 3] = ["off", "none", "default"];

/// `tts.status`: whether answers are to be spoken, and who speaks.
pub async fn status(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let state = cx.services.voice.tts_state().await.map_err(|it| unkept(&it))?;
    let settings = cx.services.settings.now();
    let config = &settings.voice.tts;
    let personas: Vec<_> = config.personas.iter().map(|(id, one)| described(id, one)).collect();
    let providers = SpeechProvider::ALL.map(|provider| {
        json!({"id": provider.id(), "label": provider.label(),
            "configured": state.configured.contains(&provider)})
    });
    let fallbacks = state.fallbacks();
    Ok(json!({
        "enabled": state.auto != TtsAuto::Off,
        "auto": state.auto,
        "provider": state.provider,
        "persona": state.persona,
        "personas": personas,
        "fallbackProvider": fallbacks.first(),
        "fallbackProviders": fallbacks,
        "prefsPath": state.prefs_path,
        "providerStates": providers,
    }))
}

fn described(id: &str, persona: &Persona) -> Value {
    without_nulls(json!({"id": id, "label": persona.label,
        "description": persona.description, "provider": persona.provider}))
}

/// `tts.providers`: the services that this gateway can ask.
pub async fn providers(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let state = cx.services.voice.tts_state().await.map_err(|it| unkept(&it))?;
    let providers = SpeechProvider::ALL.map(|provider| {
        json!({"id": provider.id(), "name": provider.label(),
            "configured": state.configured.contains(&provider),
            "models": provider.models(), "voices": provider.voices()})
    });
    Ok(json!({"providers": providers, "active": state.provider}))
}

/// `tts.personas`: the voices with a name, and which one is chosen.
pub async fn personas(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let state = cx.services.voice.tts_state().await.map_err(|it| unkept(&it))?;
    let settings = cx.services.settings.now();
    let config = &settings.voice.tts;
    let personas: Vec<_> = config
        .personas
        .iter()
        .map(|(id, persona)| {
            let mut told = described(id, persona);
            told["fallbackPolicy"] = json!(persona.fallback_policy);
            told["providers"] = json!(persona.providers.keys().collect::<Vec<_>>());
            without_nulls(told)
        })
        .collect();
    Ok(json!({"active": state.persona, "personas": personas}))
}

/// `tts.enable`: answers are to be spoken.
pub async fn enable(cx: Ctx, _: AnyParams) -> Reply<Value> {
    change(&cx, TtsChange::Enabled(true)).await?;
    Ok(json!({"enabled": true}))
}

/// `tts.disable`: they are not.
pub async fn disable(cx: Ctx, _: AnyParams) -> Reply<Value> {
    change(&cx, TtsChange::Enabled(false)).await?;
    Ok(json!({"enabled": false}))
}

/// `tts.setProvider`: who speaks.
pub async fn set_provider(cx: Ctx, p: TtsParams) -> Reply<Value> {
    let provider = p.provider.as_deref().and_then(SpeechProvider::find).ok_or_else(no_provider)?;
    change(&cx, TtsChange::Provider(provider)).await?;
    Ok(json!({"provider": provider.id()}))
}

/// `tts.setPersona`: with which voice.
pub async fn set_persona(cx: Ctx, p: TtsParams) -> Reply<Value> {
    let wanted = p.persona.filter(|name| !NOBODY.contains(&name.to_lowercase().as_str()));
    let persona = match wanted {
        None => None,
        Some(name) => {
            let wrong = "Invalid persona. Use a configured TTS persona id.";
            let found = cx.services.voice.find_persona(&name);
            Some(found.ok_or_else(|| ErrorShape::invalid(wrong))?)
        }
    };
    change(&cx, TtsChange::Persona(persona.clone())).await?;
    Ok(json!({"persona": persona}))
}

/// `tts.convert`: speaks a text into a file that is there for five minutes.
pub async fn convert(cx: Ctx, p: TtsParams) -> Reply<Value> {
    let text = p.text.ok_or_else(|| ErrorShape::invalid("tts.convert requires text"))?;
    let provider = match &p.provider {
        None => None,
        Some(name) => Some(SpeechProvider::find(name).ok_or_else(no_provider)?),
    };
    let as_voice_message = p.channel.as_deref().is_some_and(|it| VOICE_CHANNELS.contains(&it));
    let wish = SpeechOptions::default().wished(p.model, p.voice, None);
    let request = SpeakRequest { text, provider, as_voice_message, wish };
    let voice = &cx.services.voice;
    let spoken = voice.speak(&request).await.map_err(|it| unspoken(&it))?;
    let path = voice.keep_audio(&spoken.audio).await.map_err(|it| unspoken(&it))?;
    Ok(without_nulls(json!({
        "audioPath": path,
        "provider": spoken.provider.id(),
        "outputFormat": spoken.audio.format,
        "voiceCompatible": spoken.audio.voice_compatible,
        "fallbackFrom": spoken.instead_of,
    })))
}

async fn change(cx: &Ctx, change: TtsChange) -> Reply<()> {
    cx.services.voice.change_tts(change).await.map_err(|it| unkept(&it))
}

fn no_provider() -> ErrorShape {
    ErrorShape::invalid("Invalid provider. Use a registered TTS provider id.")
}

/// Nothing was spoken.
fn unspoken(error: &SpeechError) -> ErrorShape {
    match error {
        SpeechError::TooLong { .. } => ErrorShape::invalid(error.to_string()),
        _ => ErrorShape::unavailable(error.to_string()),
    }
}
