//! What is shown, whatever comes first: the history or the events.

use serde_json::Value;

use crate::support::json;

use super::{Body, Level, Page, Phase, ToolState, Transcript, Usage};

fn said(role: &str, id: &str, text: &str, at: u64) -> Value {
    json!({"role": role, "content": [{"type": "text", "text": text}], "timestamp": at,
        "__openclaw": {"id": id}})
}

fn load(transcript: &mut Transcript, messages: &Value, active: &Value, covers: &[&str]) {
    let covers: Vec<String> = covers.iter().map(|key| (*key).to_owned()).collect();
    let page = Page::read(&json!({"messages": messages, "activeRun": active}));
    transcript.load(page, &covers);
}

fn shown(transcript: &Transcript) -> Vec<String> {
    let line = |body: &Body| match body {
        Body::User { text, is_waiting, .. } => {
            format!("{} {text}", if *is_waiting { "?" } else { ">" })
        }
        Body::Answer(text) => format!("< {text}"),
        Body::Thought(text) => format!("~ {text}"),
        Body::Tool(tool) => format!("{:?} {} {} {}", tool.state, tool.name, tool.args, tool.output),
        Body::Notice { text, .. } => format!("! {text}"),
        Body::Aside(text) => format!("& {text}"),
        Body::Mark(text) => format!("- {text}"),
    };
    transcript.entries().iter().map(|entry| line(&entry.body)).collect()
}

fn spoke(transcript: &mut Transcript, run: &str, whole: &str, fresh: &str) {
    transcript.agent(run, "assistant", &json!({"text": whole, "delta": fresh}));
}

#[test]
fn what_was_typed_and_answered_is_shown_once() {
    let mut transcript = Transcript::default();
    transcript.echo("r", "hi");
    assert_eq!(shown(&transcript), ["? hi"]);
    transcript.taken("r");
    transcript.user_said("hi");
    transcript.agent("r", "lifecycle", &json!({"phase": "start", "startedAt": 5}));
    spoke(&mut transcript, "r", "He", "He");
    spoke(&mut transcript, "r", "Hello", "llo");
    assert_eq!(shown(&transcript), ["> hi", "< Hello"]);
    assert_eq!(transcript.ended(&json!({"runId": "r", "state": "final"})), None);
    load(
        &mut transcript,
        &json!([said("user", "a", "hi", 1), said("assistant", "b", "Hello", 2)]),
        &Value::Null,
        &["r"],
    );
    assert_eq!(shown(&transcript), ["> hi", "< Hello"]);
    assert!(transcript.live().is_none());
}

#[test]
fn an_answer_goes_on_in_its_place_when_something_beside_it_is_taken_away() {
    let mut transcript = Transcript::default();
    for _ in 0..100 {
        transcript.notice(Level::Note, "old");
    }
    spoke(&mut transcript, "r", "Hello", "Hello");
    transcript.echo("k", "more");
    transcript.refused("k");
    spoke(&mut transcript, "r", "Hello you", " you");
    transcript.notice(Level::Error, "refused");
    spoke(&mut transcript, "r", "Hello you two", " two");
    let shown = shown(&transcript);
    let answers: Vec<_> = shown.iter().filter(|line| line.starts_with('<')).collect();
    assert_eq!(answers, ["< Hello you two"]);
    assert_eq!(shown.len(), 101);
}

#[test]
fn an_answer_that_was_seen_in_full_stays_so_where_the_history_cuts_it() {
    for cut in ["Hel\n...(truncated)...", "[chat.history omitted: message too large]"] {
        let mut transcript = Transcript::default();
        let old = said("assistant", "a", cut, 1);
        load(&mut transcript, &json!([old]), &Value::Null, &[]);
        assert_eq!(shown(&transcript), [format!("< {cut}")]);
        spoke(&mut transcript, "r", "Hello", "Hello");
        transcript.ended(&json!({"runId": "r", "state": "final"}));
        for _ in 0..2 {
            let messages = json!([old, said("assistant", "b", cut, 2)]);
            load(&mut transcript, &messages, &Value::Null, &[]);
            assert_eq!(shown(&transcript), [format!("< {cut}"), "< Hello".into()]);
        }
    }
}

