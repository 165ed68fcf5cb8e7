//! What clients do not need and what is heavy goes out of frames.

use serde_json::Value;

/// Members that hold a tool's result: in files, and live.
const RESULT: [&str; 2] = ["toolUseResult", "tool_use_result"];

/// Strips a `user` frame: texts of files that were read (their numbers of lines
/// stay), pictures, and what the model was given of results. Other frames stay
/// as they are.
pub fn strip(frame: &mut Value) {
    if frame.get("type").and_then(Value::as_str) != Some("user") {
        return;
    }
    for name in RESULT {
        let Some(result) = frame.get_mut(name) else { continue };
        let heavy = match result.get("type").and_then(Value::as_str) {
            Some("text") => "content",
            Some("image") => "base64",
            _ => continue,
        };
        if let Some(Value::Object(file)) = result.get_mut("file") {
            file.shift_remove(heavy);
        }
    }
    let blocks = frame.get_mut("message").and_then(|message| message.get_mut("content"));
    for block in blocks.and_then(Value::as_array_mut).into_iter().flatten() {
        if block.get("type").and_then(Value::as_str) == Some("tool_result")
            && let Some(content) = block.get_mut("content")
        {
            *content = "".into();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn a_result_keeps_its_numbers_and_loses_its_weight() {
        let frame = |name: &str, file: Value, content: Value| {
            let block = json!({"tool_use_id": "t", "type": "tool_result", "content": content});
            json!({"type": "user", "message": {"role": "user", "content": [block]}, name: file})
        };
        for name in RESULT {
            let text =
                json!({"type": "text", "file": {"filePath": "a", "content": "x", "numLines": 1}});
            let mut it = frame(name, text, json!("x"));
            strip(&mut it);
            let text = json!({"type": "text", "file": {"filePath": "a", "numLines": 1}});
            assert_eq!(it, frame(name, text, json!("")));
            let picture = json!({"type": "image", "file": {"base64": "AA==", "type": "image/png"}});
            let mut it = frame(name, picture, json!([{"type": "image"}]));
            strip(&mut it);
            let picture = json!({"type": "image", "file": {"type": "image/png"}});
            assert_eq!(it, frame(name, picture, json!("")));
        }
    }

    #[test]
    fn what_is_no_result_stays() {
        for whole in [
            json!({"type": "user", "message": {"content": "hi"}, "toolUseResult": "Error: x"}),
            json!({"type": "assistant", "message": {"content": [{"type": "tool_result", "content": "x"}]}}),
            json!({"type": "user", "toolUseResult": {"stdout": "x"}}),
            json!(7),
        ] {
            let mut stripped = whole.clone();
            strip(&mut stripped);
            assert_eq!(stripped, whole);
        }
    }
}
