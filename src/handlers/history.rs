//! `chat.history`, `chat.message.get`.

use serde_json::{Map, Value};

use crate::agent::{ActiveRun, SessionRow};
use crate::protocol::hello::MAX_PAYLOAD;
use crate::protocol::methods::chat::{ChatHistoryParams, ChatMessageGetParams};
use crate::protocol::methods::sessions::SessionsDescribeParams;
use crate::protocol::{ErrorKind, ErrorShape, simple};
use crate::registry::{Ctx, Reply};
use crate::sessions::{AgentId, HistoryOptions, Lookup, iso_time};
use crate::support::{json, without_nulls};

use super::chat::unreadable;
use super::sessions;

/// Largest message that is answered in one piece: a frame has some bytes
/// around it.
const WHOLE_MAX: usize = MAX_PAYLOAD - 4096;
/// Size of a part of a larger one. Written as a JSON text once more, it may
/// double, and still fits a frame.
const PART: usize = 8 * 1024 * 1024;

/// `chat.history`: the newest messages in their display form.
pub async fn history(cx: Ctx, p: ChatHistoryParams) -> Reply<Value> {
    let key = cx.session_key(&p.session_key);
    let count = |given: Option<u64>, default: usize| {
        given.and_then(|given| usize::try_from(given).ok()).unwrap_or(default)
    };
    let (defaults, settings) = (HistoryOptions::default(), cx.services.settings.now());
    let options = HistoryOptions {
        limit: count(p.limit, defaults.limit),
        max_chars: count(p.max_chars, settings.history_max_chars),
        has_run_ids: cx.caller.is_dashboard || cx.caller.profile.is_newer(),
        ..defaults
    };
    let (page, active) = cx.services.runs.history(&key, options).await.map_err(unreadable)?;
    let entry = page.entry.unwrap_or_default();
    let level = cx.services.models.thinking(&key, &entry).as_str();
    let agent = key.agent(&cx.services.keys.now());
    let verbose = settings.agents.verbose_level(agent.as_str(), entry.verbose_level.as_deref());
    let mut messages = page.messages;
    let level = if cx.is_simple() {
        messages.iter_mut().for_each(simple::message_out);
        simple::thinking_out(level)
    } else {
        level
    };
    if cx.caller.profile.is_newer() {
        messages.iter_mut().for_each(name_sent);
    }
    let entries = cx.caller.is_dashboard.then(|| entries(&p.session_key, &messages));
    let mut answer = json!({
        "sessionKey": p.session_key,
        "sessionId": page.session_id,
        "messages": [],
        "entries": entries,
        "thinkingLevel": level,
        "fastMode": entry.fast_mode,
        "verboseLevel": verbose,
        "activeRun": active.map(|run| {
            let waiting = cx.services.runs.parts().approvals.waiting_calls(&key);
            active_run(&run, &waiting)
        }),
    });
    // Moved, not copied by `json!`: they are nearly all of the answer.
    answer["messages"] = messages.into();
    Ok(without_nulls(answer))
}

/// `chat.startup`: `chat.history`, and what else a page shows of a session; of protocol 4.
pub async fn startup(cx: Ctx, p: ChatHistoryParams) -> Reply<Value> {
    let wanted = SessionsDescribeParams { key: p.session_key.clone(), ..Default::default() };
    let described = sessions::describe(cx.clone(), wanted).await?;
    let defaults = SessionRow::defaults(&cx.services.models);
    let mut answer = history(cx, p).await?;
    answer["sessionInfo"] = described["session"].clone();
    answer["defaults"] = defaults;
    Ok(answer)
}

/// Names what a message was sent with, by which the Control UI since protocol 4 knows its
/// own again (as the gateway of `openclaw` 2026.9.6 answers).
fn name_sent(message: &mut Value) {
    let run_id = message["__openclaw"]["runId"].as_str();
    if let Some(sent) = run_id.map(|run_id| format!("{run_id}:user")) {
        message["idempotencyKey"] = sent.into();
    }
}

