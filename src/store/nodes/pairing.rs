//! Who was approved for what, and who waits for that.
//!
//! Promises: a node never has a command that it did not declare when it first
//! connected or that nobody approved; what was approved is what was shown, since
//! a request that asks for other commands is another request.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::traits::NodeCheck;
use super::{KnownNode, NodeFacts, NodePair, NodePairRequest};
use crate::store::column::{signed, unsigned};
use crate::store::error::Fault;
use crate::support::reading;

/// A request that nobody answers is gone after this time, as in the original.
const REQUEST_TTL_MS: u64 = 5 * 60 * 1000;
/// Most requests that wait: more than a person would read.
const MAX_REQUESTS: usize = 200;

/// A node that was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAdmitted {
    /// The commands that it may use.
    pub granted: Vec<String>,
    /// Its request and whether it is new, when it needs an approval.
    pub request: Option<(NodePairRequest, bool)>,
}

/// What a node that connects comes with, beside what it says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeGround {
    /// Whether one that nobody knows may use what it declares.
    pub may_begin: bool,
    /// Whether it came in as a device that is paired. One that is removed by then is not
    /// recorded: what is known of it was forgotten, and nobody would forget it once more.
    pub is_paired: bool,
}

/// What became of an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeApproval {
    /// There is no such request.
    Unknown,
    /// Who wanted to approve it may not; the text says why.
    Refused(String),
    /// It is approved.
    Approved(Box<NodePair>),
}

/// Those who wait and those who were approved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePairings {
    /// Those who wait.
    pub pending: Vec<NodePairRequest>,
    /// Those who were approved.
    pub paired: Vec<NodePair>,
}

pub(super) fn admit(
    connection: &Connection,
    node_id: &str,
    facts: &NodeFacts,
    ground: NodeGround,
    request_id: String,
    live: &[String],
    now_ms: u64,
) -> Result<NodeAdmitted, Fault> {
    if ground.is_paired && !has_device(connection, node_id)? {
        return Ok(NodeAdmitted { granted: Vec::new(), request: None });
    }
    let pair = pair(connection, node_id)?.map(|(pair, _)| pair);
    let before: Option<String> = connection
        .prepare_cached("SELECT granted FROM nodes WHERE node_id = ?1")?
        .query_row([node_id], |row| row.get(0))
        .optional()?
        .flatten();
    let granted: Vec<String> = match (&pair, before) {
        (Some(pair), _) => pair.facts.commands().to_vec(),
        (None, Some(granted)) => serde_json::from_str(&granted)?,
        (None, None) if ground.may_begin => facts.commands().to_vec(),
        (None, None) => Vec::new(),
    };
    connection
        .prepare_cached(
            "INSERT INTO nodes (node_id, facts, granted, seen_at, seen_reason)
             VALUES (?1, ?2, ?3, ?4, 'connect')
             ON CONFLICT (node_id) DO UPDATE SET facts = excluded.facts,
                granted = excluded.granted, seen_at = excluded.seen_at,
                seen_reason = excluded.seen_reason",
        )?
        .execute(params![
            node_id,
            serde_json::to_string(facts)?,
            serde_json::to_string(&granted)?,
            signed(now_ms)
        ])?;
    connection
        .prepare_cached("UPDATE node_pairs SET connected_at = ?2 WHERE node_id = ?1")?
        .execute(params![node_id, signed(now_ms)])?;
    let wants_more = facts.commands().iter().any(|command| !granted.contains(command));
    let request = if pair.is_none() || wants_more {
        let shown = NodeFacts { client_id: None, client_mode: None, ..facts.clone() };
        let node_id = node_id.to_owned();
        let request =
            NodePairRequest { request_id, node_id, facts: shown, silent: false, ts: now_ms };
        file(connection, request, live)?
    } else {
        None
    };
    Ok(NodeAdmitted { granted, request })
}

