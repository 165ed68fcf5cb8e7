//! `agent` and `agent.wait`.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::SemaphorePermit;

use crate::agent::{
    Accepted, Answer, Family, RunEnd, RunReport, SendRequest, WhenStale, inter_session,
};
use crate::channels::Expected;
use crate::commands::{Command, Work};
use crate::protocol::ErrorShape;
use crate::protocol::methods::agent::{AgentParams, AgentWaitParams};
use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;
use crate::support::{json, without_nulls};

use super::agent_said::Said;
use super::session_changes::change;
use super::{agent_target, attachments, chat, reply};

/// How long `agent.wait` waits when nobody says so, in milliseconds.
const WAIT_DEFAULT_MS: u64 = 30_000;
/// How long it waits at most: longer than a run may take, and not for ever.
const WAIT_MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// `agent`: accepts a message, and answers once more when its run has ended.
/// The same key later gives the last answer, and while it runs both again.
pub async fn run(cx: Ctx, mut p: AgentParams) -> Reply<Value> {
    let _place = place(&cx)?;
    chat::check_disk()?;
    agent_target::leave_out_blanks(&mut p);
    agent_target::check(&cx, &p)?;
    let text = chat::clean(&p.message)?;
    let Some(key) = agent_target::enter_session(&cx, &p).await? else {
        return Err(nowhere(&cx, &p.idempotency_key).await);
    };
    chat::check_session(&cx, &key).await?;
    let runs = &cx.services.runs;
    let run_id = p.idempotency_key.clone();
    let is_named = p.session_key.is_some() || p.agent_id.is_some() || p.session_id.is_some();
    let is_repeat = runs.is_taken(Family::Agent, &run_id).await;
    let is_repeat = is_repeat.map_err(|error| failed(&run_id, &error.to_string()))?;
    let work = if is_named && !is_repeat { anew(&cx, &p, &key, &text)? } else { None };
    let text = match &work {
        Some(Work::Message(message)) => message.text.clone(),
        _ => text,
    };
    // Nothing is expected of a request that is refused: it is the last thing before the run.
    let mut request = request(&cx, &mut p, key.clone(), &text, is_repeat).await?;
    if work.is_some() {
        request.terms.when_stale = WhenStale::Afterwards;
    }
    let reply = reply::of_agent(&cx, &key, &p).await?;
    let has_reply = reply.is_some();
    request.terms.hearer = reply.as_ref().map(Expected::hearer).unwrap_or_default();
    if !is_repeat && let Err(error) = agent_target::open(&cx, &p, &key, request.thinking).await {
        reply::settle(reply, false).await;
        return Err(error);
    }
    let outcome = chat::take(&cx, request, work).await;
    reply::settle(reply, outcome.is_ok()).await;
    let outcome = outcome.map_err(|error| failed(&run_id, &error.to_string()))?;
    if outcome == Accepted::Started && is_named {
        let entry = cx.services.sessions.entry(&key).await.ok().flatten();
        cx.first_after_answer(change(&cx, key.clone(), entry, "send"));
    }
    let family = Some(Family::Agent);
    let report = match outcome {
        Accepted::Started | Accepted::InFlight(_) => {
            let accepted_at = runs.accepted_at(&run_id).unwrap_or_else(|| cx.now_ms());
            cx.answer_first(&accepted(&run_id, accepted_at));
            let Some(report) = while_open(&cx, runs.ends(family, &run_id)).await else {
                return Ok(Value::Null);
            };
            report.map(Some)
        }
        Accepted::Ended | Accepted::Interrupted => runs.ended(family, &run_id).await,
    };
    match report.map_err(|error| failed(&run_id, &error.to_string()))? {
        Some(report) => {
            let delivered = has_reply && reply::is_delivered(&cx, &report).await;
            ended(&cx, &key, &report, delivered).await
        }
        None => Ok(json!({"runId": run_id, "status": "ok", "summary": "completed"})),
    }
}

