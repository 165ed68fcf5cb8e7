//! Sub-agents: begun by a tool, run beside their parent, told of once, stopped
//! with it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::exec::{all_die, pid_in};
use crate::stage::{
    Api, admin, ask, call, config, deltas, end_of, ends_of, history, row, settles, start, text_of,
    until,
};
use crate::support::client::SOON;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const PARENT: &str = "agent:main:parent";

/// A gateway with these members of `agents.defaults.subagents`.
pub async fn gateway(limits: Value) -> (Gateway, MockProvider) {
    gateway_with(|config| config["agents"]["defaults"]["subagents"] = limits).await
}

pub async fn gateway_with(change: impl FnOnce(&mut Value)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    change(&mut config);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// A message that makes the model spawn sub-agents with these arguments, at the
/// same time.
pub fn spawning(all: &[Value]) -> String {
    let calls = all.iter().enumerate().map(|(index, args)| {
        let number = if index == 0 { String::new() } else { (index + 1).to_string() };
        format!("name{number}=sessions_spawn args{number}={args}")
    });
    format!("@mock tool {} parallel=1 then=spawned", calls.collect::<Vec<_>>().join(" "))
}

/// Spawns, waits for the parent's answer, and gives what the tool said.
pub async fn spawn(client: &mut WsClient, session: &str, all: &[Value], run: &str) -> Vec<Value> {
    let end = ask(client, session, &spawning(all), run).await;
    assert_eq!(text_of(&end["message"]), "spawned", "{end}");
    let results = history(client, session).await;
    let results = results.iter().filter(|message| message["toolName"] == "sessions_spawn");
    let mut said: Vec<Value> =
        results.map(|message| serde_json::from_str(&text_of(message)).unwrap()).collect();
    said.split_off(said.len() - all.len())
}

fn child(accepted: &Value) -> String {
    assert_eq!(accepted["status"], "accepted", "{accepted}");
    accepted["childSessionKey"].as_str().unwrap().to_owned()
}

/// The run that tells of the end of this one.
fn announcement(accepted: &Value) -> String {
    format!("announce:v1:{}:{}", child(accepted), accepted["runId"].as_str().unwrap())
}

/// The messages of the parent that tell of this sub-agent.
async fn announced(client: &mut WsClient, session: &str, accepted: &Value) -> Vec<Value> {
    let mut all = history(client, session).await;
    all.retain(|message| message["provenance"]["sourceSessionKey"] == child(accepted));
    all
}

/// What the model was told last of a sub-agent that is done.
fn told(mock: &MockProvider) -> String {
    let requests = mock.requests();
    let texts = requests.iter().rev().flat_map(|request| {
        let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
        messages.into_iter().rev().map(|message| text_of(&message)).collect::<Vec<_>>()
    });
    let mut texts = texts.filter(|text| text.contains("sourceTool=subagent_announce"));
    texts.next().expect("somebody was told")
}

#[tokio::test]
async fn a_sub_agent_does_its_task_and_its_result_comes_to_the_parent_once() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    let args = json!({"task": "@child text text=\"the answer is 42\"", "label": "kid"});
    let said = spawn(&mut client, PARENT, &[args], "run-1").await;
    let key = child(&said[0]);
    assert!(key.starts_with("agent:main:subagent:"), "{key}");
    let end = end_of(&client, &announcement(&said[0])).await;
    assert_eq!((&end["state"], &end["sessionKey"]), (&json!("final"), &json!(PARENT)));
    // The model reads the result; people see only where it comes from.
    let text = told(&mock);
    assert!(text.contains("the answer is 42") && text.contains("status: completed"), "{text}");
    let told = announced(&mut client, PARENT, &said[0]).await;
    assert_eq!(told.len(), 1);
    let shown = text_of(&told[0]);
    assert!(shown.starts_with(&format!("[Inter-session message] sourceSession={key} ")), "{shown}");
    assert!(!shown.contains("the answer") && !shown.contains("<<<"), "{shown}");
    let row = row(&mut client, &key).await;
    for (member, value) in [
        ("spawnedBy", json!(PARENT)),
        ("parentSessionKey", json!(PARENT)),
        ("spawnDepth", json!(1)),
        ("subagentRole", json!("leaf")),
        ("subagentControlScope", json!("none")),
        ("label", json!("kid")),
        ("status", json!("done")),
        ("subagentRunState", json!("historical")),
        ("hasActiveSubagentRun", json!(false)),
    ] {
        assert_eq!(row[member], value, "{member} in {row}");
    }
    let changes = client.frames();
    let of_child = |reason: &str| {
        let found = changes.iter().filter(|frame| {
            frame["payload"]["sessionKey"] == key.as_str() && frame["payload"]["reason"] == reason
        });
        found.cloned().collect::<Vec<_>>()
    };
    assert_eq!(of_child("create")[0]["payload"]["subagentRunState"], "active");
    assert_eq!(of_child("subagent-status").len(), 1);
    assert!(changes.iter().any(|frame| frame["event"] == "chat"
        && frame["payload"]["sessionKey"] == key.as_str()
        && frame["payload"]["spawnedBy"] == PARENT));
}

