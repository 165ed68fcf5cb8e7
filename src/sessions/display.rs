//! How a stored message is shown to clients.
//!
//! Promises: nothing secret or heavy leaves (signatures, tool details, image
//! data, prices by part), no message of a list is larger than [`MESSAGE_MAX`],
//! and one that was shortened says so. Works on JSON, so that messages of
//! shapes that we do not know are shown as well.

use serde_json::{Map, Value};

use super::directives;
use super::media::{MEDIA_MEMBER, StoredMedia};
use super::size::{json_size, size_at_most};
use crate::protocol::message::AgentMessage;
use crate::support::json;

/// Characters of a text that are shown, unless the client or the configuration
/// says otherwise.
pub const DEFAULT_MAX_CHARS: usize = 8_000;

/// Largest message, in bytes of JSON.
const MESSAGE_MAX: usize = 128 * 1024;

/// What stands for a message that is larger.
pub const OVERSIZED: &str = "[chat.history omitted: message too large]";

/// What follows a text that was cut.
pub const TRUNCATED: &str = "\n...(truncated)...";

/// What a system tells the model about where a message comes from
/// (`systemProvenanceReceipt` of `chat.send`); people do not see it.
pub const RECEIPT_MEMBER: &str = "systemProvenanceReceipt";

/// `provenance.kind` of what a heartbeat asks, and of an answer that says nothing: nobody
/// need see them.
pub const HEARTBEAT_KIND: &str = "heartbeat";

/// `provenance.kind` of what a job asks.
pub const JOB_KIND: &str = "cron";

/// Usage members that clients see, in the recorded order.
const USAGE: &[&str] = &["input", "output", "totalTokens", "cacheRead", "cacheWrite"];

/// The display form of a message for `session.message`; `None` when clients do
/// not get to see it (a silent reply).
pub fn message_display(message: &AgentMessage, id: &str, seq: u64) -> Option<Value> {
    show(serde_json::to_value(message).ok()?, id, seq, &View::list(DEFAULT_MAX_CHARS))
}

/// A message that is not in its transcript yet, as one of many.
pub fn waiting_message(message: &AgentMessage, id: &str, max_chars: usize) -> Option<Value> {
    pending(message, id, &View::list(max_chars))
}

/// A message that is not in its transcript yet, with texts and pictures.
pub fn whole_message(message: &AgentMessage, id: &str, max_chars: usize) -> Option<Value> {
    pending(message, id, &View::whole(max_chars))
}

fn pending(message: &AgentMessage, id: &str, view: &View) -> Option<Value> {
    let mut shown = show(serde_json::to_value(message).ok()?, id, 0, view)?;
    if let Some(Value::Object(place)) = shown.get_mut("__openclaw") {
        place.shift_remove("seq");
        place.insert("pending".into(), json!(true));
    }
    Some(shown)
}

/// How much of a message is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// Characters of a text.
    pub max_chars: usize,
    /// Bytes of the whole message.
    pub max_bytes: usize,
    /// Whether pictures are in it.
    pub has_images: bool,
    /// Whether the run that a message began is named.
    pub has_run_id: bool,
}

impl View {
    /// One message of many.
    pub(super) const fn list(max_chars: usize) -> Self {
        Self { max_chars, max_bytes: MESSAGE_MAX, has_images: false, has_run_id: false }
    }

    /// One message that somebody asked for.
    pub(super) const fn whole(max_chars: usize) -> Self {
        Self { max_chars, max_bytes: usize::MAX, has_images: true, has_run_id: false }
    }
}

/// A message as it is stored, with its place in the transcript.
pub(super) fn raw(
    message: Value,
    id: &str,
    seq: u64,
    max_bytes: usize,
    has_run_id: bool,
) -> Option<Value> {
    let Value::Object(mut message) = message else { return None };
    if json_size(&message) > max_bytes {
        return Some(placeholder(&message, id, seq));
    }
    if !has_run_id && !is_cut_off(&message) {
        message.remove("idempotencyKey");
    }
    message.insert("__openclaw".into(), json!({ "id": id, "seq": seq }));
    Some(Value::Object(message))
}

