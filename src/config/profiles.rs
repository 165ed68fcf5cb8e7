//! The `auth` section: the credentials of model providers, without secrets.
//!
//! Owns: which profiles there are by configuration, in which order they are
//! tried, how long one rests after a failure. The secrets are in each agent's
//! `auth-profiles.json`. Must not: be mistaken for `gateway.auth`, which lets
//! clients in.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ConfigError;
use super::foreign::PROFILE_MODES;
use super::models::provider_id;
use super::schema::Node;
use crate::support::sort;

/// As in OpenClaw: nobody tops up an account within minutes.
const BILLING_HOURS: f64 = 5.0;
/// As in OpenClaw.
const BILLING_MAX_HOURS: f64 = 24.0;
/// As in OpenClaw: failures further apart than this have nothing in common.
const FAILURE_WINDOW_HOURS: f64 = 24.0;
/// A year; more is a slip of the pen.
const HOURS_MAX: f64 = 8760.0;

/// `auth`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProfilesConfig {
    /// `auth.profiles`, in the order of the file.
    pub profiles: Vec<ProfileConfig>,
    /// `auth.order`: ids of profiles by provider.
    pub order: BTreeMap<String, Vec<String>>,
    /// `auth.cooldowns`.
    pub cooldowns: CooldownConfig,
}

/// `auth.profiles.<id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileConfig {
    /// Its id, such as `anthropic:work`.
    pub id: String,
    /// Whose it is.
    pub provider: String,
    /// What kind of credential is expected.
    pub mode: ProfileMode,
}

/// Kinds of credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProfileMode {
    /// From an OAuth login; used as long as it is valid, never renewed here.
    OAuth,
    /// A token that cannot be renewed.
    Token,
    /// An API key.
    ApiKey,
}

impl ProfileMode {
    /// All of them.
    const ALL: [Self; 3] = [Self::ApiKey, Self::Token, Self::OAuth];

