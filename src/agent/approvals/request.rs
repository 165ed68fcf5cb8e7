//! What somebody wants to run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{ExecAsk, ExecSecurity};
use crate::sessions::SessionKey;

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExecHost {
    /// On this machine.
    Gateway,
    /// On this machine, confined.
    Sandbox,
    /// On another machine.
    Node,
}

impl ExecHost {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Sandbox => "sandbox",
            Self::Node => "node",
        }
    }
}

/// A command, and all that decides what it does. A permit holds for exactly
/// this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// The command as the model wrote it; this text is shown to whoever decides.
    pub command: String,
    /// Where it runs: an absolute path of a directory.
    pub cwd: PathBuf,
    /// The whole environment that the program gets.
    pub env: BTreeMap<String, String>,
    /// Which of these variables the call asked for.
    pub env_asked: BTreeSet<String>,
    /// Whether it gets a terminal instead of pipes.
    pub has_terminal: bool,
    /// On which side.
    pub host: ExecHost,
    /// Id of the agent.
    pub agent: String,
    /// What the agent itself writes.
    pub workspace: PathBuf,
    /// The session of the call.
    pub session: SessionKey,
    /// The run of the call.
    pub run_id: Option<Arc<str>>,
    /// Id of the call.
    pub call_id: String,
    /// How strict the call itself wants it.
    pub security: Option<ExecSecurity>,
    /// Whether the call itself wants a person to be asked.
    pub ask: Option<ExecAsk>,
}

#[cfg(test)]
impl ExecRequest {
    /// `uname` in the main session, which asks for nothing of its own.
    pub fn example(host: ExecHost) -> Self {
        let session = SessionKey::parse("main", &crate::sessions::KeyRules::default());
        Self {
            command: "uname".into(),
            cwd: "/".into(),
            env: [].into(),
            env_asked: [].into(),
            has_terminal: false,
            host,
            agent: "main".into(),
            workspace: "/w".into(),
            session,
            run_id: None,
            call_id: "c".into(),
            security: None,
            ask: None,
        }
    }
}
