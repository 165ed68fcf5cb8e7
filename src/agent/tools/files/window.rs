//! A stretch of lines of a file of any size, with little memory.

use std::io::{self, BufRead};

/// Most lines of an answer, as in the original.
pub const LINES_MAX: usize = 2000;
/// Most bytes of an answer, as in the original.
pub const BYTES_MAX: usize = 50 * 1024;
/// Bytes that are looked through for the number of lines. More takes too long
/// for a call; then the number is a lower bound.
const SCAN_MAX: u64 = 256 * 1024 * 1024;
/// A NUL byte so early says that it is no text.
const BINARY_HEAD: usize = 8 * 1024;

/// Lines that were asked for.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Window {
    /// Whole lines, joined by LF.
    pub text: String,
    /// Number of lines in `text`.
    pub shown: usize,
    /// Why there are not more, if there are more that were wanted.
    pub cut: Option<Cut>,
    /// Lines of the file; what follows the last line end counts, too.
    pub total: usize,
    /// Whether the file has more lines than that.
    pub is_partial: bool,
    /// Bytes of the first line when it alone is too long.
    pub first_too_long: Option<usize>,
}

/// What ended a window early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// [`LINES_MAX`].
    Lines,
    /// [`BYTES_MAX`].
    Bytes,
}

/// Why there is no window.
#[derive(Debug)]
pub enum WindowError {
    /// It is no text.
    Binary,
    /// The disk refused.
    Io(io::Error),
}

/// Reads `limit` lines from line `start` (0 is the first).
pub fn read(
    mut file: impl BufRead,
    start: usize,
    limit: Option<usize>,
) -> Result<Window, WindowError> {
    let mut window = Window::default();
    let mut scanned = 0u64;
    let mut line = Line::default();
    loop {
        let chunk = file.fill_buf().map_err(WindowError::Io)?;
        let is_head = scanned < BINARY_HEAD as u64;
        if is_head && chunk.iter().take(BINARY_HEAD).any(|byte| *byte == 0) {
            return Err(WindowError::Binary);
        }
        if chunk.is_empty() || scanned > SCAN_MAX {
            window.is_partial = !chunk.is_empty();
            window.take(&mut line, start, limit);
            return Ok(window);
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(chunk.len(), |end| end + 1);
        line.add(&chunk[..end.unwrap_or(chunk.len())]);
        if end.is_some() {
            window.take(&mut line, start, limit);
        }
        scanned += used as u64;
        file.consume(used);
    }
}

/// A line as far as it is needed.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    length: usize,
}

impl Line {
    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        let room = (BYTES_MAX + 1).saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }
}

impl Window {
    /// Takes a line that is complete.
    fn take(&mut self, line: &mut Line, start: usize, limit: Option<usize>) {
        let number = self.total;
        self.total += 1;
        let is_wanted = number >= start && limit.is_none_or(|limit| number - start < limit);
        if is_wanted && self.cut.is_none() && self.first_too_long.is_none() {
            let mut text = String::from_utf8_lossy(&line.bytes).into_owned();
            if text.ends_with('\r') {
                text.pop();
            }
            if number == 0 && text.starts_with('\u{feff}') {
                text.remove(0);
            }
            self.add(&text, line.length);
        }
        *line = Line::default();
    }

    fn add(&mut self, line: &str, length: usize) {
        let with_end = length.max(line.len()) + usize::from(self.shown > 0);
        if self.shown == LINES_MAX {
            self.cut = Some(Cut::Lines);
        } else if self.text.len() + with_end > BYTES_MAX {
            if self.shown == 0 {
                self.first_too_long = Some(length);
            } else {
                self.cut = Some(Cut::Bytes);
            }
        } else {
            if self.shown > 0 {
                self.text.push('\n');
            }
            self.text.push_str(line);
            self.shown += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str, start: usize, limit: Option<usize>) -> Window {
        read(text.as_bytes(), start, limit).unwrap()
    }

    #[test]
    fn a_short_file_is_shown_as_it_is() {
        let found = window("alpha\nbeta\n", 0, None);
        assert_eq!((found.text.as_str(), found.shown, found.total), ("alpha\nbeta\n", 3, 3));
        assert_eq!((found.cut, window("", 0, None).total), (None, 1));
    }

    #[test]
    fn carriage_returns_and_the_byte_order_mark_are_not_shown() {
        assert_eq!(window("\u{feff}a\r\nb\r\n", 0, None).text, "a\nb\n");
    }

    #[test]
    fn offset_and_limit_choose_lines() {
        let found = window("a\nb\nc\nd\n", 1, Some(2));
        assert_eq!((found.text.as_str(), found.shown, found.total), ("b\nc", 2, 5));
        assert_eq!(window("a\nb", 2, None).shown, 0);
    }

    #[test]
    fn long_files_are_cut_at_whole_lines() {
        let found = window(&"x\n".repeat(3000), 0, None);
        assert_eq!((found.shown, found.total, found.cut), (LINES_MAX, 3001, Some(Cut::Lines)));
        let line = "y".repeat(1023);
        let found = window(&format!("{line}\n").repeat(100), 0, None);
        assert_eq!((found.shown, found.cut), (50, Some(Cut::Bytes)));
        assert_eq!(found.text.len(), 50 * 1024 - 1);
        let found = window(&format!("{}\nshort", "z".repeat(BYTES_MAX + 1)), 0, None);
        assert_eq!((found.first_too_long, found.shown, found.total), (Some(BYTES_MAX + 1), 0, 2));
    }

    #[test]
    fn what_is_no_text_is_told_and_other_encodings_are_read_as_well_as_can_be() {
        assert!(matches!(read(&b"\x7fELF\0\0"[..], 0, None), Err(WindowError::Binary)));
        assert_eq!(read(&b"caf\xe9"[..], 0, None).unwrap().text, "caf\u{fffd}");
    }
}
