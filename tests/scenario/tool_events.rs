//! Who is told what of a tool call.

use std::fs;

use serde_json::{Value, json};

use crate::stage::{
    Api, admin, ask, call, connect, end_of, events, history, scripted, start, text_of, until,
    with_both_apis,
};
use crate::support::WsClient;
use crate::support::client::{ALL_SCOPES, standard_connect};

const CALL: &str = "@mock tool name=session_status pre=\"Let me look.\" then=\"All is well.\"";

fn named(client: &WsClient, name: &str) -> Vec<Value> {
    client.frames().into_iter().filter(|frame| frame["event"] == name).collect()
}

fn of_stream(client: &WsClient, stream: &str) -> Vec<Value> {
    let mut all = events(client, "agent", "run-1");
    all.retain(|payload| payload["stream"] == stream);
    all
}

async fn tool_calls_are_told_to_their_owner_and_to_watchers_and_cards_to_all(api: Api) {
    let (gateway, _mock) = scripted(api).await;
    let mut params = standard_connect(&ALL_SCOPES);
    params["caps"] = json!(["tool-events"]);
    let mut owner = connect(&gateway, &params).await;
    let mut watcher = admin(&gateway).await;
    call(&mut watcher, "sessions.subscribe", json!({})).await;
    let bystander = admin(&gateway).await;
    let end = ask(&mut owner, "main", CALL, "run-1").await;
    assert_eq!(text_of(&end["message"]), "Let me look.All is well.");
    for client in [&watcher, &bystander] {
        end_of(client, "run-1").await;
    }

    let told = of_stream(&owner, "tool");
    let phases: Vec<_> = told.iter().map(|payload| payload["data"]["phase"].clone()).collect();
    assert_eq!(phases, ["start", "result"]);
    for payload in &told {
        assert_eq!(payload["session"]["key"], "agent:main:main", "{payload}");
        assert_eq!(
            (&payload["status"], &payload["abortedLastRun"]),
            (&json!("running"), &json!(false))
        );
        assert!(payload["totalTokens"].as_u64().unwrap() > 0, "{payload}");
    }
    let seen: Vec<_> = named(&watcher, "session.tool");
    let seen: Vec<_> = seen.into_iter().map(|mut frame| frame["payload"].take()).collect();
    assert_eq!(seen, told);
    assert!(
        named(&owner, "session.tool").is_empty() && named(&bystander, "session.tool").is_empty()
    );
    assert!(of_stream(&watcher, "tool").is_empty() && of_stream(&bystander, "tool").is_empty());
    for client in [&owner, &watcher, &bystander] {
        let cards = of_stream(client, "item");
        let states: Vec<_> = cards.iter().map(|card| card["data"]["status"].clone()).collect();
        assert_eq!(states, ["running", "completed"]);
        assert!(cards.iter().all(|card| card["data"]["title"] == "session_status"));
    }
    order(&watcher);
}

#[tokio::test]
async fn who_begins_another_run_meanwhile_sees_the_calls_of_the_one_that_is_active() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut first = admin(&gateway).await;
    let mut params = standard_connect(&ALL_SCOPES);
    params["caps"] = json!(["tool-events"]);
    let mut second = connect(&gateway, &params).await;
    let other = connect(&gateway, &params).await;
    let args = json!({"command": "until [ -e go ]; do sleep 0.05; done"});
    let text = format!("@mock tool name=exec args={args} then=done");
    start(&mut first, "main", &text, "run-1").await;
    until("the call", async || (!of_stream(&first, "item").is_empty()).then_some(())).await;
    start(&mut second, "main", "@mock text text=later", "run-2").await;
    fs::write(gateway.workspace().join("go"), "").unwrap();
    for client in [&first, &second, &other] {
        end_of(client, "run-1").await;
    }
    let told = of_stream(&second, "tool");
    let phases: Vec<_> = told.iter().map(|payload| payload["data"]["phase"].clone()).collect();
    assert_eq!(phases.last(), Some(&json!("result")), "{told:?}");
    assert!(of_stream(&first, "tool").is_empty(), "it has not asked for them");
    assert!(of_stream(&other, "tool").is_empty(), "it has begun no run");
}

/// The text before the call, the call, its message, its result.
fn order(watcher: &WsClient) {
    let frames = watcher.frames();
    let at = |what: &str, wanted: &dyn Fn(&Value) -> bool| {
        frames.iter().position(wanted).unwrap_or_else(|| panic!("no {what} in {frames:?}"))
    };
    let chat = at("delta", &|frame| {
        frame["event"] == "chat" && text_of(&frame["payload"]["message"]) == "Let me look."
    });
    let tool = at("tool", &|frame| frame["event"] == "session.tool");
    let card = at("card", &|frame| frame["payload"]["data"]["status"] == "running");
    let message = at("message", &|frame| frame["payload"]["message"]["stopReason"] == "toolUse");
    let result = at("result", &|frame| {
        frame["event"] == "session.tool" && frame["payload"]["data"]["phase"] == "result"
    });
    let steps = [chat, tool, card, message, result];
    assert!(steps.is_sorted(), "{steps:?}");
    let results = frames.iter().filter(|frame| {
        frame["event"] == "session.message" && frame["payload"]["message"]["role"] == "toolResult"
    });
    assert_eq!(results.count(), 0, "results are no messages of their own");
}

async fn a_call_whose_arguments_are_no_json_is_refused_and_the_run_goes_on(api: Api) {
    let (gateway, _mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    let text = "@mock tool name=session_status args=oops then=whole";
    let end = ask(&mut client, "main", text, "run-1").await;
    assert_eq!(text_of(&end["message"]), "whole");
    let messages = history(&mut client, "main").await;
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "assistant"]);
    assert_eq!(messages[2]["isError"], true, "{messages:?}");
    let said = text_of(&messages[2]);
    assert!(said.contains("no valid JSON object (invalid type: string \"oops\""), "{said}");
}

async fn a_model_that_asks_for_unknown_tools_without_end_ends_with_an_answer(api: Api) {
    let (gateway, _mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    let names: String = (2..=12).map(|number| format!(" name{number}=nope")).collect();
    let text = format!("@mock tool name=nope{names} delay=1");
    let end = ask(&mut client, "main", &text, "run-1").await;
    assert_eq!(end["stopReason"], "stop", "{end}");
    let messages = history(&mut client, "main").await;
    let last = messages.last().unwrap();
    assert!(text_of(last).starts_with("I can't use the tool \"nope\""), "{last}");
    assert_eq!(last["stopReason"], "stop");
}

with_both_apis! {
    a_call_whose_arguments_are_no_json_is_refused_and_the_run_goes_on;
    a_model_that_asks_for_unknown_tools_without_end_ends_with_an_answer;
    tool_calls_are_told_to_their_owner_and_to_watchers_and_cards_to_all;
}
