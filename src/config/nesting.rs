//! How deep a text is nested, before it is parsed.
//!
//! Owns: the bound that keeps the recursive JSON5 parser from overflowing the
//! stack, which would end the process whoever wrote the text. Must not: judge
//! anything else; what is not JSON5 is the parser's to say.

use serde_json::Value;

/// As `serde_json` has it; a config needs about ten.
pub(super) const MAX_DEPTH: usize = 128;

/// Whether a value is nested deeper than a text may be.
pub(super) fn is_too_deep(value: &Value) -> bool {
    fn depth(value: &Value, room: usize) -> bool {
        match value {
            Value::Array(items) => room == 0 || items.iter().any(|item| depth(item, room - 1)),
            Value::Object(members) => {
                room == 0 || members.values().any(|member| depth(member, room - 1))
            }
            _ => false,
        }
    }
    depth(value, MAX_DEPTH)
}

/// Byte offset of the first bracket that is nested too deep.
pub(super) fn too_deep(text: &str) -> Option<usize> {
    let mut depth: usize = 0;
    for (offset, c) in brackets(text) {
        depth = if matches!(c, '[' | '{') { depth + 1 } else { depth.saturating_sub(1) };
        if depth > MAX_DEPTH {
            return Some(offset);
        }
    }
    None
}

/// The innermost bracket that is open where the text ends, and its byte offset.
pub(super) fn unclosed(text: &str) -> Option<(usize, char)> {
    let mut open = Vec::new();
    for bracket in brackets(text) {
        if matches!(bracket.1, '[' | '{') {
            open.push(bracket);
        } else {
            open.pop();
        }
    }
    open.pop()
}

/// The brackets of a text, with their byte offsets; not those in texts and comments.
fn brackets(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        while let Some((offset, c)) = chars.next() {
            match c {
                '[' | '{' | ']' | '}' => return Some((offset, c)),
                '"' | '\'' => skip_string(&mut chars, c),
                '/' => match chars.peek() {
                    Some((_, '/')) => skip_line(&mut chars),
                    Some((_, '*')) => skip_comment(&mut chars),
                    _ => {}
                },
                _ => {}
            }
        }
        None
    })
}

fn skip_string(chars: &mut impl Iterator<Item = (usize, char)>, quote: char) {
    while let Some((_, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            return;
        }
    }
}

fn skip_line(chars: &mut impl Iterator<Item = (usize, char)>) {
    chars.find(|(_, c)| matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}'));
}

/// The star that opens the comment must not also close it.
fn skip_comment(chars: &mut impl Iterator<Item = (usize, char)>) {
    chars.next();
    let mut after_star = false;
    chars.find(|(_, c)| {
        let closes = after_star && *c == '/';
        after_star = *c == '*';
        closes
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_exact() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(too_deep(&nested(MAX_DEPTH)), None);
        assert!(json5::from_str::<serde_json::Value>(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(too_deep(&nested(MAX_DEPTH + 1)), Some(MAX_DEPTH));
        assert_eq!(too_deep(&nested(1).repeat(10 * MAX_DEPTH)), None);
    }

    #[test]
    fn brackets_in_texts_and_comments_do_not_count_and_hide_none() {
        let many = "[".repeat(2 * MAX_DEPTH);
        for harmless in [
            format!("'{many}'"),
            format!(r#""\"{many}""#),
            format!("// {many}\n"),
            format!("/* ' {many} */"),
            format!("/*/ {many} */"),
        ] {
            assert_eq!(too_deep(&harmless), None, "{harmless}");
            assert!(too_deep(&format!("{harmless}{many}")).is_some(), "{harmless}");
        }
    }

    #[test]
    fn the_bracket_that_is_open_at_the_end_is_found() {
        for (text, open) in [
            ("{a: [1, 2]}", None),
            ("{a: {b: 1}\n", Some((0, '{'))),
            ("{a: [{}, '}]', // ]}\n", Some((4, '['))),
            ("}}{", Some((2, '{'))),
        ] {
            assert_eq!(unclosed(text), open, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_passes_can_be_parsed_without_a_crash(text in "[\\[\\]{}'\"/*\\\\\n a:,]{0,400}") {
            if too_deep(&text).is_none() {
                let _ = json5::from_str::<serde_json::Value>(&text);
            }
        }
    }
}
