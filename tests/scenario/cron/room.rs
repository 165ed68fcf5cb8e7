//! The session of a job: lists show it there, and people write to it.

use std::fs;

use serde_json::{Value, json};

use super::{add, asking, base, job, log, now, run};
use crate::stage::{
    Api, RUN_LIMIT, admin, ask, call, config, deltas, end_of, history, row, scripted, settles,
    spent_by, start, text_of, told, until,
};
use crate::subagents::spawning;
use crate::support::client::SOON;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// A turn that goes on until there is a file `go` in the workspace.
fn gated(then: &str) -> String {
    gated_by("go", then)
}

/// The same with a file of another name.
fn gated_by(file: &str, then: &str) -> String {
    let command = format!("until test -e {file}; do sleep 0.05; done; echo gone");
    format!("@mock tool name=exec args={} then=\"{then}\"", json!({"command": command}))
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
    // The session of a run is named after the run that clients see in it.
    let of_run = end["sessionKey"].as_str().unwrap().rsplit(':').next().unwrap();
    assert_eq!(stopped["runIds"], json!([of_run]));
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
async fn a_job_that_waits_for_a_person_keeps_no_other_from_its_place() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["cron"] = json!({"maxConcurrentRuns": 1});
    config["tools"]["exec"] = json!({"ask": "always"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let args = json!({"command": "uname"});
    let message = format!("@mock tool name=exec args={args} then=\"after all\"");
    let asks = add(&mut client, asking("asks", &message)).await;
    let other = add(&mut client, asking("other", "@mock text text=\"meanwhile\"")).await;
    let run_id = begin(&mut client, &asks).await;
    let asked = client.wait_for(SOON, |frame| frame["event"] == "exec.approval.requested").await;
    let id = asked.expect("a question")["payload"]["id"].clone();
    assert_eq!(run(&mut client, &other).await["summary"], "meanwhile");
    assert!(job(&mut client, &asks).await["state"]["runningAtMs"].is_u64());
    let yes = json!({"id": id, "decision": "allow-once"});
    call(&mut client, "exec.approval.resolve", yes).await;
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
        assert_eq!(log(&mut client, id).await[0]["status"], "skipped");
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

#[tokio::test]
async fn a_job_that_runs_is_one_run_and_one_thing_that_a_restart_waits_for() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let id = add(&mut client, asking("slow", &gated("of the job"))).await;
    let run_id = begin(&mut client, &id).await;
    calls(&mut client, &base(&id)).await;
    let status = call(&mut client, "status", json!({})).await;
    assert_eq!(status["tasks"]["byStatus"]["running"], 1, "{status}");
    let busy = call(&mut client, "gateway.restart.preflight", json!({})).await;
    let counts = &busy["counts"];
    assert_eq!((&counts["embeddedRuns"], &counts["queueSize"]), (&json!(1), &json!(1)), "{busy}");
    fs::write(gateway.workspace().join("go"), "").unwrap();
    assert_eq!(end(&client, &run_id).await["summary"], "of the job");
}

/// A job that spawns a sub-agent, which is done when there is a file `done` in the workspace.
/// In the turn that hears of it the model does what `then` says.
fn leading(then: &str) -> Value {
    let command = format!("until test -e done; do sleep 0.05; done; printf '@%s' 'mock {then}'");
    let args = json!({"command": command, "yieldMs": 120_000});
    let task = format!("@child tool name=exec args={args}");
    asking("leads", &spawning(&[json!({"task": task, "label": "kid"})]))
}

/// The session of the sub-agent that a job has spawned, and the run that hears of its end.
fn spawned(said: &[Value]) -> (String, String) {
    let spawned = said.iter().find(|message| message["toolName"] == "sessions_spawn").unwrap();
    let spawned: Value = serde_json::from_str(&text_of(spawned)).unwrap();
    let child = spawned["childSessionKey"].as_str().unwrap();
    let result = format!("announce:v1:{child}:{}", spawned["runId"].as_str().unwrap());
    (child.to_owned(), result)
}

#[tokio::test]
async fn a_result_that_comes_late_takes_nothing_back_of_what_came_before_in_the_session() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let id = add(&mut client, leading("text text=heard")).await;
    assert_eq!(run(&mut client, &id).await["summary"], "spawned");
    let (_, result) = spawned(&history(&mut client, &base(&id)).await);
    let of_job = spent_by(&mut client, &base(&id)).await;
    ask(&mut client, &base(&id), "@mock text text=\"They said hello.\"", "chat-1").await;
    let of_session = json!({"key": base(&id)});
    let compacted = call(&mut client, "sessions.compact", of_session.clone()).await;
    let checkpoint = compacted["result"]["checkpointId"].clone();
    assert!(checkpoint.is_string(), "{compacted}");
    ask(&mut client, &base(&id), "@mock text text=\"after it\"", "chat-2").await;
    let before = spent_by(&mut client, &base(&id)).await;
    assert!(before > of_job, "{before} {of_job}");

    fs::write(gateway.workspace().join("done"), "").unwrap();
    assert_eq!(text_of(&end_of(&client, &result).await["message"]), "heard");
    settles(&mut client, &base(&id), "done").await;
    let after = spent_by(&mut client, &base(&id)).await;
    assert!(after > before, "{after} {before}");
    let list = call(&mut client, "sessions.compaction.list", of_session).await;
    let kept = list["checkpoints"].as_array().unwrap();
    assert_eq!(kept.len(), 1, "{list}");
    assert_eq!(kept[0]["checkpointId"], checkpoint);
}

#[tokio::test]
async fn who_stops_a_result_in_the_session_of_a_job_may_name_the_run_that_this_answers() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let id = add(&mut client, leading("stream n=2000 delay=20")).await;
    assert_eq!(run(&mut client, &id).await["summary"], "spawned");
    let (_, result) = spawned(&history(&mut client, &base(&id)).await);
    fs::write(gateway.workspace().join("done"), "").unwrap();
    deltas(&client, &result, 1).await;
    let stop = json!({"sessionKey": base(&id), "runId": result});
    let stopped = call(&mut client, "chat.abort", stop).await;
    assert_eq!(stopped["runIds"], json!([result]), "{stopped}");
    assert_eq!(end_of(&client, &result).await["state"], "aborted");
}

