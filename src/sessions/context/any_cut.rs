//! Any transcript, cut at any byte: it is read, what the model gets of it is
//! what providers accept, and it goes on growing.

use std::collections::HashSet;
use std::fs::{self, File};

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::providers::testing::wire;
use crate::sessions::history::{HistoryOptions, newest};
use crate::sessions::transcript::testing::{Appended, Opened};
use crate::sessions::transcript::{TranscriptFormat, position};
use crate::support::json;

/// What one line may be.
#[derive(Debug, Clone)]
enum Piece {
    User { text: String, has_image: bool },
    Assistant { text: String, calls: Vec<u8>, stop: usize },
    Result { call: u8, text: String },
    Compaction { keeps: Keeps },
    BranchSummary,
    Note,
    Setting,
    Foreign(usize),
    Rubbish(Vec<u8>),
}

/// From where on a summary keeps messages.
#[derive(Debug, Clone)]
enum Keeps {
    Entry(prop::sample::Index),
    Itself,
    Unknown,
}

/// On what a line hangs.
#[derive(Debug, Clone)]
enum Hangs {
    Last,
    Entry(prop::sample::Index),
    Root,
    Unknown,
}

const STOPS: [&str; 6] = ["stop", "toolUse", "length", "error", "aborted", "newfangled"];
const FOREIGN: [&str; 9] = [
    r#"{"role":"custom","customType":"x","content":"note"}"#,
    r#"{"role":"bashExecution","command":"ls","output":"a"}"#,
    r#"{"role":"user","content":"half \ud83d","timestamp":1.5}"#,
    r#"{"role":"assistant","content":"a plain string"}"#,
    r#"{"role":"assistant","content":[{"type":"newfangled"},{"type":"toolCall","id":"","name":"x","arguments":{}}]}"#,
    r#"{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"x","arguments":"{\"torn"}],"stopReason":"toolUse"}"#,
    r#"{"role":"narrator","content":"x"}"#,
    r#"{"role":"user","content":[]}"#,
    "null",
];

fn piece() -> impl Strategy<Value = Piece> {
    let text = || {
        prop_oneof![Just(String::new()), Just(" \n".to_owned()), "[a-z]{1,12}", "[ä€😀\\\\\"]{1,4}"]
    };
    let keeps = prop_oneof![
        3 => any::<prop::sample::Index>().prop_map(Keeps::Entry),
        1 => Just(Keeps::Itself),
        1 => Just(Keeps::Unknown),
    ];
    prop_oneof![
        4 => (text(), any::<bool>()).prop_map(|(text, has_image)| Piece::User { text, has_image }),
        5 => (text(), vec(0..4_u8, 0..4), 0..STOPS.len())
            .prop_map(|(text, calls, stop)| Piece::Assistant { text, calls, stop }),
        5 => (0..4_u8, text()).prop_map(|(call, text)| Piece::Result { call, text }),
        1 => keeps.prop_map(|keeps| Piece::Compaction { keeps }),
        1 => Just(Piece::BranchSummary),
        1 => Just(Piece::Note),
        1 => Just(Piece::Setting),
        1 => (0..FOREIGN.len()).prop_map(Piece::Foreign),
        1 => vec(any::<u8>(), 0..40).prop_map(Piece::Rubbish),
    ]
}

fn hangs() -> impl Strategy<Value = Hangs> {
    prop_oneof![
        12 => Just(Hangs::Last),
        2 => any::<prop::sample::Index>().prop_map(Hangs::Entry),
        1 => Just(Hangs::Root),
        1 => Just(Hangs::Unknown),
    ]
}

