//! Nodes over real sockets: what they are asked, what they answer, and what
//! waits for them.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::stage::{
    Api, Stage, admin, call, config, connect, end_of, events, refusal, scripted, start, text_of,
    told, until,
};
use crate::support::client::{SOON, standard_connect};
use crate::support::node_client::{connect_params, invoke, invoked};
use crate::support::{DeviceKey, Gateway, GatewayOptions, MockProvider, NodeClient, WsClient};

async fn gateway() -> Gateway {
    Stage::new(Api::OpenAi).await.gateway
}

async fn row(gateway: &Gateway, node: &str) -> Value {
    let mut client = admin(gateway).await;
    call(&mut client, "node.describe", json!({"nodeId": node})).await
}

#[tokio::test]
async fn a_node_is_listed_with_what_it_may_be_asked_and_its_answer_comes_back() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let commands = ["canvas.eval", "camera.snap", "made.up", "location.get"];
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &commands).await;
    let requested = client.wait_for(SOON, |frame| frame["event"] == "node.pair.requested").await;
    let requested = requested.expect("a request")["payload"].clone();
    assert_eq!(requested["nodeId"], json!(phone.id));
    assert_eq!(requested["commands"], json!(["canvas.eval", "location.get"]));

    let list = call(&mut client, "node.list", json!({})).await;
    assert_eq!(list["nodes"].as_array().unwrap().len(), 1);
    let node = &list["nodes"][0];
    assert_eq!(node["commands"], json!(["canvas.eval", "location.get"]));
    assert_eq!((&node["displayName"], &node["connected"]), (&json!("Phone"), &json!(true)));

    let more = json!({"params": {"js": "1+1"}, "timeoutMs": 9000});
    invoke(&mut client, "i-1", &phone.id, "canvas.eval", more).await;
    let request = phone.asked("canvas.eval", 1).await;
    assert_eq!(request["paramsJSON"], r#"{"js":"1+1"}"#);
    assert_eq!((&request["timeoutMs"], &request["idempotencyKey"]), (&json!(9000), &json!("i-1")));
    assert_eq!(phone.answer(&request, json!({"result": 2})).await["payload"], json!({"ok": true}));
    let answer = invoked(&client, "i-1").await;
    assert_eq!(
        answer["payload"],
        json!({"ok": true, "nodeId": phone.id, "command": "canvas.eval",
            "payload": {"result": 2}, "payloadJSON": null})
    );
}

#[tokio::test]
async fn a_key_is_one_invocation_for_those_who_ask_at_once_and_after_a_kill() {
    let mut gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    invoke(&mut client, "key", &phone.id, "location.get", json!({})).await;
    let request = phone.asked("location.get", 1).await;
    let mut other = admin(&gateway).await;
    invoke(&mut other, "key", &phone.id, "location.get", json!({})).await;
    phone.answer(&request, json!({"lat": 1})).await;
    let first = invoked(&client, "key").await;
    assert_eq!(invoked(&other, "key").await["payload"], first["payload"]);
    assert_eq!(phone.requests().len(), 1, "it was asked once");

    gateway.restart().await;
    let mut client = admin(&gateway).await;
    invoke(&mut client, "key", &phone.id, "location.get", json!({})).await;
    assert_eq!(invoked(&client, "key").await["payload"], first["payload"], "while it is away");
    let phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    let mut other = admin(&gateway).await;
    invoke(&mut other, "key", &phone.id, "location.get", json!({})).await;
    assert_eq!(invoked(&other, "key").await["payload"], first["payload"]);
    assert!(phone.requests().is_empty());
}

#[tokio::test]
async fn a_node_that_refuses_may_be_asked_again_under_the_same_key() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "android 15", &["device.info"]).await;
    invoke(&mut client, "key", &phone.id, "device.info", json!({})).await;
    let request = phone.asked("device.info", 1).await;
    phone.refuse(&request, "LOCKED", "unlock me").await;
    let refused = invoked(&client, "key").await;
    assert_eq!(refused["error"]["message"], "LOCKED: unlock me");
    assert_eq!(
        refused["error"]["details"],
        json!({"nodeError": {"code": "LOCKED", "message": "unlock me"}})
    );
    let mut again = admin(&gateway).await;
    invoke(&mut again, "key", &phone.id, "device.info", json!({})).await;
    let request = phone.asked("device.info", 2).await;
    phone.answer(&request, json!({"model": "x"})).await;
    assert_eq!(invoked(&again, "key").await["payload"]["payload"], json!({"model": "x"}));
}

#[tokio::test]
async fn a_slow_node_ends_at_its_time_holds_up_nobody_and_its_late_answer_is_ignored() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut slow = NodeClient::connect(&gateway, "Slow", "iOS 18", &["location.get"]).await;
    let mut quick = NodeClient::connect(&gateway, "Quick", "iOS 18", &["location.get"]).await;
    invoke(&mut client, "slow", &slow.id, "location.get", json!({"timeoutMs": 1500})).await;
    let late = slow.asked("location.get", 1).await;
    invoke(&mut client, "quick", &quick.id, "location.get", json!({})).await;
    let request = quick.asked("location.get", 1).await;
    quick.answer(&request, json!({"lat": 2})).await;
    assert_eq!(invoked(&client, "quick").await["ok"], true);
    assert!(!client.frames().iter().any(|frame| frame["id"] == "slow"), "it still waits");
    let timed_out = invoked(&client, "slow").await;
    assert_eq!(timed_out["error"]["message"], "TIMEOUT: node invoke timed out");
    let ignored = slow.answer(&late, json!({"lat": 1})).await;
    assert_eq!(ignored["payload"], json!({"ok": true, "ignored": true}));
}

