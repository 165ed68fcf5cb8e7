//! `sessions.list`, and the other ways to look at sessions.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::stage::{Api, admin, ask, call, connect, end_of, lines, refusal, scripted, start, told};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient, default_config};

/// The keys of the sessions that a list with these params has.
async fn keys(client: &mut WsClient, params: Value) -> Vec<String> {
    let list = call(client, "sessions.list", params).await;
    assert_eq!(list["count"], json!(list["sessions"].as_array().unwrap().len()));
    let rows = list["sessions"].as_array().unwrap();
    rows.iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect()
}

/// A gateway with three sessions, made in this order: one with a
/// conversation, one of a sub-agent of it, and one of another agent.
async fn peopled() -> (Gateway, MockProvider, WsClient) {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops"}]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "garden", "@mock text text=\"Tomatoes need Sun\"", "run-1").await;
    let child = json!({"key": "agent:main:subagent:1", "spawnedBy": "garden", "label": "kid"});
    call(&mut client, "sessions.patch", child).await;
    let ops = json!({"agentId": "ops", "key": "night", "label": "Ünique Label"});
    call(&mut client, "sessions.create", ops).await;
    (gateway, mock, client)
}

#[tokio::test]
async fn every_filter_of_the_list_leaves_out_what_it_should() {
    let (_gateway, _mock, mut client) = peopled().await;
    let (garden, kid, night) = ("agent:main:garden", "agent:main:subagent:1", "agent:ops:night");
    let all = vec![night, kid, garden];
    for (params, expected) in [
        (json!({}), all.clone()),
        (json!({"limit": 1}), vec![night]),
        (json!({"limit": 2}), vec![night, kid]),
        (json!({"agentId": "ops"}), vec![night]),
        (json!({"agentId": "Main"}), vec![kid, garden]),
        (json!({"agentId": "nobody"}), vec![]),
        (json!({"spawnedBy": "agent:main:garden"}), vec![kid]),
        (json!({"spawnedBy": "garden"}), vec![kid]),
        (json!({"spawnedBy": "night"}), vec![]),
        (json!({"label": "kid"}), vec![kid]),
        (json!({"label": "ki"}), vec![]),
        (json!({"label": "kid", "agentId": "ops"}), vec![]),
        (json!({"search": "GARD"}), vec![garden]),
        (json!({"search": "üNIQUE"}), vec![night]),
        (json!({"search": "tomatoes need"}), vec![garden]),
        (json!({"search": "subagent:1"}), vec![kid]),
        (json!({"search": "zzz"}), vec![]),
        (json!({"search": "  "}), all.clone()),
        (json!({"activeMinutes": 1}), all.clone()),
        (json!({"includeGlobal": true, "includeUnknown": true}), all),
    ] {
        assert_eq!(keys(&mut client, params.clone()).await, expected, "{params}");
    }
    for (params, text) in [
        (json!({"limit": 0}), "at /limit: must be >= 1"),
        (json!({"activeMinutes": 0}), "at /activeMinutes: must be >= 1"),
        (json!({"label": ""}), "at /label: must NOT have fewer than 1 characters"),
        (json!({"search": 1}), "at /search: must be string"),
        (json!({"x": 1}), "at root: unexpected property 'x'"),
    ] {
        let told = refusal(&mut client, "sessions.list", params).await;
        assert_eq!(told, format!("invalid sessions.list params: {text}"));
    }
}

#[tokio::test]
async fn the_list_tells_how_much_there_is_and_shows_texts_only_on_wish() {
    let (_gateway, _mock, mut client) = peopled().await;
    let list = call(&mut client, "sessions.list", json!({"limit": 2})).await;
    assert_eq!(
        (&list["count"], &list["totalCount"], &list["limitApplied"], &list["hasMore"]),
        (&json!(2), &json!(3), &json!(2), &json!(true))
    );
    let list = call(&mut client, "sessions.list", json!({})).await;
    assert_eq!((&list["limitApplied"], &list["hasMore"]), (&json!(100), &json!(false)));
    assert_eq!(list["defaults"]["model"], "mock-1");
    assert_eq!(list["path"], "(multiple)");
    for agent in ["main", "ops"] {
        let own = call(&mut client, "sessions.list", json!({"agentId": agent})).await;
        let file = format!("agents/{agent}/sessions/sessions.json");
        assert!(own["path"].as_str().unwrap().ends_with(&file), "{}", own["path"]);
    }
    let of = |list: &Value, key: &str| {
        let rows = list["sessions"].as_array().unwrap();
        rows.iter().find(|row| row["key"] == key).unwrap().clone()
    };
    let row = of(&list, "agent:main:garden");
    assert_eq!((row.get("derivedTitle"), row.get("lastMessagePreview")), (None, None));
    assert_eq!(row["childSessions"], json!(["agent:main:subagent:1"]));
    assert_eq!((&row["chatType"], &row["lastChannel"]), (&json!("direct"), &json!("webchat")));
    let kid = of(&list, "agent:main:subagent:1");
    assert_eq!(
        (&kid["displayName"], kid.get("chatType"), kid.get("childSessions")),
        (&json!("kid"), None, None),
        "{kid}"
    );
    let params = json!({"includeDerivedTitles": true, "includeLastMessage": true});
    let row = of(&call(&mut client, "sessions.list", params).await, "agent:main:garden");
    assert_eq!(row["derivedTitle"], "@mock text text=\"Tomatoes need Sun\"");
    assert_eq!(row["lastMessagePreview"], "Tomatoes need Sun");
    let described = call(&mut client, "sessions.describe", json!({"key": "garden"})).await;
    assert_eq!(described["session"]["childSessions"], json!(["agent:main:subagent:1"]));
}