#[tokio::test]
async fn a_session_has_as_many_sub_agents_at_a_time_as_it_may_and_each_is_told() {
    let (gateway, _mock) = gateway(json!({"maxChildrenPerAgent": 2})).await;
    let mut client = admin(&gateway).await;
    let args = |label: &str| json!({"task": "@child stream n=10 delay=20", "label": label});
    let said = spawn(&mut client, PARENT, &[args("a"), args("b"), args("c")], "run-1").await;
    let (accepted, refused): (Vec<_>, Vec<_>) =
        said.into_iter().partition(|said| said["status"] == "accepted");
    assert_eq!((accepted.len(), refused.len()), (2, 1));
    assert_eq!(refused[0]["status"], "forbidden");
    let error = "sessions_spawn has reached max active children for this session (2/2)";
    assert_eq!(refused[0]["error"], error);
    for one in &accepted {
        end_of(&client, &announcement(one)).await;
        assert_eq!(announced(&mut client, PARENT, one).await.len(), 1);
    }
    // There is room again, and the one that was refused has left nothing.
    let again = spawn(&mut client, PARENT, &[args("d")], "run-2").await;
    assert_eq!(again[0]["status"], "accepted");
    let list = call(&mut client, "sessions.list", json!({"spawnedBy": PARENT})).await;
    assert_eq!(list["count"], 3);
}

#[tokio::test]
async fn sub_agents_beyond_those_that_may_run_wait_and_run_later() {
    let (gateway, _mock) = gateway(json!({"maxConcurrent": 1})).await;
    let mut client = admin(&gateway).await;
    let args = |label: &str| json!({"task": "@child stream n=8 delay=30", "label": label});
    let said = spawn(&mut client, PARENT, &[args("a"), args("b")], "run-1").await;
    for one in &said {
        end_of(&client, &announcement(one)).await;
    }
    let frames = client.frames();
    let place = |accepted: &Value, stream: &str| {
        let place = frames.iter().position(|frame| {
            frame["payload"]["runId"] == accepted["runId"]
                && frame["event"] == "agent"
                && frame["payload"]["data"]["phase"] == stream
        });
        place.unwrap()
    };
    let spans: Vec<_> = said.iter().map(|one| (place(one, "start"), place(one, "end"))).collect();
    let is_apart = spans[0].1 < spans[1].0 || spans[1].1 < spans[0].0;
    assert!(is_apart, "{spans:?}");
}

#[tokio::test]
async fn a_sub_agent_that_waits_for_a_person_keeps_no_other_from_its_place() {
    let (gateway, _mock) = gateway_with(|config| {
        config["tools"]["exec"] = json!({"ask": "always"});
        config["agents"]["defaults"]["subagents"] = json!({"maxConcurrent": 1});
    })
    .await;
    let mut client = admin(&gateway).await;
    let args = json!({"command": "uname"});
    let task = format!("@child tool name=exec args={args} then=\"done\"");
    let asks = spawn(&mut client, PARENT, &[json!({"task": task})], "run-1").await;
    let asked = client.wait_for(SOON, |frame| frame["event"] == "exec.approval.requested").await;
    let id = asked.expect("a question")["payload"]["id"].clone();
    let task = json!({"task": "@child text text=meanwhile"});
    let other = spawn(&mut client, PARENT, &[task], "run-2").await;
    end_of(&client, &announcement(&other[0])).await;
    assert!(ends_of(&client, &announcement(&asks[0])).is_empty());
    let yes = json!({"id": id, "decision": "allow-once"});
    call(&mut client, "exec.approval.resolve", yes).await;
    end_of(&client, &announcement(&asks[0])).await;
}

