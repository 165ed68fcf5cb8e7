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
/// that; `None` when it asks for none. The last one counts. The text is gone
/// through once: it may be as long as a frame.
pub fn thinking(text: &str) -> Option<(ThinkingLevel, String)> {
    let (mut kept, mut level, mut in_code) = (String::new(), None, false);
    let mut rest = text.trim_start();
    while let Some(at) = rest.find(['/', '`']) {
        let (before, from) = rest.split_at(at);
        kept.push_str(before);
        let stands_alone = kept.chars().next_back().is_none_or(char::is_whitespace);
        if stands_alone
            && !in_code
            && let Some((found, after)) = thinking_at(from, kept.is_empty())
        {
            level = Some(found);
            rest = after.trim_start_matches([' ', '\t']);
            if kept.is_empty() {
                rest = rest.trim_start();
            }
            continue;
        }
        in_code ^= from.starts_with('`');
        let (sign, after) = from.split_at(1);
        kept.push_str(sign);
        rest = after;
    }
    let level = level?;
    kept.push_str(rest);
    Some((level, kept.trim_end().to_owned()))
}

/// The directive for thinking that a text begins with, and what follows it.
fn thinking_at(text: &str, is_first: bool) -> Option<(ThinkingLevel, &str)> {
    let (word, tail) = first_word(text);
    let (name, glued) = name_of(word);
    // The short forms look like paths and switches in the midst of a text.
    let is_short = name.chars().count() == 2 && !is_first;
    if is_short || setting(name) != Some(Setting::Think) {
        return None;
    }
    let (level, after) =
        if glued.is_empty() { first_word(tail.trim_start()) } else { (glued, tail) };
    Some((ThinkingLevel::meant_by(level)?, after))
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
    if setting == Setting::Think {
        return ThinkingLevel::meant_by(word).map(ThinkingLevel::as_str);
    }
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
            ("/think max why?", "xhigh", "why?"),
            ("why? /think:Ultra", "high", "why?"),
            ("/think high", "high", ""),
            (" /think low\n/t high  a `/think off` b /t low", "high", "a `/think off` b /t low"),
        ] {
            let level = ThinkingLevel::parse(level).unwrap();
            assert_eq!(thinking(text), Some((level, rest.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_long_text_is_gone_through_once() {
        let begun = tokio::time::Instant::now();
        let slashes = "/ ".repeat(1 << 20);
        assert_eq!(thinking(&slashes), None);
        let many = "/think low ".repeat(1 << 17);
        assert_eq!(thinking(&many), Some((ThinkingLevel::Low, String::new())));
        // Seconds; looked at from its start for each slash, it is many minutes.
        assert!(begun.elapsed() < std::time::Duration::from_mins(1));
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
