//! The `tools` section: which tools an agent may use.
//!
//! Owns: profiles, lists and their patterns. Must not: know which tools there
//! are.

use std::collections::BTreeMap;
use std::path::Path;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::file_rules::{self, FileRules};
use super::guardrails::{self, GuardrailSettings};
use super::models::is_same_provider;
use super::schema::Node;

/// The profiles for error texts.
const PROFILES: &str = "minimal, coding, messaging, full";
/// The visibilities for error texts.
const VISIBILITIES: &str = "self, tree, agent, all";
/// Longest pattern; no tool has a name as long as this.
const PATTERN_MAX: usize = 200;

/// What the `tools` section says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolsSettings {
    /// For every agent.
    pub policy: ToolPolicy,
    /// `tools.subagents.tools`: for sub-agents, on top of what their agent may.
    pub subagents: ToolRules,
    /// `gateway.tools`: for calls of clients, on top of what the agent may.
    pub gateway: ToolRules,
    /// Which sessions the tools for sessions see.
    pub sessions: SessionVisibility,
    /// Whether they reach sessions of other agents.
    pub agent_to_agent: AgentToAgent,
    /// `tools.guardrails`: what else is done about calls of runs.
    pub guardrails: GuardrailSettings,
}

/// `tools.sessions.visibility`: which sessions a session sees by its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionVisibility {
    /// Itself.
    Own,
    /// Itself and the sub-agents below it.
    #[default]
    Tree,
    /// All of its agent.
    Agent,
    /// All; those of other agents as far as `tools.agentToAgent` lets it.
    All,
}

impl SessionVisibility {
    /// The word in the config file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "self",
            Self::Tree => "tree",
            Self::Agent => "agent",
            Self::All => "all",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        let all = [Self::Own, Self::Tree, Self::Agent, Self::All];
        all.into_iter().find(|visibility| visibility.as_str() == word)
    }
}

/// `tools.agentToAgent`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentToAgent {
    /// Whether agents reach each other's sessions at all.
    pub is_enabled: bool,
    /// Those that take part in it; all when nothing is written.
    pub allow: Option<Vec<ToolPattern>>,
}

impl AgentToAgent {
    /// Whether two agents may reach each other's sessions.
    pub fn allows(&self, one: &str, other: &str) -> bool {
        let takes_part = |agent: &str| {
            self.allow.as_ref().is_none_or(|list| list.iter().any(|it| it.matches(agent)))
        };
        self.is_enabled && takes_part(one) && takes_part(other)
    }
}

/// Rules of an agent, or of all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolPolicy {
    /// With any model.
    pub rules: ToolRules,
    /// With the models of a provider (`anthropic`) or one model
    /// (`openai/gpt-5`).
    pub by_provider: BTreeMap<String, ToolRules>,
    /// How far the tools for files reach.
    pub files: FileRules,
}

impl ToolPolicy {
    /// The rules for a model beside those for any: those for its provider, and its own. All
    /// of them hold.
    pub fn for_model(&self, provider: &str, model: &str) -> impl Iterator<Item = &ToolRules> {
        let model = model.to_lowercase();
        let is_meant = move |name: &str| match name.split_once('/') {
            Some((own, id)) => is_same_provider(own, provider) && id == model,
            None => is_same_provider(name, provider),
        };
        self.by_provider.iter().filter(move |(name, _)| is_meant(name)).map(|(_, rules)| rules)
    }
}

/// One set of rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolRules {
    /// A named set of tools to begin with.
    pub profile: Option<ToolProfile>,
    /// Only these; any when nothing is written.
    pub allow: Option<Vec<ToolPattern>>,
    /// These beside those of the profile.
    pub also_allow: Vec<ToolPattern>,
    /// Never these, whatever else is said.
    pub deny: Vec<ToolPattern>,
}

/// A named set of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolProfile {
    /// Only the state of the session.
    Minimal,
    /// Files, programs, the web, sessions.
    Coding,
    /// Messages and sessions.
    Messaging,
    /// Everything.
    Full,
}

impl ToolProfile {
    /// Every profile, the smallest first.
    pub const ALL: [Self; 4] = [Self::Minimal, Self::Coding, Self::Messaging, Self::Full];

    /// The name in the config file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Coding => "coding",
            Self::Messaging => "messaging",
            Self::Full => "full",
        }
    }

    /// The name for people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Minimal => "Minimal",
            Self::Coding => "Coding",
            Self::Messaging => "Messaging",
            Self::Full => "Full",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.as_str() == name)
    }
}

/// A tool (`read`), a group (`group:fs`), or many by a `*` (`memory_*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPattern(String);