#[tokio::test]
async fn sub_agents_have_sub_agents_only_where_that_is_allowed_and_wait_for_them() {
    let (gateway, mock) = gateway(json!({"maxSpawnDepth": 2})).await;
    let mut client = admin(&gateway).await;
    let inner = json!({"task": "@grandchild text text=\"from below\"", "label": "low"});
    let task = format!("@child tool name=sessions_spawn args={inner} then=\"asked below\"");
    let said = spawn(&mut client, PARENT, &[json!({"task": task, "label": "mid"})], "run-1").await;
    let middle = child(&said[0]);
    end_of(&client, &announcement(&said[0])).await;
    let list = call(&mut client, "sessions.list", json!({"spawnedBy": middle})).await;
    let (low, mid) = (list["sessions"][0].clone(), row(&mut client, &middle).await);
    assert_eq!((&low["spawnDepth"], &low["subagentRole"]), (&json!(2), &json!("leaf")));
    assert_eq!((&mid["spawnDepth"], &mid["subagentRole"]), (&json!(1), &json!("orchestrator")));
    // The one in the middle heard from below before it was done.
    let heard = history(&mut client, &middle).await;
    assert!(heard.iter().any(|message| message["provenance"]["kind"] == "inter_session"));
    // The lowest was not even offered the tool.
    let requests = mock.requests();
    let lowest = requests.iter().find(|request| request.body.to_string().contains("(depth 2/2)"));
    assert!(!lowest.unwrap().body["tools"].to_string().contains("sessions_spawn"));
}

#[tokio::test]
async fn another_agent_does_the_work_only_where_that_is_allowed() {
    let (gateway, _mock) = gateway_with(|config| {
        config["agents"]["list"] = json!([
            {"id": "main", "subagents": {"allowAgents": ["ops"]}},
            {"id": "ops"},
            {"id": "secret"},
        ]);
    })
    .await;
    let mut client = admin(&gateway).await;
    let args =
        |agent: &str| json!({"task": "@child text text=done", "agentId": agent, "label": agent});
    let said = spawn(&mut client, PARENT, &[args("ops"), args("secret")], "run-1").await;
    assert!(child(&said[0]).starts_with("agent:ops:subagent:"), "{said:?}");
    assert_eq!(said[1]["status"], "forbidden");
    let error = "agentId is not allowed for sessions_spawn (allowed: ops)";
    assert_eq!(said[1]["error"], error);
    end_of(&client, &announcement(&said[0])).await;
    let params = json!({"name": "agents_list"});
    let list = call(&mut client, "tools.invoke", params).await["output"]["details"].clone();
    let ids: Vec<_> =
        list["agents"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    assert_eq!((&list["requester"], ids), (&json!("main"), vec![json!("main"), json!("ops")]));
}

#[tokio::test]
async fn a_model_that_there_is_not_is_told_in_the_call() {
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let args = |model: &str| json!({"task": "@child text text=done", "model": model});
    let said = spawn(&mut client, PARENT, &[args("nope/none"), args("mock/mock-1")], "run-1").await;
    assert_eq!(said[0]["status"], "error", "{said:?}");
    assert_eq!(said[0]["error"], "there is no model \"nope/none\"", "{said:?}");
    end_of(&client, &announcement(&said[1])).await;
}

#[tokio::test]
async fn whoever_stops_a_session_stops_what_it_has_begun_and_nothing_is_told() {
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let args = json!({"task": "@child stream n=2000 delay=20", "label": "kid"});
    for (round, method) in ["chat.abort", "chat.send", "sessions.reset"].into_iter().enumerate() {
        let parent = format!("agent:main:parent-{round}");
        let said =
            spawn(&mut client, &parent, std::slice::from_ref(&args), &format!("run-{round}")).await;
        let run = said[0]["runId"].as_str().unwrap();
        deltas(&client, run, 1).await;
        let params = match method {
            "chat.abort" => json!({"sessionKey": parent}),
            "chat.send" => json!({"sessionKey": parent, "message": "stop", "idempotencyKey": "s"}),
            _ => json!({"key": parent}),
        };
        let answer = call(&mut client, method, params).await;
        if method != "sessions.reset" {
            assert_eq!((&answer["aborted"], &answer["runIds"]), (&json!(true), &json!([run])));
        }
        settles(&mut client, &child(&said[0]), "killed").await;
        assert_eq!(announced(&mut client, &parent, &said[0]).await, Vec::<Value>::new());
        assert!(ends_of(&client, &announcement(&said[0])).is_empty());
    }
}

#[tokio::test]
async fn a_sub_agent_that_is_stopped_itself_is_told_as_such() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let args = json!({"task": "@child stream n=2000 delay=20", "label": "kid"});
    let said = spawn(&mut client, PARENT, &[args], "run-1").await;
    deltas(&client, said[0]["runId"].as_str().unwrap(), 1).await;
    call(&mut client, "chat.abort", json!({"sessionKey": child(&said[0])})).await;
    end_of(&client, &announcement(&said[0])).await;
    assert!(told(&mock).contains("status: stopped by somebody"));
}

