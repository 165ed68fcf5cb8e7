//! `agents.*`, `agent.identity.get`.

use crate::protocol::decode::{Fields, Params, non_empty, text};

/// Params of `agent.identity.get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentIdentityParams {
    /// Which agent; the default one when absent.
    pub agent_id: Option<String>,
    /// Or the agent of this session.
    pub session_key: Option<String>,
}

impl Params for AgentIdentityParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            agent_id: f.optional("agentId", non_empty()),
            session_key: f.optional("sessionKey", text()),
        }
    }
}
