//! Which tools a session may use.
//!
//! Promises: every set of rules can only take tools away, a denial holds
//! whatever else is said, and a sub-agent never has a tool that whoever spawned
//! it has not. Unknown means no.

use crate::agent::approvals::ExecWords;
use crate::agent::parts::RunsParts;
use crate::agent::patch::only_plans;
use crate::config::{ExecSandbox, Settings, ToolPattern, ToolPolicy, ToolProfile, ToolRules};
use crate::providers::ModelRef;
use crate::sessions::{LINE_MAX, SessionEntry, SessionError, SessionKey};

use super::catalog;
use crate::agent::mcp::SEPARATOR;

/// Not for sub-agents, unless `tools.subagents.tools` allows it.
const NOT_FOR_SUBAGENTS: [&str; 5] =
    ["gateway", "agents_list", "session_status", "cron", "sessions_send"];
/// Not for sub-agents that may not have sub-agents of their own.
const NOT_FOR_LEAVES: [&str; 4] =
    ["subagents", "sessions_list", "sessions_history", "sessions_spawn"];
/// Only for the gateway's owner, whatever lists say.
const OWNER_ONLY: [&str; 2] = ["cron", "nodes"];
/// Not for clients that call tools themselves, unless `gateway.tools` allows it.
const NOT_FOR_CLIENTS: [&str; 7] =
    ["group:fs", "group:runtime", "sessions_spawn", "sessions_send", "gateway", "cron", "nodes"];

/// Not where nothing may be written to.
const CHANGE_FILES: [&str; 3] = ["write", "edit", APPLY_PATCH];
/// The tool that a list allows by naming `write`, as in OpenClaw.
const APPLY_PATCH: &str = "apply_patch";

/// What lists call the tools of all MCP servers, as in OpenClaw.
pub(super) const ALL_MCP: &str = "bundle-mcp";

/// For whom tools are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolScope {
    /// The session, then the one that spawned it, and so on.
    links: Vec<Link>,
    /// Whether a client calls them itself.
    by_client: bool,
    /// Whether the gateway's owner asks.
    is_owner: bool,
    /// What one run may use: tools that are in all lists.
    limits: Vec<ToolRules>,
}

/// One session of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Link {
    agent: String,
    /// Whether it is the main session of that.
    is_main: bool,
    /// The model that answers in it.
    model: ModelRef,
    /// How deep it is below a session that nobody spawned.
    depth: u64,
    /// What it may use at all: tools that are in all lists.
    limits: Vec<ToolRules>,
    /// Whether it may only look.
    plans: bool,
    /// Whether its commands are bound by something that it says itself.
    is_bound: bool,
}

impl ToolScope {
    /// The scope of a session. `agent` when a client asks for another agent's.
    ///
    /// # Errors
    /// When a session of the chain cannot be read.
    pub async fn of_session(
        parts: &RunsParts,
        key: &SessionKey,
        entry: Option<&SessionEntry>,
    ) -> Result<Self, SessionError> {
        let above = parts.sessions.spawners(entry).await?;
        let mut links = vec![Link::of(parts, key, entry)];
        links.extend(above.iter().map(|(key, entry)| Link::of(parts, key, entry.as_ref())));
        Ok(Self { links, by_client: false, is_owner: false, limits: Vec::new() })
    }

    /// The same where this model answers, which need not be the one of the session.
    #[must_use]
    pub fn answered_by(mut self, model: ModelRef) -> Self {
        if let Some(own) = self.links.first_mut() {
            own.model = model;
        }
        self
    }

    /// The same for the gateway's owner, or for somebody else.
    #[must_use]
    pub fn owned(self, is_owner: bool) -> Self {
        Self { is_owner, ..self }
    }

    /// The same for a run that may only use what is in all of these lists.
    #[must_use]
    pub fn limited(self, lists: &[Vec<String>]) -> Self {
        Self { limits: limits(lists), ..self }
    }

    /// Whether it may use less than another session of its agent.
    pub fn is_narrowed(&self) -> bool {
        let is_narrow =
            |link: &Link| link.depth > 0 || link.plans || link.is_bound || !link.limits.is_empty();
        !self.limits.is_empty() || self.links.iter().any(is_narrow)
    }

    /// Whether only tools may be used that change nothing.
    pub fn only_reads(&self) -> bool {
        self.links.iter().any(|link| link.plans)
    }

    /// The same for a client that calls a tool itself.
    #[must_use]
    pub fn by_client(self) -> Self {
        Self { by_client: true, ..self }
    }

    /// The profile that the session's agent begins with.
    pub fn profile(&self, settings: &Settings) -> ToolProfile {
        let agent = self.links.first().and_then(|link| settings.agents.ruling(&link.agent));
        let own = agent.and_then(|agent| agent.tools.rules.profile);
        own.or(settings.tools.policy.rules.profile).unwrap_or(ToolProfile::Full)
    }

    /// Whether a tool may be used.
    pub fn allows(&self, settings: &Settings, name: &str) -> bool {
        let is_short = self.links.len() <= LINE_MAX;
        is_short
            && (self.is_owner || !OWNER_ONLY.contains(&name))
            && self.limits.iter().all(|rules| allows(rules, name))
            && self.links.iter().all(|link| link.allows(settings, name))
            && (!self.by_client || allows_clients(settings, name))
    }
}

