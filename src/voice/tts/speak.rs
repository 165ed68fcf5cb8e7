//! Speaking a text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::choice::find_persona;
use super::remote::Service;
use super::{Audio, SpeechProvider, command, output, remote};
use crate::config::secrets::{ResolvedSecrets, resolve};
use crate::config::voice::{SpeechOptions, TtsConfig};
use crate::store::JsonFileError;
use crate::support::{Secret, blocking};
use crate::telemetry;
use crate::voice::Voice;

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
    options: &'a BTreeMap<String, SpeechOptions>,
    secrets: ResolvedSecrets,
    voice: &'a Voice,
}

impl Ready<'_> {
    /// What the config says of a service, under its id in any case.
    fn options(&self, provider: SpeechProvider) -> SpeechOptions {
        let named = |(name, _): &(&String, _)| SpeechProvider::find(name) == Some(provider);
        self.options.iter().find(named).map(|(_, options)| options.clone()).unwrap_or_default()
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
    pub(super) async fn ready_services<'a>(
        &'a self,
        options: &'a BTreeMap<String, SpeechOptions>,
    ) -> Ready<'a> {
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

    /// Speaks a text: the service that is wished, or the one that is chosen
    /// and then the others that can be used.
    ///
    /// # Errors
    /// When there is too much of it, or nobody can.
    pub async fn speak(&self, request: &SpeakRequest) -> Result<Spoken, SpeechError> {
        let settings = self.parts.settings.now();
        let config = &settings.voice.tts;
        fits(config, &request.text)?;
        let state = self.tts_state().await?;
        let persona = state.persona.as_deref().and_then(|id| find_persona(config, id));
        let overlaid = with_persona(config, persona.map(|(_, persona)| &persona.providers));
        let ready = self.ready_services(&overlaid).await;
        if let Some(provider) = request.provider {
            let spoken = self.ask(&ready, provider, request).await;
            let audio = spoken.map_err(|error| SpeechError::Failed(vec![error]))?;
            return Ok(Spoken { provider, instead_of: None, audio });
        }
        let mut errors = Vec::new();
        let named = state.provider.clone();
        let first = named.as_deref().and_then(SpeechProvider::find);
        if let (Some(name), None) = (&named, first) {
            errors.push(format!("{name}: no provider registered"));
        }
        let others = state.configured.iter().copied().filter(|it| Some(*it) != first);
        for provider in first.into_iter().chain(others) {
            match self.ask(&ready, provider, request).await {
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
        let overlaid = with_persona(&config.tts, Some(&config.talk.providers));
        let ready = self.ready_services(&overlaid).await;
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
        let written = blocking(move || output::keep(&bytes, extension, now_ms));
        let written = written.await.map_err(|_| JsonFileError::Stopped)?;
        let path = written.map_err(SpeechError::File)?;
        self.parts.tasks.spawn("speech", output::forget(path.clone()));
        Ok(path)
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

/// The services of the config, with what something else says of them.
fn with_persona(
    config: &TtsConfig,
    over: Option<&BTreeMap<String, SpeechOptions>>,
) -> BTreeMap<String, SpeechOptions> {
    let mut all = config.providers.clone();
    for (name, over) in over.into_iter().flatten() {
        let known = all.remove(name).unwrap_or_default();
        all.insert(name.clone(), known.overlaid(over));
    }
    all
}
