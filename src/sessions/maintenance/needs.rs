//! The files that sessions need.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::super::service::Sessions;
use super::super::{SessionKey, paths};
use crate::store::{CompactionCheckpoint, SessionRow};

/// What a session needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Needed {
    pub files: HashSet<PathBuf>,
    /// Transcripts that checkpoints go back to, and when those were made. A kill
    /// may come between a later cut and the note of it in the checkpoint.
    back_to: HashSet<(PathBuf, u64)>,
}

/// What sessions need.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// How many need each file.
    files: HashMap<PathBuf, usize>,
    /// What checkpoints go back to, by transcript, for each that needs it.
    back_to: HashMap<PathBuf, Vec<u64>>,
}

impl Needs {
    /// A session is there.
    pub fn add(&mut self, needed: Needed) {
        for file in needed.files {
            *self.files.entry(file).or_default() += 1;
        }
        for (transcript, made_at) in needed.back_to {
            self.back_to.entry(transcript).or_default().push(made_at);
        }
    }

    /// A session is gone.
    pub fn remove(&mut self, needed: &Needed) {
        for file in &needed.files {
            if let Some(count) = self.files.get_mut(file) {
                *count = count.saturating_sub(1);
            }
        }
        for (transcript, made_at) in &needed.back_to {
            if let Some(times) = self.back_to.get_mut(transcript)
                && let Some(index) = times.iter().position(|time| time == made_at)
            {
                times.swap_remove(index);
            }
        }
    }

    /// How many sessions need this file.
    pub fn count(&self, file: &Path) -> usize {
        let named = self.files.get(file).copied().unwrap_or_default();
        named.saturating_add(self.count_back_to(file).unwrap_or_default())
    }

    /// How many checkpoints may be in this file, because it was cut off their
    /// transcript after they were made.
    fn count_back_to(&self, file: &Path) -> Option<usize> {
        let archive = paths::archive(file.file_name()?.to_str()?)?;
        let times = self.back_to.get(&paths::file(file.parent()?, &archive.id))?;
        let before = times.iter().filter(|made_at| **made_at <= archive.archived_at);
        (archive.reason == "bak").then(|| before.count())
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
    pub(super) fn needed_by(&self, row: &SessionRow) -> Needed {
        let key = SessionKey::from_canonical(row.key.as_str());
        let place = |checkpoint: &CompactionCheckpoint| {
            Some((self.file_before(&key, checkpoint)?, checkpoint.created_at))
        };
        let back_to: HashSet<_> =
            row.entry.compaction_checkpoints.iter().filter_map(place).collect();
        let before = back_to.iter().map(|(file, _)| file.clone());
        let files = before.chain(self.path(&key, &row.entry).ok()).collect();
        Needed { files, back_to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_needed_by_checkpoints_that_were_made_before_it() {
        let transcript = PathBuf::from("/s/a.jsonl");
        let needed = |made_at| Needed {
            back_to: HashSet::from([(transcript.clone(), made_at)]),
            ..Needed::default()
        };
        let cut = Path::new("/s/a.jsonl.bak.1970-01-01T00-00-05.000Z");
        let mut needs = Needs::default();
        for made_at in [4000, 5000, 5001] {
            needs.add(needed(made_at));
        }
        assert_eq!(needs.count(cut), 2);
        for other in ["/s/b.jsonl.bak", "/t/a.jsonl.bak", "/s/a.jsonl.reset"] {
            let other = format!("{other}.1970-01-01T00-00-05.000Z");
            assert_eq!(needs.count(Path::new(&other)), 0, "{other}");
        }
        needs.remove(&needed(4000));
        assert_eq!(needs.count(cut), 1);
    }
}