#[tokio::test]
async fn a_node_that_goes_in_the_middle_ends_what_it_was_asked_for() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    let id = phone.id.clone();
    invoke(&mut client, "gone", &id, "location.get", json!({"timeoutMs": 60_000})).await;
    phone.asked("location.get", 1).await;
    drop(phone);
    let answer = invoked(&client, "gone").await;
    assert_eq!(answer["error"]["message"], "Error: node disconnected (location.get)");
    let text = refusal(
        &mut client,
        "node.invoke",
        json!({"nodeId": id, "command": "location.get", "idempotencyKey": "later"}),
    );
    assert_eq!(text.await, "node not connected");
}

#[tokio::test]
async fn the_newest_connection_of_a_node_is_asked_and_the_end_of_an_older_one_changes_nothing() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let old = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    let mut new = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    assert_eq!(old.id, new.id);
    drop(old);
    invoke(&mut client, "i", &new.id, "location.get", json!({})).await;
    let request = new.asked("location.get", 1).await;
    new.answer(&request, json!({})).await;
    assert_eq!(invoked(&client, "i").await["ok"], true);
    assert_eq!(row(&gateway, &new.id).await["connected"], true);
}

#[tokio::test]
async fn work_and_commands_that_wait_outlast_a_kill_until_the_node_has_dealt_with_them() {
    let mut gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["canvas.eval"]).await;
    let work = json!({"nodeId": phone.id, "type": "location.request", "priority": "high"});
    let queued = call(&mut client, "node.pending.enqueue", work).await["queued"].clone();
    invoke(&mut client, "later", &phone.id, "canvas.eval", json!({"params": {"js": "1"}})).await;
    let request = phone.asked("canvas.eval", 1).await;
    phone.refuse(&request, "NODE_BACKGROUND_UNAVAILABLE", "in the background").await;
    let answer = invoked(&client, "later").await;
    assert_eq!(answer["error"]["details"]["code"], "QUEUED_UNTIL_FOREGROUND");
    assert_eq!(answer["error"]["retryable"], true);
    let action = answer["error"]["details"]["queuedActionId"].clone();

    gateway.kill9();
    gateway.restart().await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["canvas.eval"]).await;
    let drained = call(&mut phone.client, "node.pending.drain", json!({})).await;
    assert_eq!(drained["items"][0], queued);
    let pulled = call(&mut phone.client, "node.pending.pull", json!({})).await;
    assert_eq!(pulled["actions"][0]["id"], action);
    assert_eq!(pulled["actions"][0]["paramsJSON"], r#"{"js":"1"}"#);
    let ids = json!({"ids": [action, queued["id"]]});
    let acked = call(&mut phone.client, "node.pending.ack", ids).await;
    assert_eq!(acked["remainingCount"], 0);

    gateway.kill9();
    gateway.restart().await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["canvas.eval"]).await;
    let pulled = call(&mut phone.client, "node.pending.pull", json!({})).await;
    assert_eq!(pulled["actions"], json!([]));
    let drained = call(&mut phone.client, "node.pending.drain", json!({})).await;
    assert_eq!(drained["items"][0]["id"], "baseline-status", "only what is always asked");
}

#[tokio::test]
async fn an_approval_outlasts_a_kill_and_a_node_may_then_use_what_was_approved() {
    let mut gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    let pairings = call(&mut client, "node.pair.list", json!({})).await;
    let request = pairings["pending"][0]["requestId"].clone();
    let needed = json!(["operator.pairing", "operator.admin"]);
    assert_eq!(pairings["pending"][0]["requiredApproveScopes"], needed);
    let approved = call(&mut client, "node.pair.approve", json!({"requestId": request})).await;
    let token = approved["node"]["token"].as_str().unwrap().to_owned();
    assert_eq!(token.len(), 43);

    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let verify = |token: &str| json!({"nodeId": node.id, "token": token});
    assert_eq!(call(&mut client, "node.pair.verify", verify(&token)).await["ok"], true);
    assert_eq!(call(&mut client, "node.pair.verify", verify("x")).await, json!({"ok": false}));
    let listed = call(&mut client, "node.pair.list", json!({})).await;
    assert!(!listed.to_string().contains(&token), "a token is told once");
    let more = ["system.run", "system.which"];
    let node = NodeClient::connect(&gateway, "Box", "linux", &more).await;
    assert_eq!(row(&gateway, &node.id).await["commands"], json!(["system.run"]));
    let wanted = |frame: &Value| frame["event"] == "node.pair.requested";
    let request = client.wait_for(SOON, wanted).await.expect("a request for more");
    let id = request["payload"]["requestId"].clone();
    call(&mut client, "node.pair.approve", json!({"requestId": id})).await;
    assert_eq!(row(&gateway, &node.id).await["commands"], json!(more), "at once");
}

