//! Pictures and files that come with messages.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::stage::{
    Api, admin, ask, call, deltas, end_of, history, scripted, start, text_of, until, with_both_apis,
};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};

/// A picture of one pixel.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A gateway whose default model takes these kinds of input.
async fn with_input(api: Api, input: &Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    let (provider, model) = match api {
        Api::OpenAi => ("mock", "mock/mock-1"),
        Api::Anthropic => ("mocka", "mocka/mock-think"),
    };
    let models = config["models"]["providers"][provider]["models"].as_array_mut().unwrap();
    for model in models {
        model["input"] = input.clone();
    }
    config["agents"]["defaults"]["model"]["primary"] = json!(model);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

async fn send(client: &mut WsClient, run_id: &str, text: &str, files: Value) -> Value {
    let params = json!({"sessionKey": "main", "message": text, "idempotencyKey": run_id,
        "attachments": files});
    client.request("chat.send", params).await
}

async fn send_and_wait(client: &mut WsClient, run_id: &str, text: &str, files: Value) {
    let answer = send(client, run_id, text, files).await;
    assert_eq!(answer["payload"], json!({"runId": run_id, "status": "started"}), "{answer}");
    assert_eq!(end_of(client, run_id).await["state"], "final");
}

fn folder(gateway: &Gateway, name: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(gateway.state_dir().join("media").join(name)) else {
        return vec![];
    };
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// What the provider was last asked.
fn asked(mock: &MockProvider) -> String {
    mock.requests().last().unwrap().body.to_string()
}

async fn a_picture_reaches_a_model_that_sees_and_is_kept_whole(api: Api) {
    let (gateway, mock) = with_input(api, &json!(["text", "image"])).await;
    let mut client = admin(&gateway).await;
    // The claimed type is wrong.
    let picture = json!([{"type": "image", "mimeType": "image/jpeg", "fileName": "my dot.png", "content": DOT}]);
    send_and_wait(&mut client, "run-1", "look", picture).await;
    assert!(asked(&mock).contains(DOT) && asked(&mock).contains("image/png"), "{}", asked(&mock));

    let files = folder(&gateway, "inbound");
    assert_eq!(files.len(), 1);
    assert_eq!(std::fs::read(&files[0]).unwrap(), STANDARD.decode(DOT).unwrap());
    assert_eq!(mode(&files[0]), 0o600);
    let name = files[0].file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("my_dot---") && name.ends_with(".png"), "{name}");

    let messages = history(&mut client, "main").await;
    let shown = json!({"type": "image", "mimeType": "image/png", "omitted": true, "bytes": 96});
    assert_eq!(messages[0]["content"][1], shown);
    assert!(messages[0].get("inboundMedia").is_none());
    // As the original's Control UI looks for it.
    assert_eq!(messages[0]["MediaPaths"], json!([files[0]]));
    assert_eq!(messages[0]["MediaTypes"], json!(["image/png"]));
    let id = &messages[0]["__openclaw"]["id"];
    let params = json!({"sessionKey": "agent:main:main", "messageId": id});
    let whole = call(&mut client, "chat.message.get", params).await;
    assert_eq!(whole["message"]["content"][1]["data"], DOT, "{whole}");
}

async fn a_model_that_does_not_see_is_told_where_the_picture_is(api: Api) {
    let (gateway, mock) = with_input(api, &json!(["text"])).await;
    let mut client = admin(&gateway).await;
    send_and_wait(&mut client, "run-1", "", json!([{"type": "image", "content": DOT}])).await;
    let path = folder(&gateway, "inbound").pop().unwrap();
    let asked = asked(&mock);
    assert!(!asked.contains(DOT), "{asked}");
    assert!(
        asked.contains(&format!("[media attached: {} (image/png)]", path.display())),
        "{asked}"
    );
    let messages = history(&mut client, "main").await;
    assert_eq!(text_of(&messages[0]), "[User sent media without caption]");
    assert_eq!(messages[0]["content"][1]["omitted"], true);
}

async fn a_large_picture_is_a_file_that_the_model_sees_once(api: Api) {
    let (gateway, mock) = with_input(api, &json!(["text", "image"])).await;
    let mut client = admin(&gateway).await;
    let mut bytes = STANDARD.decode(DOT).unwrap();
    bytes.resize(2_500_000, 0);
    let data = STANDARD.encode(&bytes);
    send_and_wait(&mut client, "run-1", "look", json!([{"content": data}])).await;
    assert!(asked(&mock).contains(&data));
    let transcripts = gateway.state_dir().join("agents/main/sessions");
    for file in std::fs::read_dir(transcripts).unwrap() {
        assert!(file.unwrap().metadata().unwrap().len() < 100_000, "a transcript stays small");
    }
    let messages = history(&mut client, "main").await;
    let shown =
        json!({"type": "image", "mimeType": "image/png", "omitted": true, "bytes": data.len()});
    assert_eq!(messages[0]["content"][1], shown);
    let params = json!({"sessionKey": "main", "messageId": messages[0]["__openclaw"]["id"]});
    let whole = call(&mut client, "chat.message.get", params).await;
    assert!(whole["message"]["content"][1]["data"] == json!(data));

    ask(&mut client, "main", "and now?", "run-2").await;
    assert!(!asked(&mock).contains(&data));
    assert!(asked(&mock).contains("[media attached: "));
}

async fn a_large_picture_is_still_seen_when_another_message_is_taken_in(api: Api) {
    let (gateway, mock) = with_input(api, &json!(["text", "image"])).await;
    let mut client = admin(&gateway).await;
    let mut bytes = STANDARD.decode(DOT).unwrap();
    bytes.resize(2_500_000, 0);
    let data = STANDARD.encode(&bytes);
    let tool = "@mock tool name=session_status pre=\"Let me look.\" delay=300";
    send(&mut client, "run-1", tool, json!([{"content": data}])).await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "and this?", "run-2").await;
    assert_eq!(end_of(&client, "run-1").await["state"], "final");
    assert_eq!(end_of(&client, "run-2").await["takenInto"], "run-1");
    assert!(asked(&mock).contains("and this?") && asked(&mock).contains(&data));
}

