//! What sessions used, read from transcripts of the original and of our own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stage::{Api, admin, ask, call, scripted, text_of, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, default_config, now_ms};

const DAY: &str = "2026-03-04";

/// A line of a transcript of the original.
fn line(minute: u32, message: &Value) -> String {
    let timestamp = format!("{DAY}T10:{minute:02}:00.000Z");
    let id = format!("{minute:08x}");
    let line = json!({"type": "message", "id": id, "parentId": null, "timestamp": timestamp,
        "message": message});
    format!("{line}\n")
}

fn answer(input: u64, output: u64, cost: f64) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": format!("{input} read")}],
        "api": "openai-completions", "provider": "elsewhere", "model": "big",
        "usage": {"input": input, "output": output, "cacheRead": 0, "cacheWrite": 0,
            "totalTokens": input + output, "cost": {"input": cost, "output": 0, "cacheRead": 0,
            "cacheWrite": 0, "total": cost}},
        "stopReason": "stop", "timestamp": 1})
}

fn question(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1})
}

/// What OpenClaw left behind: a session, and one that was reset.
fn left_behind(state: &Path) {
    let folder = state.join("agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    let index = json!({"agent:main:old": {"sessionId": "s-old", "updatedAt": 1_772_620_000_000_u64,
        "channel": "telegram", "label": "Old one"}});
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    let old = [
        "{\"type\":\"session\",\"version\":3,\"id\":\"s-old\"}\n".to_owned(),
        line(1, &question("[Wed 2026-03-04 10:01 UTC] how big?")),
        line(2, &answer(1000, 10, 0.5)),
        "{ torn".to_owned() + "\n",
        line(20, &answer(500, 5, 0.25)),
    ];
    fs::write(folder.join("s-old.jsonl"), old.concat()).unwrap();
    let put_away = folder.join("s-gone.jsonl.reset.2026-03-04T11-00-00.000Z");
    fs::write(put_away, line(3, &answer(7, 0, 0.0))).unwrap();
}

async fn gateway() -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let config = default_config(mock.address());
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    left_behind(&root.path().join("state"));
    let options = GatewayOptions::with_config(config);
    (Gateway::start_in(root, options).await.unwrap(), mock)
}

#[tokio::test]
async fn what_was_used_on_another_day_is_not_told_for_today() {
    let mock = MockProvider::start().await;
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    let folder = root.path().join("state/agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    // In no time zone that is today.
    let at = jiff::Timestamp::from_millisecond(now_ms()).unwrap();
    let at = at - jiff::SignedDuration::from_hours(48);
    let line = json!({"type": "message", "id": "00000001", "parentId": null,
        "timestamp": format!("{at:.3}"), "message": answer(1000, 10, 0.5)});
    let index = json!({"agent:main:old": {"sessionId": "s-old", "updatedAt": at.as_millisecond()}});
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    fs::write(folder.join("s-old.jsonl"), format!("{line}\n")).unwrap();
    let options = GatewayOptions::with_config(default_config(mock.address()));
    let gateway = Gateway::start_in(root, options).await.unwrap();
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "/usage cost", "run-1").await;
    assert_eq!(
        text_of(&end["message"]),
        "💸 Usage cost\nSession $0.0000\nToday $0.0000\nLast 30d $0.5000"
    );
}

fn that_day() -> Value {
    json!({"startDate": DAY, "endDate": DAY})
}

