//! Answers that are cut, by whoever stops the run or by their provider.

use serde_json::{Value, json};

use crate::claude_sessions::{Claude, of_type};
use crate::played::{Played, Said, begins, block, block_ends, ends, more, says};
use crate::stage::{
    Api, admin, ask, call, config, deltas, end_of, history, settles, spent_by, start, text_of,
};
use crate::support::{Gateway, GatewayOptions, WsClient};

async fn gateway(provider: &Played) -> Gateway {
    let config = config(&provider.address(), Api::Anthropic);
    Gateway::start(GatewayOptions::with_config(config)).await
}

/// A thought, and the begin of a text that nobody hears the end of.
fn half() -> Said {
    Said::Hangs(vec![
        begins(30),
        block(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        more(0, "thinking", "a thought of mine"),
        more(0, "signature", "signed"),
        block_ends(0),
        block(1, &json!({"type": "text", "text": ""})),
        more(1, "text", "Half of"),
    ])
}

/// A session of a gateway with this provider, with a Claude in it.
struct Talk {
    gateway: Gateway,
    main: WsClient,
    key: String,
    id: String,
    claude: Claude,
}

async fn talk(provider: &Played) -> Talk {
    let gateway = gateway(provider).await;
    let mut main = admin(&gateway).await;
    let made = call(&mut main, "sessions.create", json!({"label": "claude"})).await;
    let [key, id] = ["key", "sessionId"].map(|name| made[name].as_str().unwrap().to_owned());
    let claude = Claude::open(&gateway, &id, "").await;
    Talk { gateway, main, key, id, claude }
}

/// The blocks of answers and the uuids that they are told by.
fn blocks(frames: &[Value]) -> Vec<(Value, Value)> {
    let said = of_type(frames, "assistant").into_iter();
    said.map(|it| (it["uuid"].clone(), it["message"]["content"][0].clone())).collect()
}

/// Asks something, and stops the answer once some of its text has come.
async fn stop_in_text(claude: &mut Claude) {
    claude.say("hello").await;
    claude.find("text", |it| it["event"]["delta"]["text"].is_string()).await;
    claude
        .send(json!({"type": "control_request", "request_id": "i",
            "request": {"subtype": "interrupt"}}))
        .await;
    claude.turns(1).await;
}

/// The blocks of an answer that was stopped, for who comes later.
async fn told_later(gateway: &Gateway, id: &str) -> Vec<(Value, Value)> {
    let later = Claude::open(gateway, id, "").await;
    let is_note =
        |it: &Value| it["message"]["content"][0]["text"] == "[Request interrupted by user]";
    later.find("note", is_note).await;
    blocks(&later.frames())
}

#[tokio::test]
async fn the_blocks_of_an_answer_that_is_stopped_stay_where_they_were_told() {
    let provider = Played::new(vec![half(), says("fine", 5)]).await;
    let Talk { gateway, mut main, key, id, mut claude } = talk(&provider).await;
    stop_in_text(&mut claude).await;
    let told = blocks(&claude.frames());
    let contents: Vec<_> = told.iter().map(|(_, block)| block.clone()).collect();
    let thought =
        json!({"type": "thinking", "thinking": "a thought of mine", "signature": "signed"});
    assert_eq!(contents, [thought, json!({"type": "text", "text": "Half of"})]);

    assert_eq!(told_later(&gateway, &id).await, told);

    // An answer that did not end is none to the provider.
    let end = ask(&mut main, &key, "and now?", "run-2").await;
    assert_eq!(text_of(&end["message"]), "fine");
    let asked = provider.asked().pop().unwrap();
    assert!(asked.contains("and now?") && !asked.contains("a thought of mine"), "{asked}");
}

#[tokio::test]
async fn a_hidden_thought_keeps_the_place_of_what_is_behind_it_and_is_not_shown() {
    let begun = Said::Hangs(vec![
        begins(30),
        block(0, &json!({"type": "redacted_thinking", "data": "hidden"})),
        block_ends(0),
        block(1, &json!({"type": "text", "text": ""})),
        more(1, "text", "Half of"),
    ]);
    let provider = Played::new(vec![begun]).await;
    let Talk { gateway, mut main, key, id, mut claude } = talk(&provider).await;
    stop_in_text(&mut claude).await;
    let told = blocks(&claude.frames());
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told_later(&gateway, &id).await, told);
    let messages = history(&mut main, &key).await;
    let stopped = messages.iter().find(|it| it["stopReason"] == "aborted").unwrap();
    assert_eq!(stopped["content"], json!([{"type": "text", "text": "Half of"}]));
}