/// Whether the device of a node is paired.
fn has_device(connection: &Connection, node_id: &str) -> Result<bool, Fault> {
    Ok(connection
        .prepare_cached("SELECT 1 FROM devices WHERE device_id = ?1 AND paired IS NOT NULL")?
        .exists([node_id])?)
}

/// Files a request, or renews the one that the node has. When it asks for other
/// commands it takes that one's place under an id of its own.
pub(super) fn file(
    connection: &Connection,
    mut request: NodePairRequest,
    live: &[String],
) -> Result<Option<(NodePairRequest, bool)>, Fault> {
    expire(connection, live, request.ts)?;
    let mut waiting = requests(connection)?;
    let before = waiting.iter().position(|it| it.node_id == request.node_id);
    let before = before.map(|at| waiting.swap_remove(at));
    if before.is_none() && waiting.len() >= MAX_REQUESTS {
        return Ok(None);
    }
    let is_same = before.as_ref().is_some_and(|before| {
        let asked = &request.facts.commands;
        asked.is_none() || *asked == before.facts.commands
    });
    if let Some(before) = before.filter(|_| is_same) {
        let mut facts = before.facts;
        facts.merge(request.facts);
        request = NodePairRequest {
            request_id: before.request_id,
            silent: before.silent && request.silent,
            facts,
            ..request
        };
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO node_requests (request_id, node_id, facts, silent, ts)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            request.request_id,
            request.node_id,
            serde_json::to_string(&request.facts)?,
            request.silent,
            signed(request.ts)
        ])?;
    Ok(Some((request, !is_same)))
}

/// Takes approved nodes over, once for this mark. Those that were left out begin with
/// nothing.
pub(super) fn import(
    connection: &Connection,
    rows: &[(NodePair, String)],
    left_out: &[String],
    mark: &str,
) -> Result<usize, Fault> {
    let is_first = connection
        .prepare_cached("INSERT INTO marks (name) VALUES (?1) ON CONFLICT DO NOTHING")?
        .execute([mark])?
        > 0;
    if !is_first {
        return Ok(0);
    }
    for node_id in left_out {
        connection
            .prepare_cached(
                "INSERT INTO nodes (node_id, granted) VALUES (?1, '[]')
                 ON CONFLICT (node_id) DO UPDATE SET granted = excluded.granted",
            )?
            .execute([node_id])?;
    }
    let mut taken = 0;
    for (pair, token_hash) in rows {
        taken += connection
            .prepare_cached(
                "INSERT INTO node_pairs (node_id, facts, token_hash, created_at, approved_at,
                    seen_at, seen_reason, connected_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                pair.node_id,
                serde_json::to_string(&pair.facts)?,
                token_hash,
                signed(pair.created_at_ms),
                signed(pair.approved_at_ms),
                pair.last_seen_at_ms.map(signed),
                pair.last_seen_reason,
                pair.last_connected_at_ms.map(signed)
            ])?;
    }
    Ok(taken)
}

pub(super) fn approve(
    connection: &Connection,
    request_id: &str,
    token_hash: &str,
    check: NodeCheck,
    live: &[String],
    now_ms: u64,
) -> Result<NodeApproval, Fault> {
    expire(connection, live, now_ms)?;
    let found = requests(connection)?.into_iter().find(|it| it.request_id == request_id);
    let Some(request) = found else { return Ok(NodeApproval::Unknown) };
    if let Err(text) = check(&request) {
        return Ok(NodeApproval::Refused(text));
    }
    delete_request(connection, request_id)?;
    connection
        .prepare_cached(
            "INSERT INTO node_pairs (node_id, facts, token_hash, created_at, approved_at)
             VALUES (?1, ?2, ?3, ?4, ?4)
             ON CONFLICT (node_id) DO UPDATE SET facts = excluded.facts,
                token_hash = excluded.token_hash, approved_at = excluded.approved_at",
        )?
        .execute(params![
            request.node_id,
            serde_json::to_string(&request.facts)?,
            token_hash,
            signed(now_ms)
        ])?;
    Ok(match pair(connection, &request.node_id)? {
        Some((pair, _)) => NodeApproval::Approved(Box::new(pair)),
        None => NodeApproval::Unknown,
    })
}

