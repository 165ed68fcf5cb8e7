//! One change at a time per file: calls of one answer run in parallel.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::place::PlaceId;
use crate::support::sort;

/// From so many on, those that nobody holds are dropped before one is added.
const TIDY_FROM: usize = 64;

type Lock = tokio::sync::Mutex<()>;

/// The files that are being changed.
#[derive(Clone, Default)]
pub struct FileLocks {
    files: Arc<Mutex<HashMap<PlaceId, Weak<Lock>>>>,
}

impl FileLocks {
    /// Waits until nobody else changes any of these files. They are taken in
    /// one order, so that two calls never wait for each other.
    pub async fn take(&self, mut files: Vec<PlaceId>) -> Vec<OwnedMutexGuard<()>> {
        sort::plain(&mut files);
        files.dedup();
        let mut held = Vec::with_capacity(files.len());
        for file in files {
            held.push(self.lock(file).lock_owned().await);
        }
        held
    }

    fn lock(&self, file: PlaceId) -> Arc<Lock> {
        let mut files = self.files.lock();
        if files.len() >= TIDY_FROM {
            files.retain(|_, lock| lock.strong_count() > 0);
        }
        let known = files.get(&file).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let lock = Arc::new(Lock::default());
            files.insert(file, Arc::downgrade(&lock));
            lock
        })
    }
}
