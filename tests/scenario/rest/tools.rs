//! `POST /tools/invoke`.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{answer, asking, failed, gateway, open_gateway, told};
use crate::exec::{all_die, pid_in};
use crate::stage::{admin, ask, call};
use crate::support::client::SOON;
use crate::support::guest::{Guest, proxied_config};
use crate::support::{Gateway, GatewayOptions, SECRET, WsClient};

const PATH: &str = "/tools/invoke";

fn invoking(gateway: &Gateway, body: &Value) -> reqwest::RequestBuilder {
    asking(gateway, Method::POST, PATH).body(body.to_string())
}

/// A gateway whose clients may run commands themselves.
async fn with_commands(exec: Value) -> (Gateway, crate::support::MockProvider) {
    gateway(|config| {
        config["gateway"]["tools"] = json!({"allow": ["exec"]});
        config["tools"]["exec"] = exec;
    })
    .await
}

#[tokio::test]
async fn what_was_recorded_is_answered_as_recorded() {
    let (gateway, _mock) = gateway(|_| ()).await;
    let unauthorized = r#"{"error":{"message":"Unauthorized","type":"unauthorized"}}"#;
    let asked = invoking(&gateway, &json!({"tool": "sessions_list", "args": {}}));
    assert_eq!(answer(asked).await, (401, unauthorized.into()));
    let by_get = asking(&gateway, Method::GET, PATH).bearer_auth(SECRET).send().await.unwrap();
    assert_eq!(
        (by_get.status().as_u16(), &by_get.headers()["allow"]),
        (405, &"POST".parse().unwrap())
    );
    assert_eq!(by_get.text().await.unwrap(), "Method Not Allowed");
    for (body, status, expected) in [
        (
            r#"{"tool":"sessions_list","action":"json","args":{}}"#,
            200,
            r#"{"ok":true,"result":{"content":[{"type":"text","text":"{\n  \"count\": 0,\n  \"sessions\": []\n}"}],"details":{"count":0,"sessions":[]}}}"#,
        ),
        (
            "{}",
            400,
            r#"{"ok":false,"error":{"type":"invalid_request","message":"tools.invoke requires name"}}"#,
        ),
        (
            r#"{"model":"openclaw","messages":[{"role":"user","content":"x"}]}"#,
            400,
            r#"{"ok":false,"error":{"type":"invalid_request","message":"tools.invoke requires name"}}"#,
        ),
        (
            r#"{"tool":"nope"}"#,
            404,
            r#"{"ok":false,"error":{"type":"not_found","message":"Tool not available: nope"}}"#,
        ),
        (
            r#"{"tool":"exec","args":{"command":"echo hi"}}"#,
            404,
            r#"{"ok":false,"error":{"type":"not_found","message":"Tool not available: exec"}}"#,
        ),
        (
            r#"{"tool":"read","args":{"path":"notes.txt"}}"#,
            404,
            r#"{"ok":false,"error":{"type":"not_found","message":"Tool not available: read"}}"#,
        ),
    ] {
        let asked = asking(&gateway, Method::POST, PATH).bearer_auth(SECRET).body(body);
        assert_eq!(answer(asked).await, (status, expected.into()), "{body}");
    }
    let asked = asking(&gateway, Method::POST, PATH).body("{oops");
    let (status, said) = told(asked).await;
    assert_eq!((status, &said["error"]["type"]), (400, &json!("invalid_request_error")), "{said}");
    let (_, said) = told(invoking(&gateway, &json!({"tool": "agents_list"}))).await;
    let details = &said["result"]["details"];
    assert_eq!((&details["requester"], &details["allowAny"]), (&json!("main"), &json!(false)));
    assert_eq!(details["agents"][0]["model"], "mock/mock-1", "{said}");
    let status =
        json!({"tool": "session_status", "args": {}, "sessionKey": "main", "dryRun": true});
    let (_, said) = told(invoking(&gateway, &status)).await;
    let details = &said["result"]["details"];
    assert_eq!((&said["ok"], &details["ok"]), (&json!(true), &json!(true)));
    assert_eq!(details["statusText"], said["result"]["content"][0]["text"]);
    assert!(details["statusText"].as_str().unwrap().contains("Model: mock/mock-1"), "{said}");
}

#[tokio::test]
async fn the_scopes_that_a_request_names_count_where_there_is_no_credential() {
    let (gateway, _mock) = open_gateway().await;
    let asked = || invoking(&gateway, &json!({"tool": "agents_list"}));
    assert_eq!(answer(asked()).await.0, 200);
    let (status, said) = answer(asked().header("x-openclaw-scopes", "operator.read")).await;
    let expected =
        r#"{"ok":false,"error":{"type":"forbidden","message":"missing scope: operator.write"}}"#;
    assert_eq!((status, said.as_str()), (403, expected));
}