async fn a_picture_that_the_provider_refuses_does_not_end_the_conversation(api: Api) {
    let (gateway, mock) = with_input(api, &json!(["text", "image"])).await;
    mock.refuse_pictures();
    let mut client = admin(&gateway).await;
    let picture = json!([{"type": "image", "content": DOT}]);
    send_and_wait(&mut client, "run-1", "@mock text text=seen", picture).await;
    let end = ask(&mut client, "main", "and now?", "run-2").await;
    assert_eq!(text_of(&end["message"]), "Echo: and now?");
    let requests = mock.requests();
    let has = |text: &str| {
        requests.iter().map(|it| it.body.to_string().contains(text)).collect::<Vec<_>>()
    };
    // It is known from then on.
    assert_eq!(has(DOT), [true, false, false]);
    let left_out = "(image left out: the provider does not take it)";
    assert_eq!(has(left_out), [false, true, true]);
    let messages = history(&mut client, "main").await;
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"], "no error is told");
}

/// The beginning of a PNG that is wider than any provider takes.
const WIDE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x1f\x41\0\0\0\x01";

async fn a_picture_of_too_many_pixels_is_a_file_that_the_model_is_told_of(api: Api) {
    let (gateway, mock) = with_input(api, &json!(["text", "image"])).await;
    let mut client = admin(&gateway).await;
    let data = STANDARD.encode(WIDE);
    send_and_wait(&mut client, "run-1", "look", json!([{"content": data}])).await;
    let path = folder(&gateway, "inbound").pop().unwrap();
    let asked = asked(&mock);
    assert!(!asked.contains(&data), "{asked}");
    for line in ["[image omitted, too large to be shown: ", "[media attached: "] {
        assert!(asked.contains(&format!("{line}{}", path.display())), "{asked}");
    }
}

#[tokio::test]
async fn a_text_file_is_named_and_quoted_for_the_model() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let file = json!([{"type": "file", "mimeType": "text/plain", "fileName": "../a.txt", "content": "aGVsbG8gZmlsZQ=="}]);
    send_and_wait(&mut client, "run-1", "read it", file).await;
    let path = folder(&gateway, "inbound").pop().unwrap();
    let text = text_of(&history(&mut client, "main").await[0]);
    assert!(
        text.starts_with(&format!(
            "[media attached: {} (text/plain)]\nread it\n\n",
            path.display()
        )),
        "{text}"
    );
    assert!(text.contains("\nhello file\n<<<END_EXTERNAL_UNTRUSTED_CONTENT id="), "{text}");
    assert!(asked(&mock).contains("hello file"));
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused_on_the_same_socket_and_leaves_nothing() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["mediaMaxMb"] = json!(1);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let large = STANDARD.encode(vec![7; 1024 * 1024 + 1]);
    let answer =
        send(&mut client, "run-1", "x", json!([{"fileName": "a.bin", "content": large}])).await;
    let error = &answer["error"];
    assert_eq!(error["code"], "INVALID_REQUEST", "{answer}");
    assert_eq!(
        error["message"],
        "Error: attachment a.bin: exceeds size limit (1048577 > 1048576 bytes)"
    );
    assert_eq!(error["details"]["code"], "ATTACHMENT_TOO_LARGE");
    assert!(error.get("retryable").is_none(), "{error}");
    // The good one beside a bad one is not kept either.
    let two = json!([{"content": DOT}, {"type": "image", "content": "***"}]);
    let answer = send(&mut client, "run-2", "x", two).await;
    assert_eq!(answer["error"]["message"], "Error: attachment image: invalid base64 content");
    let none = json!([{"type": "image", "mimeType": "image/png"}]);
    let answer = send(&mut client, "run-3", "", none).await;
    assert_eq!(answer["error"]["message"], "message or attachment required");
    assert!(folder(&gateway, "inbound").is_empty() && folder(&gateway, "staging").is_empty());
    assert_eq!(call(&mut client, "health", json!({})).await["ok"], true);
}

