//! What a message of `agent` says of its run and of its session.

use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, config, connect, history, refusal, row, scripted, told};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// A message of `agent` in the main session.
fn message(id: &str, more: &Value) -> Value {
    let mut params =
        json!({"message": "@mock text text=fine", "agentId": "main", "idempotencyKey": id});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

/// Sends it, and waits until it is answered.
async fn done(client: &mut WsClient, id: &str, more: &Value) {
    call(client, "agent", message(id, more)).await;
    let end = call(client, "agent.wait", json!({"runId": id})).await;
    assert_eq!(end["status"], "ok", "{end}");
}

/// The last thing that the provider was asked.
fn asked(mock: &MockProvider) -> Value {
    mock.requests().last().unwrap().body.clone()
}

/// What it was told of itself, if anything.
fn system(body: &Value) -> Option<&str> {
    let first = &body["messages"][0];
    (first["role"] == "system").then(|| first["content"].as_str().unwrap())
}

#[tokio::test]
async fn a_named_model_answers_one_run_and_no_other_stands_in_for_it() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["model"]["fallbacks"] = json!(["mock/mock-1"]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    for (id, more, model) in [
        ("a", json!({"model": "mock-2"}), "mock-2"),
        ("b", json!({}), "mock-1"),
        ("c", json!({"provider": "mock", "model": "mock-2"}), "mock-2"),
        ("d", json!({"model": "mock/mock-2", "provider": ""}), "mock-2"),
        ("e", json!({"model": "mock-2", "provider": "MOCK"}), "mock-2"),
    ] {
        done(&mut client, id, &more).await;
        assert_eq!(asked(&mock)["model"], model, "{more}");
    }
    mock.fail("mock-2", 401, "no such key");
    call(&mut client, "agent", message("f", &json!({"model": "mock-2"}))).await;
    let end = call(&mut client, "agent.wait", json!({"runId": "f"})).await;
    assert_eq!((&end["status"], asked(&mock)["model"].as_str()), (&json!("error"), Some("mock-2")));

    for (more, text) in [
        (json!({"model": "nowhere/none"}), "Unknown model: nowhere/none"),
        (json!({"provider": "nowhere"}), "Unknown model: nowhere/mock-1"),
        (json!({"model": " "}), "Model override must be non-empty."),
        (json!({"provider": "a\u{1}"}), "Provider override contains invalid control characters."),
        (json!({"model": "m".repeat(257)}), "Model override exceeds 256 characters."),
    ] {
        assert_eq!(refusal(&mut client, "agent", message("g", &more)).await, text);
    }
    let mut writer = connect(&gateway, &standard_connect(&["operator.write"])).await;
    let answer = writer.request("agent", message("h", &json!({"model": "mock-2"}))).await;
    let text = "provider/model overrides are not authorized for this caller.";
    assert_eq!(answer["error"]["message"], text);
}

#[tokio::test]
async fn only_models_on_the_list_can_be_named() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["models"] = json!({"mock/mock-1": {"alias": "one"}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let text = "Model override \"mock/mock-2\" is not allowed for agent \"main\".";
    let named = message("a", &json!({"model": "mock-2"}));
    assert_eq!(refusal(&mut client, "agent", named).await, text);
    done(&mut client, "b", &json!({"model": "one"})).await;
    assert_eq!(asked(&mock)["model"], "mock-1");
}

#[tokio::test]
async fn a_run_is_told_as_much_as_its_message_wishes() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let workspace = gateway.workspace();
    std::fs::create_dir_all(&workspace).unwrap();
    std::fs::write(workspace.join("AGENTS.md"), "Be kind to cats.").unwrap();
    let mut client = admin(&gateway).await;
    done(&mut client, "a", &json!({})).await;
    let usual = asked(&mock);
    let told_usually = system(&usual).unwrap();
    for words in ["NO_REPLY", "Be kind to cats."] {
        assert!(told_usually.contains(words), "{told_usually}");
    }

    done(&mut client, "b", &json!({"extraSystemPrompt": "Speak of dogs."})).await;
    assert!(system(&asked(&mock)).unwrap().contains("Speak of dogs."));
    done(&mut client, "c", &json!({"promptMode": "minimal"})).await;
    let minimal = asked(&mock);
    let told = system(&minimal).unwrap();
    assert!(told.contains("Be kind to cats.") && !told.contains("NO_REPLY"), "{told}");
    assert!(!told.contains("Speak of dogs."), "what one message says is not said to the next");
    assert_eq!(minimal["tools"], usual["tools"]);
    done(&mut client, "d", &json!({"bootstrapContextMode": "lightweight"})).await;
    let light = asked(&mock);
    let told = system(&light).unwrap();
    assert!(!told.contains("Be kind to cats.") && told.contains("NO_REPLY"), "{told}");
}

#[tokio::test]
async fn a_bare_run_gets_its_message_alone_and_is_in_the_transcript_all_the_same() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "@mock text text=before", "a").await;
    let size = async |client: &mut WsClient| {
        row(client, "agent:main:main").await["totalTokens"].as_u64().unwrap()
    };
    let before = size(&mut client).await;
    call(&mut client, "wake", json!({"mode": "next-heartbeat", "text": "It rains."})).await;
    for (id, more) in [("b", json!({"modelRun": true})), ("c", json!({"promptMode": "none"}))] {
        let text = format!("@mock text text=bare-{id}");
        let mut more = more;
        more["message"] = json!(text);
        done(&mut client, id, &more).await;
        let body = asked(&mock);
        assert_eq!(body["messages"].as_array().unwrap().len(), 1, "{body}");
        assert!(body["messages"][0].to_string().contains(&text), "{body}");
        assert_eq!(body.get("tools"), None, "{body}");
    }
    assert!(size(&mut client).await > before, "it is longer, and not as short as they are");
    let texts: Vec<_> = told(&mut client, "main").await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts[3], "bare-b", "{texts:?}");
    assert_eq!(texts[5], "bare-c", "{texts:?}");
    // The next one hears all of it, and the news that nobody has heard yet.
    ask(&mut client, "main", "@mock text text=after", "d").await;
    let body = asked(&mock);
    assert!(body["messages"].as_array().unwrap().len() >= 7, "{body}");
    assert!(system(&body).unwrap().contains("It rains."), "{body}");
}

