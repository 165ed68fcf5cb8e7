//! Patterns (ECMA-262) with the library's expressions.
//!
//! Owns: what is other in them. Promises: no pattern takes much memory, or long for a text.

use regex::{Regex, RegexBuilder};

/// Longest pattern.
pub(super) const MAX_LENGTH: usize = 1_024;
/// Longest text that is held against one.
pub(super) const MAX_TEXT: usize = 4 * 1_024;
/// Most bytes that one becomes; a match takes as long as that and the text are large.
const MAX_BYTES: usize = 64 * 1_024;
/// Those of a small one, and how many bytes of a text are held against it in a step.
const SMALL: usize = 4 * 1_024;
const STEP: usize = 16;

/// A pattern.
pub(super) struct Pattern {
    regex: Regex,
    is_small: bool,
}

impl Pattern {
    /// Reads one; `None` for one that is too large, or that the library has not (it looks
    /// ahead or back, names a property of characters, is none at all).
    pub(super) fn read(pattern: &str) -> Option<Self> {
        let pattern = translated(pattern);
        let build = |bytes| RegexBuilder::new(&pattern).size_limit(bytes).build().ok();
        let small = build(SMALL).map(|regex| Self { regex, is_small: true });
        small.or_else(|| build(MAX_BYTES).map(|regex| Self { regex, is_small: false }))
    }

    /// How many steps it takes to hold a text against it.
    pub(super) fn cost(&self, text: &str) -> usize {
        1 + if self.is_small { text.len() / STEP } else { text.len() }
    }

    /// Whether a text has it.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// In the library's words: digits, letters of words and their borders are those of ASCII,
/// groups keep nothing, and in a class no sign but a backslash is special.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut is_in_class = false;
    // Whether the last part of a class begins no range.
    let mut is_closed = false;
    while let Some(sign) = rest.chars().next() {
        rest = &rest[sign.len_utf8()..];
        let was_closed = std::mem::take(&mut is_closed);
        match sign {
            '\\' => {
                let next = rest.chars().next();
                rest = next.map_or(rest, |next| &rest[next.len_utf8()..]);
                is_closed = next.is_some_and(is_set);
                match next {
                    Some('d') => out.push_str("[0-9]"),
                    Some('D') => out.push_str("[^0-9]"),
                    Some('w') => out.push_str("[0-9A-Za-z_]"),
                    Some('W') => out.push_str("[^0-9A-Za-z_]"),
                    Some('b') if !is_in_class => out.push_str(r"(?-u:\b)"),
                    Some(plain @ ('/' | '<' | '>')) => out.push(plain),
                    next => {
                        out.push('\\');
                        out.extend(next);
                    }
                }
            }
            '(' if !is_in_class => {
                out.push('(');
                match rest.strip_prefix("?<").filter(|name| !name.starts_with(['=', '!'])) {
                    Some(name) => {
                        out.push_str("?:");
                        rest = name.split_once('>').map_or("", |(_, rest)| rest);
                    }
                    None if !rest.starts_with('?') => out.push_str("?:"),
                    None => {}
                }
            }
            '[' if !is_in_class => {
                is_in_class = true;
                out.push('[');
            }
            ']' => {
                is_in_class = false;
                out.push(']');
            }
            '[' | '&' | '~' if is_in_class => {
                out.push('\\');
                out.push(sign);
            }
            '-' if is_in_class => {
                let mut next = rest.chars();
                let is_plain = match next.next() {
                    Some('\\') => next.next().is_some_and(is_set),
                    next => next == Some('-'),
                };
                is_closed = is_plain || was_closed;
                out.push_str(if is_closed { r"\-" } else { "-" });
            }
            sign => out.push(sign),
        }
    }
    out
}

/// Whether an escaped letter stands for several.
fn is_set(letter: char) -> bool {
    matches!(letter, 'd' | 'D' | 'w' | 'W' | 's' | 'S')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_it_does_in_javascript() {
        for (pattern, fits, wrong) in [
            (r"^\w+$", "aZ_9", "é"),
            (r"^\W$", "é", "a"),
            (r"^[\w-]{1,64}$", "a-b", "a b"),
            (r"^[+-\d]+$", "+1-2", "1]"),
            (r"^[\w--.]+$", "a-.", "a+"),
            (r"^[!--]$", "-", "a"),
            (r"^[^\d]$", "a", "1"),
            (r"^[[&&a]$", "[", "b"),
            (r"^[a-c]$", "b", "-"),
            (r"^\\d$", "\\d", "1"),
            (r"^a\/b$", "a/b", "ab"),
            (r"^\<\w+\>$", "<br>", "br"),
            (r"^.{2}$", "äö", "ä"),
            (r"\bfoo\b", "fooé", "foob"),
            (r"^(a|b)(?:c)(?<name>d)\(\)$", "bcd()", "bcd"),
            (r"^\d{4}-\d{2}-\d{2}$", "2026-11-27", "2026-11-2"),
            (r"^[a-zA-Z0-9_\-\.]+$", "a-b.c", "a/b"),
        ] {
            let read = Pattern::read(pattern).unwrap();
            assert!(read.is_in(fits), "{pattern}");
            assert!(!read.is_in(wrong), "{pattern}");
        }
    }

    #[test]
    fn what_is_too_large_or_unknown_is_none() {
        for pattern in ["(", "^(?!x)", "(?<=x)", "(?<!x)", "(a{1,1000}){1,1000}", "a\\", "(a)\\1"] {
            assert!(Pattern::read(pattern).is_none(), "{pattern}");
        }
        let cost = |pattern: &str| Pattern::read(pattern).unwrap().cost("0123456789abcdef");
        assert_eq!((cost("^a+$"), cost("(x?){500}y")), (2, 17));
    }
}
