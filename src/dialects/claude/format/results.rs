//! What tools answered, in the shapes that clients of Claude Code draw.

use serde_json::Value;

use super::names::{tool_input, tool_name, tool_use_id};
use super::{Ids, patch};
use crate::protocol::message::{ContentBlock, ToolResultMessage, text_of};
use crate::support::json;

/// Ends the hint that `read` puts behind what it shows of a longer file.
const READ_HINT_END: &str = " to continue.]";
/// What is between a file's text and that hint.
const READ_HINT_START: &str = "\n\n[";
/// What `exec` says when a command says nothing.
const NO_OUTPUT: &str = "(no output)";

/// `toolUseResult` of a call of the tool `name` (ours) with these arguments
/// (ours), which took so many milliseconds. A failure is a text that begins with
/// `Error: `.
pub fn tool_use_result(
    name: &str,
    arguments: &Value,
    result: &ToolResultMessage,
    took_ms: u64,
) -> Value {
    let told = Told {
        input: tool_input(name, arguments),
        text: text_of(&result.content),
        details: result.details.as_ref().unwrap_or(&Value::Null),
        result,
        took_ms,
    };
    let error = told_as_data(result);
    if result.is_error || error.is_some() {
        return format!("Error: {}", error.unwrap_or(&told.text)).into();
    }
    match &*tool_name(name) {
        "Bash" => told.bash(),
        "Read" => told.read(),
        "Write" => told.write(),
        "Edit" => told.edit(),
        "Grep" => told.grep(),
        "Glob" => told.glob(),
        "WebFetch" => told.web_fetch(),
        "WebSearch" => told.web_search(),
        "Task" => told.task(),
        _ if result.details.as_ref().is_some_and(Value::is_object) => told.details.clone(),
        _ => told.text.into(),
    }
}

/// Why a call failed that tells so as data. In the transcript that is no error, as in the
/// original; to clients of Claude Code it is one.
pub(super) fn told_as_data(result: &ToolResultMessage) -> Option<&str> {
    let details = result.details.as_ref().filter(|details| details["status"] == "error");
    details.and_then(|details| details["error"].as_str())
}

/// A result, and what it is the result of.
struct Told<'r> {
    input: Value,
    text: String,
    details: &'r Value,
    result: &'r ToolResultMessage,
    took_ms: u64,
}

impl Told<'_> {
    fn input(&self, name: &str) -> Value {
        self.input.get(name).cloned().unwrap_or_default()
    }

    fn bash(&self) -> Value {
        let said = self.details.get("aggregated").and_then(Value::as_str);
        let said = said.unwrap_or(&self.text);
        let stdout = if said == NO_OUTPUT { "" } else { said };
        let mut told = json!({
            "stdout": stdout,
            "stderr": "",
            "interrupted": false,
            "isImage": false,
            "noOutputExpected": stdout.is_empty(),
        });
        if self.details.get("status").is_some_and(|status| status == "running") {
            told["backgroundTaskId"] = self.details.get("sessionId").cloned().unwrap_or_default();
        }
        told
    }

    fn read(&self) -> Value {
        let image = self.result.content.iter().find_map(|block| match block {
            ContentBlock::Image(image) => Some(image),
            _ => None,
        });
        if let Some(image) = image {
            let padding = image.data.bytes().rev().take_while(|byte| *byte == b'=').count();
            let size = (image.data.len() / 4 * 3).saturating_sub(padding);
            let file = json!({"base64": image.data, "type": image.mime_type, "originalSize": size});
            return json!({"type": "image", "file": file});
        }
        let (content, hint) = match self.text.rsplit_once(READ_HINT_START) {
            Some((content, hint)) if hint.ends_with(READ_HINT_END) => (content, Some(hint)),
            _ => (self.text.as_str(), None),
        };
        let lines = content.split('\n').count() as u64;
        let start = self.input.get("offset").and_then(Value::as_u64).unwrap_or(1).max(1);
        let counted = self.details.pointer("/truncation/totalLines").and_then(Value::as_u64);
        // "[7 more lines in file. ..]"
        let left = hint.and_then(|hint| hint.split_once(" more lines")?.0.parse::<u64>().ok());
        let seen = start.saturating_sub(1).saturating_add(lines);
        let total = counted.unwrap_or_else(|| seen.saturating_add(left.unwrap_or_default()));
        json!({"type": "text", "file": {
            "filePath": self.input("file_path"),
            "content": content,
            "numLines": lines,
            "startLine": start,
            "totalLines": total,
        }})
    }

    fn write(&self) -> Value {
        json!({
            "type": "create",
            "filePath": self.input("file_path"),
            "content": self.input("content"),
            "structuredPatch": [],
            "originalFile": null,
        })
    }

    fn edit(&self) -> Value {
        let diff = self.details.get("diff").and_then(Value::as_str).unwrap_or_default();
        json!({
            "filePath": self.input("file_path"),
            "oldString": self.input("old_string"),
            "newString": self.input("new_string"),
            "originalFile": null,
            "structuredPatch": patch::hunks(diff),
            "userModified": false,
            "replaceAll": false,
        })
    }

    fn lines(&self) -> Vec<&str> {
        self.text.lines().filter(|line| !line.is_empty()).collect()
    }

    fn grep(&self) -> Value {
        json!({
            "mode": "content",
            "numFiles": 0,
            "filenames": [],
            "content": self.text,
            "numLines": self.lines().len(),
        })
    }

    fn glob(&self) -> Value {
        let lines = self.lines();
        json!({
            "filenames": lines,
            "durationMs": self.took_ms,
            "numFiles": lines.len(),
            "truncated": self.details.get("truncation").is_some(),
        })
    }

    fn web_fetch(&self) -> Value {
        let text = self.details.get("text").and_then(Value::as_str).unwrap_or(&self.text);
        let code = self.details.get("status").and_then(Value::as_u64).unwrap_or_default();
        let reason = u16::try_from(code)
            .ok()
            .and_then(|code| axum::http::StatusCode::from_u16(code).ok()?.canonical_reason());
        let took = self.details.get("tookMs").and_then(Value::as_u64).unwrap_or(self.took_ms);
        json!({
            "bytes": text.len(),
            "code": code,
            "codeText": reason.unwrap_or_default(),
            "result": text,
            "durationMs": took,
            "url": self.input("url"),
        })
    }

    fn web_search(&self) -> Value {
        let hits = self.details.get("results").and_then(Value::as_array);
        let shown = |hit: &Value| json!({"title": hit.get("title"), "url": hit.get("url")});
        let hits: Vec<_> = hits.into_iter().flatten().map(shown).collect();
        let took = self.details.get("tookMs").and_then(Value::as_u64).unwrap_or(self.took_ms);
        let of_call = tool_use_id(&self.result.tool_call_id);
        json!({
            "query": self.input("query"),
            "results": [{"tool_use_id": of_call, "content": hits}],
            "durationSeconds": seconds(took),
        })
    }

    /// A sub-agent works beside the conversation and answers later.
    fn task(&self) -> Value {
        let child = self.details.get("childSessionKey").and_then(Value::as_str);
        json!({
            "isAsync": true,
            "status": "async_launched",
            "agentId": child.map(Ids::agent),
            "description": self.input("description"),
            "prompt": self.input("prompt"),
            "outputFile": "",
            "canReadOutputFile": false,
            "content": [{"type": "text", "text": self.text}],
            "totalDurationMs": self.took_ms,
            "totalTokens": 0,
            "totalToolUseCount": 0,
        })
    }
}

fn seconds(millis: u64) -> f64 {
    std::time::Duration::from_millis(millis).as_secs_f64()
}
