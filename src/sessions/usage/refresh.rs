//! Taking in what transcripts have got since they were read last.
//!
//! Promises: one reads at a time, and for a bounded time; what is left is read
//! when somebody asks again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::super::error::{At, SessionError};
use super::super::steps::blocking;
use super::files::TranscriptFile;
use super::scan;
use crate::store::{Store, UsageFile, UsageScan};

/// How long an answer waits for transcripts to be read: dashboards show what
/// there is and ask again.
const LIMIT: Duration = Duration::from_secs(3);

/// Stretches that share a commit: enough that the disk's syncs do not count,
/// few enough that other writes do not wait for long.
const GROUP_MAX: usize = 64;

/// How much of what was asked for has been read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheStatus {
    /// `fresh`, or `refreshing` while something is left to read.
    status: &'static str,
    /// Transcripts that were looked at.
    cached_files: usize,
    /// Those of them that are still to be read.
    pending_files: usize,
    /// The same: they hold more than is known of them.
    stale_files: usize,
    /// Those that cannot be read, if any: what they hold is not counted. Nobody need ask
    /// again for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_files: Option<usize>,
    /// When this was.
    refreshed_at: u64,
}

/// How far a file was read.
enum Extent {
    /// To its end.
    Whole,
    /// Until time ran out.
    Part,
    /// It cannot be read.
    Unreadable,
}

/// Reads transcripts, one caller at a time.
pub(super) struct Refresher {
    store: Arc<dyn Store>,
    turn: Semaphore,
}

impl Refresher {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, turn: Semaphore::new(1) }
    }

    /// Reads what is new in these files.
    pub async fn refresh(
        &self,
        files: &[TranscriptFile],
        now_ms: u64,
    ) -> Result<CacheStatus, SessionError> {
        let deadline = Instant::now() + LIMIT;
        let (mut pending, mut failed) = (0, 0);
        if let Ok(turn) = timeout_at(deadline, self.turn.acquire()).await {
            let known = self.known().await?;
            let mut found = Vec::new();
            for file in files {
                let known = known.get(&file.key());
                match self.read(file, known, deadline, &mut found).await? {
                    Extent::Whole => {}
                    Extent::Part => pending += 1,
                    Extent::Unreadable => failed += 1,
                }
            }
            self.store.record_usage(found).await?;
            drop(turn);
        } else {
            let known = self.known().await?;
            let is_stale = |file: &&TranscriptFile| scan::is_stale(file, known.get(&file.key()));
            pending = files.iter().filter(is_stale).count();
        }
        Ok(CacheStatus {
            status: if pending == 0 { "fresh" } else { "refreshing" },
            cached_files: files.len(),
            pending_files: pending,
            stale_files: pending,
            failed_files: Some(failed).filter(|failed| *failed > 0),
            refreshed_at: now_ms,
        })
    }

    /// How far files were read, by agent and name.
    pub async fn known(&self) -> Result<HashMap<(String, String), UsageFile>, SessionError> {
        let files = self.store.usage_files().await?;
        Ok(files.into_iter().map(|file| ((file.agent.clone(), file.name.clone()), file)).collect())
    }

    /// Reads a file to its end, or until time runs out. What was read is recorded with
    /// what `found` holds, now or later.
    async fn read(
        &self,
        file: &TranscriptFile,
        known: Option<&UsageFile>,
        deadline: Instant,
        found: &mut Vec<UsageScan>,
    ) -> Result<Extent, SessionError> {
        let mut known = known.cloned();
        while scan::is_stale(file, known.as_ref()) {
            if Instant::now() >= deadline {
                return Ok(Extent::Part);
            }
            let (place, so_far) = (file.clone(), known.clone());
            let stretch =
                blocking(move || scan::read_on(&place, so_far.as_ref()).at("read", &place.path));
            let stretch = match stretch.await {
                Ok(stretch) => stretch,
                Err(error) => {
                    tracing::warn!(%error, "usage of this transcript is left out");
                    return Ok(Extent::Unreadable);
                }
            };
            // A file that grew meanwhile is read on when somebody asks again.
            let is_done =
                stretch.file.read_to == stretch.file.length || stretch.file.length >= file.length;
            let moved = stretch.file.read_to > known.as_ref().map_or(0, |known| known.read_to);
            known = Some(stretch.file.clone());
            found.push(stretch);
            if found.len() >= GROUP_MAX {
                self.store.record_usage(std::mem::take(found)).await?;
            }
            if is_done || !moved {
                break;
            }
        }
        Ok(Extent::Whole)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::super::AgentId;
    use super::*;
    use crate::store::SqliteStore;

    #[tokio::test]
    async fn what_cannot_be_read_is_told_and_nobody_need_ask_again_for_it() {
        let home = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&home.path().join("x.sqlite")).unwrap());
        let agent = AgentId::normalize("main");
        let [one, other] = ["one.jsonl", "other.jsonl"].map(|name| home.path().join(name));
        let files = [&one, &other].map(|path| {
            fs::write(path, "{\"role\":\"user\",\"content\":\"x\",\"timestamp\":1}\n").unwrap();
            TranscriptFile::look(&agent, path).unwrap().unwrap()
        });
        let refresher = Refresher::new(store);
        // A folder is in its place since it was looked at: nobody can read that, root included.
        fs::remove_file(&other).unwrap();
        fs::create_dir(&other).unwrap();
        let fresh = CacheStatus {
            status: "fresh",
            cached_files: 2,
            pending_files: 0,
            stale_files: 0,
            failed_files: Some(1),
            refreshed_at: 7,
        };
        // What was read is known then; the other one is tried again.
        for _ in 0..2 {
            assert_eq!(refresher.refresh(&files, 7).await.unwrap(), fresh);
        }
        assert_eq!(refresher.known().await.unwrap().len(), 1);
        let told = serde_json::to_value(&fresh).unwrap();
        assert_eq!(told["failedFiles"], 1);
        fs::remove_dir(&other).unwrap();
        fs::write(&other, "").unwrap();
        let mended = refresher.refresh(&files, 7).await.unwrap();
        assert_eq!(mended, CacheStatus { failed_files: None, ..fresh });
    }
}
