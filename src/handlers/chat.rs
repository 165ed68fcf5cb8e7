//! `chat.*`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

use super::session_settings::refuse_malformed;
use crate::agent::{
    AbortError, AbortReason, Accepted, Family, Hearer, RunTerms, SendError, SendRequest, WhenStale,
};
use crate::commands::{Meaning, Work};
use crate::protocol::message::{AgentMessage, AssistantMessage};
use crate::protocol::methods::chat::{ChatInjectParams, ChatSendParams, Route};
use crate::protocol::{ErrorKind, ErrorShape, Scope, simple};
use crate::providers::ThinkingLevel;
use crate::registry::{ACTION_CHAT, Caller, Ctx, Reply};
use crate::sessions::{RECEIPT_MEMBER, SessionEntry, SessionError, SessionKey, WEBCHAT};
use crate::store::OutboxAddress;
use crate::support::{json, trouble};

use super::stopping::not_stopped;
use super::{attachments, reply};

/// A run that was given a `timeoutMs` is given so much more than `timeoutMs` …
const TIMEOUT_GRACE: Duration = Duration::from_mins(1);
/// … at least this …
const TIMEOUT_MIN: Duration = Duration::from_mins(2);
/// … and at most this.
const TIMEOUT_MAX: Duration = Duration::from_hours(24);
/// When to ask again whether a disk answers, in milliseconds.
const DISK_RETRY_MS: u64 = 2_000;

/// What somebody hears whose message was accepted before the last stop.
pub(super) const INTERRUPTED: &str = "the gateway stopped while this message was being answered; it \
    is in the transcript, send it again with a new idempotencyKey to get an answer";

/// `chat.send`: accepts a message and answers at once; the run tells the rest
/// by events.
pub async fn send(cx: Ctx, p: ChatSendParams) -> Reply<Value> {
    check_disk()?;
    let key = cx.enter_session(&p.session_key).await;
    let message = check(&cx, key, p, None).await?;
    deliver(&cx, message).await
}

/// A message that may be delivered.
pub(super) struct Checked {
    request: SendRequest,
    task: Task,
    route: Option<Route>,
    /// Whether the answer goes to the session's channel as well.
    deliver: bool,
}

impl Checked {
    /// The same, answered in this place of a channel.
    #[must_use]
    pub(super) fn answered_in(mut self, place: OutboxAddress) -> Self {
        self.request.terms.hearer = place.into();
        self
    }
}

/// What a message is for.
enum Task {
    /// The model.
    Plain,
    /// The runs of the session, which end.
    Stop,
    /// The gateway.
    Command(Work),
}

/// Whether a message is taken, for a request that is in the lane of its
/// session. The order of the checks is the recorded one. `channel` is the one of ours by
/// which it came.
pub(super) async fn check(
    cx: &Ctx,
    key: SessionKey,
    p: ChatSendParams,
    channel: Option<&str>,
) -> Reply<Checked> {
    check_privileged(cx, &p)?;
    let text = clean(&p.message)?;
    let is_empty = text.trim().is_empty() && cx.caller.before().is_none();
    if is_empty && !p.attachments.iter().any(attachments::has_content) {
        return Err(ErrorShape::invalid("message or attachment required"));
    }
    check_session(cx, &key).await?;
    let of_route = || p.route.as_ref().map(|route| route.channel.as_str());
    let came_by = channel.or_else(of_route).unwrap_or(WEBCHAT).to_owned();
    let is_slash = text.starts_with('/');
    let meaning = Meaning::of(&text, !p.attachments.is_empty(), cx, &key).await;
    let mut when_stale = WhenStale::AtOnce;
    let (text, thinking, task) = match meaning {
        Meaning::Stop => (text, None, Task::Stop),
        Meaning::Plain(text, thinking) => (text, thinking, Task::Plain),
        Meaning::Command(command) => {
            if command.begins_anew() {
                when_stale = WhenStale::Afterwards;
            }
            let line = command.line(&text);
            let work = command.work(cx, &key, Some(&came_by));
            let text = match &work {
                Work::Message(message) => message.text.clone(),
                Work::AtOnce(_) | Work::Later(_) => line,
            };
            (text, None, Task::Command(work))
        }
    };
    let mut request = send_request(cx, &p, key, &text).await?;
    request.thinking = thinking.or(request.thinking);
    request.terms.when_stale = when_stale;
    request.terms.came_by = Some(came_by);
    if is_slash || !matches!(task, Task::Plain) {
        // Two commands are two, though they read the same.
        request.dedupe_text = None;
    }
    Ok(Checked { request, task, route: p.route, deliver: p.deliver })
}

