//! The frames that a client gets.
//!
//! Owns: their shapes: those of the dialect's document and of its real software,
//! each with the members of both.

use serde_json::Value;

use crate::support::json;

/// Most characters of a result, of arguments that are asked about and of progress,
/// as in the original.
pub const SHOWN_MAX: usize = 500;

/// A conversation is open.
pub fn session_created(id: &str) -> Value {
    json!({"type": "session_created", "session_id": id})
}

/// A conversation goes on that has so many messages.
pub fn session_resumed(id: &str, messages: u64) -> Value {
    json!({"type": "session_resumed", "session_id": id, "message_count": messages})
}

/// More of an answer.
pub fn delta(content: &str) -> Value {
    json!({"type": "delta", "content": content})
}

/// A whole message.
pub fn message(content: &str) -> Value {
    json!({"type": "message", "content": content})
}

/// Something went wrong.
pub fn error(content: &str) -> Value {
    json!({"type": "error", "content": content})
}

/// A response is over.
pub fn done() -> Value {
    json!({"type": "done"})
}

/// Files that the agent has made.
pub fn media(files: &[Value]) -> Value {
    json!({"type": "media", "files": files})
}

/// Cards that a tool has made.
pub fn cards(cards: &[Value]) -> Value {
    json!({"type": "cards", "cards": cards})
}

/// What a confined command has printed, both of its streams in order, and how it
/// ended.
pub fn sandbox_result(output: &str, exit_code: Option<i64>) -> Value {
    json!({"type": "sandbox_result", "stdout": output, "stderr": "", "exit_code": exit_code,
        "success": exit_code == Some(0)})
}

fn event(event: &str, members: Value) -> Value {
    let mut frame = json!({"type": "event", "event": event});
    if let (Value::Object(frame), Value::Object(members)) = (&mut frame, members) {
        frame.extend(members);
    }
    frame
}

/// A tool is called, of this MCP server if it is one's.
pub fn tool_start(tool: &str, call_id: &str, arguments: &Value) -> Value {
    let server = mcp_server(tool);
    let arguments = arguments_text(arguments);
    let members = json!({"tool": tool, "call_id": call_id, "arguments": arguments,
        "mcp_server": server});
    event("tool_start", members)
}

/// It has something to show already.
pub fn tool_progress(tool: &str, call_id: &str, message: &str) -> Value {
    let message = last(message, SHOWN_MAX);
    event("tool_progress", json!({"tool": tool, "call_id": call_id, "message": message}))
}

/// It has ended.
pub fn tool_done(tool: &str, call_id: &str, result: &str) -> Value {
    event("tool_done", json!({"tool": tool, "call_id": call_id, "result": first(result)}))
}

/// The policy says no.
pub fn tool_denied(tool: &str, call_id: &str, reason: &str) -> Value {
    event("tool_denied", json!({"tool": tool, "call_id": call_id, "reason": reason}))
}

/// A model looks at a call before it is made.
pub fn review_started(tool: &str, call_id: &str) -> Value {
    event("aitl_review_started", json!({"tool": tool, "call_id": call_id}))
}

/// What it says.
pub fn review_complete(tool: &str, call_id: &str, approved: bool, reason: &str) -> Value {
    let members = json!({"tool": tool, "call_id": call_id, "approved": approved, "reason": reason});
    event("aitl_review_complete", members)
}

/// A call waits for somebody to allow it: under the name of the real software, and
/// under that of its document.
pub fn approval_requests(tool: &str, call_id: &str, arguments: &str) -> [Value; 2] {
    let members = json!({"call_id": call_id, "tool": tool, "arguments": first(arguments)});
    ["approval_request", "tool_approval_request"].map(|name| event(name, members.clone()))
}

/// That was decided.
pub fn approval_resolved(tool: Option<&str>, call_id: &str, approved: bool) -> Value {
    let mut members = json!({"call_id": call_id, "approved": approved});
    if let Some(tool) = tool {
        members["tool"] = json!(tool);
    }
    event("approval_resolved", members)
}

/// More of what the model thinks.
pub fn reasoning(text: &str) -> Value {
    event("reasoning", json!({"text": text}))
}

/// The model reads how something is done.
pub fn skill(name: &str) -> Value {
    event("skill", json!({"name": name}))
}

