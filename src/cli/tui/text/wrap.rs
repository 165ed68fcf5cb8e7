//! Breaking lines.

use ratatui::buffer::CellWidth;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

/// What stands in front of the lines of a block.
#[derive(Debug, Clone, Default)]
pub struct Indent {
    /// Before the first line.
    pub first: Vec<Span<'static>>,
    /// Before the others.
    pub rest: Vec<Span<'static>>,
}

impl Indent {
    /// The same before every line.
    pub fn every(text: &str, style: Style) -> Self {
        let span = vec![Span::styled(text.to_owned(), style)];
        Self { first: span.clone(), rest: span }
    }

    /// One before the first line, spaces as wide before the others.
    pub fn hanging(text: &str, style: Style) -> Self {
        let space = " ".repeat(width(text));
        Self { first: vec![Span::styled(text.to_owned(), style)], rest: vec![space.into()] }
    }
}

/// Columns that a text takes.
pub fn width(text: &str) -> usize {
    graphemes(text).map(|(_, columns)| columns).sum()
}

/// What is seen as one character, with its columns.
pub fn graphemes(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.graphemes(true)
        .filter(|letter| !letter.contains(char::is_control))
        .map(|letter| (letter, usize::from(letter.cell_width())))
}

/// The text in at most so many columns; what is missing shows as `…`.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for (letter, columns_of) in graphemes(text) {
        used += columns_of;
        if used > columns {
            break;
        }
        short.push_str(letter);
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

/// Lines of one style, broken at `columns`.
pub fn plain(text: &str, style: Style, columns: usize, indent: &Indent) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let before = if index == 0 {
            indent.clone()
        } else {
            Indent { first: indent.rest.clone(), rest: indent.rest.clone() }
        };
        lines.extend(wrap(&[Span::styled(line.to_owned(), style)], columns, &before));
    }
    lines
}

/// Breaks one paragraph at spaces, and words that are longer than a line anywhere.
pub fn wrap(spans: &[Span<'_>], columns: usize, indent: &Indent) -> Vec<Line<'static>> {
    let mut rows = Rows::new(columns, indent);
    for span in spans {
        for word in span.content.split_word_pieces() {
            rows.word(word, span.style);
        }
    }
    rows.end()
}

trait Pieces {
    /// Runs of spaces, and runs of others.
    fn split_word_pieces(&self) -> impl Iterator<Item = &str>;
}

impl Pieces for str {
    fn split_word_pieces(&self) -> impl Iterator<Item = &str> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let is_space = rest.starts_with(' ');
            let end = rest.find(|letter| (letter == ' ') != is_space).unwrap_or(rest.len());
            let (piece, after) = rest.split_at(end);
            rest = after;
            (!piece.is_empty()).then_some(piece)
        })
    }
}

/// Lines that are being filled.
struct Rows<'a> {
    columns: usize,
    indent: &'a Indent,
    done: Vec<Line<'static>>,
    line: Vec<Span<'static>>,
    used: usize,
    /// Columns of the indent of this line.
    edge: usize,
    /// Spans of the same.
    edge_spans: usize,
    /// Where the last word began: number of spans before it, columns before it. What
    /// is not divided by a space is one word, whatever its styles are.
    word: Option<(usize, usize)>,
}

impl<'a> Rows<'a> {
    fn new(columns: usize, indent: &'a Indent) -> Self {
        let columns = columns.max(2);
        let mut rows = Self {
            columns,
            indent,
            done: Vec::new(),
            line: Vec::new(),
            used: 0,
            edge: 0,
            edge_spans: 0,
            word: None,
        };
        rows.begin(&indent.first);
        rows
    }

    fn begin(&mut self, indent: &[Span<'static>]) {
        let edge: usize = indent.iter().map(|span| width(&span.content)).sum();
        // An indent that leaves no room is left out.
        let (line, edge) =
            if edge + 2 <= self.columns { (indent.to_vec(), edge) } else { (Vec::new(), 0) };
        self.edge_spans = line.len();
        (self.line, self.used, self.edge, self.word) = (line, edge, edge, None);
    }

    fn break_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.done.push(Line::from(line));
        let indent = self.indent;
        self.begin(&indent.rest);
    }