#[tokio::test]
async fn how_hard_to_think_is_kept_by_the_session_and_unknown_words_are_refused() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    done(&mut client, "a", &json!({"thinking": "ultra"})).await;
    assert_eq!(row(&mut client, "agent:main:main").await["thinkingLevel"], "high");
    done(&mut client, "b", &json!({"thinking": "auto"})).await;
    assert_eq!(row(&mut client, "agent:main:main").await["thinkingLevel"], "high");
    let text = "Invalid thinking level. Use one of: off, minimal, low, medium, high.";
    let bogus = message("c", &json!({"thinking": "bogus"}));
    assert_eq!(refusal(&mut client, "agent", bogus).await, text);
    let params = json!({"sessionKey": "main", "message": "x", "thinking": "bogus",
        "idempotencyKey": "d"});
    assert_eq!(refusal(&mut client, "chat.send", params).await, text);
    let patch = json!({"key": "main", "thinkingLevel": "think harder"});
    assert_eq!(
        call(&mut client, "sessions.patch", patch).await["entry"]["thinkingLevel"],
        "medium"
    );
}

#[tokio::test]
async fn a_new_session_has_the_id_and_the_label_that_its_first_message_names() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops"}]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    for (id, more, key) in [
        ("a", json!({"sessionId": "Trip-1", "label": "The trip"}), "agent:main:explicit:trip-1"),
        ("b", json!({"sessionId": "Trip-1"}), "agent:main:explicit:trip-1"),
        ("c", json!({"sessionId": "log.2", "agentId": "ops"}), "agent:ops:explicit:log.2"),
        ("d", json!({"sessionId": "own", "sessionKey": "garden"}), "agent:main:garden"),
        // One that there is keeps its own.
        ("e", json!({"sessionId": "other", "sessionKey": "garden"}), "agent:main:garden"),
        ("f", json!({"sessionId": "own"}), "agent:main:garden"),
    ] {
        done(&mut client, id, &more).await;
        let row = row(&mut client, key).await;
        let expected =
            if key.ends_with("garden") { json!("own") } else { more["sessionId"].clone() };
        assert_eq!(row["sessionId"], expected, "{more}: {row}");
    }
    assert_eq!(row(&mut client, "agent:main:explicit:trip-1").await["label"], "The trip");
    assert_eq!(told(&mut client, "agent:main:explicit:trip-1").await.len(), 4);
    assert_eq!(told(&mut client, "garden").await.len(), 6);
    assert_eq!(row(&mut client, "agent:main:main").await, Value::Null);
    for (more, text) in [
        (json!({"sessionId": "../x"}), "Invalid session ID: ../x"),
        (
            json!({"sessionId": "log.2"}),
            "invalid agent params: agent \"main\" does not match session key agent \"ops\"",
        ),
    ] {
        assert_eq!(refusal(&mut client, "agent", message("g", &more)).await, text);
    }
    // A label is one session's, and the message is worth an answer all the same.
    done(&mut client, "h", &json!({"sessionKey": "garden", "label": "The trip"})).await;
    assert_eq!(row(&mut client, "agent:main:garden").await.get("label"), None);
    // A file of another kind would have this name.
    let checkpoint = json!({"sessionKey": "shed", "sessionId": "own.checkpoint.1"});
    done(&mut client, "i", &checkpoint).await;
    let shed = row(&mut client, "agent:main:shed").await;
    assert_ne!(shed["sessionId"], checkpoint["sessionId"]);
}

