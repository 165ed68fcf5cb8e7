//! Rows of the table of the dialect, one by one.

use std::sync::Arc;

use super::*;
use crate::agent::tools::ToolKind;
use crate::agent::{AbortReason, ActiveRun, Progress};
use crate::protocol::message::{ContentBlock, ToolCall, Usage};
use crate::support::json;

fn told_of(run: &Arc<ActiveRun>, news: RunNews) -> Told {
    Told { key: run.key.clone(), run: Some(Arc::clone(run)), news }
}

fn run(id: &str) -> Arc<ActiveRun> {
    crate::agent::run_for_tests(id, "agent:main:chat:1")
}

fn turn_of(run: &ActiveRun) -> Turn {
    Turn::new(run.id.to_string(), run.key.clone())
}

fn card(name: &str, arguments: &Value) -> Card {
    let call = json!({"type": "toolCall", "id": "call-1", "name": name, "arguments": arguments});
    let call: ToolCall = serde_json::from_value(call).unwrap();
    Card { call, meta: None, kind: ToolKind::Reads, started_at: 0 }
}

fn output(text: &str, details: Value) -> ToolOutput {
    ToolOutput { details: Some(details), ..ToolOutput::text(text) }
}

fn answered() -> RunNews {
    RunNews::Ends(Ending::Answered { usage: Usage::default(), stop_reason: "stop".into() })
}

#[test]
fn words_and_thoughts_are_told_as_they_come() {
    let run = run("r");
    let mut turn = turn_of(&run);
    let thought = StreamEvent::ThinkingDelta { index: 0, delta: "hm".into() };
    let heard = turn.hear(&told_of(&run, RunNews::Stream(thought)));
    assert_eq!(heard, frame::reasoning("hm").into());
    let heard = turn.hear(&told_of(&run, RunNews::Says("Hel".into())));
    assert_eq!(heard, frame::delta("Hel").into());
    let heard = turn.hear(&told_of(&run, answered()));
    assert_eq!(heard, Heard { frames: vec![], end: Some(End::Answered) });
    assert_eq!(turn.catch_up("Hello"), Some(frame::delta("lo")));
    assert_eq!(turn.catch_up("Hello"), None);
    assert!(turn.close(&End::Answered, &[]).is_empty());
}

#[test]
fn other_runs_are_not_told_until_one_has_taken_the_message_in() {
    let (mine, other) = (run("mine"), run("other"));
    let mut turn = turn_of(&mine);
    assert_eq!(turn.hear(&told_of(&other, RunNews::Says("x".into()))), Heard::default());
    assert_eq!(turn.hear(&told_of(&other, answered())), Heard::default());
    let taken = RunNews::Ends(Ending::TakenInto("other".into()));
    assert!(turn.is_ours);
    assert_eq!(turn.hear(&told_of(&mine, taken)), Heard::default());
    assert!(!turn.is_ours, "what that run asks is for whoever has begun it");
    let heard = turn.hear(&told_of(&other, RunNews::Says("y".into())));
    assert_eq!(heard, frame::delta("y").into());
    assert_eq!(turn.hear(&told_of(&other, answered())).end, Some(End::Answered));
}

#[test]
fn a_call_is_told_with_one_id_throughout() {
    let run = run("r");
    let mut turn = turn_of(&run);
    let card = card("web_search", &json!({"query": "latest news"}));
    let mut frames = turn.hear(&told_of(&run, RunNews::ToolBegins(card.clone()))).frames;
    let shown = RunNews::ToolShows(card.clone(), output("so far\n", json!({})));
    frames.extend(turn.hear(&told_of(&run, shown)).frames);
    let ends = RunNews::ToolEnds(card, output("all", json!({})));
    frames.extend(turn.hear(&told_of(&run, ends)).frames);
    assert_eq!(
        frames,
        [
            json!({"type": "event", "event": "tool_start", "tool": "web_search",
                "call_id": "call-1", "arguments": "{\"query\":\"latest news\"}",
                "mcp_server": ""}),
            json!({"type": "event", "event": "tool_progress", "tool": "web_search",
                "call_id": "call-1", "message": "so far"}),
            json!({"type": "event", "event": "tool_done", "tool": "web_search",
                "call_id": "call-1", "result": "all"}),
        ]
    );
}

