//! `chat.*`.

use serde_json::{Value, json};
use unicode_normalization::UnicodeNormalization;

use super::session_settings::refuse_malformed;
use crate::agent::{AbortError, AbortReason, Accepted, ActiveRun, Family, SendError, SendRequest};
use crate::commands::{self, Command};
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, UserContent, UserMessage,
};
use crate::protocol::methods::chat::{
    ChatAbortParams, ChatHistoryParams, ChatInjectParams, ChatSendParams,
};
use crate::protocol::{ErrorKind, ErrorShape, Scope, simple};
use crate::providers::ThinkingLevel;
use crate::registry::{Ctx, Reply};
use crate::sessions::{HistoryOptions, SessionError, SessionKey};

/// Which requests `chat.send` keeps in order.
pub fn send_lane(p: &ChatSendParams) -> &str {
    &p.session_key
}

/// Which requests `chat.inject` keeps in order.
pub fn inject_lane(p: &ChatInjectParams) -> &str {
    &p.session_key
}

/// `chat.send`: accepts a message and answers at once; the run tells the rest
/// by events. The order of the checks is that of `reference/behaviour.md` §12.
pub async fn send(cx: Ctx, p: ChatSendParams) -> Reply<Value> {
    check_privileged(&cx, &p)?;
    let text = clean(&p.message)?;
    if text.trim().is_empty() && p.attachments.is_empty() {
        return Err(ErrorShape::invalid("message or attachment required"));
    }
    let key = cx.session_key(&p.session_key);
    check_session(&cx, &key).await?;
    if p.attachments.is_empty() && commands::is_stop_word(&text) {
        let runs = stop(&cx, &key, None, AbortReason::Stop).await?;
        return Ok(json!({"ok": true, "aborted": !runs.is_empty(), "runIds": runs}));
    }
    let images = images(&p.attachments, cx.services.settings.agents.defaults.media_max_mb)?;
    let command = if images.is_empty() { Command::parse(&text) } else { None };
    let request = send_request(&cx, &p, key.clone(), &text, images);
    let run_id = p.idempotency_key;
    let outcome = match command {
        Some(command) => cx
            .services
            .runs
            .answer_command(request, command.run(&cx, &key))
            .await
            .map(|it| (it, None)),
        None => cx.services.runs.send(request).await,
    };
    let outcome = outcome.map(|(accepted, start)| {
        if let Some(start) = start {
            cx.after_answer(start);
        }
        accepted
    });
    accepted(outcome, &run_id)
}

fn send_request(
    cx: &Ctx,
    p: &ChatSendParams,
    key: SessionKey,
    text: &str,
    images: Vec<ContentBlock>,
) -> SendRequest {
    let is_plain = images.is_empty() && !text.starts_with('/');
    let thinking = p.thinking.as_deref().map(simple::thinking_in).and_then(ThinkingLevel::parse);
    SendRequest {
        family: Family::Chat,
        key,
        written_key: p.session_key.clone(),
        idempotency_key: p.idempotency_key.clone(),
        message: user_message(cx, text, images),
        thinking,
        owner: cx.caller.principal.owner().clone(),
        dedupe_text: is_plain.then(|| text.trim().to_owned()),
    }
}

/// What the user says now: the text, then the pictures.
pub(super) fn user_message(cx: &Ctx, text: &str, images: Vec<ContentBlock>) -> UserMessage {
    let mut blocks = vec![ContentBlock::text(text)];
    blocks.extend(images);
    let mut message = UserMessage::text("", cx.now_ms());
    message.content = UserContent::Blocks(blocks);
    message
}

