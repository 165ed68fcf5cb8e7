//! Settings inside of messages: `/think high` and the like.
//!
//! Owns: where in a text a directive stands. Promises: what is no directive
//! with a level that there is stays in the text as it was; nothing inside of
//! code is taken for one. Must not: change anything.

use super::table::{self, Action, Setting};
use crate::providers::ThinkingLevel;

/// A setting and what it is to be.
pub type Directive = (Setting, &'static str);

/// The settings that a text consists of, if it consists of nothing else.
pub fn alone(text: &str) -> Option<Vec<Directive>> {
    let mut words = text.split_whitespace();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let (name, glued) = name_of(word);
        let setting = setting(name)?;
        let level = if glued.is_empty() { words.next()? } else { glued };
        found.push((setting, level_of(setting, level)?));
    }
    (!found.is_empty()).then_some(found)
}

/// The level of thinking that a message asks for, and the message without
/// that; `None` when it asks for none. The last one counts.
pub fn thinking(text: &str) -> Option<(ThinkingLevel, String)> {
    let mut rest = text.to_owned();
    let mut level = None;
    let mut from = 0;
    while let Some((start, end, found)) = next_thinking(&rest, from) {
        level = Some(found);
        let before = rest.get(..start).unwrap_or_default();
        let after = rest.get(end..).unwrap_or_default().trim_start_matches([' ', '\t']);
        let joined = [before, after].concat();
        from = start;
        rest = joined;
    }
    let rest = rest.trim().to_owned();
    level.map(|level| (level, rest))
}

/// Where the next directive for thinking stands, from byte `from` on.
fn next_thinking(text: &str, from: usize) -> Option<(usize, usize, ThinkingLevel)> {
    let mut at = from;
    while let Some(offset) = text.get(at..)?.find('/') {
        let start = at + offset;
        at = start + 1;
        let before = text.get(..start)?;
        let stands_alone = before.chars().next_back().is_none_or(char::is_whitespace);
        let in_code = before.matches('`').count() % 2 == 1;
        if !stands_alone || in_code {
            continue;
        }
        let (word, tail) = first_word(text.get(start..)?);
        let (name, glued) = name_of(word);
        // The short forms look like paths and switches in the midst of a text.
        let is_short = name.chars().count() == 2 && !before.trim().is_empty();
        if is_short || setting(name) != Some(Setting::Think) {
            continue;
        }
        let (level, end) = if glued.is_empty() {
            let skipped = tail.len() - tail.trim_start().len();
            let (level, _) = first_word(tail.trim_start());
            (level, start + word.len() + skipped + level.len())
        } else {
            (glued, start + word.len())
        };
        if let Some(level) = level_of(Setting::Think, level).and_then(ThinkingLevel::parse) {
            return Some((start, end, level));
        }
    }
    None
}

fn first_word(text: &str) -> (&str, &str) {
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// `/think:high` is one word for two.
fn name_of(word: &str) -> (&str, &str) {
    word.split_once(':').unwrap_or((word, ""))
}

fn setting(name: &str) -> Option<Setting> {
    match table::find(name)?.action? {
        Action::Setting(
            setting @ (Setting::Think
            | Setting::Verbose
            | Setting::Trace
            | Setting::Fast
            | Setting::Reasoning
            | Setting::Elevated),
        ) => Some(setting),
        _ => None,
    }
}

/// The level of this name that a setting can have.
pub fn level_of(setting: Setting, word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    let known =
        table::COMMANDS.iter().find(|spec| spec.action == Some(Action::Setting(setting)))?;
    let choices = known.args.first()?.choices.iter();
    choices.copied().find(|choice| *choice == word && word != "status")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_nothing_but_settings_is_that() {
        let think = (Setting::Think, "high");
        assert_eq!(alone("/think high"), Some(vec![think]));
        assert_eq!(alone(" /T:HIGH\n"), Some(vec![think]));
        let both = alone("/thinking: high /v full").unwrap();
        assert_eq!(both, [think, (Setting::Verbose, "full")]);
        for text in
            ["", "/think", "/think very", "/think high now", "/queue collect", "/fast status"]
        {
            assert_eq!(alone(text), None, "{text}");
        }
    }

    #[test]
    fn a_level_is_taken_out_of_the_midst_of_a_message() {
        for (text, level, rest) in [
            ("/think high do this", "high", "do this"),
            ("/t low  do\n this", "low", "do\n this"),
            ("do this /think:off", "off", "do this"),
            ("do /thinking: Medium this\n\n  now", "medium", "do this\n\n  now"),
            ("/think low a /think high b", "high", "a b"),
            ("/think high", "high", ""),
        ] {
            let level = ThinkingLevel::parse(level).unwrap();
            assert_eq!(thinking(text), Some((level, rest.to_owned())), "{text}");
        }
    }

    #[test]
    fn paths_switches_code_and_other_words_stay() {
        for text in [
            "see /think/high",
            "copy a /t low",
            "what does `/think high` do?",
            "a/think high",
            "/think about it",
            "/verbose on do this",
            "",
            "/",
        ] {
            assert_eq!(thinking(text), None, "{text}");
        }
    }
}
