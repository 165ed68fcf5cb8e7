//! Which model answers, and what lets it in.
//!
//! Owns: the questions for provider, key and model, and the trying of the answers.

use serde_json::Value;

use super::access::{Access, StoredKey, check_key};
use super::asker::Stopped;
use super::draft::Draft;
use super::step::StepOption;
use super::talk::{Line, Talk};
use super::{check, own};
use crate::config::secrets::ResolvedSecrets;
use crate::providers::credentials::Credentials;
use crate::providers::{
    Adapters, Catalog, CatalogSources, ModelRef, OFFLINE_MODEL, OFFLINE_PROVIDER, View,
    key_in_environment, known_provider, known_providers,
};
use crate::support::json;

/// The choice of what is configured.
pub const KEEP: &str = "keep";
/// The choice of Ollama; also its id as a provider.
pub const OLLAMA: &str = "ollama";
/// The choice of a server of the user's own.
pub const CUSTOM: &str = "custom";
/// The choice of the model that is built in.
pub const OFFLINE: &str = OFFLINE_PROVIDER;
/// The choice of none.
pub const SKIP: &str = "skip";
/// The choice of a model that is not listed. No model is called that.
pub const OTHER_MODEL: &str = "*other*";

/// These come first; people know them.
const FIRST: [&str; 4] = ["anthropic", "openai", "google", "openrouter"];
/// Longest name of a model.
const MODEL_ID_MAX: usize = 200;

/// A model, and what lets it in.
pub struct Chosen {
    /// It.
    pub name: ModelRef,
    /// What lets it in.
    pub access: Access,
    /// Whether that is something to be stored.
    pub has_key: bool,
}

/// What the key of a provider is asked for as: the start of flags for it.
pub fn key_name(provider: &str) -> &str {
    if provider == "google" { "gemini" } else { provider }
}

/// Asks for a model. Unless `skips_check`, it is tried.
///
/// # Errors
/// When nobody answers any more, or there is no way to go on.
pub async fn choose(
    talk: &mut Talk<'_>,
    draft: &mut Draft,
    skips_check: bool,
) -> Result<(), Stopped> {
    let provider = provider(talk, draft).await?;
    match provider.as_str() {
        KEEP | SKIP => Ok(()),
        OFFLINE => {
            let name = ModelRef { provider: OFFLINE.into(), model: OFFLINE_MODEL.into() };
            use_model(draft, &name).await
        }
        OLLAMA => {
            let chosen = own::ollama(talk, draft).await?;
            settle(talk, draft, chosen, skips_check).await
        }
        CUSTOM => {
            let chosen = own::custom(talk, draft).await?;
            settle(talk, draft, chosen, skips_check).await
        }
        known => {
            let access = key(talk, draft, known).await?;
            let name = model(talk, draft, known).await?;
            let has_key = !matches!(access, Access::AsIs);
            settle(talk, draft, Chosen { name, access, has_key }, skips_check).await
        }
    }
}

async fn provider(talk: &mut Talk<'_>, draft: &Draft) -> Result<String, Stopped> {
    let lookup = |name: &str| draft.env.get(name);
    let known = known_providers().filter(|id| !FIRST.contains(id));
    let mut options = Vec::new();
    let current = draft.settings.agents.defaults.model.as_ref().map(|model| &model.primary);
    if let Some(current) = current {
        options.push(StepOption::new(KEEP, format!("As it is: {current}")));
    }
    let mut set = None;
    for id in FIRST.into_iter().chain(known) {
        let (name, _) = known_provider(id).unwrap_or((id, ""));
        let option = StepOption::new(id, name);
        let variable = key_in_environment(id, &lookup);
        set = set.or(variable.map(|_| id));
        options.push(match variable {
            Some(variable) => option.hint(format!("{variable} is set")),
            None => option,
        });
    }
    let more = [
        (OLLAMA, "Ollama", "models on this machine or another one of yours"),
        (CUSTOM, "Another server", "any that speaks the API of OpenAI or Anthropic"),
        (OFFLINE, "None: the built-in demo", "answers without any service; to look around"),
        (SKIP, "Later", "nothing is changed"),
    ];
    options.extend(more.map(|(id, label, hint)| StepOption::new(id, label).hint(hint)));
    let usual = if current.is_some() { Some(KEEP) } else { set };
    talk.select("provider", "Who is to answer?", options, usual).await
}

/// Asks for the key of a provider that we know.
async fn key(talk: &mut Talk<'_>, draft: &Draft, provider: &str) -> Result<Access, Stopped> {
    let (name, _) = known_provider(provider).unwrap_or((provider, ""));
    let variable = key_in_environment(provider, &|name| draft.env.get(name));
    let stored = has_key(draft, provider).await;
    let mut options = Vec::new();
    if stored {
        options.push(StepOption::new("stored", "The one that is stored here"));
    }
    if let Some(variable) = variable {
        let hint = "the gateway must have this variable each time it starts";
        let option = StepOption::new("variable", format!("The one in {variable}"));
        options.push(option.hint(hint));
    }
    if !options.is_empty() {
        options.push(StepOption::new("enter", "Another one"));
        let question = format!("Which key for {name}?");
        match (talk.select("keySource", question, options, None).await?.as_str(), variable) {
            ("stored", _) => return Ok(Access::AsIs),
            ("variable", Some(variable)) => return Ok(Access::Variable(variable.to_owned())),
            _ => {}
        }
    }
    enter_key(talk, name).await
}

