//! Reading a file line by line from its beginning.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take};

use super::line::mend;

/// What is read at once.
const CHUNK: usize = 64 * 1024;

/// Lines of a file in their order. Memory is that of the longest line.
pub(crate) struct Forward<'f> {
    reader: Take<BufReader<&'f File>>,
    line: Vec<u8>,
    /// Where the line yielded last ends in the file.
    ends: u64,
}

impl<'f> Forward<'f> {
    /// Starts at the byte `from`; what comes at `to` or after it is not looked at.
    pub(crate) fn new(file: &'f File, from: u64, to: u64) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(CHUNK, file);
        reader.seek(SeekFrom::Start(from))?;
        let reader = reader.take(to.saturating_sub(from));
        Ok(Self { reader, line: Vec::new(), ends: from })
    }

    /// Where the line that was yielded last ends in the file, with its newline.
    pub(crate) fn ends(&self) -> u64 {
        self.ends
    }

    /// The next line with its newline, which a torn line lacks, mended where it
    /// is no text. `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let size = self.reader.read_until(b'\n', &mut self.line)?;
        if size == 0 {
            return Ok(None);
        }
        self.ends = self.ends.saturating_add(u64::try_from(size).unwrap_or(u64::MAX));
        mend(&mut self.line);
        Ok(Some(&self.line))
    }
}
