//! Text of others in the log, and in what is told back.

use super::without_secrets;

/// Most bytes of it in one place: a log is read by people and by models, and
/// neither is helped by what a stranger fills it with.
const MAX_QUOTED: usize = 256;

/// The begin of a text that somebody else has written, on one line and without
/// credentials. Half of one would no longer be known for what it is, so they are taken
/// out first.
pub fn quoted(text: &str) -> String {
    let mut line = String::new();
    for letter in begin(&without_secrets(text)).chars() {
        if letter.is_control() {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    begin(&line).to_owned()
}

fn begin(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_QUOTED)).unwrap_or_default()
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
    fn what_is_quoted_is_one_line_and_still_short() {
        assert_eq!(quoted("x\n\u{1b}[31m é"), r"x\n\u{1b}[31m é");
        assert_eq!(quoted(&"\n".repeat(MAX_QUOTED)), r"\n".repeat(MAX_QUOTED / 2));
    }

    #[test]
    fn no_half_of_a_secret_is_quoted() {
        crate::telemetry::hide(&crate::support::Secret::new("quote-canary-1"));
        let text = format!("{}quote-canary-1 and more", "x".repeat(MAX_QUOTED - 7));
        assert_eq!(quoted(&text), format!("{}*** and", "x".repeat(MAX_QUOTED - 7)));
    }
}
