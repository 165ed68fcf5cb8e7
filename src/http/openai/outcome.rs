//! What has become of a run, as clients of this API are told.

use axum::http::{HeaderName, StatusCode};
use serde_json::Value;

use crate::agent::{AbortReason, RunEnd, RunReport};
use crate::http::{Manner, openai_word};
use crate::protocol::message::{ToolCall, Usage};
use crate::support::json;
use axum::response::{IntoResponse, Response};

/// What clients of OpenAI look at before they ask again, which they do by themselves.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// What an agent says here that has nothing to say, in the words of the original: clients of
/// OpenAI take an answer without a word for a failure.
pub const NOTHING: &str = "No response from OpenClaw.";

/// An answer.
#[derive(Debug, Clone)]
pub struct Answered {
    /// What it says.
    pub text: String,
    /// Calls of tools that the client has to do.
    pub calls: Vec<ToolCall>,
    /// What the run has used.
    pub used: Usage,
    /// Whether the model was cut because it said too much.
    pub is_cut: bool,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Whose fault it is.
    pub status: StatusCode,
    /// In words.
    pub message: &'static str,
    /// What was said before it failed, or somebody stopped it.
    pub said: String,
}

impl Failed {
    /// One that has said nothing.
    pub const fn new(status: StatusCode, message: &'static str) -> Self {
        Self { status, message, said: String::new() }
    }

    /// `{message, type}`.
    pub fn error(&self) -> Value {
        json!({"message": self.message, "type": openai_word(self.status)})
    }

    /// The answer.
    pub fn answer(self) -> Response {
        self.told_by(Manner::OpenAi.error(self.status, self.message))
    }

    /// An answer that tells of it. Whatever the run did before it failed is done, so
    /// nobody is to begin another one without having thought about it. Who is let in
    /// no more learns nothing of the run.
    pub fn told_by(&self, answer: Response) -> Response {
        match self.status {
            StatusCode::UNAUTHORIZED => answer,
            _ => last_answer(answer),
        }
    }
}

/// An answer after which clients do not ask again by themselves.
pub fn last_answer(answer: Response) -> Response {
    ([(SHOULD_RETRY, "false")], answer).into_response()
}

/// What a run came to that has said this.
///
/// # Errors
/// When it has no answer.
pub fn of(report: &RunReport, said: String) -> Result<Answered, Failed> {
    let progress = &report.progress;
    match &report.end {
        // What the provider said is in the log: it may be about the gateway's keys.
        RunEnd::Failed(_) => {
            Err(Failed { said, ..Failed::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error") })
        }
        RunEnd::Aborted(reason) => Err(Failed { said, ..stopped(*reason) }),
        RunEnd::Answered => {
            let answer = progress.answer.as_ref();
            let has_nothing = said.is_empty() && progress.handed.is_empty();
            Ok(Answered {
                text: if has_nothing { NOTHING.to_owned() } else { said },
                calls: progress.handed.clone(),
                used: answer.map(|answer| answer.used.clone()).unwrap_or_default(),
                is_cut: answer.is_some_and(|answer| answer.stop_reason == "length"),
            })
        }
    }
}

/// What a run came to that was stopped.
const fn stopped(why: AbortReason) -> Failed {
    match why {
        AbortReason::Timeout => Failed::new(StatusCode::GATEWAY_TIMEOUT, "the run took too long"),
        AbortReason::Shutdown => Failed::new(StatusCode::SERVICE_UNAVAILABLE, "the gateway stops"),
        // A status after which no client begins by itself what somebody has stopped.
        AbortReason::Rpc | AbortReason::Stop => {
            Failed::new(StatusCode::GONE, "the run was stopped")
        }
        AbortReason::Interrupt => {
            Failed::new(StatusCode::GONE, "a newer message took the place of this one")
        }
    }
}

/// Tokens that went in, those that a cache had included.
pub const fn input_tokens(used: &Usage) -> u64 {
    used.input + used.cache_read + used.cache_write
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_has_done_is_not_to_be_done_again_by_a_client() {
        for (status, told) in [(410, true), (500, true), (503, true), (504, true), (401, false)] {
            let status = StatusCode::from_u16(status).unwrap();
            let answer = Failed::new(status, "x").answer();
            let header = answer.headers().get("x-should-retry");
            assert_eq!(header.is_some_and(|it| it == "false"), told, "{status}");
            assert_eq!(answer.status(), status);
        }
    }
}
