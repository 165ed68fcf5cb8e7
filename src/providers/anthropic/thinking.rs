//! How models of Anthropic are told to think.
//!
//! Owns: budgets and efforts by model.

use serde_json::{Map, Value};

use crate::support::json;

use super::super::{ModelInfo, ThinkingLevel};

/// What is left for the answer when the model's limit eats the budget.
const ANSWER_TOKENS: u64 = 1024;
/// The API refuses smaller budgets.
const LEAST_BUDGET: u64 = 1024;

/// The first version of each family that decides on its own how long to think.
const ADAPTIVE: [(&str, (u32, u32)); 5] = [
    ("opus-", (4, 6)),
    ("sonnet-", (4, 6)),
    ("haiku-", (5, 0)),
    ("fable-", (5, 0)),
    ("mythos-", (5, 0)),
];

/// The first version of each family that refuses any temperature, and tells what it thinks
/// only when it is asked to.
const RESERVED: [(&str, (u32, u32)); 5] = [
    ("opus-", (4, 7)),
    ("sonnet-", (5, 0)),
    ("haiku-", (5, 0)),
    ("fable-", (5, 0)),
    ("mythos-", (5, 0)),
];

/// Whether the model decides on its own how long to think.
pub fn is_adaptive(id: &str) -> bool {
    is_from(&ADAPTIVE, id)
}

/// Whether the model may be told a temperature.
pub fn takes_temperature(id: &str) -> bool {
    !is_from(&RESERVED, id)
}

/// Whether the model is one of these, or a later one of its family.
fn is_from(firsts: &[(&str, (u32, u32))], id: &str) -> bool {
    firsts.iter().any(|(family, first)| {
        id.split_once(family).and_then(|(_, rest)| version(rest)).is_some_and(|it| it >= *first)
    })
}

/// `4-6`, `4.6` or `4`; a longer number is a date.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(['-', '.']);
    let mut small = || parts.next()?.parse::<u32>().ok().filter(|number| *number < 100);
    Some((small()?, small().unwrap_or(0)))
}

/// Whether the model may not be asked to think: it is in the middle of calling
/// tools, and the first answer of this turn began without a thought (another
/// model gave it, or it was not to think then). The API refuses that; later
/// answers of a turn need none.
pub fn must_pause(model: &ModelInfo, messages: &[Value]) -> bool {
    // Results of tools go on with a turn; whatever else a user says begins one.
    let begins = |message: &Value| {
        message.get("role").is_some_and(|role| role == "user")
            && first_kind(message) != Some("tool_result")
    };
    let first = messages.iter().rposition(begins).map_or(0, |at| at + 1);
    let answer = messages.get(first);
    !is_adaptive(&model.id)
        && answer
            .is_some_and(|answer| first_kind(answer).is_none_or(|kind| !is_kind_of_thought(kind)))
}

/// Takes the thoughts out of a request that asks for none: the API refuses those
/// of the turn that goes on. Every answer has something else, too.
pub fn leave_out(messages: &mut [Value]) {
    for message in messages {
        if let Some(Value::Array(blocks)) = message.get_mut("content") {
            blocks.retain(|block| !is_thought(block));
        }
    }
}

/// Whether a message holds a thought.
pub fn holds_thought(message: &Value) -> bool {
    let blocks = message.get("content").and_then(Value::as_array);
    blocks.is_some_and(|blocks| blocks.iter().any(is_thought))
}

/// Whether a block is a thought, hidden or not.
pub fn is_thought(block: &Value) -> bool {
    kind(block).is_some_and(is_kind_of_thought)
}

fn is_kind_of_thought(kind: &str) -> bool {
    matches!(kind, "thinking" | "redacted_thinking")
}

/// What a message begins with.
fn first_kind(message: &Value) -> Option<&str> {
    kind(message.get("content")?.get(0)?)
}

fn kind(block: &Value) -> Option<&str> {
    block.get("type")?.as_str()
}