#[tokio::test]
async fn a_node_follows_a_session_and_what_is_said_to_it_is_answered_there() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    phone.report("chat.subscribe", &json!({"sessionKey": "main"})).await;
    let said = json!({"text": "@mock text text=\"heard\"", "sessionKey": "main"});
    assert_eq!(phone.report("voice.transcript", &said).await["payload"], json!({"ok": true}));
    let is_end = |frame: &Value| frame["event"] == "chat" && frame["payload"]["state"] == "final";
    let end = phone.client.wait_for(SOON, is_end).await.expect("the answer");
    assert_eq!(text_of(&end["payload"]["message"]), "heard");
    assert!(end["payload"]["runId"].as_str().unwrap().starts_with("voice-"));
    let run_id = end["payload"]["runId"].as_str().unwrap().to_owned();
    let is_begin = |frame: &Value| frame["payload"]["data"]["phase"] == "start";
    phone.client.wait_for(SOON, is_begin).await.expect("what happens meanwhile");
    end_of(&client, &run_id).await;
    start(&mut client, "main", "/btw @mock text text=\"beside\"", "aside").await;
    let is_aside = |frame: &Value| frame["event"] == "chat.side_result";
    let aside = phone.client.wait_for(SOON, is_aside).await.expect("what is said beside it");
    assert_eq!(aside["payload"]["text"], "beside");
    let seqs = |client: &WsClient| -> Vec<_> {
        let all = events(client, "agent", &run_id).into_iter();
        all.map(|payload| payload["seq"].as_u64()).collect()
    };
    assert_eq!(seqs(&phone.client), seqs(&client), "each once");

    phone.report("chat.unsubscribe", &json!({"sessionKey": "main"})).await;
    start(&mut client, "main", "@mock text text=\"more\"", "run-2").await;
    end_of(&client, "run-2").await;
    phone.client.request("health", json!({})).await;
    assert!(events(&phone.client, "chat", "run-2").is_empty(), "no longer");
    let request = json!({"message": "@mock text text=\"asked\"", "sessionKey": "agent:main:work"});
    phone.report("agent.request", &request).await;
    let lines = until("an answer", async || {
        let told = told(&mut client, "agent:main:work").await;
        (told.len() == 2).then_some(told)
    });
    assert_eq!(lines.await[1].1, "asked");
}

#[tokio::test]
async fn a_notification_waits_in_a_session_that_there_is_and_in_no_other() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    let posted = |key: &str| json!({"change": "posted", "key": key, "title": "Mail"});
    let mut elsewhere = posted("1");
    elsewhere["sessionKey"] = json!("nobody-was-here");
    let answer = phone.report("notifications.changed", &elsewhere).await;
    assert_eq!(answer["payload"], json!({"ok": true}));
    phone.report("notifications.changed", &posted("2")).await;
    let waiting = call(&mut client, "status", json!({})).await["queuedSystemEvents"].clone();
    let waiting = waiting.as_array().unwrap();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert!(waiting[0].as_str().unwrap().contains("key=2"), "{waiting:?}");
}

#[tokio::test]
async fn what_a_node_reports_is_told_under_the_name_that_a_person_gave_it() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    let id = phone.id.clone();
    let pairings = call(&mut client, "node.pair.list", json!({})).await;
    let request = json!({"requestId": pairings["pending"][0]["requestId"]});
    call(&mut client, "node.pair.approve", request).await;
    let mut posts = async |client: &mut WsClient, key: &str| {
        let posted = json!({"change": "posted", "key": key, "title": "Mail"});
        phone.report("notifications.changed", &posted).await;
        call(client, "status", json!({})).await["queuedSystemEvents"].to_string()
    };
    let waiting = posts(&mut client, "0").await;
    assert!(waiting.contains("(node=Phone key=0)"), "{waiting}");
    let rename = |name: &str| json!({"nodeId": id, "displayName": name});
    call(&mut client, "node.rename", rename("Ann's phone")).await;
    let waiting = posts(&mut client, "1").await;
    assert!(waiting.contains("(node=Ann's phone key=1)"), "{waiting}");
    // It is not looked up for each report, but for the first after a change.
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    let renamed = database.execute("UPDATE node_pairs SET label = 'Nobody'", []).unwrap();
    assert_eq!(renamed, 1);
    let waiting = posts(&mut client, "2").await;
    assert!(waiting.contains("(node=Ann's phone key=2)"), "{waiting}");
    call(&mut client, "node.rename", rename("Bob's phone")).await;
    let waiting = posts(&mut client, "3").await;
    assert!(waiting.contains("(node=Bob's phone key=3)"), "{waiting}");
    call(&mut client, "node.pair.remove", json!({"nodeId": id})).await;
    let waiting = posts(&mut client, "4").await;
    assert!(waiting.contains("(node=Phone key=4)"), "{waiting}");
}

