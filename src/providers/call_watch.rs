//! Counts one call of a model.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Embeddings, ModelInfo, ProviderError, StreamEvent};
use crate::protocol::message::AssistantMessage;
use crate::support::millis;
use crate::telemetry::metrics::{ModelNumbers, NUMBERS};
use crate::telemetry::traces::{Kind, Span, SpanContext};

/// A call under way; one that is dropped without an end was given up.
pub struct CallWatch {
    numbers: Arc<ModelNumbers>,
    began: Instant,
    has_begun: bool,
    outcome: &'static str,
    span: Span,
}

impl CallWatch {
    /// A call that begins now.
    pub fn new(model: &ModelInfo) -> Self {
        Self::of(model, "chat")
    }

    /// The same, for vectors of texts.
    pub fn of_embeddings(model: &ModelInfo) -> Self {
        Self::of(model, "embeddings")
    }

    fn of(model: &ModelInfo, operation: &str) -> Self {
        let key = (model.provider.clone(), model.id.clone());
        let numbers = NUMBERS.models.get(key, || ("other".into(), "other".into()));
        let mut span = Span::here("openclaw.model.call", Kind::Client);
        span.set("gen_ai.operation.name", operation);
        span.set("gen_ai.system", model.provider.as_str());
        span.set("gen_ai.request.model", model.id.as_str());
        Self { numbers, began: Instant::now(), has_begun: false, outcome: "aborted", span }
    }

    /// Something has come.
    pub fn saw(&mut self, event: &StreamEvent) {
        if matches!(event, StreamEvent::Retry(_)) {
            NUMBERS.retries.count();
        } else if !self.has_begun {
            self.has_begun = true;
            let took = self.began.elapsed();
            self.numbers.first.note(took);
            self.span.set("openclaw.model.first_token_ms", millis(took));
        }
    }

    /// The span that the call is.
    pub fn context(&self) -> Option<SpanContext> {
        self.span.context()
    }

    /// It has ended, with this answer or with an error.
    pub fn ended(mut self, answer: &Result<AssistantMessage, ProviderError>) {
        let usage = match answer {
            Ok(message) => &message.usage,
            Err(error) => return self.failed(error),
        };
        self.outcome = "ok";
        self.span.set("gen_ai.usage.input_tokens", usage.input);
        self.span.set("gen_ai.usage.output_tokens", usage.output);
        let tokens = &self.numbers.tokens;
        tokens.add("input", usage.input);
        tokens.add("output", usage.output);
        tokens.add("cache_read", usage.cache_read);
        tokens.add("cache_write", usage.cache_write);
    }

    /// It has ended, with these vectors or with an error.
    pub fn embedded(mut self, answer: &Result<Embeddings, ProviderError>) {
        match answer {
            Ok(made) => {
                self.outcome = "ok";
                self.span.set("gen_ai.usage.input_tokens", made.tokens);
                self.numbers.tokens.add("input", made.tokens);
            }
            Err(error) => self.failed(error),
        }
    }

    fn failed(&mut self, error: &ProviderError) {
        self.outcome = "error";
        self.span.fail(error.wire_kind());
    }
}

impl Drop for CallWatch {
    fn drop(&mut self) {
        self.numbers.whole.note(self.began.elapsed());
        self.numbers.calls.count(self.outcome);
        if self.outcome == "aborted" {
            self.span.fail("aborted");
        }
    }
}
