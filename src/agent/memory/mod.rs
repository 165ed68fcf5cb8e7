//! What an agent remembers: `MEMORY.md` and `memory/*.md` of its workspace.
//!
//! Owns: which files are memory, their chunks, the search. Promises: what was
//! written before a search is found by it; no file outside of the workspace is
//! memory. Must not: change a file; what dreams of the original left is for
//! [`dreams`], [`clear`](clear()) takes all away, and a session that begins anew adds one.

mod chunks;
mod clear;
pub mod dreams;
mod files;
mod session;
mod words;

use files::Changes;

use crate::agent::reach::{Reach, ReachError};
use crate::store::{MemoryHit, MemoryUpdate, Store, StoreError};
use crate::support::blocking;

pub use clear::{ClearError, clear};
pub use files::{Excerpt, FILES_MAX, excerpt, is_memory};

/// Bytes that are indexed in one step: everybody else who writes to the database
/// waits for it.
const STEP_MAX: usize = 256 * 1024;

/// Why memory is not searched.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The index failed.
    #[error("memory index: {0}")]
    Store(#[from] StoreError),
    /// The files failed.
    #[error("memory files: {0}")]
    Files(#[from] ReachError),
    /// The gateway is stopping.
    #[error("memory search was cut off")]
    Stopped,
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Found {
    /// The best first.
    pub hits: Vec<MemoryHit>,
    /// What was not searched, if anything.
    pub note: Option<String>,
}

/// The memory of a workspace that fits some words best. Files that changed
/// since they were looked at are read again first. `now_ms` is the time.
///
/// # Errors
/// When files or index cannot be read.
pub async fn search(
    store: &dyn Store,
    reach: &Reach,
    query: &str,
    limit: usize,
    now_ms: u64,
) -> Result<Found, MemoryError> {
    let reach = reach.limited(true);
    let workspace = reach.workspace().display().to_string();
    let known = store.memory_files(&workspace).await?;
    let looked = blocking(move || files::changes(&reach, known, now_ms)).await;
    let looked = looked.map_err(|_| MemoryError::Stopped)??;
    let note = note(&looked);
    let Changes { updates, gone, .. } = looked;
    if let (Some(note), false) = (&note, updates.is_empty()) {
        tracing::warn!(workspace, "memory: {note}");
    }
    if !gone.is_empty() {
        store.update_memory(&workspace, Vec::new(), gone).await?;
    }
    for step in steps(updates) {
        store.update_memory(&workspace, step, Vec::new()).await?;
    }
    let terms = words::terms(query);
    if terms.is_empty() {
        return Ok(Found { note, ..Found::default() });
    }
    Ok(Found { hits: store.search_memory(&workspace, terms, limit).await?, note })
}

/// What is not searched, so that nobody takes it for something that was never noted.
fn note(changes: &Changes) -> Option<String> {
    let &Changes { left_out, waiting, .. } = changes;
    if left_out > 0 {
        Some(format!(
            "only the newest {FILES_MAX} files are searched; {left_out} older ones are left out"
        ))
    } else if waiting > 0 {
        Some(format!("{waiting} files are not read yet; the next search reads on"))
    } else {
        None
    }
}

/// The updates in steps, in their order; one that is larger is a step alone.
fn steps(updates: Vec<MemoryUpdate>) -> Vec<Vec<MemoryUpdate>> {
    let mut steps: Vec<Vec<MemoryUpdate>> = Vec::new();
    let mut room = 0;
    for update in updates {
        let chunks = update.chunks.iter().flatten();
        let size: usize = chunks.map(|chunk| chunk.text.len() + chunk.words.len()).sum();
        match steps.last_mut() {
            Some(step) if size <= room => step.push(update),
            _ => {
                steps.push(vec![update]);
                room = STEP_MAX;
            }
        }
        room = room.saturating_sub(size);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryChunk;

    #[test]
    fn what_is_not_searched_is_told() {
        let told = |left_out, waiting| {
            note(&Changes { left_out, waiting, ..Changes::default() }).unwrap_or_default()
        };
        assert_eq!(told(0, 0), "");
        assert!(told(2, 1).contains("2 older ones"), "{}", told(2, 1));
        assert!(told(0, 3).starts_with("3 files are not read yet"), "{}", told(0, 3));
    }

    #[test]
    fn what_is_indexed_in_one_step_is_little() {
        let update = |size: usize| {
            let chunk = MemoryChunk { text: "x".repeat(size), ..MemoryChunk::default() };
            MemoryUpdate { chunks: Some(vec![chunk]), ..MemoryUpdate::default() }
        };
        let half = STEP_MAX / 2;
        let sizes = [1, half, half, half, 3 * half, 1, 2 * half];
        let steps = steps(sizes.map(update).to_vec());
        let counts: Vec<_> = steps.iter().map(Vec::len).collect();
        assert_eq!(counts, [2, 2, 1, 1, 1]);
        let flat: Vec<_> = steps.into_iter().flatten().collect();
        assert_eq!(flat, sizes.map(update));
    }
}
