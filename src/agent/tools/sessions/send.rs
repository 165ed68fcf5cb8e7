//! `sessions_send`: says something in another session, and waits for what it
//! answers, or lets that come later.

use std::time::Duration;

use serde_json::Value;

use super::super::{Tool, ToolContext, ToolOutput};
use super::reach::{self, Doing};
use super::{number, refused, session_key, text};
use crate::agent::RunTerms;
use crate::agent::SendRequest;
use crate::agent::inter_session::{self, Source};
use crate::agent::report::{Family, RunReport};
use crate::agent::run::RunEnd;
use crate::providers::ToolSpec;
use crate::sessions::{AgentId, SessionError, SessionKey, SessionQuery};
use crate::support::{BoxFuture, json, without_nulls};

/// How long an answer is waited for when the model does not say; as in the
/// original.
const TIMEOUT_SECONDS: u64 = 30;
/// The longest that a run may be kept waiting for another one.
const TIMEOUT_SECONDS_MAX: u64 = 600;
/// Longest message, in characters.
const MESSAGE_MAX: usize = 100_000;

/// The tool.
pub struct SessionsSend;

impl Tool for SessionsSend {
    fn name(&self) -> &'static str {
        "sessions_send"
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Say something in another session you can see, named by its key or its \
                          label, and get its answer. An answer that takes longer than \
                          timeoutSeconds (30; with 0 none is waited for) comes later by itself, \
                          as a message."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "sessionKey": {"type": "string"},
                    "label": {"type": "string"},
                    "agentId": {"type": "string",
                        "description": "Whose session, where a label does not tell."},
                    "message": {"type": "string", "minLength": 1},
                    "timeoutSeconds": {"type": "number", "minimum": 0},
                },
                "required": ["message"],
                "additionalProperties": false,
            }),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        let target = text(arguments, "label").or_else(|| text(arguments, "sessionKey"))?;
        Some(format!("to {target}"))
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match target(cx, arguments).await {
                Ok(Ok(key)) => say(cx, arguments, key).await,
                Ok(Err(refused)) => refused,
                Err(error) => ToolOutput::failed(self.name(), error.to_string()),
            }
        })
    }
}

type Target = Result<SessionKey, ToolOutput>;

/// The session that is meant, if the caller may speak to it.
async fn target(cx: &ToolContext, arguments: &Value) -> Result<Target, SessionError> {
    let named = text(arguments, "sessionKey");
    let key = match (named, text(arguments, "label")) {
        (Some(written), None) => session_key(cx, written),
        (None, Some(label)) => match by_label(cx, arguments, label).await? {
            Some(key) => key,
            None => {
                return Ok(Err(refused("error", format!("No session found with label: {label}"))));
            }
        },
        (None, None) => {
            return Ok(Err(refused("error", "Either sessionKey or label is required")));
        }
        (Some(_), Some(_)) => {
            let text = "Provide either sessionKey or label (not both).";
            return Ok(Err(refused("error", text)));
        }
    };
    if key == cx.key {
        let text = "sessions_send cannot target the session it is called in; just answer.";
        return Ok(Err(refused("error", text)));
    }
    if let Some(why) = reach::refusal(cx, &key, Doing::Send).await? {
        return Ok(Err(refused("forbidden", why)));
    }
    if key.as_str().contains(":thread:") || key.as_str().contains(":topic:") {
        let text = "sessions_send cannot target a thread; use the session it belongs to.";
        return Ok(Err(refused("error", text)));
    }
    Ok(match cx.parts().sessions.entry(&key).await? {
        Some(entry) if entry.send_policy.as_deref() == Some("deny") => {
            Err(refused("forbidden", "send blocked by session policy"))
        }
        None if named.is_none_or(|named| !may_begin(cx, named, &key)) => {
            Err(refused("error", format!("No session found: {key}")))
        }
        Some(_) | None => Ok(key),
    })
}

/// Whether a session that is not there begins with what is said in it, as for people: one of
/// an agent that there is, named whole. A short name begins none, as it may be one that a model
/// has made up; a slip in a whole one does.
fn may_begin(cx: &ToolContext, named: &str, key: &SessionKey) -> bool {
    let keys = &cx.parts().keys.now();
    let agent = key.agent(keys);
    let is_whole = *key == SessionKey::main(&agent, keys)
        || named.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("agent:"));
    let is_for_talks = !(key.is_malformed() || key.is_spawned() || key.is_job() || key.is_hook());
    is_whole && is_for_talks && cx.parts().settings.now().agents.has(agent.as_str())
}

