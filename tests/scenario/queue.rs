//! Messages that come while another one is being answered.

use std::fs;

use serde_json::{Value, json};

use crate::played::{Played, Said, begins, block, block_ends, ends, says};
use crate::stage::{
    Api, admin, ask, call, config, deltas, end_of, ends_of, events, lines, row, scripted,
    scripted_queueing, send, settles, start, text_of, told, until, with_both_apis,
};
use crate::support::{Gateway, GatewayOptions, WsClient};

const STREAM: &str = "@mock stream n=12 delay=40";
const WORDS: &str = "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12";

/// What a message of its own ends with whose text went into another run.
fn taken_into(run_id: &str, by: &str) -> Value {
    json!({"runId": run_id, "sessionKey": "agent:main:main", "seq": 1, "state": "final",
        "takenInto": by})
}

async fn order(client: &mut WsClient, command: &str) -> String {
    let id = format!("order {command}");
    send(client, "main", command, &id).await;
    text_of(&end_of(client, &id).await["message"])
}

/// Texts of the messages in the requests to the model, without the model's own.
fn asked(mock: &crate::support::MockProvider) -> Vec<Vec<String>> {
    let users = |body: &Value| -> Vec<String> {
        let messages = body["messages"].as_array().unwrap();
        let users = messages.iter().filter(|message| message["role"] == "user");
        users.map(text_of).collect()
    };
    mock.requests().iter().map(|request| users(&request.body)).collect()
}

async fn messages_steer_the_run_after_its_answer_together(api: Api) {
    let (gateway, mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", STREAM, "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "@mock text text=second", "run-2").await;
    start(&mut client, "agent:main:main", "@mock text text=third", "run-3").await;
    let end = end_of(&client, "run-1").await;
    assert_eq!(text_of(&end["message"]), format!("{WORDS}third"));
    for run_id in ["run-2", "run-3"] {
        assert_eq!(ends_of(&client, run_id), [taken_into(run_id, "run-1")]);
        assert!(events(&client, "agent", run_id).is_empty());
        let waited = call(&mut client, "agent.wait", json!({"runId": run_id})).await;
        assert_eq!((&waited["status"], &waited["stopReason"]), (&json!("ok"), &json!("stop")));
        let params = json!({"sessionKey": "main", "message": "x", "idempotencyKey": run_id});
        assert_eq!(call(&mut client, "chat.send", params).await["status"], "ok");
    }
    assert_eq!(
        told(&mut client, "main").await,
        lines(&[
            ("user", STREAM),
            ("assistant", &format!("{WORDS} ")),
            ("user", "@mock text text=second"),
            ("user", "@mock text text=third"),
            ("assistant", "third"),
        ])
    );
    assert_eq!(mock.requests().len(), 2);
}

async fn a_message_steers_the_run_between_its_tool_calls(api: Api) {
    let (gateway, _mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    let tool = "@mock tool name=session_status name2=session_status pre=\"Let me look.\" delay=300";
    start(&mut client, "main", tool, "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "@mock text text=\"No need.\"", "run-2").await;
    let end = end_of(&client, "run-1").await;
    assert_eq!(text_of(&end["message"]), "Let me look.No need.");
    assert_eq!(ends_of(&client, "run-2"), [taken_into("run-2", "run-1")]);
    let page = call(&mut client, "chat.history", json!({"sessionKey": "main"})).await;
    let roles = page["messages"].as_array().unwrap().iter().map(|it| it["role"].clone());
    let roles: Vec<_> = roles.collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "user", "assistant"]);
}

#[tokio::test]
async fn who_steers_a_long_run_has_it_go_on_for_as_long_again() {
    let called = |name: &str, input: &Value| {
        let tool = json!({"type": "tool_use", "id": "t", "name": name, "input": {}});
        let delta = json!({"type": "input_json_delta", "partial_json": input.to_string()});
        let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
        let begun = [begins(30), block(0, &tool), delta, block_ends(0)];
        Said::Whole([&begun[..], &ends("tool_use")].concat())
    };
    let looks = called("session_status", &json!({}));
    let command = "touch holds; until [ -e go ]; do sleep 0.05; done";
    let mut answers = vec![looks.clone(); 60];
    answers.push(called("exec", &json!({ "command": command })));
    answers.extend(std::iter::repeat_n(looks, 60));
    answers.push(says("done", 5));
    let provider = Played::new(answers).await;
    let config = config(&provider.address(), Api::Anthropic);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "work", "run-1").await;
    let holds = gateway.workspace().join("holds");
    until("the command", async || holds.exists().then_some(())).await;
    start(&mut client, "main", "and this", "run-2").await;
    fs::write(gateway.workspace().join("go"), "").unwrap();
    let end = end_of(&client, "run-1").await;
    assert_eq!((&end["state"], text_of(&end["message"]).as_str()), (&json!("final"), "done"));
    assert_eq!(provider.asked().len(), 122);
}

