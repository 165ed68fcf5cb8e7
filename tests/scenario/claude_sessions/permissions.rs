//! Requests for permission, and modes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{Claude, Scene, TURN, kinds, of_type};
use crate::stage::{Api, admin, call, config, connect, refusal, row, serve, until};
use crate::support::client::{Received, standard_connect};
use crate::support::{Gateway, GatewayOptions};

fn running(command: &str) -> String {
    format!("@mock tool name=exec args={} then=done", json!({ "command": command }))
}

/// The request for this command.
async fn asked_for(claude: &Claude, command: &str) -> Value {
    claude.find(command, |it| it["request"]["input"]["command"] == command).await
}

async fn asked(claude: &Claude) -> Value {
    claude.find("request", |it| it["type"] == "control_request").await
}

fn answer(id: &Value, response: Value) -> Value {
    json!({"type": "control_response", "request_id": id,
        "response": {"subtype": "success", "response": response}})
}

async fn asking() -> Scene {
    asking_with(Api::Anthropic).await
}

async fn asking_with(api: Api) -> Scene {
    Scene::with(api, json!({"ask": "always"})).await
}

#[tokio::test]
async fn a_command_waits_for_permission_and_runs_when_it_is_given() {
    let scene = asking().await;
    let mut claude = scene.claude().await;
    claude.say(&running("echo yes")).await;
    let request = asked(&claude).await;
    let said = of_type(&claude.frames(), "assistant")[0]["message"]["content"][0].clone();
    assert_eq!(
        request["request"],
        json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "echo yes"},
            "tool_use_id": said["id"]})
    );
    let later = scene.claude().await;
    assert_eq!(asked(&later).await, request, "who comes later sees what waits");
    let response = json!({"behavior": "allow", "updated_input": {"command": "echo yes"}});
    claude.send(answer(&request["request_id"], response)).await;
    claude.turns(1).await;
    let flat = json!({"type": "control_response", "request_id": request["request_id"],
        "behavior": "allow"});
    assert!(claude.frames().contains(&flat) && later.frames().contains(&flat));
    let frames = claude.frames();
    let result = frames.iter().find(|it| it.get("tool_use_result").is_some()).unwrap();
    assert!(result["message"]["content"][0]["content"].as_str().unwrap().contains("yes"));
    assert_eq!(of_type(&frames, "result")[0]["permission_denials"], json!([]));
}

/// Begins a sub-agent that runs a command.
fn spawning(command: &str) -> String {
    let task = format!("@child tool name=exec args={} then=done", json!({ "command": command }));
    format!("name=sessions_spawn args={}", json!({ "task": task }))
}