impl ToolPattern {
    /// A pattern as people write it: in any case, with the names that tools have
    /// elsewhere.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_lowercase();
        let text = match text.as_str() {
            "bash" => "exec",
            "apply-patch" => "apply_patch",
            // The plugin of OpenClaw that has those tools.
            "memory-core" => "group:memory",
            other => other,
        };
        let fits = !text.is_empty() && text.len() <= PATTERN_MAX;
        fits.then(|| Self(text.to_owned()))
    }

    /// The group that it names.
    pub fn group(&self) -> Option<&str> {
        self.0.strip_prefix("group:")
    }

    /// Whether a tool of this name is meant, groups aside.
    pub fn matches(&self, name: &str) -> bool {
        let Some((begin, mut rest)) = self.0.split_once('*') else { return self.0 == name };
        let Some(mut name) = name.strip_prefix(begin) else { return false };
        while let Some((middle, after)) = rest.split_once('*') {
            let Some(at) = name.find(middle) else { return false };
            (name, rest) = (&name[at + middle.len()..], after);
        }
        name.ends_with(rest)
    }
}

pub(super) fn read(
    root: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<ToolsSettings, ConfigError> {
    let node = root.member("tools")?;
    let policy = policy(&node)?;
    let profile = Choice::file(file, policy.rules.profile.map(ToolProfile::as_str));
    ledger.settle("tools.profile", profile, ToolProfile::Full.as_str());
    let lists = [
        ("tools.allow", policy.rules.allow.as_ref()),
        ("tools.alsoAllow", Some(&policy.rules.also_allow).filter(|list| !list.is_empty())),
        ("tools.deny", Some(&policy.rules.deny).filter(|list| !list.is_empty())),
    ];
    for (key, list) in lists {
        let shown = list.map(|list| list.iter().map(|pattern| pattern.0.clone()).collect());
        ledger.settle_list(key, Choice::file(file, shown), Vec::new());
    }
    file_rules::explain(policy.files, file, ledger);
    let visibility =
        node.at("sessions.visibility")?.word(VISIBILITIES, SessionVisibility::parse)?;
    let shown = Choice::file(file, visibility.map(SessionVisibility::as_str));
    let key = "tools.sessions.visibility";
    ledger.settle(key, shown, SessionVisibility::default().as_str());
    let is_enabled = node.at("agentToAgent.enabled")?.boolean()?;
    let is_enabled =
        ledger.settle("tools.agentToAgent.enabled", Choice::file(file, is_enabled), false);
    Ok(ToolsSettings {
        policy,
        subagents: rules(&node.at("subagents.tools")?)?,
        gateway: rules(&root.at("gateway.tools")?)?,
        sessions: visibility.unwrap_or_default(),
        agent_to_agent: AgentToAgent {
            is_enabled,
            allow: patterns(&node.at("agentToAgent.allow")?)?,
        },
        guardrails: guardrails::read(&node, file, ledger)?,
    })
}

/// The rules in a `tools` member, of an agent or of all.
pub(super) fn policy(node: &Node<'_>) -> Result<ToolPolicy, ConfigError> {
    let mut by_provider = BTreeMap::new();
    for (name, node) in node.member("byProvider")?.members()? {
        by_provider.insert(name.trim().to_lowercase(), rules(&node)?);
    }
    Ok(ToolPolicy { rules: rules(node)?, by_provider, files: file_rules::read(node)? })
}

pub(super) fn rules(node: &Node<'_>) -> Result<ToolRules, ConfigError> {
    // As in the original, an empty list says nothing.
    let allow = patterns(&node.member("allow")?)?.filter(|allow| !allow.is_empty());
    let also = node.member("alsoAllow")?;
    let also_allow = patterns(&also)?.unwrap_or_default();
    if allow.is_some() && !also_allow.is_empty() {
        return Err(also.wrong("cannot be set beside `allow`; use one of them"));
    }
    Ok(ToolRules {
        profile: node.member("profile")?.word(PROFILES, ToolProfile::parse)?,
        allow,
        also_allow,
        deny: patterns(&node.member("deny")?)?.unwrap_or_default(),
    })
}

fn patterns(node: &Node<'_>) -> Result<Option<Vec<ToolPattern>>, ConfigError> {
    let Some(texts) = node.texts()? else { return Ok(None) };
    let parsed = texts.iter().map(|text| {
        ToolPattern::parse(text)
            .ok_or_else(|| node.wrong(&format!("must be names of 1 to {PATTERN_MAX} characters")))
    });
    parsed.collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn load(document: &Value) -> Result<ToolsSettings, String> {
        let file = Path::new("x.json");
        read(&Node::root(document, file), file, &mut Ledger::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_pattern_means_a_tool_or_many() {
        for (pattern, name, meant) in [
            ("read", "read", true),
            ("READ ", "read", true),
            ("rea", "read", false),
            ("bash", "exec", true),
            ("*", "anything", true),
            ("memory_*", "memory_get", true),
            ("memory_*", "memory", false),
            ("*_get", "memory_get", true),
            ("m*o*t", "memory_get", true),
            ("m*ox*t", "memory_get", false),
            ("a*a", "a", false),
            ("group:fs", "read", false),
        ] {
            let parsed = ToolPattern::parse(pattern).unwrap();
            assert_eq!(parsed.matches(name), meant, "{pattern} and {name}");
        }
        assert_eq!(ToolPattern::parse(" "), None);
    }

    #[test]
    fn the_section_is_read() {
        let settings = load(&json!({
            "tools": {"profile": "coding", "alsoAllow": ["message"], "deny": ["group:runtime"],
                "byProvider": {"OpenAI/GPT-5": {"allow": ["read"]}, "openai": {"deny": ["exec"]}},
                "subagents": {"tools": {"deny": ["exec"]}}},
            "gateway": {"tools": {"allow": ["read"]}},
        }))
        .unwrap();
        assert_eq!(settings.policy.rules.profile, Some(ToolProfile::Coding));
        let rules: Vec<_> = settings.policy.for_model("openai", "gpt-5").collect();
        assert_eq!(rules.len(), 2, "those of the provider come first");
        assert!(rules[0].deny[0].matches("exec"));
        assert!(rules[1].allow.as_ref().unwrap()[0].matches("read"));
        assert_eq!(settings.policy.for_model("openai", "gpt-4").count(), 1);
        assert_eq!(settings.policy.for_model("other", "gpt-5").count(), 0);
        assert_eq!(settings.policy.rules.deny[0].group(), Some("runtime"));
        assert_eq!(settings.subagents.deny.len(), 1);
        assert!(settings.gateway.allow.is_some());
    }

    #[test]
    fn an_empty_list_of_what_is_allowed_says_nothing() {
        let rules = |allow: Value, also: Value| {
            let tools = load(&json!({"tools": {"allow": allow, "alsoAllow": also,
                "byProvider": {"p": {"allow": allow, "alsoAllow": also}}}}));
            let policy = tools.unwrap().policy;
            assert_eq!(policy.by_provider["p"], policy.rules);
            (policy.rules.allow.map(|list| list.len()), policy.rules.also_allow.len())
        };
        assert_eq!(rules(json!(["a"]), json!([])), (Some(1), 0));
        assert_eq!(rules(json!([]), json!(["b"])), (None, 1));
        assert_eq!(rules(json!([]), json!([])), (None, 0));
    }

    #[test]
    fn rules_for_a_provider_hold_however_its_id_is_written() {
        let tools = load(&json!({"tools": {"byProvider": {
            "z.ai": {"deny": ["exec"]}, "Z-AI/GLM": {"deny": ["read"]}, "zai/other": {},
        }}}));
        let policy = tools.unwrap().policy;
        for provider in ["zai", "Z.AI"] {
            assert_eq!(policy.for_model(provider, "glm").count(), 2, "{provider}");
        }
    }

    #[test]
    fn agents_reach_each_other_only_where_that_is_written() {
        let allows = |section: Value| {
            let tools = load(&json!({"tools": {"agentToAgent": section}})).unwrap();
            tools.agent_to_agent.allows("main", "ops")
        };
        assert!(!allows(json!({})));
        assert!(allows(json!({"enabled": true})));
        assert!(!allows(json!({"enabled": true, "allow": ["main"]})));
        assert!(allows(json!({"enabled": true, "allow": ["main", "o*"]})));
        assert!(!allows(json!({"allow": ["*"]})));
        let tools = load(&json!({"tools": {"sessions": {"visibility": "self"}}})).unwrap();
        assert_eq!(tools.sessions, SessionVisibility::Own);
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_it() {
        for (wrong, key) in [
            (json!({"profile": "big"}), "tools.profile: must be one of minimal"),
            (json!({"allow": ["a"], "alsoAllow": ["b"]}), "tools.alsoAllow: cannot be set"),
            (json!({"deny": [""]}), "tools.deny: must be names"),
            (json!({"allow": "read"}), "tools.allow"),
            (json!({"byProvider": {"p": {"profile": 1}}}), "tools.byProvider.p.profile"),
            (json!({"sessions": {"visibility": "some"}}), "tools.sessions.visibility: must be"),
            (json!({"agentToAgent": {"enabled": 1}}), "tools.agentToAgent.enabled"),
        ] {
            let error = load(&json!({ "tools": wrong })).unwrap_err();
            assert!(error.contains(key), "{error} names {key}");
        }
    }
}
