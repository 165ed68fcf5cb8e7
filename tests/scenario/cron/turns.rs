//! Jobs that ask an agent: sessions, models, tools, limits, targets.

use std::time::Duration;

use serde_json::{Value, json};

use super::{add, asking, end_of_job, hour, job, log, now, run};
use crate::stage::{Api, RUN_LIMIT, admin, call, history, refusal, scripted, text_of, told};

#[tokio::test]
async fn a_job_that_comes_due_runs_in_a_session_of_its_own_and_is_gone() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut soon = asking("soon", "@mock text text=\"here I am\"");
    soon["schedule"] = json!({"kind": "at", "at": (now() + 700).to_string()});
    let id = add(&mut client, soon).await;
    let end = end_of_job(&client, &id, Duration::from_secs(15)).await;
    assert_eq!((&end["status"], &end["summary"]), (&json!("ok"), &json!("here I am")), "{end}");
    assert_eq!(end["deliveryStatus"], "not-requested");
    let key = end["sessionKey"].as_str().unwrap();
    assert!(key.starts_with(&format!("agent:main:cron:{id}:run:")), "{key}");
    let said = history(&mut client, key).await;
    assert_eq!(text_of(&said[1]), "here I am");
    assert!(text_of(&said[0]).starts_with(&format!("[cron:{id} soon] ")), "{said:?}");
    assert_eq!(job(&mut client, &id).await, Value::Null);
    let log = log(&mut client, &id).await;
    assert_eq!((log.len(), &log[0]["status"]), (1, &json!("ok")));
    // Lists show the job, not each of its runs.
    let list = call(&mut client, "sessions.list", json!({})).await;
    let keys: Vec<_> = list["sessions"].as_array().unwrap().iter().map(|row| &row["key"]).collect();
    assert_eq!(keys, [&json!(format!("agent:main:cron:{id}"))]);
    let status = call(&mut client, "cron.status", json!({})).await;
    assert_eq!((&status["jobs"], &status["nextWakeAtMs"]), (&json!(0), &Value::Null));
}

#[tokio::test]
async fn a_run_has_the_model_the_thinking_and_only_those_tools_that_its_job_says() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut narrow = asking("narrow", "@mock text text=\"done\"");
    narrow["payload"]["model"] = json!("mock/mock-2");
    narrow["payload"]["toolsAllow"] = json!(["read", "cron", "gone"]);
    let id = add(&mut client, narrow).await;
    let end = run(&mut client, &id).await;
    assert_eq!((&end["status"], &end["model"]), (&json!("ok"), &json!("mock-2")), "{end}");
    let request = mock.requests().pop().unwrap().body;
    assert_eq!(request["model"], "mock-2");
    let mut tools: Vec<_> = request["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect();
    tools.sort();
    assert_eq!(tools, ["cron", "read"]);
    // What was set is taken back.
    let patch = json!({"id": id, "patch": {"payload": {"kind": "agentTurn", "toolsAllow": null}}});
    call(&mut client, "cron.update", patch).await;
    run(&mut client, &id).await;
    let request = mock.requests().pop().unwrap().body;
    assert!(request["tools"].as_array().unwrap().len() > 5);
    let patch =
        json!({"id": id, "patch": {"payload": {"kind": "agentTurn", "model": "nowhere/none"}}});
    call(&mut client, "cron.update", patch).await;
    let end = run(&mut client, &id).await;
    assert_eq!(end["status"], "error", "{end}");
}

#[tokio::test]
async fn a_sub_agent_of_a_run_has_no_tool_that_the_run_has_not() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let message = "@mock tool name=sessions_spawn args={\"task\":\"look around\"} then=\"spawned\"";
    let mut leads = asking("leads", message);
    leads["payload"]["toolsAllow"] = json!(["read", "sessions_spawn"]);
    let id = add(&mut client, leads).await;
    run(&mut client, &id).await;
    let child = crate::stage::until("a request of the sub-agent", async || {
        mock.requests()
            .into_iter()
            .map(|request| request.body)
            .find(|body| body["messages"].to_string().contains("[Subagent Context]"))
    });
    let child = child.await;
    let tools: Vec<_> = child["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(tools, ["read"]);
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_stopped_and_its_log_says_so() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut slow = asking("slow", "@mock stream n=200 delay=200");
    slow["payload"]["timeoutSeconds"] = json!(0.5);
    let id = add(&mut client, slow).await;
    let end = run(&mut client, &id).await;
    assert_eq!(end["status"], "error");
    assert_eq!(end["error"], "cron: job execution timed out");
    assert_eq!(job(&mut client, &id).await["state"]["consecutiveErrors"], 1);
}

