//! Ids of transcripts.

use std::fmt;

/// Longest id that we make a file name of.
const LENGTH_MAX: usize = 128;

/// Id of a transcript, safe as the name of a file: letters, digits, `-`, `_`
/// and `.`, not beginning with a dot, no `..`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

impl SessionId {
    /// The id, if the text is one.
    pub fn parse(text: &str) -> Option<Self> {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let valid = !text.is_empty()
            && text.len() <= LENGTH_MAX
            && !text.starts_with('.')
            && !text.contains("..")
            && text.bytes().all(safe);
        valid.then(|| Self(text.to_owned()))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_leaves_the_folder_is_an_id() {
        for bad in ["", ".", "..", "../x", "a/b", "a\0", "a..b", ".hidden", "ä", "a b", "a\\b"] {
            assert_eq!(SessionId::parse(bad), None, "{bad:?}");
        }
        assert_eq!(SessionId::parse(&"x".repeat(129)), None);
        for good in ["022e6ed8-0c91-40da-a0fd-96b7784a5729", "old_1", "a.b"] {
            assert_eq!(SessionId::parse(good).unwrap().as_str(), good);
        }
    }
}