/// What became of a message.
pub(super) enum Handed {
    /// It has stopped these runs.
    Stopped(Vec<String>),
    /// What it was to stop is somebody else's.
    NotYours,
    /// It was accepted, or not.
    Sent(Result<Accepted, SendError>),
}

/// Does what a message is for, and answers it.
pub(super) async fn deliver(cx: &Ctx, message: Checked) -> Reply<Value> {
    let run_id = message.request.idempotency_key.clone();
    match hand_in(cx, message).await? {
        Handed::Stopped(runs) => {
            Ok(json!({"ok": true, "aborted": !runs.is_empty(), "runIds": runs}))
        }
        Handed::NotYours => Err(not_stopped(AbortError::NotYours)),
        Handed::Sent(outcome) => accepted(outcome, &run_id),
    }
}

/// Does what a message is for.
pub(super) async fn hand_in(cx: &Ctx, message: Checked) -> Reply<Handed> {
    let Checked { mut request, task, route, deliver } = message;
    // What was stopped for it since the checks has ended before it.
    request.message.timestamp = cx.now_ms();
    let (key, run_id) = (request.key.clone(), request.idempotency_key.clone());
    let reply = match task {
        Task::Stop => None,
        _ => reply::of_chat(cx, &key, &run_id, route.as_ref(), deliver).await?,
    };
    if let Some(reply) = &reply {
        request.terms.hearer = reply.hearer();
    }
    let work = match task {
        Task::Stop => {
            let (runs, principal) = (&cx.services.runs, &cx.caller.principal);
            return match runs.abort(&key, None, principal, AbortReason::Stop).await {
                Ok(stopped) => Ok(Handed::Stopped(stopped)),
                Err(AbortError::NotYours) => Ok(Handed::NotYours),
                Err(error) => Err(not_stopped(error)),
            };
        }
        Task::Command(work) => Some(work),
        Task::Plain => None,
    };
    let outcome = take(cx, request, work).await;
    // One that reads like what is being answered is answered by that.
    let has_run = match &outcome {
        Ok(Accepted::InFlight(other)) if *other != run_id => {
            cx.services.runs.session_of(&run_id).is_some()
        }
        outcome => outcome.is_ok(),
    };
    reply::settle(reply, has_run).await;
    if let (Ok(Accepted::Started), Some(route)) = (&outcome, route) {
        note_route(cx, &key, route).await;
    }
    Ok(Handed::Sent(outcome))
}

/// Does the work of a message, or has it answered by the model. What begins or is told by
/// it waits for the answer.
pub(super) async fn take(
    cx: &Ctx,
    request: SendRequest,
    work: Option<Work>,
) -> Result<Accepted, SendError> {
    if let Some(work) = work {
        // Boxed: commands are rare, and this is the way of every message.
        return Box::pin(command(cx, request, work)).await;
    }
    let (accepted, start) = cx.services.runs.send(request).await?;
    if let Some(start) = start {
        cx.after_answer(start);
    }
    Ok(accepted)
}