#[tokio::test]
async fn the_list_is_in_the_order_of_the_last_change_and_shows_what_runs() {
    let (_gateway, _mock, mut client) = peopled().await;
    start(&mut client, "garden", "@mock stream n=200 delay=100", "run-2").await;
    let list = call(&mut client, "sessions.list", json!({})).await;
    assert_eq!(list["sessions"][0]["key"], "agent:main:garden");
    let running: Vec<_> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["hasActiveRun"].as_bool().unwrap())
        .collect();
    assert_eq!(running, [true, false, false]);
    call(&mut client, "sessions.abort", json!({"key": "garden"})).await;
    end_of(&client, "run-2").await;
}

#[tokio::test]
async fn sessions_without_a_person_are_listed_for_those_who_ask() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for (session, run_id) in [("global", "run-1"), ("unknown", "run-2"), ("main", "run-3")] {
        ask(&mut client, session, "hello", run_id).await;
    }
    let main = "agent:main:main";
    for (params, expected) in [
        (json!({}), vec![main]),
        (json!({"includeGlobal": true}), vec![main, "global"]),
        (json!({"includeUnknown": true}), vec![main, "unknown"]),
        (json!({"includeGlobal": true, "includeUnknown": true}), vec![main, "unknown", "global"]),
    ] {
        assert_eq!(keys(&mut client, params.clone()).await, expected, "{params}");
    }
}

#[tokio::test]
async fn in_the_global_scope_everybody_shares_the_session_that_is_listed() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["session"] = json!({"scope": "global"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    ask(&mut client, "agent:main:main", "again", "run-2").await;
    assert_eq!(keys(&mut client, json!({})).await, ["global"]);
    assert_eq!(keys(&mut client, json!({"includeGlobal": false})).await, Vec::<String>::new());
    assert_eq!(told(&mut client, "main").await.len(), 4);
}

#[tokio::test]
async fn the_keys_of_the_seed_name_sessions_of_their_own() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "myagent"}]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let sessions = [
        ("main", "agent:main:main", "direct"),
        ("agent:myagent:main", "agent:myagent:main", "direct"),
        ("main:direct:+1234567890", "agent:main:main:direct:+1234567890", "direct"),
        ("telegram:group:123456:@user", "agent:main:telegram:group:123456:@user", "group"),
    ];
    for (index, (written, canonical, kind)) in sessions.into_iter().enumerate() {
        ask(&mut client, written, &format!("hello {index}"), &format!("run-{index}")).await;
        let (text, answer) = (format!("hello {index}"), format!("Echo: hello {index}"));
        let said = lines(&[("user", &text), ("assistant", &answer)]);
        assert_eq!(told(&mut client, canonical).await, said);
        let row = call(&mut client, "sessions.describe", json!({"key": written})).await;
        assert_eq!(
            (&row["session"]["key"], &row["session"]["kind"]),
            (&json!(canonical), &json!(kind))
        );
    }
    let text = refusal(
        &mut client,
        "chat.send",
        json!({"sessionKey": "agent:main", "message": "x", "idempotencyKey": "k"}),
    )
    .await;
    assert_eq!(text, "malformed session key \"agent:main\"");
}

