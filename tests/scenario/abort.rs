//! Stopping a run.

use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::stage::{
    Api, Stage, admin, ask, call, deltas, end_of, ends_of, events, history, lines, scripted,
    settles, start, text_of, told, until, with_both_apis,
};

/// Who stops an answer sees the end of it at once: most of the times within this, as a
/// busy machine is late now and then; and never later than the other.
const ABORT_LIMIT: Duration = Duration::from_millis(250);
const LATEST_ABORT: Duration = Duration::from_millis(2500);
const ABORT_TRIES: usize = 9;

async fn an_abort_in_the_middle_ends_the_run_at_once_and_keeps_its_text(api: Api) {
    let stage = Stage::new(api).await;
    let mut client = admin(&stage.gateway).await;
    let watcher = admin(&stage.gateway).await;
    start(&mut client, "main", "tell a long story", "run-1").await;
    deltas(&client, "run-1", 3).await;
    let answer =
        call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-1"})).await;
    assert_eq!(answer, json!({"ok": true, "aborted": true, "runIds": ["run-1"]}));
    let end = end_of(&client, "run-1").await;
    assert_eq!((&end["state"], &end["stopReason"]), (&json!("aborted"), &json!("rpc")));
    assert_eq!(end_of(&watcher, "run-1").await, end);
    settles(&mut client, "agent:main:main", "killed").await;

    let next = ask(&mut client, "main", "and now?", "run-2").await;
    assert_eq!(text_of(&next["message"]), "All right.");
    assert_eq!(ends_of(&client, "run-1").len(), 1);
    assert_eq!(stage.mock.asked("tell a long story").await, 1);
    let after = |step: &Value| step["seq"].as_u64() > end["seq"].as_u64();
    let steps = events(&client, "agent", "run-1");
    assert!(!steps.iter().any(|step| step["stream"] == "assistant" && after(step)), "{steps:?}");

    let messages = history(&mut client, "main").await;
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"], "{messages:?}");
    assert_eq!(messages[1]["stopReason"], "aborted");
    let kept = text_of(&messages[1]);
    assert!(kept.starts_with("Once upon a time"), "{kept}");
    assert_eq!(kept.trim_end(), text_of(&end["message"]));
}

async fn a_stop_word_stops_what_runs_and_is_no_message(api: Api) {
    let stage = Stage::new(api).await;
    let mut client = admin(&stage.gateway).await;
    start(&mut client, "main", "tell a long story", "run-1").await;
    deltas(&client, "run-1", 1).await;
    let params = json!({"sessionKey": "main", "message": "Stop!", "idempotencyKey": "run-2"});
    let answer = call(&mut client, "chat.send", params).await;
    assert_eq!(answer, json!({"ok": true, "aborted": true, "runIds": ["run-1"]}));
    let end = end_of(&client, "run-1").await;
    assert_eq!((&end["state"], &end["stopReason"]), (&json!("aborted"), &json!("stop")));
    settles(&mut client, "agent:main:main", "killed").await;
    assert_eq!(history(&mut client, "main").await.len(), 2);
    assert_eq!(stage.mock.requests().await.len(), 1);
}

async fn an_abort_while_the_provider_is_awaited_ends_the_run(api: Api) {
    let stage = Stage::new(api).await;
    let mut client = admin(&stage.gateway).await;
    start(&mut client, "main", "always busy", "run-1").await;
    let retries = client.wait_for(Duration::from_secs(5), |frame| {
        frame["event"] == "agent" && frame["payload"]["data"]["phase"] == "retry"
    });
    retries.await.expect("a retry");
    let answer = call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
    assert_eq!(answer["runIds"], json!(["run-1"]));
    let end = end_of(&client, "run-1").await;
    assert_eq!((&end["state"], end.get("message")), (&json!("aborted"), None));
    settles(&mut client, "agent:main:main", "killed").await;
    assert_eq!(history(&mut client, "main").await.len(), 1, "nothing was said");
}

#[tokio::test]
async fn an_abort_takes_no_time_to_speak_of() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut times = Vec::new();
    for round in 0..ABORT_TRIES {
        let run_id = format!("run-{round}");
        start(&mut client, "main", "@mock stream n=400 delay=50", &run_id).await;
        deltas(&client, &run_id, 1).await;
        let asked_at = Instant::now();
        call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": run_id})).await;
        assert_eq!(end_of(&client, &run_id).await["state"], "aborted");
        times.push(asked_at.elapsed());
    }
    times.sort_unstable();
    assert!(times[ABORT_TRIES / 2] < ABORT_LIMIT, "{times:?}");
    assert!(times[ABORT_TRIES - 1] < LATEST_ABORT, "{times:?}");
}

