//! What can be said of the stored credentials without showing them.

use serde_json::{Map, Value};

use super::super::known_provider;
use super::{Credentials, Expiry, ProfileState};
use crate::config::profiles::ProfileMode;
use crate::support::{json, sort};

/// A credential that ends within a day is said to be expiring, as in OpenClaw.
const EXPIRING_MS: u64 = 24 * 60 * 60 * 1000;

/// The rows of `models.authStatus`: providers with stored credentials.
pub async fn of_profiles(credentials: &Credentials, agent: &str, now_ms: u64) -> Vec<Value> {
    let mut states = credentials.profiles(agent).await;
    // By provider; within one, in the order in which they are tried.
    sort::by(&mut states, |a, b| a.profile.provider.cmp(&b.profile.provider));
    states
        .chunk_by(|a, b| a.profile.provider == b.profile.provider)
        .map(|group| provider(credentials, group, now_ms))
        .collect()
}

fn provider(credentials: &Credentials, group: &[ProfileState], now_ms: u64) -> Value {
    let id = group.first().map_or("", |state| state.profile.provider.as_str());
    let profiles: Vec<_> = group
        .iter()
        .map(|state| (health(state, now_ms), row(credentials, state, now_ms)))
        .collect();
    // The best of those that can end, as in OpenClaw; keys do not.
    let best = profiles.iter().map(|(health, _)| *health).min().unwrap_or(Health::Missing);
    let ends = group.iter().filter_map(|state| match state.profile.expiry {
        Expiry::At(time) => Some(time),
        Expiry::Never | Expiry::Invalid => None,
    });
    let mut row = json!({
        "provider": id,
        "displayName": known_provider(id).map_or(id, |(name, _)| name),
        "status": best.as_str(),
        "profiles": profiles.into_iter().map(|(_, row)| row).collect::<Vec<_>>(),
    });
    if let (Some(time), Value::Object(members)) = (ends.max(), &mut row) {
        members.insert("expiry".into(), expiry(time, now_ms));
    }
    row
}

/// How a credential is, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Ok,
    Static,
    Expiring,
    Expired,
    Missing,
}

impl Health {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Static => "static",
            Self::Expiring => "expiring",
            Self::Expired => "expired",
            Self::Missing => "missing",
        }
    }
}

fn health(state: &ProfileState, now_ms: u64) -> Health {
    match (state.secret.is_some(), state.profile.expiry) {
        (false, _) | (_, Expiry::Invalid) => Health::Missing,
        (true, Expiry::Never) if state.profile.mode == ProfileMode::OAuth => Health::Ok,
        (true, Expiry::Never) => Health::Static,
        (true, Expiry::At(time)) if time <= now_ms => Health::Expired,
        (true, Expiry::At(time)) if time - now_ms <= EXPIRING_MS => Health::Expiring,
        (true, Expiry::At(_)) => Health::Ok,
    }
}

fn reason(state: &ProfileState, now_ms: u64) -> &'static str {
    let profile = &state.profile;
    match (profile.expiry, state.secret.is_some()) {
        _ if state.is_left_out => "excluded_by_auth_order",
        (Expiry::Invalid, _) => "invalid_expires",
        (Expiry::At(time), _) if time <= now_ms => "expired",
        (_, false) if profile.has_input() => "unresolved_ref",
        (_, false) => "missing_credential",
        (_, true) => "ok",
    }
}

fn row(credentials: &Credentials, state: &ProfileState, now_ms: u64) -> Value {
    let profile = &state.profile;
    let mut row = Map::new();
    row.insert("profileId".into(), json!(profile.id));
    row.insert("type".into(), json!(profile.mode.as_str()));
    row.insert("status".into(), json!(health(state, now_ms).as_str()));
    row.insert("reasonCode".into(), json!(reason(state, now_ms)));
    if let Expiry::At(time) = profile.expiry {
        row.insert("expiry".into(), expiry(time, now_ms));
    }
    if let Some(email) = &profile.email {
        row.insert("email".into(), json!(email));
    }
    if let Some(rest) = credentials.longest_rest(state) {
        row.insert("cooldownUntil".into(), json!(rest.until_ms));
        row.insert("cooldownReason".into(), json!(rest.reason.as_str()));
    }
    Value::Object(row)
}

fn expiry(time: u64, now_ms: u64) -> Value {
    let left = i64::try_from(time).unwrap_or(i64::MAX) - i64::try_from(now_ms).unwrap_or(i64::MAX);
    json!({"at": time, "remainingMs": left, "label": label(left)})
}

/// `10d`, `2h`, `45m`; what is over is `expired`.
fn label(left_ms: i64) -> String {
    match (left_ms / 86_400_000, left_ms / 3_600_000, left_ms / 60_000) {
        _ if left_ms <= 0 => "expired".into(),
        (days, _, _) if days > 0 => format!("{days}d"),
        (_, hours, _) if hours > 0 => format!("{hours}h"),
        (_, _, minutes) => format!("{}m", minutes.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_shown_in_its_largest_unit() {
        for (left, shown) in [
            (-5, "expired"),
            (1, "1m"),
            (45 * 60_000, "45m"),
            (2 * 3_600_000 + 5, "2h"),
            (10 * 86_400_000, "10d"),
        ] {
            assert_eq!(label(left), shown);
        }
    }
}
