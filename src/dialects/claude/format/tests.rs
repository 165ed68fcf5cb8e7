//! Lines and frames against the examples of the protocol's document, and against
//! what Claude Code 2.1.62 writes (`shapes.json`, noted by hand from a run of it).

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, StopReason, ToolResultMessage, Usage,
    UserContent, UserMessage,
};
use crate::sessions::{EntryBody, TranscriptEntry};
use crate::support::json;

const SESSION: &str = "7afc3e49-d4dd-410a-8fc2-8d26cf6e1f80";
/// Members of a task's result.
const WAITED_FOR: &str = "canReadOutputFile:bool, content:[{type:str, text:str}], \
                          totalDurationMs:num, totalTokens:num, totalToolUseCount:num";
const NOW: u64 = 1_795_318_528_398;

fn facts() -> Arc<SessionFacts> {
    Arc::new(SessionFacts::new(SESSION, "/w"))
}

fn entry(id: &str, message: AgentMessage) -> TranscriptEntry {
    TranscriptEntry { id: id.into(), timestamp: NOW, body: EntryBody::Message(message) }
}

fn user(id: &str, text: &str) -> TranscriptEntry {
    entry(id, AgentMessage::User(UserMessage::text(text, NOW)))
}

fn assistant(id: &str, content: Vec<ContentBlock>, stop_reason: StopReason) -> TranscriptEntry {
    let usage = Usage { input: 245, output: 12, cache_read: 17070, ..Usage::default() };
    let message = AssistantMessage {
        content,
        api: "anthropic-messages".into(),
        provider: "anthropic".into(),
        model: "claude-sonnet-4-5".into(),
        usage,
        stop_reason,
        error_message: None,
        ..AssistantMessage::from_gateway("", NOW)
    };
    entry(id, AgentMessage::Assistant(message))
}

fn failed(id: &str, error: &str) -> TranscriptEntry {
    let mut failed = assistant(id, vec![], StopReason::Error);
    if let EntryBody::Message(AgentMessage::Assistant(message)) = &mut failed.body {
        message.error_message = Some(error.into());
    }
    failed
}

fn result(id: &str, call: &str, tool: &str, text: &str, details: Value) -> TranscriptEntry {
    let message = ToolResultMessage {
        tool_call_id: call.into(),
        tool_name: tool.into(),
        content: vec![ContentBlock::text(text)],
        details: Some(details).filter(|details| !details.is_null()),
        is_error: false,
        timestamp: NOW,
        extra: Map::new(),
    };
    entry(id, AgentMessage::ToolResult(message))
}

fn failing(mut result: TranscriptEntry) -> TranscriptEntry {
    if let EntryBody::Message(AgentMessage::ToolResult(message)) = &mut result.body {
        message.is_error = true;
    }
    result
}

fn compaction(id: &str) -> TranscriptEntry {
    let body = EntryBody::Compaction { summary: "S".into(), tokens_before: 21 };
    TranscriptEntry { id: id.into(), timestamp: NOW, body }
}

fn call(id: &str, tool: &str, arguments: Value) -> ContentBlock {
    ContentBlock::tool_call(id, tool, arguments)
}

fn lines(entries: &[TranscriptEntry]) -> Vec<Value> {
    let mut format = Format::new(facts(), None);
    entries.iter().flat_map(|entry| format.push(entry)).map(|line| line.value).collect()
}