#[tokio::test]
async fn what_a_sub_agent_asks_waits_though_the_turn_that_began_it_is_over() {
    let scene = asking_with(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    let own = json!({"command": "echo own"});
    let spawn = spawning("echo below");
    claude.say(&format!("@mock tool {spawn} name2=exec args2={own} parallel=1 then=begun")).await;
    let below = asked_for(&claude, "echo below").await;
    let own = asked_for(&claude, "echo own").await;
    claude.send(answer(&own["request_id"], json!({"behavior": "allow"}))).await;
    claude.turns(1).await;
    claude.send(answer(&below["request_id"], json!({"behavior": "allow"}))).await;
    let is_answered =
        |it: &Value| it["type"] == "control_response" && it["request_id"] == below["request_id"];
    assert_eq!(claude.find("answer", is_answered).await["behavior"], "allow");
    let cancelled = of_type(&claude.frames(), "control_cancel_request").len();
    assert_eq!(cancelled, 0, "{:#?}", claude.frames());
}

#[tokio::test]
async fn what_a_sub_agent_asked_before_anybody_looked_is_asked_here() {
    let mut scene = asking_with(Api::OpenAi).await;
    let params = json!({"sessionKey": scene.key, "idempotencyKey": "r1",
        "message": format!("@mock tool {} then=begun", spawning("echo below"))});
    call(&mut scene.main, "chat.send", params).await;
    let is_asked = |it: &Value| it["event"] == "exec.approval.requested";
    assert!(scene.main.wait_for(TURN, is_asked).await.is_some(), "nothing is asked");
    let mut claude = scene.claude().await;
    let request = asked(&claude).await;
    assert_eq!(request["request"]["input"]["command"], "echo below");
    claude.send(answer(&request["request_id"], json!({"behavior": "allow"}))).await;
    let told = claude.find("answer", |it| it["type"] == "control_response").await;
    assert_eq!(told["behavior"], "allow");
}

#[tokio::test]
async fn the_end_of_a_call_leaves_another_one_with_its_id_its_question() {
    let answers = Arc::new(AtomicUsize::new(0));
    let app = axum::Router::new().fallback(move || {
        let exec = |index: usize, command: &str| {
            let arguments = json!({ "command": command }).to_string();
            json!({"index": index, "id": "dup", "type": "function",
                "function": {"name": "exec", "arguments": arguments}})
        };
        let (delta, reason) = match answers.fetch_add(1, Ordering::Relaxed) {
            0 => (json!({"tool_calls": [exec(0, "echo one"), exec(1, "echo two")]}), "tool_calls"),
            _ => (json!({"content": "done"}), "stop"),
        };
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let said = json!({"id": "r", "choices": [choice]});
        let said = format!("data: {said}\n\ndata: [DONE]\n\n");
        async move { ([("content-type", "text/event-stream")], said) }
    });
    let (port, _server) = serve(app).await;
    let mut config = config(&format!("127.0.0.1:{port}"), Api::OpenAi);
    config["tools"]["exec"] = json!({"ask": "always"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut main = admin(&gateway).await;
    let made = call(&mut main, "sessions.create", json!({"label": "claude"})).await;
    let mut claude = Claude::open(&gateway, made["sessionId"].as_str().unwrap(), "").await;
    claude.say("go").await;
    let one = asked_for(&claude, "echo one").await;
    let two = asked_for(&claude, "echo two").await;
    claude.send(answer(&one["request_id"], json!({"behavior": "allow"}))).await;
    let is_end =
        |it: &Value| it["payload"]["stream"] == "item" && it["payload"]["data"]["phase"] == "end";
    main.wait_for(TURN, is_end).await.expect("the end of the first call");
    claude.send(answer(&two["request_id"], json!({"behavior": "allow"}))).await;
    claude.turns(1).await;
    let frames = claude.frames();
    assert_eq!(of_type(&frames, "control_cancel_request").len(), 0, "{frames:#?}");
    let is_allowed =
        |it: &Value| it["request_id"] == two["request_id"] && it["behavior"] == "allow";
    assert!(frames.iter().any(is_allowed), "{frames:#?}");
}

/// Where a person decides on each file that is written.
async fn guarded() -> Scene {
    let policies = json!({"interactive": {"write": "hitl"}});
    let guardrails = json!({"enabled": true, "toolPolicies": policies});
    Scene::with_tools(Api::Anthropic, json!({ "guardrails": guardrails })).await
}

#[tokio::test]
async fn a_person_decides_here_on_any_tool() {
    let scene = guarded().await;
    for (name, behavior) in [("yes.txt", "allow"), ("no.txt", "deny")] {
        let mut claude = scene.claude().await;
        let arguments = json!({"path": name, "content": "x"});
        claude.say(&format!("@mock tool name=write args={arguments} then=done")).await;
        let request = asked(&claude).await;
        assert_eq!(request["request"]["tool_name"], "Write");
        assert_eq!(request["request"]["input"], json!({"file_path": name, "content": "x"}));
        claude.send(answer(&request["request_id"], json!({"behavior": behavior}))).await;
        claude.turns(1).await;
        assert!(claude.frames().iter().all(|it| it["type"] != "error"), "{:#?}", claude.frames());
        assert_eq!(scene.gateway.workspace().join(name).exists(), behavior == "allow", "{name}");
    }
}

#[tokio::test]
async fn what_is_always_allowed_is_that_call_and_no_other_of_its_tool() {
    let scene = guarded().await;
    let mut claude = scene.claude().await;
    let [one, two] = ["one.txt", "two.txt"].map(|name| json!({"path": name, "content": "x"}));
    claude
        .say(&format!(
            "@mock tool name=write args={one} name2=write args2={two} parallel=1 then=done"
        ))
        .await;
    let mut ids = Vec::new();
    for name in ["one.txt", "two.txt"] {
        let request = claude.find(name, |it| it["request"]["input"]["file_path"] == name).await;
        ids.push(request["request_id"].clone());
    }
    let mut always = answer(&ids[0], json!({"behavior": "allow"}));
    always["always_allow"] = true.into();
    claude.send(always).await;
    let is_answered =
        |it: &Value, id: &Value| it["type"] == "control_response" && it["request_id"] == *id;
    claude.find("answer", |it| is_answered(it, &ids[0])).await;
    claude.send(answer(&ids[1], json!({"behavior": "deny"}))).await;
    let told = claude.find("answer", |it| is_answered(it, &ids[1])).await;
    assert_eq!(told["behavior"], "deny");
    claude.turns(1).await;
    assert!(!scene.gateway.workspace().join("two.txt").exists());
}

#[tokio::test]
async fn what_is_denied_ends_the_turn_and_is_in_its_result() {
    let scene = asking().await;
    let mut claude = scene.claude().await;
    let file = scene.gateway.workspace().join("ran");
    claude.say(&running(&format!("touch {}", file.display()))).await;
    let request = asked(&claude).await;
    let response = json!({"behavior": "deny", "message": "no"});
    claude.send(answer(&request["request_id"], response)).await;
    claude.turns(1).await;
    let frames = claude.frames();
    let result = frames.iter().find(|it| it.get("tool_use_result").is_some()).unwrap();
    assert_eq!(result["message"]["content"][0]["is_error"], true, "{result}");
    let interrupted = frames.iter().find(|it| {
        it["message"]["content"][0]["text"] == "[Request interrupted by user for tool use]"
    });
    assert!(interrupted.is_some(), "{:?}", kinds(&frames));
    let end = of_type(&frames, "result")[0];
    assert_eq!(
        (&end["subtype"], &end["is_error"]),
        (&json!("error_during_execution"), &json!(false))
    );
    let denial = &end["permission_denials"][0];
    assert_eq!(
        (&denial["tool_name"], &denial["tool_use_id"]),
        (&json!("Bash"), &request["request"]["tool_use_id"])
    );
    assert!(!file.exists());
}

#[tokio::test]
async fn an_input_cannot_be_changed_behind_the_back_of_an_approval() {
    let scene = asking().await;
    let mut claude = scene.claude().await;
    claude.say(&running("echo harmless")).await;
    let request = asked(&claude).await;
    let changed = json!({"behavior": "allow", "updatedInput": {"command": "rm -rf /"}});
    claude.send(answer(&request["request_id"], changed)).await;
    let error = claude.find("error", |it| it["type"] == "error").await;
    assert!(error["message"].as_str().unwrap().contains("cannot be changed"), "{error}");
    claude.send(answer(&request["request_id"], json!({"behavior": "allow"}))).await;
    claude.turns(1).await;
}

#[tokio::test]
async fn what_is_decided_elsewhere_is_seen_here() {
    let scene = asking().await;
    let mut claude = scene.claude().await;
    claude.say(&running("echo yes")).await;
    let request = asked(&claude).await;
    let mut decider = connect(&scene.gateway, &standard_connect(&["operator.approvals"])).await;
    let params = json!({"id": request["request_id"], "decision": "allow-once"});
    call(&mut decider, "exec.approval.resolve", params).await;
    let told = claude.find("answer", |it| it["type"] == "control_response").await;
    assert_eq!((&told["request_id"], &told["behavior"]), (&request["request_id"], &json!("allow")));
    claude.turns(1).await;
}

#[tokio::test]
async fn what_was_settled_while_a_client_was_away_is_told_when_it_comes_again() {
    let scene = asking().await;
    let mut claude = scene.claude().await;
    claude.say(&running("echo yes")).await;
    let id = asked(&claude).await["request_id"].clone();
    drop(claude);
    let mut other = scene.claude().await;
    asked(&other).await;
    other.send(answer(&id, json!({"behavior": "allow"}))).await;
    other.turns(1).await;
    let mut again = scene.claude().await;
    let flat = json!({"type": "control_response", "request_id": id, "behavior": "allow"});
    again.find("what was answered", |it| *it == flat).await;
    // Who answers it all the same hears so once more, and of one that nobody knows that
    // it was not allowed.
    again.send(answer(&id, json!({"behavior": "deny"}))).await;
    again.send(answer(&json!("long ago"), json!({"behavior": "allow"}))).await;
    let told = again.find("an answer", |it| it["request_id"] == "long ago").await;
    let refused = json!({"type": "control_response", "request_id": "long ago", "behavior": "deny"});
    assert_eq!(told, refused);
    let is_repeated = |received: &[Received]| {
        let frames = received.iter().filter_map(|it| it.what.frame());
        (frames.filter(|it| **it == flat).count() == 2).then_some(())
    };
    assert!(again.0.wait_until(TURN, is_repeated).await.is_some(), "{:#?}", again.frames());
}

#[tokio::test]
async fn an_interrupt_withdraws_what_waits_and_ends_the_turn() {
    let scene = asking().await;
    let mut claude = scene.claude().await;
    claude.say(&running("echo x")).await;
    let request = asked(&claude).await;
    claude.send(json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}})).await;
    let gone = claude.find("cancel", |it| it["type"] == "control_cancel_request").await;
    assert_eq!(gone["request_id"], request["request_id"]);
    claude.turns(1).await;
    let frames = claude.frames();
    let count = frames.iter().filter(|it| {
        it["message"]["content"][0]["text"] == "[Request interrupted by user for tool use]"
    });
    assert_eq!(count.count(), 1, "{:?}", kinds(&frames));
    assert_eq!(of_type(&frames, "result")[0]["subtype"], "error_during_execution");
    let place = |name: &str| frames.iter().position(|it| it["type"] == name);
    assert!(place("control_cancel_request") < place("result"), "{:?}", kinds(&frames));
}

