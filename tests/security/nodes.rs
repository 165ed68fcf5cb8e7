//! Nodes that lie (CVE-2026-53816, CVE-2026-42432): a node speaks for itself
//! only, has what was approved only, and reports only on what it was asked to do.

use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, config, connect, refusal, scripted, start};
use crate::support::client::{SOON, standard_connect};
use crate::support::node_client::{connect_params, invoke, invoked};
use crate::support::{Gateway, GatewayOptions, MockProvider, NodeClient};

async fn commands(gateway: &Gateway, node: &str) -> Value {
    let mut client = admin(gateway).await;
    call(&mut client, "node.describe", json!({"nodeId": node})).await["commands"].clone()
}

/// All that the model was sent.
fn seen_by(mock: &MockProvider) -> String {
    let bodies: Vec<_> = mock.requests().into_iter().map(|request| request.body).collect();
    json!(bodies).to_string()
}

#[tokio::test]
async fn a_node_cannot_answer_what_another_was_asked() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut asked = NodeClient::connect(&gateway, "Asked", "iOS 18", &["location.get"]).await;
    let mut liar = NodeClient::connect(&gateway, "Liar", "iOS 18", &["location.get"]).await;
    invoke(&mut client, "i", &asked.id, "location.get", json!({})).await;
    let request = asked.asked("location.get", 1).await;
    let as_other =
        json!({"id": request["id"], "nodeId": asked.id, "ok": true, "payload": "forged"});
    let text = refusal(&mut liar.client, "node.invoke.result", as_other).await;
    assert_eq!(text, "nodeId mismatch");
    let as_itself = liar.answer(&request, json!("forged")).await;
    assert_eq!(as_itself["payload"], json!({"ok": true, "ignored": true}));
    asked.answer(&request, json!("true")).await;
    assert_eq!(invoked(&client, "i").await["payload"]["payload"], "true");
    let again = asked.answer(&request, json!("again")).await;
    assert_eq!(again["payload"], json!({"ok": true, "ignored": true}), "once");
}

#[tokio::test]
async fn a_node_cannot_widen_its_commands_by_connecting_again() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let first = NodeClient::connect(&gateway, "Box", "linux", &["system.notify"]).await;
    drop(first);
    let wide = ["system.notify", "system.run"];
    let node = NodeClient::connect(&gateway, "Box", "linux", &wide).await;
    assert_eq!(commands(&gateway, &node.id).await, json!(["system.notify"]));
    let run = json!({"nodeId": node.id, "command": "system.run", "idempotencyKey": "x",
        "params": {"command": ["true"]}});
    let text = refusal(&mut client, "node.invoke", run).await;
    assert!(text.contains("does not support \"system.run\""), "{text}");
    // Calling itself another system does not help either.
    drop(node);
    let other = connect_params("Box", "macos", &["canvas.eval", "system.run"]);
    let (node, hello) = NodeClient::connect_with(&gateway, "Box", other).await;
    assert_eq!(hello["error"]["details"]["reason"], "metadata-upgrade", "{hello}");
    assert_eq!(commands(&gateway, &node.id).await, json!(["system.notify"]));
}

#[tokio::test]
async fn what_is_approved_is_what_was_shown() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let request = json!({"nodeId": "n", "commands": ["canvas.eval"]});
    let shown = call(&mut client, "node.pair.request", request).await;
    let wider = json!({"nodeId": "n", "commands": ["system.run"]});
    let renewed = call(&mut client, "node.pair.request", wider).await;
    assert_eq!(renewed["created"], true, "another question");
    let old = json!({"requestId": shown["request"]["requestId"]});
    assert_eq!(refusal(&mut client, "node.pair.approve", old).await, "unknown requestId");
    let new = json!({"requestId": renewed["request"]["requestId"]});
    for (scopes, missing) in [
        (&["operator.pairing"][..], "operator.admin"),
        (&["operator.pairing", "operator.write"], "operator.admin"),
        (&["operator.write"], "operator.pairing"),
    ] {
        let mut client = connect(&gateway, &standard_connect(scopes)).await;
        let text = refusal(&mut client, "node.pair.approve", new.clone()).await;
        assert_eq!(text, format!("missing scope: {missing}"));
    }
    call(&mut client, "node.pair.approve", new).await;
}

