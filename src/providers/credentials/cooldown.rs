//! Which credentials rest after a failure, and for how long.
//!
//! Promises: what is wrong with one conversation or one request makes nobody
//! rest; what is wrong with one model leaves the others alone (#55941). What
//! changes waits to be stored, in order.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;

use super::super::{ModelInfo, ProviderError, ProviderErrorKind};
use super::usage_stats::ProfileRest;
use crate::config::models::provider_id;
use crate::config::profiles::CooldownConfig;
use crate::store::{CooldownChange, CooldownRow};
use crate::support::millis;

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
const NO_CREDIT: [&str; 10] = [
    "insufficient credit",
    "insufficient_quota",
    "insufficient balance",
    "credit balance",
    "credits are depleted",
    "payment required",
    "out of credits",
    "plans & billing",
    "check your billing details",
    "billing hard limit",
];
/// OpenAI says it of an account without credit, Google of a limit per minute.
const QUOTA: &str = "exceeded your current quota";
/// Words of those who only ask to wait.
const THROTTLED: [&str; 5] =
    ["resource_exhausted", "retry in ", "try again in ", "per minute", "perminute"];

/// What a provider may name when it refuses the credential itself,
const CREDENTIALS: [&str; 3] = ["key", "token", "account"];
/// and what it says of it.
const BAD: [&str; 10] = [
    "invalid",
    "not valid",
    "incorrect",
    "expired",
    "revoked",
    "leaked",
    "disabled",
    "deactivated",
    "suspended",
    "unregistered",
];

/// Whether `message` of a provider says that it takes the credential for nothing.
fn says_bad_key(message: &str) -> bool {
    let text = message.to_lowercase();
    let says = |list: &[&str]| list.iter().any(|word| text.contains(word));
    says(&CREDENTIALS) && says(&BAD)
}

/// Whether `message` of a provider says that there is no credit left.
pub fn says_no_credit(message: &str) -> bool {
    let text = message.to_lowercase();
    let says = |list: &[&str]| list.iter().any(|words| text.contains(words));
    says(&NO_CREDIT) || (text.contains(QUOTA) && !says(&THROTTLED))
}

impl FailureReason {
    /// The reason of a failed call.
    pub fn of(error: &ProviderError) -> Self {
        match (error.kind, error.status) {
            (ProviderErrorKind::ContextLength, _) => Self::ContextOverflow,
            (ProviderErrorKind::Refusal, _) => Self::Refusal,
            (_, Some(402)) => Self::Billing,
            // Anthropic refuses the request (400) of an account without credit.
            (
                ProviderErrorKind::RateLimit
                | ProviderErrorKind::Auth
                | ProviderErrorKind::BadRequest,
                _,
            ) if says_no_credit(&error.message) => Self::Billing,
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

    /// The reason with this word.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [
            Self::Auth,
            Self::Billing,
            Self::RateLimit,
            Self::Overloaded,
            Self::Timeout,
            Self::ModelNotFound,
            Self::Format,
            Self::ContextOverflow,
            Self::Refusal,
        ];
        all.into_iter().find(|reason| reason.as_str() == word)
    }

    /// Whether another model may do better.
    pub const fn fails_over(self) -> bool {
        !matches!(self, Self::ContextOverflow | Self::Refusal)
    }

    /// Whether another credential of the same provider may do better.
    pub const fn rotates(self) -> bool {
        matches!(self, Self::Auth | Self::Billing | Self::RateLimit)
    }

