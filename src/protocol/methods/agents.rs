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

/// Params of `agents.files.list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentsFilesListParams {
    /// Which agent.
    pub agent_id: String,
}

impl Params for AgentsFilesListParams {
    fn read(f: &mut Fields) -> Self {
        Self { agent_id: f.required("agentId", non_empty()) }
    }
}

/// Params of `agents.files.get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentsFilesGetParams {
    /// Which agent.
    pub agent_id: String,
    /// Which file; only the names of bootstrap files are any.
    pub name: String,
}

impl Params for AgentsFilesGetParams {
    fn read(f: &mut Fields) -> Self {
        f.simple_alias("name", "filename");
        Self { agent_id: f.required("agentId", non_empty()), name: f.required("name", non_empty()) }
    }
}

/// Params of `agents.files.set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentsFilesSetParams {
    /// Which agent.
    pub agent_id: String,
    /// Which file; only the names of bootstrap files are any.
    pub name: String,
    /// Its new text.
    pub content: String,
}

impl Params for AgentsFilesSetParams {
    fn read(f: &mut Fields) -> Self {
        f.simple_alias("name", "filename");
        Self {
            agent_id: f.required("agentId", non_empty()),
            name: f.required("name", non_empty()),
            content: f.required("content", text()),
        }
    }
}
