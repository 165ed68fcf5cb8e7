//! Which credentials rest after a failure, and for how long.
//!
//! Promises: what is wrong with one conversation or one request makes nobody
//! rest; what is wrong with one model leaves the others alone (#55941). Kept
//! in memory: a restart asks each provider once more.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::super::{ModelInfo, ProviderError, ProviderErrorKind};
use crate::config::profiles::CooldownConfig;

/// How long a credential rests after the first, second, … failure in a row.
const STEPS: [Duration; 4] = [
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(25),
    Duration::from_hours(1),
];
/// Far more than anybody has credentials and models.
const MAX_ENTRIES: usize = 10_000;

/// Why a call failed, as far as the choice of the next one is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// The credential is not accepted.
    Auth,
    /// The account has no credit.
    Billing,
    /// Too many requests.
    RateLimit,
    /// The provider has too much to do.
    Overloaded,
    /// The provider failed, cannot be reached, or is silent.
    Timeout,
    /// The provider does not know the model.
    ModelNotFound,
    /// The provider does not accept the request.
    Format,
    /// The conversation is too long for the model.
    ContextOverflow,
    /// The model declined.
    Refusal,
}

/// Words of providers for an account without credit.
const NO_CREDIT: [&str; 8] = [
    "insufficient credit",
    "insufficient_quota",
    "insufficient balance",
    "credit balance",
    "payment required",
    "exceeded your current quota",
    "billing",
    "out of credits",
];

/// Whether `message` of a provider says that there is no credit left.
pub fn says_no_credit(message: &str) -> bool {
    let text = message.to_lowercase();
    NO_CREDIT.iter().any(|words| text.contains(words))
}

impl FailureReason {
    /// The reason of a failed call.
    pub fn of(error: &ProviderError) -> Self {
        match (error.kind, error.status) {
            (ProviderErrorKind::ContextLength, _) => Self::ContextOverflow,
            (ProviderErrorKind::Refusal, _) => Self::Refusal,
            (_, Some(402)) => Self::Billing,
            (ProviderErrorKind::RateLimit | ProviderErrorKind::Auth, _)
                if says_no_credit(&error.message) =>
            {
                Self::Billing
            }
            (ProviderErrorKind::RateLimit, _) => Self::RateLimit,
            (ProviderErrorKind::Auth | ProviderErrorKind::NoApiKey, _) => Self::Auth,
            (ProviderErrorKind::Overloaded, _) => Self::Overloaded,
            (ProviderErrorKind::BadRequest, Some(404)) => Self::ModelNotFound,
            (ProviderErrorKind::BadRequest | ProviderErrorKind::Protocol, _) => Self::Format,
            (
                ProviderErrorKind::Timeout
                | ProviderErrorKind::Network
                | ProviderErrorKind::Server
                | ProviderErrorKind::Cut,
                _,
            ) => Self::Timeout,
        }
    }

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Billing => "billing",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::Timeout => "timeout",
            Self::ModelNotFound => "model_not_found",
            Self::Format => "format",
            Self::ContextOverflow => "context_overflow",
            Self::Refusal => "refusal",
        }
    }

    /// Whether another model may do better.
    pub const fn fails_over(self) -> bool {
        !matches!(self, Self::ContextOverflow | Self::Refusal)
    }

    /// Whether another credential of the same provider may do better.
    pub const fn rotates(self) -> bool {
        matches!(self, Self::Auth | Self::Billing | Self::RateLimit)
    }

    const fn rests(self) -> Scope {
        match self {
            Self::Auth | Self::Billing => Scope::Credential,
            Self::RateLimit | Self::Overloaded | Self::Timeout => Scope::Model,
            Self::ModelNotFound | Self::Format | Self::ContextOverflow | Self::Refusal => {
                Scope::Nothing
            }
        }
    }
}

/// What rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Nothing.
    Nothing,
    /// The credential, for this model.
    Model,
    /// The credential, for all models.
    Credential,
}

