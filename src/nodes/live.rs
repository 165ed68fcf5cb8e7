//! Which nodes are connected, and what each may be asked for.

use std::collections::HashMap;
use std::sync::Arc;

use super::invoke::Waiting;
use super::{Nodes, policy};
use crate::bus::{Audience, EventKind};
use crate::store::{NodeFacts, NodePairRequest, StoreError};

/// Names that a node may declare, of commands or of what it is good for: far
/// more than any has.
const MAX_DECLARED: usize = 256;

#[derive(Default)]
pub(super) struct State {
    /// By id; of several connections of a node the newest.
    pub nodes: HashMap<String, Arc<LiveNode>>,
    /// The invocations under way, by id.
    pub waiting: HashMap<String, Waiting>,
    /// How often a grant has changed, also of nodes that are not here.
    grants: u64,
}

/// A node that connects.
#[derive(Debug, Clone)]
pub struct Joining {
    /// Id of its device.
    pub node_id: String,
    /// Its connection.
    pub conn_id: Arc<str>,
    /// What it says of itself, with all the commands that it declares.
    pub facts: NodeFacts,
    /// What its user lets it do.
    pub permissions: Option<Vec<(String, bool)>>,
    /// Where it looks for programs.
    pub path_env: Option<String>,
}

/// A node that is connected.
#[derive(Debug, Clone)]
pub struct LiveNode {
    /// Who it is. Its commands are those that its platform has.
    pub joined: Joining,
    /// When it connected, in milliseconds since the epoch.
    pub connected_at: u64,
    /// What it was granted of them.
    granted: Vec<String>,
}

impl LiveNode {
    /// The commands that it may be asked for.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        let declared = self.joined.facts.commands().iter();
        declared.filter(|command| self.granted.contains(command)).map(String::as_str)
    }

    /// Whether it may be asked for this one.
    pub fn has(&self, command: &str) -> bool {
        self.commands().any(|own| own == command)
    }

    /// Its system, in its own words.
    pub fn platform(&self) -> &str {
        self.joined.facts.platform.as_deref().unwrap_or("unknown")
    }
}

impl Nodes {
    /// Takes a node in: files a request for its approval where that is needed
    /// and tells those who can give it. What cannot be recorded is granted no more
    /// than before.
    pub async fn join(&self, mut node: Joining) {
        self.imported().await;
        let now_ms = self.parts.clock.now_ms();
        let settings = &self.parts.settings.now().nodes;
        let facts = &mut node.facts;
        let (platform, family) = (facts.platform.clone(), facts.device_family.clone());
        if let Some(commands) = &mut facts.commands {
            let mut kept: Vec<String> = Vec::new();
            for command in commands.drain(..).take(MAX_DECLARED) {
                let command = command.trim().to_owned();
                let may =
                    policy::allows(settings, platform.as_deref(), family.as_deref(), &command);
                if may && !kept.contains(&command) {
                    kept.push(command);
                }
            }
            *commands = kept;
        }
        if let Some(caps) = &mut facts.caps {
            caps.truncate(MAX_DECLARED);
        }
        let mut grants = self.state.lock().grants;
        let granted = self.admit(&node, now_ms).await;
        let mut live = LiveNode { joined: node, connected_at: now_ms, granted };
        while let Some((newer, back)) = self.take_in(live, grants) {
            (grants, live) = (newer, back);
            live.granted = self.granted_now(&live.joined.node_id).await;
        }
    }

    /// Records a node that connects; answers what it is granted.
    async fn admit(&self, node: &Joining, now_ms: u64) -> Vec<String> {
        let id = self.parts.ids.uuid();
        let (of, live) = (node.node_id.clone(), self.live_ids_with(&node.node_id));
        let admitted = self.parts.store.admit_node(of, node.facts.clone(), id, live, now_ms).await;
        match admitted {
            Ok(admitted) => {
                if let Some((request, true)) = &admitted.request {
                    self.tell_requested(request);
                }
                admitted.granted
            }
            Err(error) => {
                tracing::error!(node = %node.node_id, %error, "node not recorded; it has what it was granted before");
                self.granted_now(&node.node_id).await
            }
        }
    }

    /// Has a node among those that are connected, unless a grant has changed
    /// since there were `grants` of them: that one found nobody to be told. Then
    /// the node comes back, with how many there are now.
    fn take_in(&self, live: LiveNode, grants: u64) -> Option<(u64, LiveNode)> {
        let mut state = self.state.lock();
        if state.grants != grants {
            return Some((state.grants, live));
        }
        // The store may have kept an older connection waiting for longer.
        let known = state.nodes.get(&live.joined.node_id);
        if known.is_none_or(|known| known.connected_at <= live.connected_at) {
            state.nodes.insert(live.joined.node_id.clone(), Arc::new(live));
        }
        None
    }

    /// What a node was granted, as it is recorded; nothing where that cannot be
    /// read.
    async fn granted_now(&self, node_id: &str) -> Vec<String> {
        let store = &self.parts.store;
        let granted = async || -> Result<Vec<String>, StoreError> {
            if let Some((pair, _)) = store.node_pair(node_id).await? {
                return Ok(pair.facts.commands().to_vec());
            }
            let known = store.known_nodes().await?.into_iter().find(|it| it.node_id == node_id);
            Ok(known.map_or_else(Vec::new, |known| known.facts.commands().to_vec()))
        };
        granted().await.unwrap_or_else(|error| {
            tracing::error!(node = %node_id, %error, "a grant cannot be read; the node gets no command");
            Vec::new()
        })
    }

    /// A connection of a node is gone: what it was asked for it does not answer.
    pub fn leave(&self, conn_id: &str) {
        let mut state = self.state.lock();
        state.nodes.retain(|_, node| &*node.joined.conn_id != conn_id);
        let gone: Vec<_> = state.waiting.extract_if(|_, it| &*it.conn_id == conn_id).collect();
        drop(state);
        for (_, waiting) in gone {
            waiting.gone();
        }
    }

    /// The node with this id, if it is connected.
    pub fn live(&self, node_id: &str) -> Option<Arc<LiveNode>> {
        self.state.lock().nodes.get(node_id).cloned()
    }

    /// How many are connected.
    pub fn connected(&self) -> usize {
        self.state.lock().nodes.len()
    }

    pub(super) fn all_live(&self) -> Vec<Arc<LiveNode>> {
        self.state.lock().nodes.values().cloned().collect()
    }

    /// Whether a node is connected with which somebody can talk.
    pub fn has_talking(&self) -> bool {
        let talks = |command: &str| command.starts_with("talk.");
        self.state.lock().nodes.values().any(|node| node.commands().any(talks))
    }

    /// Ids of the nodes that are connected.
    pub(super) fn live_ids(&self) -> Vec<String> {
        self.state.lock().nodes.keys().cloned().collect()
    }

    fn live_ids_with(&self, node_id: &str) -> Vec<String> {
        let mut ids = self.live_ids();
        ids.push(node_id.to_owned());
        ids
    }

    /// What a node that is connected may be asked for from now on.
    pub(super) fn grant(&self, node_id: &str, granted: &[String]) {
        let mut state = self.state.lock();
        state.grants += 1;
        if let Some(node) = state.nodes.get_mut(node_id) {
            Arc::make_mut(node).granted = granted.to_vec();
        }
    }

    pub(super) fn tell_requested(&self, request: &NodePairRequest) {
        self.parts.bus.publish(EventKind::NodePairRequested, &Audience::Everyone, request);
    }
}
