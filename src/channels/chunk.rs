//! Long texts in parts that a service takes.
//!
//! Promises: no part is longer than the limit; nothing is lost but space at the
//! cuts; a cut is at a paragraph, else at a line, else at a space, and never
//! inside of what people see as one character, but where that alone is longer; a block of code that is cut is
//! closed and opened again.

use unicode_segmentation::UnicodeSegmentation;

use crate::config::channels::{ChannelKind, ChunkMode};

/// Most ticks of a fence that is opened again in the next part: longer ones would be
/// all that is in it.
const MARKER_MAX: usize = 16;

/// How a service counts the length of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Characters.
    Chars,
    /// Units of UTF-16, as Telegram does.
    Utf16,
}

impl Measure {
    /// That of a service, also while nobody is in touch with it.
    pub const fn of_service(kind: ChannelKind) -> Self {
        match kind {
            ChannelKind::Telegram => Self::Utf16,
            ChannelKind::Webhook => Self::Chars,
        }
    }

    fn of(self, text: &str) -> usize {
        match self {
            Self::Chars => text.chars().count(),
            Self::Utf16 => text.encode_utf16().count(),
        }
    }
}

/// A block of code that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence<'a> {
    /// The line that opened it.
    line: &'a str,
    /// Its ticks or tildes.
    marker: &'a str,
}

impl<'a> Fence<'a> {
    /// The fence that a line opens.
    fn opened_by(line: &'a str) -> Option<Self> {
        let marker = marker_of(line)?;
        let info = line.trim_start().strip_prefix(marker)?;
        let is_code = marker.starts_with('~') || !info.contains('`');
        (is_code && marker.len() <= MARKER_MAX).then_some(Self { line: line.trim_end(), marker })
    }

    /// Whether a line closes it.
    fn is_closed_by(&self, line: &str) -> bool {
        marker_of(line).is_some_and(|marker| {
            marker.len() >= self.marker.len()
                && marker.chars().next() == self.marker.chars().next()
                && line.trim().len() == marker.len()
        })
    }

    /// What it is after a line.
    fn after(open: Option<Self>, line: &'a str) -> Option<Self> {
        match open {
            Some(fence) if fence.is_closed_by(line) => None,
            Some(fence) => Some(fence),
            None => Self::opened_by(line),
        }
    }
}

/// Three or more ticks or tildes at the beginning of a line.
fn marker_of(line: &str) -> Option<&str> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let rest = line.get(indent..).filter(|_| indent <= 3)?;
    let sign = rest.chars().next().filter(|sign| "`~".contains(*sign))?;
    let length = rest.len() - rest.trim_start_matches(sign).len();
    rest.get(..length).filter(|_| length >= 3)
}

/// The parts of a text.
pub fn chunks(text: &str, limit: usize, measure: Measure, mode: ChunkMode) -> Vec<String> {
    let pieces = match mode {
        ChunkMode::Length => vec![text],
        ChunkMode::Newline => paragraphs(text),
    };
    pieces.into_iter().flat_map(|piece| cut(piece, limit.max(1), measure)).collect()
}

/// The paragraphs of a text; a block of code belongs to the one it begins in.
fn paragraphs(text: &str) -> Vec<&str> {
    let (mut pieces, mut begin, mut at, mut fence) = (Vec::new(), 0, 0, None);
    for line in text.split_inclusive('\n') {
        if fence.is_none() && line.trim().is_empty() {
            pieces.extend(text.get(begin..at));
            begin = at + line.len();
        }
        fence = Fence::after(fence, line);
        at += line.len();
    }
    pieces.extend(text.get(begin..));
    pieces
}

