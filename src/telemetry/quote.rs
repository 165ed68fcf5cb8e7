//! Text of others in the log, and in what is told back.

use super::without_secrets;

/// Most bytes of it in one place: a log is read by people and by models, and
/// neither is helped by what a stranger fills it with.
const MAX_QUOTED: usize = 256;

/// The begin of a text that somebody else has written, without credentials. Half of
/// one would no longer be known for what it is, so they are taken out first.
pub fn quoted(text: &str) -> String {
    let text = without_secrets(text);
    text.get(..text.floor_char_boundary(MAX_QUOTED)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_short_and_cut_between_characters() {
        assert_eq!(quoted("short"), "short");
        assert_eq!(quoted(&"x".repeat(15_000)).len(), MAX_QUOTED);
        assert_eq!(quoted(&"é€".repeat(100)).len(), 255);
    }

    #[test]
    fn no_half_of_a_secret_is_quoted() {
        crate::telemetry::hide(&crate::support::Secret::new("quote-canary-1"));
        let text = format!("{}quote-canary-1 and more", "x".repeat(MAX_QUOTED - 7));
        assert_eq!(quoted(&text), format!("{}*** and", "x".repeat(MAX_QUOTED - 7)));
    }
}
