//! The `subagents` members of `agents`: sessions that agents begin themselves.

use std::path::Path;

use super::ConfigError;
use super::agent_id::id_of;
use super::agents::{ModelSetting, model};
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// As in the original: sub-agents have none of their own.
const DEFAULT_DEPTH: u64 = 1;
/// As in the original.
const DEFAULT_CHILDREN: usize = 5;
/// As in the original.
const DEFAULT_CONCURRENT: usize = 8;
/// As in the original.
const DEFAULT_ARCHIVE_MINUTES: u64 = 60;
/// Deeper chains are not followed by the tool policy.
const DEPTH_MAX: u64 = 5;
/// Far more than a gateway can run.
const COUNT_MAX: u64 = 1000;
/// A year.
const MINUTES_MAX: u64 = 365 * 24 * 60;

/// Bounds on sub-agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentLimits {
    /// How deep they may nest; 1 means that sub-agents have none.
    pub max_spawn_depth: u64,
    /// How many of one session may be active.
    pub max_children: usize,
    /// How many may run at a time over all sessions.
    pub max_concurrent: usize,
    /// Their runs are stopped after so long; 0 leaves it to the agents' limit.
    pub run_timeout_seconds: u64,
    /// Their sessions go so long after their end; 0 keeps them.
    pub archive_after_minutes: u64,
}

/// What sub-agents of an agent may be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubagentChoice {
    /// Other agents that may do the work; `*` is any.
    pub allow_agents: Vec<String>,
    /// Which model they use.
    pub model: Option<ModelSetting>,
    /// How hard they think.
    pub thinking: Option<String>,
}

pub(super) fn limits(
    node: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<SubagentLimits, ConfigError> {
    let key = |name| format!("agents.defaults.subagents.{name}");
    let depth = Choice::file(file, node.member("maxSpawnDepth")?.integer(DEPTH_MAX)?);
    let children = Choice::file(file, node.member("maxChildrenPerAgent")?.integer(COUNT_MAX)?);
    let concurrent = Choice::file(file, node.member("maxConcurrent")?.bounded(1, COUNT_MAX)?);
    let timeout = node.member("runTimeoutSeconds")?.bounded(0, MINUTES_MAX * 60)?;
    let archive = node.member("archiveAfterMinutes")?.bounded(0, MINUTES_MAX)?;
    Ok(SubagentLimits {
        max_spawn_depth: ledger.settle(&key("maxSpawnDepth"), depth, DEFAULT_DEPTH),
        max_children: ledger.settle(&key("maxChildrenPerAgent"), children, DEFAULT_CHILDREN),
        max_concurrent: ledger.settle(&key("maxConcurrent"), concurrent, DEFAULT_CONCURRENT),
        run_timeout_seconds: ledger.settle(
            &key("runTimeoutSeconds"),
            Choice::file(file, timeout),
            0,
        ),
        archive_after_minutes: ledger.settle(
            &key("archiveAfterMinutes"),
            Choice::file(file, archive),
            DEFAULT_ARCHIVE_MINUTES,
        ),
    })
}

pub(super) fn choice(node: &Node<'_>) -> Result<SubagentChoice, ConfigError> {
    let agents = node.member("allowAgents")?.texts()?.unwrap_or_default();
    Ok(SubagentChoice {
        allow_agents: agents
            .iter()
            .filter(|id| !id.trim().is_empty())
            .map(|id| if id.trim() == "*" { "*".into() } else { id_of(id) })
            .collect(),
        model: model(&node.member("model")?)?,
        thinking: node.member("thinking")?.text()?,
    })
}
