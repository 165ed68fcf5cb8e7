//! Where the gateway listens changes, or cannot change.

use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::{config, edit, has_fault, logged, patch, signal};
use crate::stage::{Api, admin, ask, call, deltas, end_of, scripted, start, until};
use crate::support::Gateway;

/// A port of somebody else.
fn stranger() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Waits until it has said so often that it is ready.
async fn is_ready_again(gateway: &Gateway, times: usize) {
    let is_it = async || (gateway.stderr().matches("ready address").count() >= times).then_some(());
    until("the next one", is_it).await;
}

#[tokio::test]
async fn the_gateway_goes_over_to_another_address_of_its_port_and_back() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    for (times, bind, is_open) in [(2, "lan", true), (3, "loopback", false)] {
        let mut client = admin(&gateway).await;
        let answer = patch(&mut client, json!({"gateway": {"bind": bind}})).await;
        assert_eq!(answer["payload"]["requiresRestart"], true, "{answer}");
        assert_eq!(client.wait_closed(super::LIMIT).await.unwrap().code, 1012);
        is_ready_again(&gateway, times).await;
        // An address of this machine that only who listens everywhere has.
        let elsewhere = TcpStream::connect(("127.0.0.2", gateway.port()));
        assert_eq!(elsewhere.is_ok(), is_open, "{bind}");
    }
    assert!(has_fault(&gateway, None).await["restartPending"].is_null());
}

#[tokio::test]
async fn a_change_that_is_taken_back_while_a_run_is_waited_for_brings_no_restart() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=600 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    for (bind, pending) in [("lan", json!(["gateway.bind"])), ("loopback", json!(null))] {
        let answer = patch(&mut client, json!({"gateway": {"bind": bind}})).await;
        assert_eq!(answer["payload"]["requiresRestart"], !pending.is_null(), "{answer}");
        assert_eq!(answer["payload"]["restart"].is_null(), pending.is_null(), "{answer}");
        let health = call(&mut client, "health", json!({})).await;
        assert_eq!(health["restartPending"], pending, "what is answered is told at once");
    }
    logged(
        &gateway,
        "nothing in the configuration needs it any more; the gateway does not restart",
    )
    .await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-1"})).await;
    end_of(&client, "run-1").await;
    until("nothing to wait for", async || {
        let mut client = admin(&gateway).await;
        let seen = call(&mut client, "gateway.restart.preflight", json!({})).await;
        (seen["safe"] == true).then_some(())
    })
    .await;
    // A restart would come within milliseconds.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(client.closed().is_none());
    let answer = call(&mut client, "gateway.restart.request", json!({})).await;
    assert_eq!(answer["status"], "scheduled", "{answer}");
    assert_eq!(client.wait_closed(super::LIMIT).await.unwrap().code, 1012);
    is_ready_again(&gateway, 2).await;
}

#[tokio::test]
async fn a_restart_that_another_mode_does_not_bring_any_more_is_not_called_taken_back() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=600 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    for change in [json!({"bind": "lan"}), json!({"reload": {"mode": "hot"}})] {
        let answer = patch(&mut client, json!({"gateway": change})).await;
        assert_eq!(answer["payload"]["requiresRestart"], true, "{answer}");
    }
    logged(&gateway, "gateway.reload.mode is hot now; the gateway does not restart").await;
    assert!(!gateway.stderr().contains("was taken back"));
    let health = call(&mut client, "health", json!({})).await;
    assert_eq!(health["restartPending"], json!(["gateway.bind"]));
}

