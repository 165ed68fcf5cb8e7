//! The session of a job: lists show it there, and people write to it.

use std::fs;

use serde_json::{Value, json};

use super::{add, asking, job, log, now, run};
use crate::stage::{
    Api, RUN_LIMIT, admin, call, config, end_of, history, row, scripted, settles, start, text_of,
    until,
};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// A turn that goes on until there is a file in the workspace.
fn gated(then: &str) -> String {
    let command = "until test -e go; do sleep 0.05; done; echo gone";
    format!("@mock tool name=exec args={} then=\"{then}\"", json!({"command": command}))
}

fn base(id: &str) -> String {
    format!("agent:main:cron:{id}")
}

/// Runs a job whose end is waited for later; the run's id.
async fn begin(client: &mut WsClient, id: &str) -> Value {
    call(client, "cron.run", json!({"id": id})).await["runId"].clone()
}

async fn end(client: &WsClient, run_id: &Value) -> Value {
    let end = client.wait_for(RUN_LIMIT, |frame| {
        let payload = &frame["payload"];
        frame["event"] == "cron" && payload["action"] == "finished" && payload["runId"] == *run_id
    });
    end.await.expect("the end of the job")["payload"].clone()
}

/// Waits until a tool has been called in a session.
async fn calls(client: &mut WsClient, key: &str) {
    until("the call", async || {
        let said = history(client, key).await;
        let last = said.last()?;
        last["content"].to_string().contains("toolCall").then_some(())
    })
    .await;
}

/// Waits until the row of a run has been written.
async fn is_claimed(client: &mut WsClient, id: &str) {
    until("the start", async || {
        job(client, id).await["state"]["runningAtMs"].is_u64().then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_writes_to_the_session_of_a_job_is_answered_after_its_run() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let id = add(&mut client, asking("slow", &gated("of the job"))).await;
    let run_id = begin(&mut client, &id).await;
    calls(&mut client, &base(&id)).await;
    start(&mut client, &base(&id), "@mock text text=\"of the chat\"", "chat-1").await;
    fs::write(gateway.workspace().join("go"), "").unwrap();
    assert_eq!(end(&client, &run_id).await["summary"], "of the job");
    let answer = end_of(&client, "chat-1").await;
    assert_eq!(text_of(&answer["message"]), "of the chat");
    let said = history(&mut client, &base(&id)).await;
    let roles: Vec<_> = said.iter().map(|message| message["role"].as_str().unwrap()).collect();
    let of_job = ["user", "assistant", "toolResult", "assistant"];
    assert_eq!(roles, [of_job.as_slice(), &["user", "assistant"]].concat());
    assert_eq!(text_of(&said[3]), "of the job");
}

#[tokio::test]
async fn a_job_runs_after_what_is_said_in_its_session() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let id = add(&mut client, asking("next", "@mock text text=\"of the job\"")).await;
    run(&mut client, &id).await;
    start(&mut client, &base(&id), &gated("of the chat"), "chat-1").await;
    calls(&mut client, &base(&id)).await;
    let before = row(&mut client, &base(&id)).await["sessionId"].clone();
    let run_id = begin(&mut client, &id).await;
    is_claimed(&mut client, &id).await;
    fs::write(gateway.workspace().join("go"), "").unwrap();
    end_of(&client, "chat-1").await;
    assert_eq!(end(&client, &run_id).await["summary"], "of the job");
    let folder = gateway.state_dir().join("agents/main/sessions");
    let file = folder.join(format!("{}.jsonl", before.as_str().unwrap()));
    let stored = fs::read_to_string(file).unwrap();
    let last: Value = serde_json::from_str(stored.lines().last().unwrap()).unwrap();
    assert_eq!(text_of(&last["message"]), "of the chat", "it is where its question is");
    assert_eq!(history(&mut client, &base(&id)).await.len(), 2, "of the last run");
}

#[tokio::test]
async fn who_stops_the_session_of_a_job_stops_its_run() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let id = add(&mut client, asking("slow", &gated("never"))).await;
    let run_id = begin(&mut client, &id).await;
    calls(&mut client, &base(&id)).await;
    assert_eq!(row(&mut client, &base(&id)).await["hasActiveRun"], true);
    let stopped = call(&mut client, "chat.abort", json!({"sessionKey": base(&id)})).await;
    assert_eq!(stopped["aborted"], true, "{stopped}");
    let end = end(&client, &run_id).await;
    assert_eq!(end["error"], "somebody stopped it", "{end}");
    settles(&mut client, &base(&id), "killed").await;
}

#[tokio::test]
async fn what_is_set_on_the_session_of_a_job_holds_in_its_runs_and_stays() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let id = add(&mut client, asking("set", "@mock text text=\"done\"")).await;
    assert_eq!(run(&mut client, &id).await["model"], "mock-1");
    assert_eq!(row(&mut client, &base(&id)).await["label"], "Cron: set");
    let set = json!({"key": base(&id), "label": "Mine", "verboseLevel": "full",
        "model": "mock/mock-2", "execSecurity": "deny"});
    call(&mut client, "sessions.patch", set).await;
    let end = run(&mut client, &id).await;
    assert_eq!(end["model"], "mock-2", "{end}");
    let key = end["sessionKey"].as_str().unwrap();
    for key in [key, &base(&id)] {
        let again = json!({"key": key, "fastMode": true});
        let entry = call(&mut client, "sessions.patch", again).await["entry"].clone();
        assert_eq!(
            (&entry["verboseLevel"], &entry["modelOverride"], &entry["execSecurity"]),
            (&json!("full"), &json!("mock-2"), &json!("deny")),
            "{key}: {entry}"
        );
    }
    let shown = row(&mut client, &base(&id)).await;
    assert_eq!((&shown["label"], &shown["status"]), (&json!("Mine"), &json!("done")), "{shown}");
    assert_eq!(shown["displayName"], "Cron: set");
}

