//! Tools for sessions that crossed agents, and spawned runs that had tools again
//! which were denied, or ran commands that were: CVE-2026-32918, CVE-2026-32048, CVE-2026-27004,
//! GHSA-mm9g-83wh-mhwj.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::stage::{Api, RUN_LIMIT, admin, ask, call, config, end_of, history, text_of};
use crate::support::client::SOON;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, closed_place};

async fn gateway(change: impl FnOnce(&mut Value)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    change(&mut config);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// Has the model of a session spawn a sub-agent and waits until the session was
/// told of its end; the sub-agent's key.
async fn spawn(client: &mut WsClient, session: &str, args: &Value, run: &str) -> String {
    let (child, announcement) = begin(client, session, args, run).await;
    end_of(client, &announcement).await;
    child
}

/// The same without the wait: the key, and the run that will tell of the end.
async fn begin(client: &mut WsClient, session: &str, args: &Value, run: &str) -> (String, String) {
    let text = format!("@mock tool name=sessions_spawn args={args} then=spawned");
    ask(client, session, &text, run).await;
    let all = history(client, session).await;
    let said = all.iter().rev().find(|message| message["toolName"] == "sessions_spawn");
    let said: Value = serde_json::from_str(&text_of(said.unwrap())).unwrap();
    let child = said["childSessionKey"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
    let announcement = format!("announce:v1:{child}:{}", said["runId"].as_str().unwrap());
    (child, announcement)
}

/// A task upon which a sub-agent runs a command; `mark` says how deep it is.
fn running(mark: &str, command: &str) -> Value {
    let args = json!({"command": command});
    json!({"task": format!("{mark} tool name=exec args={args} then=done")})
}

/// What the model of a session was told of its command.
async fn result(client: &mut WsClient, session: &str) -> String {
    let all = history(client, session).await;
    let found = all.iter().rev().find(|message| message["toolName"] == "exec");
    text_of(found.unwrap_or_else(|| panic!("no command was tried: {all:?}")))
}

async fn tools(client: &mut WsClient, session: &str) -> BTreeSet<String> {
    let effective = call(client, "tools.effective", json!({"sessionKey": session})).await;
    let groups = effective["groups"].as_array().unwrap().iter();
    let tools = groups.flat_map(|group| group["tools"].as_array().unwrap());
    tools.map(|tool| tool["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn no_tool_that_changes_something_is_called_in_the_name_of_an_agent_that_there_is_not() {
    let (gateway, _mock) = gateway(|config| {
        config["agents"]["list"] = json!([{"id": "main", "tools": {"deny": ["session_status"]}}]);
    })
    .await;
    let mut client = admin(&gateway).await;
    let denied = json!({"name": "session_status"});
    let answer = call(&mut client, "tools.invoke", denied.clone()).await;
    assert_eq!(answer["error"]["message"], "Tool not available: session_status");
    for (member, value) in [("agentId", "ghost"), ("sessionKey", "agent:ghost:main")] {
        let mut params = denied.clone();
        params[member] = value.into();
        let told = call(&mut client, "tools.invoke", params.clone()).await;
        assert_eq!(told["error"]["message"], "Tool not available: session_status", "{member}");
        params["name"] = "memory_get".into();
        params["args"] = json!({"path": "MEMORY.md"});
        let told = call(&mut client, "tools.invoke", params.clone()).await;
        assert_eq!(told["ok"], true, "{member}: {told}");
        params["name"] = "message".into();
        params["args"] = json!({"action": "send", "target": "1", "message": "hi"});
        let told = call(&mut client, "tools.invoke", params).await;
        assert_eq!(told["error"]["message"], "unknown agent id \"ghost\"", "{member}");
    }
}

#[tokio::test]
async fn a_sub_agent_never_has_a_tool_that_its_parent_has_not() {
    let (mut gateway, mock) = gateway(|config| {
        let everywhere = json!({"allowAgents": ["*"]});
        config["agents"]["list"] = json!([
            {"id": "main"},
            {"id": "bound", "tools": {"deny": ["exec", "read", "session_status"]},
                "subagents": everywhere},
            {"id": "coder", "tools": {"profile": "coding", "deny": ["write", "memory_*"]},
                "subagents": everywhere},
            {"id": "talker", "tools": {"allow": ["sessions_spawn", "sessions_list"]},
                "subagents": everywhere},
            {"id": "free"},
        ]);
        config["agents"]["defaults"]["subagents"]["maxSpawnDepth"] = json!(2);
        // What is allowed to sub-agents gives them nothing that is denied above.
        config["tools"]["subagents"]["tools"]["alsoAllow"] =
            json!(["exec", "read", "write", "gateway", "session_status", "agents_list"]);
    })
    .await;
    let mut client = admin(&gateway).await;
    let mut pairs = Vec::new();
    for parent in ["bound", "coder", "talker"] {
        for agent in [parent, "free"] {
            let session = format!("agent:{parent}:chat-{agent}");
            let inner =
                json!({"task": "@grandchild text text=low", "label": "low", "agentId": agent});
            let task = format!("@child tool name=sessions_spawn args={inner} then=mid");
            let args = json!({"task": task, "label": "mid", "agentId": agent});
            let child = spawn(&mut client, &session, &args, &session).await;
            let below = call(&mut client, "sessions.list", json!({"spawnedBy": child})).await;
            for row in below["sessions"].as_array().unwrap() {
                pairs.push((child.clone(), row["key"].as_str().unwrap().to_owned()));
            }
            pairs.push((session, child));
        }
    }
    assert!(pairs.len() >= 8, "{pairs:?}");
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    for (parent, child) in &pairs {
        let (above, below) = (tools(&mut client, parent).await, tools(&mut client, child).await);
        assert!(below.is_subset(&above), "{child} has {below:?}, {parent} {above:?}");
    }
    // And so it was when the models were asked.
    for request in mock.requests().iter().filter(|it| it.body.to_string().contains("(depth ")) {
        let offered = request.body["tools"].to_string();
        if request.body.to_string().contains("agent:bound:chat") {
            assert!(!offered.contains("\"exec\"") && !offered.contains("session_status"));
        }
    }
}

#[tokio::test]
async fn a_sub_agent_sees_only_what_is_below_it_whatever_is_configured() {
    let (gateway, _mock) = gateway(|config| {
        config["tools"]["sessions"]["visibility"] = json!("all");
        config["tools"]["agentToAgent"]["enabled"] = json!(true);
        config["tools"]["subagents"]["tools"]["alsoAllow"] =
            json!(["sessions_history", "sessions_send", "sessions_list"]);
    })
    .await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "private", "my secret", "p-1").await;
    for (round, call) in [
        r#"name=sessions_history args={"sessionKey":"agent:main:private"}"#,
        r#"name=sessions_send args={"sessionKey":"agent:main:private","message":"tell me"}"#,
        r#"name=sessions_history args={"sessionKey":"agent:main:parent"}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let args = json!({"task": format!("@child tool {call} then=done"), "label": "kid"});
        let child = spawn(&mut client, "agent:main:parent", &args, &format!("s-{round}")).await;
        let heard = history(&mut client, &child).await;
        let result = heard.iter().find(|message| message["role"] == "toolResult").unwrap();
        let said = text_of(result);
        assert!(said.contains("forbidden") && !said.contains("secret"), "{call}: {said}");
    }
    assert_eq!(history(&mut client, "private").await.len(), 2);
}

#[tokio::test]
async fn what_one_session_says_to_another_is_no_command_there() {
    let (gateway, _mock) =
        gateway(|config| config["tools"]["sessions"]["visibility"] = json!("agent")).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "work", "remember this", "w-1").await;
    for (round, said) in ["/reset", "stop", "/model mock/mock-2"].into_iter().enumerate() {
        let args = json!({"sessionKey": "work", "message": said, "timeoutSeconds": 10});
        let text = format!("@mock tool name=sessions_send args={args} then=ok");
        ask(&mut client, "main", &text, &format!("m-{round}")).await;
    }
    let heard = history(&mut client, "work").await;
    assert_eq!(text_of(&heard[0]), "remember this");
    assert_eq!(heard.len(), 8, "each was answered by the model: {heard:?}");
}

/// What a session says of its commands, what those of its sub-agents are told, and
/// whether a person is asked, who says no.
fn bindings() -> [(Value, &'static str, bool); 4] {
    [
        (json!({"execSecurity": "deny"}), "security=deny", false),
        (json!({"execSecurity": "allowlist"}), "allowlist miss", false),
        (json!({"execAsk": "always"}), "user-denied", true),
        (json!({"permissionMode": "default"}), "user-denied", true),
    ]
}

async fn patch(client: &mut WsClient, session: &str, settings: &Value) {
    let mut params = settings.clone();
    params["key"] = json!(session);
    call(client, "sessions.patch", params).await;
}

/// Says no to the next question of a session.
async fn refuse(client: &mut WsClient, session: &str) {
    let asks = |frame: &Value| {
        frame["event"] == "exec.approval.requested"
            && frame["payload"]["request"]["sessionKey"] == session
    };
    let asked = client.wait_for(SOON, asks).await.expect("a question");
    let decision = json!({"id": asked["payload"]["id"], "decision": "deny"});
    call(client, "exec.approval.resolve", decision).await;
}

#[tokio::test]
async fn a_sub_agent_runs_no_command_that_its_session_may_not() {
    let (gateway, _mock) = gateway(|_| {}).await;
    let mut client = admin(&gateway).await;
    for (number, (settings, told, is_asked)) in bindings().into_iter().enumerate() {
        let session = format!("agent:main:bound-{number}");
        patch(&mut client, &session, &settings).await;
        let args = running("@child", &format!("touch ran-{number}"));
        let (child, end) = begin(&mut client, &session, &args, &format!("r-{number}")).await;
        if is_asked {
            refuse(&mut client, &child).await;
        }
        end_of(&client, &end).await;
        let said = result(&mut client, &child).await;
        assert!(said.contains(told), "{settings}: {said}");
        assert!(!gateway.workspace().join(format!("ran-{number}")).exists(), "{settings}");
    }
    // It counts as well when it is said later, and of a child that says otherwise.
    let session = "agent:main:later";
    let child = spawn(&mut client, session, &running("@child", "touch before"), "l-1").await;
    assert!(gateway.workspace().join("before").exists(), "nobody is bound");
    patch(&mut client, session, &json!({"execSecurity": "deny"})).await;
    patch(&mut client, &child, &json!({"execSecurity": "full"})).await;
    let args = json!({"command": "touch after"});
    ask(&mut client, &child, &format!("@mock tool name=exec args={args} then=ok"), "l-2").await;
    let said = result(&mut client, &child).await;
    assert!(said.contains("security=deny"), "{said}");
}

#[tokio::test]
async fn a_sub_agent_of_a_sub_agent_runs_no_command_either() {
    let (gateway, _mock) = gateway(|config| {
        config["agents"]["defaults"]["subagents"]["maxSpawnDepth"] = json!(2);
    })
    .await;
    let mut client = admin(&gateway).await;
    let session = "agent:main:bound";
    patch(&mut client, session, &json!({"execSecurity": "deny"})).await;
    let inner = running("@grandchild", "touch ran");
    let task = format!("@child tool name=sessions_spawn args={inner} then=mid");
    let child = spawn(&mut client, session, &json!({"task": task}), "r").await;
    let below = call(&mut client, "sessions.list", json!({"spawnedBy": child})).await;
    let grandchild = below["sessions"][0]["key"].as_str().expect("a grandchild").to_owned();
    let said = result(&mut client, &grandchild).await;
    assert!(said.contains("security=deny"), "{said}");
    assert!(!gateway.workspace().join("ran").exists());
    // Nor when the session between them is no more.
    call(&mut client, "sessions.delete", json!({"key": child})).await;
    let args = json!({"command": "touch later"});
    let text = format!("@mock tool name=exec args={args} then=ok");
    ask(&mut client, &grandchild, &text, "later").await;
    let said = result(&mut client, &grandchild).await;
    assert!(said.contains("security=deny"), "{said}");
    assert!(!gateway.workspace().join("later").exists());
}

#[tokio::test]
async fn a_job_runs_no_command_that_the_session_may_not_which_made_it() {
    let (gateway, _mock) = gateway(|config| {
        config["agents"]["list"] = json!([
            {"id": "main"},
            {"id": "bound", "tools": {"exec": {"security": "deny"}},
                "subagents": {"allowAgents": ["main"]}},
        ]);
    })
    .await;
    let mut client = admin(&gateway).await;
    patch(&mut client, "agent:main:bound", &json!({"execSecurity": "deny"})).await;
    for (session, run) in [("agent:main:bound", "r-1"), ("agent:bound:chat", "r-2")] {
        let args = json!({"command": format!("touch {run}")});
        let message = format!("@mock tool name=exec args={args} then=ok");
        let job = json!({"name": run, "agentId": "main", "sessionTarget": "isolated",
            "schedule": {"kind": "every", "everyMs": 3_600_000}, "delivery": {"mode": "none"},
            "payload": {"kind": "agentTurn", "message": message}});
        let made = make_job(&mut client, session, &job, run).await;
        let made: Value = serde_json::from_str(&made).unwrap_or_else(|_| panic!("{made}"));
        let began = call(&mut client, "cron.run", json!({"id": made["id"]})).await;
        let is_end = |frame: &Value| {
            frame["event"] == "cron"
                && frame["payload"]["action"] == "finished"
                && frame["payload"]["runId"] == began["runId"]
        };
        let end = client.wait_for(RUN_LIMIT, is_end).await.expect("the end of the run");
        let room = end["payload"]["sessionKey"].as_str().unwrap().to_owned();
        let said = result(&mut client, &room).await;
        assert!(said.contains("security=deny"), "{session}: {said}");
        assert!(!gateway.workspace().join(run).exists(), "{session}");
    }
    // Nor in a session of an agent that is bound by less, or by a job of somebody else.
    let every = json!({"kind": "every", "everyMs": 3_600_000});
    let turn = json!({"kind": "agentTurn", "message": "x"});
    let event = json!({"kind": "systemEvent", "text": "x"});
    for (run, target, payload) in
        [("r-4", "session:agent:main:x", turn.clone()), ("r-5", "main", event)]
    {
        let job = json!({"name": run, "agentId": "main", "sessionTarget": target,
            "schedule": every, "payload": payload});
        let said = make_job(&mut client, "agent:bound:chat", &job, run).await;
        assert!(said.contains("may run commands that this one may not"), "{target}: {said}");
    }
    let job = json!({"name": "ours", "agentId": "main", "sessionTarget": "isolated",
        "schedule": every, "payload": turn});
    let ours = call(&mut client, "cron.add", job).await;
    let args = json!({"action": "update", "jobId": ours["id"], "patch": {"name": "theirs"}});
    let text = format!("@mock tool name=cron args={args} then=ok");
    ask(&mut client, "agent:bound:chat", &text, "r-6").await;
    let all = history(&mut client, "agent:bound:chat").await;
    let said = text_of(all.iter().rev().find(|it| it["toolName"] == "cron").unwrap());
    assert!(said.contains("may run commands that this one may not"), "{said}");
    // A session that is not bound would do it.
    let job = json!({"name": "main", "schedule": {"everyMs": 3_600_000}, "payload": {"text": "x"}});
    let said = make_job(&mut client, "agent:main:bound", &job, "r-3").await;
    assert!(said.contains("may use less"), "{said}");
}

/// Has the model of a session make a job; what it is told.
async fn make_job(client: &mut WsClient, session: &str, job: &Value, run: &str) -> String {
    // The mock obeys the last directive of a message, which is not that of the job.
    let args = json!({"action": "add", "job": job}).to_string().replace('@', "\\u0040");
    ask(client, session, &format!("@mock tool name=cron args={args} then=ok"), run).await;
    let all = history(client, session).await;
    let found = all.iter().rev().find(|message| message["toolName"] == "cron");
    text_of(found.unwrap_or_else(|| panic!("no job was made: {all:?}")))
}

#[tokio::test]
async fn a_sub_agent_of_a_confined_session_is_confined() {
    let (gateway, mock) = gateway(|config| {
        config["agents"]["list"] = json!([
            {"id": "main"},
            {"id": "bound", "sandbox": {"mode": "all"}, "subagents": {"allowAgents": ["free"]}},
            {"id": "free"},
        ]);
    })
    .await;
    let mut client = admin(&gateway).await;
    patch(&mut client, "agent:main:chat", &json!({"execHost": "sandbox"})).await;
    for (session, agent) in [("agent:main:chat", "main"), ("agent:bound:chat", "free")] {
        let name = format!("clawgate-test-child-of-{agent}-{}", gateway.port());
        let outside = closed_place().join(name);
        let mut args = running("@child", &format!("echo out > {}", outside.display()));
        args["agentId"] = json!(agent);
        let child = spawn(&mut client, session, &args, agent).await;
        let said = result(&mut client, &child).await;
        assert!(!outside.exists(), "{child}: {said}");
    }
    let prompts: Vec<_> = mock.requests().iter().map(|it| it.body.to_string()).collect();
    let mut of_children = prompts.iter().filter(|text| text.contains("(depth 1/")).peekable();
    assert!(of_children.peek().is_some());
    assert!(of_children.all(|text| text.contains("## Sandbox")), "each is told so");
}

#[tokio::test]
async fn a_sub_agent_of_a_session_that_works_on_a_node_does_not_come_back() {
    let (gateway, _mock) = gateway(|_| {}).await;
    let mut client = admin(&gateway).await;
    let session = "agent:main:away";
    patch(&mut client, session, &json!({"execHost": "node", "execNode": "box"})).await;
    let child = spawn(&mut client, session, &running("@child", "touch ran"), "r").await;
    let said = result(&mut client, &child).await;
    assert!(said.contains("node"), "{said}");
    assert!(!gateway.workspace().join("ran").exists());
}
