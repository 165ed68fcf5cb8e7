//! One turn: what happens between a message and its result.
//!
//! Owns: the sums that the result tells. Must not: know who listens.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::ActiveRun;
use crate::dialects::claude::format::usage_at_end;
use crate::protocol::message::{AssistantMessage, Usage};
use crate::providers::ModelInfo;
use crate::support::{Few, json};

/// What one model has used.
#[derive(Debug, Default)]
struct Used {
    usage: Usage,
    dollars: f64,
    window: u64,
    most: u64,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With an answer.
    Answered,
    /// With what the provider refused.
    Failed,
    /// Somebody stopped it.
    Stopped,
}

/// A turn that goes on.
#[derive(Debug)]
pub struct Turn {
    /// Its run.
    pub run: Arc<ActiveRun>,
    began_at: u64,
    asked_at: Option<u64>,
    api_ms: u64,
    answers: u64,
    used: Few<String, Used>,
    /// What was said last.
    pub text: String,
    /// What somebody did not allow.
    pub denials: Vec<Value>,
    /// Whether clients have been told that somebody stopped it.
    pub is_interrupted: bool,
    /// Whether clients have been told how the provider failed.
    pub has_failed: bool,
    /// Whether a call of a tool is what was done last.
    pub is_at_tools: bool,
}

impl Turn {
    /// A turn that begins now.
    pub fn new(run: Arc<ActiveRun>, now_ms: u64) -> Self {
        Self {
            run,
            began_at: now_ms,
            asked_at: None,
            api_ms: 0,
            answers: 0,
            used: Few::new(),
            text: String::new(),
            denials: Vec::new(),
            is_interrupted: false,
            has_failed: false,
            is_at_tools: false,
        }
    }

    /// A model is asked.
    pub fn asks(&mut self, model: &ModelInfo, now_ms: u64) {
        self.asked_at = Some(now_ms);
        self.is_at_tools = false;
        let used = self.used.or_default(model.id.clone());
        (used.window, used.most) = (model.context_window, model.max_tokens);
    }

    /// It has answered, in `text`.
    pub fn answered(&mut self, message: &AssistantMessage, text: String, now_ms: u64) {
        if let Some(asked_at) = self.asked_at.take() {
            self.api_ms += now_ms.saturating_sub(asked_at);
        }
        self.answers += 1;
        self.text = text;
        let used = self.used.or_default(message.model.clone());
        used.usage = sum(&used.usage, &message.usage);
        used.dollars += message.usage.cost.total;
    }

    /// The `result` frame. `spent` is what its answers have cost, in US dollars.
    pub fn result(&self, end: End, session: (&str, f64), uuid: &str, now_ms: u64) -> Value {
        let (session_id, spent) = session;
        let used = self.used.iter().filter(|(_, used)| used.usage.total_tokens > 0);
        let models = used.clone().map(|(name, used)| (name.clone(), used.to_wire())).collect();
        let usage = used.fold(Usage::default(), |usage, (_, used)| sum(&usage, &used.usage));
        let mut result = json!({
            "type": "result",
            "subtype": if end == End::Stopped { "error_during_execution" } else { "success" },
            "is_error": end == End::Failed,
            "duration_ms": now_ms.saturating_sub(self.began_at),
            "duration_api_ms": self.api_ms,
            "num_turns": self.answers,
            "result": self.text,
            "stop_reason": (end == End::Failed).then_some("stop_sequence"),
            "session_id": session_id,
            "total_cost_usd": spent,
            "usage": usage_at_end(&usage),
            "modelUsage": Value::Object(models),
            "permission_denials": self.denials,
            "uuid": uuid,
        });
        if end == End::Stopped
            && let Value::Object(members) = &mut result
        {
            members.shift_remove("result");
            members.insert("errors".into(), json!([]));
        }
        result
    }
}

impl Used {
    fn to_wire(&self) -> Value {
        let Self { usage, dollars, window, most } = self;
        json!({
            "inputTokens": usage.input,
            "outputTokens": usage.output,
            "cacheReadInputTokens": usage.cache_read,
            "cacheCreationInputTokens": usage.cache_write,
            "webSearchRequests": 0,
            "costUSD": dollars,
            "contextWindow": window,
            "maxOutputTokens": most,
        })
    }
}

fn sum(one: &Usage, other: &Usage) -> Usage {
    Usage {
        input: one.input + other.input,
        output: one.output + other.output,
        cache_read: one.cache_read + other.cache_read,
        cache_write: one.cache_write + other.cache_write,
        total_tokens: one.total_tokens + other.total_tokens,
        ..Usage::default()
    }
}
