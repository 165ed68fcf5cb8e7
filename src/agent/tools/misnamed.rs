//! Names in the rules for tools that name no tool.
//!
//! Owns: what of the lists of a config is no tool, no group and no pattern. Promises: what
//! OpenClaw has and nobody here offers is not among it. Must not: change what is allowed.

use serde_json::Value;

use super::catalog;
use super::policy::ALL_MCP;
use crate::agent::mcp::SEPARATOR;
use crate::config::ToolPattern;
use crate::config::document::ConfigIssue;
use crate::config::edit::{Step, ValuePath};

/// More than these are not told one by one.
const MOST: usize = 50;
/// Groups that are not in the catalog.
const GROUPS: [&str; 3] = ["openclaw", "plugins", "ui"];
/// Tools of OpenClaw that there are not: whoever names one has not misspelt anything.
const NOT_OFFERED: [&str; 16] = [
    "browser",
    "canvas",
    "code_execution",
    "dir_fetch",
    "dir_list",
    "file_fetch",
    "file_write",
    "heartbeat_respond",
    "image_generate",
    "music_generate",
    "pdf",
    "sessions_yield",
    "tts",
    "update_plan",
    "video_generate",
    "x_search",
];

/// The names in the rules of a config that mean no tool: what one of them was to forbid is
/// allowed.
pub fn misnamed(config: &Value) -> Vec<ConfigIssue> {
    let mut found = Vec::new();
    let tools = &config["tools"];
    of_policy(&keys(&["tools"]), tools, &mut found);
    of_rules(&keys(&["tools", "subagents", "tools"]), &tools["subagents"]["tools"], &mut found);
    of_rules(&keys(&["gateway", "tools"]), &config["gateway"]["tools"], &mut found);
    let agents = config["agents"]["list"].as_array();
    for (index, agent) in agents.into_iter().flatten().enumerate() {
        let mut path = keys(&["agents", "list"]);
        path.extend([Step::Index(index), Step::Key("tools".into())]);
        of_policy(&path, &agent["tools"], &mut found);
    }
    found.truncate(MOST);
    found
}

/// Those of an agent, or of all.
fn of_policy(path: &[Step], policy: &Value, found: &mut Vec<ConfigIssue>) {
    of_rules(path, policy, found);
    for (model, rules) in policy["byProvider"].as_object().into_iter().flatten() {
        let path = [path, keys(&["byProvider", model]).as_slice()].concat();
        of_rules(&path, rules, found);
    }
}

fn of_rules(path: &[Step], rules: &Value, found: &mut Vec<ConfigIssue>) {
    for list in ["allow", "alsoAllow", "deny"] {
        for (index, name) in rules[list].as_array().into_iter().flatten().enumerate() {
            let Some(name) = name.as_str().filter(|name| !is_known(name)) else { continue };
            let path = [path, &[Step::Key(list.into()), Step::Index(index)]].concat();
            let path = ValuePath::from(path).to_string();
            let message = format!("{name:?} is no tool and no group of tools: it has no effect");
            found.push(ConfigIssue { path, message });
        }
    }
}

/// Whether a name means a tool, or may mean one of a server or one that a variable says.
fn is_known(name: &str) -> bool {
    let Some(pattern) = ToolPattern::parse(name) else { return true };
    if let Some(group) = pattern.group() {
        return GROUPS.contains(&group) || catalog::GROUPS.iter().any(|it| it.id == group);
    }
    let mut built_in = catalog::GROUPS.iter().flat_map(|group| group.tools);
    ["*", "${", SEPARATOR].iter().any(|part| name.contains(part))
        || name.trim().eq_ignore_ascii_case(ALL_MCP)
        || built_in.any(|tool| pattern.matches(tool.id))
        || NOT_OFFERED.iter().any(|tool| pattern.matches(tool))
}

fn keys(names: &[&str]) -> Vec<Step> {
    names.iter().map(|&name| Step::Key(name.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::json;

    #[test]
    fn names_that_mean_no_tool_are_told_with_their_place() {
        let config = json!({
            "tools": {"allow": ["read", "bash", " Group:FS ", "memory_*", "docs__search", "sheel"],
                "deny": ["exce", "group:runtme", "group:*", "apply-patch", "Bundle-MCP", "dir_fetch",
                    "dir_list", "file_fetch", "file_write"],
                "byProvider": {"a.b/c": {"deny": ["wirte", "browser", "group:ui", "${TOOL}"]}},
                "subagents": {"tools": {"alsoAllow": ["cronn"]}}},
            "gateway": {"tools": {"allow": ["nodess", "nodes"]}},
            "agents": {"list": [{"id": "a"}, {"tools": {"deny": ["group:openclaw", "reed", 5],
                "byProvider": {"p": {"allow": "x"}}}}]},
        });
        let told: Vec<_> = misnamed(&config).into_iter().map(|it| it.path).collect();
        assert_eq!(
            told,
            [
                "tools.allow[5]",
                "tools.deny[0]",
                "tools.deny[1]",
                "tools.deny[2]",
                "tools.byProvider[\"a.b/c\"].deny[0]",
                "tools.subagents.tools.alsoAllow[0]",
                "gateway.tools.allow[0]",
                "agents.list[1].tools.deny[1]",
            ]
        );
        assert_eq!(
            misnamed(&config).remove(1).message,
            "\"exce\" is no tool and no group of tools: it has no effect"
        );
        assert_eq!(misnamed(&Value::Null), []);
    }
}
