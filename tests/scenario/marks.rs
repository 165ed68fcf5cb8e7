//! What a model writes for the gateway and not for people.

use serde_json::json;

use crate::stage::{Api, admin, ask, call, events, history, scripted, text_of, with_both_apis};

async fn marks_are_never_seen_while_a_text_streams_nor_after(api: Api) {
    let (gateway, _mock) = scripted(api).await;
    let mut client = admin(&gateway).await;
    for (run_id, text, shown) in [
        ("run-1", "<think>secret</think>visible", Some("visible")),
        ("run-2", "Some text [[reply_to_current]] tagged", Some("Some text tagged")),
        ("run-3", "MEDIA:./notes.txt and text", None),
        ("run-4", "Announce_Skip", None),
        ("run-5", "NO_REPLY but more", Some("NO_REPLY but more")),
        ("run-6", "HEARTBEAT_OK", Some("HEARTBEAT_OK")),
        ("run-7", "a [[wiki]] <b> `<think>`", Some("a [[wiki]] <b> `<think>`")),
        ("run-8", "a <think>x</think> b", Some("a b")),
        ("run-9", "Write <think> before it", Some("Write <think> before it")),
    ] {
        let message = format!("@mock text text={} n=30 delay=12", json!(text));
        let end = ask(&mut client, "main", &message, run_id).await;
        assert_eq!(end["state"], "final");
        assert_eq!(end.get("message").map(text_of).as_deref(), shown, "{text}");
        let whole = shown.unwrap_or_default();
        for payload in events(&client, "chat", run_id) {
            if payload["state"] == "delta" && text != "Announce_Skip" {
                let delta = text_of(&payload["message"]);
                assert!(whole.starts_with(&delta), "{delta:?} is no beginning of {whole:?}");
            }
        }
        let said: String = events(&client, "agent", run_id)
            .iter()
            .filter(|payload| payload["stream"] == "assistant")
            .map(|payload| payload["data"]["delta"].as_str().unwrap().to_owned())
            .collect();
        assert!(text == "Announce_Skip" || said == whole, "{said:?} is not {whole:?}");
    }
    let messages = history(&mut client, "main").await;
    let thought = &messages[1]["content"];
    assert_eq!(
        thought,
        &json!([
            {"type": "thinking", "thinking": "secret"}, {"type": "text", "text": "visible"},
        ])
    );
    assert_eq!(text_of(&messages[3]), "Some text  tagged");
    // What is hidden has its place in the numbering.
    let answers = messages.iter().filter(|message| message["role"] == "assistant").count();
    assert_eq!(answers, 7, "{messages:?}");
    let behind_words = &messages[messages.len() - 3]["content"];
    assert_eq!(
        behind_words,
        &json!([{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "a b"}])
    );
    let last = messages.last().unwrap();
    assert_eq!(
        (text_of(last), &last["__openclaw"]["seq"]),
        ("Write <think> before it".into(), &json!(18))
    );
    let list = call(&mut client, "sessions.preview", json!({"keys": ["main"]})).await;
    assert_eq!(list["previews"][0]["status"], "ok");
}

with_both_apis! {
    marks_are_never_seen_while_a_text_streams_nor_after;
}
