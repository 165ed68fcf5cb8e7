//! Stopping a turn that calls tools, at each of its points.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::exec::{all_die, pid_in};
use crate::stage::{
    Api, admin, ask, call, deltas, end_of, ends_of, events, history, scripted, settles, start,
    text_of, until, with_both_apis,
};
use crate::support::client::SOON;
use crate::support::{Gateway, WsClient};

const BEFORE: &str = "alpha beta gamma delta";
const AFTER: &str = "epsilon zeta eta theta";

/// A turn that says something, runs a command and says something more.
fn turn(args: &Value) -> String {
    format!("@mock tool name=exec args={args} pre=\"{BEFORE}\" then=\"{AFTER}\" n=4 delay=150")
}

/// A command that goes on until it is ended, and its child; both write their
/// process ids.
const LONG: &str = "echo $$ > first.pid; sh -c 'echo $$ > second.pid; sleep 600' & wait";

async fn processes(gateway: &Gateway) -> [u32; 2] {
    let place = gateway.workspace();
    [pid_in(&place.join("first.pid")).await, pid_in(&place.join("second.pid")).await]
}

/// Stops the run; the text that its `aborted` event shows.
async fn abort(client: &mut WsClient, run: &str) -> String {
    let params = json!({"sessionKey": "main", "runId": run});
    let answer = call(client, "chat.abort", params).await;
    assert_eq!(answer, json!({"ok": true, "aborted": true, "runIds": [run]}));
    let end = end_of(client, run).await;
    assert_eq!(end["state"], "aborted");
    text_of(&end["message"])
}

/// The messages of the only turn of the session so far, by their roles.
async fn kept(gateway: &Gateway, client: &mut WsClient, run: &str) -> Vec<Value> {
    settles(client, "agent:main:main", "killed").await;
    let messages = history(client, "main").await;
    assert_eq!(ends_of(client, run).len(), 1);
    let info = call(client, "sessions.list", json!({})).await;
    let id = info["sessions"][0]["sessionId"].as_str().unwrap();
    let path = gateway.state_dir().join(format!("agents/main/sessions/{id}.jsonl"));
    let lines = fs::read_to_string(path).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let stored: Vec<_> = lines.filter(|line| line["type"] == "message").collect();
    // What clients are shown is what is stored.
    assert_eq!(stored.len(), messages.len(), "{stored:?} {messages:?}");
    for (stored, shown) in stored.iter().zip(&messages) {
        assert_eq!(stored["message"]["role"], shown["role"]);
        assert_eq!(text_of(&stored["message"]), text_of(shown));
    }
    messages
}

