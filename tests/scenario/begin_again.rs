//! The gateway restarts itself.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{
    Api, admin, ask, call, config, deltas, end_of, refusal, scripted, start, text_of, told, until,
};
use crate::support::client::SOON;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// A restart says so, waits for nothing, and the same process is there again;
/// whoever connects at once is let in.
async fn begins_again(gateway: &Gateway, client: &WsClient) -> WsClient {
    let is_shutdown = |frame: &Value| frame["event"] == "shutdown";
    let said = client.wait_for(SOON, is_shutdown).await.expect("a shutdown event");
    let expected = json!({"reason": "gateway restarting", "restartExpectedMs": 1500});
    assert_eq!(said["payload"], expected);
    let closed = client.wait_closed(SOON).await.expect("a close");
    assert_eq!((closed.code, closed.reason.as_str()), (1012, "service restart"));
    admin(gateway).await
}

fn signal_restart(gateway: &Gateway) {
    let pid = gateway.pid().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
}

#[tokio::test]
async fn a_restart_waits_for_what_runs_and_is_asked_for_once() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let safe = call(&mut client, "gateway.restart.preflight", json!({})).await;
    assert_eq!((&safe["safe"], &safe["summary"]), (&json!(true), &json!("safe to restart now")));
    start(&mut client, "main", "@mock stream n=20 delay=60", "run-1").await;
    deltas(&client, "run-1", 1).await;
    let busy = call(&mut client, "gateway.restart.preflight", json!({})).await;
    assert_eq!((&busy["safe"], &busy["counts"]["embeddedRuns"]), (&json!(false), &json!(1)));
    let asked = json!({"reason": "because"});
    let first = call(&mut client, "gateway.restart.request", asked.clone()).await;
    assert_eq!((&first["status"], &first["preflight"]), (&json!("deferred"), &busy));
    assert_eq!(first["restart"]["pid"], gateway.pid().unwrap());
    let again = call(&mut client, "gateway.restart.request", asked).await;
    assert_eq!(
        (&again["status"], &again["restart"]["coalesced"]),
        (&json!("coalesced"), &json!(true))
    );
    let end = end_of(&client, "run-1").await;
    assert_eq!(end["state"], "final", "{end}");
    let mut client = begins_again(&gateway, &client).await;
    assert_eq!(told(&mut client, "main").await.len(), 2);
    ask(&mut client, "main", "hello again", "run-2").await;
    let status = call(&mut client, "status", json!({})).await;
    assert!(status["uptimeMs"].as_u64().unwrap() < 60_000, "{status}");
}

#[tokio::test]
async fn the_log_says_that_a_signal_came_and_what_the_restart_waits_for() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=50 delay=60", "run-1").await;
    deltas(&client, "run-1", 1).await;
    signal_restart(&gateway);
    let said = async |text: &str| {
        until(text, async || gateway.stderr().contains(text).then_some(())).await;
    };
    said("a signal asks for a restart").await;
    said("the restart waits until nothing runs, for 5 minutes at most").await;
    end_of(&client, "run-1").await;
    begins_again(&gateway, &client).await;
    said("restarting; a signal to stop makes a stop of it").await;
    assert!(!gateway.stderr().contains("stopping; another signal"), "{}", gateway.stderr());
}

#[tokio::test]
async fn a_command_restarts_it_after_its_answer_if_its_sender_may() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut writer = crate::stage::connect(
        &gateway,
        &crate::support::client::standard_connect(&["operator.read", "operator.write"]),
    )
    .await;
    let refused = ask(&mut writer, "main", "/restart", "run-1").await;
    assert_eq!(text_of(&refused["message"]), "⚠️ /restart: missing scope: operator.admin");
    let wanted = refusal(&mut writer, "gateway.restart.request", json!({})).await;
    assert!(wanted.contains("missing scope: operator.admin"), "{wanted}");
    let said = ask(&mut client, "main", "/restart", "run-2").await;
    assert_eq!(text_of(&said["message"]), "⚙️ The gateway restarts; back in a moment.");
    let mut client = begins_again(&gateway, &client).await;
    assert_eq!(told(&mut client, "main").await.len(), 2, "both answers are in the transcript");
}

