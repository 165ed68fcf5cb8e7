//! One run at a time in a session, many sessions at once.

use serde_json::{Value, json};

use crate::stage::{
    Api, Stage, admin, call, deltas, end_of, ends_of, events, lines, scripted_queueing, start,
    text_of, told, with_both_apis,
};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};

/// When the run began and ended, in milliseconds, as its events tell.
fn span(client: &WsClient, run_id: &str) -> (u64, u64) {
    let steps = events(client, "agent", run_id);
    let time = |phase: &str, member: &str| {
        let step = steps.iter().find(|step| step["data"]["phase"] == phase);
        step.and_then(|step| step["data"][member].as_u64()).unwrap_or_else(|| panic!("{steps:?}"))
    };
    (time("start", "startedAt"), time("end", "endedAt"))
}

async fn sessions_are_answered_at_the_same_time(api: Api) {
    let stage = Stage::new(api).await;
    let mut client = admin(&stage.gateway).await;
    let runs: Vec<_> = (0..8).map(|index| format!("run-{index}")).collect();
    for run_id in &runs {
        start(&mut client, run_id, "greet me", run_id).await;
    }
    for run_id in &runs {
        assert_eq!(end_of(&client, run_id).await["state"], "final");
    }
    let spans: Vec<_> = runs.iter().map(|run_id| span(&client, run_id)).collect();
    let last_start = spans.iter().map(|span| span.0).max();
    let first_end = spans.iter().map(|span| span.1).min();
    assert!(last_start < first_end, "{spans:?}");
}

async fn followups_of_one_session_are_answered_one_after_the_other(api: Api) {
    let stage = Stage::queueing(api, "followup").await;
    let mut client = admin(&stage.gateway).await;
    let mut other = admin(&stage.gateway).await;
    start(&mut client, "main", "greet me", "run-1").await;
    start(&mut other, "agent:main:main", "second", "run-2").await;
    start(&mut client, "main", "third", "run-3").await;
    for run_id in ["run-1", "run-2", "run-3"] {
        assert_eq!(end_of(&client, run_id).await["state"], "final");
        assert_eq!(ends_of(&client, run_id).len(), 1);
    }
    let spans: Vec<_> = ["run-1", "run-2", "run-3"].map(|run_id| span(&client, run_id)).into();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
    let greeting = "Good morning. This answer comes in many small pieces, one after the other.";
    assert_eq!(
        told(&mut client, "main").await,
        lines(&[
            ("user", "greet me"),
            ("assistant", greeting),
            ("user", "second"),
            ("assistant", "All right."),
            ("user", "third"),
            ("assistant", "All right."),
        ])
    );
}

#[tokio::test]
async fn messages_of_one_connection_keep_their_order_without_waiting_for_answers() {
    let (gateway, mock) = scripted_queueing("followup").await;
    let mut client = admin(&gateway).await;
    call(
        &mut client,
        "chat.send",
        json!({"sessionKey": "main", "message": "/queue cap:30",
        "idempotencyKey": "cap"}),
    )
    .await;
    let texts: Vec<_> = (0..30).map(|index| format!("message {index}")).collect();
    for text in &texts {
        let params = json!({"sessionKey": "main", "message": text, "idempotencyKey": text});
        client
            .send(&json!({"type": "req", "id": text, "method": "chat.send", "params": params}))
            .await;
    }
    for text in &texts {
        assert_eq!(client.answer(text).await.unwrap()["payload"]["status"], "started");
        assert_eq!(end_of(&client, text).await["state"], "final");
    }
    assert_eq!(mock.requests().len(), texts.len());
    let told = told(&mut client, "main").await;
    let said: Vec<_> =
        told.iter().skip(1).filter(|(role, _)| role == "user").map(|(_, text)| text).collect();
    assert_eq!(said, texts.iter().collect::<Vec<_>>());
}

async fn a_waiting_message_can_be_stopped_while_another_runs(api: Api) {
    let stage = Stage::new(api).await;
    let mut client = admin(&stage.gateway).await;
    start(&mut client, "main", "greet me", "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "never mind", "run-2").await;
    start(&mut client, "main", "third", "run-3").await;
    let params = json!({"sessionKey": "main", "runId": "run-2"});
    let answer = call(&mut client, "chat.abort", params).await;
    assert_eq!(answer, json!({"ok": true, "aborted": true, "runIds": ["run-2"]}));
    assert_eq!(ends_of(&client, "run-1"), Vec::<Value>::new(), "it goes on");
    let stopped = end_of(&client, "run-2").await;
    assert_eq!((&stopped["state"], stopped.get("message")), (&json!("aborted"), None));
    assert_eq!(end_of(&client, "run-1").await["state"], "final");
    assert_eq!(end_of(&client, "run-3").await["state"], "final");
    assert_eq!(stage.mock.asked("never mind").await, 0);
    let told = told(&mut client, "main").await;
    let users: Vec<_> = told.iter().filter(|(role, _)| role == "user").collect();
    assert_eq!(users.len(), 3, "what was accepted is kept: {told:?}");
}

#[tokio::test]
async fn an_abort_without_a_run_stops_all_of_the_session_and_only_of_it() {
    let stage = Stage::queueing(Api::OpenAi, "followup").await;
    let mut client = admin(&stage.gateway).await;
    start(&mut client, "work", "greet me", "elsewhere").await;
    for run_id in ["run-1", "run-2", "run-3"] {
        start(&mut client, "main", &format!("tell a long story {run_id}"), run_id).await;
    }
    let answer = call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
    assert_eq!(answer["runIds"], json!(["run-1", "run-2", "run-3"]));
    for run_id in ["run-1", "run-2", "run-3"] {
        assert_eq!(end_of(&client, run_id).await["state"], "aborted");
        assert_eq!(ends_of(&client, run_id).len(), 1);
    }
    assert_eq!(end_of(&client, "elsewhere").await["state"], "final");
}

with_both_apis! {
    sessions_are_answered_at_the_same_time;
    followups_of_one_session_are_answered_one_after_the_other;
    a_waiting_message_can_be_stopped_while_another_runs;
}

#[tokio::test]
async fn no_more_runs_at_once_than_the_configuration_allows() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["maxConcurrent"] = json!(1);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let runs = ["run-1", "run-2", "run-3"];
    for run_id in runs {
        start(&mut client, run_id, "@mock stream n=5 delay=40", run_id).await;
    }
    for run_id in runs {
        assert_eq!(end_of(&client, run_id).await["state"], "final");
    }
    let mut spans = runs.map(|run_id| span(&client, run_id));
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
}

#[tokio::test]
async fn a_run_that_is_stopped_before_it_could_begin_takes_nobody_with_it() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["maxConcurrent"] = json!(1);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "other", "@mock stream n=200 delay=100", "other").await;
    deltas(&client, "other", 1).await;
    start(&mut client, "main", "first", "run-1").await;
    start(&mut client, "main", "@mock text text=second", "run-2").await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-1"})).await;
    assert_eq!(end_of(&client, "run-1").await["state"], "aborted");
    call(&mut client, "chat.abort", json!({"sessionKey": "other"})).await;
    let end = end_of(&client, "run-2").await;
    assert_eq!((&end["state"], text_of(&end["message"]).as_str()), (&json!("final"), "second"));
    assert_eq!(ends_of(&client, "run-2").len(), 1);
}
