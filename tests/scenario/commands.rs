//! Slash commands: what each answers and does.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::stage::{
    Api, RUN_LIMIT, admin, ask, call, config, connect, deltas, end_of, ends_of, events, lines, row,
    scripted, scripted_queueing, send, settles, spent_by, start, text_of, told,
};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const MAIN: &str = "agent:main:main";

/// Gives a command in the main session; the text of its answer.
async fn order(client: &mut WsClient, command: &str) -> String {
    let id = format!("order {}", client.received_count());
    let end = ask(client, "main", command, &id).await;
    assert_eq!(end["message"]["model"], "gateway-injected", "{command}: {end}");
    text_of(&end["message"])
}

async fn with_config(change: impl FnOnce(&mut Value)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    change(&mut config);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

#[tokio::test]
async fn a_command_is_told_after_its_acknowledgement_and_its_line_is_in_no_transcript() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.messages.subscribe", json!({"key": "main"})).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let seen = client.received_count();
    let sent = Instant::now();
    ask(&mut client, "main", "/whoami", "run-2").await;
    // Who sends it has time to note what it waits for.
    assert!(sent.elapsed() >= Duration::from_millis(40), "{:?}", sent.elapsed());
    let is_note = |frame: &Value| {
        frame["event"] == "session.message"
            && frame["payload"]["message"]["model"] == "gateway-injected"
    };
    client.wait_for(RUN_LIMIT, is_note).await.expect("the note is announced");
    let frames: Vec<_> =
        client.received()[seen..].iter().filter_map(|it| it.what.frame().cloned()).collect();
    let kinds: Vec<_> = frames
        .iter()
        .map(|frame| frame["event"].as_str().unwrap_or("answer"))
        .filter(|kind| !["health", "tick", "presence"].contains(kind))
        .collect();
    assert_eq!(kinds, ["answer", "session.message", "session.message", "chat"]);
    let line = frames.iter().find(|frame| frame["event"] == "session.message").unwrap();
    let message = &line["payload"]["message"];
    assert_eq!((&message["role"], &message["content"]), (&json!("user"), &json!("/whoami")));
    assert!(line["payload"].get("messageId").is_none(), "{line}");
    let told = told(&mut client, "main").await;
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[2].0, "assistant");
    assert_eq!(mock.requests().len(), 1);
}

#[tokio::test]
async fn who_waits_for_a_command_hears_of_its_end_when_that_was_told() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    start(&mut client, "main", "/whoami", "run-2").await;
    let again = send(&mut client, "main", "/whoami", "run-2").await;
    assert_eq!(again["runId"], "run-2");
    let waited = call(&mut client, "agent.wait", json!({"runId": "run-2"})).await;
    assert_eq!(waited["status"], "ok", "{waited}");
    // By now, not after a while.
    assert_eq!(ends_of(&client, "run-2").len(), 1, "{:?}", client.frames());
    let late = call(&mut client, "agent.wait", json!({"runId": "run-2", "timeoutMs": 0})).await;
    assert_eq!(late, waited);
}

#[tokio::test]
async fn what_is_told_of_a_command_undoes_nothing_that_came_after_it() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    ask(&mut client, "main", "hello", "run-1").await;
    settles(&mut client, MAIN, "done").await;
    start(&mut client, "main", "/whoami", "run-2").await;
    call(&mut client, "sessions.patch", json!({"key": "main", "label": "new"})).await;
    let is_patched = |frame: &Value| frame["payload"]["reason"] == "patch";
    client.wait_for(RUN_LIMIT, is_patched).await.expect("the patch is told");
    end_of(&client, "run-2").await;
    // What is told right after the end is there by then.
    call(&mut client, "status", json!({})).await;
    let frames = client.frames();
    let told = frames.iter().skip_while(|frame| !is_patched(frame));
    let told = told.filter(|frame| frame["event"] == "sessions.changed");
    let labels: Vec<_> = told.map(|frame| &frame["payload"]["label"]).collect();
    assert!(labels.iter().all(|label| **label == "new"), "{frames:?}");
}

