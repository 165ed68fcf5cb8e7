//! Answers that mean "say nothing" (`reference/behaviour.md` §14).

/// Whole answers that are not shown, in any case.
const TOKENS: [&str; 3] = ["NO_REPLY", "ANNOUNCE_SKIP", "REPLY_SKIP"];

/// Whether a finished answer is silent.
pub fn is_silent(text: &str) -> bool {
    let text = text.trim();
    TOKENS.iter().any(|token| token.eq_ignore_ascii_case(text))
}

/// Whether a text that is still growing could become silent, and so is held
/// back. Only upper case is suspicious while it streams.
pub fn may_become_silent(text: &str) -> bool {
    let text = text.trim();
    text.len() >= 2 && TOKENS.iter().any(|token| token.starts_with(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_tokens_are_silent() {
        for text in ["NO_REPLY", " no_reply\n", "Announce_Skip", "REPLY_SKIP"] {
            assert!(is_silent(text), "{text}");
        }
        for text in ["NO_REPLY but more", "NO", "", "HEARTBEAT_OK"] {
            assert!(!is_silent(text), "{text}");
        }
    }

    #[test]
    fn a_beginning_of_a_token_is_held_back() {
        for text in ["NO", "NO_", "ANN", "NO_REPLY"] {
            assert!(may_become_silent(text), "{text}");
        }
        for text in ["No", "N", "NOT", "NO_REPLY!", ""] {
            assert!(!may_become_silent(text), "{text}");
        }
    }
}
