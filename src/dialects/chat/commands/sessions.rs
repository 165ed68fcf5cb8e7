//! `/new`, `/session`, `/sessions`, `/change`.

use crate::registry::{Ctx, Reply as Answer};
use crate::sessions::SessionKey;

use super::super::book::{self, Conversation};
use super::{Reply, minute, refusal};

/// Rows of `/sessions`.
const LISTED: usize = 10;
/// Rows of `/change`.
const RECENT: usize = 5;

/// `/new`.
pub async fn begin(cx: &Ctx) -> Reply {
    match book::begin(cx, None).await {
        Ok(session) => Reply { content: "New session started.".into(), moved: Some(session) },
        Err(error) => refusal(&error).into(),
    }
}

/// `/session [delete ID]`.
pub async fn session(cx: &Ctx, session: Option<&SessionKey>, args: &str) -> Answer<String> {
    let mut words = args.split_whitespace();
    let is_delete = words.next().is_some_and(|word| word.eq_ignore_ascii_case("delete"));
    if let (true, Some(id)) = (is_delete, words.next()) {
        return Ok(match book::find(cx, id).await? {
            Some(found) => {
                book::delete(cx, &found.session).await?;
                format!("Session '{id}' deleted.")
            }
            None => format!("Session '{id}' not found."),
        });
    }
    let Some(key) = session else {
        let model = cx.services.models.default_choice().model.reference();
        return Ok(format!("Session Info\n  Active: no\n  Model: {model}"));
    };
    let entry = cx.services.sessions.entry(key).await.ok().flatten();
    let model = cx.services.models.of_session(key, entry.as_ref()).name;
    let entry = entry.unwrap_or_default();
    Ok(format!(
        "Session Info\n  Active: yes\n  ID: {}\n  Model: {model}\n  Messages: {}",
        entry.session_id, entry.transcript.message_count
    ))
}

/// `/sessions [clear]`.
pub async fn sessions(cx: &Ctx, args: &str) -> Answer<String> {
    if args.eq_ignore_ascii_case("clear") {
        let count = book::delete_all(cx).await?;
        return Ok(format!("All sessions cleared ({count} deleted)."));
    }
    let all = book::all(cx).await?;
    if all.is_empty() {
        return Ok("No recorded sessions.".into());
    }
    let messages: u64 = all.iter().map(|it| it.messages).sum();
    let mut lines =
        vec![format!("Sessions ({} total, {messages} messages)", all.len()), String::new()];
    let row = |it: &Conversation| {
        format!(
            "  {}  {}  {}  ({} msgs)",
            it.session.id,
            minute(it.created_at),
            it.model,
            it.messages
        )
    };
    lines.extend(all.iter().take(LISTED).map(row));
    if all.len() > LISTED {
        lines.push(format!("  ... and {} more", all.len() - LISTED));
    }
    Ok(lines.join("\n"))
}

/// `/change`: those that one may go on with, which is for the client to do.
pub async fn recent(cx: &Ctx) -> Answer<String> {
    let all = book::all(cx).await?;
    if all.is_empty() {
        return Ok("No sessions to switch to. Use /new to start one.".into());
    }
    let mut lines = vec!["Recent Sessions:".to_owned(), String::new()];
    for (index, it) in all.iter().take(RECENT).enumerate() {
        lines.push(format!(
            "  {}. {}  {}  ({} msgs)",
            index + 1,
            minute(it.updated_at),
            it.model,
            it.messages
        ));
        lines.push(format!("     ID: {}", it.session.id));
    }
    Ok(lines.join("\n"))
}