    fn word(&mut self, piece: &str, style: Style) {
        let columns = width(piece);
        if piece.starts_with(' ') {
            self.word = None;
            // A space where a line ends is that end.
            if self.used + columns <= self.columns {
                self.push(piece.to_owned(), style, columns);
            } else {
                self.used = self.columns;
            }
            return;
        }
        if self.used + columns > self.columns && self.used > self.edge {
            self.carry();
        }
        if self.word.is_none() {
            self.word = Some((self.line.len(), self.used));
        }
        if self.used + columns <= self.columns {
            self.push(piece.to_owned(), style, columns);
            return;
        }
        for (letter, columns) in graphemes(piece) {
            if self.used + columns > self.columns {
                self.break_line();
                self.word = Some((self.line.len(), self.used));
            }
            self.push(letter.to_owned(), style, columns);
        }
    }

    /// Begins a new line with the word that does not end on this one.
    fn carry(&mut self) {
        let begun = self.word.filter(|(_, used)| *used > self.edge);
        let carried = begun.map(|(at, _)| self.line.split_off(at)).unwrap_or_default();
        if begun.is_none() && self.word.is_some() {
            // The word fills the line from its begin: it is broken where it is full.
            return;
        }
        let is_space = |span: &Span<'_>| span.content.starts_with(' ');
        while self.line.len() > self.edge_spans && self.line.last().is_some_and(is_space) {
            self.line.pop();
        }
        if carried.is_empty() && self.line.len() == self.edge_spans {
            // Only spaces: a line without words is not worth one.
            self.used = self.edge;
            return;
        }
        self.break_line();
        if !carried.is_empty() {
            self.word = Some((self.line.len(), self.used));
            for span in carried {
                self.used += width(&span.content);
                self.line.push(span);
            }
        }
    }

    fn push(&mut self, text: String, style: Style, columns: usize) {
        self.used += columns;
        let starts = self.word.is_some_and(|(at, _)| at == self.line.len());
        let is_own = self.line.len() > self.edge_spans;
        match self.line.last_mut() {
            Some(last)
                if is_own
                    && last.style == style
                    && !starts
                    && !last.content.starts_with(' ')
                    && !text.starts_with(' ') =>
            {
                last.content.to_mut().push_str(&text);
            }
            _ => self.line.push(Span::styled(text, style)),
        }
    }

    fn end(mut self) -> Vec<Line<'static>> {
        self.done.push(Line::from(self.line));
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Modifier;

    fn lines(text: &str, columns: usize) -> Vec<String> {
        plain(text, Style::new(), columns, &Indent::default()).iter().map(Line::to_string).collect()
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_anywhere() {
        assert_eq!(lines("one two three", 8), ["one two", "three"]);
        assert_eq!(lines("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(lines("ab abcdefghij", 4), ["ab", "abcd", "efgh", "ij"]);
        assert_eq!(lines("a\n\n  b", 9), ["a", "", "  b"]);
        assert_eq!(lines("", 9), [""]);
    }

    #[test]
    fn wide_characters_count_as_what_they_take() {
        assert_eq!(lines("漢字漢字", 5), ["漢字", "漢字"]);
        assert_eq!(width("👩‍👩‍👧é漢"), 5);
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(cut("abc", 3), "abc");
    }

    #[test]
    fn a_word_of_two_styles_stays_together() {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let spans = [Span::raw("one tw"), Span::styled("otwo", bold), Span::raw(" x")];
        let wrapped = wrap(&spans, 9, &Indent::default());
        let shown: Vec<_> = wrapped.iter().map(Line::to_string).collect();
        assert_eq!(shown, ["one", "twotwo x"]);
        assert!(wrapped[1].spans.iter().any(|span| span.content == "otwo" && span.style == bold));
    }

    #[test]
    fn indents_are_kept_and_left_out_where_there_is_no_room() {
        let indent = Indent::hanging("• ", Style::new());
        let shown = |columns| -> Vec<String> {
            plain("one two", Style::new(), columns, &indent).iter().map(Line::to_string).collect()
        };
        assert_eq!(shown(6), ["• one", "  two"]);
        assert_eq!(shown(3), ["one", "two"]);
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_wide_and_no_letter_is_lost(text in "[a-c 漢é\n]{0,60}", columns in 2usize..20) {
            let wrapped = plain(&text, Style::new(), columns, &Indent::default());
            let letters = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
            for line in &wrapped {
                proptest::prop_assert!(width(&line.to_string()) <= columns, "{line:?}");
            }
            let all: String = wrapped.iter().map(Line::to_string).collect();
            proptest::prop_assert_eq!(letters(&all), letters(&text));
        }
    }
}
