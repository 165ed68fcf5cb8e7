//! `agent`, which answers twice, and `agent.wait`.

use serde_json::{Value, json};

use crate::played::{Played, Said, begins, block, block_ends, ends, says};
use crate::stage::{
    Api, admin, ask, call, config, deltas, end_of, ends_of, row, scripted, start, text_of, told,
    until, with_both_apis,
};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const STREAM: &str = "@mock stream n=20 delay=40";

async fn ask_agent(client: &mut WsClient, id: &str, params: Value) {
    client.send(&json!({"type": "req", "id": id, "method": "agent", "params": params})).await;
}

/// The answers to one request, as soon as there are `count`.
async fn answers(client: &WsClient, id: &str, count: usize) -> Vec<Value> {
    let found = client.wait_until(crate::stage::RUN_LIMIT, |all| {
        let frames = all.iter().filter_map(|received| received.what.frame());
        let answers: Vec<Value> =
            frames.filter(|frame| frame["type"] == "res" && frame["id"] == id).cloned().collect();
        (answers.len() >= count).then_some(answers)
    });
    found.await.unwrap_or_else(|| panic!("{id} has no {count} answers in {:?}", client.frames()))
}

async fn a_message_is_answered_when_accepted_and_when_done(api: Api) {
    let (gateway, mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    let params = json!({"message": STREAM, "sessionKey": "main", "idempotencyKey": "k"});
    ask_agent(&mut client, "q1", params.clone()).await;
    let first = answers(&client, "q1", 1).await[0]["payload"].clone();
    assert_eq!((&first["runId"], &first["status"]), (&json!("k"), &json!("accepted")));
    deltas(&client, "k", 1).await;

    // The same key while it runs: accepted again, at the same time.
    ask_agent(&mut client, "q2", params.clone()).await;
    assert_eq!(answers(&client, "q2", 1).await[0]["payload"], first);
    let end = end_of(&client, "k").await;
    let text = text_of(&end["message"]);
    let last = answers(&client, "q1", 2).await[1]["payload"].clone();
    assert_eq!((&last["status"], &last["summary"]), (&json!("ok"), &json!("completed")));
    assert_eq!(last["result"]["payloads"], json!([{"text": text, "mediaUrl": null}]));
    assert_eq!(answers(&client, "q2", 2).await[1]["payload"], last);

    // And later: the last answer, and nothing is run.
    assert_eq!(call(&mut client, "agent", params).await, last);
    assert_eq!(mock.requests().len(), 1);
    assert_eq!(told(&mut client, "main").await.len(), 2);
    assert_eq!(ends_of(&client, "k").len(), 1);

    // Keys of chat.send are others.
    assert_eq!(ask(&mut client, "main", "@mock text text=chat", "k").await["state"], "final");
}

#[tokio::test]
async fn what_each_turn_of_a_run_says_is_a_payload_of_its_own() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let text = "@mock tool name=session_status args={} pre=\"I look.\" then=\"Done now.\"";
    let params = json!({"message": text, "sessionKey": "main", "idempotencyKey": "k"});
    ask_agent(&mut client, "q", params).await;
    let result = answers(&client, "q", 2).await[1]["payload"]["result"].clone();
    let payload = |text: &str| json!({"text": text, "mediaUrl": null});
    assert_eq!(result["payloads"], json!([payload("I look."), payload("Done now.")]));
    assert_eq!(result["meta"]["finalAssistantVisibleText"], "Done now.");
}