#[tokio::test]
async fn a_result_that_comes_after_the_run_of_a_job_has_its_turn_in_the_session_of_the_job() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let id = add(&mut client, leading("stream n=2000 delay=20")).await;
    assert_eq!(run(&mut client, &id).await["summary"], "spawned");
    let said = history(&mut client, &base(&id)).await;
    let (child, result) = spawned(&said);
    let child = child.as_str();

    // It waits for what is said there, which has the same transcript.
    start(&mut client, &base(&id), &gated("of the chat"), "chat-1").await;
    calls(&mut client, &base(&id)).await;
    fs::write(gateway.workspace().join("done"), "").unwrap();
    settles(&mut client, child, "done").await;
    fs::write(gateway.workspace().join("go"), "").unwrap();
    end_of(&client, "chat-1").await;
    deltas(&client, &result, 1).await;
    let after = history(&mut client, &base(&id)).await.split_off(said.len());
    let roles: Vec<_> = after.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles[..5], ["user", "assistant", "toolResult", "assistant", "user"], "{after:?}");
    assert_eq!(text_of(&after[3]), "of the chat");
    assert_eq!(after[4]["provenance"]["sourceSessionKey"], child);

    // It is stopped there, and what is said next comes after it.
    assert_eq!(row(&mut client, &base(&id)).await["hasActiveRun"], true);
    let stopped = call(&mut client, "chat.abort", json!({"sessionKey": base(&id)})).await;
    assert_eq!(stopped["runIds"], json!([result]), "{stopped}");
    assert_eq!(end_of(&client, &result).await["state"], "aborted");
    settles(&mut client, &base(&id), "killed").await;
    let answer = ask(&mut client, &base(&id), "@mock text text=\"after all\"", "chat-2").await;
    assert_eq!(text_of(&answer["message"]), "after all");
}

