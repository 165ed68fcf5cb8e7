//! Which nodes are connected, and what each may be asked for.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::heard::Heard;
use super::invoke::Waiting;
use super::{Nodes, policy};
use crate::bus::{Audience, EventKind};
use crate::config::{NodesSettings, Settings};
use crate::sessions::SessionKey;
use crate::store::{NodeFacts, NodeGround, NodePairRequest, StoreError};
use crate::support::Live;

/// Names that a node may declare, of commands or of what it is good for: far
/// more than any has.
const MAX_DECLARED: usize = 256;

#[derive(Default)]
pub(super) struct State {
    /// By id: the connections of a node, the newest last. That one is asked.
    pub nodes: HashMap<String, Vec<Arc<LiveNode>>>,
    /// The invocations under way, by id.
    pub waiting: HashMap<String, Waiting>,
    /// How often a grant has changed, also of nodes that are not here.
    grants: u64,
    /// What people said last, for nodes that report it twice.
    pub heard: Heard,
}

/// A node that connects.
#[derive(Debug, Clone)]
pub struct Joining {
    /// Id of its device.
    pub node_id: String,
    /// Its connection.
    pub conn_id: Arc<str>,
    /// Whether that device is paired, which it need not be where nobody is asked for anything.
    pub is_paired: bool,
    /// What it says of itself, with all the commands that it declares.
    pub facts: NodeFacts,
    /// What its user lets it do.
    pub permissions: Option<Vec<(String, bool)>>,
    /// Where it looks for programs.
    pub path_env: Option<String>,
}

/// A node that is connected.
#[derive(Clone)]
pub struct LiveNode {
    /// Who it is, with all the commands that it declares.
    pub joined: Joining,
    /// When it connected, in milliseconds since the epoch.
    pub connected_at: u64,
    /// What it was granted of them.
    granted: Vec<String>,
    /// The name that a person gave it, once somebody has looked; nodes report often.
    given_name: Arc<OnceLock<Option<String>>>,
    /// Which of them count may change while it is there.
    settings: Live<Settings>,
    /// The settings by which its approval was last asked for.
    rules: NodesSettings,
}

impl fmt::Debug for LiveNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveNode").field("joined", &self.joined).finish_non_exhaustive()
    }
}

/// Whether its platform has a command, or the config allows it, and does not deny it.
pub(super) fn is_listed(settings: &NodesSettings, facts: &NodeFacts, command: &str) -> bool {
    let (platform, family) = (facts.platform.as_deref(), facts.device_family.as_deref());
    policy::allows(settings, platform, family, command)
}

/// What a node says of itself, with the commands that count under these settings.
fn listed(settings: &NodesSettings, facts: &NodeFacts) -> NodeFacts {
    let mut counting = facts.clone();
    if let Some(commands) = &mut counting.commands {
        commands.retain(|command| is_listed(settings, facts, command));
    }
    counting
}

/// Bounds what a node says of itself.
fn bound(facts: &mut NodeFacts) {
    if let Some(commands) = &mut facts.commands {
        let mut kept: Vec<String> = Vec::new();
        for command in commands.drain(..).take(MAX_DECLARED) {
            let command = command.trim().to_owned();
            if !kept.contains(&command) {
                kept.push(command);
            }
        }
        *commands = kept;
    }
    if let Some(caps) = &mut facts.caps {
        caps.truncate(MAX_DECLARED);
    }
}

impl LiveNode {
    /// The commands that it may be asked for.
    pub fn commands(&self) -> Vec<&str> {
        let (settings, facts) = (self.settings.now(), &self.joined.facts);
        let declared = facts.commands().iter().map(String::as_str);
        let may =
            |command: &&str| self.is_granted(command) && is_listed(&settings.nodes, facts, command);
        declared.filter(may).collect()
    }

    /// Whether it declares this command and was granted it.
    pub fn has(&self, command: &str) -> bool {
        self.joined.facts.commands().iter().any(|own| own == command) && self.is_granted(command)
    }

    fn is_granted(&self, command: &str) -> bool {
        self.granted.iter().any(|granted| granted == command)
    }

    /// Its system, in its own words.
    pub fn platform(&self) -> &str {
        self.joined.facts.platform.as_deref().unwrap_or("unknown")
    }

    /// Whether it has iOS, or what an iPad calls it.
    pub fn is_ios(&self) -> bool {
        let facts = &self.joined.facts;
        policy::is_ios(facts.platform.as_deref(), facts.device_family.as_deref())
    }
}

impl Nodes {
    /// Takes a node in: files a request for its approval where that is needed
    /// and tells those who can give it. What cannot be recorded is granted no more
    /// than before.
    pub async fn join(&self, mut node: Joining) {
        let is_imported = self.imported().await;
        let now_ms = self.parts.clock.now_ms();
        bound(&mut node.facts);
        let mut grants = self.state.lock().grants;
        let settings = self.parts.settings.clone();
        let rules = settings.now().nodes.clone();
        let granted = self.admit(&node, &rules, is_imported, now_ms).await;
        let mut live = LiveNode {
            joined: node,
            connected_at: now_ms,
            granted,
            given_name: Arc::default(),
            settings,
            rules,
        };
        while let Some((newer, back)) = self.take_in(live, grants) {
            (grants, live) = (newer, back);
            live.granted = self.granted_now(&live.joined.node_id).await;
        }
    }

