//! A text that must not be shown.

use std::fmt;

use serde::Deserialize;
use subtle::ConstantTimeEq;

/// A credential. It has no `Display` and no `Serialize`, and its `Debug` hides
/// it, so that it cannot reach a log, an event or an answer by accident.
#[derive(Clone, Deserialize)]
#[serde(from = "String")]
pub struct Secret(String);

impl Secret {
    /// Takes the text; surrounding white space is not part of a credential.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    /// The text itself, for the one place that has to send it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in constant time (for equal lengths). Every comparison of a
    /// secret goes through here (GHSA-jmm5-fvh5-gf4p).
    pub fn matches(&self, candidate: &str) -> bool {
        self.0.as_bytes().ct_eq(candidate.trim().as_bytes()).into()
    }

    /// Whether it is of the kind that begins so; such beginnings are public.
    pub fn begins_with(&self, prefix: &str) -> bool {
        self.0.starts_with(prefix)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// In constant time, as [`Secret::matches`].
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other.expose())
    }
}

impl Eq for Secret {}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_text() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    }

    #[test]
    fn matches_ignores_surrounding_space_and_nothing_else() {
        let secret = Secret::new(" hunter2\n");
        assert!(secret.matches("hunter2 "));
        assert!(!secret.matches("hunter"));
        assert!(!secret.matches("Hunter2"));
    }
}