#[tokio::test]
async fn an_abort_at_any_moment_gives_one_end_that_its_answer_tells() {
    let stage = Stage::new(Api::OpenAi).await;
    let mut client = admin(&stage.gateway).await;
    for round in 0..30_u64 {
        let run_id = format!("run-{round}");
        start(&mut client, "main", &format!("question {round}"), &run_id).await;
        // Up to about the time that a whole run takes.
        tokio::time::sleep(Duration::from_millis(round)).await;
        let params = json!({"sessionKey": "main", "runId": run_id});
        let answer = call(&mut client, "chat.abort", params).await;
        let end = end_of(&client, &run_id).await;
        let was_aborted = end["state"] == "aborted";
        assert_eq!(answer["aborted"], was_aborted, "round {round}: {answer} {end}");
    }
    let last = ask(&mut client, "main", "and now?", "last").await;
    assert_eq!(last["state"], "final");
    for round in 0..30 {
        assert_eq!(ends_of(&client, &format!("run-{round}")).len(), 1, "round {round}");
    }
}

#[tokio::test]
async fn an_abort_that_comes_with_the_message_stops_its_run() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let ways =
        [("chat.send", "sessionKey", "chat.abort"), ("sessions.send", "key", "sessions.abort")];
    for (round, (send, name, abort)) in ways.into_iter().cycle().take(8).enumerate() {
        let (run_id, of_one) = (format!("run-{round}"), round % 4 < 2);
        let mut asked = json!({name: "main", "message": "@mock stream n=2000 delay=50"});
        asked["idempotencyKey"] = json!(run_id);
        let mut stopped = json!({name: "main"});
        if of_one {
            stopped["runId"] = json!(run_id);
        }
        let frames =
            [("send", send, asked), ("abort", abort, stopped)].map(|(id, method, params)| {
                json!({"type": "req", "id": format!("{id}-{round}"), "method": method,
                "params": params})
                .to_string()
            });
        client.send_together(frames).await;
        let answer = client.answer(&format!("abort-{round}")).await.unwrap();
        let told = &answer["payload"];
        let runs = [&told["runIds"][0], &told["abortedRunId"]];
        assert!(runs.contains(&&json!(run_id)), "{abort}: {answer}");
        assert_eq!(end_of(&client, &run_id).await["state"], "aborted", "{abort}");
    }
}

#[tokio::test]
async fn an_abort_is_answered_though_a_message_before_it_is_not() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "one", "@mock stream n=2000 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    // As long as somebody else holds the database no message is taken and no run can end.
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    database.busy_timeout(Duration::from_secs(5)).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let message = |session: &str, run_id: &str| {
        ("chat.send", json!({"sessionKey": session, "message": run_id, "idempotencyKey": run_id}))
    };
    let asked = [
        ("a", message("one", "a")),
        ("b", message("one", "b")),
        ("run", ("chat.abort", json!({"sessionKey": "one", "runId": "run-1"}))),
        ("c", message("two", "c")),
        ("d", message("two", "d")),
        ("all", ("chat.abort", json!({"sessionKey": "two"}))),
    ];
    let frames = asked.map(|(id, (method, params))| {
        json!({"type": "req", "id": id, "method": method, "params": params}).to_string()
    });
    client.send_together(frames).await;
    let stopped = client.answer("run").await.unwrap();
    let expected = json!({"ok": true, "aborted": true, "runIds": ["run-1"]});
    assert_eq!(stopped["payload"], expected, "{stopped}");
    let stopped = client.answer("all").await.unwrap();
    let expected = json!({"ok": true, "aborted": false, "runIds": []});
    assert_eq!(stopped["payload"], expected, "{stopped}");
    let is_later =
        |frame: &Value| frame["type"] == "res" && ["b", "d"].iter().any(|id| frame["id"] == *id);
    assert!(!client.frames().iter().any(is_later), "it has waited for them");
    database.execute_batch("ROLLBACK").unwrap();
    assert_eq!(end_of(&client, "run-1").await["state"], "aborted");
}

#[tokio::test]
async fn an_abort_is_told_in_the_recorded_order_before_its_answer() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    start(&mut client, "main", "@mock stream n=60 delay=50", "run-1").await;
    deltas(&client, "run-1", 2).await;
    let params = json!({"sessionKey": "main", "runId": "run-1"});
    let answer = call(&mut client, "chat.abort", params).await;
    assert_eq!(answer["aborted"], true);
    let steps: Vec<_> = client.frames().iter().filter_map(step).collect();
    let from = steps.iter().position(|step| step == "chat aborted").unwrap();
    let expected = [
        "chat aborted",
        "agent lifecycle end",
        "sessions.changed end",
        "session.message assistant aborted",
        "sessions.changed message",
        "answer",
    ];
    assert_eq!(steps[from..], expected);
    let aborted = &events(&client, "chat", "run-1").pop().unwrap();
    let ended = events(&client, "agent", "run-1").pop().unwrap();
    assert_eq!(
        (&aborted["sessionKey"], &ended["sessionKey"]),
        (&json!("main"), &json!("agent:main:main"))
    );
    assert_eq!(aborted["seq"], ended["seq"]);
    let kept = &history(&mut client, "main").await[1];
    assert_eq!(kept["errorMessage"], "Request was aborted");
    assert_eq!(text_of(kept).trim_end(), text_of(&aborted["message"]));
}

