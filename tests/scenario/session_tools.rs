//! The tools by which sessions see each other.

use std::fs;

use serde_json::{Value, json};

use crate::stage::{
    admin, ask, call, end_of, ends_of, history, row, settles, text_of, told, until,
};
use crate::subagents::{gateway, gateway_with, spawn};
use crate::support::{Gateway, MockProvider, WsClient};

/// A message whose answer is this, once there is a file `go` in the workspace.
fn gated(then: &str) -> String {
    let args = json!({"command": "until test -e go; do sleep 0.05; done", "yieldMs": 120_000});
    format!("@mock tool name=exec args={args} then=\"{then}\"")
}

/// The run by which a session hears what another one answers.
fn coming(said: &Value) -> String {
    let (asked, run) = (said["sessionKey"].as_str().unwrap(), said["runId"].as_str().unwrap());
    format!("announce:v1:{asked}:{run}")
}

/// What a session has heard of another one, as people see it.
async fn heard_of(client: &mut WsClient, session: &str, other: &str) -> Vec<Value> {
    let mut all = history(client, session).await;
    all.retain(|message| message["provenance"]["sourceSessionKey"] == other);
    all
}

/// Has the model of a session call a tool; what the tool said.
async fn by_model(
    client: &mut WsClient,
    session: &str,
    tool: &str,
    args: Value,
    run: &str,
) -> Value {
    // What the arguments say to another model is not for this one.
    let args = args.to_string().replace('@', "\\u0040");
    let text = format!("@mock tool name={tool} args={args} then=ok");
    ask(client, session, &text, run).await;
    let all = history(client, session).await;
    let found = all.iter().rev().find(|message| message["toolName"] == tool);
    let text = text_of(found.unwrap_or_else(|| panic!("{tool} was not called: {all:?}")));
    serde_json::from_str(&text).unwrap_or(json!(text))
}

async fn seeing(visibility: &str, between_agents: Value) -> (Gateway, MockProvider) {
    gateway_with(|config| {
        config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops"}]);
        config["tools"]["sessions"]["visibility"] = json!(visibility);
        config["tools"]["agentToAgent"] = between_agents;
    })
    .await
}

#[tokio::test]
async fn a_session_speaks_to_another_and_gets_its_answer() {
    let (gateway, _mock) = seeing("agent", json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "helper", "hello", "h-1").await;
    let label = json!({"key": "helper", "label": "Helper"});
    call(&mut client, "sessions.patch", label).await;
    for (round, target) in [("sessionKey", "helper"), ("label", "Helper")].into_iter().enumerate() {
        let mut args = json!({"message": "what is up?", "timeoutSeconds": 10});
        args[target.0] = json!(target.1);
        let said =
            by_model(&mut client, "main", "sessions_send", args, &format!("m-{round}")).await;
        assert_eq!((&said["status"], &said["reply"]), (&json!("ok"), &json!("Echo: what is up?")));
        assert_eq!(said["sessionKey"], "agent:main:helper");
    }
    let heard = history(&mut client, "helper").await;
    let heard: Vec<_> = heard.iter().filter(|it| it["provenance"].is_object()).collect();
    assert_eq!(heard.len(), 2);
    assert_eq!(
        heard[0]["provenance"],
        json!({"kind": "inter_session", "sourceSessionKey": "agent:main:main",
            "sourceChannel": "webchat", "sourceTool": "sessions_send"})
    );
    assert!(text_of(heard[0]).contains("isUser=false"));
    // Clients may not, unless that is configured.
    let args = json!({"sessionKey": "helper", "message": "hi"});
    let params = json!({"name": "sessions_send", "args": args});
    let said = call(&mut client, "tools.invoke", params).await;
    assert_eq!(said["error"]["code"], "not_found", "{said}");
}

