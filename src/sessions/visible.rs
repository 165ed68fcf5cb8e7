//! What people see of an answer while it comes: no `<think>`, no
//! `[[directives]]`, no `MEDIA:` lines.
//!
//! Promises: what was shown is never taken back, however the text is cut into
//! pieces; each piece is looked at once. Code is shown as it is.

use super::directives;
use crate::protocol::message::ContentBlock;

/// Tags around thoughts.
const TAGS: [&str; 3] = ["think", "thinking", "thought"];
/// Begins a line that names a file for the client.
const MEDIA: &str = "MEDIA:";
/// Longest end of a name that says of which kind a file is.
const EXTENSION_MAX: usize = 8;
/// Longest name of a file.
const NAME_MAX: usize = 4096;

/// Which marks are taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marks {
    /// All of them, for people.
    All,
    /// Thoughts, for the transcript.
    Thoughts,
}

/// Where in a text one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Text,
    Thought,
    /// Lines between fences of three ticks.
    Block,
    /// Words between single ticks.
    Code,
}

/// A text that grows, without its marks.
#[derive(Debug)]
pub struct Visible {
    marks: Marks,
    /// What is shown.
    text: String,
    /// What was thought.
    thought: String,
    /// The thought that has begun and not ended, with its tag.
    open: String,
    /// What may still turn out to be a mark.
    held: String,
    within: Within,
    /// A mark went away between two spaces: one is enough.
    drops_space: bool,
    /// Nothing but marks has come since the line began.
    at_line: bool,
    /// The text is about tags of thoughts: they are words of it.
    is_about_tags: bool,
    /// What lines named for the client.
    files: Vec<String>,
}

/// What a held text turns out to be.
enum Found {
    /// So many bytes are a mark and go away.
    Mark(usize),
    /// So many bytes are text.
    Text(usize),
    /// More has to come before anybody can tell.
    Unclear,
}

impl Default for Visible {
    fn default() -> Self {
        Self::new()
    }
}