#[tokio::test]
async fn settings_are_answered_and_kept() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for (command, answer, member, value) in [
        ("/think low", "Thinking level set to low.", "thinkingLevel", json!("low")),
        ("/t:high", "Thinking level set to high.", "thinkingLevel", json!("high")),
        ("/thinking off", "Thinking disabled.", "thinkingLevel", json!("off")),
        ("/verbose on", "⚙️ Verbose logging enabled.", "verboseLevel", json!("on")),
        ("/v FULL", "⚙️ Verbose logging set to full.", "verboseLevel", json!("full")),
        ("/reasoning off", "⚙️ Reasoning visibility disabled.", "reasoningLevel", json!("off")),
        ("/reason stream", "⚙️ Reasoning stream enabled.", "reasoningLevel", json!("stream")),
        (
            "/trace on",
            "⚙️ Trace enabled. Warning: trace output may contain sensitive information.",
            "traceLevel",
            json!("on"),
        ),
        ("/fast on", "⚙️ Fast mode enabled.", "fastMode", json!(true)),
        ("/elev ask", "⚙️ Elevated mode set to ask.", "elevatedLevel", json!("ask")),
        ("/usage tokens", "⚙️ Usage footer: tokens.", "responseUsage", json!("tokens")),
        ("/usage", "⚙️ Usage footer: full.", "responseUsage", json!("full")),
        ("/usage off", "⚙️ Usage footer: off.", "responseUsage", Value::Null),
        (
            "/model mock/mock-2",
            "Model set to mock/mock-2 for this session.",
            "model",
            json!("mock-2"),
        ),
        ("/model mock-1", "Model set to mock/mock-1 for this session.", "model", json!("mock-1")),
        ("/model default", "Model reset to default (mock/mock-1).", "model", json!("mock-1")),
        ("/send inherit", "⚙️ Send policy set to inherit.", "sendPolicy", Value::Null),
    ] {
        assert_eq!(order(&mut client, command).await, answer);
        assert_eq!(row(&mut client, MAIN).await[member], value, "{command}");
    }
    assert_eq!(
        order(&mut client, "/exec host=gateway ask:always").await,
        "⚙️ Exec defaults set (host=gateway, ask=always)."
    );
    assert!(order(&mut client, "/exec").await.starts_with(
        "Current exec defaults: host=gateway, effective=gateway, security=full, ask=always"
    ));
    assert_eq!(
        order(&mut client, "/think high /verbose off").await,
        "Thinking level set to high. ⚙️ Verbose logging disabled."
    );
    let row = row(&mut client, MAIN).await;
    assert_eq!((&row["thinkingLevel"], &row["verboseLevel"]), (&json!("high"), &json!("off")));
    assert!(mock.requests().is_empty(), "no model was asked");
}

#[tokio::test]
async fn a_setting_without_a_level_is_shown_and_a_wrong_level_changes_nothing() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    order(&mut client, "/think low").await;
    for (command, answer) in [
        ("/think", "Current thinking level: low.\nOptions: off, minimal, low, medium, high."),
        ("/verbose", "Current verbose level: off.\nOptions: on, full, off."),
        ("/reasoning", "Current reasoning level: off.\nOptions: on, off, stream."),
        ("/fast", "Current fast mode: off (default).\nOptions: status, on, off."),
        ("/fast status", "Current fast mode: off (default).\nOptions: status, on, off."),
        (
            "/think very",
            "Unrecognized thinking level \"very\". Valid levels: off, minimal, low, medium, high.",
        ),
        ("/usage loud", "⚙️ Usage: /usage off|tokens|full|cost"),
        ("/send maybe", "⚙️ Usage: /send on|off|inherit"),
        ("/activation always", "⚙️ Group activation only applies to group chats."),
        ("/steer", "Usage: /steer <message>"),
        ("/btw", "Usage: /btw <side question>"),
    ] {
        assert_eq!(order(&mut client, command).await, answer, "{command}");
    }
    assert!(
        order(&mut client, "/exec sandbox").await.starts_with("I do not understand `sandbox`.")
    );
    assert!(order(&mut client, "/exec ask=never").await.contains("invalid execAsk"));
    assert_eq!(row(&mut client, MAIN).await["thinkingLevel"], "low");
    assert!(
        order(&mut client, "/usage cost").await.starts_with("💸 Usage cost\nSession $0.0000\n")
    );
}

