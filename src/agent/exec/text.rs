//! What a command writes, as text that can be shown.
//!
//! Owns: decoding. Promises: whatever bytes come, in whatever pieces, what goes
//! out is text without control characters but tabs, line ends and returns to the beginning of
//! a line, which part what a progress bar has shown; terminal sequences are taken out whole.
//! Must not: lose text that follows them.

/// Longest piece that is held back to see how it goes on. A sequence that is
/// longer is none.
const MAX_HELD: usize = 256;
const ESC: char = '\u{1b}';
/// What follows it where a text for the terminal begins, which may have several lines.
const TEXTS: [char; 5] = [']', 'P', 'X', '^', '_'];

/// Decodes output piece by piece.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Bytes of a character that has not arrived whole.
    bytes: Vec<u8>,
    /// A terminal sequence that has not arrived whole.
    sequence: String,
    /// Whether a return has come that is no part of the end of a line so far.
    has_returned: bool,
    /// How often the program has asked where the cursor is.
    pub cursor_questions: usize,
}

impl Decoder {
    /// The text of the next piece.
    pub fn push(&mut self, piece: &[u8]) -> String {
        self.bytes.extend_from_slice(piece);
        let bytes = std::mem::take(&mut self.bytes);
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let is_cut = chunks.peek().is_none() && is_beginning(invalid);
            if is_cut {
                self.bytes = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.clean(&text)
    }

    /// What was held back, when nothing follows.
    pub fn finish(&mut self) -> String {
        let is_cut = !std::mem::take(&mut self.bytes).is_empty();
        self.sequence.clear();
        self.has_returned = false;
        if is_cut { char::REPLACEMENT_CHARACTER.into() } else { String::new() }
    }

    fn clean(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for letter in text.chars() {
            let is_text = || self.sequence.chars().nth(1).is_some_and(|it| TEXTS.contains(&it));
            if letter == '\n' && !is_text() {
                // The line was cut in the middle of one, as by `cut -c1-80`.
                self.sequence.clear();
            }
            if !self.sequence.is_empty() {
                self.sequence.push(letter);
                self.end_sequence();
            } else if letter == ESC {
                self.sequence.push(letter);
            } else if letter == '\r' {
                self.has_returned = true;
            } else if matches!(letter, '\n' | '\t') || !letter.is_control() {
                if std::mem::take(&mut self.has_returned) && letter != '\n' {
                    shown.push('\r');
                }
                shown.push(letter);
            }
        }
        shown
    }

    /// Forgets the sequence when it is complete.
    fn end_sequence(&mut self) {
        let mut letters = self.sequence.chars();
        let (kind, last) = (letters.nth(1), self.sequence.chars().next_back());
        let is_complete = match kind {
            // A command to the terminal ends with a letter or the like.
            Some('[') => self.sequence.len() > 2 && matches!(last, Some('@'..='~')),
            // A text for the terminal ends with a bell or `ESC \`.
            Some(kind) if TEXTS.contains(&kind) => {
                last == Some('\u{7}') || self.sequence.ends_with("\u{1b}\\")
            }
            // One more letter follows.
            Some(' '..='/') => matches!(last, Some('0'..='~')),
            _ => true,
        };
        if self.sequence == "\u{1b}[6n" {
            self.cursor_questions += 1;
        }
        if is_complete || self.sequence.len() > MAX_HELD {
            self.sequence.clear();
        }
    }
}

/// Whether these bytes may be the beginning of a character.
fn is_beginning(bytes: &[u8]) -> bool {
    let wanted = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return false,
    };
    bytes.len() < wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(pieces: &[&[u8]]) -> String {
        let mut decoder = Decoder::default();
        let mut text: String = pieces.iter().map(|piece| decoder.push(piece)).collect();
        text.push_str(&decoder.finish());
        text
    }

    #[test]
    fn pieces_may_cut_characters_and_sequences_anywhere() {
        let whole = "a\u{1b}[1;31mré€d\u{1b}[0m 🦀\u{1b}]0;title\u{7}!\u{1b}(Bz\n".as_bytes();
        for at in 0..=whole.len() {
            let (first, second) = whole.split_at(at);
            assert_eq!(decoded(&[first, second]), "aré€d 🦀!z\n", "cut at {at}");
        }
        let single: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(decoded(&single), "aré€d 🦀!z\n");
    }

    #[test]
    fn what_is_no_text_is_made_safe() {
        assert_eq!(decoded(&[b"\x00\x01a\xff\xfeb\r\n\x7f\x08"]), "a\u{fffd}\u{fffd}b\n");
        assert_eq!(decoded(&[b"x\xf0\x9f"]), "x\u{fffd}");
        assert_eq!(decoded(&[b"x\xe2", b"y"]), "x\u{fffd}y");
        let endless = [b"\x1b]".as_slice(), &[b'a'; 400], b"seen"].concat();
        assert!(decoded(&[&endless]).ends_with("seen"));
    }

    #[test]
    fn a_sequence_that_is_cut_with_its_line_takes_nothing_of_the_next() {
        assert_eq!(decoded(&[b"red\x1b[3\nnext\x1b", b"\nlast\x1b[1;31\n"]), "red\nnext\nlast\n");
        assert_eq!(decoded(&[b"a\x1b]0;two\nlines\x07b"]), "ab");
    }

    #[test]
    fn what_is_written_over_stays_apart_and_lines_end_in_one_way() {
        for (said, shown) in [
            ("1%\r2%\r100%\n", "1%\r2%\r100%\n"),
            ("1%\r\u{1b}[K2%\r\r\n", "1%\r2%\n"),
            ("a\r\nb\r", "a\nb"),
        ] {
            for at in 0..=said.len() {
                let (first, second) = said.as_bytes().split_at(at);
                assert_eq!(decoded(&[first, second]), shown, "{said:?} cut at {at}");
            }
        }
    }

    #[test]
    fn a_question_for_the_cursor_is_counted() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"a\x1b[6"), "a");
        assert_eq!(decoder.push(b"nb"), "b");
        assert_eq!(decoder.cursor_questions, 1);
    }
}