/// A sub-agent begins.
pub fn subagent_start(name: &str) -> Value {
    event("subagent_start", json!({"name": name}))
}

/// A sub-agent has ended.
pub fn subagent_done(name: &str) -> Value {
    event("subagent_done", json!({"name": name}))
}

/// Arguments as JSON text; `None` where there are none.
pub fn arguments_text(arguments: &Value) -> Option<String> {
    let is_none =
        arguments.is_null() || arguments.as_object().is_some_and(serde_json::Map::is_empty);
    (!is_none).then(|| arguments.to_string())
}

/// The MCP server of a tool, which its name begins with.
fn mcp_server(tool: &str) -> &str {
    tool.split_once("__").map_or("", |(server, _)| server)
}

fn first(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

fn last(text: &str, max: usize) -> &str {
    let skipped = text.chars().count().saturating_sub(max);
    text.char_indices().nth(skipped).map_or("", |(at, _)| text.get(at..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The members of an example of the document, in our frame.
    fn has(frame: &Value, example: &str) {
        let example: Value = serde_json::from_str(example).unwrap();
        for (name, value) in example.as_object().unwrap() {
            assert_eq!(frame.get(name), Some(value), "{name} of {frame}");
        }
    }

    #[test]
    fn every_frame_has_what_the_document_shows() {
        has(&session_created("abc-123"), r#"{"type":"session_created","session_id":"abc-123"}"#);
        has(&delta("Here"), r#"{"type":"delta","content":"Here"}"#);
        let arguments: Value = serde_json::from_str(r#"{"query":"latest news"}"#).unwrap();
        has(
            &tool_start("web_search", "call-abc-123", &arguments),
            r#"{"type":"event","event":"tool_start","tool":"web_search","call_id":"call-abc-123",
                "arguments":"{\"query\":\"latest news\"}"}"#,
        );
        has(
            &tool_done("web_search", "call-abc-123", "..."),
            r#"{"type":"event","event":"tool_done","call_id":"call-abc-123","result":"..."}"#,
        );
        let [real, documented] =
            approval_requests("delete_file", "call-abc-123", r#"{"path": "/tmp/data.csv"}"#);
        has(
            &documented,
            r#"{"type":"event","event":"tool_approval_request","call_id":"call-abc-123",
                "tool":"delete_file","arguments":"{\"path\": \"/tmp/data.csv\"}"}"#,
        );
        assert_eq!(real["event"], "approval_request");
        has(
            &approval_resolved(None, "call-abc-123", true),
            r#"{"type":"event","event":"approval_resolved","call_id":"call-abc-123",
                "approved":true}"#,
        );
        has(
            &sandbox_result("Hello\n", Some(0)),
            r#"{"type":"sandbox_result","stdout":"Hello\n","stderr":"","exit_code":0}"#,
        );
        has(
            &message("Available models: ..."),
            r#"{"type":"message","content":"Available models: ..."}"#,
        );
        has(&error("Session not found"), r#"{"type":"error","content":"Session not found"}"#);
        has(&done(), r#"{"type":"done"}"#);
        let card = json!({"contentType": "application/vnd.microsoft.card.adaptive", "content": {}});
        has(
            &cards(&[card]),
            r#"{"type":"cards","cards":[{"contentType":"application/vnd.microsoft.card.adaptive",
                "content":{}}]}"#,
        );
    }

    #[test]
    fn what_is_shown_has_a_bound() {
        let long = "ä".repeat(2 * SHOWN_MAX);
        assert_eq!(tool_done("t", "c", &long)["result"], "ä".repeat(SHOWN_MAX));
        assert_eq!(approval_requests("t", "c", &long)[0]["arguments"], "ä".repeat(SHOWN_MAX));
        let growing = format!("{long}end");
        let shown = tool_progress("t", "c", &growing)["message"].clone();
        assert_eq!(shown, format!("{}end", "ä".repeat(SHOWN_MAX - 3)));
        assert_eq!(tool_progress("t", "c", "")["message"], "");
    }

    #[test]
    fn a_call_without_arguments_has_none_and_one_of_a_server_names_it() {
        assert_eq!(tool_start("t", "c", &json!({}))["arguments"], Value::Null);
        assert_eq!(tool_start("read", "c", &json!({}))["mcp_server"], "");
        assert_eq!(tool_start("files__list", "c", &json!({"a": 1}))["mcp_server"], "files");
    }
}