#[tokio::test]
async fn after_send_off_nothing_is_taken_until_an_admin_patches_the_session() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    assert_eq!(order(&mut client, "/send off").await, "⚙️ Send policy set to off.");
    let params = json!({"sessionKey": "main", "message": "/send on", "idempotencyKey": "on"});
    let answer = client.request("chat.send", params).await;
    assert_eq!(answer["error"]["message"], "send blocked by session policy");
    call(&mut client, "sessions.patch", json!({"key": "main", "sendPolicy": null})).await;
    ask(&mut client, "main", "hello", "run-1").await;
}

#[tokio::test]
async fn a_level_inside_of_a_message_holds_for_that_message_and_is_not_said_to_the_model() {
    let (gateway, mock) = scripted(Api::Anthropic).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "please /think off tell me", "run-1").await;
    ask(&mut client, "main", "and now?", "run-2").await;
    let thinks = |at: usize| mock.requests()[at].body["thinking"]["type"].clone();
    assert_eq!((thinks(0), thinks(1)), (Value::Null, json!("enabled")));
    assert_eq!(told(&mut client, "main").await[0], ("user".into(), "please tell me".into()));
    assert!(row(&mut client, MAIN).await["thinkingLevel"].is_null());
    // It needs no more than a message does.
    let mut writer = connect(&gateway, &standard_connect(&["operator.write"])).await;
    start(&mut writer, "main", "/t off why?", "run-3").await;
    end_of(&client, "run-3").await;
    assert_eq!(thinks(2), Value::Null);
}

#[tokio::test]
async fn a_session_begins_anew_and_the_rest_of_the_line_is_its_first_message() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let mut ids = vec![row(&mut client, MAIN).await["sessionId"].clone()];
    assert_eq!(order(&mut client, "/new").await, "✅ New session started.");
    ids.push(row(&mut client, MAIN).await["sessionId"].clone());
    assert_eq!(told(&mut client, "main").await, lines(&[("assistant", "✅ New session started.")]));
    assert_eq!(order(&mut client, "/reset").await, "✅ Session reset.");
    ids.push(row(&mut client, MAIN).await["sessionId"].clone());

    let end = ask(&mut client, "main", "/new hello there", "run-2").await;
    assert_eq!(text_of(&end["message"]), "Echo: hello there");
    ids.push(row(&mut client, MAIN).await["sessionId"].clone());
    let both = [("user", "hello there"), ("assistant", "Echo: hello there")];
    assert_eq!(told(&mut client, "main").await, lines(&both));
    let end = ask(&mut client, "main", "/reset again", "run-3").await;
    assert_eq!(text_of(&end["message"]), "Echo: again");

    ask(&mut client, "main", "/new mock/mock-2 with that one", "run-4").await;
    assert_eq!(mock.requests().pop().unwrap().body["model"], "mock-2");
    assert_eq!(told(&mut client, "main").await[0].1, "with that one");
    assert_eq!(
        order(&mut client, "/new mock/mock-1").await,
        "✅ New session started. Model set to mock/mock-1 for this session."
    );
    ids.dedup();
    assert_eq!(ids.len(), 4, "{ids:?}");
}

#[tokio::test]
async fn the_same_command_again_does_nothing_and_what_comes_behind_finds_it_done() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    // All are under way before the first is answered.
    for (id, text) in [("new", "/new"), ("next", "next"), ("new", "/new")] {
        let params = json!({"sessionKey": "main", "message": text, "idempotencyKey": id});
        let request = json!({"type": "req", "id": format!("{id} {text}"), "method": "chat.send",
            "params": params});
        client.send(&request).await;
    }
    end_of(&client, "new").await;
    end_of(&client, "next").await;
    let both =
        [("assistant", "✅ New session started."), ("user", "next"), ("assistant", "Echo: next")];
    assert_eq!(told(&mut client, "main").await, lines(&both));
    let again = send(&mut client, "main", "/new", "new").await;
    assert_eq!(again["status"], "ok");
    assert_eq!(told(&mut client, "main").await, lines(&both));
    assert_eq!(ends_of(&client, "new").len(), 1);
}

