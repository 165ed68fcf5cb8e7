//! Where credentials stand in the config file.
//!
//! Owns: the list of those places. Promises: a place that the config reads a
//! credential from is in it; `tests/security/canary.rs` compares it with the
//! sources, plants something in each of them and looks where it comes out.

use crate::config::edit::Step;

/// A place for a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Its path; `*` stands for any name or place.
    pub path: &'static str,
    /// What may stand there.
    pub kind: SlotKind,
}

/// What a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// A credential, or a reference to one.
    Input,
    /// A credential as text only.
    Text,
    /// An address that may hold one; it is shown without what may be secret.
    Address,
    /// Certificates, or the path of a file of them; a reference may stand
    /// there, but nobody has to hide them.
    Public,
}

const fn slot(path: &'static str, kind: SlotKind) -> Slot {
    Slot { path, kind }
}

/// Every place. The path is also the id of the target in `secrets.resolve`.
pub const SLOTS: &[Slot] = &[
    slot("gateway.auth.token", SlotKind::Input),
    slot("gateway.auth.password", SlotKind::Input),
    slot("gateway.remote.token", SlotKind::Input),
    slot("gateway.remote.password", SlotKind::Input),
    slot("models.providers.*.apiKey", SlotKind::Input),
    slot("models.providers.*.headers.*", SlotKind::Input),
    slot("models.providers.*.request.headers.*", SlotKind::Input),
    slot("models.providers.*.request.auth.token", SlotKind::Input),
    slot("models.providers.*.request.auth.value", SlotKind::Input),
    slot("models.providers.*.request.proxy.url", SlotKind::Address),
    slot("models.providers.*.request.tls.ca", SlotKind::Public),
    slot("models.providers.*.request.tls.cert", SlotKind::Public),
    slot("models.providers.*.request.tls.key", SlotKind::Input),
    slot("skills.entries.*.apiKey", SlotKind::Input),
    slot("skills.entries.*.env.*", SlotKind::Text),
    slot("secrets.providers.*.env.*", SlotKind::Text),
    slot("mcp.servers.*.env.*", SlotKind::Input),
    slot("mcp.servers.*.headers.*", SlotKind::Input),
    // Some services put the key into the path.
    slot("mcp.servers.*.url", SlotKind::Input),
    slot("tools.web.search.apiKey", SlotKind::Input),
    slot("tools.web.search.brave.apiKey", SlotKind::Input),
    slot("tools.web.search.brave.baseUrl", SlotKind::Address),
    slot("tools.web.search.tavily.apiKey", SlotKind::Input),
    slot("tools.web.search.tavily.baseUrl", SlotKind::Address),
    slot("tools.web.search.searxng.apiKey", SlotKind::Input),
    slot("tools.web.search.searxng.baseUrl", SlotKind::Address),
    slot("diagnostics.otel.headers.*", SlotKind::Input),
    slot("diagnostics.otel.endpoint", SlotKind::Address),
    slot("diagnostics.otel.tracesEndpoint", SlotKind::Address),
    slot("messages.tts.providers.*.apiKey", SlotKind::Input),
    slot("messages.tts.providers.*.baseUrl", SlotKind::Address),
    slot("messages.tts.providers.*.env.*", SlotKind::Text),
    slot("messages.tts.personas.*.providers.*.apiKey", SlotKind::Input),
    slot("messages.tts.personas.*.providers.*.baseUrl", SlotKind::Address),
    slot("messages.tts.personas.*.providers.*.env.*", SlotKind::Text),
    slot("talk.providers.*.apiKey", SlotKind::Input),
    slot("talk.providers.*.baseUrl", SlotKind::Address),
    slot("talk.providers.*.env.*", SlotKind::Text),
    slot("tools.exec.env.*", SlotKind::Text),
    slot("agents.defaults.cliBackends.*.env.*", SlotKind::Text),
    slot("agents.defaults.memorySearch.remote.apiKey", SlotKind::Input),
    slot("agents.defaults.memorySearch.remote.baseUrl", SlotKind::Address),
    slot("agents.defaults.memorySearch.remote.headers.*", SlotKind::Input),
    slot("agents.list.*.memorySearch.remote.apiKey", SlotKind::Input),
    slot("agents.list.*.memorySearch.remote.baseUrl", SlotKind::Address),
    slot("agents.list.*.memorySearch.remote.headers.*", SlotKind::Input),
    slot("cron.webhookToken", SlotKind::Input),
    slot("hooks.token", SlotKind::Input),
    slot("hooks.mappings.*.token", SlotKind::Input),
    slot("channels.telegram.botToken", SlotKind::Input),
    slot("channels.telegram.webhookSecret", SlotKind::Input),
    slot("channels.telegram.accounts.*.botToken", SlotKind::Input),
    slot("channels.telegram.accounts.*.webhookSecret", SlotKind::Input),
    slot("channels.webhook.secret", SlotKind::Input),
    slot("channels.webhook.url", SlotKind::Address),
    slot("channels.webhook.accounts.*.secret", SlotKind::Input),
    slot("channels.webhook.accounts.*.url", SlotKind::Address),
    slot("env.*", SlotKind::Text),
    slot("env.vars.*", SlotKind::Text),
];

/// The place that this path leads to.
pub fn slot_at(path: &[Step]) -> Option<&'static Slot> {
    SLOTS.iter().find(|slot| matches(slot.path, path))
}

fn matches(pattern: &str, path: &[Step]) -> bool {
    let mut parts = pattern.split('.');
    let all = path.iter().all(|step| match (parts.next(), step) {
        (Some("*"), _) => true,
        (Some(part), Step::Key(name)) => part == name,
        (Some(_), Step::Index(_)) | (None, _) => false,
    });
    all && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::edit::ValuePath;

    fn kind(path: &str) -> Option<SlotKind> {
        slot_at(path.parse::<ValuePath>().unwrap().steps()).map(|slot| slot.kind)
    }

    #[test]
    fn a_place_is_found_by_its_whole_path() {
        assert_eq!(kind("gateway.auth.token"), Some(SlotKind::Input));
        assert_eq!(kind("models.providers[\"a.b\"].headers.X-Team"), Some(SlotKind::Input));
        assert_eq!(kind("skills.entries.gh.env.HOST"), Some(SlotKind::Text));
        for path in ["gateway.auth", "gateway.auth.token.x", "models.providers.a.headers", "a"] {
            assert_eq!(kind(path), None, "{path}");
        }
    }
}