#[tokio::test]
async fn a_job_that_waits_for_its_session_takes_no_place_from_others() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["cron"] = json!({"maxConcurrentRuns": 1});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let waits = add(&mut client, asking("waits", "@mock text text=\"after all\"")).await;
    let other = add(&mut client, asking("other", "@mock text text=\"meanwhile\"")).await;
    start(&mut client, &base(&waits), &gated("of the chat"), "chat-1").await;
    calls(&mut client, &base(&waits)).await;
    let run_id = begin(&mut client, &waits).await;
    is_claimed(&mut client, &waits).await;
    assert_eq!(run(&mut client, &other).await["summary"], "meanwhile");
    assert!(job(&mut client, &waits).await["state"]["runningAtMs"].is_u64());
    fs::write(gateway.workspace().join("go"), "").unwrap();
    assert_eq!(end(&client, &run_id).await["summary"], "after all");
}

#[tokio::test]
async fn a_job_waits_for_its_session_no_longer_than_it_may_take() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut brief = asking("brief", "@mock text text=\"too late\"");
    brief["payload"]["timeoutSeconds"] = json!(0.5);
    let id = add(&mut client, brief).await;
    start(&mut client, &base(&id), &gated("of the chat"), "chat-1").await;
    calls(&mut client, &base(&id)).await;
    let end = run(&mut client, &id).await;
    assert_eq!(end["status"], "error", "{end}");
    assert!(end["error"].as_str().unwrap().contains("its session was busy"), "{end}");
    fs::write(gateway.workspace().join("go"), "").unwrap();
    assert_eq!(text_of(&end_of(&client, "chat-1").await["message"]), "of the chat");
}

#[tokio::test]
async fn a_job_that_waited_for_its_session_runs_as_it_is_by_then_or_not_at_all() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut waiting = Vec::new();
    for name in ["changed", "off", "gone"] {
        let id = add(&mut client, asking(name, "old-words @mock text text=\"old\"")).await;
        start(&mut client, &base(&id), &gated("of the chat"), name).await;
        calls(&mut client, &base(&id)).await;
        let run_id = begin(&mut client, &id).await;
        is_claimed(&mut client, &id).await;
        waiting.push((id, run_id));
    }
    let [changed, off, gone] = waiting.as_slice() else { unreachable!() };
    let words = json!({"kind": "agentTurn", "message": "@mock text text=\"new\""});
    for (id, patch) in
        [(&changed.0, json!({"payload": words})), (&off.0, json!({"enabled": false}))]
    {
        call(&mut client, "cron.update", json!({"id": id, "patch": patch})).await;
    }
    call(&mut client, "cron.remove", json!({"id": gone.0})).await;
    fs::write(gateway.workspace().join("go"), "").unwrap();
    assert_eq!(end(&client, &changed.1).await["summary"], "new");
    for ((id, run_id), why) in [(off, "turned off"), (gone, "removed")] {
        let end = end(&client, run_id).await;
        assert_eq!(end["status"], "skipped", "{end}");
        assert!(end["error"].as_str().unwrap().contains(why), "{end}");
        let log = until("the row", async || {
            Some(log(&mut client, id).await).filter(|log| !log.is_empty())
        });
        assert_eq!(log.await[0]["status"], "skipped");
    }
    let state = job(&mut client, &off.0).await["state"].clone();
    assert_eq!((&state["runningAtMs"], &state["consecutiveErrors"]), (&Value::Null, &Value::Null));
    let asked = mock.requests().into_iter().map(|request| request.body.to_string());
    assert_eq!(asked.filter(|body| body.contains("old-words")).count(), 0);
}

#[tokio::test]
async fn a_job_that_waits_for_its_session_at_a_stop_is_run_by_the_next_process() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut once = asking("once", "@mock text text=\"after all\"");
    let at = |later: u64| json!({"kind": "at", "at": (now() + later).to_string()});
    once["schedule"] = at(3_600_000);
    once["deleteAfterRun"] = json!(false);
    let once = add(&mut client, once).await;
    let asked = add(&mut client, asking("asked", "@mock text text=\"not now\"")).await;
    for (id, chat) in [(&once, "chat-1"), (&asked, "chat-2")] {
        start(&mut client, &base(id), &gated("of the chat"), chat).await;
        calls(&mut client, &base(id)).await;
    }
    let run_id = begin(&mut client, &asked).await;
    let patch = json!({"id": once, "patch": {"schedule": at(300)}});
    call(&mut client, "cron.update", patch).await;
    for id in [&once, &asked] {
        is_claimed(&mut client, id).await;
    }
    gateway.signal_term();
    client.wait_for(RUN_LIMIT, |frame| frame["event"] == "shutdown").await.expect("a good-bye");
    // The chat goes on.
    assert_eq!(end(&client, &run_id).await["status"], "skipped");
    fs::write(gateway.workspace().join("go"), "").unwrap();
    assert!(gateway.wait_exit(RUN_LIMIT).await.unwrap().success());
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let rows = until("its row", async || {
        Some(log(&mut client, &once).await).filter(|rows| !rows.is_empty())
    });
    let rows = rows.await;
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!("ok")), "{rows:?}");
    let rows = log(&mut client, &asked).await;
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!("skipped")), "{rows:?}");
    assert!(rows[0]["error"].as_str().unwrap().contains("the gateway stopped"), "{rows:?}");
    let state = job(&mut client, &asked).await["state"].clone();
    assert_eq!((&state["runningAtMs"], &state["consecutiveErrors"]), (&Value::Null, &Value::Null));
}
