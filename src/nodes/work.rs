//! What waits for nodes: requests for their status or location, and commands
//! that a phone could not do while its app was in the background.

use serde_json::Value;

use super::Nodes;
use crate::store::{ActionHolder, NodeAction, NodeDone, NodeDrain, NodeWork, StoreError};

/// Items that a node gets at a time when it does not say, as in the original.
const DEFAULT_ITEMS: usize = 4;
/// The id of the status request that is there even when nobody has queued one.
const BASELINE_ID: &str = "baseline-status";

impl Nodes {
    /// Queues work; answers the revision and the item that waits now. `None`
    /// when too much waits.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn enqueue(
        &self,
        node_id: &str,
        kind: String,
        priority: Option<String>,
        expires_in_ms: Option<u64>,
    ) -> Result<Option<(u64, NodeWork)>, StoreError> {
        let now_ms = self.parts.clock.now_ms();
        let work = NodeWork {
            id: self.parts.ids.uuid(),
            kind,
            priority: priority.unwrap_or_else(|| "normal".into()),
            created_at_ms: now_ms,
            expires_at_ms: expires_in_ms.map(|in_ms| now_ms.saturating_add(in_ms)),
        };
        self.parts.store.enqueue_node_work(node_id, work, now_ms).await
    }

    /// What waits for a node: at most `limit` items, and whether there are more.
    /// A node that nobody asks anything still tells its status.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn drain(
        &self,
        node_id: &str,
        limit: Option<usize>,
    ) -> Result<(NodeDrain, bool), StoreError> {
        let (now_ms, limit) = (self.parts.clock.now_ms(), limit.unwrap_or(DEFAULT_ITEMS));
        let mut drain = self.parts.store.drain_node_work(node_id, limit, now_ms).await?;
        let has_more = drain.total > drain.items.len();
        if !drain.asks_status && drain.items.len() < limit {
            drain.items.push(NodeWork {
                id: BASELINE_ID.into(),
                kind: "status.request".into(),
                priority: "default".into(),
                created_at_ms: now_ms,
                expires_at_ms: None,
            });
        }
        Ok((drain, has_more))
    }

    /// Keeps a command until its node is in the foreground again; answers what
    /// waits under its key, which may have been asked for before. `None` when too
    /// many wait.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn keep_for_later(
        &self,
        node_id: &str,
        command: &str,
        params: Option<&Value>,
        key: &str,
    ) -> Result<Option<NodeAction>, StoreError> {
        let action = NodeAction {
            id: self.parts.ids.uuid(),
            command: command.to_owned(),
            params_json: params.map(Value::to_string),
            idempotency_key: key.to_owned(),
            enqueued_at_ms: self.parts.clock.now_ms(),
            held_by: ActionHolder::Nobody,
        };
        self.parts.store.queue_node_action(node_id, action).await
    }

    /// Notes who has a command in hand that waits under a key; answers it as it was.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn hold(
        &self,
        node_id: &str,
        asked: (&str, &str),
        holder: ActionHolder,
    ) -> Result<Option<NodeAction>, StoreError> {
        let now_ms = self.parts.clock.now_ms();
        self.parts.store.hold_node_action(node_id, asked, holder, now_ms).await
    }

    /// A command was done after all, so that a node need not do it again when it
    /// is back in the foreground.
    pub async fn was_done(&self, node_id: &str, command: &str, key: &str) {
        if let Err(error) = self.parts.store.drop_node_action(node_id, command, key).await {
            tracing::error!(node = %node_id, command, %error, "a command that was done still waits for its node");
        }
    }

    /// Gives a node the commands that wait for it, as far as it may still be asked
    /// for them and nobody else has them in hand.
    ///
    /// # Errors
    /// When they cannot be read, or it cannot be recorded.
    pub async fn pull(&self, node_id: &str) -> Result<Vec<NodeAction>, StoreError> {
        let now_ms = self.parts.clock.now_ms();
        let mut actions = self.parts.store.node_actions(node_id, now_ms).await?;
        let node = self.live(node_id);
        actions.retain(|action| {
            node.as_ref().is_some_and(|node| self.check(node, &action.command).is_ok())
        });
        if actions.is_empty() {
            return Ok(actions);
        }
        let ids = actions.into_iter().map(|action| action.id).collect();
        self.parts.store.pull_node_actions(node_id, ids, now_ms).await
    }

    /// Forgets what a node has dealt with, and keeps what `done` says of its
    /// commands; answers how many of them still wait.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn acknowledge(
        &self,
        node_id: &str,
        ids: Vec<String>,
        done: NodeDone,
    ) -> Result<usize, StoreError> {
        self.parts.store.ack_node(node_id, ids, done, self.parts.clock.now_ms()).await
    }

    /// Notes that a node is there, though it may not stay; answers whether it is
    /// known.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn is_alive(&self, node_id: &str, reason: &str) -> Result<bool, StoreError> {
        self.parts.store.node_seen(node_id, reason, self.parts.clock.now_ms()).await
    }
}
