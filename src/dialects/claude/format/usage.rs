//! Tokens and stop reasons in the form of the Anthropic API.

use serde_json::Value;

use crate::protocol::message::{StopReason, Usage};
use crate::support::json;

/// Why a message ended; `None` while it goes on, and for one that did not end
/// by itself.
pub const fn stop_reason(reason: StopReason) -> Option<&'static str> {
    match reason {
        StopReason::Stop => Some("end_turn"),
        StopReason::Length => Some("max_tokens"),
        StopReason::ToolUse => Some("tool_use"),
        StopReason::Error | StopReason::Aborted => None,
    }
}

/// What `message_start` says: of the answer one token at most is there.
pub fn usage_at_start(usage: &Usage) -> Value {
    tokens(usage, usage.output.min(1))
}

/// What is known at the end of a message.
pub fn usage_at_end(usage: &Usage) -> Value {
    let mut end = tokens(usage, usage.output);
    end["server_tool_use"] = json!({"web_search_requests": 0, "web_fetch_requests": 0});
    end["service_tier"] = "standard".into();
    end["cache_creation"] = json!({"ephemeral_1h_input_tokens": 0,
        "ephemeral_5m_input_tokens": usage.cache_write});
    end["inference_geo"] = "".into();
    end["iterations"] = json!([]);
    end["speed"] = "standard".into();
    end
}

/// Of a message that no model has written.
pub(super) fn usage_of_none() -> Value {
    json!({
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": null,
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": null,
        "iterations": null,
        "speed": null,
    })
}

fn tokens(usage: &Usage, output: u64) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": output,
    })
}