/// `max_tokens`, and the fields that ask for thought.
pub fn fields(model: &ModelInfo, level: ThinkingLevel) -> Map<String, Value> {
    let base = model.answer_limit();
    let mut fields = Map::new();
    if level == ThinkingLevel::Off || !model.reasoning {
        fields.insert("max_tokens".into(), json!(base));
    } else if is_adaptive(&model.id) {
        fields.insert("max_tokens".into(), json!(base));
        let mut thinking = json!({"type": "adaptive"});
        if is_from(&RESERVED, &model.id) {
            thinking["display"] = json!("summarized");
        }
        fields.insert("thinking".into(), thinking);
        fields.insert("output_config".into(), json!({"effort": effort(&model.id, level)}));
    } else {
        let wished = budget(level);
        let max_tokens = base.saturating_add(wished).min(model.max_tokens);
        let budget =
            if max_tokens <= wished { max_tokens.saturating_sub(ANSWER_TOKENS) } else { wished };
        fields.insert("max_tokens".into(), json!(max_tokens));
        if budget >= LEAST_BUDGET {
            let thinking = json!({"type": "enabled", "budget_tokens": budget});
            fields.insert("thinking".into(), thinking);
        }
    }
    fields
}

const fn budget(level: ThinkingLevel) -> u64 {
    match level {
        ThinkingLevel::Off => 0,
        ThinkingLevel::Minimal => 1024,
        ThinkingLevel::Low => 2048,
        ThinkingLevel::Medium => 8192,
        ThinkingLevel::High | ThinkingLevel::XHigh => 16_384,
    }
}

fn effort(id: &str, level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low => "low",
        ThinkingLevel::Medium => "medium",
        ThinkingLevel::XHigh if id.contains("opus") => "max",
        ThinkingLevel::High | ThinkingLevel::XHigh => "high",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::model;

    #[track_caller]
    fn asks(id: &str, max_tokens: u64, level: ThinkingLevel, expected: &Value) {
        let mut model = model("anthropic-messages");
        model.id = id.into();
        model.reasoning = true;
        model.max_tokens = max_tokens;
        assert_eq!(&Value::Object(fields(&model, level)), expected);
    }

    #[test]
    fn models_from_4_6_on_think_adaptively() {
        for (id, adaptive) in [
            ("claude-opus-4-6", true),
            ("claude-sonnet-4.6", true),
            ("anthropic/claude-opus-5-20270101", true),
            ("claude-opus-4-5-20251101", false),
            ("claude-sonnet-4-20250514", false),
            ("claude-3-5-sonnet-20241022", false),
            ("claude-haiku-4-6", false),
            ("claude-haiku-5-5", true),
            ("claude-fable-5", true),
            ("claude-mythos-5", true),
        ] {
            assert_eq!(is_adaptive(id), adaptive, "{id}");
        }
    }

    #[test]
    fn adaptive_models_get_an_effort() {
        let effort = |effort| {
            json!({
                "max_tokens": 32_000, "thinking": {"type": "adaptive"}, "output_config": {"effort": effort},
            })
        };
        asks("claude-opus-4-6", 128_000, ThinkingLevel::Minimal, &effort("low"));
        asks("claude-opus-4-6", 128_000, ThinkingLevel::Medium, &effort("medium"));
        asks("claude-opus-4-6", 128_000, ThinkingLevel::XHigh, &effort("max"));
        asks("claude-sonnet-4-6", 64_000, ThinkingLevel::XHigh, &effort("high"));
    }

    #[test]
    fn a_model_that_keeps_its_thoughts_to_itself_is_asked_to_tell_them() {
        for id in ["claude-opus-4-7", "claude-opus-5-5", "claude-sonnet-5", "claude-fable-5"] {
            let expected = json!({
                "max_tokens": 32_000, "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "low"},
            });
            asks(id, 128_000, ThinkingLevel::Low, &expected);
        }
    }

    #[test]
    fn older_models_get_a_budget_within_their_limit() {
        let budget = |max_tokens: u64, budget: u64| {
            json!({
                "max_tokens": max_tokens, "thinking": {"type": "enabled", "budget_tokens": budget},
            })
        };
        asks("claude-haiku-4-5", 64_000, ThinkingLevel::Low, &budget(34_048, 2048));
        asks("claude-haiku-4-5", 64_000, ThinkingLevel::XHigh, &budget(48_384, 16_384));
        asks("claude-haiku-4-5", 8192, ThinkingLevel::Medium, &budget(8192, 7168));
        asks("claude-haiku-4-5", 2048, ThinkingLevel::Low, &budget(2048, 1024));
        asks("claude-haiku-4-5", 2047, ThinkingLevel::Low, &json!({"max_tokens": 2047}));
        asks("claude-haiku-4-5", 500, ThinkingLevel::Minimal, &json!({"max_tokens": 500}));
        asks("claude-haiku-4-5", 8192, ThinkingLevel::Off, &json!({"max_tokens": 8192}));
    }
}
