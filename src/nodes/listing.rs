//! All nodes that are known, as they are listed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{LiveNode, Nodes, policy};
use crate::store::{KnownNode, NodeFacts, NodePair, StoreError};
use crate::support::{json, sort};

/// What is known of one node, from all sides.
#[derive(Debug, Clone)]
pub struct NodeRow {
    /// Which node.
    pub node_id: String,
    live: Option<Arc<LiveNode>>,
    known: Option<KnownNode>,
    pair: Option<NodePair>,
    /// When its device was approved.
    device_approved_at: Option<u64>,
}

/// Why a node that somebody named is not found.
#[derive(Debug, thiserror::Error)]
pub enum FindNodeError {
    /// Nobody is called so.
    #[error("unknown node: {name}{}", in_brackets(.known))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Who there is.
        known: Vec<String>,
    },
    /// More than one is called so.
    #[error("ambiguous node: {name} (matches: {})", .matches.join(", "))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Their ids.
        matches: Vec<String>,
    },
    /// They cannot be read.
    #[error("Error: {0}")]
    Store(#[from] StoreError),
}

/// Whether two names mean the same node: neither case nor what stands between letters and
/// digits counts, as in the original, since nobody types the apostrophe of a phone's name.
pub fn is_same_name(one: &str, other: &str) -> bool {
    fn words(name: &str) -> impl Iterator<Item = &str> {
        name.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
    }
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    one == other || (words(&one).next().is_some() && words(&one).eq(words(&other)))
}

fn in_brackets(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" (known: {})", names.join(", ")) }
}

impl NodeRow {
    /// Name for people: the one that a person gave it, else as it connects or was
    /// approved.
    pub fn name(&self) -> Option<&str> {
        let given = self.pair.as_ref().and_then(|pair| pair.label.as_deref());
        given.or_else(|| self.facts(|facts| facts.display_name.as_deref()))
    }

    /// Its system, in its own words.
    pub fn platform(&self) -> &str {
        self.facts(|facts| facts.platform.as_deref()).unwrap_or("unknown")
    }

    /// Whether it is connected.
    pub const fn is_connected(&self) -> bool {
        self.live.is_some()
    }

    /// Whether a command that its app cannot do in the background may wait until it can.
    pub fn may_keep(&self, command: &str) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_ios()) && policy::needs_foreground(command)
    }

    /// The commands that it may be asked for, or might when it was last there.
    pub fn commands(&self) -> BTreeSet<&str> {
        if let Some(live) = &self.live {
            return live.commands().into_iter().collect();
        }
        let of = self.pair.as_ref().map(|pair| &pair.facts);
        let of = of.or_else(|| self.known.as_ref().map(|known| &known.facts));
        of.into_iter().flat_map(NodeFacts::commands).map(String::as_str).collect()
    }

    /// The newest that was said of something.
    fn facts<'a, T>(&'a self, pick: impl Fn(&'a NodeFacts) -> Option<T>) -> Option<T> {
        let live = self.live.as_ref().map(|live| &live.joined.facts);
        let (pair, known) = (self.pair.as_ref(), self.known.as_ref());
        let all = [live, pair.map(|it| &it.facts), known.map(|it| &it.facts)];
        all.into_iter().flatten().find_map(pick)
    }

    /// As it is on the wire.
    pub fn to_wire(&self) -> Value {
        let mut row = Map::new();
        row.insert("nodeId".into(), json!(self.node_id));
        if let Some(name) = self.name() {
            row.insert("displayName".into(), json!(name));
        }
        let mut text = |name: &str, pick: fn(&NodeFacts) -> Option<&String>| {
            if let Some(text) = self.facts(pick) {
                row.insert(name.into(), json!(text));
            }
        };
        text("platform", |facts| facts.platform.as_ref());
        text("version", |facts| facts.version.as_ref());
        text("coreVersion", |facts| facts.core_version.as_ref());
        text("uiVersion", |facts| facts.ui_version.as_ref());
        text("clientId", |facts| facts.client_id.as_ref());
        text("clientMode", |facts| facts.client_mode.as_ref());
        text("deviceFamily", |facts| facts.device_family.as_ref());
        text("modelIdentifier", |facts| facts.model_identifier.as_ref());
        text("remoteIp", |facts| facts.remote_ip.as_ref());
        let caps: BTreeSet<_> =
            self.facts(|facts| facts.caps.as_ref()).into_iter().flatten().collect();
        row.insert("caps".into(), json!(caps));
        row.insert("commands".into(), json!(self.commands()));
        if let Some(live) = &self.live {
            let joined = &live.joined;
            if let Some(path) = &joined.path_env {
                row.insert("pathEnv".into(), json!(path));
            }
            if let Some(permissions) = &joined.permissions {
                let permissions = sort::map(permissions.iter().map(|(name, on)| (name, on)));
                row.insert("permissions".into(), json!(permissions));
            }
            row.insert("connectedAtMs".into(), json!(live.connected_at));
        }
        if let Some((at, reason)) = self.seen() {
            row.insert("lastSeenAtMs".into(), json!(at));
            row.insert("lastSeenReason".into(), json!(reason));
        }
        let approved_at = self.pair.as_ref().map(|pair| pair.approved_at_ms);
        let approved_at = approved_at.or(self.device_approved_at);
        if let Some(at) = approved_at {
            row.insert("approvedAtMs".into(), json!(at));
        }
        row.insert("paired".into(), json!(approved_at.is_some()));
        row.insert("connected".into(), json!(self.is_connected()));
        row.into()
    }

    fn seen(&self) -> Option<(u64, &str)> {
        let of_pair = || {
            let pair = self.pair.as_ref()?;
            let seen = pair.last_seen_at_ms.zip(pair.last_seen_reason.as_deref());
            seen.or_else(|| Some((pair.last_connected_at_ms?, "connect")))
        };
        let known = self.known.as_ref().map(|known| (known.seen_at, known.seen_reason.as_str()));
        let live = self.live.as_ref().map(|live| (live.connected_at, "connect"));
        known.max(live).or_else(of_pair)
    }
}

