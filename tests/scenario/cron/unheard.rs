//! Jobs whose channel is not configured here, and jobs that earlier releases took over.

use std::fs;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{add, asking, hour, job, log, now, run};
use crate::program::clawgate;
use crate::stage::{Api, admin, ask, config, scripted, told, until};
use crate::support::{Gateway, GatewayOptions, MockProvider};

/// A gateway whose main session was last written to from a channel that it has not.
async fn from_elsewhere() -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let root = tempfile::TempDir::with_prefix("clawgate-test-").unwrap();
    let folder = root.path().join("state/agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    let to = "+491701234567";
    let index = json!({"agent:main:main": {"sessionId": "s-main", "updatedAt": now(),
        "sessionStartedAt": now(), "lastChannel": "whatsapp", "lastTo": to,
        "deliveryContext": {"channel": "whatsapp", "to": to}}});
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    let header = json!({"type": "session", "version": 3, "id": "s-main",
        "timestamp": "2026-11-22T03:35:28.398Z", "cwd": "/w"});
    fs::write(folder.join("s-main.jsonl"), format!("{header}\n")).unwrap();
    let options = GatewayOptions::with_config(config(mock.address(), Api::OpenAi));
    (Gateway::start_in(root, options).await.unwrap(), mock)
}

/// What doctor says of the jobs that nobody hears.
async fn found_by_doctor(gateway: &Gateway) -> String {
    let report = clawgate(gateway, &["doctor", "--json"]).await.stdout;
    let report: Value = serde_json::from_slice(&report).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|it| it["checkId"] == "cron.unheard");
    found.unwrap_or_else(|| panic!("{report}"))["title"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_reminder_for_a_session_that_is_not_there_is_heard_as_the_main_session_is() {
    let (gateway, _mock) = from_elsewhere().await;
    let mut client = admin(&gateway).await;
    for (name, key) in [("gone", "agent:main:gone"), ("sub", "agent:main:subagent:1")] {
        let tells = json!({"name": name, "sessionTarget": "main", "wakeMode": "now",
            "sessionKey": key, "schedule": hour(),
            "payload": {"kind": "systemEvent", "text": "Tea is ready."}});
        add(&mut client, tells).await;
    }
    let title = found_by_doctor(&gateway).await;
    assert!(title.starts_with("2 jobs speak where nobody hears them: gone ("), "{title}");
    assert!(title.contains("agent:main:main was last written to from whatsapp"), "{title}");
}

#[tokio::test]
async fn a_reminder_that_nobody_hears_is_told_and_stays() {
    let (gateway, _mock) = from_elsewhere().await;
    let mut client = admin(&gateway).await;
    let mut once = json!({"name": "tea", "sessionTarget": "main", "wakeMode": "now",
        "payload": {"kind": "systemEvent", "text": "@mock text text=\"Tea is ready.\""}});
    once["schedule"] = json!({"kind": "at", "at": (now() + 3_600_000).to_string()});
    let id = add(&mut client, once).await;
    let end = run(&mut client, &id).await;
    assert_eq!(
        (&end["status"], &end["deliveryStatus"], &end["delivered"]),
        (&json!("ok"), &json!("not-delivered"), &json!(false)),
        "{end}"
    );
    let why = end["deliveryError"].as_str().unwrap();
    let begin = "agent:main:main was last written to from whatsapp, which is not configured here";
    assert!(why.starts_with(begin) && why.contains("write to that session"), "{why}");
    let job = job(&mut client, &id).await;
    assert_eq!((&job["enabled"], &job["state"]["lastDeliveryError"]), (&json!(false), &json!(why)));
    assert_eq!(log(&mut client, &id).await[0]["deliveryStatus"], "not-delivered");
    let warning = "nobody hears what a job reminds of";
    until("the warning", async || gateway.stderr().contains(warning).then_some(())).await;
}

#[tokio::test]
async fn an_answer_for_a_channel_that_is_not_here_is_told_in_the_log_and_by_doctor() {
    let (gateway, _mock) = from_elsewhere().await;
    let mut client = admin(&gateway).await;
    for delivery in [
        json!({"mode": "announce"}),
        json!({"mode": "announce", "channel": "whatsapp", "to": "+491701234567"}),
    ] {
        let mut tells = asking("tells", "@mock text text=\"the report\"");
        tells["delivery"] = delivery;
        let id = add(&mut client, tells).await;
        assert_eq!(run(&mut client, &id).await["status"], "error");
        let warns = |line: &str| line.contains("nobody hears the answer") && line.contains(&id);
        let warned = async || gateway.stderr().lines().any(warns).then_some(());
        until("the warning", warned).await;
    }
    let silent = add(&mut client, asking("silent", "m")).await;
    let title = found_by_doctor(&gateway).await;
    assert!(title.starts_with("2 jobs speak where nobody hears them: tells ("), "{title}");
    assert!(title.contains("whatsapp") && !title.contains(&silent), "{title}");
}

#[tokio::test]
async fn what_an_earlier_release_took_over_without_a_delivery_is_announced() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "m-1").await;
    let id = add(&mut client, asking("tells", "@mock text text=\"the report\"")).await;
    gateway.terminate().await;
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    let earlier = "UPDATE cron_jobs SET job = json_remove(job, '$.delivery')";
    database.execute_batch(earlier).unwrap();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    assert_eq!(job(&mut client, &id).await["delivery"], json!({"mode": "announce"}));
    let end = run(&mut client, &id).await;
    assert_eq!(end["deliveryStatus"], "delivered", "{end}");
    assert_eq!(told(&mut client, "main").await.pop().unwrap().1, "the report");
}