#[tokio::test]
async fn the_config_can_turn_the_command_off() {
    let mock = MockProvider::start().await;
    let mut settings = config(mock.address(), Api::OpenAi);
    settings["commands"] = json!({"restart": false});
    let gateway = Gateway::start(GatewayOptions::with_config(settings)).await;
    let mut client = admin(&gateway).await;
    let said = ask(&mut client, "main", "/restart", "run-1").await;
    let disabled = "⚠️ /restart is disabled. Set commands.restart=true to enable.";
    assert_eq!(text_of(&said["message"]), disabled);
    let safe = call(&mut client, "gateway.restart.preflight", json!({})).await;
    assert_eq!(safe["safe"], true);
    assert!(client.closed().is_none());
}

#[tokio::test]
async fn a_signal_restarts_it_with_the_config_as_it_is_then() {
    let mock = MockProvider::start().await;
    let mut settings = config(mock.address(), Api::OpenAi);
    let gateway = Gateway::start(GatewayOptions::with_config(settings.clone())).await;
    let client = admin(&gateway).await;
    settings["commands"] = json!({"config": true});
    let workspace = gateway.workspace().display().to_string();
    let text = settings.to_string().replace(crate::support::config::WORKSPACE, &workspace);
    fs::write(gateway.config_path(), &text).unwrap();
    signal_restart(&gateway);
    let mut client = begins_again(&gateway, &client).await;
    let shown = ask(&mut client, "main", "/config show commands", "run-1").await;
    assert!(text_of(&shown["message"]).contains("\"config\": true"), "{shown}");

    // For one that no gateway starts with nobody is cut off.
    fs::write(gateway.config_path(), "{\"gateway\": 7}").unwrap();
    signal_restart(&gateway);
    let given_up = "no restart; going on with the config as it was";
    until("a line of the log", async || gateway.stderr().contains(given_up).then_some(())).await;
    ask(&mut client, "main", "still there?", "run-2").await;
    let health = call(&mut client, "health", json!({"probe": true})).await;
    assert_eq!(health["configIssue"]["path"], "gateway", "{health}");
    fs::write(gateway.config_path(), text).unwrap();
    call(&mut client, "gateway.restart.request", json!({})).await;
    let mut client = begins_again(&gateway, &client).await;
    let health = call(&mut client, "health", json!({"probe": true})).await;
    assert!(health["configIssue"].is_null(), "{health}");
}

#[tokio::test]
async fn a_restart_after_which_no_gateway_would_begin_is_refused_and_not_promised() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let good = fs::read_to_string(gateway.config_path()).unwrap();
    fs::write(gateway.config_path(), "{\"gateway\": 7}").unwrap();
    let answer = client.request("gateway.restart.request", json!({})).await;
    let error = &answer["error"];
    assert_eq!(error["code"], "UNAVAILABLE", "{answer}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("no restart: gateway: must be"), "{message}");
    assert!(message.ends_with("; put that right and ask again"), "{message}");
    assert_eq!(error["details"]["issues"][0]["path"], "gateway", "{answer}");
    let said = ask(&mut client, "main", "/restart", "run-1").await;
    assert!(text_of(&said["message"]).contains("no restart: gateway: must be"), "{said}");
    fs::write(gateway.config_path(), good).unwrap();
    let answer = call(&mut client, "gateway.restart.request", json!({})).await;
    assert_eq!(
        (&answer["status"], &answer["restart"]["coalesced"]),
        (&json!("scheduled"), &json!(false))
    );
    begins_again(&gateway, &client).await;
    assert!(!gateway.stderr().contains("no restart; going on"), "none was given up");
}

#[tokio::test]
async fn a_restart_that_waits_does_not_keep_a_stop_from_coming() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=600 delay=100", "run-1").await;
    deltas(&client, "run-1", 1).await;
    call(&mut client, "gateway.restart.request", json!({})).await;
    gateway.signal_term();
    let is_shutdown = |frame: &Value| frame["event"] == "shutdown";
    let said = client.wait_for(SOON, is_shutdown).await.expect("a shutdown event");
    assert_eq!(said["payload"]["reason"], "gateway stopping");
    gateway.signal_term();
    let status = gateway.wait_exit(Duration::from_secs(20)).await.expect("an exit");
    assert_eq!(status.code(), Some(0));
}