#[tokio::test]
async fn the_same_key_again_keeps_no_second_file() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let picture = json!([{"content": DOT}]);
    send_and_wait(&mut client, "run-1", "look", picture.clone()).await;
    for _ in 0..2 {
        let answer = send(&mut client, "run-1", "look", picture.clone()).await;
        assert_eq!(answer["payload"]["status"], "ok", "{answer}");
    }
    assert_eq!(folder(&gateway, "inbound").len(), 1);
    assert!(folder(&gateway, "staging").is_empty());
}

#[tokio::test]
async fn a_kill_at_any_moment_leaves_files_and_messages_that_fit_each_other() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    for round in 0..6_u64 {
        let mut client = admin(&gateway).await;
        for index in 0..4 {
            let params = json!({"sessionKey": format!("s{index}"), "message": "look",
                "idempotencyKey": format!("run-{round}-{index}"), "attachments": [{"content": DOT}]});
            let frame = json!({"type": "req", "id": index.to_string(), "method": "chat.send", "params": params});
            client.send(&frame).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(round * 4)).await;
        gateway.kill9();
        gateway.restart().await;
    }
    let mut client = admin(&gateway).await;
    let mut pictures = 0;
    for index in 0..4 {
        let messages = history(&mut client, &format!("s{index}")).await;
        pictures += messages.iter().filter(|message| message["role"] == "user").count();
    }
    assert_eq!(folder(&gateway, "inbound").len(), pictures);
    assert!(folder(&gateway, "staging").is_empty());
}

#[tokio::test]
async fn a_waiting_message_has_its_files_at_once() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=40 delay=50", "run-1").await;
    let answer = send(&mut client, "run-2", "look", json!([{"content": DOT}])).await;
    assert_eq!(answer["payload"]["status"], "started", "{answer}");
    assert_eq!(folder(&gateway, "inbound").len(), 1);
    let waiting = until("the message shows", async || {
        let messages = history(&mut admin(&gateway).await, "main").await;
        messages.into_iter().find(|message| message["content"][1]["omitted"] == true)
    });
    let waiting = waiting.await;
    let params = json!({"sessionKey": "main", "messageId": waiting["__openclaw"]["id"]});
    let whole = call(&mut client, "chat.message.get", params).await;
    assert_eq!(whole["message"]["content"][1]["data"], DOT, "{whole}");
    call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
}

/// A gateway whose first model does not work, and these kinds of input of it and of its
/// fallback.
async fn with_fallback(first: &Value, fallback: &Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    mock.fail("mock-1", 400, "no");
    let mut config = default_config(mock.address());
    config["models"]["providers"]["mock"]["models"][0]["input"] = first.clone();
    config["models"]["providers"]["mocka"]["models"][0]["input"] = fallback.clone();
    config["agents"]["defaults"]["model"]["fallbacks"] = json!(["mocka/mock-think"]);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

#[tokio::test]
async fn pictures_are_fitted_to_the_fallback_that_is_asked() {
    let (blind, sees) = (json!(["text"]), json!(["text", "image"]));
    let (gateway, mock) = with_fallback(&sees, &blind).await;
    let mut client = admin(&gateway).await;
    let picture = json!([{"type": "image", "content": DOT}]);
    send_and_wait(&mut client, "run-1", "look", picture).await;
    assert!(!asked(&mock).contains(DOT), "{}", asked(&mock));
    assert!(asked(&mock).contains("[media attached: "), "{}", asked(&mock));

    let (gateway, mock) = with_fallback(&blind, &sees).await;
    let mut client = admin(&gateway).await;
    let mut bytes = STANDARD.decode(DOT).unwrap();
    bytes.resize(2_500_000, 0);
    let data = STANDARD.encode(&bytes);
    send_and_wait(&mut client, "run-1", "look", json!([{"content": data}])).await;
    let first = mock.requests()[0].body.to_string();
    assert!(first.contains("[media attached: ") && !first.contains(&data));
    assert!(asked(&mock).contains(&data));

    // It reads the conversation as it was, and not as it was fitted to the one before it.
    let (gateway, mock) = with_fallback(&blind, &sees).await;
    let mut client = admin(&gateway).await;
    let picture = json!([{"type": "image", "content": DOT}]);
    send_and_wait(&mut client, "run-1", "look", picture).await;
    let first = mock.requests()[0].body.to_string();
    assert!(first.contains("[media attached: ") && !first.contains(DOT), "{first}");
    let then = asked(&mock);
    assert!(then.contains(DOT) && !then.contains("[media attached: "), "{then}");
}

with_both_apis! {
    a_picture_reaches_a_model_that_sees_and_is_kept_whole;
    a_model_that_does_not_see_is_told_where_the_picture_is;
    a_large_picture_is_a_file_that_the_model_sees_once;
    a_large_picture_is_still_seen_when_another_message_is_taken_in;
    a_picture_that_the_provider_refuses_does_not_end_the_conversation;
    a_picture_of_too_many_pixels_is_a_file_that_the_model_is_told_of;
}