fn accepted(outcome: Result<Accepted, SendError>, run_id: &str) -> Reply<Value> {
    let failed = |message: String| {
        ErrorShape::unavailable(&message)
            .payload(json!({"runId": run_id, "status": "error", "summary": message}))
    };
    match outcome {
        Ok(Accepted::Started) => Ok(json!({"runId": run_id, "status": "started"})),
        Ok(Accepted::InFlight(active)) => Ok(json!({"runId": active, "status": "in_flight"})),
        Ok(Accepted::Ended) => Ok(json!({"runId": run_id, "status": "ok"})),
        Ok(Accepted::Interrupted) => Err(failed(
            "the gateway stopped while this message was being answered; it is in the transcript, \
             send it again with a new idempotencyKey to get an answer"
                .into(),
        )),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Members that only admins may send, and that need each other.
fn check_privileged(cx: &Ctx, p: &ChatSendParams) -> Reply<()> {
    let is_admin = cx.caller.principal.allows(Scope::Admin);
    if p.has_route {
        for (given, name) in
            [(&p.originating_channel, "originatingChannel"), (&p.originating_to, "originatingTo")]
        {
            if given.as_deref().unwrap_or_default().trim().is_empty() {
                return Err(ErrorShape::invalid(format!(
                    "{name} is required when using originating route fields"
                )));
            }
        }
        if !is_admin {
            return Err(ErrorShape::denied("originating route fields require admin scope"));
        }
    }
    if p.has_provenance && !is_admin {
        return Err(ErrorShape::denied("system provenance fields require admin scope"));
    }
    Ok(())
}

/// Whether messages to the session are taken.
pub(super) async fn check_session(cx: &Ctx, key: &SessionKey) -> Reply<()> {
    refuse_malformed(key, key.as_str())?;
    let agent = key.agent(&cx.services.keys);
    if !cx.services.settings.agents.has(agent.as_str()) {
        let text = format!("Agent \"{agent}\" no longer exists in configuration");
        return Err(ErrorShape::invalid(text));
    }
    let entry = cx.services.sessions.entry(key).await.map_err(unreadable)?;
    if entry.is_some_and(|entry| entry.send_policy.as_deref() == Some("deny")) {
        return Err(ErrorShape::denied("send blocked by session policy"));
    }
    Ok(())
}

/// NFC, without control characters but tab, LF and CR.
pub(super) fn clean(message: &str) -> Reply<String> {
    if message.contains('\0') {
        return Err(ErrorShape::invalid("message must not contain null bytes"));
    }
    Ok(message.nfc().filter(|c| !c.is_control() || "\t\n\r".contains(*c)).collect())
}

/// Pictures of the message, as blocks for the model.
pub(super) fn images(attachments: &[Value], max_mb: u64) -> Reply<Vec<ContentBlock>> {
    attachments.iter().enumerate().map(|(index, item)| image(index, item, max_mb)).collect()
}

fn image(index: usize, item: &Value, max_mb: u64) -> Reply<ContentBlock> {
    use base64::Engine as _;
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    let label = text("fileName").map_or_else(|| format!("attachment-{}", index + 1), str::to_owned);
    let refuse = |why: &str| ErrorShape::invalid(format!("Error: attachment {label}: {why}"));
    let content = text("content").ok_or_else(|| refuse("content must be base64 text"))?;
    // Data URLs are taken too: `data:image/png;base64,…`.
    let (url_type, data) = match content.strip_prefix("data:").and_then(|url| url.split_once(',')) {
        Some((head, data)) => (head.split(';').next(), data),
        None => (None, content),
    };
    let max = usize::try_from(max_mb.saturating_mul(1024 * 1024)).unwrap_or(usize::MAX);
    if data.len() / 4 * 3 > max {
        return Err(refuse(&format!(
            "exceeds size limit ({max_mb} MiB, see agents.defaults.mediaMaxMb)"
        )));
    }
    let raw = base64::engine::general_purpose::STANDARD
        .decode(data.trim())
        .map_err(|_| refuse("invalid base64 content"))?;
    let claimed = text("mimeType").or(url_type).unwrap_or_default();
    let mime_type = sniff(&raw).ok_or_else(|| {
        ErrorShape::invalid(format!(
            "UnsupportedAttachmentError: attachment {label}: only PNG, JPEG, GIF and WebP images are supported ({claimed})"
        ))
    })?;
    Ok(ContentBlock::image(data.trim(), mime_type))
}

/// The type of a picture by its first bytes; what the client claims is not
/// looked at.
fn sniff(raw: &[u8]) -> Option<&'static str> {
    match raw {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// `chat.history`: the newest messages in their display form.
pub async fn history(cx: Ctx, p: ChatHistoryParams) -> Reply<Value> {
    let key = cx.session_key(&p.session_key);
    let count = |given: Option<u64>, default: usize| {
        given.and_then(|given| usize::try_from(given).ok()).unwrap_or(default)
    };
    let defaults = HistoryOptions::default();
    let options = HistoryOptions {
        limit: count(p.limit, defaults.limit),
        max_chars: count(p.max_chars, cx.services.settings.history_max_chars),
        is_raw: false,
    };
    let (page, active) = cx.services.runs.history(&key, options).await.map_err(unreadable)?;
    let entry = page.entry.unwrap_or_default();
    let level = entry.thinking_level.as_deref().unwrap_or("off");
    let mut messages = page.messages;
    let level = if cx.is_simple() {
        messages.iter_mut().for_each(simple::message_out);
        simple::thinking_out(level)
    } else {
        level
    };
    let mut answer = json!({
        "sessionKey": p.session_key,
        "sessionId": page.session_id,
        "messages": messages,
        "thinkingLevel": level,
        "fastMode": entry.fast_mode,
        "verboseLevel": entry.verbose_level,
        "activeRun": active.map(|run| active_run(&run)),
    });
    if let Value::Object(members) = &mut answer {
        members.retain(|_, value| !value.is_null());
    }
    Ok(answer)
}

/// What a client that comes late shows until the next delta.
fn active_run(run: &ActiveRun) -> Value {
    let progress = run.progress();
    json!({"runId": *run.id, "startedAt": progress.started_at, "text": *progress.text})
}

/// `chat.abort`: stops one run, or all of the session that the caller may stop.
pub async fn abort(cx: Ctx, p: ChatAbortParams) -> Reply<Value> {
    let key = cx.session_key(&p.session_key);
    let runs = stop(&cx, &key, p.run_id.as_deref(), AbortReason::Rpc).await?;
    Ok(json!({"ok": true, "aborted": !runs.is_empty(), "runIds": runs}))
}

pub(super) async fn stop(
    cx: &Ctx,
    key: &SessionKey,
    run_id: Option<&str>,
    reason: AbortReason,
) -> Reply<Vec<String>> {
    let principal = &cx.caller.principal;
    cx.services.runs.abort(key, run_id, principal, reason).await.map_err(|error| match error {
        AbortError::OtherSession => ErrorShape::invalid(error.to_string()),
        AbortError::NotYours => ErrorShape::denied(error.to_string()),
    })
}

/// `chat.inject`: adds an assistant note without asking the model.
pub async fn inject(cx: Ctx, p: ChatInjectParams) -> Reply<Value> {
    let key = cx.session_key(&p.session_key);
    if cx.services.sessions.entry(&key).await.map_err(unreadable)?.is_none() {
        return Err(ErrorShape::not_found("session not found"));
    }
    let text = match p.label.as_deref().map(str::trim) {
        Some(label) if !label.is_empty() => format!("[{label}]\n\n{}", p.message),
        _ => p.message,
    };
    let parts = cx.services.runs.parts();
    let id = cx.services.ids.uuid();
    let message = AgentMessage::Assistant(AssistantMessage::from_gateway(text, cx.now_ms()));
    let stored = parts.append(&key, message, Some(id.clone())).await.map_err(unwritable)?;
    parts.publish_note(&key, &format!("inject-{id}"), 0, &stored);
    parts.announce(&key, &stored);
    Ok(json!({"ok": true, "messageId": id}))
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
fn unwritable(error: SessionError) -> ErrorShape {
    ErrorShape::unavailable(format!("failed to write transcript: {error}"))
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
fn unreadable(error: SessionError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}")).kind(ErrorKind::InternalError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_normalised_and_null_is_refused() {
        assert_eq!(clean("e\u{301}\u{7}\tx\r\n").unwrap(), "é\tx\r\n");
        assert_eq!(clean("a\0b").unwrap_err().message, "message must not contain null bytes");
    }

    #[test]
    fn pictures_are_told_by_their_bytes() {
        let png = json!({"type": "image", "mimeType": "text/plain", "content": "iVBORw0KGgo="});
        let Ok(ContentBlock::Image(block)) = image(0, &png, 20) else {
            panic!("expected an image")
        };
        assert_eq!(block.mime_type, "image/png");
        let url = json!({"content": "data:image/png;base64,iVBORw0KGgo="});
        assert!(matches!(image(0, &url, 20), Ok(ContentBlock::Image(_))));
        for (bad, text) in [
            (json!({"content": "%%"}), "Error: attachment attachment-1: invalid base64 content"),
            (json!({"fileName": "a.png"}), "Error: attachment a.png: content must be base64 text"),
        ] {
            assert_eq!(image(0, &bad, 20).unwrap_err().message, text);
        }
        let text = json!({"mimeType": "text/plain", "content": "aGVsbG8="});
        assert!(image(0, &text, 20).unwrap_err().message.starts_with("UnsupportedAttachmentError"));
    }
}