#[tokio::test]
async fn of_those_who_name_one_new_id_at_once_one_session_gets_it() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let keys: Vec<_> = (0..8).map(|index| format!("k{index}")).collect();
    for key in &keys {
        let params = message(key, &json!({"sessionKey": key, "sessionId": "one"}));
        client.send(&json!({"type": "req", "id": key, "method": "agent", "params": params})).await;
    }
    let mut owners = 0;
    for key in &keys {
        let end = call(&mut client, "agent.wait", json!({"runId": key})).await;
        assert_eq!(end["status"], "ok", "{end}");
        let row = row(&mut client, &format!("agent:main:{key}")).await;
        owners += usize::from(row["sessionId"] == "one");
        assert_eq!(told(&mut client, key).await.len(), 2);
    }
    assert_eq!(owners, 1);
}

#[tokio::test]
async fn what_is_sent_again_changes_nothing() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let wishes = json!({"sessionKey": "desk", "label": "Mine", "thinking": "high",
        "model": "mock-2"});
    done(&mut client, "a", &wishes).await;
    let patch = json!({"key": "desk", "thinkingLevel": "low", "label": "Yours"});
    call(&mut client, "sessions.patch", patch).await;
    let mut again = message("a", &wishes);
    again["thinking"] = json!("bogus");
    assert_eq!(call(&mut client, "agent", again).await["status"], "ok");
    let desk = row(&mut client, "agent:main:desk").await;
    assert_eq!((&desk["label"], &desk["thinkingLevel"]), (&json!("Yours"), &json!("low")));

    // Another family's keys are others.
    ask(&mut client, "desk", "@mock text text=chat", "a").await;
    call(&mut client, "agent", message("a", &wishes)).await;
    assert_eq!(row(&mut client, "agent:main:desk").await["label"], "Yours");
}

#[tokio::test]
async fn who_is_no_admin_says_how_hard_a_session_thinks_and_not_where_it_answers() {
    let (gateway, mock) = scripted(Api::Anthropic).await;
    let scopes = ["operator.read", "operator.write"];
    let mut writer = connect(&gateway, &standard_connect(&scopes)).await;
    let more = json!({"sessionKey": "desk", "thinking": "high", "channel": "telegram", "to": "7"});
    done(&mut writer, "a", &more).await;
    assert!(asked(&mock)["thinking"]["budget_tokens"].is_u64(), "{}", asked(&mock));
    let desk = row(&mut writer, "agent:main:desk").await;
    let kept = (&desk["thinkingLevel"], &desk["lastChannel"]);
    assert_eq!(kept, (&json!("high"), &json!("webchat")), "{desk}");
    let provenance = json!({"inputProvenance": {"kind": "inter_session"}});
    let answer = writer.request("agent", message("b", &provenance)).await;
    let text = "system provenance fields require admin scope";
    assert_eq!(answer["error"]["message"], text, "{answer}");
}

#[tokio::test]
async fn in_a_main_session_an_answer_that_nobody_knows_a_place_for_is_given_all_the_same() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    done(&mut client, "a", &json!({"to": "+1555"})).await;
    let deliver = json!({"deliver": true});
    done(&mut client, "b", &deliver).await;
    let last = call(&mut client, "agent", message("b", &deliver)).await;
    assert_eq!(last["result"]["deliverySucceeded"], false, "{last}");
    // Elsewhere, or where that is wanted, it has to get there; and a channel that is named has to
    // be there.
    let nowhere = "Error: Channel is required (no configured channels detected).";
    let telegram = "Error: Outbound not configured for channel: telegram";
    for (more, text) in [
        (json!({"deliver": true, "bestEffortDeliver": false}), nowhere),
        (json!({"deliver": true, "sessionKey": "desk"}), nowhere),
        (json!({"deliver": true, "replyChannel": "telegram"}), telegram),
    ] {
        assert_eq!(refusal(&mut client, "agent", message("c", &more)).await, text, "{more}");
    }
    assert_eq!(row(&mut client, "agent:main:desk").await, Value::Null);
}

