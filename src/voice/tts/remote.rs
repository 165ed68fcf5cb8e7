//! Services that are asked over the network.

use std::time::Duration;

use reqwest::{RequestBuilder, Url};
use serde_json::Value;

use super::{Audio, SpeechProvider};
use crate::agent::web::search::below;
use crate::agent::web::{Tls, read_body};
use crate::config::voice::SpeechOptions;
use crate::providers::root_cause;
use crate::support::{Secret, json, without_nulls};

/// Most bytes of sound: an hour of speech at 24 kbit/s. In base64 it still
/// fits well into what may wait for one connection.
pub(super) const AUDIO_MAX: usize = 12 * 1024 * 1024;
/// What is told of an error of a service, in characters.
const COMPLAINT_MAX: usize = 400;
/// What is read of it.
const COMPLAINT_BYTES: usize = 16 * 1024;

/// A service that has all that it needs.
pub(super) struct Service {
    /// Which.
    pub provider: SpeechProvider,
    /// Where.
    pub base_url: String,
    /// Its key, if it needs one.
    pub key: Option<Secret>,
    /// How it is to speak.
    pub options: SpeechOptions,
}

/// Asks a service.
///
/// # Errors
/// When it does not answer with sound, in words.
pub(super) async fn speak(
    service: &Service,
    text: &str,
    as_voice_message: bool,
    tls: &Tls,
    limit: Duration,
) -> Result<Audio, String> {
    let asked = ask(service, text, as_voice_message, tls);
    let slow = |_| Err(format!("no answer within {} ms", limit.as_millis()));
    tokio::time::timeout(limit, asked).await.unwrap_or_else(slow)
}

async fn ask(
    service: &Service,
    text: &str,
    as_voice_message: bool,
    tls: &Tls,
) -> Result<Audio, String> {
    let is_http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    let base = Url::parse(service.base_url.trim()).ok().filter(is_http);
    let base = base.ok_or("baseUrl is not an http or https address")?;
    let builder = tls.trusted(&base).await?;
    let client = builder.build().map_err(|error| root_cause(&error))?;
    let (request, format) = if service.provider == SpeechProvider::ElevenLabs {
        eleven_labs(service, &client, &base, text, as_voice_message)?
    } else {
        open_ai(service, &client, &base, text, as_voice_message)
    };
    let response = request.send().await.map_err(|error| root_cause(&error))?;
    let status = response.status();
    if !status.is_success() {
        let said = read_body(response, COMPLAINT_BYTES).await.unwrap_or_default();
        let said: String = String::from_utf8_lossy(&said.bytes).trim().to_owned();
        let said = service.key.as_ref().map_or(said.clone(), |key| said.replace(key.expose(), "…"));
        let said: String = said.chars().take(COMPLAINT_MAX).collect();
        return Err(format!("API error ({}): {said}", status.as_u16()));
    }
    let body = read_body(response, AUDIO_MAX).await.map_err(|error| error.to_string())?;
    if body.is_cut {
        return Err(format!("the audio has more than {AUDIO_MAX} bytes"));
    }
    if body.bytes.is_empty() {
        return Err("the audio is empty".into());
    }
    Ok(sound(body.bytes, format))
}

/// `POST /audio/speech`.
fn open_ai(
    service: &Service,
    client: &reqwest::Client,
    base: &Url,
    text: &str,
    as_voice_message: bool,
) -> (RequestBuilder, String) {
    let (options, usual) = (&service.options, service.provider.usual());
    let standard = if as_voice_message { "opus" } else { "mp3" };
    // A format of another service is none here.
    let known = |format: &&str| matches!(*format, "mp3" | "opus" | "aac" | "flac" | "wav" | "pcm");
    let format = options.format().filter(known).unwrap_or(standard).to_owned();
    let body = json!({
        "model": options.model().unwrap_or(usual.model),
        "input": text,
        "voice": options.voice().unwrap_or(usual.voice),
        "response_format": format,
        "speed": options.speed,
        "instructions": options.instructions,
    });
    let request = client.post(below(base, "audio/speech"));
    let request = posted(request, body);
    let request = match &service.key {
        Some(key) => request.bearer_auth(key.expose()),
        None => request,
    };
    (request, format)
}

/// `POST /v1/text-to-speech/<voice>`.
fn eleven_labs(
    service: &Service,
    client: &reqwest::Client,
    base: &Url,
    text: &str,
    as_voice_message: bool,
) -> Result<(RequestBuilder, String), String> {
    let (options, usual) = (&service.options, service.provider.usual());
    let voice = options.voice().unwrap_or(usual.voice);
    // It becomes a part of the address.
    if !(10..=40).contains(&voice.len()) || !voice.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err("the voice is no voice id of ElevenLabs".into());
    }
    let standard = if as_voice_message { "opus_48000_64" } else { "mp3_44100_128" };
    let format = options.format().unwrap_or(standard).to_owned();
    let tuning = &options.voice_settings;
    let body = json!({
        "text": text,
        "model_id": options.model().unwrap_or(usual.model),
        "seed": options.seed,
        "apply_text_normalization": options.apply_text_normalization,
        "language_code": options.language_code,
        "voice_settings": without_nulls(json!({
            "stability": tuning.stability.unwrap_or(0.5),
            "similarity_boost": tuning.similarity_boost.unwrap_or(0.75),
            "style": tuning.style.unwrap_or(0.0),
            "use_speaker_boost": tuning.use_speaker_boost.unwrap_or(true),
            "speed": options.speed.or(tuning.speed).unwrap_or(1.0),
        })),
    });
    let mut url = below(base, &format!("v1/text-to-speech/{voice}"));
    url.query_pairs_mut().append_pair("output_format", &format);
    let request = posted(client.post(url), body);
    let request = match &service.key {
        Some(key) => request.header("xi-api-key", key.expose()),
        None => request,
    };
    Ok((request, format))
}

fn posted(request: RequestBuilder, body: Value) -> RequestBuilder {
    let request = request.header(reqwest::header::CONTENT_TYPE, "application/json");
    request.body(without_nulls(body).to_string())
}

/// Sound in a format that is named in the words of a service.
pub(super) fn sound(bytes: Vec<u8>, format: String) -> Audio {
    let kind = format.split('_').next().unwrap_or_default();
    let extension = match kind {
        "mp3" => ".mp3",
        "opus" => ".opus",
        "ogg" => ".ogg",
        "wav" => ".wav",
        "flac" => ".flac",
        "aac" => ".aac",
        "m4a" => ".m4a",
        _ => ".pcm",
    };
    let voice_compatible = matches!(extension, ".opus" | ".ogg");
    Audio { bytes, format, extension, voice_compatible }
}
