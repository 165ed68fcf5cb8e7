//! What waits for nodes: work to drain, and commands for when they are back in
//! the foreground.
//!
//! Promises: both outlast the process, expire and are bounded; nothing is taken
//! away before the node has acknowledged it; of a node and a caller who asks
//! again only one has a command in hand.

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::traits::NodeDone;
use crate::store::answers;
use crate::store::column::{signed, unsigned};
use crate::store::error::Fault;
use crate::support::sort;

/// Most commands that wait for one node, as in the original.
const MAX_ACTIONS: usize = 64;
/// A command that nobody fetched is too old after this time, as in the original.
const ACTION_TTL_MS: u64 = 10 * 60 * 1000;
/// Nodes with work at a time; any node may be named, so there must be a bound.
const MAX_WORK: usize = 10_000;

/// An item of work, as it is on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeWork {
    /// Its id.
    pub id: String,
    /// `status.request` or `location.request`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `default`, `normal` or `high`.
    pub priority: String,
    /// When it was queued, in milliseconds since the epoch.
    pub created_at_ms: u64,
    /// When it is no longer wanted.
    pub expires_at_ms: Option<u64>,
}

/// Work that waits for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDrain {
    /// Counts what was queued for the node.
    pub revision: u64,
    /// The first items: the urgent ones, then the oldest.
    pub items: Vec<NodeWork>,
    /// How many there are in all.
    pub total: usize,
    /// Whether its status is asked for by one of them.
    pub asks_status: bool,
}

/// A command that waits for a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAction {
    /// Its id.
    pub id: String,
    /// The command.
    pub command: String,
    /// Its params as JSON text.
    #[serde(rename = "paramsJSON")]
    pub params_json: Option<String>,
    /// The caller's key.
    pub idempotency_key: String,
    /// When it was queued, in milliseconds since the epoch.
    pub enqueued_at_ms: u64,
    /// Who has it in hand.
    #[serde(default)]
    pub held_by: ActionHolder,
}

/// Who has a command in hand that waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ActionHolder {
    /// Whoever takes it.
    #[default]
    Nobody,
    /// Its node, which has fetched it and may have done it.
    Node,
    /// A caller for whom the node is asked again.
    Caller,
}

pub(super) fn enqueue(
    connection: &Connection,
    node_id: &str,
    work: NodeWork,
    now_ms: u64,
) -> Result<Option<(u64, NodeWork)>, Fault> {
    expire(connection, now_ms)?;
    let waiting = bodies::<NodeWork>(connection, node_id, "work", now_ms)?;
    if let Some(same) = waiting.into_iter().find(|item| item.kind == work.kind) {
        return Ok(Some((revision(connection, node_id)?, same)));
    }
    let all: i64 = connection.query_row("SELECT COUNT(*) FROM node_work", [], |row| row.get(0))?;
    if usize::try_from(all).unwrap_or(usize::MAX) >= MAX_WORK {
        return Ok(None);
    }
    let body = serde_json::to_string(&work)?;
    insert(connection, node_id, "work", (&work.id, &body), now_ms, work.expires_at_ms)?;
    connection
        .prepare_cached(
            "INSERT INTO nodes (node_id, revision) VALUES (?1, 1)
             ON CONFLICT (node_id) DO UPDATE SET revision = revision + 1",
        )?
        .execute([node_id])?;
    Ok(Some((revision(connection, node_id)?, work)))
}

pub(super) fn drain(
    connection: &Connection,
    node_id: &str,
    limit: usize,
    now_ms: u64,
) -> Result<NodeDrain, Fault> {
    let mut items = bodies::<NodeWork>(connection, node_id, "work", now_ms)?;
    // The order in which they were queued holds among those that are as urgent.
    sort::by_key(&mut items, |item| item.priority != "high");
    let total = items.len();
    let asks_status = items.iter().any(|item| item.kind == "status.request");
    items.truncate(limit);
    Ok(NodeDrain { revision: revision(connection, node_id)?, items, total, asks_status })
}

