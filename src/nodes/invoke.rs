//! Asking a node for something, and its answer.
//!
//! Promises: each invocation ends once, by the node's answer, its time or the end
//! of the connection that was asked; whoever gives up leaves nothing behind.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;

use super::live::is_listed;
use super::{ExecReport, LiveNode, Nodes, policy};
use crate::bus::{Audience, EventKind};
use crate::sessions::SessionKey;
use crate::support::{json, millis};

/// How long a node has when nobody says so, as in the original.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);
/// The longest that a node can be given: its timers may be those of JavaScript, which count to
/// 2^31 - 1 milliseconds, and one for longer is over at once.
pub const MAX_LIMIT: Duration = Duration::from_millis((1 << 31) - 1);
/// The code of an app that can do a command only when it is in the foreground.
pub const IN_BACKGROUND: &str = "NODE_BACKGROUND_UNAVAILABLE";
/// Invocations of one node at a time: beyond it callers are told to wait.
const MAX_WAITING: usize = 64;

/// What is asked of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeCall {
    /// The command.
    pub command: String,
    /// Its params.
    pub params: Option<Value>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The same key is the same invocation; the node is told of it.
    pub idempotency_key: Option<String>,
    /// What is run in the name of a session, for the node's reports on it.
    pub session: Option<(SessionKey, String)>,
}

/// What a node answered.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeReply {
    /// It did it.
    Done(NodeAnswer),
    /// It did not: a code and a text.
    Refused(String, String),
}

/// A good answer of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeAnswer {
    /// The answer.
    pub payload: Value,
    /// The same as the node wrote it, when it wrote text.
    pub payload_json: Option<String>,
}

impl NodeAnswer {
    /// From what a node sends: a value, or a value as text. One that sends both means the
    /// text, as in the original: the other may be the `null` of what it does not have.
    pub fn new(payload: Option<Value>, payload_json: Option<String>) -> Self {
        let text = payload_json.as_deref().filter(|text| !text.trim().is_empty());
        let payload = match text {
            Some(text) => {
                serde_json::from_str(text).unwrap_or_else(|_| json!({"payloadJSON": text}))
            }
            None => payload.unwrap_or(Value::Null),
        };
        Self { payload, payload_json }
    }
}

/// Why an invocation has no good answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvokeError {
    /// It is not there.
    #[error("node not connected")]
    NotConnected,
    /// Its platform does not have the command, or the config denies it.
    #[error(
        "node command not allowed: \"{command}\" is not in the allowlist for platform \"{platform}\""
    )]
    NotListed {
        /// The command.
        command: String,
        /// The platform, in the node's words.
        platform: String,
    },
    /// It does not declare the command, or nobody has approved that.
    #[error(
        "node command not allowed: the node (platform: {platform}) does not support \"{command}\""
    )]
    NotDeclared {
        /// The command.
        command: String,
        /// The platform, in the node's words.
        platform: String,
    },
    /// Its browser's profiles are not to be changed from afar.
    #[error("node.invoke cannot mutate persistent browser profiles via browser.proxy")]
    BrowserProfiles,
    /// It has enough to do.
    #[error("too many invocations of this node are under way; wait for some of them")]
    Busy,
    /// It took too long.
    #[error("TIMEOUT: node invoke timed out")]
    TimedOut,
    /// Its connection went away.
    #[error("Error: node disconnected ({0})")]
    Gone(String),
    /// It did not do it.
    #[error("{code}: {message}")]
    Refused {
        /// Why, for programs.
        code: String,
        /// Why, for people.
        message: String,
    },
}

/// An invocation under way.
pub(super) struct Waiting {
    node_id: String,
    pub(super) conn_id: Arc<str>,
    command: String,
    session: Option<(SessionKey, String)>,
    /// Whether the node has reported its end.
    has_ended: bool,
    answer: oneshot::Sender<Option<NodeReply>>,
}

impl Waiting {
    /// Tells that the connection is gone.
    pub fn gone(self) {
        // Who gave up waiting does not mind.
        let _ = self.answer.send(None);
    }
}

/// An invocation that a node was sent.
pub struct NodeInvocation<'a> {
    nodes: &'a Nodes,
    id: String,
    command: String,
    limit: Duration,
    answer: oneshot::Receiver<Option<NodeReply>>,
}

impl Drop for NodeInvocation<'_> {
    fn drop(&mut self) {
        self.nodes.state.lock().waiting.remove(&self.id);
    }
}

impl NodeInvocation<'_> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// When the node refuses, takes too long or goes away.
    pub async fn answer(mut self) -> Result<NodeAnswer, InvokeError> {
        match tokio::time::timeout(self.limit, &mut self.answer).await {
            Err(_) => Err(InvokeError::TimedOut),
            Ok(Ok(Some(NodeReply::Done(answer)))) => Ok(answer),
            Ok(Ok(Some(NodeReply::Refused(code, message)))) => {
                Err(InvokeError::Refused { code, message })
            }
            Ok(Ok(None) | Err(_)) => Err(InvokeError::Gone(self.command.clone())),
        }
    }
}

