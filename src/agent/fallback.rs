//! The events about another model, as lifecycle phases of a run.

use serde_json::Value;

use crate::providers::{Attempt, FallbackNotice};
use crate::support::json;

/// `data` of the `lifecycle` event.
pub fn data(notice: &FallbackNotice) -> Value {
    match notice {
        FallbackNotice::Step { from, to, reason, detail, position } => {
            let mut data = json!({
                "phase": "fallback_step",
                "fallbackStepType": "fallback_step",
                "fallbackStepFromModel": from.to_string(),
                "fallbackStepToModel": to.as_ref().map(ToString::to_string),
                "fallbackStepFromFailureReason": reason.as_str(),
                "fallbackStepFromFailureDetail": detail,
                "fallbackStepChainPosition": position,
                "fallbackStepFinalOutcome":
                    if to.is_some() { "next_fallback" } else { "chain_exhausted" },
            });
            if let Value::Object(members) = &mut data {
                members.retain(|_, value| !value.is_null());
            }
            data
        }
        FallbackNotice::Active { selected, active, attempts } => json!({
            "phase": "fallback",
            "selectedProvider": selected.provider,
            "selectedModel": selected.model,
            "activeProvider": active.provider,
            "activeModel": active.model,
            "reasonSummary": attempts.first().map_or_else(String::new, |it| words(it.reason.as_str())),
            "attemptSummaries": attempts.iter().map(summary).collect::<Vec<_>>(),
            "attempts": attempts.iter().map(attempt).collect::<Vec<_>>(),
        }),
        FallbackNotice::Cleared { selected, previous } => json!({
            "phase": "fallback_cleared",
            "selectedProvider": selected.provider,
            "selectedModel": selected.model,
            "activeProvider": selected.provider,
            "activeModel": selected.model,
            "previousActiveProvider": previous.provider,
            "previousActiveModel": previous.model,
        }),
    }
}

fn summary(attempt: &Attempt) -> String {
    format!("{} {}", attempt.model, words(attempt.reason.as_str()))
}

fn words(reason: &str) -> String {
    reason.replace('_', " ")
}

fn attempt(attempt: &Attempt) -> Value {
    let mut value = json!({
        "provider": attempt.model.provider,
        "model": attempt.model.model,
        "error": attempt.error,
        "reason": attempt.reason.as_str(),
    });
    if let (Some(status), Value::Object(members)) = (attempt.status, &mut value) {
        members.insert("status".into(), json!(status));
    }
    value
}