#[tokio::test]
async fn an_agent_that_nobody_has_talked_to_is_reached_and_no_short_name_begins_a_session() {
    let (gateway, _mock) = seeing("all", json!({"enabled": true})).await;
    let mut client = admin(&gateway).await;
    for (round, target) in ["agent:ops:main", "agent:main:new"].into_iter().enumerate() {
        let args = json!({"sessionKey": target, "message": "what is up?", "timeoutSeconds": 30});
        let said =
            by_model(&mut client, "asks", "sessions_send", args, &format!("n-{round}")).await;
        let reply = json!("Echo: what is up?");
        assert_eq!((&said["status"], &said["reply"]), (&json!("ok"), &reply), "{said}");
        assert_eq!(said["sessionKey"], target);
        assert_eq!(history(&mut client, target).await.len(), 2);
    }
    for (round, (named, key)) in [
        ("agent:nobody:main", "agent:nobody:main"),
        ("agent:ops:subagent:1", "agent:ops:subagent:1"),
        ("agent:ops:cron:1", "agent:ops:cron:1"),
        ("agent:ops:hook:1", "agent:ops:hook:1"),
        ("not-there", "agent:main:not-there"),
    ]
    .into_iter()
    .enumerate()
    {
        let args = json!({"sessionKey": named, "message": "what is up?"});
        let said =
            by_model(&mut client, "asks", "sessions_send", args, &format!("r-{round}")).await;
        let error = format!("No session found: {key}");
        assert_eq!(said, json!({"status": "error", "error": error}));
        assert_eq!(row(&mut client, key).await, Value::Null);
    }
}

#[tokio::test]
async fn an_answer_that_is_not_waited_for_comes_later_once_and_is_not_answered_back() {
    let (gateway, _mock) = seeing("agent", json!({})).await;
    let mut client = admin(&gateway).await;
    let (helper, go) = ("agent:main:helper", gateway.workspace().join("go"));
    for (round, seconds) in [0, 1].into_iter().enumerate() {
        let asks = format!("agent:main:asks-{round}");
        let args = json!({"sessionKey": helper, "message": gated("it is 42"),
            "timeoutSeconds": seconds});
        let said = by_model(&mut client, &asks, "sessions_send", args, &asks).await;
        let delivery = json!({"status": "pending", "mode": "announce"});
        let accepted = json!({"runId": said["runId"], "status": "accepted",
            "sessionKey": helper, "delivery": delivery});
        assert_eq!(said, accepted);
        assert_eq!(heard_of(&mut client, &asks, helper).await.len(), 0);
        fs::write(&go, "").unwrap();
        let end = end_of(&client, &coming(&said)).await;
        assert_eq!((&end["state"], &end["sessionKey"]), (&json!("final"), &json!(asks)));
        assert_eq!(text_of(&end["message"]), "Echo: it is 42");
        settles(&mut client, &asks, "done").await;
        let heard = heard_of(&mut client, &asks, helper).await;
        assert_eq!(heard.len(), 1, "{heard:?}");
        let source = json!({"kind": "inter_session", "sourceSessionKey": helper,
            "sourceChannel": "webchat", "sourceTool": "sessions_send"});
        assert_eq!(heard[0]["provenance"], source);
        let text = text_of(&heard[0]);
        let head = format!("[Inter-session message] sourceSession={helper} ");
        assert!(text.starts_with(&head) && text.ends_with("\nit is 42"), "{text}");
        // It was asked, and hears no more of it.
        assert_eq!(heard_of(&mut client, helper, &asks).await.len(), 1);
        fs::remove_file(&go).unwrap();
    }
}

