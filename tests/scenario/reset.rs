//! Sessions that begin anew by themselves: at an hour of the day, or after a
//! long silence.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stage::{admin, ask, call, lines, row, start, told, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, default_config, now_ms};

const HOUR: i64 = 3_600_000;

/// A state folder with one session, begun and last spoken in so many hours ago.
pub fn with_session(state: &Path, key: &str, began: i64, spoken: i64) {
    let agent = key.split(':').nth(1).unwrap();
    let folder = state.join("agents").join(agent).join("sessions");
    fs::create_dir_all(&folder).unwrap();
    let now = now_ms();
    let index = json!({key: {"sessionId": "s-old", "updatedAt": now, "thinkingLevel": "low",
        "label": "Kept", "sessionStartedAt": now - began * HOUR,
        "lastInteractionAt": now - spoken * HOUR, "chatType": "direct"}});
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    let header = json!({"type": "session", "version": 3, "id": "s-old"});
    let message = json!({"type": "message", "id": "a", "parentId": null,
        "message": {"role": "user", "content": "long ago", "timestamp": now - spoken * HOUR}});
    fs::write(folder.join("s-old.jsonl"), format!("{header}\n{message}\n")).unwrap();
}

async fn gateway(session: Value, (began, spoken): (i64, i64)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["session"] = session;
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    with_session(&root.path().join("state"), "agent:main:main", began, spoken);
    let options = GatewayOptions::with_config(config);
    (Gateway::start_in(root, options).await.unwrap(), mock)
}

fn archives(gateway: &Gateway) -> Vec<String> {
    let folder = fs::read_dir(gateway.state_dir().join("agents/main/sessions")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".reset.")).collect()
}

const WELL: &str = "@mock text text=\"well\"";

#[tokio::test]
async fn a_message_after_the_hour_of_the_day_begins_the_session_anew_and_keeps_its_settings() {
    // Whatever the time is, 25 hours ago is before the last reset.
    let (gateway, mock) = gateway(json!({}), (25, 0)).await;
    let mut client = admin(&gateway).await;
    assert_eq!(told(&mut client, "main").await, lines(&[("user", "long ago")]));
    ask(&mut client, "main", WELL, "run-1").await;
    ask(&mut client, "main", "@mock text text=\"still\"", "run-2").await;
    let expected = [
        ("user", WELL),
        ("assistant", "well"),
        ("user", "@mock text text=\"still\""),
        ("assistant", "still"),
    ];
    assert_eq!(told(&mut client, "main").await, lines(&expected));
    let row = row(&mut client, "agent:main:main").await;
    assert_eq!((&row["label"], &row["thinkingLevel"]), (&json!("Kept"), &json!("low")));
    assert_ne!(row["sessionId"], "s-old");
    let archives = archives(&gateway);
    assert_eq!(archives.len(), 1, "{archives:?}");
    assert!(archives[0].starts_with("s-old.jsonl.reset."));
    let asked = mock.requests();
    assert!(!asked[0].body.to_string().contains("long ago"), "the model sees only the new session");
}

#[tokio::test]
async fn what_the_gateway_asks_by_itself_goes_on_with_what_was_said_last() {
    let (gateway, mock) = gateway(json!({}), (25, 0)).await;
    let mut client = admin(&gateway).await;
    let text = "@mock text text=\"Tea is ready.\"";
    call(&mut client, "wake", json!({"mode": "now", "text": text})).await;
    let said = until("the answer", async || {
        let told = told(&mut client, "main").await;
        told.iter().any(|(_, text)| text == "Tea is ready.").then_some(told)
    });
    assert_eq!(said.await[0], ("user".to_owned(), "long ago".to_owned()));
    assert_eq!(row(&mut client, "agent:main:main").await["sessionId"], "s-old");
    assert!(mock.requests()[0].body.to_string().contains("long ago"));
    ask(&mut client, "main", WELL, "run-1").await;
    assert_ne!(row(&mut client, "agent:main:main").await["sessionId"], "s-old", "a person spoke");
}

