//! What a turn looks like.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Claude, Scene, kinds, of_type, streamed, uuids};
use crate::stage::{Api, ask, call, history, start, text_of};

#[tokio::test]
async fn a_turn_is_told_from_the_message_to_the_result() {
    let scene = Scene::new(Api::Anthropic).await;
    let mut claude = scene.claude().await;
    let frames = claude.ask("@mock text text=\"Hello you\" n=3").await;
    assert_eq!(
        kinds(&frames),
        [
            "session_info",
            "user text",
            "system init",
            "message_start",
            "content_block_start",
            "content_block_delta",
            "assistant text",
            "content_block_stop",
            "message_delta",
            "message_stop",
            "result success",
            "queue-operation",
        ]
    );
    let [info, user, init] = &frames[..3] else { panic!("{frames:#?}") };
    assert_eq!(*info, json!({"type": "session_info", "totalPages": 1, "lowestBurstPage": 0}));
    assert_eq!(user["sessionId"], scene.id.as_str());
    assert!(user["timestamp"].is_u64());
    assert_eq!(user["message"]["content"][0]["text"], "@mock text text=\"Hello you\" n=3");
    let workspace = scene.gateway.workspace().display().to_string();
    assert_eq!(init["cwd"], workspace);
    assert_eq!(
        (&init["model"], &init["permissionMode"]),
        (&json!("mock-think"), &json!("default"))
    );
    let tools = init["tools"].as_array().unwrap();
    assert!(tools.contains(&json!("Bash")) && tools.contains(&json!("Edit")), "{init}");
    assert!(init["slash_commands"].as_array().unwrap().contains(&json!("compact")));
    assert_eq!(streamed(&frames), "Hello you");
    let said = of_type(&frames, "assistant")[0];
    assert_eq!(said["message"]["content"], json!([{"type": "text", "text": "Hello you"}]));
    assert_eq!(
        (&said["session_id"], &said["parent_tool_use_id"]),
        (&json!(scene.id), &Value::Null)
    );
    assert_eq!(said["message"]["stop_reason"], Value::Null);
    assert_eq!(said["parentUuid"], user["uuid"]);
    let delta = frames.iter().find(|frame| frame["event"]["type"] == "message_delta").unwrap();
    assert_eq!(delta["event"]["delta"]["stop_reason"], "end_turn");
    let result = of_type(&frames, "result")[0];
    assert_eq!(
        (&result["is_error"], &result["num_turns"], &result["result"]),
        (&json!(false), &json!(1), &json!("Hello you"))
    );
    assert!(result["total_cost_usd"].as_f64().unwrap() > 0.0, "{result}");
    assert_eq!(result["modelUsage"]["mock-think"]["contextWindow"], 200_000, "{result}");
    let mut unique = uuids(&frames);
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), uuids(&frames).len(), "no uuid comes twice");
}

#[tokio::test]
async fn a_call_of_a_tool_is_a_block_and_its_result_a_message() {
    let scene = Scene::new(Api::Anthropic).await;
    let mut claude = scene.claude().await;
    let arguments = json!({"command": "echo one && echo two"});
    let mut frames = claude
        .ask(&format!("@mock tool name=exec args={arguments} pre=\"I look\" then=done"))
        .await;
    // Sent when the command takes long enough to have something to show before.
    frames.retain(|it| it["type"] != "progress");
    assert_eq!(
        kinds(&frames)[3..],
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "assistant text",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "assistant tool_use",
            "content_block_stop",
            "message_delta",
            "message_stop",
            "user tool_result",
            "message_start",
            "content_block_start",
            "content_block_delta",
            "assistant text",
            "content_block_stop",
            "message_delta",
            "message_stop",
            "result success",
            "queue-operation",
        ]
        .map(str::to_owned)
    );
    let said = of_type(&frames, "assistant");
    let block = &said[1]["message"]["content"][0];
    assert_eq!((&block["name"], &block["input"]), (&json!("Bash"), &arguments));
    assert_eq!(said[0]["message"]["id"], said[1]["message"]["id"], "blocks of one message");
    let pieces = frames.iter().filter_map(|it| it["event"]["delta"]["partial_json"].as_str());
    let pieces: String = pieces.collect();
    assert_eq!(serde_json::from_str::<Value>(&pieces).unwrap(), arguments);
    let result = frames.iter().find(|it| it.get("tool_use_result").is_some()).unwrap();
    let shown = &result["message"]["content"][0];
    assert_eq!((&shown["tool_use_id"], &shown["is_error"]), (&block["id"], &json!(false)));
    assert!(shown["content"].as_str().unwrap().contains("one\ntwo"), "{result}");
    assert!(result["tool_use_result"]["stdout"].as_str().unwrap().contains("one"), "{result}");
    assert_eq!(of_type(&frames, "result")[0]["num_turns"], 2);
}