/// The display form of a message, `None` if it is hidden.
pub(super) fn show(message: Value, id: &str, seq: u64, view: &View) -> Option<Value> {
    let Value::Object(mut message) = message else { return None };
    if is_hidden(&message) {
        return None;
    }
    let is_user = role(&message) == "user";
    message.remove("details");
    message.remove(RECEIPT_MEMBER);
    let run_id = if is_cut_off(&message) { None } else { message.shift_remove("idempotencyKey") };
    let run_id = run_id.filter(|_| is_user && view.has_run_id);
    reduce_usage(&mut message);
    let files = StoredMedia::of(&message);
    message.shift_remove(MEDIA_MEMBER);
    if is_user && is_of_session(&message) {
        strip_internal(&mut message);
    }
    let mut is_cut = false;
    match message.get_mut("content") {
        Some(Value::String(text)) => is_cut = show_text(text, is_user, view.max_chars),
        Some(Value::Array(blocks)) => {
            blocks.retain(|block| !is_empty_thought(block));
            is_cut = show_blocks(blocks, is_user, view);
            let pictures = files.iter().filter(|media| media.is_picture_apart());
            blocks.extend(pictures.map(StoredMedia::omitted));
        }
        _ => {}
    }
    StoredMedia::name_in(&mut message, &files);
    if size_at_most(&message) > view.max_bytes && json_size(&message) > view.max_bytes {
        return Some(placeholder(&message, id, seq));
    }
    let mut place = Map::from_iter([("id".to_owned(), json!(id)), ("seq".to_owned(), json!(seq))]);
    if is_cut {
        place.insert("truncated".into(), json!(true));
    }
    place.extend(run_id.map(|run_id| ("runId".to_owned(), run_id)));
    message.insert("__openclaw".into(), Value::Object(place));
    Some(Value::Object(message))
}

/// All texts of a message in display form, on lines of their own.
pub fn shown_text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The mark that stands where earlier messages were summed up.
pub(super) fn compaction(id: &str, seq: u64, timestamp: u64) -> Value {
    json!({
        "role": "system",
        "content": [{ "type": "text", "text": "Compaction" }],
        "timestamp": timestamp,
        "__openclaw": { "kind": "compaction", "id": id, "seq": seq },
    })
}

/// Whether this is what OpenClaw has kept of an answer that was stopped: it is shown with its
/// key, there as here.
fn is_cut_off(message: &Map<String, Value>) -> bool {
    message.contains_key("openclawAbort")
}

fn role(message: &Map<String, Value>) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

/// Whether another session says it.
pub(super) fn is_of_session(message: &Map<String, Value>) -> bool {
    is_kind(message, "inter_session")
}

/// Whether it is a part of a heartbeat that nobody need see.
pub(super) fn is_of_heartbeat(message: &Map<String, Value>) -> bool {
    is_kind(message, HEARTBEAT_KIND)
}

fn is_kind(message: &Map<String, Value>, wanted: &str) -> bool {
    let kind = message.get("provenance").and_then(|provenance| provenance.get("kind"));
    kind.is_some_and(|kind| kind == wanted)
}

/// Takes out what the other session says to the model only.
fn strip_internal(message: &mut Map<String, Value>) {
    match message.get_mut("content") {
        Some(Value::String(text)) => *text = directives::strip_internal(text),
        Some(Value::Array(blocks)) => {
            for text in blocks.iter_mut().filter_map(|block| block.get_mut("text")) {
                if let Value::String(text) = text {
                    *text = directives::strip_internal(text);
                }
            }
        }
        _ => {}
    }
}

/// Replies that say "nothing to say" stay in the transcript and out of sight.
/// A tool call beside them is shown: its result would have no beginning.
pub(super) fn is_hidden(message: &Map<String, Value>) -> bool {
    if role(message) != "assistant" || is_of_heartbeat(message) {
        return is_of_heartbeat(message);
    }
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let kind = |block: &Value| block.get("type").and_then(Value::as_str).map(str::to_owned);
            let kinds: Vec<_> = blocks.iter().filter_map(kind).collect();
            if kinds.iter().any(|kind| kind != "text" && kind != "thinking") {
                return false;
            }
            blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str)).collect()
        }
        _ => return false,
    };
    directives::is_silent(&text) || directives::is_heartbeat(&text)
}

/// Whether a block only keeps a place: a thought that its provider hid, in an answer that was
/// stopped before it was whole.
fn is_empty_thought(block: &Value) -> bool {
    let is = |member: &str, value: &str| block.get(member).is_some_and(|it| it == value);
    is("type", "thinking") && is("thinking", "") && block.get("thinkingSignature").is_none()
}

/// Answers whether something was cut.
fn show_blocks(blocks: &mut [Value], is_user: bool, view: &View) -> bool {
    let mut is_cut = false;
    for (index, block) in blocks.iter_mut().enumerate() {
        let Value::Object(block) = block else { continue };
        if block.get("type").and_then(Value::as_str) == Some("image") {
            if !view.has_images {
                omit_image(block);
            }
            continue;
        }
        block.remove("thinkingSignature");
        for member in ["text", "thinking"] {
            if let Some(Value::String(text)) = block.get_mut(member) {
                is_cut |= show_text(text, is_user && index == 0, view.max_chars);
            }
        }
    }
    is_cut
}