#[tokio::test]
async fn a_preview_is_bounded_in_sessions_lines_and_characters() {
    let (_gateway, _mock, mut client) = peopled().await;
    for index in 0..30 {
        let run_id = format!("more-{index}");
        ask(&mut client, "garden", &"x".repeat(100), &run_id).await;
    }
    let items = |preview: &Value| preview["previews"][0]["items"].as_array().unwrap().clone();
    let preview = |params| call_preview(params);
    let usual = call(&mut client, "sessions.preview", preview(json!({}))).await;
    assert_eq!(items(&usual).len(), 12);
    let most = call(&mut client, "sessions.preview", preview(json!({"limit": 1000}))).await;
    assert_eq!(items(&most).len(), 50);
    let short = preview(json!({"limit": 1, "maxChars": 20}));
    let short = call(&mut client, "sessions.preview", short).await;
    assert_eq!(items(&short), [json!({"role": "assistant", "text": "Echo: xxxxxxxxxxx..."})]);
    let many: Vec<_> = (0..70).map(|index| format!("nobody-{index}")).collect();
    let many = call(&mut client, "sessions.preview", json!({"keys": many})).await;
    assert_eq!(many["previews"].as_array().unwrap().len(), 64);
    call(&mut client, "sessions.create", json!({"key": "silent"})).await;
    let empty = call(&mut client, "sessions.preview", json!({"keys": ["silent"]})).await;
    assert_eq!(empty["previews"][0], json!({"key": "silent", "status": "empty", "items": []}));
    let text =
        refusal(&mut client, "sessions.preview", json!({"keys": ["a"], "maxChars": 5})).await;
    assert_eq!(text, "invalid sessions.preview params: at /maxChars: must be >= 20");
}

fn call_preview(mut params: Value) -> Value {
    params["keys"] = json!(["garden"]);
    params
}

#[tokio::test]
async fn what_is_reset_or_deleted_is_named_and_kept_as_the_caller_wishes() {
    let (_gateway, _mock, mut client) = peopled().await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    let by_alias = call(&mut client, "sessions.get", json!({"sessionKey": "garden"})).await;
    assert_eq!(by_alias["messages"].as_array().unwrap().len(), 2);
    let reset = json!({"key": "garden", "reason": "new"});
    let reset = call(&mut client, "sessions.reset", reset).await;
    assert_eq!(
        (&reset["entry"]["model"], &reset["entry"]["modelProvider"]),
        (&json!("mock-1"), &json!("mock")),
        "{reset}"
    );
    let is_new = |frame: &Value| frame["payload"]["reason"] == "new";
    let event = client.wait_for(crate::stage::RUN_LIMIT, is_new).await.unwrap();
    assert_eq!(event["payload"]["sessionId"], reset["entry"]["sessionId"]);
    ask(&mut client, "garden", "hello", "run-2").await;
    let file = reset["entry"]["sessionFile"].as_str().unwrap().to_owned();
    let delete = json!({"key": "garden", "deleteTranscript": false});
    let deleted = call(&mut client, "sessions.delete", delete).await;
    assert_eq!((&deleted["deleted"], &deleted["archived"]), (&json!(true), &json!([])));
    assert!(std::path::Path::new(&file).is_file(), "the transcript stays where it is");
    let reset = call(&mut client, "sessions.reset", json!({"key": "never-existed"})).await;
    assert_eq!(
        (&reset["entry"]["systemSent"], &reset["entry"]["inputTokens"]),
        (&json!(false), &json!(0)),
        "{reset}"
    );
    let text = refusal(&mut client, "sessions.reset", json!({"key": "x", "reason": "y"})).await;
    assert_eq!(
        text,
        "invalid sessions.reset params: at /reason: must be equal to constant; \
        at /reason: must match a schema in anyOf"
    );
}

#[tokio::test]
async fn dashboards_may_speak_of_sessions_in_their_own_form() {
    let (gateway, _mock, mut plain) = peopled().await;
    let mut params = standard_connect(&ALL_SCOPES);
    params["userAgent"] = json!("openclaw-dashboard/1.0");
    let mut client = connect(&gateway, &params).await;
    let list = call(&mut client, "sessions.list", json!({"search": "garden"})).await;
    let row = &list["sessions"][0];
    assert_eq!(
        (&row["agentId"], &row["thinking"], &row["messageCount"]),
        (&json!("main"), &json!("off"), &json!(2)),
        "{row}"
    );
    for name in ["createdAt", "lastMessageAt"] {
        assert!(row[name].as_str().unwrap().ends_with('Z'), "{row}");
    }
    let patch = json!({"key": "garden", "thinking": "low"});
    let patched = call(&mut client, "sessions.patch", patch).await;
    assert_eq!(
        (&patched["key"], &patched["thinking"], &patched["entry"]["thinkingLevel"]),
        (&json!("agent:main:garden"), &json!("low"), &json!("low")),
        "{patched}"
    );
    let preview = call(&mut client, "sessions.preview", json!({"key": "garden"})).await;
    assert_eq!(
        (&preview["key"], &preview["summary"], &preview["messageCount"]),
        (&json!("garden"), &json!("Tomatoes need Sun"), &json!(2)),
        "{preview}"
    );
    assert_eq!(preview["previews"][0]["status"], "ok");
    let spawned = call(&mut client, "sessions.spawn", json!({"agentId": "ops"})).await;
    for (method, done) in [("sessions.reset", "ok"), ("sessions.delete", "deleted")] {
        let answer = call(&mut client, method, json!({"key": spawned["key"]})).await;
        assert_eq!((&answer["key"], &answer[done]), (&spawned["key"], &json!(true)));
    }
    // Nobody else sees more than was recorded.
    let list = call(&mut plain, "sessions.list", json!({"search": "garden"})).await;
    assert_eq!(list["sessions"][0].get("messageCount"), None);
}

