//! The way to an answer, from one model to the next.
//!
//! Owns: the order in which they are tried; `attempt` asks one of them. Promises: an answer
//! of which people have read something is never given by somebody else; each step is
//! reported; when everything rests, the first is asked all the same; who has asked for a
//! wait and was passed over is waited for when nobody else answers; what was used is known,
//! whatever comes of it.

mod attempt;

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::{Attempt, Failover, FallbackNotice};
use crate::protocol::message::{AssistantMessage, StopReason, Usage};
use crate::providers::briefing::Briefing;
use crate::providers::credentials::{Credential, FailureReason};
use crate::providers::retry::{Heard, RetryNotice, passed_over};
use crate::providers::{
    AnswerWishes, Api, EventSink, ModelInfo, ModelRequest, Passes, ProviderError, StreamEvent,
};
use attempt::Tried;

/// The models that may answer, and how far down the list we are.
pub struct Route {
    failover: Arc<Failover>,
    agent: String,
    /// Where it is remembered who answers, and told when that changes.
    conversation: Option<String>,
    selected: Arc<ModelInfo>,
    models: Vec<Arc<ModelInfo>>,
    wishes: AnswerWishes,
    /// Who was asked first for the answer that is asked for.
    from: usize,
    /// Who is asked now.
    at: usize,
    attempts: Vec<Attempt>,
    /// What attempts have used that gave no answer.
    dropped: Usage,
    /// What the answer that is on its way has used so far.
    begun: Usage,
    /// Of those that were passed over for this answer who may be asked first.
    passed: Option<Passed>,
}

/// One that has asked for a wait while somebody else could be asked.
struct Passed {
    place: usize,
    credential: Credential,
    until: Instant,
    /// Why it failed.
    message: String,
}

impl Route {
    /// The way of `agent` to an answer of one of `models`, of which `selected` should give it.
    pub(super) fn new(
        failover: Arc<Failover>,
        agent: &str,
        selected: Arc<ModelInfo>,
        models: Vec<Arc<ModelInfo>>,
    ) -> Self {
        Self {
            failover,
            agent: agent.to_owned(),
            conversation: None,
            selected,
            models,
            wishes: AnswerWishes::default(),
            from: 0,
            at: 0,
            attempts: Vec::new(),
            dropped: Usage::default(),
            begun: Usage::default(),
            passed: None,
        }
    }

    /// The same way, for a call that is part of this conversation.
    pub(super) fn remembered(mut self, conversation: &str) -> Self {
        self.conversation = Some(conversation.to_owned());
        self
    }

    /// The same way, for a call that is no part of the conversation.
    #[must_use]
    pub fn unremembered(mut self) -> Self {
        self.conversation = None;
        self
    }

    /// A way of its own from the model on that is asked now, for calls that are no part of
    /// the conversation.
    #[must_use]
    pub fn beside(&self) -> Self {
        let (before, rest) = self.models.split_at(self.at.min(self.models.len()));
        let models = rest.iter().chain(before).cloned().collect();
        let selected = Arc::clone(self.model());
        Self::new(Arc::clone(&self.failover), &self.agent, selected, models)
    }

    /// A way on which nobody was asked yet, without the models of these APIs; the first stays.
    #[must_use]
    pub fn without(mut self, apis: &[Api]) -> Self {
        let first = self.selected.reference();
        self.models.retain(|model| model.is(&first) || !apis.contains(&model.api));
        self
    }

    /// The same way, asking each model like this.
    #[must_use]
    pub const fn wishing(mut self, wishes: AnswerWishes) -> Self {
        self.wishes = wishes;
        self
    }

    /// Whether this is the way for a session with this model.
    pub fn is_for(&self, model: &ModelInfo) -> bool {
        self.selected.is(&model.reference())
    }

    /// Whether more than one model may be asked for an answer.
    pub const fn has_others(&self) -> bool {
        self.models.len() > 1
    }

    /// The model that is asked, or that has answered.
    pub fn model(&self) -> &Arc<ModelInfo> {
        self.models.get(self.at).unwrap_or(&self.selected)
    }

    /// What has been used that neither an answer nor an error tells, since this was asked
    /// last: by attempts that were given up, and by an answer that nobody waited for.
    pub fn take_dropped(&mut self) -> Usage {
        let mut dropped = std::mem::take(&mut self.dropped);
        dropped.grow(&self.take_begun());
        dropped
    }

    /// The part of it that an answer has used for which nobody waited.
    pub fn take_begun(&mut self) -> Usage {
        std::mem::take(&mut self.begun)
    }

