//! Whom to ask for vectors.
//!
//! Owns: the providers that have them, with their usual addresses and models, and
//! what a request may choose among. Must not: ask anybody.

use super::super::catalog::{ollama_address, reached};
use super::super::{Api, CatalogError, CatalogSources, ModelInfo};
use crate::config::memory_search::MemorySearchConfig;
use crate::config::provider_request::AuthHeader;
use crate::support::Secret;

/// Longest name of a model; the longest ones of today have half of it.
const MODEL_MAX: usize = 200;

/// How a provider is asked for vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingApi {
    /// As OpenAI is.
    OpenAi,
    /// The same, with small differences.
    Voyage,
    /// The same, with small differences.
    Mistral,
    /// `batchEmbedContents`.
    Gemini,
    /// `/api/embed`.
    Ollama,
}

impl EmbeddingApi {
    /// What a provider of the configuration speaks.
    const fn of(api: Api) -> Option<Self> {
        match api {
            Api::OpenAiCompletions | Api::OpenAiResponses => Some(Self::OpenAi),
            Api::GoogleGenerativeAi => Some(Self::Gemini),
            Api::Ollama => Some(Self::Ollama),
            Api::AnthropicMessages | Api::Offline | Api::ClaudeCli => None,
        }
    }

    /// The API of chats that its credential is shown as to.
    const fn chat(self) -> Api {
        match self {
            Self::OpenAi | Self::Voyage | Self::Mistral => Api::OpenAiCompletions,
            Self::Gemini => Api::GoogleGenerativeAi,
            Self::Ollama => Api::Ollama,
        }
    }

    /// The model that is asked when none is named.
    const fn usual_model(self) -> Option<&'static str> {
        match self {
            Self::Gemini => Some("gemini-embedding-001"),
            Self::Ollama => Some("nomic-embed-text"),
            Self::OpenAi | Self::Voyage | Self::Mistral => None,
        }
    }
}

/// A provider that we know to have vectors.
struct Known {
    /// Its name in `memorySearch.provider`.
    id: &'static str,
    /// Its name in `models.providers`, and of its credentials.
    provider: &'static str,
    api: EmbeddingApi,
    base_url: &'static str,
    model: &'static str,
    /// Whether it is tried when nobody is named.
    is_tried: bool,
}

/// All of them, in the order in which they are tried, as in the original.
const KNOWN: [Known; 7] = [
    Known {
        id: "openai",
        provider: "openai",
        api: EmbeddingApi::OpenAi,
        base_url: "https://api.openai.com/v1",
        model: "text-embedding-3-small",
        is_tried: true,
    },
    Known {
        id: "gemini",
        provider: "google",
        api: EmbeddingApi::Gemini,
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        model: "gemini-embedding-001",
        is_tried: true,
    },
    Known {
        id: "voyage",
        provider: "voyage",
        api: EmbeddingApi::Voyage,
        base_url: "https://api.voyageai.com/v1",
        model: "voyage-4-large",
        is_tried: true,
    },
    Known {
        id: "mistral",
        provider: "mistral",
        api: EmbeddingApi::Mistral,
        base_url: "https://api.mistral.ai/v1",
        model: "mistral-embed",
        is_tried: true,
    },
    Known {
        id: "deepinfra",
        provider: "deepinfra",
        api: EmbeddingApi::OpenAi,
        base_url: "https://api.deepinfra.com/v1/openai",
        model: "BAAI/bge-m3",
        is_tried: true,
    },
    // What is on one's own machine is asked only by its name.
    Known {
        id: "ollama",
        provider: "ollama",
        api: EmbeddingApi::Ollama,
        base_url: "",
        model: "nomic-embed-text",
        is_tried: false,
    },
    Known {
        id: "lmstudio",
        provider: "lmstudio",
        api: EmbeddingApi::OpenAi,
        base_url: "http://127.0.0.1:1234/v1",
        model: "text-embedding-nomic-embed-text-v1.5",
        is_tried: false,
    },
];

/// Whoever there is a key for.
const AUTO: &str = "auto";

/// Why nobody is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingsRefused {
    /// A request names a provider that is not the agent's.
    #[error("This agent does not allow that embedding provider on `/v1/embeddings`.")]
    OtherProvider,
    /// A request names no model.
    #[error("Unsupported embedding model reference.")]
    NoModel,
    /// The configuration names nobody who can be asked.
    #[error("no embeddings: {0}")]
    NotConfigured(String),
}

