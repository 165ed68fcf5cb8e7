//! `clawgate chat` beside others in the same session.

use tokio::process::Command;

use crate::stage::{Api, admin, deltas, scripted, start};

#[tokio::test]
async fn who_speaks_while_another_is_answered_gets_the_own_answer_and_nothing_else() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=60 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    let output = Command::new(env!("CARGO_BIN_EXE_clawgate"))
        .args(["chat", "@mock text text=second"])
        .env_clear()
        .env("HOME", gateway.home())
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .env("OPENCLAW_CONFIG_PATH", gateway.config_path())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "second\n");
}
