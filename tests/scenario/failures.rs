//! What becomes of a run whose provider fails.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::stage::{
    Api, Stage, admin, ask, end_of, ends_of, events, history, scripted, settles, spent_by, start,
    text_of, with_both_apis,
};
use crate::support::WsClient;

/// With both retries: nobody should look at nothing for longer than this.
const ERROR_LIMIT: Duration = Duration::from_secs(8);

struct Failure {
    message: &'static str,
    /// What the client must be told.
    told: &'static str,
    kind: &'static str,
    /// How often the provider is asked.
    tries: usize,
    /// What it said before.
    partial: &'static str,
}

/// Stands for an answer that failed at once.
const NOTHING: &str = "[assistant turn failed before producing content]";

const FAILURES: [Failure; 4] = [
    Failure {
        message: "refuse my key",
        told: "The key is not valid",
        kind: "unknown",
        tries: 1,
        partial: NOTHING,
    },
    Failure {
        message: "always busy",
        told: "API rate limit reached",
        kind: "rate_limit",
        tries: 3,
        partial: NOTHING,
    },
    Failure {
        message: "break down",
        told: "Something broke",
        kind: "unknown",
        tries: 3,
        partial: NOTHING,
    },
    Failure { message: "hang up", told: "", kind: "unknown", tries: 1, partial: "This " },
];

async fn a_failing_provider_is_one_error_and_the_next_message_works(api: Api) {
    let stage = Stage::new(api).await;
    let mut client = admin(&stage.gateway).await;
    let began = Instant::now();
    for (index, failure) in FAILURES.iter().enumerate() {
        start(&mut client, &format!("s{index}"), failure.message, &format!("run-{index}")).await;
    }
    for index in 0..FAILURES.len() {
        assert_eq!(end_of(&client, &format!("run-{index}")).await["state"], "error");
    }
    assert!(began.elapsed() < ERROR_LIMIT, "{:?}", began.elapsed());
    for (index, failure) in FAILURES.iter().enumerate() {
        check(&mut client, index, failure).await;
        assert_eq!(stage.mock.asked(failure.message).await, failure.tries, "{}", failure.message);
    }
}

async fn check(client: &mut WsClient, index: usize, failure: &Failure) {
    let (session, run_id) = (format!("s{index}"), format!("run-{index}"));
    let error = end_of(client, &run_id).await;
    let text = error["errorMessage"].as_str().unwrap();
    assert!(!text.is_empty() && text.contains(failure.told), "{error}");
    assert_eq!(error["errorKind"], failure.kind, "{error}");
    assert!(error.get("message").is_none(), "{error}");
    settles(client, &format!("agent:main:{session}"), "failed").await;

    let next = ask(client, &session, "and now?", &format!("next-{index}")).await;
    assert_eq!((&next["state"], text_of(&next["message"])), (&"final".into(), "All right.".into()));
    settles(client, &format!("agent:main:{session}"), "done").await;
    assert_eq!(ends_of(client, &run_id).len(), 1, "{}", failure.message);

    let messages = history(client, &session).await;
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"], "{messages:?}");
    assert_eq!(messages[1]["stopReason"], "error");
    assert_eq!(messages[1]["errorMessage"], error["error"]["message"]);
    let partial = text_of(&messages[1]);
    assert!(partial.starts_with(failure.partial), "{partial}");
}

async fn a_provider_that_was_busy_once_is_asked_again(api: Api) {
    let stage = Stage::new(api).await;
    let mut client = admin(&stage.gateway).await;
    let end = ask(&mut client, "main", "busy once", "run-1").await;
    assert_eq!(end["state"], "final");
    assert_eq!(text_of(&end["message"]), "Here I am again.");
    assert_eq!(stage.mock.asked("busy once").await, 2);
    let steps = events(&client, "agent", "run-1");
    let retries: Vec<&Value> =
        steps.iter().filter(|step| step["data"]["phase"] == "retry").collect();
    assert_eq!(retries.len(), 1, "{steps:?}");
    assert_eq!(retries[0]["data"]["delayMs"], 1000, "{}", retries[0]);
}

with_both_apis! {
    a_failing_provider_is_one_error_and_the_next_message_works;
    a_provider_that_was_busy_once_is_asked_again;
}

#[tokio::test]
async fn an_answer_that_broke_is_paid_for_as_far_as_it_was_counted() {
    let (gateway, _mock) = scripted(Api::Anthropic).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "@mock err after=3", "run-1").await;
    assert_eq!(end["state"], "error", "{end}");
    let history = history(&mut client, "main").await;
    let broken = history.iter().rfind(|it| it["role"] == "assistant").unwrap();
    let price = broken["usage"]["cost"]["total"].as_f64().unwrap();
    let paid = spent_by(&mut client, "agent:main:main").await;
    assert!(price > 0.0 && (paid - price).abs() < 1e-9, "{paid} {broken}");
}