fn cut(text: &str, limit: usize, measure: Measure) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end().trim_start_matches(['\n', '\r']);
    let mut open: Option<Fence<'_>> = None;
    while !rest.trim().is_empty() {
        let head = open.map(|fence| head_of(fence, limit, measure)).unwrap_or_default();
        let budget = limit.saturating_sub(measure.of(&head)).max(1);
        if measure.of(rest) <= budget {
            parts.push(format!("{head}{rest}"));
            break;
        }
        let place = best_cut(rest, open, budget, measure);
        let (taken, behind) = rest.split_at(place.at);
        let tail = place.fence.map(|fence| format!("\n{}", fence.marker)).unwrap_or_default();
        let taken = taken.trim_end_matches(['\n', '\r']);
        let taken = if place.fence.is_some() { taken } else { taken.trim_end() };
        parts.push(format!("{head}{taken}{tail}"));
        rest = match place.fence {
            Some(_) if place.is_line => behind,
            Some(_) => behind.strip_prefix('\n').unwrap_or(behind),
            None => behind.trim_start_matches(['\n', '\r', ' ']),
        };
        open = place.fence;
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// What opens a block again; without its language where that is long.
fn head_of(fence: Fence<'_>, limit: usize, measure: Measure) -> String {
    let line = if measure.of(fence.line) > limit / 4 { fence.marker } else { fence.line };
    format!("{line}\n")
}

/// Where a text is cut.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    at: usize,
    /// What is open there.
    fence: Option<Fence<'a>>,
    /// Whether it is the beginning of a line.
    is_line: bool,
}

/// The last place of each kind that leaves room for closing what is open.
#[derive(Default)]
struct Places<'a> {
    paragraph: Option<Place<'a>>,
    line: Option<Place<'a>>,
    space: Option<Place<'a>>,
    any: Option<Place<'a>>,
}

/// How many bytes of a text fit into this length: at least one character.
fn fitting(text: &str, room: usize, measure: Measure) -> usize {
    let (mut used, mut end) = (0, 0);
    for letter in text.chars() {
        used += measure.of(letter.encode_utf8(&mut [0; 4]));
        if used > room && end > 0 {
            break;
        }
        end += letter.len_utf8();
    }
    end
}