impl Nodes {
    /// Asks a node for one of its commands.
    ///
    /// # Errors
    /// When it may not be asked, and those of [`NodeInvocation::answer`].
    pub async fn invoke(&self, node_id: &str, call: NodeCall) -> Result<NodeAnswer, InvokeError> {
        let node = self.live(node_id).ok_or(InvokeError::NotConnected)?;
        self.check(&node, &call.command)?;
        if policy::changes_browser_profiles(&call.command, call.params.as_ref()) {
            return Err(InvokeError::BrowserProfiles);
        }
        self.send(node_id, call)?.answer().await
    }

    /// Whether a node may be asked for a command.
    ///
    /// # Errors
    /// When not.
    pub fn check(&self, node: &LiveNode, command: &str) -> Result<(), InvokeError> {
        let (command_, platform_) = (command.to_owned(), node.platform().to_owned());
        if !is_listed(&self.parts.settings.now().nodes, &node.joined.facts, command) {
            return Err(InvokeError::NotListed { command: command_, platform: platform_ });
        }
        if !node.has(command) {
            return Err(InvokeError::NotDeclared { command: command_, platform: platform_ });
        }
        Ok(())
    }

    /// Sends a node a command that was checked, or one that is not for
    /// everybody to ask for.
    ///
    /// # Errors
    /// When it is not there or has too much to do.
    pub fn send(&self, node_id: &str, call: NodeCall) -> Result<NodeInvocation<'_>, InvokeError> {
        let id = self.parts.ids.uuid();
        let (sender, answer) = oneshot::channel();
        let mut state = self.state.lock();
        let node = state.nodes.get(node_id).and_then(|all| all.last());
        let node = node.ok_or(InvokeError::NotConnected)?;
        let conn_id = Arc::clone(&node.joined.conn_id);
        if state.waiting.values().filter(|it| it.node_id == node_id).count() >= MAX_WAITING {
            return Err(InvokeError::Busy);
        }
        let waiting = Waiting {
            node_id: node_id.to_owned(),
            conn_id: Arc::clone(&conn_id),
            command: call.command.clone(),
            session: call.session,
            has_ended: false,
            answer: sender,
        };
        state.waiting.insert(id.clone(), waiting);
        drop(state);
        let mut payload = json!({"id": id, "nodeId": node_id, "command": call.command,
            "paramsJSON": call.params.as_ref().map(Value::to_string)});
        let limit = call.timeout_ms.map(|limit| Duration::from_millis(limit).min(MAX_LIMIT));
        if let Some(limit) = limit {
            // Who asks waits no longer, whatever it said.
            payload["timeoutMs"] = json!(millis(limit));
        }
        if let Some(key) = call.idempotency_key {
            payload["idempotencyKey"] = json!(key);
        }
        let to = Audience::Connection(conn_id);
        self.parts.bus.publish(EventKind::NodeInvokeRequest, &to, &payload);
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        Ok(NodeInvocation { nodes: self, id, command: call.command, limit, answer })
    }

    /// Takes the answer of a node; `false` when nobody waits for it, or not for
    /// that node's.
    pub fn answered(&self, node_id: &str, id: &str, reply: NodeReply) -> bool {
        let mut state = self.state.lock();
        if state.waiting.get(id).is_none_or(|waiting| waiting.node_id != node_id) {
            return false;
        }
        let waiting = state.waiting.remove(id);
        drop(state);
        waiting.is_some_and(|waiting| waiting.answer.send(Some(reply)).is_ok())
    }

    /// The session in whose name a node runs now what it reports on, and whether this is its
    /// first report of the end of that. One on anything else is worth nothing.
    pub fn session_of_run(&self, node_id: &str, report: &ExecReport) -> Option<(SessionKey, bool)> {
        let mut state = self.state.lock();
        let own = state.waiting.values_mut().filter(|it| it.node_id == node_id);
        let mut programs = own.filter(|it| policy::runs_programs(&it.command));
        programs.find_map(|it| {
            let (key, _) = it.session.as_ref().filter(|(_, id)| *id == report.run_id)?;
            let is_first = report.is_end && !mem::replace(&mut it.has_ended, true);
            Some((key.clone(), is_first))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_as_text_counts_whatever_stands_beside_it() {
        let read = |payload: Option<Value>, text: Option<&str>| {
            NodeAnswer::new(payload, text.map(str::to_owned)).payload
        };
        let answer = json!({"result": 2});
        let text = Some("{\"result\":2}");
        for beside in [None, Some(Value::Null), Some(json!({}))] {
            assert_eq!(read(beside, text), answer);
        }
        for none in [None, Some(""), Some(" ")] {
            assert_eq!(read(Some(answer.clone()), none), answer);
        }
        assert_eq!(read(None, None), Value::Null);
        assert_eq!(read(None, Some("no JSON")), json!({"payloadJSON": "no JSON"}));
    }
}