/// A credential that rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// Until then, in milliseconds since the epoch.
    pub until_ms: u64,
    /// Why.
    pub reason: FailureReason,
}

#[derive(Debug)]
struct State {
    failures: u32,
    failed_at: u64,
    rest: Rest,
}

/// Id of a credential, and the model when only that is concerned.
type Key = (String, Option<String>);

/// What rests.
pub struct Cooldowns {
    config: CooldownConfig,
    states: Mutex<HashMap<Key, State>>,
}

impl Cooldowns {
    /// Nothing rests yet.
    pub fn new(config: CooldownConfig) -> Self {
        Self { config, states: Mutex::default() }
    }

    /// Until when a credential rests for this model.
    pub fn rest(&self, id: &str, model: &ModelInfo, now_ms: u64) -> Option<Rest> {
        let states = self.states.lock();
        let keys = [(id.to_owned(), None), (id.to_owned(), Some(model.id.clone()))];
        let rests = keys.iter().filter_map(|key| Some(states.get(key)?.rest));
        rests.filter(|rest| rest.until_ms > now_ms).max_by_key(|rest| rest.until_ms)
    }

    /// The longest rest of a credential for any model.
    pub fn longest(&self, id: &str, now_ms: u64) -> Option<Rest> {
        let states = self.states.lock();
        let rests = states.iter().filter(|((known, _), _)| known == id).map(|(_, it)| it.rest);
        rests.filter(|rest| rest.until_ms > now_ms).max_by_key(|rest| rest.until_ms)
    }

    /// A call failed.
    pub fn failed(&self, id: &str, model: &ModelInfo, error: &ProviderError, now_ms: u64) {
        let reason = FailureReason::of(error);
        let key = match reason.rests() {
            Scope::Nothing => return,
            Scope::Model => (id.to_owned(), Some(model.id.clone())),
            Scope::Credential => (id.to_owned(), None),
        };
        let window = millis(self.config.failure_window);
        let mut states = self.states.lock();
        if states.len() >= MAX_ENTRIES {
            states.retain(|_, state| state.rest.until_ms > now_ms);
        }
        let earlier = states.get(&key).filter(|state| {
            now_ms.saturating_sub(state.failed_at) < window && state.rest.reason == reason
        });
        let failures = earlier.map_or(1, |state| state.failures.saturating_add(1));
        let rest = self.length(reason, failures, &model.provider);
        // Who says how long to wait is believed.
        let rest = rest.max(error.retry_after.unwrap_or_default());
        let rest = Rest { until_ms: now_ms.saturating_add(millis(rest)), reason };
        states.insert(key, State { failures, failed_at: now_ms, rest });
    }

    /// A call went well.
    pub fn succeeded(&self, id: &str, model: &ModelInfo) {
        let mut states = self.states.lock();
        states.remove(&(id.to_owned(), None));
        states.remove(&(id.to_owned(), Some(model.id.clone())));
    }