impl Visible {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self::with(Marks::All)
    }

    const fn with(marks: Marks) -> Self {
        Self {
            marks,
            text: String::new(),
            thought: String::new(),
            open: String::new(),
            held: String::new(),
            within: Within::Text,
            drops_space: false,
            at_line: true,
            is_about_tags: false,
            files: Vec::new(),
        }
    }

    /// The files that its lines have named so far.
    pub fn take_files(&mut self) -> Vec<String> {
        std::mem::take(&mut self.files)
    }

    /// What is shown so far, without space at the end.
    pub fn text(&self) -> &str {
        self.text.trim_end()
    }

    /// More has come.
    pub fn push(&mut self, piece: &str) {
        self.held.push_str(piece);
        self.read(false);
    }

    /// Nothing more comes. `is_whole` tells that the text ended by itself: then a tag
    /// behind words that is never closed has no thought in it. The text is about such
    /// tags, and goes on. In one that was cut it is a thought that was cut.
    pub fn finish(&mut self, is_whole: bool) {
        self.read(true);
        if is_whole && self.is_in_doubt() {
            self.within = Within::Text;
            self.is_about_tags = true;
            self.held = std::mem::take(&mut self.open);
            self.read(true);
        } else if self.within == Within::Thought {
            self.end_thought();
        }
    }

    /// Whether a tag behind words is not closed: its end tells whether it is one.
    pub fn is_in_doubt(&self) -> bool {
        self.within == Within::Thought && self.has_words()
    }

    /// Whether people see anything of the text.
    fn has_words(&self) -> bool {
        match self.marks {
            Marks::All => !self.text.trim().is_empty(),
            Marks::Thoughts => {
                let mut said = Self::new();
                said.push(&self.text);
                said.finish(true);
                !said.text.trim().is_empty()
            }
        }
    }

    /// What has come of a thought is all of it.
    fn end_thought(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.thought.push_str(open.split_once('>').map_or("", |(_, inside)| inside));
        self.within = Within::Text;
    }

    fn read(&mut self, is_end: bool) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_str();
        while !rest.is_empty() {
            let found = match self.within {
                Within::Thought => self.in_thought(rest, is_end),
                _ => self.look(rest, is_end),
            };
            let (taken, is_text) = match found {
                Found::Mark(taken) => (taken, false),
                Found::Text(taken) => (taken, true),
                Found::Unclear => break,
            };
            let Some((known, behind)) = rest.split_at_checked(taken) else { break };
            if is_text {
                self.show(known);
            } else if self.within == Within::Thought {
                self.open.push_str(known);
            }
            rest = behind;
        }
        self.held.push_str(rest);
    }

    /// Reads on in a thought.
    fn in_thought(&mut self, rest: &str, is_end: bool) -> Found {
        let Some(at) = rest.find('<') else { return Found::Mark(rest.len()) };
        let (before, tag) = rest.split_at(at);
        match tag_length(tag, true) {
            Found::Mark(length) => {
                self.open.push_str(before);
                self.end_thought();
                self.drops_space = true;
                Found::Mark(at + length)
            }
            Found::Unclear if !is_end && at == 0 => Found::Unclear,
            Found::Unclear if !is_end => Found::Mark(at),
            _ => Found::Mark(at + 1),
        }
    }

    /// Looks at what begins here, outside of a thought.
    fn look(&mut self, rest: &str, is_end: bool) -> Found {
        let is_code = self.within != Within::Text;
        let found = match rest.as_bytes().first() {
            Some(b'`') => return self.fence(rest, is_end),
            Some(b'<') if !is_code && !self.is_about_tags => self.thought_begins(rest),
            Some(b'[') if !is_code && self.marks == Marks::All => directive(rest),
            Some(b'M') if !is_code && self.at_line && self.marks == Marks::All => {
                let found = media(rest, is_end);
                if let Found::Mark(length) = found {
                    let line = rest.get(MEDIA.len()..length).unwrap_or_default();
                    self.files.extend(named(line));
                }
                found
            }
            _ => {
                let marks = ['`', '<', '['];
                let plain = rest.char_indices().skip(1).find(|(at, c)| {
                    marks.contains(c) || (*c == 'M' && rest[..*at].ends_with('\n'))
                });
                Found::Text(plain.map_or(rest.len(), |(at, _)| at))
            }
        };
        match found {
            Found::Unclear if is_end => Found::Text(1),
            Found::Mark(taken) => {
                self.drops_space = self.text.is_empty() || self.text.ends_with(char::is_whitespace);
                Found::Mark(taken)
            }
            found => found,
        }
    }

    fn thought_begins(&mut self, rest: &str) -> Found {
        let found = tag_length(rest, false);
        if matches!(found, Found::Mark(_)) {
            self.within = Within::Thought;
        }
        found
    }

    /// Ticks begin and end code.
    fn fence(&mut self, rest: &str, is_end: bool) -> Found {
        let ticks = rest.bytes().take_while(|byte| *byte == b'`').count();
        // One more tick may come, and makes another mark of them.
        if ticks == rest.len() && !is_end {
            return Found::Unclear;
        }
        self.within = match self.within {
            Within::Block if self.at_line && ticks >= 3 => Within::Text,
            Within::Text | Within::Code if self.at_line && ticks >= 3 => Within::Block,
            Within::Text if ticks % 2 == 1 => Within::Code,
            Within::Code if ticks % 2 == 1 => Within::Text,
            within => within,
        };
        Found::Text(ticks)
    }

    fn show(&mut self, piece: &str) {
        self.at_line = piece.ends_with('\n');
        let mut piece = piece;
        if self.drops_space {
            let is_first = self.text.is_empty();
            piece = piece.trim_start_matches(|c| c == ' ' || (is_first && c == '\n'));
        }
        if piece.is_empty() {
            return;
        }
        self.drops_space = false;
        // A tick that is never closed ends with its line.
        if self.within == Within::Code && piece.contains('\n') {
            self.within = Within::Text;
        }
        self.text.push_str(piece);
    }
}

/// Splits a text into what was thought in it and what was said; `None` when it has
/// no thoughts. `is_whole` as for [`Visible::finish`].
fn split_thought(text: &str, is_whole: bool) -> Option<(String, String)> {
    if !text.contains('<') {
        return None;
    }
    let mut split = Visible::with(Marks::Thoughts);
    split.push(text);
    split.finish(is_whole);
    (split.text.len() < text.len()).then_some((split.thought, split.text))
}

/// What people see of all of a text, which ended by itself or was cut; nothing of a
/// silent one.
pub fn shown_text(text: &str, is_whole: bool) -> String {
    let mut visible = Visible::new();
    visible.push(text);
    visible.finish(is_whole);
    let text = visible.text();
    let text = if directives::is_silent(text) { "" } else { directives::strip_glued(text) };
    text.to_owned()
}

/// The blocks of an answer, with thoughts that were written into its text as blocks of
/// their own. `is_whole` tells that it ended by itself.
pub fn part_thoughts(content: Vec<ContentBlock>, is_whole: bool) -> Vec<ContentBlock> {
    let mut parted = Vec::with_capacity(content.len());
    for block in content {
        let split = match &block {
            ContentBlock::Text(block) => split_thought(&block.text, is_whole),
            _ => None,
        };
        let Some((thought, said)) = split else {
            parted.push(block);
            continue;
        };
        parted.push(ContentBlock::thinking(thought.trim()));
        if !said.trim().is_empty() {
            parted.push(ContentBlock::text(said));
        }
    }
    parted
}

