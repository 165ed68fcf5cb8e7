//! Who speaks: what the config says and what people have chosen.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::SpeechProvider;
use super::speak::services;
use crate::config::voice::{Persona, TtsAuto, TtsConfig};
use crate::store::{JsonFile, JsonFileError};
use crate::support::json;
use crate::voice::{Voice, VoiceParts};

/// How things are with speech.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TtsState {
    /// When answers are to be spoken.
    pub auto: TtsAuto,
    /// Who speaks, which may be a service that this gateway does not have;
    /// nobody when none is chosen or configured.
    pub provider: Option<String>,
    /// Who is chosen, of the personas of the config.
    pub persona: Option<String>,
    /// Which services can be used.
    pub configured: Vec<SpeechProvider>,
    /// Where choices are kept.
    pub prefs_path: PathBuf,
}

impl TtsState {
    /// Who is asked when the first cannot speak.
    pub fn fallbacks(&self) -> Vec<&'static str> {
        let others = SpeechProvider::TRIED.into_iter().filter(|it| self.configured.contains(it));
        let ids = others.map(SpeechProvider::id);
        ids.filter(|id| self.provider.as_deref() != Some(*id)).collect()
    }
}

/// What a person chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TtsChange {
    /// Whether answers are to be spoken.
    Enabled(bool),
    /// Which service speaks.
    Provider(SpeechProvider),
    /// Which persona speaks; none for `None`.
    Persona(Option<String>),
}

/// What people have chosen, as in their file.
#[derive(Debug, Default)]
pub(super) struct Prefs(Map<String, Value>);

impl Prefs {
    fn read(file: &Value) -> Result<Self, String> {
        match file.get("tts") {
            None => Ok(Self::default()),
            Some(Value::Object(members)) => Ok(Self(members.clone())),
            Some(_) => Err("tts must be an object".into()),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str().map(str::trim).filter(|text| !text.is_empty())
    }

    fn auto(&self) -> Option<TtsAuto> {
        let older = || {
            let on = self.0.get("enabled")?.as_bool()?;
            Some(if on { TtsAuto::Always } else { TtsAuto::Off })
        };
        self.text("auto").and_then(TtsAuto::parse).or_else(older)
    }

    /// The chosen persona; that nobody is to be it counts, too.
    fn persona<'a>(&'a self, config: &'a TtsConfig) -> Option<&'a str> {
        let name = match self.0.get("persona") {
            Some(Value::Null) => None,
            Some(_) => self.text("persona"),
            None => config.persona.as_deref(),
        };
        find_persona(config, name?).map(|(id, _)| id)
    }
}

/// The persona with this id, in any case.
pub(super) fn find_persona<'a>(config: &'a TtsConfig, id: &str) -> Option<(&'a str, &'a Persona)> {
    let wanted = id.trim().to_lowercase();
    let found = config.personas.iter().find(|(id, _)| id.to_lowercase() == wanted);
    found.map(|(id, persona)| (id.as_str(), persona))
}

impl Voice {
    /// How things are with speech.
    ///
    /// # Errors
    /// When what people have chosen cannot be read.
    pub async fn tts_state(&self) -> Result<TtsState, JsonFileError> {
        let file = prefs_file(&self.parts);
        let prefs = file.read(Prefs::read).await?.unwrap_or_default();
        let settings = self.parts.settings.now();
        let config = &settings.voice.tts;
        let persona = prefs.persona(config);
        let of_persona =
            || find_persona(config, persona?).and_then(|(_, persona)| persona.provider.as_deref());
        let ready = self.ready_services(services(config, None)).await;
        let configured: Vec<_> = SpeechProvider::TRIED
            .into_iter()
            .filter(|provider| ready.is_configured(*provider))
            .collect();
        let named = prefs.text("provider").or_else(of_persona).or(config.provider.as_deref());
        let canonical = |name: &str| {
            SpeechProvider::find(name).map_or_else(|| name.to_owned(), |it| it.id().to_owned())
        };
        let first = || configured.first().map(|provider| provider.id().to_owned());
        Ok(TtsState {
            auto: prefs.auto().unwrap_or(config.auto()),
            provider: named.map(canonical).or_else(first),
            persona: persona.map(str::to_owned),
            configured,
            prefs_path: file.path().to_owned(),
        })
    }

    /// The id of a persona of the config that is meant.
    pub fn find_persona(&self, id: &str) -> Option<String> {
        find_persona(&self.parts.settings.now().voice.tts, id).map(|(id, _)| id.to_owned())
    }

    /// Keeps what a person chooses; everything else in the file stays.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub async fn change_tts(&self, change: TtsChange) -> Result<(), JsonFileError> {
        let _gate = self.gate.lock().await;
        let file = prefs_file(&self.parts);
        let whole = file.read(|value| Prefs::read(value).map(|_| value.clone())).await?;
        let mut whole = whole.filter(Value::is_object).unwrap_or_else(|| json!({}));
        match change {
            TtsChange::Enabled(on) => {
                let auto = if on { TtsAuto::Always } else { TtsAuto::Off };
                whole["tts"]["auto"] = json!(auto);
                if let Some(members) = whole["tts"].as_object_mut() {
                    // The older way of saying the same.
                    members.remove("enabled");
                }
            }
            TtsChange::Provider(provider) => whole["tts"]["provider"] = json!(provider.id()),
            TtsChange::Persona(persona) => whole["tts"]["persona"] = json!(persona),
        }
        file.write(&whole).await
    }
}

/// Where choices are kept: as the config or the environment says, or in the
/// usual place.
fn prefs_file(parts: &VoiceParts) -> JsonFile {
    let settings = parts.settings.now();
    let paths = &settings.paths;
    let named = settings.voice.tts.prefs_path.clone();
    let named = named.or_else(|| settings.environment(&parts.env).get("OPENCLAW_TTS_PREFS"));
    let named = named.and_then(|path| paths.expand(path.trim()).ok());
    JsonFile::new(named.unwrap_or_else(|| paths.state_dir.join("settings/tts.json")))
}
