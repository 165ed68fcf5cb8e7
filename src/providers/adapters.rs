//! One adapter per API, shared by all models that speak it.
//!
//! Owns: which code serves which API. Promises: cheap to make; nothing is
//! connected or read from disk before the first call.

use std::sync::Arc;

use super::anthropic::Anthropic;
use super::claude_cli::ClaudeCli;
use super::google::Google;
use super::http::{Http, HttpLimits};
use super::offline::Offline;
use super::ollama::Ollama;
use super::openai_completions::OpenAiCompletions;
use super::openai_responses::OpenAiResponses;
use super::retry::{Retry, RetryPolicy};
use super::{Api, Provider};
use crate::support::Clock;

/// All adapters. Make them once; they survive a change of configuration.
pub struct Adapters {
    http: Http,
    openai_completions: Arc<dyn Provider>,
    openai_responses: Arc<dyn Provider>,
    anthropic: Arc<dyn Provider>,
    google: Arc<dyn Provider>,
    ollama: Arc<dyn Provider>,
    offline: Arc<dyn Provider>,
    claude_cli: Arc<dyn Provider>,
}

impl Adapters {
    /// Adapters with the usual limits.
    pub fn new(clock: &Arc<dyn Clock>) -> Arc<Self> {
        Self::with_limits(clock, HttpLimits::default(), RetryPolicy::default())
    }

    /// Adapters with other limits.
    pub fn with_limits(
        clock: &Arc<dyn Clock>,
        limits: HttpLimits,
        retry: RetryPolicy,
    ) -> Arc<Self> {
        let http = Http::new(limits, Arc::clone(clock));
        let parts = || (http.clone(), Arc::clone(clock));
        let again = |provider| -> Arc<dyn Provider> { Arc::new(Retry::new(provider, retry)) };
        Arc::new(Self {
            openai_completions: again(made(OpenAiCompletions::new, parts())),
            openai_responses: again(made(OpenAiResponses::new, parts())),
            anthropic: again(made(Anthropic::new, parts())),
            google: again(made(Google::new, parts())),
            ollama: again(made(Ollama::new, parts())),
            offline: Arc::new(Offline::new(Arc::clone(clock))),
            claude_cli: Arc::new(ClaudeCli::new(limits.idle, Arc::clone(clock))),
            http,
        })
    }

    /// The adapter for an API.
    pub fn get(&self, api: Api) -> Arc<dyn Provider> {
        Arc::clone(match api {
            Api::OpenAiCompletions => &self.openai_completions,
            Api::OpenAiResponses => &self.openai_responses,
            Api::GoogleGenerativeAi => &self.google,
            Api::Ollama => &self.ollama,
            Api::AnthropicMessages => &self.anthropic,
            Api::Offline => &self.offline,
            Api::ClaudeCli => &self.claude_cli,
        })
    }

    /// The way out, for what is not a call of a model.
    pub(super) const fn http(&self) -> &Http {
        &self.http
    }
}

fn made<P: Provider + 'static>(
    new: fn(Http, Arc<dyn Clock>) -> P,
    (http, clock): (Http, Arc<dyn Clock>),
) -> Arc<dyn Provider> {
    Arc::new(new(http, clock))
}
