//! `agent` and `agent.wait`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::agent::{Accepted, Answer, Family, RunEnd, RunReport, SendRequest};
use crate::protocol::methods::agent::{AgentParams, AgentWaitParams};
use crate::protocol::{ErrorShape, Scope, simple};
use crate::providers::ThinkingLevel;
use crate::registry::{Ctx, Reply};
use crate::sessions::{AgentId, SessionKey};
use crate::support::without_nulls;

use super::session_changes::change;
use super::{attachments, chat, reply, voicewake};

/// How long `agent.wait` waits when nobody says so, in milliseconds.
const WAIT_DEFAULT_MS: u64 = 30_000;
/// How long it waits at most: longer than a run may take, and not for ever.
const WAIT_MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// `agent`: accepts a message, and answers once more when its run has ended.
/// The same key later gives the last answer, and while it runs both again.
pub async fn run(cx: Ctx, mut p: AgentParams) -> Reply<Value> {
    chat::check_disk()?;
    check(&cx, &p)?;
    let text = chat::clean(&p.message)?;
    let Some(key) = enter_session(&cx, &p).await? else {
        cx.answer_first(&accepted(&p.idempotency_key, cx.now_ms()));
        let message = "Error: Pass --to <E.164>, --session-id, or --agent to choose a session";
        return Err(failed(&p.idempotency_key, message));
    };
    chat::check_session(&cx, &key).await?;
    let runs = &cx.services.runs;
    let run_id = p.idempotency_key.clone();
    let is_named = p.session_key.is_some() || p.agent_id.is_some();
    // Nothing is expected of a request that is refused: it is the last thing before the run.
    let request = request(&cx, &mut p, key.clone(), &text).await?;
    let reply = reply::of_agent(&cx, &key, &p).await?;
    let has_reply = reply.is_some();
    let outcome = runs.send(request).await;
    reply::settle(&cx, reply, outcome.is_ok()).await;
    let (outcome, start) = outcome.map_err(|error| failed(&run_id, &error.to_string()))?;
    if outcome == Accepted::Started && is_named {
        let entry = cx.services.sessions.entry(&key).await.ok().flatten();
        cx.first_after_answer(change(&cx, key.clone(), entry, "send"));
    }
    if let Some(start) = start {
        cx.after_answer(start);
    }
    let family = Some(Family::Agent);
    let report = match outcome {
        Accepted::Started | Accepted::InFlight(_) => {
            let accepted_at = runs.accepted_at(&run_id).unwrap_or_else(|| cx.now_ms());
            cx.answer_first(&accepted(&run_id, accepted_at));
            runs.ends(family, &run_id).await.map(Some)
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

/// What must be refused before anything is accepted.
fn check(cx: &Ctx, p: &AgentParams) -> Reply<()> {
    let invalid = |text: String| Err(ErrorShape::invalid(format!("invalid agent params: {text}")));
    if p.has_model {
        return Err(if cx.caller.principal.allows(Scope::Admin) {
            ErrorShape::invalid(
                "provider/model overrides are not built; set agents.list[].model instead",
            )
        } else {
            ErrorShape::denied("provider/model overrides are not authorized for this caller.")
        });
    }
    let agent = p.agent_id.as_deref().map(AgentId::normalize);
    if let Some(agent) = &agent
        && !cx.services.settings.now().agents.has(agent.as_str())
    {
        return invalid(format!("unknown agent id \"{}\"", p.agent_id.as_deref().unwrap_or("")));
    }
    if let Some(written) = p.session_key.as_deref() {
        if cx.session_key(written).is_malformed() {
            return invalid(format!("malformed session key \"{written}\""));
        }
        let of_key = cx.session_key(written).agent(&cx.services.keys.now());
        if let Some(agent) = agent
            && agent != of_key
        {
            return invalid(format!(
                "agent \"{agent}\" does not match session key agent \"{of_key}\""
            ));
        }
    }
    reply::check_agent(cx, p)
}

/// The session that is meant, if any is, with its lane entered. Looking for a
/// transcript takes time; that those who look for the same one keep their
/// order, they have a lane for this as well.
async fn enter_session(cx: &Ctx, p: &AgentParams) -> Reply<Option<SessionKey>> {
    let looking = match &p.session_id {
        Some(id) if p.session_key.is_none() => {
            Some(cx.services.lanes.enter(format!("sessionId {id}")).await)
        }
        _ => None,
    };
    let key = session(cx, p).await?;
    if let Some(key) = &key {
        cx.enter_lane(key).await;
    }
    drop(looking);
    Ok(key)
}

async fn session(cx: &Ctx, p: &AgentParams) -> Reply<Option<SessionKey>> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
    if let Some(key) = voicewake::woken(cx, p).await {
        return Ok(Some(key));
    }
    if let Some(written) = given(&p.session_key) {
        return Ok(Some(cx.session_key(&written)));
    }
    if let Some(id) = given(&p.session_id) {
        let row = cx.services.sessions.by_id(&id).await;
        let row = row.map_err(|error| ErrorShape::unavailable(format!("Error: {error}")))?;
        if let Some(row) = row {
            return Ok(Some(SessionKey::from_canonical(row.key)));
        }
    }
    let keys = &cx.services.keys.now();
    let agent = given(&p.agent_id).map(|id| AgentId::normalize(&id));
    let agent = agent.or_else(|| given(&p.to).map(|_| keys.default_agent.clone()));
    Ok(agent.map(|agent| SessionKey::main(&agent, keys)))
}

async fn request(cx: &Ctx, p: &mut AgentParams, key: SessionKey, text: &str) -> Reply<SendRequest> {
    let thinking = p.thinking.as_deref().map(simple::thinking_in).and_then(ThinkingLevel::parse);
    let attachments = std::mem::take(&mut p.attachments);
    let incoming = attachments::receive(cx, &key, text, attachments).await?;
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
        terms: chat::terms(cx),
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
    let text = &*report.progress.text;
    let files = &report.progress.files;
    let mut payload = json!({"text": text, "mediaUrl": files.first()});
    if !files.is_empty() {
        payload["mediaUrls"] = json!(files);
    }
    let payloads: Vec<_> =
        Some(payload).filter(|_| !text.is_empty() || !files.is_empty()).into_iter().collect();
    let mut meta = meta(report);
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

fn meta(report: &RunReport) -> Value {
    let text = &*report.progress.text;
    let mut meta = json!({
        "durationMs": report.ended_at.saturating_sub(report.accepted_at),
        "agentMeta": {"agentHarnessId": "pi"},
        "aborted": matches!(report.end, RunEnd::Aborted(_)),
        "finalAssistantVisibleText": text,
        "finalAssistantRawText": text,
        "replayInvalid": false,
        "livenessState": "working",
    });
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
    let report = cx.services.runs.wait(&p.run_id, limit).await;
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
