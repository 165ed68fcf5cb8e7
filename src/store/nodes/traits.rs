//! The part of [`Store`](crate::store::Store) that is about nodes.

use super::{
    KnownNode, NodeAction, NodeAdmitted, NodeApproval, NodeDrain, NodeFacts, NodePair,
    NodePairRequest, NodePairings, NodeWork, pairing, work,
};
use crate::store::sqlite::SqliteStore;
use crate::store::traits::StoreFuture;

/// Looks at a request inside the transaction that approves it; a text refuses.
pub type NodeCheck = Box<dyn FnOnce(&NodePairRequest) -> Result<(), String> + Send>;

/// Nodes, their pairing and what waits for them.
pub trait NodeStore: Send + Sync + 'static {
    /// Notes that a node has connected and what it declares; answers what it
    /// may use. A request for an approval is filed under `request_id` when it
    /// needs one; `live` are the nodes whose requests do not expire.
    fn admit_node(
        &self,
        node_id: String,
        facts: NodeFacts,
        request_id: String,
        live: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'_, NodeAdmitted>;

    /// What is known of nodes that have connected at some time.
    fn known_nodes(&self) -> StoreFuture<'_, Vec<KnownNode>>;

    /// Those who wait and those who were approved, the newest first.
    fn node_pairings(&self, live: Vec<String>, now_ms: u64) -> StoreFuture<'_, NodePairings>;

    /// Files a request, or renews the one that the node has; answers it and
    /// whether it is new. `None` when too many wait.
    fn request_node_pairing(
        &self,
        request: NodePairRequest,
        live: Vec<String>,
    ) -> StoreFuture<'_, Option<(NodePairRequest, bool)>>;

    /// Takes approved nodes over from another program, with the hashes of their
    /// tokens, those that are known excepted; answers how many. It happens once
    /// for this mark.
    fn import_nodes(
        &self,
        rows: Vec<(NodePair, String)>,
        mark: &'static str,
    ) -> StoreFuture<'_, usize>;

    /// Approves a request unless `check` refuses.
    fn approve_node<'a>(
        &'a self,
        request_id: &'a str,
        token_hash: String,
        check: NodeCheck,
        live: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, NodeApproval>;

    /// Takes a request away; answers whose it was.
    fn reject_node<'a>(
        &'a self,
        request_id: &'a str,
        live: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, Option<String>>;

    /// Takes an approval back; answers whether there was one.
    fn remove_node<'a>(&'a self, node_id: &'a str) -> StoreFuture<'a, bool>;

    /// Forgets a node whose device is gone, with all that waits for it.
    fn forget_node<'a>(&'a self, node_id: &'a str) -> StoreFuture<'a, ()>;

    /// Names an approved node; answers whether there is one.
    fn rename_node<'a>(&'a self, node_id: &'a str, name: &'a str) -> StoreFuture<'a, bool>;

    /// An approved node, with the hash of its token.
    fn node_pair<'a>(&'a self, node_id: &'a str) -> StoreFuture<'a, Option<(NodePair, String)>>;

    /// Notes that a node is there; answers whether it is known.
    fn node_seen<'a>(
        &'a self,
        node_id: &'a str,
        reason: &'a str,
        now_ms: u64,
    ) -> StoreFuture<'a, bool>;

    /// Queues work for a node; an item of the same type that waits stands for
    /// it. Answers the revision and the item; `None` when too much waits.
    fn enqueue_node_work<'a>(
        &'a self,
        node_id: &'a str,
        work: NodeWork,
        now_ms: u64,
    ) -> StoreFuture<'a, Option<(u64, NodeWork)>>;

    /// The first `limit` items of work that wait for a node.
    fn drain_node_work<'a>(
        &'a self,
        node_id: &'a str,
        limit: usize,
        now_ms: u64,
    ) -> StoreFuture<'a, NodeDrain>;

    /// Keeps a command for later; the same with the same key that waits stands
    /// for it. Answers the one that waits; `None` when too many do.
    fn queue_node_action<'a>(
        &'a self,
        node_id: &'a str,
        action: NodeAction,
    ) -> StoreFuture<'a, Option<NodeAction>>;

    /// The commands that wait for a node, the oldest first.
    fn node_actions<'a>(
        &'a self,
        node_id: &'a str,
        now_ms: u64,
    ) -> StoreFuture<'a, Vec<NodeAction>>;

    /// Forgets what a node has dealt with; answers how many commands still wait.
    fn ack_node<'a>(
        &'a self,
        node_id: &'a str,
        ids: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, usize>;
}

impl NodeStore for SqliteStore {
    fn admit_node(
        &self,
        node_id: String,
        facts: NodeFacts,
        request_id: String,
        live: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'_, NodeAdmitted> {
        let admit = move |c: &_| pairing::admit(c, &node_id, &facts, request_id, &live, now_ms);
        Box::pin(self.database.write("admit a node", admit))
    }