#[tokio::test]
async fn what_an_agent_asks_of_an_app_in_the_background_waits_until_it_is_back() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["canvas.navigate"]).await;
    let ask = json!({"action": "invoke", "invokeCommand": "canvas.navigate",
        "invokeParamsJson": "{\"url\":\"/\"}"});
    start(&mut client, "main", &format!("@mock tool name=nodes args={ask} then=\"so\""), "run-1")
        .await;
    let request = phone.asked("canvas.navigate", 1).await;
    phone.refuse(&request, "NODE_BACKGROUND_UNAVAILABLE", "in the background").await;
    end_of(&client, "run-1").await;
    let lines = told(&mut client, "main").await;
    assert!(lines[2].1.contains("queued until iOS returns to foreground"), "{lines:?}");
    let pulled = call(&mut phone.client, "node.pending.pull", json!({})).await;
    let action = &pulled["actions"][0];
    assert_eq!(
        (&action["command"], &action["paramsJSON"]),
        (&json!("canvas.navigate"), &json!(r#"{"url":"/"}"#)),
        "{pulled}"
    );
}

#[tokio::test]
async fn what_a_node_has_reported_of_a_command_survives_a_kill() {
    let (mut gateway, mock) = on_nodes(json!({"security": "full", "ask": "off"})).await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    let run_id = run_of(&mut client, "agent:main:work", &node).await;
    let finished = json!({"runId": run_id, "exitCode": 0, "output": "BUILT"});
    assert_eq!(node.report("exec.finished", &finished).await["payload"], json!({"ok": true}));
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    start(&mut client, "agent:main:work", "@mock text text=\"more\"", "run-2").await;
    end_of(&client, "run-2").await;
    let asked = mock.requests().last().unwrap().body.to_string();
    assert!(asked.contains("BUILT"), "{asked}");
}

/// Has a node run a command for a session; the id of its run.
async fn run_of(client: &mut WsClient, session: &str, node: &NodeClient) -> Value {
    start(client, session, RUN, "run-1").await;
    let run = node.asked("system.run", 1).await;
    let params: Value = serde_json::from_str(run["paramsJSON"].as_str().unwrap()).unwrap();
    params["runId"].clone()
}

#[tokio::test]
async fn what_the_answer_to_a_command_tells_is_not_told_once_more() {
    let (gateway, mock) = on_nodes(json!({"security": "full", "ask": "off"})).await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    start(&mut client, "main", RUN, "run-1").await;
    let run = node.asked("system.run", 1).await;
    let params: Value = serde_json::from_str(run["paramsJSON"].as_str().unwrap()).unwrap();
    // OpenClaw's nodes report with what they were asked to be silent on.
    let finished = json!({"runId": params["runId"], "exitCode": 0, "output": "BUILT",
        "suppressNotifyOnExit": params["suppressNotifyOnExit"]});
    assert_eq!(node.report("exec.finished", &finished).await["payload"], json!({"ok": true}));
    node.answer(&run, json!({"exitCode": 0, "success": true, "stdout": "BUILT"})).await;
    end_of(&client, "run-1").await;
    let waiting = call(&mut client, "status", json!({})).await["queuedSystemEvents"].clone();
    assert_eq!(waiting, json!([]));
    start(&mut client, "main", "@mock text text=\"more\"", "run-2").await;
    end_of(&client, "run-2").await;
    let seen = mock.requests().last().unwrap().body.to_string();
    assert!(seen.contains("BUILT") && !seen.contains("Exec finished"), "{seen}");
}

/// Tells the main session so much that it hears later.
async fn tell_main(client: &mut WsClient, count: usize) {
    for number in 0..count {
        let later = json!({"mode": "next-heartbeat", "text": format!("event {number}")});
        call(client, "wake", later).await;
    }
}

#[tokio::test]
async fn a_node_that_reports_much_of_one_command_leaves_room_for_what_others_tell() {
    let (gateway, _mock) = on_nodes(json!({"security": "full", "ask": "off"})).await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    let run_id = run_of(&mut client, "main", &node).await;
    for number in 0..30 {
        for event in ["exec.started", "exec.finished", "exec.denied"] {
            let report = json!({"runId": run_id, "command": number.to_string()});
            assert_eq!(node.report(event, &report).await["payload"], json!({"ok": true}));
        }
    }
    tell_main(&mut client, 99).await;
    let late = json!({"mode": "next-heartbeat", "text": "late"});
    let why = refusal(&mut client, "wake", late).await;
    assert!(why.contains("too many system events wait"), "the first end is kept: {why}");
}

#[tokio::test]
async fn the_end_of_a_command_on_a_node_is_heard_also_where_too_much_waits() {
    let (gateway, _mock) = on_nodes(json!({"security": "full", "ask": "off"})).await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    let run_id = run_of(&mut client, "main", &node).await;
    tell_main(&mut client, 100).await;
    let finished = json!({"runId": run_id, "exitCode": 0, "output": "BUILT"});
    assert_eq!(node.report("exec.finished", &finished).await["payload"], json!({"ok": true}));
    let waiting = call(&mut client, "status", json!({})).await["queuedSystemEvents"].clone();
    assert!(waiting.to_string().contains("BUILT"), "{waiting}");
}

#[tokio::test]
async fn what_waits_in_a_session_that_is_deleted_is_not_told_to_the_next_of_its_name() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    start(&mut client, "agent:main:work", "@mock text text=\"one\"", "run-1").await;
    end_of(&client, "run-1").await;
    let posted = json!({"change": "posted", "key": "1", "title": "Mail",
        "sessionKey": "agent:main:work"});
    phone.report("notifications.changed", &posted).await;
    let waiting = call(&mut client, "status", json!({})).await["queuedSystemEvents"].clone();
    assert_eq!(waiting.as_array().unwrap().len(), 1, "{waiting}");
    call(&mut client, "sessions.delete", json!({"key": "agent:main:work"})).await;
    start(&mut client, "agent:main:work", "@mock text text=\"two\"", "run-2").await;
    end_of(&client, "run-2").await;
    let waiting = call(&mut client, "status", json!({})).await["queuedSystemEvents"].clone();
    assert_eq!(waiting, json!([]));
    let asked = mock.requests().last().unwrap().body.to_string();
    assert!(asked.contains("two") && !asked.contains("Mail"), "{asked}");
}