/// Does a command. What there is to tell of it is told after the answer.
async fn command(cx: &Ctx, request: SendRequest, work: Work) -> Result<Accepted, SendError> {
    let runs = &cx.services.runs;
    let (accepted, rest) = match work {
        Work::AtOnce(answer) => runs.answer_command(request, answer).await?,
        Work::Later(answer) => runs.answer_command_later(request, answer).await?,
        Work::Message(message) => runs.send_after(request, message.mode, message.first).await?,
    };
    if let Some(rest) = rest {
        // Before a restart that the command asks for.
        cx.first_after_answer(rest);
    }
    Ok(accepted)
}

async fn send_request(
    cx: &Ctx,
    p: &ChatSendParams,
    key: SessionKey,
    text: &str,
) -> Reply<SendRequest> {
    let may_be_repeated = cx.caller.is_retrying && p.attachments.is_empty();
    let thinking = thinking(cx, p.thinking.as_deref())?;
    let mut incoming = attachments::receive(cx, &key, text, p.attachments.clone()).await?;
    let extra = &mut incoming.message.extra;
    extra.extend(p.provenance.clone().map(|provenance| ("provenance".into(), provenance)));
    let receipt = p.provenance_receipt.as_deref().map(str::trim).filter(|text| !text.is_empty());
    extra.extend(receipt.map(|receipt| (RECEIPT_MEMBER.into(), receipt.into())));
    Ok(SendRequest {
        family: Family::Chat,
        key,
        written_key: p.session_key.clone(),
        idempotency_key: p.idempotency_key.clone(),
        message: incoming.message,
        media: incoming.media,
        thinking,
        owner: cx.caller.principal.owner().clone(),
        // What another system passes on it has told apart, and answers apart.
        dedupe_text: (may_be_repeated && p.route.is_none()).then(|| text.trim().to_owned()),
        limit: p.timeout_ms.map(run_limit),
        terms: terms(cx),
    })
}

/// How hard a model is to think; what the session says when nothing, or `auto`, is asked for.
pub(super) fn thinking(cx: &Ctx, written: Option<&str>) -> Reply<Option<ThinkingLevel>> {
    let Some(written) = written.map(str::trim).filter(|word| !word.is_empty()) else {
        return Ok(None);
    };
    let level = ThinkingLevel::meant_by(written);
    let is_auto = || ["adaptive", "auto"].iter().any(|word| word.eq_ignore_ascii_case(written));
    if level.is_none() && !is_auto() {
        let levels = if cx.is_simple() {
            simple::THINKING.join(", ")
        } else {
            "off, minimal, low, medium, high".to_owned()
        };
        let text = format!("Invalid thinking level. Use one of: {levels}.");
        return Err(ErrorShape::invalid(text));
    }
    Ok(level)
}

/// What runs of this caller may do.
pub(super) fn terms(cx: &Ctx) -> RunTerms {
    let Caller { principal, client_id, subscriber, .. } = &*cx.caller;
    // A place of its own: what is said there goes into no answer that is told elsewhere.
    let is_own = **client_id == *ACTION_CHAT;
    let hearer =
        if is_own { Hearer::Other(Arc::clone(&subscriber.conn_id)) } else { Hearer::Nobody };
    RunTerms { is_owner: principal.allows(Scope::Admin), hearer, ..RunTerms::default() }
}

/// When a run of `chat.send` is stopped that was given `timeoutMs`: never at
/// once, as in the original, and with 0 as late as can be.
fn run_limit(timeout_ms: u64) -> Duration {
    if timeout_ms == 0 {
        return TIMEOUT_MAX;
    }
    Duration::from_millis(timeout_ms).saturating_add(TIMEOUT_GRACE).clamp(TIMEOUT_MIN, TIMEOUT_MAX)
}

