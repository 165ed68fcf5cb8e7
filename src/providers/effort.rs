//! The word by which a model is told how hard to think.
//!
//! Owns: the choice of that word for the APIs of `OpenAI`. Must not: know
//! where it is written.

use super::{ModelRequest, ThinkingLevel};

/// Levels from the least to the most.
const LEVELS: [ThinkingLevel; 5] = [
    ThinkingLevel::Minimal,
    ThinkingLevel::Low,
    ThinkingLevel::Medium,
    ThinkingLevel::High,
    ThinkingLevel::XHigh,
];

/// The word for the level of `request`; `None` when it should not think and
/// the configuration has no word for that.
pub fn effort(request: &ModelRequest) -> Option<String> {
    let compat = &request.model.options.compat;
    let level = accepted(request);
    if let Some(word) = compat.reasoning_effort_map.get(level.as_str()) {
        return Some(word.clone());
    }
    (level != ThinkingLevel::Off).then(|| level.as_str().to_owned())
}

/// The level that the model accepts: the one asked for, else the next lower
/// one, else the lowest.
fn accepted(request: &ModelRequest) -> ThinkingLevel {
    let level = request.thinking;
    if level == ThinkingLevel::Off {
        return level;
    }
    let compat = &request.model.options.compat;
    let Some(words) = &compat.supported_reasoning_efforts else {
        let has_word = compat.reasoning_effort_map.contains_key(level.as_str());
        return if has_word { level } else { by_name(&request.model.id, level) };
    };
    let known = LEVELS.into_iter().filter(|level| words.iter().any(|word| word == level.as_str()));
    let lower = known.clone().rfind(|known| *known <= level);
    lower.or_else(|| known.clone().next()).unwrap_or(level)
}

/// The same of a model of which nothing but the name is known.
fn by_name(id: &str, level: ThinkingLevel) -> ThinkingLevel {
    let version = version(id);
    match level {
        ThinkingLevel::XHigh if version.is_none_or(|it| it < (5, 2)) => ThinkingLevel::High,
        ThinkingLevel::Minimal if version.is_some_and(|it| it > (5, 0)) || has_three(id) => {
            ThinkingLevel::Low
        }
        level => level,
    }
}

/// Whether a model knows the three levels in the middle alone.
fn has_three(id: &str) -> bool {
    let name = id.rsplit('/').next().unwrap_or(id);
    ["gpt-oss", "deepseek", "o1", "o3", "o4"].iter().any(|begin| name.starts_with(begin))
}

/// `5.1` of `gpt-5.1-codex`.
fn version(id: &str) -> Option<(u32, u32)> {
    let (_, rest) = id.split_once("gpt-")?;
    let number = rest.split('-').next()?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::{model, request_to};
    use ThinkingLevel::{High, Low, Minimal, Off, XHigh};

    #[test]
    fn no_model_is_told_a_level_that_its_generation_refuses() {
        for (id, least, most) in [
            ("gpt-5", Minimal, High),
            ("openai/gpt-5-mini", Minimal, High),
            ("gpt-5.1-codex", Low, High),
            ("gpt-5.4", Low, XHigh),
            ("openai/gpt-6.1-sol", Low, XHigh),
            ("openai/gpt-oss-120b", Low, High),
            ("o4-mini", Low, High),
            ("deepseek-v4-pro", Low, High),
            ("other", Minimal, High),
        ] {
            assert_eq!((by_name(id, Minimal), by_name(id, XHigh)), (least, most), "{id}");
        }
    }

    fn word(id: &str, efforts: Option<&[&str]>, level: ThinkingLevel) -> Option<String> {
        let mut model = model("openai-responses");
        model.id = id.into();
        let compat = &mut std::sync::Arc::make_mut(&mut model.options).compat;
        compat.supported_reasoning_efforts =
            efforts.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
        compat.reasoning_effort_map.insert("minimal".into(), "none".into());
        let mut request = request_to(model, vec![]);
        request.thinking = level;
        effort(&request)
    }

    #[test]
    fn the_highest_level_exists_only_where_it_is_known() {
        assert_eq!(word("gpt-5.1", None, XHigh).as_deref(), Some("high"));
        assert_eq!(word("gpt-5.2", None, XHigh).as_deref(), Some("xhigh"));
        assert_eq!(word("gpt-5.1", Some(&["low", "xhigh"]), XHigh).as_deref(), Some("xhigh"));
    }

    #[test]
    fn a_level_that_is_not_accepted_becomes_the_next_lower_one() {
        assert_eq!(word("m", Some(&["low", "medium"]), XHigh).as_deref(), Some("medium"));
        assert_eq!(word("m", Some(&["medium"]), Low).as_deref(), Some("medium"));
        assert_eq!(word("m", Some(&["odd"]), Low).as_deref(), Some("low"));
    }

    #[test]
    fn the_configuration_may_have_other_words() {
        assert_eq!(word("m", None, Minimal).as_deref(), Some("none"));
        assert_eq!(word("m", None, Off), None);
    }
}
