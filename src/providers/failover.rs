//! Asking the next credential, and then the next model, when one fails.
//!
//! Owns: the order in which they are tried. Promises: an answer of which people have
//! read something is never given by somebody else; each step is reported; when everything
//! rests, the first is asked all the same. Must not: know of sessions or runs.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::briefing::Briefing;
use super::call_watch::CallWatch;
use super::credentials::{Credential, Credentials, FailureReason};
use super::retry::Heard;
use super::{
    AnswerWishes, Api, Catalog, EventSink, ModelInfo, ModelRef, ModelRequest, ProviderError,
    ProviderErrorKind, StreamEvent,
};
use crate::protocol::message::{AssistantMessage, StopReason, Usage};
use crate::telemetry::traces;

/// Conversations that are remembered to be answered by a fallback.
const MAX_ACTIVE: usize = 10_000;

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Which model.
    pub model: ModelRef,
    /// What the provider said.
    pub error: String,
    /// Why it failed.
    pub reason: FailureReason,
    /// HTTP status, when there was one.
    pub status: Option<u16>,
}

/// What becomes of the choice of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FallbackNotice {
    /// A model failed.
    Step {
        /// Which.
        from: ModelRef,
        /// The next one; `None` when there is none left.
        to: Option<ModelRef>,
        /// Why.
        reason: FailureReason,
        /// What the provider said.
        detail: String,
        /// Its place among those that are tried, from 1.
        position: usize,
    },
    /// Another model than the selected one answers.
    Active {
        /// The one that should have.
        selected: ModelRef,
        /// The one that does.
        active: ModelRef,
        /// What failed before.
        attempts: Vec<Attempt>,
    },
    /// The selected model answers again.
    Cleared {
        /// It.
        selected: ModelRef,
        /// The one that had answered meanwhile.
        previous: ModelRef,
    },
}

/// Everything that failing over needs.
pub struct Failover {
    catalog: Arc<Catalog>,
    credentials: Arc<Credentials>,
    /// Which conversations are answered by a fallback, and by which.
    active: Mutex<HashMap<String, ModelRef>>,
}

impl Failover {
    /// Over these models and credentials.
    pub fn new(catalog: Arc<Catalog>, credentials: Arc<Credentials>) -> Arc<Self> {
        Arc::new(Self { catalog, credentials, active: Mutex::default() })
    }

    /// All models there are.
    pub const fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// All credentials there are.
    pub const fn credentials(&self) -> &Arc<Credentials> {
        &self.credentials
    }

    /// The way to an answer for `agent`: `first`, else the first of `others`
    /// that gives one. `conversation` is the same for all answers of one.
    pub fn route(
        self: &Arc<Self>,
        agent: &str,
        conversation: &str,
        first: Arc<ModelInfo>,
        others: Vec<Arc<ModelInfo>>,
    ) -> Route {
        Route {
            failover: Arc::clone(self),
            agent: agent.to_owned(),
            conversation: Some(conversation.to_owned()),
            models: std::iter::once(Arc::clone(&first)).chain(others).collect(),
            selected: first,
            wishes: AnswerWishes::default(),
            from: 0,
            at: 0,
            attempts: Vec::new(),
            dropped: Usage::default(),
        }
    }
}

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
}

/// How trying one model ended.
enum Tried {
    Answered(Box<AssistantMessage>),
    /// The next model may do better.
    Failed(ProviderError),
    /// This is what the user must hear.
    Final(ProviderError),
}

impl Route {
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
        Self {
            failover: Arc::clone(&self.failover),
            agent: self.agent.clone(),
            conversation: None,
            selected: Arc::clone(self.model()),
            models: rest.iter().chain(before).cloned().collect(),
            wishes: AnswerWishes::default(),
            from: 0,
            at: 0,
            attempts: Vec::new(),
            dropped: Usage::default(),
        }
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

    /// The model that is asked, or that has answered.
    pub fn model(&self) -> &Arc<ModelInfo> {
        self.models.get(self.at).unwrap_or(&self.selected)
    }

    /// What attempts have used that gave no answer and no error, since this was asked last.
    pub fn take_dropped(&mut self) -> Usage {
        std::mem::take(&mut self.dropped)
    }

