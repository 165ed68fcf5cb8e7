//! How models of Google are told to think.
//!
//! Owns: levels and budgets by model.

use serde_json::Value;

use crate::support::json;

use super::super::{ModelRequest, ThinkingLevel};

/// `thinkingConfig`; `None` when it is left to the model.
pub fn config(request: &ModelRequest) -> Option<Value> {
    let level = request.thinking;
    if level == ThinkingLevel::Off || !request.model.reasoning {
        return None;
    }
    let id = request.model.id.as_str();
    Some(match named_level(id, level) {
        Some(word) => json!({"includeThoughts": true, "thinkingLevel": word}),
        None => json!({"includeThoughts": true, "thinkingBudget": budget(id, level)}),
    })
}

/// Models of the third generation know levels instead of budgets.
fn named_level(id: &str, level: ThinkingLevel) -> Option<&'static str> {
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, XHigh};
    if id.contains("3-pro") {
        return Some(match level {
            Off | Minimal | Low => "LOW",
            Medium | High | XHigh => "HIGH",
        });
    }
    id.contains("3-flash").then_some(match level {
        Off | Minimal => "MINIMAL",
        Low => "LOW",
        Medium => "MEDIUM",
        High | XHigh => "HIGH",
    })
}

/// Tokens; -1 lets the model decide.
fn budget(id: &str, level: ThinkingLevel) -> i32 {
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, XHigh};
    let most = if id.contains("2.5-pro") {
        32_768
    } else if id.contains("2.5-flash") {
        24_576
    } else {
        return -1;
    };
    match level {
        Off | Minimal => 128,
        Low => 2048,
        Medium => 8192,
        High | XHigh => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::{model, request_to};
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, XHigh};

    #[track_caller]
    fn asks(id: &str, level: ThinkingLevel, member: &str, expected: &Value) {
        let mut model = model("google-generative-ai");
        model.id = id.into();
        model.reasoning = true;
        let mut request = request_to(model, vec![]);
        request.thinking = level;
        let config = config(&request).unwrap();
        assert_eq!(config, json!({"includeThoughts": true, member: expected}), "{id} {level:?}");
    }

    #[test]
    fn each_generation_is_asked_in_its_own_words() {
        for (level, pro, flash) in [
            (Minimal, "LOW", "MINIMAL"),
            (Low, "LOW", "LOW"),
            (Medium, "HIGH", "MEDIUM"),
            (High, "HIGH", "HIGH"),
            (XHigh, "HIGH", "HIGH"),
        ] {
            asks("gemini-3-pro-preview", level, "thinkingLevel", &json!(pro));
            asks("gemini-3-flash-preview", level, "thinkingLevel", &json!(flash));
        }
        for (level, pro, flash) in [
            (Minimal, 128, 128),
            (Low, 2048, 2048),
            (Medium, 8192, 8192),
            (High, 32_768, 24_576),
            (XHigh, 32_768, 24_576),
        ] {
            asks("gemini-2.5-pro", level, "thinkingBudget", &json!(pro));
            asks("gemini-2.5-flash-lite", level, "thinkingBudget", &json!(flash));
            asks("gemma-4", level, "thinkingBudget", &json!(-1));
        }
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