/// A gateway whose agents run commands on nodes under this policy.
async fn on_nodes(exec: Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["exec"] = exec;
    config["tools"]["exec"]["host"] = json!("node");
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

const RUN: &str = "@mock tool name=exec args={\"command\":\"uname -a\"} then=\"done\"";

#[tokio::test]
async fn a_command_for_a_node_waits_for_a_person_and_then_the_node_runs_what_was_shown() {
    let (gateway, _mock) = on_nodes(json!({"security": "full", "ask": "always"})).await;
    let mut client = admin(&gateway).await;
    let commands = ["system.run", "system.run.prepare"];
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &commands).await;
    start(&mut client, "main", RUN, "run-1").await;
    let prepare = node.asked("system.run.prepare", 1).await;
    let asked: Value = serde_json::from_str(prepare["paramsJSON"].as_str().unwrap()).unwrap();
    assert_eq!(asked["command"], json!(["/bin/sh", "-lc", "uname -a"]));
    let plan = json!({"argv": asked["command"], "cwd": "/srv", "commandText": "uname -a",
        "commandPreview": null, "agentId": asked["agentId"], "sessionKey": asked["sessionKey"]});
    node.answer(&prepare, json!({"plan": plan})).await;
    let question = client.wait_for(SOON, |frame| frame["event"] == "exec.approval.requested").await;
    let question = question.expect("a question")["payload"].clone();
    let request = &question["request"];
    assert_eq!((&request["host"], &request["nodeId"]), (&json!("node"), &json!(node.id)));
    assert_eq!((&request["command"], &request["cwd"]), (&json!("uname -a"), &json!("/srv")));
    assert_eq!(request["allowedDecisions"], json!(["allow-once", "deny"]));
    assert_eq!(node.requests().len(), 1, "nothing runs before the decision");
    let decision = json!({"id": question["id"], "decision": "allow-once"});
    call(&mut client, "exec.approval.resolve", decision).await;

    let run = node.asked("system.run", 1).await;
    let params: Value = serde_json::from_str(run["paramsJSON"].as_str().unwrap()).unwrap();
    assert_eq!(params["command"], asked["command"]);
    assert_eq!((&params["cwd"], &params["approved"]), (&json!("/srv"), &json!(true)));
    assert_eq!(params["runId"], question["id"]);
    assert!(params["env"].is_null(), "the node gets no variable of this machine");
    let result = json!({"success": true, "exitCode": 0, "stdout": "Linux box", "stderr": ""});
    node.answer(&run, result).await;
    assert_eq!(text_of(&end_of(&client, "run-1").await["message"]), "done");
    let told = told(&mut client, "main").await;
    assert!(told.contains(&("toolResult".into(), "Linux box".into())), "{told:?}");
    let again = json!({"nodeId": node.id, "command": "system.run", "idempotencyKey": "again",
        "params": {"runId": question["id"], "command": asked["command"], "approved": true}});
    let text = refusal(&mut client, "node.invoke", again).await;
    assert!(text.contains("approval required"), "{text}");
    assert_eq!(node.requests().len(), 2, "one yes is for one run");
}

#[tokio::test]
async fn a_command_for_a_node_that_is_denied_or_has_nowhere_to_run_is_not_sent() {
    let (gateway, _mock) = on_nodes(json!({"security": "full", "ask": "always"})).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", RUN, "run-1").await;
    end_of(&client, "run-1").await;
    let lines = told(&mut client, "main").await;
    assert!(lines[2].1.contains("requires a node that supports system.run"), "{lines:?}");

    let node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    start(&mut client, "agent:main:two", RUN, "run-2").await;
    let question = client.wait_for(SOON, |frame| frame["event"] == "exec.approval.requested").await;
    let id = question.expect("a question")["payload"]["id"].clone();
    let decision = json!({"id": id, "decision": "deny"});
    call(&mut client, "exec.approval.resolve", decision).await;
    end_of(&client, "run-2").await;
    let lines = told(&mut client, "agent:main:two").await;
    assert!(lines[2].1.starts_with("Exec denied (node id="), "{lines:?}");
    assert!(node.requests().is_empty());
}