    /// The name in files and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OAuth => "oauth",
            Self::Token => "token",
            Self::ApiKey => "api_key",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// `auth.cooldowns`.
#[derive(Debug, Clone, PartialEq)]
pub struct CooldownConfig {
    /// How long a credential without credit rests; doubles each time.
    pub billing: Duration,
    /// The same for single providers.
    pub billing_by_provider: BTreeMap<String, Duration>,
    /// The longest rest of a credential without credit.
    pub billing_max: Duration,
    /// After so long without failure, counting begins anew.
    pub failure_window: Duration,
}

impl Default for CooldownConfig {
    fn default() -> Self {
        Self {
            billing: hours(BILLING_HOURS),
            billing_by_provider: BTreeMap::new(),
            billing_max: hours(BILLING_MAX_HOURS),
            failure_window: hours(FAILURE_WINDOW_HOURS),
        }
    }
}

impl ProfilesConfig {
    /// Whether Anthropic is asked by the login of a person, and not by a key that is paid
    /// by use: the first profile of its order says so, else all that there are.
    pub(super) fn has_anthropic_login(&self) -> bool {
        const IDS: [&str; 2] = ["anthropic", "claude-cli"];
        let theirs = || self.profiles.iter().filter(|it| IDS.contains(&it.provider.as_str()));
        let is_login =
            |it: &ProfileConfig| it.provider == "claude-cli" || it.mode != ProfileMode::ApiKey;
        let mut order = IDS.iter().filter_map(|id| self.order.get(*id)).flatten();
        match order.find_map(|id| theirs().find(|it| it.id == *id)) {
            Some(first) => is_login(first),
            None => theirs().next().is_some() && theirs().all(is_login),
        }
    }
}

pub(super) fn read(node: &Node<'_>) -> Result<ProfilesConfig, ConfigError> {
    let profiles = node.member("profiles")?.members()?;
    let order = node.member("order")?.members()?;
    let order = order
        .into_iter()
        .map(|(provider, ids)| Ok((provider_id(&provider), ids.texts()?.unwrap_or_default())));
    Ok(ProfilesConfig {
        profiles: profiles
            .into_iter()
            .filter_map(|written| profile(written).transpose())
            .collect::<Result<_, _>>()?,
        order: sort::map(order.collect::<Result<Vec<_>, ConfigError>>()?),
        cooldowns: cooldowns(&node.member("cooldowns")?)?,
    })
}

/// One of them; `None` for a kind of credential that only OpenClaw has.
fn profile((id, node): (String, Node<'_>)) -> Result<Option<ProfileConfig>, ConfigError> {
    let mode = node.member("mode")?;
    if mode.text()?.is_some_and(|word| PROFILE_MODES.is_foreign(word.trim())) {
        return Ok(None);
    }
    let parsed = mode.word(&PROFILE_MODES.names(), ProfileMode::parse)?;
    Ok(Some(ProfileConfig {
        id,
        provider: provider_id(&node.member("provider")?.required_text()?),
        mode: parsed
            .ok_or_else(|| mode.wrong(&format!("is missing; one of {}", PROFILE_MODES.names())))?,
    }))
}

fn cooldowns(node: &Node<'_>) -> Result<CooldownConfig, ConfigError> {
    let usual = CooldownConfig::default();
    let read = |name: &str, usual: Duration| -> Result<Duration, ConfigError> {
        Ok(duration(&node.member(name)?)?.unwrap_or(usual))
    };
    let mut by_provider = BTreeMap::new();
    for (provider, hours) in node.member("billingBackoffHoursByProvider")?.members()? {
        if let Some(rest) = duration(&hours)? {
            by_provider.insert(provider_id(&provider), rest);
        }
    }
    Ok(CooldownConfig {
        billing: read("billingBackoffHours", usual.billing)?,
        billing_by_provider: by_provider,
        billing_max: read("billingMaxHours", usual.billing_max)?,
        failure_window: read("failureWindowHours", usual.failure_window)?,
    })
}

fn duration(node: &Node<'_>) -> Result<Option<Duration>, ConfigError> {
    let Some(value) = node.value() else { return Ok(None) };
    let valid = value.as_f64().filter(|hours| *hours > 0.0);
    valid
        .map(|given| hours(given.min(HOURS_MAX)))
        .map(Some)
        .ok_or_else(|| node.wrong("must be a number of hours above 0"))
}

fn hours(hours: f64) -> Duration {
    Duration::from_secs_f64(hours * 3600.0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn read_value(value: &Value) -> Result<ProfilesConfig, String> {
        read(&Node::root(value, Path::new("f"))).map_err(|error| error.to_string())
    }

    #[test]
    fn the_section_is_read_whole() {
        let config = read_value(&json!({
            "profiles": {
                "anthropic:work": {"provider": "Anthropic", "mode": "api_key", "email": "a@b.c"},
                "openai:me": {"provider": "openai", "mode": "oauth"},
            },
            "order": {"Anthropic": ["anthropic:work", "anthropic:home"]},
            "cooldowns": {"billingBackoffHours": 0.5, "billingBackoffHoursByProvider": {"xai": 2}},
        }))
        .unwrap();
        let modes: Vec<_> = config.profiles.iter().map(|it| (&*it.provider, it.mode)).collect();
        assert_eq!(modes, [("anthropic", ProfileMode::ApiKey), ("openai", ProfileMode::OAuth)]);
        assert_eq!(config.order["anthropic"], ["anthropic:work", "anthropic:home"]);
        let cooldowns = config.cooldowns;
        assert_eq!(cooldowns.billing, Duration::from_mins(30));
        assert_eq!(cooldowns.billing_by_provider["xai"], Duration::from_hours(2));
        assert_eq!(cooldowns.billing_max, Duration::from_hours(24));
        assert_eq!(read_value(&json!({})).unwrap(), ProfilesConfig::default());
        let long = read_value(&json!({"cooldowns": {"billingMaxHours": 100_000}})).unwrap();
        assert_eq!(long.cooldowns.billing_max, Duration::from_hours(8760));
    }

    #[test]
    fn a_kind_of_credential_that_is_not_built_in_turns_its_profile_off_and_no_other() {
        let config = read_value(&json!({
            "profiles": {
                "amazon-bedrock:default": {"provider": "amazon-bedrock", "mode": "aws-sdk"},
                "openai:me": {"provider": "openai", "mode": "token"},
            },
            "order": {"amazon-bedrock": ["amazon-bedrock:default"]},
        }))
        .unwrap();
        let ids: Vec<_> = config.profiles.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(ids, ["openai:me"]);
        assert_eq!(ProfileMode::ALL.map(ProfileMode::as_str), PROFILE_MODES.built_in);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        for (value, error) in [
            (
                json!({"profiles": {"a": {"provider": "p", "mode": "magic"}}}),
                "profiles.a.mode: must be one of api_key, token, oauth (in f)",
            ),
            (
                json!({"profiles": {"a": {"mode": "token"}}}),
                "profiles.a.provider: is missing; it must be a string (in f)",
            ),
            (
                json!({"cooldowns": {"billingMaxHours": 0}}),
                "cooldowns.billingMaxHours: must be a number of hours above 0 (in f)",
            ),
            (json!({"order": {"a": "b"}}), "order.a: must be a list (in f)"),
        ] {
            assert_eq!(read_value(&value).unwrap_err(), error);
        }
    }
}