#[tokio::test]
async fn no_answer_comes_to_a_session_that_was_stopped_reset_or_deleted_meanwhile() {
    let (gateway, _mock) = seeing("agent", json!({})).await;
    let mut client = admin(&gateway).await;
    let helper = "agent:main:helper";
    let mut given_up = Vec::new();
    for (round, (method, member)) in
        [("chat.abort", "sessionKey"), ("sessions.reset", "key"), ("sessions.delete", "key")]
            .into_iter()
            .enumerate()
    {
        let asks = format!("agent:main:asks-{round}");
        let args = json!({"sessionKey": helper, "message": gated("too late"),
            "timeoutSeconds": 0});
        let said = by_model(&mut client, &asks, "sessions_send", args, &asks).await;
        assert_eq!(said["status"], "accepted", "{said}");
        let mut of_session = json!({});
        of_session[member] = json!(asks);
        call(&mut client, method, of_session).await;
        // It is there again, and goes on with something else.
        ask(&mut client, &asks, "something else", &format!("else-{round}")).await;
        given_up.push((asks, said));
    }
    // Who was not stopped hears the answer to what was asked after those.
    let args = json!({"sessionKey": helper, "message": gated("in time"), "timeoutSeconds": 0});
    let said = by_model(&mut client, "asks", "sessions_send", args, "asks").await;
    fs::write(gateway.workspace().join("go"), "").unwrap();
    assert_eq!(text_of(&end_of(&client, &coming(&said)).await["message"]), "Echo: in time");
    let answered = told(&mut client, helper).await;
    assert_eq!(answered.iter().filter(|(_, text)| text == "too late").count(), 3, "{answered:?}");
    for (asks, said) in given_up {
        assert_eq!(heard_of(&mut client, &asks, helper).await.len(), 0, "{asks}");
        assert_eq!(ends_of(&client, &coming(&said)).len(), 0, "{asks}");
    }
}

#[tokio::test]
async fn a_silent_answer_does_not_come() {
    let (gateway, _mock) = seeing("agent", json!({})).await;
    let mut client = admin(&gateway).await;
    let mut all = Vec::new();
    for (run, message) in [("quiet", "@mock silent"), ("loud", "what is up?")] {
        let args = json!({"sessionKey": "agent:main:helper", "message": message,
            "timeoutSeconds": 0});
        all.push(by_model(&mut client, "main", "sessions_send", args, run).await);
    }
    assert_eq!(end_of(&client, &coming(&all[1])).await["state"], "final");
    assert_eq!(heard_of(&mut client, "main", "agent:main:helper").await.len(), 1);
}

fn skipped() -> Value {
    json!({"status": "skipped", "mode": "announce"})
}

#[tokio::test]
async fn no_answer_comes_to_a_job_that_has_ended() {
    let (gateway, _mock) = seeing("agent", json!({})).await;
    let mut client = admin(&gateway).await;
    let (helper, job) = ("agent:main:helper", "agent:main:cron:asks");
    let args = json!({"sessionKey": helper, "message": "what is up?", "timeoutSeconds": 0});
    let said = by_model(&mut client, job, "sessions_send", args, "asks").await;
    assert_eq!((&said["status"], &said["delivery"]), (&json!("accepted"), &skipped()), "{said}");
    settles(&mut client, helper, "done").await;
    assert_eq!(heard_of(&mut client, helper, job).await.len(), 1);
    assert_eq!(heard_of(&mut client, job, helper).await.len(), 0);
}

/// Has a session spawn a sub-agent and ask it while it works; what the two calls said.
async fn asked_at_work(client: &mut WsClient) -> (Value, Value) {
    let task = gated("done").replace("@mock", "@child");
    let spawned = spawn(client, "main", &[json!({"task": task})], "spawns").await.remove(0);
    let child = spawned["childSessionKey"].as_str().unwrap();
    until("its call", async || {
        let said = history(client, child).await;
        said.last()?["content"].to_string().contains("toolCall").then_some(())
    })
    .await;
    let args = json!({"sessionKey": child, "message": "what is up?", "timeoutSeconds": 0});
    let said = by_model(client, "main", "sessions_send", args, "asks").await;
    assert_eq!((&said["status"], &said["delivery"]), (&json!("accepted"), &skipped()), "{said}");
    (spawned, said)
}

#[tokio::test]
async fn a_sub_agent_that_is_asked_while_it_works_answers_with_its_result_alone() {
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let (spawned, said) = asked_at_work(&mut client).await;
    let child = said["sessionKey"].as_str().unwrap();
    fs::write(gateway.workspace().join("go"), "").unwrap();
    assert_eq!(end_of(&client, &result_of(&spawned)).await["state"], "final");
    assert_eq!(history(&mut client, child).await.last().map(text_of).unwrap(), "Echo: what is up?");
    assert_eq!(heard_of(&mut client, "main", child).await.len(), 1);
}

