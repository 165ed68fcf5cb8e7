//! Which conversation is meant.
//!
//! Owns: finding one by the id of its transcript or by its key, and what the model
//! is told of one that was put away. A session of ours has all of its history as
//! context, so one that is resumed needs nothing more. One that began anew since
//! is resumed as a conversation of its own, whose first message brings the last
//! messages of the old one along: hidden from people, kept in the transcript.

use serde_json::Value;

use crate::dialects::chat::book::{self, Session};
use crate::protocol::{ErrorShape, Scope};
use crate::registry::{Ctx, Reply};
use crate::sessions::{AgentId, HistoryOptions, SessionKey};
use crate::store::Teller;
use crate::support::json;

/// Messages of an old conversation that the model is told, as in the original.
const LAST: usize = 20;
/// Characters of each.
const LINE_MAX: usize = 4000;

/// What the model is told before it hears the next message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// By which id the client knows it.
    pub id: String,
    /// Whose conversation it was.
    pub agent: AgentId,
    /// The session that goes on from it, once there is one.
    pub key: Option<SessionKey>,
    /// The messages, the oldest first.
    lines: Vec<String>,
}

/// A conversation that is resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumed {
    /// By which id the client knows it.
    pub id: String,
    /// How many messages it has.
    pub messages: u64,
    /// The session; none yet for one that was put away.
    pub session: Option<Session>,
    /// What the model is told of one that was put away.
    pub hidden: Option<Hidden>,
}

/// The conversation with this id, or this key.
///
/// # Errors
/// When the caller may not see it, or it cannot be read.
pub async fn find(cx: &Ctx, id: &str) -> Reply<Option<Resumed>> {
    if id.trim().is_empty() {
        return Ok(None);
    }
    if let Some(found) = book::find(cx, id).await? {
        let (id, messages) = (found.session.id.clone(), found.messages);
        return Ok(Some(Resumed { id, messages, session: Some(found.session), hidden: None }));
    }
    let sessions = &cx.services.sessions;
    let key = cx.session_key(id);
    if let Some(entry) = sessions.entry(&key).await.map_err(unreadable)? {
        let (id, messages) = (entry.session_id, entry.transcript.message_count);
        let session = Some(Session { key, id: id.clone() });
        return Ok(Some(Resumed { id, messages, session, hidden: None }));
    }
    let options = HistoryOptions { limit: LAST, max_chars: LINE_MAX, ..HistoryOptions::default() };
    let past = sessions.past(id, options).await.map_err(unreadable)?;
    Ok(past.map(|past| {
        let lines = past.newest.iter().filter_map(line).collect();
        let hidden = Hidden { id: id.to_owned(), agent: past.agent, key: None, lines };
        let hidden = Some(hidden);
        Resumed { id: id.to_owned(), messages: past.messages, session: None, hidden }
    }))
}

/// Begins a conversation, of this agent or of the default one.
///
/// # Errors
/// Those of `sessions.create`.
pub async fn begin(cx: &Ctx, agent: Option<AgentId>) -> Reply<Session> {
    book::begin_of(cx, agent, None).await
}

impl Hidden {
    /// Adds it to the params of `chat.send`. Only admins may send along what people
    /// do not see; for others it is told as what has happened since the last turn.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub async fn add_to(&self, cx: &Ctx, key: &SessionKey, params: &mut Value) -> Reply<()> {
        if cx.caller.principal.allows(Scope::Admin) {
            params["systemProvenanceReceipt"] = json!(self.text());
            return Ok(());
        }
        for line in &self.lines {
            let noted = cx.services.runs.parts().notice(key, line, Teller::Other).await;
            noted.map_err(|error| ErrorShape::unavailable(format!("Error: {error}")))?;
        }
        Ok(())
    }

    fn text(&self) -> String {
        let count = self.lines.len();
        format!(
            "This conversation goes on from an earlier one. Its last {count} messages, oldest \
             first, for context only:\n{}",
            self.lines.join("\n")
        )
    }
}

/// A message as the model is told it.
fn line(message: &Value) -> Option<String> {
    let role = message["role"].as_str()?;
    let text: String = match &message["content"] {
        Value::String(text) => text.clone(),
        content => {
            let blocks = content.as_array().into_iter().flatten();
            blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    };
    let text = text.trim();
    (!text.is_empty()).then(|| format!("[{role}] {text}"))
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
fn unreadable(error: crate::sessions::SessionError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_conversation_is_told_as_role_and_text() {
        let lines = [
            json!({"role": "user", "content": "hi"}),
            json!({"role": "assistant", "content": [{"type": "text", "text": " hello "}]}),
            json!({"role": "assistant", "content": [{"type": "toolCall", "name": "x"}]}),
            json!({"content": "of nobody"}),
        ];
        let lines: Vec<_> = lines.iter().filter_map(line).collect();
        assert_eq!(lines, ["[user] hi", "[assistant] hello"]);
        let agent = AgentId::normalize("main");
        let hidden = Hidden { id: "old".into(), agent, key: None, lines };
        assert!(hidden.text().ends_with("only:\n[user] hi\n[assistant] hello"));
    }
}