/// The length of a tag of thoughts at the start of the text.
fn tag_length(rest: &str, closes: bool) -> Found {
    let Some(name) = rest.strip_prefix('<') else { return Found::Text(1) };
    let name = match (closes, name.strip_prefix('/')) {
        (true, Some(name)) => name,
        (true, None) if name.is_empty() => return Found::Unclear,
        (true, None) | (false, Some(_)) => return Found::Text(1),
        (false, None) => name,
    };
    let word: String = name.chars().take_while(char::is_ascii_alphabetic).collect();
    let word = word.to_ascii_lowercase();
    let behind = name.get(word.len()..).unwrap_or_default();
    if TAGS.contains(&word.as_str()) {
        return match behind.chars().next() {
            Some('>') => Found::Mark(rest.len() - behind.len() + 1),
            Some(_) => Found::Text(1),
            None => Found::Unclear,
        };
    }
    let may_become = behind.is_empty() && TAGS.iter().any(|tag| tag.starts_with(&word));
    if may_become { Found::Unclear } else { Found::Text(1) }
}

/// A directive at the start of the text.
fn directive(rest: &str) -> Found {
    let inside = match rest.strip_prefix("[[") {
        Some(inside) => inside,
        None if rest == "[" => return Found::Unclear,
        None => return Found::Text(1),
    };
    match inside.split_once("]]") {
        Some((name, _)) if directives::is_directive(name) => Found::Mark(name.len() + 4),
        None if directives::may_become_directive(inside) => Found::Unclear,
        _ => Found::Text(2),
    }
}

/// A line that names a file, with its end.
fn media(rest: &str, is_end: bool) -> Found {
    if !rest.starts_with(MEDIA) {
        return if MEDIA.starts_with(rest) { Found::Unclear } else { Found::Text(1) };
    }
    match rest.find('\n') {
        Some(end) => Found::Mark(end + 1),
        None if is_end => Found::Mark(rest.len()),
        None => Found::Unclear,
    }
}

/// The path or address behind `MEDIA:`. A path with spaces is in quotes, or ends in what files
/// of a kind end in, which its first word does not.
pub fn named(rest: &str) -> Option<String> {
    let rest = rest.trim();
    let quote = rest.chars().next().filter(|first| ['"', '\'', '`'].contains(first));
    let name = match quote {
        Some(quote) => rest.get(1..)?.split(quote).next()?,
        None => match rest.split_whitespace().next()? {
            word if has_extension(word) || !has_extension(rest) => word,
            word if word.contains("://") && !word.starts_with("file:") => word,
            _ => rest,
        },
    };
    let is_name = !name.trim().is_empty() && name.len() <= NAME_MAX && !name.contains('\0');
    is_name.then(|| name.trim().to_owned())
}

