//! `/schedules`, `/schedule`: jobs, as `cron.*` has them.
//!
//! Promises: what a job says that is made here is said where it was made.

use serde_json::Value;

use crate::registry::{Ctx, Reply};
use crate::sessions::{SessionKey, WEBCHAT};
use crate::support::json;

use super::minute;

/// Fields of a pattern of the calendar.
const FIELDS: usize = 5;
/// Characters of a job's name.
const NAME_MAX: usize = 60;

/// `/schedules`.
pub async fn list(cx: &Ctx) -> Reply<String> {
    let listed = cx.call("cron.list", &json!({"includeDisabled": true})).await?;
    let jobs = listed["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    if jobs.is_empty() {
        return Ok("No scheduled tasks.\n\nUsage: /schedule add <cron> <prompt>".into());
    }
    let mut lines = vec![format!("Scheduled Tasks ({}):", jobs.len())];
    for job in jobs {
        let mark = if job["enabled"] == true { '+' } else { '-' };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        lines.push(format!("  [{mark}] {} - {}", text(&job["id"]), text(&job["name"])));
        let last = job["state"]["lastRunAtMs"].as_u64().map_or_else(|| "never".into(), minute);
        lines.push(format!("        Schedule: {}  |  Last run: {last}", when(&job["schedule"])));
    }
    Ok(lines.join("\n"))
}

fn when(schedule: &Value) -> String {
    match (schedule["kind"].as_str(), &schedule["expr"], &schedule["at"]) {
        (Some("cron"), Value::String(expr), _) => expr.clone(),
        (Some("at"), _, Value::String(at)) => format!("once at {at}"),
        _ => schedule["everyMs"].as_u64().map_or_else(
            || "?".into(),
            |every| format!("every {}", crate::agent::status::length(every / 1000)),
        ),
    }
}

/// `/schedule add <5 fields> <prompt> | remove ID`; `session` is the conversation.
pub async fn change(cx: &Ctx, session: Option<&SessionKey>, args: &str) -> Reply<String> {
    let (action, rest) = args.split_once(char::is_whitespace).unwrap_or((args, ""));
    match action.to_lowercase().as_str() {
        "" => Ok("Usage: /schedule add <cron> <prompt> or /schedule remove <id>".into()),
        "add" => match split(rest) {
            Some((cron, prompt)) => add(cx, session, &cron, prompt).await,
            None => Ok("Usage: /schedule add <min> <hour> <dom> <month> <dow> <prompt>".into()),
        },
        "remove" => {
            let Some(id) = rest.split_whitespace().next() else {
                return Ok("Usage: /schedule remove <id>".into());
            };
            let removed = cx.call("cron.remove", &json!({"id": id})).await?;
            Ok(if removed["removed"] == true {
                format!("Task '{id}' removed.")
            } else {
                format!("Task '{id}' not found.")
            })
        }
        _ => Ok(format!("Unknown action '{action}'.")),
    }
}

/// The pattern, and the prompt as it was written; `None` when one of them is not all there.
fn split(text: &str) -> Option<(String, &str)> {
    let (mut fields, mut rest) = (Vec::new(), text.trim());
    for _ in 0..FIELDS {
        let (field, after) = rest.split_once(char::is_whitespace)?;
        fields.push(field);
        rest = after.trim_start();
    }
    (!rest.is_empty()).then(|| (fields.join(" "), rest))
}

/// A job that answers in the conversation in which it is made.
async fn add(cx: &Ctx, session: Option<&SessionKey>, cron: &str, prompt: &str) -> Reply<String> {
    let name: String = prompt.lines().next().unwrap_or_default().chars().take(NAME_MAX).collect();
    let mut params = json!({
        "name": name,
        "enabled": true,
        "schedule": {"kind": "cron", "expr": cron},
        "sessionTarget": "isolated",
        "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": prompt},
    });
    if let Some(key) = session {
        let keys = cx.services.keys.now();
        params["agentId"] = key.agent(&keys).as_str().into();
        params["sessionKey"] = key.as_str().into();
        params["delivery"] = json!({"mode": "announce", "channel": WEBCHAT, "to": key.as_str()});
    }
    let job = cx.call("cron.add", &params).await?;
    let id = job["id"].as_str().unwrap_or_default();
    Ok(format!("Scheduled task created:\n  ID: {id}\n  Cron: {cron}\n  Prompt: {prompt}"))
}