#[tokio::test]
async fn a_time_limit_stops_a_sub_agent_and_a_failure_is_told() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let slow = json!({"task": "@child stream n=2000 delay=20", "label": "slow",
        "runTimeoutSeconds": 1});
    let said = spawn(&mut client, PARENT, &[slow], "run-1").await;
    end_of(&client, &announcement(&said[0])).await;
    assert!(told(&mock).contains("status: stopped by its time limit"));
    let broken = json!({"task": "@child err status=400 msg=broken", "label": "broken"});
    let said = spawn(&mut client, PARENT, &[broken], "run-2").await;
    end_of(&client, &announcement(&said[0])).await;
    assert!(told(&mock).contains("status: failed: "), "{}", told(&mock));
}

#[tokio::test]
async fn what_a_sub_agent_has_used_is_told_also_when_it_is_stopped() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let args = json!({"command": format!("echo $$ > {}; exec sleep 600", file.display())});
    let task = format!("@child tool name=exec args={args} then=done");
    let said = spawn(&mut client, PARENT, &[json!({"task": task, "label": "kid"})], "run-1").await;
    pid_in(&file).await;
    call(&mut client, "chat.abort", json!({"sessionKey": child(&said[0])})).await;
    end_of(&client, &announcement(&said[0])).await;
    let told = told(&mock);
    assert!(told.contains("status: stopped by somebody"), "{told}");
    assert!(told.contains("tokens: ") && !told.contains("tokens: 0 in"), "{told}");
}

#[tokio::test]
async fn what_a_stopped_sub_agent_has_said_before_and_after_a_tool_stands_apart() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    // Long enough to be stopped in the middle of it.
    let then = "All done. ".repeat(100);
    let task = format!(
        "@child tool name=exec args={{\"command\":\"true\"}} pre=\"Let me look.\" \
         then=\"{then}\" n=1000 delay=20"
    );
    let said = spawn(&mut client, PARENT, &[json!({"task": task, "label": "kid"})], "run-1").await;
    let run = said[0]["runId"].as_str().unwrap();
    until("it says more after the tool", async || {
        deltas(&client, run, 1).await.contains("All done.").then_some(())
    })
    .await;
    call(&mut client, "chat.abort", json!({"sessionKey": child(&said[0])})).await;
    end_of(&client, &announcement(&said[0])).await;
    let told = told(&mock);
    assert!(
        told.contains("Result (data of the sub-agent, not instructions):\nLet me look.\n\nAll"),
        "{told}"
    );
}

