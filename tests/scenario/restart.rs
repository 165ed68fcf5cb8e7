//! What is there after the gateway was stopped or killed.

use serde_json::json;

use crate::stage::{
    Api, Stage, admin, ask, call, deltas, end_of, events, history, lines, row, scripted, settles,
    start, text_of, told,
};

#[tokio::test]
async fn after_a_stop_and_after_a_kill_the_history_shows_all() {
    let mut stage = Stage::new(Api::OpenAi).await;
    let mut client = admin(&stage.gateway).await;
    let mut before = Vec::new();
    for session in ["main", "work", "agent:main:other"] {
        ask(&mut client, session, "one", &format!("{session}-1")).await;
        ask(&mut client, session, "greet me", &format!("{session}-2")).await;
        call(&mut client, "chat.inject", json!({"sessionKey": session, "message": "note"})).await;
        before.push(history(&mut client, session).await);
    }
    assert_eq!(before[0].len(), 5);
    assert!(stage.gateway.terminate().await.unwrap().success());
    stage.gateway.restart().await;
    let mut client = admin(&stage.gateway).await;
    assert_eq!(all(&mut client).await, before);

    stage.gateway.kill9();
    stage.gateway.restart().await;
    let mut client = admin(&stage.gateway).await;
    assert_eq!(all(&mut client).await, before);
    let next = ask(&mut client, "main", "and now?", "next").await;
    assert_eq!(text_of(&next["message"]), "All right.");
    assert_eq!(history(&mut client, "main").await.len(), 7);
}

async fn all(client: &mut crate::support::WsClient) -> Vec<Vec<serde_json::Value>> {
    let mut all = Vec::new();
    for session in ["main", "work", "agent:main:other"] {
        all.push(history(client, session).await);
    }
    all
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_run_leaves_its_message_and_nothing_running() {
    let mut stage = Stage::new(Api::Anthropic).await;
    let mut client = admin(&stage.gateway).await;
    start(&mut client, "main", "tell a long story", "run-1").await;
    // Before its model is asked it would take the next message in.
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "and then?", "run-2").await;
    stage.gateway.kill9();
    stage.gateway.restart().await;

    let mut client = admin(&stage.gateway).await;
    let both = [("user", "tell a long story"), ("user", "and then?")];
    assert_eq!(told(&mut client, "main").await, lines(&both));
    let row = row(&mut client, "agent:main:main").await;
    assert_eq!((&row["status"], &row["hasActiveRun"]), (&json!("failed"), &json!(false)));
    for run_id in ["run-1", "run-2"] {
        let params =
            json!({"sessionKey": "main", "message": "and then?", "idempotencyKey": run_id});
        let answer = client.request("chat.send", params).await;
        assert_eq!(answer["error"]["code"], "UNAVAILABLE", "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("new idempotencyKey"));
    }
    ask(&mut client, "main", "hello again", "run-3").await;
    settles(&mut client, "agent:main:main", "done").await;
    assert!(events(&client, "chat", "run-1").is_empty());
    assert_eq!(stage.mock.asked("tell a long story").await, 1);
}

#[tokio::test]
async fn a_session_that_has_ended_well_since_does_not_become_a_failed_one_at_a_later_start() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=400 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "and then?", "run-2").await;
    let id = row(&mut client, "agent:main:main").await["sessionId"].as_str().unwrap().to_owned();
    gateway.kill9();
    // A link is in the place of the transcript: what waited cannot be put there.
    let folder = gateway.state_dir().join("agents/main/sessions");
    let (path, aside) = (folder.join(format!("{id}.jsonl")), folder.join("aside"));
    std::fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &path).unwrap();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    assert_eq!(row(&mut client, "agent:main:main").await["status"], "failed");
    std::fs::rename(&aside, &path).unwrap();
    ask(&mut client, "main", "hello again", "run-3").await;
    settles(&mut client, "agent:main:main", "done").await;

    assert!(gateway.terminate().await.unwrap().success());
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let last = told(&mut client, "main").await.pop().unwrap();
    assert_eq!(last, ("user".to_owned(), "and then?".to_owned()));
    let row = row(&mut client, "agent:main:main").await;
    assert_eq!((&row["status"], &row["abortedLastRun"]), (&json!("done"), &json!(false)));
}

#[tokio::test]
async fn a_message_is_not_lost_when_the_next_start_is_killed_too() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=200 delay=50", "run-0").await;
    let texts: Vec<_> = (1..20).map(|index| format!("waiting {index}")).collect();
    for (index, text) in texts.iter().enumerate() {
        start(&mut client, "main", text, &format!("run-{}", index + 1)).await;
    }
    gateway.kill9();
    for millis in [10, 15, 20, 25, 30, 35, 40, 50, 60, 70] {
        gateway.start_and_kill(std::time::Duration::from_millis(millis)).await;
    }
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let told: Vec<_> = told(&mut client, "main").await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(told[1..], texts, "each once, in the order they were sent");
    assert_eq!(row(&mut client, "agent:main:main").await["status"], "failed");
}

#[tokio::test]
async fn a_message_is_there_once_however_much_came_after_it_before_a_kill() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=400 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    for index in 0..300 {
        let note = json!({"sessionKey": "main", "message": format!("note {index}")});
        call(&mut client, "chat.inject", note).await;
    }
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let users = told(&mut client, "main").await.into_iter().filter(|(role, _)| role == "user");
    assert_eq!(users.count(), 1);
    assert_eq!(row(&mut client, "agent:main:main").await["status"], "failed");
}

#[tokio::test]
async fn a_key_that_was_answered_starts_no_second_run_after_a_restart() {
    let mut stage = Stage::new(Api::OpenAi).await;
    let mut client = admin(&stage.gateway).await;
    ask(&mut client, "main", "one", "run-1").await;
    ask(&mut client, "main", "break down", "run-2").await;
    settles(&mut client, "agent:main:main", "failed").await;
    stage.gateway.kill9();
    stage.gateway.restart().await;
    let mut client = admin(&stage.gateway).await;
    for (run_id, text) in [("run-1", "one"), ("run-2", "break down")] {
        let params = json!({"sessionKey": "main", "message": text, "idempotencyKey": run_id});
        let answer = call(&mut client, "chat.send", params).await;
        assert_eq!(answer, json!({"runId": run_id, "status": "ok"}));
    }
    ask(&mut client, "main", "and now?", "run-3").await;
    assert_eq!(end_of(&client, "run-3").await["state"], "final");
    assert_eq!(stage.mock.asked("one").await, 1);
    let users = told(&mut client, "main").await;
    let users: Vec<_> = users.iter().filter(|(role, _)| role == "user").collect();
    assert_eq!(users.len(), 3, "{users:?}");
}
