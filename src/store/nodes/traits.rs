//! The part of [`Store`](crate::store::Store) that is about nodes.

use super::{
    ActionHolder, KnownNode, NodeAction, NodeAdmitted, NodeApproval, NodeDrain, NodeFacts,
    NodeGround, NodePair, NodePairRequest, NodePairings, NodeWork, pairing, work,
};
use crate::store::answers::KeptAnswer;
use crate::store::sqlite::SqliteStore;
use crate::store::traits::StoreFuture;

/// Looks at a request inside the transaction that approves it; a text refuses.
pub type NodeCheck = Box<dyn FnOnce(&NodePairRequest) -> Result<(), String> + Send>;

/// What is answered to who asks again for a command that a node has done.
pub type NodeDone = fn(&str, &NodeAction) -> KeptAnswer;

/// Nodes, their pairing and what waits for them.
pub trait NodeStore: Send + Sync + 'static {
    /// Notes that a node has connected and what it declares; answers what it
    /// may use: where nobody knows it, all of that if it `may_begin`, and nothing
    /// otherwise. Nothing is noted where it `is_paired` and its device is so no more. A
    /// request for an approval is filed under `request_id` when it needs one; `live` are the
    /// nodes whose requests do not expire.
    fn admit_node(
        &self,
        node_id: String,
        facts: NodeFacts,
        ground: NodeGround,
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
    /// tokens, those that are known excepted; answers how many. Those that were left
    /// out may use nothing until they are approved. It happens once for this mark.
    fn import_nodes(
        &self,
        rows: Vec<(NodePair, String)>,
        left_out: Vec<String>,
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

    /// Takes a request away; answers whose it was, and whether that node is
    /// approved all the same.
    fn reject_node<'a>(
        &'a self,
        request_id: &'a str,
        live: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, Option<(String, bool)>>;

    /// Takes from a node what it was granted and asks for; answers the ids of its requests,
    /// `None` when it is not known.
    fn remove_node<'a>(&'a self, node_id: &'a str) -> StoreFuture<'a, Option<Vec<String>>>;

    /// Names an approved node, whatever it calls itself; answers whether there is
    /// one.
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
    /// for it, and is nobody's again. Answers the one that waits; `None` when too
    /// many do.
    fn queue_node_action<'a>(
        &'a self,
        node_id: &'a str,
        action: NodeAction,
    ) -> StoreFuture<'a, Option<NodeAction>>;

    /// Notes who has a command in hand that waits, by its key; answers it as it
    /// was. What its node has fetched stays with that.
    fn hold_node_action<'a>(
        &'a self,
        node_id: &'a str,
        asked: (&'a str, &'a str),
        holder: ActionHolder,
        now_ms: u64,
    ) -> StoreFuture<'a, Option<NodeAction>>;

    /// Takes what waits out of the hand of callers, for the start: those of the last
    /// process are gone.
    fn let_go_of_node_actions(&self) -> StoreFuture<'_, ()>;

    /// Forgets a command that was done in another way, by the key that it waits
    /// under.
    fn drop_node_action<'a>(
        &'a self,
        node_id: &'a str,
        command: &'a str,
        key: &'a str,
    ) -> StoreFuture<'a, ()>;

    /// The commands that wait for a node, the oldest first.
    fn node_actions<'a>(
        &'a self,
        node_id: &'a str,
        now_ms: u64,
    ) -> StoreFuture<'a, Vec<NodeAction>>;

    /// Gives a node those of these commands that nobody else has in hand.
    fn pull_node_actions<'a>(
        &'a self,
        node_id: &'a str,
        ids: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, Vec<NodeAction>>;

    /// Forgets what a node has dealt with, and keeps what `done` says of its
    /// commands; answers how many of them still wait.
    fn ack_node<'a>(
        &'a self,
        node_id: &'a str,
        ids: Vec<String>,
        done: NodeDone,
        now_ms: u64,
    ) -> StoreFuture<'a, usize>;
}

