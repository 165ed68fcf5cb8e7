//! Nodes that OpenClaw approved: `nodes/paired.json`.
//!
//! Promises: the file is only read, and only once; a node that was removed here
//! does not come back; a row that says less than it must is left out.

use std::io;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::Nodes;
use crate::auth::pairing::hash;
use crate::store::{NodeFacts, NodePair};
use crate::support::{blocking, json_file_of_javascript};

/// Under this name it is noted that nodes were taken over.
const MARK: &str = "nodes imported";
/// Far more than the rows of all nodes that anybody has; a larger file is none.
const LARGEST: u64 = 16 * 1024 * 1024;

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

/// The nodes of a folder with the hashes of their tokens, and how many rows
/// could not be read. Blocks.
fn read(folder: &Path) -> io::Result<(Vec<(NodePair, String)>, usize)> {
    let path = folder.join("paired.json");
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(error),
        Ok(about) if !about.is_file() || about.len() > LARGEST => {
            return Err(io::Error::other("it is too large, or no file"));
        }
        Ok(_) => {}
    }
    let Value::Object(found) = json_file_of_javascript(&path)? else {
        return Err(io::Error::other("it has no ids of nodes"));
    };
    let count = found.len();
    let good = found.into_iter().filter_map(|(node_id, value)| {
        let known: Original = serde_json::from_value(value).ok()?;
        let token = known.token.trim();
        let pair = NodePair {
            node_id,
            facts: known.facts,
            label: None,
            created_at_ms: known.created_at_ms,
            approved_at_ms: known.approved_at_ms,
            last_seen_at_ms: known.last_seen_at_ms,
            last_seen_reason: known.last_seen_reason,
            last_connected_at_ms: known.last_connected_at_ms,
        };
        (!token.is_empty() && !pair.node_id.is_empty()).then(|| (pair, hash(token)))
    });
    let rows: Vec<_> = good.collect();
    let left_out = count - rows.len();
    Ok((rows, left_out))
}

impl Nodes {
    /// Takes over what OpenClaw left in this state directory, once.
    pub(super) async fn imported(&self) {
        self.imported.get_or_init(|| self.import()).await;
    }

    async fn import(&self) {
        let store = &self.parts.store;
        if store.is_marked(MARK).await.unwrap_or(true) {
            return;
        }
        let folder = self.parts.original.clone();
        let (rows, left_out) = match blocking(move || read(&folder)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return tracing::warn!(%error, "nodes of OpenClaw not taken over"),
            Err(_) => return,
        };
        match store.import_nodes(rows, MARK).await {
            Ok(0) if left_out == 0 => {}
            Ok(nodes) => tracing::info!(nodes, left_out, "nodes of OpenClaw taken over"),
            Err(error) => tracing::warn!(%error, "nodes of OpenClaw not taken over"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn rows_are_read_as_openclaw_wrote_them_and_what_is_none_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), (vec![], 0), "no file");
        let good = json!({"nodeId": "n", "token": "secret", "displayName": "Phone",
            "platform": "iOS 18", "caps": ["canvas"], "commands": ["canvas.eval"],
            "permissions": {"camera": true}, "createdAtMs": 1, "approvedAtMs": 2,
            "lastConnectedAtMs": 3});
        let file = json!({"n": good, "m": {"token": " "}, "o": 5, "p": {"token": "x", "caps": 1}});
        // What JavaScript makes of a name that it cuts inside of a character.
        let file = file.to_string().replace("Phone", r"Phone \ud83d");
        std::fs::write(folder.path().join("paired.json"), file).unwrap();
        let (rows, left_out) = read(folder.path()).unwrap();
        assert_eq!((rows.len(), left_out), (1, 3));
        let (pair, token) = &rows[0];
        assert_eq!(pair.facts.commands(), ["canvas.eval"]);
        assert_eq!(pair.facts.display_name.as_deref(), Some("Phone \u{fffd}"));
        assert_eq!((pair.approved_at_ms, pair.last_connected_at_ms), (2, Some(3)));
        assert_eq!(*token, hash("secret"));
        std::fs::write(folder.path().join("paired.json"), "{").unwrap();
        assert!(read(folder.path()).is_err());
    }
}