async fn enter_key(talk: &mut Talk<'_>, name: &str) -> Result<Access, Stopped> {
    let question = format!("The key for {name}; it is stored on this machine only");
    Ok(Access::Key(talk.secret("key", question, Line::checked(check_key)).await?))
}

/// Whether config or stored credentials let us in.
async fn has_key(draft: &Draft, provider: &str) -> bool {
    let configured = draft.settings.models.providers.get(provider);
    if configured.is_some_and(|it| it.api_key.is_some()) {
        return true;
    }
    let clock = std::sync::Arc::clone(&draft.clock);
    let credentials = Credentials::new(&draft.settings, &draft.env, clock);
    let profiles = credentials.profiles(&draft.settings.agents.default_id).await;
    profiles.iter().any(|it| it.opens(provider))
}

/// Asks for a model of a provider that we know.
async fn model(talk: &mut Talk<'_>, draft: &Draft, provider: &str) -> Result<ModelRef, Stopped> {
    let mut options = listed(draft, provider)?;
    options.push(StepOption::new(OTHER_MODEL, "Another one"));
    let current = draft.settings.agents.defaults.model.as_ref();
    let current = current.and_then(|model| ModelRef::parse(&model.primary));
    let usual = current.filter(|name| name.provider == provider).map(|name| name.model);
    let id = talk.select("model", "Which model?", options, usual.as_deref()).await?;
    let id = if id == OTHER_MODEL {
        let question = "The provider's name for the model";
        talk.text("modelId", question, Line::checked(check_model_id)).await?
    } else {
        id
    };
    Ok(ModelRef { provider: provider.to_owned(), model: id })
}

fn listed(draft: &Draft, provider: &str) -> Result<Vec<StepOption>, Stopped> {
    let (lookup, secrets) = (|name: &str| draft.env.get(name), ResolvedSecrets::default());
    let adapters = Adapters::new(&draft.clock);
    let sources = CatalogSources::plain(&draft.settings.models, &lookup, &secrets);
    let catalog = Catalog::build(&adapters, &sources);
    let catalog = catalog.map_err(|error| Stopped::Failed(error.to_string()))?;
    let all = catalog.view(View::All, &|_| true);
    let own = all.into_iter().filter(|model| model.provider == provider);
    let option = |model: &std::sync::Arc<crate::providers::ModelInfo>| {
        let hint = format!("{}, {}k tokens", model.id, model.context_window / 1000);
        StepOption::new(&model.id, &model.name).hint(hint)
    };
    Ok(own.map(option).collect())
}

/// What a model may be called.
///
/// # Errors
/// In words for people.
pub fn check_model_id(text: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_graphic();
    if (1..=MODEL_ID_MAX).contains(&text.len()) && text.chars().all(fits) && text != OTHER_MODEL {
        Ok(())
    } else {
        Err("give the name of a model, such as gpt-4.1".into())
    }
}

/// Tries what was chosen until it works or is wanted anyway, and puts it into the
/// draft.
async fn settle(
    talk: &mut Talk<'_>,
    draft: &mut Draft,
    mut chosen: Chosen,
    skips_check: bool,
) -> Result<(), Stopped> {
    if !skips_check {
        try_out(talk, draft, &mut chosen).await?;
    }
    use_model(draft, &chosen.name).await?;
    let Chosen { name, access, has_key } = chosen;
    if has_key {
        let key = StoredKey { provider: name.provider, access };
        key.prefer(draft).await?;
        draft.key = Some(key);
    }
    Ok(())
}

async fn try_out(talk: &mut Talk<'_>, draft: &Draft, chosen: &mut Chosen) -> Result<(), Stopped> {
    let provider = chosen.name.provider.clone();
    let known = known_provider(&provider).map(|(name, _)| name);
    loop {
        talk.0.tell(&format!("Asking {} for one word", chosen.name));
        let Err(why) = check::check(draft, &chosen.name, &chosen.access).await else {
            return Ok(());
        };
        let mut options = vec![StepOption::new("again", "Try again")];
        if provider != OLLAMA {
            options.push(StepOption::new("key", "Enter another key"));
        }
        if known.is_some() {
            options.push(StepOption::new("model", "Choose another model"));
        }
        options.push(StepOption::new(KEEP, "Keep it anyway"));
        match talk.select("checkFailed", why, options, None).await?.as_str() {
            "key" => {
                chosen.access = enter_key(talk, known.unwrap_or(&provider)).await?;
                chosen.has_key = true;
            }
            "model" => chosen.name = model(talk, draft, &provider).await?,
            KEEP => return Ok(()),
            _ => {}
        }
    }
}

/// Makes it the default model, and one that may be chosen where there is a list.
async fn use_model(draft: &mut Draft, name: &ModelRef) -> Result<(), Stopped> {
    let full = name.to_string();
    let change = move |config: &Value| {
        let defaults = &config["agents"]["defaults"];
        let is_bare = defaults["model"].is_string();
        let model = if is_bare { json!(full) } else { json!({"primary": full}) };
        let mut patch = json!({"agents": {"defaults": {"model": model}}});
        let listed = defaults["models"].as_object().filter(|listed| !listed.is_empty());
        if listed.is_some_and(|listed| !listed.contains_key(&full)) {
            patch["agents"]["defaults"]["models"][&full] = json!({});
        }
        patch
    };
    draft.change(change).await.map_err(Stopped::from)
}