/// Refuses a message for which there is no session, after it was accepted as by the original.
/// Who waits for its run hears of that, too.
async fn nowhere(cx: &Ctx, run_id: &str) -> ErrorShape {
    const WHY: &str = "Pass --to <E.164>, --session-id, or --agent to choose a session";
    cx.answer_first(&accepted(run_id, cx.now_ms()));
    match cx.services.runs.never_begins(Family::Agent, run_id, WHY).await {
        Ok(()) => failed(run_id, &format!("Error: {WHY}")),
        Err(error) => failed(run_id, &error.to_string()),
    }
}

/// What a message comes to that begins its session anew, `/new` or `/reset`: for those who
/// may do that by `sessions.reset`. One with files is for the model, as in a chat.
fn anew(cx: &Ctx, p: &AgentParams, key: &SessionKey, text: &str) -> Reply<Option<Work>> {
    let command = Command::parse(text).filter(Command::begins_anew);
    let Some(command) = command.filter(|_| p.attachments.is_empty()) else { return Ok(None) };
    cx.check("sessions.reset")?;
    Ok(Some(command.work(cx, key, None)))
}

/// A place among the requests of a connection that are answered twice.
fn place(cx: &Ctx) -> Reply<SemaphorePermit<'_>> {
    cx.caller.subscriber.answered_twice.try_acquire().map_err(|_| {
        ErrorShape::unavailable(
            "this connection waits for the ends of too many runs; send it again when one of \
             them has ended, or on another connection",
        )
    })
}

/// What `waiting` gives; `None` when the connection of whoever asks has ended: nobody would
/// hear the answer.
pub(super) async fn while_open<T>(cx: &Ctx, waiting: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        given = waiting => Some(given),
        () = cx.caller.subscriber.outbox.closes() => None,
    }
}

async fn request(
    cx: &Ctx,
    p: &mut AgentParams,
    key: SessionKey,
    text: &str,
    is_repeat: bool,
) -> Reply<SendRequest> {
    let (terms, thinking) = match agent_target::terms(cx, p, &key).await {
        // What was right when it was sent first is not refused.
        Err(_) if is_repeat => (chat::terms(cx), None),
        terms => terms?,
    };
    let attachments = std::mem::take(&mut p.attachments);
    let text = match &p.provenance {
        Some(provenance) if !terms.is_bare() => inter_session::told(provenance, text),
        _ => Cow::Borrowed(text),
    };
    let mut incoming = attachments::receive(cx, &key, &text, attachments).await?;
    let extra = &mut incoming.message.extra;
    extra.extend(p.provenance.take().map(|provenance| ("provenance".into(), provenance)));
    Ok(SendRequest {
        family: Family::Agent,
        written_key: key.to_string(),
        key,
        idempotency_key: p.idempotency_key.clone(),
        message: incoming.message,
        media: incoming.media,
        thinking,
        owner: cx.caller.principal.owner().clone(),
        dedupe_text: None,
        limit: p.timeout_seconds.map(Duration::from_secs),
        terms,
    })
}

fn accepted(run_id: &str, accepted_at: u64) -> Value {
    json!({"runId": run_id, "status": "accepted", "acceptedAt": accepted_at})
}

fn failed(run_id: &str, message: &str) -> ErrorShape {
    ErrorShape::unavailable(message)
        .payload(json!({"runId": run_id, "status": "error", "summary": message}))
}