#[tokio::test]
async fn what_waits_behind_a_run_that_is_stopped_with_it_comes_after_the_end_of_that() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let args = json!({"command": "touch begun; sleep 600"});
    let calls = format!("@mock tool name=exec args={args} pre=\"Let me look.\"");
    let asked = ["@mock stream n=2000 delay=50", calls.as_str()];
    for (round, text) in asked.into_iter().enumerate() {
        let session = format!("agent:main:s{round}");
        let runs = ["asked", "waits", "waits-too"].map(|name| format!("{name}-{round}"));
        start(&mut client, &session, text, &runs[0]).await;
        deltas(&client, &runs[0], 1).await;
        if round == 1 {
            let begun = gateway.workspace().join("begun");
            until("the command", async || begun.exists().then_some(())).await;
        }
        start(&mut client, &session, "and then?", &runs[1]).await;
        start(&mut client, &session, "and after that?", &runs[2]).await;
        let answer = call(&mut client, "chat.abort", json!({"sessionKey": session})).await;
        assert_eq!(answer["runIds"], json!(runs));
        let said = told(&mut client, &session).await;
        let (before, after) = said.split_at(said.len() - 2);
        assert_eq!(after, lines(&[("user", "and then?"), ("user", "and after that?")]), "{said:?}");
        let roles: Vec<_> = before.iter().map(|(role, _)| role.as_str()).collect();
        let expected: [&[&str]; 2] = [&["user", "assistant"], &["user", "assistant", "toolResult"]];
        assert_eq!(roles, expected[round], "{said:?}");
        let frames = client.frames();
        let ends = frames.iter().filter(|frame| frame["payload"]["state"] == "aborted");
        let ends = ends.filter(|frame| frame["payload"]["sessionKey"] == session);
        let ends: Vec<_> = ends.map(|frame| frame["payload"]["runId"].clone()).collect();
        assert_eq!(json!(ends), json!(runs));
    }
}

/// A frame of the run's end, by what it is.
fn step(frame: &Value) -> Option<String> {
    let payload = &frame["payload"];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match frame["event"].as_str() {
        None => (payload["aborted"] == true).then(|| "answer".into()),
        Some("chat") => Some(format!("chat {}", word(&payload["state"]))),
        Some("agent") if payload["stream"] == "lifecycle" => {
            Some(format!("agent lifecycle {}", word(&payload["data"]["phase"])))
        }
        Some("sessions.changed") => Some(format!("sessions.changed {}", word(&payload["phase"]))),
        Some("session.message") => {
            let message = &payload["message"];
            let (role, reason) = (word(&message["role"]), word(&message["stopReason"]));
            Some(format!("session.message {role} {reason}"))
        }
        Some(_) => None,
    }
}

#[tokio::test]
async fn a_run_is_stopped_by_any_spelling_of_its_session() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let spellings = ["main", "agent:main:main", " MAIN ", "Agent:Main:Main"];
    for (index, (begun, stopped)) in
        spellings.iter().flat_map(|one| spellings.iter().map(move |other| (one, other))).enumerate()
    {
        let run_id = format!("run-{index}");
        start(&mut client, begun, "@mock stream n=60 delay=50", &run_id).await;
        let mut params = json!({"sessionKey": stopped});
        if index % 2 == 0 {
            params["runId"] = json!(run_id);
        }
        let answer = call(&mut client, "chat.abort", params).await;
        assert_eq!(answer["runIds"], json!([run_id]), "{begun:?} by {stopped:?}");
        // Events echo the spelling of the sender.
        assert_eq!(end_of(&client, &run_id).await["sessionKey"], *begun);
    }
    start(&mut client, "main", "@mock stream n=60 delay=50", "last").await;
    let params = json!({"sessionKey": "other", "runId": "last"});
    let answer = client.request("chat.abort", params).await;
    assert_eq!(answer["error"]["message"], "runId does not match sessionKey");
    let idle = call(&mut client, "chat.abort", json!({"sessionKey": "other"})).await;
    assert_eq!(idle, json!({"ok": true, "aborted": false, "runIds": []}));
}

with_both_apis! {
    an_abort_in_the_middle_ends_the_run_at_once_and_keeps_its_text;
    a_stop_word_stops_what_runs_and_is_no_message;
    an_abort_while_the_provider_is_awaited_ends_the_run;
}