pub(super) fn queue_action(
    connection: &Connection,
    node_id: &str,
    action: NodeAction,
) -> Result<Option<NodeAction>, Fault> {
    let now_ms = action.enqueued_at_ms;
    expire(connection, now_ms)?;
    let asked = (action.command.as_str(), action.idempotency_key.as_str());
    if let Some(same) = hold_action(connection, node_id, asked, ActionHolder::Nobody, now_ms)? {
        return Ok(Some(same));
    }
    if actions(connection, node_id, now_ms)?.len() >= MAX_ACTIONS {
        return Ok(None);
    }
    let body = serde_json::to_string(&action)?;
    let expires_at = Some(now_ms.saturating_add(ACTION_TTL_MS));
    insert(connection, node_id, "action", (&action.id, &body), now_ms, expires_at)?;
    Ok(Some(action))
}

/// Notes who has a command in hand, by the key that it waits under; answers it as it
/// was. What its node has fetched stays with that.
pub(super) fn hold_action(
    connection: &Connection,
    node_id: &str,
    (command, key): (&str, &str),
    holder: ActionHolder,
    now_ms: u64,
) -> Result<Option<NodeAction>, Fault> {
    let waiting = actions(connection, node_id, now_ms)?;
    let found = waiting.into_iter().find(|it| it.command == command && it.idempotency_key == key);
    if let Some(action) = found.as_ref().filter(|it| it.held_by != ActionHolder::Node) {
        hold(connection, node_id, action, holder)?;
    }
    Ok(found)
}

/// Gives a node those of these commands that nobody else has in hand.
pub(super) fn pull(
    connection: &Connection,
    node_id: &str,
    ids: &[String],
    now_ms: u64,
) -> Result<Vec<NodeAction>, Fault> {
    let mut pulled = actions(connection, node_id, now_ms)?;
    pulled.retain(|it| ids.contains(&it.id) && it.held_by != ActionHolder::Caller);
    for action in &pulled {
        hold(connection, node_id, action, ActionHolder::Node)?;
    }
    Ok(pulled)
}

fn hold(
    connection: &Connection,
    node_id: &str,
    action: &NodeAction,
    holder: ActionHolder,
) -> Result<(), Fault> {
    let body = serde_json::to_string(&NodeAction { held_by: holder, ..action.clone() })?;
    connection
        .prepare_cached("UPDATE node_work SET body = ?3 WHERE node_id = ?1 AND id = ?2")?
        .execute([node_id, &action.id, &body])?;
    Ok(())
}

/// Takes commands out of the hand of callers who went with the last process.
pub(super) fn let_go(connection: &Connection) -> Result<(), Fault> {
    connection.execute(
        "UPDATE node_work SET body = json_set(body, '$.heldBy', 'nobody')
         WHERE kind = 'action' AND body ->> '$.heldBy' = 'caller'",
        [],
    )?;
    Ok(())
}

pub(super) fn drop_action(
    connection: &Connection,
    node_id: &str,
    command: &str,
    key: &str,
) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "DELETE FROM node_work WHERE node_id = ?1 AND kind = 'action'
             AND body ->> '$.command' = ?2 AND body ->> '$.idempotencyKey' = ?3",
        )?
        .execute([node_id, command, key])?;
    Ok(())
}

pub(super) fn actions(
    connection: &Connection,
    node_id: &str,
    now_ms: u64,
) -> Result<Vec<NodeAction>, Fault> {
    bodies(connection, node_id, "action", now_ms)
}

pub(super) fn ack(
    connection: &Connection,
    node_id: &str,
    ids: &[String],
    done: NodeDone,
    now_ms: u64,
) -> Result<usize, Fault> {
    let mut delete =
        connection.prepare_cached("DELETE FROM node_work WHERE node_id = ?1 AND id = ?2")?;
    // One that has become too old meanwhile was done all the same.
    let fetched = bodies::<NodeAction>(connection, node_id, "action", 0)?;
    for id in ids {
        if let Some(action) = fetched.iter().find(|action| action.id == *id) {
            answers::keep(connection, &done(node_id, action), now_ms)?;
        }
        delete.execute([node_id, id])?;
    }
    Ok(actions(connection, node_id, now_ms)?.len())
}

