//! What was acknowledged, and whether it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

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
            if path.extension().is_none_or(|extension| extension != "jsonl") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.is_empty() || text.ends_with('\n'), "{} ends torn", path.display());
            for (number, line) in text.lines().enumerate() {
                match serde_json::from_str::<Value>(line) {
                    Ok(line) => count_user_text(&mut counts, &line["message"]),
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

    /// The newest page of a session's history has all that is acknowledged,
    /// once; older messages are in the transcript.
    pub fn check_history(&self, session: &str, messages: &Value) {
        let messages = messages.as_array().unwrap();
        let mut counts = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for message in messages {
            let id = message["__openclaw"]["id"].as_str().unwrap();
            assert!(ids.insert(id), "{id} is twice in the history of {session}");
            count_user_text(&mut counts, message);
        }
        let is_whole = messages.len() < 1000;
        for sent in self.acknowledged().iter().filter(|sent| sent.session == session) {
            let count = counts.get(&sent.text).copied().unwrap_or_default();
            assert!(count == 1 || (count == 0 && !is_whole), "{count} times: {sent:?}");
        }
    }
}

fn count_user_text(counts: &mut BTreeMap<String, usize>, message: &Value) {
    if message["role"] == "user" {
        let text = message["content"][0]["text"].as_str().unwrap().to_owned();
        *counts.entry(text).or_default() += 1;
    }
}
