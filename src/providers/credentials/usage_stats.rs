//! `usageStats`: what OpenClaw notes of credentials that failed.
//!
//! Promises: what is not as expected is as if it were not there. Must not:
//! write; the file is the other program's.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::cooldown::{FailureReason, Rest};
use crate::support::{reading, sort};

/// A profile that OpenClaw lets rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileRest {
    /// Its id.
    pub profile: String,
    /// The model, when only that is concerned.
    pub model: Option<String>,
    /// How often it failed in a row.
    pub failures: u32,
    /// When it failed last, in milliseconds since the epoch.
    pub failed_at: u64,
    /// Until when, and why.
    pub rest: Rest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    cooldown_until: Option<u64>,
    cooldown_reason: Option<String>,
    cooldown_model: Option<String>,
    disabled_until: Option<u64>,
    disabled_reason: Option<String>,
    error_count: Option<u32>,
    last_failure_at: Option<u64>,
}

/// What the members `usageStats` of these files say; later ones win.
pub fn read(files: &[&Value]) -> Vec<ProfileRest> {
    let mut all = BTreeMap::new();
    for (id, stats) in files.iter().filter_map(|file| file.get("usageStats")?.as_object()).flatten()
    {
        // Numbers with a fraction and the like: nothing is known then.
        if let Ok(stats) = reading::of::<Stats>(stats) {
            all.insert(id, stats);
        }
    }
    all.into_iter().flat_map(|(id, stats)| rests(id, &stats)).collect()
}

fn rests(id: &str, stats: &Stats) -> impl Iterator<Item = ProfileRest> + use<> {
    let one = |until: Option<u64>, reason: &Option<String>, usual, model: Option<String>| {
        let reason = reason.as_deref().and_then(FailureReason::parse).unwrap_or(usual);
        Some(ProfileRest {
            profile: id.to_owned(),
            model,
            failures: stats.error_count.unwrap_or(1).max(1),
            failed_at: stats.last_failure_at.unwrap_or_default(),
            rest: Rest { until_ms: until?, reason },
        })
    };
    let model = stats.cooldown_model.clone();
    let cooldown =
        one(stats.cooldown_until, &stats.cooldown_reason, FailureReason::RateLimit, model);
    let disabled = one(stats.disabled_until, &stats.disabled_reason, FailureReason::Billing, None);
    // Of two for all models the later one counts, which stands last.
    let mut both = [cooldown, disabled];
    sort::by_key(&mut both, |it| it.as_ref().map(|it| it.rest.until_ms));
    both.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn both_kinds_of_rest_are_read_and_what_is_odd_is_skipped() {
        let profiles = json!({"usageStats": {
            "a": {"cooldownUntil": 9, "errorCount": 3, "lastFailureAt": 4, "failureCounts": {"auth": 1}},
            "b": {"cooldownUntil": 1},
            "c": {"cooldownUntil": "soon"},
            "d": {"lastUsed": 1},
        }});
        let state = json!({"usageStats": {
            "b": {"cooldownUntil": 5, "cooldownReason": "overloaded", "cooldownModel": "m",
                  "disabledUntil": 8, "disabledReason": "auth_permanent"},
        }});
        let told: Vec<_> = read(&[&profiles, &state])
            .into_iter()
            .map(|it| (it.profile, it.model, it.failures, it.rest.until_ms, it.rest.reason))
            .collect();
        let model = Some("m".to_owned());
        assert_eq!(
            told,
            [
                ("a".to_owned(), None, 3, 9, FailureReason::RateLimit),
                ("b".to_owned(), model, 1, 5, FailureReason::Overloaded),
                ("b".to_owned(), None, 1, 8, FailureReason::Billing),
            ]
        );
        assert_eq!(read(&[&json!({"usageStats": []}), &json!(3)]), []);
    }
}
