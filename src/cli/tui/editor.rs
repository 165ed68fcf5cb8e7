//! What is being typed.
//!
//! Owns: text, cursor, lines that were sent before. Promises: the cursor never stands inside
//! of a character; what was typed comes back after looking through older lines.

use unicode_segmentation::UnicodeSegmentation;

use super::text::{graphemes, typed};

/// A message of this size is a file, and the gateway takes those otherwise.
const MAX_BYTES: usize = 256 << 10;
/// More is not looked through with an arrow key.
const MAX_HISTORY: usize = 200;

/// A small text editor.
#[derive(Debug, Default)]
pub struct Editor {
    text: String,
    /// Byte offset of the cursor.
    cursor: usize,
    history: Vec<String>,
    /// Which older line is shown, and what was typed before.
    looking: Option<(usize, String)>,
    /// What was cut last.
    cut: String,
}

/// Where the cursor goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// One character back.
    Left,
    /// One character on.
    Right,
    /// To the begin of a word.
    WordLeft,
    /// To the end of a word.
    WordRight,
    /// To the begin of the line.
    Home,
    /// To the end of the line.
    End,
}

impl Editor {
    /// What is there.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing is there.
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Puts in something typed or pasted; `false` when there is no room for it.
    pub fn insert(&mut self, text: &str) -> bool {
        let text = typed(text);
        if self.text.len() + text.len() > MAX_BYTES {
            return false;
        }
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
        self.looking = None;
        true
    }

    /// Puts this in the place of everything.
    pub fn set(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.cursor = self.text.len();
        self.looking = None;
    }

