//! The same request many times.

use std::fs;

use futures_util::future::join_all;
use serde_json::json;

use crate::stage::{
    Api, Stage, admin, end_of, ends_of, history, send, text_of, told, with_both_apis,
};
use crate::support::{Gateway, WsClient};

const CONNECTIONS: usize = 5;
const SENDS_EACH: usize = 10;

/// Sends the same message from many connections at once; all answers.
async fn storm(gateway: &Gateway, text: &str) -> (Vec<WsClient>, Vec<serde_json::Value>) {
    let mut clients = join_all((0..CONNECTIONS).map(|_| admin(gateway))).await;
    let sends = clients.iter_mut().map(|client| async {
        let mut answers = Vec::new();
        for index in 0..SENDS_EACH {
            let params = json!({"sessionKey": "main", "message": text, "idempotencyKey": "run-1"});
            let frame = json!({"type": "req", "id": format!("s{index}"), "method": "chat.send",
                "params": params});
            client.send(&frame).await;
        }
        for index in 0..SENDS_EACH {
            let answer = client.answer(&format!("s{index}")).await.unwrap();
            assert_eq!(answer["ok"], true, "{answer}");
            answers.push(answer["payload"].clone());
        }
        answers
    });
    let answers = join_all(sends).await.concat();
    (clients, answers)
}

async fn one_key_sent_fifty_times_is_one_run(api: Api) {
    let stage = Stage::new(api).await;
    let (mut clients, answers) = storm(&stage.gateway, "greet me").await;
    assert!(answers.iter().all(|answer| answer["runId"] == "run-1"), "{answers:?}");
    let count = |status: &str| answers.iter().filter(|answer| answer["status"] == status).count();
    assert_eq!((count("started"), count("in_flight")), (1, 49), "{answers:?}");
    for client in &clients {
        assert_eq!(end_of(client, "run-1").await["state"], "final");
    }
    let again = crate::stage::until("the end of the run's record", || async {
        let mut client = admin(&stage.gateway).await;
        let answer = send(&mut client, "main", "greet me", "run-1").await;
        (answer["status"] != "in_flight").then_some(answer)
    });
    assert_eq!(again.await, json!({"runId": "run-1", "status": "ok"}));
    assert_eq!(stage.mock.requests().await.len(), 1);
    let told = told(&mut clients[0], "main").await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(ends_of(&clients[0], "run-1").len(), 1);
}

#[tokio::test]
async fn one_key_sent_fifty_times_is_one_answer_to_a_command() {
    let stage = Stage::new(Api::OpenAi).await;
    let (mut clients, answers) = storm(&stage.gateway, "/help").await;
    assert!(answers.iter().all(|answer| answer["runId"] == "run-1"), "{answers:?}");
    let started = answers.iter().filter(|answer| answer["status"] == "started").count();
    assert_eq!(started, 1, "{answers:?}");
    end_of(&clients[0], "run-1").await;
    let told = told(&mut clients[0], "main").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(ends_of(&clients[0], "run-1").len(), 1);
}

#[tokio::test]
async fn a_message_that_could_not_be_stored_is_a_new_one_when_it_is_sent_again() {
    let stage = Stage::new(Api::OpenAi).await;
    let mut client = admin(&stage.gateway).await;
    let agent = stage.gateway.state_dir().join("agents/main");
    let (folder, away) = (agent.join("sessions"), agent.join("away"));
    fs::create_dir_all(&folder).unwrap();
    fs::rename(&folder, &away).unwrap();
    fs::write(&folder, "no transcript can be in a file").unwrap();
    let message = json!({"sessionKey": "main", "message": "greet me", "idempotencyKey": "run-1"});
    let refused = client.request("chat.send", message.clone()).await;
    assert_eq!(refused["ok"], false, "{refused}");
    fs::remove_file(&folder).unwrap();
    fs::rename(&away, &folder).unwrap();
    let taken = crate::stage::until("the end of the run that could not begin", || async {
        let answer = admin(&stage.gateway).await.request("chat.send", message.clone()).await;
        (answer["ok"] == true).then_some(answer)
    });
    assert_eq!(taken.await["payload"], json!({"runId": "run-1", "status": "started"}));
    let told = crate::stage::until("the answer", || async {
        let told = told(&mut admin(&stage.gateway).await, "main").await;
        (told.len() == 2).then_some(told)
    });
    assert_eq!(told.await[0], ("user".to_owned(), "greet me".to_owned()));
}

#[tokio::test]
async fn the_same_text_under_another_key_joins_the_run_that_answers_it() {
    let stage = Stage::new(Api::OpenAi).await;
    let mut client = admin(&stage.gateway).await;
    let first = send(&mut client, "main", "greet me", "run-1").await;
    let second = send(&mut client, "main", " greet me ", "run-2").await;
    let elsewhere = send(&mut client, "work", "greet me", "run-3").await;
    assert_eq!(first, json!({"runId": "run-1", "status": "started"}));
    assert_eq!(second, json!({"runId": "run-1", "status": "in_flight"}));
    assert_eq!(elsewhere, json!({"runId": "run-3", "status": "started"}));
    end_of(&client, "run-1").await;
    end_of(&client, "run-3").await;
    let messages = history(&mut client, "main").await;
    assert_eq!(text_of(&messages[0]), "greet me");
    assert_eq!(messages.len(), 2, "{messages:?}");
}

with_both_apis! {
    one_key_sent_fifty_times_is_one_run;
}
