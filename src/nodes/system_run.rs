//! Running a program on a node: the form of `system.run` and its kin.
//!
//! Owns: what of a caller's params goes to the node. Promises: nobody but an
//! approval says that something was approved. Must not: decide.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::support::{json, reading};

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
    /// What else the node says, such as a file among the arguments that may change until then
    /// (`mutableFileOperand`). It gets that back as it is: with a `null` for what it has not
    /// said, OpenClaw's node takes the plan for a broken one.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// Whether the node has made it. Otherwise it is ours, and the node gets no plan.
    #[serde(skip)]
    pub is_of_node: bool,
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
        let mut plan: Self = reading::of(&payload["plan"])
            .map_err(|error| format!("the node's plan is not readable: {error}"))?;
        let (agent, key) = session;
        let is_ours = plan.argv.last() == argv.last()
            && plan.agent_id.as_deref().is_none_or(|it| it == agent)
            && plan.session_key.as_deref().is_none_or(|it| it == key);
        if plan.argv.is_empty() || !is_ours {
            return Err("the node plans something else than was asked of it".into());
        }
        plan.is_of_node = true;
        Ok(plan)
    }

    /// The plan of a node that makes none, or is not asked for one.
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
            other: Map::new(),
            is_of_node: false,
        }
    }

    /// The params of the `system.run` that does exactly this.
    pub fn to_params(&self) -> Value {
        let mut params = json!({"command": self.argv, "rawCommand": self.command_text,
            "cwd": self.cwd, "agentId": self.agent_id, "sessionKey": self.session_key});
        if self.is_of_node {
            params["systemRunPlan"] = json!(self);
        }
        params
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

    /// Of `openclaw node run`, 2026.5.7.
    #[test]
    fn a_node_gets_its_plan_back_as_it_made_it() {
        let plan = json!({"argv": ["/bin/sh", "-lc", "echo hi"], "cwd": null,
            "commandText": "/bin/sh -lc \"echo hi\"", "commandPreview": "echo hi",
            "agentId": "main", "sessionKey": "agent:main:main"});
        let argv = shell_argv("echo hi", "linux");
        let again = |plan: &Value| {
            let session = ("main", "agent:main:main");
            let read = NodePlan::read(&json!({"plan": plan}), &argv, session).unwrap();
            read.to_params()["systemRunPlan"].clone()
        };
        assert_eq!(again(&plan), plan);
        let mut more = plan;
        more["mutableFileOperand"] = json!({"argvIndex": 2, "path": "/x", "sha256": "ab"});
        more["policySnapshot"] = json!({"security": "full"});
        assert_eq!(again(&more), more);
    }

    #[test]
    fn a_plan_for_another_command_or_session_is_refused() {
        let argv = shell_argv("ls -la", "linux");
        assert_eq!(argv, ["/bin/sh", "-lc", "ls -la"]);
        assert_eq!(shell_argv("dir", "Win32")[..2], ["cmd.exe", "/d"]);
        let session = ("main", "agent:main:main");
        let own = NodePlan::of(argv.clone(), "ls -la", None, session);
        let read = |plan: &NodePlan| NodePlan::read(&json!({"plan": plan}), &argv, session);
        assert_eq!(read(&own), Ok(NodePlan { is_of_node: true, ..own.clone() }));
        assert!(own.to_params().get("systemRunPlan").is_none(), "it is not the node's");
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
