//! `tools.exec`, as far as it says which commands may run and who is asked.
//!
//! Owns: the words for that, and their order of strictness. Must not: know what
//! a session or the approvals file says; `agent::approvals` puts them together.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::ConfigError;
use super::agent_id::id_of;
use super::explain::{Choice, Ledger};
use super::schema::Node;
use crate::support::millis;

/// As in the original. Two minutes, as it once was, are too short for a person.
const DEFAULT_TIMEOUT_MS: u64 = 30 * 60 * 1000;
/// How long a question may wait: one that is older than a day is answered by
/// nobody.
pub const APPROVAL_TIMEOUT_MAX: Duration = Duration::from_hours(24);

/// Which commands run; the stricter is the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExecSecurity {
    /// None.
    Deny,
    /// Those on the allowlist.
    Allowlist,
    /// All.
    Full,
}

impl ExecSecurity {
    /// Every word.
    pub const ALL: [Self; 3] = [Self::Deny, Self::Allowlist, Self::Full];

    /// The word in files and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Allowlist => "allowlist",
            Self::Full => "full",
        }
    }

    /// The word, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

impl fmt::Display for ExecSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a person is asked before a command runs; the stricter is the
/// greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExecAsk {
    /// Never.
    Off,
    /// When the allowlist does not have it.
    OnMiss,
    /// Each time.
    Always,
}

impl ExecAsk {
    /// Every word.
    pub const ALL: [Self; 3] = [Self::Off, Self::OnMiss, Self::Always];

    /// The word in files and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::OnMiss => "on-miss",
            Self::Always => "always",
        }
    }

    /// The word, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

impl fmt::Display for ExecAsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one place of the config says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExecRules {
    /// Which commands run.
    pub security: Option<ExecSecurity>,
    /// Whether a person is asked.
    pub ask: Option<ExecAsk>,
}

/// `tools.exec` and `agents.list[].tools.exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecPolicySettings {
    /// For every agent that says nothing of its own.
    pub rules: ExecRules,
    /// What agents say of their own, by id; it takes the place of the above.
    pub agents: BTreeMap<String, ExecRules>,
    /// How long a question waits for its answer.
    pub approval_timeout: Duration,
}

impl ExecPolicySettings {
    /// What holds for this agent.
    pub fn rules(&self, agent: &str) -> ExecRules {
        let own = self.agents.get(agent).copied().unwrap_or_default();
        ExecRules {
            security: own.security.or(self.rules.security),
            ask: own.ask.or(self.rules.ask),
        }
    }
}

pub(super) fn read(
    root: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<ExecPolicySettings, ConfigError> {
    let node = root.at("tools.exec")?;
    let rules = rules(&node)?;
    ledger.settle_optional("tools.exec.security", Choice::file(file, rules.security));
    ledger.settle_optional("tools.exec.ask", Choice::file(file, rules.ask));
    let timeout = node.member("approvalTimeoutMs")?.integer(millis(APPROVAL_TIMEOUT_MAX))?;
    let timeout = Choice::file(file, timeout);
    let timeout = ledger.settle("tools.exec.approvalTimeoutMs", timeout, DEFAULT_TIMEOUT_MS);
    let mut agents = BTreeMap::new();
    for item in root.at("agents.list")?.items()? {
        let own = self::rules(&item.at("tools.exec")?)?;
        if own != ExecRules::default() {
            let id = id_of(&item.member("id")?.required_text()?);
            agents.insert(id, own);
        }
    }
    Ok(ExecPolicySettings { rules, agents, approval_timeout: Duration::from_millis(timeout) })
}

fn rules(node: &Node<'_>) -> Result<ExecRules, ConfigError> {
    Ok(ExecRules {
        security: node.member("security")?.word("deny, allowlist, full", ExecSecurity::parse)?,
        ask: node.member("ask")?.word("off, on-miss, always", ExecAsk::parse)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::support::json;

    use super::*;

    fn load(document: &Value) -> Result<ExecPolicySettings, String> {
        let file = Path::new("x.json");
        read(&Node::root(document, file), file, &mut Ledger::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_agent_has_the_general_rules_where_it_says_nothing() {
        let settings = load(&json!({
            "tools": {"exec": {"security": "allowlist", "ask": "always", "approvalTimeoutMs": 5}},
            "agents": {"list": [{"id": "main"}, {"id": "Ops", "tools": {"exec": {"ask": "off"}}}]},
        }))
        .unwrap();
        let rules = |security, ask| ExecRules { security: Some(security), ask: Some(ask) };
        assert_eq!(settings.rules("main"), rules(ExecSecurity::Allowlist, ExecAsk::Always));
        assert_eq!(settings.rules("ops"), rules(ExecSecurity::Allowlist, ExecAsk::Off));
        assert_eq!(settings.approval_timeout, Duration::from_millis(5));
        let standard = load(&json!({})).unwrap();
        assert_eq!(standard.rules("main"), ExecRules::default());
        assert_eq!(standard.approval_timeout, Duration::from_mins(30));
    }

    #[test]
    fn a_wrong_word_is_an_error_that_names_its_key() {
        for (document, key) in [
            (
                json!({"tools": {"exec": {"security": "all"}}}),
                "tools.exec.security: must be one of",
            ),
            (json!({"tools": {"exec": {"ask": true}}}), "tools.exec.ask"),
            (json!({"tools": {"exec": {"approvalTimeoutMs": 0}}}), "tools.exec.approvalTimeoutMs"),
            (
                json!({"agents": {"list": [{"id": "a", "tools": {"exec": {"ask": "no"}}}]}}),
                "agents.list[0].tools.exec.ask",
            ),
        ] {
            let error = load(&document).unwrap_err();
            assert!(error.contains(key), "{error} names {key}");
        }
    }

    #[test]
    fn words_are_ordered_by_strictness_and_read_as_written() {
        assert!(ExecSecurity::Deny < ExecSecurity::Allowlist);
        assert!(ExecSecurity::Allowlist < ExecSecurity::Full);
        assert!(ExecAsk::Off < ExecAsk::OnMiss && ExecAsk::OnMiss < ExecAsk::Always);
        for word in ExecSecurity::ALL {
            assert_eq!(ExecSecurity::parse(word.as_str()), Some(word));
        }
        for word in ExecAsk::ALL {
            assert_eq!(ExecAsk::parse(word.as_str()), Some(word));
        }
    }
}