/// Whether a name ends as those of files of a kind do.
fn has_extension(name: &str) -> bool {
    let Some((before, kind)) = name.rsplit_once('.') else { return false };
    let is_kind = (1..=EXTENSION_MAX).contains(&kind.len())
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && kind.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_kind && before.ends_with(|last: char| last != '/' && last != '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_word_or_in_quotes_or_ends_as_names_do() {
        for (rest, name) in [
            (" ./notes.txt and text", "./notes.txt"),
            ("./x y.txt", "./x y.txt"),
            ("./my report 1.0 final.pdf ", "./my report 1.0 final.pdf"),
            ("./a.png ./b.png", "./a.png"),
            ("\"./x y\" z", "./x y"),
            ("https://x.test/a b.png", "https://x.test/a"),
            ("plot is here. See it", "plot"),
            ("./x y...", "./x"),
        ] {
            assert_eq!(named(rest).as_deref(), Some(name), "{rest}");
        }
        assert_eq!(named("  "), None);
    }

    fn shown(text: &str, is_whole: bool) -> String {
        let mut visible = Visible::new();
        visible.push(text);
        visible.finish(is_whole);
        visible.text().to_owned()
    }

    #[test]
    fn marks_go_and_everything_else_stays() {
        for (text, expected) in [
            ("plain text", "plain text"),
            ("Some text [[reply_to_current]] tagged", "Some text tagged"),
            ("[[reply_to: abc]]\nHello", "Hello"),
            ("<think>secret</think>visible", "visible"),
            ("<Thinking>a < b</THINKING>\n\nvisible", "visible"),
            ("before <think>x</think> after", "before after"),
            ("<think>never closed", ""),
            ("<think>x</think>\n<think>never closed", ""),
            ("Write <think> before it.", "Write <think> before it."),
            ("Write <think>\nMEDIA:/a.png\n[[reply_to_current]] <think>", "Write <think>\n<think>"),
            ("a <think>x</think> b <think> c", "a b <think> c"),
            ("MEDIA:./notes.txt and text", ""),
            ("Look:\nMEDIA:/a.png\nDone", "Look:\nDone"),
            ("no MEDIA: here", "no MEDIA: here"),
            ("a [[wiki]] [link] [[open", "a [[wiki]] [link] [[open"),
            ("x < y && <thin> </think>", "x < y && <thin> </think>"),
            ("use `<think>` so", "use `<think>` so"),
            ("```\n<think>\nMEDIA:x\n```\n<think>t</think>end", "```\n<think>\nMEDIA:x\n```\nend"),
            ("it's 5` tall\n<think>x</think>ok", "it's 5` tall\nok"),
            ("```\na\n````<think>x</think>b", "```\na\n````b"),
            ("<", "<"),
            ("Mörike", "Mörike"),
        ] {
            assert_eq!(shown(text, true), expected, "{text:?}");
        }
    }

    #[test]
    fn of_a_text_that_was_cut_a_thought_that_has_begun_is_not_shown() {
        for (text, expected) in [
            ("Sure. <think>private", "Sure."),
            ("Sure. <think>one</think> So. <think>two </thi", "Sure. So."),
            ("<think>never closed", ""),
            ("Sure. <thin", "Sure. <thin"),
            ("Use `<think>` so", "Use `<think>` so"),
        ] {
            assert_eq!(shown(text, false), expected, "{text:?}");
        }
    }

    /// What was thought and what was said; nothing when all of it was said.
    fn split(text: &str, is_whole: bool) -> (String, String) {
        split_thought(text, is_whole).unwrap_or_default()
    }

    #[test]
    fn thoughts_are_kept_apart_from_what_was_said() {
        for (text, thought, said) in [
            (
                "<think>secret</think>visible [[reply_to_current]]",
                "secret",
                "visible [[reply_to_current]]",
            ),
            (
                "<think>one, </think>\n<Thought>two</thought> said <think>x</think>",
                "one, twox",
                "said ",
            ),
            ("[[reply_to_current]] <think>x</think> so", "x", "[[reply_to_current]] so"),
            ("a <think>x</think> b", "x", "a b"),
            ("a <think>x</think> b <think> c", "x", "a b <think> c"),
            ("<think></think>so", "", "so"),
            ("<think>never closed", "never closed", ""),
            ("\n[[reply_to_current]]\n<think>a < b", "a < b", "\n[[reply_to_current]]\n"),
        ] {
            assert_eq!(split(text, true), (thought.to_owned(), said.to_owned()), "{text}");
        }
        let whole = [
            "1 < 2",
            "`<think>`",
            "```\n<think>x</think>\n```",
            "Write <think> so.",
            "<thin>x</think>",
        ];
        for text in whole {
            assert_eq!(split_thought(text, true), None, "{text}");
        }
    }

    #[test]
    fn of_a_text_that_was_cut_a_thought_that_has_begun_is_no_part() {
        let parts = |thought: &str, said: &str| (thought.to_owned(), said.to_owned());
        assert_eq!(split("Sure. <think>private", false), parts("private", "Sure. "));
        assert_eq!(split("<think>never closed", false), parts("never closed", ""));
        assert_eq!(split_thought("Use `<think>` so", false), None);
    }

    #[test]
    fn a_text_about_tags_stays_one_block() {
        let text = ContentBlock::text("Write <think> before it.");
        assert_eq!(part_thoughts(vec![text.clone()], true), [text]);
        let thought = ContentBlock::text("<think> x </think>y");
        let parted = [ContentBlock::thinking("x"), ContentBlock::text("y")];
        assert_eq!(part_thoughts(vec![thought], true), parted);
    }

    proptest::proptest! {
        #[test]
        fn the_pieces_do_not_matter_and_nothing_is_taken_back(
            parts in proptest::collection::vec(
                "<think>|</think>|<|>|think|\\[\\[|\\]\\]|reply_to_current|MEDIA:|M|`|```|\n| |a|ö", 0..24),
            cuts in proptest::collection::vec(1..6_usize, 0..60),
            is_whole in proptest::bool::ANY,
        ) {
            let text = parts.concat();
            let mut visible = Visible::new();
            let mut last = String::new();
            let mut chars = text.chars();
            for cut in cuts.into_iter().chain(std::iter::repeat_n(1, text.len())) {
                let piece: String = chars.by_ref().take(cut).collect();
                visible.push(&piece);
                proptest::prop_assert!(visible.text().starts_with(&last), "{text:?}: {:?} after {last:?}", visible.text());
                visible.text().clone_into(&mut last);
            }
            visible.finish(is_whole);
            proptest::prop_assert!(visible.text().starts_with(&last));
            proptest::prop_assert_eq!(visible.text(), shown(&text, is_whole));
        }
    }
}
