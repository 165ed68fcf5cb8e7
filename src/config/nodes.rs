//! `gateway.nodes` and `tools.exec.node`.
//!
//! Owns: what the config says of nodes. Must not: know what a platform offers
//! (see `nodes::policy`).

use std::path::Path;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// What the config says of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodesSettings {
    /// Commands that every platform may be asked for, beside its own.
    pub allow_commands: Vec<String>,
    /// Commands that no node is asked for, whatever else is said.
    pub deny_commands: Vec<String>,
    /// The node that runs commands of agents when they name none: its id or name.
    pub exec_node: Option<String>,
}

pub(super) fn read(
    root: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<NodesSettings, ConfigError> {
    let node = root.at("gateway.nodes")?;
    let exec_node = root.at("tools.exec")?.member("node")?.text()?;
    let exec_node = exec_node.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    ledger.settle_optional("tools.exec.node", Choice::file(file, exec_node.clone()));
    Ok(NodesSettings {
        allow_commands: commands(&node.member("allowCommands")?)?,
        deny_commands: commands(&node.member("denyCommands")?)?,
        exec_node,
    })
}

fn commands(node: &Node<'_>) -> Result<Vec<String>, ConfigError> {
    let names = node.texts()?.unwrap_or_default();
    let names = names.into_iter().map(|name| name.trim().to_owned());
    Ok(names.filter(|name| !name.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::support::json;

    use super::*;

    fn load(document: &Value) -> Result<NodesSettings, String> {
        let file = Path::new("x.json");
        read(&Node::root(document, file), file, &mut Ledger::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn commands_are_lists_of_names_and_a_wrong_one_names_its_key() {
        let settings = load(&json!({
            "gateway": {"nodes": {"allowCommands": [" camera.snap ", ""], "denyCommands": ["canvas.eval"]}},
            "tools": {"exec": {"node": " build-box "}},
        }));
        let expected = NodesSettings {
            allow_commands: vec!["camera.snap".into()],
            deny_commands: vec!["canvas.eval".into()],
            exec_node: Some("build-box".into()),
        };
        assert_eq!(settings, Ok(expected));
        let error = load(&json!({"gateway": {"nodes": {"denyCommands": [1]}}})).unwrap_err();
        assert!(error.contains("gateway.nodes.denyCommands[0]"), "{error}");
    }
}
