//! The files that sessions need.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::super::SessionKey;
use super::super::service::Sessions;
use crate::store::SessionRow;

/// How many sessions need each file.
#[derive(Debug, Default)]
pub(super) struct Needs(HashMap<PathBuf, usize>);

impl Needs {
    /// A session is there.
    pub fn add(&mut self, files: HashSet<PathBuf>) {
        for file in files {
            *self.0.entry(file).or_default() += 1;
        }
    }

    /// A session is gone.
    pub fn remove(&mut self, files: &HashSet<PathBuf>) {
        for file in files {
            if let Some(count) = self.0.get_mut(file) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// How many sessions need this file.
    pub fn count(&self, file: &Path) -> usize {
        self.0.get(file).copied().unwrap_or_default()
    }
}

impl Sessions {
    /// Key and transcript of a session.
    pub(super) fn place_of(&self, row: &SessionRow) -> Option<(SessionKey, PathBuf)> {
        let key = SessionKey::from_canonical(row.key.as_str());
        let path = self.path(&key, &row.entry).ok()?;
        Some((key, path))
    }

    /// The transcript of a session, and what its checkpoints go back to.
    pub(super) fn needed_by(&self, row: &SessionRow) -> HashSet<PathBuf> {
        let key = SessionKey::from_canonical(row.key.as_str());
        let before = row.entry.compaction_checkpoints.iter();
        let before = before.filter_map(|checkpoint| self.file_before(&key, checkpoint));
        before.chain(self.path(&key, &row.entry).ok()).collect()
    }
}
