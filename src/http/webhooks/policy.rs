//! What a request to a hook may reach: which agents, which sessions.
//!
//! Promises: a request reaches no session but of the agent that it is for, and
//! one that it chooses itself begins as the configuration says.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::config::hooks::begins_with_one;
use crate::config::{AgentsSettings, HooksSettings};
use crate::cron::HookAsk;
use crate::sessions::{AgentId, KeyRules, SessionKey};
use crate::support::{Ids, hex, json};

use super::sent::{Sent, said};
use super::wanted::{Action, Asking, Chosen};

/// Where a message is from that no mail is.
pub(super) const WEBHOOK: &str = "Webhook";
/// Where one is from that is.
const EMAIL: &str = "Email";
/// Longest key of a session.
const KEY_MAX: usize = 256;
/// Longest key that makes two requests the same, as in the original, which does not
/// tell of a longer one.
const IDEMPOTENCY_MAX: usize = 256;
/// Longest name of a run, in characters.
const NAME_MAX: usize = 80;
/// A week, as for jobs.
const SECONDS_MAX: u64 = 7 * 86_400;

const AGENT: &str = "agentId is not allowed by hooks.allowedAgentIds";
const NOT_CHOSEN: &str = "sessionKey is disabled for externally supplied hook payload values; \
    set hooks.allowRequestSessionKey=true to enable";

/// Where a request to a mapped hook is from.
pub(super) fn source(sent: &Sent<'_>) -> &'static str {
    let is_mail = |text: &str| text.eq_ignore_ascii_case("gmail");
    if is_mail(sent.path) || sent.text("source").is_some_and(is_mail) { EMAIL } else { WEBHOOK }
}

/// Full seconds.
pub(super) fn whole_seconds(seconds: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(seconds).map_or(SECONDS_MAX, |it| it.as_secs())
}

/// What is asked, once all of it is allowed.
pub(super) fn settle(
    hooks: &HooksSettings,
    agents: &AgentsSettings,
    keys: &KeyRules,
    ids: &dyn Ids,
    asking: Asking,
) -> Result<HookAsk, String> {
    let written = asking.agent_id.as_deref().map(AgentId::normalize);
    let agent = written.filter(|id| agents.has(id.as_str()));
    let agent = agent.unwrap_or_else(|| keys.default_agent.clone());
    // One that there is not is the default one. Who names none need not be allowed.
    let allowed = hooks.allowed_agent_ids.as_ref().filter(|_| asking.agent_id.is_some());
    if allowed.is_some_and(|allowed| !allowed.contains(agent.as_str())) {
        return Err(AGENT.into());
    }
    let session = session(hooks, &agent, keys, ids, &asking)?;
    Ok(HookAsk {
        agent_id: agent.to_string(),
        session_key: session.to_string(),
        name: name(&asking.name),
        message: asking.message,
        source: asking.source.map(str::to_owned),
        wake_mode: asking.wake_mode,
        deliver: asking.deliver,
        channel: asking.channel,
        to: asking.to,
        model: asking.model,
        thinking: asking.thinking,
        timeout_seconds: asking.timeout_seconds.map(|seconds| seconds.min(SECONDS_MAX)),
    })
}

/// The session of a request.
fn session(
    hooks: &HooksSettings,
    agent: &AgentId,
    keys: &KeyRules,
    ids: &dyn Ids,
    asking: &Asking,
) -> Result<SessionKey, String> {
    let chosen = asking.session_key.as_ref().map(|(key, by)| (key.trim(), *by));
    let chosen = chosen.filter(|(key, _)| !key.is_empty());
    let is_by_request = chosen.is_some_and(|(_, by)| by == Chosen::ByRequest);
    let written = match (chosen, &asking.prefix) {
        (Some((key, _)), Some(prefix)) if key.to_lowercase().starts_with(prefix) => key.to_owned(),
        (Some((key, _)), Some(prefix)) => format!("{prefix}{key}"),
        (Some(_), None) if is_by_request && !hooks.allow_request_session_key => {
            return Err(NOT_CHOSEN.into());
        }
        (Some((key, _)), None) => key.to_owned(),
        (None, Some(prefix)) => format!("{prefix}{}", ids.uuid()),
        (None, None) => {
            let own = hooks.default_session_key.clone();
            own.unwrap_or_else(|| format!("hook:{}", ids.uuid()))
        }
    };
    if written.len() > KEY_MAX || written.chars().any(char::is_control) {
        let rule = "sessionKey must have at most 256 bytes and no control characters";
        return Err(rule.into());
    }
    // Whose session it is does not depend on what somebody has written.
    let lower = written.to_lowercase();
    let named = lower.strip_prefix("agent:").map(|rest| rest.split_once(':'));
    let (dispatched, rest) = match named {
        Some(Some((id, rest))) if !id.is_empty() && !rest.is_empty() => {
            (format!("agent:{agent}:{rest}"), rest.to_owned())
        }
        Some(_) => return Err("sessionKey names no session of an agent".into()),
        None => (lower.clone(), lower.clone()),
    };
    let is_bound =
        hooks.allowed_session_key_prefixes.is_some() || (is_by_request && asking.prefix.is_none());
    let prefixes = hooks.request_prefixes();
    let all = [&lower, &dispatched];
    if is_bound && !all.into_iter().all(|key| begins_with_one(key, &prefixes)) {
        return Err(format!("sessionKey must start with one of: {}", prefixes.join(", ")));
    }
    Ok(SessionKey::parse_for(&rest, agent, keys))
}

/// A name on one line, of which nothing looks like a mark.
fn name(written: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.,:/#@()+&'".contains(c) { c } else { ' ' };
    let text: String = written.chars().map(plain).collect();
    let words: Vec<_> = text.split_whitespace().collect();
    let name: String = words.join(" ").chars().take(NAME_MAX).collect();
    if name.is_empty() { "Hook".into() } else { name }
}

/// What makes two requests the same, if the sender says.
///
/// # Errors
/// When it is too long: who counts on it must not have two runs.
pub(super) fn idempotency_key(sent: &Sent<'_>) -> Result<Option<String>, String> {
    let given = [
        ("Idempotency-Key", sent.header("idempotency-key")),
        ("X-OpenClaw-Idempotency-Key", sent.header("x-openclaw-idempotency-key")),
        ("idempotencyKey", said(sent.payload.get("idempotencyKey")).map(str::to_owned)),
    ];
    let mut given =
        given.into_iter().filter_map(|(name, key)| Some((name, key?.trim().to_owned())));
    match given.find(|(_, key)| !key.is_empty()) {
        Some((name, key)) if key.len() > IDEMPOTENCY_MAX => {
            Err(format!("{name} must have at most {IDEMPOTENCY_MAX} bytes"))
        }
        found => Ok(found.map(|(_, key)| key)),
    }
}

/// The same for requests that ask for the same thing at the same path with the
/// same key.
pub(super) fn claim(path: &str, key: &str, action: Option<&Action>) -> String {
    let asked = match action {
        None | Some(Action::Skip) => Value::Null,
        Some(Action::Tell { text, mode }) => json!({"text": text, "mode": mode}),
        Some(Action::Ask(asking)) => json!(asking),
    };
    hex(Sha256::digest(json!([path, key, asked]).to_string()))
}
