//! The files of a sessions folder, and which go when there are too many bytes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::SessionId;
use super::super::paths::{self, Seen};
use super::needs::Needs;
use crate::config::DiskBudget;
use crate::store::atomic::is_staged;
use crate::support::sort;

/// A file without a session that is younger than this may just have begun.
const ORPHAN_AGE_MS: u64 = 60 * 60 * 1000;

/// `diskBudget` of a cleanup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetReport {
    /// Bytes in the folder.
    pub total_bytes_before: u64,
    /// Bytes that are left, or would be.
    pub total_bytes_after: u64,
    /// Files that went.
    pub removed_files: u64,
    /// Sessions that went.
    pub removed_entries: u64,
    /// Bytes that went.
    pub freed_bytes: u64,
    /// The bound.
    pub max_bytes: u64,
    /// How many may be left when the bound is passed.
    pub high_water_bytes: u64,
    /// Whether there is still more than the bound.
    pub over_budget: bool,
}

impl BudgetReport {
    /// Nothing has gone yet.
    pub fn new(total: u64, budget: DiskBudget) -> Self {
        Self {
            total_bytes_before: total,
            total_bytes_after: total,
            removed_files: 0,
            removed_entries: 0,
            freed_bytes: 0,
            max_bytes: budget.max_bytes,
            high_water_bytes: budget.high_water_bytes,
            over_budget: total > budget.max_bytes,
        }
    }

    /// Whether more has to go.
    pub fn wants_more(&self) -> bool {
        self.total_bytes_before > self.max_bytes && self.total_bytes_after > self.high_water_bytes
    }

    /// Takes in that a file goes.
    pub fn freed(&mut self, bytes: u64) {
        self.removed_files += 1;
        self.freed_bytes = self.freed_bytes.saturating_add(bytes);
        self.total_bytes_after = self.total_bytes_after.saturating_sub(bytes);
        self.over_budget = self.total_bytes_after > self.max_bytes;
    }
}

/// A file of a sessions folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub path: PathBuf,
    pub bytes: u64,
    pub modified_ms: u64,
    /// When it was put away, if it was.
    pub archived_at: Option<u64>,
}

/// The files of a folder.
pub(super) fn files(folder: &Path) -> io::Result<Vec<Stored>> {
    let stored = |Seen { path, bytes, modified_ms }| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let archived_at = paths::archive(name).map(|archive| archive.archived_at);
        Stored { path, bytes, modified_ms, archived_at }
    };
    Ok(paths::files(folder)?.into_iter().map(stored).collect())
}

/// What may go before any session does, the oldest first: transcripts that were
/// put away, and those of no session, with what the original has written of them; never
/// what a session needs.
pub(super) fn spare(files: &[Stored], needs: &Needs, now_ms: u64) -> Vec<Stored> {
    let is_orphan = |file: &Stored| {
        let is_of_none = transcript_of(&file.path).is_some_and(|path| needs.count(&path) == 0);
        is_of_none && now_ms.saturating_sub(file.modified_ms) > ORPHAN_AGE_MS
    };
    let is_spare = |file: &&Stored| {
        needs.count(&file.path) == 0 && (file.archived_at.is_some() || is_orphan(file))
    };
    let mut spare: Vec<_> = files.iter().filter(is_spare).cloned().collect();
    sort::by_key(&mut spare, |file| file.archived_at.unwrap_or(file.modified_ms));
    spare
}

/// The transcript that a file is about, which a copy from before a compaction is itself;
/// `None` for other files.
fn transcript_of(path: &Path) -> Option<PathBuf> {
    let id = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    let id = SessionId::parse(id.strip_suffix(".trajectory").unwrap_or(id))?;
    Some(paths::file(path.parent()?, &id))
}

/// What a kill left half written; nobody was ever told of it.
pub(super) fn leftovers(files: &[Stored], now_ms: u64) -> Vec<Stored> {
    let is_left = |file: &&Stored| {
        let name = file.path.file_name().unwrap_or_default();
        is_staged(name.as_encoded_bytes())
            && now_ms.saturating_sub(file.modified_ms) > ORPHAN_AGE_MS
    };
    files.iter().filter(is_left).cloned().collect()
}

/// Removes a file; that it is gone already is as good.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::needs::Needed;
    use super::*;

    #[test]
    fn copies_and_diagnostics_of_no_session_may_go_and_those_of_one_stay() {
        let file = |name: &str| Stored {
            path: Path::new("/s").join(name),
            bytes: 1,
            modified_ms: 1,
            archived_at: None,
        };
        let mut needed = Needed::default();
        needed.files.extend(["/s/a.jsonl", "/s/a.checkpoint.1.jsonl"].map(PathBuf::from));
        let mut needs = Needs::default();
        needs.add(needed);
        let spared = ["b.jsonl", "b.checkpoint.1.jsonl", "b.trajectory.jsonl"].map(file);
        let others =
            ["a.jsonl", "a.checkpoint.1.jsonl", "a.trajectory.jsonl", "sessions.json"].map(file);
        let files = [&others[..], &spared[..]].concat();
        assert_eq!(spare(&files, &needs, 2 * ORPHAN_AGE_MS), spared);
        assert!(spare(&files, &needs, ORPHAN_AGE_MS).is_empty(), "one may just have begun");
    }
}
