//! Whether credentials work: by asking each provider one short question.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Facts;
use crate::protocol::message::{AgentMessage, UserMessage};
use crate::providers::{ModelInfo, ModelRequest, ThinkingLevel};

/// A question that costs a few tokens.
const QUESTION: &str = "Answer with the one word OK.";

/// Asks `model` with each credential that there is for it.
pub async fn ask(
    facts: &Facts,
    agent: &str,
    model: &Arc<ModelInfo>,
    limit: Duration,
) -> Vec<Value> {
    let credentials = facts.failover.credentials();
    let mut rows = Vec::new();
    for credential in credentials.for_model(agent, model).await {
        let mut request = ModelRequest {
            model: credential.apply(model),
            system: None,
            messages: vec![AgentMessage::User(UserMessage::text(QUESTION, facts.clock.now_ms()))],
            tools: Vec::new(),
            thinking: ThinkingLevel::Off,
            session_id: "probe".into(),
        };
        request.model = Arc::new(ModelInfo { max_tokens: 16, ..ModelInfo::clone(&request.model) });
        let began = tokio::time::Instant::now();
        let provider = facts.failover.catalog().provider_for(model);
        let mut ignore = |_| {};
        let answer = provider.stream(&request, &mut ignore);
        let (status, error) = match tokio::time::timeout(limit, answer).await {
            Ok(Ok(_)) => ("ok", None),
            Ok(Err(error)) => (
                crate::providers::credentials::FailureReason::of(&error).as_str(),
                Some(error.message),
            ),
            Err(_) => ("timeout", None),
        };
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        rows.push(json!({"provider": model.provider, "model": model.id,
            "profileId": credential.id, "status": status, "error": error, "latencyMs": took}));
    }
    rows
}
