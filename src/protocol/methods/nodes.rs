//! `node.*`.

use serde_json::Value;

use crate::protocol::decode::{
    Fields, Params, any, boolean, integer_from, list, non_empty, object, one_of, text,
};

/// Types of work that can be queued for a node.
const WORK: [&str; 2] = ["status.request", "location.request"];
/// Priorities that work can be queued with.
const PRIORITIES: [&str; 2] = ["normal", "high"];
/// A day: work that is older is no longer wanted.
const EXPIRES_MAX_MS: u64 = 86_400_000;
/// Most items of work that a node gets at a time.
const DRAIN_MAX: u64 = 10;

/// Params of `node.describe` and `node.pair.remove`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeIdParams {
    /// Which node.
    pub node_id: String,
}

impl Params for NodeIdParams {
    fn read(f: &mut Fields) -> Self {
        Self { node_id: f.required("nodeId", non_empty()) }
    }
}

/// Params of `node.rename`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRenameParams {
    /// Which node.
    pub node_id: String,
    /// Its new name.
    pub display_name: String,
}

impl Params for NodeRenameParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            node_id: f.required("nodeId", non_empty()),
            display_name: f.required("displayName", non_empty()),
        }
    }
}

/// Params of `node.pair.approve` and `node.pair.reject`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePairDecisionParams {
    /// Which request.
    pub request_id: String,
}

impl Params for NodePairDecisionParams {
    fn read(f: &mut Fields) -> Self {
        Self { request_id: f.required("requestId", non_empty()) }
    }
}

/// Params of `node.pair.verify`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct NodePairVerifyParams {
    /// Which node.
    pub node_id: String,
    /// What it says is its token.
    pub token: String,
}

impl std::fmt::Debug for NodePairVerifyParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodePairVerifyParams")
            .field("node_id", &self.node_id)
            .finish_non_exhaustive()
    }
}

impl Params for NodePairVerifyParams {
    fn read(f: &mut Fields) -> Self {
        Self { node_id: f.required("nodeId", non_empty()), token: f.required("token", non_empty()) }
    }
}

/// Params of `node.pair.request`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePairRequestParams {
    /// Which node.
    pub node_id: String,
    /// Name for people.
    pub display_name: Option<String>,
    /// Operating system.
    pub platform: Option<String>,
    /// Version of the client.
    pub version: Option<String>,
    /// Version of its core.
    pub core_version: Option<String>,
    /// Version of its surface.
    pub ui_version: Option<String>,
    /// Such as `iPhone`.
    pub device_family: Option<String>,
    /// Such as `iPhone17,1`.
    pub model_identifier: Option<String>,
    /// What it is good for.
    pub caps: Option<Vec<String>>,
    /// What it can be asked to do.
    pub commands: Option<Vec<String>>,
    /// Where it is.
    pub remote_ip: Option<String>,
    /// Whether nobody need be told.
    pub silent: bool,
}

impl Params for NodePairRequestParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            node_id: f.required("nodeId", non_empty()),
            display_name: f.optional("displayName", non_empty()),
            platform: f.optional("platform", non_empty()),
            version: f.optional("version", non_empty()),
            core_version: f.optional("coreVersion", non_empty()),
            ui_version: f.optional("uiVersion", non_empty()),
            device_family: f.optional("deviceFamily", non_empty()),
            model_identifier: f.optional("modelIdentifier", non_empty()),
            caps: f.optional("caps", list(non_empty())),
            commands: f.optional("commands", list(non_empty())),
            remote_ip: f.optional("remoteIp", non_empty()),
            silent: f.optional("silent", boolean()).unwrap_or_default(),
        }
    }
}

/// Params of `node.invoke`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeInvokeParams {
    /// Which node.
    pub node_id: String,
    /// The command.
    pub command: String,
    /// Its params.
    pub params: Option<Value>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The same key is the same invocation.
    pub idempotency_key: String,
}

impl Params for NodeInvokeParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            node_id: f.required("nodeId", non_empty()),
            command: f.required("command", non_empty()),
            params: f.optional("params", any()),
            timeout_ms: f.optional("timeoutMs", integer_from(0)),
            idempotency_key: f.required("idempotencyKey", non_empty()),
        }
    }
}

/// Why a node did not do something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeError {
    /// For programs.
    pub code: Option<String>,
    /// For people.
    pub message: Option<String>,
}

impl Params for NodeError {
    fn read(f: &mut Fields) -> Self {
        Self { code: f.optional("code", non_empty()), message: f.optional("message", non_empty()) }
    }
}

/// Params of `node.invoke.result`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeInvokeResultParams {
    /// Which invocation.
    pub id: String,
    /// Which node answers.
    pub node_id: String,
    /// Whether it did it.
    pub ok: bool,
    /// Its answer.
    pub payload: Option<Value>,
    /// Its answer as JSON text.
    pub payload_json: Option<String>,
    /// Why it did not.
    pub error: Option<NodeError>,
}

impl Params for NodeInvokeResultParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            id: f.required("id", non_empty()),
            node_id: f.required("nodeId", non_empty()),
            ok: f.required("ok", boolean()),
            payload: f.optional("payload", any()),
            // Nodes send `null` for what they do not have.
            payload_json: f.maybe("payloadJSON", text()),
            error: f.maybe("error", object::<NodeError>()),
        }
    }
}

/// Params of `node.event`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeEventParams {
    /// What it reports.
    pub event: String,
    /// The report.
    pub payload: Option<Value>,
    /// The report as JSON text.
    pub payload_json: Option<String>,
}

impl Params for NodeEventParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            event: f.required("event", non_empty()),
            payload: f.optional("payload", any()),
            payload_json: f.maybe("payloadJSON", text()),
        }
    }
}

/// Params of `node.pending.drain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodePendingDrainParams {
    /// Most items that are wanted.
    pub max_items: Option<u64>,
}

impl Params for NodePendingDrainParams {
    fn read(f: &mut Fields) -> Self {
        Self { max_items: f.optional("maxItems", integer_from(1).max(DRAIN_MAX)) }
    }
}

/// Params of `node.pending.enqueue`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePendingEnqueueParams {
    /// Which node.
    pub node_id: String,
    /// `status.request` or `location.request`.
    pub kind: String,
    /// `normal` or `high`.
    pub priority: Option<String>,
    /// When it is no longer wanted, in milliseconds from now.
    pub expires_in_ms: Option<u64>,
}

impl Params for NodePendingEnqueueParams {
    fn read(f: &mut Fields) -> Self {
        let params = Self {
            node_id: f.required("nodeId", non_empty()),
            kind: f.required("type", one_of(&WORK)),
            priority: f.optional("priority", one_of(&PRIORITIES)),
            expires_in_ms: f.optional("expiresInMs", integer_from(1000).max(EXPIRES_MAX_MS)),
        };
        // Nobody can be woken: that takes a push service.
        f.optional("wake", boolean());
        params
    }
}

/// Params of `node.pending.ack`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePendingAckParams {
    /// What the node has dealt with.
    pub ids: Vec<String>,
}

impl Params for NodePendingAckParams {
    fn read(f: &mut Fields) -> Self {
        Self { ids: f.required("ids", list(non_empty()).min(1)) }
    }
}