/// Answers whether it was cut.
fn show_text(text: &mut String, has_sent_at: bool, max_chars: usize) -> bool {
    if has_sent_at {
        *text = directives::strip_sent_at(text).to_owned();
    }
    if text.contains("[[") {
        *text = directives::strip(text);
    }
    if text.len() <= max_chars {
        return false;
    }
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return false };
    text.truncate(end);
    text.push_str(TRUNCATED);
    true
}

/// `{type:"image", data, mimeType}` or `{type:"image", source:{data, media_type}}`.
fn omit_image(block: &mut Map<String, Value>) {
    let held = |holder: &Map<String, Value>, kind: &str| {
        let data = holder.get("data")?.as_str()?.len();
        Some((data, holder.get(kind).cloned()))
    };
    let source = block.get("source").and_then(Value::as_object);
    let found = held(block, "mimeType").or_else(|| held(source?, "media_type"));
    let Some((bytes, mime_type)) = found else { return };
    *block = Map::from_iter([("type".to_owned(), json!("image"))]);
    if let Some(mime_type) = mime_type {
        block.insert("mimeType".into(), mime_type);
    }
    block.insert("omitted".into(), json!(true));
    block.insert("bytes".into(), json!(bytes));
}

fn reduce_usage(message: &mut Map<String, Value>) {
    let Some(Value::Object(usage)) = message.get_mut("usage") else { return };
    let mut shown = Map::new();
    for name in USAGE {
        if let Some(number) = usage.get(*name).filter(|value| value.is_number()) {
            shown.insert((*name).into(), number.clone());
        }
    }
    let total = usage.get("cost").and_then(|cost| cost.get("total")).and_then(Value::as_f64);
    if let Some(total) = total {
        // JavaScript writes a price of nothing as 0.
        let total = if total == 0.0 { json!(0) } else { json!(total) };
        shown.insert("cost".into(), json!({ "total": total }));
    }
    *usage = shown;
}