#[tokio::test]
async fn a_node_that_was_rejected_or_removed_has_no_command_also_when_it_comes_back() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    let pending = call(&mut client, "node.pair.list", json!({})).await["pending"].clone();
    let id = json!({"requestId": pending[0]["requestId"]});
    call(&mut client, "node.pair.reject", id).await;
    assert_eq!(commands(&gateway, &node.id).await, json!([]), "at once");
    drop(node);
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    assert_eq!(commands(&gateway, &node.id).await, json!([]));
    let pending = call(&mut client, "node.pair.list", json!({})).await["pending"].clone();
    let id = json!({"requestId": pending[0]["requestId"]});
    call(&mut client, "node.pair.approve", id).await;
    assert_eq!(commands(&gateway, &node.id).await, json!(["location.get"]));
    call(&mut client, "node.pair.remove", json!({"nodeId": node.id})).await;
    assert_eq!(commands(&gateway, &node.id).await, json!([]));
}

#[tokio::test]
async fn a_node_that_nobody_has_approved_is_removed_as_well() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    assert_eq!(commands(&gateway, &node.id).await, json!(["location.get"]));
    call(&mut client, "node.pair.remove", json!({"nodeId": node.id})).await;
    assert_eq!(commands(&gateway, &node.id).await, json!([]), "at once");
    let pending = call(&mut client, "node.pair.list", json!({})).await["pending"].clone();
    assert_eq!(pending, json!([]));
    drop(node);
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    assert_eq!(commands(&gateway, &node.id).await, json!([]), "until it is approved");
    let nobody = json!({"nodeId": "nobody"});
    assert_eq!(refusal(&mut client, "node.pair.remove", nobody).await, "unknown nodeId");
}

#[tokio::test]
async fn a_node_calls_no_method_of_operators_and_an_operator_none_of_nodes() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    for method in ["node.list", "node.invoke", "node.pair.approve", "chat.send", "config.get"] {
        let text = refusal(&mut node.client, method, json!({})).await;
        assert_eq!(text, "unauthorized role: node", "{method}");
    }
    for method in [
        "node.event",
        "node.invoke.result",
        "node.pending.drain",
        "node.pending.pull",
        "node.pending.ack",
        "node.canvas.capability.refresh",
    ] {
        let text = refusal(&mut client, method, json!({})).await;
        assert_eq!(text, "unauthorized role: operator", "{method}");
    }
}

#[tokio::test]
async fn a_report_on_a_command_that_the_node_was_not_asked_to_run_is_not_heard() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    for event in ["exec.started", "exec.finished", "exec.denied"] {
        let forged = json!({"sessionKey": "main", "runId": "r1", "command": "ls",
            "exitCode": 0, "output": "FORGED"});
        assert_eq!(node.report(event, &forged).await["payload"], json!({"ok": true}));
    }
    ask(&mut client, "main", "@mock text text=\"hi\"", "run-1").await;
    let seen = seen_by(&mock);
    assert!(!seen.contains("FORGED") && !seen.contains("Exec finished"), "{seen}");
}