#[tokio::test]
async fn a_message_after_a_long_silence_begins_the_session_anew_and_one_before_does_not() {
    let idle = |minutes: u64| json!({"reset": {"mode": "idle", "idleMinutes": minutes}});
    for (session, is_stale) in [
        (idle(119), true),
        (idle(121), false),
        (json!({"idleMinutes": 119}), true),
        (json!({"resetByType": {"direct": {"mode": "idle", "idleMinutes": 119}}}), true),
        (
            json!({"reset": {"mode": "idle", "idleMinutes": 1},
            "resetByChannel": {"webchat": {"mode": "idle", "idleMinutes": 121}}}),
            false,
        ),
    ] {
        let (gateway, _mock) = gateway(session.clone(), (100, 2)).await;
        let mut client = admin(&gateway).await;
        ask(&mut client, "main", WELL, "run-1").await;
        let told = told(&mut client, "main").await;
        assert_eq!(told.len(), if is_stale { 2 } else { 3 }, "{session}: {told:?}");
        assert_eq!(archives(&gateway).len(), usize::from(is_stale), "{session}");
    }
}

#[tokio::test]
async fn the_rule_of_a_channel_is_for_the_messages_that_come_by_it() {
    let rules = json!({"reset": {"mode": "idle", "idleMinutes": 121},
        "resetByChannel": {"telegram": {"mode": "idle", "idleMinutes": 119}}});
    for (last_channel, route, is_stale) in [
        ("telegram", json!({}), false),
        ("webchat", json!({"originatingChannel": "Telegram", "originatingTo": "42"}), true),
    ] {
        let mock = MockProvider::start().await;
        let mut config = default_config(mock.address());
        config["session"] = rules.clone();
        let root = TempDir::with_prefix("clawgate-test-").unwrap();
        let state = root.path().join("state");
        with_session(&state, "agent:main:main", 100, 2);
        let index = state.join("agents/main/sessions/sessions.json");
        let mut known: Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
        known["agent:main:main"]["lastChannel"] = json!(last_channel);
        fs::write(&index, known.to_string()).unwrap();
        let options = GatewayOptions::with_config(config);
        let gateway = Gateway::start_in(root, options).await.unwrap();
        let mut client = admin(&gateway).await;
        let mut params = json!({"sessionKey": "main", "message": WELL, "idempotencyKey": "run-1"});
        params.as_object_mut().unwrap().extend(route.as_object().unwrap().clone());
        call(&mut client, "chat.send", params).await;
        crate::stage::end_of(&client, "run-1").await;
        assert_eq!(archives(&gateway).len(), usize::from(is_stale), "{last_channel}");
    }
}

#[tokio::test]
async fn a_command_begins_a_stale_session_anew_and_the_sequence_of_a_send_begins_at_one() {
    let (gateway, _mock) = gateway(json!({}), (25, 25)).await;
    let mut client = admin(&gateway).await;
    let params = json!({"key": "main", "message": WELL, "idempotencyKey": "run-1"});
    let answer = call(&mut client, "sessions.send", params).await;
    assert_eq!(answer["messageSeq"], 1);
    crate::stage::end_of(&client, "run-1").await;
    assert_eq!(told(&mut client, "main").await.len(), 2);

    let (gateway, _mock) = self::gateway(json!({}), (25, 25)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "/status", "run-1").await;
    let told = told(&mut client, "main").await;
    assert_eq!((told.len(), told[0].0.as_str()), (1, "assistant"), "{told:?}");
}

#[tokio::test]
async fn the_same_message_again_does_not_begin_a_session_anew() {
    let (gateway, _mock) = gateway(json!({}), (25, 25)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", WELL, "run-1").await;
    let id = row(&mut client, "agent:main:main").await["sessionId"].clone();
    let params = json!({"sessionKey": "main", "message": WELL, "idempotencyKey": "run-1"});
    assert_eq!(call(&mut client, "chat.send", params).await["status"], "ok");
    start(&mut client, "main", WELL, "run-2").await;
    crate::stage::end_of(&client, "run-2").await;
    assert_eq!(row(&mut client, "agent:main:main").await["sessionId"], id);
    assert_eq!(archives(&gateway).len(), 1);
}