#[tokio::test]
async fn a_reset_ends_what_runs_and_abort_is_a_stop_word() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=400 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    assert_eq!(order(&mut client, "/reset").await, "✅ Session reset.");
    assert_eq!(ends_of(&client, "run-1").len(), 1);
    start(&mut client, "main", "@mock stream n=400 delay=50", "run-2").await;
    deltas(&client, "run-2", 1).await;
    let answer = send(&mut client, "main", "/abort", "stop").await;
    assert_eq!(answer, json!({"ok": true, "aborted": true, "runIds": ["run-2"]}));
}

#[tokio::test]
async fn a_model_is_chosen_by_what_people_call_it() {
    let (gateway, _mock) = with_config(|config| {
        config["agents"]["defaults"]["models"] =
            json!({"mock/mock-1": {}, "mocka/mock-think": {"alias": "deep"}});
    })
    .await;
    let mut client = admin(&gateway).await;
    for (command, answer) in [
        (
            "/model",
            "Current: mock/mock-1\nSwitch: /model <provider/model>\n\
             Browse: /models (providers) or /models <provider> (models)\nMore: /model status",
        ),
        ("/model Deep", "Model set to deep (mocka/mock-think) for this session."),
        (
            "/models",
            "Providers:\n- mock (1)\n- mocka (1)\n\nUse: /models <provider>\n\
                     Switch: /model <provider/model>",
        ),
        (
            "/model list",
            "Providers:\n- mock (1)\n- mocka (1)\n\nUse: /models <provider>\n\
                         Switch: /model <provider/model>",
        ),
        (
            "/models mock",
            "Models (mock): 1-1 of 1 (page 1/1)\n- mock/mock-1\n\n\
                          Switch: /model <provider/model>",
        ),
    ] {
        assert_eq!(order(&mut client, command).await, answer, "{command}");
    }
    let status = order(&mut client, "/model status").await;
    assert!(status.starts_with("Current: mocka/mock-think\nDefault: mock/mock-1\n"), "{status}");
    let refused = order(&mut client, "/model mock/mock-2").await;
    assert!(refused.starts_with("Model \"mock/mock-2\" is not allowed. Use /models"), "{refused}");
    let unknown = order(&mut client, "/model xyzzy").await;
    assert!(unknown.starts_with("Model \"xyzzy\" is not known. Use /models"), "{unknown}");
    assert!(order(&mut client, "/models nobody").await.starts_with("Unknown provider: nobody\n"));
    assert_eq!(row(&mut client, MAIN).await["model"], "mock-think");
}

#[tokio::test]
async fn the_status_says_who_names_the_model() {
    let (gateway, _mock) = with_config(|config| {
        config["agents"]["list"] = json!([{"id": "main", "model": "mock/mock-2"}]);
    })
    .await;
    let mut client = admin(&gateway).await;
    for (command, told) in [
        ("/new", "🧠 Model: mock/mock-2 (agents.list[0].model names it)\n"),
        ("/model mock/mock-1", "🧠 Model: mock/mock-1 (chosen for this session)\n"),
        ("/model default", "🧠 Model: mock/mock-2 (agents.list[0].model names it)\n"),
    ] {
        order(&mut client, command).await;
        let status = order(&mut client, "/status").await;
        assert!(status.contains(told), "{command}: {status}");
    }
}

