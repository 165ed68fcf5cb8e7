//! Reading the log by a cursor.
//!
//! A cursor is how much was logged before it, over all files, so it goes on
//! where it was when the file is another one. Promises: who asks again with the
//! cursor of the last answer gets each line once, unless the files have been
//! removed meanwhile, and is told so then.

use std::io;
use std::path::{Path, PathBuf};

use super::place::{LogPlace, Opened, read_at};
use crate::telemetry::line::LINE_MAX;

/// Files may move between finding and opening them; more often than this in a
/// row is no accident.
const TRIES: usize = 3;

/// Lines of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tail {
    /// The file that is written at the moment.
    pub file: PathBuf,
    /// Where to go on.
    pub cursor: u64,
    /// How much there is.
    pub size: u64,
    /// The lines, oldest first.
    pub lines: Vec<String>,
    /// Whether there are older lines that nobody asked for by a cursor.
    pub truncated: bool,
    /// Whether the cursor led nowhere and this is the end of the log instead.
    pub reset: bool,
}

/// Why the log is not read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the log beside {}: {source}", path.display())]
pub struct TailError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Lines after `cursor`, oldest first, or else the last ones: at most `limit`
/// of at most `max_bytes`. With a cursor that is at least one line, if there is
/// one.
///
/// # Errors
/// When a file cannot be read.
pub fn tail(
    place: &LogPlace,
    cursor: Option<u64>,
    limit: usize,
    max_bytes: u64,
    now_ms: u64,
) -> Result<Tail, TailError> {
    let file = place.current(now_ms);
    let failed = |source| TailError { path: file.clone(), source };
    let mut files = place.files(now_ms).map_err(failed)?;
    if let Some(cursor) = cursor {
        for _ in 1..TRIES {
            if contains(&files, cursor) {
                break;
            }
            files = place.files(now_ms).map_err(failed)?;
        }
    }
    if let Some(cursor) = cursor.filter(|cursor| *cursor > end(&files))
        && is_to_come(&files, &file)
    {
        return Ok(Tail { file, cursor, size: cursor, ..Tail::default() });
    }
    let read = match cursor.filter(|cursor| contains(&files, *cursor)) {
        Some(cursor) => after(&files, cursor, limit, max_bytes),
        None => last(&files, limit, max_bytes),
    };
    let mut tail = read.map_err(failed)?;
    tail.reset = cursor.is_some_and(|cursor| !contains(&files, cursor));
    tail.size = end(&files);
    tail.file = file;
    Ok(tail)
}

fn end(files: &[Opened]) -> u64 {
    files.last().map_or(0, Opened::end)
}

fn contains(files: &[Opened], cursor: u64) -> bool {
    match files {
        [] => cursor == 0,
        files => files.iter().any(|file| (file.base..=file.end()).contains(&cursor)),
    }
}

/// Whether somebody has just taken away or emptied the file that is written. Its first line
/// will say how much came before it: until then nothing is known to be missing.
fn is_to_come(files: &[Opened], current: &Path) -> bool {
    files.iter().find(|file| file.path == current).is_none_or(|file| file.len == 0)
}

/// The bytes from `from` to `to`, over all files. Where the log has a hole, as
/// after somebody removed a file in the middle, it is left out.
fn bytes(files: &[Opened], from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for file in files.iter().filter(|file| file.end() > from && file.base < to) {
        let start = from.max(file.base);
        let length = to.min(file.end()) - start;
        bytes.extend(read_at(&file.file, start - file.base, length)?);
    }
    Ok(bytes)
}

/// Whether a line begins at `at`, and not in its middle.
fn begins(files: &[Opened], at: u64) -> io::Result<bool> {
    Ok(at == 0 || bytes(files, at - 1, at)?.last().is_none_or(|byte| *byte == b'\n'))
}

/// The last lines.
fn last(files: &[Opened], limit: usize, max_bytes: u64) -> io::Result<Tail> {
    let (first, end) = (files.first().map_or(0, |file| file.base), end(files));
    let from = end.saturating_sub(max_bytes).max(first);
    let read = bytes(files, from, end)?;
    let mut rest = read.as_slice();
    if !begins(files, from)? {
        rest = after_newline(rest);
    }
    let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut lines: Vec<_> = texts(&rest[..whole]).collect();
    lines.drain(..lines.len().saturating_sub(limit));
    let unfinished = (rest.len() - whole) as u64;
    let cursor = end - unfinished;
    Ok(Tail { cursor, lines, truncated: from > first, ..Tail::default() })
}

/// The lines after `cursor`.
fn after(files: &[Opened], cursor: u64, limit: usize, max_bytes: u64) -> io::Result<Tail> {
    let to = end(files).min(cursor + max_bytes.max(LINE_MAX as u64));
    let read = bytes(files, cursor, to)?;
    let mut tail = Tail { cursor, ..Tail::default() };
    let mut rest = read.as_slice();
    if !begins(files, cursor)? {
        let skipped = rest.len() - after_newline(rest).len();
        rest = &rest[skipped..];
        tail.cursor += skipped as u64;
    }
    let mut room = max_bytes;
    for line in rest.split_inclusive(|byte| *byte == b'\n') {
        let size = line.len() as u64;
        let is_first = tail.lines.is_empty();
        if !line.ends_with(b"\n") {
            // Longer than any of ours, so that of another program: its rest is
            // left out as well. Else it is still being written.
            let is_endless = is_first && size >= LINE_MAX as u64;
            tail.truncated = is_endless;
            tail.cursor += if is_endless { size } else { 0 };
            break;
        }
        if tail.lines.len() == limit || (size > room && !is_first) {
            break;
        }
        room = room.saturating_sub(size);
        tail.cursor += size;
        tail.lines.extend(texts(line));
    }
    Ok(tail)
}

fn after_newline(bytes: &[u8]) -> &[u8] {
    let at = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
    &bytes[at..]
}

fn texts(bytes: &[u8]) -> impl Iterator<Item = String> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| String::from_utf8_lossy(line).into_owned())
}