#[test]
fn of_a_call_that_began_before_anybody_looked_the_start_is_told_first() {
    let run = run("r");
    let mut turn = Turn::watched(run.id.to_string(), run.key.clone());
    let card = card("web_search", &json!({"query": "x"}));
    let mut names = |news: RunNews| {
        let frames = turn.hear(&told_of(&run, news)).frames;
        frames.iter().map(|frame| frame["event"].clone()).collect::<Vec<_>>()
    };
    let shown = || RunNews::ToolShows(card.clone(), output("so far", json!({})));
    let ends = || RunNews::ToolEnds(card.clone(), output("all", json!({})));
    assert_eq!(names(shown()), ["tool_start", "tool_progress"]);
    assert_eq!(names(shown()), ["tool_progress"]);
    assert_eq!(names(ends()), ["tool_done"]);
    // Another one with its id.
    assert_eq!(names(ends()), ["tool_start", "tool_done"]);
    let denied = GuardNews::Denied("no".into());
    assert_eq!(names(RunNews::ToolGuarded(card.clone(), denied)), ["tool_start", "tool_denied"]);
    assert_eq!(names(ends()), ["tool_done"]);
}

#[test]
fn what_is_said_behind_the_words_begins_on_a_line_of_its_own_if_there_are_any() {
    let run = run("r");
    let mut turn = turn_of(&run);
    assert_eq!(turn.add(""), None);
    assert_eq!(turn.add("\nnot sent"), Some(frame::delta("not sent")));
    assert_eq!(turn.add("\nnor this"), Some(frame::delta("\nnor this")));
    assert!(turn.close(&End::Answered, &[]).is_empty(), "something was said");
}