#[tokio::test]
async fn the_allowlist_of_this_machine_says_nothing_of_a_node() {
    let (gateway, _mock) = on_nodes(json!({"security": "allowlist", "ask": "off"})).await;
    let mut client = admin(&gateway).await;
    let file = json!({"version": 1, "agents": {"*": {"allowlist": [{"pattern": "*"}]}}});
    let now = call(&mut client, "exec.approvals.get", json!({})).await;
    let set = json!({"file": file, "baseHash": now["hash"]});
    call(&mut client, "exec.approvals.set", set).await;
    let node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    start(&mut client, "main", RUN, "run-1").await;
    end_of(&client, "run-1").await;
    let lines = told(&mut client, "main").await;
    assert_eq!(lines[2].1, "exec denied: allowlist miss");
    assert!(node.requests().is_empty());
}

#[tokio::test]
async fn agents_see_nodes_and_ask_them_but_run_no_program_with_that_tool() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut phone =
        NodeClient::connect(&gateway, "Phone", "iOS 18", &["system.notify", "device.info"]).await;
    let notify = json!({"action": "notify", "title": "Hi", "node": "phone"});
    let text = format!("@mock tool name=nodes args={notify} then=\"shown\"");
    start(&mut client, "main", &text, "run-1").await;
    let request = phone.asked("system.notify", 1).await;
    assert_eq!(request["paramsJSON"], r#"{"title":"Hi"}"#);
    phone.answer(&request, json!({"ok": true})).await;
    end_of(&client, "run-1").await;
    let lines = told(&mut client, "main").await;
    assert!(lines[2].1.contains("EXTERNAL_UNTRUSTED_CONTENT"), "{lines:?}");

    let run = json!({"action": "invoke", "invokeCommand": "system.run"});
    let text = format!("@mock tool name=nodes args={run} then=\"no\"");
    start(&mut client, "agent:main:two", &text, "run-2").await;
    end_of(&client, "run-2").await;
    let lines = told(&mut client, "agent:main:two").await;
    assert!(lines[2].1.contains("use exec with host=node"), "{lines:?}");
    assert_eq!(phone.requests().len(), 1);
}

#[tokio::test]
async fn who_watches_only_sees_no_requests_of_nodes_and_a_node_sees_no_conversation() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let reader = connect(&gateway, &standard_connect(&["operator.read"])).await;
    let params = connect_params("Phone", "iOS 18", &["location.get"]);
    let (mut phone, hello) = NodeClient::connect_with(&gateway, "Phone", params).await;
    assert_eq!(hello["payload"]["auth"]["role"], "node");
    start(&mut client, "main", "@mock text text=\"private\"", "run-1").await;
    end_of(&client, "run-1").await;
    phone.client.request("health", json!({})).await;
    assert!(phone.client.frames().iter().all(|frame| frame["event"] != "chat"));
    end_of(&reader, "run-1").await;
    let seen = reader.frames();
    assert!(seen.iter().all(|frame| frame["event"] != "node.pair.requested"), "{seen:?}");
}

#[tokio::test]
async fn what_was_under_way_when_the_gateway_was_killed_is_not_done_again_under_its_key() {
    let mut gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    let params = json!({"timeoutMs": 60_000});
    invoke(&mut client, "key", &node.id, "location.get", params).await;
    let old = node.asked("location.get", 1).await;
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    let ignored = node.answer(&old, json!({"lat": 1})).await;
    assert_eq!(ignored["payload"], json!({"ok": true, "ignored": true}));
    invoke(&mut client, "key", &node.id, "location.get", json!({})).await;
    let answer = invoked(&client, "key").await;
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("the gateway stopped while it did this"), "{answer}");
    assert!(node.requests().is_empty());
}

#[tokio::test]
async fn a_large_answer_arrives_whole_and_is_not_kept() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Phone", "iOS 18", &["canvas.snapshot"]).await;
    invoke(&mut client, "big", &node.id, "canvas.snapshot", json!({})).await;
    let request = node.asked("canvas.snapshot", 1).await;
    let picture = json!({"format": "png", "base64": "A".repeat(1_000_000)});
    node.answer(&request, picture.clone()).await;
    assert_eq!(invoked(&client, "big").await["payload"]["payload"], picture);
    let mut other = admin(&gateway).await;
    invoke(&mut other, "big", &node.id, "canvas.snapshot", json!({})).await;
    let again = invoked(&other, "big").await;
    assert!(again["error"]["message"].as_str().unwrap().contains("too large"), "{again}");
    assert_eq!(node.requests().len(), 1);
}

/// What OpenClaw would have left of its nodes.
fn leave_nodes(gateway: &Gateway, text: &str) {
    let folder = gateway.state_dir().join("nodes");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("paired.json"), text).unwrap();
}

#[tokio::test]
async fn nodes_that_openclaw_approved_are_taken_over_once() {
    let mut gateway = gateway().await;
    gateway.kill9();
    let row = json!({"nodeId": "old", "token": "their-token", "displayName": "Old Phone",
        "commands": ["location.get"], "createdAtMs": 1, "approvedAtMs": 2, "lastConnectedAtMs": 3});
    leave_nodes(&gateway, &json!({"old": row}).to_string());
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let list = call(&mut client, "node.list", json!({})).await;
    assert_eq!(list["nodes"][0]["displayName"], "Old Phone", "{list}");
    assert_eq!(list["nodes"][0]["lastSeenAtMs"], 3, "{list}");
    assert_eq!(list["nodes"][0]["lastSeenReason"], "connect", "{list}");
    let verify = json!({"nodeId": "old", "token": "their-token"});
    assert_eq!(call(&mut client, "node.pair.verify", verify).await["ok"], true);
    call(&mut client, "node.pair.remove", json!({"nodeId": "old"})).await;
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let list = call(&mut client, "node.list", json!({})).await;
    assert_eq!(list["nodes"], json!([]), "it does not come back");
}