#[tokio::test]
async fn the_last_block_of_an_answer_tells_what_it_has_used_as_its_line_does() {
    for api in [Api::Anthropic, Api::OpenAi] {
        let scene = Scene::new(api).await;
        let mut claude = scene.claude().await;
        let arguments = json!({"command": "echo one"});
        let frames =
            claude.ask(&format!("@mock tool name=exec args={arguments} pre=look then=done")).await;
        let again = scene.claude().await;
        again.find("history", |it| it["message"]["content"][0]["text"] == "done").await;
        let history = again.frames();
        let said = of_type(&frames, "assistant");
        let [look, call, done] = said[..] else { panic!("{said:#?}") };
        assert_eq!(look["message"]["usage"]["input_tokens"], 0);
        for last in [call, done] {
            let line = history.iter().find(|it| it["uuid"] == last["uuid"]).unwrap();
            let usage = &last["message"]["usage"];
            assert_eq!(*usage, line["message"]["usage"]);
            assert!(usage["input_tokens"].as_u64() > Some(0), "{api:?}: {last}");
        }
    }
}

#[tokio::test]
async fn what_a_command_prints_is_told_while_it_runs() {
    let scene = Scene::new(Api::Anthropic).await;
    let mut claude = scene.claude().await;
    let arguments = json!({"command": "echo one; sleep 2; echo two"});
    claude.say(&format!("@mock tool name=exec args={arguments} then=done")).await;
    let progress = claude.find("progress", |it| it["type"] == "progress").await;
    let call = claude.find("call", |it| it["message"]["content"][0]["type"] == "tool_use").await;
    assert_eq!(progress["toolUseID"], call["message"]["content"][0]["id"]);
    let data = &progress["data"];
    assert_eq!((&data["type"], &data["totalLines"]), (&json!("bash_progress"), &json!(1)));
    assert_eq!(data["output"].as_str().unwrap().trim(), "one");
    claude.turns(1).await;
    let later = scene.claude().await;
    later.find("answer", |it| it["message"]["content"][0]["text"] == "done").await;
    assert!(of_type(&later.frames(), "progress").is_empty(), "it is not kept");
}

#[tokio::test]
async fn thoughts_are_blocks_of_their_own() {
    let scene = Scene::new(Api::Anthropic).await;
    let mut claude = scene.claude().await;
    let frames = claude.ask("@mock think n=3").await;
    let said = of_type(&frames, "assistant");
    let kinds: Vec<_> = said.iter().map(|it| it["message"]["content"][0]["type"].clone()).collect();
    assert_eq!(kinds, ["thinking", "text"]);
    let thought = &said[0]["message"]["content"][0];
    assert_eq!(thought["thinking"], "w1 w2 w3 ");
    let deltas = frames.iter().filter_map(|it| it["event"]["delta"]["thinking"].as_str());
    assert_eq!(deltas.collect::<String>(), "w1 w2 w3 ");
    let signed = frames.iter().any(|it| {
        it["event"]["delta"]["type"] == "signature_delta"
            && it["event"]["delta"]["signature"] == thought["signature"]
    });
    assert!(signed, "{frames:#?}");
}

