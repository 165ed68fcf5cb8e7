//! Messages that stop what runs.

/// Those of the original, in several languages as it has them, some more that say the same,
/// and `/abort`.
pub const STOP_WORDS: [&str; 47] = [
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
    "stop action",
    "stop current action",
    "stop run",
    "stop current run",
    "stop agent",
    "stop the run",
    "stop the agent",
    "stop openclaw",
    "openclaw stop",
    "stop don't do anything",
    "stop dont do anything",
    "stop do not do anything",
    "stop doing anything",
    "stopp",
    "anhalten",
    "aufhören",
    "hoer auf",
    "arrête",
    "arrete",
    "detente",
    "deten",
    "detén",
    "pare",
    "やめて",
    "止めて",
    "停止",
    "停下来",
    "暂停",
    "रुको",
    "توقف",
    "стоп",
    "остановись",
    "останови",
    "остановить",
    "прекрати",
];

/// What is passed over at the end besides the punctuation of ASCII.
const AT_THE_END: &str = "。！？…，；：’”";

/// More words than this, or longer ones, are none of them: a message may be of many megabytes.
const WORDS_MAX: usize = 5;
const LENGTH_MAX: usize = 100;

/// Whether a message only says to stop: in any case, with any blanks, and with any punctuation
/// at the end.
pub fn is_stop_word(message: &str) -> bool {
    let is_passed_over =
        |c: char| c.is_whitespace() || c.is_ascii_punctuation() || AT_THE_END.contains(c);
    let said = message.trim_end_matches(is_passed_over).split_whitespace();
    let said: Vec<&str> = said.take(WORDS_MAX + 1).collect();
    if said.len() > WORDS_MAX || said.iter().any(|word| word.len() > LENGTH_MAX) {
        return false;
    }
    let said = said.join(" ").to_lowercase().replace('’', "'");
    STOP_WORDS.contains(&said.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_stand_alone() {
        for text in ["stop", " STOP! ", "/stop", "/abort", "Please stop.", "停止。"] {
            assert!(is_stop_word(text), "{text}");
        }
        for words in STOP_WORDS {
            let spread = format!("  {}。", words.replace(' ', &" \n".repeat(1000)));
            assert!(is_stop_word(&spread), "{words}");
        }
        for text in ["stop the music", "don't stop", "", "!", "please\nstop it", "stopstop"] {
            assert!(!is_stop_word(text), "{text}");
        }
    }

    #[test]
    fn every_stop_word_is_one_however_it_is_written() {
        for word in STOP_WORDS {
            assert!(is_stop_word(word), "{word}");
            let shouted =
                format!("\t{} ！？…，。；：’\"”)]}}", word.to_uppercase().replace(' ', " \n "));
            assert!(is_stop_word(&shouted), "{shouted}");
        }
        for text in ["Stop, don't do anything", "stop’s"] {
            assert!(!is_stop_word(text), "{text}");
        }
        assert!(is_stop_word("stop  don’t do\u{3000}anything!!!"));
    }
}