#[tokio::test]
async fn a_node_that_openclaw_may_have_limited_has_no_command_until_that_is_known() {
    let mut gateway = gateway().await;
    gateway.kill9();
    leave_nodes(&gateway, "{");
    gateway.restart().await;
    let both = ["device.info", "location.get"];
    let come = async |name: &str| {
        let node = NodeClient::connect(&gateway, name, "iOS 18", &both).await;
        row(&gateway, &node.id).await["commands"].clone()
    };
    assert_eq!(come("Early").await, json!([]), "the file cannot be read");

    let id = |name: &str| DeviceKey::named(name).id();
    let limited = json!({"token": "their-token", "commands": ["location.get"]});
    let broken = json!({"token": 5, "commands": ["location.get"]});
    let file = json!({id("Limited"): limited, id("Broken"): broken});
    leave_nodes(&gateway, &file.to_string());
    let mut client = admin(&gateway).await;
    let known = call(&mut client, "node.pair.list", json!({})).await["paired"].clone();
    assert_eq!(known, json!([]), "who looks only does not read it again");
    assert_eq!(come("Limited").await, json!(["location.get"]));
    assert_eq!(come("Broken").await, json!([]), "its row cannot be read");
    assert_eq!(come("New").await, json!(both), "nobody knows it");
    assert_eq!(come("Early").await, json!([]), "nobody has approved it");
}

#[tokio::test]
async fn a_run_that_is_stopped_does_not_wait_for_its_node_and_takes_its_question_back() {
    let (gateway, _mock) = on_nodes(json!({"security": "full", "ask": "off"})).await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    start(&mut client, "main", RUN, "run-1").await;
    let run = node.asked("system.run", 1).await;
    let params: Value = serde_json::from_str(run["paramsJSON"].as_str().unwrap()).unwrap();
    assert!(params["approved"].is_null(), "nobody was asked");
    call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
    assert_eq!(end_of(&client, "run-1").await["state"], "aborted");
    let late = node.answer(&run, json!({"exitCode": 0})).await;
    assert_eq!(late["payload"], json!({"ok": true, "ignored": true}));

    let patch = json!({"key": "agent:main:two", "execAsk": "always"});
    call(&mut client, "sessions.patch", patch).await;
    start(&mut client, "agent:main:two", RUN, "run-2").await;
    let wanted = |frame: &Value| frame["event"] == "exec.approval.requested";
    let id = client.wait_for(SOON, wanted).await.expect("a question")["payload"]["id"].clone();
    call(&mut client, "chat.abort", json!({"sessionKey": "agent:main:two"})).await;
    assert_eq!(end_of(&client, "run-2").await["state"], "aborted");
    let decide = json!({"id": id, "decision": "allow-once"});
    let text = refusal(&mut client, "exec.approval.resolve", decide).await;
    assert_eq!(text, "approval already resolved");
    assert_eq!(node.requests().len(), 1, "nothing more was sent");
}

#[tokio::test]
async fn a_node_has_all_the_time_that_a_call_gives_its_command_or_the_call_is_refused() {
    let (gateway, _mock) = on_nodes(json!({"security": "full", "ask": "off"})).await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    let times = [
        (json!(7200), json!(7_200_000), 7_205_000_u64),
        (json!(0), Value::Null, 2_147_483_647),
        (json!(2_147_478), json!(2_147_478_000_u64), 2_147_483_000),
    ];
    for (index, (timeout, limit, waited)) in times.into_iter().enumerate() {
        let (key, run) = (format!("agent:main:{index}"), format!("run-{index}"));
        let args = json!({"command": "id", "timeout": timeout});
        start(&mut client, &key, &format!("@mock tool name=exec args={args} then=\"done\""), &run)
            .await;
        let request = node.asked("system.run", index + 1).await;
        let params: Value = serde_json::from_str(request["paramsJSON"].as_str().unwrap()).unwrap();
        assert_eq!((&params["timeoutMs"], &request["timeoutMs"]), (&limit, &json!(waited)));
        node.answer(&request, json!({"exitCode": 0, "stdout": "me"})).await;
        end_of(&client, &run).await;
    }
    let args = json!({"command": "id", "timeout": 2_147_479});
    let text = format!("@mock tool name=exec args={args} then=\"no\"");
    start(&mut client, "agent:main:long", &text, "run-long").await;
    end_of(&client, "run-long").await;
    let lines = told(&mut client, "agent:main:long").await;
    assert_eq!(lines[2].1, "exec host=node: timeout must be at most 2147478 seconds");
    assert_eq!(node.requests().len(), 3);
}