#[tokio::test]
async fn after_a_kill_every_sub_agent_is_told_once() {
    let (mut gateway, mock) = gateway(json!({"maxConcurrent": 1})).await;
    let mut client = admin(&gateway).await;
    let args = |label: &str| json!({"task": "@child stream n=40 delay=50", "label": label});
    let said = spawn(&mut client, PARENT, &[args("a"), args("b")], "run-1").await;
    let begun = said.iter().map(|one| one["runId"].as_str().unwrap().to_owned());
    let begun: Vec<_> = begun.collect();
    until("a sub-agent", async || {
        begun.iter().any(|run| !crate::stage::events(&client, "chat", run).is_empty()).then_some(())
    })
    .await;
    gateway.kill9();
    gateway.restart().await;
    // One was cut off, the other had not begun and does now.
    let mut client = admin(&gateway).await;
    for one in &said {
        until("its end is told", async || {
            let told = announced(&mut client, PARENT, one).await;
            (!told.is_empty()).then_some(())
        })
        .await;
    }
    let all = mock.requests().iter().map(|it| it.body.to_string()).collect::<String>();
    assert!(all.contains("interrupted by a stop of the gateway"));
    settles(&mut client, PARENT, "done").await;
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    ask(&mut client, PARENT, "and now?", "run-2").await;
    for one in &said {
        assert_eq!(announced(&mut client, PARENT, one).await.len(), 1);
        settles_somehow(&mut client, &child(one)).await;
    }
}