/// The last answer.
async fn ended(cx: &Ctx, key: &SessionKey, report: &RunReport, delivered: bool) -> Reply<Value> {
    if let Some(failure) = report.failure() {
        return Err(failed(&report.run_id, &failure));
    }
    let entry = cx.services.sessions.entry(key).await.ok().flatten().unwrap_or_default();
    // Apart: it is seldom that a transcript is read for it.
    let said = Box::pin(Said::by(cx, report)).await;
    let payloads = said.as_ref().map(|said| said.payloads(&report.end)).unwrap_or_default();
    let mut meta = meta(report, said.as_ref().map(Said::last));
    meta["agentMeta"]["sessionId"] = json!(entry.session_id);
    meta["agentMeta"]["sessionFile"] = json!(entry.session_file);
    let result = json!({"payloads": payloads, "meta": meta, "deliverySucceeded": delivered});
    Ok(match &report.end {
        RunEnd::Aborted(reason) => json!({"runId": *report.run_id, "status": "timeout",
            "summary": "aborted", "stopReason": reason.as_str(), "result": result}),
        _ => json!({"runId": *report.run_id, "status": "ok", "summary": "completed",
            "result": result}),
    })
}

/// `text` is what it has said last, where that is known.
fn meta(report: &RunReport, text: Option<&str>) -> Value {
    let mut meta = without_nulls(json!({
        "durationMs": report.ended_at.saturating_sub(report.accepted_at),
        "agentMeta": {"agentHarnessId": "pi"},
        "aborted": matches!(report.end, RunEnd::Aborted(_)),
        "finalAssistantVisibleText": text,
        "finalAssistantRawText": text,
        "replayInvalid": false,
        "livenessState": "working",
    }));
    if let Some(answer) = &report.progress.answer {
        meta["agentMeta"] = agent_meta(answer);
        meta["stopReason"] = json!(answer.stop_reason);
        meta["executionTrace"] = json!({
            "winnerProvider": answer.provider, "winnerModel": answer.model,
            "attempts": [{"provider": answer.provider, "model": answer.model,
                "result": "success", "stage": "assistant"}],
            "fallbackUsed": false, "runner": "embedded"});
        meta["requestShaping"] = json!({"thinking": answer.thinking});
        meta["completion"] =
            json!({"stopReason": answer.stop_reason, "finishReason": answer.stop_reason});
    }
    meta
}

fn agent_meta(answer: &Answer) -> Value {
    let (used, last) = (&answer.used, &answer.last);
    json!({
        "provider": answer.provider,
        "model": answer.model,
        "contextTokens": answer.context_window,
        "agentHarnessId": "pi",
        "usage": {"input": used.input, "output": used.output, "total": used.total_tokens},
        "lastCallUsage": {"input": last.input, "output": last.output,
            "cacheRead": last.cache_read, "cacheWrite": last.cache_write,
            "total": last.total_tokens},
        "promptTokens": last.input + last.cache_read + last.cache_write,
    })
}

/// `agent.wait`: waits for the end of a run, also of one that ended before or
/// is yet to come. That the time is over is an answer, too.
pub async fn wait(cx: Ctx, p: AgentWaitParams) -> Reply<Value> {
    let limit = Duration::from_millis(p.timeout_ms.unwrap_or(WAIT_DEFAULT_MS).min(WAIT_MAX_MS));
    let report = while_open(&cx, cx.services.runs.wait(&p.run_id, limit)).await;
    let Some(report) = report else { return Ok(Value::Null) };
    let report = report.map_err(|error| ErrorShape::unavailable(format!("Error: {error}")))?;
    Ok(report
        .map_or_else(|| json!({"runId": p.run_id, "status": "timeout"}), |report| waited(&report)))
}

fn waited(report: &RunReport) -> Value {
    let progress = &report.progress;
    let mut answer = json!({
        "runId": *report.run_id,
        "status": "ok",
        "startedAt": progress.started_at,
        "endedAt": report.ended_at,
    });
    match &report.end {
        RunEnd::Answered => {
            answer["stopReason"] = json!(progress.answer.as_ref().map(|answer| answer.stop_reason));
            answer["livenessState"] = json!("working");
        }
        RunEnd::Failed(_) => {
            answer["status"] = json!("error");
            answer["error"] = json!(report.failure());
        }
        RunEnd::Aborted(reason) => {
            answer["status"] = json!("timeout");
            answer["stopReason"] = json!(reason.as_str());
        }
    }
    without_nulls(answer)
}
