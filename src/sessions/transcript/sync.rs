//! Syncing many files at once.
//!
//! Owns: how many threads do it. Promises: who has been told that a file is synced has its
//! lines on disk; one that fails fails alone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::file::OpenTranscript;
use crate::sessions::error::{At, TranscriptError};
use crate::telemetry::metrics::NUMBERS;

/// Threads that sync where the disk answers at once. What a sync takes there is mostly work
/// of the kernel: a hundred files took 13 ms in one thread, 4 in four and 8 in sixteen.
const THREADS: usize = 4;
/// Files that are worth a thread there.
const THREAD_FILES: usize = 8;
/// A sync that takes longer waits for the disk, which takes many at once for little more
/// than one. Sixteen threads at a disk that answers at once wait for each other half of it.
const SLOW: Duration = Duration::from_millis(2);
/// Threads that sync then.
const SLOW_THREADS: usize = 16;

/// A file, and the handle that wrote it.
pub(super) type Written<'a> = (&'a Path, &'a OpenTranscript);

/// Syncs files.
#[derive(Default)]
pub(super) struct Syncs {
    /// What one sync took in the last group, beside those of other threads.
    took: Duration,
}

impl Syncs {
    /// Syncs each of these files; answers those that failed.
    pub(super) fn all(&mut self, files: &[Written<'_>]) -> HashMap<PathBuf, TranscriptError> {
        if files.is_empty() {
            return HashMap::new();
        }
        let began = Instant::now();
        let share = files.len().div_ceil(threads(files.len(), self.took));
        let (ours, others) = files.split_at(share);
        let mut failed = HashMap::new();
        thread::scope(|scope| {
            let start = |share| {
                let sync = thread::Builder::new().spawn_scoped(scope, move || sync_share(share));
                (share, sync)
            };
            let syncs: Vec<_> = others.chunks(share).map(start).collect();
            let first = Instant::now();
            failed.extend(sync_share(ours));
            self.took = first.elapsed() / u32::try_from(ours.len()).unwrap_or(u32::MAX);
            for (share, sync) in syncs {
                // A system without room for a thread still has ours; a thread that
                // panicked has not said that its files are synced.
                let stopped =
                    |(path, _): &Written<'_>| (path.to_path_buf(), TranscriptError::Stopped);
                failed.extend(match sync {
                    Ok(sync) => sync.join().unwrap_or_else(|_| share.iter().map(stopped).collect()),
                    Err(_) => sync_share(share),
                });
            }
        });
        NUMBERS.syncs.note(began.elapsed());
        failed
    }
}

/// How many threads sync so many files, when each takes this long.
fn threads(files: usize, each: Duration) -> usize {
    if each < SLOW {
        (files / THREAD_FILES).clamp(1, THREADS)
    } else {
        files.clamp(1, SLOW_THREADS)
    }
}

fn sync_share(share: &[Written<'_>]) -> Vec<(PathBuf, TranscriptError)> {
    let failure = |(path, file): &Written<'_>| {
        let error = file.sync().at("sync", path).err()?;
        Some((path.to_path_buf(), error))
    };
    share.iter().filter_map(failure).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::place;
    use super::super::{Position, TranscriptFormat};
    use super::*;

    #[test]
    fn a_slow_disk_gets_many_at_once_and_a_fast_one_few() {
        let of = |each| [1, 7, 8, 17, 100, 256].map(|files| threads(files, each));
        assert_eq!(of(Duration::from_micros(200)), [1, 1, 1, 2, 4, 4]);
        assert_eq!(of(Duration::from_millis(5)), [1, 7, 8, 16, 16, 16]);
    }

    #[test]
    fn of_many_files_only_those_fail_that_do() {
        let folder = tempfile::tempdir().unwrap();
        let mut paths: Vec<_> =
            (0..100).map(|index| folder.path().join(index.to_string())).collect();
        let broken = [0, 26, 57, 99];
        for index in broken {
            // What cannot be synced, each by a name of its own.
            paths[index] = PathBuf::from("/dev").join("../dev/".repeat(index)).join("null");
        }
        let open = |path: &PathBuf| {
            OpenTranscript::open(&place(path, TranscriptFormat::OpenClaw, Position::default()))
        };
        let opened: Vec<_> = paths.iter().map(|path| open(path).unwrap()).collect();
        let files: Vec<Written<'_>> = paths.iter().map(PathBuf::as_path).zip(&opened).collect();
        for took in [Duration::ZERO, SLOW] {
            let failed = Syncs { took }.all(&files);
            let mut failed: Vec<_> = failed.keys().collect();
            failed.sort();
            let mut expected = broken.map(|index| &paths[index]);
            expected.sort();
            assert_eq!(failed, expected);
        }
        assert!(Syncs::default().all(&[]).is_empty());
    }
}
