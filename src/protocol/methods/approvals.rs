//! `exec.approval.*`, `exec.approvals.*` and `plugin.approval.*`.

use serde_json::{Map, Value};

use crate::protocol::decode::{
    Fields, Params, Setting, any, boolean, constant, dictionary, integer_from, list, literal,
    non_empty, nullable, object, one_of, text, text_or_number,
};
use crate::support::json;

/// Longest time that a plugin's question waits, in milliseconds.
const PLUGIN_TIMEOUT_MAX_MS: u64 = 600_000;
const TITLE_MAX: usize = 80;
const DESCRIPTION_MAX: usize = 256;
/// What somebody can be asked to decide.
const DECISIONS: [&str; 3] = ["allow-once", "allow-always", "deny"];

/// Params of `exec.approval.get`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecApprovalGetParams {
    /// The id, or how only one begins.
    pub id: String,
}

impl Params for ExecApprovalGetParams {
    fn read(f: &mut Fields) -> Self {
        Self { id: f.required("id", non_empty()).trim().to_owned() }
    }
}

/// Params of `exec.approval.resolve`, its alias, and `plugin.approval.resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalResolveParams {
    /// The id, or how only one begins.
    pub id: String,
    /// The word, not looked at yet.
    pub decision: String,
}

impl Params for ApprovalResolveParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            id: f.required("id", non_empty()).trim().to_owned(),
            decision: f.required("decision", non_empty()),
        }
    }
}

/// Params of `*.approval.waitDecision`, which the original reads by hand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitDecisionParams {
    /// The id, if one was sent.
    pub id: Option<String>,
}

impl Params for WaitDecisionParams {
    fn read(f: &mut Fields) -> Self {
        let id = f.optional("id", crate::protocol::decode::any());
        f.ignore_rest();
        Self { id: id.as_ref().and_then(Value::as_str).and_then(said) }
    }
}

/// Where a question comes from, as it is shown.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnSource {
    /// The channel.
    pub channel: Option<String>,
    /// Whom there.
    pub to: Option<String>,
    /// By which account.
    pub account_id: Option<String>,
    /// In which thread.
    pub thread_id: Option<Value>,
}

/// Params of `exec.approval.request`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExecApprovalRequestParams {
    /// Id that it is to have.
    pub id: Option<String>,
    /// The command.
    pub command: Option<String>,
    /// Its words.
    pub command_argv: Option<Vec<String>>,
    /// What a node made of it.
    pub system_run_plan: Option<SystemRunPlan>,
    /// The variables that it gets.
    pub env: Option<Vec<(String, String)>>,
    /// Where it runs.
    pub cwd: Option<String>,
    /// On which node.
    pub node_id: Option<String>,
    /// On which side.
    pub host: Option<String>,
    /// The policy that asks.
    pub security: Option<String>,
    /// `always`: it is asked each time.
    pub ask: Option<String>,
    /// What to watch out for.
    pub warning_text: Option<String>,
    /// Whose command.
    pub agent_id: Option<String>,
    /// The program.
    pub resolved_path: Option<String>,
    /// The session.
    pub session_key: Option<String>,
    /// Where it comes from.
    pub source: TurnSource,
    /// How long it waits, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether it is answered when it is asked, and again when it is decided.
    pub two_phase: bool,
}

/// `systemRunPlan`: what a node says that it will run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SystemRunPlan {
    /// All of it, checked.
    pub whole: Value,
    /// The command.
    pub command_text: String,
    /// A shorter form of it.
    pub command_preview: Option<String>,
    /// Where it runs.
    pub cwd: Option<String>,
    /// Whose command.
    pub agent_id: Option<String>,
    /// The session.
    pub session_key: Option<String>,
}

/// A text without blanks around it; `None` where that is nothing.
fn said(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A text, where `null` is the same as none.
fn maybe(f: &mut Fields, name: &str) -> Option<String> {
    set(f.optional(name, nullable(text())))
}

fn set<T>(setting: Option<Setting<T>>) -> Option<T> {
    match setting {
        Some(Setting::Set(value)) => Some(value),
        _ => None,
    }
}

impl Params for ExecApprovalRequestParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            // As whoever waits for it or decides names it: without blanks around.
            id: f.optional("id", non_empty()).and_then(|id| said(&id)),
            command: f.optional("command", non_empty()),
            command_argv: f.optional("commandArgv", list(text())),
            system_run_plan: f.optional("systemRunPlan", object::<SystemRunPlan>()),
            env: f.optional("env", dictionary(text())),
            cwd: maybe(f, "cwd"),
            node_id: set(f.optional("nodeId", nullable(non_empty()))),
            host: maybe(f, "host"),
            security: maybe(f, "security"),
            ask: maybe(f, "ask"),
            warning_text: maybe(f, "warningText"),
            agent_id: maybe(f, "agentId"),
            resolved_path: maybe(f, "resolvedPath"),
            session_key: maybe(f, "sessionKey"),
            source: TurnSource {
                channel: maybe(f, "turnSourceChannel"),
                to: maybe(f, "turnSourceTo"),
                account_id: maybe(f, "turnSourceAccountId"),
                thread_id: set(f.optional("turnSourceThreadId", nullable(text_or_number()))),
            },
            timeout_ms: f.optional("timeoutMs", integer_from(1)),
            two_phase: f.optional("twoPhase", boolean()).unwrap_or_default(),
        }
    }
}

