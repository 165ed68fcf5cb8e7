//! Long texts in parts that a service takes.
//!
//! Promises: no part is longer than the limit; nothing is lost but space at the
//! cuts; a cut is at a paragraph, else at a line, else at a space, and never
//! inside of what people see as one character, but where that alone is longer; a block of code that is cut is
//! closed and opened again. What is cut inside of a list goes on at the margin: indented as it
//! was, and without its list, it would be something else.

use unicode_segmentation::UnicodeSegmentation;

use crate::config::channels::{ChannelKind, ChunkMode};

/// Most ticks of a fence that is opened again in the next part: longer ones would be
/// all that is in it.
const MARKER_MAX: usize = 16;

/// Most characters before a fence: those of deep lists. With the fence they fit into the
/// shortest part, once at its beginning and once at its end.
const PREFIX_MAX: usize = 16;
/// Most quotes in one another that a fence may be in.
const QUOTES_MAX: usize = 4;
/// So much further out, or in, a line may be than what it belongs to.
const SLACK: usize = 3;

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

/// What stands before the lines of a list's item, or of a quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lead {
    /// How many quotes it is in.
    quotes: usize,
    /// How many characters it has.
    width: usize,
}

impl Lead {
    /// How much of a line it may be: spaces, and marks of so many quotes.
    fn of_line(self, line: &str) -> usize {
        let mut quotes = self.quotes;
        let is_lead = |sign: &char| match sign {
            ' ' | '\t' => true,
            '>' if quotes > 0 => {
                quotes -= 1;
                true
            }
            _ => false,
        };
        // All of them have one byte.
        line.chars().take_while(is_lead).count()
    }

    /// Whether a line belongs to that no more.
    fn is_left_by(self, line: &str) -> bool {
        let (lead, words) = line.split_at(self.of_line(line));
        let is_far_out = lead.len() + SLACK < self.width && !words.trim().is_empty();
        is_far_out || lead.matches('>').count() < self.quotes
    }

    /// A line as it is at the margin: marks of quotes stay, with a space each.
    fn taken_from(self, line: &str) -> String {
        let (lead, words) = line.split_at(self.of_line(line).min(self.width));
        let mut kept = String::with_capacity(line.len());
        let mut is_behind_mark = false;
        for sign in lead.chars() {
            if sign == '>' || is_behind_mark {
                kept.push(sign);
            }
            is_behind_mark = sign == '>';
        }
        kept + words
    }

    /// The same for the lines of a text, as far as they belong to that, with what is
    /// before its last line then. Of a line that has begun in the last part, there is none.
    fn taken_from_all(self, text: &str, is_mid: bool) -> (String, Self) {
        let (mut now, mut taken) = (self, String::with_capacity(text.len()));
        for (index, line) in text.split_inclusive('\n').enumerate() {
            if is_mid && index == 0 {
                taken.push_str(line);
                continue;
            }
            if now.is_left_by(line) {
                now = Self::default();
            }
            taken.push_str(&now.taken_from(line));
        }
        (taken, now)
    }
}

/// A block of code that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence<'a> {
    /// The line that opened it, from its ticks on.
    line: &'a str,
    /// Its ticks or tildes.
    marker: &'a str,
    /// What is before them in that line: of lists and quotes.
    prefix: &'a str,
}

impl<'a> Fence<'a> {
    /// The fence that a line opens.
    fn opened_by(line: &'a str) -> Option<Self> {
        let (prefix, marker) = marker_of(line)?;
        let line = line.get(prefix.len()..)?.trim_end();
        let info = line.strip_prefix(marker)?;
        let is_code = marker.starts_with('~') || !info.contains('`');
        (is_code && marker.len() <= MARKER_MAX).then_some(Self { line, marker, prefix })
    }

    /// What is before its lines.
    fn lead(&self) -> Lead {
        Lead { quotes: self.prefix.matches('>').count(), width: self.prefix.len() }
    }

    /// Whether a line closes it.
    fn is_closed_by(&self, line: &str) -> bool {
        let (lead, words) = line.split_at(self.lead().of_line(line));
        let more = words.trim_end().strip_prefix(self.marker);
        lead.len() <= self.prefix.len() + SLACK
            && more.is_some_and(|more| more.chars().all(|sign| self.marker.starts_with(sign)))
    }

    /// What it is after a line.
    fn after(open: Option<Self>, line: &'a str) -> Option<Self> {
        match open {
            Some(fence) if fence.is_closed_by(line) => None,
            Some(fence) if !fence.lead().is_left_by(line) => Some(fence),
            _ => Self::opened_by(line),
        }
    }