#[test]
fn an_answer_that_is_left_out_is_shown_as_it_was_seen_and_never_as_another_one() {
    let omitted = "[chat.history omitted: message too large]";
    let left_out = format!("< {omitted}");
    let active = |text: &str| json!({"runId": "r", "startedAt": 2, "text": text});
    let asked = said("user", "q", "hi", 2);
    let mut transcript = Transcript::default();
    // An old one, which comes while another is being said.
    let old = said("assistant", "a", omitted, 1);
    spoke(&mut transcript, "r", "Hello", "Hello");
    load(&mut transcript, &json!([old, asked]), &active("Hello"), &[]);
    assert_eq!(shown(&transcript), [left_out.as_str(), "> hi", "< Hello"]);
    transcript.ended(&json!({"runId": "r", "state": "final"}));
    let messages = json!([old, asked, said("assistant", "b", "Hello", 3)]);
    load(&mut transcript, &messages, &Value::Null, &[]);
    assert_eq!(shown(&transcript), [left_out.as_str(), "> hi", "< Hello"]);

    // The one before a tool, while what comes behind it is being said.
    let mut transcript = Transcript::default();
    spoke(&mut transcript, "r", "A long one", "A long one");
    let call = json!({"phase": "start", "toolCallId": "c", "name": "read", "args": {}});
    transcript.agent("r", "tool", &call);
    spoke(&mut transcript, "r", "short", "short");
    let result =
        json!({"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": "x"});
    let messages = json!([asked, said("assistant", "b", omitted, 3), result]);
    load(&mut transcript, &messages, &active("A long oneshort"), &[]);
    assert_eq!(shown(&transcript), ["> hi", "< A long one", "Done read  x", "< short"]);

    // One that the history has before its run has ended.
    let mut transcript = Transcript::default();
    spoke(&mut transcript, "r", "Hello", "Hello");
    let messages = json!([said("assistant", "b", omitted, 3)]);
    load(&mut transcript, &messages, &active("Hello"), &[]);
    transcript.ended(&json!({"runId": "r", "state": "final"}));
    load(&mut transcript, &messages, &Value::Null, &[]);
    assert_eq!(shown(&transcript), ["< Hello"]);
}

#[test]
fn a_history_that_is_older_than_what_was_typed_does_not_take_it_away() {
    let mut transcript = Transcript::default();
    transcript.echo("r", "hi");
    load(&mut transcript, &json!([said("user", "a", "before", 1)]), &Value::Null, &[]);
    assert_eq!(shown(&transcript), ["> before", "? hi"]);
}

#[test]
fn a_run_that_is_under_way_goes_on_where_its_messages_end() {
    let mut transcript = Transcript::default();
    let call = json!({"role": "assistant", "timestamp": 12, "content": [
        {"type": "text", "text": "Let me look."},
        {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "n"}},
    ], "__openclaw": {"id": "b"}});
    let active = json!({"runId": "r", "startedAt": 10, "text": "Let me look.The fi"});
    load(
        &mut transcript,
        &json!([said("assistant", "z", "old", 9), said("user", "a", "q", 10), call]),
        &active,
        &[],
    );
    assert_eq!(
        shown(&transcript),
        ["< old", "> q", "< Let me look.", "Running read path=n ", "< The fi"]
    );
    spoke(&mut transcript, "r", "The file", "le");
    transcript.agent(
        "r",
        "tool",
        &json!({"phase": "result", "toolCallId": "c", "name": "read",
        "result": {"content": [{"type": "text", "text": "alpha\u{1b}[2J"}]}}),
    );
    assert_eq!(shown(&transcript)[3..], ["Done read path=n alpha[2J", "< The file"]);
}

#[test]
fn a_call_that_waits_when_the_history_is_read_says_so_until_it_runs() {
    let mut transcript = Transcript::default();
    let call = |id: &str| json!({"type": "toolCall", "id": id, "name": "exec", "arguments": {}});
    let messages = json!([said("user", "a", "q", 10), {"role": "assistant", "timestamp": 12,
        "content": [call("c"), call("d")], "__openclaw": {"id": "b"}}]);
    let active = json!({"runId": "r", "startedAt": 10, "text": "", "waitingCalls": ["d"]});
    load(&mut transcript, &messages, &active, &[]);
    assert_eq!(shown(&transcript)[1..], ["Running exec  ", "Waiting exec  "]);
    assert_eq!(transcript.live().unwrap().phase, Phase::Approval);
    let decided = json!({"phase": "resolved", "status": "approved", "toolCallId": "d"});
    transcript.agent("r", "approval", &decided);
    assert_eq!(shown(&transcript)[1..], ["Running exec  ", "Running exec  "]);
}

#[test]
fn text_that_came_while_the_history_was_read_stays() {
    let mut transcript = Transcript::default();
    spoke(&mut transcript, "r", "one two", "one two");
    let active = |text: &str| json!({"runId": "r", "startedAt": 10, "text": text});
    load(&mut transcript, &json!([said("user", "a", "q", 10)]), &active("one"), &[]);
    assert_eq!(shown(&transcript), ["> q", "< one two"]);
    load(
        &mut transcript,
        &json!([said("user", "a", "q", 10), said("assistant", "b", "one two", 11)]),
        &active("one two"),
        &[],
    );
    assert_eq!(shown(&transcript), ["> q", "< one two"]);
}

