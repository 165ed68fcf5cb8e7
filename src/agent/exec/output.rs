//! What a command has said.
//!
//! Owns: the part of it that is kept in memory, and what of that was read.
//! Promises: bounded; the end is kept rather than the beginning. Must not:
//! touch the disk.

/// Characters kept in memory, as in the original. What was before them is in
/// the file that holds all of it.
pub const MAX_KEPT: usize = 200_000;
/// Characters of the tail that updates show, as in the original.
const MAX_TAIL: usize = 2000;

/// Text of one command.
#[derive(Debug, Default)]
pub struct Output {
    kept: String,
    /// Bytes that were dropped before `kept`.
    dropped: usize,
    /// How far it was read, in bytes from the beginning.
    read: usize,
}

impl Output {
    /// Adds text; the beginning gives way.
    pub fn push(&mut self, text: &str) {
        self.kept.push_str(text);
        // Twice the bound, so that most additions move nothing.
        if self.kept.len() > 2 * MAX_KEPT {
            let from = self.kept.ceil_char_boundary(self.kept.len() - MAX_KEPT);
            self.kept.drain(..from);
            self.dropped += from;
        }
    }

    /// What is kept.
    pub fn text(&self) -> &str {
        let from = self.kept.len().saturating_sub(MAX_KEPT);
        &self.kept[self.kept.ceil_char_boundary(from)..]
    }

    /// Bytes that came before what is kept.
    pub fn left_out(&self) -> usize {
        self.total() - self.text().len()
    }

    /// Bytes in all.
    pub fn total(&self) -> usize {
        self.dropped + self.kept.len()
    }

    /// The end of it.
    pub fn tail(&self) -> &str {
        tail(&self.kept, MAX_TAIL)
    }

    /// Whether something was not read yet.
    pub fn has_unread(&self) -> bool {
        self.read < self.total()
    }

    /// What was not read yet, and whether some of it is not kept any more.
    pub fn take_unread(&mut self) -> (String, bool) {
        let (text, first) = (self.text(), self.left_out());
        let unread = text.get(self.read.saturating_sub(first)..).unwrap_or_default().to_owned();
        let is_cut = self.read < first;
        self.read = self.total();
        (unread, is_cut)
    }
}

/// The last `max` bytes of a text, or a few less.
pub fn tail(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_all_of_it_is_counted() {
        let mut output = Output::default();
        for index in 0..100_000 {
            output.push(&format!("line {index} €\n"));
        }
        assert!(output.text().len() <= MAX_KEPT && output.text().len() > MAX_KEPT - 4);
        assert!(output.text().ends_with("line 99999 €\n"));
        assert!(output.kept.len() <= 2 * MAX_KEPT);
        let lengths = (0..100_000).map(|index| format!("line {index} €\n").len());
        assert_eq!(output.total(), lengths.sum::<usize>());
        assert!(output.tail().len() <= MAX_TAIL);
    }

    #[test]
    fn each_piece_is_read_once() {
        let mut output = Output::default();
        output.push("a\n");
        assert_eq!(output.take_unread(), ("a\n".into(), false));
        assert!(!output.has_unread());
        output.push("b\n");
        assert_eq!(output.take_unread(), ("b\n".into(), false));
        output.push(&"x".repeat(MAX_KEPT + 5));
        let (unread, is_cut) = output.take_unread();
        assert_eq!((unread.len(), is_cut), (MAX_KEPT, true));
        assert_eq!(output.take_unread(), (String::new(), false));
    }
}
