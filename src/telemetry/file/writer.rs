//! The thread that writes the log file.
//!
//! Promises: lines are written whole, in their order, many at once when many
//! wait; of those that the disk does not take, or that were too many at once, their number is
//! written when it takes some again; a file is put away when it would become too large, or
//! what came after it is in another one, and a new one begun with each day; what is too old
//! or too much is removed. A file that somebody moved, removed or emptied is begun anew, after
//! all that was logged.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

use super::place::{LogPlace, Opened, archive, open_to_write, read_at};
use super::{Job, LOST};
use crate::support::{Clock, SystemClock, trouble};
use crate::telemetry::line;

/// Files that are kept beside the one that is written.
const KEPT_FILES: usize = 8;
/// How long they are kept, in seconds: a week.
const KEPT_SECONDS: i64 = 7 * 24 * 3600;
/// Its name among the parts of the gateway.
const LOG: &str = "log";
/// Lines that are written in one go.
const BATCH: usize = 256;

/// Does what comes in, until nobody can send any more.
pub(super) fn serve(place: LogPlace, mut jobs: mpsc::Receiver<Job>) {
    trouble::tell(LOG, None);
    let mut writer = Writer::new(place);
    let mut batch = Vec::new();
    while jobs.blocking_recv_many(&mut batch, BATCH) > 0 {
        let mut lines = String::new();
        let lost = LOST.swap(0, Ordering::Relaxed);
        for job in batch.drain(..) {
            match job {
                Job::Line(event) => lines.push_str(&event.line()),
                Job::Place(place) => {
                    writer.put(&std::mem::take(&mut lines));
                    trouble::tell(LOG, None);
                    writer = Writer { lost: writer.lost, ..Writer::new(place) };
                }
                Job::Flush(done) => {
                    writer.put(&std::mem::take(&mut lines));
                    // Who asked may have gone.
                    let _ = done.send(());
                }
            }
        }
        writer.put(&lines);
        writer.miss(lost);
    }
}

struct Writer {
    place: LogPlace,
    open: Option<Opened>,
    has_failed: bool,
    /// Lines that are missing since the disk last took one.
    lost: u64,
}

impl Writer {
    fn new(place: LogPlace) -> Self {
        Self { place, open: None, has_failed: false, lost: 0 }
    }

    /// Tells of lines that did not come here: they were too many at once.
    fn miss(&mut self, count: u64) {
        if count > 0 {
            self.lost += count;
            self.put("");
        }
    }

    /// Writes the lines, after how many are missing, and notes whether that worked.
    fn put(&mut self, lines: &str) {
        if lines.is_empty() && self.lost == 0 {
            return;
        }
        let now_ms = SystemClock.now_ms();
        let written = self.write(lines, now_ms);
        match written {
            Ok(()) if self.has_failed => {
                self.has_failed = false;
                trouble::tell(LOG, None);
            }
            Ok(()) => {}
            Err(error) => {
                self.open = None;
                // Not each error names a file.
                let path = self.place.current(now_ms);
                trouble::tell(LOG, Some(format!("cannot write {}: {error}", path.display())));
                // This line finds its way to standard error only.
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::error!(%error, "the log file cannot be written");
                }
            }
        }
    }

    /// Writes lines. Those that are not written are counted, and told of before the next.
    fn write(&mut self, lines: &str, now_ms: u64) -> io::Result<()> {
        let mut written = self.tell_lost(now_ms);
        for line in lines.split_inclusive('\n') {
            if written.is_ok() {
                written = self.write_line(line, now_ms);
            }
            self.lost += u64::from(written.is_err());
        }
        written
    }

    fn tell_lost(&mut self, now_ms: u64) -> io::Result<()> {
        if self.lost > 0 {
            let lost = self.lost;
            let text = format!(
                "{lost} lines were not logged: they could not be written, or were too many at once"
            );
            self.write_line(&line::own(&text, now_ms), now_ms)?;
            self.lost = 0;
        }
        Ok(())
    }

    fn write_line(&mut self, line: &str, now_ms: u64) -> io::Result<()> {
        let size = line.len() as u64;
        let current = self.place.current(now_ms);
        if !self.open.as_ref().is_some_and(|open| open.path == current && is_same(open)) {
            self.open = Some(self.begin(&current, now_ms)?);
        }
        let fits = |open: &Opened| open.len + size <= self.place.max_bytes;
        if let Some(full) = self.open.take_if(|open| !fits(open)) {
            fs::rename(&full.path, archive(&full.path)?)?;
            self.open = Some(self.begin(&full.path, now_ms)?);
        }
        if let Some(open) = &mut self.open {
            open.file.write_all(line.as_bytes())?;
            open.len += size;
        }
        Ok(())
    }

    /// Opens the file to go on in; a new one says how much came before it.
    fn begin(&self, path: &Path, now_ms: u64) -> io::Result<Opened> {
        self.place.make_dir(path)?;
        let mut open = open_to_write(path)?;
        // A folder that cannot be listed tells nothing.
        let last = || self.place.files(now_ms).ok()?.pop();
        if open.len > 0 && last().is_some_and(|last| last.path != path) {
            // More was logged since, on a day that is yet to come: the clock was put right.
            fs::rename(path, archive(path)?)?;
            open = open_to_write(path)?;
        }
        if open.len == 0 {
            self.tidy(path, now_ms);
            let files = self.place.files(now_ms)?;
            // What somebody took away was logged as well.
            open.base = files.iter().chain(&self.open).map(Opened::end).max().unwrap_or(0);
            let first = line::opening(open.base, now_ms);
            open.file.write_all(first.as_bytes())?;
            open.len = first.len() as u64;
        } else if read_at(&open.file, open.len - 1, 1)? != b"\n" {
            // A line that a crash cut off.
            open.file.write_all(b"\n")?;
            open.len += 1;
        }
        Ok(open)
    }

    /// Removes what is too old or too much. What cannot be removed stays.
    fn tidy(&self, current: &Path, now_ms: u64) {
        let Ok(files) = self.place.files(now_ms) else { return };
        let oldest = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX) - KEPT_SECONDS;
        let others = files.iter().rev().filter(|file| file.path != current).enumerate();
        for (_, old) in others.filter(|(at, file)| *at >= KEPT_FILES || file.changed < oldest) {
            let _ = fs::remove_file(&old.path);
        }
    }
}

/// Whether the open file is still the one of its name, with all that was written to it.
fn is_same(open: &Opened) -> bool {
    let here = fs::metadata(&open.path);
    let ours = open.file.metadata();
    here.ok()
        .zip(ours.ok())
        .is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()) && b.len() >= open.len)
}

#[cfg(test)]
mod tests;
