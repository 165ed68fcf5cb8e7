//! Which sessions the tools of a session reach.
//!
//! Promises: unknown means no; sessions of other agents are out of reach unless
//! the session has spawned them, or the configuration lets both agents.

use crate::agent::tools::ToolContext;
use crate::config::SessionVisibility;
use crate::sessions::{SessionEntry, SessionError, SessionKey};

/// What is done in a session, for the text of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It is read.
    History,
    /// It is spoken to.
    Send,
    /// Its state is read.
    Status,
    /// It is listed.
    List,
}

impl Doing {
    const fn as_str(self) -> &'static str {
        match self {
            Self::History => "history",
            Self::Send => "send",
            Self::Status => "status",
            Self::List => "list",
        }
    }
}

/// Whether the session of the call reaches another one; `Some` says why not.
/// The answer does not tell whether there is such a session.
pub async fn refusal(
    cx: &ToolContext,
    target: &SessionKey,
    doing: Doing,
) -> Result<Option<String>, SessionError> {
    if *target == cx.key {
        return Ok(None);
    }
    let entry = cx.parts().sessions.entry(target).await?;
    if visibility(cx) != SessionVisibility::Own && is_below(cx, entry.as_ref()).await? {
        return Ok(None);
    }
    Ok(by_rules(cx, target, doing))
}

fn visibility(cx: &ToolContext) -> SessionVisibility {
    let wanted = cx.parts().settings.now().tools.sessions;
    // A sub-agent is there for its task: it never sees more than its own.
    match wanted {
        SessionVisibility::Agent | SessionVisibility::All if cx.key.is_spawned() => {
            SessionVisibility::Tree
        }
        wanted => wanted,
    }
}

fn by_rules(cx: &ToolContext, target: &SessionKey, doing: Doing) -> Option<String> {
    let (settings, keys) = (&cx.parts().settings.now(), &cx.parts().keys.now());
    let (own, other) = (cx.key.agent(keys), target.agent(keys));
    let doing = doing.as_str();
    let refused = |why: String| Some(format!("Session {doing} visibility is restricted {why}"));
    match visibility(cx) {
        SessionVisibility::Own => {
            refused("to the current session (tools.sessions.visibility=self).".into())
        }
        SessionVisibility::Tree => {
            refused("to the current session tree (tools.sessions.visibility=tree).".into())
        }
        SessionVisibility::Agent | SessionVisibility::All if own == other => None,
        SessionVisibility::Agent => refused(
            "to the own agent. Set tools.sessions.visibility=all to allow cross-agent access."
                .into(),
        ),
        SessionVisibility::All if !settings.tools.agent_to_agent.is_enabled => Some(format!(
            "Agent-to-agent {doing} is disabled. Set tools.agentToAgent.enabled=true to allow \
             cross-agent access."
        )),
        SessionVisibility::All => {
            let is_allowed = settings.tools.agent_to_agent.allows(own.as_str(), other.as_str());
            let text = format!("Agent-to-agent {doing} denied by tools.agentToAgent.allow.");
            (!is_allowed).then_some(text)
        }
    }
}

/// Whether the session of the call has spawned this one, or one above it.
async fn is_below(cx: &ToolContext, entry: Option<&SessionEntry>) -> Result<bool, SessionError> {
    // Mostly it is the nearest, and the rest of the line need not be read.
    let nearest = entry.and_then(|entry| entry.spawned_by.as_deref());
    if nearest == Some(cx.key.as_str()) {
        return Ok(true);
    }
    let above = cx.parts().sessions.spawners(entry).await?;
    Ok(above.iter().any(|(key, _)| *key == cx.key))
}
