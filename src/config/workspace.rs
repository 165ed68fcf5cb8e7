//! What agents are told before anything else: files of the workspace, time
//! zone, a prompt of the user's own.
//!
//! Owns: those keys of `agents.defaults` and `agents.list`. Must not: read the
//! files.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::ConfigError;
use super::agent_id::id_of;
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// Characters of one file in the prompt, as in the original.
const DEFAULT_MAX_CHARS: usize = 12_000;
/// Characters of all files in the prompt, as in the original.
const DEFAULT_TOTAL_MAX_CHARS: usize = 60_000;
/// A prompt of the user's own is part of every request.
const OVERRIDE_MAX_CHARS: usize = 200_000;

/// What agents are told before anything else.
#[derive(Debug, Clone)]
pub struct WorkspaceSettings {
    /// Whether no bootstrap files are made.
    pub skip_bootstrap: bool,
    /// Characters of one file in the prompt.
    pub max_chars: usize,
    /// Characters of all files in the prompt.
    pub total_max_chars: usize,
    /// Whether the model is told that a file was cut.
    pub warns_of_truncation: bool,
    /// Where the user lives; the zone of this machine when not set.
    pub user_timezone: Option<TimeZone>,
    /// Of which zone the time is before what people say; the model is not told it without.
    pub envelope_zone: Option<TimeZone>,
    /// What stands in the place of the built prompt.
    prompt_override: Option<String>,
    /// The same by agent.
    prompt_overrides: BTreeMap<String, String>,
}

impl WorkspaceSettings {
    /// Where the user lives, or else this machine is.
    pub fn zone(&self) -> TimeZone {
        self.user_timezone.clone().unwrap_or_else(TimeZone::system)
    }

    /// What a clock shows there at `now_ms`, in milliseconds of Unix time.
    pub fn local_time(&self, now_ms: u64) -> Zoned {
        let now = i64::try_from(now_ms).ok();
        let now = now.and_then(|now| Timestamp::from_millisecond(now).ok()).unwrap_or_default();
        now.to_zoned(self.zone())
    }

    /// The prompt that the user wrote for this agent, if any.
    pub fn prompt_override(&self, agent_id: &str) -> Option<&str> {
        self.prompt_overrides.get(agent_id).or(self.prompt_override.as_ref()).map(String::as_str)
    }
}

