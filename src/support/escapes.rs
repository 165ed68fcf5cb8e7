//! JSON as JavaScript writes it.

use std::io;
use std::path::Path;

use serde_json::Value;

/// Reads JSON. JavaScript writes halves of surrogate pairs that it cut apart as escapes,
/// which are no text: each reads as U+FFFD.
///
/// # Errors
/// When it is no JSON.
pub fn json_of_javascript(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| match whole_escapes(text) {
        Some(whole) => serde_json::from_str(&whole),
        None => Err(error),
    })
}

/// Reads a file of such JSON. Bytes that are no text read as U+FFFD; a byte order mark,
/// which some editors put first, is passed over.
///
/// # Errors
/// When the file cannot be read, or is no JSON.
pub fn json_file_of_javascript(path: &Path) -> io::Result<Value> {
    let bytes = std::fs::read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(json_of_javascript(text.trim_start_matches('\u{feff}'))?)
}

/// The text with each half of a surrogate pair that stands alone replaced;
/// `None` when there is none.
#[must_use]
pub fn whole_escapes(text: &str) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    let mut is_changed = false;
    let mut at = 0;
    while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
        at += match (rest.first(), surrogate(rest)) {
            (Some(b'\\'), Some(first)) => {
                let second = rest.get(6..).and_then(surrogate);
                if first < 0xDC00 && second.is_some_and(|second| second >= 0xDC00) {
                    12
                } else {
                    rest.iter_mut().skip(2).zip(*b"fffd").for_each(|(byte, new)| *byte = new);
                    is_changed = true;
                    6
                }
            }
            (Some(b'\\'), None) => 2,
            _ => 1,
        };
    }
    is_changed.then(|| String::from_utf8(bytes).ok()).flatten()
}

/// The escaped half of a surrogate pair that a text begins with.
fn surrogate(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let code = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xD800..0xE000).contains(&code).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_halves_stays() {
        assert_eq!(whole_escapes(r#"{"a":"\ud83d\ude00\\\"é"}"#), None);
    }

    #[test]
    fn halves_of_characters_cost_only_themselves() {
        let read = json_of_javascript(r#"["a\ud83d", "\ude00b", "\ud83d\ude00", "\\ud83d"]"#);
        let whole = crate::support::json!(["a\u{fffd}", "\u{fffd}b", "😀", "\\ud83d"]);
        assert_eq!(read.unwrap(), whole);
        assert!(json_of_javascript(r#"["\ud83"]"#).is_err());
    }
}