    /// Streams one answer. The model of `request` is set here; what each model is
    /// told of itself, and what it may use, comes from `briefing`. The next call begins
    /// with the model that answered this one, and comes back to those before it when all
    /// that follow have failed. Last of all, or when another refuses what it is sent, one is
    /// waited for that was passed over.
    ///
    /// # Errors
    /// When no model gives an answer.
    pub async fn stream(
        &mut self,
        request: &mut ModelRequest,
        briefing: &mut dyn Briefing,
        events: EventSink<'_>,
    ) -> Result<AssistantMessage, ProviderError> {
        let mut heard = Heard::default();
        self.from = self.at;
        self.attempts.clear();
        self.passed = None;
        let mut again = None;
        loop {
            let model = self.learn().await;
            let is_last = again.is_some();
            let tried =
                self.try_model(&model, again.take(), request, briefing, &mut heard, events).await;
            let (error, is_refused) = match tried {
                Tried::Answered(message) => {
                    self.note_answer(&message, events);
                    return Ok(*message);
                }
                Tried::Final(error) => return Err(error),
                // The same model would refuse it with another credential too.
                Tried::Refused(error) if self.passed.iter().all(|it| it.place == self.at) => {
                    return Err(error);
                }
                Tried::Refused(error) => (error, true),
                Tried::Failed(error) => (error, false),
            };
            let mut place = if is_last || is_refused { None } else { self.next_place().await };
            let passed = self.passed.take_if(|_| place.is_none() && !is_last);
            place = place.or(passed.as_ref().map(|passed| passed.place));
            let next = place.and_then(|place| self.models.get(place));
            if self.models.len() > 1 && place != Some(self.at) {
                let to = next.map_or_else(|| "none".into(), |model| model.reference().to_string());
                tracing::warn!(from = %model.reference(), %to, error = %error, "another model is asked");
                events(StreamEvent::Fallback(FallbackNotice::Step {
                    from: model.reference(),
                    to: next.map(|model| model.reference()),
                    reason: FailureReason::of(&error),
                    detail: error.message.clone(),
                    position: self.at + 1,
                }));
            }
            let Some(place) = place else { return Err(self.summary(error)) };
            self.dropped.grow(&error.usage());
            self.at = place;
            // Before anybody can stop it: what the one has thought is not the other's.
            heard.forget(&mut *events);
            if let Some(passed) = passed {
                events(StreamEvent::Retry(RetryNotice {
                    attempt: 1,
                    max_attempts: 1,
                    delay: passed.until.saturating_duration_since(Instant::now()),
                    message: passed.message,
                    usage: Usage::default(),
                }));
                sleep_until(passed.until).await;
                again = Some(passed.credential);
            }
        }
    }

    /// Remembers who was passed over, if nobody may be asked earlier.
    fn note_passed(&mut self, credential: &Credential, error: &ProviderError, passes: Passes) {
        let Some(asked) = passed_over(error, passes) else { return };
        let until = Instant::now() + asked;
        if self.passed.as_ref().is_none_or(|passed| until < passed.until) {
            let (credential, message) = (credential.clone(), error.message.clone());
            self.passed = Some(Passed { place: self.at, credential, until, message });
        }
    }

    /// Those that may still be asked for this answer, in their order.
    fn later(&self) -> impl Iterator<Item = usize> + use<> {
        let (end, before) =
            if self.at < self.from { (self.from, 0..0) } else { (self.models.len(), 0..self.from) };
        (self.at + 1..end).chain(before)
    }

    /// Who is asked next. Of those that have failed once already only who is awake.
    async fn next_place(&self) -> Option<usize> {
        for place in self.later() {
            if place > self.from || self.is_awake(place).await {
                return Some(place);
            }
        }
        None
    }

    /// The model whose turn it is, with what its server says of it.
    async fn learn(&mut self) -> Arc<ModelInfo> {
        let model = self.failover.catalog.learn(self.model()).await;
        if let Some(place) = self.models.get_mut(self.at) {
            *place = Arc::clone(&model);
        }
        model
    }

    fn note_answer(&mut self, message: &AssistantMessage, events: EventSink<'_>) {
        let Some(conversation) = &self.conversation else { return };
        if message.stop_reason == StopReason::Error {
            return;
        }
        let (selected, active) = (self.selected.reference(), self.model().reference());
        let attempts = std::mem::take(&mut self.attempts);
        let notice = self.failover.note_answer(conversation, selected, active, attempts);
        if let Some(notice) = notice {
            events(StreamEvent::Fallback(notice));
        }
    }

    /// What the user hears: the error itself when only one model was asked.
    fn summary(&self, last: ProviderError) -> ProviderError {
        if self.models.len() == 1 {
            return last;
        }
        let one = |attempt: &Attempt| {
            format!("{}: {} ({})", attempt.model, attempt.error, attempt.reason.as_str())
        };
        let told: Vec<_> = self.attempts.iter().map(one).collect();
        let message = format!("{ALL_FAILED} ({}): {}", told.len(), told.join(" | "));
        ProviderError { message, ..last }
    }
}

/// What the text begins with when more than one model was asked in vain.
pub const ALL_FAILED: &str = "All models failed";
