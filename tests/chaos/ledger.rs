//! What was acknowledged, and whether it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use clawgate::sessions::SessionQuery;
use clawgate::store::{SqliteStore, Store};
use parking_lot::Mutex;
use serde_json::Value;

/// A message as a client sent it; its text is like no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub session: String,
    pub text: String,
}

/// The acknowledged messages, in the order the answers came.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<Sent>>>);

impl Ledger {
    pub fn acknowledge(&self, sent: Sent) {
        self.0.lock().push(sent);
    }

    pub fn acknowledged(&self) -> Vec<Sent> {
        self.0.lock().clone()
    }

    pub fn sessions(&self) -> BTreeSet<String> {
        self.0.lock().iter().map(|sent| sent.session.clone()).collect()
    }

    /// Every transcript ends with a whole line; every acknowledged message is
    /// on exactly one line.
    pub fn check_transcripts(&self, folder: &Path) {
        let mut counts = BTreeMap::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // What was put away by a reset counts as well.
            if !path.file_name().unwrap().to_string_lossy().contains(".jsonl") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.is_empty() || text.ends_with('\n'), "{} ends torn", path.display());
            for (number, line) in text.lines().enumerate() {
                match serde_json::from_str::<Value>(line) {
                    Ok(line) => count_text(&mut counts, &line["message"]),
                    // Cut by a kill and closed by the next start: nobody was
                    // told that it was written, or the count below is wrong.
                    Err(error) => println!("{}:{}: {error}", path.display(), number + 1),
                }
            }
        }
        for sent in self.acknowledged() {
            let count = counts.get(&sent.text).copied().unwrap_or_default();
            assert_eq!(count, 1, "in the transcripts: {sent:?}");
        }
    }

    /// Nothing is twice in the newest page of a session's history; what is not
    /// in it is older, or was put away.
    pub fn check_history(&self, session: &str, messages: &Value) {
        let messages = messages.as_array().unwrap();
        let mut counts = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for message in messages {
            let id = message["__openclaw"]["id"].as_str().unwrap();
            assert!(ids.insert(id), "{id} is twice in the history of {session}");
            count_text(&mut counts, message);
        }
        for sent in self.acknowledged().iter().filter(|sent| sent.session == session) {
            let count = counts.get(&sent.text).copied().unwrap_or_default();
            assert!(count <= 1, "{count} times: {sent:?}");
        }
    }

    /// After a stop no run is open, and the index says of every transcript what
    /// the file says.
    pub async fn check_store(&self, state_dir: &Path) {
        let store = SqliteStore::open(&state_dir.join("clawgate.sqlite")).unwrap();
        assert_eq!(store.unsettled_runs().await.unwrap(), []);
        let all = store.list_sessions(SessionQuery::default()).await.unwrap().entries;
        for row in &all {
            assert_ne!(row.entry.status.as_deref(), Some("running"), "{}", row.key);
        }
        // In those of jobs nobody says anything.
        let said_in = all.into_iter().filter(|row| !row.key.contains(":cron:"));
        let said_in: Vec<_> = said_in.collect();
        assert_eq!(said_in.len(), self.sessions().len());
        for row in said_in {
            let facts = &row.entry.transcript;
            let text = fs::read_to_string(row.entry.session_file.as_ref().unwrap()).unwrap();
            let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let entries: Vec<_> = entries.filter(|line| line["type"] == "message").collect();
            assert_eq!(facts.message_count, entries.len() as u64, "{}", row.key);
            assert_eq!(facts.bytes, text.len() as u64, "{}", row.key);
            let last = entries.last().map(|entry| entry["id"].as_str().unwrap().to_owned());
            assert_eq!(facts.leaf_id, last, "{}", row.key);
        }
    }
}

fn count_text(counts: &mut BTreeMap<String, usize>, message: &Value) {
    if let Some(text) = message["content"][0]["text"].as_str() {
        *counts.entry(text.to_owned()).or_default() += 1;
    }
}
