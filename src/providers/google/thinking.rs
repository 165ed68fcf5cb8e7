//! How models of Google are told to think.
//!
//! Owns: levels and budgets by model.

use serde_json::Value;

use crate::support::json;

use super::super::{ModelRequest, ThinkingLevel};

/// `thinkingConfig`; `None` when it is left to the model.
pub fn config(request: &ModelRequest) -> Option<Value> {
    if !request.model.reasoning {
        return None;
    }
    let (id, level) = (request.model.id.to_lowercase(), request.thinking);
    let mut config = match named_level(&id, level) {
        Some(word) => json!({"thinkingLevel": word}),
        None => json!({"thinkingBudget": budget(&id, level)?}),
    };
    if level != ThinkingLevel::Off {
        config["includeThoughts"] = json!(true);
    }
    Some(config)
}

/// Whether a model is of the third generation, or of a later one.
pub fn is_of_third_generation(id: &str) -> bool {
    let id = id.to_lowercase();
    let Some((_, rest)) = id.split_once("gemini-") else { return false };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    match rest.get(..digits).unwrap_or_default().parse::<u32>() {
        Ok(generation) => generation >= 3,
        // `gemini-flash-latest` is whichever is new.
        Err(_) => rest.ends_with("-latest"),
    }
}

/// Models of the third generation know levels instead of budgets. They cannot be told not to
/// think, but to do so the least.
fn named_level(id: &str, level: ThinkingLevel) -> Option<&'static str> {
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, XHigh};
    if id.contains("gemma-4") {
        return Some(if level <= Low { "MINIMAL" } else { "HIGH" });
    }
    is_of_third_generation(id).then_some(match level {
        Off | Minimal if id.contains("flash") => "MINIMAL",
        Off | Minimal | Low => "LOW",
        Medium if !id.contains("-pro") => "MEDIUM",
        Medium | High | XHigh => "HIGH",
    })
}

/// Tokens; -1 lets the model decide.
fn budget(id: &str, level: ThinkingLevel) -> Option<i32> {
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, XHigh};
    let (none, least, most) = if id.contains("2.5-pro") {
        // It thinks in any case.
        (128, 128, 32_768)
    } else if id.contains("2.5-flash-lite") {
        (0, 512, 24_576)
    } else if id.contains("2.5-flash") {
        (0, 128, 24_576)
    } else {
        return (level != Off).then_some(-1);
    };
    Some(match level {
        Off => none,
        Minimal => least,
        Low => 2048,
        Medium => 8192,
        High | XHigh => most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::{model, request_to};
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, XHigh};

    fn asked(id: &str, level: ThinkingLevel) -> Option<Value> {
        let mut model = model("google-generative-ai");
        model.id = id.into();
        model.reasoning = true;
        let mut request = request_to(model, vec![]);
        request.thinking = level;
        config(&request)
    }

    #[track_caller]
    fn asks(id: &str, level: ThinkingLevel, member: &str, expected: &Value) {
        let expected = json!({"includeThoughts": true, member: expected});
        assert_eq!(asked(id, level), Some(expected), "{id} {level:?}");
    }

    #[test]
    fn each_generation_is_asked_in_its_own_words() {
        for (level, pro, flash, other, gemma) in [
            (Minimal, "LOW", "MINIMAL", "LOW", "MINIMAL"),
            (Low, "LOW", "LOW", "LOW", "MINIMAL"),
            (Medium, "HIGH", "MEDIUM", "MEDIUM", "HIGH"),
            (High, "HIGH", "HIGH", "HIGH", "HIGH"),
            (XHigh, "HIGH", "HIGH", "HIGH", "HIGH"),
        ] {
            for (id, word) in [
                ("gemini-3-pro-preview", pro),
                ("gemini-3.1-pro-preview-customtools", pro),
                ("gemini-pro-latest", pro),
                ("gemini-3-flash-preview", flash),
                ("gemini-3.8-flash", flash),
                ("gemini-flash-lite-latest", flash),
                ("gemini-4-argon", other),
                ("gemma-4-31b-it", gemma),
            ] {
                asks(id, level, "thinkingLevel", &json!(word));
            }
        }
        for (level, pro, flash, lite) in [
            (Minimal, 128, 128, 512),
            (Low, 2048, 2048, 2048),
            (Medium, 8192, 8192, 8192),
            (High, 32_768, 24_576, 24_576),
            (XHigh, 32_768, 24_576, 24_576),
        ] {
            asks("gemini-2.5-pro", level, "thinkingBudget", &json!(pro));
            asks("gemini-2.5-flash", level, "thinkingBudget", &json!(flash));
            asks("gemini-2.5-flash-lite", level, "thinkingBudget", &json!(lite));
            asks("other", level, "thinkingBudget", &json!(-1));
        }
    }

    #[test]
    fn a_model_that_thinks_unasked_is_told_not_to() {
        for (id, member, expected) in [
            ("gemini-3.1-pro-preview", "thinkingLevel", json!("LOW")),
            ("gemini-3.8-flash", "thinkingLevel", json!("MINIMAL")),
            ("gemini-4-argon", "thinkingLevel", json!("LOW")),
            ("gemma-4-31b-it", "thinkingLevel", json!("MINIMAL")),
            ("gemini-2.5-pro", "thinkingBudget", json!(128)),
            ("gemini-2.5-flash", "thinkingBudget", json!(0)),
            ("gemini-2.5-flash-lite", "thinkingBudget", json!(0)),
        ] {
            assert_eq!(asked(id, Off), Some(json!({member: expected})), "{id}");
        }
        assert_eq!(asked("gemini-1.5-pro-latest", Off), None);
    }

    #[test]
    fn a_model_that_does_not_think_is_not_told() {
        let mut request = request_to(model("google-generative-ai"), vec![]);
        request.thinking = High;
        assert_eq!(config(&request), None);
        let mut model = model("google-generative-ai");
        model.reasoning = true;
        let mut request = request_to(model, vec![]);
        request.thinking = Off;
        assert_eq!(config(&request), None);
    }
}
