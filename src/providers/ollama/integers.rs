//! Integers that a program in JavaScript cannot hold.
//!
//! Owns: turning them into texts, as the original does: an id of 19 digits
//! must reach its tool as it was written.

/// The largest integer that JavaScript holds exactly.
const MAX_SAFE: &str = "9007199254740991";

/// `json` with integers beyond that in quotes.
pub fn quoted(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => text_length(rest),
            '-' | '0'..='9' => number_length(rest),
            _ => c.len_utf8(),
        };
        let (token, tail) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if is_unsafe(token) {
            out.extend(["\"", token, "\""]);
        } else {
            out.push_str(token);
        }
        rest = tail;
    }
    out
}

fn text_length(text: &str) -> usize {
    let mut escaped = true; // the opening quote is no end
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn number_length(text: &str) -> usize {
    let part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
    text.find(|c| !part(c)).unwrap_or(text.len())
}

fn is_unsafe(token: &str) -> bool {
    let digits = token.strip_prefix('-').unwrap_or(token);
    let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // Texts of digits compare like numbers when they are equally long.
    whole && (digits.len(), digits) > (MAX_SAFE.len(), MAX_SAFE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_integers_beyond_the_limit_become_texts() {
        for (json, expected) in [
            (r#"{"id":1234567890123456789}"#, r#"{"id":"1234567890123456789"}"#),
            ("[9007199254740991,9007199254740992]", r#"[9007199254740991,"9007199254740992"]"#),
            ("[-9007199254740992,-1]", r#"["-9007199254740992",-1]"#),
            ("[12345678901234567890.5,1e30]", "[12345678901234567890.5,1e30]"),
            (
                r#"{"a \" 12345678901234567890":"é 12345678901234567890"}"#,
                r#"{"a \" 12345678901234567890":"é 12345678901234567890"}"#,
            ),
            (r#""cut \"#, r#""cut \"#),
        ] {
            assert_eq!(quoted(json), expected);
        }
    }
}