/// The run by which a session hears the result of a sub-agent.
fn result_of(spawned: &Value) -> String {
    coming(&json!({"sessionKey": spawned["childSessionKey"], "runId": spawned["runId"]}))
}

#[tokio::test]
async fn what_a_sub_agent_answers_after_its_task_was_stopped_is_told_beside_its_result() {
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let (spawned, said) = asked_at_work(&mut client).await;
    let child = said["sessionKey"].as_str().unwrap();
    let task = json!({"sessionKey": child, "runId": spawned["runId"]});
    call(&mut client, "chat.abort", task).await;
    let answer = end_of(&client, &coming(&said)).await;
    assert_eq!(answer["state"], "final", "{answer}");
    assert_eq!(end_of(&client, &result_of(&spawned)).await["state"], "final");
    let heard = heard_of(&mut client, "main", child).await;
    let of_tool = |tool: &str| {
        let mut found = heard.iter().filter(|message| message["provenance"]["sourceTool"] == tool);
        found.next().map(text_of).unwrap_or_default()
    };
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(of_tool("sessions_send").ends_with("\nEcho: what is up?"), "{heard:?}");
    assert!(!of_tool("subagent_announce").is_empty(), "{heard:?}");
}

#[tokio::test]
async fn what_a_session_does_not_see_it_cannot_reach_or_learn_of() {
    let tree =
        "visibility is restricted to the current session tree (tools.sessions.visibility=tree).";
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "other", "a secret", "o-1").await;
    for (round, (tool, args, word)) in [
        ("sessions_history", json!({"sessionKey": "other"}), "history"),
        ("sessions_history", json!({"sessionKey": "not-there"}), "history"),
        ("sessions_send", json!({"sessionKey": "other", "message": "hi"}), "send"),
        ("session_status", json!({"sessionKey": "other"}), "status"),
    ]
    .into_iter()
    .enumerate()
    {
        let said = by_model(&mut client, "main", tool, args, &format!("m-{round}")).await;
        let error = format!("Session {word} {tree}");
        assert_eq!(said, json!({"status": "forbidden", "error": error}), "{tool}");
    }
    let list = by_model(&mut client, "main", "sessions_list", json!({}), "list").await;
    assert_eq!(
        (&list["count"], &list["sessions"][0]["key"]),
        (&json!(1), &json!("agent:main:main"))
    );
    let self_send = json!({"sessionKey": "main", "message": "hi"});
    let said = by_model(&mut client, "main", "sessions_send", self_send, "self").await;
    assert_eq!(said["status"], "error");
    let label = json!({"label": "nobody", "message": "hi"});
    let said = by_model(&mut client, "main", "sessions_send", label, "label").await;
    assert_eq!(said["error"], "No session found with label: nobody");
}

#[tokio::test]
async fn agents_reach_each_other_only_where_the_config_says_so() {
    for (visibility, between, reaches) in [
        ("agent", json!({"enabled": true}), false),
        ("all", json!({}), false),
        ("all", json!({"enabled": true, "allow": ["main"]}), false),
        ("all", json!({"enabled": true}), true),
        ("self", json!({"enabled": true}), false),
    ] {
        let (gateway, _mock) = seeing(visibility, between.clone()).await;
        let mut client = admin(&gateway).await;
        ask(&mut client, "agent:ops:main", "ops business", "o-1").await;
        let args = json!({"sessionKey": "agent:ops:main", "limit": 5});
        let said = by_model(&mut client, "main", "sessions_history", args, "m-1").await;
        let is_read = said.to_string().contains("ops business");
        assert_eq!(is_read, reaches, "{visibility} {between}: {said}");
        let list = by_model(&mut client, "main", "sessions_list", json!({}), "m-2").await;
        assert_eq!(list.to_string().contains("agent:ops:main"), reaches, "{visibility}: {list}");
    }
}