/// What was refused to a node that nobody has approved it no longer has. Answers
/// which node it is, and whether somebody has.
pub(super) fn reject(
    connection: &Connection,
    request_id: &str,
    live: &[String],
    now_ms: u64,
) -> Result<Option<(String, bool)>, Fault> {
    expire(connection, live, now_ms)?;
    let found = requests(connection)?.into_iter().find(|it| it.request_id == request_id);
    let Some(request) = found else { return Ok(None) };
    delete_request(connection, request_id)?;
    let is_paired = pair(connection, &request.node_id)?.is_some();
    if !is_paired {
        grant_nothing(connection, &request.node_id)?;
    }
    Ok(Some((request.node_id, is_paired)))
}

/// Takes from a node what it was granted, be it that nobody has approved it, with the request
/// that it has. Answers the ids of such requests; `None` when it is not known.
pub(super) fn remove(connection: &Connection, node_id: &str) -> Result<Option<Vec<String>>, Fault> {
    let mut known = grant_nothing(connection, node_id)?;
    known += connection
        .prepare_cached("DELETE FROM node_pairs WHERE node_id = ?1")?
        .execute([node_id])?;
    let dropped = connection
        .prepare_cached("DELETE FROM node_requests WHERE node_id = ?1 RETURNING request_id")?
        .query_map([node_id], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    Ok((known > 0 || !dropped.is_empty()).then_some(dropped))
}

/// Answers how many nodes there are of this id.
fn grant_nothing(connection: &Connection, node_id: &str) -> Result<usize, Fault> {
    let changed = connection
        .prepare_cached("UPDATE nodes SET granted = '[]' WHERE node_id = ?1")?
        .execute([node_id])?;
    Ok(changed)
}

/// Forgets a node whose device is gone, with all that waits for it.
pub(in crate::store) fn forget(connection: &Connection, node_id: &str) -> Result<(), Fault> {
    for table in ["nodes", "node_pairs", "node_requests", "node_work"] {
        connection
            .prepare_cached(&format!("DELETE FROM {table} WHERE node_id = ?1"))?
            .execute([node_id])?;
    }
    Ok(())
}

pub(super) fn rename(connection: &Connection, node_id: &str, name: &str) -> Result<bool, Fault> {
    let changed = connection
        .prepare_cached("UPDATE node_pairs SET label = ?2 WHERE node_id = ?1")?
        .execute([node_id, name])?;
    Ok(changed > 0)
}

pub(super) fn seen(
    connection: &Connection,
    node_id: &str,
    reason: &str,
    now_ms: u64,
) -> Result<bool, Fault> {
    let mut known = 0;
    for table in ["nodes", "node_pairs"] {
        known += connection
            .prepare_cached(&format!(
                "UPDATE {table} SET seen_at = ?2, seen_reason = ?3 WHERE node_id = ?1"
            ))?
            .execute(params![node_id, signed(now_ms), reason])?;
    }
    Ok(known > 0)
}

pub(super) fn known(connection: &Connection) -> Result<Vec<KnownNode>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT node_id, facts, granted, seen_at, seen_reason FROM nodes
         WHERE facts IS NOT NULL ORDER BY node_id",
    )?;
    let rows = statement.query_map([], |row| {
        let texts: (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((texts, unsigned(row.get(3)?), row.get(4)?))
    })?;
    let mut known = Vec::new();
    for row in rows {
        let ((node_id, facts, granted), seen_at, seen_reason) = row?;
        let mut facts: NodeFacts = reading::text(&facts)?;
        let granted: Vec<String> = serde_json::from_str(&granted)?;
        if let Some(commands) = &mut facts.commands {
            commands.retain(|command| granted.contains(command));
        }
        known.push(KnownNode { node_id, facts, seen_at, seen_reason });
    }
    Ok(known)
}