    /// What is before its lines, without the marks of lists.
    fn indentation(&self) -> String {
        self.prefix.chars().map(|sign| if "> \t".contains(sign) { sign } else { ' ' }).collect()
    }

    /// What opens it again at the margin, before the rest of a line where it was cut in one;
    /// without its language where that is long.
    fn head(&self, is_mid: bool, limit: usize, measure: Measure) -> String {
        let line = if measure.of(self.line) > limit / 4 { self.marker } else { self.line };
        let margin = self.lead().taken_from(&self.indentation());
        let begun = if is_mid { margin.as_str() } else { "" };
        format!("{margin}{line}\n{begun}")
    }

    /// What closes it, where so much of the lines' lead is taken away.
    fn tail(&self, taken: Lead) -> String {
        format!("\n{}{}", taken.taken_from(&self.indentation()), self.marker)
    }

    /// Most characters of what closes it.
    const fn tail_max(&self) -> usize {
        1 + self.prefix.len() + self.marker.len()
    }
}

/// Three or more ticks or tildes at the beginning of a line, behind what stands before them.
fn marker_of(line: &str) -> Option<(&str, &str)> {
    let at = line.bytes().take(PREFIX_MAX + 1).position(|byte| b"`~".contains(&byte))?;
    let (prefix, rest) = line.split_at(at);
    let sign = rest.chars().next()?;
    let length = rest.len() - rest.trim_start_matches(sign).len();
    let marker = rest.get(..length).filter(|_| length >= 3)?;
    is_prefix(prefix).then_some((prefix, marker))
}

