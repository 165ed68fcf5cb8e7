//! What people see of an answer while it comes: no `<think>`, no
//! `[[directives]]`, no `MEDIA:` lines.
//!
//! Promises: what was shown is never taken back, however the text is cut into
//! pieces; each piece is looked at once. Code is shown as it is.

use super::named_files;
use crate::protocol::message::ContentBlock;
use crate::sessions::directives;

/// Tags around thoughts.
const TAGS: [&str; 3] = ["think", "thinking", "thought"];
/// Begins a line that names a file for the client.
const MEDIA: &str = "MEDIA:";

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
    /// What may still turn out to be a mark.
    held: String,
    within: Within,
    /// A mark went away between two spaces: one is enough.
    drops_space: bool,
    /// Nothing but marks has come since the line began.
    at_line: bool,
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
            held: String::new(),
            within: Within::Text,
            drops_space: false,
            at_line: true,
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

    /// Nothing more comes.
    pub fn finish(&mut self) {
        self.read(true);
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
            }
            rest = behind;
        }
        self.held.push_str(rest);
    }

    /// Reads on in a thought; notes it.
    fn in_thought(&mut self, rest: &str, is_end: bool) -> Found {
        let Some(at) = rest.find('<') else {
            self.thought.push_str(rest);
            return Found::Mark(rest.len());
        };
        let (before, tag) = rest.split_at(at);
        match tag_length(tag, true) {
            Found::Mark(length) => {
                self.thought.push_str(before);
                self.within = Within::Text;
                self.drops_space = true;
                Found::Mark(at + length)
            }
            Found::Unclear if !is_end && at == 0 => Found::Unclear,
            Found::Unclear if !is_end => {
                self.thought.push_str(before);
                Found::Mark(at)
            }
            _ => {
                self.thought.push_str(before);
                self.thought.push('<');
                Found::Mark(at + 1)
            }
        }
    }

    /// Looks at what begins here, outside of a thought.
    fn look(&mut self, rest: &str, is_end: bool) -> Found {
        let is_code = self.within != Within::Text;
        let found = match rest.as_bytes().first() {
            Some(b'`') => return self.fence(rest, is_end),
            Some(b'<') if !is_code => self.thought_begins(rest),
            Some(b'[') if !is_code && self.marks == Marks::All => directive(rest),
            Some(b'M') if !is_code && self.at_line && self.marks == Marks::All => {
                let found = media(rest, is_end);
                if let Found::Mark(length) = found {
                    let line = rest.get(MEDIA.len()..length).unwrap_or_default();
                    self.files.extend(named_files::named(line));
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

/// Splits a whole text into what was thought in it and what was said; `None`
/// when it has no thoughts.
fn split_thought(text: &str) -> Option<(String, String)> {
    if !text.contains('<') {
        return None;
    }
    let mut split = Visible::with(Marks::Thoughts);
    split.push(text);
    split.finish();
    (!split.thought.is_empty()).then_some((split.thought, split.text))
}

/// What people see of a whole text; nothing of a silent one.
pub fn shown_text(text: &str) -> String {
    let mut visible = Visible::new();
    visible.push(text);
    visible.finish();
    let text = visible.text();
    let text = if directives::is_silent(text) { "" } else { directives::strip_glued(text) };
    text.to_owned()
}

/// The blocks of an answer, with thoughts that were written into its text as
/// blocks of their own.
pub fn part_thoughts(content: Vec<ContentBlock>) -> Vec<ContentBlock> {
    let mut parted = Vec::with_capacity(content.len());
    for block in content {
        let split = match &block {
            ContentBlock::Text(block) => split_thought(&block.text),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> String {
        let mut visible = Visible::new();
        visible.push(text);
        visible.finish();
        visible.text().to_owned()
    }

    #[test]
    fn marks_go_and_everything_else_stays() {
        for (text, shown) in [
            ("plain text", "plain text"),
            ("Some text [[reply_to_current]] tagged", "Some text tagged"),
            ("[[reply_to: abc]]\nHello", "Hello"),
            ("<think>secret</think>visible", "visible"),
            ("<Thinking>a < b</THINKING>\n\nvisible", "visible"),
            ("before <think>x</think> after", "before after"),
            ("<think>never closed", ""),
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
            assert_eq!(whole(text), shown, "{text:?}");
        }
    }

    #[test]
    fn thoughts_are_kept_apart_from_what_was_said() {
        let split = |text| split_thought(text);
        assert_eq!(
            split("<think>secret</think>visible [[reply_to_current]]"),
            Some(("secret".into(), "visible [[reply_to_current]]".into()))
        );
        assert_eq!(split("1 < 2"), None);
        assert_eq!(split("`<think>`"), None);
    }

    proptest::proptest! {
        #[test]
        fn the_pieces_do_not_matter_and_nothing_is_taken_back(
            parts in proptest::collection::vec(
                "<think>|</think>|<|>|think|\\[\\[|\\]\\]|reply_to_current|MEDIA:|M|`|```|\n| |a|ö", 0..24),
            cuts in proptest::collection::vec(1..6_usize, 0..60),
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
            visible.finish();
            proptest::prop_assert!(visible.text().starts_with(&last));
            proptest::prop_assert_eq!(visible.text(), whole(&text));
        }
    }
}