    /// Records a node that connects; answers what it is granted. One that nobody knows is
    /// granted what it declares only once those of OpenClaw are known.
    async fn admit(
        &self,
        node: &Joining,
        rules: &NodesSettings,
        is_imported: bool,
        now_ms: u64,
    ) -> Vec<String> {
        let id = self.parts.ids.uuid();
        let (of, live) = (node.node_id.clone(), self.live_ids_with(&node.node_id));
        let facts = listed(rules, &node.facts);
        let ground = NodeGround { may_begin: is_imported, is_paired: node.is_paired };
        let admitted = self.parts.store.admit_node(of, facts, ground, id, live, now_ms).await;
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

    /// Files requests for the approval of commands of connected nodes that count
    /// since the settings have changed. What cannot be filed now is with the next call.
    pub async fn follow_settings(&self) {
        let settings = self.parts.settings.now();
        let rules = &settings.nodes;
        for node in self.all_live() {
            if node.rules == *rules {
                continue;
            }
            let facts = &node.joined.facts;
            let is_new = |command: &String| {
                is_listed(rules, facts, command)
                    && !is_listed(&node.rules, facts, command)
                    && !node.is_granted(command)
            };
            let is_more = facts.commands().iter().any(is_new);
            if !is_more || self.ask_for(&node, rules).await {
                self.note_rules(&node, rules);
            }
        }
    }

    /// Files a request for all the commands of a node that count; answers whether
    /// there is one now.
    async fn ask_for(&self, node: &LiveNode, rules: &NodesSettings) -> bool {
        let node_id = &node.joined.node_id;
        let facts = listed(rules, &node.joined.facts);
        let shown = NodeFacts { client_id: None, client_mode: None, ..facts };
        match self.request_pairing(node_id.clone(), shown, false).await {
            Ok(filed) => filed.is_some(),
            Err(error) => {
                tracing::error!(node = %node_id, %error, "what the config allows a node is not asked for yet");
                false
            }
        }
    }

    fn note_rules(&self, node: &LiveNode, rules: &NodesSettings) {
        let (node_id, conn_id) = (&node.joined.node_id, &node.joined.conn_id);
        let mut state = self.state.lock();
        let all = state.nodes.get_mut(node_id).into_iter().flatten();
        for known in all.filter(|known| known.joined.conn_id == *conn_id) {
            Arc::make_mut(known).rules.clone_from(rules);
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
        let all = state.nodes.entry(live.joined.node_id.clone()).or_default();
        let place = all.partition_point(|known| known.connected_at <= live.connected_at);
        all.insert(place, Arc::new(live));
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
        state.nodes.retain(|_, all| {
            all.retain(|node| &*node.joined.conn_id != conn_id);
            !all.is_empty()
        });
        let gone: Vec<_> = state.waiting.extract_if(|_, it| &*it.conn_id == conn_id).collect();
        drop(state);
        for (_, waiting) in gone {
            waiting.gone();
        }
    }

    /// Notes what was said to a session; `false` when it was heard already.
    pub fn hear(&self, session: &SessionKey, print: &str) -> bool {
        let now_ms = self.parts.clock.now_ms();
        self.state.lock().heard.note(session.as_str(), print, now_ms)
    }

    /// What was said to a session was not taken, so that it may be said again.
    pub fn hear_again(&self, session: &SessionKey, print: &str) {
        self.state.lock().heard.forget(session.as_str(), print);
    }

    /// The node with this id, if it is connected.
    pub fn live(&self, node_id: &str) -> Option<Arc<LiveNode>> {
        self.state.lock().nodes.get(node_id)?.last().cloned()
    }

    /// How many are connected.
    pub fn connected(&self) -> usize {
        self.state.lock().nodes.len()
    }

    pub(super) fn all_live(&self) -> Vec<Arc<LiveNode>> {
        self.state.lock().nodes.values().filter_map(|all| all.last().cloned()).collect()
    }

    /// Whether a node is connected with which somebody can talk.
    pub fn has_talking(&self) -> bool {
        let talks = |command: &&str| command.starts_with("talk.");
        self.all_live().iter().any(|node| node.commands().iter().any(talks))
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
        for node in state.nodes.get_mut(node_id).into_iter().flatten() {
            let node = Arc::make_mut(node);
            node.granted = granted.to_vec();
            // An approval may be the first, and its end takes the name as well.
            node.given_name = Arc::default();
        }
    }

    /// The name that a person gave a node; none where that cannot be read, since what the node
    /// reports is heard all the same.
    pub async fn given_name(&self, node_id: &str) -> Option<String> {
        // Whoever changes it leaves this place to those who have looked before.
        let place = self.live(node_id).map(|node| Arc::clone(&node.given_name)).unwrap_or_default();
        if let Some(name) = place.get() {
            return name.clone();
        }
        match self.parts.store.node_pair(node_id).await {
            Ok(pair) => place.get_or_init(|| pair.and_then(|(pair, _)| pair.label)).clone(),
            Err(error) => {
                tracing::warn!(node = %node_id, %error, "the name of a node cannot be read");
                None
            }
        }
    }

    /// The name of a node is another one.
    pub(super) fn renamed(&self, node_id: &str) {
        let mut state = self.state.lock();
        for node in state.nodes.get_mut(node_id).into_iter().flatten() {
            Arc::make_mut(node).given_name = Arc::default();
        }
    }

    pub(super) fn tell_requested(&self, request: &NodePairRequest) {
        self.parts.bus.publish(EventKind::NodePairRequested, &Audience::Everyone, request);
    }
}
