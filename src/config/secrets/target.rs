//! Places of the config that refer to secrets.

use serde_json::Value;

use super::SecretRef;
use crate::config::edit::{Step, ValuePath};
use crate::config::is_secret;
use crate::config::redact::{SLOTS, SlotKind, credentials};
use crate::support::reading;

/// A reference, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretTarget {
    /// Where.
    pub path: ValuePath,
    /// Where the secret is.
    pub reference: SecretRef,
}

impl SecretTarget {
    /// Whether `id` means this place: a path in which `*` stands for any name,
    /// and so does `[]` after one.
    pub fn is_meant_by(&self, id: &str) -> bool {
        let id = id.replace("[]", ".*");
        let mut parts = id.split('.');
        let all = self.path.steps().iter().all(|step| match (parts.next(), step) {
            (Some("*"), _) => true,
            (Some(part), Step::Key(name)) => part == name,
            _ => false,
        });
        all && parts.next().is_none()
    }

    /// Whether the gateway does not start without it, `auth` being its mode.
    pub fn is_needed(&self, auth: &str) -> bool {
        match self.path.steps() {
            [Step::Key(first), ..] if first == "models" => true,
            [Step::Key(first), Step::Key(second), Step::Key(third)] => {
                first == "gateway" && second == "auth" && third == auth
            }
            _ => false,
        }
    }
}

/// Every reference at a place for credentials.
pub fn targets(config: &Value) -> Vec<SecretTarget> {
    let found = credentials(config).into_iter();
    found
        .filter_map(|(path, value)| {
            let reference = reading::of(value).ok()?;
            Some(SecretTarget { path: path.into(), reference })
        })
        .collect()
}

/// Whether there can be a target with this id, in which `*` stands where any name may. Clients
/// also name places of features that are not here: those end in the name of a secret.
pub fn is_target(id: &str) -> bool {
    let id = id.replace("[]", ".*");
    let is_there = |pattern: &str| {
        let mut parts = pattern.split('.').zip(id.split('.'));
        parts.all(|(part, meant)| part == "*" || part == meant)
            && pattern.split('.').count() == id.split('.').count()
    };
    match SLOTS.iter().find(|slot| is_there(slot.path)) {
        Some(slot) if slot.path != id => false,
        Some(slot) if matches!(slot.kind, SlotKind::Input | SlotKind::Public) => true,
        _ => id.rsplit_once('.').is_some_and(|(_, name)| is_secret(name)),
    }
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn references_are_found_and_meant_by_their_patterns() {
        let reference = json!({"source": "env", "id": "A"});
        let config = json!({
            "gateway": {"auth": {"token": reference, "password": "text"}},
            "models": {"providers": {"p": {"headers": {"x": reference}}}},
            "channels": {"list": [{"botToken": reference}]},
            "agents": {"list": [reference]},
        });
        let found = targets(&config);
        let paths: Vec<_> = found.iter().map(|target| target.path.to_string()).collect();
        assert_eq!(
            paths,
            ["gateway.auth.token", "models.providers.p.headers.x", "channels.list[0].botToken"]
        );
        let is_meant = |index: usize, id: &str| found[index].is_meant_by(id);
        assert!(is_meant(0, "gateway.auth.token") && !is_meant(0, "gateway.auth"));
        assert!(is_meant(1, "models.providers.*.headers.*"));
        assert!(is_meant(2, "channels.list[].botToken"));
        assert!(found[0].is_needed("token") && !found[0].is_needed("password"));
        assert!(found[1].is_needed("none") && !found[2].is_needed("token"));
    }

    #[test]
    fn ids_of_places_are_known_and_others_are_not() {
        for (id, is_known) in [
            ("models.providers.*.apiKey", true),
            ("mcp.servers.*.url", true),
            ("channels.telegram.botToken", true),
            ("agents.list[].memorySearch.remote.apiKey", true),
            ("channels.discord.accounts.*.token", true),
            ("cron.webhookToken", true),
            ("channels.googlechat.accounts.*.serviceAccount", true),
            ("models.providers.mock.apiKey", false),
            ("models.providers.*.headers.Authorization", false),
            ("nope", false),
            ("gateway.port", false),
            ("", false),
        ] {
            assert_eq!(is_target(id), is_known, "{id}");
        }
    }
}