    fn known_nodes(&self) -> StoreFuture<'_, Vec<KnownNode>> {
        Box::pin(self.database.read("list nodes", pairing::known))
    }

    fn node_pairings(&self, live: Vec<String>, now_ms: u64) -> StoreFuture<'_, NodePairings> {
        let list = move |c: &_| pairing::list(c, &live, now_ms);
        Box::pin(self.database.read("list node pairings", list))
    }

    fn request_node_pairing(
        &self,
        request: NodePairRequest,
        live: Vec<String>,
    ) -> StoreFuture<'_, Option<(NodePairRequest, bool)>> {
        let file = move |c: &_| pairing::file(c, request, &live);
        Box::pin(self.database.write("file a node pairing", file))
    }

    fn import_nodes(
        &self,
        rows: Vec<(NodePair, String)>,
        mark: &'static str,
    ) -> StoreFuture<'_, usize> {
        let import = move |c: &_| pairing::import(c, &rows, mark);
        Box::pin(self.database.write("take nodes over", import))
    }

    fn approve_node<'a>(
        &'a self,
        request_id: &'a str,
        token_hash: String,
        check: NodeCheck,
        live: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, NodeApproval> {
        let id = request_id.to_owned();
        let approve = move |c: &_| pairing::approve(c, &id, &token_hash, check, &live, now_ms);
        Box::pin(self.database.write("approve a node", approve))
    }

    fn reject_node<'a>(
        &'a self,
        request_id: &'a str,
        live: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, Option<String>> {
        let id = request_id.to_owned();
        let reject = move |c: &_| pairing::reject(c, &id, &live, now_ms);
        Box::pin(self.database.write("reject a node", reject))
    }

    fn remove_node<'a>(&'a self, node_id: &'a str) -> StoreFuture<'a, bool> {
        let id = node_id.to_owned();
        Box::pin(self.database.write("remove a node", move |c| pairing::remove(c, &id)))
    }

    fn forget_node<'a>(&'a self, node_id: &'a str) -> StoreFuture<'a, ()> {
        let id = node_id.to_owned();
        Box::pin(self.database.write("forget a node", move |c| pairing::forget(c, &id)))
    }

    fn rename_node<'a>(&'a self, node_id: &'a str, name: &'a str) -> StoreFuture<'a, bool> {
        let (id, name) = (node_id.to_owned(), name.to_owned());
        Box::pin(self.database.write("rename a node", move |c| pairing::rename(c, &id, &name)))
    }

    fn node_pair<'a>(&'a self, node_id: &'a str) -> StoreFuture<'a, Option<(NodePair, String)>> {
        let id = node_id.to_owned();
        Box::pin(self.database.read("look up a node", move |c| pairing::pair(c, &id)))
    }

    fn node_seen<'a>(
        &'a self,
        node_id: &'a str,
        reason: &'a str,
        now_ms: u64,
    ) -> StoreFuture<'a, bool> {
        let (id, reason) = (node_id.to_owned(), reason.to_owned());
        let seen = move |c: &_| pairing::seen(c, &id, &reason, now_ms);
        Box::pin(self.database.write("note that a node is there", seen))
    }

    fn enqueue_node_work<'a>(
        &'a self,
        node_id: &'a str,
        item: NodeWork,
        now_ms: u64,
    ) -> StoreFuture<'a, Option<(u64, NodeWork)>> {
        let id = node_id.to_owned();
        let enqueue = move |c: &_| work::enqueue(c, &id, item, now_ms);
        Box::pin(self.database.write("queue work for a node", enqueue))
    }

    fn drain_node_work<'a>(
        &'a self,
        node_id: &'a str,
        limit: usize,
        now_ms: u64,
    ) -> StoreFuture<'a, NodeDrain> {
        let id = node_id.to_owned();
        let drain = move |c: &_| work::drain(c, &id, limit, now_ms);
        Box::pin(self.database.read("list work for a node", drain))
    }

    fn queue_node_action<'a>(
        &'a self,
        node_id: &'a str,
        action: NodeAction,
    ) -> StoreFuture<'a, Option<NodeAction>> {
        let id = node_id.to_owned();
        let queue = move |c: &_| work::queue_action(c, &id, action);
        Box::pin(self.database.write("queue a command for a node", queue))
    }

    fn node_actions<'a>(
        &'a self,
        node_id: &'a str,
        now_ms: u64,
    ) -> StoreFuture<'a, Vec<NodeAction>> {
        let id = node_id.to_owned();
        let list = move |c: &_| work::actions(c, &id, now_ms);
        Box::pin(self.database.read("list commands for a node", list))
    }

    fn ack_node<'a>(
        &'a self,
        node_id: &'a str,
        ids: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, usize> {
        let id = node_id.to_owned();
        let ack = move |c: &_| work::ack(c, &id, &ids, now_ms);
        Box::pin(self.database.write("forget what a node has done", ack))
    }
}