impl NodeStore for SqliteStore {
    fn admit_node(
        &self,
        node_id: String,
        facts: NodeFacts,
        ground: NodeGround,
        request_id: String,
        live: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'_, NodeAdmitted> {
        let admit =
            move |c: &_| pairing::admit(c, &node_id, &facts, ground, request_id, &live, now_ms);
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
        left_out: Vec<String>,
        mark: &'static str,
    ) -> StoreFuture<'_, usize> {
        let import = move |c: &_| pairing::import(c, &rows, &left_out, mark);
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
        self.write_of("approve a node", request_id, move |c, id| {
            pairing::approve(c, id, &token_hash, check, &live, now_ms)
        })
    }

    fn reject_node<'a>(
        &'a self,
        request_id: &'a str,
        live: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, Option<(String, bool)>> {
        self.write_of("reject a node", request_id, move |c, id| {
            pairing::reject(c, id, &live, now_ms)
        })
    }

    fn remove_node<'a>(&'a self, node_id: &'a str) -> StoreFuture<'a, Option<Vec<String>>> {
        self.write_of("remove a node", node_id, pairing::remove)
    }

    fn rename_node<'a>(&'a self, node_id: &'a str, name: &'a str) -> StoreFuture<'a, bool> {
        let name = name.to_owned();
        self.write_of("rename a node", node_id, move |c, id| pairing::rename(c, id, &name))
    }

    fn node_pair<'a>(&'a self, node_id: &'a str) -> StoreFuture<'a, Option<(NodePair, String)>> {
        self.read_of("look up a node", node_id, pairing::pair)
    }

    fn node_seen<'a>(
        &'a self,
        node_id: &'a str,
        reason: &'a str,
        now_ms: u64,
    ) -> StoreFuture<'a, bool> {
        let reason = reason.to_owned();
        let seen = move |c: &_, id: &_| pairing::seen(c, id, &reason, now_ms);
        self.write_of("note that a node is there", node_id, seen)
    }

    fn enqueue_node_work<'a>(
        &'a self,
        node_id: &'a str,
        item: NodeWork,
        now_ms: u64,
    ) -> StoreFuture<'a, Option<(u64, NodeWork)>> {
        self.write_of("queue work for a node", node_id, move |c, id| {
            work::enqueue(c, id, item, now_ms)
        })
    }

    fn drain_node_work<'a>(
        &'a self,
        node_id: &'a str,
        limit: usize,
        now_ms: u64,
    ) -> StoreFuture<'a, NodeDrain> {
        self.read_of("list work for a node", node_id, move |c, id| {
            work::drain(c, id, limit, now_ms)
        })
    }

    fn queue_node_action<'a>(
        &'a self,
        node_id: &'a str,
        action: NodeAction,
    ) -> StoreFuture<'a, Option<NodeAction>> {
        self.write_of("queue a command for a node", node_id, move |c, id| {
            work::queue_action(c, id, action)
        })
    }

    fn hold_node_action<'a>(
        &'a self,
        node_id: &'a str,
        asked: (&'a str, &'a str),
        holder: ActionHolder,
        now_ms: u64,
    ) -> StoreFuture<'a, Option<NodeAction>> {
        let (command, key) = (asked.0.to_owned(), asked.1.to_owned());
        self.write_of("hold a command for a node", node_id, move |c, id| {
            work::hold_action(c, id, (&command, &key), holder, now_ms)
        })
    }

    fn let_go_of_node_actions(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.database.write("let go of commands for nodes", work::let_go))
    }

    fn drop_node_action<'a>(
        &'a self,
        node_id: &'a str,
        command: &'a str,
        key: &'a str,
    ) -> StoreFuture<'a, ()> {
        let (command, key) = (command.to_owned(), key.to_owned());
        self.write_of("forget a command that was done", node_id, move |c, id| {
            work::drop_action(c, id, &command, &key)
        })
    }

    fn node_actions<'a>(
        &'a self,
        node_id: &'a str,
        now_ms: u64,
    ) -> StoreFuture<'a, Vec<NodeAction>> {
        self.read_of("list commands for a node", node_id, move |c, id| work::actions(c, id, now_ms))
    }

    fn pull_node_actions<'a>(
        &'a self,
        node_id: &'a str,
        ids: Vec<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, Vec<NodeAction>> {
        self.write_of("give a node its commands", node_id, move |c, id| {
            work::pull(c, id, &ids, now_ms)
        })
    }

    fn ack_node<'a>(
        &'a self,
        node_id: &'a str,
        ids: Vec<String>,
        done: NodeDone,
        now_ms: u64,
    ) -> StoreFuture<'a, usize> {
        self.write_of("forget what a node has done", node_id, move |c, id| {
            work::ack(c, id, &ids, done, now_ms)
        })
    }
}