#[tokio::test]
async fn an_answer_is_what_the_method_answers_and_true_of_the_session() {
    let (gateway, _mock) = gateway(|_| ()).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "agent:main:garden", "@mock text text=\"hello\"", "run-1").await;
    let (_, said) = told(invoking(
        &gateway,
        &json!({"tool": "sessions_list",
        "sessionKey": "agent:main:garden"}),
    ))
    .await;
    let by_method = json!({"name": "sessions_list", "sessionKey": "agent:main:garden"});
    let by_method = call(&mut client, "tools.invoke", by_method).await;
    assert_eq!(said["result"], by_method["output"]);
    let row = &said["result"]["details"]["sessions"][0];
    assert_eq!((&row["key"], &row["agentId"]), (&json!("agent:main:garden"), &json!("main")));
    assert_eq!(row["deliveryContext"], json!({"channel": "webchat"}), "{row}");
    assert_eq!((&row["origin"]["provider"], &row["systemSent"]), (&json!("webchat"), &json!(true)));
    assert!(row["estimatedCostUsd"].is_number(), "{row}");
    let path = row["transcriptPath"].as_str().unwrap();
    assert!(std::fs::exists(path).unwrap(), "{path}");
    let (_, said) = told(invoking(
        &gateway,
        &json!({"tool": "session_status",
        "sessionKey": "agent:main:garden"}),
    ))
    .await;
    assert_eq!(said["result"]["details"]["sessionKey"], "agent:main:garden");
    let mismatch = json!({"tool": "agents_list", "sessionKey": "agent:main:garden",
        "agentId": "ops"});
    let why = "agent id \"ops\" does not match session agent \"main\"";
    assert_eq!(told(invoking(&gateway, &mismatch)).await, (400, failed("invalid_request", why)));
}

#[tokio::test]
async fn a_wrong_request_is_told_where_it_is_wrong() {
    let (gateway, _mock) = gateway(|_| ()).await;
    let invalid = |why: &str| (400, failed("invalid_request", why));
    let wrong = json!({"tool": "agents_list", "args": [1]});
    let why = "invalid tools.invoke params: at /args: must be object";
    assert_eq!(told(invoking(&gateway, &wrong)).await, invalid(why));
    let wrong = json!({"tool": "session_status", "args": {"x": 1}});
    let (status, said) = told(invoking(&gateway, &wrong)).await;
    assert_eq!((status, &said["error"]["type"]), (400, &json!("invalid_request")));
    let why = said["error"]["message"].as_str().unwrap();
    assert!(why.contains("root: must not have additional properties x"), "{why}");
    // An action goes to tools that have one, and not over one that is there.
    let kill = json!({"tool": "subagents", "action": "kill"});
    let (_, said) = told(invoking(&gateway, &kill)).await;
    assert_eq!(said["result"]["details"]["error"], "target required", "{said}");
    let list = json!({"tool": "subagents", "action": "kill", "args": {"action": "list"}});
    let (_, said) = told(invoking(&gateway, &list)).await;
    assert_eq!(said["result"]["details"]["action"], "list", "{said}");
}

