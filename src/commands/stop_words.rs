//! Messages that stop what runs.

/// In any case and with any punctuation at the end; those of the original, and
/// `/abort`.
pub const STOP_WORDS: [&str; 25] = [
    "stop",
    "/stop",
    "/abort",
    "esc",
    "abort",
    "wait",
    "exit",
    "interrupt",
    "halt",
    "please stop",
    "stop please",
    "do not do that",
    "stop run",
    "stop agent",
    "stop the run",
    "stop the agent",
    "stopp",
    "anhalten",
    "aufhören",
    "arrête",
    "arrete",
    "detente",
    "pare",
    "やめて",
    "停止",
];

/// Whether a message only says to stop.
pub fn is_stop_word(message: &str) -> bool {
    let said = message.trim().to_lowercase();
    let said = said.trim_end_matches(|c: char| c.is_ascii_punctuation() || "。！…".contains(c));
    STOP_WORDS.contains(&said.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_stand_alone() {
        for text in ["stop", " STOP! ", "/stop", "/abort", "Please stop.", "停止。"] {
            assert!(is_stop_word(text), "{text}");
        }
        for text in ["stop the music", "don't stop", "", "!"] {
            assert!(!is_stop_word(text), "{text}");
        }
    }
}