/// What a client that comes late shows until the next event; `waiting` are the calls of
/// tools that wait for a decision.
fn active_run(run: &ActiveRun, waiting: &[String]) -> Value {
    let progress = run.progress();
    let waiting = (!waiting.is_empty()).then_some(waiting);
    without_nulls(json!({"runId": *run.id, "startedAt": progress.started_at,
        "text": **progress.shown(), "waitingCalls": waiting}))
}

/// The messages by run, as dashboards read them: an entry begins
/// with what the user says.
fn entries(session_key: &str, messages: &[Value]) -> Vec<Value> {
    let mut runs: Vec<Vec<&Value>> = Vec::new();
    for message in messages {
        match runs.last_mut() {
            Some(run) if message["role"] != "user" => run.push(message),
            _ => runs.push(vec![message]),
        }
    }
    runs.iter().map(|run| entry(session_key, run)).collect()
}

fn entry(session_key: &str, messages: &[&Value]) -> Value {
    let time = |message: Option<&&Value>| {
        message.and_then(|message| message["timestamp"].as_u64()).map(iso_time)
    };
    let first = messages.first().map_or(&Value::Null, |first| &first["__openclaw"]);
    let run_id = first.get("runId").or_else(|| first.get("id")).cloned();
    let answers = messages.iter().filter(|message| message["role"] == "assistant");
    let mut usage: Map<String, Value> = Map::new();
    for (member, name) in [("input", "inputTokens"), ("output", "outputTokens")] {
        let tokens = answers.clone().filter_map(|answer| answer["usage"][member].as_u64());
        usage.insert(name.into(), json!(tokens.sum::<u64>()));
    }
    let last = messages.last();
    let is_complete = last.is_some_and(|last| {
        last["role"] == "assistant" && last["stopReason"].as_str() != Some("toolUse")
    });
    let entry = json!({
        "runId": run_id,
        "sessionKey": session_key,
        "messages": messages.iter().map(|message| shown(message)).collect::<Vec<_>>(),
        "usage": usage,
        "startedAt": time(messages.first()),
        "completedAt": time(last.filter(|_| is_complete)),
    });
    without_nulls(entry)
}

/// A message as dashboards read it in an entry: calls are `tool_use`, and their results
/// are looked for in what the assistant says.
fn shown(message: &Value) -> Value {
    let mut shown = message.clone();
    simple::content_out(&mut shown);
    if message["role"] == "toolResult" {
        shown["role"] = json!("assistant");
    }
    shown
}

/// `chat.message.get`: one message, whole. What cannot be had is an answer,
/// too, as later versions of the original have it; `error` says more.
pub async fn message(cx: Ctx, p: ChatMessageGetParams) -> Reply<Value> {
    let key = cx.session_key(&p.session_key);
    let of_key = key.agent(&cx.services.keys.now());
    if let Some(agent) = p.agent_id.as_deref().map(AgentId::normalize)
        && agent != of_key
    {
        let text = format!("agent \"{agent}\" does not match session key agent \"{of_key}\"");
        return Err(ErrorShape::invalid(format!("invalid chat.message.get params: {text}")));
    }
    let max_chars = p.max_chars.and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX);
    let found = cx.services.runs.message(&key, &p.message_id, max_chars).await;
    let mut message = match found.map_err(unreadable)? {
        Lookup::Found(message) => message,
        Lookup::Hidden => {
            return Ok(unavailable(&cx, "not_visible", ErrorKind::NotFound, "message is hidden"));
        }
        Lookup::Missing => {
            let text = format!("no message {} in session {key}", p.message_id);
            return Ok(unavailable(&cx, "not_found", ErrorKind::NotFound, &text));
        }
    };
    if cx.is_simple() {
        simple::message_out(&mut message);
    }
    let Some(offset) = p.offset else {
        let size = message.to_string().len();
        if size <= WHOLE_MAX {
            return Ok(json!({"ok": true, "message": message}));
        }
        let text = format!(
            "message of {size} bytes is larger than a frame; read it in parts, from offset 0 on"
        );
        let mut answer = unavailable(&cx, "oversized", ErrorKind::InvalidParams, &text);
        answer["bytes"] = json!(size);
        return Ok(answer);
    };
    part(&message.to_string(), offset)
}