impl From<CatalogError> for EmbeddingsRefused {
    fn from(error: CatalogError) -> Self {
        Self::NotConfigured(error.to_string())
    }
}

/// What the configuration says, and what a request wishes.
pub struct EmbeddingSettings<'a> {
    /// `memorySearch` of the agent.
    pub config: &'a MemorySearchConfig,
    /// The model that the request names, maybe with its provider.
    pub wanted: Option<&'a str>,
    /// What else is configured; its secrets hold those of `config`.
    pub sources: &'a CatalogSources<'a>,
}

/// A model that makes vectors, with everything needed to reach it.
#[derive(Debug, Clone)]
pub struct EmbeddingModel {
    /// It, in the form of a model that answers.
    pub info: ModelInfo,
    /// How it is asked.
    pub api: EmbeddingApi,
    /// Whether it is reached in another way than models of its provider, so that
    /// what becomes of it says nothing of them.
    pub is_elsewhere: bool,
}

impl EmbeddingSettings<'_> {
    /// The models that may be asked; the first one that there is a credential for
    /// is. There is at least one.
    ///
    /// # Errors
    /// When nobody may be asked.
    pub fn candidates(&self) -> Result<Vec<EmbeddingModel>, EmbeddingsRefused> {
        let config = self.config;
        if config.enabled == Some(false) {
            return Err(not_configured("memorySearch.enabled is false"));
        }
        let written = config.provider.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let configured = written.unwrap_or(AUTO);
        let (provider, model) = match self.wanted.map(str::trim).filter(|it| !it.is_empty()) {
            Some(wanted) => of_request(wanted, configured)?,
            None => (configured.to_owned(), self.own_model(configured)),
        };
        if provider != AUTO {
            return Ok(vec![self.reach(&provider, model.as_deref())?]);
        }
        let tried = KNOWN.iter().filter(|known| known.is_tried);
        tried.map(|known| self.reach(known.id, model.as_deref())).collect()
    }

    /// The model of the configuration. Whoever wrote it may have put the name of
    /// the provider before it; other slashes belong to the model.
    fn own_model(&self, provider: &str) -> Option<String> {
        let model = self.config.model.as_deref().map(str::trim).filter(|name| !name.is_empty())?;
        let head = model.split_once('/').map(|(head, rest)| (head.to_lowercase(), rest));
        match head {
            Some((head, rest)) if is_same(&head, provider) && !rest.is_empty() => {
                Some(rest.to_owned())
            }
            _ => Some(model.to_owned()),
        }
    }

    /// A model of a provider, by the provider's name in `memorySearch`.
    fn reach(
        &self,
        written: &str,
        model: Option<&str>,
    ) -> Result<EmbeddingModel, EmbeddingsRefused> {
        let sources = self.sources;
        let known = KNOWN.iter().find(|known| known.id.eq_ignore_ascii_case(written));
        let is_configured = |id: &str| sources.models.providers.get(id).is_some();
        let unknown = || {
            not_configured(&format!(
                "memorySearch.provider: there is no {written:?} here; known are {}, auto, and what \
                 models.providers has",
                KNOWN.map(|known| known.id).join(", ")
            ))
        };
        let (id, usual_url) = match known {
            Some(known) if known.api == EmbeddingApi::Ollama => {
                let host = (sources.env)("OLLAMA_HOST");
                (known.provider, Some(ollama_address(host.as_deref())))
            }
            Some(known) => (known.provider, Some(known.base_url.to_owned())),
            None if is_configured(written) => (written, None),
            None => return Err(unknown()),
        };
        let mut info = reached(id, "", usual_url.as_deref(), sources)?;
        let api = known.map(|known| known.api).or_else(|| EmbeddingApi::of(info.api));
        let none = || format!("models.providers.{id} speaks {}, which has none", info.api.as_str());
        let api = api.ok_or_else(|| not_configured(&none()))?;
        let usual = known.map(|known| known.model).or_else(|| api.usual_model());
        let unnamed = || format!("name a model of {id} in memorySearch.model");
        let model = model.or(usual).ok_or_else(|| not_configured(&unnamed()))?;
        let model = if api == EmbeddingApi::Gemini {
            model.strip_prefix("models/").unwrap_or(model)
        } else {
            model
        };
        if !is_name(model) {
            return Err(EmbeddingsRefused::NoModel);
        }
        (info.id, info.name) = (model.to_owned(), model.to_owned());
        info.api = api.chat();
        let is_elsewhere = self.move_to_remote(&mut info, api);
        info.base_url = base(&info.base_url, api);
        Ok(EmbeddingModel { info, api, is_elsewhere })
    }

    /// Reaches the model as `memorySearch.remote` says; whether it says anything.
    fn move_to_remote(&self, info: &mut ModelInfo, api: EmbeddingApi) -> bool {
        let remote = &self.config.remote;
        let secrets = self.sources.secrets;
        let url = remote.base_url.as_ref().and_then(|it| it.resolve(secrets));
        let key = remote.api_key.as_ref().and_then(|it| it.resolve(secrets));
        for (name, value) in remote.headers.iter().flatten() {
            info.headers.extend(value.resolve(secrets).map(|value| (name.to_lowercase(), value)));
        }
        if let Some(url) = &url {
            url.expose().trim().trim_end_matches('/').clone_into(&mut info.base_url);
            // What is on one's own machine has a key seldom, and another one then.
            if api == EmbeddingApi::Ollama {
                info.api_key = None;
            }
        }
        let lost = self.config.references().find(|at| secrets.get(at).is_none());
        let is_elsewhere = url.is_some() || key.is_some() || lost.is_some();
        if let Some(key) = key {
            let options = std::sync::Arc::make_mut(&mut info.options);
            options.auth = Some(auth(api, key));
        }
        // In its stead neither the usual key nor the usual address is taken.
        if let Some(at) = lost {
            let options = std::sync::Arc::make_mut(&mut info.options);
            let why = format!("memorySearch.remote: the secret {at} cannot be had");
            options.missing = Some(why.into());
        }
        is_elsewhere
    }
}

