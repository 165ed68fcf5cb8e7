//! A text made comparable, with the way back to the original.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// A text in which different ways to write the same are alike.
pub struct View {
    /// The text.
    pub text: String,
    pieces: Vec<Piece>,
}

/// A stretch of the view and where it came from. Stretches that were left out
/// of the view have no piece.
struct Piece {
    at: usize,
    length: usize,
    from: usize,
    from_length: usize,
    /// Whether both sides are the same bytes.
    is_same: bool,
}

impl View {
    /// The text with every line end as LF.
    pub fn exact(original: &str) -> Self {
        let mut view = Self { text: String::with_capacity(original.len()), pieces: Vec::new() };
        for (line, end) in lines(original) {
            view.same(original, line);
            view.line_end(original, end);
        }
        view
    }

    /// The same without trailing spaces, with plain quotes, dashes and spaces,
    /// and one form of each letter.
    pub fn loose(original: &str) -> Self {
        let mut view = Self { text: String::with_capacity(original.len()), pieces: Vec::new() };
        for (line, end) in lines(original) {
            let length = original[line.clone()].trim_end().len();
            view.plain(original, line.start..line.start + length);
            view.line_end(original, end);
        }
        view
    }

    /// Where a range of the view is in the original; `None` when it begins or
    /// ends inside of what is one thing there.
    pub fn back(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let piece = |at: usize| {
            let after = self.pieces.partition_point(|piece| piece.at <= at);
            self.pieces.get(after.checked_sub(1)?)
        };
        let first = piece(range.start)?;
        let start = match range.start - first.at {
            0 => first.from,
            inside if first.is_same => first.from + inside,
            _ => return None,
        };
        let last = piece(range.end.checked_sub(1)?)?;
        let end = match range.end - last.at {
            whole if whole == last.length => last.from + last.from_length,
            inside if last.is_same => last.from + inside,
            _ => return None,
        };
        Some(start..end)
    }

    fn line_end(&mut self, original: &str, end: Range<usize>) {
        match &original[end.clone()] {
            "" => {}
            "\n" => self.same(original, end),
            _ => self.changed("\n", end),
        }
    }

    /// Letters with their marks, one by one.
    fn plain(&mut self, original: &str, range: Range<usize>) {
        let mut letters = original[range.clone()].char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            let mut end = at + letter.len_utf8();
            while let Some((_, mark)) = letters.next_if(|(_, next)| is_combining_mark(*next)) {
                end += mark.len_utf8();
            }
            let from = range.start + at..range.start + end;
            let written = &original[from.clone()];
            if written.is_ascii() {
                self.same(original, from);
                continue;
            }
            let plain: String = written.nfkc().map(plain).collect();
            if plain == written { self.same(original, from) } else { self.changed(&plain, from) }
        }
    }

    fn same(&mut self, original: &str, from: Range<usize>) {
        if from.is_empty() {
            return;
        }
        let (at, length) = (self.text.len(), from.len());
        self.text.push_str(&original[from.clone()]);
        match self.pieces.last_mut() {
            Some(last) if last.is_same && last.from + last.from_length == from.start => {
                last.length += length;
                last.from_length += length;
            }
            _ => self.pieces.push(Piece {
                at,
                length,
                from: from.start,
                from_length: length,
                is_same: true,
            }),
        }
    }

    fn changed(&mut self, text: &str, from: Range<usize>) {
        if text.is_empty() {
            return;
        }
        let at = self.text.len();
        self.text.push_str(text);
        self.pieces.push(Piece {
            at,
            length: text.len(),
            from: from.start,
            from_length: from.len(),
            is_same: false,
        });
    }
}

/// Lines and their ends.
fn lines(text: &str) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let length = rest.find(['\r', '\n']).unwrap_or(rest.len());
        let end = rest.get(length..).unwrap_or_default();
        let end_length = if end.starts_with("\r\n") { 2 } else { usize::from(!end.is_empty()) };
        let line = at..at + length;
        at = line.end + end_length;
        Some((line.clone(), line.end..at))
    })
}

/// The plain form of a character that is typeset.
pub fn plain(letter: char) -> char {
    match letter {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(view: &View, original: &str, part: &str) -> Option<String> {
        let at = view.text.find(part).unwrap();
        view.back(&(at..at + part.len())).map(|range| original[range].to_owned())
    }

    #[test]
    fn line_ends_are_alike_and_lead_back() {
        let original = "a\r\nb\rc\nd";
        let view = View::exact(original);
        assert_eq!(view.text, "a\nb\nc\nd");
        assert_eq!(back(&view, original, "a\nb").unwrap(), "a\r\nb");
        assert_eq!(back(&view, original, "b\nc\nd").unwrap(), "b\rc\nd");
        assert_eq!(back(&view, original, "\n").unwrap(), "\r\n");
    }

    #[test]
    fn what_is_typeset_is_found_by_what_is_typed() {
        let original = "say \u{201c}hi\u{201d} \u{2014} ok \t\n\u{a0}e\u{301}\u{fb01}n  ";
        let view = View::loose(original);
        assert_eq!(view.text, "say \"hi\" - ok\n \u{e9}fin");
        assert_eq!(back(&view, original, "\"hi\"").unwrap(), "\u{201c}hi\u{201d}");
        assert_eq!(back(&view, original, "ok\n").unwrap(), "ok \t\n");
        assert_eq!(back(&view, original, "\u{e9}").unwrap(), "e\u{301}");
        assert_eq!(back(&view, original, "in"), None, "half of a ligature is no place");
        assert_eq!(back(&view, original, "fin").unwrap(), "\u{fb01}n");
    }
}