#[tokio::test]
async fn what_is_for_the_gateway_is_in_no_piece_and_in_no_block() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    let text = "[[reply_to_current]] <think>psst</think>Hello";
    let frames = claude.ask(&format!("@mock text n=9 text={}", json!(text))).await;
    assert_eq!(streamed(&frames).trim(), "Hello");
    let said = of_type(&frames, "assistant");
    let texts: Vec<_> = said.iter().map(|it| it["message"]["content"][0].clone()).collect();
    assert_eq!(texts.last().unwrap()["text"].as_str().unwrap().trim(), "Hello", "{texts:?}");
    let again = scene.claude().await;
    again.find("history", |it| it["type"] == "assistant").await;
    let stored =
        uuids(&of_type(&again.frames(), "assistant").into_iter().cloned().collect::<Vec<_>>());
    let live = uuids(&said.into_iter().cloned().collect::<Vec<_>>());
    assert_eq!(live, stored, "history names the blocks alike");
}

#[tokio::test]
async fn a_silent_reply_is_no_message_but_the_turn_ends() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    let frames = claude.ask("@mock silent").await;
    assert_eq!(of_type(&frames, "assistant"), Vec::<&Value>::new());
    assert_eq!(streamed(&frames), "");
    assert_eq!(of_type(&frames, "result")[0]["subtype"], "success");
}

#[tokio::test]
async fn an_error_of_the_provider_is_a_message_and_an_error_that_is_a_success() {
    let scene = Scene::new(Api::Anthropic).await;
    let mut claude = scene.claude().await;
    let frames = claude.ask("@mock err status=400 type=invalid_request_error msg=no").await;
    let said = of_type(&frames, "assistant");
    assert_eq!(said.len(), 1, "{frames:#?}");
    assert_eq!(said[0]["message"]["model"], "<synthetic>");
    let text = said[0]["message"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("API Error"), "{text}");
    let result = of_type(&frames, "result")[0];
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(true)));
    assert_eq!(result["result"], text);
}

#[tokio::test]
async fn a_retry_is_told_before_the_answer() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.say("@mock err status=503 msg=busy").await;
    let told = claude.find("retry", |it| it["subtype"] == "api_error").await;
    assert_eq!(told["retryAttempt"], 1);
    assert!(told["retryInMs"].is_u64() && told["maxRetries"].is_u64(), "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("busy"), "{told}");
}

#[tokio::test]
async fn ten_thousand_pieces_arrive_in_order_and_whole() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.say("@mock stream n=10000 delay=0").await;
    // Looked at now and then: with each frame it would be all of them each time.
    let is_over =
        async || claude.frames().last().filter(|it| it["type"] == "queue-operation").cloned();
    let end = tokio::time::Instant::now() + Duration::from_secs(120);
    while is_over().await.is_none() {
        assert!(tokio::time::Instant::now() < end, "{:?}", claude.frames().last());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let frames = claude.frames();
    let expected: String = (1..=10_000).map(|i| format!("w{i} ")).collect();
    assert_eq!(streamed(&frames).trim_end(), expected.trim_end());
    let said = of_type(&frames, "assistant")[0]["message"]["content"][0]["text"].clone();
    assert_eq!(said.as_str().unwrap().trim_end(), expected.trim_end());
}

#[tokio::test]
async fn two_clients_get_the_same_frames() {
    let scene = Scene::new(Api::Anthropic).await;
    let (mut one, two) = (scene.claude().await, scene.claude().await);
    two.find("session", |it| it["type"] == "session_info").await;
    one.ask("@mock tool name=read args={\"path\":\"none\"} pre=x then=done").await;
    two.turns(1).await;
    assert_eq!(one.frames(), two.frames());
}

#[tokio::test]
async fn what_others_say_and_are_answered_is_seen_here() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let claude = scene.claude().await;
    claude.find("session", |it| it["type"] == "session_info").await;
    let key = scene.key.clone();
    ask(&mut scene.main, &key, "@mock text text=there", "run-1").await;
    claude.turns(1).await;
    let frames = claude.frames();
    assert_eq!(
        of_type(&frames, "user")[0]["message"]["content"][0]["text"],
        "@mock text text=there"
    );
    assert_eq!(of_type(&frames, "result")[0]["result"], "there");
    let injected = json!({"sessionKey": key, "message": "a note"});
    call(&mut scene.main, "chat.inject", injected).await;
    let note = claude.find("note", |it| it["message"]["content"][0]["text"] == "a note").await;
    assert_eq!(
        (&note["type"], &note["message"]["model"]),
        (&json!("assistant"), &json!("<synthetic>"))
    );
}

