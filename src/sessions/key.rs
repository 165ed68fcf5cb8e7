//! Session keys, canonical as in the original.

mod peer;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::config::{self, DmScope};
pub use peer::{Peer, PeerKind};

/// The channel of clients that chat with the gateway itself.
pub const WEBCHAT: &str = "webchat";

/// Id of an agent: `[a-z0-9][a-z0-9_-]{0,63}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(String);

impl AgentId {
    /// Makes an id out of any text.
    pub fn normalize(text: &str) -> Self {
        Self(config::agent_id(text))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What canonical keys depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRules {
    /// Agent of keys that name none.
    pub default_agent: AgentId,
    /// `session.mainKey`.
    pub main_key: String,
    /// `session.scope` is `global`: everybody shares one main session.
    pub global_scope: bool,
    /// `session.dmScope`.
    pub dm_scope: DmScope,
    /// `session.identityLinks`.
    pub identity_links: BTreeMap<String, Vec<String>>,
    /// Sessions that are there under keys of main sessions, where these rules have other
    /// keys for them: each is still found under its own, and a main session goes on.
    pub kept: BTreeSet<SessionKey>,
}

impl KeyRules {
    /// The keys under which sessions of an agent may be there that would be kept.
    pub fn kept_of(&self, agent: &AgentId) -> Vec<SessionKey> {
        if !self.global_scope && self.main_key == "main" {
            return Vec::new();
        }
        let key = |name: &str| SessionKey(format!("agent:{agent}:{name}"));
        vec![key("main"), key(&self.main_key)]
    }
}

impl Default for KeyRules {
    fn default() -> Self {
        Self {
            default_agent: AgentId::normalize("main"),
            main_key: "main".into(),
            global_scope: false,
            dm_scope: DmScope::Main,
            identity_links: BTreeMap::new(),
            kept: BTreeSet::new(),
        }
    }
}

/// A canonical session key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey(String);

impl SessionKey {
    /// The canonical form of what a client wrote.
    pub fn parse(text: &str, rules: &KeyRules) -> Self {
        Self::parse_for(text, &rules.default_agent, rules)
    }

    /// The same for a client that speaks of one agent: keys that name none
    /// belong to it.
    pub fn parse_for(text: &str, agent: &AgentId, rules: &KeyRules) -> Self {
        let key = text.trim().to_lowercase();
        let is_main = |rest: &str| rest == "main" || rest == rules.main_key;
        if key == "global" || key == "unknown" {
            return Self(key);
        }
        if is_main(&key) {
            return Self::main(agent, rules);
        }
        if let Some(rest) = key.strip_prefix("agent:") {
            return match rest.split_once(':') {
                Some((agent, rest)) if !agent.is_empty() && is_main(rest) => {
                    let main = Self::main_of(agent, rules);
                    let own = Self(key);
                    if rules.kept.contains(&own) { own } else { main }
                }
                _ => Self(key),
            };
        }
        Self(format!("agent:{agent}:{key}"))
    }

    /// The main session of an agent.
    pub fn main(agent: &AgentId, rules: &KeyRules) -> Self {
        Self::main_of(agent.as_str(), rules)
    }

    fn main_of(agent: &str, rules: &KeyRules) -> Self {
        if rules.global_scope {
            return Self("global".into());
        }
        let key = Self(format!("agent:{agent}:{}", rules.main_key));
        if rules.kept.is_empty() || rules.kept.contains(&key) {
            return key;
        }
        let before = Self(format!("agent:{agent}:main"));
        if rules.kept.contains(&before) { before } else { key }
    }

    /// A new session of an agent, as dashboards begin them.
    pub fn dashboard(agent: &AgentId, id: &str) -> Self {
        Self(format!("agent:{agent}:dashboard:{id}"))
    }

    /// The session of a transcript that a client has named before it was there.
    pub fn explicit(agent: &AgentId, session_id: &str) -> Self {
        Self(format!("agent:{agent}:explicit:{}", session_id.to_lowercase()))
    }

    /// The session of a new sub-agent.
    pub fn subagent(agent: &AgentId, id: &str) -> Self {
        Self(format!("agent:{agent}:subagent:{id}"))
    }

    /// The session in which lists show a job of the scheduler.
    pub fn job(agent: &AgentId, job_id: &str) -> Self {
        Self(format!("agent:{agent}:cron:{}", job_id.to_lowercase()))
    }

    /// The session of one run of a job.
    pub fn job_run(agent: &AgentId, job_id: &str, run_id: &str) -> Self {
        Self::job(agent, job_id).run_of_row(run_id)
    }

    /// The session of one run of the job that lists show in this one.
    #[must_use]
    pub fn run_of_row(&self, run_id: &str) -> Self {
        Self(format!("{self}:run:{}", run_id.to_lowercase()))
    }

    /// The session in which lists show the job of which this one is a run's.
    pub fn row_of_run(&self) -> Option<Self> {
        let (row, _) = self.0.rsplit_once(":run:").filter(|_| self.is_job())?;
        Some(Self(row.to_owned()))
    }

    /// A key that is known to be canonical, as read back from the store.
    pub fn from_canonical(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The agent it belongs to; keys that name none belong to the default one.
    pub fn agent(&self, rules: &KeyRules) -> AgentId {
        self.parts()
            .map_or_else(|| rules.default_agent.clone(), |(agent, _)| AgentId::normalize(agent))
    }

    /// Whether it names the agent that it belongs to.
    pub fn names_agent(&self) -> bool {
        self.parts().is_some()
    }

    /// Whether the key begins like one of an agent and does not name agent and
    /// session: nobody would answer there.
    pub fn is_malformed(&self) -> bool {
        self.0.starts_with("agent:") && self.parts().is_none()
    }

    /// Whether it is the key of a sub-agent.
    pub fn is_spawned(&self) -> bool {
        let rest = self.parts().map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.starts_with("subagent:") || rest.starts_with("acp:"))
    }

    /// Whether it is the key of a job of the scheduler.
    pub fn is_job(&self) -> bool {
        self.parts().is_some_and(|(_, rest)| rest.starts_with("cron:"))
    }

    /// Whether it is the key of what another program has asked for by HTTP.
    pub fn is_hook(&self) -> bool {
        self.parts().is_some_and(|(_, rest)| rest.starts_with("hook:"))
    }

    /// `direct`, `group`, `global` or `unknown`, as in session rows.
    pub fn kind(&self) -> &'static str {
        match self.as_str() {
            "global" => "global",
            "unknown" => "unknown",
            key if key.contains(":group:") || key.contains(":channel:") => "group",
            _ => "direct",
        }
    }

    /// The channel whose group it is the key of.
    pub fn group_channel(&self) -> Option<&str> {
        let rest = self.parts().map_or(self.as_str(), |(_, rest)| rest);
        let mut words = rest.split(':').filter(|word| !word.is_empty());
        let channel = words.next()?;
        let is_group = matches!(words.next(), Some("group" | "channel")) && words.next().is_some();
        is_group.then_some(channel)
    }

    fn parts(&self) -> Option<(&str, &str)> {
        let (agent, rest) = self.0.strip_prefix("agent:")?.split_once(':')?;
        (!agent.is_empty() && !rest.is_empty()).then_some((agent, rest))
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_forms_are_those_of_the_reference_and_the_seeds() {
        let rules = KeyRules::default();
        for (written, canonical) in [
            ("main", "agent:main:main"),
            (" Main ", "agent:main:main"),
            ("agent:main:main", "agent:main:main"),
            ("agent:MyAgent:main", "agent:myagent:main"),
            ("global", "global"),
            ("unknown", "unknown"),
            ("agent:", "agent:"),
            ("agent:x", "agent:x"),
            ("agent:myagent:main", "agent:myagent:main"),
            ("agent:x:telegram:group:1", "agent:x:telegram:group:1"),
            ("subagent:1", "agent:main:subagent:1"),
            ("main:direct:+1234567890", "agent:main:main:direct:+1234567890"),
            ("telegram:group:123456:@User", "agent:main:telegram:group:123456:@user"),
            ("never-used", "agent:main:never-used"),
        ] {
            assert_eq!(SessionKey::parse(written, &rules).as_str(), canonical, "{written}");
        }
    }

    #[test]
    fn another_main_key_is_an_alias_of_main() {
        let rules = KeyRules { main_key: "home".into(), ..KeyRules::default() };
        for written in ["main", "home", "agent:main:main", "agent:main:home"] {
            assert_eq!(SessionKey::parse(written, &rules).as_str(), "agent:main:home");
        }
        let global = KeyRules { global_scope: true, ..KeyRules::default() };
        for written in ["main", "agent:main:main", "agent:ops:main"] {
            assert_eq!(SessionKey::parse(written, &global).as_str(), "global");
        }
        assert_eq!(SessionKey::parse("agent:ops:x", &global).as_str(), "agent:ops:x");
    }

    #[test]
    fn what_is_there_is_found_under_its_key_whatever_the_main_key_is() {
        let key = |text: &str| SessionKey::from_canonical(text);
        let (old, new) = ("agent:main:main", "agent:main:home");
        let home = KeyRules { main_key: "home".into(), ..KeyRules::default() };
        assert_eq!(home.kept_of(&home.default_agent), [key(old), key(new)]);
        assert!(KeyRules::default().kept_of(&home.default_agent).is_empty());
        let with = |rules: &KeyRules, kept: &[&str]| KeyRules {
            kept: kept.iter().map(|text| key(text)).collect(),
            ..rules.clone()
        };
        let global = KeyRules { global_scope: true, ..home.clone() };
        for (rules, [main, of_old, of_new]) in [
            // The conversation goes on.
            (with(&home, &[old]), [old, old, old]),
            (with(&home, &[new]), [new, new, new]),
            // None of two is lost.
            (with(&home, &[old, new]), [new, old, new]),
            (with(&global, &[old]), ["global", old, "global"]),
        ] {
            let parsed = ["main", old, new].map(|text| SessionKey::parse(text, &rules));
            assert_eq!(parsed, [main, of_old, of_new].map(key), "{:?}", rules.kept);
            assert_eq!(SessionKey::main(&rules.default_agent, &rules), key(main));
        }
    }

    #[test]
    fn a_bare_key_belongs_to_the_agent_that_is_spoken_of() {
        let (rules, ops) = (KeyRules::default(), AgentId::normalize("ops"));
        for (written, canonical) in [
            ("main", "agent:ops:main"),
            ("Life", "agent:ops:life"),
            ("agent:main:life", "agent:main:life"),
            ("global", "global"),
        ] {
            assert_eq!(SessionKey::parse_for(written, &ops, &rules).as_str(), canonical);
        }
    }

    #[test]
    fn keys_tell_their_kind_agent_and_faults() {
        let rules = KeyRules::default();
        for (written, kind, agent, is_malformed, is_spawned) in [
            ("main", "direct", "main", false, false),
            ("agent:MyAgent:main", "direct", "myagent", false, false),
            ("main:direct:+1234567890", "direct", "main", false, false),
            ("telegram:group:123456:@user", "group", "main", false, false),
            ("agent:ops:slack:channel:c1", "group", "ops", false, false),
            ("global", "global", "main", false, false),
            ("unknown", "unknown", "main", false, false),
            ("agent:ops:subagent:1", "direct", "ops", false, true),
            ("acp:1", "direct", "main", false, true),
            ("agent:", "direct", "main", true, false),
            ("agent:x", "direct", "main", true, false),
            ("Agent:x:", "direct", "main", true, false),
            ("agent::x", "direct", "main", true, false),
        ] {
            let key = SessionKey::parse(written, &rules);
            let told = (key.kind(), key.agent(&rules), key.is_malformed(), key.is_spawned());
            let expected = (kind, AgentId::normalize(agent), is_malformed, is_spawned);
            assert_eq!(told, expected, "{written}");
        }
    }

    #[test]
    fn the_key_of_a_group_names_its_channel() {
        for (key, channel) in [
            ("agent:main:telegram:group:-100:topic:5", Some("telegram")),
            ("agent:ops:slack:channel:c1", Some("slack")),
            ("discord:channel:1", Some("discord")),
            ("agent:main:telegram:group:", None),
            ("agent:main:telegram:direct:7", None),
            ("agent:main:x:telegram:group:7", None),
            ("agent:main:main", None),
            ("global", None),
        ] {
            assert_eq!(SessionKey::from_canonical(key).group_channel(), channel, "{key}");
        }
    }

    #[test]
    fn a_run_of_a_job_belongs_to_the_row_of_the_job() {
        let agent = AgentId::normalize("main");
        let (row, run) = (SessionKey::job(&agent, "j"), SessionKey::job_run(&agent, "j", "r"));
        assert_eq!((run.row_of_run().as_ref(), row.row_of_run()), (Some(&row), None));
        assert_eq!(SessionKey::from_canonical("agent:main:x:run:r").row_of_run(), None);
    }

    #[test]
    fn agent_ids_are_made_valid() {
        for (text, id) in
            [("Main", "main"), ("--a  b!--", "a-b"), ("", "main"), ("ÄÖ", "main"), ("x_1", "x_1")]
        {
            assert_eq!(AgentId::normalize(text).as_str(), id);
        }
        assert_eq!(AgentId::normalize(&"a".repeat(99)).as_str().len(), 64);
    }

    proptest::proptest! {
        #[test]
        fn parsing_is_idempotent(text in "\\PC{0,40}") {
            let rules = KeyRules::default();
            let once = SessionKey::parse(&text, &rules);
            proptest::prop_assert_eq!(SessionKey::parse(once.as_str(), &rules), once);
        }
    }
}
