//! What is asked beside an answer is paid for, whatever comes of it.

use serde_json::{Value, json};

use crate::metrics::Scraped;
use crate::played::{Played, Said, begins, declines, says};
use crate::stage::{
    Api, admin, ask, call, config, deltas, end_of, events, scripted, spent_by, start, until,
};
use crate::support::{Gateway, GatewayOptions, MockProvider};

const MAIN: &str = "agent:main:main";

#[tokio::test]
async fn a_side_question_that_every_model_declines_is_paid_for() {
    let provider = Played::new(vec![says("fine", 5), declines(7)]).await;
    let config = config(&provider.address(), Api::Anthropic);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let before = spent_by(&mut client, MAIN).await;
    start(&mut client, "main", "/btw and?", "aside").await;
    end_of(&client, "aside").await;
    let answers = events(&client, "chat.side_result", "aside");
    assert_eq!(answers[0]["isError"], true, "{answers:?}");
    let after = spent_by(&mut client, MAIN).await;
    assert!(after > before, "{after} {before}");
}

#[tokio::test]
async fn a_look_at_a_picture_that_every_model_declines_is_paid_for() {
    let eye = Played::new(vec![declines(1000)]).await;
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["models"]["providers"]["eye"] = eye.provider("eye-1");
    config["agents"]["defaults"]["imageModel"] = json!("eye/eye-1");
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    std::fs::write(gateway.workspace().join("dot.png"), b"\x89PNG\r\n\x1a\n..").unwrap();
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let before = spent_by(&mut client, MAIN).await;
    let params = json!({"name": "image", "args": {"image": "dot.png"}});
    let said = call(&mut client, "tools.invoke", params).await;
    assert!(said.to_string().contains("declined to answer"), "{said}");
    let after = spent_by(&mut client, MAIN).await;
    assert!(after - before > 0.9, "{after} {before}");
}

#[tokio::test]
async fn a_review_that_every_model_declines_is_paid_for_by_the_run_and_the_session() {
    let judge = Played::new(vec![declines(1000)]).await;
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["models"]["providers"]["judge"] = judge.provider("judge-1");
    config["tools"]["guardrails"] = json!({"enabled": true, "defaultStrategy": "aitl",
        "reviewModel": "judge/judge-1"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let text = "@mock tool name=session_status then=done";
    let end = ask(&mut client, "main", text, "run-1").await;
    let used = end["usage"]["cost"]["total"].as_f64().unwrap();
    let paid = spent_by(&mut client, MAIN).await;
    assert!(used > 0.9 && (paid - used).abs() < 1e-9, "{used} {paid}");
}

/// A call breaks off when its model has read so much, and is asked for again; then
/// somebody stops the run.
async fn stopped_after(mut config: Value, name: &str, text: &str) {
    let model = Played::new(vec![Said::Whole(vec![begins(1000)])]).await;
    config["models"]["providers"][name] = model.provider(&format!("{name}-1"));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    std::fs::write(gateway.workspace().join("dot.png"), b"\x89PNG\r\n\x1a\n..").unwrap();
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let before = spent_by(&mut client, MAIN).await;
    start(&mut client, "main", text, "run-2").await;
    model.is_asked(2).await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-2"})).await;
    assert_eq!(end_of(&client, "run-2").await["state"], "aborted");
    until("the call to be paid for", async || {
        (spent_by(&mut client, MAIN).await - before > 0.9).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_look_at_a_picture_that_somebody_stops_is_paid_for() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["imageModel"] = json!("eye/eye-1");
    let text = r#"@mock tool name=image args={"image":"dot.png"} then=done"#;
    stopped_after(config, "eye", text).await;
}

#[tokio::test]
async fn a_review_that_somebody_stops_is_paid_for() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["guardrails"] = json!({"enabled": true, "defaultStrategy": "aitl",
        "reviewModel": "judge/judge-1"});
    stopped_after(config, "judge", "@mock tool name=session_status then=done").await;
}

/// The way of a time limit, too: whoever asks does not come to hear of an answer.
#[tokio::test]
async fn what_notes_have_used_that_somebody_stops_is_paid_for() {
    let broken = || Said::Whole(vec![begins(7)]);
    let provider = Played::new(vec![says("fine", 9000), broken()]).await;
    let mut config = config(&provider.address(), Api::Anthropic);
    config["models"]["providers"]["mocka"]["models"][0]["contextWindow"] = json!(8000);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let before = spent_by(&mut client, MAIN).await;
    start(&mut client, "main", "and now?", "run-2").await;
    // The notes broke off, and are asked for again.
    provider.is_asked(3).await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-2"})).await;
    assert_eq!(end_of(&client, "run-2").await["state"], "aborted");
    let after = spent_by(&mut client, MAIN).await;
    assert!(after > before, "{after} {before}");
}

#[tokio::test]
async fn what_an_answer_has_read_that_somebody_stops_is_in_the_metrics() {
    let (gateway, _mock) = scripted(Api::Anthropic).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=200 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-1"})).await;
    assert_eq!(end_of(&client, "run-1").await["state"], "aborted");
    until("what it has read", async || {
        let told = Scraped::of(&gateway).await;
        let read = told.find("clawgate_model_tokens_total", &json!({"kind": "input"}));
        (read > Some(0.0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_is_looked_at_beside_a_run_is_counted_once() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    std::fs::write(gateway.workspace().join("dot.png"), b"\x89PNG\r\n\x1a\n..").unwrap();
    let mut client = admin(&gateway).await;
    let text = r#"@mock tool name=image args={"image":"dot.png","prompt":"Which?"} then=done"#;
    let end = ask(&mut client, "main", text, "run-1").await;
    let used = end["usage"]["cost"]["total"].as_f64().unwrap();
    let paid = spent_by(&mut client, MAIN).await;
    assert!(used > 0.0 && (paid - used).abs() < 1e-9, "{used} {paid}");
}