#[tokio::test]
async fn the_level_that_a_run_would_think_with_is_shown_where_a_session_has_none() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["thinkingDefault"] = json!("xhigh");
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "garden", "@mock text text=Tomatoes", "run-1").await;
    let list = call(&mut client, "sessions.list", json!({})).await;
    let levels = json!(["off", "minimal", "low", "medium", "high", "xhigh"]);
    assert_eq!(list["defaults"]["thinkingDefault"], "xhigh");
    assert_eq!(list["defaults"]["thinkingOptions"], levels);
    assert_eq!(list["sessions"][0]["thinkingOptions"], levels);
    assert_eq!(list["sessions"][0]["thinkingLevels"][5], json!({"id": "xhigh", "label": "xhigh"}));
    let by_key = json!({"key": "garden"});
    let row = call(&mut client, "sessions.describe", by_key).await["session"].clone();
    assert_eq!((&row["thinkingDefault"], row.get("thinkingLevel")), (&json!("xhigh"), None));
    let of_history = json!({"sessionKey": "garden"});
    let history = call(&mut client, "chat.history", of_history.clone()).await;
    assert_eq!(history["thinkingLevel"], "xhigh");
    let hello = json!({"clientType": "web", "clientVersion": "1", "auth": {"token": SECRET}});
    let mut simple = connect(&gateway, &hello).await;
    let list = call(&mut simple, "sessions.list", json!({})).await;
    assert_eq!(list["sessions"][0]["thinkingLevel"], "high");

    call(&mut client, "sessions.patch", json!({"key": "garden", "thinkingLevel": "low"})).await;
    let history = call(&mut client, "chat.history", of_history).await;
    assert_eq!(history["thinkingLevel"], "low");
}

#[tokio::test]
async fn simple_clients_name_sessions_by_session_key_everywhere() {
    let (gateway, _mock, _) = peopled().await;
    let hello = json!({"clientType": "web", "clientVersion": "1", "auth": {"token": SECRET}});
    let mut client = connect(&gateway, &hello).await;
    let by_key = json!({"sessionKey": "garden"});
    let preview = call(&mut client, "sessions.preview", by_key.clone()).await;
    assert_eq!(preview["previews"][0]["status"], "ok", "{preview}");
    let resolved = call(&mut client, "sessions.resolve", by_key.clone()).await;
    assert_eq!(resolved["key"], "garden");
    let patch = json!({"sessionKey": "garden", "thinkingLevel": "normal", "label": "Garden"});
    let patched = call(&mut client, "sessions.patch", patch).await;
    assert_eq!(patched["entry"]["thinkingLevel"], "normal");
    let row = call(&mut client, "sessions.describe", by_key.clone()).await["session"].clone();
    assert_eq!(
        (&row["key"], &row["displayName"], &row["thinkingLevel"], &row["surface"]),
        (&json!("garden"), &json!("Garden"), &json!("normal"), &json!("web")),
        "{row}"
    );
    call(&mut client, "sessions.reset", by_key.clone()).await;
    call(&mut client, "sessions.delete", by_key).await;
    assert_eq!(keys(&mut client, json!({"search": "garden"})).await, Vec::<String>::new());
}

#[tokio::test]
async fn whoever_changes_a_session_sees_it_in_the_next_list_however_many_ask_for_lists() {
    let (gateway, _mock, mut client) = peopled().await;
    let mut crowd = JoinSet::new();
    for _ in 0..8 {
        let mut other = admin(&gateway).await;
        crowd.spawn(async move {
            loop {
                call(&mut other, "sessions.list", json!({})).await;
            }
        });
    }
    for turn in 0..100 {
        let label = format!("turn {turn}");
        call(&mut client, "sessions.patch", json!({"key": "garden", "label": label})).await;
        let list = call(&mut client, "sessions.list", json!({})).await;
        let rows = list["sessions"].as_array().unwrap();
        let garden = rows.iter().find(|row| row["key"] == "agent:main:garden").unwrap();
        assert_eq!(garden["label"], label.as_str());
    }
    assert!(crowd.try_join_next().is_none(), "nobody was refused");
}
