//! `tools.*`.

use serde_json::Value;

use crate::protocol::decode::{Fields, Params, any, boolean, dictionary, non_empty};

/// Params of `tools.catalog`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsCatalogParams {
    /// Whose tools; the default agent's when absent.
    pub agent_id: Option<String>,
    /// Whether tools that are not built in are wanted, too.
    pub include_plugins: Option<bool>,
}

impl Params for ToolsCatalogParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            agent_id: f.optional("agentId", non_empty()),
            include_plugins: f.optional("includePlugins", boolean()),
        }
    }
}

/// Params of `tools.effective`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsEffectiveParams {
    /// Must be the session's own, when it is given.
    pub agent_id: Option<String>,
    /// The session.
    pub session_key: String,
}

impl Params for ToolsEffectiveParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            agent_id: f.optional("agentId", non_empty()),
            session_key: f.required("sessionKey", non_empty()),
        }
    }
}

/// Params of `tools.invoke`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolsInvokeParams {
    /// Which tool.
    pub name: String,
    /// What it is given.
    pub args: Option<Vec<(String, Value)>>,
    /// `action` of the arguments, where the tool has one and they do not. Of
    /// `POST /tools/invoke`.
    pub action: Option<String>,
    /// In which session; the agent's main one when absent.
    pub session_key: Option<String>,
    /// As which agent.
    pub agent_id: Option<String>,
    /// Whether the caller has confirmed the call.
    pub confirm: Option<bool>,
    /// The same key is not done twice.
    pub idempotency_key: Option<String>,
    /// Whether nothing may come of the call: only tools that change nothing are
    /// called then. Of `POST /tools/invoke`.
    pub dry_run: Option<bool>,
}

impl Params for ToolsInvokeParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            name: f.required("name", non_empty()),
            args: f.optional("args", dictionary(any())),
            action: f.optional("action", non_empty()),
            session_key: f.optional("sessionKey", non_empty()),
            agent_id: f.optional("agentId", non_empty()),
            confirm: f.optional("confirm", boolean()),
            idempotency_key: f.optional("idempotencyKey", non_empty()),
            dry_run: f.optional("dryRun", boolean()),
        }
    }
}
