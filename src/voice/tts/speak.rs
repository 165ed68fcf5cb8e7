//! Speaking a text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::choice::find_persona;
use super::remote::Service;
use super::{Audio, SpeechProvider, command, output, remote};
use crate::config::secrets::{ResolvedSecrets, resolve};
use crate::config::voice::{Persona, SpeechOptions, TtsConfig};
use crate::store::JsonFileError;
use crate::support::{Secret, blocking};
use crate::telemetry;
use crate::voice::{Voice, VoiceParts};

/// A text to be spoken, and how.
#[derive(Debug, Clone, Default)]
pub struct SpeakRequest {
    /// The text.
    pub text: String,
    /// This service and no other.
    pub provider: Option<SpeechProvider>,
    /// Whether it is for a chat that has voice messages.
    pub as_voice_message: bool,
    /// How, instead of what the config says.
    pub wish: SpeechOptions,
}

/// A text that was spoken.
#[derive(Debug, Clone)]
pub struct Spoken {
    /// Who spoke.
    pub provider: SpeechProvider,
    /// Who was to speak and could not.
    pub instead_of: Option<String>,
    /// The sound.
    pub audio: Audio,
}

/// Why nothing was spoken.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    /// There is too much of it.
    #[error("Text too long ({chars} chars, max {max})")]
    TooLong {
        /// Its length.
        chars: usize,
        /// The longest that is spoken: `messages.tts.maxTextLength`.
        max: usize,
    },
    /// Nobody could.
    #[error("TTS conversion failed: {}", if .0.is_empty() { "no providers available".into() } else { .0.join("; ") })]
    Failed(Vec<String>),
    /// Too much is spoken already.
    #[error("too many texts are being spoken; try again")]
    Busy,
    /// `talk` names nobody.
    #[error("talk.speak unavailable: talk provider not configured")]
    NoTalkProvider,
    /// `talk` names somebody that this gateway does not have.
    #[error("talk.speak unavailable: speech provider \"{0}\" does not support Talk mode")]
    NotOffered(String),
    /// What people have chosen cannot be read.
    #[error(transparent)]
    Choice(#[from] JsonFileError),
    /// The sound cannot be put into a file.
    #[error("the audio file cannot be written: {0}")]
    File(#[source] std::io::Error),
}

/// Services with their secrets.
pub(super) struct Ready<'a> {
    options: BTreeMap<SpeechProvider, SpeechOptions>,
    secrets: ResolvedSecrets,
    voice: &'a Voice,
}

impl Ready<'_> {
    /// What the config says of a service.
    fn options(&self, provider: SpeechProvider) -> SpeechOptions {
        self.options.get(&provider).cloned().unwrap_or_default()
    }

    /// Whether there is all that a service needs.
    pub fn is_configured(&self, provider: SpeechProvider) -> bool {
        let options = self.options(provider);
        match provider {
            SpeechProvider::LocalCli => SpeechProvider::has_command(&options),
            _ => self.service(provider, options).is_some(),
        }
    }

    /// A service that is asked over the network.
    fn service(&self, provider: SpeechProvider, options: SpeechOptions) -> Option<Service> {
        // No other key is taken for one that is not to be had, nor another address.
        if options.references().any(|at| self.secrets.get(at).is_none()) {
            return None;
        }
        let usual = provider.usual();
        let env = self.voice.env();
        let variable = |name: &str| env.get(name).map(Secret::new);
        let variable = |name: &str| variable(name).filter(|secret| !secret.is_empty());
        let own_url = options.base_url.as_ref().and_then(|url| url.resolve(&self.secrets));
        let own_url = own_url.or_else(|| variable(usual.base_url_variable?));
        let key = options.api_key.as_ref().and_then(|key| key.resolve(&self.secrets));
        let key = key.or_else(|| usual.key_variables.iter().find_map(|name| variable(name)));
        if key.is_none() && !(provider.may_be_keyless() && own_url.is_some()) {
            return None;
        }
        if let Some(key) = &key {
            telemetry::hide(key);
        }
        let base_url = own_url.map_or_else(|| usual.base_url.to_owned(), |it| it.expose().into());
        Some(Service { provider, base_url, key, options })
    }
}