#[tokio::test]
async fn a_list_shows_kinds_and_last_messages_and_a_history_leaves_tools_out() {
    let (gateway, _mock) = seeing("agent", json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "work", "@mock tool name=session_status then=looked", "w-1").await;
    ask(&mut client, "agent:main:discord:group:1", "hi all", "g-1").await;
    let args = json!({"messageLimit": 1, "kinds": ["other"]});
    let list = by_model(&mut client, "main", "sessions_list", args, "m-1").await;
    assert_eq!(list["count"], 1, "{list}");
    let row = &list["sessions"][0];
    assert_eq!((&row["key"], &row["kind"]), (&json!("agent:main:work"), &json!("other")));
    assert_eq!(text_of(&row["messages"][0]), "looked");
    assert!(!list.to_string().contains("usage"), "{list}");
    assert_eq!(row.get("transcriptPath").or(row.get("origin")), None, "only clients are told");
    for (tools, roles) in [
        (false, vec!["user", "assistant"]),
        (true, vec!["user", "assistant", "toolResult", "assistant"]),
    ] {
        let args = json!({"sessionKey": "work", "includeTools": tools});
        let read =
            by_model(&mut client, "main", "sessions_history", args, &format!("tools-{tools}"))
                .await;
        let said = read["messages"].as_array().unwrap().iter().map(|it| it["role"].clone());
        assert_eq!(said.collect::<Vec<_>>(), roles);
        assert!(!read.to_string().contains("usage"), "{read}");
        let params = json!({"key": "main"});
        call(&mut client, "sessions.reset", params).await;
    }
}

#[tokio::test]
async fn the_gateway_shows_how_it_is_and_no_secret() {
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let said = by_model(&mut client, "main", "gateway", json!({}), "m-1").await;
    assert_eq!((&said["ok"], &said["health"]["ok"]), (&json!(true), &json!(true)), "{said}");
    assert_eq!(said["configPath"], gateway.config_path().display().to_string());
    let status = call(&mut client, "tools.invoke", json!({"name": "session_status"})).await;
    let details = &status["output"]["details"];
    assert_eq!((&details["ok"], &details["changedModel"]), (&json!(true), &json!(false)));
    assert_eq!(details["statusText"], text_of(&status["output"]));
    let refused = call(&mut client, "tools.invoke", json!({"name": "gateway"})).await;
    assert_eq!(refused["error"]["code"], "not_found", "not for clients: {refused}");
}

#[tokio::test]
async fn a_session_gets_an_answer_also_where_one_run_goes_on_at_a_time() {
    let (gateway, _mock) = gateway_with(|config| {
        config["agents"]["defaults"]["maxConcurrent"] = json!(1);
        config["tools"]["sessions"]["visibility"] = json!("agent");
    })
    .await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "helper", "hello", "h-1").await;
    let args = json!({"sessionKey": "helper", "message": "what is up?", "timeoutSeconds": 15});
    let said = by_model(&mut client, "main", "sessions_send", args, "m-1").await;
    assert_eq!((&said["status"], &said["reply"]), (&json!("ok"), &json!("Echo: what is up?")));
}

#[tokio::test]
async fn a_list_has_no_more_messages_than_fit_into_an_answer() {
    let (gateway, _mock) = seeing("agent", json!({})).await;
    let mut client = admin(&gateway).await;
    let long = "x".repeat(2_000);
    for session in ["one", "two", "three"] {
        ask(&mut client, session, "hello", session).await;
        for _ in 0..20 {
            let note = json!({"sessionKey": session, "message": long});
            call(&mut client, "chat.inject", note).await;
        }
    }
    let params = json!({"name": "sessions_list", "args": {"messageLimit": 20}});
    let said = call(&mut client, "tools.invoke", params).await;
    let list = &said["output"]["details"];
    let rows = list["sessions"].as_array().unwrap_or_else(|| panic!("{said}"));
    let counts: Vec<_> = rows.iter().map(|row| row["messages"].as_array().unwrap().len()).collect();
    assert!(rows.len() >= 3 && counts[0] == 20, "{counts:?}");
    assert!(list.to_string().len() < 100 * 1024, "{counts:?}");
    assert_eq!(list["truncated"], true);
    let note = list["note"].as_str().unwrap();
    assert!(note.contains("more messages than fit here"), "{note}");
}