fn message_of(piece: &Piece) -> Option<String> {
    let usage = json!({"input": 1, "output": 1});
    Some(match piece {
        Piece::User { text, has_image: false } => {
            json!({"role": "user", "content": text, "timestamp": 1}).to_string()
        }
        Piece::User { text, has_image: true } => json!({"role": "user", "timestamp": 1, "content": [
            {"type": "text", "text": text}, {"type": "image", "data": "AA==", "mimeType": "image/png"}]})
        .to_string(),
        Piece::Assistant { text, calls, stop } => {
            let call = |id: &u8| json!({"type": "toolCall", "id": format!("c{id}"), "name": "read",
                "arguments": {"n": id}});
            let content: Vec<Value> = std::iter::once(json!({"type": "text", "text": text}))
                .chain(calls.iter().map(call))
                .collect();
            json!({"role": "assistant", "content": content, "api": "openai-completions",
                "provider": "mock", "model": "mock-1", "usage": usage, "stopReason": STOPS[*stop],
                "timestamp": 2})
            .to_string()
        }
        Piece::Result { call, text } => json!({"role": "toolResult", "toolCallId": format!("c{call}"),
            "toolName": "read", "content": [{"type": "text", "text": text}], "isError": false,
            "timestamp": 3})
        .to_string(),
        Piece::Foreign(which) => FOREIGN[*which].to_owned(),
        _ => return None,
    })
}

/// A transcript: its format, whether it has its header, how its lines end, and
/// what is in them.
#[derive(Debug, Clone)]
struct Plan {
    is_bare: bool,
    has_header: bool,
    newline: &'static str,
    lines: Vec<(Piece, Hangs)>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let newline = prop_oneof![5 => Just("\n"), 1 => Just("\r\n")];
    let header = prop_oneof![9 => Just(true), 1 => Just(false)];
    (any::<bool>(), header, newline, vec((piece(), hangs()), 0..14)).prop_map(
        |(is_bare, has_header, newline, lines)| Plan { is_bare, has_header, newline, lines },
    )
}

fn write(plan: &Plan) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |line: &[u8]| {
        bytes.extend_from_slice(line);
        bytes.extend_from_slice(plan.newline.as_bytes());
    };
    if plan.has_header && !plan.is_bare {
        add(br#"{"type":"session","version":3,"id":"s","timestamp":"2026-11-22T03:35:28.398Z","cwd":"/w"}"#);
    }
    let mut ids: Vec<String> = Vec::new();
    for (number, (piece, hangs)) in plan.lines.iter().enumerate() {
        if let Piece::Rubbish(rubbish) = piece {
            add(rubbish);
            continue;
        }
        let message = message_of(piece);
        if plan.is_bare
            && let Some(message) = &message
        {
            add(message.as_bytes());
            continue;
        }
        let id = format!("{number:08x}");
        let pick = |index: &prop::sample::Index| (!ids.is_empty()).then(|| index.get(&ids).clone());
        let parent = match hangs {
            Hangs::Last => ids.last().cloned(),
            Hangs::Entry(index) => pick(index),
            Hangs::Root => None,
            Hangs::Unknown => Some("ffffffff".into()),
        };
        let mut entry =
            json!({"type": "message", "id": id, "timestamp": "2026-11-22T03:35:28.398Z"});
        if !plan.is_bare {
            entry["parentId"] = parent.into();
        }
        match piece {
            Piece::Compaction { keeps } => {
                entry["type"] = "compaction".into();
                entry["summary"] = "S".into();
                entry["firstKeptEntryId"] = match keeps {
                    Keeps::Entry(index) => pick(index).into(),
                    Keeps::Itself => id.clone().into(),
                    Keeps::Unknown => "ffffffff".into(),
                };
            }
            Piece::BranchSummary => {
                entry["type"] = "branch_summary".into();
                entry["summary"] = "B".into();
            }
            Piece::Note => {
                entry["type"] = "custom_message".into();
                entry["content"] = "N".into();
            }
            Piece::Setting => entry["type"] = "model_change".into(),
            _ => {}
        }
        let mut line = entry.to_string();
        if let Some(message) = message {
            line.pop();
            line.push_str(",\"message\":");
            line.push_str(&message);
            line.push('}');
        }
        add(line.as_bytes());
        ids.push(id);
    }
    bytes
}

fn strings(value: &Value, list: &str, name: &str) -> Vec<String> {
    let items = value[list].as_array().into_iter().flatten();
    items.filter_map(|item| item[name].as_str().map(str::to_owned)).collect()
}

