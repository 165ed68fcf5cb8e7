//! Items of responses that a request only names: clients of OpenAI take whoever answers for
//! somebody who keeps them.
//!
//! Promises: what a response has said stands where its item is named, for 24 hours, while it is
//! one of the newest 10 000 runs and its session has not been reset or removed; an item that is
//! not to be had is still an answer there, whose words are wanting, and is refused by its place
//! where they would be told. Must not: keep anything itself.

use std::collections::{HashMap, HashSet};
use std::io;

use axum::response::Response;
use serde_json::Value;

use super::{ID, unreadable};
use crate::agent::{Family, Speech};
use crate::http::openai::outcome::{NOTHING, with_files};
use crate::http::openai::read::{At, Wrong};
use crate::protocol::message::{AgentMessage, ToolCall};
use crate::registry::Ctx;
use crate::sessions::{Entries, EntryBody, EntryPlace, SessionError, SessionKey, StoredTranscript};
use crate::support::json;

/// What the ids of messages begin with.
const MESSAGE: &str = "msg_";
/// What those of calls begin with.
const CALL: &str = "fc_";
/// What those of thoughts begin with, which are not looked at.
const THOUGHT: &str = "rs_";
/// Most items that a request may name: each of them is looked up.
const NAMED_MAX: usize = 1000;

const UNKNOWN: &str =
    "no item is kept for this id; send it whole, as clients do with `store: false`";
/// What stands for its words, where nobody is told of them.
const LOST: &str = "[an answer that is not kept]";
const TOO_LONG: &str = "what is named is longer than a request may be";

/// The id of the message of a response.
pub fn message_id(response: &str) -> String {
    format!("{MESSAGE}{}", own_part(response))
}

/// The id of a call with which a response ends.
pub fn call_id(response: &str, call: &str) -> String {
    format!("{CALL}{}_{call}", own_part(response))
}

fn own_part(response: &str) -> &str {
    response.strip_prefix(ID).unwrap_or(response)
}

/// The response whose item has this id, and which of its calls that is; else it is its
/// message.
fn owner(id: &str) -> Option<(String, Option<&str>)> {
    if let Some(own) = id.strip_prefix(MESSAGE) {
        return Some((format!("{ID}{own}"), None));
    }
    let (own, call) = id.strip_prefix(CALL)?.split_once('_')?;
    Some((format!("{ID}{own}"), Some(call)))
}

/// What a response has said.
#[derive(Debug, Default)]
struct Kept {
    speech: Speech,
    calls: Vec<ToolCall>,
}

impl Kept {
    /// Adds what a message of its transcript says.
    fn hear(&mut self, message: &AgentMessage) {
        self.speech.hear(message);
        if let AgentMessage::Assistant(answer) = message {
            self.calls = answer.tool_calls().cloned().collect();
        }
    }

    /// One of its calls, or its message.
    fn item(&self, call: Option<&str>) -> Option<Value> {
        let Some(call) = call else {
            let text = self.speech.text.clone();
            // No form is written down that was asked for: what is JSON is left as it was told.
            let text = if is_json(&text) { text } else { with_files(text, &self.speech.files) };
            let has_nothing = text.is_empty() && self.calls.is_empty();
            let text = if has_nothing { NOTHING.to_owned() } else { text };
            return Some(json!({"type": "message", "role": "assistant", "content": text}));
        };
        let call = self.calls.iter().find(|made| made.id == call)?;
        Some(json!({"type": "function_call", "call_id": call.id, "name": call.name,
            "arguments": call.arguments.to_string()}))
    }
}

/// Whether a text is an object or a list of JSON, which a program reads.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
        && matches!(serde_json::from_str(text), Ok(Value::Object(_) | Value::Array(_)))
}

/// Puts into `input` what it only names. All of that may be as long as a body. Returns the
/// refusal of the first item that is not to be had, for a session that has no memory of its own
/// of what was said before.
///
/// # Errors
/// The answer when something cannot be looked up, or it is too much.
pub async fn put_in(cx: &Ctx, body: &mut Value, max_bytes: u64) -> Result<Option<Wrong>, Response> {
    let named = named(&At::root(body).member("input")).map_err(|wrong| wrong.answer())?;
    if named.is_empty() {
        return Ok(None);
    }
    let responses = named.iter().filter_map(|(_, id)| Some(owner(id)?.0)).collect();
    let kept = kept(cx, responses).await.map_err(|error| unreadable(&error))?;
    let Some(Value::Array(items)) = body.get_mut("input") else { return Ok(None) };
    let (mut left, mut unknown) = (max_bytes, None);
    for (index, id) in named {
        let wrong = |rule: &str| Wrong(format!("input.{index}: {rule}"));
        let item = whole(&id, &kept).unwrap_or_else(|| {
            unknown.get_or_insert_with(|| wrong(UNKNOWN));
            json!({"type": "message", "role": "assistant", "content": LOST})
        });
        let length = u64::try_from(item.to_string().len()).unwrap_or(u64::MAX);
        left = left.checked_sub(length).ok_or_else(|| wrong(TOO_LONG).answer())?;
        if let Some(place) = items.get_mut(index) {
            *place = item;
        }
    }
    Ok(unknown)
}

