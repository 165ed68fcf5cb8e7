//! `/subagents`: what the user does with the sub-agents of the session.

use crate::agent::subagents::manage::{Overview, RECENT_MINUTES, status};
use crate::agent::subagents::{Outcome, Said};
use crate::registry::Ctx;
use crate::sessions::SessionKey;
use crate::store::SubagentRow;

/// Lines of a log when nobody says how many.
const LOG_LINES: usize = 20;
/// Most lines of a log.
const LOG_LINES_MAX: usize = 200;

const USAGE: &str = "Usage: /subagents list | kill <id|#|all> | log <id|#> [limit] [tools] | \
    info <id|#> | send <id|#> <message> | steer <id|#> <message>";

/// `/subagents [list | kill | log | info | send | steer]`.
pub async fn run(words: &str, cx: &Ctx, key: &SessionKey) -> String {
    let (action, rest) = split(words);
    let (target, rest) = split(rest);
    let done = match (action.to_lowercase().as_str(), target) {
        ("" | "list", _) => list(cx, key).await,
        ("kill" | "stop", target) if !target.is_empty() => kill(cx, key, target).await,
        ("log", target) if !target.is_empty() => log(cx, key, target, rest).await,
        ("info", target) if !target.is_empty() => info(cx, key, target).await,
        ("send" | "steer", target) if !target.is_empty() && !rest.is_empty() => {
            let said = if action.eq_ignore_ascii_case("send") { Said::Send } else { Said::Steer };
            tell(cx, key, target, rest, said).await
        }
        _ => Ok(USAGE.to_owned()),
    };
    done.unwrap_or_else(|error| format!("⚠️ /subagents: {error}"))
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

async fn list(cx: &Ctx, key: &SessionKey) -> Result<String, String> {
    let rows = cx.services.runs.subagents_of(key).await.map_err(|error| error.to_string())?;
    Ok(Overview::new(&rows, RECENT_MINUTES, cx.now_ms()).text())
}

async fn find(cx: &Ctx, key: &SessionKey, target: &str) -> Result<SubagentRow, String> {
    cx.services.runs.find_subagent(key, target).await.map_err(|error| error.to_string())
}

async fn kill(cx: &Ctx, key: &SessionKey, target: &str) -> Result<String, String> {
    let one = Some(target).filter(|target| !["all", "*"].contains(target));
    let killed = cx.services.runs.kill_subagents(key, one, Some(&cx.caller.principal)).await;
    Ok(match killed.map_err(|error| error.to_string())?.len() {
        0 => "⚙️ Nothing to stop.".to_owned(),
        1 => "⚙️ Stopped 1 sub-agent.".to_owned(),
        count => format!("⚙️ Stopped {count} sub-agents."),
    })
}

async fn log(cx: &Ctx, key: &SessionKey, target: &str, rest: &str) -> Result<String, String> {
    let row = find(cx, key, target).await?;
    let words: Vec<_> = rest.split_whitespace().collect();
    let limit = words.iter().find_map(|word| word.parse().ok());
    let limit = limit.unwrap_or(LOG_LINES).clamp(1, LOG_LINES_MAX);
    let log = cx.services.runs.subagent_log(&row, limit, words.contains(&"tools")).await;
    let log = log.map_err(|error| error.to_string())?;
    Ok(format!("📜 {}\n{}", row.child_key, if log.is_empty() { "(nothing yet)" } else { &log }))
}

async fn info(cx: &Ctx, key: &SessionKey, target: &str) -> Result<String, String> {
    let row = find(cx, key, target).await?;
    let label = row.label.as_deref().unwrap_or("(no label)");
    let mut text = format!(
        "🤖 {label}\nStatus: {}\nTask: {}\nRun: {}\nSession: {}",
        status(&row),
        row.task,
        row.run_id,
        row.child_key,
    );
    if row.outcome.is_some() {
        text.push_str("\nEnd: ");
        text.push_str(&Outcome::from_json(row.outcome.as_deref()).words());
    }
    Ok(text)
}

async fn tell(
    cx: &Ctx,
    key: &SessionKey,
    target: &str,
    text: &str,
    said: Said,
) -> Result<String, String> {
    let row = find(cx, key, target).await?;
    let owner = cx.caller.principal.owner().clone();
    let told = cx.services.runs.tell_subagent(&row, text, said, (owner, None)).await;
    let run_id = told.map_err(|error| error.to_string())?;
    let answered =
        if row.place.is_some() { ", and is answered in the chat that it is for" } else { "" };
    Ok(format!("📨 Sent; its result comes into this session{answered} (run {run_id})."))
}