/// What Anthropic refuses.
fn check_anthropic(messages: &[Value]) {
    assert!(messages.first().is_none_or(|first| first["role"] == "user"), "{messages:?}");
    let mut open: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for message in messages {
        let results = strings(message, "content", "tool_use_id");
        if message["role"] == "user" {
            assert_eq!(results, open, "the results of all calls, and only those: {messages:?}");
        } else {
            assert!(results.is_empty() && open.is_empty(), "{messages:?}");
        }
        let is_call = |block: &&Value| block["type"] == "tool_use";
        let calls = message["content"].as_array().into_iter().flatten().filter(is_call);
        open = calls.map(|call| call["id"].as_str().unwrap().to_owned()).collect();
        assert!(open.iter().all(|id| seen.insert(id.clone())), "an id twice: {messages:?}");
        for block in message["content"].as_array().into_iter().flatten() {
            let is_empty = block["text"].as_str().is_some_and(|text| text.trim().is_empty());
            assert!(!is_empty, "{messages:?}");
        }
        let content = &message["content"];
        let has_content = content.as_array().map_or_else(
            || content.as_str().is_some_and(|text| !text.trim().is_empty()),
            |blocks| !blocks.is_empty(),
        );
        assert!(has_content, "{messages:?}");
    }
    assert!(open.is_empty(), "calls without results: {messages:?}");
}

/// What servers of the `OpenAI` API refuse.
fn check_openai(messages: &[Value]) {
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            assert_eq!(open.first().map(String::as_str), Some(id), "{messages:?}");
            open.remove(0);
            continue;
        }
        assert!(open.is_empty(), "calls without results: {messages:?}");
        open = strings(message, "tool_calls", "id");
        let is_empty = message["content"].as_str().is_none_or(str::is_empty)
            && message["content"].as_array().is_none_or(Vec::is_empty);
        assert!(!is_empty || !open.is_empty(), "an empty message: {messages:?}");
    }
    assert!(open.is_empty(), "calls without results: {messages:?}");
}

fn check(messages: &[AgentMessage]) {
    check_anthropic(&wire("anthropic-messages", messages));
    check_openai(&wire("openai-completions", messages));
}

/// Reads the file as nobody who knew it before.
fn read_anew(path: &std::path::Path) -> (Vec<AgentMessage>, Vec<Value>, Position) {
    let file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let end = position(&file, length, &Position::default()).unwrap();
    let context = read(&file, &end).unwrap().into_iter().map(|entry| entry.message).collect();
    let shown = newest(&file, &end, HistoryOptions::default()).unwrap();
    (context, shown, end)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn whatever_is_left_of_a_transcript_can_go_on(plan in plan(), cut in any::<prop::sample::Index>()) {
        let whole = write(&plan);
        let left = &whole[..cut.index(whole.len() + 1)];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        fs::write(&path, left).unwrap();
        let (before, shown_before, end) = read_anew(&path);
        check(&before);

        let format = if plan.is_bare { TranscriptFormat::Messages } else { TranscriptFormat::OpenClaw };
        let mut file = Opened::new(&path, format, end.clone());
        for (number, text) in ["next", "and then"].into_iter().enumerate() {
            let Appended { seq, position } = file.say(text);
            prop_assert_eq!(seq, end.messages + number as u64 + 1);
            let now = fs::read(&path).unwrap();
            prop_assert!(now.starts_with(left), "earlier bytes were changed");
            let (context, shown, found) = read_anew(&path);
            prop_assert_eq!(&found, &position, "who goes on knows the end as who reads anew");
            check(&context);
            prop_assert_eq!(context.last().unwrap().text(), text);
            // What could be read before is still there, and before what is new.
            prop_assert_eq!(context.len(), before.len() + number + 1);
            prop_assert_eq!(&context[..before.len()], &before[..]);
            prop_assert_eq!(shown.len(), shown_before.len() + number + 1);
            prop_assert_eq!(&shown.last().unwrap()["content"][0]["text"], text);
        }
        file.sum_up("all of it");
        file.say("last");
        let (context, _, _) = read_anew(&path);
        check(&context);
        prop_assert_eq!(context.len(), 2);
        prop_assert!(context[0].text().contains("all of it"));
    }
}