#[tokio::test]
async fn a_run_that_waits_for_the_session_that_its_job_names_takes_no_place_from_others() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["cron"] = json!({"maxConcurrentRuns": 1});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let mut named = asking("named", "@mock text text=\"after all\"");
    named["sessionTarget"] = json!("session:diary");
    let named = add(&mut client, named).await;
    let other = add(&mut client, asking("other", "@mock text text=\"meanwhile\"")).await;
    start(&mut client, "diary", &gated("of the chat"), "chat-1").await;
    calls(&mut client, "diary").await;
    let run_id = begin(&mut client, &named).await;
    is_claimed(&mut client, &named).await;
    assert_eq!(run(&mut client, &other).await["summary"], "meanwhile");
    assert!(job(&mut client, &named).await["state"]["runningAtMs"].is_u64());
    fs::write(gateway.workspace().join("go"), "").unwrap();
    assert_eq!(end(&client, &run_id).await["summary"], "after all");
    let said = told(&mut client, "diary").await;
    let texts: Vec<_> = said.iter().filter(|(role, _)| role == "assistant").collect();
    assert_eq!(texts.last().unwrap().1, "after all", "{said:?}");
}

#[tokio::test]
async fn a_run_that_has_let_its_session_go_for_a_place_takes_none_while_it_waits_again() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["cron"] = json!({"maxConcurrentRuns": 1});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let open = |file: &str| fs::write(gateway.workspace().join(file), "").unwrap();
    let mut client = admin(&gateway).await;
    let mut named = asking("named", "@mock text text=\"after all\"");
    named["sessionTarget"] = json!("session:diary");
    let named = add(&mut client, named).await;
    let first = add(&mut client, asking("first", &gated_by("go-job", "of the first"))).await;
    let other = add(&mut client, asking("other", "@mock text text=\"meanwhile\"")).await;
    start(&mut client, "diary", &gated_by("go-1", "of the chat"), "chat-1").await;
    calls(&mut client, "diary").await;
    let run_id = begin(&mut client, &named).await;
    is_claimed(&mut client, &named).await;
    let first_run = begin(&mut client, &first).await;
    calls(&mut client, &base(&first)).await;
    // Its turn in the session comes while another job has the place.
    open("go-1");
    end_of(&client, "chat-1").await;
    start(&mut client, "diary", &gated_by("go-2", "more of the chat"), "chat-2").await;
    calls(&mut client, "diary").await;
    // The place comes while others have the session.
    open("go-job");
    assert_eq!(end(&client, &first_run).await["summary"], "of the first");
    assert_eq!(run(&mut client, &other).await["summary"], "meanwhile");
    assert!(job(&mut client, &named).await["state"]["runningAtMs"].is_u64());
    open("go-2");
    assert_eq!(end(&client, &run_id).await["summary"], "after all");
}

#[tokio::test]
async fn a_job_that_is_given_another_session_waits_for_the_old_one_no_longer() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "diary", &gated("of the chat"), "chat-1").await;
    calls(&mut client, "diary").await;
    let mut waiting = Vec::new();
    for target in ["isolated", "session:letters"] {
        let mut job = asking(target, "@mock text text=\"after all\"");
        job["sessionTarget"] = json!("session:diary");
        let id = add(&mut client, job).await;
        let run_id = begin(&mut client, &id).await;
        is_claimed(&mut client, &id).await;
        waiting.push((id, run_id, target));
    }
    // They wait by the time at which one that came later is done.
    let other = add(&mut client, asking("other", "@mock text text=\"meanwhile\"")).await;
    assert_eq!(run(&mut client, &other).await["summary"], "meanwhile");
    for (id, run_id, target) in &waiting {
        let patch = json!({"id": id, "patch": {"sessionTarget": target}});
        call(&mut client, "cron.update", patch).await;
        assert_eq!(end(&client, run_id).await["summary"], "after all", "{target}");
    }
    let said = told(&mut client, "letters").await;
    assert_eq!(said.last().unwrap().1, "after all", "{said:?}");
    fs::write(gateway.workspace().join("go"), "").unwrap();
    assert_eq!(text_of(&end_of(&client, "chat-1").await["message"]), "of the chat");
}