#[tokio::test]
async fn usage_of_sessions_that_the_original_wrote_is_summed_up_by_day_model_and_channel() {
    let (gateway, _mock) = gateway().await;
    let mut client = admin(&gateway).await;
    let usage = call(&mut client, "sessions.usage", that_day()).await;
    assert_eq!((&usage["startDate"], &usage["endDate"]), (&json!(DAY), &json!(DAY)));
    let rows = usage["sessions"].as_array().unwrap();
    let keys: Vec<_> = rows.iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["agent:main:s-gone", "agent:main:old"]);
    let old = &rows[1];
    assert_eq!((&old["label"], &old["channel"]), (&json!("Old one"), &json!("telegram")));
    assert_eq!(old["usage"]["activityDates"], json!([DAY]));
    assert_eq!(
        old["usage"]["dailyBreakdown"],
        json!([{"date": DAY, "tokens": 1515, "cost": 0.75}])
    );
    let counts = json!({"total": 3, "user": 1, "assistant": 2, "toolCalls": 0, "toolResults": 0,
        "errors": 0});
    assert_eq!(old["usage"]["messageCounts"], counts);
    let quarters = old["usage"]["utcQuarterHourTokenUsage"].as_array().unwrap();
    let quarters: Vec<_> = quarters.iter().map(|row| row["quarterIndex"].clone()).collect();
    assert_eq!(quarters, [json!(40), json!(41)]);
    let latency = json!({"count": 2, "avgMs": 600_000, "p95Ms": 1_140_000, "minMs": 60_000,
        "maxMs": 1_140_000});
    assert_eq!(old["usage"]["latency"], latency);

    assert_eq!(usage["totals"]["totalTokens"], 1522);
    assert_eq!(usage["totals"]["totalCost"], 0.75);
    let by_model = &usage["aggregates"]["byModel"];
    assert_eq!(by_model.as_array().unwrap().len(), 1);
    assert_eq!((&by_model[0]["model"], &by_model[0]["count"]), (&json!("big"), &json!(3)));
    assert_eq!(usage["aggregates"]["byChannel"][0]["channel"], "telegram");
    assert_eq!(usage["cacheStatus"]["status"], "fresh");

    // Until the end of all days.
    let params = json!({"startDate": DAY, "endDate": "9999-12-31"});
    let open = call(&mut client, "usage.cost", params).await;
    assert_eq!(open["totals"]["totalTokens"], 1522);

    // In the east, it was the next day already.
    let params = json!({"startDate": "2026-03-05", "endDate": "2026-03-05", "mode": "specific",
        "utcOffset": "UTC+14"});
    let east = call(&mut client, "sessions.usage", params).await;
    assert_eq!(east["totals"]["totalTokens"], 1522);
    assert_eq!(east["aggregates"]["daily"][0]["date"], "2026-03-05");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_left_out_and_told_and_the_rest_counts() {
    let (gateway, _mock) = gateway().await;
    let folder = gateway.state_dir().join("agents/main/sessions");
    // A link to itself cannot be followed, whoever tries.
    symlink("s-loop.jsonl", folder.join("s-loop.jsonl")).unwrap();
    let mut client = admin(&gateway).await;
    for method in ["usage.cost", "sessions.usage"] {
        let usage = call(&mut client, method, that_day()).await;
        assert_eq!(usage["totals"]["totalTokens"], 1522, "{method}");
    }
    call(&mut client, "sessions.cleanup", json!({"enforce": true})).await;
    let told = || async { gateway.stderr().contains("s-loop.jsonl").then_some(()) };
    until("the file is named in the log", told).await;
}

#[tokio::test]
async fn a_link_that_leads_elsewhere_is_no_transcript_and_nobody_need_ask_again() {
    let (gateway, _mock) = gateway().await;
    let folder = gateway.state_dir().join("agents/main/sessions");
    // Its first byte is no memory of anybody: whoever read it would be told an error.
    symlink("/proc/self/mem", folder.join("s-mem.jsonl")).unwrap();
    let mut client = admin(&gateway).await;
    let cost = call(&mut client, "usage.cost", that_day()).await;
    let status = &cost["cacheStatus"];
    let told = (&status["status"], &status["pendingFiles"], status.get("failedFiles"));
    assert_eq!(told, (&json!("fresh"), &json!(0), None), "{status}");
    assert_eq!(cost["totals"]["totalTokens"], 1522);
}

#[tokio::test]
async fn a_first_look_takes_in_all_of_many_transcripts() {
    let (gateway, _mock) = gateway().await;
    let folder = gateway.state_dir().join("agents/main/sessions");
    for number in 0..500 {
        fs::write(folder.join(format!("s-{number}.jsonl")), line(5, &answer(2, 1, 0.0))).unwrap();
    }
    let mut client = admin(&gateway).await;
    for _ in 0..2 {
        let cost = call(&mut client, "usage.cost", that_day()).await;
        assert_eq!(cost["cacheStatus"]["status"], "fresh", "{}", cost["cacheStatus"]);
        assert_eq!(cost["totals"]["totalTokens"], 1522 + 1500);
    }
}