#[tokio::test]
async fn a_session_that_is_bound_to_one_node_runs_its_commands_on_no_other() {
    let (gateway, _mock) = on_nodes(json!({"security": "full", "ask": "off"})).await;
    let mut client = admin(&gateway).await;
    let mut own = NodeClient::connect(&gateway, "Own", "linux", &["system.run"]).await;
    let other = NodeClient::connect(&gateway, "Other", "linux", &["system.run"]).await;
    start(&mut client, "main", RUN, "run-0").await;
    end_of(&client, "run-0").await;
    let lines = told(&mut client, "main").await;
    assert!(lines[2].1.contains("say which node"), "{lines:?}");

    let patch = json!({"key": "agent:main:two", "execNode": "own"});
    call(&mut client, "sessions.patch", patch).await;
    let elsewhere = json!({"command": "id", "node": "Other"});
    let text = format!("@mock tool name=exec args={elsewhere} then=\"no\"");
    start(&mut client, "agent:main:two", &text, "run-1").await;
    end_of(&client, "run-1").await;
    let lines = told(&mut client, "agent:main:two").await;
    assert_eq!(lines[2].1, "exec node not allowed (bound to own)");
    start(&mut client, "agent:main:two", RUN, "run-2").await;
    let run = own.asked("system.run", 1).await;
    own.answer(&run, json!({"exitCode": 3, "stderr": "oh no"})).await;
    end_of(&client, "run-2").await;
    let lines = told(&mut client, "agent:main:two").await;
    assert!(lines.iter().any(|(_, text)| text == "oh no\n\n(Command exited with code 3)"));
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn an_agent_that_names_its_node_runs_its_commands_there() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    let exec = json!({"host": "node", "node": "Own", "security": "full", "ask": "off"});
    config["agents"]["list"] = json!([{"id": "main", "tools": {"exec": exec}}]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let mut own = NodeClient::connect(&gateway, "Own", "linux", &["system.run"]).await;
    let other = NodeClient::connect(&gateway, "Other", "linux", &["system.run"]).await;
    start(&mut client, "main", RUN, "run-1").await;
    let run = own.asked("system.run", 1).await;
    own.answer(&run, json!({"exitCode": 0, "success": true, "stdout": "there"})).await;
    end_of(&client, "run-1").await;
    let lines = told(&mut client, "main").await;
    assert!(lines.iter().any(|(_, text)| text.contains("there")), "{lines:?}");
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn a_command_that_would_go_elsewhere_by_now_does_not_run_on_the_node_that_was_shown() {
    let (gateway, _mock) = on_nodes(json!({"security": "full", "ask": "always"})).await;
    let mut client = admin(&gateway).await;
    let own = NodeClient::connect(&gateway, "Own", "linux", &["system.run"]).await;
    let other = NodeClient::connect(&gateway, "Other", "linux", &["system.run"]).await;
    for (member, value) in [("execNode", "other"), ("execHost", "sandbox")] {
        let (key, run) = (format!("agent:main:{value}"), format!("run-{value}"));
        call(&mut client, "sessions.patch", json!({"key": key, "execNode": "own"})).await;
        start(&mut client, &key, RUN, &run).await;
        let wanted = |frame: &Value| {
            frame["event"] == "exec.approval.requested"
                && frame["payload"]["request"]["sessionKey"] == key
        };
        let id = client.wait_for(SOON, wanted).await.expect("a question")["payload"]["id"].clone();
        call(&mut client, "sessions.patch", json!({"key": key, (member): value})).await;
        let decision = json!({"id": id, "decision": "allow-once"});
        call(&mut client, "exec.approval.resolve", decision).await;
        end_of(&client, &run).await;
        let lines = told(&mut client, &key).await;
        let is_denied = |text: &str| text.contains("changed-since-approval");
        assert!(lines.iter().any(|(_, text)| is_denied(text)), "{member}: {lines:?}");
    }
    assert!(own.requests().is_empty() && other.requests().is_empty());
}

#[tokio::test]
async fn a_confined_session_does_not_get_out_by_way_of_a_node() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["sandbox"] = json!({"mode": "all"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let node = NodeClient::connect(&gateway, "Box", "linux", &["system.run"]).await;
    let asked = json!({"command": "id", "host": "node"});
    let text = format!("@mock tool name=exec args={asked} then=\"no\"");
    start(&mut client, "main", &text, "run-1").await;
    end_of(&client, "run-1").await;
    let lines = told(&mut client, "main").await;
    assert!(lines[2].1.starts_with("exec host not allowed"), "{lines:?}");
    assert!(node.requests().is_empty());
}

#[tokio::test]
async fn a_node_has_so_many_invocations_at_a_time_and_others_are_told_to_wait() {
    let gateway = gateway().await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    // Of one connection 64 requests may be under way.
    let mut clients = [admin(&gateway).await, admin(&gateway).await];
    for index in 0..64 {
        let client = &mut clients[index / 32];
        invoke(client, &format!("i-{index}"), &phone.id, "location.get", json!({})).await;
    }
    phone.asked("location.get", 64).await;
    invoke(&mut clients[0], "more", &phone.id, "location.get", json!({})).await;
    let busy = invoked(&clients[0], "more").await;
    let text = busy["error"]["message"].as_str().unwrap();
    assert!(text.starts_with("too many invocations of this node"), "{busy}");
    for request in phone.requests() {
        phone.answer(&request, json!({"lat": 1})).await;
    }
    for index in 0..64 {
        let answer = invoked(&clients[index / 32], &format!("i-{index}")).await;
        assert_eq!(answer["ok"], true, "{answer}");
    }
}