/// The session with this label that the caller reaches.
async fn by_label(
    cx: &ToolContext,
    arguments: &Value,
    label: &str,
) -> Result<Option<SessionKey>, SessionError> {
    let page = cx.parts().sessions.list(SessionQuery {
        agent: text(arguments, "agentId").map(|id| AgentId::normalize(id).to_string()),
        label: Some(label.to_owned()),
        ..SessionQuery::default()
    });
    for listed in page.await?.entries {
        let key = SessionKey::from_canonical(listed.key);
        if reach::refusal(cx, &key, Doing::Send).await?.is_none() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

async fn say(cx: &ToolContext, arguments: &Value, key: SessionKey) -> ToolOutput {
    let message = text(arguments, "message").unwrap_or_default();
    if message.is_empty() || message.chars().nth(MESSAGE_MAX).is_some() {
        return refused("error", format!("message must have 1 to {MESSAGE_MAX} characters"));
    }
    let parts = cx.parts();
    let run_id = parts.ids.uuid();
    let source = Source { key: &cx.key, channel: None, tool: "sessions_send" };
    let sent = cx.runs.send(SendRequest {
        family: Family::Agent,
        key: key.clone(),
        written_key: key.to_string(),
        idempotency_key: run_id.clone(),
        message: inter_session::message(source, message, parts.clock.now_ms()),
        media: None,
        thinking: None,
        owner: cx.owner(),
        dedupe_text: None,
        limit: None,
        terms: RunTerms::default(),
    });
    let start = match sent.await {
        Ok((_, start)) => start,
        Err(error) => return refused("error", error.to_string()),
    };
    // Read now: it may have begun with this message.
    if let Ok(Some(entry)) = parts.sessions.entry(&key).await {
        parts.events.reason(&key, Some(&entry), "send", cx.runs.active(&key).is_some());
    }
    drop(start);
    let seconds = number(arguments, "timeoutSeconds").unwrap_or(TIMEOUT_SECONDS);
    let waited = if seconds == 0 {
        Ok(None)
    } else {
        let waiting = cx.runs.wait(&run_id, Duration::from_secs(seconds.min(TIMEOUT_SECONDS_MAX)));
        match &cx.run {
            // A run that waits works on nothing; with its place the other one can go on.
            Some(run) => cx.runs.while_lending(run, waiting).await,
            None => waiting.await,
        }
    };
    match waited {
        Ok(Some(report)) => ToolOutput::json(answer(&key, &report)),
        Ok(None) => {
            let asker = (&cx.key, cx.run.as_deref());
            let telling = cx.runs.tell_answer(asker, cx.owner(), key.clone(), run_id.clone());
            let delivery = if telling.await { "pending" } else { "skipped" };
            ToolOutput::json(json!({"runId": run_id, "status": "accepted",
                "sessionKey": key.as_str(),
                "delivery": {"status": delivery, "mode": "announce"}}))
        }
        Err(error) => refused("error", error.to_string()),
    }
}

fn answer(key: &SessionKey, report: &RunReport) -> Value {
    let (status, reply, error) = match &report.end {
        RunEnd::Answered => ("ok", Some(report.progress.paragraphs()), None),
        RunEnd::Failed(error) => ("error", None, Some(error.clone())),
        RunEnd::Aborted(_) => ("error", None, Some("it was stopped".to_owned())),
    };
    without_nulls(json!({"runId": &*report.run_id, "status": status, "reply": reply,
        "error": error, "sessionKey": key.as_str()}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Progress;

    #[test]
    fn what_a_session_says_around_a_tool_is_two_paragraphs() {
        let (text, turns) = ("I look.Done now.".into(), vec![7]);
        let progress = Progress { text, turns, ..Progress::default() };
        let report = RunReport {
            family: Family::Agent,
            run_id: "r".into(),
            end: RunEnd::Answered,
            accepted_at: 1,
            ended_at: 2,
            progress,
        };
        let told = answer(&SessionKey::from_canonical("agent:main:main"), &report);
        assert_eq!(told["reply"], "I look.\n\nDone now.");
    }
}
