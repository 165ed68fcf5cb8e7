//! Runs that take too long.

use serde_json::{Value, json};

use crate::program::clawgate;
use crate::stage::{
    Api, admin, call, config, deltas, end_of, ends_of, history, scripted, settles, start, text_of,
    with_both_apis,
};
use crate::support::{Gateway, GatewayOptions, MockProvider};

/// Far longer than a run may take here.
const ENDLESS: &str = "@mock stream n=400 delay=50";

/// A gateway that stops each run after a second.
async fn hasty(api: Api) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), api);
    config["agents"]["defaults"]["timeoutSeconds"] = json!(1);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

async fn a_run_that_takes_too_long_is_stopped_with_what_it_has_and_the_next_one_starts(api: Api) {
    let (gateway, _mock) = hasty(api).await;
    let mut client = admin(&gateway).await;
    // Who sends may ask for less time than there is, not for more.
    let params = json!({"sessionKey": "main", "message": ENDLESS, "idempotencyKey": "run-1",
        "timeoutMs": 3_600_000});
    assert_eq!(call(&mut client, "chat.send", params).await["status"], "started");
    deltas(&client, "run-1", 1).await;
    // It has a time of its own, which begins with its turn.
    let params = json!({"sessionKey": "main", "message": "@mock text text=mine",
        "idempotencyKey": "run-2"});
    assert_eq!(call(&mut client, "agent", params).await["status"], "accepted");

    let end = end_of(&client, "run-1").await;
    assert_eq!((&end["state"], &end["stopReason"]), (&json!("aborted"), &json!("timeout")));
    assert!(text_of(&end["message"]).starts_with("w1"), "{end}");
    assert_eq!(text_of(&end_of(&client, "run-2").await["message"]), "mine");
    let waited = call(&mut client, "agent.wait", json!({"runId": "run-1"})).await;
    assert_eq!((&waited["status"], &waited["stopReason"]), (&json!("timeout"), &json!("timeout")));
    let time = |name: &str| waited[name].as_u64().unwrap();
    assert!(time("endedAt") - time("startedAt") >= 1000, "{waited}");
    let kept = &history(&mut client, "main").await[1];
    assert_eq!(kept["stopReason"], "aborted");
    assert_eq!(text_of(kept).trim_end(), text_of(&end["message"]).trim_end());
    assert_eq!(ends_of(&client, "run-1").len(), 1);
    let tasks = &call(&mut client, "status", json!({})).await["tasks"]["byStatus"];
    assert_eq!((&tasks["timed_out"], &tasks["succeeded"]), (&json!(1), &json!(1)), "{tasks}");
}

#[tokio::test]
async fn the_session_of_a_run_that_took_too_long_says_so() {
    let (gateway, _mock) = hasty(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", ENDLESS, "run-1").await;
    settles(&mut client, "agent:main:main", "timeout").await;
}

#[tokio::test]
async fn agent_stops_its_run_after_the_time_that_it_is_given() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let params = json!({"sessionKey": "main", "message": ENDLESS, "idempotencyKey": "run-1",
        "timeout": 1});
    assert_eq!(call(&mut client, "agent", params.clone()).await["status"], "accepted");
    let end = end_of(&client, "run-1").await;
    assert_eq!((&end["state"], &end["stopReason"]), (&json!("aborted"), &json!("timeout")));
    call(&mut client, "agent.wait", json!({"runId": "run-1"})).await;
    // None at all is as if it were not said.
    let mut unlimited = params;
    (unlimited["timeout"], unlimited["idempotencyKey"]) = (json!(0), json!("run-2"));
    unlimited["message"] = json!("@mock stream n=12 delay=40");
    call(&mut client, "agent", unlimited).await;
    assert_eq!(end_of(&client, "run-2").await["state"], "final");
}

#[tokio::test]
async fn the_answer_of_agent_says_after_what_was_said_that_its_time_was_over() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let payloads = async |message: &str| {
        let args = ["agent", "--agent", "main", "--timeout", "2", "--json", "-m", message];
        let told = clawgate(&gateway, &args).await;
        assert_eq!(told.status.code(), Some(1), "{told:?}");
        let answer: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!(answer["status"], "timeout", "{answer}");
        answer["result"]["payloads"].as_array().unwrap().clone()
    };
    let cut = payloads(ENDLESS).await;
    assert_eq!(cut.len(), 2, "{cut:?}");
    assert!(cut[0]["text"].as_str().unwrap().starts_with("w1"), "{cut:?}");
    assert!(cut[0].get("isError").is_none(), "{cut:?}");
    let why = "Request timed out before the response was complete. Please try again with a longer \
        timeout, or increase `agents.defaults.timeoutSeconds` in your config.";
    assert_eq!(cut[1], json!({"text": why, "mediaUrl": null, "isError": true}));
    // What it has thought is no answer. The original says so in these words.
    let why = "Request timed out before a response was generated. Please try again, or increase \
        `agents.defaults.timeoutSeconds` in your config.";
    let none = payloads("@mock think n=400 delay=50").await;
    assert_eq!(none, [json!({"text": why, "mediaUrl": null, "isError": true})]);
}

#[tokio::test]
async fn a_message_that_is_given_little_time_is_answered_all_the_same() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for (run_id, time) in [("run-1", 0), ("run-2", 1), ("run-3", 200)] {
        let params = json!({"sessionKey": "main", "message": "@mock stream n=12 delay=40",
            "idempotencyKey": run_id, "timeoutMs": time});
        assert_eq!(call(&mut client, "chat.send", params).await["status"], "started");
        let end: Value = end_of(&client, run_id).await;
        assert_eq!((&end["state"], &end["stopReason"]), (&json!("final"), &json!("stop")));
    }
}

with_both_apis! {
    a_run_that_takes_too_long_is_stopped_with_what_it_has_and_the_next_one_starts;
}
