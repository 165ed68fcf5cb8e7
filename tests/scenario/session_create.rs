//! `sessions.create` and `sessions.spawn`.

use serde_json::{Value, json};

use crate::stage::{
    Api, admin, ask, call, connect, end_of, lines, refusal, row, scripted, start, text_of, told,
};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};

/// The reasons of the `sessions.changed` events about a session so far.
fn reasons(client: &WsClient, key: &str) -> Vec<String> {
    let frames = client.frames();
    let told = frames.iter().filter(|frame| {
        frame["event"] == "sessions.changed" && frame["payload"]["sessionKey"] == key
    });
    told.filter_map(|frame| frame["payload"]["reason"].as_str().map(str::to_owned)).collect()
}

/// A gateway with the agents `main` and `ops`.
async fn two_agents() -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops", "name": "Operator"}]);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

#[tokio::test]
async fn a_session_is_created_under_its_key_and_found_there_after_a_crash() {
    let (mut gateway, _mock) = two_agents().await;
    let mut client = admin(&gateway).await;
    let made = call(&mut client, "sessions.create", json!({"key": "Work", "label": "My work"}));
    let made = made.await;
    assert_eq!((&made["ok"], &made["runStarted"]), (&json!(true), &json!(false)), "{made}");
    assert_eq!(made["key"], "agent:main:work");
    assert_eq!(made["entry"]["label"], "My work");
    assert_eq!(made["sessionId"], made["entry"]["sessionId"]);
    let file = made["entry"]["sessionFile"].as_str().unwrap();
    assert!(std::path::Path::new(file).is_file(), "{file}");
    let new = call(&mut client, "sessions.create", json!({})).await;
    assert!(new["key"].as_str().unwrap().starts_with("agent:main:dashboard:"), "{new}");
    let ops = call(&mut client, "sessions.create", json!({"agentId": "Ops"})).await;
    assert!(ops["key"].as_str().unwrap().starts_with("agent:ops:dashboard:"), "{ops}");
    let bare = call(&mut client, "sessions.create", json!({"agentId": "ops", "key": "main"})).await;
    assert_eq!(bare["key"], "agent:ops:main");
    let child = json!({"key": "child", "parentSessionKey": "work", "model": "mock/mock-2"});
    let child = call(&mut client, "sessions.create", child).await;
    assert_eq!(child["entry"]["parentSessionKey"], "agent:main:work");
    assert_eq!(child["entry"]["modelOverride"], "mock-2");
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let again = call(&mut client, "sessions.create", json!({"key": "work"})).await;
    assert_eq!(again["sessionId"], made["sessionId"], "an existing session stays the same one");
    assert_eq!(again["entry"]["label"], "My work");
    let shown = row(&mut client, "agent:main:child").await;
    assert_eq!(
        (&shown["parentSessionKey"], &shown["model"]),
        (&json!("agent:main:work"), &json!("mock-2")),
        "{shown}"
    );
}

#[tokio::test]
async fn a_session_can_begin_with_a_message_and_everybody_hears_of_it_in_order() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    let params = json!({"key": "life", "label": "Life", "message": "@mock text text=\"born\""});
    let made = call(&mut client, "sessions.create", params).await;
    assert_eq!(
        (&made["runStarted"], &made["status"], &made["messageSeq"]),
        (&json!(true), &json!("started"), &json!(1)),
        "{made}"
    );
    let run_id = made["runId"].as_str().unwrap().to_owned();
    assert_eq!(text_of(&end_of(&client, &run_id).await["message"]), "born");
    assert_eq!(reasons(&client, "agent:main:life"), ["create", "send"]);
    let frames = client.frames();
    let place = |found: &dyn Fn(&Value) -> bool| frames.iter().position(found).unwrap();
    let answered = place(&|frame| frame["payload"]["runStarted"] == true);
    let created = place(&|frame| frame["payload"]["reason"] == "create");
    let begun = place(&|frame| frame["payload"]["runId"] == run_id && frame["event"] == "agent");
    assert!(answered < created && created < begun, "{frames:?}");
    let task = json!({"key": "life", "task": "@mock text text=\"done\"", "message": "not this"});
    let made = call(&mut client, "sessions.create", task).await;
    end_of(&client, made["runId"].as_str().unwrap()).await;
    let expected = [
        ("user", "@mock text text=\"born\""),
        ("assistant", "born"),
        ("user", "@mock text text=\"done\""),
        ("assistant", "done"),
    ];
    assert_eq!(told(&mut client, "life").await, lines(&expected));
}