/// `mutableFileOperand`: a file among the arguments that may change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct MutableFile {
    index: u64,
    path: String,
    sha256: String,
}

impl Params for MutableFile {
    fn read(f: &mut Fields) -> Self {
        Self {
            index: f.required("argvIndex", integer_from(0)),
            path: f.required("path", text()),
            sha256: f.required("sha256", text()),
        }
    }
}

impl Params for SystemRunPlan {
    fn read(f: &mut Fields) -> Self {
        let argv = f.required("argv", list(text()));
        let required = |f: &mut Fields, name: &str| match f.required(name, nullable(text())) {
            Setting::Set(value) => Some(value),
            _ => None,
        };
        let cwd = required(f, "cwd");
        let command_text = f.required("commandText", text());
        let command_preview = maybe(f, "commandPreview");
        let (agent_id, session_key) = (required(f, "agentId"), required(f, "sessionKey"));
        let file = set(f.optional("mutableFileOperand", nullable(object::<MutableFile>())));
        // A node since protocol 4 wants it back with the approval.
        let snapshot = f.optional("policySnapshot", dictionary(any()));
        let mut whole = json!({"argv": argv, "cwd": cwd, "commandText": command_text,
            "commandPreview": command_preview, "agentId": agent_id, "sessionKey": session_key});
        // OpenClaw's nodes take a plan with `null` here for a broken one.
        if let Some(MutableFile { index, path, sha256 }) = file {
            whole["mutableFileOperand"] =
                json!({"argvIndex": index, "path": path, "sha256": sha256});
        }
        if let Some(snapshot) = snapshot {
            whole["policySnapshot"] = json!(snapshot);
        }
        Self { whole, command_text, command_preview, cwd, agent_id, session_key }
    }
}

/// Params of `plugin.approval.request`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginApprovalRequestParams {
    /// Which plugin.
    pub plugin_id: Option<String>,
    /// In a few words.
    pub title: String,
    /// In a sentence or two.
    pub description: String,
    /// `info`, `warning` or `critical`.
    pub severity: Option<String>,
    /// The tool it is about.
    pub tool_name: Option<String>,
    /// The call it is about.
    pub tool_call_id: Option<String>,
    /// The decisions that can be made; every one when absent.
    pub allowed_decisions: Option<Vec<String>>,
    /// Whose.
    pub agent_id: Option<String>,
    /// The session.
    pub session_key: Option<String>,
    /// Where it comes from.
    pub source: TurnSource,
    /// How long it waits, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether it is answered when it is asked, and again when it is decided.
    pub two_phase: bool,
}

impl Params for PluginApprovalRequestParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            plugin_id: f.optional("pluginId", non_empty()),
            title: f.required("title", non_empty().max(TITLE_MAX)),
            description: f.required("description", non_empty().max(DESCRIPTION_MAX)),
            severity: f.optional("severity", one_of(&["info", "warning", "critical"])),
            tool_name: f.optional("toolName", text()),
            tool_call_id: f.optional("toolCallId", text()),
            allowed_decisions: f.optional("allowedDecisions", list(one_of(&DECISIONS)).min(1)),
            agent_id: f.optional("agentId", text()),
            session_key: f.optional("sessionKey", text()),
            source: TurnSource {
                channel: f.optional("turnSourceChannel", text()),
                to: f.optional("turnSourceTo", text()),
                account_id: f.optional("turnSourceAccountId", text()),
                thread_id: f.optional("turnSourceThreadId", text_or_number()),
            },
            timeout_ms: f.optional("timeoutMs", integer_from(1).max(PLUGIN_TIMEOUT_MAX_MS)),
            two_phase: f.optional("twoPhase", boolean()).unwrap_or_default(),
        }
    }
}

/// Params of `exec.approvals.set`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExecApprovalsSetParams {
    /// The new file, checked.
    pub file: Value,
    /// Hash of the file that it was made from.
    pub base_hash: Option<String>,
}

impl Params for ExecApprovalsSetParams {
    fn read(f: &mut Fields) -> Self {
        let file = f.required("file", object::<PolicyFile>()).0;
        Self { file, base_hash: f.optional("baseHash", non_empty()) }
    }
}

