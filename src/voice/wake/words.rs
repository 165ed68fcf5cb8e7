//! Wake words.

use serde_json::Value;

/// As many as the original keeps; nobody says more.
const WORDS_MAX: usize = 32;
/// Longest wake word in characters, as in the original.
pub const WORD_MAX: usize = 64;
/// The words of the original.
const STANDARD: [&str; 3] = ["openclaw", "claude", "computer"];

/// The words that apply as long as nobody has chosen any.
pub fn standard() -> Vec<String> {
    STANDARD.map(str::to_owned).to_vec()
}

/// Words as a person writes them: without the space around them, cut to their
/// greatest length, at most as many as are kept. Of none the standard ones are
/// made.
pub fn tidy(written: &[String]) -> Vec<String> {
    let words = written.iter().map(|word| word.trim()).filter(|word| !word.is_empty());
    let cut = words.take(WORDS_MAX).map(|word| word.chars().take(WORD_MAX).collect::<String>());
    let words: Vec<_> = cut.map(|word| word.trim_end().to_owned()).collect();
    if words.is_empty() { standard() } else { words }
}

/// The words in `{triggers, updatedAtMs}`; what is no word is passed over.
pub(in crate::voice) fn kept(file: &Value) -> Vec<String> {
    let triggers = file.get("triggers").and_then(Value::as_array).into_iter().flatten();
    let words: Vec<_> = triggers.filter_map(Value::as_str).map(str::to_owned).collect();
    tidy(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn tidied(words: &[&str]) -> Vec<String> {
        tidy(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_trimmed_and_none_are_the_standard_ones() {
        assert_eq!(tidied(&["ref", " computer ", "  "]), ["ref", "computer"]);
        assert_eq!(tidied(&[]), STANDARD);
        assert_eq!(tidied(&[" ", "\t"]), STANDARD);
    }

    #[test]
    fn there_are_bounds_of_number_and_length() {
        let many: Vec<_> = (0..40).map(|n| format!("word {n}")).collect();
        assert_eq!(tidy(&many).len(), WORDS_MAX);
        let long = "ä".repeat(100);
        assert_eq!(tidied(&[&long]), ["ä".repeat(WORD_MAX)]);
    }

    #[test]
    fn a_file_with_something_else_in_it_has_the_words_that_are_in_it() {
        assert_eq!(kept(&json!({"triggers": [1, " a ", null]})), ["a"]);
        assert_eq!(kept(&json!({"triggers": "a"})), STANDARD);
        assert_eq!(kept(&json!(7)), STANDARD);
    }
}
