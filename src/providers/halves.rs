//! Halves of characters.
//!
//! Owns: what stands for a half while the other one may come. Servers that cut text by
//! UTF-16 units send the two in two pieces. Promises: what is told holds neither halves nor
//! what stands for them.

/// Begins what stands for a half; the four digits of its escape follow. It is no character,
/// so no text of a model holds it.
pub const MARK: char = '\u{fdd0}';
/// Bytes of what stands for a half.
const LENGTH: usize = MARK.len_utf8() + 4;

/// Puts `piece` behind `text`, and gives what is new to tell. A first half at the end waits
/// there for the second one; when none comes, [`whole`] takes it away.
pub fn append(text: &mut String, piece: &str) -> String {
    let mut new = take_first(text);
    new.push_str(piece);
    let waiting = take_first(&mut new);
    let new = whole(new);
    text.push_str(&new);
    text.push_str(&waiting);
    new
}

/// `text` with its halves joined; those without partner go.
pub fn whole(text: String) -> String {
    if !text.contains(MARK) {
        return text;
    }
    let mut parts = text.split(MARK);
    let mut units: Vec<u16> = parts.next().unwrap_or_default().encode_utf16().collect();
    for part in parts {
        // Without a half behind it the mark was there before.
        let (unit, rest) = half(part).unwrap_or((0xFDD0, part));
        units.push(unit);
        units.extend(rest.encode_utf16());
    }
    char::decode_utf16(units).flatten().collect()
}

/// Takes the first half of a character off the end of `text`.
fn take_first(text: &mut String) -> String {
    let at = text.len().saturating_sub(LENGTH);
    let end = text.get(at..).and_then(|end| half(end.strip_prefix(MARK)?));
    if end.is_some_and(|(unit, _)| unit < 0xDC00) { text.split_off(at) } else { String::new() }
}

/// The half whose digits `text` begins with, and what follows.
fn half(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    (0xD800..=0xDFFF).contains(&unit).then_some((unit, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::json::parse;

    /// What is told of the strings of this JSON, and what they are together.
    fn told(pieces: &str) -> (Vec<String>, String) {
        let mut text = String::new();
        let pieces: Vec<String> = parse(pieces).unwrap();
        let told = pieces.iter().map(|piece| append(&mut text, piece)).collect();
        (told, whole(text))
    }

    #[test]
    fn halves_of_two_pieces_are_joined_and_what_has_no_partner_goes() {
        for (pieces, expected) in [
            (r#"["a\ud83d", "\ude00b"]"#, vec!["a", "😀b"]),
            (r#"["a\uD83D", "", "\ude00\ud83d", "\ude00"]"#, vec!["a", "", "😀", "😀"]),
            (r#"["\ud83d\ud83d", "\ude00\ude00", "\ude00"]"#, vec!["", "😀", ""]),
            (r#"["a\ud83d", "b", "\ude00"]"#, vec!["a", "b", ""]),
            (r#"["a\ud83d", "😀"]"#, vec!["a", "😀"]),
            (r#"["a\ude00b\ud83d"]"#, vec!["ab"]),
        ] {
            let (told, text) = told(pieces);
            assert_eq!(told, expected, "{pieces}");
            assert_eq!(text, expected.concat(), "{pieces}");
        }
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in ["", "é", "\u{fdd0}", "\u{fdd0}é\u{fdd0}+d83\u{fdd0}00e9", "\u{10f83d}d83d"] {
            let mut kept = "a".to_owned();
            assert_eq!(append(&mut kept, text), text);
            assert_eq!(whole(kept), format!("a{text}"));
        }
    }
}
