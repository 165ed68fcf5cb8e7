//! Nodes that OpenClaw approved: `nodes/paired.json`.
//!
//! Promises: the file is only read, and only once; a node that was removed here
//! does not come back; a row that says less than it must, or is another's, is left out, and
//! whose it may be is granted nothing, since it may have been limited.

use std::io;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::Nodes;
use crate::auth::pairing::{hash, paired_rows};
use crate::store::{NodeFacts, NodePair};
use crate::support::{blocking, reading};

/// Under this name it is noted that nodes were taken over.
const MARK: &str = "nodes imported";
/// Ids of nodes that are left out which the log names.
const TOLD: usize = 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Original {
    token: String,
    #[serde(flatten)]
    facts: NodeFacts,
    #[serde(default)]
    created_at_ms: u64,
    #[serde(default)]
    approved_at_ms: u64,
    last_seen_at_ms: Option<u64>,
    last_seen_reason: Option<String>,
    last_connected_at_ms: Option<u64>,
}

/// The nodes of a folder.
#[derive(Debug, Default, PartialEq)]
struct Found {
    /// Those that can be taken over, with the hashes of their tokens.
    rows: Vec<(NodePair, String)>,
    /// Ids of those that cannot.
    left_out: Vec<String>,
}

/// Reads them. Blocks.
fn read(folder: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    for (node_id, value) in paired_rows(&folder.join("paired.json"))?.unwrap_or_default() {
        let named = value.get("nodeId").and_then(Value::as_str);
        let other = named.filter(|named| *named != node_id).map(str::to_owned);
        let known = reading::of(&value).ok().filter(|_| other.is_none());
        match known.and_then(|known| row(&node_id, known)) {
            Some(row) => found.rows.push(row),
            None => found.left_out.extend([node_id].into_iter().chain(other)),
        }
    }
    // One that has a row of its own is what that says.
    let Found { rows, left_out } = &mut found;
    left_out.retain(|id| rows.iter().all(|(pair, _)| pair.node_id != *id));
    Ok(found)
}

/// What we keep of a node.
fn row(node_id: &str, known: Original) -> Option<(NodePair, String)> {
    let token = known.token.trim();
    let pair = NodePair {
        node_id: node_id.to_owned(),
        facts: known.facts,
        label: None,
        created_at_ms: known.created_at_ms,
        approved_at_ms: known.approved_at_ms,
        last_seen_at_ms: known.last_seen_at_ms,
        last_seen_reason: known.last_seen_reason,
        last_connected_at_ms: known.last_connected_at_ms,
    };
    (!token.is_empty() && !node_id.is_empty()).then(|| (pair, hash(token)))
}

impl Nodes {
    /// Takes over what OpenClaw left in this state directory, once. Until that is done,
    /// which it answers, nobody knows whom it had limited.
    pub(super) async fn imported(&self) -> bool {
        let imported = self.imported.get_or_try_init(|| self.import()).await;
        let told = imported.inspect_err(|error| {
            tracing::warn!(%error, "nodes of OpenClaw not taken over; a new node gets no command until it is approved");
        });
        told.is_ok()
    }

    /// The same, tried once only, for those who ask often and on whom no grant hangs: a file
    /// that cannot be read may be large, and is looked at again when a node connects.
    pub(super) async fn sought(&self) {
        let seeking = || async {
            self.imported().await;
        };
        self.sought.get_or_init(seeking).await;
    }

    async fn import(&self) -> io::Result<()> {
        let store = &self.parts.store;
        if store.is_marked(MARK).await.map_err(io::Error::other)? {
            return Ok(());
        }
        let folder = self.parts.original.clone();
        let Found { rows, left_out } = blocking(move || read(&folder)).await??;
        let count = left_out.len();
        let ids = format!("{:?}", left_out.get(..TOLD).unwrap_or(&left_out));
        let nodes = store.import_nodes(rows, left_out, MARK).await.map_err(io::Error::other)?;
        if nodes > 0 || count > 0 {
            tracing::info!(nodes, left_out = count, "nodes of OpenClaw taken over");
        }
        if count > 0 {
            tracing::warn!(count, %ids, "nodes of OpenClaw whose rows cannot be read are left out; they get no command until they are approved");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn rows_are_read_as_openclaw_wrote_them_and_what_is_none_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), Found::default(), "no file");
        let good = json!({"nodeId": "n", "token": "secret", "displayName": "Phone",
            "platform": "iOS 18", "caps": ["canvas"], "commands": ["canvas.eval"],
            "permissions": {"camera": true}, "createdAtMs": 1, "approvedAtMs": 2,
            "lastConnectedAtMs": 3});
        let mut other = good.clone();
        other["nodeId"] = json!("q2");
        let file = json!({"n": good, "m": {"token": " "}, "o": 5, "p": {"token": "x", "caps": 1},
            "q": other, "r": good});
        // What JavaScript makes of a name that it cuts inside of a character.
        let file = file.to_string().replace("Phone", r"Phone \ud83d");
        std::fs::write(folder.path().join("paired.json"), file).unwrap();
        let Found { rows, mut left_out } = read(folder.path()).unwrap();
        left_out.sort_unstable();
        // A row under the id of another node is neither's.
        let expected = ["m", "o", "p", "q", "q2", "r"].map(str::to_owned);
        assert_eq!((rows.len(), left_out), (1, Vec::from(expected)));
        let (pair, token) = &rows[0];
        assert_eq!(pair.facts.commands(), ["canvas.eval"]);
        assert_eq!(pair.facts.display_name.as_deref(), Some("Phone \u{fffd}"));
        assert_eq!((pair.approved_at_ms, pair.last_connected_at_ms), (2, Some(3)));
        assert_eq!(*token, hash("secret"));
        std::fs::write(folder.path().join("paired.json"), "{").unwrap();
        assert!(read(folder.path()).is_err());
    }
}