#[tokio::test]
async fn a_conversation_goes_on_in_either_protocol() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let key = scene.key.clone();
    ask(&mut scene.main, &key, "@mock text text=first", "run-1").await;
    let mut claude = scene.claude().await;
    claude.find("history", |it| it["message"]["content"][0]["text"] == "first").await;
    claude.ask("@mock text text=second").await;
    ask(&mut scene.main, &key, "@mock text text=third", "run-2").await;
    let texts: Vec<_> = history(&mut scene.main, &key)
        .await
        .iter()
        .filter(|it| it["role"] == "assistant")
        .map(text_of)
        .collect();
    assert_eq!(texts, ["first", "second", "third"]);
    claude.turns(2).await;
}

#[tokio::test]
async fn a_message_that_waits_for_its_turn_is_seen_at_once_and_answered_later() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.say("@mock stream n=20 delay=40").await;
    claude.find("piece", |it| it["type"] == "stream_event").await;
    claude.say("@mock text text=later").await;
    let echo = claude
        .find("echo", |it| it["message"]["content"][0]["text"] == "@mock text text=later")
        .await;
    claude.turns(2).await;
    let frames = claude.frames();
    let results: Vec<_> =
        of_type(&frames, "result").iter().map(|it| it["result"].clone()).collect();
    assert_eq!(results.len(), 2);
    assert_eq!(results[1], "later");
    let echoes = frames.iter().filter(|it| it["uuid"] == echo["uuid"]).count();
    assert_eq!(echoes, 1);
    let again: Claude = scene.claude().await;
    again.find("history", |it| it["uuid"] == echo["uuid"]).await;
}

#[tokio::test]
async fn the_end_of_a_message_that_waits_takes_nothing_from_the_answer_that_comes() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.say("@mock stream n=60 delay=50").await;
    claude.find("piece", |it| it["event"]["delta"]["text"].is_string()).await;
    let key = scene.key.clone();
    start(&mut scene.main, &key, "@mock text text=later", "run-b").await;
    let abort = json!({"sessionKey": key, "runId": "run-b"});
    assert_eq!(call(&mut scene.main, "chat.abort", abort).await["aborted"], true);
    claude.turns(1).await;
    let frames = claude.frames();
    let expected: String = (1..=60).map(|i| format!("w{i} ")).collect();
    assert_eq!(streamed(&frames).trim_end(), expected.trim_end());
    assert!(frames.iter().any(|it| it["event"]["type"] == "message_stop"), "{frames:#?}");
}

#[tokio::test]
async fn commands_are_answered_by_the_gateway_and_leave_nobody_waiting() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    let frames = claude.ask("/status").await;
    assert_eq!(
        kinds(&frames),
        ["session_info", "user text", "assistant text", "result success", "queue-operation"]
    );
    assert!(scene.mock.requests().is_empty());
}

#[tokio::test]
async fn a_summary_is_told_as_it_is_made() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let key = scene.key.clone();
    ask(&mut scene.main, &key, "hello", "run-1").await;
    ask(&mut scene.main, &key, "@mock text text=\"They said hello.\"", "run-2").await;
    call(&mut scene.main, "chat.inject", json!({"sessionKey": key, "message": "noted"})).await;
    ask(&mut scene.main, &key, "and now", "run-3").await;
    let claude = scene.claude().await;
    claude.find("history", |it| it["type"] == "assistant").await;
    call(&mut scene.main, "sessions.compact", json!({"key": key})).await;
    let boundary = claude.find("boundary", |it| it["subtype"] == "compact_boundary").await;
    assert_eq!(boundary["compact_metadata"]["trigger"], "manual");
    let frames = claude.frames();
    let states: Vec<_> = frames
        .iter()
        .filter(|it| it["subtype"] == "status")
        .map(|it| it["status"].clone())
        .collect();
    assert_eq!(states, [json!("compacting"), Value::Null]);
    let later = scene.claude().await;
    let read = later.find("boundary", |it| it["subtype"] == "compact_boundary").await;
    assert_eq!(read["uuid"], boundary["uuid"]);
}