    /// What rests when this is why a call failed with `error`.
    fn rests(self, error: &ProviderError) -> Scope {
        match self {
            // A good key may not have this model.
            Self::Auth if error.status == Some(403) && !says_bad_key(&error.message) => {
                Scope::Model
            }
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
    /// 0 after a success that ended what another program had noted.
    failures: u32,
    failed_at: u64,
    rest: Rest,
    /// Whether another program noted it: its note stays where it is, so that
    /// it ended has to be remembered.
    is_foreign: bool,
}

/// Id of a credential, and the model when only that is concerned.
type Key = (String, Option<String>);

#[derive(Default)]
struct Table {
    states: HashMap<Key, State>,
    /// Where the store is behind.
    changed: HashSet<Key>,
    is_storing: bool,
}

/// What rests.
pub struct Cooldowns {
    config: CooldownConfig,
    table: Mutex<Table>,
}

impl Cooldowns {
    /// Nothing rests yet.
    pub fn new(config: CooldownConfig) -> Self {
        Self { config, table: Mutex::default() }
    }

    /// Until when a credential rests for this model.
    pub fn rest(&self, id: &str, model: &ModelInfo, now_ms: u64) -> Option<Rest> {
        let table = self.table.lock();
        let keys = [(id.to_owned(), None), (id.to_owned(), Some(model.id.clone()))];
        let rests = keys.iter().filter_map(|key| Some(table.states.get(key)?.rest));
        rests.filter(|rest| rest.until_ms > now_ms).max_by_key(|rest| rest.until_ms)
    }

    /// The longest rest of a credential for any model.
    pub fn longest(&self, id: &str, now_ms: u64) -> Option<Rest> {
        let table = self.table.lock();
        let own = table.states.iter().filter(|((known, _), _)| known == id);
        let rests = own.map(|(_, state)| state.rest);
        rests.filter(|rest| rest.until_ms > now_ms).max_by_key(|rest| rest.until_ms)
    }

    /// A call failed that began at `began_ms`. One of those that were under way when the
    /// rest began, or that was made in spite of it, says nothing new.
    pub fn failed(
        &self,
        id: &str,
        model: &ModelInfo,
        error: &ProviderError,
        began_ms: u64,
        now_ms: u64,
    ) {
        let reason = FailureReason::of(error);
        let key = match reason.rests(error) {
            Scope::Nothing => return,
            Scope::Model => (id.to_owned(), Some(model.id.clone())),
            Scope::Credential => (id.to_owned(), None),
        };
        let mut table = self.table.lock();
        let Table { states, changed, .. } = &mut *table;
        if states.len() >= MAX_ENTRIES {
            let gone = states.extract_if(|_, state| state.rest.until_ms <= now_ms);
            changed.extend(gone.map(|(key, _)| key));
        }
        // Who says how long to wait is believed.
        let asked_ms = now_ms.saturating_add(millis(error.retry_after.unwrap_or_default()));
        let is_same =
            |state: &&mut State| state.rest.reason == reason && began_ms < state.rest.until_ms;
        if let Some(state) = states.get_mut(&key).filter(is_same) {
            if error.retry_after.is_some() && asked_ms > state.rest.until_ms {
                state.rest.until_ms = asked_ms;
                changed.insert(key);
            }
            return;
        }
        let earlier = states.get(&key).filter(|state| {
            now_ms.saturating_sub(state.failed_at) < self.window() && state.rest.reason == reason
        });
        let failures = earlier.map_or(1, |state| state.failures.saturating_add(1));
        let rest = self.length(reason, failures, &model.provider);
        let until_ms = now_ms.saturating_add(millis(rest)).max(asked_ms);
        let rest = Rest { until_ms, reason };
        let is_foreign = states.get(&key).is_some_and(|state| state.is_foreign);
        changed.insert(key.clone());
        states.insert(key, State { failures, failed_at: now_ms, rest, is_foreign });
    }

    /// A call went well.
    pub fn succeeded(&self, id: &str, model: &ModelInfo, now_ms: u64) {
        let mut table = self.table.lock();
        if table.states.is_empty() {
            return;
        }
        let Table { states, changed, .. } = &mut *table;
        for key in [(id.to_owned(), None), (id.to_owned(), Some(model.id.clone()))] {
            match states.get_mut(&key) {
                None => continue,
                Some(state) if state.is_foreign && state.failures == 0 => continue,
                Some(state) if state.is_foreign => {
                    (state.failures, state.failed_at, state.rest.until_ms) = (0, now_ms, 0);
                }
                Some(_) => drop(states.remove(&key)),
            }
            changed.insert(key);
        }
    }

    /// Takes in what was stored, before anything is asked, unless another
    /// program has noted something newer. What is over counts no more.
    pub fn recall(&self, rows: Vec<CooldownRow>, now_ms: u64) {
        let mut table = self.table.lock();
        for row in rows.into_iter().take(MAX_ENTRIES) {
            let key = (row.credential, row.model);
            let is_over = now_ms.saturating_sub(row.failed_at) >= self.window();
            let reason = FailureReason::parse(&row.reason);
            let Some(reason) = reason.filter(|_| row.until_ms > now_ms || !is_over) else {
                table.changed.insert(key);
                continue;
            };
            let known = table.states.get(&key);
            if known.is_some_and(|known| !known.is_foreign || known.failed_at > row.failed_at) {
                continue;
            }
            let (failures, failed_at) = (row.failures, row.failed_at);
            let rest = Rest { until_ms: row.until_ms, reason };
            let is_foreign = failures == 0 || known.is_some();
            table.states.insert(key, State { failures, failed_at, rest, is_foreign });
        }
    }

    /// Takes in what another program noted, where nothing newer is known.
    pub fn take_over(&self, rests: &[ProfileRest], now_ms: u64) {
        let mut table = self.table.lock();
        for noted in rests.iter().filter(|noted| noted.rest.until_ms > now_ms).take(MAX_ENTRIES) {
            let key = (noted.profile.clone(), noted.model.clone());
            let is_newer = |known: &State| known.failed_at < noted.failed_at;
            if table.states.get(&key).is_none_or(is_newer) {
                let (failures, failed_at, rest) = (noted.failures, noted.failed_at, noted.rest);
                let state = State { failures, failed_at, rest, is_foreign: true };
                table.states.insert(key, state);
            }
        }
    }

    /// Whether there is something to store that nobody is storing yet. Who is
    /// told so must go on with [`Self::changes`] until there are none, or they cannot be
    /// stored.
    pub fn begins_storing(&self) -> bool {
        let mut table = self.table.lock();
        let begins = !table.is_storing && !table.changed.is_empty();
        table.is_storing |= begins;
        begins
    }

    /// These could not be stored, which ends the storing: whoever begins next has them
    /// first, as they are by then.
    pub fn not_stored(&self, changes: Vec<CooldownChange>) {
        let mut table = self.table.lock();
        table.is_storing = false;
        table.changed.extend(changes.into_iter().map(|change| match change {
            CooldownChange::Set(row) => (row.credential, row.model),
            CooldownChange::Remove(credential, model) => (credential, model),
        }));
    }

    /// What is to be stored next; `None` ends the storing.
    pub fn changes(&self) -> Option<Vec<CooldownChange>> {
        let mut table = self.table.lock();
        let Table { states, changed, is_storing } = &mut *table;
        *is_storing = !changed.is_empty();
        is_storing.then(|| changed.drain().map(|key| change(states.get(&key), key)).collect())
    }

    fn window(&self) -> u64 {
        millis(self.config.failure_window)
    }

    fn length(&self, reason: FailureReason, failures: u32, provider: &str) -> Duration {
        if reason == FailureReason::Billing {
            let config = &self.config;
            let own = config.billing_by_provider.get(&provider_id(provider));
            let first = own.unwrap_or(&config.billing);
            let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
            return first.saturating_mul(factor).min(config.billing_max);
        }
        let step = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
        *STEPS.get(step).unwrap_or(&Duration::from_hours(1))
    }
}

fn change(state: Option<&State>, (credential, model): Key) -> CooldownChange {
    let Some(state) = state else { return CooldownChange::Remove(credential, model) };
    CooldownChange::Set(CooldownRow {
        credential,
        model,
        reason: state.rest.reason.as_str().into(),
        failures: state.failures,
        failed_at: state.failed_at,
        until_ms: state.rest.until_ms,
    })
}

#[cfg(test)]
mod tests;
