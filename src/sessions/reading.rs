//! Reading a stored message, whoever wrote it.
//!
//! Promises: a message that the original's session manager reads is read here
//! too; members that are missing or of another type than ours get a usual
//! value. Must not: change what is stored.

use serde_json::{Map, Value};

use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, StopReason, Usage, UserContent, UserMessage,
};
use crate::support::{json, json_of_javascript, reading};

const COMPACTED: &str = "The conversation history before this point was compacted into the \
                         following summary:\n\n<summary>\n";
const BRANCHED: &str = "The following is a summary of a branch that this conversation came back \
                        from:\n\n<summary>\n";
const SUMMARY_END: &str = "\n</summary>";

/// The JSON of a message.
pub(super) fn value(text: &str) -> Option<Value> {
    json_of_javascript(text).ok()
}

/// A message as the model reads it; `None` for what says nothing to it.
pub(super) fn message(text: &str) -> Option<AgentMessage> {
    if let Ok(message) = serde_json::from_str(text) {
        return Some(message);
    }
    let Some(Value::Object(mut members)) = value(text) else { return None };
    let timestamp = millis(members.get("timestamp"));
    members.insert("timestamp".into(), timestamp.into());
    let role = members.get("role").and_then(Value::as_str).unwrap_or_default().to_owned();
    match role.as_str() {
        "assistant" => assistant(&mut members),
        "toolResult" => tool_result(&mut members),
        "custom" | "hookMessage" => {
            let content: UserContent = serde_json::from_value(members.remove("content")?).ok()?;
            return Some(user(content, timestamp));
        }
        "bashExecution" => return command(&members, timestamp),
        "compactionSummary" => return Some(compacted(word(&members, "summary")?, timestamp)),
        "branchSummary" => return branched(word(&members, "summary")?, timestamp),
        _ => {}
    }
    serde_json::from_value(Value::Object(members)).ok()
}

/// What the model reads instead of what was summed up.
pub(super) fn compacted(summary: &str, timestamp: u64) -> AgentMessage {
    let text = format!("{COMPACTED}{summary}{SUMMARY_END}");
    AgentMessage::User(UserMessage::text(text, timestamp))
}

/// What the model reads of a branch that was left; `None` when nothing was
/// noted of it.
pub(super) fn branched(summary: &str, timestamp: u64) -> Option<AgentMessage> {
    let text = format!("{BRANCHED}{summary}{SUMMARY_END}");
    (!summary.is_empty()).then(|| AgentMessage::User(UserMessage::text(text, timestamp)))
}

/// A note in the place of a user's message.
pub(super) fn user(content: UserContent, timestamp: u64) -> AgentMessage {
    AgentMessage::User(UserMessage { content, timestamp, extra: Map::new() })
}

/// A command that the user ran, with what it printed.
fn command(members: &Map<String, Value>, timestamp: u64) -> Option<AgentMessage> {
    if members.get("excludeFromContext") == Some(&Value::Bool(true)) {
        return None;
    }
    let mut text = format!("Ran `{}`\n", word(members, "command")?);
    match word(members, "output").filter(|output| !output.is_empty()) {
        Some(output) => text.extend(["```\n", output, "\n```"]),
        None => text.push_str("(no output)"),
    }
    Some(AgentMessage::User(UserMessage::text(text, timestamp)))
}

/// Gives an answer the members of one from the gateway where it lacks them.
fn assistant(members: &mut Map<String, Value>) {
    blocks(members);
    let usual = serde_json::to_value(AssistantMessage::from_gateway("", 0));
    let Ok(Value::Object(usual)) = usual else { return };
    for (name, value) in usual {
        let given = members.get(&name);
        let fits = match name.as_str() {
            "usage" => reads::<Usage>(given),
            "stopReason" => reads::<StopReason>(given),
            "api" | "provider" | "model" => given.is_some_and(Value::is_string),
            _ => given.is_some(),
        };
        if !fits {
            members.insert(name, value);
        }
    }
    for name in ["errorMessage", "responseId"] {
        if members.get(name).is_some_and(|value| !value.is_string()) {
            members.remove(name);
        }
    }
}