pub(super) fn read(
    root: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<WorkspaceSettings, ConfigError> {
    let node = root.at("agents.defaults")?;
    let key = |name| format!("agents.defaults.{name}");
    let skip = Choice::file(file, node.member("skipBootstrap")?.boolean()?);
    let one = Choice::file(file, node.member("bootstrapMaxChars")?.count()?);
    let all = Choice::file(file, node.member("bootstrapTotalMaxChars")?.count()?);
    let warning =
        node.member("bootstrapPromptTruncationWarning")?.word("off, once, always", |word| {
            match word {
                "off" => Some(false),
                "once" | "always" => Some(true),
                _ => None,
            }
        })?;
    let shown = node.member("bootstrapPromptTruncationWarning")?.text()?;
    ledger.settle(
        &key("bootstrapPromptTruncationWarning"),
        Choice::file(file, shown),
        "once".into(),
    );
    let zone_name = node.member("userTimezone")?.text()?.filter(|name| !name.trim().is_empty());
    // `foreign` tells of one that this machine does not know; then that of the machine holds.
    let user_timezone = zone_name.as_deref().and_then(|name| TimeZone::get(name.trim()).ok());
    ledger.settle_optional(&key("userTimezone"), Choice::file(file, zone_name));
    let envelope_zone = zone_of_messages(&node, user_timezone.as_ref(), file, ledger)?;
    let prompt_override = own_prompt(&node.member("systemPromptOverride")?)?;
    let length =
        prompt_override.as_ref().map(|text| format!("{} characters", text.chars().count()));
    ledger.settle_optional(&key("systemPromptOverride"), Choice::file(file, length));
    let mut prompt_overrides = BTreeMap::new();
    for item in root.at("agents.list")?.items()? {
        let own = own_prompt(&item.member("systemPromptOverride")?)?;
        if let (Some(id), Some(own)) = (item.member("id")?.text()?, own) {
            prompt_overrides.insert(id_of(&id), own);
        }
    }
    Ok(WorkspaceSettings {
        skip_bootstrap: ledger.settle(&key("skipBootstrap"), skip, false),
        max_chars: ledger.settle(&key("bootstrapMaxChars"), one, DEFAULT_MAX_CHARS),
        total_max_chars: ledger.settle(
            &key("bootstrapTotalMaxChars"),
            all,
            DEFAULT_TOTAL_MAX_CHARS,
        ),
        warns_of_truncation: warning.unwrap_or(true),
        user_timezone,
        envelope_zone,
        prompt_override,
        prompt_overrides,
    })
}

/// Of which zone the time is before what people say, as in the original; without a word that
/// of the user.
fn zone_of_messages(
    node: &Node<'_>,
    of_user: Option<&TimeZone>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<Option<TimeZone>, ConfigError> {
    let is_told = node.member("envelopeTimestamp")?.word("on, off", |word| match word {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    })?;
    let is_told = is_told.unwrap_or(true);
    let shown = if is_told { "on" } else { "off" };
    let shown = Choice::file(file, node.member("envelopeTimestamp")?.text()?.map(|_| shown.into()));
    ledger.settle("agents.defaults.envelopeTimestamp", shown, "on".to_owned());
    let name = node.member("envelopeTimezone")?.text()?.filter(|name| !name.trim().is_empty());
    let local = || Some(TimeZone::system()).filter(|zone| *zone != TimeZone::unknown());
    let zone = match name.as_deref().map(|name| name.trim().to_lowercase()).as_deref() {
        None | Some("user") => of_user.cloned().or_else(local),
        Some("local" | "host") => local(),
        Some("utc" | "gmt") => None,
        Some(_) => name.as_deref().and_then(|name| TimeZone::get(name.trim()).ok()),
    };
    ledger.settle_optional("agents.defaults.envelopeTimezone", Choice::file(file, name));
    Ok(is_told.then(|| zone.unwrap_or(TimeZone::UTC)))
}

/// A prompt of the user's own; a blank one is none.
fn own_prompt(node: &Node<'_>) -> Result<Option<String>, ConfigError> {
    let text = node.text()?.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    if text.as_ref().is_some_and(|text| text.chars().nth(OVERRIDE_MAX_CHARS).is_some()) {
        return Err(node.wrong(&format!("must have at most {OVERRIDE_MAX_CHARS} characters")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn settings(config: &Value) -> Result<WorkspaceSettings, String> {
        let file = Path::new("c.json");
        let read = read(&Node::root(config, file), file, &mut Ledger::default());
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_word_the_originals_limits_hold() {
        let settings = settings(&json!({})).unwrap();
        assert!(!settings.skip_bootstrap && settings.warns_of_truncation);
        assert_eq!((settings.max_chars, settings.total_max_chars), (12_000, 60_000));
        assert_eq!(settings.prompt_override("main"), None);
    }

    #[test]
    fn an_agents_own_prompt_goes_before_that_of_all() {
        let settings = settings(&json!({"agents": {
            "defaults": {"systemPromptOverride": " all ", "userTimezone": "Europe/Berlin"},
            "list": [{"id": "Main"}, {"id": " B !", "systemPromptOverride": "b"}],
        }}))
        .unwrap();
        assert_eq!(settings.prompt_override("main"), Some("all"));
        assert_eq!(settings.prompt_override("b"), Some("b"));
        assert_eq!(settings.user_timezone.unwrap().iana_name(), Some("Europe/Berlin"));
    }

    #[test]
    fn an_unknown_time_zone_leaves_that_of_the_machine() {
        let defaults = json!({"userTimezone": "Mars/Olympus"});
        let settings = settings(&json!({"agents": {"defaults": defaults}})).unwrap();
        assert!(settings.user_timezone.is_none());
        assert_eq!(settings.zone(), TimeZone::system());
    }

    #[test]
    fn the_time_before_messages_is_that_of_the_user_unless_the_file_says_another() {
        let zone = |defaults: Value| {
            let settings = settings(&json!({"agents": {"defaults": defaults}})).unwrap();
            settings.envelope_zone.map(|zone| zone.iana_name().map(str::to_owned))
        };
        let berlin = "Europe/Berlin";
        for (own, expected) in [
            (json!(null), berlin),
            (json!("user"), berlin),
            (json!(" Asia/Tokyo "), "Asia/Tokyo"),
            (json!("UTC"), "UTC"),
            (json!("Mars/Base"), "UTC"),
        ] {
            let told = zone(json!({"userTimezone": berlin, "envelopeTimezone": own}));
            assert_eq!(told, Some(Some(expected.to_owned())), "{own}");
        }
        assert!(zone(json!({})).is_some());
        assert_eq!(zone(json!({"envelopeTimestamp": "off", "envelopeTimezone": berlin})), None);
    }

    #[test]
    fn a_wrong_value_is_told_with_its_key() {
        for (defaults, part) in [
            (json!({"bootstrapMaxChars": 0}), "agents.defaults.bootstrapMaxChars: must be"),
            (
                json!({"bootstrapPromptTruncationWarning": "loud"}),
                "bootstrapPromptTruncationWarning: must be one of off, once, always",
            ),
            (json!({"envelopeTimestamp": "no"}), "envelopeTimestamp: must be one of on, off"),
            (json!({"skipBootstrap": "yes"}), "agents.defaults.skipBootstrap: must be true"),
        ] {
            let error = settings(&json!({"agents": {"defaults": defaults}})).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