#[tokio::test]
async fn what_went_into_a_run_and_is_said_again_is_said_twice() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let more = "@mock stream n=30 delay=40";
    start(&mut client, "main", STREAM, "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", more, "run-2").await;
    assert_eq!(end_of(&client, "run-2").await, taken_into("run-2", "run-1"));
    let again = send(&mut client, "main", more, "run-3").await;
    assert_eq!(again, json!({"runId": "run-3", "status": "started"}));
    end_of(&client, "run-3").await;
    end_of(&client, "run-1").await;
    let told = told(&mut client, "main").await;
    let said = told.iter().filter(|(role, text)| role == "user" && text == more).count();
    assert_eq!(said, 2, "{told:?}");
}

#[tokio::test]
async fn queued_messages_go_into_the_run_one_at_a_time() {
    let (gateway, mock) = scripted_queueing("queue").await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", STREAM, "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "@mock text text=second", "run-2").await;
    start(&mut client, "main", "@mock text text=third", "run-3").await;
    let end = end_of(&client, "run-1").await;
    assert_eq!(text_of(&end["message"]), format!("{WORDS}secondthird"));
    assert_eq!(asked(&mock).iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test]
async fn collected_messages_are_answered_together_afterwards() {
    let (gateway, mock) = scripted_queueing("collect").await;
    let mut client = admin(&gateway).await;
    order(&mut client, "/queue debounce:1500ms").await;
    start(&mut client, "main", STREAM, "run-1").await;
    for (run_id, text) in [("run-2", "second"), ("run-3", "third")] {
        start(&mut client, "main", &format!("@mock text text={text}"), run_id).await;
    }
    assert_eq!(text_of(&end_of(&client, "run-1").await["message"]), WORDS);
    // One that comes within the time of quiet is answered along with them.
    start(&mut client, "main", "@mock text text=fourth", "run-4").await;
    assert_eq!(text_of(&end_of(&client, "run-2").await["message"]), "fourth");
    for run_id in ["run-3", "run-4"] {
        assert_eq!(ends_of(&client, run_id), [taken_into(run_id, "run-2")]);
    }
    assert_eq!(mock.requests().len(), 2);
    let told = told(&mut client, "main").await;
    let users = told.iter().filter(|(role, _)| role == "user").count();
    assert_eq!((users, told.len()), (4, 7), "{told:?}");
}

#[tokio::test]
async fn a_message_with_a_backlog_steers_and_gets_its_own_answer_too() {
    let (gateway, _mock) = scripted_queueing("steer+backlog").await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", STREAM, "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "@mock text text=second", "run-2").await;
    assert_eq!(text_of(&end_of(&client, "run-1").await["message"]), format!("{WORDS}second"));
    assert_eq!(text_of(&end_of(&client, "run-2").await["message"]), "second");
    assert_eq!(ends_of(&client, "run-2").len(), 1);
}