    fn length(&self, reason: FailureReason, failures: u32, provider: &str) -> Duration {
        if reason == FailureReason::Billing {
            let config = &self.config;
            let first = config.billing_by_provider.get(provider).unwrap_or(&config.billing);
            let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
            return first.saturating_mul(factor).min(config.billing_max);
        }
        let step = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
        *STEPS.get(step).unwrap_or(&Duration::from_hours(1))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::model;
    use crate::providers::{ErrorStyle, ProviderErrorKind as Kind};

    const MINUTE: u64 = 60_000;
    const HOUR: u64 = 60 * MINUTE;

    fn status(status: u16, message: &str) -> ProviderError {
        let body = serde_json::json!({"error": {"message": message}}).to_string();
        ProviderError::from_status(ErrorStyle::OpenAi, status, &body)
    }

    fn named(id: &str) -> ModelInfo {
        ModelInfo { id: id.into(), ..model("openai-completions") }
    }

    fn cooldowns() -> Cooldowns {
        Cooldowns::new(CooldownConfig::default())
    }

    #[test]
    fn rests_grow_with_each_failure_and_end_with_success() {
        let (all, model) = (cooldowns(), named("m"));
        let mut now = 1000;
        for minutes in [1, 5, 25, 60, 60] {
            all.failed("p", &model, &status(429, "slow down"), now);
            let rest = all.rest("p", &model, now).unwrap();
            assert_eq!(rest.until_ms - now, minutes * MINUTE);
            assert_eq!(all.rest("p", &model, rest.until_ms), None);
            now = rest.until_ms;
        }
        all.succeeded("p", &model);
        all.failed("p", &model, &status(429, "slow down"), now);
        assert_eq!(all.rest("p", &model, now).unwrap().until_ms - now, MINUTE);
    }

    #[test]
    fn a_day_without_failure_is_a_new_beginning() {
        let (all, model) = (cooldowns(), named("m"));
        all.failed("p", &model, &status(500, "x"), 0);
        all.failed("p", &model, &status(500, "x"), 25 * HOUR);
        assert_eq!(all.rest("p", &model, 25 * HOUR).unwrap().until_ms, 25 * HOUR + MINUTE);
    }

    #[test]
    fn a_rate_limit_concerns_one_model_and_a_refused_key_all() {
        let (all, one, other) = (cooldowns(), named("one"), named("other"));
        all.failed("p", &one, &status(429, "slow down"), 0);
        assert!(all.rest("p", &one, 1).is_some());
        assert_eq!(all.rest("p", &other, 1), None);
        all.failed("p", &one, &status(401, "bad key"), 0);
        assert_eq!(all.rest("p", &other, 1).unwrap().reason, FailureReason::Auth);
        assert_eq!(all.rest("q", &other, 1), None);
    }

    #[test]
    fn an_account_without_credit_rests_for_hours() {
        let (all, model) = (cooldowns(), named("m"));
        let mut now = 0;
        for hours in [5, 10, 20, 24, 24] {
            all.failed("p", &model, &status(429, "You exceeded your current quota"), now);
            let rest = all.longest("p", now).unwrap();
            assert_eq!((rest.until_ms - now, rest.reason), (hours * HOUR, FailureReason::Billing));
            now += HOUR;
        }
        assert_eq!(FailureReason::of(&status(402, "x")), FailureReason::Billing);
    }

    #[test]
    fn what_one_request_did_wrong_makes_no_credential_rest() {
        let (all, model) = (cooldowns(), named("m"));
        let too_long = status(400, "maximum context length is 10 tokens");
        let refused = ProviderError::new(Kind::Refusal, "no");
        for error in [
            status(400, "orphan tool result"),
            status(422, "x"),
            status(404, "x"),
            too_long,
            refused,
            ProviderError::new(Kind::Protocol, "html"),
        ] {
            all.failed("p", &model, &error, 0);
            assert_eq!(all.longest("p", 1), None, "{error:?}");
        }
    }

    #[test]
    fn the_wait_that_a_provider_asks_for_is_kept() {
        let (all, model) = (cooldowns(), named("m"));
        let mut error = status(429, "slow down");
        error.retry_after = Some(Duration::from_mins(10));
        all.failed("p", &model, &error, 0);
        assert_eq!(all.rest("p", &model, 1).unwrap().until_ms, 10 * MINUTE);
    }

    #[test]
    fn reasons_are_told_apart() {
        for (error, reason) in [
            (status(401, "x"), "auth"),
            (status(403, "x"), "auth"),
            (status(403, "Your credit balance is too low"), "billing"),
            (status(429, "x"), "rate_limit"),
            (status(529, "x"), "overloaded"),
            (status(500, "x"), "timeout"),
            (status(404, "x"), "model_not_found"),
            (status(400, "x"), "format"),
            (ProviderError::cut(), "timeout"),
            (ProviderError::no_api_key("p"), "auth"),
        ] {
            assert_eq!(FailureReason::of(&error).as_str(), reason, "{error:?}");
        }
    }
}
