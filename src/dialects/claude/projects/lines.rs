//! Lines as they are.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};

use serde::Deserialize;
use serde_json::Value;

use crate::dialects::claude::format::strip;

/// What is read at once.
const CHUNK: usize = 64 * 1024;
/// A line that is longer is passed over; pictures make lines of a few megabytes.
const LINE_MAX: usize = 64 * 1024 * 1024;

/// A line that is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawLine {
    /// Its `type`.
    pub kind: String,
    /// Its `uuid`; a few kinds have none.
    pub uuid: Option<String>,
    /// The line, stripped as frames are: JSON without a line break.
    pub text: String,
}

/// The members that are looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct About<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub uuid: Option<Cow<'a, str>>,
}

/// A line of a file that has an end.
pub(super) enum Read<'l> {
    /// A whole line, without its break.
    Line(&'l [u8]),
    /// One that is too long.
    TooLong,
}

/// The lines of a file from a place on; one that has no end yet is not read.
pub(super) struct Lines<'f> {
    reader: BufReader<&'f File>,
    line: Vec<u8>,
    end: u64,
}

impl<'f> Lines<'f> {
    pub(super) fn new(file: &'f File, from: u64) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(CHUNK, file);
        reader.seek(SeekFrom::Start(from))?;
        Ok(Self { reader, line: Vec::new(), end: from })
    }

    /// Where the line ends that was read last.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Read<'_>>> {
        self.line.clear();
        let (mut size, mut is_too_long) = (0_u64, false);
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let newline = chunk.iter().position(|byte| *byte == b'\n');
            let part = chunk.get(..newline.unwrap_or(chunk.len())).unwrap_or_default();
            is_too_long |= self.line.len().saturating_add(part.len()) > LINE_MAX;
            if is_too_long {
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(part);
            }
            let taken = part.len().saturating_add(usize::from(newline.is_some()));
            self.reader.consume(taken);
            size = size.saturating_add(u64::try_from(taken).unwrap_or(u64::MAX));
            if newline.is_some() {
                self.end = self.end.saturating_add(size);
                let line = if is_too_long { Read::TooLong } else { Read::Line(&self.line) };
                return Ok(Some(line));
            }
        }
    }
}

/// What a line is; `None` for one that cannot be read.
pub(super) fn about(line: &[u8]) -> Option<About<'_>> {
    serde_json::from_slice(line).ok()
}

impl RawLine {
    /// The line as it is passed on; `None` for one that cannot be read.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let about = about(line)?;
        let (kind, uuid) = (about.kind.into_owned(), about.uuid.map(Cow::into_owned));
        let text = if kind == "user" {
            let mut value: Value = serde_json::from_slice(line).ok()?;
            strip(&mut value);
            value.to_string()
        } else {
            std::str::from_utf8(line).ok()?.trim().to_owned()
        };
        Some(Self { kind, uuid, text })
    }
}