/// How a key of `memorySearch.remote` is shown: as that of its API is.
fn auth(api: EmbeddingApi, value: Secret) -> AuthHeader {
    let (name, prefix) = match api {
        EmbeddingApi::Gemini => ("x-goog-api-key", ""),
        _ => ("authorization", "Bearer "),
    };
    AuthHeader { name: name.into(), prefix: prefix.into(), value }
}

/// Provider and model that a request names. It may choose among the models of the
/// agent's provider; among providers where the agent has chosen none.
fn of_request(
    wanted: &str,
    configured: &str,
) -> Result<(String, Option<String>), EmbeddingsRefused> {
    let Some((provider, model)) = wanted.split_once('/') else {
        return Ok((configured.to_owned(), Some(wanted.to_owned())));
    };
    let (provider, model) = (provider.trim().to_lowercase(), model.trim());
    if !is_name(model) {
        return Err(EmbeddingsRefused::NoModel);
    }
    let is_offered = |known: &Known| known.id == provider && known.id != "ollama";
    let is_allowed = match configured {
        AUTO => provider == AUTO || KNOWN.iter().any(is_offered),
        own => own.eq_ignore_ascii_case(&provider),
    };
    if !is_allowed {
        return Err(EmbeddingsRefused::OtherProvider);
    }
    Ok((provider, Some(model.to_owned())))
}

/// Whether a name before a slash is that of a provider.
fn is_same(head: &str, provider: &str) -> bool {
    let known = KNOWN.iter().find(|known| known.id.eq_ignore_ascii_case(provider));
    head.eq_ignore_ascii_case(provider) || known.is_some_and(|known| known.provider == head)
}

/// Whether a model can be called this: it becomes a part of an address.
fn is_name(model: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
    let is_step = |part: &str| !part.is_empty() && part != "." && part != "..";
    model.len() <= MODEL_MAX && model.chars().all(is_part) && model.split('/').all(is_step)
}

/// The address without what belongs to an API beside the one that is asked.
fn base(url: &str, api: EmbeddingApi) -> String {
    let url = url.trim_end_matches('/');
    match api {
        EmbeddingApi::Gemini => url.strip_suffix("/openai").unwrap_or(url).to_owned(),
        EmbeddingApi::Ollama => url.strip_suffix("/v1").unwrap_or(url).to_owned(),
        _ => url.to_owned(),
    }
}

fn not_configured(why: &str) -> EmbeddingsRefused {
    EmbeddingsRefused::NotConfigured(why.to_owned())
}

#[cfg(test)]
mod tests;