/// Where items are only named, and their ids.
fn named(input: &At<'_>) -> Result<Vec<(usize, String)>, Wrong> {
    let mut named = Vec::new();
    if !input.value().is_array() {
        return Ok(named);
    }
    for (index, item) in input.items()?.iter().enumerate() {
        if item.member("type").value() == "item_reference" {
            named.push((index, item.member("id").required_text()?.to_owned()));
        }
    }
    if named.len() > NAMED_MAX {
        return Err(input.wrong(&format!("may name at most {NAMED_MAX} items")));
    }
    Ok(named)
}

/// The item with this id.
fn whole(id: &str, kept: &HashMap<String, Kept>) -> Option<Value> {
    if id.starts_with(THOUGHT) {
        return Some(json!({"type": "reasoning"}));
    }
    let (response, call) = owner(id)?;
    kept.get(&response)?.item(call)
}

/// What these responses have said, as far as they are known.
async fn kept(cx: &Ctx, responses: HashSet<String>) -> Result<HashMap<String, Kept>, SessionError> {
    let (runs, sessions) = (&cx.services.runs, &cx.services.sessions);
    let mut kept = HashMap::new();
    // By their sessions, each of which is read once; with the ends of their runs.
    let mut elsewhere: HashMap<String, HashMap<String, u64>> = HashMap::new();
    for id in responses {
        let report = runs.remembered(Family::Agent, &id);
        if let Some(report) = report.filter(|it| it.progress.started_at.is_some()) {
            let progress = &report.progress;
            kept.insert(id, Kept { speech: progress.speech(), calls: progress.handed.clone() });
            continue;
        }
        let Some(run) = runs.parts().store.run(&id).await? else { continue };
        if run.scope == Family::Agent.as_str()
            && let Some(ended_at) = run.ended_at
        {
            elsewhere.entry(run.session_key).or_default().insert(id, ended_at);
        }
    }
    for (key, wanted) in elsewhere {
        let key = SessionKey::from_canonical(key);
        let Some(entry) = sessions.entry(&key).await? else { continue };
        let read = move |transcript: StoredTranscript<'_>| {
            told(transcript.entries(EntryPlace::default())?, &wanted)
        };
        kept.extend(sessions.read_transcript(&key, &entry, read).await?);
    }
    Ok(kept)
}

/// What a transcript tells of these responses, of each until its run ended. All that models say
/// until then is of it, also after messages that went into the run.
fn told(entries: Entries<'_>, ends: &HashMap<String, u64>) -> io::Result<HashMap<String, Kept>> {
    let (mut kept, mut open) = (HashMap::<String, Kept>::new(), Vec::<(&String, u64)>::new());
    for entry in entries {
        let entry = entry?;
        open.retain(|(_, ended_at)| entry.timestamp <= *ended_at);
        let EntryBody::Message(message) = entry.body else { continue };
        match &message {
            AgentMessage::User(user) => {
                let run = user.extra.get("idempotencyKey").and_then(Value::as_str);
                if let Some((run, ended_at)) = run.and_then(|run| ends.get_key_value(run)) {
                    kept.insert(run.clone(), Kept::default());
                    open.push((run, *ended_at));
                }
            }
            AgentMessage::Assistant(answer) if answer.is_from_gateway() => {}
            AgentMessage::Assistant(_) | AgentMessage::ToolResult(_) => {
                for (run, _) in &open {
                    if let Some(said) = kept.get_mut(*run) {
                        said.hear(&message);
                    }
                }
            }
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_items_lead_to_their_response() {
        let response = "resp_3f0c1d52-5f5e-4c1c-9d3e-0a4b7f1f6a11";
        assert_eq!(owner(&message_id(response)), Some((response.to_owned(), None)));
        let call = call_id(response, "call_1|fc_2");
        assert_eq!(owner(&call), Some((response.to_owned(), Some("call_1|fc_2"))));
        for id in ["", "resp_1", "fc_1", "x"] {
            assert_eq!(owner(id), None, "{id}");
        }
    }

    #[test]
    fn what_is_named_is_found_by_its_place() {
        let body = json!({"input": [{"role": "user", "content": "x"},
            {"type": "item_reference", "id": "msg_1"}]});
        let input = At::root(&body).member("input");
        assert_eq!(named(&input).unwrap(), [(1, "msg_1".to_owned())]);
        let body = json!({"input": [{"type": "item_reference"}]});
        let told = named(&At::root(&body).member("input")).unwrap_err();
        assert_eq!(told.0, "input.0.id: must be a string");
        let many: Vec<_> =
            std::iter::repeat_n(json!({"type": "item_reference", "id": "msg_1"}), 1001).collect();
        let body = json!({"input": many});
        let told = named(&At::root(&body).member("input")).unwrap_err();
        assert_eq!(told.0, "input: may name at most 1000 items");
    }
}
