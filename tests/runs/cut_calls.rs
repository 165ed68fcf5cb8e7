//! Calls in an answer that its limit has cut.

use clawgate::agent::{Family, RunEnd};
use clawgate::sessions::HistoryOptions;

use super::{key, place};

#[tokio::test]
async fn calls_that_the_output_limit_has_cut_get_a_result_and_the_run_goes_on() {
    let place = place().await;
    let text = "one @mock tool name=session_status cut=1 then=whole";
    assert!(place.send(0, "one", text, Family::Chat).await);
    assert_eq!(place.end_of("one").await, RunEnd::Answered);
    let options = HistoryOptions { limit: 10, ..HistoryOptions::default() };
    let messages = place.runs.history(&key(0), options).await.unwrap().0.messages;
    let roles: Vec<_> = messages.iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "assistant"], "{messages:?}");
    assert_eq!(messages[2]["isError"], true);
    let said = |index: usize| messages[index]["content"][0]["text"].as_str().unwrap();
    assert!(said(2).contains("cut off by the output limit"), "{messages:?}");
    assert_eq!(said(3), "whole");
}
