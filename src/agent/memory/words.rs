//! Words of texts in any script.

use std::collections::BTreeSet;

/// Most terms of a query; more make no better search.
const TERMS_MAX: usize = 32;

/// The text as it goes into the index: scripts without spaces get them, around
/// each character.
pub fn indexed(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + text.len() / 4);
    for letter in text.chars() {
        if is_unspaced(letter) {
            words.push(' ');
            words.push(letter);
            words.push(' ');
        } else {
            words.push(letter);
        }
    }
    words
}

/// The terms of a query: words, and pairs of characters of scripts without
/// spaces.
pub fn terms(query: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut terms = Vec::new();
    let mut add = |term: String| {
        if terms.len() < TERMS_MAX && seen.insert(term.to_lowercase()) {
            terms.push(term);
        }
    };
    for run in query.split(|letter: char| !letter.is_alphanumeric()) {
        let letters: Vec<char> = run.chars().collect();
        for part in letters.chunk_by(|one, other| is_unspaced(*one) == is_unspaced(*other)) {
            match part {
                [] => {}
                [first, ..] if !is_unspaced(*first) => add(part.iter().collect()),
                [only] => add(only.to_string()),
                several => {
                    for pair in several.windows(2) {
                        add(pair.iter().map(char::to_string).collect::<Vec<_>>().join(" "));
                    }
                }
            }
        }
    }
    terms
}

/// Han, Kana, Hangul, Thai, Lao, Khmer, Burmese.
fn is_unspaced(letter: char) -> bool {
    matches!(letter,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_becomes_words_whatever_its_characters() {
        assert_eq!(terms("What's the DB? (\"db\" OR *)"), ["What", "s", "the", "DB", "OR"]);
        assert_eq!(terms("我住北京 Rust语言"), ["我 住", "住 北", "北 京", "Rust", "语 言"]);
        assert_eq!(terms("猫"), ["猫"]);
        assert!(terms(" \0\"'()*^:-").is_empty());
        let many = (0..100).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
        assert_eq!(terms(&many).len(), TERMS_MAX);
    }

    #[test]
    fn characters_without_spaces_become_words_of_their_own() {
        assert_eq!(indexed("a北京b"), "a 北  京 b");
    }
}