async fn a_newer_message_interrupts_what_runs_and_what_waits(api: Api) {
    let (gateway, _mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    assert_eq!(order(&mut client, "/queue interrupt").await, "⚙️ Queue mode set to interrupt.");
    start(&mut client, "main", "@mock stream n=400 delay=50", "run-1").await;
    deltas(&client, "run-1", 2).await;
    start(&mut client, "main", "@mock stream n=300 delay=50", "run-2").await;
    start(&mut client, "main", "@mock text text=third", "run-3").await;
    assert_eq!(text_of(&end_of(&client, "run-3").await["message"]), "third");
    let first = &ends_of(&client, "run-1")[0];
    assert_eq!((&first["state"], &first["stopReason"]), (&json!("final"), &json!("interrupt")));
    assert!(text_of(&first["message"]).starts_with("w1"), "{first}");
    let steps = events(&client, "agent", "run-1");
    let last = &steps.last().unwrap()["data"];
    assert_eq!((&last["aborted"], &last["livenessState"]), (&json!(true), &json!("blocked")));
    for run_id in ["run-1", "run-2"] {
        let ends = ends_of(&client, run_id);
        assert_eq!((ends.len(), &ends[0]["stopReason"]), (1, &json!("interrupt")));
        let waited = call(&mut client, "agent.wait", json!({"runId": run_id})).await;
        assert_eq!(waited["stopReason"], "interrupt", "{waited}");
    }
    let users = told(&mut client, "main").await.into_iter().filter(|(role, _)| role == "user");
    assert_eq!(users.count(), 3, "what was accepted is kept");
}

#[tokio::test]
async fn over_the_cap_the_oldest_is_told_that_it_was_dropped_and_the_next_turn_hears_of_it() {
    let (gateway, mock) = scripted_queueing("followup").await;
    let mut client = admin(&gateway).await;
    order(&mut client, "/queue cap:2").await;
    start(&mut client, "main", STREAM, "run-1").await;
    deltas(&client, "run-1", 1).await;
    for (index, text) in ["pears", "plums", "figs"].iter().enumerate() {
        let text = format!("buy {text} @mock text");
        start(&mut client, "main", &text, &format!("run-{}", index + 2)).await;
    }
    let dropped = end_of(&client, "run-2").await;
    assert_eq!(dropped["state"], "error", "{dropped}");
    assert!(dropped["errorMessage"].as_str().unwrap().starts_with("dropped: "), "{dropped}");
    for run_id in ["run-1", "run-3", "run-4"] {
        assert_eq!(end_of(&client, run_id).await["state"], "final");
    }
    let systems: Vec<_> =
        mock.requests().iter().map(|request| text_of(&request.body["messages"][0])).collect();
    let heard = systems.iter().map(|system| system.contains("It began: buy pears"));
    assert_eq!(heard.collect::<Vec<_>>(), [false, true, false]);
    let told = told(&mut client, "main").await;
    assert!(!told.iter().any(|(_, text)| text.contains("pears")), "{told:?}");

    order(&mut client, "/queue drop:new").await;
    start(&mut client, "main", STREAM, "run-5").await;
    deltas(&client, "run-5", 1).await;
    start(&mut client, "main", "one", "run-6").await;
    start(&mut client, "main", "two", "run-7").await;
    let params = json!({"sessionKey": "main", "message": "three", "idempotencyKey": "run-8"});
    let refused = client.request("chat.send", params).await;
    assert_eq!(refused["error"]["code"], "UNAVAILABLE", "{refused}");
    for run_id in ["run-5", "run-6", "run-7"] {
        assert_eq!(end_of(&client, run_id).await["state"], "final");
    }
}

#[tokio::test]
async fn an_agent_request_gets_an_answer_of_its_own_in_every_mode() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", STREAM, "run-1").await;
    deltas(&client, "run-1", 1).await;
    let params = json!({"sessionKey": "main", "message": "@mock text text=mine",
        "idempotencyKey": "run-2"});
    assert_eq!(call(&mut client, "agent", params).await["status"], "accepted");
    assert_eq!(text_of(&end_of(&client, "run-1").await["message"]), WORDS);
    assert_eq!(text_of(&end_of(&client, "run-2").await["message"]), "mine");
}

#[tokio::test]
async fn the_queue_of_a_session_is_shown_changed_and_stays_over_a_reset() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let shown = order(&mut client, "/queue").await;
    let options = "Options: modes steer, queue, followup, collect, steer+backlog, interrupt; \
                   debounce:<ms|s|m>, cap:<n>, drop:old|new|summarize.";
    let expected = "Current queue settings: mode=steer, debounce=500ms, cap=20, drop=summarize.";
    assert_eq!(shown, format!("{expected}\n{options}"));
    let told = order(&mut client, "/queue collect cap:7 debounce:1s").await;
    assert!(told.starts_with("⚙️ Queue mode set to collect. "), "{told}");
    assert!(order(&mut client, "/queue sometimes").await.contains("`sometimes`"));
    call(&mut client, "sessions.reset", json!({"key": "main"})).await;
    let shown = order(&mut client, "/queue ").await;
    assert!(shown.contains("mode=collect, debounce=1000ms, cap=7, drop=summarize"), "{shown}");
    order(&mut client, "/queue default").await;
    assert!(order(&mut client, " /queue").await.contains("mode=steer, debounce=500ms, cap=20"));
}

async fn back_after_a_kill(gateway: &mut Gateway) -> WsClient {
    gateway.kill9();
    gateway.restart().await;
    admin(gateway).await
}