#[tokio::test]
async fn an_interrupt_of_an_answer_is_told_once_and_kept() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.say("@mock stream n=200 delay=40").await;
    claude.find("piece", |it| it["event"]["delta"]["text"].is_string()).await;
    claude.send(json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}})).await;
    claude.turns(1).await;
    let is_note =
        |it: &&Value| it["message"]["content"][0]["text"] == "[Request interrupted by user]";
    let frames = claude.frames();
    let notes: Vec<_> = frames.iter().filter(is_note).collect();
    assert_eq!(notes.len(), 1, "{:?}", kinds(&frames));
    assert!(frames.iter().all(|it| it["type"] != "control_response"), "no success is told");
    let later = scene.claude().await;
    later.find("note", |it| it["uuid"] == notes[0]["uuid"]).await;
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_also_while_nobody_can_say_whose_it_is() {
    let scene = Scene::new(Api::OpenAi).await;
    scene.mock.hold("wait for me");
    let mut claude = scene.claude().await;
    claude.say("wait for me").await;
    let is_asked = || scene.mock.requests().iter().any(|it| it.body["messages"].is_array());
    until("a call", async || is_asked().then_some(())).await;
    let path = scene.gateway.state_dir().join("clawgate.sqlite");
    let database = rusqlite::Connection::open(path).unwrap();
    database.execute_batch("ALTER TABLE sessions RENAME TO away").unwrap();
    claude.send(json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}})).await;
    claude.find("end", |it| it["type"] == "queue-operation" || it["type"] == "error").await;
    database.execute_batch("ALTER TABLE away RENAME TO sessions").unwrap();
    let frames = claude.frames();
    assert_eq!(of_type(&frames, "error"), Vec::<&Value>::new());
    assert_eq!(of_type(&frames, "result")[0]["subtype"], "error_during_execution");
}