#[tokio::test]
async fn what_fails_after_the_provider_has_answered_again_is_not_its_failure() {
    let refusal = json!({"type": "error", "error": {"type": "invalid_request_error",
        "message": "prompt is too long: 9 tokens > 8 maximum"}});
    let tool = json!({"type": "tool_use", "id": "t", "name": "session_status", "input": {}});
    let begun = [begins(30), block(0, &tool), block_ends(0)];
    let calls = Said::Whole([&begun[..], &ends("tool_use")].concat());
    // The third is the summary, with which it goes on.
    let begin = [says("hi", 5), Said::Whole(vec![refusal]), says("They said hello.", 5)];
    let all: Vec<_> = begin.into_iter().chain(std::iter::repeat_n(calls, 100)).collect();
    let provider = Played::new(all).await;
    let mut config = config(&provider.address(), Api::Anthropic);
    config["agents"]["defaults"]["compaction"] =
        json!({"keepRecentTokens": 1, "memoryFlush": {"enabled": false}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let params = json!({"message": "go on", "sessionKey": "main", "idempotencyKey": "k"});
    ask_agent(&mut client, "q", params).await;
    let failed = answers(&client, "q", 2).await[1].clone();
    let why = failed["error"]["message"].as_str().unwrap_or_else(|| panic!("{failed}"));
    assert!(why.starts_with("Error: the model called tools 100 times"), "{why}");
}

#[tokio::test]
async fn the_last_answer_is_the_same_after_a_restart_while_the_session_goes_on() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let text = "@mock tool name=session_status args={} pre=\"I look.\" then=\"Done now.\"";
    let works = json!({"message": text, "sessionKey": "main", "idempotencyKey": "k"});
    ask_agent(&mut client, "q", works.clone()).await;
    let last = answers(&client, "q", 2).await[1]["payload"]["result"].clone();
    assert_eq!(last["payloads"].as_array().unwrap().len(), 2, "{last}");
    // What is said later is of others, also under the same key of another method.
    ask(&mut client, "main", "@mock text text=later", "l").await;
    ask(&mut client, "main", "@mock text text=later", "k").await;
    let fails = json!({"message": "@mock err status=401", "to": "+1", "idempotencyKey": "f"});
    ask_agent(&mut client, "f", fails.clone()).await;
    let failed = answers(&client, "f", 2).await[1].clone();
    assert!(failed["error"]["message"].as_str().unwrap().starts_with("FailoverError: "));

    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let again = call(&mut client, "agent", works.clone()).await["result"].clone();
    assert_eq!(again["payloads"], last["payloads"]);
    assert_eq!(again["meta"]["finalAssistantVisibleText"], "Done now.");
    let again = client.request("agent", fails).await;
    assert_eq!((&again["payload"], &again["error"]), (&failed["payload"], &failed["error"]));

    // Where nothing tells of it any more, it is not taken for one that said nothing.
    call(&mut client, "sessions.reset", json!({"key": "main"})).await;
    let again = call(&mut client, "agent", works).await["result"].clone();
    assert_eq!(again["payloads"], json!([]));
    assert_eq!(again["meta"].get("finalAssistantVisibleText"), None, "{again}");
}

#[tokio::test]
async fn an_aborted_run_says_so_in_its_last_answer() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask_agent(
        &mut client,
        "q",
        json!({"message": STREAM, "agentId": "main", "idempotencyKey": "k"}),
    )
    .await;
    deltas(&client, "k", 2).await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "k"})).await;
    let last = answers(&client, "q", 2).await[1]["payload"].clone();
    assert_eq!((&last["status"], &last["summary"]), (&json!("timeout"), &json!("aborted")));
    let text = last["result"]["payloads"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(text, text_of(&end_of(&client, "k").await["message"]));
    let waited = call(&mut client, "agent.wait", json!({"runId": "k"})).await;
    assert_eq!((&waited["status"], &waited["stopReason"]), (&json!("timeout"), &json!("rpc")));
}

#[tokio::test]
async fn a_failed_run_is_an_error_with_a_payload_and_stays_one() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let params = json!({"message": "@mock err status=401", "to": "+1", "idempotencyKey": "k"});
    ask_agent(&mut client, "q", params.clone()).await;
    let last = answers(&client, "q", 2).await[1].clone();
    assert_eq!((&last["ok"], &last["error"]["code"]), (&json!(false), &json!("UNAVAILABLE")));
    assert_eq!(last["payload"]["summary"], last["error"]["message"]);
    let again = client.request("agent", params).await;
    assert_eq!((&again["payload"], &again["error"]), (&last["payload"], &last["error"]));
    let waited = call(&mut client, "agent.wait", json!({"runId": "k"})).await;
    assert_eq!((&waited["status"], &waited["error"]), (&json!("error"), &last["error"]["message"]));
}

