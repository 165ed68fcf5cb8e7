//! Commands that wait for a person, over real sockets and with real processes.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::stage::{
    Api, admin, call, config, connect, end_of, ends_of, events, history, refusal, send, start,
    text_of, until,
};
use crate::support::client::{ALL_SCOPES, SOON, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// A gateway with this policy, and its scripted model.
async fn place(exec: &Value) -> (Gateway, MockProvider) {
    place_in_mode(exec, "queue").await
}

async fn place_in_mode(exec: &Value, mode: &str) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["exec"] = exec.clone();
    config["messages"]["queue"] = json!({"mode": mode, "debounceMs": 0});
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// A message upon which the model runs a command and then says `done`.
fn running(command: &str) -> String {
    let arguments = json!({ "command": command });
    format!("@mock tool name=exec args={arguments} then=\"done\"")
}

/// A file that is only there when the command ran, and the command.
fn trace_of(gateway: &Gateway) -> (PathBuf, String) {
    let file = gateway.workspace().join("ran");
    let command = format!("touch {} && echo was here", file.display());
    (file, command)
}

/// The next question that a client is asked.
async fn question(client: &WsClient) -> Value {
    let asked = client.wait_for(SOON, |frame| frame["event"] == "exec.approval.requested").await;
    asked.unwrap_or_else(|| panic!("nobody asks: {:?}", client.frames()))["payload"].clone()
}

/// How a question ended, as a client is told.
async fn ending(client: &WsClient, id: &Value) -> Value {
    let told = client.wait_for(SOON, |frame| {
        frame["event"] == "exec.approval.resolved" && frame["payload"]["id"] == *id
    });
    told.await.unwrap_or_else(|| panic!("no end of {id}"))["payload"].clone()
}

async fn decide(client: &mut WsClient, id: &Value, decision: &str) -> Value {
    client.request("exec.approval.resolve", json!({"id": id, "decision": decision})).await
}

async fn open(client: &mut WsClient) -> Vec<Value> {
    let list = call(client, "exec.approval.list", json!({})).await;
    list.as_array().unwrap().clone()
}

/// What the model was told of its command.
async fn result(client: &mut WsClient, session: &str) -> Value {
    let messages = history(client, session).await;
    let result = messages.into_iter().rfind(|message| message["role"] == "toolResult");
    result.expect("a result")
}

/// The `approval` events of a run: phase and status.
fn told(client: &WsClient, run_id: &str) -> Vec<(String, String)> {
    let of = |payload: &Value, name: &str| payload["data"][name].as_str().unwrap().to_owned();
    events(client, "agent", run_id)
        .iter()
        .filter(|payload| payload["stream"] == "approval")
        .map(|payload| (of(payload, "phase"), of(payload, "status")))
        .collect()
}

#[tokio::test]
async fn a_command_waits_inside_its_run_which_ends_once() {
    let (gateway, _mock) = place(&json!({"security": "allowlist", "ask": "on-miss"})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    let mut decider = connect(&gateway, &standard_connect(&["operator.approvals"])).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let asked = question(&decider).await;
    assert_eq!(asked["request"]["command"], json!(command));
    assert_eq!(asked["request"]["cwd"], json!(gateway.workspace()));
    assert_eq!(asked["request"]["allowedDecisions"], json!(["allow-once", "allow-always", "deny"]));
    assert_eq!(open(&mut decider).await, std::slice::from_ref(&asked));
    assert!(ends_of(&client, "run-1").is_empty() && !file.exists());

    let answer = decide(&mut decider, &asked["id"], "allow-once").await;
    assert_eq!(answer["payload"], json!({"ok": true}));
    let end = end_of(&client, "run-1").await;
    assert_eq!((text_of(&end["message"]).as_str(), file.exists()), ("done", true));
    let told_all = ending(&client, &asked["id"]).await;
    assert_eq!(told_all["decision"], "allow-once");
    assert_eq!(told_all["request"], asked["request"]);
    assert_eq!(
        told(&client, "run-1"),
        [("requested", "pending"), ("resolved", "approved")]
            .map(|(phase, status)| (phase.to_owned(), status.to_owned()))
    );
    let cards = events(&client, "agent", "run-1");
    let states = cards.iter().filter(|card| card["data"]["kind"] == "command");
    let mut states: Vec<_> = states.map(|card| card["data"]["status"].clone()).collect();
    states.dedup();
    assert_eq!(states, ["running", "blocked", "running", "completed"]);
    let result = result(&mut client, "main").await;
    assert!(text_of(&result).contains("was here"), "{result}");
    assert_eq!(ends_of(&client, "run-1").len(), 1);
    assert!(open(&mut decider).await.is_empty());
}

#[tokio::test]
async fn a_command_that_is_denied_does_not_run_and_the_model_learns_why() {
    let (gateway, _mock) = place(&json!({"ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let asked = question(&client).await;
    let id = asked["id"].as_str().unwrap();
    // How the id begins is enough.
    let answer = decide(&mut client, &json!(id[..8]), "deny").await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(text_of(&end_of(&client, "run-1").await["message"]), "done");
    let result = result(&mut client, "main").await;
    let expected = format!("Exec denied (gateway id={id}, user-denied): {command}");
    assert_eq!((text_of(&result), &result["isError"]), (expected, &json!(true)));
    assert!(!file.exists());
    assert_eq!(told(&client, "run-1")[1].1, "denied");

    let again = decide(&mut client, &asked["id"], "deny").await;
    assert_eq!(again["ok"], true, "the same answer again is fine");
    let other = decide(&mut client, &asked["id"], "allow-once").await;
    assert_eq!(other["error"]["details"]["reason"], "APPROVAL_ALREADY_RESOLVED");
    assert!(!file.exists());
}

#[tokio::test]
async fn a_question_that_nobody_answers_is_a_no() {
    let (gateway, _mock) = place(&json!({"ask": "always", "approvalTimeoutMs": 200})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let asked = question(&client).await;
    assert_eq!(
        asked["expiresAtMs"].as_u64().unwrap() - asked["createdAtMs"].as_u64().unwrap(),
        200
    );
    end_of(&client, "run-1").await;
    let result = text_of(&result(&mut client, "main").await);
    assert!(result.contains("approval-timeout"), "{result}");
    assert!(open(&mut client).await.is_empty());
    let late = decide(&mut client, &asked["id"], "allow-once").await;
    assert_eq!(late["error"]["message"], "approval already resolved");
    assert!(!file.exists());
}

#[tokio::test]
async fn with_nobody_there_to_ask_it_is_a_no_at_once() {
    let (gateway, _mock) = place(&json!({"ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let writer = ["operator.read", "operator.write"];
    let mut client = connect(&gateway, &standard_connect(&writer)).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    end_of(&client, "run-1").await;
    let result = text_of(&result(&mut client, "main").await);
    assert!(result.contains("no-approval-route"), "{result}");
    assert!(!file.exists());
}

#[tokio::test]
async fn whoever_may_not_decide_sees_nothing_and_decides_nothing() {
    let (gateway, _mock) = place(&json!({"ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    let others = ["operator.read", "operator.write", "operator.pairing"];
    let mut other = connect(&gateway, &standard_connect(&others)).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let id = question(&client).await["id"].clone();
    let decision = json!({"id": id, "decision": "allow-once"});
    for (method, params) in [
        ("exec.approval.resolve", decision.clone()),
        ("exec.approvals.resolve", decision),
        ("exec.approval.list", json!({})),
        ("exec.approval.get", json!({"id": id})),
        ("exec.approval.waitDecision", json!({"id": id})),
    ] {
        let refused = refusal(&mut other, method, params).await;
        assert_eq!(refused, "missing scope: operator.approvals", "{method}");
    }
    decide(&mut client, &id, "deny").await;
    end_of(&other, "run-1").await;
    let seen = other.frames();
    let is_asked =
        |frame: &&Value| frame["event"].as_str().is_some_and(|it| it.contains("approval"));
    assert_eq!(seen.iter().find(is_asked), None);
    assert!(!file.exists());
}

#[tokio::test]
async fn a_question_outlives_the_connection_of_whoever_could_answer() {
    let (gateway, _mock) = place(&json!({"ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let asked = question(&client).await;
    drop(client);
    let mut client = admin(&gateway).await;
    assert_eq!(open(&mut client).await, std::slice::from_ref(&asked));
    assert!(!file.exists());
    decide(&mut client, &asked["id"], "allow-once").await;
    end_of(&client, "run-1").await;
    assert!(file.exists());
}

#[tokio::test]
async fn a_run_can_be_stopped_while_its_command_waits() {
    let (gateway, _mock) = place(&json!({"ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let id = question(&client).await["id"].clone();
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-1"})).await;
    assert_eq!(end_of(&client, "run-1").await["state"], "aborted");
    let told = ending(&client, &id).await;
    assert_eq!((&told["decision"], &told["resolvedBy"]), (&json!("deny"), &json!("gateway")));
    assert!(open(&mut client).await.is_empty());
    let late = decide(&mut client, &id, "allow-once").await;
    assert_eq!(late["error"]["message"], "approval already resolved");
    assert_eq!(ends_of(&client, "run-1").len(), 1);
    assert!(!file.exists());
}

#[tokio::test]
async fn a_message_that_steers_is_heard_after_the_answer_and_in_the_same_run() {
    let (gateway, mock) = place_in_mode(&json!({"ask": "always"}), "steer").await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let id = question(&client).await["id"].clone();
    let answer = send(&mut client, "main", "@mock text text=\"steered\"", "run-2").await;
    assert_eq!(answer["status"], "started", "{answer}");
    decide(&mut client, &id, "allow-once").await;
    let end = end_of(&client, "run-1").await;
    assert!(text_of(&end["message"]).contains("steered"), "{end}");
    assert!(file.exists());
    drop(mock);
}

#[tokio::test]
async fn a_restart_denies_what_was_being_asked() {
    let (mut gateway, _mock) = place(&json!({"ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let id = question(&client).await["id"].clone();
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    assert!(open(&mut client).await.is_empty());
    let late = decide(&mut client, &id, "allow-once").await;
    assert_eq!(late["error"]["details"]["reason"], "APPROVAL_NOT_FOUND");
    // Another command of that session is asked about anew.
    start(&mut client, "main", &running("uname"), "run-2").await;
    assert_ne!(question(&client).await["id"], id);
    assert!(!file.exists());
}

#[tokio::test]
async fn always_is_kept_in_the_file_and_speaks_for_that_program_only() {
    let (gateway, _mock) = place(&json!({"security": "allowlist", "ask": "on-miss"})).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &running("uname -s"), "run-1").await;
    let asked = question(&client).await;
    decide(&mut client, &asked["id"], "allow-always").await;
    end_of(&client, "run-1").await;
    let path = gateway.home().join(".openclaw/exec-approvals.json");
    let read = || -> Value { serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap() };
    let entry = read()["agents"]["main"]["allowlist"][0].clone();
    assert_eq!(
        (&entry["pattern"], &entry["source"]),
        (&asked["request"]["resolvedPath"], &json!("allow-always"))
    );

    // With other arguments it runs without a question, and that is noted.
    start(&mut client, "main", &running("uname -m"), "run-2").await;
    end_of(&client, "run-2").await;
    assert!(told(&client, "run-2").is_empty());
    assert!(!text_of(&result(&mut client, "main").await).contains("denied"));
    let used = until("the use is noted", async || {
        let entry = read()["agents"]["main"]["allowlist"][0].clone();
        (entry["lastUsedCommand"] == "uname -m").then_some(entry)
    });
    assert!(used.await["lastUsedAt"].as_u64() > entry["lastUsedAt"].as_u64());

    // In the company of another it is asked about.
    start(&mut client, "main", &running("uname -m; id"), "run-3").await;
    let asks = client.wait_for(SOON, |frame| {
        frame["event"] == "exec.approval.requested"
            && frame["payload"]["request"]["command"] == "uname -m; id"
    });
    let id = asks.await.expect("a question")["payload"]["id"].clone();
    decide(&mut client, &id, "deny").await;
    end_of(&client, "run-3").await;
}

#[tokio::test]
async fn always_is_not_offered_where_it_would_change_nothing() {
    let (gateway, _mock) = place(&json!({})).await;
    let mut client = admin(&gateway).await;
    for (number, session, rules, command) in [
        (1, "one", json!({"execAsk": "always"}), "uname"),
        (2, "two", json!({"execSecurity": "allowlist", "execAsk": "on-miss"}), "sh -c uname"),
    ] {
        let mut patch = rules;
        patch["key"] = json!(session);
        call(&mut client, "sessions.patch", patch).await;
        let run_id = format!("run-{number}");
        start(&mut client, session, &running(command), &run_id).await;
        let asked = client.wait_for(SOON, |frame| {
            frame["event"] == "exec.approval.requested"
                && frame["payload"]["request"]["command"] == command
        });
        let asked = asked.await.expect("a question")["payload"].clone();
        assert_eq!(asked["request"]["allowedDecisions"], json!(["allow-once", "deny"]));
        let refused = decide(&mut client, &asked["id"], "allow-always").await;
        let reason = &refused["error"]["details"]["reason"];
        assert_eq!(*reason, "APPROVAL_ALLOW_ALWAYS_UNAVAILABLE");
        assert_eq!(open(&mut client).await.len(), 1, "it still waits");
        decide(&mut client, &asked["id"], "deny").await;
        end_of(&client, &run_id).await;
    }
}

#[tokio::test]
async fn a_no_that_comes_while_a_command_waits_counts_more_than_the_yes() {
    let (gateway, _mock) = place(&json!({"ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let id = question(&client).await["id"].clone();
    call(&mut client, "sessions.patch", json!({"key": "main", "execSecurity": "deny"})).await;
    decide(&mut client, &id, "allow-once").await;
    end_of(&client, "run-1").await;
    let result = text_of(&result(&mut client, "main").await);
    assert!(result.contains("security=deny"), "{result}");
    assert!(!file.exists());
}

/// Changes the configuration.
async fn configure(client: &mut WsClient, patch: &Value) {
    let hash = call(client, "config.get", json!({})).await["hash"].clone();
    let raw = patch.to_string();
    call(client, "config.patch", json!({"raw": raw, "baseHash": hash})).await;
}

#[tokio::test]
async fn a_command_whose_tool_is_taken_away_while_it_waits_does_not_run() {
    let (gateway, _mock) = place(&json!({"ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let id = question(&client).await["id"].clone();
    configure(&mut client, &json!({"tools": {"deny": ["exec"]}})).await;
    decide(&mut client, &id, "allow-once").await;
    end_of(&client, "run-1").await;
    let result = text_of(&result(&mut client, "main").await);
    assert_eq!(result, format!("Exec denied (gateway, tool-denied): {command}"));
    assert!(!file.exists());
}

#[tokio::test]
async fn a_command_that_would_be_confined_by_now_does_not_run_as_it_was_shown() {
    let (gateway, _mock) = place(&json!({"ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let id = question(&client).await["id"].clone();
    call(&mut client, "sessions.patch", json!({"key": "main", "execHost": "sandbox"})).await;
    decide(&mut client, &id, "allow-once").await;
    end_of(&client, "run-1").await;
    let result = text_of(&result(&mut client, "main").await);
    assert!(result.contains("changed-since-approval"), "{result}");
    assert!(!file.exists());
}

#[tokio::test]
async fn a_tool_that_is_taken_away_while_a_person_is_asked_about_it_is_not_used() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["guardrails"] = json!({"enabled": true, "defaultStrategy": "hitl"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    for (key, called, patch) in [
        (
            "agent:main:one",
            "memory_search args={\"query\":\"x\"}",
            json!({"agents": {"defaults": {"memorySearch": {"enabled": false}}}}),
        ),
        ("agent:main:two", "session_status", json!({"tools": {"deny": ["session_status"]}})),
    ] {
        let message = format!("@mock tool name={called} then=done");
        start(&mut client, key, &message, key).await;
        let wanted = |frame: &Value| {
            frame["event"] == "plugin.approval.requested"
                && frame["payload"]["request"]["sessionKey"] == key
        };
        let id = client.wait_for(SOON, wanted).await.expect("a question")["payload"]["id"].clone();
        configure(&mut client, &patch).await;
        let yes = json!({"id": id, "decision": "allow-once"});
        call(&mut client, "plugin.approval.resolve", yes).await;
        end_of(&client, key).await;
        let result = text_of(&result(&mut client, key).await);
        assert!(result.contains("the tool may not be used any more"), "{called}: {result}");
    }
}

#[tokio::test]
async fn a_session_that_may_run_nothing_asks_nobody() {
    let (gateway, _mock) = place(&json!({"security": "deny", "ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    // A laxer word of the session is no help.
    call(&mut client, "sessions.patch", json!({"key": "main", "execSecurity": "full"})).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    end_of(&client, "run-1").await;
    let result = text_of(&result(&mut client, "main").await);
    assert_eq!(result, "exec denied: host=gateway security=deny");
    assert!(told(&client, "run-1").is_empty() && !file.exists());
}

#[tokio::test]
async fn dashboards_get_a_question_flat_and_answer_in_their_own_words() {
    let (gateway, _mock) = place(&json!({"ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let mut params = standard_connect(&ALL_SCOPES);
    params["userAgent"] = json!("openclaw-dashboard/1.0");
    let mut client = connect(&gateway, &params).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let asked = question(&client).await;
    assert_eq!(
        (&asked["command"], &asked["agentId"], &asked["sessionKey"], &asked["cwd"]),
        (&json!(command), &json!("main"), &json!("main"), &json!(gateway.workspace()))
    );
    assert!(asked["requestedAt"].as_str().unwrap().ends_with('Z'), "{asked}");
    let list = call(&mut client, "exec.approvals.list", json!({})).await;
    assert_eq!(list, json!({"approvals": [asked]}));
    let wrong = json!({"id": asked["id"], "decision": "maybe"});
    assert_eq!(refusal(&mut client, "exec.approvals.resolve", wrong).await, "invalid decision");
    let yes = json!({"id": asked["id"], "decision": "allow_once"});
    call(&mut client, "exec.approvals.resolve", yes).await;
    end_of(&client, "run-1").await;
    assert!(file.exists());
}

#[tokio::test]
async fn a_question_asked_by_a_client_is_answered_by_another_only() {
    let (gateway, _mock) = place(&json!({})).await;
    let mut asker = connect(&gateway, &standard_connect(&["operator.approvals"])).await;
    let alone = call(&mut asker, "exec.approval.request", json!({"command": "ls"})).await;
    assert_eq!(alone["decision"], Value::Null, "nobody else is there");

    let mut decider = connect(&gateway, &standard_connect(&["operator.approvals"])).await;
    let id = json!("mine-1");
    let asking = async {
        let params = json!({"id": id, "command": "ls -l", "timeoutMs": 20_000});
        call(&mut asker, "exec.approval.request", params).await
    };
    let answering = async {
        let asked = question(&decider).await;
        assert_eq!((&asked["id"], &asked["request"]["command"]), (&id, &json!("ls -l")));
        decide(&mut decider, &id, "deny").await
    };
    let (answer, decided) = tokio::join!(asking, answering);
    assert_eq!((&answer["decision"], &decided["ok"]), (&json!("deny"), &json!(true)));
}

#[tokio::test]
async fn a_question_larger_than_anybody_reads_is_not_asked() {
    let (gateway, _mock) = place(&json!({})).await;
    let (mut asker, mut decider) = (admin(&gateway).await, admin(&gateway).await);
    let large = "x".repeat(300 * 1024);
    for (method, params) in [
        ("exec.approval.request", json!({"command": "ls", "cwd": large})),
        ("plugin.approval.request", json!({"title": "t", "description": "d", "toolName": large})),
    ] {
        let refused = refusal(&mut asker, method, params).await;
        assert!(refused.ends_with("at most 262144 are asked"), "{refused}");
    }
    assert_eq!(open(&mut decider).await, Vec::<Value>::new());
}

/// Tasks of the gateway.
async fn tasks(client: &mut WsClient) -> u64 {
    let health = call(client, "health", json!({"probe": true})).await;
    health["services"]["tasks"]["alive"].as_u64().unwrap()
}

#[tokio::test]
async fn nobody_waits_for_a_decision_whose_connection_has_gone_and_the_question_stays() {
    const ASKED: u64 = 20;
    let (gateway, _mock) = place(&json!({})).await;
    let (mut client, mut other) = (admin(&gateway).await, admin(&gateway).await);
    let before = tasks(&mut client).await;
    let id = json!("mine-1");
    let params = json!({"id": id, "command": "ls -l", "timeoutMs": 600_000});
    let ask = json!({"type": "req", "id": "q", "method": "exec.approval.request",
        "params": params});
    other.send(&ask).await;
    assert_eq!(question(&client).await["id"], id);
    for index in 0..ASKED {
        let wait = json!({"type": "req", "id": format!("w{index}"),
            "method": "exec.approval.waitDecision", "params": {"id": id}});
        other.send(&wait).await;
    }
    // Few others come and go meanwhile.
    until("all wait", async || (tasks(&mut client).await >= before + ASKED / 2).then_some(()))
        .await;
    other.close().await;
    until("nobody waits", async || (tasks(&mut client).await < before + ASKED / 2).then_some(()))
        .await;
    assert_eq!(open(&mut client).await.len(), 1);
    assert_eq!(decide(&mut client, &id, "deny").await["ok"], true);
}

#[tokio::test]
async fn commands_of_several_sessions_wait_side_by_side() {
    let (gateway, _mock) = place(&json!({"ask": "always"})).await;
    let mut client = admin(&gateway).await;
    for number in 0..3 {
        let session = format!("s{number}");
        start(&mut client, &session, &running("uname"), &format!("run-{number}")).await;
    }
    let all = until("three questions", async || {
        let open = open(&mut client).await;
        (open.len() == 3).then_some(open)
    });
    for asked in all.await {
        decide(&mut client, &asked["id"], "allow-once").await;
    }
    for number in 0..3 {
        let end = end_of(&client, &format!("run-{number}")).await;
        assert_eq!(text_of(&end["message"]), "done");
    }
    assert!(open(&mut client).await.is_empty());
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_keeps_no_other_from_its_place() {
    for (setting, value, message, of) in [
        ("exec", json!({"ask": "always"}), running("uname"), "exec.approval"),
        (
            "guardrails",
            json!({"enabled": true, "defaultStrategy": "hitl"}),
            "@mock tool name=session_status then=done".to_owned(),
            "plugin.approval",
        ),
    ] {
        let mock = MockProvider::start().await;
        let mut config = config(mock.address(), Api::OpenAi);
        config["tools"][setting] = value;
        config["agents"]["defaults"]["maxConcurrent"] = json!(1);
        let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
        let mut client = admin(&gateway).await;
        start(&mut client, "main", &message, "run-1").await;
        let event = format!("{of}.requested");
        let asked = client.wait_for(SOON, |frame| frame["event"] == event.as_str()).await;
        let id = asked.unwrap_or_else(|| panic!("no {event}"))["payload"]["id"].clone();
        start(&mut client, "other", "@mock text text=meanwhile", "run-2").await;
        assert_eq!(text_of(&end_of(&client, "run-2").await["message"]), "meanwhile");
        assert!(ends_of(&client, "run-1").is_empty(), "{of}");
        let yes = json!({"id": id, "decision": "allow-once"});
        call(&mut client, &format!("{of}.resolve"), yes).await;
        assert_eq!(text_of(&end_of(&client, "run-1").await["message"]), "done", "{of}");
    }
}

#[tokio::test]
async fn a_word_in_the_chat_decides_with_the_right_of_whoever_says_it() {
    let (gateway, _mock) = place(&json!({"ask": "always"})).await;
    let (file, command) = trace_of(&gateway);
    let mut client = admin(&gateway).await;
    let writer = ["operator.read", "operator.write"];
    let mut writer = connect(&gateway, &standard_connect(&writer)).await;
    start(&mut client, "main", &running(&command), "run-1").await;
    let asked = question(&client).await;
    let words = format!("/approve {} allow-once", asked["id"].as_str().unwrap());
    send(&mut writer, "main", &words, "word-1").await;
    end_of(&writer, "word-1").await;
    assert_eq!(open(&mut client).await.len(), 1, "whoever may not decide changes nothing");
    send(&mut client, "main", &words, "word-2").await;
    end_of(&client, "run-1").await;
    assert!(file.exists());
}