#[tokio::test]
async fn questions_of_plugins_about_the_session_are_asked_here() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.find("session", |it| it["type"] == "session_info").await;
    let params = json!({"pluginId": "p", "title": "Deploy", "description": "to production",
        "sessionKey": scene.key, "twoPhase": true});
    call(&mut scene.main, "plugin.approval.request", params).await;
    let request = asked(&claude).await;
    assert_eq!(
        request["request"]["input"],
        json!({"title": "Deploy", "description": "to production"})
    );
    claude.send(answer(&request["request_id"], json!({"behavior": "deny"}))).await;
    let told = claude.find("answer", |it| it["type"] == "control_response").await;
    assert_eq!(told["behavior"], "deny");
}

#[tokio::test]
async fn a_model_and_a_level_are_set_and_what_there_is_is_listed() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    for request in [
        json!({"subtype": "set_model", "model": "mock/mock-2"}),
        json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 0}),
        json!({"subtype": "initialize"}),
    ] {
        let id = &request["subtype"];
        let frame = json!({"type": "control_request", "request_id": id, "request": request});
        claude.send(frame).await;
        let is_its = |it: &Value| it["response"]["request_id"] == *id;
        let told = claude.find("an answer", is_its).await;
        assert_eq!(told["response"]["subtype"], "success", "{told}");
    }
    let row = row(&mut scene.main, &scene.key).await;
    assert_eq!((&row["model"], &row["thinkingLevel"]), (&json!("mock-2"), &json!("off")), "{row}");
    let frames = claude.frames();
    let known = frames.iter().find_map(|it| it["response"]["response"]["commands"].as_array());
    assert!(known.unwrap().iter().any(|command| command["name"] == "status"), "{frames:?}");
    let models = frames.iter().find_map(|it| it["response"]["response"]["models"].as_array());
    assert!(models.unwrap().iter().any(|model| model["value"] == "mock/mock-2"), "{frames:?}");
}

