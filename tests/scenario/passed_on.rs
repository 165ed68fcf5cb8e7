//! Messages that another system passes on for somebody.

use serde_json::json;

use crate::stage::{Api, admin, call, connect, end_of, history, row, scripted, text_of};
use crate::support::client::standard_connect;

#[tokio::test]
async fn a_message_that_another_system_passes_on_keeps_where_it_comes_from() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let provenance = json!({"kind": "inter_session", "sourceSessionKey": "agent:main:other"});
    let params = json!({"sessionKey": "main", "message": "hello", "idempotencyKey": "run-1",
        "originatingChannel": "telegram", "originatingTo": "123", "originatingThreadId": "7",
        "systemInputProvenance": provenance, "systemProvenanceReceipt": "passed on by the scheduler",
        "deliver": true, "timeoutMs": 60_000, "sessionId": "11111111-2222-3333-4444-555555555555"});
    call(&mut client, "chat.send", params).await;
    assert_eq!(end_of(&client, "run-1").await["state"], "final");
    let row = row(&mut client, "agent:main:main").await;
    assert_eq!(
        row["deliveryContext"],
        json!({"channel": "telegram", "to": "123", "threadId": "7"})
    );
    assert_eq!(row["lastChannel"], "telegram");
    let message = &history(&mut client, "main").await[0];
    assert_eq!((text_of(message), &message["provenance"]), ("hello".into(), &provenance));
    assert!(message.get("systemProvenanceReceipt").is_none(), "{message}");
    let asked = mock.requests().pop().unwrap().body.to_string();
    assert!(asked.contains("passed on by the scheduler\\n\\nhello"), "{asked}");

    let mut writer = connect(&gateway, &standard_connect(&["operator.write"])).await;
    for (member, value, text) in [
        ("systemProvenanceReceipt", json!("r"), "system provenance fields require admin scope"),
        (
            "originatingTo",
            json!("1"),
            "originatingChannel is required when using originating route fields",
        ),
    ] {
        let mut params = json!({"sessionKey": "main", "message": "x", "idempotencyKey": "run-2"});
        params[member] = value;
        let answer = writer.request("chat.send", params).await;
        assert_eq!(answer["error"]["message"], text);
    }
}
