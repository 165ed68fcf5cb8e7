//! Reading a file line by line from its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::line::mend;

/// What is read at once: one request of most disks, a few dozen messages.
const CHUNK: u64 = 64 * 1024;

/// Lines of a file, the last one first. Memory is that of the longest line.
pub(crate) struct Backward<'f> {
    file: &'f File,
    /// Where `buffer` begins in the file.
    start: u64,
    /// Bytes that were read; those before `end` were not yielded yet.
    buffer: Vec<u8>,
    end: usize,
    /// How many bytes were read from the file.
    consumed: u64,
    /// Where the line yielded last begins in the file.
    begins: u64,
}

impl<'f> Backward<'f> {
    /// Starts before the byte at `length`; what follows it is not looked at.
    pub(crate) fn new(file: &'f File, length: u64) -> Self {
        Self { file, start: length, buffer: Vec::new(), end: 0, consumed: 0, begins: length }
    }

    /// How many bytes were read so far.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Where the line that was yielded last begins in the file.
    pub(crate) fn begins(&self) -> u64 {
        self.begins
    }

    /// The line before the last one yielded, without its newline, mended where
    /// it is no text; lines may be empty. `None` at the beginning of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let mut searched = self.end;
        let (from, to) = loop {
            let unseen = self.buffer.get(..searched).unwrap_or_default();
            if let Some(newline) = unseen.iter().rposition(|byte| *byte == b'\n') {
                break (newline.saturating_add(1), std::mem::replace(&mut self.end, newline));
            }
            if self.start == 0 {
                if self.end == 0 {
                    return Ok(None);
                }
                break (0, std::mem::take(&mut self.end));
            }
            searched = self.read_before()?;
        };
        self.begins = self.start.saturating_add(u64::try_from(from).unwrap_or(u64::MAX));
        let line = self.buffer.get_mut(from..to);
        Ok(line.map(|line| {
            mend(line);
            &*line
        }))
    }

    /// Puts the bytes before the buffer in front of it; answers how many.
    /// Reading as much as there is already keeps long lines linear.
    fn read_before(&mut self) -> io::Result<usize> {
        let held = u64::try_from(self.end).unwrap_or(u64::MAX);
        let wanted = CHUNK.max(held).min(self.start);
        let size = usize::try_from(wanted).map_err(io::Error::other)?;
        let mut buffer = vec![0; size.saturating_add(self.end)];
        let (front, back) = buffer.split_at_mut(size);
        back.copy_from_slice(self.buffer.get(..self.end).unwrap_or_default());
        self.start = self.start.saturating_sub(wanted);
        self.file.read_exact_at(front, self.start)?;
        self.consumed = self.consumed.saturating_add(wanted);
        self.end = buffer.len();
        self.buffer = buffer;
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines(content: &[u8]) -> Vec<Vec<u8>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let mut backward = Backward::new(&file, u64::try_from(content.len()).unwrap());
        let mut found = Vec::new();
        while let Some(line) = backward.next().unwrap() {
            found.push(line.to_vec());
        }
        found
    }

    #[test]
    fn yields_the_lines_of_a_file_in_reverse() {
        assert_eq!(lines(b""), Vec::<Vec<u8>>::new());
        assert_eq!(lines(b"one"), [b"one"]);
        assert_eq!(lines(b"one\ntwo\n"), [&b""[..], b"two", b"one"]);
        assert_eq!(lines(b"one\n\nthree"), [&b"three"[..], b"", b"one"]);
    }

    #[test]
    fn lines_longer_than_a_chunk_come_out_whole() {
        let long = vec![b'x'; 300_000];
        let content = [&b"first\n"[..], &long, b"\nlast"].concat();
        assert_eq!(lines(&content), [&b"last"[..], &long, b"first"]);
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_reading_forward(content in "[a\n]{0,200}") {
            let mut expected: Vec<_> = content.split('\n').map(|l| l.as_bytes().to_vec()).collect();
            expected.reverse();
            // An empty first line cannot be told from the beginning of the file.
            if expected.last().is_some_and(Vec::is_empty) {
                expected.pop();
            }
            proptest::prop_assert_eq!(lines(content.as_bytes()), expected);
        }
    }
}
