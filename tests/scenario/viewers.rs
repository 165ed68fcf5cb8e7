//! Several connections and one run: watching, leaving, coming back.

use serde_json::{Value, json};

use crate::stage::{
    Api, Stage, admin, call, connect, deltas, end_of, events, history, lines, row, settles, start,
    text_of, told, with_both_apis,
};
use crate::support::SECRET;

const STORY: &str = "Once upon a time there was a gateway that lost nothing. Every message it had \
acknowledged was there in the morning, and every client saw the same story, word by word, in the \
same order. Some left early, some came late, and some came back; all of them read it to the end.";

async fn two_clients_see_the_same_run(api: Api) {
    let stage = Stage::new(api).await;
    let mut first = admin(&stage.gateway).await;
    let second = admin(&stage.gateway).await;
    start(&mut first, "main", "tell a long story", "run-1").await;
    let end = end_of(&first, "run-1").await;
    assert_eq!(text_of(&end["message"]), STORY);
    assert_eq!(end_of(&second, "run-1").await, end);
    for name in ["chat", "agent"] {
        assert_eq!(events(&first, name, "run-1"), events(&second, name, "run-1"));
    }
}

async fn who_comes_back_in_the_middle_misses_nothing(api: Api) {
    let stage = Stage::new(api).await;
    let mut first = admin(&stage.gateway).await;
    start(&mut first, "main", "tell a long story", "run-1").await;
    let seen = deltas(&first, "run-1", 2).await;
    drop(first);

    let mut back = admin(&stage.gateway).await;
    assert_eq!(told(&mut back, "main").await, lines(&[("user", "tell a long story")]));
    assert_eq!(row(&mut back, "agent:main:main").await["hasActiveRun"], true);
    let next = deltas(&back, "run-1", 1).await;
    assert!(next.starts_with(&seen) && STORY.starts_with(&next), "{seen} then {next}");
    let end = end_of(&back, "run-1").await;
    assert_eq!((&end["state"], text_of(&end["message"])), (&json!("final"), STORY.into()));
    let all = [("user", "tell a long story"), ("assistant", STORY)];
    assert_eq!(told(&mut back, "main").await, lines(&all));
}

#[tokio::test]
async fn a_run_goes_on_when_nobody_is_left() {
    let stage = Stage::new(Api::OpenAi).await;
    let mut client = admin(&stage.gateway).await;
    start(&mut client, "main", "greet me", "run-1").await;
    deltas(&client, "run-1", 1).await;
    drop(client);
    let mut later = admin(&stage.gateway).await;
    settles(&mut later, "agent:main:main", "done").await;
    let answer = history(&mut later, "main").await.pop().unwrap();
    assert!(text_of(&answer).ends_with("one after the other."), "{answer}");
}

#[tokio::test]
async fn an_appending_client_that_comes_late_starts_with_all_text_so_far() {
    let stage = Stage::new(Api::OpenAi).await;
    let mut first = admin(&stage.gateway).await;
    start(&mut first, "main", "tell a long story", "run-1").await;
    let seen = deltas(&first, "run-1", 2).await;
    let params = json!({"clientType": "web", "auth": {"token": SECRET}});
    let mut late = connect(&stage.gateway, &params).await;
    call(&mut late, "chat.history", json!({"sessionKey": "main"})).await;
    let end = end_of(&late, "run-1").await;
    let chat = events(&late, "chat", "run-1");
    let pieces = chat.iter().filter(|payload| payload["state"] == "delta");
    let pieces: Vec<_> = pieces.map(|payload: &Value| text_of(&payload["message"])).collect();
    assert!(pieces[0].starts_with(&seen), "{pieces:?} after {seen}");
    assert!(pieces.len() >= 3, "{pieces:?}");
    assert_eq!(pieces.concat(), STORY);
    assert_eq!((&end["sessionKey"], text_of(&end["message"])), (&json!("main"), STORY.into()));
}

with_both_apis! {
    two_clients_see_the_same_run;
    who_comes_back_in_the_middle_misses_nothing;
}