fn best_cut<'a>(
    text: &'a str,
    open: Option<Fence<'a>>,
    budget: usize,
    measure: Measure,
) -> Place<'a> {
    let mut places = Places::default();
    let (mut fence, mut used, mut line_begin, mut was_blank) = (open, 0, 0, false);
    let mut opened_at = None;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += measure.of(grapheme);
        let end = at + grapheme.len();
        let is_line = grapheme.ends_with('\n');
        if is_line {
            let line = text.get(line_begin..end).unwrap_or_default();
            let before = fence;
            fence = Fence::after(fence, line);
            if before.is_none() && fence.is_some() {
                opened_at = Some(end);
            }
            was_blank = line.trim().is_empty();
            line_begin = end;
        }
        let closing = fence.map_or(0, |fence| 1 + measure.of(fence.marker));
        // A line end is not sent, so it needs no room.
        let needed = used - usize::from(is_line).min(used) + closing;
        if needed > budget && places.any.is_none() {
            let room = budget.saturating_sub(closing);
            let end = at + fitting(grapheme, room, measure);
            places.any = Some(Place { at: end, fence, is_line });
            break;
        }
        if needed > budget && places.any.is_some() {
            if used > budget + 1 {
                break;
            }
            continue;
        }
        let place = Place { at: end, fence, is_line };
        let in_mark = marker_of(text.get(line_begin..end).unwrap_or_default()).is_some();
        // A block that has only been opened is not closed again at once.
        if is_line && opened_at != Some(end) {
            places.line = Some(place);
            if was_blank && fence.is_none() {
                places.paragraph = Some(place);
            }
        }
        if grapheme.chars().all(char::is_whitespace) && !is_line && !in_mark {
            places.space = Some(place);
        }
        if (!in_mark && opened_at != Some(end)) || places.any.is_none() {
            places.any = Some(place);
        }
    }
    // A cut too near to the beginning makes many small parts.
    let is_far =
        |place: &Place<'_>| measure.of(text.get(..place.at).unwrap_or_default()) * 4 >= budget;
    let Places { paragraph, line, space, any } = places;
    let found = paragraph.filter(is_far).or(line.filter(is_far)).or(space.filter(is_far)).or(any);
    found.unwrap_or(Place { at: text.len(), fence: None, is_line: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_at(text: &str, limit: usize) -> Vec<String> {
        chunks(text, limit, Measure::Chars, ChunkMode::Length)
    }

    #[test]
    fn a_text_is_cut_at_paragraphs_then_lines_then_spaces() {
        assert_eq!(cut_at("short", 10), ["short"]);
        assert_eq!(cut_at("", 10), Vec::<String>::new());
        assert_eq!(cut_at("one two\n\nthree four", 14), ["one two", "three four"]);
        assert_eq!(cut_at("one two\nthree\nfour", 14), ["one two\nthree", "four"]);
        assert_eq!(cut_at("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(cut_at("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    }

    #[test]
    fn a_block_of_code_is_closed_and_opened_again() {
        let text = "see:\n```rust\nlet a = 1;\nlet b = 2;\nlet c = 3;\n```\nthat is all";
        let parts = cut_at(text, 40);
        assert_eq!(
            parts,
            ["see:\n```rust\nlet a = 1;\nlet b = 2;\n```", "```rust\nlet c = 3;\n```\nthat is all",]
        );
        let tildes = "~~~\naaaa\n```\nbbbb\n~~~";
        assert_eq!(cut_at(tildes, 16), ["~~~\naaaa\n```\n~~~", "~~~\nbbbb\n~~~"]);
    }

    #[test]
    fn what_is_seen_as_one_character_stays_one() {
        let family = "👨‍👩‍👧‍👦";
        let text = family.repeat(5);
        let parts = chunks(&text, 25, Measure::Utf16, ChunkMode::Length);
        assert_eq!(parts, [family.repeat(2), family.repeat(2), family.to_owned()]);
        let accents = "e\u{301}".repeat(4);
        assert_eq!(cut_at(&accents, 3), ["e\u{301}"; 4]);
    }

    #[test]
    fn what_alone_is_longer_than_a_part_is_cut_all_the_same() {
        let letter = "👧\u{200d}".repeat(30);
        let parts = chunks(&letter, 40, Measure::Utf16, ChunkMode::Length);
        assert!(parts.iter().all(|part| Measure::Utf16.of(part) <= 40), "{parts:?}");
        assert_eq!(parts.concat(), letter);
        let fence = format!("{0}\n{1}\n{0}", "`".repeat(60), "code ".repeat(20));
        let parts = cut_at(&fence, 40);
        assert!(parts.iter().all(|part| Measure::Chars.of(part) <= 40), "{parts:?}");
    }

    #[test]
    fn paragraphs_may_be_messages_of_their_own() {
        let text = "one\n\ntwo\n```\na\n\nb\n```\n\n\nthree\n";
        let parts = chunks(text, 100, Measure::Chars, ChunkMode::Newline);
        assert_eq!(parts, ["one", "two\n```\na\n\nb\n```", "three"]);
    }

    proptest::proptest! {
        #[test]
        fn no_part_is_too_long_and_no_word_is_lost(
            text in "([a-z]{1,12}|\n```\n|\n```rs\n|\n~~~\n|\n\n| |é|👍🏽){0,60}", limit in 64_usize..120,
        ) {
            let parts = cut_at(&text, limit);
            for part in &parts {
                proptest::prop_assert!(part.chars().count() <= limit, "{part:?}");
            }
            // A block that was cut has more marks than before.
            let words = |text: &str| -> String {
                let lines = text.lines().filter(|line| marker_of(line).is_none());
                lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
            };
            let (all, whole) = (words(&parts.join("\n")), words(&text));
            proptest::prop_assert_eq!(all, whole);
        }

        #[test]
        fn every_part_closes_the_blocks_it_opens(
            lines in proptest::collection::vec("[a-z ]{0,30}|```(rust)?", 0..40), limit in 64_usize..120,
        ) {
            let text = lines.join("\n");
            let ends_open = |text: &str| {
                text.lines().fold(None, Fence::after).is_some()
            };
            let parts = cut_at(&text, limit);
            let all_but_last = parts.len().saturating_sub(1);
            for part in parts.iter().take(all_but_last) {
                proptest::prop_assert!(!ends_open(part), "{part:?}");
            }
        }
    }
}