/// The paths of all members, without the names of a tool's own arguments.
fn members(value: &Value) -> BTreeSet<String> {
    fn walk(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    let path = format!("{path}.{name}");
                    if !path.ends_with("input") {
                        walk(value, &path, found);
                    }
                    found.insert(path);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| walk(value, path, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    walk(value, "", &mut found);
    found
}

/// Types and order of members: `{a:str, b:[{c:num}]}`.
fn shape(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(_) => "num".into(),
        Value::String(_) => "str".into(),
        Value::Array(list) => format!("[{}]", list.first().map(shape).unwrap_or_default()),
        Value::Object(object) => {
            let members: Vec<_> =
                object.iter().map(|(name, value)| format!("{name}:{}", shape(value))).collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}

/// Every kind of line, with a name for it.
fn all_kinds() -> Vec<(&'static str, Value)> {
    let read = call("t2", "read", json!({"path": "/w/a.txt"}));
    let png = ContentBlock::image("AAAA", "image/png");
    let picture = UserContent::Blocks(vec![ContentBlock::text("look"), png.clone()]);
    let mut seen = result("18", "t7", "read", "Read image file", Value::Null);
    if let EntryBody::Message(AgentMessage::ToolResult(message)) = &mut seen.body {
        message.content = vec![png];
    }
    let edit = json!({"path": "/w/a", "edits": [{"oldText": "two", "newText": "zwei"}]});
    let entries = [
        (vec!["user-first"], user("01", "hi")),
        (
            vec!["thinking", "text", "tool-use", "tool-use-last"],
            assistant(
                "02",
                vec![
                    ContentBlock::thinking("hm"),
                    ContentBlock::text("so"),
                    call("t1", "exec", json!({"command": "echo hi"})),
                    read,
                ],
                StopReason::ToolUse,
            ),
        ),
        (vec!["bash"], result("03", "t1", "exec", "hi", json!({"aggregated": "hi"}))),
        (vec!["read"], result("04", "t2", "read", "one\ntwo\n", Value::Null)),
        (vec!["text-last"], assistant("05", vec![ContentBlock::text("so")], StopReason::Stop)),
        (vec!["user"], user("06", "more")),
        (
            vec!["tool-use-edit"],
            assistant("07", vec![call("t3", "edit", edit)], StopReason::ToolUse),
        ),
        (
            vec!["edit"],
            result("08", "t3", "edit", "done", json!({"diff": " 1 one\n-2 two\n+2 zwei"})),
        ),
        (vec!["failure"], failed("09", "401 no")),
        (
            vec!["user-picture"],
            entry(
                "10",
                AgentMessage::User(UserMessage { content: picture, ..UserMessage::text("", NOW) }),
            ),
        ),
        (
            vec!["partial", "interrupted"],
            assistant("11", vec![ContentBlock::text("I w")], StopReason::Aborted),
        ),
        (vec!["boundary", "summary"], compaction("12")),
        (
            vec!["a", "b", "c", "d", "e", "f"],
            assistant(
                "13",
                vec![
                    call("t4", "write", json!({"path": "/w/n", "content": "x"})),
                    call("t5", "find", json!({"pattern": "*"})),
                    call("t6", "grep", json!({"pattern": "x"})),
                    call("t7", "read", json!({"path": "/w/p.png"})),
                    call("t8", "sessions_spawn", json!({"task": "look"})),
                    call("t9", "exec", json!({"command": "sleep 9"})),
                ],
                StopReason::ToolUse,
            ),
        ),
        (vec!["write"], result("14", "t4", "write", "done", Value::Null)),
        (vec!["glob"], result("15", "t5", "find", "/w/a\n/w/b", Value::Null)),
        (vec!["grep"], result("16", "t6", "grep", "/w/a:1: x", Value::Null)),
        (vec!["read-picture"], seen),
        (
            vec!["task"],
            result(
                "19",
                "t8",
                "sessions_spawn",
                "{}",
                json!({"childSessionKey": "agent:a:subagent:b"}),
            ),
        ),
        (
            vec!["error", "interrupted-tool"],
            failing(result("20", "t9", "exec", "Stopped before it had a result (rpc).", json!({}))),
        ),
    ];
    let mut format = Format::new(facts(), None);
    let mut kinds = Vec::new();
    for (names, entry) in entries {
        let written = format.push(&entry);
        assert_eq!(written.len(), names.len(), "{names:?}");
        kinds.extend(names.into_iter().zip(written.into_iter().map(|line| line.value)));
    }
    kinds
}

#[test]
fn lines_have_the_members_that_claude_code_writes_in_its_order() {
    let shapes: Value = serde_json::from_str(include_str!("shapes.json")).unwrap();
    let shapes = shapes["lines"].as_object().unwrap();
    let mut wrong = Vec::new();
    for (name, line) in all_kinds() {
        if name.len() == 1 {
            continue;
        }
        let expected = shapes.get(name).and_then(Value::as_str).unwrap_or("?");
        // No transcript says what a file was before it was edited, and a task of ours
        // tells also what one tells that was waited for.
        let expected = expected.replace("originalFile:str", "originalFile:null");
        let expected = expected.replace("canReadOutputFile:bool", WAITED_FOR);
        if shape(&line) != expected {
            wrong.push(format!("{name}\n  ours {}\n  want {expected}", shape(&line)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn frames_have_the_members_that_claude_code_sends_in_its_order() {
    let shapes: Value = serde_json::from_str(include_str!("shapes.json")).unwrap();
    let shapes = shapes["frames"].as_object().unwrap();
    let facts = facts();
    let kinds = all_kinds();
    for (name, expected) in shapes {
        let line = kinds.iter().find(|(kind, _)| kind == name).unwrap();
        let mut frame = live(&Line { uuid: None, value: line.1.clone() }, &facts);
        // What we add for clients of the older protocol comes last.
        let members = frame.as_object_mut().unwrap();
        for added in ["timestamp", "parentUuid"] {
            let last = members.keys().next_back().cloned();
            assert_eq!(last.as_deref(), Some(added), "{name}");
            members.shift_remove(added);
        }
        let expected = expected.as_str().unwrap().replace("originalFile:str", "originalFile:null");
        let expected = expected.replace("canReadOutputFile:bool", WAITED_FOR);
        assert_eq!(shape(&frame), expected, "{name}");
    }
}

#[test]
fn examples_of_the_document_have_no_member_that_ours_lack() {
    let ours = all_kinds();
    let examples: Vec<Value> =
        serde_json::from_str(include_str!("examples.json")).expect("the examples are JSON");
    for example in examples {
        let kind = example["kind"].as_str().unwrap();
        let (_, line) = ours.iter().find(|(name, _)| *name == kind).unwrap();
        let missing: Vec<_> =
            members(&example["frame"]).difference(&members(line)).cloned().collect();
        assert!(missing.is_empty(), "{kind}: {missing:?}");
    }
}

#[test]
fn what_is_typed_is_a_text_and_what_is_known_goes_with_it() {
    let line = &lines(&[user("c0a21d6f", "What files are in this directory?")])[0];
    let uuid = Ids::new(SESSION).user("c0a21d6f").to_string();
    let expected = json!({
        "parentUuid": null, "isSidechain": false, "userType": "external", "cwd": "/w",
        "sessionId": SESSION, "version": CLAUDE_CODE_VERSION, "gitBranch": "HEAD",
        "type": "user",
        "message": {"role": "user", "content": "What files are in this directory?"},
        "uuid": uuid, "timestamp": "2026-11-22T03:35:28.398Z", "permissionMode": "default",
    });
    assert_eq!(line, &expected);
    let echo = echo(SESSION, Ids::new(SESSION).user("c0a21d6f"), NOW, &json!("hi"));
    let expected = format!(
        r#"{{"type":"user","uuid":"{uuid}","timestamp":{NOW},"sessionId":"{SESSION}","message":{{"role":"user","content":[{{"type":"text","text":"hi"}}]}}}}"#
    );
    assert_eq!(echo.to_string(), expected);
}

#[test]
fn only_the_last_block_says_how_the_answer_ended() {
    let content = vec![ContentBlock::text(""), ContentBlock::text("a"), ContentBlock::text("b")];
    let lines = lines(&[assistant("02", content, StopReason::Length)]);
    let ids = Ids::new(SESSION);
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            let message = &line["message"];
            (
                line["uuid"].clone(),
                message["stop_reason"].clone(),
                message["usage"]["output_tokens"].clone(),
            )
        })
        .collect();
    // The empty block is left out, and the others keep their numbers.
    let uuid = |index| Value::from(ids.block("02", index).to_string());
    assert_eq!(told, [(uuid(1), Value::Null, json!(1)), (uuid(2), json!("max_tokens"), json!(12))]);
    assert_eq!(lines[0]["message"]["id"], lines[1]["message"]["id"]);
}

#[test]
fn a_result_is_that_of_its_call_whatever_the_gateway_says_meanwhile() {
    let asked = assistant("02", vec![call("t", "read", json!({"path": "a"}))], StopReason::ToolUse);
    let note = AgentMessage::Assistant(AssistantMessage::from_gateway("fine", NOW));
    let told = lines(&[asked, entry("03", note), result("04", "t", "read", "x", Value::Null)]);
    let ids = Ids::new(SESSION);
    assert_eq!(told[1]["message"]["model"], "<synthetic>");
    assert_eq!(told[2]["uuid"], ids.tool_result("02", "t", 0).to_string());
    assert_eq!(told[2]["sourceToolAssistantUUID"], ids.block("02", 0).to_string());
    assert_eq!(told[2]["parentUuid"], told[1]["uuid"]);
}

#[test]
fn a_session_to_go_on_with_has_no_thinking_that_would_be_refused() {
    let facts = SessionFacts { is_to_go_on: true, ..SessionFacts::new(SESSION, "/w") };
    let content = vec![ContentBlock::thinking("hm"), ContentBlock::text("a")];
    let written =
        Format::new(Arc::new(facts), None).push(&assistant("02", content, StopReason::Stop));
    let uuids: Vec<_> = written.iter().map(|line| line.uuid).collect();
    assert_eq!(uuids, [Some(Ids::new(SESSION).block("02", 1))]);
    assert_eq!(written[0].value["parentUuid"], Value::Null);
}

#[test]
fn results_name_the_block_that_called_and_the_same_uuid_wherever_they_are_read() {
    let calls = vec![
        call("a|1", "exec", json!({"command": "x"})),
        call("b", "exec", json!({"command": "y"})),
    ];
    let asked = assistant("02", calls, StopReason::ToolUse);
    let lines = lines(&[
        asked,
        result("04", "b", "exec", "y", Value::Null),
        result("03", "a|1", "exec", "x", Value::Null),
    ]);
    let ids = Ids::new(SESSION);
    assert_eq!(lines[2]["sourceToolAssistantUUID"], ids.block("02", 1).to_string());
    assert_eq!(lines[3]["sourceToolAssistantUUID"], ids.block("02", 0).to_string());
    assert_eq!(lines[3]["uuid"], ids.tool_result("02", "a|1", 0).to_string());
    assert_eq!(lines[3]["message"]["content"][0]["tool_use_id"], "a_1");
    assert_eq!(lines[0]["message"]["content"][0]["id"], "a_1");
}

#[test]
fn results_of_calls_with_one_id_have_uuids_of_their_own_in_the_order_of_the_calls() {
    let calls = vec![
        call("a", "exec", json!({"command": "x"})),
        call("a", "exec", json!({"command": "y"})),
    ];
    let lines = lines(&[
        assistant("02", calls, StopReason::ToolUse),
        result("03", "a", "exec", "x", Value::Null),
        result("04", "a", "exec", "y", Value::Null),
    ]);
    let ids = Ids::new(SESSION);
    assert_eq!(lines[2]["uuid"], ids.tool_result("02", "a", 0).to_string());
    assert_eq!(lines[3]["uuid"], ids.tool_result("02", "a", 1).to_string());
    assert_eq!(lines[3]["sourceToolAssistantUUID"], ids.block("02", 1).to_string());
}

#[test]
fn a_compaction_begins_the_chain_anew() {
    let written = lines(&[user("01", "hi"), compaction("02"), user("03", "on")]);
    assert_eq!(written[1]["parentUuid"], Value::Null);
    assert_eq!(written[1]["logicalParentUuid"], written[0]["uuid"]);
    assert_eq!(written[1]["compactMetadata"], json!({"trigger": "auto", "preTokens": 21}));
    assert_eq!(written[2]["parentUuid"], written[1]["uuid"]);
    assert_eq!(written[3]["parentUuid"], written[2]["uuid"]);
    let manual =
        SessionFacts { manual_compactions: vec!["02".into()], ..SessionFacts::new(SESSION, "/w") };
    let line = Format::new(Arc::new(manual), None).push(&compaction("02")).remove(0);
    assert_eq!(line.value["compactMetadata"]["trigger"], "manual");
    let frame = live(&line, &facts());
    assert_eq!(frame["compact_metadata"], json!({"trigger": "manual", "pre_tokens": 21}));
}

#[test]
fn failures_and_interruptions_say_so_in_the_words_of_claude_code() {
    let calls = vec![ContentBlock::text("half"), call("a", "exec", json!({}))];
    let written = lines(&[
        failed("01", "429 {\"x\":1}"),
        assistant("02", calls.clone(), StopReason::Aborted),
        assistant("03", calls, StopReason::ToolUse),
        failing(result("04", "a", "exec", "x\nStopped before it had a result (stop).", json!({}))),
        user("05", "on"),
    ]);
    let text = |line: &Value| line["message"]["content"][0]["text"].clone();
    assert_eq!(text(&written[0]), "API Error: 429 {\"x\":1}");
    assert_eq!(
        (&written[0]["error"], &written[0]["isApiErrorMessage"]),
        (&json!("rate_limit"), &json!(true))
    );
    assert_eq!(text(&written[1]), "half");
    // The call was never made.
    assert_eq!(text(&written[2]), INTERRUPTED);
    assert_eq!(written[5]["toolUseResult"], "Error: x\nStopped before it had a result (stop).");
    assert_eq!(text(&written[6]), INTERRUPTED_TOOL);
    assert_eq!(written[7]["parentUuid"], written[6]["uuid"]);
}

#[test]
fn what_failed_and_says_so_as_data_is_an_error_in_its_words() {
    for (tool, error) in [("edit", "oldText was not found"), ("read", "no such file")] {
        let details = json!({"status": "error", "tool": tool, "error": error});
        let calls = vec![call("a", tool, json!({"path": "x"}))];
        let written = lines(&[
            assistant("01", calls, StopReason::ToolUse),
            result("02", "a", tool, &format!("{details:#}"), details),
        ]);
        assert_eq!(written[1]["toolUseResult"], format!("Error: {error}"));
        let block = &written[1]["message"]["content"][0];
        assert_eq!((&block["is_error"], &block["content"]), (&json!(true), &json!(error)));
    }
    // An end that is reported is none of the call itself.
    let details = json!({"status": "error"});
    let written = lines(&[
        assistant("01", vec![call("a", "other", json!({}))], StopReason::ToolUse),
        result("02", "a", "other", "told", details.clone()),
    ]);
    assert_eq!(written[1]["toolUseResult"], details);
    assert_eq!(written[1]["message"]["content"][0].get("is_error"), None);
}

#[test]
fn lines_of_sub_agents_belong_to_the_session_that_asked() {
    let side = Sidechain {
        own_session_id: "own".into(),
        agent_id: Ids::agent("agent:main:subagent:x"),
        parent_tool_use_id: Some("toolu_1".into()),
    };
    let facts =
        Arc::new(SessionFacts { sidechain: Some(side), ..SessionFacts::new(SESSION, "/w") });
    let line = Format::new(Arc::clone(&facts), None).push(&user("01", "look")).remove(0);
    assert_eq!(line.uuid, Some(Ids::new("own").user("01")));
    assert_eq!(line.value["sessionId"], SESSION);
    assert_eq!(line.value["isSidechain"], true);
    assert_eq!(line.value["agentId"], Ids::agent("agent:main:subagent:x"));
    assert_eq!(line.value.get("permissionMode"), None);
    assert_eq!(live(&line, &facts)["parent_tool_use_id"], "toolu_1");
}

fn any_block() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        any::<String>().prop_map(ContentBlock::text),
        any::<String>().prop_map(ContentBlock::thinking),
        ("[a-c]", "exec|read|edit|x__y|web_search|sessions_spawn").prop_map(|(id, tool)| call(
            &id,
            &tool,
            json!({"path": 1, "edits": [7]})
        )),
        Just(ContentBlock::image("AAAA", "image/png")),
        Just(ContentBlock::Unknown(json!({"type": "novel"}))),
    ]
}

fn any_body() -> impl Strategy<Value = EntryBody> {
    let stops = prop_oneof![
        Just(StopReason::Stop),
        Just(StopReason::Length),
        Just(StopReason::ToolUse),
        Just(StopReason::Error),
        Just(StopReason::Aborted),
    ];
    let blocks = || prop::collection::vec(any_block(), 0..4);
    let cut = "Stopped before it had a result (rpc).";
    prop_oneof![
        blocks().prop_map(UserContent::Blocks).prop_map(|content| {
            EntryBody::Message(AgentMessage::User(UserMessage {
                content,
                timestamp: 0,
                extra: Map::new(),
            }))
        }),
        (blocks(), stops).prop_map(|(content, stop)| assistant("", content, stop).body),
        ("[a-c]", "exec|read|x__y", any::<bool>(), any::<bool>(), any::<String>()).prop_map(
            move |(id, tool, is_error, is_cut, text)| {
                let text = if is_cut { cut } else { &text };
                let told = result("", &id, &tool, text, json!({"diff": text, "status": 7}));
                if is_error { failing(told).body } else { told.body }
            }
        ),
        Just(compaction("").body),
    ]
}

proptest! {
    #[test]
    fn any_transcript_is_a_chain_of_lines_with_stable_uuids(
        bodies in prop::collection::vec(any_body(), 0..12),
        cut in 0_usize..12,
    ) {
        let entries: Vec<_> = bodies
            .into_iter()
            .enumerate()
            .map(|(number, body)| TranscriptEntry { id: format!("{number:08x}"), timestamp: NOW, body })
            .collect();
        let mut format = Format::new(facts(), None);
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        let mut last = Value::Null;
        let mut at_cut = None;
        for (number, entry) in entries.iter().enumerate() {
            if number == cut && !format.is_inside_calls() {
                at_cut = Some((format.last(), all.len()));
            }
            for line in format.push(entry) {
                let text = line.value.to_string();
                prop_assert!(!text.contains('\n'));
                prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &line.value);
                let is_boundary = line.value["subtype"] == "compact_boundary";
                let follows = if is_boundary { "logicalParentUuid" } else { "parentUuid" };
                prop_assert_eq!(&line.value[follows], &last);
                last = line.value["uuid"].clone();
                prop_assert!(seen.insert(last.to_string()), "twice: {}", text);
                all.push(line);
            }
        }
        // Whoever goes on in the middle writes the same lines.
        if let Some((uuid, written)) = at_cut {
            let mut rest = Format::new(facts(), uuid);
            let rest: Vec<_> = entries[cut..].iter().flat_map(|entry| rest.push(entry)).collect();
            prop_assert_eq!(&rest[..], &all[written..]);
        }
    }
}