impl Nodes {
    /// Every node that is connected, was approved, or whose device was: first
    /// those that are there. `devices` are those approved as nodes, and when.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(&self, devices: &BTreeMap<String, u64>) -> Result<Vec<NodeRow>, StoreError> {
        let (pairings, known) = tokio::try_join!(self.pairings(), self.parts.store.known_nodes())?;
        let mut rows: BTreeMap<String, NodeRow> = BTreeMap::new();
        let empty = |node_id: &str| NodeRow {
            node_id: node_id.to_owned(),
            live: None,
            known: None,
            pair: None,
            device_approved_at: devices.get(node_id).copied(),
        };
        let mut row = |node_id: &str, fill: &mut dyn FnMut(&mut NodeRow)| {
            fill(rows.entry(node_id.to_owned()).or_insert_with(|| empty(node_id)));
        };
        for live in self.all_live() {
            row(&live.joined.node_id, &mut |row| row.live = Some(Arc::clone(&live)));
        }
        for pair in &pairings.paired {
            row(&pair.node_id, &mut |row| row.pair = Some(pair.clone()));
        }
        for known in &known {
            row(&known.node_id, &mut |row| row.known = Some(known.clone()));
        }
        for node_id in devices.keys() {
            row(node_id, &mut |_| ());
        }
        // What was once there and is no longer approved is not listed.
        let mut rows: Vec<_> = rows
            .into_values()
            .filter(|row| {
                row.is_connected() || row.pair.is_some() || row.device_approved_at.is_some()
            })
            .collect();
        sort::by_key(&mut rows, |row| {
            let name = row.name().unwrap_or(&row.node_id).to_lowercase();
            (Reverse(row.is_connected()), name, row.node_id.clone())
        });
        Ok(rows)
    }

    /// The node that somebody names: by its id, by its name, by its address, or
    /// by how its id begins.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub async fn find(
        &self,
        devices: &BTreeMap<String, u64>,
        name: &str,
    ) -> Result<NodeRow, FindNodeError> {
        /// Shorter beginnings of ids are too likely to be meant otherwise.
        const MIN_BEGINNING: usize = 6;
        let rows = self.list(devices).await?;
        let wanted = name.trim();
        if let Some(row) = rows.iter().find(|row| row.node_id == wanted) {
            return Ok(row.clone());
        }
        let is_called = |row: &&NodeRow| {
            let begins = wanted.len() >= MIN_BEGINNING && row.node_id.starts_with(wanted);
            let is_named = row.name().is_some_and(|name| is_same_name(name, wanted));
            is_named || row.facts(|facts| facts.remote_ip.as_deref()) == Some(wanted) || begins
        };
        let mut found: Vec<_> = rows.iter().filter(is_called).collect();
        // One that is there is meant, not one of the same name that was there.
        if found.iter().any(|row| row.is_connected()) {
            found.retain(|row| row.is_connected());
        }
        match found.as_slice() {
            [] => {
                let label = |row: &NodeRow| row.name().unwrap_or(&row.node_id).to_owned();
                let known = rows.iter().map(label).collect();
                Err(FindNodeError::Unknown { name: wanted.to_owned(), known })
            }
            [one] => Ok((*one).clone()),
            many => {
                let matches = many.iter().map(|row| row.node_id.clone()).collect();
                Err(FindNodeError::Ambiguous { name: wanted.to_owned(), matches })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_in_any_case_and_with_anything_between_its_words() {
        for (one, other) in [
            ("Ann\u{2019}s iPhone", "ann's iphone"),
            ("Büro (links)", "BÜRO LINKS"),
            ("\u{1f4f1}", "\u{1f4f1}"),
        ] {
            assert!(is_same_name(one, other), "{one} {other}");
        }
        for (one, other) in [("Phone 1", "Phone 11"), ("\u{1f4f1}", "\u{1f4bb}"), ("Phone", "")] {
            assert!(!is_same_name(one, other), "{one} {other}");
        }
    }
}
