//! `clawgate approvals` against a gateway whose commands wait.

use std::process::Output;

use serde_json::{Value, json};

use crate::program::{clawgate, json_of, said};
use crate::stage::{Api, admin, config, connect, end_of, start, text_of};
use crate::support::client::{ALL_SCOPES, SOON, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient};

async fn approvals(gateway: &Gateway, args: &[&str]) -> Output {
    clawgate(gateway, &[&["approvals"], args].concat()).await
}

/// Has the model run a command; the question that comes of it.
async fn question(client: &mut WsClient, arguments: &Value, run_id: &str) -> Value {
    let message = format!("@mock tool name=exec args={arguments} then=\"done\"");
    start(client, run_id, &message, run_id).await;
    let question = client.wait_for(SOON, |frame| {
        frame["event"] == "exec.approval.requested"
            && frame["payload"]["request"]["command"] == arguments["command"]
    });
    let question = question.await.unwrap_or_else(|| panic!("nobody asks: {:?}", client.frames()));
    question["payload"].clone()
}

/// The same; its id.
async fn asked(client: &mut WsClient, command: &str, run_id: &str) -> String {
    let question = question(client, &json!({ "command": command }), run_id).await;
    question["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_a_call_sets_is_seen_by_whoever_decides_and_secrets_are_not() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["exec"] = json!({"ask": "always"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut params = standard_connect(&ALL_SCOPES);
    params["caps"] = json!(["tool-events"]);
    let mut client = connect(&gateway, &params).await;
    let env = json!({"GNUTARGET": "binary", "NOTE": format!("it's {SECRET}")});
    let arguments = json!({"command": "echo $GNUTARGET", "env": env});
    let asked = question(&mut client, &arguments, "run-1").await;
    let (set, note) = ("GNUTARGET='binary'", r"NOTE='it'\''s ***'");
    let warning = asked["request"]["warningText"].as_str().unwrap();
    assert!(warning.ends_with(&format!(":\n{set}\n{note}")), "{warning}");
    let told = client.wait_for(SOON, |frame| frame["payload"]["stream"] == "approval").await;
    assert_eq!(told.expect("who watches is told")["payload"]["data"]["warningText"], warning);
    let shown = said(&approvals(&gateway, &["list"]).await);
    assert!(shown.contains(&format!("  ! {set}  ! {note}\n")), "{shown}");
    said(&approvals(&gateway, &["deny", asked["id"].as_str().unwrap()]).await);
    end_of(&client, "run-1").await;
}

#[tokio::test]
async fn what_waits_is_listed_approved_denied_and_allowed_for_good() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["exec"] = json!({"security": "allowlist", "ask": "on-miss"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    assert_eq!(said(&approvals(&gateway, &["list"]).await), "Nothing waits for approval.\n");

    let file = |name: &str| gateway.workspace().join(name);
    let command = |name: &str| format!("touch {}", file(name).display());
    let id = asked(&mut client, &command("one"), "run-1").await;
    let list = json_of(&approvals(&gateway, &["list", "--json"]).await);
    assert_eq!((&list["exec"][0]["id"], &list["plugin"]), (&json!(id), &json!([])), "{list}");
    let shown = said(&approvals(&gateway, &["list"]).await);
    assert!(shown.contains("touch") && shown.contains(&format!("approve {id}")), "{shown}");
    let told = said(&approvals(&gateway, &["deny", &id[..8]]).await);
    assert_eq!(told, format!("Denied {}\n", &id[..8]));
    end_of(&client, "run-1").await;
    assert!(!file("one").exists());

    let id = asked(&mut client, &command("two"), "run-2").await;
    said(&approvals(&gateway, &["approve", &id]).await);
    assert_eq!(text_of(&end_of(&client, "run-2").await["message"]), "done");
    assert!(file("two").exists());

    let id = asked(&mut client, &command("three"), "run-3").await;
    let told = said(&approvals(&gateway, &["approve", &id, "--always"]).await);
    assert!(told.contains("without asking"), "{told}");
    end_of(&client, "run-3").await;
    let rules = said(&approvals(&gateway, &["get"]).await);
    assert!(rules.contains("touch") && rules.contains("exec-approvals.json"), "{rules}");
    let rules = json_of(&approvals(&gateway, &["get", "--json"]).await);
    assert_eq!(rules["exists"], true, "{rules}");

    let unknown = approvals(&gateway, &["approve", "no-such-id"]).await;
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
}