impl Voice {
    /// The services with what the config refers to.
    pub(super) async fn ready_services(
        &self,
        options: BTreeMap<SpeechProvider, SpeechOptions>,
    ) -> Ready<'_> {
        let references: BTreeSet<_> =
            options.values().flat_map(SpeechOptions::references).cloned().collect();
        let parts = &self.parts;
        let settings = parts.settings.now();
        let env = settings.environment(&parts.env);
        let (secrets, lost) = resolve(&references, &settings.secrets, &env).await;
        for (reference, error) in lost {
            tracing::warn!(%reference, %error, "a secret of speech cannot be had");
        }
        Ready { options, secrets, voice: self }
    }

    /// Speaks a text: the service that is wished, or the one that is chosen and then, where
    /// no model and no voice is wished, the others that can be used.
    ///
    /// # Errors
    /// When there is too much of it, or nobody can.
    pub async fn speak(&self, request: &SpeakRequest) -> Result<Spoken, SpeechError> {
        let settings = self.parts.settings.now();
        let config = &settings.voice.tts;
        fits(config, &request.text)?;
        let state = self.tts_state().await?;
        let persona = state.persona.as_deref().and_then(|id| find_persona(config, id));
        let ready = self.ready_services(services(config, persona.map(|it| &it.1.providers))).await;
        if let Some(provider) = request.provider {
            let spoken = self.ask_as(persona, &ready, provider, request).await;
            let audio = spoken.map_err(|error| SpeechError::Failed(vec![error]))?;
            return Ok(Spoken { provider, instead_of: None, audio });
        }
        let mut errors = Vec::new();
        let named = state.provider.clone();
        let first = named.as_deref().and_then(SpeechProvider::find);
        if let (Some(name), None) = (&named, first) {
            errors.push(format!("{name}: no provider registered"));
        }
        // A model or a voice of one service means nothing to another.
        let is_bound = request.wish.model().or(request.wish.voice()).is_some();
        let others = state.configured.iter().copied();
        let others = others.filter(|it| !is_bound && Some(*it) != first);
        for provider in first.into_iter().chain(others) {
            match self.ask_as(persona, &ready, provider, request).await {
                Ok(audio) => {
                    let instead_of = named.filter(|name| name != provider.id());
                    return Ok(Spoken { provider, instead_of, audio });
                }
                Err(error) => errors.push(error),
            }
        }
        Err(SpeechError::Failed(errors))
    }

    /// Speaks a text as `talk` wants it, by its service and no other.
    ///
    /// # Errors
    /// When `talk` names nobody who can.
    pub async fn talk(&self, request: &SpeakRequest) -> Result<Spoken, SpeechError> {
        let settings = self.parts.settings.now();
        let config = &settings.voice;
        let name = config.talk.active().ok_or(SpeechError::NoTalkProvider)?;
        let provider =
            SpeechProvider::find(name).ok_or_else(|| SpeechError::NotOffered(name.to_owned()))?;
        fits(&config.tts, &request.text)?;
        let ready = self.ready_services(services(&config.tts, Some(&config.talk.providers))).await;
        let mut request = request.clone();
        if let Some(wished) = request.wish.voice() {
            let aliases = ready.options(provider).voice_aliases;
            let named = |(alias, _): &(&String, _)| alias.trim().eq_ignore_ascii_case(wished);
            if let Some((_, voice)) = aliases.iter().find(named) {
                request.wish = request.wish.wished(None, Some(voice.clone()), None);
            }
        }
        let spoken = self.ask(&ready, provider, &request).await;
        let audio = spoken.map_err(|error| SpeechError::Failed(vec![error]))?;
        Ok(Spoken { provider, instead_of: None, audio })
    }

    /// Puts sound into a file that is there for a while.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn keep_audio(&self, audio: &Audio) -> Result<PathBuf, SpeechError> {
        let now_ms = self.parts.clock.now_ms();
        let (bytes, extension) = (audio.bytes.clone(), audio.extension);
        let tmp = tmp(&self.parts);
        let written = blocking(move || output::keep(&bytes, extension, now_ms, tmp.as_deref()));
        let written = written.await.map_err(|_| JsonFileError::Stopped)?;
        let path = written.map_err(SpeechError::File)?;
        self.parts.tasks.spawn("speech", output::forget(path.clone()));
        Ok(path)
    }

    /// Asks one service to speak as somebody, if it may.
    async fn ask_as(
        &self,
        persona: Option<(&str, &Persona)>,
        ready: &Ready<'_>,
        provider: SpeechProvider,
        request: &SpeakRequest,
    ) -> Result<Audio, String> {
        speaks(persona, provider)?;
        self.ask(ready, provider, request).await
    }

    /// Asks one service; an error says whose it is.
    async fn ask(
        &self,
        ready: &Ready<'_>,
        provider: SpeechProvider,
        request: &SpeakRequest,
    ) -> Result<Audio, String> {
        let id = provider.id();
        let _turn =
            self.speaking.try_acquire().map_err(|_| format!("{id}: {}", SpeechError::Busy))?;
        let options = ready.options(provider).overlaid(&request.wish);
        let (text, voice) = (request.text.trim(), request.as_voice_message);
        let asked = if provider == SpeechProvider::LocalCli {
            command::speak(&options, text, voice, &self.env()).await
        } else {
            let service = ready.service(provider, options);
            let service = service.ok_or_else(|| format!("{id}: not configured"))?;
            let limit = self.parts.settings.now().voice.tts.timeout();
            remote::speak(&service, text, voice, &self.tls, limit).await
        };
        asked.map_err(|error| format!("{id}: {}", telemetry::without_secrets(&error)))
    }
}