#[tokio::test]
async fn the_gateway_tells_of_itself_its_commands_and_the_session() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    for (command, parts) in [
        ("/help", &["ℹ️ Help\n\nSession\n  /new  |  /reset", "/think <level>"][..]),
        (
            "/commands",
            &[
                "\n  /think (/thinking, /t) - Set thinking level.\n",
                "\nTools\n  /skill - Run a skill by name.\n  /btw (/side) - ",
            ],
        ),
        (
            "/status",
            &[
                "🧠 Model: mock/mock-1 (",
                "🧵 Session: agent:main:main • updated just now",
                "Think: off",
            ],
        ),
        (
            "/whoami",
            &["🧭 Identity\nChannel: webchat\nUser id: gateway-client\n", "operator.admin"],
        ),
        ("/tools", &["Available tools\n\nProfile: full\n\nBuilt-in tools\n", "session_status"]),
        ("/tools verbose", &["  session_status - "]),
        ("/tasks", &["📋 Tasks\nAll clear", "All sessions: 0 active · "]),
        ("/context", &["🧠 /context\n\nWhat counts as context"]),
        ("/context list", &["System prompt: ", "Messages (user): 1 · 5 chars (~2 tok)"]),
        ("/context detail", &["  - session_status: "]),
    ] {
        let answer = order(&mut client, command).await;
        for part in parts {
            assert!(answer.contains(part), "{command}: {part:?} in {answer}");
        }
    }
    let weight = order(&mut client, "/context json").await;
    let weight = weight.trim_start_matches("```json").trim_end_matches("```");
    let weight: Value = serde_json::from_str(weight).unwrap();
    assert_eq!(weight["messages"]["user"], json!({"count": 1, "chars": 5}));
    assert!(!order(&mut client, "/help").await.contains("/config"));
    assert!(order(&mut client, "/config show").await.contains("commands.config=true"));
}

#[tokio::test]
async fn who_asks_for_the_tools_is_told_of_those_that_his_runs_have() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut owner = admin(&gateway).await;
    let names =
        |told: &str| -> Vec<String> { told.split([' ', ',', '\n']).map(str::to_owned).collect() };
    let of_owner = names(&order(&mut owner, "/tools").await);
    assert!(of_owner.contains(&"cron".to_owned()), "{of_owner:?}");
    let mut writer = connect(&gateway, &standard_connect(&["operator.write"])).await;
    start(&mut writer, "main", "/tools", "run-1").await;
    let told = text_of(&end_of(&owner, "run-1").await["message"]);
    let of_writer = names(&told);
    assert!(of_writer.contains(&"session_status".to_owned()), "{told}");
    assert!(!of_writer.contains(&"cron".to_owned()), "{told}");
}

#[tokio::test]
async fn what_is_no_command_is_for_the_model_and_what_is_not_offered_is_said_so() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for (at, text) in
        ["/unknowncmd", "/help me", "/restart now", "/", "//", "see /status"].iter().enumerate()
    {
        let end = ask(&mut client, "main", text, &format!("run-{at}")).await;
        assert_eq!(text_of(&end["message"]), format!("Echo: {text}"));
    }
    let asked = mock.requests().len();
    assert_eq!(
        order(&mut client, "/tts on").await,
        "⚠️ /tts is not offered by this gateway: answers are not spoken; `tts.convert` speaks a text."
    );
    assert!(order(&mut client, "/unfocus").await.starts_with("⚠️ /unfocus is not offered"));
    assert_eq!(mock.requests().len(), asked);
}

#[tokio::test]
async fn a_side_question_is_answered_from_the_session_which_does_not_hear_of_it() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "my name is Ada", "run-1").await;
    start(&mut client, "main", "@mock stream n=40 delay=50", "run-2").await;
    deltas(&client, "run-2", 1).await;
    let before = told(&mut client, "main").await;
    start(&mut client, "main", "/btw @mock text text=\"It is Ada.\"", "aside").await;
    assert!(end_of(&client, "aside").await.get("message").is_none());
    assert!(ends_of(&client, "run-2").is_empty(), "nobody waited for anybody");
    let answers = events(&client, "chat.side_result", "aside");
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(
        (&answer["kind"], &answer["question"], &answer["text"], &answer["isError"]),
        (
            &json!("btw"),
            &json!("@mock text text=\"It is Ada.\""),
            &json!("It is Ada."),
            &json!(false)
        )
    );
    let asked = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("my name is Ada") && asked.contains("<btw_side_question>"), "{asked}");
    assert_eq!(told(&mut client, "main").await, before);

    // Nobody waits for them, so there is a limit.
    for at in 0..5 {
        let text = "/btw @mock stream n=400 delay=50";
        start(&mut client, "busy", text, &format!("many-{at}")).await;
    }
    let is_refused = |frame: &Value| frame["payload"]["isError"] == true;
    let refused = client.wait_for(RUN_LIMIT, is_refused).await.expect("one is refused");
    let text = refused["payload"]["text"].as_str().unwrap();
    assert!(text.contains("4 side questions are being answered"), "{text}");
}