#[tokio::test]
async fn a_session_is_there_even_when_its_first_message_is_refused() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let params = json!({"agentId": "gone", "message": "hello"});
    let made = call(&mut client, "sessions.create", params).await;
    assert_eq!((&made["ok"], &made["runStarted"]), (&json!(true), &json!(false)), "{made}");
    let text = "Agent \"gone\" no longer exists in configuration";
    assert_eq!(made["runError"], json!({"code": "INVALID_REQUEST", "message": text}));
    assert!(row(&mut client, made["key"].as_str().unwrap()).await.is_object());
}

#[tokio::test]
async fn creating_and_spawning_refuse_what_cannot_be() {
    let (gateway, _mock) = two_agents().await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.create", json!({"key": "a", "label": "Taken"})).await;
    for (method, params, text) in [
        ("sessions.create", json!({"key": "b", "label": "Taken"}), "label already in use: Taken"),
        ("sessions.create", json!({"key": "b", "label": " "}), "invalid label: empty"),
        (
            "sessions.create",
            json!({"key": "b", "parentSessionKey": "Nobody"}),
            "unknown parent session: Nobody",
        ),
        (
            "sessions.create",
            json!({"key": "agent:main:b", "agentId": "ops"}),
            "sessions.create key agent (main) does not match agentId (ops)",
        ),
        ("sessions.create", json!({"key": "agent:main"}), "malformed session key \"agent:main\""),
        (
            "sessions.create",
            json!({"label": ""}),
            "invalid sessions.create params: at /label: \
            must NOT have fewer than 1 characters",
        ),
        ("sessions.spawn", json!({"agentId": "nope"}), "unknown agent id \"nope\""),
        (
            "sessions.spawn",
            json!({"agentId": "ops", "sessionKey": "agent:main:b"}),
            "sessions.spawn key agent (main) does not match agentId (ops)",
        ),
        (
            "sessions.spawn",
            json!({}),
            "invalid sessions.spawn params: must have required property 'agentId'",
        ),
        (
            "sessions.spawn",
            json!({"agentId": "ops", "systemPrompt": "x".repeat(100_001)}),
            "invalid sessions.spawn params: at /systemPrompt: must NOT have more than 100000 \
             characters",
        ),
    ] {
        assert_eq!(refusal(&mut client, method, params).await, text);
    }
    assert_eq!(row(&mut client, "agent:main:b").await, Value::Null, "nothing was left behind");
    let other = json!({"key": "agent:ops:b", "label": "Taken"});
    call(&mut client, "sessions.create", other).await;
}

#[tokio::test]
async fn of_many_who_ask_for_one_label_at_the_same_time_one_gets_it() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut clients = Vec::new();
    for _ in 0..12 {
        clients.push(admin(&gateway).await);
    }
    let asked = clients.iter_mut().enumerate().map(|(index, client)| async move {
        let params = json!({"key": format!("s{index}"), "label": "Only one"});
        let method = if index % 2 == 0 { "sessions.create" } else { "sessions.patch" };
        client.request(method, params).await
    });
    let answers = futures_util::future::join_all(asked).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer["ok"] == true);
    assert_eq!((won.len(), lost.len()), (1, 11), "{answers:?}");
    assert!(lost.iter().all(|lost| lost["error"]["message"] == "label already in use: Only one"));
    let found = call(&mut clients[0], "sessions.resolve", json!({"label": "Only one"})).await;
    assert_eq!(found["key"], won[0]["payload"]["key"]);
}

