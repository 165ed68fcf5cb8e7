//! An answer on its way from the provider to the client.

use serde_json::json;

use crate::stage::{
    Api, Stage, admin, ask, ends_of, events, lines, settles, text_of, told, with_both_apis,
};

const ANSWER: &str = "Good morning. This answer comes in many small pieces, one after the other.";

async fn text_is_streamed_in_deltas_and_ends_as_the_transcript_has_it(api: Api) {
    let stage = Stage::new(api).await;
    let mut client = admin(&stage.gateway).await;
    let end = ask(&mut client, "main", "greet me", "run-1").await;
    assert_eq!(end["state"], "final");
    assert_eq!(end["sessionKey"], "agent:main:main");
    assert_eq!(end["stopReason"], "stop");
    assert_eq!(text_of(&end["message"]), ANSWER);
    let chat = events(&client, "chat", "run-1");
    let deltas: Vec<_> = chat.iter().filter(|payload| payload["state"] == "delta").collect();
    assert!(deltas.len() >= 3, "{chat:?}");
    let texts: Vec<_> = deltas.iter().map(|payload| text_of(&payload["message"])).collect();
    assert!(texts.windows(2).all(|pair| pair[1].starts_with(&pair[0])), "{texts:?}");
    assert!(texts[0].len() < ANSWER.len() / 2, "{texts:?}");
    assert_eq!(texts.last().unwrap(), ANSWER);
    assert_eq!(
        told(&mut client, "main").await,
        lines(&[("user", "greet me"), ("assistant", ANSWER)])
    );
    assert_eq!(ends_of(&client, "run-1").len(), 1);
    settles(&mut client, "agent:main:main", "done").await;
}

async fn the_steps_of_a_run_are_told_in_order(api: Api) {
    let stage = Stage::new(api).await;
    let mut client = admin(&stage.gateway).await;
    ask(&mut client, "main", "greet me", "run-1").await;
    let steps = events(&client, "agent", "run-1");
    let seqs: Vec<_> = steps.iter().map(|step| step["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..).take(steps.len()).collect::<Vec<u64>>());
    let kind = |step: &serde_json::Value| (step["stream"].clone(), step["data"]["phase"].clone());
    assert_eq!(kind(&steps[0]), (json!("lifecycle"), json!("start")));
    assert_eq!(kind(steps.last().unwrap()), (json!("lifecycle"), json!("end")));
    let said: String = steps
        .iter()
        .filter(|step| step["stream"] == "assistant")
        .filter_map(|step| step["data"]["delta"].as_str())
        .collect();
    assert_eq!(said, ANSWER);
}

async fn a_conversation_is_sent_along_with_the_next_message(api: Api) {
    let stage = Stage::new(api).await;
    let mut client = admin(&stage.gateway).await;
    ask(&mut client, "main", "first question", "run-1").await;
    ask(&mut client, "main", "second question", "run-2").await;
    let requests = stage.mock.requests().await;
    let path = match api {
        Api::OpenAi => "/v1/chat/completions",
        Api::Anthropic => "/v1/messages",
    };
    assert!(requests.iter().all(|request| request["path"] == path), "{requests:?}");
    let sent = requests[1]["body"]["messages"].to_string();
    let places: Vec<_> = ["first question", "All right.", "second question"]
        .iter()
        .map(|text| sent.find(text).unwrap_or_else(|| panic!("{text} is not in {sent}")))
        .collect();
    assert!(places.is_sorted(), "{sent}");
}

with_both_apis! {
    text_is_streamed_in_deltas_and_ends_as_the_transcript_has_it;
    the_steps_of_a_run_are_told_in_order;
    a_conversation_is_sent_along_with_the_next_message;
}