    /// Streams one answer. The model of `request` is set here; what each model is
    /// told of itself, and what it may use, comes from `briefing`. The next call begins
    /// with the model that answered this one, and comes back to those before it when all
    /// that follow have failed.
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
        loop {
            let model = self.learn().await;
            let tried = self.try_model(&model, request, briefing, &mut heard, events).await;
            let error = match tried {
                Tried::Answered(message) => {
                    self.note_answer(&message, events);
                    return Ok(*message);
                }
                Tried::Final(error) => return Err(error),
                Tried::Failed(error) => error,
            };
            let place = self.next_place().await;
            let next = place.and_then(|place| self.models.get(place));
            if self.models.len() > 1 {
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

    /// Asks one model with each credential that may do.
    async fn try_model(
        &mut self,
        model: &Arc<ModelInfo>,
        request: &mut ModelRequest,
        briefing: &mut dyn Briefing,
        heard: &mut Heard,
        events: EventSink<'_>,
    ) -> Tried {
        let failover = Arc::clone(&self.failover);
        let mut waiting = self.awake(model).await;
        let Some(mut credential) = waiting.next() else {
            return Tried::Failed(self.resting(model).await);
        };
        briefing.brief(model, request).await;
        loop {
            request.model = self.wishes.of(credential.apply(model));
            heard.forget(&mut *events);
            let began_ms = failover.credentials.now_ms();
            let mut call = CallWatch::new(model);
            let provider = failover.catalog.provider_for(model);
            let span = call.context();
            let mut watched = |event: StreamEvent| {
                call.saw(&event);
                heard.note(&event);
                if let StreamEvent::Retry(notice) = &event {
                    self.dropped.grow(&notice.usage);
                }
                events(event);
            };
            let answer = provider.stream(request, &mut watched);
            let answered = traces::within(span, answer).await;
            call.ended(&answered);
            let error = match answered {
                Ok(message) => {
                    if message.stop_reason != StopReason::Error {
                        failover.credentials.succeeded(&credential, model);
                    }
                    return Tried::Answered(Box::new(message));
                }
                Err(error) => error,
            };
            failover.credentials.failed(&credential, model, &error, began_ms);
            let reason = FailureReason::of(&error);
            self.attempts.push(Attempt {
                model: model.reference(),
                error: error.message.clone(),
                reason,
                status: error.status,
            });
            // The CLI may have used its own tools before it has said anything.
            let is_final = heard.has_text() || model.api == Api::ClaudeCli && heard.has_begun();
            if is_final || !reason.fails_over() {
                return Tried::Final(error);
            }
            match waiting.next().filter(|_| reason.rotates()) {
                Some(next) => {
                    self.dropped.grow(&error.usage());
                    credential = next;
                }
                None => return Tried::Failed(error),
            }
        }
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
            all.sort_by_key(|credential| rest(credential).map(|rest| rest.until_ms));
        }
        all.into_iter()
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

    async fn is_awake(&self, place: usize) -> bool {
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
        self.attempts.push(Attempt {
            model: model.reference(),
            error: error.message.clone(),
            reason,
            status: None,
        });
        error
    }

    fn note_answer(&mut self, message: &AssistantMessage, events: EventSink<'_>) {
        let Some(conversation) = &self.conversation else { return };
        if message.stop_reason == StopReason::Error {
            return;
        }
        let (selected, active) = (self.selected.reference(), self.model().reference());
        let mut known = self.failover.active.lock();
        let notice = if selected == active {
            let previous = known.remove(conversation);
            previous.map(|previous| FallbackNotice::Cleared { selected, previous })
        } else {
            if known.len() >= MAX_ACTIVE {
                known.clear();
            }
            let before = known.insert(conversation.clone(), active.clone());
            let attempts = std::mem::take(&mut self.attempts);
            (before.as_ref() != Some(&active)).then_some(FallbackNotice::Active {
                selected,
                active,
                attempts,
            })
        };
        drop(known);
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
pub(super) const ALL_FAILED: &str = "All models failed";

/// The kind of error whose reason this is; for those that make a model rest.
const fn kind_of(reason: FailureReason) -> ProviderErrorKind {
    match reason {
        FailureReason::Auth => ProviderErrorKind::Auth,
        FailureReason::Billing | FailureReason::RateLimit => ProviderErrorKind::RateLimit,
        FailureReason::Overloaded => ProviderErrorKind::Overloaded,
        _ => ProviderErrorKind::Timeout,
    }
}
