//! Running a program on a node: the form of `system.run` and its kin.
//!
//! Owns: what of a caller's params goes to the node. Promises: nobody but an
//! approval says that something was approved. Must not: decide.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What of the params of `system.run` a caller may say. That it was approved is
/// not among it.
const FORWARDED: [&str; 11] = [
    "command",
    "rawCommand",
    "systemRunPlan",
    "cwd",
    "env",
    "timeoutMs",
    "needsScreenRecording",
    "agentId",
    "sessionKey",
    "runId",
    "suppressNotifyOnExit",
];

/// What a node says that it will run (`systemRunPlan`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePlan {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where it runs.
    pub cwd: Option<String>,
    /// The command as text.
    pub command_text: String,
    /// A shorter form of it.
    pub command_preview: Option<String>,
    /// Whose command.
    pub agent_id: Option<String>,
    /// The session.
    pub session_key: Option<String>,
    /// A file among the arguments that may change until then.
    pub mutable_file_operand: Option<Value>,
}

/// How a program on a node ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunResult {
    /// What it returned.
    pub exit_code: Option<i64>,
    /// Whether it took too long.
    pub timed_out: bool,
    /// Whether it went well.
    pub success: Option<bool>,
    /// What it said.
    pub stdout: Option<String>,
    /// What it complained of.
    pub stderr: Option<String>,
    /// Why it could not be run.
    pub error: Option<String>,
}

/// The params of a `system.run` as they go to the node, without an approval.
/// Params that are no object are not looked at; the node refuses them.
pub fn forwarded(params: &Value) -> Value {
    let Value::Object(given) = params else { return params.clone() };
    let kept =
        FORWARDED.iter().filter_map(|name| Some(((*name).to_owned(), given.get(*name)?.clone())));
    Value::Object(kept.collect::<Map<_, _>>())
}

/// How a shell of the node runs a command line.
pub fn shell_argv(command: &str, platform: &str) -> Vec<String> {
    let shell: &[&str] = if platform.trim().to_ascii_lowercase().starts_with("win") {
        &["cmd.exe", "/d", "/s", "/c"]
    } else {
        &["/bin/sh", "-lc"]
    };
    shell.iter().copied().chain([command]).map(str::to_owned).collect()
}

impl NodePlan {
    /// Reads what a node answers to `system.run.prepare`.
    ///
    /// # Errors
    /// In words, when that is no plan, or not one for this command.
    pub fn read(payload: &Value, argv: &[String], session: (&str, &str)) -> Result<Self, String> {
        let plan = Self::deserialize(&payload["plan"])
            .map_err(|error| format!("the node's plan is not readable: {error}"))?;
        let (agent, key) = session;
        let is_ours = plan.argv.last() == argv.last()
            && plan.agent_id.as_deref().is_none_or(|it| it == agent)
            && plan.session_key.as_deref().is_none_or(|it| it == key);
        if plan.argv.is_empty() || !is_ours {
            return Err("the node plans something else than was asked of it".into());
        }
        Ok(plan)
    }

    /// The plan of a node that makes none.
    pub fn of(
        argv: Vec<String>,
        command: &str,
        cwd: Option<String>,
        session: (&str, &str),
    ) -> Self {
        Self {
            argv,
            cwd,
            command_text: command.to_owned(),
            command_preview: None,
            agent_id: Some(session.0.to_owned()),
            session_key: Some(session.1.to_owned()),
            mutable_file_operand: None,
        }
    }

    /// The params of the `system.run` that does exactly this.
    pub fn to_params(&self) -> Value {
        json!({"command": self.argv, "rawCommand": self.command_text, "systemRunPlan": self,
            "cwd": self.cwd, "agentId": self.agent_id, "sessionKey": self.session_key})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_cannot_say_that_something_was_approved() {
        let params = json!({"command": ["true"], "approved": true, "approvalDecision": "allow-once",
            "cwd": "/", "other": 1});
        assert_eq!(forwarded(&params), json!({"command": ["true"], "cwd": "/"}));
        assert_eq!(forwarded(&json!("x")), json!("x"));
    }

    #[test]
    fn a_plan_for_another_command_or_session_is_refused() {
        let argv = shell_argv("ls -la", "linux");
        assert_eq!(argv, ["/bin/sh", "-lc", "ls -la"]);
        assert_eq!(shell_argv("dir", "Win32")[..2], ["cmd.exe", "/d"]);
        let session = ("main", "agent:main:main");
        let own = NodePlan::of(argv.clone(), "ls -la", None, session);
        let read = |plan: &NodePlan| NodePlan::read(&json!({"plan": plan}), &argv, session);
        assert_eq!(read(&own), Ok(own.clone()));
        let others = [
            NodePlan { argv: shell_argv("rm -rf /", "linux"), ..own.clone() },
            NodePlan { argv: vec![], ..own.clone() },
            NodePlan { session_key: Some("agent:main:other".into()), ..own.clone() },
            NodePlan { agent_id: Some("ops".into()), ..own },
        ];
        assert!(others.iter().all(|plan| read(plan).is_err()));
        assert!(NodePlan::read(&json!({}), &argv, session).is_err());
    }
}