/// Whether this is made of spaces and marks of lists and quotes.
fn is_prefix(text: &str) -> bool {
    let is_number = |word: &str| {
        let number = word.strip_suffix(['.', ')']).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    };
    let is_mark = |word: &str| {
        let is_quote = word.bytes().all(|sign| sign == b'>');
        is_quote || matches!(word, "-" | "*" | "+") || is_number(word)
    };
    text.matches('>').count() <= QUOTES_MAX
        && text.split([' ', '\t']).all(is_mark)
        && (text.is_empty() || text.ends_with([' ', '\t', '>']))
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
    // What is taken away before the lines of the part, and whether it begins in one.
    let (mut away, mut is_mid) = (Lead::default(), false);
    while !rest.trim().is_empty() {
        let head = open.map(|fence| fence.head(is_mid, limit, measure)).unwrap_or_default();
        let budget = limit.saturating_sub(measure.of(&head)).max(1);
        if measure.of(rest) <= budget {
            let (rest, _) = away.taken_from_all(rest, is_mid);
            parts.push(format!("{head}{rest}"));
            break;
        }
        let place = best_cut(rest, open, is_mid, budget, measure);
        let (taken, behind) = rest.split_at(place.at);
        let taken = taken.trim_end_matches(['\n', '\r']);
        let taken = if place.fence.is_some() { taken } else { taken.trim_end() };
        let (shown, left) = away.taken_from_all(taken, is_mid);
        let tail = place.fence.map(|fence| fence.tail(left)).unwrap_or_default();
        parts.push(format!("{head}{shown}{tail}"));
        open = place.fence;
        if let Some(fence) = place.fence {
            let ended = behind.strip_prefix('\n').filter(|_| !place.is_line);
            is_mid = !place.is_line && ended.is_none();
            (rest, away) = (ended.unwrap_or(behind), fence.lead());
        } else {
            (rest, away, is_mid) = continued(taken, behind, place.is_line, left);
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// What comes after a cut that is in no block of code, what is taken away before its lines,
/// and whether it begins in one.
fn continued<'a>(taken: &str, behind: &'a str, is_line: bool, left: Lead) -> (&'a str, Lead, bool) {
    let indented = |width| Lead { quotes: 0, width };
    let words = behind.trim_start_matches(['\n', '\r', ' ']);
    let (space, _) = behind.split_at(behind.len() - words.len());
    let line_at = space.rfind('\n').map(|at| at + 1).or(is_line.then_some(0));
    if let Some(at) = line_at {
        let rest = behind.get(at..).unwrap_or(words);
        return (rest, indented(space.len() - at), false);
    }
    let lead = match taken.rsplit_once('\n') {
        Some((_, line)) => indented(line.len() - line.trim_start_matches(' ').len()),
        None => left,
    };
    (words, lead, true)
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
    is_mid: bool,
    budget: usize,
    measure: Measure,
) -> Place<'a> {
    let mut places = Places::default();
    let (mut fence, mut used, mut line_begin, mut was_blank) = (open, 0, 0, false);
    let mut has_words = is_mid;
    let mut opened_at = None;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += measure.of(grapheme);
        let end = at + grapheme.len();
        let is_line = grapheme.ends_with('\n');
        if is_line {
            let line = text.get(line_begin..end).unwrap_or_default();
            let before = fence;
            // The rest of a line says nothing of where it belongs.
            let goes_on = before.filter(|it| is_mid && line_begin == 0 && !it.is_closed_by(line));
            fence = goes_on.or_else(|| Fence::after(before, line));
            if before.is_none() && fence.is_some() {
                opened_at = Some(end);
            }
            let next = text.get(end..).and_then(|rest| rest.lines().next()).unwrap_or_default();
            fence = fence.filter(|fence| !fence.lead().is_left_by(next));
            was_blank = line.trim().is_empty();
            (line_begin, has_words) = (end, false);
        }
        let closing = fence.map_or(0, |fence| fence.tail_max());
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
        let is_space = grapheme.chars().all(char::is_whitespace);
        has_words |= !is_space;
        // Between what stands before a line and its words there is no cut.
        if is_space && has_words && !is_line && !in_mark {
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
    fn a_block_of_code_in_a_list_is_closed_and_opened_again_without_the_list() {
        let lines: Vec<_> = (1..=6).map(|it| format!("      let a{it} = {it};\n")).collect();
        let text = format!(
            "- one\n    - sub\n\n      ```js\n{}      ```\n\n      So.\n- two",
            lines.concat()
        );
        assert_eq!(
            cut_at(&text, 70),
            [
                "- one\n    - sub\n\n      ```js\n      let a1 = 1;\n      ```",
                "```js\nlet a2 = 2;\nlet a3 = 3;\nlet a4 = 4;\n```",
                "```js\nlet a5 = 5;\nlet a6 = 6;\n```\n\nSo.\n- two",
            ]
        );
        // Where the list's mark is before it, and where a part begins with it.
        let marked = "1. ```\n   aaaa\n   bbbb\n   cccc\n   ```\n2. end";
        assert_eq!(
            cut_at(marked, 26),
            ["1. ```\n   aaaa\n   ```", "```\nbbbb\ncccc\n```", "2. end"]
        );
        let before = "- one two three\n\n    ```\n    aaaa\n      bb\n    ```\n    end";
        assert_eq!(cut_at(before, 44), ["- one two three", "```\naaaa\n  bb\n```\nend"]);
    }

    #[test]
    fn a_block_of_code_in_a_quote_is_closed_and_opened_again_in_it() {
        let text = "> see:\n>\n> ```sh\n> aaaaaa\n> bbbbbb\n> cccccc\n> ```\n\nend";
        assert_eq!(
            cut_at(text, 36),
            ["> see:\n>\n> ```sh\n> aaaaaa\n> ```", "> ```sh\n> bbbbbb\n> cccccc\n> ```\n\nend"]
        );
        let long = format!("> ```\n> {}\n> ```", "word ".repeat(10));
        let parts = cut_at(&long, 40);
        assert!(parts.iter().all(|part| part.chars().count() <= 40), "{parts:?}");
        assert!(
            parts.iter().flat_map(|part| part.lines()).all(|line| line.starts_with("> ")),
            "{parts:?}"
        );
    }

    #[test]
    fn a_block_of_code_ends_with_the_quote_or_the_list_that_it_is_in() {
        for text in ["> ```\n> code\n\n", "- a\n\n      ```\n      code\n\n"] {
            let text = format!("{text}{}", "these are words ".repeat(6));
            let parts = cut_at(&text, 64);
            assert!(parts.iter().skip(1).all(|part| !part.contains("```")), "{parts:?}");
        }
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
        fn nothing_is_lost_of_odd_blocks_either(
            lines in proptest::collection::vec(
                "(> |> > |- |1\\. |    )?((`{3,20}|~{3,20})[a-z ]{0,150}|[a-z ]{0,50})", 0..24,
            ),
            limit in 64_usize..140,
        ) {
            let text = lines.join("\n");
            let parts = cut_at(&text, limit);
            for part in &parts {
                proptest::prop_assert!(part.chars().count() <= limit, "{part:?}");
            }
            // A part may begin with the language of a block again.
            let mut shown = parts.iter().flat_map(|part| part.chars());
            let is_there = |letter: char| shown.any(|other| other == letter);
            proptest::prop_assert!(
                text.chars().filter(char::is_ascii_alphanumeric).all(is_there), "{parts:?}"
            );
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