#[tokio::test]
async fn a_side_question_that_fails_says_why() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let before = spent_by(&mut client, MAIN).await;
    start(&mut client, "main", "/btw @mock text text=\"\"", "silent").await;
    end_of(&client, "silent").await;
    let silent = events(&client, "chat.side_result", "silent");
    assert_eq!(silent[0]["isError"], true, "{silent:?}");
    assert!(silent[0]["text"].as_str().unwrap().contains("the model said nothing"), "{silent:?}");
    // It has read the question all the same.
    let after = spent_by(&mut client, MAIN).await;
    assert!(after > before, "{after} {before}");
    mock.fail("mock-1", 400, "scripted refusal");
    start(&mut client, "main", "/side and?", "failed").await;
    end_of(&client, "failed").await;
    let failed = events(&client, "chat.side_result", "failed");
    assert_eq!(failed[0]["isError"], true, "{failed:?}");
    assert!(failed[0]["text"].as_str().unwrap().contains("scripted refusal"), "{failed:?}");
}

#[tokio::test]
async fn a_side_question_is_paid_for_by_the_session_and_needs_no_session_for_that() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let before = spent_by(&mut client, MAIN).await;
    ask(&mut client, "main", "/btw and?", "aside").await;
    let after = spent_by(&mut client, MAIN).await;
    assert!(after > before, "{after} {before}");
    ask(&mut client, "fresh", "/btw and?", "fresh").await;
    let answers = events(&client, "chat.side_result", "fresh");
    assert_eq!(answers[0]["isError"], false, "{answers:?}");
    assert!(!gateway.stderr().contains("session not updated"));
}

#[tokio::test]
async fn a_question_about_a_tool_is_decided_by_a_word_in_the_chat() {
    let (gateway, _mock) = with_config(|config| {
        let policies = json!({"interactive": {"write": "hitl"}});
        config["tools"]["guardrails"] = json!({"enabled": true, "toolPolicies": policies});
    })
    .await;
    let mut client = admin(&gateway).await;
    let writer = ["operator.read", "operator.write"];
    let mut writer = connect(&gateway, &standard_connect(&writer)).await;
    let text = r#"@mock tool name=write args={"path":"a.txt","content":"x"} then=done"#;
    start(&mut client, "main", text, "run-1").await;
    let is_asked = |frame: &Value| frame["event"] == "plugin.approval.requested";
    let asked = client.wait_for(RUN_LIMIT, is_asked).await.expect("a question");
    let words = format!("/approve {} once", asked["payload"]["id"].as_str().unwrap());
    send(&mut writer, "main", &words, "word-1").await;
    let refused = text_of(&end_of(&writer, "word-1").await["message"]);
    assert!(refused.ends_with("missing scope: operator.approvals"), "{refused}");
    send(&mut client, "main", &words, "word-2").await;
    end_of(&client, "run-1").await;
    assert!(gateway.workspace().join("a.txt").exists());
}

#[tokio::test]
async fn steering_goes_into_the_active_run_whatever_the_mode_of_the_session() {
    let (gateway, _mock) = scripted_queueing("followup").await;
    let mut client = admin(&gateway).await;
    assert_eq!(order(&mut client, "/steer hi").await, "⚠️ No active run to steer in this session.");
    start(&mut client, "main", "@mock stream n=12 delay=40", "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "/tell @mock text text=Steered.", "run-2").await;
    let end = end_of(&client, "run-1").await;
    assert!(text_of(&end["message"]).ends_with("Steered."), "{end}");
    assert_eq!(end_of(&client, "run-2").await["takenInto"], "run-1");
}

/// A gateway whose compactions keep one message only.
async fn forgetful() -> (Gateway, MockProvider) {
    with_config(|config| {
        config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1});
    })
    .await
}