#[tokio::test]
async fn what_another_session_says_is_marked_for_the_model_and_in_the_transcript() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let provenance = json!({"kind": "inter_session", "sourceSessionKey": "agent:main:life",
        "sourceTool": "sessions_send"});
    done(&mut client, "a", &json!({"inputProvenance": provenance})).await;
    let heard = asked(&mock)["messages"][1]["content"].to_string();
    let head = "[Inter-session message] sourceSession=agent:main:life sourceTool=sessions_send \
                isUser=false";
    assert!(heard.contains(head), "{heard}");
    assert_eq!(history(&mut client, "main").await[0]["provenance"], provenance);

    let outside = json!({"kind": "external_user", "sourceChannel": "telegram"});
    done(&mut client, "b", &json!({"inputProvenance": outside})).await;
    let messages = history(&mut client, "main").await;
    assert_eq!(messages[2]["provenance"], outside);
    assert!(!messages[2]["content"].to_string().contains("Inter-session"), "{}", messages[2]);
}

#[tokio::test]
async fn a_session_without_a_place_has_the_one_that_its_message_names() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let place = json!({"sessionKey": "far", "channel": "telegram", "to": "77", "threadId": "3"});
    done(&mut client, "a", &place).await;
    let context = json!({"channel": "telegram", "to": "77", "threadId": "3"});
    let shown = row(&mut client, "agent:main:far").await;
    assert_eq!((&shown["lastChannel"], &shown["deliveryContext"]), (&json!("telegram"), &context));
    // Nothing of another place is added.
    for more in [
        json!({"sessionKey": "far", "channel": "webhook", "to": "bob"}),
        json!({"sessionKey": "far", "channel": "telegram", "to": "88", "accountId": "work"}),
        json!({"sessionKey": "far", "channel": "telegram"}),
    ] {
        done(&mut client, &more.to_string(), &more).await;
        assert_eq!(row(&mut client, "agent:main:far").await["deliveryContext"], context);
    }
    let more = json!({"sessionKey": "far", "channel": "telegram", "to": "77",
        "accountId": "work", "threadId": "4"});
    done(&mut client, "b", &more).await;
    let context = json!({"channel": "telegram", "to": "77", "threadId": "3", "accountId": "work"});
    assert_eq!(row(&mut client, "agent:main:far").await["deliveryContext"], context);
}

#[tokio::test]
async fn a_word_begins_the_named_session_anew_once_and_only_for_admins() {
    const MAIN: &str = "agent:main:main";
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    done(&mut client, "a", &json!({})).await;
    let mut id = row(&mut client, MAIN).await["sessionId"].clone();
    let mut writer = connect(&gateway, &standard_connect(&["operator.write"])).await;
    for text in ["/new", " /Reset ", "/new hello"] {
        let params = message("w", &json!({"message": text}));
        let refused = refusal(&mut writer, "agent", params).await;
        assert_eq!(refused, "missing scope: operator.admin", "{text}");
    }
    assert_eq!(row(&mut client, MAIN).await["sessionId"], id);

    for (key, text, said) in
        [("b", "/new", "✅ New session started."), ("c", " /Reset ", "✅ Session reset.")]
    {
        let word = json!({"message": text});
        done(&mut client, key, &word).await;
        assert_eq!(told(&mut client, "main").await, [("assistant".to_owned(), said.to_owned())]);
        let begun = row(&mut client, MAIN).await["sessionId"].clone();
        assert_ne!(begun, id, "{text}");
        let again = call(&mut client, "agent", message(key, &word)).await;
        assert_eq!(again["result"]["payloads"][0]["text"], said, "{again}");
        assert_eq!(row(&mut client, MAIN).await["sessionId"], begun, "the same key again");
        id = begun;
    }
    assert_eq!(mock.requests().len(), 1, "no model was asked");

    done(&mut client, "d", &json!({"message": "/new @mock text text=fresh"})).await;
    let said = told(&mut client, "main").await;
    let said: Vec<_> = said.iter().map(|(role, text)| (role.as_str(), text.as_str())).collect();
    assert_eq!(said, [("user", "@mock text text=fresh"), ("assistant", "fresh")]);
    assert_ne!(row(&mut client, MAIN).await["sessionId"], id);
    assert_eq!(mock.requests().len(), 2);
}

#[tokio::test]
async fn a_blank_session_key_is_as_if_it_were_not_there() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops"}]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    done(&mut client, "a", &json!({"agentId": "ops", "sessionKey": " "})).await;
    assert_eq!(told(&mut client, "agent:ops:main").await.len(), 2);
    // No session is named, so none begins anew.
    let params = json!({"message": "/new", "to": "+15550100", "sessionKey": " ",
        "idempotencyKey": "b"});
    call(&mut client, "agent", params).await;
    call(&mut client, "agent.wait", json!({"runId": "b"})).await;
    assert_eq!(told(&mut client, "main").await[0], ("user".to_owned(), "/new".to_owned()));
}