#[test]
fn a_run_that_ended_meanwhile_is_not_called_active() {
    let mut transcript = Transcript::default();
    transcript.ended(&json!({"runId": "r", "state": "final"}));
    load(
        &mut transcript,
        &json!([said("user", "a", "q", 10)]),
        &json!({"runId": "r", "startedAt": 10, "text": "x"}),
        &[],
    );
    assert!(transcript.live().is_none());
    assert!(!transcript.agent("r", "tool", &json!({"phase": "start", "toolCallId": "c"})));
    assert_eq!(shown(&transcript), ["> q"]);
}

#[test]
fn tools_of_the_run_and_of_the_session_are_one() {
    let mut transcript = Transcript::default();
    let start =
        json!({"phase": "start", "toolCallId": "c", "name": "exec", "args": {"command": "ls\n-l"}});
    for _ in 0..2 {
        transcript.agent("r", "tool", &start);
    }
    assert_eq!(transcript.live().unwrap().phase, Phase::Tool("exec".into()));
    transcript.agent("r", "approval", &json!({"phase": "requested", "toolCallId": "c"}));
    assert_eq!(shown(&transcript), ["Waiting exec command=ls -l "]);
    assert_eq!(transcript.live().unwrap().phase, Phase::Approval);
    transcript.agent(
        "r",
        "tool",
        &json!({"phase": "result", "toolCallId": "c", "isError": true,
        "result": {"content": "no"}}),
    );
    transcript.agent(
        "r",
        "tool",
        &json!({"phase": "update", "toolCallId": "c", "partialResult": {"content": "late"}}),
    );
    assert_eq!(shown(&transcript), ["Failed exec command=ls -l no"]);
}

#[test]
fn turns_without_a_tool_between_are_two_pieces() {
    let mut transcript = Transcript::default();
    spoke(&mut transcript, "r", "one", "one");
    spoke(&mut transcript, "r", "two", "two");
    spoke(&mut transcript, "r", "two b", " b");
    assert_eq!(shown(&transcript), ["< one", "< two b"]);
}

#[test]
fn notices_and_commands_stay_where_they_were() {
    let mut transcript = Transcript::default();
    load(&mut transcript, &json!([said("user", "a", "q", 1)]), &Value::Null, &[]);
    transcript.notice(Level::Note, "connected");
    transcript.echo("k", "/status");
    let later = json!([said("user", "a", "q", 1), said("assistant", "b", "fine", 2)]);
    load(&mut transcript, &later, &Value::Null, &["k"]);
    assert_eq!(shown(&transcript), ["> q", "! connected", "? /status", "< fine"]);
    load(&mut transcript, &later, &Value::Null, &[]);
    assert_eq!(shown(&transcript), ["> q", "! connected", "? /status", "< fine"]);
    load(&mut transcript, &json!([said("user", "x", "new", 3)]), &Value::Null, &[]);
    assert_eq!(shown(&transcript), ["> new"], "what they followed is gone");
}

#[test]
fn both_ways_of_writing_messages_are_read() {
    let mut transcript = Transcript::default();
    let simple = json!([
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"},
            {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "n"}}],
            "usage": {"inputTokens": 3, "outputTokens": 2}},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c",
            "content": [{"type": "text", "text": "alpha"}], "is_error": false}]},
        {"role": "assistant", "content": "plain", "usage": {"input": 1, "output": 1, "cost": {"total": 0.5}}},
        {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "no luck"},
        {"role": "system", "content": "x", "__openclaw": {"kind": "compaction"}},
    ]);
    load(&mut transcript, &simple, &Value::Null, &[]);
    assert_eq!(
        shown(&transcript),
        [
            "~ hm",
            "Done read path=n alpha",
            "< plain",
            "! no luck",
            "- the conversation before was summed up"
        ]
    );
    assert_eq!(transcript.usage(), Usage { input: 4, output: 3, cost: 0.5 });
}

#[test]
fn a_call_whose_run_is_gone_does_not_run() {
    let mut transcript = Transcript::default();
    load(
        &mut transcript,
        &json!([{"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "x"}]}]),
        &Value::Null,
        &[],
    );
    assert!(
        matches!(&transcript.entries()[0].body, Body::Tool(tool) if tool.state == ToolState::Lost)
    );
}

#[test]
fn ends_that_nobody_expects_are_told() {
    let mut transcript = Transcript::default();
    let failed = transcript.ended(&json!({"runId": "a", "state": "error", "errorMessage": "no"}));
    assert_eq!(failed, Some((Level::Error, "the run failed: no".into())));
    let stopped = transcript.ended(&json!({"runId": "b", "state": "aborted", "stopReason": "rpc"}));
    assert_eq!(stopped, Some((Level::Note, "the run was stopped".into())));
}