/// Params of `exec.approvals.node.get`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecApprovalsNodeGetParams {
    /// Which node.
    pub node_id: String,
}

impl Params for ExecApprovalsNodeGetParams {
    fn read(f: &mut Fields) -> Self {
        Self { node_id: f.required("nodeId", non_empty()) }
    }
}

/// Params of `exec.approvals.node.set`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExecApprovalsNodeSetParams {
    /// Which node.
    pub node_id: String,
    /// The new file, checked.
    pub file: Value,
    /// Hash of the file that it was made from.
    pub base_hash: Option<String>,
}

impl Params for ExecApprovalsNodeSetParams {
    fn read(f: &mut Fields) -> Self {
        let node_id = f.required("nodeId", non_empty());
        let file = f.required("file", object::<PolicyFile>()).0;
        Self { node_id, file, base_hash: f.optional("baseHash", non_empty()) }
    }
}

/// The approvals file as clients write it.
#[derive(Debug, Clone, PartialEq, Default)]
struct PolicyFile(Value);

impl Params for PolicyFile {
    fn read(f: &mut Fields) -> Self {
        let mut file = Map::new();
        file.insert("version".into(), json!(f.required("version", constant(1))));
        let socket = f.optional("socket", object::<Socket>()).map(|it| it.0);
        let defaults = f.optional("defaults", object::<Defaults>()).map(|it| it.0);
        let agents = f.optional("agents", dictionary(object::<AgentRules>()));
        let agents =
            agents.map(|all| all.into_iter().map(|(id, rules)| (id, rules.0)).collect::<Value>());
        for (name, value) in [("socket", socket), ("defaults", defaults), ("agents", agents)] {
            if let Some(value) = value {
                file.insert(name.into(), value);
            }
        }
        Self(file.into())
    }
}

/// Texts by name, as far as they are there.
fn texts(f: &mut Fields, names: &[&str]) -> Map<String, Value> {
    let given = names.iter().filter_map(|name| Some((*name, f.optional(name, text())?)));
    given.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Socket(Value);

impl Params for Socket {
    fn read(f: &mut Fields) -> Self {
        Self(texts(f, &["path", "token"]).into())
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Defaults(Value);

fn defaults(f: &mut Fields) -> Map<String, Value> {
    let mut members = texts(f, &["security", "ask", "askFallback"]);
    if let Some(on) = f.optional("autoAllowSkills", boolean()) {
        members.insert("autoAllowSkills".into(), on.into());
    }
    members
}

impl Params for Defaults {
    fn read(f: &mut Fields) -> Self {
        Self(defaults(f).into())
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
struct AgentRules(Value);

impl Params for AgentRules {
    fn read(f: &mut Fields) -> Self {
        let mut members = defaults(f);
        if let Some(entries) = f.optional("allowlist", list(object::<AllowEntry>())) {
            members.insert("allowlist".into(), entries.into_iter().map(|it| it.0).collect());
        }
        Self(members.into())
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
struct AllowEntry(Value);

impl Params for AllowEntry {
    fn read(f: &mut Fields) -> Self {
        let mut members = Map::new();
        if let Some(id) = f.optional("id", non_empty()) {
            members.insert("id".into(), id.into());
        }
        members.insert("pattern".into(), f.required("pattern", text()).into());
        if let Some(source) = f.optional("source", literal(&["allow-always"])) {
            members.insert("source".into(), source.into());
        }
        members.extend(texts(f, &["commandText", "argPattern"]));
        if let Some(at) = f.optional("lastUsedAt", integer_from(0)) {
            members.insert("lastUsedAt".into(), at.into());
        }
        members.extend(texts(f, &["lastUsedCommand", "lastResolvedPath"]));
        Self(members.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::decode::{Unknown, decode_value};

    fn read<P: Params>(params: Value) -> P {
        decode_value(params, Unknown::Refuse).unwrap_or_else(|why| panic!("{why:?}"))
    }

    #[test]
    fn whoever_asks_waits_or_decides_names_a_question_without_blanks_around() {
        let asked =
            |id: &str| read::<ExecApprovalRequestParams>(json!({"id": id, "command": "ls"})).id;
        assert_eq!((asked(" a b ").as_deref(), asked(" ")), (Some("a b"), None));
        let id = json!({"id": "a b\n"});
        assert_eq!(read::<WaitDecisionParams>(id.clone()).id.as_deref(), Some("a b"));
        assert_eq!(read::<ExecApprovalGetParams>(id).id, "a b");
        let decided = json!({"id": " a b", "decision": "deny"});
        assert_eq!(read::<ApprovalResolveParams>(decided).id, "a b");
    }
}
