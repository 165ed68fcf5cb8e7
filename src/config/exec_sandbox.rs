//! `agents.defaults.sandbox`, `agents.list[].sandbox` and `tools.exec.sandbox`:
//! which commands are confined, and to what.
//!
//! Owns: their order of strictness. Promises: what the original would run in a
//! container is confined here. Must not: confine anything itself.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::ConfigError;
use super::agent_id::id_of;
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// What commands may write to; the stricter is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExecSandbox {
    /// Whatever the user of the gateway may.
    Off,
    /// The agent's workspace and the directories for temporary files.
    WorkspaceWrite,
    /// Nothing but devices that swallow it.
    ReadOnly,
}

impl ExecSandbox {
    /// Every word.
    pub const ALL: [Self; 3] = [Self::Off, Self::WorkspaceWrite, Self::ReadOnly];

    /// The word in the config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::WorkspaceWrite => "workspace-write",
            Self::ReadOnly => "read-only",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

impl fmt::Display for ExecSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where commands run, as `tools.exec.host` and sessions say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecPlace {
    /// Wherever it is usual.
    Auto,
    /// On this machine.
    Gateway,
    /// On this machine, confined.
    Sandbox,
    /// On another machine.
    Node,
}

impl ExecPlace {
    /// The place of this word.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "gateway" => Some(Self::Gateway),
            "sandbox" => Some(Self::Sandbox),
            "node" => Some(Self::Node),
            _ => None,
        }
    }
}

/// Which sessions of an agent are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Off,
    NonMain,
    All,
}

/// What one place of the config says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Rule {
    mode: Option<Mode>,
    access: Option<ExecSandbox>,
    /// Where its commands run, in the place of what holds for all.
    place: Option<ExecPlace>,
}

/// How commands are confined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSettings {
    everywhere: ExecSandbox,
    /// `tools.exec.host`.
    pub place: ExecPlace,
    defaults: Rule,
    agents: BTreeMap<String, Rule>,
}

impl SandboxSettings {
    /// Whether anything is to be confined.
    pub fn is_wanted(&self) -> bool {
        let is_mode = |rule: &Rule| {
            rule.mode.is_some_and(|mode| mode != Mode::Off)
                || rule.place == Some(ExecPlace::Sandbox)
        };
        self.everywhere != ExecSandbox::Off
            || self.place == ExecPlace::Sandbox
            || is_mode(&self.defaults)
            || self.agents.values().any(is_mode)
    }

    /// The same where commands of this agent run as it says.
    #[must_use]
    pub(super) fn for_agent(&self, agent: &str) -> Self {
        Self { place: self.place_of(agent), ..self.clone() }
    }

    fn place_of(&self, agent: &str) -> ExecPlace {
        self.agents.get(agent).and_then(|own| own.place).unwrap_or(self.place)
    }

    /// What a command of this agent may write to, by its session.
    pub fn of(&self, agent: &str, is_main_session: bool) -> ExecSandbox {
        let own = self.agents.get(agent).copied().unwrap_or_default();
        let is_confined = match own.mode.or(self.defaults.mode).unwrap_or(Mode::Off) {
            Mode::Off => false,
            Mode::NonMain => !is_main_session,
            Mode::All => true,
        };
        let access = own.access.or(self.defaults.access).unwrap_or(ExecSandbox::ReadOnly);
        self.everywhere.max(if is_confined { access } else { ExecSandbox::Off })
    }

    /// The same of a command that says nothing of its place itself; `host` is
    /// the session's own word for it.
    pub fn usual(&self, agent: &str, is_main_session: bool, host: Option<&str>) -> ExecSandbox {
        let said = [host.and_then(ExecPlace::parse), Some(self.place_of(agent))];
        let is_confined = said.contains(&Some(ExecPlace::Sandbox));
        let least = if is_confined { ExecSandbox::WorkspaceWrite } else { ExecSandbox::Off };
        self.of(agent, is_main_session).max(least)
    }
}

