//! Who is asked, and in which conversation.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::read::Wrong;
use crate::http::Manner;
use crate::protocol::methods::chat::SESSION_KEY_MAX;
use crate::registry::Ctx;
use crate::sessions::{AgentId, SessionKey};

/// What all models here are called.
pub const FAMILY: &str = "openclaw";
/// The agent that answers when none is named.
pub const DEFAULT: &str = "default";

/// What is said of a model that is none of ours.
pub const INVALID_MODEL: &str = "Invalid `model`. Use `openclaw` or `openclaw/<agentId>`.";
/// Longest name of a user: it becomes a part of a session key.
const USER_MAX: usize = 512;
/// Longest name of a channel, as elsewhere.
const CHANNEL_MAX: usize = 64;
/// What a user's name may not put into a session key: parts of it have meanings.
const KEY_PART: &AsciiSet = &CONTROLS.add(b':').add(b'%');
/// What earlier releases kept out of it, beside all that is not ASCII.
const EARLIER: &AsciiSet = &KEY_PART.add(b'/').add(b' ');

/// Who answers, where.
#[derive(Debug)]
pub struct Target {
    /// The conversation.
    pub key: SessionKey,
    /// The model that answers, when it is not the session's.
    pub model: Option<String>,
    /// The channel by which the message is said to come.
    pub channel: Option<String>,
}

/// What a request says of its place.
pub struct Wanted<'a> {
    /// `model`.
    pub model: &'a str,
    /// `user`.
    pub user: Option<&'a str>,
    /// The conversation that it goes on with.
    pub session: Option<SessionKey>,
    /// What conversations without a name begin with.
    pub prefix: &'static str,
}

/// Finds out who is asked.
///
/// # Errors
/// The answer when it asks nobody, or that cannot be found out now.
pub async fn target(headers: &HeaderMap, cx: &Ctx, wanted: Wanted<'_>) -> Result<Target, Response> {
    let key = session(headers, cx, wanted).await?;
    let model = header(headers, "x-openclaw-model").map(str::to_owned);
    Ok(Target { key, model, channel: channel(headers).map_err(|wrong| wrong.answer())? })
}

/// The name of a channel that a header tells; the agent reads it, so it is a name
/// and nothing else.
fn channel(headers: &HeaderMap) -> Result<Option<String>, Wrong> {
    let name = "x-openclaw-message-channel";
    let Some(written) = header(headers, name) else { return Ok(None) };
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if written.len() > CHANNEL_MAX || !written.chars().all(is_part) {
        return Err(Wrong(format!(
            "{name}: must be at most {CHANNEL_MAX} letters, digits, - and _"
        )));
    }
    Ok(Some(written.to_ascii_lowercase()))
}

async fn session(
    headers: &HeaderMap,
    cx: &Ctx,
    wanted: Wanted<'_>,
) -> Result<SessionKey, Response> {
    let of_model = agent_of(wanted.model).ok_or_else(|| Wrong(INVALID_MODEL.into()).answer())?;
    let named = named(headers, of_model);
    let written = session_key(headers).map_err(|wrong| wrong.answer())?;
    let rules = cx.services.keys.now();
    let usual = || match &wanted.session {
        Some(key) => key.agent(&rules),
        None => rules.default_agent.clone(),
    };
    let agent = known(cx, named, usual).map_err(|wrong| wrong.answer())?;
    let key = match (written, wanted.session) {
        (Some(written), _) => cx.session_key_for(written, &agent),
        (None, Some(key)) => key,
        (None, None) => own_key(cx, wanted.prefix, wanted.user, &agent).await?,
    };
    if key.is_malformed() {
        return Err(Wrong(format!("malformed session key \"{key}\"")).answer());
    }
    let of_key = key.agent(&rules);
    if of_key != agent
        && (named.is_some() || !cx.services.settings.now().agents.has(of_key.as_str()))
    {
        let text = format!("agent \"{agent}\" does not match session key agent \"{of_key}\"");
        return Err(Wrong(text).answer());
    }
    Ok(key)
}

/// The session that a header names.
fn session_key(headers: &HeaderMap) -> Result<Option<&str>, Wrong> {
    let name = "x-openclaw-session-key";
    let written = header(headers, name);
    if written.is_some_and(|key| key.len() > SESSION_KEY_MAX) {
        return Err(Wrong(format!("{name}: must have at most {SESSION_KEY_MAX} characters")));
    }
    Ok(written)
}

