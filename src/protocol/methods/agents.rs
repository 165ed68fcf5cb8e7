//! `agents.*`, `agent.identity.get`.

use crate::protocol::decode::{Fields, Params, boolean, non_empty, text};

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

/// Params of `agents.create`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentsCreateParams {
    /// What people call it; its id is made of it.
    pub name: String,
    /// Where it works. Only dashboards and the simple profile may leave it out.
    pub workspace: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its emoji.
    pub emoji: Option<String>,
    /// Its picture.
    pub avatar: Option<String>,
}

impl Params for AgentsCreateParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            name: f.required("name", non_empty()),
            workspace: f.optional("workspace", non_empty()),
            model: f.optional("model", non_empty()),
            emoji: f.optional("emoji", text()),
            avatar: f.optional("avatar", text()),
        }
    }
}

/// Params of `agents.update`. What is absent stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentsUpdateParams {
    /// Which agent.
    pub agent_id: String,
    /// What people call it.
    pub name: Option<String>,
    /// Where it works.
    pub workspace: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its emoji.
    pub emoji: Option<String>,
    /// Its picture.
    pub avatar: Option<String>,
}

impl Params for AgentsUpdateParams {
    fn read(f: &mut Fields) -> Self {
        f.alias("agentId", "id");
        Self {
            agent_id: f.required("agentId", non_empty()),
            name: f.optional("name", non_empty()),
            workspace: f.optional("workspace", non_empty()),
            model: f.optional("model", non_empty()),
            emoji: f.optional("emoji", text()),
            avatar: f.optional("avatar", text()),
        }
    }
}

/// Params of `agents.delete`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentsDeleteParams {
    /// Which agent.
    pub agent_id: String,
    /// Whether its folders go to the trash; they do when absent.
    pub delete_files: bool,
}

impl Params for AgentsDeleteParams {
    fn read(f: &mut Fields) -> Self {
        f.alias("agentId", "id");
        Self {
            agent_id: f.required("agentId", non_empty()),
            delete_files: f.optional("deleteFiles", boolean()).unwrap_or(true),
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
        f.alias("name", "filename");
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
        f.alias("name", "filename");
        Self {
            agent_id: f.required("agentId", non_empty()),
            name: f.required("name", non_empty()),
            content: f.required("content", text()),
        }
    }
}
