//! One adapter per API, shared by all models that speak it.
//!
//! Owns: which code serves which API. Promises: cheap to make; nothing is
//! connected or read from disk before the first call.

use std::sync::Arc;

use super::anthropic::Anthropic;
use super::http::{Http, HttpLimits};
use super::offline::Offline;
use super::openai_completions::OpenAiCompletions;
use super::retry::{Retry, RetryPolicy};
use super::{Api, Provider};
use crate::support::Clock;

/// All adapters. Make them once; they survive a change of configuration.
pub struct Adapters {
    http: Http,
    openai_completions: Arc<dyn Provider>,
    anthropic: Arc<dyn Provider>,
    offline: Arc<dyn Provider>,
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
        let openai = OpenAiCompletions::new(http.clone(), Arc::clone(clock));
        let anthropic = Anthropic::new(http.clone(), Arc::clone(clock));
        Arc::new(Self {
            http,
            openai_completions: Arc::new(Retry::new(Arc::new(openai), retry)),
            anthropic: Arc::new(Retry::new(Arc::new(anthropic), retry)),
            offline: Arc::new(Offline::new(Arc::clone(clock))),
        })
    }

    /// The adapter for an API.
    pub fn get(&self, api: Api) -> Arc<dyn Provider> {
        Arc::clone(match api {
            Api::OpenAiCompletions => &self.openai_completions,
            Api::AnthropicMessages => &self.anthropic,
            Api::Offline => &self.offline,
        })
    }

    /// The way out, for what is not a call of a model.
    pub(super) const fn http(&self) -> &Http {
        &self.http
    }
}
