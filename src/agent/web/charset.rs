//! From bytes to text.
//!
//! Owns: which encoding a page is in. Promises: any bytes become a text.

use encoding_rs::{Encoding, UTF_8};

/// Where HTML must say its encoding, if it does.
const HEAD: usize = 1024;

/// The text of a body. The encoding is that of its mark, of its type, of the
/// head of an HTML page, or UTF-8.
pub fn decode(bytes: &[u8], content_type: Option<&str>) -> String {
    let may_be_page = content_type.is_none_or(|kind| kind.to_lowercase().contains("html"));
    let named = content_type.and_then(charset_of).or_else(|| {
        let head = may_be_page.then(|| bytes.get(..HEAD).unwrap_or(bytes))?;
        charset_of(&String::from_utf8_lossy(head))
    });
    let encoding = named.and_then(|it| Encoding::for_label(it.as_bytes())).unwrap_or(UTF_8);
    encoding.decode(bytes).0.into_owned()
}

/// What follows `charset=`.
fn charset_of(text: &str) -> Option<String> {
    let text = text.to_lowercase();
    let (_, rest) = text.split_once("charset=")?;
    let rest = rest.trim_start_matches(['"', '\'', ' ']);
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c)));
    let label = rest.get(..end.unwrap_or(rest.len()))?;
    (!label.is_empty()).then(|| label.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_what_the_answer_or_the_page_says() {
        let latin = b"caf\xe9";
        assert_eq!(decode(latin, Some("text/plain; charset=\"ISO-8859-1\"")), "café");
        let page = b"<meta http-equiv=x content='text/html; charset=windows-1252'>\x80";
        assert!(decode(page, Some("text/html")).ends_with('€'));
        let data = "{\"a\": \"charset=utf-16\", \"b\": \"grün\"}";
        assert_eq!(decode(data.as_bytes(), Some("application/json")), data);
        assert_eq!(decode(b"\xef\xbb\xbfok", Some("text/plain; charset=utf-16")), "ok");
        assert_eq!(decode("grün".as_bytes(), None), "grün");
        assert_eq!(decode(latin, Some("text/plain; charset=nonsense")), "caf\u{fffd}");
    }
}