pub(super) fn list(
    connection: &Connection,
    live: &[String],
    now_ms: u64,
) -> Result<NodePairings, Fault> {
    let mut pending = requests(connection)?;
    pending.retain(|request| !is_expired(request, live, now_ms));
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {PAIR} FROM node_pairs ORDER BY approved_at DESC, node_id"
    ))?;
    let rows = statement.query_map([], read_pair)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let paired: Result<Vec<_>, Fault> = rows.into_iter().map(|row| Ok(whole(row)?.0)).collect();
    Ok(NodePairings { pending, paired: paired? })
}

pub(super) fn pair(
    connection: &Connection,
    node_id: &str,
) -> Result<Option<(NodePair, String)>, Fault> {
    let row = connection
        .prepare_cached(&format!("SELECT {PAIR} FROM node_pairs WHERE node_id = ?1"))?
        .query_row([node_id], read_pair)
        .optional()?;
    row.map(whole).transpose()
}

const PAIR: &str = "node_id, facts, token_hash, created_at, approved_at, seen_at, seen_reason, \
    connected_at, label";

/// A pair whose facts are still to be read.
struct PairRow {
    pair: NodePair,
    facts: String,
    token_hash: String,
}

fn read_pair(row: &Row<'_>) -> rusqlite::Result<PairRow> {
    let pair = NodePair {
        node_id: row.get(0)?,
        facts: NodeFacts::default(),
        created_at_ms: unsigned(row.get(3)?),
        approved_at_ms: unsigned(row.get(4)?),
        last_seen_at_ms: row.get::<_, Option<i64>>(5)?.map(unsigned),
        last_seen_reason: row.get(6)?,
        last_connected_at_ms: row.get::<_, Option<i64>>(7)?.map(unsigned),
        label: row.get(8)?,
    };
    Ok(PairRow { pair, facts: row.get(1)?, token_hash: row.get(2)? })
}

fn whole(row: PairRow) -> Result<(NodePair, String), Fault> {
    let mut facts: NodeFacts = reading::text(&row.facts)?;
    if row.pair.label.is_some() {
        facts.display_name.clone_from(&row.pair.label);
    }
    Ok((NodePair { facts, ..row.pair }, row.token_hash))
}

/// All requests, the newest first.
fn requests(connection: &Connection) -> Result<Vec<NodePairRequest>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT request_id, node_id, facts, silent, ts FROM node_requests
         ORDER BY ts DESC, rowid DESC",
    )?;
    let rows = statement.query_map([], |row| {
        let ids: (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((ids, row.get(3)?, unsigned(row.get(4)?)))
    })?;
    let mut found = Vec::new();
    for row in rows {
        let ((request_id, node_id, facts), silent, ts) = row?;
        let facts = reading::text(&facts)?;
        found.push(NodePairRequest { request_id, node_id, facts, silent, ts });
    }
    Ok(found)
}

fn is_expired(request: &NodePairRequest, live: &[String], now_ms: u64) -> bool {
    request.ts.saturating_add(REQUEST_TTL_MS) < now_ms && !live.contains(&request.node_id)
}

fn expire(connection: &Connection, live: &[String], now_ms: u64) -> Result<(), Fault> {
    for request in requests(connection)? {
        if is_expired(&request, live, now_ms) {
            delete_request(connection, &request.request_id)?;
        }
    }
    Ok(())
}

