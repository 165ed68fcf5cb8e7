//! Answers to a heartbeat that say nothing.

/// The word for it.
const TOKEN: &str = "HEARTBEAT_OK";

/// What an answer says beside the word; `None` when that is nothing, or no more
/// than `ack_max` characters.
pub fn news(answer: &str, ack_max: usize) -> Option<String> {
    let text = answer.trim();
    // Models wrap it.
    let bare = text.trim_matches(['*', '`', '_', '"', '.', '!', ' ', '\n']);
    let rest = bare.strip_prefix(TOKEN).or_else(|| bare.strip_suffix(TOKEN));
    match rest.map(|rest| rest.trim_matches(['*', '`', '"', '.', '!', ' ', '\n'])) {
        Some(rest) if rest.chars().nth(ack_max).is_none() => None,
        Some(rest) => Some(rest.to_owned()),
        None => (!text.is_empty()).then(|| text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_is_silent_and_news_beside_it_are_not() {
        for silent in [
            "HEARTBEAT_OK",
            " **HEARTBEAT_OK**\n",
            "HEARTBEAT_OK.",
            "",
            "All is well. HEARTBEAT_OK",
        ] {
            assert_eq!(news(silent, 300), None, "{silent}");
        }
        assert_eq!(news("Mail came.", 300).as_deref(), Some("Mail came."));
        let long = format!("HEARTBEAT_OK {}", "x".repeat(301));
        assert_eq!(news(&long, 300).unwrap().len(), 301);
        assert_eq!(news("HEARTBEAT_OK a", 0).as_deref(), Some("a"));
        // In the middle of a sentence it is a word like others.
        assert!(news("I would say HEARTBEAT_OK if nothing was wrong", 300).is_some());
    }
}
