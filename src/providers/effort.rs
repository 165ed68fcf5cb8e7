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
    let Some(words) = &request.model.options.compat.supported_reasoning_efforts else {
        let knows_xhigh = ["gpt-5.2", "gpt-5.3"].iter().any(|id| request.model.id.contains(id));
        let too_high = level == ThinkingLevel::XHigh && !knows_xhigh;
        return if too_high { ThinkingLevel::High } else { level };
    };
    let known = LEVELS.into_iter().filter(|level| words.iter().any(|word| word == level.as_str()));
    let lower = known.clone().rfind(|known| *known <= level);
    lower.or_else(|| known.clone().next()).unwrap_or(level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::{model, request_to};
    use ThinkingLevel::{Low, Minimal, Off, XHigh};

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