#[tokio::test]
async fn an_answer_that_is_stopped_is_paid_for_as_far_as_it_was_counted() {
    let provider = Played::new(vec![half()]).await;
    let gateway = gateway(&provider).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "hello", "run-1").await;
    deltas(&client, "run-1", 1).await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-1"})).await;
    assert_eq!(end_of(&client, "run-1").await["state"], "aborted");
    let stopped = history(&mut client, "main").await.pop().unwrap();
    assert_eq!(
        (&stopped["stopReason"], &stopped["usage"]["input"]),
        (&json!("aborted"), &json!(30))
    );
    let price = stopped["usage"]["cost"]["total"].as_f64().unwrap();
    let paid = spent_by(&mut client, "agent:main:main").await;
    assert!(price > 0.0 && (paid - price).abs() < 1e-9, "{paid} {stopped}");
}

#[tokio::test]
async fn a_stop_while_the_model_still_thinks_leaves_no_answer() {
    let thought = block(0, &json!({"type": "thinking", "thinking": "hm", "signature": ""}));
    let provider = Played::new(vec![Said::Hangs(vec![begins(30), thought])]).await;
    let Talk { mut main, key, mut claude, gateway: _gateway, .. } = talk(&provider).await;
    claude.say("hello").await;
    claude.find("thought", |it| it["event"]["delta"]["thinking"].is_string()).await;
    call(&mut main, "chat.abort", json!({"sessionKey": key})).await;
    settles(&mut main, &key, "killed").await;
    let roles: Vec<_> =
        history(&mut main, &key).await.iter().map(|it| it["role"].clone()).collect();
    assert_eq!(roles, ["user"]);
    assert!(spent_by(&mut main, &key).await > 0.0);
}

/// What comes of a call without arguments whose block does not end, in an answer that ends
/// for this reason: its result, and whether that is an error.
async fn result_of_open_call(reason: &str) -> (String, Value) {
    let begun = [
        begins(30),
        block(0, &json!({"type": "tool_use", "id": "t1", "name": "session_status", "input": {}})),
    ];
    let called = Said::Whole([&begun[..], &ends(reason)].concat());
    let provider = Played::new(vec![called, says("fine", 5)]).await;
    let gateway = gateway(&provider).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(text_of(&end["message"]), "fine");
    let messages = history(&mut client, "main").await;
    let roles: Vec<_> = messages.iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "assistant"], "{messages:?}");
    (text_of(&messages[2]), messages[2]["isError"].clone())
}

#[tokio::test]
async fn a_call_that_breaks_off_before_its_arguments_is_not_made() {
    // Nobody knows the second one: it may be another word for a cut.
    for reason in ["max_tokens", "strange"] {
        let (result, is_error) = result_of_open_call(reason).await;
        assert_eq!(is_error, true, "{reason}: {result}");
        assert!(result.contains("was not made"), "{reason}: {result}");
    }
}

#[tokio::test]
async fn a_call_in_an_answer_that_is_complete_is_made_though_its_block_does_not_end() {
    let (result, is_error) = result_of_open_call("tool_use").await;
    assert_eq!(is_error, false, "{result}");
}

#[tokio::test]
async fn a_call_that_was_cut_with_its_answer_is_told_to_nobody() {
    let begun = Said::Whole(vec![
        begins(30),
        block(0, &json!({"type": "text", "text": ""})),
        more(0, "text", "Let me look."),
        block_ends(0),
        block(1, &json!({"type": "tool_use", "id": "t1", "name": "session_status", "input": {}})),
    ]);
    let provider = Played::new(vec![begun]).await;
    let mut talk = talk(&provider).await;
    let told = blocks(&talk.claude.ask("hello").await);
    let kinds: Vec<_> = told.iter().map(|(_, block)| block["type"].clone()).collect();
    assert_eq!(kinds, ["text", "text"], "what was said, and the failure: {told:?}");
    assert_eq!(told[0].1["text"], "Let me look.");
}
