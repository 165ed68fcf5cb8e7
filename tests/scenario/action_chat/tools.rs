//! Calls of tools, as events.

use std::fs;

use serde_json::{Value, json};

use super::{Chat, find, name, names, place, said};
use crate::subagents::spawning;
use crate::support::not_run::{NO_SANDBOX, not_run};

/// A message upon which the model calls a tool and then says `done`.
fn calling(tool: &str, arguments: &Value) -> String {
    format!("@mock tool name={tool} args={arguments} then=\"done\"")
}

#[tokio::test]
async fn a_call_begins_and_ends_with_one_id_and_its_arguments_are_text() {
    let (gateway, _mock) = place(|_| {}).await;
    fs::write(gateway.workspace().join("note.txt"), "x".repeat(2000)).unwrap();
    let mut chat = Chat::open(&gateway).await;
    let arguments = json!({"path": "note.txt"});
    let frames = chat.say(&calling("read", &arguments)).await;
    assert_eq!(names(&frames), ["tool_start", "tool_done", "delta", "done"]);
    let (start, end) = (find(&frames, "tool_start"), find(&frames, "tool_done"));
    let id = start["call_id"].as_str().unwrap();
    assert_eq!(
        *start,
        json!({"type": "event", "event": "tool_start", "tool": "read", "call_id": id,
            "arguments": arguments.to_string(), "mcp_server": ""})
    );
    let result = "x".repeat(500);
    assert_eq!(
        *end,
        json!({"type": "event", "event": "tool_done", "tool": "read", "call_id": id,
            "result": result})
    );
    assert_eq!(said(&frames), "done");
}

#[tokio::test]
async fn a_call_without_arguments_has_null() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say(&calling("session_status", &json!({}))).await;
    assert_eq!(find(&frames, "tool_start")["arguments"], Value::Null);
}

#[tokio::test]
async fn a_command_shows_its_progress_and_a_confined_one_its_result() {
    let (gateway, _mock) =
        place(|config| config["tools"]["exec"] = json!({"sandbox": "workspace-write"})).await;
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say(&calling("exec", &json!({"command": "echo Hello"}))).await;
    if find(&frames, "tool_done")["result"].as_str().unwrap().contains("not available") {
        return not_run(NO_SANDBOX);
    }
    assert_eq!(
        names(&frames),
        ["tool_start", "tool_progress", "tool_done", "sandbox_result", "delta", "done"]
    );
    let result = find(&frames, "sandbox_result");
    assert_eq!(
        *result,
        json!({"type": "sandbox_result", "stdout": "Hello", "stderr": "", "exit_code": 0,
            "success": true})
    );
    let failed = chat.say(&calling("exec", &json!({"command": "echo no; exit 3"}))).await;
    let result = find(&failed, "sandbox_result");
    assert_eq!((&result["exit_code"], &result["success"]), (&json!(3), &json!(false)));
}

#[tokio::test]
async fn a_command_that_is_not_confined_has_no_sandbox_result() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say(&calling("exec", &json!({"command": "echo Hello"}))).await;
    assert_eq!(names(&frames), ["tool_start", "tool_progress", "tool_done", "delta", "done"]);
    assert_eq!(find(&frames, "tool_progress")["message"], "Hello");
}

#[tokio::test]
async fn what_the_policy_denies_is_told_and_the_turn_goes_on() {
    let (gateway, _mock) =
        place(|config| config["tools"]["exec"] = json!({"security": "deny"})).await;
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say(&calling("exec", &json!({"command": "echo x"}))).await;
    assert_eq!(names(&frames), ["tool_start", "tool_denied", "tool_done", "delta", "done"]);
    let denied = find(&frames, "tool_denied");
    assert_eq!(denied["reason"], "Denied by guardrail rule");
    assert_eq!(denied["call_id"], find(&frames, "tool_start")["call_id"]);
}

#[tokio::test]
async fn a_skill_that_is_read_is_named() {
    let (gateway, _mock) = place(|_| {}).await;
    let folder = gateway.workspace().join("skills/weather");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("SKILL.md"), "---\nname: weather\ndescription: x\n---\nLook out.")
        .unwrap();
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say(&calling("read", &json!({"path": "skills/weather/SKILL.md"}))).await;
    assert_eq!(
        *find(&frames, "skill"),
        json!({"type": "event", "event": "skill", "name": "weather"})
    );
}

#[tokio::test]
async fn sub_agents_begin_and_end_and_what_comes_of_them_is_told_after() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    let task = json!({"task": "look around", "label": "searcher"});
    let mut frames = chat.say(&spawning(&[task])).await;
    assert_eq!(names(&frames).last(), Some(&"done"));
    // Its end, and what the agent makes of it, may come after that.
    while !frames.iter().any(|frame| name(frame) == "message") {
        frames.push(chat.next().await);
    }
    for event in ["subagent_start", "subagent_done"] {
        assert_eq!(find(&frames, event)["name"], "searcher", "{frames:?}");
    }
    let dones = frames.iter().filter(|frame| name(frame) == "done").count();
    assert_eq!(dones, 1, "{frames:?}");
}

#[tokio::test]
async fn what_is_told_of_a_sub_agent_before_and_after_a_tool_stands_apart() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    let then = "@mock tool name=session_status args={} pre=\"Let me look.\" then=\"All done.\"";
    // The mark is written so that neither who asks nor the sub-agent takes it for its own.
    let then = json!(then).to_string().replace('@', "\\u0040");
    chat.send(&spawning(&[json!({"task": format!("@child text text={then}")})])).await;
    let frames = chat.until("message").await;
    assert_eq!(frames.last().unwrap()["content"], "Let me look.\n\nAll done.");
}