fn unavailable(cx: &Ctx, reason: &str, kind: ErrorKind, text: &str) -> Value {
    let error = ErrorShape::invalid(text).kind(kind).to_wire(cx.caller.profile);
    json!({"ok": false, "unavailableReason": reason, "error": error})
}

/// A part of the JSON text of a message, and where the next one begins.
fn part(text: &str, offset: u64) -> Reply<Value> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let Some(rest) = text.get(start..) else {
        return Err(ErrorShape::invalid(format!(
            "invalid chat.message.get params: at /offset: must be a nextOffset within {} bytes",
            text.len()
        )));
    };
    let mut end = PART.min(rest.len());
    while !rest.is_char_boundary(end) {
        end -= 1;
    }
    let next = start + end;
    let mut part = json!({"offset": offset, "text": rest.get(..end).unwrap_or_default()});
    if next < text.len() {
        part["nextOffset"] = json!(next);
    }
    Ok(json!({"ok": true, "bytes": text.len(), "part": part}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_question_and_what_came_of_it() {
        let messages = [
            json!({"role": "assistant", "content": [], "timestamp": 1_795_318_528_397_u64,
                "stopReason": "stop", "__openclaw": {"id": "a"}}),
            json!({"role": "user", "content": "hi", "timestamp": 1_795_318_528_398_u64,
                "__openclaw": {"id": "b", "runId": "run-1"}}),
            json!({"role": "assistant", "content": [], "timestamp": 1_795_318_528_399_u64,
                "usage": {"input": 3, "output": 2}, "stopReason": "toolUse", "__openclaw": {"id": "c"}}),
        ];
        let entries = entries("main", &messages);
        assert_eq!(entries.len(), 2);
        assert_eq!((&entries[0]["runId"], &entries[1]["runId"]), (&json!("a"), &json!("run-1")));
        assert_eq!(entries[0]["completedAt"], "2026-11-22T03:35:28.397Z");
        assert_eq!(entries[1]["startedAt"], "2026-11-22T03:35:28.398Z");
        assert!(entries[1].get("completedAt").is_none(), "it waits for a tool");
        assert_eq!(entries[1]["usage"], json!({"inputTokens": 3, "outputTokens": 2}));
        assert_eq!(entries[1]["messages"], json!(messages[1..]));
    }

    #[test]
    fn an_entry_has_calls_and_results_as_dashboards_read_them() {
        let call = json!({"type": "toolCall", "id": "c", "name": "read", "arguments": {}});
        let text = json!([{"type": "text", "text": "alpha"}]);
        let usage = json!({"input": 3, "output": 2});
        let messages = [
            json!({"role": "user", "content": "hi"}),
            json!({"role": "assistant", "content": [call], "usage": usage, "stopReason": "toolUse"}),
            json!({"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": text,
                "isError": false}),
        ];
        let shown = entries("main", &messages)[0]["messages"].clone();
        assert_eq!(shown[0], messages[0]);
        assert_eq!(
            shown[1],
            json!({"role": "assistant", "usage": usage, "stopReason": "toolUse",
                "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {}}]})
        );
        assert_eq!(
            shown[2],
            json!({"role": "assistant", "toolName": "read", "content": [{"type": "tool_result",
                "tool_use_id": "c", "content": text, "is_error": false}]})
        );
    }

    #[test]
    fn the_parts_of_a_text_are_the_text() {
        let text = "ä".repeat(PART);
        let (mut whole, mut offset) = (String::new(), Some(0));
        while let Some(from) = offset {
            let answer = part(&text, from).unwrap();
            whole.push_str(answer["part"]["text"].as_str().unwrap());
            offset = answer["part"]["nextOffset"].as_u64();
        }
        assert!(whole == text);
        assert!(part(&text, 1).is_err(), "in the middle of a character");
        assert!(part("x", 9).is_err());
    }
}