impl Link {
    fn of(parts: &RunsParts, key: &SessionKey, entry: Option<&SessionEntry>) -> Self {
        let depth = entry.and_then(|entry| entry.spawn_depth);
        let keys = parts.keys.now();
        let agent = key.agent(&keys);
        Self {
            is_main: *key == SessionKey::main(&agent, &keys),
            agent: agent.to_string(),
            model: parts.models.of_session(key, entry).name,
            depth: depth.unwrap_or_else(|| u64::from(key.is_spawned())),
            limits: limits(entry.map_or(&[], |entry| &entry.tool_limits)),
            plans: entry.is_some_and(only_plans),
            is_bound: entry.is_some_and(|entry| !ExecWords::of(entry).is_empty()),
        }
    }

    fn allows(&self, settings: &Settings, name: &str) -> bool {
        let everyone = &settings.tools.policy;
        let agent = settings.agents.ruling(&self.agent).map(|agent| &agent.tools);
        let own_profile = agent.and_then(|agent| agent.rules.profile);
        let profile = own_profile.or(everyone.rules.profile).unwrap_or(ToolProfile::Full);
        let mut also = also_allowed(Some(everyone)).chain(also_allowed(agent));
        let in_profile = is_in(name, profile) || also.any(|pattern| lets(pattern, name));
        in_profile
            && !(CHANGE_FILES.contains(&name) && self.is_read_only(settings))
            && self.limits.iter().all(|rules| allows(rules, name))
            && self.allows_by(everyone, name)
            && agent.is_none_or(|agent| self.allows_by(agent, name))
            && (self.depth == 0 || self.allows_subagents(settings, name))
    }

    /// Whether its commands may write nowhere, so that its tools may not either.
    fn is_read_only(&self, settings: &Settings) -> bool {
        let agent = settings.agents.ruling_id(&self.agent);
        settings.exec.sandbox.of(agent, self.is_main) == ExecSandbox::ReadOnly
    }

    /// The lists of an agent or of all, with any model and with this one.
    fn allows_by(&self, policy: &ToolPolicy, name: &str) -> bool {
        let ModelRef { provider, model } = &self.model;
        allows(&policy.rules, name)
            && policy.for_model(provider, model).all(|rules| {
                let profile = rules.profile.unwrap_or(ToolProfile::Full);
                let is_also = rules.also_allow.iter().any(|pattern| lets(pattern, name));
                (is_in(name, profile) || is_also) && allows(rules, name)
            })
    }

    fn allows_subagents(&self, settings: &Settings, name: &str) -> bool {
        let rules = &settings.tools.subagents;
        let is_leaf = self.depth >= settings.agents.defaults.subagent_limits.max_spawn_depth;
        let by_default =
            !(NOT_FOR_SUBAGENTS.contains(&name) || is_leaf && NOT_FOR_LEAVES.contains(&name));
        (by_default || is_named(rules, name)) && allows(rules, name)
    }
}

/// Lists of names as rules. What is no name lets nothing pass.
fn limits(lists: &[Vec<String>]) -> Vec<ToolRules> {
    let rules = |list: &Vec<String>| ToolRules {
        allow: Some(list.iter().filter_map(|name| ToolPattern::parse(name)).collect()),
        ..ToolRules::default()
    };
    lists.iter().map(rules).collect()
}

fn allows_clients(settings: &Settings, name: &str) -> bool {
    let rules = &settings.tools.gateway;
    let is_denied = NOT_FOR_CLIENTS
        .into_iter()
        .filter_map(ToolPattern::parse)
        .any(|pattern| means(&pattern, name));
    // Here a list adds to what clients may call; it does not replace it.
    (!is_denied || is_named(rules, name)) && !rules.deny.iter().any(|it| means(it, name))
}

fn also_allowed(policy: Option<&ToolPolicy>) -> impl Iterator<Item = &ToolPattern> {
    policy.into_iter().flat_map(|policy| &policy.rules.also_allow)
}

/// Whether a list names the tool.
fn is_named(rules: &ToolRules, name: &str) -> bool {
    let mut named = rules.allow.iter().flatten().chain(&rules.also_allow);
    named.any(|pattern| means(pattern, name))
}

/// Whether the lists of one set of rules let a tool pass.
pub fn allows(rules: &ToolRules, name: &str) -> bool {
    let is_allowed = rules.allow.as_ref().is_none_or(|list| list.iter().any(|it| lets(it, name)));
    is_allowed && !rules.deny.iter().any(|it| means(it, name))
}

/// Tools that are not built in are in the whole profile only; those of MCP
/// servers in all but the smallest.
fn is_in(name: &str, profile: ToolProfile) -> bool {
    match catalog::find(name) {
        Some((_, tool)) => tool.is_in(profile),
        None if is_mcp(name) => profile != ToolProfile::Minimal,
        None => profile == ToolProfile::Full,
    }
}

/// Whether a tool is of an MCP server: `<server>__<tool>`.
fn is_mcp(name: &str) -> bool {
    name.contains(SEPARATOR) && catalog::find(name).is_none()
}

/// Whether a pattern among what is allowed lets a tool pass.
fn lets(pattern: &ToolPattern, name: &str) -> bool {
    means(pattern, name) || name == APPLY_PATCH && means(pattern, "write")
}

fn means(pattern: &ToolPattern, name: &str) -> bool {
    let Some(group) = pattern.group() else {
        // Patterns are in small letters; tools of MCP servers may not be.
        let is_mcp = is_mcp(name);
        return pattern.matches(&name.to_lowercase()) || is_mcp && pattern.matches(ALL_MCP);
    };
    let found = catalog::find(name);
    match group {
        "openclaw" => found.is_some(),
        "plugins" => found.is_none(),
        _ => found.is_some_and(|(of, _)| of.id == group),
    }
}

#[cfg(test)]
mod tests;