fn fits(config: &TtsConfig, text: &str) -> Result<(), SpeechError> {
    let (chars, max) = (text.trim().chars().count(), config.max_text_length());
    if chars > max { Err(SpeechError::TooLong { chars, max }) } else { Ok(()) }
}

/// The services of the config, each with what something else says of it: an id may
/// be written in any case.
pub(super) fn services(
    config: &TtsConfig,
    over: Option<&BTreeMap<String, SpeechOptions>>,
) -> BTreeMap<SpeechProvider, SpeechOptions> {
    let mut all: BTreeMap<SpeechProvider, SpeechOptions> = BTreeMap::new();
    for (name, options) in config.providers.iter().chain(over.into_iter().flatten()) {
        if let Some(provider) = SpeechProvider::find(name) {
            let known = all.entry(provider).or_default();
            *known = known.overlaid(options);
        }
    }
    all
}

/// Whether a service may speak for a persona: one that is to fail rather than to
/// sound like somebody else is spoken only by those that it names.
fn speaks(persona: Option<(&str, &Persona)>, provider: SpeechProvider) -> Result<(), String> {
    let Some((name, persona)) = persona else { return Ok(()) };
    let is_strict = persona.fallback_policy.as_deref().map(str::trim) == Some("fail");
    let mut bound = persona.providers.keys().filter_map(|id| SpeechProvider::find(id));
    if is_strict && !bound.any(|it| it == provider) {
        return Err(format!("{}: persona {name} has no provider binding", provider.id()));
    }
    Ok(())
}

/// Where the environment wants files that are there for a while, if it says so.
fn tmp(parts: &VoiceParts) -> Option<PathBuf> {
    parts.env.get("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Takes away the files that an earlier process has left.
pub(in crate::voice) fn tidy(parts: &VoiceParts) {
    parts.tasks.spawn("speech", output::tidy(tmp(parts)));
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn a_service_is_one_however_its_id_is_written() {
        let config = json!({"providers": {"OpenAI": {"voice": "nova", "speed": 1.5}, "else": {}}});
        let config: TtsConfig = serde_json::from_value(config).unwrap();
        let over = json!({" openai ": {"voice": "coral"}});
        let over = serde_json::from_value(over).unwrap();
        let all = services(&config, Some(&over));
        let options = &all[&SpeechProvider::OpenAi];
        assert_eq!((options.voice(), options.speed, all.len()), (Some("coral"), Some(1.5), 1));
    }
}