#[tokio::test]
async fn messages_that_wait_or_steer_when_the_gateway_is_killed_are_there_once() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", STREAM, "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "@mock stream n=400 delay=50", "run-2").await;
    // Taken in now, and not answered; the third still waits.
    end_of(&client, "run-2").await;
    start(&mut client, "main", "third", "run-3").await;
    let mut client = back_after_a_kill(&mut gateway).await;
    let users = told(&mut client, "main").await;
    let users: Vec<_> = users.iter().filter(|(role, _)| role == "user").collect();
    let texts: Vec<_> = users.iter().map(|(_, text)| &**text).collect();
    assert_eq!(texts, [STREAM, "@mock stream n=400 delay=50", "third"]);
    for run_id in ["run-1", "run-2", "run-3"] {
        let params = json!({"sessionKey": "main", "message": "x", "idempotencyKey": run_id});
        let answer = client.request("chat.send", params).await;
        assert!(answer["error"]["message"].as_str().unwrap().contains("stopped"), "{answer}");
        let waited = call(&mut client, "agent.wait", json!({"runId": run_id})).await;
        assert_eq!(waited["status"], "error", "{waited}");
    }
    assert_eq!(row(&mut client, "agent:main:main").await["hasActiveRun"], false);
    assert_eq!(ask(&mut client, "main", "@mock text", "run-4").await["state"], "final");
}

#[tokio::test]
async fn a_steering_message_shares_the_end_of_the_run_that_took_it() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", STREAM, "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "@mock stream n=400 delay=50", "run-2").await;
    assert_eq!(end_of(&client, "run-2").await, taken_into("run-2", "run-1"));
    // Who asks again is told which run to follow: the end of this one is over.
    let again = send(&mut client, "main", "@mock stream n=400 delay=50", "run-2").await;
    assert_eq!(again, json!({"runId": "run-1", "status": "in_flight"}));
    let params = json!({"sessionKey": "main", "runId": "run-2"});
    let answer = call(&mut client, "chat.abort", params).await;
    assert_eq!(answer, json!({"ok": true, "aborted": false, "runIds": []}));
    let answer = call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
    assert_eq!(answer["runIds"], json!(["run-1"]));
    for run_id in ["run-1", "run-2"] {
        let waited = call(&mut client, "agent.wait", json!({"runId": run_id})).await;
        assert_eq!((&waited["status"], &waited["stopReason"]), (&json!("timeout"), &json!("rpc")));
    }
    assert_eq!(ends_of(&client, "run-2").len(), 1);
    // As after any abort, the key is free again.
    start(&mut client, "main", "@mock text text=again", "run-2").await;
    until("its answer", || async {
        ends_of(&client, "run-2").iter().find(|end| text_of(&end["message"]) == "again").cloned()
    })
    .await;
    let told = told(&mut client, "main").await;
    assert_eq!(
        told[told.len() - 2..],
        lines(&[("user", "@mock text text=again"), ("assistant", "again")])
    );
}

async fn roles_take_turns_for_the_model_whatever_came_between(api: Api) {
    let (gateway, mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    send(&mut client, "main", "/status", "command-1").await;
    end_of(&client, "command-1").await;
    ask(&mut client, "main", "hello", "run-1").await;
    ask(&mut client, "main", "@mock err status=400 msg=\"not now\"", "run-2").await;
    send(&mut client, "main", "/status", "command-2").await;
    end_of(&client, "command-2").await;
    start(&mut client, "main", "@mock stream n=100 delay=50", "run-3").await;
    deltas(&client, "run-3", 1).await;
    start(&mut client, "main", "@mock text text=second", "run-4").await;
    start(&mut client, "main", "@mock text text=third", "run-5").await;
    for run_id in ["run-3", "run-4", "run-5"] {
        end_of(&client, run_id).await;
    }
    start(&mut client, "main", "@mock stream n=2000 delay=50", "run-6").await;
    deltas(&client, "run-6", 1).await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-6"})).await;
    end_of(&client, "run-6").await;
    settles(&mut client, "agent:main:main", "killed").await;
    let end = ask(&mut client, "main", "@mock text text=last", "run-7").await;
    assert_eq!(text_of(&end["message"]), "last");
    for request in mock.requests() {
        let messages = request.body["messages"].as_array().unwrap();
        let roles = messages.iter().filter_map(|message| message["role"].as_str());
        let roles: Vec<_> = roles.filter(|role| *role != "system").collect();
        let takes_turns = roles.windows(2).all(|pair| pair[0] != pair[1]);
        assert!(roles[0] == "user" && takes_turns, "{}", request.body["messages"]);
    }
    let last = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(["hello", "not now", "=second", "=third"].iter().all(|it| last.contains(it)), "{last}");
}

with_both_apis! {
    roles_take_turns_for_the_model_whatever_came_between;
    messages_steer_the_run_after_its_answer_together;
    a_message_steers_the_run_between_its_tool_calls;
    a_newer_message_interrupts_what_runs_and_what_waits;
}