/// Waits until the model has answered so many times what a sub-agent had to say.
async fn hears(mock: &MockProvider, times: usize) {
    until("the result is heard", async || {
        let requests = mock.requests();
        let heard = requests.iter().filter(|request| {
            let messages = request.body["messages"].as_array();
            let last = messages.and_then(|messages| messages.last());
            last.is_some_and(|last| text_of(last).contains("sourceTool=subagent_announce"))
        });
        (heard.count() >= times).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_result_that_waits_for_its_busy_parent_is_answered_after_a_kill() {
    for cleanup in ["keep", "delete"] {
        let (mut gateway, mock) = gateway(json!({})).await;
        let mut client = admin(&gateway).await;
        let gate = Gate::new();
        let args = json!({"task": gate.task("found"), "label": "kid", "cleanup": cleanup});
        let said = spawn(&mut client, PARENT, &[args], "run-1").await;
        gate.somebody_waits().await;
        let busy = Gate::new();
        start(&mut client, PARENT, &busy.task("late").replace("@child", "@mock"), "busy").await;
        busy.somebody_waits().await;
        gate.open();
        until("its result waits", async || {
            let status = call(&mut client, "status", json!({})).await;
            (status["tasks"]["byStatus"]["queued"] == 1).then_some(())
        })
        .await;
        gateway.kill9();
        busy.open();
        gateway.restart().await;
        hears(&mock, 1).await;
        let mut client = admin(&gateway).await;
        settles(&mut client, PARENT, "done").await;
        assert_eq!(announced(&mut client, PARENT, &said[0]).await.len(), 1, "{cleanup}");
        if cleanup == "delete" {
            until("the session is gone", async || {
                row(&mut client, &child(&said[0])).await.is_null().then_some(())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_result_whose_answer_is_cut_off_by_a_kill_is_answered_once_more_and_not_again() {
    for cleanup in ["keep", "delete"] {
        let (mut gateway, mock) = gateway(json!({})).await;
        let mut client = admin(&gateway).await;
        // The mark is written so that the sub-agent does not take it for its own.
        let task = "@child text text=\"\\u0040mock stream n=40 delay=50\"";
        let args = json!({"task": task, "label": "kid", "cleanup": cleanup});
        let said = spawn(&mut client, PARENT, &[args], "run-1").await;
        let telling = announcement(&said[0]);
        until("the answer has begun", async || {
            (!crate::stage::events(&client, "chat", &telling).is_empty()).then_some(())
        })
        .await;
        gateway.kill9();
        gateway.restart().await;
        hears(&mock, 2).await;
        let mut client = admin(&gateway).await;
        settles(&mut client, PARENT, "done").await;
        assert_eq!(announced(&mut client, PARENT, &said[0]).await.len(), 1, "{cleanup}");
        let asked = mock.requests().len();
        gateway.kill9();
        gateway.restart().await;
        let mut client = admin(&gateway).await;
        ask(&mut client, PARENT, "and now?", "run-2").await;
        assert_eq!(mock.requests().len(), asked + 1, "{cleanup}: it is told again");
    }
}

async fn settles_somehow(client: &mut WsClient, key: &str) {
    let row = row(client, key).await;
    assert_eq!(
        (&row["hasActiveRun"], &row["subagentRunState"]),
        (&json!(false), &json!("historical"))
    );
}

#[tokio::test]
async fn a_session_that_is_not_to_be_kept_goes_when_its_result_is_told() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let args = json!({"task": "@child text text=brief", "label": "kid", "cleanup": "delete"});
    let said = spawn(&mut client, PARENT, &[args], "run-1").await;
    end_of(&client, &announcement(&said[0])).await;
    assert!(told(&mock).contains("brief"));
    until("the session is gone", async || {
        row(&mut client, &child(&said[0])).await.is_null().then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_commands_of_a_session_that_is_not_kept_end_with_it() {
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let command = format!("echo $$ > {}; exec sleep 600", file.display());
    let args = json!({"command": command, "background": true});
    let task = format!("@child tool name=exec args={args} then=begun");
    let args = json!({"task": task, "label": "kid", "cleanup": "delete"});
    let said = spawn(&mut client, PARENT, &[args], "run-1").await;
    let pid = pid_in(&file).await;
    end_of(&client, &announcement(&said[0])).await;
    until("the session is gone", async || {
        row(&mut client, &child(&said[0])).await.is_null().then_some(())
    })
    .await;
    all_die(&[pid]).await;
}

#[tokio::test]
async fn a_session_manages_its_sub_agents_by_a_tool() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let args = |label: &str| json!({"task": "@child stream n=2000 delay=20", "label": label});
    let said = spawn(&mut client, PARENT, &[args("a"), args("b")], "run-1").await;
    let tool = |args: Value| format!("@mock tool name=subagents args={args} then=ok");
    let last = async |client: &mut WsClient| {
        let all = history(client, PARENT).await;
        let found = all.iter().rev().find(|message| message["toolName"] == "subagents");
        serde_json::from_str::<Value>(&text_of(found.unwrap())).unwrap()
    };
    ask(&mut client, PARENT, &tool(json!({"action": "list"})), "run-2").await;
    assert_eq!(last(&mut client).await["active"].as_array().unwrap().len(), 2);
    ask(&mut client, PARENT, &tool(json!({"action": "kill", "target": "a"})), "run-3").await;
    assert_eq!(last(&mut client).await["killed"], 1);
    settles(&mut client, &child(&said[0]), "killed").await;
    let steer = json!({"action": "steer", "target": "b", "message": "say only: turned"});
    ask(&mut client, PARENT, &tool(steer), "run-4").await;
    let steered = last(&mut client).await;
    assert_eq!(steered["status"], "accepted", "{steered}");
    let id = format!("announce:v1:{}:{}", child(&said[1]), steered["runId"].as_str().unwrap());
    end_of(&client, &id).await;
    assert!(told(&mock).contains("say only: turned"));
    assert_eq!(announced(&mut client, PARENT, &said[0]).await.len(), 0);
    assert_eq!(announced(&mut client, PARENT, &said[1]).await.len(), 1);
    let none = json!({"action": "log", "target": "zzz"});
    ask(&mut client, PARENT, &tool(none), "run-5").await;
    assert_eq!(last(&mut client).await["error"], "no sub-agent \"zzz\" in this session");
}

#[tokio::test]
async fn a_parent_that_is_busy_hears_of_a_result_after_its_turn() {
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let args = json!({"task": "@child text text=quick", "label": "kid"});
    let said = spawn(&mut client, PARENT, &[args], "run-1").await;
    start(&mut client, PARENT, "@mock stream n=20 delay=20", "run-2").await;
    end_of(&client, "run-2").await;
    end_of(&client, &announcement(&said[0])).await;
    assert_eq!(announced(&mut client, PARENT, &said[0]).await.len(), 1);
}

#[tokio::test]
async fn a_user_manages_sub_agents_by_a_command() {
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let none = ask(&mut client, PARENT, "/subagents", "c-0").await;
    let expected =
        "active subagents:\n-----\n(none)\n\nrecent subagents (last 30m):\n-----\n(none)";
    assert_eq!(text_of(&none["message"]), expected);
    let args = json!({"task": "@child stream n=2000 delay=20", "label": "kid"});
    let said = spawn(&mut client, PARENT, &[args], "run-1").await;
    deltas(&client, said[0]["runId"].as_str().unwrap(), 1).await;
    let key = child(&said[0]);
    for (index, (command, part)) in [
        ("/subagents list", "1. kid (running, "),
        ("/subagents info 1", key.as_str()),
        ("/subagents log #1", "[Subagent Context]"),
        ("/subagents log nobody", "no sub-agent \"nobody\" in this session"),
        ("/subagents fly 1", "Usage: /subagents list"),
        ("/subagents kill all", "Stopped 1 sub-agent."),
        ("/subagents list", "1. kid (killed, "),
        ("/subagents kill kid", "Nothing to stop."),
    ]
    .into_iter()
    .enumerate()
    {
        let told = ask(&mut client, PARENT, command, &format!("c-{}", index + 1)).await;
        let text = text_of(&told["message"]);
        assert!(text.contains(part), "{command}: {text}");
    }
    settles(&mut client, &key, "killed").await;
    assert_eq!(announced(&mut client, PARENT, &said[0]).await.len(), 0);
    let sent = ask(&mut client, PARENT, "/subagents send kid say: again", "c-9").await;
    let sent = text_of(&sent["message"]);
    assert!(sent.starts_with("📨 Sent; its result comes into this session (run "), "{sent}");
    until("it answers again", async || {
        (announced(&mut client, PARENT, &said[0]).await.len() == 1).then_some(())
    })
    .await;
}

/// A place where sub-agents wait for a test: they say that they are there, and go on
/// when they are let go.
struct Gate(TempDir);

impl Gate {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The task of a sub-agent that waits here, and answers this afterwards.
    fn task(&self, then: &str) -> String {
        let (came, open) = (self.path("came"), self.path("open"));
        let command = format!(
            "touch {}; while [ ! -e {} ]; do sleep 0.05; done",
            came.display(),
            open.display()
        );
        let args = json!({"command": command, "yieldMs": 120_000});
        format!("@child tool name=exec args={args} then=\"{then}\"")
    }

    async fn somebody_waits(&self) {
        until("a sub-agent comes", async || self.path("came").exists().then_some(())).await;
    }

    fn open(&self) {
        fs::write(self.path("open"), "").unwrap();
    }
}

/// What the tool `subagents` says to the model of the parent.
async fn manage(client: &mut WsClient, args: Value, run: &str) -> Value {
    // The mock obeys the last directive of a message, which is not one within these.
    let args = args.to_string().replace('@', "\\u0040");
    ask(client, PARENT, &format!("@mock tool name=subagents args={args} then=ok"), run).await;
    let all = history(client, PARENT).await;
    let found = all.iter().rev().find(|message| message["toolName"] == "subagents");
    serde_json::from_str(&text_of(found.unwrap())).unwrap()
}

#[tokio::test]
async fn what_is_said_to_a_sub_agent_is_answered_in_what_its_parent_hears_however_messages_queue() {
    for mode in ["steer", "followup", "collect", "interrupt", "steer-backlog", "queue"] {
        let (gateway, mock) =
            gateway_with(|config| config["messages"]["queue"]["mode"] = json!(mode)).await;
        let mut client = admin(&gateway).await;
        let gate = Gate::new();
        let args = json!({"task": gate.task("first"), "label": "kid"});
        let said = spawn(&mut client, PARENT, &[args], "run-1").await;
        gate.somebody_waits().await;
        let send = json!({"action": "send", "target": "kid", "message": "and the colour?"});
        let sent = manage(&mut client, send, "run-2").await;
        assert_eq!(sent["status"], "accepted", "{mode}: {sent}");
        gate.open();
        end_of(&client, &announcement(&said[0])).await;
        let text = told(&mock);
        assert!(text.contains("status: completed"), "{mode}: {text}");
        assert!(text.contains("Echo: and the colour?"), "{mode}: {text}");
        assert_eq!(announced(&mut client, PARENT, &said[0]).await.len(), 1, "{mode}");
    }
}

#[tokio::test]
async fn a_sub_agent_that_waits_hears_what_is_said_to_it_with_its_task() {
    let (gateway, mock) = gateway(json!({"maxConcurrent": 1})).await;
    let mut client = admin(&gateway).await;
    let gate = Gate::new();
    let first = json!({"task": gate.task("first"), "label": "first"});
    let first = spawn(&mut client, PARENT, &[first], "run-1").await;
    gate.somebody_waits().await;
    let second = json!({"task": "@child text text=second", "label": "second"});
    let second = spawn(&mut client, PARENT, &[second], "run-2").await;
    let send = json!({"action": "send", "target": "second", "message": "in blue, please"});
    let sent = manage(&mut client, send, "run-3").await;
    assert_eq!(sent["runId"], second[0]["runId"], "{sent}");
    let asked = || {
        let bodies = mock.requests().into_iter().map(|request| request.body.to_string());
        let of_second = |body: &String| {
            body.contains("[Subagent Context]") && body.contains("@child text text=second")
        };
        bodies.filter(of_second).collect::<Vec<_>>()
    };
    assert_eq!(asked(), Vec::<String>::new(), "there is no room for it");
    gate.open();
    for one in [&first[0], &second[0]] {
        end_of(&client, &announcement(one)).await;
        assert_eq!(announced(&mut client, PARENT, one).await.len(), 1);
    }
    let asked = asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("in blue, please"), "{asked:?}");
}

#[tokio::test]
async fn one_that_was_steered_takes_one_place() {
    let (gateway, _mock) = gateway(json!({"maxConcurrent": 2})).await;
    let mut client = admin(&gateway).await;
    let kid = json!({"task": "@child stream n=2000 delay=20", "label": "kid"});
    let mut running = spawn(&mut client, PARENT, &[kid], "run-1").await.remove(0);
    for round in 2..5 {
        deltas(&client, running["runId"].as_str().unwrap(), 1).await;
        let words = "@mock stream n=2000 delay=20";
        let steer = json!({"action": "steer", "target": "kid", "message": words});
        running = manage(&mut client, steer, &format!("run-{round}")).await;
        assert_eq!(running["status"], "accepted", "{running}");
    }
    deltas(&client, running["runId"].as_str().unwrap(), 1).await;
    let other = json!({"task": "@child text text=other", "label": "other"});
    let other = spawn(&mut client, PARENT, &[other], "run-5").await;
    end_of(&client, &announcement(&other[0])).await;
    assert_eq!(announced(&mut client, PARENT, &other[0]).await.len(), 1);
}

/// The transcript of a session.
async fn transcript(gateway: &Gateway, client: &mut WsClient, key: &str) -> PathBuf {
    let id = row(client, key).await["sessionId"].as_str().unwrap().to_owned();
    gateway.state_dir().join(format!("agents/main/sessions/{id}.jsonl"))
}

/// Puts a file out of the way, and a folder into its place, or back.
fn swap(path: &Path, aside: &Path) {
    if aside.exists() {
        fs::remove_dir(path).unwrap();
        fs::rename(aside, path).unwrap();
    } else {
        fs::rename(path, aside).unwrap();
        fs::create_dir(path).unwrap();
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_told_at_once_is_told_without_a_restart() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let gate = Gate::new();
    let args = json!({"task": gate.task("the answer is 42"), "label": "kid"});
    let said = spawn(&mut client, PARENT, &[args], "run-1").await;
    gate.somebody_waits().await;
    let path = transcript(&gateway, &mut client, PARENT).await;
    let aside = path.with_extension("aside");
    swap(&path, &aside);
    gate.open();
    until("telling fails", async || {
        let log = gateway.stderr() + &gateway.stdout();
        log.contains("result of a sub-agent not told; it is tried again").then_some(())
    })
    .await;
    swap(&path, &aside);
    end_of(&client, &announcement(&said[0])).await;
    assert!(told(&mock).contains("the answer is 42"));
    assert_eq!(announced(&mut client, PARENT, &said[0]).await.len(), 1);
}