#[tokio::test]
async fn an_address_that_is_not_to_be_had_is_not_written_and_by_hand_changes_nothing_until_it_is() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (stranger, taken) = stranger();
    let (mut client, before) = (admin(&gateway).await, config(&gateway));
    for (change, path) in [
        (json!({"dialects": {"ports": [taken]}}), "gateway.dialects.ports"),
        // For documentation (RFC 5737), so of no machine.
        (json!({"bind": "custom", "customBindHost": "192.0.2.1"}), "gateway.bind"),
    ] {
        let answer = patch(&mut client, json!({"gateway": change})).await;
        assert_eq!(answer["error"]["details"]["issues"][0]["path"], path, "{answer}");
        assert_eq!(config(&gateway), before);
    }
    edit(&gateway, |config| config["gateway"]["dialects"] = json!({"ports": [taken]}));
    has_fault(&gateway, Some("gateway.dialects.ports")).await;
    assert!(client.closed().is_none());
    drop(stranger);
    is_ready_again(&gateway, 2).await;
    has_fault(&gateway, None).await;
    TcpStream::connect(("127.0.0.1", taken)).unwrap();
}

#[tokio::test]
async fn a_restart_for_an_address_that_is_not_to_be_had_cuts_nobody_off() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (_stranger, taken) = stranger();
    edit(&gateway, |config| config["gateway"]["dialects"] = json!({"ports": [taken]}));
    has_fault(&gateway, Some("gateway.dialects.ports")).await;
    let client = admin(&gateway).await;
    signal(&gateway, Signal::USR1);
    logged(&gateway, "no restart; going on with the config as it was").await;
    let health = has_fault(&gateway, Some("gateway.dialects.ports")).await;
    let message = health["configIssue"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("127.0.0.1:{taken}")), "{message}");
    // What mends it is taken up as ever.
    edit(&gateway, |config| config["gateway"]["dialects"] = json!({}));
    has_fault(&gateway, None).await;
    assert!(client.closed().is_none());
}

#[tokio::test]
async fn what_a_restart_has_failed_with_is_not_tried_again_though_it_includes_other_files() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    // Nobody can listen everywhere while somebody does at one address. The look before a
    // restart does not see that, as the port is the gateway's own.
    let _stranger = TcpListener::bind(("127.0.0.2", gateway.port())).unwrap();
    fs::write(gateway.config_path().with_file_name("more.json"), "{}").unwrap();
    edit(&gateway, |config| {
        config["gateway"]["bind"] = json!("lan");
        config["gateway"]["reload"] = json!({"mode": "restart"});
        config["$include"] = json!("./more.json");
    });
    is_ready_again(&gateway, 2).await;
    has_fault(&gateway, Some("gateway.port")).await;
    let client = admin(&gateway).await;
    // A next try would come within milliseconds.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(client.closed().is_none());
    assert_eq!(gateway.stderr().matches("ready address").count(), 2);
    // What mends it is taken up as ever.
    edit(&gateway, |config| config["gateway"]["bind"] = json!("loopback"));
    is_ready_again(&gateway, 3).await;
    has_fault(&gateway, None).await;
}

#[tokio::test]
async fn who_goes_on_has_the_secrets_that_are_gone_by_then() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let keys = gateway.root().join("secrets.json");
    fs::write(&keys, r#"{"mock": "key-of-before"}"#).unwrap();
    fs::set_permissions(&keys, Permissions::from_mode(0o600)).unwrap();
    edit(&gateway, |config| {
        config["secrets"] = json!({"providers": {"keys": {"source": "file", "path": keys}}});
        config["models"]["providers"]["mock"]["apiKey"] =
            json!({"source": "file", "provider": "keys", "id": "/mock"});
        config["session"] = json!({"mainKey": "chief"});
    });
    let mut client = admin(&gateway).await;
    super::until(&mut client, "agents.list", |told| told["mainKey"] == "chief").await;
    fs::remove_file(&keys).unwrap();
    let _stranger = TcpListener::bind(("127.0.0.2", gateway.port())).unwrap();
    edit(&gateway, |config| {
        config["gateway"]["bind"] = json!("lan");
        config["gateway"]["reload"] = json!({"mode": "restart"});
        config["models"]["providers"]["mock"]["apiKey"] = json!("another-key");
    });
    is_ready_again(&gateway, 2).await;
    has_fault(&gateway, Some("gateway.port")).await;
    ask(&mut admin(&gateway).await, "main", "still there?", "run-1").await;
    assert_eq!(mock.calls().last().unwrap().1, "key-of-before");
}