#[tokio::test]
async fn a_run_can_be_waited_for_before_it_starts_while_it_runs_and_after() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let early = json!({"type": "req", "id": "early", "method": "agent.wait",
        "params": {"runId": "k"}});
    client.send(&early).await;
    let over = call(&mut client, "agent.wait", json!({"runId": "k", "timeoutMs": 20})).await;
    assert_eq!(over, json!({"runId": "k", "status": "timeout"}));
    start(&mut client, "main", STREAM, "k").await;
    let over = call(&mut client, "agent.wait", json!({"runId": "k", "timeoutMs": 20})).await;
    assert_eq!(over["status"], "timeout");
    let early = client.answer("early").await.unwrap()["payload"].clone();
    assert_eq!((&early["status"], &early["stopReason"]), (&json!("ok"), &json!("stop")));
    assert!(early["startedAt"].as_u64() <= early["endedAt"].as_u64(), "{early}");
    let late = call(&mut client, "agent.wait", json!({"runId": "k", "timeoutMs": 0})).await;
    assert_eq!(late, early);
}

#[tokio::test]
async fn many_runs_that_are_awaited_leave_the_connection_open_for_more() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for index in 0..80 {
        let params = json!({"message": "@mock stream n=100 delay=100", "sessionKey": "main",
            "idempotencyKey": format!("k{index}")});
        ask_agent(&mut client, &format!("q{index}"), params).await;
    }
    answers(&client, "q79", 1).await;
    let aborted = call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
    assert_eq!(aborted["runIds"].as_array().unwrap().len(), 80);
    assert_eq!(answers(&client, "q79", 2).await[1]["payload"]["status"], "timeout");
}

/// As in the limits of docs/protocol.md.
const AWAITED_MAX: usize = 1000;
/// A run that does not end by itself while a test lasts.
const ENDLESS: &str = "@mock stream n=2000 delay=100";

#[tokio::test]
async fn a_connection_that_waits_for_too_many_ends_is_told_and_hears_of_those() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let params = json!({"message": ENDLESS, "sessionKey": "main", "idempotencyKey": "k"});
    for index in 0..=AWAITED_MAX {
        ask_agent(&mut client, &format!("q{index}"), params.clone()).await;
    }
    let have = async |client: &WsClient, status: &str| {
        let all = client.wait_until(crate::stage::RUN_LIMIT, |all| {
            let frames = all.iter().filter_map(|received| received.what.frame());
            let told = frames.filter(|frame| frame["payload"]["status"] == status);
            (told.count() >= AWAITED_MAX).then_some(())
        });
        all.await.unwrap_or_else(|| panic!("not all are {status}"));
    };
    have(&client, "accepted").await;
    let refused = client.wait_for(crate::stage::RUN_LIMIT, |frame| frame["ok"] == false).await;
    let error = json!({"code": "UNAVAILABLE", "message": "this connection waits for the ends of \
        too many runs; send it again when one of them has ended, or on another connection"});
    assert_eq!(refused.unwrap()["error"], error);
    call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
    have(&client, "timeout").await;
    ask_agent(&mut client, "again", params).await;
    assert_eq!(answers(&client, "again", 1).await[0]["payload"]["status"], "accepted");
}

/// Tasks of the gateway.
async fn tasks(client: &mut WsClient) -> u64 {
    let health = call(client, "health", json!({"probe": true})).await;
    health["services"]["tasks"]["alive"].as_u64().unwrap()
}