pub(super) fn read(
    root: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<SandboxSettings, ConfigError> {
    let exec = root.at("tools.exec")?;
    let everywhere = exec.member("sandbox")?;
    let everywhere = everywhere.word("off, workspace-write, read-only", ExecSandbox::parse)?;
    let everywhere = Choice::file(file, everywhere);
    let everywhere = ledger.settle("tools.exec.sandbox", everywhere, ExecSandbox::Off);
    let place = place(&exec)?;
    let mut agents = BTreeMap::new();
    for item in root.at("agents.list")?.items()? {
        let id = id_of(&item.member("id")?.required_text()?);
        let place = self::place(&item.at("tools.exec")?)?;
        agents.insert(id, Rule { place, ..rule(&item.member("sandbox")?)? });
    }
    Ok(SandboxSettings {
        everywhere,
        place: place.unwrap_or(ExecPlace::Auto),
        defaults: rule(&root.at("agents.defaults.sandbox")?)?,
        agents,
    })
}

fn place(exec: &Node<'_>) -> Result<Option<ExecPlace>, ConfigError> {
    exec.member("host")?.word("auto, sandbox, gateway, node", ExecPlace::parse)
}

/// The words of the original. With `none` a container has a directory of its
/// own instead of the workspace; here it may not write to the workspace.
fn rule(node: &Node<'_>) -> Result<Rule, ConfigError> {
    let mode = node.member("mode")?.word("off, non-main, all", |text| match text {
        "off" => Some(Mode::Off),
        "non-main" => Some(Mode::NonMain),
        "all" => Some(Mode::All),
        _ => None,
    })?;
    let access = node.member("workspaceAccess")?.word("none, ro, rw", |text| match text {
        "none" | "ro" => Some(ExecSandbox::ReadOnly),
        "rw" => Some(ExecSandbox::WorkspaceWrite),
        _ => None,
    })?;
    Ok(Rule { mode, access, place: None })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::support::json;

    use super::*;

    fn load(document: &Value) -> Result<SandboxSettings, String> {
        let file = Path::new("x.json");
        read(&Node::root(document, file), file, &mut Ledger::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_strictest_of_what_is_said_holds() {
        let settings = load(&json!({
            "tools": {"exec": {"sandbox": "workspace-write"}},
            "agents": {
                "defaults": {"sandbox": {"mode": "non-main", "workspaceAccess": "ro"}},
                "list": [{"id": "main"}, {"id": "Ops", "sandbox": {"mode": "off"}}],
            },
        }))
        .unwrap();
        assert_eq!(settings.of("main", true), ExecSandbox::WorkspaceWrite);
        assert_eq!(settings.of("main", false), ExecSandbox::ReadOnly);
        assert_eq!(settings.of("ops", false), ExecSandbox::WorkspaceWrite);
        assert_eq!(load(&json!({})).unwrap().of("main", false), ExecSandbox::Off);
        let all = load(&json!({"agents": {"defaults": {"sandbox": {"mode": "all"}}}})).unwrap();
        assert_eq!(all.of("main", true), ExecSandbox::ReadOnly);
    }

    #[test]
    fn an_agents_own_place_stands_in_that_of_the_others() {
        let exec = |host: &str| json!({"exec": {"host": host}});
        let list = json!([{"id": "Ops", "tools": exec("sandbox")}]);
        let settings = load(&json!({"agents": {"list": list}})).unwrap();
        assert!(settings.is_wanted());
        assert_eq!(settings.usual("ops", true, None), ExecSandbox::WorkspaceWrite);
        assert_eq!(settings.usual("main", true, None), ExecSandbox::Off);
        assert_eq!(settings.for_agent("ops").place, ExecPlace::Sandbox);
        let list = json!([{"id": "ops", "tools": exec("gateway")}]);
        let document = json!({"tools": exec("sandbox"), "agents": {"list": list}});
        let settings = load(&document).unwrap();
        assert_eq!(settings.usual("ops", true, None), ExecSandbox::Off);
        assert_eq!(settings.usual("main", true, None), ExecSandbox::WorkspaceWrite);
    }

    #[test]
    fn a_wrong_word_is_an_error_that_names_its_key() {
        for (document, key) in [
            (json!({"tools": {"exec": {"sandbox": "on"}}}), "tools.exec.sandbox: must be one of"),
            (json!({"tools": {"exec": {"host": "moon"}}}), "tools.exec.host"),
            (
                json!({"agents": {"defaults": {"sandbox": {"mode": "some"}}}}),
                "agents.defaults.sandbox.mode",
            ),
            (
                json!({"agents": {"list": [{"id": "a", "sandbox": {"workspaceAccess": 1}}]}}),
                "agents.list[0].sandbox.workspaceAccess",
            ),
        ] {
            let error = load(&document).unwrap_err();
            assert!(error.contains(key), "{error} names {key}");
        }
    }
}