fn insert(
    connection: &Connection,
    node_id: &str,
    kind: &str,
    (id, body): (&str, &str),
    now_ms: u64,
    expires_at: Option<u64>,
) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO node_work (node_id, id, kind, body, created_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![node_id, id, kind, body, signed(now_ms), expires_at.map(signed)])?;
    Ok(())
}

/// What waits for a node, in the order in which it was queued.
fn bodies<T: for<'a> Deserialize<'a>>(
    connection: &Connection,
    node_id: &str,
    kind: &str,
    now_ms: u64,
) -> Result<Vec<T>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT body FROM node_work
         WHERE node_id = ?1 AND kind = ?2 AND (expires_at IS NULL OR expires_at > ?3)
         ORDER BY seq",
    )?;
    let bodies = statement
        .query_map(params![node_id, kind, signed(now_ms)], |row| row.get::<_, String>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    bodies.iter().map(|body| Ok(serde_json::from_str(body)?)).collect()
}

fn revision(connection: &Connection, node_id: &str) -> Result<u64, Fault> {
    let revision = connection
        .prepare_cached("SELECT revision FROM nodes WHERE node_id = ?1")?
        .query_row([node_id], |row| row.get(0))
        .optional()?;
    Ok(revision.map_or(0, unsigned))
}

/// Forgets what is too old, and nodes that were only named by such work.
fn expire(connection: &Connection, now_ms: u64) -> Result<(), Fault> {
    let expired = connection
        .prepare_cached("DELETE FROM node_work WHERE expires_at <= ?1")?
        .execute([signed(now_ms)])?;
    if expired > 0 {
        connection.execute(
            "DELETE FROM nodes WHERE facts IS NULL AND granted IS NULL
             AND node_id NOT IN (SELECT node_id FROM node_work)",
            [],
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::migrations::database;
    use crate::store::{AnswerClaim, KeptAnswer};

    fn work(id: &str, kind: &str, priority: &str, expires_at_ms: Option<u64>) -> NodeWork {
        NodeWork {
            id: id.into(),
            kind: kind.into(),
            priority: priority.into(),
            created_at_ms: 1,
            expires_at_ms,
        }
    }

    fn action(id: &str) -> NodeAction {
        NodeAction {
            id: id.into(),
            command: "canvas.eval".into(),
            params_json: None,
            idempotency_key: format!("key-{id}"),
            enqueued_at_ms: 1,
            held_by: ActionHolder::Nobody,
        }
    }

    fn done(node_id: &str, action: &NodeAction) -> KeptAnswer {
        let key = format!("{node_id} {}", action.idempotency_key);
        KeptAnswer { scope: "m", key, answer: action.id.clone() }
    }

    #[test]
    fn work_of_one_type_waits_once_and_the_urgent_comes_first() {
        let database = database();
        let add = |item: NodeWork| enqueue(&database, "n", item, 1).unwrap().unwrap();
        assert_eq!(add(work("a", "status.request", "normal", None)).0, 1);
        assert_eq!(add(work("b", "status.request", "high", None)).1.id, "a");
        assert_eq!(add(work("c", "location.request", "high", Some(9))).0, 2);
        let ids = |drain: NodeDrain| drain.items.into_iter().map(|it| it.id).collect::<Vec<_>>();
        assert_eq!(ids(drain(&database, "n", 4, 1).unwrap()), ["c", "a"]);
        let first = drain(&database, "n", 1, 1).unwrap();
        assert_eq!((first.total, first.asks_status, first.revision), (2, true, 2));
        assert_eq!(ids(drain(&database, "n", 4, 9).unwrap()), ["a"], "the other has expired");
        assert_eq!(drain(&database, "other", 4, 1).unwrap().items, []);
    }

    #[test]
    fn commands_wait_bounded_until_their_node_has_dealt_with_them() {
        let database = database();
        for index in 0..MAX_ACTIONS {
            assert!(queue_action(&database, "n", action(&index.to_string())).unwrap().is_some());
        }
        assert_eq!(queue_action(&database, "n", action("more")).unwrap(), None);
        assert!(queue_action(&database, "m", action("more")).unwrap().is_some());
        let acked = |node: &str, ids: &[String]| ack(&database, node, ids, done, 1).unwrap();
        assert_eq!(acked("m", &["0".into()]), 1, "of another node");
        assert_eq!(acked("n", &["0".into(), "nope".into()]), MAX_ACTIONS - 1);
        let waiting = actions(&database, "n", 1).unwrap();
        assert_eq!(waiting.first().map(|it| it.id.as_str()), Some("1"));
        assert_eq!(actions(&database, "n", 2 + ACTION_TTL_MS).unwrap(), []);
    }

    #[test]
    fn a_command_that_waits_is_not_queued_again() {
        let database = database();
        queue_action(&database, "n", action("a")).unwrap();
        let again = NodeAction { id: "b".into(), ..action("a") };
        assert_eq!(queue_action(&database, "n", again.clone()).unwrap().unwrap().id, "a");
        let other = NodeAction { command: "canvas.hide".into(), ..again.clone() };
        assert_eq!(queue_action(&database, "n", other).unwrap().unwrap().id, "b");
        for index in 2..MAX_ACTIONS {
            queue_action(&database, "n", action(&index.to_string())).unwrap();
        }
        assert_eq!(queue_action(&database, "n", action("more")).unwrap(), None);
        let waits = queue_action(&database, "n", again).unwrap();
        assert_eq!(waits.unwrap().id, "a", "also when there is no room for another");
    }

    #[test]
    fn a_command_that_was_done_in_another_way_waits_no_longer() {
        let database = database();
        for id in ["a", "b"] {
            queue_action(&database, "n", action(id)).unwrap();
        }
        drop_action(&database, "n", "canvas.hide", "key-a").unwrap();
        drop_action(&database, "m", "canvas.eval", "key-a").unwrap();
        assert_eq!(actions(&database, "n", 1).unwrap().len(), 2, "neither is meant");
        drop_action(&database, "n", "canvas.eval", "key-a").unwrap();
        assert_eq!(actions(&database, "n", 1).unwrap(), [action("b")]);
    }

    #[test]
    fn a_command_is_in_the_hand_of_its_node_or_of_who_asks_again_and_not_of_both() {
        let database = database();
        queue_action(&database, "n", action("a")).unwrap();
        let hold = |holder| {
            let asked = ("canvas.eval", "key-a");
            let held = hold_action(&database, "n", asked, holder, 1).unwrap();
            held.map(|action| action.held_by)
        };
        let pulled = || pull(&database, "n", &["a".into(), "b".into()], 1).unwrap().len();
        assert_eq!(hold(ActionHolder::Caller), Some(ActionHolder::Nobody));
        assert_eq!(pulled(), 0, "somebody asks for it just now");
        queue_action(&database, "n", NodeAction { id: "b".into(), ..action("a") }).unwrap();
        assert_eq!(pulled(), 1, "it waits again");
        assert_eq!(hold(ActionHolder::Caller), Some(ActionHolder::Node));
        assert_eq!(hold(ActionHolder::Nobody), Some(ActionHolder::Node), "it stays with its node");
        assert_eq!(pulled(), 1, "which may ask for it again");
    }

    #[test]
    fn a_caller_who_went_with_the_process_has_nothing_in_hand() {
        let database = database();
        for id in ["a", "b"] {
            queue_action(&database, "n", action(id)).unwrap();
        }
        pull(&database, "n", &["b".into()], 1).unwrap();
        let asked = ("canvas.eval", "key-a");
        hold_action(&database, "n", asked, ActionHolder::Caller, 1).unwrap();
        let_go(&database).unwrap();
        let fetched = NodeAction { held_by: ActionHolder::Node, ..action("b") };
        assert_eq!(actions(&database, "n", 1).unwrap(), [action("a"), fetched]);
    }

    #[test]
    fn what_a_node_has_done_is_answered_from_then_on_also_to_who_asks_just_now() {
        let database = database();
        let claim = || answers::claim(&database, ("m", "n key-a"), 1).unwrap();
        queue_action(&database, "n", action("a")).unwrap();
        assert_eq!(claim(), AnswerClaim::New);
        ack(&database, "n", &["a".into()], done, 2 + ACTION_TTL_MS).unwrap();
        answers::settle(&database, ("m", "n key-a"), None).unwrap();
        assert_eq!(claim(), AnswerClaim::Answered("a".into()));
    }
}
