//! Reading an event stream to its end.
//!
//! Owns: what counts as the end of an answer. Promises: an answer whose end
//! was announced is not lost when the connection breaks afterwards; one without
//! end is given up.

use super::answer::Answer;
use super::error::ProviderError;
use super::http::EventStream;
use super::sse::SseEvent;
use crate::protocol::message::{AssistantMessage, StopReason};

/// Whether to go on reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// There may be more.
    More,
    /// That was the last event.
    End,
}

/// How one API writes its stream.
pub trait Reader {
    /// Takes the next event.
    fn read(&mut self, event: &SseEvent, answer: &mut Answer<'_>) -> Result<Flow, ProviderError>;

    /// How the answer ended, once the provider has said so.
    fn outcome(&self) -> Option<Result<StopReason, ProviderError>>;
}

/// Reads `stream` into `answer`.
///
/// # Errors
/// With what had arrived by then.
pub async fn run(
    mut stream: EventStream,
    mut reader: Box<dyn Reader + Send>,
    mut answer: Answer<'_>,
) -> Result<AssistantMessage, ProviderError> {
    let broken = loop {
        let event = match stream.next().await {
            Ok(Some(event)) => event,
            Ok(None) => break ProviderError::cut(),
            Err(error) => break error,
        };
        match reader.read(&event, &mut answer) {
            Ok(Flow::More) => {
                if let Some(error) = answer.too_long() {
                    return Err(answer.fail(error));
                }
            }
            Ok(Flow::End) => break ProviderError::cut(),
            Err(error) => return Err(answer.fail(error)),
        }
    };
    conclude(&*reader, answer, broken)
}

/// The message, or `broken` when the provider never announced an end.
pub fn conclude(
    reader: &dyn Reader,
    answer: Answer<'_>,
    broken: ProviderError,
) -> Result<AssistantMessage, ProviderError> {
    match reader.outcome().unwrap_or(Err(broken)) {
        Ok(stop) => Ok(answer.finish(stop)),
        Err(error) => Err(answer.fail(error)),
    }
}