#[test]
fn a_skill_that_is_read_is_named() {
    let run = run("r");
    let mut turn = turn_of(&run);
    let mut names = |name: &str, arguments: Value| {
        let heard = turn.hear(&told_of(&run, RunNews::ToolBegins(card(name, &arguments))));
        heard.frames.iter().skip(1).map(|frame| frame["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("read", json!({"path": "/w/skills/weather/SKILL.md"})), ["weather"]);
    assert_eq!(names("read", json!({"file_path": "skills/pdf/SKILL.md"})), ["pdf"]);
    assert!(names("read", json!({"path": "SKILL.md"})).is_empty());
    assert!(names("read", json!({"path": "/w/notes.md"})).is_empty());
    assert!(names("exec", json!({"path": "/w/skills/weather/SKILL.md"})).is_empty());
}

#[test]
fn the_policy_says_no_and_a_person_says_no() {
    let run = run("r");
    let mut turn = turn_of(&run);
    let mut names = |details: Value| {
        let ends = RunNews::ToolEnds(card("exec", &json!({})), output("denied", details));
        let frames = turn.hear(&told_of(&run, ends)).frames;
        frames.iter().map(|frame| frame["event"].clone()).collect::<Vec<_>>()
    };
    let by_policy = json!({"status": "denied", "reason": "allowlist-miss"});
    assert_eq!(names(by_policy), ["tool_denied", "tool_done"]);
    // That was told when it was decided.
    let by_person = json!({"status": "denied", "reason": "user-denied", "approvalId": "a"});
    assert_eq!(names(by_person), ["tool_done"]);
}

#[test]
fn what_a_confined_command_has_printed_is_told_after_it() {
    let run = run("r");
    let mut turn = turn_of(&run);
    let details = json!({"status": "completed", "exitCode": 0, "durationMs": 3,
        "aggregated": "Hello\n", "cwd": "/w", "host": "sandbox"});
    let ends = RunNews::ToolEnds(card("exec", &json!({})), output("Hello", details));
    let frames = turn.hear(&told_of(&run, ends)).frames;
    assert_eq!(frames[0]["event"], "tool_done");
    assert_eq!(
        frames[1],
        json!({"type": "sandbox_result", "stdout": "Hello\n", "stderr": "", "exit_code": 0,
            "success": true})
    );
    let open = json!({"exitCode": 0, "durationMs": 3, "aggregated": "x"});
    let ends = RunNews::ToolEnds(card("exec", &json!({})), output("x", open));
    assert_eq!(turn.hear(&told_of(&run, ends)).frames.len(), 1);
}

#[test]
fn files_and_cards_come_after_the_words_and_before_the_error() {
    let run = run("r");
    let mut turn = turn_of(&run);
    let one = json!({"contentType": "application/vnd.microsoft.card.adaptive", "content": {}});
    for details in [
        json!({"cards": [one, {"no": "card"}, 5]}),
        json!({"mcpServer": "x", "structuredContent": {"cards": [one]}}),
        json!({"cards": "none"}),
    ] {
        let ends = RunNews::ToolEnds(card("show", &json!({})), output("x", details));
        turn.hear(&told_of(&run, ends));
    }
    let file = json!({"kind": "image"});
    let frames = turn.close(&End::Failed("broken".into()), std::slice::from_ref(&file));
    assert_eq!(
        frames,
        [frame::media(&[file]), frame::cards(&[one.clone(), one]), frame::error("broken")]
    );
}

#[test]
fn an_answer_without_words_is_an_error_unless_it_says_that_it_says_nothing() {
    let run = run("r");
    let mut turn = turn_of(&run);
    assert_eq!(turn.close(&End::Answered, &[]), [frame::error(NO_ANSWER)]);
    assert!(turn.close(&End::Stopped, &[]).is_empty());
    let silent = StreamEvent::TextDelta { index: 0, delta: "NO_REPLY".into() };
    turn.hear(&told_of(&run, RunNews::Stream(silent)));
    assert!(turn.close(&End::Answered, &[]).is_empty());
    // Thrown away, it was not said.
    turn.hear(&told_of(&run, RunNews::Stream(StreamEvent::Anew)));
    assert_eq!(turn.close(&End::Answered, &[]), [frame::error(NO_ANSWER)]);
}

#[test]
fn errors_and_stops_end_a_response() {
    let run = run("r");
    let end = |ending: Ending| turn_of(&run).hear(&told_of(&run, RunNews::Ends(ending))).end;
    let failed = Ending::Failed {
        message: "500 x".into(),
        told: "The model failed.".into(),
        kind: "server".into(),
    };
    assert_eq!(end(failed), Some(End::Failed("The model failed.".into())));
    assert_eq!(end(Ending::Aborted(AbortReason::Rpc)), Some(End::Stopped));
    assert_eq!(end(Ending::Aborted(AbortReason::Shutdown)), Some(End::Stopped));
    let too_long = Some(End::Failed("It took too long and was stopped.".into()));
    assert_eq!(end(Ending::Aborted(AbortReason::Timeout)), too_long);
}

#[test]
fn once_news_were_missed_the_words_are_read_off_the_run() {
    let run = run("r");
    let mut turn = turn_of(&run);
    turn.hear(&told_of(&run, RunNews::Says("Hel".into())));
    turn.set_late();
    run.note(|progress| *progress = Progress::saying("Hello, wor"));
    let heard = turn.hear(&told_of(&run, RunNews::Says("wor".into())));
    assert_eq!(heard, frame::delta("lo, wor").into());
    let heard = turn.hear(&told_of(&run, RunNews::Says("r".into())));
    assert_eq!(heard, Heard::default());
}

#[test]
fn pictures_of_a_result_are_no_words() {
    let run = run("r");
    let mut turn = turn_of(&run);
    let picture = json!({"type": "image", "data": "QQ==", "mimeType": "image/png"});
    let picture: ContentBlock = serde_json::from_value(picture).unwrap();
    let shown = ToolOutput { content: vec![picture], ..ToolOutput::text("") };
    let ends = RunNews::ToolEnds(card("image", &json!({})), shown);
    assert_eq!(turn.hear(&told_of(&run, ends)).frames[0]["result"], "");
}
