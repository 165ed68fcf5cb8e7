//! `clawgate chat` beside others in the same session.

use crate::program::{clawgate, said};
use crate::stage::{Api, admin, deltas, scripted, start};

#[tokio::test]
async fn who_speaks_while_another_is_answered_gets_the_own_answer_and_nothing_else() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=60 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    let output = clawgate(&gateway, &["chat", "@mock text text=second"]).await;
    assert_eq!(said(&output), "second\n");
}
