//! Why a command does not run.

use std::io;

use serde_json::Value;

use crate::support::json;

use super::request::ExecRequest;

/// Why a command does not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    /// What the model reads.
    pub text: String,
    /// `{status: "denied", reason, host, command, cwd, approvalId?, …}`.
    pub details: Value,
}

impl Denial {
    /// The policy says no, and nobody is asked.
    pub(super) fn by_policy(request: &ExecRequest, reason: &str, text: String) -> Self {
        Self { text, details: details(request, reason, None) }
    }

    /// A question was not answered with a yes.
    pub(super) fn by_question(request: &ExecRequest, reason: &str, approval: &str) -> Self {
        let (host, command) = (request.host.as_str(), &request.command);
        Self {
            text: format!("Exec denied ({host} id={approval}, {reason}): {command}"),
            details: details(request, reason, Some(approval)),
        }
    }

    /// What was decided on is not what would run, or may not run any more.
    pub(in crate::agent) fn drifted(request: &ExecRequest, reason: &str) -> Self {
        let (host, command) = (request.host.as_str(), &request.command);
        Self {
            text: format!("Exec denied ({host}, {reason}): {command}"),
            details: details(request, reason, None),
        }
    }

    /// What would run is not what was decided on.
    pub(in crate::agent) fn changed(request: &ExecRequest) -> Self {
        Self::drifted(request, "changed-since-approval")
    }

    /// Something that the decision needs cannot be read.
    pub(super) fn unreadable(request: &ExecRequest, error: &io::Error) -> Self {
        let cwd = request.cwd.display();
        let text = format!("Exec denied: cannot use the directory {cwd}: {error}");
        Self { text, details: details(request, "cwd-unavailable", None) }
    }
}

fn details(request: &ExecRequest, reason: &str, approval: Option<&str>) -> Value {
    let mut details = json!({
        "status": "denied",
        "reason": reason,
        "host": request.host.as_str(),
        "command": request.command,
        "cwd": request.cwd,
    });
    if let Some(id) = approval {
        details["approvalId"] = json!(id);
    }
    details
}
