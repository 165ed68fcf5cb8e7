//! Transcripts that are made of parts of others.
//!
//! Promises: the others are only read; a new file is whole and synced before
//! it has its name.

use std::collections::HashSet;
use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use tempfile::{NamedTempFile, TempPath};

use super::super::paths;
use super::file::header;
use super::line::mend;
use super::writer::Birth;
use super::{Backward, Body, Entry, Forward, Line, Parent, TranscriptFormat, head};

/// Makes a transcript of what comes before the entry `until` in another one, or
/// of all of it. Answers whether that entry was there.
pub(crate) fn fork(
    source: &Path,
    until: Option<&str>,
    target: &Path,
    birth: &Birth,
) -> io::Result<bool> {
    let mut file = File::open(source)?;
    let length = file.metadata()?.len();
    let end = match until {
        Some(id) => begin_of(&file, length, id)?,
        None => Some(length),
    };
    let Some(end) = end else { return Ok(false) };
    let (format, found) = head(&file)?.unwrap_or((birth.format, None));
    let start = after_header(&file)?.min(end);
    let mut staged = staged_beside(target)?;
    if format == TranscriptFormat::OpenClaw {
        let cwd = found.and_then(|found| found.cwd).unwrap_or_else(|| birth.cwd.clone());
        writeln!(staged, "{}", header(&Birth { cwd, ..birth.clone() }))?;
    }
    file.seek(SeekFrom::Start(start))?;
    io::copy(&mut file.take(end.saturating_sub(start)), staged.as_file_mut())?;
    staged.as_file().sync_all()?;
    staged.persist_noclobber(target)?;
    if let Some(folder) = target.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(true)
}

/// Where the line of an entry begins.
fn begin_of(file: &File, length: u64, id: &str) -> io::Result<Option<u64>> {
    let mut lines = Backward::new(file, length);
    while let Some(line) = lines.next()? {
        if let Some(Line::Entry(entry)) = Line::parse(line)
            && entry.id.as_deref() == Some(id)
        {
            return Ok(Some(lines.begins()));
        }
    }
    Ok(None)
}

/// How many bytes a header takes at the beginning.
fn after_header(file: &File) -> io::Result<u64> {
    let mut lines = Forward::new(file, 0, u64::MAX)?;
    let first = lines.next()?.and_then(Line::parse);
    let is_header = matches!(first, Some(Line::Header(_)));
    Ok(if is_header { lines.ends() } else { 0 })
}

/// The last lines of a transcript.
pub(crate) enum Tail {
    /// There are no more; so many.
    All(usize),
    /// They are in this file, ready to take its place.
    Cut {
        /// The new file.
        file: TempPath,
        /// Length of the transcript that was read.
        length: u64,
    },
}

/// Makes a transcript of the header and the last `count` lines of another one,
/// which are all counted. Entries whose parents are cut off become roots.
pub(crate) fn tail(source: &Path, count: usize, birth: &Birth) -> io::Result<Tail> {
    let mut file = File::open(source)?;
    let length = file.metadata()?.len();
    let mut lines = Backward::new(&file, length);
    let mut kept = Kept::default();
    let (mut begins, mut found) = (length, 0_usize);
    while let Some(line) = lines.next()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if found == count {
            found = found.saturating_add(1);
            break;
        }
        found = found.saturating_add(1);
        kept.note(line);
        begins = lines.begins();
    }
    if found <= count {
        return Ok(Tail::All(found));
    }
    let format = head(&file)?.map_or(birth.format, |(format, _)| format);
    let headed = after_header(&file)?.min(begins);
    let mut staged = staged_beside(source)?;
    if headed > 0 {
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut (&file).take(headed), staged.as_file_mut())?;
    } else if format == TranscriptFormat::OpenClaw {
        writeln!(staged, "{}", header(birth))?;
    }
    file.seek(SeekFrom::Start(begins))?;
    let mut reader = BufReader::new(file.take(length.saturating_sub(begins)));
    let mut writer = BufWriter::new(staged.as_file_mut());
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        match kept.rooted(&line) {
            Some(rooted) => writeln!(writer, "{rooted}")?,
            None => writer.write_all(&line)?,
        }
        line.clear();
    }
    writer.flush()?;
    drop(writer);
    staged.as_file().sync_all()?;
    Ok(Tail::Cut { file: staged.into_temp_path(), length })
}

/// Which entries stay.
#[derive(Default)]
struct Kept {
    ids: HashSet<String>,
    /// The oldest of them.
    first: Option<String>,
}

impl Kept {
    /// Takes in a line; the newest comes first.
    fn note(&mut self, line: &[u8]) {
        if let Some(Line::Entry(Entry { id: Some(id), .. })) = Line::parse(line) {
            self.first = Some(id.clone());
            self.ids.insert(id);
        }
    }

    /// The line without its references to what is cut off; `None` when it has
    /// none.
    fn rooted(&self, line: &[u8]) -> Option<Value> {
        let mut line = line.to_vec();
        mend(&mut line);
        let Some(Line::Entry(entry)) = Line::parse(&line) else { return None };
        let is_gone = |id: &String| !self.ids.contains(id);
        let hangs = matches!(&entry.parent, Parent::Id(id) if is_gone(id));
        let keeps =
            matches!(&entry.body, Body::Compaction { first_kept: Some(id), .. } if is_gone(id));
        if !hangs && !keeps {
            return None;
        }
        let mut value: Value = serde_json::from_slice(&line).ok()?;
        if hangs {
            value["parentId"] = Value::Null;
        }
        if keeps {
            value["firstKeptEntryId"] = self.first.clone().into();
        }
        Some(value)
    }
}

fn staged_beside(target: &Path) -> io::Result<NamedTempFile> {
    let folder = target.parent().unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .prefix(paths::STAGED)
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)
}
