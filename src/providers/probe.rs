//! Whether a model answers: one short question.
//!
//! Promises: the question costs a few tokens; no wait without limit; no
//! credential in what is said of a failure.

use std::sync::Arc;
use std::time::Duration;

use super::credentials::FailureReason;
use super::{ModelInfo, ModelRequest, Provider};
use crate::protocol::message::{AgentMessage, UserMessage};

/// A question that costs a few tokens.
const QUESTION: &str = "Answer with the one word OK.";
/// Room for that word.
const ANSWER_TOKENS: u64 = 16;

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeFailure {
    /// What kind of failure it is, such as `auth` or `timeout`.
    pub status: &'static str,
    /// What the provider said, when it said something.
    pub message: Option<String>,
}

/// Asks `model`, which brings its credential, by `provider`.
///
/// # Errors
/// When no answer comes within `limit`, or none at all.
pub async fn probe(
    provider: &dyn Provider,
    model: &ModelInfo,
    now_ms: u64,
    limit: Duration,
) -> Result<(), ProbeFailure> {
    let model = Arc::new(ModelInfo { max_tokens: ANSWER_TOKENS, ..model.clone() });
    let messages = vec![AgentMessage::User(UserMessage::text(QUESTION, now_ms))];
    let request = ModelRequest::aside(model, messages, "probe");
    let mut ignore = |_| {};
    match tokio::time::timeout(limit, provider.stream(&request, &mut ignore)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(ProbeFailure {
            status: FailureReason::of(&error).as_str(),
            message: Some(error.message),
        }),
        Err(_) => Err(ProbeFailure { status: "timeout", message: None }),
    }
}
