//! What is kept to be answered with: the answers go out together, in their turn, and none
//! is lost.

use serde_json::json;

use crate::metrics::Scraped;
use crate::stage::{Api, call, connect, scripted};
use crate::support::client::{SOON, standard_connect};
use crate::support::{Gateway, MockProvider, WsClient};

/// More than are read before something is written.
const MANY: usize = 130;
/// `policy.maxPayload`.
const MAX_PAYLOAD: usize = 25 * 1024 * 1024;

fn request(id: &str, method: &str) -> String {
    json!({"type": "req", "id": id, "method": method}).to_string()
}

fn ids(name: &str) -> Vec<String> {
    (0..MANY).map(|number| format!("{name} {number}")).collect()
}

fn questions(name: &str) -> Vec<String> {
    ids(name).iter().map(|id| request(id, "health")).collect()
}

/// A client of a gateway that has something to keep.
async fn client() -> (Gateway, MockProvider, WsClient) {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = connect(&gateway, &standard_connect(&["operator.read"])).await;
    call(&mut client, "health", json!({"probe": true})).await;
    (gateway, mock, client)
}

/// Which requests were answered, in the order of their answers.
fn answered(client: &WsClient) -> Vec<String> {
    let frames = client.frames();
    let answers = frames.iter().filter(|frame| frame["type"] == "res");
    answers.map(|frame| frame["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn all_that_is_asked_at_once_is_answered_in_its_turn() {
    let (_gateway, _mock, mut client) = client().await;
    let before = answered(&client).len();
    let mut texts = questions("first");
    // What is called, and what is wrong, is in its place as well.
    let unusual = r#"{"method":"health","params":{},"id":"a \"name\"","type":"req"}"#;
    // As long as no answer may be that is held back for others.
    let long = "n".repeat(17 * 1024);
    texts.extend([unusual.into(), request("called", "last-heartbeat"), request("more", "health")]);
    texts.extend([r#"{"id":"wrong"}"#.into(), request(&long, "health")]);
    texts.extend(questions("last"));
    client.send_together(texts).await;
    client.answer(&format!("last {}", MANY - 1)).await.expect("the last answer");
    let between = ["a \"name\"", "called", "more", "wrong", &long].map(str::to_owned);
    assert_eq!(answered(&client)[before..], [&ids("first")[..], &between, &ids("last")].concat());
    let health = client.answer("first 7").await.unwrap();
    assert_eq!((&health["ok"], &health["payload"]["ok"]), (&json!(true), &json!(true)), "{health}");
}

#[tokio::test]
async fn who_is_closed_or_says_good_bye_has_his_answers() {
    let (gateway, _mock, mut client) = client().await;
    let mut texts = questions("large");
    texts.push("x".repeat(MAX_PAYLOAD + 1));
    client.send_together(texts).await;
    assert_eq!(client.wait_closed(SOON).await.unwrap().code, 1009);
    assert!(answered(&client).ends_with(&ids("large")));

    let mut client = connect(&gateway, &standard_connect(&["operator.read"])).await;
    client.send_together_and_close(questions("last")).await;
    assert_eq!(client.wait_closed(SOON).await.unwrap().code, 1005, "an answer to the good-bye");
    assert!(answered(&client).ends_with(&ids("last")));
}

#[tokio::test]
async fn such_an_answer_counts_as_any_other_and_takes_no_time() {
    let (gateway, _mock, mut client) = client().await;
    let count = async || {
        let now = Scraped::of(&gateway).await;
        let labels = json!({"method": "health"});
        let took = now.number("clawgate_request_duration_seconds_sum", &labels);
        (now.number("clawgate_requests_total", &labels), took)
    };
    let (before, took) = count().await;
    let forms = [json!(null), json!({})];
    for id in 0..10 {
        call(&mut client, "health", forms[id % 2].clone()).await;
    }
    assert_eq!(count().await, (before + 10.0, took));
    call(&mut client, "health", json!({"probe": true})).await;
    let (after, took_longer) = count().await;
    assert!(after == before + 11.0 && took_longer > took, "{took_longer}");
}
