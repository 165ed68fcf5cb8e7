//! `/new`, `/reset`, `/steer`: a session begins anew, or its run is told more.

use super::{Message, Work, refusal, spoken};
use crate::agent::{CommandAnswer, Family};
use crate::config::QueueMode;
use crate::registry::Ctx;
use crate::sessions::SessionKey;
use crate::support::json;

/// `/new [model] [message]`, `/reset [message]`: the session begins anew, and the
/// message is the first in it.
pub fn begin(reason: &'static str, args: &str, cx: Ctx, key: SessionKey) -> Work {
    let (model, text) = match reason {
        "new" => split_model(args, &cx, &key),
        _ => (None, args),
    };
    let (said, is_alone) = (started(reason, model.as_deref()), text.is_empty());
    let text = spoken(&cx, text.to_owned());
    let first = reset(reason, model, cx, key);
    if is_alone {
        let answer = async move { CommandAnswer::Note(first.await.err().unwrap_or(said)) };
        return Work::AtOnce(Box::pin(answer));
    }
    Work::Message(Message { text, mode: None, first: Box::pin(first) })
}

fn started(reason: &str, model: Option<&str>) -> String {
    let done = match reason {
        "new" => "✅ New session started.",
        _ => "✅ Session reset.",
    };
    match model {
        Some(model) => format!("{done} Model set to {model} for this session."),
        None => done.to_owned(),
    }
}

async fn reset(
    reason: &'static str,
    model: Option<String>,
    cx: Ctx,
    key: SessionKey,
) -> Result<(), String> {
    let refused = |error| refusal(&cx, &format!("/{reason}"), &error);
    if model.is_some() {
        // Before anything is done.
        cx.check("sessions.patch").map_err(refused)?;
    }
    let params = json!({"key": key.as_str(), "reason": reason});
    cx.call("sessions.reset", &params).await.map_err(refused)?;
    if let Some(model) = model {
        let params = json!({"key": key.as_str(), "model": model});
        cx.call("sessions.patch", &params).await.map_err(refused)?;
    }
    Ok(())
}

/// The model that the first word names exactly, and the rest.
fn split_model<'a>(args: &'a str, cx: &Ctx, key: &SessionKey) -> (Option<String>, &'a str) {
    let (word, rest) = args.split_once(char::is_whitespace).unwrap_or((args, ""));
    let models = &cx.services.models;
    let usual = &models.of_agent(&key.agent(&cx.services.keys.now())).provider;
    match models.catalog().exactly(word, usual) {
        Ok(Some(model)) if !word.is_empty() => (Some(model.reference().to_string()), rest.trim()),
        _ => (None, args),
    }
}

/// `/steer <message>`: tells the run that is active, whatever the session does
/// with other messages.
pub fn steer(text: String, cx: &Ctx, key: SessionKey) -> Work {
    if text.is_empty() {
        let said = async { CommandAnswer::Note("Usage: /steer <message>".to_owned()) };
        return Work::AtOnce(Box::pin(said));
    }
    let runs = std::sync::Arc::clone(&cx.services.runs);
    let first = async move {
        let nothing = || "⚠️ No active run to steer in this session.".to_owned();
        // A session that is only held has none yet, and its lane lets the next one pass.
        let active = runs.active(&key).filter(|run| run.family != Family::Hold);
        active.map(|_| ()).ok_or_else(nothing)
    };
    let text = spoken(cx, text);
    Work::Message(Message { text, mode: Some(QueueMode::Steer), first: Box::pin(first) })
}
