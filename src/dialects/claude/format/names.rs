//! Names of tools and of their arguments.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::agent::mcp::SEPARATOR;
use crate::support::json;

/// Ours, theirs. `bash`, `grep`, `find` and `ls` are in imported transcripts.
const TOOLS: &[(&str, &str)] = &[
    ("exec", "Bash"),
    ("bash", "Bash"),
    ("read", "Read"),
    ("write", "Write"),
    ("edit", "Edit"),
    ("grep", "Grep"),
    ("find", "Glob"),
    ("ls", "LS"),
    ("web_search", "WebSearch"),
    ("web_fetch", "WebFetch"),
    ("sessions_spawn", "Task"),
];

/// What tools of MCP servers are called.
const MCP: &str = "mcp__";
/// What `Task` calls an agent that nobody has chosen.
const ANY_AGENT: &str = "general-purpose";
/// Characters of a task that name it.
const DESCRIPTION_MAX: usize = 60;

/// The name of a tool in Claude Code; one of an MCP server is
/// `mcp__<server>__<tool>`, any other one keeps its own.
pub fn tool_name(name: &str) -> Cow<'_, str> {
    match TOOLS.iter().find(|(ours, _)| *ours == name) {
        Some((_, theirs)) => Cow::Borrowed(theirs),
        None if name.contains(SEPARATOR) && !name.starts_with(MCP) => {
            Cow::Owned(format!("{MCP}{name}"))
        }
        None => Cow::Borrowed(name),
    }
}

/// An id of a call in characters that the provider's API takes.
pub fn tool_use_id(id: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    id.chars().map(|c| if fits(c) { c } else { '_' }).collect()
}

/// The arguments of a call as the tool in Claude Code takes them; `name` is
/// ours. Arguments without a counterpart keep their names.
pub fn tool_input(name: &str, arguments: &Value) -> Value {
    let Value::Object(given) = arguments else { return json!({}) };
    let mut input = Map::new();
    match name {
        "edit" => edit(&mut input, given),
        "sessions_spawn" => task(&mut input, given),
        _ => {
            for (argument, value) in given {
                let (argument, value) = renamed(name, argument, value);
                input.insert(argument.to_owned(), value);
            }
        }
    }
    Value::Object(input)
}

fn renamed<'a>(tool: &str, argument: &'a str, value: &Value) -> (&'a str, Value) {
    let value_of = Value::clone;
    match (tool, argument) {
        ("read" | "write", "path") => ("file_path", value_of(value)),
        ("exec" | "bash", "background") => ("run_in_background", value_of(value)),
        // Seconds there, milliseconds here.
        ("exec" | "bash", "timeout") => {
            let millis = value.as_f64().map(|seconds| json!((seconds * 1000.0).round()));
            let whole = value.as_u64().map(|seconds| json!(seconds.saturating_mul(1000)));
            ("timeout", whole.or(millis).unwrap_or_else(|| value_of(value)))
        }
        _ => (argument, value_of(value)),
    }
}

/// One replacement is the usual case; of several, renderers see all texts.
fn edit(input: &mut Map<String, Value>, given: &Map<String, Value>) {
    let of = |part: &Map<String, Value>, name: &str| {
        part.get(name).and_then(Value::as_str).map(str::to_owned)
    };
    let listed = given.get("edits").and_then(Value::as_array).map(Vec::as_slice);
    let parts: Vec<(String, String)> = listed
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_object)
        .chain(given.contains_key("oldText").then_some(given))
        .filter_map(|part| Some((of(part, "oldText")?, of(part, "newText")?)))
        .collect();
    input.insert("replace_all".into(), false.into());
    if let Some(path) = given.get("path") {
        input.insert("file_path".into(), path.clone());
    }
    let join =
        |side: fn(&(String, String)) -> &str| parts.iter().map(side).collect::<Vec<_>>().join("\n");
    input.insert("old_string".into(), join(|part| &part.0).into());
    input.insert("new_string".into(), join(|part| &part.1).into());
    if parts.len() > 1 {
        let edits: Vec<_> =
            parts.iter().map(|(old, new)| json!({"old_string": old, "new_string": new})).collect();
        input.insert("edits".into(), edits.into());
    }
    for (name, value) in given {
        if !matches!(name.as_str(), "path" | "edits" | "oldText" | "newText") {
            input.insert(name.clone(), value.clone());
        }
    }
}

fn task(input: &mut Map<String, Value>, given: &Map<String, Value>) {
    let text = |name: &str| given.get(name).and_then(Value::as_str);
    let prompt = text("task").unwrap_or_default();
    let description = match text("label") {
        Some(label) => label.to_owned(),
        None => prompt.chars().take(DESCRIPTION_MAX).collect(),
    };
    input.insert("description".into(), description.into());
    input.insert("prompt".into(), prompt.into());
    input.insert("subagent_type".into(), text("agentId").unwrap_or(ANY_AGENT).into());
    for (name, value) in given {
        if !matches!(name.as_str(), "task" | "label" | "agentId") {
            input.insert(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_the_names_that_renderers_know() {
        for (ours, theirs) in [
            ("exec", "Bash"),
            ("find", "Glob"),
            ("docs__read_page", "mcp__docs__read_page"),
            ("mcp__docs__read_page", "mcp__docs__read_page"),
            ("apply_patch", "apply_patch"),
        ] {
            assert_eq!(tool_name(ours), theirs);
        }
        assert_eq!(tool_use_id("call_1|fc:2"), "call_1_fc_2");
    }

    #[test]
    fn arguments_have_the_names_that_renderers_know() {
        for (tool, ours, theirs) in [
            ("read", r#"{"path":"a","offset":3}"#, r#"{"file_path":"a","offset":3}"#),
            (
                "exec",
                r#"{"command":"ls","timeout":2,"background":true,"workdir":"/w"}"#,
                r#"{"command":"ls","timeout":2000,"run_in_background":true,"workdir":"/w"}"#,
            ),
            ("exec", r#"{"command":"ls","timeout":1.5}"#, r#"{"command":"ls","timeout":1500.0}"#),
            (
                "edit",
                r#"{"path":"a","edits":[{"oldText":"x","newText":"y"}]}"#,
                r#"{"replace_all":false,"file_path":"a","old_string":"x","new_string":"y"}"#,
            ),
            (
                "edit",
                r#"{"path":"a","oldText":"x","newText":"y"}"#,
                r#"{"replace_all":false,"file_path":"a","old_string":"x","new_string":"y"}"#,
            ),
            (
                "sessions_spawn",
                r#"{"task":"look","model":"m"}"#,
                r#"{"description":"look","prompt":"look","subagent_type":"general-purpose","model":"m"}"#,
            ),
            ("memory_search", r#"{"query":"q"}"#, r#"{"query":"q"}"#),
            ("exec", "7", "{}"),
        ] {
            let input = tool_input(tool, &serde_json::from_str(ours).unwrap());
            assert_eq!(input.to_string(), theirs, "{tool}");
        }
        let several = json!({"path": "a", "edits": [{"oldText": "x", "newText": "y"},
            {"oldText": "v", "newText": "w"}]});
        assert_eq!(tool_input("edit", &several)["old_string"], "x\nv");
        assert_eq!(tool_input("edit", &several)["edits"][1]["new_string"], "w");
    }
}
