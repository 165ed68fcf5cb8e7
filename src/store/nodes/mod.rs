//! Nodes: what is known of them, who was approved for what, what waits for them.
//!
//! Promises: what a node is granted is decided in the transaction that reads
//! and writes it, so that neither two connects nor a connect and an approval
//! can mix.

mod pairing;
mod traits;
mod work;

use serde::{Deserialize, Serialize};

pub(super) use pairing::forget as forget_node;
pub use pairing::{NodeAdmitted, NodeApproval, NodeGround, NodePairings};
pub use traits::{NodeCheck, NodeDone, NodeStore};
pub use work::{ActionHolder, NodeAction, NodeDrain, NodeWork};

/// What a node says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeFacts {
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Version of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Version of its core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_version: Option<String>,
    /// Version of its surface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ui_version: Option<String>,
    /// Which program it is; only for those that connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// How that program runs; only for those that connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_mode: Option<String>,
    /// Such as `iPhone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_family: Option<String>,
    /// Such as `iPhone17,1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_identifier: Option<String>,
    /// What it is good for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caps: Option<Vec<String>>,
    /// What it can be asked to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_ip: Option<String>,
}

impl NodeFacts {
    /// Takes over what `newer` says; what it does not say stays.
    fn merge(&mut self, newer: Self) {
        fn keep<T>(old: &mut Option<T>, new: Option<T>) {
            if new.is_some() {
                *old = new;
            }
        }
        keep(&mut self.display_name, newer.display_name);
        keep(&mut self.platform, newer.platform);
        keep(&mut self.version, newer.version);
        keep(&mut self.core_version, newer.core_version);
        keep(&mut self.ui_version, newer.ui_version);
        keep(&mut self.device_family, newer.device_family);
        keep(&mut self.model_identifier, newer.model_identifier);
        keep(&mut self.caps, newer.caps);
        keep(&mut self.commands, newer.commands);
        keep(&mut self.remote_ip, newer.remote_ip);
    }

    /// Its commands.
    pub fn commands(&self) -> &[String] {
        self.commands.as_deref().unwrap_or_default()
    }
}

/// A node that waits for an approval, as it is on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePairRequest {
    /// Id of the request.
    pub request_id: String,
    /// Which node.
    pub node_id: String,
    /// What it says of itself.
    #[serde(flatten)]
    pub facts: NodeFacts,
    /// Whether nobody need be told.
    pub silent: bool,
    /// When it was filed or renewed, in milliseconds since the epoch.
    pub ts: u64,
}

/// A node that was approved, as it is on the wire; without its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePair {
    /// Which node.
    pub node_id: String,
    /// What it said of itself then; its commands are those it may use.
    #[serde(flatten)]
    pub facts: NodeFacts,
    /// The name that a person gave it, which is then the one in its facts too.
    #[serde(skip)]
    pub label: Option<String>,
    /// When it was first approved, in milliseconds since the epoch.
    pub created_at_ms: u64,
    /// When it was last approved.
    pub approved_at_ms: u64,
    /// When it last said that it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_at_ms: Option<u64>,
    /// Why it said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_reason: Option<String>,
    /// When it last connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_connected_at_ms: Option<u64>,
}

/// What is known of a node that has connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownNode {
    /// Which node.
    pub node_id: String,
    /// As it last connected, with the commands that it may use.
    pub facts: NodeFacts,
    /// When it was last there, in milliseconds since the epoch.
    pub seen_at: u64,
    /// How that was noticed.
    pub seen_reason: String,
}
