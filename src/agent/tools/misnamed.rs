//! Names in the rules for tools that name no tool.
//!
//! Owns: what of the lists of a config is no tool, no group and no pattern. Promises: what
//! OpenClaw or its plugins have and nobody here offers is not among it. Must not: change what
//! is allowed.

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

/// Plugins of OpenClaw whose tools there are not; lists name all tools of a plugin by its id.
const PLUGINS: [&str; 15] = [
    "diffs",
    "feishu",
    "file-transfer",
    "firecrawl",
    "google-meet",
    "llm-task",
    "lobster",
    "memory-lancedb",
    "memory-wiki",
    "qqbot",
    "skill-workshop",
    "tavily",
    "voice-call",
    "xai",
    "zalouser",
];

/// What was found in a config.
struct Found<'c> {
    issues: Vec<ConfigIssue>,
    /// The plugins that it names itself.
    plugins: Vec<&'c str>,
}

/// The names in the rules of a config that mean no tool: what one of them was to forbid is
/// allowed.
pub fn misnamed(config: &Value) -> Vec<ConfigIssue> {
    let mut found = Found { issues: Vec::new(), plugins: plugins(&config["plugins"]) };
    let tools = &config["tools"];
    of_policy(&keys(&["tools"]), tools, &mut found);
    let of_subagents = keys(&["tools", "subagents", "tools"]);
    of_rules(&of_subagents, &tools["subagents"]["tools"], &mut found);
    of_allowed(&of_subagents, &tools["subagents"]["tools"], &mut found);
    of_rules(&keys(&["gateway", "tools"]), &config["gateway"]["tools"], &mut found);
    let agents = config["agents"]["list"].as_array();
    for (index, agent) in agents.into_iter().flatten().enumerate() {
        let mut path = keys(&["agents", "list"]);
        path.extend([Step::Index(index), Step::Key("tools".into())]);
        of_policy(&path, &agent["tools"], &mut found);
    }
    found.issues.truncate(MOST);
    found.issues
}

fn plugins(section: &Value) -> Vec<&str> {
    let members = ["entries", "installs"].into_iter().filter_map(|it| section[it].as_object());
    let lists = ["allow", "deny"].into_iter().filter_map(|it| section[it].as_array());
    let named = members.flat_map(|it| it.keys().map(String::as_str));
    named.chain(lists.flatten().filter_map(Value::as_str)).collect()
}

/// Those of an agent, or of all.
fn of_policy(path: &[Step], policy: &Value, found: &mut Found<'_>) {
    of_rules(path, policy, found);
    of_allowed(path, policy, found);
    for (model, rules) in policy["byProvider"].as_object().into_iter().flatten() {
        let path = [path, keys(&["byProvider", model]).as_slice()].concat();
        of_rules(&path, rules, found);
        of_allowed(&path, rules, found);
    }
}

fn of_rules(path: &[Step], rules: &Value, found: &mut Found<'_>) {
    for list in ["allow", "alsoAllow", "deny"] {
        for (index, name) in rules[list].as_array().into_iter().flatten().enumerate() {
            let is_misnamed = |name: &&str| !is_known(name) && !found.is_foreign(name);
            let Some(name) = name.as_str().filter(is_misnamed) else { continue };
            let steps = [Step::Key(list.into()), Step::Index(index)];
            let message = format!("{name:?} is no tool and no group of tools: it has no effect");
            found.tell(path, &steps, message);
        }
    }
}

/// In OpenClaw an `allow` that names plugins alone takes no other tool away.
fn of_allowed(path: &[Step], rules: &Value, found: &mut Found<'_>) {
    let names = rules["allow"].as_array().into_iter().flatten();
    let names: Vec<_> = names.filter_map(Value::as_str).collect();
    if !names.is_empty() && names.iter().all(|name| found.is_foreign(name)) {
        let message = "names only what nobody here offers: no tool is allowed; say alsoAllow \
            to keep the others";
        found.tell(path, &[Step::Key("allow".into())], message.into());
    }
}

impl Found<'_> {
    fn tell(&mut self, path: &[Step], rest: &[Step], message: String) {
        let path = ValuePath::from([path, rest].concat()).to_string();
        self.issues.push(ConfigIssue { path, message });
    }

    /// Whether it is what OpenClaw has, or what a plugin may bring there.
    fn is_foreign(&self, name: &str) -> bool {
        let Some(pattern) = ToolPattern::parse(name) else { return false };
        let is_meant = |it: &&str| pattern.matches(&it.to_lowercase());
        // What is a pattern may mean anything.
        !name.contains('*')
            && (NOT_OFFERED.iter().any(is_meant)
                || PLUGINS.iter().any(is_meant)
                || self.plugins.iter().any(is_meant))
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

    #[test]
    fn plugins_of_openclaw_are_no_misspelt_tools_but_alone_they_allow_nothing() {
        let config = json!({
            "plugins": {"entries": {"my-plugin": {"enabled": true}}, "allow": ["Listed"]},
            "tools": {"allow": ["read", "file-transfer", "memory-core", "my-plugin", "listed"],
                "deny": ["file-tranfer", "lobster", "others-plugin"],
                "byProvider": {"p": {"allow": ["file-transfer", "browser"]}},
                "subagents": {"tools": {"allow": ["lobster"]}}},
            "gateway": {"tools": {"allow": ["file-transfer"]}},
            "agents": {"list": [{"id": "a", "tools": {"allow": ["lobster", "group:fs"]}}]},
        });
        let told: Vec<_> = misnamed(&config).into_iter().map(|it| it.path).collect();
        let of_all = ["tools.deny[0]", "tools.deny[2]", "tools.byProvider.p.allow"];
        assert_eq!(told, [&of_all[..], &["tools.subagents.tools.allow"]].concat());
        let tools = json!({"tools": {"allow": ["read", "file-transfer"], "deny": ["memory-core"]}});
        assert_eq!(misnamed(&tools), []);
    }
}