/// The examples of the document of this protocol, with what values are there.
fn examples() -> Vec<Value> {
    vec![
        json!({"type": "user", "uuid": "", "parentUuid": "", "timestamp": "",
            "message": {"role": "", "content": ""}}),
        json!({"type": "assistant", "uuid": "", "parentUuid": "", "timestamp": "",
            "message": {"role": "", "model": "", "id": "", "content": [{"type": "text", "text": ""}],
                "usage": {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}}}),
        json!({"type": "assistant", "uuid": "", "parentUuid": "", "timestamp": "",
            "message": {"role": "", "content": [{"type": "tool_use", "id": "", "name": "",
                "input": {"command": ""}}]}}),
        json!({"type": "user", "uuid": "", "parentUuid": "", "timestamp": "",
            "message": {"role": "", "content": [{"type": "tool_result", "tool_use_id": "",
                "content": ""}]}}),
        json!({"type": "queue-operation", "operation": "dequeue", "timestamp": "", "sessionId": ""}),
        json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": ""}}}),
    ]
}

/// Whether a frame has all that an example has.
fn has(frame: &Value, example: &Value) -> bool {
    match (frame, example) {
        (Value::Object(frame), Value::Object(example)) => example.iter().all(|(name, example)| {
            let is_name = ["type", "operation"].contains(&name.as_str());
            frame.get(name).is_some_and(|it| if is_name { it == example } else { has(it, example) })
        }),
        (Value::Array(frame), Value::Array(example)) => {
            frame.iter().zip(example).all(|(frame, example)| has(frame, example))
        }
        _ => true,
    }
}

#[tokio::test]
async fn frames_have_all_members_of_the_documents_examples_live_and_later() {
    let scene = Scene::new(Api::Anthropic).await;
    let mut claude = scene.claude().await;
    let arguments = json!({"command": "echo x"});
    let live =
        claude.ask(&format!("@mock tool name=exec args={arguments} pre=look then=done")).await;
    for example in examples() {
        assert!(live.iter().any(|frame| has(frame, &example)), "{example}: {live:#?}");
    }
    let later = scene.claude().await;
    later.find("end", |it| it["message"]["content"][0]["text"] == "done").await;
    for example in examples().iter().take(4) {
        let frames = later.frames();
        assert!(frames.iter().any(|frame| has(frame, example)), "{example}: {frames:#?}");
    }
}

#[tokio::test]
async fn who_does_not_read_holds_nobody_up() {
    let scene = Scene::new(Api::OpenAi).await;
    let path = format!(
        "/api/claude/sessions/{}/subscribe?access_token={}",
        scene.id,
        crate::support::config::SECRET
    );
    let stalled = Stalled::open(&scene.gateway.address(), &path).await;
    let mut claude = scene.claude().await;
    claude.ask("@mock text text=ok").await;
    let key = scene.key.clone();
    let mut main = scene.main;
    // Each is more than what the sockets between them hold.
    for number in 0..14 {
        let text = format!("{number}{}", "x".repeat(2 * 1024 * 1024));
        let params = json!({"sessionKey": key, "message": text});
        call(&mut main, "chat.inject", params.clone()).await;
        call(&mut main, "chat.inject", params).await;
    }
    claude
        .find("note", |it| {
            it["message"]["content"][0]["text"].as_str().is_some_and(|it| it.starts_with("13x"))
        })
        .await;
    assert!(claude.0.closed().is_none());
    drop(stalled);
}

/// A client that is let in and reads nothing.
struct Stalled(#[allow(dead_code)] tokio::net::TcpStream);

impl Stalled {
    async fn open(address: &str, path: &str) -> Self {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut tcp = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        tcp.write_all(request.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        tcp.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 101");
        Self(tcp)
    }
}