#[tokio::test]
async fn named_and_current_sessions_are_gone_on_with() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut named = asking("named", "@mock text text=\"again\"");
    named["sessionTarget"] = json!("session:diary");
    let id = add(&mut client, named).await;
    for _ in 0..2 {
        let end = run(&mut client, &id).await;
        assert_eq!(end["sessionKey"], "agent:main:diary");
    }
    assert_eq!(told(&mut client, "diary").await.len(), 4);
    let mut current = asking("current", "@mock text text=\"here\"");
    current["sessionTarget"] = json!("current");
    current["sessionKey"] = json!("diary");
    let id = add(&mut client, current).await;
    assert_eq!(job(&mut client, &id).await["sessionTarget"], "session:diary");
    run(&mut client, &id).await;
    assert_eq!(told(&mut client, "diary").await.len(), 6);
}

#[tokio::test]
async fn a_job_that_runs_is_not_run_again_and_one_that_is_removed_ends_in_the_log() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let id = add(&mut client, asking("slow", "@mock stream n=40 delay=50")).await;
    call(&mut client, "cron.run", json!({"id": id})).await;
    let again = call(&mut client, "cron.run", json!({"id": id})).await;
    assert_eq!(again, json!({"ok": true, "ran": false, "reason": "already-running"}));
    assert!(job(&mut client, &id).await["state"]["runningAtMs"].is_u64());
    // What has not begun by then does not begin.
    let is_start = |frame: &Value| frame["payload"]["action"] == "started";
    client.wait_for(RUN_LIMIT, is_start).await.expect("a start");
    let removed = call(&mut client, "cron.remove", json!({"jobId": id})).await;
    assert_eq!(removed, json!({"ok": true, "removed": true}));
    let end = end_of_job(&client, &id, Duration::from_secs(20)).await;
    assert_eq!(end["job"]["state"], json!({}), "it neither runs nor will: {end}");
    let log = log(&mut client, &id).await;
    assert_eq!((log.len(), &log[0]["status"]), (1, &json!("ok")), "{log:?}");
}

#[tokio::test]
async fn what_does_not_go_together_is_refused_and_nothing_is_kept() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let with = |name: &str, value: Value| {
        let mut job = asking("x", "m");
        job[name] = value;
        job
    };
    for (job, text) in [
        (with("agentId", json!("nobody")), "unknown agent id \"nobody\""),
        (with("delivery", json!({"mode": "webhook", "to": "ftp://x"})), "valid http(s) URL"),
        (
            with("schedule", json!({"kind": "cron", "expr": "0 9 * * *", "tz": "Mars/X"})),
            "time zone",
        ),
        (with("schedule", json!({"kind": "cron", "expr": "0 0 30 2 *"})), "never comes due"),
        (with("missed", json!("later")), "at /missed"),
        (with("name", json!(5)), "at /name"),
        (with("sessionTarget", json!("session:a/b")), "sessionTarget session id"),
        (with("sessionTarget", json!("nowhere")), "at /sessionTarget"),
    ] {
        let told = refusal(&mut client, "cron.add", job).await;
        assert!(told.contains(text), "{told}");
    }
    let status = call(&mut client, "cron.status", json!({})).await;
    assert_eq!(status["jobs"], 0);
    let id =
        add(&mut client, json!({"name": "x", "schedule": hour(), "payload": {"text": "t"}})).await;
    let told = refusal(
        &mut client,
        "cron.update",
        json!({"id": id, "patch": {"payload": {"kind": "agentTurn", "message": "m"}}}),
    )
    .await;
    assert_eq!(told, "Error: main cron jobs require payload.kind=\"systemEvent\"");
    assert_eq!(job(&mut client, &id).await["payload"], json!({"kind": "systemEvent", "text": "t"}));
}