fn placeholder(message: &Map<String, Value>, id: &str, seq: u64) -> Value {
    json!({
        "role": message.get("role").cloned().unwrap_or_else(|| json!("assistant")),
        "timestamp": message.get("timestamp").cloned().unwrap_or_else(|| json!(0)),
        "content": [{ "type": "text", "text": OVERSIZED }],
        "__openclaw": { "id": id, "seq": seq, "truncated": true, "reason": "oversized" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(message: Value) -> Value {
        show(message, "e0f25e8a", 6, &View::list(DEFAULT_MAX_CHARS)).unwrap()
    }

    #[test]
    fn an_answer_looks_as_recorded() {
        let stored = json!({
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "w1 w2", "thinkingSignature": "secret"},
                {"type": "text", "text": "[[reply_to_current]]one"},
            ],
            "api": "openai-completions", "provider": "mock", "model": "mock-1",
            "usage": {"input": 4588, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 4589,
                "cost": {"input": 0.004_588, "output": 0.000_002, "cacheRead": 0, "cacheWrite": 0, "total": 0.00459}},
            "stopReason": "stop", "timestamp": 1, "responseId": "chatcmpl-mock-141",
        });
        let expected = concat!(
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"w1 w2"},"#,
            r#"{"type":"text","text":"one"}],"api":"openai-completions","provider":"mock","#,
            r#""model":"mock-1","usage":{"input":4588,"output":1,"totalTokens":4589,"cacheRead":0,"#,
            r#""cacheWrite":0,"cost":{"total":0.00459}},"stopReason":"stop","timestamp":1,"#,
            r#""responseId":"chatcmpl-mock-141","__openclaw":{"id":"e0f25e8a","seq":6}}"#,
        );
        assert_eq!(shown(stored).to_string(), expected);
    }

    #[test]
    fn users_see_their_own_words_and_sizes_of_images() {
        let stored = json!({"role": "user", "timestamp": 1, "content": [
            {"type": "text", "text": "[Sun 2026-11-22 03:35 UTC] look"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "image", "source": {"type": "base64", "data": "AA==", "media_type": "image/gif"}},
        ]});
        let content = json!([
            {"type": "text", "text": "look"},
            {"type": "image", "mimeType": "image/png", "omitted": true, "bytes": 4},
            {"type": "image", "mimeType": "image/gif", "omitted": true, "bytes": 4},
        ]);
        assert_eq!(shown(stored)["content"], content);
    }

    #[test]
    fn what_openclaw_kept_of_a_stopped_answer_has_its_key() {
        let mut message = json!({"role": "assistant", "content": [{"type": "text", "text": "a"}],
            "idempotencyKey": "r:assistant", "openclawAbort": {"aborted": true, "runId": "r"}});
        assert_eq!(shown(message.clone())["idempotencyKey"], "r:assistant");
        message.as_object_mut().unwrap().remove("openclawAbort");
        assert!(shown(message)["idempotencyKey"].is_null());
    }

    #[test]
    fn tool_details_are_left_out() {
        let stored = json!({"role": "toolResult", "content": [], "details": {"exitCode": 0}, "isError": false});
        let expected = json!({"role": "toolResult", "content": [], "isError": false,
            "__openclaw": {"id": "e0f25e8a", "seq": 6}});
        assert_eq!(shown(stored), expected);
    }

    #[test]
    fn texts_are_cut_by_characters() {
        let stored =
            json!({"role": "assistant", "content": [{"type": "text", "text": "ä".repeat(60)}]});
        let cut = show(stored.clone(), "x", 1, &View::list(50)).unwrap();
        assert_eq!(cut["content"][0]["text"], format!("{}\n...(truncated)...", "ä".repeat(50)));
        assert_eq!(cut["__openclaw"], json!({"id": "x", "seq": 1, "truncated": true}));
        let message: AgentMessage = serde_json::from_value(
            json!({"role": "user", "content": "ä".repeat(60), "timestamp": 1}),
        )
        .unwrap();
        let waiting = waiting_message(&message, "x", 50).unwrap();
        let place = json!({"id": "x", "truncated": true, "pending": true});
        assert_eq!(waiting["__openclaw"], place);
        let whole = show(stored, "x", 1, &View::list(60)).unwrap();
        assert_eq!(whole["__openclaw"], json!({"id": "x", "seq": 1}));
    }

    #[test]
    fn a_message_that_stays_large_is_replaced() {
        let blocks = vec![json!({"type": "text", "text": "x".repeat(7_000)}); 20];
        let cut = shown(json!({"role": "assistant", "timestamp": 5, "content": blocks}));
        let expected = json!({
            "role": "assistant", "timestamp": 5,
            "content": [{"type": "text", "text": "[chat.history omitted: message too large]"}],
            "__openclaw": {"id": "e0f25e8a", "seq": 6, "truncated": true, "reason": "oversized"},
        });
        assert_eq!(cut, expected);
    }

    #[test]
    fn silent_answers_are_hidden_and_silent_users_are_not() {
        let answer = |content: Value| {
            show(json!({"role": "assistant", "content": content}), "x", 1, &View::list(9))
        };
        assert_eq!(answer(json!("no_reply")), None);
        assert_eq!(answer(json!([{"type": "text", "text": "HEARTBEAT_OK"}])), None);
        assert!(answer(json!([])).is_some());
        let words = json!([{"type": "text", "text": "All is quiet. HEARTBEAT_OK"}]);
        assert!(answer(words.clone()).is_some(), "nobody asked whether");
        let quiet = json!({"role": "assistant", "content": words,
            "provenance": {"kind": "heartbeat"}});
        assert_eq!(show(quiet, "x", 1, &View::list(99)), None);
        let call = json!([{"type": "text", "text": "NO_REPLY"}, {"type": "toolCall", "id": "c"}]);
        assert!(answer(call).is_some());
        assert!(
            show(json!({"role": "user", "content": "NO_REPLY"}), "x", 1, &View::list(99)).is_some()
        );
    }

    #[test]
    fn pictures_that_are_only_files_are_shown_by_their_sizes() {
        let stored = json!({"role": "user", "content": [{"type": "text", "text": "look"}],
        "systemProvenanceReceipt": "for the model",
        "inboundMedia": [
            {"path": "/m/a.png", "mimeType": "image/png", "bytes": 3_000_001},
            {"path": "/m/b.png", "mimeType": "image/png", "bytes": 70, "inline": true},
            {"path": "/m/c.txt", "mimeType": "text/plain", "bytes": 9},
        ]});
        let content = json!([
            {"type": "text", "text": "look"},
            {"type": "image", "mimeType": "image/png", "omitted": true, "bytes": 4_000_004},
        ]);
        let shown = shown(stored);
        assert_eq!(shown["content"], content);
        assert!(shown.get("inboundMedia").is_none());
        assert_eq!(shown["MediaPath"], "/m/a.png");
        assert_eq!(shown["MediaPaths"], json!(["/m/a.png", "/m/b.png", "/m/c.txt"]));
        assert_eq!(shown["MediaType"], "image/png");
        assert_eq!(shown["MediaTypes"], json!(["image/png", "image/png", "text/plain"]));
        assert!(shown.get("systemProvenanceReceipt").is_none());
    }

    #[test]
    fn a_message_that_is_asked_for_is_whole() {
        let long = "x".repeat(200_000);
        let stored = json!({"role": "user", "content": [
            {"type": "text", "text": long}, {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        ]});
        let shown = show(stored.clone(), "x", 1, &View::whole(usize::MAX)).unwrap();
        assert_eq!(shown["content"], stored["content"]);
        assert_eq!(shown["__openclaw"], json!({"id": "x", "seq": 1}));
    }
}