/// The agent that is named, by a header or else by the model.
fn named<'a>(headers: &'a HeaderMap, of_model: &'a str) -> Option<&'a str> {
    let of_header =
        header(headers, "x-openclaw-agent-id").or_else(|| header(headers, "x-openclaw-agent"));
    of_header.or(Some(of_model).filter(|id| !id.eq_ignore_ascii_case(DEFAULT)))
}

/// The agent of this name, or the usual one, if there is such an agent.
fn known(cx: &Ctx, named: Option<&str>, usual: impl FnOnce() -> AgentId) -> Result<AgentId, Wrong> {
    let agent = named.map_or_else(usual, AgentId::normalize);
    if !cx.services.settings.now().agents.has(agent.as_str()) {
        return Err(Wrong(format!("unknown agent id \"{}\"", named.unwrap_or(agent.as_str()))));
    }
    Ok(agent)
}

/// The agent that is asked by a request without a conversation; `of_model` is what
/// [`agent_of`] makes of its model.
///
/// # Errors
/// When there is none.
pub fn agent(headers: &HeaderMap, cx: &Ctx, of_model: &str) -> Result<AgentId, Wrong> {
    known(cx, named(headers, of_model), || cx.services.keys.now().default_agent.clone())
}

/// The key of a conversation that nobody has named.
async fn own_key(
    cx: &Ctx,
    prefix: &str,
    user: Option<&str>,
    agent: &AgentId,
) -> Result<SessionKey, Response> {
    let Some(user) = user.map(str::trim).filter(|user| !user.is_empty()) else {
        return Ok(cx.session_key_for(&format!("{prefix}:{}", cx.services.ids.uuid()), agent));
    };
    if user.chars().count() > USER_MAX {
        return Err(Wrong(format!("user: must have at most {USER_MAX} characters")).answer());
    }
    let key = |name: &str| cx.session_key_for(&format!("{prefix}-user:{name}"), agent);
    let (own, earlier) = (key(&part(user)), utf8_percent_encode(user, EARLIER).to_string());
    if earlier == user {
        return Ok(own);
    }
    // What an earlier release or OpenClaw has begun goes on. But no name is taken as it is
    // that an earlier release may have made of another one.
    let plain = Some(user).filter(|user| !user.contains('%')).map(key);
    for known in [Some(key(&earlier)), plain].into_iter().flatten() {
        // Nobody is led away from a conversation that cannot be looked up for a moment.
        let entry = cx.services.sessions.entry(&known).await.map_err(|error| {
            tracing::error!(%error, "the conversation of a user cannot be looked up");
            Manner::OpenAi.error(StatusCode::SERVICE_UNAVAILABLE, "internal error")
        })?;
        if entry.is_some() {
            return Ok(known);
        }
    }
    Ok(own)
}

/// A user's name as a part of a session key.
fn part(user: &str) -> String {
    let mut part = String::with_capacity(user.len());
    for c in user.chars() {
        if c.is_ascii() || c.is_control() {
            part.extend(utf8_percent_encode(c.encode_utf8(&mut [0; 4]), KEY_PART));
        } else {
            part.push(c);
        }
    }
    part
}

/// The agent that a model's name stands for, which may be [`DEFAULT`]; none when it
/// is none of ours.
pub fn agent_of(model: &str) -> Option<&str> {
    let model = model.trim();
    if model.eq_ignore_ascii_case(FAMILY) {
        return Some(DEFAULT);
    }
    let rest = ["openclaw/", "openclaw:", "agent:"].into_iter().find_map(|prefix| {
        let (head, rest) = model.split_at_checked(prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then_some(rest)
    })?;
    let is_id = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_good = !rest.is_empty() && rest.len() <= 64 && rest.chars().all(is_id);
    is_good.then_some(rest)
}

/// A header that says something.
pub fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_models_stand_for_agents() {
        for (model, agent) in [
            ("openclaw", Some("default")),
            (" OpenClaw ", Some("default")),
            ("openclaw/default", Some("default")),
            ("openclaw/main", Some("main")),
            ("openclaw:ops", Some("ops")),
            ("agent:ops", Some("ops")),
            ("openclaw/", None),
            ("openclaw/a b", None),
            ("gpt-4", None),
            ("", None),
        ] {
            assert_eq!(agent_of(model), agent, "{model}");
        }
    }

    #[test]
    fn a_users_name_is_one_part_of_a_key() {
        assert_eq!(part("a:group:b%"), "a%3Agroup%3Ab%25");
        assert_eq!(part("J\u{f6}rg a/b\n\u{85}"), "J\u{f6}rg a/b%0A%C2%85");
    }
}