fn delete_request(connection: &Connection, request_id: &str) -> Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM node_requests WHERE request_id = ?1")?
        .execute([request_id])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NodeWork;
    use crate::store::migrations::database;
    use crate::store::nodes::work;

    fn facts(commands: &[&str]) -> NodeFacts {
        let commands = commands.iter().map(|it| (*it).to_owned()).collect();
        NodeFacts { commands: Some(commands), ..NodeFacts::default() }
    }

    /// One that nobody knows may begin.
    const NEW: NodeGround = NodeGround { may_begin: true, is_paired: false };

    fn connects(database: &Connection, commands: &[&str], now_ms: u64) -> NodeAdmitted {
        admit(database, "n", &facts(commands), NEW, format!("r{now_ms}"), &[], now_ms).unwrap()
    }

    fn approves(database: &Connection, id: &str) -> NodeApproval {
        approve(database, id, "hash", Box::new(|_| Ok(())), &[], 50).unwrap()
    }

    #[test]
    fn a_node_has_what_it_declared_first_and_then_what_was_approved() {
        let database = database();
        let first = connects(&database, &["a"], 1);
        assert_eq!(first.granted, ["a"]);
        assert!(first.request.unwrap().1);
        let again = connects(&database, &["a"], 2);
        assert_eq!(
            again.request.map(|(request, is_new)| (request.request_id, is_new)),
            Some(("r1".into(), false))
        );
        let wider = connects(&database, &["a", "b"], 3);
        assert_eq!(wider.granted, ["a"], "not before somebody approves it");
        assert_eq!(wider.request.unwrap().0.request_id, "r3", "another question");
        assert_eq!(approves(&database, "r1"), NodeApproval::Unknown);
        assert!(matches!(approves(&database, "r3"), NodeApproval::Approved(_)));
        let approved = connects(&database, &["a", "b"], 4);
        assert_eq!((approved.granted.len(), approved.request), (2, None));
        assert!(connects(&database, &["a", "c"], 5).request.is_some());
    }

    #[test]
    fn a_node_that_was_refused_or_removed_has_nothing() {
        let database = database();
        connects(&database, &["a"], 1);
        assert_eq!(reject(&database, "r1", &[], 2).unwrap(), Some(("n".into(), false)));
        assert_eq!(reject(&database, "r1", &[], 2).unwrap(), None);
        let again = connects(&database, &["a"], 3);
        assert_eq!((again.granted.len(), again.request.is_some()), (0, true));
        assert!(matches!(approves(&database, "r3"), NodeApproval::Approved(_)));
        connects(&database, &["a", "b"], 4);
        assert_eq!(reject(&database, "r4", &[], 4).unwrap(), Some(("n".into(), true)));
        assert_eq!(remove(&database, "n").unwrap(), Some(vec![]));
        assert_eq!(remove(&database, "other").unwrap(), None);
        assert_eq!(connects(&database, &["a"], 4).granted, Vec::<String>::new());
        forget(&database, "n").unwrap();
        assert_eq!(connects(&database, &["a"], 5).granted, ["a"]);
    }

    #[test]
    fn a_node_whose_device_is_removed_before_it_is_recorded_is_not() {
        let database = database();
        let comes = |now_ms: u64| {
            let ground = NodeGround { is_paired: true, ..NEW };
            let id = format!("r{now_ms}");
            admit(&database, "n", &facts(&["a"]), ground, id, &[], now_ms).unwrap()
        };
        let nothing = NodeAdmitted { granted: Vec::new(), request: None };
        assert_eq!(comes(1), nothing);
        for paired in ["NULL", "'{}'"] {
            let row = format!("REPLACE INTO devices (device_id, paired) VALUES ('n', {paired})");
            database.execute(&row, []).unwrap();
            let came = comes(2);
            if paired == "NULL" {
                assert_eq!(came, nothing, "it only asks");
                assert!(known(&database).unwrap().is_empty());
                assert_eq!(list(&database, &[], 2).unwrap(), NodePairings::default());
            } else {
                assert_eq!((came.granted.len(), came.request.is_some()), (1, true));
            }
        }
    }

    #[test]
    fn what_a_node_was_granted_is_taken_back_where_nobody_has_approved_it() {
        let database = database();
        assert_eq!(connects(&database, &["a"], 1).granted, ["a"]);
        assert_eq!(remove(&database, "n").unwrap(), Some(vec!["r1".into()]), "it is known");
        assert_eq!(list(&database, &[], 2).unwrap(), NodePairings::default());
        assert_eq!(approves(&database, "r1"), NodeApproval::Unknown);
        let again = connects(&database, &["a"], 3);
        assert_eq!((again.granted.len(), again.request.is_some()), (0, true));
        assert!(matches!(approves(&database, "r3"), NodeApproval::Approved(_)));
        assert_eq!(connects(&database, &["a"], 4).granted, ["a"]);
        // One that only asks is known as well.
        forget(&database, "n").unwrap();
        let (request_id, node_id) = ("r5".to_owned(), "n".to_owned());
        let asks = NodePairRequest { request_id, node_id, facts: facts(&[]), silent: false, ts: 5 };
        file(&database, asks, &[]).unwrap();
        assert_eq!(remove(&database, "n").unwrap(), Some(vec!["r5".into()]));
        assert_eq!(remove(&database, "n").unwrap(), None, "nothing is left of it");
    }

    #[test]
    fn a_node_that_may_have_been_limited_elsewhere_begins_with_nothing() {
        let database = database();
        let queue = |node: &str, expires_at_ms: Option<u64>, now_ms: u64| {
            let (id, kind) = (format!("w{now_ms}"), "status.request".to_owned());
            let priority = "normal".to_owned();
            let item = NodeWork { id, kind, priority, created_at_ms: now_ms, expires_at_ms };
            work::enqueue(&database, node, item, now_ms).unwrap().unwrap();
        };
        assert_eq!(import(&database, &[], &["n".into()], "mark").unwrap(), 0);
        queue("n", Some(2), 1);
        // What is too old goes, and a node that was only named by it.
        queue("m", None, 3);
        assert_eq!(connects(&database, &["a"], 4).granted, Vec::<String>::new());
        let granted = |may_begin| {
            let facts = facts(&["a"]);
            let ground = NodeGround { may_begin, ..NEW };
            admit(&database, "m", &facts, ground, "r".into(), &[], 5).unwrap().granted
        };
        assert_eq!(granted(false), Vec::<String>::new(), "nobody knows yet");
        assert_eq!(granted(true), Vec::<String>::new(), "it stays so until it is approved");
    }

    #[test]
    fn the_name_that_a_person_gave_outlasts_the_next_approval() {
        let database = database();
        let named = || pair(&database, "n").unwrap().unwrap().0.facts.display_name;
        let calls_itself = NodeFacts { display_name: Some("Phone".into()), ..facts(&["a"]) };
        admit(&database, "n", &calls_itself, NEW, "r1".into(), &[], 1).unwrap();
        assert!(!rename(&database, "n", "Mine").unwrap(), "it is not approved");
        approves(&database, "r1");
        assert_eq!(named().as_deref(), Some("Phone"));
        assert!(rename(&database, "n", "Mine").unwrap());
        let wider = NodeFacts { display_name: Some("Phone".into()), ..facts(&["a", "b"]) };
        admit(&database, "n", &wider, NEW, "r2".into(), &[], 2).unwrap();
        approves(&database, "r2");
        assert_eq!(named().as_deref(), Some("Mine"));
    }

    #[test]
    fn a_request_expires_unless_its_node_is_there_and_a_check_can_refuse_it() {
        let database = database();
        connects(&database, &["a"], 1);
        let late = 2 + REQUEST_TTL_MS;
        assert_eq!(list(&database, &["n".into()], late).unwrap().pending.len(), 1);
        assert_eq!(list(&database, &[], late).unwrap().pending.len(), 0);
        let no = Box::new(|_: &_| Err("no".into()));
        let refused = approve(&database, "r1", "h", no, &[], 2).unwrap();
        assert_eq!(refused, NodeApproval::Refused("no".into()));
        let late = approve(&database, "r1", "h", Box::new(|_| Ok(())), &[], late).unwrap();
        assert_eq!(late, NodeApproval::Unknown);
    }
}
