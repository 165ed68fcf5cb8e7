//! `/schedules`, `/schedule`: jobs, as `cron.*` has them.

use serde_json::Value;

use crate::registry::{Ctx, Reply};
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

/// `/schedule add <5 fields> <prompt> | remove ID`.
pub async fn change(cx: &Ctx, args: &str) -> Reply<String> {
    let words: Vec<_> = args.split_whitespace().collect();
    match words.split_first() {
        Some((add, words)) if add.eq_ignore_ascii_case("add") => {
            if words.len() <= FIELDS {
                return Ok("Usage: /schedule add <min> <hour> <dom> <month> <dow> <prompt>".into());
            }
            let (fields, prompt) = words.split_at(FIELDS);
            self::add(cx, &fields.join(" "), &prompt.join(" ")).await
        }
        Some((remove, words)) if remove.eq_ignore_ascii_case("remove") => {
            let Some(id) = words.first() else { return Ok("Usage: /schedule remove <id>".into()) };
            let removed = cx.call("cron.remove", &json!({"id": id})).await?;
            Ok(if removed["removed"] == true {
                format!("Task '{id}' removed.")
            } else {
                format!("Task '{id}' not found.")
            })
        }
        None => Ok("Usage: /schedule add <cron> <prompt> or /schedule remove <id>".into()),
        Some((other, _)) => Ok(format!("Unknown action '{other}'.")),
    }
}

async fn add(cx: &Ctx, cron: &str, prompt: &str) -> Reply<String> {
    let name: String = prompt.chars().take(NAME_MAX).collect();
    let params = json!({
        "name": name,
        "enabled": true,
        "schedule": {"kind": "cron", "expr": cron},
        "sessionTarget": "isolated",
        "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": prompt},
    });
    let job = cx.call("cron.add", &params).await?;
    let id = job["id"].as_str().unwrap_or_default();
    Ok(format!("Scheduled task created:\n  ID: {id}\n  Cron: {cron}\n  Prompt: {prompt}"))
}