#[tokio::test]
async fn a_compaction_heeds_what_the_line_says() {
    let (gateway, mock) = forgetful().await;
    let mut client = admin(&gateway).await;
    assert_eq!(order(&mut client, "/compact").await, "⚙️ Compaction skipped: no sessionId");
    ask(&mut client, "main", "hello", "run-1").await;
    ask(&mut client, "main", "@mock text text=\"They said hello.\"", "run-2").await;
    let answer = order(&mut client, "/compact keep the greetings").await;
    assert!(answer.starts_with("⚙️ Compacted ("), "{answer}");
    assert!(answer.contains(" • Context ") && answer.ends_with("/200k (0%)"), "{answer}");
    let asked = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("heed this as well: keep the greetings"), "{asked}");
    assert_eq!(row(&mut client, MAIN).await["compactionCount"], 1);
}

#[tokio::test]
async fn a_command_that_a_kill_cut_off_is_not_lost() {
    let (mut gateway, _mock) = forgetful().await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=400 delay=100", "run-1").await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
    call(&mut client, "chat.inject", json!({"sessionKey": "main", "message": "noted"})).await;
    ask(&mut client, "main", "hello", "run-2").await;
    start(&mut client, "main", "/compact", "cut").await;
    let begun = |frame: &Value| frame["payload"]["stream"] == "compaction";
    client.wait_for(RUN_LIMIT, begun).await.expect("the compaction begins");
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let last = told(&mut client, "main").await.pop().unwrap();
    assert_eq!(last, ("user".into(), "/compact".into()));
    let params = json!({"sessionKey": "main", "message": "/compact", "idempotencyKey": "cut"});
    let answer = client.request("chat.send", params).await;
    assert_eq!(answer["ok"], false, "{answer}");
}

#[tokio::test]
async fn a_stop_word_ends_a_compaction_that_a_command_began() {
    let (gateway, _mock) = forgetful().await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=400 delay=100", "run-1").await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
    call(&mut client, "chat.inject", json!({"sessionKey": "main", "message": "noted"})).await;
    ask(&mut client, "main", "hello", "run-2").await;
    start(&mut client, "main", "/compact", "stopped").await;
    let begun = |frame: &Value| frame["payload"]["stream"] == "compaction";
    client.wait_for(RUN_LIMIT, begun).await.expect("the compaction begins");
    assert_eq!(order(&mut client, "/steer hi").await, "⚠️ No active run to steer in this session.");
    let answer = send(&mut client, "main", "stop", "stop").await;
    assert_eq!(answer["aborted"], true);
    let end = tokio::time::timeout(Duration::from_secs(5), end_of(&client, "stopped")).await;
    assert_eq!(text_of(&end.unwrap()["message"]), "⚠️ /compact: compaction was stopped");
}

