//! Messages that other parts of the gateway pass on for a caller who waits for
//! the answer.
//!
//! Promises: they are taken as those of `agent` are, with the caller's rights and
//! in their turn. Must not: know in which words the caller asked.

use serde_json::Value;

use super::session_changes::change;
use super::{attachments, chat};
use crate::agent::feed::Follower;
use crate::agent::{Accepted, Family, RunTerms, SendRequest};
use crate::protocol::{ErrorShape, Scope};
use crate::providers::{AnswerWishes, ToolSpec};
use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;

/// A message, and what its answer may be made with.
pub struct Question {
    /// Its session.
    pub key: SessionKey,
    /// The run's id, which no other run has.
    pub run_id: String,
    /// What it says.
    pub text: String,
    /// What comes with it, as `chat.send` has it.
    pub attachments: Vec<Value>,
    /// The model that answers, when it is not the session's; for admins.
    pub model: Option<String>,
    /// Tools that the caller has himself.
    pub client_tools: Vec<ToolSpec>,
    /// What the system prompt says beside what everybody's does.
    pub instructions: Option<String>,
    /// How he would like the model to answer.
    pub wishes: AnswerWishes,
    /// The channel by which he says that it comes.
    pub channel: Option<String>,
}

/// Accepts a message; the answer is news of its session from now on. The run
/// begins when `cx` is dropped.
///
/// # Errors
/// Those of `agent`, and when the connection of `cx` was told to close meanwhile.
pub async fn ask(cx: &Ctx, question: Question) -> Reply<Follower> {
    cx.check("agent")?;
    check_model(cx, &question)?;
    let text = chat::clean(&question.text)?;
    let key = question.key;
    cx.enter_lane(&key).await;
    chat::check_session(cx, &key).await?;
    let incoming = attachments::receive(cx, &key, &text, question.attachments).await?;
    let follower = cx.services.runs.parts().feed.follow(&key);
    let terms = RunTerms {
        model: question.model,
        client_tools: question.client_tools,
        instructions: question.instructions,
        wishes: question.wishes,
        channel: question.channel,
        ..chat::terms(cx)
    };
    let request = SendRequest {
        family: Family::Agent,
        written_key: key.to_string(),
        key: key.clone(),
        idempotency_key: question.run_id,
        message: incoming.message,
        media: incoming.media,
        thinking: None,
        owner: cx.caller.principal.owner().clone(),
        dedupe_text: None,
        limit: None,
        terms,
    };
    let refused = |why: &str| ErrorShape::unavailable(why);
    // It may have waited long for its turn; what let the caller in may be gone.
    if cx.caller.subscriber.outbox.is_closing() {
        return Err(refused("whoever asks is let in no more"));
    }
    let sent = cx.services.runs.send(request).await;
    let (accepted, start) = sent.map_err(|error| refused(&error.to_string()))?;
    if accepted != Accepted::Started {
        return Err(refused("the id of the run is taken"));
    }
    let entry = cx.services.sessions.entry(&key).await.ok().flatten();
    cx.first_after_answer(change(cx, key, entry, "send"));
    if let Some(start) = start {
        cx.after_answer(start);
    }
    Ok(follower)
}

/// Whether the caller may choose the model, and it may be chosen.
fn check_model(cx: &Ctx, question: &Question) -> Reply<()> {
    let Some(model) = &question.model else { return Ok(()) };
    if !cx.caller.principal.allows(Scope::Admin) {
        let text = "provider/model overrides are not authorized for this caller.";
        return Err(ErrorShape::denied(text));
    }
    let wanted = cx.services.models.wanted(model, &question.key);
    match wanted.info {
        Some(_) => Ok(()),
        None => Err(ErrorShape::invalid(format!(
            "Model '{}' is not allowed for agent '{}'.",
            wanted.name,
            question.key.agent(&cx.services.keys.now())
        ))),
    }
}
