//! What an agent remembers: `MEMORY.md` and `memory/*.md` of its workspace.
//!
//! Owns: which files are memory, their chunks, the search. Promises: what was
//! written before a search is found by it; no file outside of the workspace is
//! memory. Must not: change a file.

mod chunks;
mod files;
mod words;

use crate::agent::reach::{Reach, ReachError};
use crate::store::{MemoryHit, Store, StoreError};

pub use files::{Excerpt, excerpt, is_memory};

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

/// The memory of a workspace that fits some words best. Files that changed
/// since they were looked at are read again first.
///
/// # Errors
/// When files or index cannot be read.
pub async fn search(
    store: &dyn Store,
    reach: &Reach,
    query: &str,
    limit: usize,
) -> Result<Vec<MemoryHit>, MemoryError> {
    let reach = reach.limited(true);
    let workspace = reach.workspace().display().to_string();
    let known = store.memory_files(&workspace).await?;
    let looked = tokio::task::spawn_blocking(move || files::changes(&reach, known)).await;
    let (updates, gone) = looked.map_err(|_| MemoryError::Stopped)??;
    if !updates.is_empty() || !gone.is_empty() {
        store.update_memory(&workspace, updates, gone).await?;
    }
    let terms = words::terms(query);
    if terms.is_empty() {
        return Ok(Vec::new());
    }
    Ok(store.search_memory(&workspace, terms, limit).await?)
}
