//! Calls that wait for a person.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Chat, find, key_of, names, place, said};
use crate::stage::{RUN_LIMIT, admin, call, history, serve, start, text_of, until};
use crate::subagents::spawning;
use crate::support::client::SOON;
use crate::support::guest::Guest;
use crate::support::{Gateway, MockProvider, WsClient};

/// Where each command is asked about.
async fn asking() -> (Gateway, MockProvider) {
    place(|config| config["tools"]["exec"] = json!({"ask": "always"})).await
}

/// A file that is only there when the command ran, and a message upon which the
/// model runs it.
fn running(gateway: &Gateway) -> (PathBuf, String) {
    let file = gateway.workspace().join("ran");
    let arguments = json!({"command": format!("touch {} && echo was here", file.display())});
    (file, format!("@mock tool name=exec args={arguments} then=\"done\""))
}

async fn approve(chat: &mut Chat, call_id: &Value, response: &str) {
    chat.act(json!({"action": "approve_tool", "call_id": call_id, "response": response})).await;
}

#[tokio::test]
async fn a_yes_in_the_middle_of_a_response_lets_the_call_go_on() {
    let (gateway, _mock) = asking().await;
    let (file, message) = running(&gateway);
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    for response in ["yes", "Y"] {
        chat.send(&message).await;
        let asked = chat.until("tool_approval_request").await;
        assert_eq!(names(&asked), ["tool_start", "approval_request", "tool_approval_request"]);
        let call_id = find(&asked, "tool_start")["call_id"].clone();
        for name in ["approval_request", "tool_approval_request"] {
            let request = find(&asked, name);
            assert_eq!((&request["call_id"], &request["tool"]), (&call_id, &json!("exec")));
            let arguments: Value =
                serde_json::from_str(request["arguments"].as_str().unwrap()).unwrap();
            assert!(arguments["command"].as_str().unwrap().starts_with("touch "));
        }
        assert!(!file.exists());
        approve(&mut chat, &call_id, response).await;
        let rest = chat.response().await;
        assert_eq!(
            names(&rest),
            ["approval_resolved", "tool_progress", "tool_done", "delta", "done"]
        );
        assert_eq!(
            rest[0],
            json!({"type": "event", "event": "approval_resolved", "call_id": call_id,
                "tool": "exec", "approved": true})
        );
        assert_eq!(find(&rest, "tool_done")["call_id"], call_id);
        std::fs::remove_file(&file).unwrap();
    }
    chat.nothing_comes().await;
}

#[tokio::test]
async fn anything_else_is_a_no_that_the_model_learns_of_and_the_turn_goes_on() {
    let (gateway, _mock) = asking().await;
    let (file, message) = running(&gateway);
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    chat.send(&message).await;
    let asked = chat.until("tool_approval_request").await;
    approve(&mut chat, &find(&asked, "tool_start")["call_id"], "rather not").await;
    let rest = chat.response().await;
    assert_eq!(names(&rest), ["approval_resolved", "tool_done", "delta", "done"]);
    assert_eq!((&rest[0]["approved"], said(&rest).as_str()), (&json!(false), "done"));
    assert!(!file.exists());
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    let messages = history(&mut client, &key).await;
    let result = messages.iter().find(|message| message["role"] == "toolResult").unwrap();
    assert!(text_of(result).starts_with("Exec denied"), "{result}");
}

/// An answer that calls `exec` for each command, with one id.
fn calls(commands: &[&str]) -> String {
    let calls: Vec<_> = (0_usize..)
        .zip(commands)
        .map(|(index, command)| {
            let arguments = json!({ "command": command }).to_string();
            json!({"index": index, "id": "dup", "type": "function",
                "function": {"name": "exec", "arguments": arguments}})
        })
        .collect();
    sse(&json!({ "tool_calls": calls }), "tool_calls")
}

fn sse(delta: &Value, reason: &str) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
    format!("data: {}\n\ndata: [DONE]\n\n", json!({"id": "r", "choices": [choice]}))
}

