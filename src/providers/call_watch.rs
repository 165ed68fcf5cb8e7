//! Counts one call of a model.
//!
//! Promises: what it has used counts once, however it ends, as for whoever pays.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Embeddings, ModelInfo, ProviderError, StreamEvent};
use crate::protocol::message::{AssistantMessage, Usage};
use crate::support::millis;
use crate::telemetry::metrics::{ModelNumbers, NUMBERS};
use crate::telemetry::traces::{Kind, Span, SpanContext};

/// A call under way; one that is dropped without an end was given up.
pub struct CallWatch {
    numbers: Arc<ModelNumbers>,
    began: Instant,
    has_begun: bool,
    outcome: &'static str,
    /// What its tries have used that are over …
    spent: Usage,
    /// … and what the one that goes on has told of so far.
    begun: Usage,
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
        Self {
            numbers,
            began: Instant::now(),
            has_begun: false,
            outcome: "aborted",
            spent: Usage::default(),
            begun: Usage::default(),
            span,
        }
    }

    /// Something has come.
    pub fn saw(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Used(usage) => self.begun.clone_from(usage),
            StreamEvent::Retry(notice) => {
                NUMBERS.retries.count();
                self.tried(&notice.usage);
            }
            _ if self.has_begun => {}
            _ => {
                self.has_begun = true;
                let took = self.began.elapsed();
                self.numbers.first.note(took);
                self.span.set("openclaw.model.first_token_ms", millis(took));
            }
        }
    }

    /// The span that the call is.
    pub fn context(&self) -> Option<SpanContext> {
        self.span.context()
    }

    /// It has ended, with this answer or with an error.
    pub fn ended(mut self, answer: &Result<AssistantMessage, ProviderError>) {
        match answer {
            Ok(message) => {
                self.outcome = "ok";
                self.tried(&message.usage);
            }
            Err(error) => {
                self.failed(error);
                self.tried(&error.usage());
            }
        }
    }

    /// It has ended, with these vectors or with an error.
    pub fn embedded(mut self, answer: &Result<Embeddings, ProviderError>) {
        match answer {
            Ok(made) => {
                self.outcome = "ok";
                self.spent.input += made.tokens;
            }
            Err(error) => self.failed(error),
        }
    }

    /// A try is over, and this is all that it has used.
    fn tried(&mut self, used: &Usage) {
        self.begun = Usage::default();
        self.spent.grow(used);
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
        self.spent.grow(&self.begun);
        let Usage { input, output, cache_read, cache_write, .. } = self.spent;
        let tokens = &self.numbers.tokens;
        tokens.add("input", input);
        tokens.add("output", output);
        tokens.add("cache_read", cache_read);
        tokens.add("cache_write", cache_write);
        let told = [("gen_ai.usage.input_tokens", input), ("gen_ai.usage.output_tokens", output)];
        for (name, count) in told.into_iter().filter(|(_, count)| *count > 0) {
            self.span.set(name, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::model;
    use crate::providers::{ProviderErrorKind, RetryNotice};

    fn used(input: u64) -> Usage {
        Usage { input, output: 1, ..Usage::default() }
    }

    #[test]
    fn what_a_call_has_used_counts_once_however_it_ends() {
        let model = ModelInfo { provider: "of-call-watch".into(), ..model("openai-completions") };
        let answer =
            |usage: Usage| AssistantMessage { usage, ..AssistantMessage::from_gateway("text", 0) };
        let again = |usage: Usage| {
            StreamEvent::Retry(RetryNotice {
                attempt: 1,
                max_attempts: 3,
                delay: std::time::Duration::ZERO,
                message: "busy".into(),
                usage,
            })
        };
        let failed = |usage: Usage| ProviderError {
            partial: Some(Box::new(answer(usage))),
            ..ProviderError::new(ProviderErrorKind::Network, "cut")
        };
        let told = |word: &str| {
            let key = (model.provider.clone(), model.id.clone());
            let numbers = NUMBERS.models.get(key, || ("other".into(), "other".into()));
            let found = numbers.tokens.all().find(|(own, _)| *own == word);
            found.map(|(_, count)| count)
        };
        let begun = |events: &[StreamEvent]| {
            let mut call = CallWatch::new(&model);
            for event in events {
                call.saw(event);
            }
            call
        };
        drop(begun(&[StreamEvent::Used(used(1)), StreamEvent::Used(used(10))]));
        assert_eq!((told("input"), told("output")), (Some(10), Some(1)), "given up");
        drop(begun(&[StreamEvent::Used(used(10)), again(used(20))]));
        assert_eq!((told("input"), told("output")), (Some(30), Some(2)), "given up between tries");
        begun(&[StreamEvent::Used(used(10))]).ended(&Err(failed(used(70))));
        assert_eq!((told("input"), told("output")), (Some(100), Some(3)), "failed");
        begun(&[again(used(100)), StreamEvent::Used(used(10))]).ended(&Ok(answer(used(800))));
        assert_eq!((told("input"), told("output")), (Some(1000), Some(5)), "answered");
    }
}