#[tokio::test]
async fn what_a_run_used_is_there_when_it_has_ended_and_is_counted_once() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for run in 1..=3 {
        ask(&mut client, "main", "@mock text text=\"well\"", &format!("run-{run}")).await;
        let usage = call(&mut client, "sessions.usage", json!({"key": "main"})).await;
        let counts = &usage["sessions"][0]["usage"]["messageCounts"];
        assert_eq!((&counts["user"], &counts["assistant"]), (&json!(run), &json!(run)));
        let series = call(&mut client, "sessions.usage.timeseries", json!({"key": "main"})).await;
        let points = series["points"].as_array().unwrap();
        assert_eq!(points.len(), run);
        let sum = &points.last().unwrap()["cumulativeTokens"];
        assert_eq!((sum, sum == &json!(0)), (&usage["totals"]["totalTokens"], false));
        let cost = call(&mut client, "usage.cost", json!({"days": 1})).await;
        assert_eq!(cost["totals"], usage["totals"]);
        assert_eq!(cost["daily"].as_array().unwrap().len(), 1);
    }
    let logs = call(&mut client, "sessions.usage.logs", json!({"key": "main", "limit": 2})).await;
    let logs = logs["logs"].as_array().unwrap();
    let told: Vec<_> =
        logs.iter().map(|log| (log["role"].as_str(), log["content"].as_str())).collect();
    let expected =
        [(Some("user"), Some("@mock text text=\"well\"")), (Some("assistant"), Some("well"))];
    assert_eq!(told, expected);
    assert!(logs[1]["tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn a_reset_session_still_counts_and_a_deleted_file_does_not() {
    let (gateway, _mock) = gateway().await;
    let mut client = admin(&gateway).await;
    let tokens = async |client: &mut _| -> Value {
        call(client, "usage.cost", that_day()).await["totals"]["totalTokens"].clone()
    };
    assert_eq!(tokens(&mut client).await, 1522);
    call(&mut client, "sessions.reset", json!({"key": "agent:main:old"})).await;
    assert_eq!(tokens(&mut client).await, 1522);
    let folder = gateway.state_dir().join("agents/main/sessions");
    fs::remove_file(folder.join("s-gone.jsonl.reset.2026-03-04T11-00-00.000Z")).unwrap();
    assert_eq!(tokens(&mut client).await, 1515);
}

#[tokio::test]
async fn a_price_that_the_transcript_lacks_is_that_of_the_catalogue_or_missing() {
    let (gateway, _mock) = gateway().await;
    let folder = gateway.state_dir().join("agents/main/sessions");
    let unpriced = |provider: &str, model: &str| {
        json!({"role": "assistant", "content": [], "provider": provider, "model": model,
            "usage": {"input": 1_000_000, "output": 0}, "stopReason": "stop"})
    };
    let lines = [line(4, &unpriced("mock", "mock-1")), line(5, &unpriced("mock", "unheard-of"))];
    fs::write(folder.join("s-unpriced.jsonl"), lines.concat()).unwrap();
    let mut client = admin(&gateway).await;
    let params = json!({"key": "agent:main:s-unpriced", "startDate": DAY, "endDate": DAY});
    let usage = call(&mut client, "sessions.usage", params).await;
    assert_eq!(usage["totals"]["totalCost"], 1);
    assert_eq!(usage["totals"]["missingCostEntries"], 1);
}

#[tokio::test]
async fn bad_days_and_unknown_sessions_are_told() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for (method, params, message) in [
        (
            "sessions.usage",
            json!({"startDate": "2026-02-30", "endDate": "2026-03-01"}),
            "invalid sessions.usage params: at /startDate: no such day: 2026-02-30; give it as YYYY-MM-DD",
        ),
        (
            "usage.cost",
            json!({"mode": "specific", "utcOffset": "UTC+99"}),
            "invalid usage.cost params: at /utcOffset: no such offset: UTC+99; give it as UTC+2 or UTC-3:30",
        ),
        (
            "sessions.usage.timeseries",
            json!({"key": "nobody"}),
            "No transcript found for session: nobody",
        ),
        ("sessions.usage.timeseries", json!({"key": "../x"}), "Invalid session key: ../x"),
    ] {
        let answer = client.request(method, params).await;
        assert_eq!(answer["error"]["code"], "INVALID_REQUEST", "{answer}");
        assert_eq!(answer["error"]["message"], message);
    }
    let logs = call(&mut client, "sessions.usage.logs", json!({"key": "nobody"})).await;
    assert_eq!(logs, json!({"logs": []}));
}