#[tokio::test]
async fn a_large_body_is_refused_before_it_is_sent() {
    let (gateway, _mock) = gateway(|_| ()).await;
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SECRET}\r\nContent-Length: 3145728\r\n\r\n"
    );
    tcp.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(SOON, tcp.read_to_end(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let fits = json!({"tool": "agents_list", "pad": "x".repeat(2 * 1024 * 1024 - 64)});
    assert_eq!(told(invoking(&gateway, &fits)).await.0, 200);
}

#[tokio::test]
async fn nothing_that_reaches_far_is_called_unless_the_configuration_says_so() {
    let (gateway, _mock) = gateway(|config| {
        config["gateway"]["tools"] = json!({"deny": ["sessions_list"]});
        config["agents"]["list"] = json!([{"id": "main"},
            {"id": "quiet", "tools": {"deny": ["session_status"]}}]);
    })
    .await;
    let unavailable =
        |name: &str| (404, failed("not_found", &format!("Tool not available: {name}")));
    for name in [
        "exec",
        "process",
        "spawn",
        "shell",
        "read",
        "write",
        "edit",
        "apply_patch",
        "fs_write",
        "fs_delete",
        "fs_move",
        "sessions_spawn",
        "sessions_send",
        "gateway",
        "cron",
        "nodes",
        "sessions_list",
        "whatsapp_login",
    ] {
        let asked = invoking(&gateway, &json!({"tool": name, "args": {}}));
        assert_eq!(told(asked).await, unavailable(name));
    }
    let asked = json!({"tool": "session_status", "agentId": "quiet"});
    assert_eq!(told(invoking(&gateway, &asked)).await, unavailable("session_status"));
    assert_eq!(told(invoking(&gateway, &json!({"tool": "session_status"}))).await.0, 200);
}

#[tokio::test]
async fn what_is_for_the_owner_is_for_admins_and_readers_call_nothing() {
    let mut config = proxied_config();
    config["gateway"]["tools"] = json!({"allow": ["cron"]});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let list = json!({"tool": "cron", "action": "list"});
    for (scope, status, kind) in [
        ("operator.admin", 200, None),
        ("operator.write", 404, Some("not_found")),
        ("operator.read", 403, Some("forbidden")),
    ] {
        let token = Guest::new(scope, &[scope]).token(&gateway).await;
        let (met, said) = answer(invoking(&gateway, &list).bearer_auth(token)).await;
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((met, said["error"]["type"].as_str()), (status, kind), "{scope}: {said}");
    }
}

#[tokio::test]
async fn a_command_waits_for_the_approval_that_any_command_needs() {
    let (gateway, _mock) = with_commands(json!({"security": "allowlist", "ask": "always"})).await;
    let mut client = admin(&gateway).await;
    let body = json!({"tool": "exec", "args": {"command": "echo was here"}});
    for (decision, is_run) in [("deny", false), ("allow-once", true)] {
        let deciding = decide(&mut client, "exec.approval", decision);
        let ((status, said), ()) = tokio::join!(told(invoking(&gateway, &body)), deciding);
        assert_eq!(status == 200 && said.to_string().contains("was here"), is_run, "{said}");
        client = admin(&gateway).await;
    }
}

#[tokio::test]
async fn a_command_that_fails_says_why_and_what_it_has_printed() {
    let (gateway, _mock) = with_commands(json!({"security": "full", "ask": "off"})).await;
    let asked = |args: Value| invoking(&gateway, &json!({"tool": "exec", "args": args}));
    let fails = told(asked(json!({"command": "echo one; echo two; kill -KILL $$"}))).await;
    let why = "Command aborted by signal SIGKILL\n\none\ntwo";
    assert_eq!(fails, (400, failed("tool_error", why)));
    let late = told(asked(json!({"command": "echo one; sleep 600", "timeout": 1}))).await;
    let why = late.1["error"]["message"].as_str().unwrap();
    assert!(why.starts_with("Command timed out after 1 seconds."), "{why}");
    assert!(why.ends_with("\n\none"), "{why}");
    let mut client = admin(&gateway).await;
    let params = json!({"name": "exec", "args": {"command": "echo one; kill -KILL $$"}});
    let answer = call(&mut client, "tools.invoke", params).await;
    let why = "Command aborted by signal SIGKILL\n\none";
    assert_eq!(answer["error"]["message"], why, "{answer}");
    // With a code other than 0 a command is done all the same, as in the original.
    let (status, said) = told(asked(json!({"command": "echo one; exit 3"}))).await;
    let text = "one\n\n(Command exited with code 3)";
    assert_eq!((status, &said["result"]["content"][0]["text"]), (200, &json!(text)), "{said}");
}

#[tokio::test]
async fn variables_that_are_written_as_numbers_are_taken() {
    let (gateway, _mock) = with_commands(json!({"security": "full", "ask": "off"})).await;
    let args = json!({"command": "echo port $PORT", "env": {"PORT": 3000}});
    let (status, said) = told(invoking(&gateway, &json!({"tool": "exec", "args": args}))).await;
    assert_eq!((status, &said["result"]["content"][0]["text"]), (200, &json!("port 3000")));
}

/// Decides on the next question of a kind.
async fn decide(client: &mut WsClient, kind: &str, decision: &str) {
    let event = format!("{kind}.requested");
    let question = client.wait_for(SOON, |frame| frame["event"] == event.as_str()).await;
    let id = question.expect("a question")["payload"]["id"].clone();
    let params = json!({"id": id, "decision": decision});
    call(client, &format!("{kind}.resolve"), params).await;
}

#[tokio::test]
async fn who_goes_away_stops_what_he_has_called() {
    let (gateway, _mock) = with_commands(json!({"security": "full", "ask": "off"})).await;
    let body = json!({"tool": "exec", "args": {"command": "echo $$ > tool.pid; sleep 600"}});
    let file = gateway.workspace().join("tool.pid");
    let pid = tokio::select! {
        answer = told(invoking(&gateway, &body)) => panic!("{answer:?}"),
        pid = pid_in(&file) => pid,
    };
    all_die(&[pid]).await;
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_a_call_with_a_key_is_done_once() {
    let (gateway, _mock) = with_commands(json!({"security": "full", "ask": "off"})).await;
    let count = "echo x >> count; wc -l < count";
    let dry = json!({"tool": "exec", "args": {"command": count}, "dryRun": true});
    let why = "this tool changes something, so it cannot be called with dryRun";
    assert_eq!(told(invoking(&gateway, &dry)).await, (400, failed("invalid_request", why)));
    let once = json!({"tool": "exec", "args": {"command": count}, "idempotencyKey": "k"});
    let (status, first) = told(invoking(&gateway, &once)).await;
    assert_eq!(status, 200, "{first}");
    assert_eq!(told(invoking(&gateway, &once)).await, (200, first));
    let written = std::fs::read_to_string(gateway.workspace().join("count")).unwrap();
    assert_eq!(written, "x\n");
}

#[tokio::test]
async fn a_key_tells_nothing_of_a_call_that_somebody_else_or_something_else_was() {
    let mut config = proxied_config();
    config["gateway"]["tools"] = json!({"allow": ["cron"]});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let owner = Guest::new("owner", &["operator.admin"]).token(&gateway).await;
    let writer = Guest::new("writer", &["operator.write"]).token(&gateway).await;
    let with_key = |name: &str| json!({"tool": name, "args": {}, "idempotencyKey": "1"});
    let called = async |token: &str, body: &Value| {
        let (status, said) = answer(invoking(&gateway, body).bearer_auth(token)).await;
        (status, serde_json::from_str::<Value>(&said).unwrap())
    };
    let mut list = with_key("cron");
    list["action"] = json!("list");
    assert_eq!(called(&owner, &list).await.0, 200);
    let why = "Tool not available: cron";
    assert_eq!(called(&writer, &list).await, (404, failed("not_found", why)));
    let (status, own) = called(&writer, &with_key("session_status")).await;
    assert_eq!((status, &own["result"]["details"]["ok"]), (200, &json!(true)), "{own}");
    let why = "idempotencyKey was used for another call";
    let other = called(&writer, &with_key("agents_list")).await;
    assert_eq!(other, (400, failed("invalid_request", why)));
    assert_eq!(called(&writer, &with_key("session_status")).await, (200, own));
}

#[tokio::test]
async fn who_is_removed_while_a_body_comes_is_let_in_no_more() {
    let gateway = Gateway::start(GatewayOptions::with_config(proxied_config())).await;
    let guest = Guest::new("guest", &["operator.write"]);
    let token = guest.token(&gateway).await;
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
    );
    tcp.write_all(head.as_bytes()).await.unwrap();
    let mut waits = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    tokio::time::timeout(SOON, tcp.read_exact(&mut waits)).await.unwrap().unwrap();
    assert!(waits.starts_with(b"HTTP/1.1 100 "));
    let mut operator = admin(&gateway).await;
    call(&mut operator, "device.pair.remove", json!({"deviceId": guest.id()})).await;
    let mut head = [0; 12];
    tokio::time::timeout(SOON, tcp.read_exact(&mut head)).await.unwrap().unwrap();
    assert_eq!(&head, b"HTTP/1.1 401");
}

#[tokio::test]
async fn guardrails_hold_for_what_a_client_calls_itself() {
    let (gateway, _mock) = gateway(|config| {
        config["tools"]["guardrails"] = json!({"enabled": true, "toolPolicies": {
            "interactive": {"session_status": "deny", "agents_list": "hitl"}}});
    })
    .await;
    let mut client = admin(&gateway).await;
    let why = "Denied by guardrail rule";
    let status = invoking(&gateway, &json!({"tool": "session_status"}));
    assert_eq!(told(status).await, (403, failed("tool_call_blocked", why)));
    let by_method = call(&mut client, "tools.invoke", json!({"name": "session_status"})).await;
    assert_eq!(by_method["error"], json!({"code": "forbidden", "message": why}));
    assert_eq!(told(invoking(&gateway, &json!({"tool": "sessions_list"}))).await.0, 200);

    let asked = told(invoking(&gateway, &json!({"tool": "agents_list"})));
    let ((status, said), ()) =
        tokio::join!(asked, decide(&mut client, "plugin.approval", "allow-once"));
    assert_eq!((status, &said["ok"]), (200, &json!(true)), "{said}");
}
