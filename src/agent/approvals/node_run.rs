//! Decisions on commands that a node runs for a client.
//!
//! Promises: a decision counts once, for the node, the command, the directory,
//! the variables, the agent and the session that were shown, and for nothing
//! else; what goes to the node is what was shown, not what the client says now.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::pending::{Decision, QuestionKind};
use super::service::Approvals;
use crate::support::{hex, json, sort};

/// Why a decision does not count for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NodeRunError {
    /// It is not said which decision.
    #[error("approval override requires params.runId")]
    NoId,
    /// There is no such question, or it ended a while ago.
    #[error("unknown or expired approval id")]
    Unknown,
    /// Nobody has said yes, or it was used already.
    #[error("approval required")]
    Required,
    /// It was about another node, or about none.
    #[error("approval id not valid for this node")]
    OtherNode,
    /// It was about another command.
    #[error("approval id does not match request")]
    OtherRequest,
}

impl NodeRunError {
    /// `details.code` on the wire.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NoId => "MISSING_RUN_ID",
            Self::Unknown => "UNKNOWN_APPROVAL_ID",
            Self::Required => "APPROVAL_REQUIRED",
            Self::OtherNode => "APPROVAL_NODE_MISMATCH",
            Self::OtherRequest => "APPROVAL_REQUEST_MISMATCH",
        }
    }
}

/// `systemRunBinding`: what a question about a command on a node is bound to.
/// `env` are the variables that it gets.
pub fn binding_of(plan: &Value, env: &[(String, String)]) -> Value {
    json!({
        "argv": plan["argv"],
        "cwd": plan["cwd"],
        "agentId": plan["agentId"],
        "sessionKey": plan["sessionKey"],
        "envHash": env_hash(env),
    })
}

/// `null` when there are none.
fn env_hash(env: &[(String, String)]) -> Option<String> {
    if env.is_empty() {
        return None;
    }
    let sorted = sort::map(env.iter().map(|(name, value)| (name, value)));
    Some(hex(Sha256::digest(json!(sorted).to_string())))
}

impl Approvals {
    /// Takes a decision for the `system.run` that a client sends to a node; the
    /// params to send.
    ///
    /// # Errors
    /// When there is none, or not for this.
    pub fn redeem_for_node(&self, node_id: &str, params: &Value) -> Result<Value, NodeRunError> {
        let id = params["runId"].as_str().map(str::trim).filter(|id| !id.is_empty());
        let id = id.ok_or(NodeRunError::NoId)?;
        let question = self.find(QuestionKind::Exec, id).ok();
        let question = question.filter(|it| it.id == id).ok_or(NodeRunError::Unknown)?;
        let shown = &question.request;
        if shown["host"] != "node" || shown["nodeId"] != node_id {
            return Err(NodeRunError::OtherNode);
        }
        let (plan, binding) = (&shown["systemRunPlan"], &shown["systemRunBinding"]);
        let env: Vec<(String, String)> = match &params["env"] {
            Value::Null => Vec::new(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect::<Option<_>>()
                .ok_or(NodeRunError::OtherRequest)?,
            _ => return Err(NodeRunError::OtherRequest),
        };
        // What is not said now is what was shown; what is said must be the same.
        let same = |said: &Value, shown: &Value| said.is_null() || said == shown;
        let is_same = plan.is_object()
            && binding["envHash"] == json!(env_hash(&env))
            && params["command"] == plan["argv"]
            && ["cwd", "agentId", "sessionKey"]
                .iter()
                .all(|name| same(&params[*name], &plan[*name]))
            && same(&params["rawCommand"], &plan["commandText"])
            && (params["systemRunPlan"].is_null()
                || params["systemRunPlan"]["argv"] == plan["argv"]);
        if !is_same {
            return Err(NodeRunError::OtherRequest);
        }
        let decision = question.decided().filter(|it| *it != Decision::Deny);
        let decision = decision.ok_or(NodeRunError::Required)?;
        if !question.redeem() {
            return Err(NodeRunError::Required);
        }
        let mut sent = Map::new();
        for name in ["timeoutMs", "needsScreenRecording", "suppressNotifyOnExit"] {
            if let Some(value) = params.get(name) {
                sent.insert(name.into(), value.clone());
            }
        }
        for (name, value) in [
            ("command", plan["argv"].clone()),
            ("rawCommand", plan["commandText"].clone()),
            ("systemRunPlan", plan.clone()),
            ("cwd", plan["cwd"].clone()),
            ("agentId", plan["agentId"].clone()),
            ("sessionKey", plan["sessionKey"].clone()),
            ("runId", json!(id)),
            ("approved", json!(true)),
            ("approvalDecision", json!(decision.as_str())),
        ] {
            sent.insert(name.into(), value);
        }
        if !env.is_empty() {
            sent.insert("env".into(), params["env"].clone());
        }
        Ok(sent.into())
    }
}