/// Where each command is asked about, and the model calls `exec` with one id: once for each
/// list of commands, and then it is done.
async fn calling(commands: &'static [&'static [&'static str]]) -> (Gateway, impl Sized) {
    let asked = Arc::new(AtomicUsize::new(0));
    let app = axum::Router::new().fallback(move || {
        let said = match commands.get(asked.fetch_add(1, Ordering::Relaxed)) {
            Some(commands) => calls(commands),
            None => sse(&json!({"content": "done"}), "stop"),
        };
        async move { ([("content-type", "text/event-stream")], said) }
    });
    let (port, server) = serve(app).await;
    let (gateway, mock) = place(|config| {
        config["tools"]["exec"] = json!({"ask": "always"});
        let url = format!("http://127.0.0.1:{port}/v1");
        config["models"]["providers"]["mock"]["baseUrl"] = json!(url);
    })
    .await;
    (gateway, (server, mock))
}

/// The name of the next question, and the file that is there once its command ran.
async fn asked(chat: &mut Chat, gateway: &Gateway) -> (Value, PathBuf) {
    let asked = chat.until("tool_approval_request").await;
    let request = find(&asked, "tool_approval_request");
    let is_one = request["arguments"].as_str().unwrap().contains("one");
    let file = gateway.workspace().join(if is_one { "one" } else { "two" });
    (request["call_id"].clone(), file)
}

#[tokio::test]
async fn of_two_calls_with_one_id_the_one_is_answered_that_was_asked_about() {
    let (gateway, _model) = calling(&[&["touch one", "touch two"]]).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    chat.send("go").await;
    let (first, allowed) = asked(&mut chat, &gateway).await;
    let (second, refused) = asked(&mut chat, &gateway).await;
    // Either call may be asked about first.
    let has_its_own = (first == "dup") != (second == "dup");
    assert!(has_its_own && allowed != refused, "{first} {second}");
    // Said twice, it is no answer to the other one.
    approve(&mut chat, &first, "yes").await;
    approve(&mut chat, &first, "yes").await;
    approve(&mut chat, &second, "no").await;
    assert_eq!(said(&chat.response().await), "done");
    assert_eq!((allowed.exists(), refused.exists()), (true, false));
}

#[tokio::test]
async fn a_late_second_yes_lets_no_later_call_with_the_same_id_go_on() {
    let (gateway, _model) = calling(&[&["touch one"], &["touch two"]]).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    chat.send("go").await;
    let (first, allowed) = asked(&mut chat, &gateway).await;
    approve(&mut chat, &first, "yes").await;
    let (second, refused) = asked(&mut chat, &gateway).await;
    assert!(first == "dup" && second != first && allowed != refused, "{second}");
    approve(&mut chat, &first, "yes").await;
    approve(&mut chat, &second, "no").await;
    assert_eq!(said(&chat.response().await), "done");
    assert_eq!((allowed.exists(), refused.exists()), (true, false));
}

#[tokio::test]
async fn an_unknown_call_is_resolved_all_the_same() {
    let (gateway, _mock) = asking().await;
    let mut chat = Chat::open(&gateway).await;
    for (response, approved) in [("yes", true), ("no", false)] {
        approve(&mut chat, &json!("call-abc-123"), response).await;
        assert_eq!(
            chat.next().await,
            json!({"type": "event", "event": "approval_resolved", "call_id": "call-abc-123",
                "approved": approved})
        );
    }
}

#[tokio::test]
async fn what_is_decided_elsewhere_is_told_once() {
    let (gateway, _mock) = asking().await;
    let (file, message) = running(&gateway);
    let mut chat = Chat::open(&gateway).await;
    let mut decider = admin(&gateway).await;
    chat.begin().await;
    chat.send(&message).await;
    chat.until("tool_approval_request").await;
    let asked =
        decider.wait_for(SOON, |it| it["event"] == "exec.approval.requested").await.unwrap();
    let params = json!({"id": asked["payload"]["id"], "decision": "allow-once"});
    call(&mut decider, "exec.approval.resolve", params).await;
    let rest = chat.response().await;
    assert_eq!(names(&rest), ["approval_resolved", "tool_progress", "tool_done", "delta", "done"]);
    assert!(rest[0]["approved"] == true && file.exists());
    chat.nothing_comes().await;
}

#[tokio::test]
async fn a_question_whose_run_is_stopped_is_settled_and_the_next_one_is_asked() {
    let (gateway, _mock) = asking().await;
    let (file, message) = running(&gateway);
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    for stopped_by_itself in [true, false] {
        chat.send(&message).await;
        let asked = chat.until("tool_approval_request").await;
        let call_id = find(&asked, "tool_start")["call_id"].clone();
        if stopped_by_itself {
            chat.send("/stop").await;
        } else {
            call(&mut client, "chat.abort", json!({"sessionKey": key})).await;
        }
        let rest = chat.response().await;
        assert_eq!(names(&rest), ["approval_resolved", "tool_done", "done"], "{rest:?}");
        assert_eq!(
            rest[0],
            json!({"type": "event", "event": "approval_resolved", "call_id": call_id,
                "tool": "exec", "approved": false})
        );
        if stopped_by_itself {
            assert_eq!(names(&chat.response().await), ["message", "done"]);
        }
        approve(&mut chat, &call_id, "yes").await;
        let told = chat.next().await;
        assert_eq!((&told["event"], &told["call_id"]), (&json!("approval_resolved"), &call_id));
    }
    assert!(!file.exists());
}

#[tokio::test]
async fn a_question_of_another_clients_turn_in_the_open_conversation_can_be_answered_here() {
    let (gateway, _mock) = asking().await;
    let (file, message) = running(&gateway);
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    start(&mut client, &key, &message, "run-1").await;
    let asked = chat.until("tool_approval_request").await;
    assert_eq!(names(&asked), ["approval_request", "tool_approval_request"]);
    approve(&mut chat, &asked[0]["call_id"], "yes").await;
    let resolved = chat.next().await;
    assert_eq!(
        (&resolved["event"], &resolved["approved"]),
        (&json!("approval_resolved"), &json!(true))
    );
    until("the command", async || file.exists().then_some(())).await;
    chat.nothing_comes().await;
}

#[tokio::test]
async fn who_comes_to_a_conversation_sees_what_is_asked_there_and_can_answer() {
    let (gateway, _mock) = asking().await;
    let (file, message) = running(&gateway);
    let id = Chat::open(&gateway).await.begin().await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    start(&mut client, &key, &message, "run-1").await;
    client.wait_for(SOON, |it| it["event"] == "exec.approval.requested").await.unwrap();
    let mut chat = Chat::open(&gateway).await;
    chat.resume(&id).await;
    let asked = chat.until("tool_approval_request").await;
    assert_eq!(names(&asked), ["approval_request", "tool_approval_request"]);
    approve(&mut chat, &asked[0]["call_id"], "yes").await;
    let resolved = chat.until("approval_resolved").await;
    assert_eq!(resolved.last().unwrap()["approved"], true);
    until("the command", async || file.exists().then_some(())).await;
}

#[tokio::test]
async fn who_goes_has_said_no() {
    let (gateway, _mock) = asking().await;
    let (file, message) = running(&gateway);
    // Somebody else could decide, and is not waited for.
    let mut watcher = admin(&gateway).await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    chat.send(&message).await;
    chat.until("tool_approval_request").await;
    drop(chat);
    let resolved =
        watcher.wait_for(SOON, |it| it["event"] == "exec.approval.resolved").await.unwrap();
    assert_eq!(resolved["payload"]["decision"], "deny");
    // The turn goes on with that, and the conversation is there.
    let key = key_of(&mut watcher, &id).await;
    until("the answer", async || {
        let told = crate::stage::told(&mut watcher, &key).await;
        told.last().is_some_and(|(role, text)| role == "assistant" && text == "done").then_some(())
    })
    .await;
    assert!(!file.exists());
}

#[tokio::test]
async fn who_has_gone_has_said_no_to_what_is_asked_later() {
    let (gateway, _mock) = asking().await;
    let (file, message) = running(&gateway);
    let watcher = admin(&gateway).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    chat.send(&later(&message)).await;
    chat.until("delta").await;
    drop(chat);
    let is_resolved = |it: &Value| it["event"] == "exec.approval.resolved";
    let resolved = watcher.wait_for(RUN_LIMIT, is_resolved).await.expect("an answer");
    assert_eq!(resolved["payload"]["decision"], "deny");
    assert!(!file.exists());
}

/// A message upon which the call comes after the second piece of text.
fn later(message: &str) -> String {
    format!("{message} pre=\"let me look\" delay=1000")
}

/// Another client's run in a conversation of the dialect, at which this one begins to look
/// before its call comes.
async fn look_at_run_of_another(chat: &mut Chat, gateway: &Gateway, message: &str) -> WsClient {
    let id = Chat::open(gateway).await.begin().await;
    let mut client = admin(gateway).await;
    let key = key_of(&mut client, &id).await;
    start(&mut client, &key, &later(message), "run-1").await;
    crate::stage::deltas(&client, "run-1", 1).await;
    chat.resume(&id).await;
    client
}

/// The id of the question that comes.
async fn question(client: &WsClient) -> Value {
    let is_asked = |it: &Value| it["event"] == "exec.approval.requested";
    client.wait_for(RUN_LIMIT, is_asked).await.expect("a question")["payload"]["id"].clone()
}

/// Who only looks on goes, and the question is still there for whoever has to answer.
async fn goes_and_leaves_it(mut chat: Chat, client: &mut WsClient) {
    let asked = chat.until("tool_approval_request").await;
    let id = question(client).await;
    // By its own id, as any question of somebody else.
    assert_eq!(find(&asked, "tool_approval_request")["call_id"], id);
    drop(chat);
    let is_resolved = |it: &Value| it["event"] == "exec.approval.resolved";
    assert_eq!(client.wait_for(Duration::from_secs(1), is_resolved).await, None);
    call(client, "exec.approval.resolve", json!({"id": id, "decision": "allow-once"})).await;
}

#[tokio::test]
async fn who_only_looks_at_a_response_has_said_no_to_nothing_when_he_goes() {
    let (gateway, _mock) = asking().await;
    let (file, message) = running(&gateway);
    let mut chat = Chat::open(&gateway).await;
    let mut client = look_at_run_of_another(&mut chat, &gateway, &message).await;
    goes_and_leaves_it(chat, &mut client).await;
    until("the command", async || file.exists().then_some(())).await;
}

/// A file that is only there when the command ran, and a message upon which a sub-agent
/// of the model runs it.
fn spawning_one_that_runs(gateway: &Gateway) -> (PathBuf, String) {
    let (file, message) = running(gateway);
    let task = message.replace("@mock", "@child");
    (file, spawning(&[json!({ "task": task })]))
}

#[tokio::test]
async fn a_sub_agent_asks_whoever_has_begun_it_and_not_who_looks_on() {
    let (gateway, _mock) = asking().await;
    let (file, message) = spawning_one_that_runs(&gateway);
    let mut chat = Chat::open(&gateway).await;
    let mut client = look_at_run_of_another(&mut chat, &gateway, &message).await;
    goes_and_leaves_it(chat, &mut client).await;
    until("the command", async || file.exists().then_some(())).await;
}

#[tokio::test]
async fn who_goes_has_said_no_to_what_his_sub_agents_ask() {
    let (gateway, _mock) = asking().await;
    let (file, message) = spawning_one_that_runs(&gateway);
    let watcher = admin(&gateway).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    chat.send(&message).await;
    chat.until("tool_approval_request").await;
    drop(chat);
    let is_resolved = |it: &Value| it["event"] == "exec.approval.resolved";
    let resolved = watcher.wait_for(RUN_LIMIT, is_resolved).await.expect("an answer");
    assert_eq!(resolved["payload"]["decision"], "deny");
    assert!(!file.exists());
}

#[tokio::test]
async fn who_goes_has_said_no_to_what_his_sub_agent_asks_when_it_is_told_something_later() {
    let (gateway, _mock) = asking().await;
    let (file, message) = running(&gateway);
    let watcher = admin(&gateway).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    chat.send(&spawning(&[json!({"task": "@child text text=ready", "label": "kid"})])).await;
    chat.until("subagent_done").await;
    // The mock obeys the last directive of a message, which is not that of the sub-agent.
    let later = json!({"action": "steer", "target": "kid", "message": message});
    let later = later.to_string().replace('@', "\\u0040");
    chat.send(&format!("@mock tool name=subagents args={later} then=told")).await;
    chat.until("tool_approval_request").await;
    drop(chat);
    let is_resolved = |it: &Value| it["event"] == "exec.approval.resolved";
    let resolved = watcher.wait_for(RUN_LIMIT, is_resolved).await.expect("an answer");
    assert_eq!(resolved["payload"]["decision"], "deny");
    assert!(!file.exists());
}

#[tokio::test]
async fn who_may_not_decide_is_not_shown_what_others_are_asked() {
    let (gateway, _mock) = asking().await;
    let (_, message) = running(&gateway);
    let token = Guest::new("reader", &["operator.read"]).token(&gateway).await;
    let mut chat = Chat::open_with(&gateway, &token).await.expect("let in");
    let mut client = look_at_run_of_another(&mut chat, &gateway, &message).await;
    let question = question(&client).await;
    let answer = json!({"id": question, "decision": "allow-once"});
    call(&mut client, "exec.approval.resolve", answer).await;
    let frames = chat.response().await;
    assert!(!names(&frames).iter().any(|name| name.contains("approval")), "{frames:?}");
}

#[tokio::test]
async fn each_right_is_needed_for_what_it_is_for_and_the_error_names_it() {
    let with = |scopes: &'static [&'static str]| {
        place(move |config| {
            config["tools"]["exec"] = json!({"ask": "always"});
            config["gateway"]["auth"]["sharedSecretScopes"] = json!(scopes);
        })
    };
    let (gateway, _mock) = with(&["operator.read"]).await;
    let mut chat = Chat::open(&gateway).await;
    chat.act(json!({"action": "new_session"})).await;
    assert_eq!(
        chat.next().await,
        json!({"type": "error", "content": "missing scope: operator.write"})
    );
    let frames = chat.say("hello").await;
    assert_eq!(frames[0]["content"], "missing scope: operator.write");
    assert_eq!(names(&frames), ["error", "done"]);
    approve(&mut chat, &json!("c"), "yes").await;
    assert_eq!(
        chat.next().await,
        json!({"type": "error", "content": "missing scope: operator.approvals"})
    );
    let (gateway, _mock) = with(&["operator.write"]).await;
    let refused = Chat::open_with(&gateway, crate::support::config::SECRET).await;
    // Who may write may read.
    assert!(refused.is_ok());
    let (gateway, _mock) = with(&["operator.approvals"]).await;
    let refused = Chat::open_with(&gateway, crate::support::config::SECRET).await;
    assert_eq!(refused.err().map(|refusal| refusal.status), Some(403));
}

#[tokio::test]
async fn a_client_that_may_not_decide_is_told_and_its_word_counts_for_nothing() {
    let (gateway, _mock) = place(|config| {
        config["tools"]["exec"] = json!({"ask": "always"});
        config["gateway"]["auth"]["sharedSecretScopes"] =
            json!(["operator.read", "operator.write"]);
    })
    .await;
    let (file, message) = running(&gateway);
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    chat.send(&message).await;
    // Nobody is there who could decide: then it is a no at once.
    let frames = tokio::time::timeout(Duration::from_secs(10), chat.response()).await.unwrap();
    assert_eq!(names(&frames).last(), Some(&"done"));
    assert!(!file.exists());
}
