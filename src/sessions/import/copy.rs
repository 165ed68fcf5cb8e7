//! Copying one transcript, whole or not at all.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use super::super::transcript::{Body, Line};
use crate::store::atomic::{create_private_dir, staged_in, sync_dir};
use crate::support::open_file;

/// Read at once.
const CHUNK: usize = 256 * 1024;

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is here now, or would be.
    Copied(Content),
    /// It was here already; ours may have grown since.
    Known,
    /// Something else is here under its name.
    Differs,
    /// What is here is the beginning of it.
    Behind,
}

/// What is in a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Content {
    pub bytes: u64,
    pub messages: u64,
    /// Lines that cannot be read; they are copied like any other.
    pub broken: u64,
}

/// Brings a file to its place, unless something is there. Without `applies` it
/// is only read. `passed` hears of bytes as they are read.
pub(super) fn bring(
    from: &Path,
    to: &Path,
    applies: bool,
    passed: &dyn Fn(u64),
) -> io::Result<Outcome> {
    match open_file(to) {
        Ok(there) => return compare(&open_file(from)?, &there, passed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let source = open_file(from)?;
    if !applies {
        return Ok(Outcome::Copied(pass(&source, &mut io::sink(), passed)?));
    }
    let folder = to.parent().unwrap_or(Path::new("."));
    create_private_dir(folder).map_err(io::Error::other)?;
    let mut file = staged_in(folder, to)?;
    let content = pass(&source, file.as_file_mut(), passed)?;
    // Its age decides what goes first when there is too much.
    file.as_file().set_modified(source.metadata()?.modified()?)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(to).map_err(|error| error.error)?;
    sync_dir(folder)?;
    Ok(Outcome::Copied(content))
}

/// Copies line by line and counts.
fn pass(from: &File, to: &mut dyn Write, passed: &dyn Fn(u64)) -> io::Result<Content> {
    let mut reader = BufReader::with_capacity(CHUNK, from);
    let (mut content, mut line) = (Content::default(), Vec::new());
    loop {
        line.clear();
        let size = reader.read_until(b'\n', &mut line)?;
        if size == 0 {
            return Ok(content);
        }
        to.write_all(&line)?;
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        content.bytes = content.bytes.saturating_add(size);
        passed(size);
        match Line::parse(&line) {
            Some(Line::Entry(entry)) if matches!(entry.body, Body::Message(_)) => {
                content.messages += 1;
            }
            Some(_) => {}
            None if line.trim_ascii().is_empty() => {}
            None => content.broken += 1,
        }
    }
}

fn compare(from: &File, there: &File, passed: &dyn Fn(u64)) -> io::Result<Outcome> {
    let (theirs, ours) = (from.metadata()?.len(), there.metadata()?.len());
    let mut common = theirs.min(ours);
    let (mut from, mut there) = (BufReader::new(from), BufReader::new(there));
    let (mut a, mut b) = (vec![0; CHUNK], vec![0; CHUNK]);
    while common > 0 {
        let size = usize::try_from(common).unwrap_or(CHUNK).min(CHUNK);
        let (a, b) = (a.get_mut(..size).unwrap_or_default(), b.get_mut(..size).unwrap_or_default());
        from.read_exact(a)?;
        there.read_exact(b)?;
        if a != b {
            return Ok(Outcome::Differs);
        }
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        passed(size);
        common = common.saturating_sub(size);
    }
    Ok(if ours < theirs { Outcome::Behind } else { Outcome::Known })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_at_a_pipe_in_the_place_of_a_copy() {
        let root = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| root.path().join(name));
        std::fs::write(&from, "x").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &to, rustix::fs::Mode::RWXU).unwrap();
        let error = bring(&from, &to, true, &|_: u64| ()).unwrap_err();
        assert_eq!(error.to_string(), "it is no file");
    }
}