fn roles(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

/// All that the model has said.
fn said(messages: &[Value]) -> String {
    let answers = messages.iter().filter(|message| message["role"] == "assistant");
    answers.map(text_of).collect()
}

/// The session goes on, and its model has been asked once for each answer.
async fn goes_on(client: &mut WsClient) {
    let next = ask(client, "main", "@mock text text=next", "next").await;
    assert_eq!(text_of(&next["message"]), "next");
}

async fn an_abort_while_the_model_says_what_it_will_do_keeps_the_words_marked(api: Api) {
    let (gateway, mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &turn(&json!({"command": "touch ran"})), "run-1").await;
    deltas(&client, "run-1", 1).await;
    let shown = abort(&mut client, "run-1").await;
    let messages = kept(&gateway, &mut client, "run-1").await;
    assert_eq!(roles(&messages), ["user", "assistant"]);
    assert_eq!(messages[1]["stopReason"], "aborted");
    assert_eq!(said(&messages).trim_end(), shown);
    assert!(!shown.is_empty() && BEFORE.starts_with(&shown), "{shown}");
    assert_eq!(mock.requests().len(), 1);
    goes_on(&mut client).await;
    assert!(!gateway.workspace().join("ran").exists());
}

async fn an_abort_while_a_command_runs_keeps_the_words_and_marks_the_call(api: Api) {
    let (gateway, mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    let args = json!({"command": format!("echo begun; {LONG}")});
    start(&mut client, "main", &turn(&args), "run-1").await;
    let pids = processes(&gateway).await;
    let shown = abort(&mut client, "run-1").await;
    all_die(&pids).await;
    let messages = kept(&gateway, &mut client, "run-1").await;
    assert_eq!(roles(&messages), ["user", "assistant", "toolResult"]);
    assert_eq!((said(&messages).as_str(), shown.as_str()), (BEFORE, BEFORE));
    let result = text_of(&messages[2]);
    assert!(result.ends_with("Stopped before it had a result (rpc)."), "{result}");
    assert_eq!(messages[2]["isError"], true);
    assert_eq!(mock.requests().len(), 1);
    goes_on(&mut client).await;
}

async fn an_abort_while_a_command_waits_for_a_person_starts_nothing(api: Api) {
    let (gateway, mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    let args = json!({"command": "touch ran", "ask": "always"});
    start(&mut client, "main", &turn(&args), "run-1").await;
    let asked = client.wait_for(SOON, |frame| frame["event"] == "exec.approval.requested").await;
    asked.expect("a question");
    let shown = abort(&mut client, "run-1").await;
    assert_eq!(call(&mut client, "exec.approval.list", json!({})).await, json!([]));
    let messages = kept(&gateway, &mut client, "run-1").await;
    assert_eq!(roles(&messages), ["user", "assistant", "toolResult"]);
    assert_eq!((said(&messages).as_str(), shown.as_str()), (BEFORE, BEFORE));
    assert!(text_of(&messages[2]).contains("Stopped before it had a result"), "{messages:?}");
    assert_eq!(mock.requests().len(), 1);
    goes_on(&mut client).await;
    assert!(!gateway.workspace().join("ran").exists());
}

async fn an_abort_after_a_command_keeps_its_result_and_all_words_once(api: Api) {
    let (gateway, mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &turn(&json!({"command": "echo result"})), "run-1").await;
    let more = until("the second answer", async || {
        let all = events(&client, "chat", "run-1");
        all.into_iter()
            .map(|payload| text_of(&payload["message"]))
            .find(|it| it.contains("epsilon"))
    });
    more.await;
    let shown = abort(&mut client, "run-1").await;
    let messages = kept(&gateway, &mut client, "run-1").await;
    assert_eq!(roles(&messages), ["user", "assistant", "toolResult", "assistant"]);
    assert_eq!(text_of(&messages[2]), "result");
    assert_eq!(messages[3]["stopReason"], "aborted");
    assert_eq!(said(&messages).trim_end(), shown);
    let all = format!("{BEFORE}{AFTER}");
    assert!(shown.len() > BEFORE.len() && all.starts_with(&shown), "{shown}");
    assert_eq!(mock.requests().len(), 2);
    goes_on(&mut client).await;
}

async fn an_abort_of_calls_in_parallel_keeps_the_results_that_are_there(api: Api) {
    let (gateway, _mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    let (quick, long) = (json!({"command": "echo over"}), json!({"command": LONG}));
    let text = format!("@mock tool parallel=1 name=exec args={long} name2=exec args2={quick}");
    start(&mut client, "main", &text, "run-1").await;
    let pids = processes(&gateway).await;
    until("the end of the quick one", async || {
        let cards = events(&client, "agent", "run-1");
        cards.iter().any(|card| card["data"]["status"] == "completed").then_some(())
    })
    .await;
    abort(&mut client, "run-1").await;
    all_die(&pids).await;
    let messages = kept(&gateway, &mut client, "run-1").await;
    assert_eq!(roles(&messages), ["user", "assistant", "toolResult", "toolResult"]);
    assert!(text_of(&messages[2]).contains("Stopped before"), "{messages:?}");
    assert_eq!(text_of(&messages[3]), "over");
    goes_on(&mut client).await;
}

#[tokio::test]
async fn an_abort_at_any_moment_of_a_tool_turn_loses_and_doubles_no_word() {
    let all = format!("{BEFORE}{AFTER}");
    for round in 0..10_u64 {
        let (gateway, _mock) = scripted(Api::OpenAi).await;
        let mut client = admin(&gateway).await;
        let text = turn(&json!({"command": "echo $$ > first.pid; sleep 0.1"}));
        start(&mut client, "main", &text, "run-1").await;
        // Up to about the time that the whole turn takes.
        sleep(Duration::from_millis(round * 120)).await;
        call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-1"})).await;
        let end = end_of(&client, "run-1").await;
        let messages = history(&mut client, "main").await;
        assert_eq!(said(&messages).trim_end(), text_of(&end["message"]).trim_end(), "{round}");
        assert!(all.starts_with(said(&messages).trim_end()), "{round}: {messages:?}");
        let pid = fs::read_to_string(gateway.workspace().join("first.pid"));
        let pids: Vec<u32> = pid.iter().filter_map(|pid| pid.trim().parse().ok()).collect();
        all_die(&pids).await;
        goes_on(&mut client).await;
        assert_eq!(ends_of(&client, "run-1").len(), 1, "{round}");
    }
}

with_both_apis! {
    an_abort_while_the_model_says_what_it_will_do_keeps_the_words_marked;
    an_abort_while_a_command_runs_keeps_the_words_and_marks_the_call;
    an_abort_while_a_command_waits_for_a_person_starts_nothing;
    an_abort_after_a_command_keeps_its_result_and_all_words_once;
    an_abort_of_calls_in_parallel_keeps_the_results_that_are_there;
}