#[tokio::test]
async fn a_mode_is_kept_and_told_to_all() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let (mut one, two) = (scene.claude().await, scene.claude().await);
    two.find("session", |it| it["type"] == "session_info").await;
    let set = |mode: &str| {
        json!({"type": "control_request", "request_id": "m",
        "request": {"subtype": "set_permission_mode", "mode": mode}})
    };
    one.send(set("plan")).await;
    let told = two.find("mode", |it| it["type"] == "control_response").await;
    assert_eq!(
        told,
        json!({"type": "control_response", "request_id": "m",
            "response": {"subtype": "set_permission_mode", "mode": "plan"}})
    );
    let frames =
        one.ask("@mock tool name=write args={\"path\":\"a\",\"content\":\"x\"} then=done").await;
    let init = frames.iter().find(|it| it["subtype"] == "init").unwrap();
    assert_eq!(init["permissionMode"], "plan");
    let tools = init["tools"].as_array().unwrap();
    assert!(tools.contains(&json!("Read")), "{init}");
    assert!(["Write", "Edit", "Bash"].iter().all(|name| !tools.contains(&json!(name))), "{init}");
    assert!(!scene.gateway.workspace().join("a").exists());
    one.send(set("wild")).await;
    let refused = one.find("refusal", |it| it["error"].is_string()).await;
    assert!(refused["error"].as_str().unwrap().contains("permissionMode"), "{refused}");
    let key = scene.key.clone();
    let text =
        refusal(&mut scene.main, "sessions.patch", json!({"key": key, "permissionMode": "x"}))
            .await;
    assert!(text.starts_with("invalid permissionMode"), "{text}");
}