#[tokio::test]
async fn the_config_is_shown_without_secrets_and_changed_where_it_is_meant() {
    let (gateway, _mock) = with_config(|config| config["commands"] = json!({"config": true})).await;
    let path = gateway.config_path();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen('{', "{\n  // mine\n", 1)).unwrap();
    let mut client = admin(&gateway).await;
    let shown = order(&mut client, "/config").await;
    assert!(shown.starts_with("⚙️ Config (raw):\n```json\n{"), "{shown}");
    assert!(shown.contains("\"apiKey\": \"__OPENCLAW_REDACTED__\""), "{shown}");
    assert!(!shown.contains("mock-key"), "{shown}");
    for (command, answer) in [
        ("/config get agents.defaults.model.primary", "\"mock/mock-1\""),
        ("/config get gateway.auth.token", "\"__OPENCLAW_REDACTED__\""),
        ("/config show gateway.bind", "\"loopback\""),
    ] {
        let path = command.rsplit(' ').next().unwrap();
        let expected = format!("⚙️ Config {path}:\n```json\n{answer}\n```");
        assert_eq!(order(&mut client, command).await, expected);
    }
    for (command, answer) in [
        ("/config get ui", "⚙️ No config value found for ui."),
        ("/config set ui.seamColor \"#ff0000\"", "⚠️ Usage: /config set path=value"),
        ("/config set ui.seamColor=\"#ff0000\"", "⚙️ Config updated: ui.seamColor=\"#ff0000\""),
        (
            "/config set gateway.remote.token=geheim-1",
            "⚙️ Config updated: gateway.remote.token=\"__OPENCLAW_REDACTED__\"",
        ),
        ("/config unset nothing.here", "⚙️ No config value found for nothing.here."),
        ("/config burn", "⚠️ Usage: /config show|get|set|unset [path[=value]]"),
    ] {
        assert_eq!(order(&mut client, command).await, answer);
    }
    let wrong = order(&mut client, "/config set gateway.port=none").await;
    assert!(
        wrong.starts_with("⚠️ Config not changed: ") && wrong.contains("gateway.port"),
        "{wrong}"
    );
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("// mine") && text.contains("#ff0000"), "{text}");
    assert!(text.contains("geheim-1") && !text.contains("none"), "{text}");
    assert!(
        order(&mut client, "/config unset ui").await.starts_with("⚙️ Config updated: ui removed.")
    );
    assert!(!fs::read_to_string(&path).unwrap().contains("#ff0000"));
    // The value went nowhere else.
    let frames = client.frames();
    assert!(frames.iter().all(|frame| !frame.to_string().contains("geheim-1")));
    let said = gateway.stderr() + &gateway.stdout();
    assert!(!said.contains("geheim-1"), "{said}");
}

#[tokio::test]
async fn commands_are_listed_as_recorded() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["commands"] = json!({"restart": false});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let rows = |answer: Value| answer["commands"].as_array().unwrap().clone();
    let all = rows(call(&mut client, "commands.list", json!({})).await);
    let named = |name: &str| all.iter().find(|row| row["name"] == name).cloned();
    assert_eq!(
        named("tools").unwrap(),
        json!({"name": "tools", "nativeName": "tools", "textAliases": ["/tools"],
            "description": "List available runtime tools.", "category": "status",
            "source": "native", "scope": "both", "acceptsArgs": true,
            "args": [{"name": "mode", "description": "compact or verbose", "type": "string",
                "choices": [{"value": "compact", "label": "compact"},
                    {"value": "verbose", "label": "verbose"}]}]})
    );
    assert_eq!(named("think").unwrap()["textAliases"], json!(["/think", "/thinking", "/t"]));
    assert!(named("config").is_none(), "it is off");
    let params = json!({"scope": "text", "includeArgs": false, "provider": "discord"});
    let short = rows(call(&mut client, "commands.list", params).await);
    assert_eq!(short.len(), all.len());
    assert!(short.iter().all(|row| row.get("args").is_none()));
    let own = rows(call(&mut client, "commands.list", json!({"agentId": " Main "})).await);
    assert_eq!(own, all);
    let answer = client.request("commands.list", json!({"agentId": "nope"})).await;
    assert_eq!(answer["error"]["message"], "unknown agent id \"nope\"");
    // Each alias that is listed is a command, not a message for the model.
    for alias in all.iter().flat_map(|row| row["textAliases"].as_array().unwrap()) {
        let id = format!("listed {alias}");
        let answer = send(&mut client, "listed", alias.as_str().unwrap(), &id).await;
        if alias != "/stop" {
            assert_eq!(answer["status"], "started", "{alias}");
            let end = end_of(&client, &id).await;
            // Without the name of a skill it is a question to the model.
            let is_answered = end["message"]["model"] == "gateway-injected";
            assert_eq!(is_answered, alias != "/skill", "{alias}: {end}");
        }
    }
}

#[tokio::test]
async fn a_chat_of_the_web_sets_by_commands_what_it_may_not_patch() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = crate::session_settings::webchat(&gateway).await;
    let patch = json!({"key": "main", "thinkingLevel": "low"});
    let refused = client.request("sessions.patch", patch).await;
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("use chat.send for session-scoped updates"), "{message}");
    assert_eq!(order(&mut client, "/think low").await, "Thinking level set to low.");
}