#[tokio::test]
async fn a_report_counts_in_the_session_of_the_command_and_only_while_that_runs() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["exec"] = json!({"host": "node"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    let mut other = NodeClient::connect(&gateway, "Other", "iOS 18", &[]).await;
    let text = "@mock tool name=exec args={\"command\":\"make\"} then=\"done\"";
    start(&mut client, "main", text, "run-1").await;
    let run = node.asked("system.run", 1).await;
    let params: Value = serde_json::from_str(run["paramsJSON"].as_str().unwrap()).unwrap();
    let report = |output: &str| {
        json!({"sessionKey": "agent:main:else", "runId": params["runId"], "exitCode": 0,
            "output": output})
    };
    other.report("exec.finished", &report("OTHERS")).await;
    node.report("exec.finished", &report("OWN")).await;
    node.answer(&run, json!({"exitCode": 0, "stdout": "built"})).await;
    crate::stage::end_of(&client, "run-1").await;
    node.report("exec.finished", &report("LATE")).await;
    ask(&mut client, "main", "@mock text text=\"a\"", "run-2").await;
    ask(&mut client, "agent:main:else", "@mock text text=\"b\"", "run-3").await;
    let seen = seen_by(&mock);
    assert!(seen.contains("OWN"), "{seen}");
    assert!(!seen.contains("OTHERS") && !seen.contains("LATE"), "{seen}");
}

/// Asks whether a command may run on a node, and says yes.
async fn approved(client: &mut crate::support::WsClient, gateway: &Gateway, node: &str) -> Value {
    let mut decider = connect(gateway, &standard_connect(&["operator.approvals"])).await;
    let plan = json!({"argv": ["/bin/ls", "-la"], "cwd": "/srv", "commandText": "ls -la",
        "agentId": null, "sessionKey": null});
    let params = json!({"host": "node", "nodeId": node, "systemRunPlan": plan,
        "env": {"A": "1"}, "twoPhase": true, "timeoutMs": 60_000});
    let id = format!("ask-{node}");
    let frame = json!({"type": "req", "id": id, "method": "exec.approval.request",
        "params": params});
    client.send(&frame).await;
    let asked = decider.wait_for(SOON, |frame| frame["event"] == "exec.approval.requested").await;
    let asked = asked.expect("a question")["payload"]["id"].clone();
    call(&mut decider, "exec.approval.resolve", json!({"id": asked, "decision": "allow-once"}))
        .await;
    asked
}

#[tokio::test]
async fn an_approval_for_a_node_counts_once_and_for_the_very_command_only() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    let other = NodeClient::connect(&gateway, "Other", "linux", &["system.run"]).await;
    let id = approved(&mut client, &gateway, &node.id).await;
    let good = json!({"command": ["/bin/ls", "-la"], "cwd": "/srv", "env": {"A": "1"},
        "runId": id, "approved": true, "approvalDecision": "allow-once"});
    let with = |node: &str, name: &str, value: Value| {
        let mut params = good.clone();
        params[name] = value;
        json!({"nodeId": node, "command": "system.run", "params": params,
            "idempotencyKey": format!("{name}-{node}")})
    };
    let mismatch = "approval id does not match request";
    for (node_id, name, value, expected) in [
        (&node.id, "command", json!(["/bin/rm", "-rf"]), mismatch),
        (&node.id, "cwd", json!("/etc"), mismatch),
        (&node.id, "env", json!({"A": "2"}), mismatch),
        (&node.id, "env", json!(null), mismatch),
        (&node.id, "rawCommand", json!("rm"), mismatch),
        (&node.id, "agentId", json!("ops"), mismatch),
        (&node.id, "runId", json!("nope"), "unknown or expired approval id"),
        (&node.id, "runId", json!(null), "approval override requires params.runId"),
        (&other.id, "approved", json!(true), "approval id not valid for this node"),
    ] {
        let text = refusal(&mut client, "node.invoke", with(node_id, name, value.clone())).await;
        assert_eq!(text, expected, "{name} {value}");
    }
    let mut writer = connect(&gateway, &standard_connect(&["operator.write"])).await;
    let text = refusal(&mut writer, "node.invoke", with(&node.id, "approved", json!(true))).await;
    assert_eq!(text, "missing scope: operator.approvals");
    assert!(node.requests().is_empty() && other.requests().is_empty());

    invoke(&mut client, "good", &node.id, "system.run", json!({"params": good})).await;
    let run = node.asked("system.run", 1).await;
    let sent: Value = serde_json::from_str(run["paramsJSON"].as_str().unwrap()).unwrap();
    assert_eq!(sent["command"], json!(["/bin/ls", "-la"]));
    assert_eq!((&sent["approved"], &sent["runId"]), (&json!(true), &id));
    // A node of OpenClaw refuses a plan that has `null` for it.
    assert!(sent["systemRunPlan"].get("mutableFileOperand").is_none(), "{sent}");
    node.answer(&run, json!({"exitCode": 0})).await;
    assert_eq!(invoked(&client, "good").await["ok"], true);
    let again = with(&node.id, "approved", json!(true));
    assert_eq!(refusal(&mut client, "node.invoke", again).await, "approval required");
}

#[tokio::test]
async fn a_caller_cannot_say_that_its_command_was_approved() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = connect(&gateway, &standard_connect(&["operator.write"])).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    // Not in the words that count, so that it is sent on: without them.
    let params = json!({"command": ["true"], "approved": "yes", "approvalDecision": "of course"});
    invoke(&mut client, "i", &node.id, "system.run", json!({"params": params})).await;
    let run = node.asked("system.run", 1).await;
    let sent: Value = serde_json::from_str(run["paramsJSON"].as_str().unwrap()).unwrap();
    assert_eq!(sent, json!({"command": ["true"]}));
    node.refuse(&run, "SYSTEM_RUN_DENIED", "approval required").await;
    assert_eq!(invoked(&client, "i").await["ok"], false);
}

#[tokio::test]
async fn the_policy_of_a_node_is_only_reached_by_admins() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let node = NodeClient::connect(&gateway, "Box", "linux", &["system.execApprovals.set"]).await;
    let mut writer = connect(&gateway, &standard_connect(&["operator.write"])).await;
    let direct = json!({"nodeId": node.id, "command": "system.execApprovals.set",
        "params": {}, "idempotencyKey": "x"});
    let text = refusal(&mut writer, "node.invoke", direct).await;
    assert!(text.starts_with("node.invoke does not allow"), "{text}");
    let get = json!({"nodeId": node.id});
    let text = refusal(&mut writer, "exec.approvals.node.get", get).await;
    assert_eq!(text, "missing scope: operator.admin");
    assert!(node.requests().is_empty());
}