#[tokio::test]
async fn nothing_waits_for_a_run_whose_connection_has_gone() {
    const ASKED: u64 = 20;
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut client, mut other) = (admin(&gateway).await, admin(&gateway).await);
    let params = json!({"message": ENDLESS, "sessionKey": "main", "idempotencyKey": "k"});
    ask_agent(&mut client, "q", params.clone()).await;
    deltas(&client, "k", 1).await;
    let before = tasks(&mut client).await;
    for index in 0..ASKED {
        ask_agent(&mut other, &format!("q{index}"), params.clone()).await;
        let wait = json!({"type": "req", "id": format!("w{index}"), "method": "agent.wait",
            "params": {"runId": "never", "timeoutMs": 600_000}});
        other.send(&wait).await;
    }
    // Few others come and go meanwhile.
    until("all wait", async || {
        (tasks(&mut client).await >= before + 2 * ASKED - ASKED / 2).then_some(())
    })
    .await;
    other.close().await;
    until("nobody waits", async || (tasks(&mut client).await <= before + ASKED / 2).then_some(()))
        .await;
    assert_eq!(ends_of(&client, "k"), Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_wrong_is_refused_in_the_recorded_words() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for (more, text) in [
        (json!({"agentId": "nope"}), "invalid agent params: unknown agent id \"nope\""),
        (
            json!({"agentId": "main", "sessionKey": "agent:other:main"}),
            "invalid agent params: agent \"main\" does not match session key agent \"other\"",
        ),
        (
            json!({"sessionKey": "agent:x"}),
            "invalid agent params: malformed session key \"agent:x\"",
        ),
        (
            json!({"sessionKey": "main", "deliver": true, "bestEffortDeliver": false}),
            "Error: Channel is required (no configured channels detected).",
        ),
        (
            json!({"channel": "telegram", "deliver": true, "to": "5"}),
            "Error: Outbound not configured for channel: telegram",
        ),
        (
            json!({"sessionKey": "main", "channel": " Foo"}),
            "invalid agent params: unknown channel: foo",
        ),
        (
            json!({"sessionKey": "main", "channel": "discord", "replyChannel": "bar"}),
            "invalid agent params: unknown channel: bar",
        ),
    ] {
        let mut params = json!({"message": "x", "idempotencyKey": "k"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = client.request("agent", params).await;
        assert_eq!(answer["error"], json!({"code": "INVALID_REQUEST", "message": text}));
    }
    ask_agent(&mut client, "q", json!({"message": "x", "idempotencyKey": "k"})).await;
    let both = answers(&client, "q", 2).await;
    assert_eq!(both[0]["payload"]["status"], "accepted");
    let text = "Error: Pass --to <E.164>, --session-id, or --agent to choose a session";
    assert_eq!(both[1]["error"], json!({"code": "UNAVAILABLE", "message": text}));
    let waited = call(&mut client, "agent.wait", json!({"runId": "k", "timeoutMs": 0})).await;
    assert_eq!((&waited["status"], &waited["error"]), (&json!("error"), &json!(text)), "{waited}");
    assert!(waited["endedAt"].is_u64() && waited.get("startedAt").is_none(), "{waited}");
    // The same key is still that of no run.
    let params = json!({"message": "x", "sessionKey": "main", "idempotencyKey": "k"});
    ask_agent(&mut client, "again", params).await;
    assert_eq!(answers(&client, "again", 2).await[1]["payload"]["status"], "ok");
    // What one with a run is sent for again without a session tells nothing of that run.
    ask_agent(&mut client, "late", json!({"message": "x", "idempotencyKey": "k"})).await;
    assert_eq!(answers(&client, "late", 2).await[1]["error"]["message"], text);
    let waited = call(&mut client, "agent.wait", json!({"runId": "k", "timeoutMs": 0})).await;
    assert_eq!(waited["status"], "ok", "{waited}");
}

/// Sends a message with a file, which takes a while, and at once another
/// request with a message; the texts that the session then has from users.
async fn said_in_turn(client: &mut WsClient, key: &str, method: &str, more: Value) -> Vec<String> {
    let file = json!({"fileName": "a.bin", "content": "////".repeat(500_000)});
    let first = json!({"sessionKey": key, "message": "first", "attachments": [file],
        "idempotencyKey": format!("{key} {method} 1")});
    let mut second = json!({"message": "second"});
    second.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let before = told(client, key).await.len();
    for (id, method, params) in [("q1", "chat.send", first), ("q2", method, second)] {
        let id = format!("{key} {method} {id}");
        client.send(&json!({"type": "req", "id": id, "method": method, "params": params})).await;
    }
    until("both are answered", async || {
        let mut told = told(client, key).await.split_off(before);
        told.retain(|(role, _)| role == "user");
        (told.len() == 2).then(|| told.into_iter().map(|(_, text)| text).collect())
    })
    .await
}

#[tokio::test]
async fn requests_to_one_session_keep_their_order_however_they_name_it() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops"}]);
    config["messages"]["queue"]["mode"] = json!("followup");
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "life", "hello", "run-1").await;
    let id = row(&mut client, "agent:main:life").await["sessionId"].clone();
    for (key, method, more) in [
        ("agent:ops:main", "agent", json!({"agentId": "ops", "idempotencyKey": "a"})),
        ("agent:main:life", "agent", json!({"sessionId": id, "idempotencyKey": "b"})),
        ("agent:main:main", "agent", json!({"to": "+1", "idempotencyKey": "c"})),
        ("agent:ops:side", "sessions.create", json!({"agentId": "ops", "key": "side"})),
    ] {
        let said = said_in_turn(&mut client, key, method, more).await;
        assert!(said[0].ends_with("first") && said[1] == "second", "{key} {method}: {said:?}");
    }
}

with_both_apis! {
    a_message_is_answered_when_accepted_and_when_done;
}