    /// Takes everything, and keeps it among the older lines.
    pub fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.cursor = 0;
        self.looking = None;
        self.remember(&text);
        text
    }

    /// Throws everything away.
    pub fn clear(&mut self) {
        self.set("");
    }

    /// Keeps a line for later.
    pub fn remember(&mut self, text: &str) {
        if text.trim().is_empty() || self.history.last().is_some_and(|last| last == text) {
            return;
        }
        self.history.push(text.to_owned());
        let surplus = self.history.len().saturating_sub(MAX_HISTORY);
        self.history.drain(..surplus);
    }

    /// Forgets all older lines.
    pub fn forget(&mut self) {
        self.history.clear();
        self.looking = None;
    }

    fn place(&self, to: Move) -> usize {
        let (before, after) = self.text.split_at(self.cursor);
        match to {
            Move::Left => {
                before.graphemes(true).next_back().map_or(0, |letter| self.cursor - letter.len())
            }
            Move::Right => after
                .graphemes(true)
                .next()
                .map_or(self.cursor, |letter| self.cursor + letter.len()),
            Move::WordLeft => {
                let trimmed = before.trim_end();
                trimmed
                    .rfind(char::is_whitespace)
                    .map_or(0, |at| at + trimmed[at..].chars().next().map_or(1, char::len_utf8))
            }
            Move::WordRight => {
                let space = after.len() - after.trim_start().len();
                let word = &after[space..];
                self.cursor + space + word.find(char::is_whitespace).unwrap_or(word.len())
            }
            Move::Home => before.rfind('\n').map_or(0, |at| at + 1),
            Move::End => self.cursor + after.find('\n').unwrap_or(after.len()),
        }
    }

    /// Moves the cursor.
    pub fn go(&mut self, to: Move) {
        self.cursor = self.place(to);
    }

    /// Takes away what is between the cursor and there; words and lines can be put
    /// back by [`Editor::paste_cut`].
    pub fn delete(&mut self, to: Move) {
        let place = self.place(to);
        let (from, until) = (place.min(self.cursor), place.max(self.cursor));
        let gone: String = self.text.drain(from..until).collect();
        self.cursor = from;
        self.looking = None;
        if !matches!(to, Move::Left | Move::Right) && !gone.is_empty() {
            self.cut = gone;
        }
    }

    /// Puts back what was cut last.
    pub fn paste_cut(&mut self) {
        let cut = std::mem::take(&mut self.cut);
        self.insert(&cut);
        self.cut = cut;
    }

    /// One line up, or an older line from the first one.
    pub fn up(&mut self) {
        let home = self.place(Move::Home);
        if home == 0 {
            self.older();
            return;
        }
        let column = self.text[home..self.cursor].graphemes(true).count();
        self.cursor = home - 1;
        self.go_to_column(column);
    }

    /// One line down, or a newer line from the last one.
    pub fn down(&mut self) {
        let end = self.place(Move::End);
        if end == self.text.len() {
            self.newer();
            return;
        }
        let home = self.place(Move::Home);
        let column = self.text[home..self.cursor].graphemes(true).count();
        self.cursor = end + 1;
        self.go_to_column(column);
    }

    fn go_to_column(&mut self, column: usize) {
        let (home, end) = (self.place(Move::Home), self.place(Move::End));
        let line = &self.text[home..end];
        self.cursor = home + line.graphemes(true).take(column).map(str::len).sum::<usize>();
    }

    fn older(&mut self) {
        let (at, draft) = match self.looking.take() {
            Some((at, draft)) => (at.saturating_sub(1), draft),
            None => (self.history.len().saturating_sub(1), self.text.clone()),
        };
        self.look(at, draft);
    }

    fn newer(&mut self) {
        match self.looking.take() {
            Some((at, draft)) if at + 1 < self.history.len() => self.look(at + 1, draft),
            Some((_, draft)) => self.set(&draft),
            None => {}
        }
    }

    fn look(&mut self, at: usize, draft: String) {
        if let Some(line) = self.history.get(at).cloned() {
            self.set(&line);
            self.looking = Some((at, draft));
        }
    }

    /// Rows at most `columns` wide, and the row and column of the cursor.
    pub fn layout(&self, columns: usize) -> (Vec<String>, (usize, usize)) {
        let columns = columns.max(2);
        let (mut rows, mut at, mut place) = (vec![String::new()], 0, (0, 0));
        let mut used = 0;
        for line in self.text.split_inclusive('\n') {
            for (letter, wide) in graphemes(line) {
                if used + wide > columns {
                    rows.push(String::new());
                    used = 0;
                }
                if at == self.cursor {
                    place = (rows.len() - 1, used);
                }
                if let Some(row) = rows.last_mut() {
                    row.push_str(letter);
                }
                used += wide;
                at += letter.len();
            }
            if line.ends_with('\n') {
                if at == self.cursor {
                    place = (rows.len() - 1, used);
                }
                at += 1;
                rows.push(String::new());
                used = 0;
            }
        }
        if at == self.cursor {
            // The cursor needs a place of its own behind a full line.
            if used >= columns {
                rows.push(String::new());
                used = 0;
            }
            place = (rows.len() - 1, used);
        }
        (rows, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Editor {
        let mut editor = Editor::default();
        assert!(editor.insert(text));
        editor
    }

    #[test]
    fn the_cursor_moves_by_what_is_seen_as_a_character() {
        let mut editor = with("a👩‍👩‍👧é");
        editor.go(Move::Left);
        editor.delete(Move::Left);
        assert_eq!(editor.text(), "aé");
        editor.go(Move::Right);
        editor.delete(Move::WordLeft);
        assert_eq!(editor.text(), "");
        editor.paste_cut();
        assert_eq!(editor.text(), "aé");
    }

    #[test]
    fn words_and_lines_are_taken_away() {
        let mut editor = with("one two\nthree four");
        editor.delete(Move::WordLeft);
        assert_eq!(editor.text(), "one two\nthree ");
        editor.delete(Move::Home);
        assert_eq!(editor.text(), "one two\n");
        editor.up();
        editor.delete(Move::End);
        assert_eq!(editor.text(), "\n");
    }

    #[test]
    fn older_lines_come_back_and_so_does_the_draft() {
        let mut editor = with("first");
        editor.take();
        editor.insert("second");
        editor.take();
        editor.insert("draft");
        editor.up();
        assert_eq!(editor.text(), "second");
        editor.up();
        editor.up();
        assert_eq!(editor.text(), "first");
        editor.down();
        editor.down();
        assert_eq!(editor.text(), "draft");
    }

    #[test]
    fn arrows_move_between_lines() {
        let mut editor = with("long line\nab");
        editor.up();
        editor.insert("|");
        assert_eq!(editor.text(), "lo|ng line\nab");
        editor.down();
        editor.insert("|");
        assert_eq!(editor.text(), "lo|ng line\nab|");
    }

    #[test]
    fn what_is_pasted_cannot_steer_and_has_an_end() {
        let mut editor = with("a\r\nb\rc\x1b[2J\u{200f}");
        assert_eq!(editor.text(), "a\nb\nc[2J\u{200f}");
        assert!(!editor.insert(&"x".repeat(MAX_BYTES)));
    }

    #[test]
    fn rows_are_as_wide_as_the_screen_and_the_cursor_is_on_one() {
        assert_eq!(with("").layout(4), (vec![String::new()], (0, 0)));
        assert_eq!(with("abcd").layout(4), (vec!["abcd".into(), String::new()], (1, 0)));
        assert_eq!(with("漢字漢").layout(4), (vec!["漢字".into(), "漢".into()], (1, 2)));
        let mut editor = with("ab\ncd");
        editor.go(Move::Home);
        assert_eq!(editor.layout(9), (vec!["ab".into(), "cd".into()], (1, 0)));
        editor.go(Move::Left);
        assert_eq!(editor.layout(9).1, (0, 2));
    }
}
