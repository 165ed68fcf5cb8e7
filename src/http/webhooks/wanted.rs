//! What a request to a hook asks for, in the words of the original where it is
//! wrong.

use serde::Serialize;
use serde_json::Value;

use crate::config::channels::ChannelKind;
use crate::protocol::methods::cron::WakeMode;

use super::policy;
use super::sent::said;

/// What is done.
pub(super) enum Action {
    /// Nothing: the rules of a mapping say so.
    Skip,
    /// The main session is told something.
    Tell {
        /// What.
        text: String,
        /// Whether it answers at once.
        mode: WakeMode,
    },
    /// An agent is asked something.
    Ask(Box<Asking>),
}

/// Who chose a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Chosen {
    /// The configuration.
    ByConfig,
    /// The request, at least in part.
    ByRequest,
}

/// What an agent is asked, before anything of it is allowed.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Asking {
    /// What.
    pub message: String,
    /// A name for people.
    pub name: String,
    /// Which agent.
    pub agent_id: Option<String>,
    /// In which session, and who says so.
    pub session_key: Option<(String, Chosen)>,
    /// What the sessions of the mapping begin with.
    pub prefix: Option<String>,
    /// Whether the main session answers news of it at once.
    pub wake_mode: WakeMode,
    /// Whether the answer is sent to a chat.
    pub deliver: bool,
    /// Of which channel.
    pub channel: String,
    /// To which chat of it.
    pub to: Option<String>,
    /// With which model.
    pub model: Option<String>,
    /// How hard it thinks.
    pub thinking: Option<String>,
    /// Stopped after so many seconds.
    pub timeout_seconds: Option<u64>,
    /// Where the message is from; none when it counts as the owner's own words.
    pub source: Option<&'static str>,
}

/// What `/wake` asks for.
pub(super) fn wake(payload: &Value) -> Result<Action, String> {
    let text = said(payload.get("text")).ok_or("text required")?;
    Ok(Action::Tell { text: text.to_owned(), mode: wake_mode(payload.get("mode")) })
}

/// What `/agent` asks for.
pub(super) fn agent(payload: &Value) -> Result<Box<Asking>, String> {
    let text = |name: &str| said(payload.get(name)).map(str::to_owned);
    let message = text("message").ok_or("message required")?;
    let channel = match payload.get("channel") {
        None => "last".to_owned(),
        Some(written) => channel(written.as_str().unwrap_or_default())?,
    };
    let model = text("model");
    if payload.get("model").is_some() && model.is_none() {
        return Err("model required".into());
    }
    let seconds = payload.get("timeoutSeconds").and_then(Value::as_f64).filter(|it| *it >= 1.0);
    let asking = Asking {
        message,
        name: text("name").unwrap_or_else(|| "Hook".into()),
        agent_id: text("agentId"),
        session_key: text("sessionKey").map(|key| (key, Chosen::ByRequest)),
        prefix: None,
        wake_mode: wake_mode(payload.get("wakeMode")),
        deliver: payload.get("deliver") != Some(&Value::Bool(false)),
        channel,
        to: text("to"),
        model,
        thinking: text("thinking"),
        timeout_seconds: seconds.map(policy::whole_seconds),
        source: Some(policy::WEBHOOK),
    };
    Ok(Box::new(asking))
}

fn wake_mode(written: Option<&Value>) -> WakeMode {
    WakeMode::parse(written.and_then(Value::as_str).unwrap_or_default())
}

/// A channel of which answers may go to a chat.
pub(super) fn channel(written: &str) -> Result<String, String> {
    let written = written.trim().to_lowercase();
    let all = ["last"].into_iter().chain(ChannelKind::ALL.map(ChannelKind::as_str));
    let all: Vec<_> = all.collect();
    if all.contains(&written.as_str()) {
        return Ok(written);
    }
    Err(format!("channel must be {}", all.join("|")))
}
