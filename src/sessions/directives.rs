//! Marks that a model puts into its text for the gateway, not for people.

/// Replies that mean "say nothing".
const SILENT: &[&str] = &["NO_REPLY", "ANNOUNCE_SKIP", "REPLY_SKIP"];

/// What a model answers to a heartbeat when there is nothing to report.
const HEARTBEAT_OK: &str = "HEARTBEAT_OK";

/// Whether a whole text means that nothing is to be said.
pub fn is_silent(text: &str) -> bool {
    let text = text.trim();
    SILENT.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a whole text only acknowledges a heartbeat.
pub fn is_heartbeat(text: &str) -> bool {
    text.trim() == HEARTBEAT_OK
}

/// What an answer to a heartbeat says beside the word for it; `None` when that is nothing,
/// or no more than `ack_max` characters.
pub fn heartbeat_news(answer: &str, ack_max: usize) -> Option<String> {
    let text = answer.trim();
    // Models wrap it.
    let bare = text.trim_matches(['*', '`', '_', '"', '.', '!', ' ', '\n']);
    let rest = bare.strip_prefix(HEARTBEAT_OK).or_else(|| bare.strip_suffix(HEARTBEAT_OK));
    match rest.map(|rest| rest.trim_matches(['*', '`', '"', '.', '!', ' ', '\n'])) {
        Some(rest) if rest.chars().nth(ack_max).is_none() => None,
        Some(rest) => Some(rest.to_owned()),
        None => (!text.is_empty()).then(|| text.to_owned()),
    }
}

/// Begins what a message of another session says to the model only.
pub const INTERNAL_BEGIN: &str = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>";
/// Ends it.
pub const INTERNAL_END: &str = "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";

/// The text of a message of another session, without what it says to the model
/// only: from the first beginning to the last end.
pub(super) fn strip_internal(text: &str) -> String {
    let found = text.split_once(INTERNAL_BEGIN);
    let found = found.and_then(|(head, rest)| Some((head, rest.rsplit_once(INTERNAL_END)?.1)));
    found.map_or_else(|| text.to_owned(), |(head, tail)| format!("{}{tail}", head.trim_end()))
}

/// The text without `[[reply_to_current]]`, `[[reply_to:…]]` and
/// `[[audio_as_voice]]`.
pub fn strip(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[[") {
        kept.push_str(before);
        match after.split_once("]]") {
            Some((inside, behind)) if is_directive(inside) => rest = behind,
            _ => {
                kept.push_str("[[");
                rest = after;
            }
        }
    }
    kept.push_str(rest);
    kept
}

/// Longest directive, in bytes; what is longer is text.
const DIRECTIVE_MAX: usize = 128;

/// Whether what stands between `[[` and `]]` is for the gateway: one short line.
pub fn is_directive(inside: &str) -> bool {
    if inside.len() > DIRECTIVE_MAX || inside.contains('\n') {
        return false;
    }
    let inside = inside.trim().to_ascii_lowercase();
    let target = inside.strip_prefix("reply_to").map(str::trim_start);
    let is_reply = target.and_then(|target| target.strip_prefix(':'));
    matches!(inside.as_str(), "reply_to_current" | "audio_as_voice")
        || is_reply.is_some_and(|id| !id.trim().is_empty() && !id.contains(']'))
}

/// Whether more text can make a directive of this beginning of one.
pub fn may_become_directive(inside: &str) -> bool {
    if inside.len() > DIRECTIVE_MAX + 1 || inside.contains('\n') {
        return false;
    }
    let inside = inside.trim_start().trim_end_matches(']').to_ascii_lowercase();
    let word = inside.trim_end();
    ["reply_to_current", "audio_as_voice", "reply_to"].iter().any(|name| name.starts_with(word))
        || inside.strip_prefix("reply_to").is_some_and(|rest| rest.trim_start().starts_with(':'))
}

/// Whether a text that is still growing could become a silent reply, and so is
/// held back. Only upper case is suspicious while it streams.
pub fn may_become_silent(text: &str) -> bool {
    let text = text.trim();
    text.len() >= 2 && SILENT.iter().any(|word| word.starts_with(text))
}

/// The text without a silent word that is glued to what follows it.
pub fn strip_glued(text: &str) -> &str {
    let glued = SILENT.iter().find_map(|word| text.trim_start().strip_prefix(word));
    glued.filter(|rest| rest.starts_with(char::is_alphanumeric)).unwrap_or(text)
}

/// A user's text without the lines that name its files, and without their
/// content.
pub(super) fn strip_files(text: &str) -> &str {
    let mut rest = text;
    while rest.starts_with("[media attached") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    if rest.len() < text.len() {
        rest = rest.split_once("\n<file name=\"").map_or(rest, |(words, _)| words);
    }
    rest.trim()
}

/// A user's text without the time that stands before it for the model,
/// as in `[Sun 2026-11-22 03:35 UTC] hello`.
pub fn strip_sent_at(text: &str) -> &str {
    let Some((stamp, rest)) = text.strip_prefix('[').and_then(|text| text.split_once("] ")) else {
        return text;
    };
    let mut words = stamp.split(' ');
    let day = words.next().is_some_and(|day| DAYS.contains(&day));
    let date = words.next().is_some_and(|date| has_shape(date, "0000-00-00"));
    let time = words.next().is_some_and(|time| has_shape(time, "00:00"));
    let zone = words.next().is_none_or(|zone| !zone.is_empty() && zone.len() <= 9);
    if day && date && time && zone && words.next().is_none() { rest } else { text }
}

const DAYS: &[&str] = &["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Whether a text is like the pattern, where `0` stands for any digit.
fn has_shape(text: &str, pattern: &str) -> bool {
    let fits = |(c, p): (u8, u8)| if p == b'0' { c.is_ascii_digit() } else { c == p };
    text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_replies_are_whole_texts_in_any_case() {
        for silent in ["NO_REPLY", " no_reply\n", "Announce_Skip", "REPLY_SKIP"] {
            assert!(is_silent(silent), "{silent}");
        }
        for loud in ["NO_REPLY but more", "", "NO REPLY", "HEARTBEAT_OK"] {
            assert!(!is_silent(loud), "{loud}");
        }
    }

    #[test]
    fn an_acknowledgement_is_silent_and_news_beside_it_are_not() {
        for silent in [
            "HEARTBEAT_OK",
            " **HEARTBEAT_OK**\n",
            "HEARTBEAT_OK.",
            "",
            "All is well. HEARTBEAT_OK",
        ] {
            assert_eq!(heartbeat_news(silent, 300), None, "{silent}");
        }
        assert_eq!(heartbeat_news("Mail came.", 300).as_deref(), Some("Mail came."));
        let long = format!("HEARTBEAT_OK {}", "x".repeat(301));
        assert_eq!(heartbeat_news(&long, 300).unwrap().len(), 301);
        assert_eq!(heartbeat_news("HEARTBEAT_OK a", 0).as_deref(), Some("a"));
        // In the middle of a sentence it is a word like others.
        assert!(heartbeat_news("I would say HEARTBEAT_OK if nothing was wrong", 300).is_some());
    }

    #[test]
    fn a_beginning_of_a_silent_word_is_held_back() {
        for text in ["NO", "NO_", "ANN", "NO_REPLY"] {
            assert!(may_become_silent(text), "{text}");
        }
        for text in ["No", "N", "NOT", "NO_REPLY!", ""] {
            assert!(!may_become_silent(text), "{text}");
        }
    }

    #[test]
    fn a_silent_word_goes_only_when_it_is_glued() {
        for (text, shown) in [
            ("NO_REPLYHello", "Hello"),
            ("NO_REPLY but more", "NO_REPLY but more"),
            ("NO_REPLY", "NO_REPLY"),
            ("NO_REPLY_2", "NO_REPLY_2"),
            ("Hello", "Hello"),
        ] {
            assert_eq!(strip_glued(text), shown);
        }
    }

    #[test]
    fn a_directive_is_known_by_its_beginning() {
        for (inside, may) in [
            ("", true),
            ("rep", true),
            ("reply_to", true),
            ("reply_to :x", true),
            ("reply_to_current", true),
            ("reply_to_current]", true),
            ("wiki", false),
            ("x", false),
        ] {
            assert_eq!(may_become_directive(inside), may, "{inside}");
        }
    }

    #[test]
    fn directives_go_and_other_brackets_stay() {
        for (text, stripped) in [
            ("Some text [[reply_to_current]] tagged", "Some text  tagged"),
            ("[[ reply_to : abc ]]x[[audio_as_voice]]", "x"),
            ("[[REPLY_TO:1]]", ""),
            ("[[reply_to:]] [[wiki]] [[", "[[reply_to:]] [[wiki]] [["),
            ("a[[[[reply_to:1]]", "a[["),
            ("[[open", "[[open"),
        ] {
            assert_eq!(strip(text), stripped, "{text}");
        }
    }

    #[test]
    fn files_of_a_message_are_not_its_words() {
        let files = "[media attached: 2 files]\n[media attached 1/2: /a (x/y)]\n\
                     [media attached 2/2: /b.txt (text/plain)]\nlook\n\n<file name=\"b.txt\">…";
        for (text, words) in [
            (files, "look"),
            ("[media attached: /a (x/y)]", ""),
            ("plain\n<file name=\"x\">", "plain\n<file name=\"x\">"),
        ] {
            assert_eq!(strip_files(text), words);
        }
    }

    #[test]
    fn only_a_real_time_is_taken_off() {
        for (text, rest) in [
            ("[Sun 2026-11-22 03:35 UTC] hello", "hello"),
            ("[Sun 2026-11-22 03:35 GMT+8] hello", "hello"),
            ("[Sun 2026-11-22 03:35] hello", "hello"),
            ("[Sunday is free] hello", "[Sunday is free] hello"),
            ("[note] hello", "[note] hello"),
            ("[Sun 2026-11-22 03:35 UTC]", "[Sun 2026-11-22 03:35 UTC]"),
        ] {
            assert_eq!(strip_sent_at(text), rest);
        }
    }
}
