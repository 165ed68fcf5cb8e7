//! Jobs: what runs when, where its answer goes, and what is written of it.

mod cli;
mod crash;
mod delivery;
mod heartbeat;
mod retry;
mod room;
mod tool;
mod turns;
mod unheard;
mod update;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::stage::{RUN_LIMIT, call, until};
use crate::support::{MockProvider, WsClient};

/// Milliseconds since the epoch.
#[allow(clippy::disallowed_methods)] // the gateway runs by real time
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

fn hour() -> Value {
    json!({"kind": "every", "everyMs": 3_600_000})
}

/// Waits until a model is asked with this text in it; whether it may make jobs.
pub async fn may_make_jobs(mock: &MockProvider, part: &str) -> bool {
    until(&format!("a question with {part:?}"), async || {
        let all = mock.requests();
        let asked = all.iter().find(|it| it.body["messages"].to_string().contains(part))?;
        let mut tools = asked.body["tools"].as_array().into_iter().flatten();
        Some(tools.any(|tool| tool["function"]["name"] == "cron"))
    })
    .await
}

/// A job that asks the agent.
fn asking(name: &str, message: &str) -> Value {
    json!({"name": name, "schedule": hour(), "sessionTarget": "isolated", "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": message}, "delivery": {"mode": "none"}})
}

/// The session in which lists show a job.
fn base(id: &str) -> String {
    format!("agent:main:cron:{id}")
}

/// Makes a job; its id.
async fn add(client: &mut WsClient, job: Value) -> String {
    call(client, "cron.add", job).await["id"].as_str().unwrap().to_owned()
}

/// Runs a job now; the event of its end.
async fn run(client: &mut WsClient, id: &str) -> Value {
    let answer = call(client, "cron.run", json!({"id": id})).await;
    let run_id = answer["runId"].clone();
    assert_eq!(answer["enqueued"], true, "{answer}");
    let is_end = |frame: &Value| {
        let payload = &frame["payload"];
        frame["event"] == "cron" && payload["action"] == "finished" && payload["runId"] == run_id
    };
    let end = client.wait_for(RUN_LIMIT, is_end).await;
    end.unwrap_or_else(|| panic!("{run_id} does not end: {:?}", client.frames()))["payload"].clone()
}

/// Waits for the event of the end of a job that its schedule ran.
async fn end_of_job(client: &WsClient, id: &str, limit: Duration) -> Value {
    let is_end = |frame: &Value| {
        let payload = &frame["payload"];
        frame["event"] == "cron" && payload["action"] == "finished" && payload["jobId"] == id
    };
    let end = client.wait_for(limit, is_end).await;
    end.unwrap_or_else(|| panic!("job {id} does not end"))["payload"].clone()
}

/// The log of a job, the oldest first.
async fn log(client: &mut WsClient, id: &str) -> Vec<Value> {
    let page = call(client, "cron.runs", json!({"id": id, "limit": 200, "sortDir": "asc"})).await;
    page["entries"].as_array().unwrap().clone()
}

async fn job(client: &mut WsClient, id: &str) -> Value {
    let page = call(client, "cron.list", json!({"includeDisabled": true})).await;
    let jobs = page["jobs"].as_array().unwrap();
    jobs.iter().find(|job| job["id"] == id).cloned().unwrap_or(Value::Null)
}
