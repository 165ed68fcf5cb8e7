//! One adapter per API, shared by all models that speak it.
//!
//! Owns: which code serves which API. Promises: cheap to make; nothing is
//! connected or read from disk before the first call.

use std::sync::Arc;

use super::anthropic::Anthropic;
use tokio::sync::Semaphore;

use super::api::{HttpApi, HttpProvider};
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

/// Requests for vectors at a time: each holds an answer of some MiB.
const EMBEDDING_AT_A_TIME: usize = 16;

/// All adapters. Make them once; they survive a change of configuration.
pub struct Adapters {
    http: Http,
    retry: RetryPolicy,
    embedding: Semaphore,
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
        Arc::new(Self {
            openai_completions: made::<OpenAiCompletions>(&http, clock, retry),
            openai_responses: made::<OpenAiResponses>(&http, clock, retry),
            anthropic: made::<Anthropic>(&http, clock, retry),
            google: made::<Google>(&http, clock, retry),
            ollama: made::<Ollama>(&http, clock, retry),
            offline: Arc::new(Offline::new(Arc::clone(clock))),
            claude_cli: Arc::new(ClaudeCli::new(Arc::clone(clock))),
            http,
            retry,
            embedding: Semaphore::new(EMBEDDING_AT_A_TIME),
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

    /// How often something is tried again.
    pub(super) const fn retry(&self) -> RetryPolicy {
        self.retry
    }

    /// Places for those who ask for vectors.
    pub(super) const fn embedding(&self) -> &Semaphore {
        &self.embedding
    }

    /// The way out, for what is not a call of a model.
    pub(super) const fn http(&self) -> &Http {
        &self.http
    }
}

fn made<A: HttpApi>(http: &Http, clock: &Arc<dyn Clock>, retry: RetryPolicy) -> Arc<dyn Provider> {
    let provider = HttpProvider::new::<A>(http.clone(), Arc::clone(clock));
    Arc::new(Retry::new(Arc::new(provider), retry))
}