#[tokio::test]
async fn the_system_prompt_of_a_spawned_session_reaches_the_model_there_and_nowhere_else() {
    let (gateway, mock) = two_agents().await;
    let mut client = admin(&gateway).await;
    let params = json!({"agentId": "ops", "model": "mock/mock-2", "sessionKey": "Night shift",
        "systemPrompt": "Speak like a lighthouse keeper."});
    let spawned = call(&mut client, "sessions.spawn", params).await;
    assert_eq!(
        (&spawned["key"], &spawned["agentId"]),
        (&json!("agent:ops:night shift"), &json!("ops")),
        "{spawned}"
    );
    ask(&mut client, "agent:ops:night shift", "hello", "run-1").await;
    ask(&mut client, "agent:ops:main", "hello", "run-2").await;
    call(&mut client, "sessions.reset", json!({"key": "agent:ops:night shift"})).await;
    ask(&mut client, "agent:ops:night shift", "hello again", "run-3").await;
    let asked = mock.requests();
    let prompts: Vec<_> = asked.iter().map(|asked| text_of(&asked.body["messages"][0])).collect();
    let has = |index: usize| prompts[index].contains("Speak like a lighthouse keeper.");
    assert_eq!([has(0), has(1), has(2)], [true, false, true], "{prompts:?}");
    assert!(prompts[0].contains("Operator"), "the agent's own prompt is there as well");
    assert_eq!(
        (&asked[0].body["model"], &asked[1].body["model"]),
        (&json!("mock-2"), &json!("mock-1"))
    );
    let spawned = call(&mut client, "sessions.spawn", json!({"agentId": "ops"})).await;
    assert!(spawned["key"].as_str().unwrap().starts_with("agent:ops:dashboard:"), "{spawned}");
}

#[tokio::test]
async fn spawning_and_creating_need_write_and_patching_needs_admin() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut reader = connect(&gateway, &standard_connect(&["operator.read"])).await;
    let mut writer =
        connect(&gateway, &standard_connect(&["operator.read", "operator.write"])).await;
    let agent = json!({"agentId": "main"});
    for method in ["sessions.create", "sessions.spawn"] {
        let text = refusal(&mut reader, method, agent.clone()).await;
        assert_eq!(text, "missing scope: operator.write");
        call(&mut writer, method, agent.clone()).await;
    }
    for method in ["sessions.patch", "sessions.pluginPatch"] {
        let text = refusal(&mut writer, method, json!({"key": "main"})).await;
        assert_eq!(text, "missing scope: operator.admin");
    }
}

#[tokio::test]
async fn the_system_prompt_of_a_session_under_way_is_for_admins() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut writer =
        connect(&gateway, &standard_connect(&["operator.read", "operator.write"])).await;
    let spawn =
        |prompt: &str| json!({"agentId": "main", "sessionKey": "s", "systemPrompt": prompt});
    call(&mut writer, "sessions.spawn", spawn("Be brief.")).await;
    ask(&mut writer, "s", "@mock text", "run-1").await;
    call(&mut writer, "sessions.spawn", spawn("Be brief.")).await;
    let text = refusal(&mut writer, "sessions.spawn", spawn("Obey me.")).await;
    let refused = "systemPrompt of a session under way requires admin scope";
    assert_eq!(text, refused);
    call(&mut client, "sessions.spawn", spawn("Be long.")).await;

    // It is under way, too, where the index has only found its transcript.
    gateway.terminate().await;
    for end in ["-wal", "-shm"] {
        // It is gone when nobody uses the database.
        let _ = std::fs::remove_file(gateway.state_dir().join(format!("clawgate.sqlite{end}")));
    }
    std::fs::write(gateway.state_dir().join("clawgate.sqlite"), "").unwrap();
    gateway.restart().await;
    let mut writer =
        connect(&gateway, &standard_connect(&["operator.read", "operator.write"])).await;
    assert_eq!(refusal(&mut writer, "sessions.spawn", spawn("Obey me.")).await, refused);
}

#[tokio::test]
async fn a_run_by_agent_tells_of_its_session_when_a_key_or_an_agent_was_named() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    let key = "agent:main:main";
    for (index, params) in
        [json!({"sessionKey": "main"}), json!({"agentId": "main"}), json!({"to": "+15550001"})]
            .into_iter()
            .enumerate()
    {
        let mut params = params;
        let run_id = format!("run-{index}");
        params["message"] = json!("@mock text text=\"ok\"");
        params["idempotencyKey"] = json!(run_id);
        let answer = call(&mut client, "agent", params.clone()).await;
        assert_eq!(answer["status"], "accepted");
        end_of(&client, &run_id).await;
        call(&mut client, "agent", params).await;
    }
    assert_eq!(reasons(&client, key), ["send", "send"], "not for `to`, not for a repetition");
    start(&mut client, "main", "@mock text text=\"ok\"", "run-chat").await;
    end_of(&client, "run-chat").await;
    assert_eq!(reasons(&client, key).len(), 2, "chat.send is told by its run only");
}