/// Keeps where a message really comes from: that is where answers go from now
/// on. A message that was accepted is not refused for it.
async fn note_route(cx: &Ctx, key: &SessionKey, route: Route) {
    let change = move |entry: &mut SessionEntry| {
        entry.last_channel = Some(route.channel.clone());
        entry.delivery_context = Some(route.into_context());
    };
    if let Err(error) = cx.services.sessions.update(key, change).await {
        tracing::error!(session = %key, %error, "originating route not noted");
    }
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
        Ok(Accepted::Interrupted) => Err(failed(INTERRUPTED.into())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Members that only admins may send, and that need each other.
fn check_privileged(cx: &Ctx, p: &ChatSendParams) -> Reply<()> {
    let is_admin = cx.caller.principal.allows(Scope::Admin);
    if let Some(route) = &p.route {
        for (given, name) in [(&route.channel, "originatingChannel"), (&route.to, "originatingTo")]
        {
            if given.trim().is_empty() {
                return Err(ErrorShape::invalid(format!(
                    "{name} is required when using originating route fields"
                )));
            }
        }
        if !is_admin {
            return Err(ErrorShape::denied("originating route fields require admin scope"));
        }
    }
    let has_provenance = p.provenance.is_some() || p.provenance_receipt.is_some();
    if has_provenance && !is_admin {
        return Err(ErrorShape::denied("system provenance fields require admin scope"));
    }
    Ok(())
}

/// A message that is taken while a disk hangs would wait for it in the memory, nobody
/// knows how long. What waits already keeps its place.
pub(super) fn check_disk() -> Reply<()> {
    if trouble::disk_hangs() {
        let text =
            "message not taken: the disk of the gateway does not answer; send it again later";
        return Err(ErrorShape::unavailable(text).retry_after(DISK_RETRY_MS));
    }
    Ok(())
}

/// Whether messages to the session are taken.
pub(super) async fn check_session(cx: &Ctx, key: &SessionKey) -> Reply<()> {
    check_disk()?;
    refuse_malformed(key, key.as_str())?;
    let agent = key.agent(&cx.services.keys.now());
    if !cx.services.settings.now().agents.has(agent.as_str()) {
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
pub(crate) fn clean(message: &str) -> Reply<String> {
    if message.contains('\0') {
        return Err(ErrorShape::invalid("message must not contain null bytes"));
    }
    Ok(message.nfc().filter(|c| !c.is_control() || "\t\n\r".contains(*c)).collect())
}

/// `chat.inject`: adds an assistant note without asking the model.
pub async fn inject(cx: Ctx, p: ChatInjectParams) -> Reply<Value> {
    let key = cx.enter_session(&p.session_key).await;
    let entry = cx.services.sessions.entry(&key).await.map_err(unreadable)?;
    let entry = entry.ok_or_else(|| ErrorShape::not_found("session not found"))?;
    let text = match p.label.as_deref().map(str::trim) {
        Some(label) if !label.is_empty() => format!("[{label}]\n\n{}", p.message),
        _ => p.message,
    };
    let parts = cx.services.runs.parts();
    let id = cx.services.ids.uuid();
    let message = AgentMessage::Assistant(AssistantMessage::from_gateway(text, cx.now_ms()));
    let stored = parts.append_to(&key, &entry, message, Some(id.clone())).await;
    let stored = stored.map_err(unwritable)?;
    parts.publish_note(&key, &format!("inject-{id}"), 0, &stored);
    parts.announce(&key, &stored);
    Ok(json!({"ok": true, "messageId": id}))
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
fn unwritable(error: SessionError) -> ErrorShape {
    ErrorShape::unavailable(format!("failed to write transcript: {error}"))
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
pub(super) fn unreadable(error: SessionError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}")).kind(ErrorKind::InternalError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_never_stopped_at_once_and_never_goes_on_for_ever() {
        let minute = 60_000;
        for (given, limit) in
            [(0, 24 * 60), (1, 2), (minute, 2), (5 * minute, 6), (u64::MAX, 24 * 60)]
        {
            assert_eq!(run_limit(given), Duration::from_mins(limit), "{given}");
        }
    }

    #[test]
    fn messages_are_normalised_and_null_is_refused() {
        assert_eq!(clean("e\u{301}\u{7}\tx\r\n").unwrap(), "é\tx\r\n");
        assert_eq!(clean("a\0b").unwrap_err().message, "message must not contain null bytes");
    }
}
