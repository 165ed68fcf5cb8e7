//! One model of a route, asked with one credential after the other.
//!
//! Owns: which credentials are asked, and what a call that failed says of the next one.
//! Must not: choose the next model.

use std::sync::Arc;

use super::{Attempt, Route};
use crate::protocol::message::{AssistantMessage, StopReason, Usage};
use crate::providers::briefing::Briefing;
use crate::providers::call_watch::CallWatch;
use crate::providers::credentials::{Credential, FailureReason};
use crate::providers::retry::Heard;
use crate::providers::{
    Api, EventSink, ModelInfo, ModelRequest, Passes, ProviderError, ProviderErrorKind, StreamEvent,
};
use crate::support::sort;
use crate::telemetry::traces;

/// How trying one model ended.
pub(super) enum Tried {
    Answered(Box<AssistantMessage>),
    /// The next model may do better.
    Failed(ProviderError),
    /// Nobody new is asked with this; who was passed over still is.
    Refused(ProviderError),
    /// This is what the user must hear.
    Final(ProviderError),
}

impl Route {
    /// Asks one model with each credential that may do, or only with `last`, which nobody
    /// comes after.
    pub(super) async fn try_model(
        &mut self,
        model: &Arc<ModelInfo>,
        last: Option<Credential>,
        request: &mut ModelRequest,
        briefing: &mut dyn Briefing,
        heard: &mut Heard,
        events: EventSink<'_>,
    ) -> Tried {
        let is_last = last.is_some();
        let mut waiting = match last {
            Some(credential) => vec![credential].into_iter(),
            None => self.awake(model).await,
        };
        let Some(mut credential) = waiting.next() else {
            return Tried::Failed(self.resting(model).await);
        };
        briefing.brief(model, request).await;
        loop {
            let passes: Passes =
                if is_last { |_| false } else { self.passes(waiting.as_slice(), model).await };
            let asked = self.call(model, &credential, passes, request, heard, &mut *events).await;
            let error = match asked {
                Ok(message) => return Tried::Answered(Box::new(message)),
                Err(error) => error,
            };
            let reason = FailureReason::of(&error);
            self.note_attempt(model, &error, reason);
            // The CLI may have used its own tools before it has said anything.
            if heard.has_text() || model.api == Api::ClaudeCli && heard.has_begun() {
                return Tried::Final(error);
            }
            if !reason.fails_over() {
                return Tried::Refused(error);
            }
            self.note_passed(&credential, &error, passes);
            match waiting.next().filter(|_| reason.rotates()) {
                Some(next) => {
                    tracing::warn!(
                        model = %model.reference(), from = %credential.id, to = %next.id, %error,
                        "another credential is asked"
                    );
                    self.dropped.grow(&error.usage());
                    credential = next;
                }
                None => return Tried::Failed(error),
            }
        }
    }

    /// One call with one credential, which rests if that is why it failed.
    async fn call(
        &mut self,
        model: &Arc<ModelInfo>,
        credential: &Credential,
        passes: Passes,
        request: &mut ModelRequest,
        heard: &mut Heard,
        events: EventSink<'_>,
    ) -> Result<AssistantMessage, ProviderError> {
        let failover = Arc::clone(&self.failover);
        request.model = self.wishes.of(credential.apply(model));
        heard.forget(&mut *events);
        let began_ms = failover.credentials.now_ms();
        let mut call = CallWatch::new(model);
        let provider = failover.catalog.provider_for(model);
        let span = call.context();
        let mut watched = |event: StreamEvent| {
            call.saw(&event);
            if let StreamEvent::Used(usage) = event {
                self.begun = usage;
                return;
            }
            heard.note(&event);
            if let StreamEvent::Retry(notice) = &event {
                self.begun = Usage::default();
                self.dropped.grow(&notice.usage);
            }
            events(event);
        };
        let answer = provider.stream_or_pass(request, passes, &mut watched);
        let answered = traces::within(span, answer).await;
        // The answer tells it, or the error.
        self.begun = Usage::default();
        call.ended(&answered);
        match &answered {
            Ok(message) if message.stop_reason == StopReason::Error => {}
            Ok(_) => failover.credentials.succeeded(credential, model),
            Err(error) => failover.credentials.failed(credential, model, error, began_ms),
        }
        answered
    }

    fn note_attempt(&mut self, model: &ModelInfo, error: &ProviderError, reason: FailureReason) {
        self.attempts.push(Attempt {
            model: model.reference(),
            error: error.message.clone(),
            reason,
            status: error.status,
        });
    }

    /// The credentials that do not rest; all of them when no other model is
    /// awake either, since trying is better than not answering.
    async fn awake(&self, model: &ModelInfo) -> std::vec::IntoIter<Credential> {
        let credentials = &self.failover.credentials;
        let mut all = credentials.for_model(&self.agent, model).await;
        let rest = |credential: &Credential| credentials.rest(credential, model);
        if all.iter().any(|credential| rest(credential).is_none()) || self.has_awake_rest().await {
            all.retain(|credential| rest(credential).is_none());
        } else {
            sort::by_key(&mut all, |credential| rest(credential).map(|rest| rest.until_ms));
        }
        all.into_iter()
    }

    /// After which failures somebody else can be asked at once: another model, or the same one
    /// with one of these credentials.
    async fn passes(&self, waiting: &[Credential], model: &ModelInfo) -> Passes {
        let credentials = &self.failover.credentials;
        if self.has_awake_rest().await {
            FailureReason::fails_over
        } else if waiting.iter().any(|it| credentials.rest(it, model).is_none()) {
            FailureReason::rotates
        } else {
            |_| false
        }
    }

    /// Whether one of the later models has a credential that does not rest.
    async fn has_awake_rest(&self) -> bool {
        for place in self.later() {
            if self.is_awake(place).await {
                return true;
            }
        }
        false
    }

    pub(super) async fn is_awake(&self, place: usize) -> bool {
        let Some(model) = self.models.get(place) else { return false };
        let credentials = &self.failover.credentials;
        let all = credentials.for_model(&self.agent, model).await;
        all.iter().any(|credential| credentials.rest(credential, model).is_none())
    }

    /// The error of a model whose credentials all rest.
    async fn resting(&mut self, model: &ModelInfo) -> ProviderError {
        let credentials = &self.failover.credentials;
        let all = credentials.for_model(&self.agent, model).await;
        let rests = all.iter().filter_map(|credential| credentials.rest(credential, model));
        let reason = rests.min_by_key(|rest| rest.until_ms).map(|rest| rest.reason);
        let reason = reason.unwrap_or(FailureReason::Timeout);
        let text = format!(
            "Provider {} is in cooldown after {} (all profiles unavailable)",
            model.provider,
            reason.as_str()
        );
        let error = ProviderError::new(kind_of(reason), text);
        self.note_attempt(model, &error, reason);
        error
    }
}

/// The kind of error whose reason this is; for those that make a model rest.
const fn kind_of(reason: FailureReason) -> ProviderErrorKind {
    match reason {
        FailureReason::Auth => ProviderErrorKind::Auth,
        FailureReason::Billing | FailureReason::RateLimit => ProviderErrorKind::RateLimit,
        FailureReason::Overloaded => ProviderErrorKind::Overloaded,
        _ => ProviderErrorKind::Timeout,
    }
}