fn tool_result(members: &mut Map<String, Value>) {
    blocks(members);
    if word(members, "toolName").is_none() {
        members.insert("toolName".into(), "".into());
    }
    if members.get("isError").is_some_and(|flag| !flag.is_boolean()) {
        members.remove("isError");
    }
}

/// Content as blocks: a plain string is one, what is neither is none.
fn blocks(members: &mut Map<String, Value>) {
    let content = match members.remove("content") {
        Some(Value::Array(blocks)) => Value::Array(blocks),
        Some(Value::String(text)) => json!([ContentBlock::text(text)]),
        _ => json!([]),
    };
    members.insert("content".into(), content);
}

fn reads<T: serde::de::DeserializeOwned>(value: Option<&Value>) -> bool {
    value.is_some_and(|value| reading::of::<T>(value).is_ok())
}

fn word<'m>(members: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    members.get(name)?.as_str()
}

/// Milliseconds, of a number that may have a fraction.
fn millis(value: Option<&Value>) -> u64 {
    let Some(Value::Number(number)) = value else { return 0 };
    let text = number.to_string();
    text.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(message_json: &str) -> Option<String> {
        message(message_json).map(|message| message.text())
    }

    #[test]
    fn halves_of_characters_cost_only_themselves() {
        for (written, read) in [
            (r#"{"role":"user","content":"a\ud83d"}"#, "a\u{fffd}"),
            (r#"{"role":"user","content":"\ude00b"}"#, "\u{fffd}b"),
            (r#"{"role":"user","content":"\ud83d\ude00 \ud83dx\\ud83d"}"#, "😀 \u{fffd}x\\ud83d"),
            (r#"{"role":"user","content":"\uD83D\uD83D\uDE00"}"#, "\u{fffd}😀"),
        ] {
            assert_eq!(text(written).as_deref(), Some(read), "{written}");
        }
        assert!(value(r#"{"torn":"\ud8"#).is_none());
    }

    #[test]
    fn thin_messages_are_filled() {
        for (written, read) in [
            (r#"{"role":"assistant","content":"ho"}"#, "ho"),
            (
                r#"{"role":"assistant","content":[{"type":"text","text":"ho"}],"api":"x","provider":"p",
                "model":null,"usage":{"input":"many"},"stopReason":"pause","timestamp":1.5}"#,
                "ho",
            ),
            (r#"{"role":"user","content":"hi","timestamp":1795318528398.25}"#, "hi"),
            (r#"{"role":"toolResult","toolCallId":"c","content":"out","isError":0}"#, "out"),
        ] {
            assert_eq!(text(written).as_deref(), Some(read), "{written}");
        }
        let user = message(r#"{"role":"user","content":"hi","timestamp":1795318528398.25}"#);
        assert_eq!(user.unwrap().timestamp(), 1_795_318_528_398);
        assert_eq!(text(r#"{"role":"toolResult","content":"whose?"}"#), None);
    }

    #[test]
    fn roles_of_the_session_manager_are_what_a_user_says() {
        for (written, read) in [
            (r#"{"role":"custom","customType":"x","content":"note"}"#, "note"),
            (r#"{"role":"bashExecution","command":"ls","output":"a"}"#, "Ran `ls`\n```\na\n```"),
            (r#"{"role":"bashExecution","command":"true","output":""}"#, "Ran `true`\n(no output)"),
        ] {
            assert!(matches!(message(written), Some(AgentMessage::User(_))));
            assert_eq!(text(written).as_deref(), Some(read), "{written}");
        }
        let hidden = r#"{"role":"bashExecution","command":"ls","excludeFromContext":true}"#;
        assert_eq!(message(hidden), None);
        assert_eq!(message(r#"{"role":"branchSummary","summary":""}"#), None);
        let summary = text(r#"{"role":"compactionSummary","summary":"S"}"#).unwrap();
        assert!(summary.ends_with("<summary>\nS\n</summary>"), "{summary}");
        assert_eq!(message(r#"{"role":"narrator","content":"x"}"#), None);
    }
}
