//! What one run does: model, tools, model, … until there is an answer.

mod brief;
mod calls;
mod draft;
mod ending;
mod flush;
mod hearing;
mod notes;
mod room;

pub use calls::CUT_CALL;
pub use ending::close_broken;

use std::sync::Arc;

use crate::protocol::message::{AgentMessage, AssistantMessage, StopReason, Usage};
use crate::providers::{
    ModelInfo, ModelRequest, ProviderError, ProviderErrorKind, Route, StreamEvent, ThinkingLevel,
};
use crate::sessions::visible::part_thoughts;
use crate::sessions::{SessionEntry, SessionError, StoredMessage};

use super::emitter::Emitter;
use super::models::SessionModel;
use super::notices::Untold;
use super::parts::RunsParts;
use super::pruning::Share;
use super::recovery;
use super::report::Answer;
use super::run::{AbortReason, ActiveRun, RunEnd};
use super::runs::Runs;
use super::spent::{add, charge};
use brief::Brief;
use draft::Draft;
use ending::take_call;
use hearing::Hearing;
use room::Fill;

/// A model that calls tools without end is stopped after so many rounds to which nobody spoke.
const MAX_ROUNDS: usize = 100;
/// `errorMessage` of an answer that was cut by an abort.
const ABORTED: &str = "Request was aborted";

/// `errorKind` of a conversation that is longer than the model reads.
const TOO_LONG: &str = "context_length";

/// Executes `run` to its end and tells everybody.
pub async fn execute(runs: &Arc<Runs>, run: &Arc<ActiveRun>) -> RunEnd {
    let (parts, emitter) = (runs.parts(), runs.emitter(run));
    let untold = parts.take_notices(&run.key);
    let mut turn = Turn {
        runs,
        parts,
        run,
        emitter,
        used: Usage::default(),
        notices: untold.texts(),
        untold,
        fill: Fill::default(),
        has_compacted: false,
        share: Share::Usual,
        kept: None,
        answer_id: None,
        draft: Draft::default(),
        is_quiet: false,
    };
    let started_at = turn.emitter.started_at();
    let is_heartbeat = run.terms.is_heartbeat;
    let update = turn.update(move |entry| {
        entry.status = Some("running".into());
        entry.started_at = Some(started_at);
        (entry.ended_at, entry.runtime_ms) = (None, None);
        entry.aborted_last_run = Some(false);
        entry.system_sent = Some(true);
        entry.live_model_switch_pending = None;
        if !is_heartbeat {
            entry.updated_at = started_at;
        }
    });
    // Asked for together, they are one commit.
    let (row, ()) = tokio::join!(update, recovery::settle(parts, run));
    turn.emitter.start();
    turn.tell(row.as_ref(), "start");
    let answered = turn.answer().await;
    let used = turn.spent();
    run.note(|progress| progress.used = used);
    match answered {
        Ok(Last::Answer(message)) => turn.finish(&message).await,
        Ok(Last::Handed(message)) => turn.hand_over(&message).await,
        Err(Stop::Aborted(reason)) => turn.abort(reason).await,
        Err(Stop::Failed { message, kind }) => turn.fail(message, kind).await,
    }
}

/// What a run ends with.
enum Last {
    /// An answer, not stored yet.
    Answer(AssistantMessage),
    /// Calls of tools that whoever asked has to do; they are stored.
    Handed(AssistantMessage),
}

/// Why there is no answer.
enum Stop {
    Aborted(AbortReason),
    Failed { message: String, kind: &'static str },
}

impl From<SessionError> for Stop {
    fn from(error: SessionError) -> Self {
        Self::Failed { message: format!("transcript not writable: {error}"), kind: "unknown" }
    }
}

struct Turn<'a> {
    runs: &'a Arc<Runs>,
    parts: &'a RunsParts,
    run: &'a Arc<ActiveRun>,
    emitter: Emitter,
    /// Sum over all model calls of this run but those of reviewers, see [`Turn::spent`].
    used: Usage,
    /// What happened since the last run.
    notices: Vec<String>,
    /// Those of them that no model has heard yet.
    untold: Untold<'a>,
    /// How full the context is.
    fill: Fill,
    /// Whether a summary was tried since the model last answered, as it found the context too
    /// long.
    has_compacted: bool,
    /// How much of it may be results of tools.
    share: Share,
    /// What had been said when somebody stopped the run.
    kept: Option<StoredMessage>,
    /// Id that the answer of the model will have in the transcript.
    answer_id: Option<String>,
    /// What has come of that answer.
    draft: Draft,
    /// Whether it is a heartbeat that has come to nothing that anybody would look for.
    is_quiet: bool,
}

fn endless() -> Stop {
    let message = format!("the model called tools {MAX_ROUNDS} times without answering");
    Stop::Failed { message, kind: "unknown" }
}

impl Turn<'_> {
    /// Takes the events that have come since, which may take the owner's tools away.
    fn hear_events(&mut self) {
        self.notices.extend(self.untold.take_more());
        let terms = &self.run.terms;
        if !self.untold.is_owners(terms.is_heartbeat) && !terms.is_bare() {
            self.run.owned.give_up();
        }
    }

    async fn answer(&mut self) -> Result<Last, Stop> {
        let agent = self.run.key.agent(&self.parts.keys.now());
        let mut last = None;
        let mut unknown = 0;
        let mut taken = self.runs.steering(self.run);
        let (mut round, mut most) = (0, MAX_ROUNDS);
        while round < most || !taken.is_empty() {
            // Who speaks to it has it go on for as long again.
            most = if taken.is_empty() { most } else { round + MAX_ROUNDS };
            round += 1;
            self.runs.take_in(self.run, &taken).await?;
            taken.clear();
            self.hear_events();
            // Read again each time: a change of the model or the thinking level
            // holds from the next call on.
            let entry = self.parts.sessions.entry(&self.run.key).await?.unwrap_or_default();
            let model = self.model(&entry)?;
            // Who has answered goes on, be it a fallback, and so does who found it too long.
            let mut route =
                last.take().filter(|route: &Route| route.is_for(&model)).unwrap_or_else(|| {
                    let route = self.parts.models.route_of(self.run, &agent, model);
                    route.wishing(self.run.terms.wishes)
                });
            if !self.run.terms.is_bare() {
                if round == 1 {
                    self.fill = self.measure(&entry, route.model().context_window).await?;
                }
                self.keep_room(&route).await?;
            }
            let mut brief = self.brief(&entry).await?;
            brief.conversation.is_kept = route.has_others();
            let mut message = match self.ask(&mut brief, &mut route).await {
                Err(Stop::Failed { message, kind: TOO_LONG }) if !self.run.terms.is_bare() => {
                    self.make_room(message, &route).await?;
                    last = Some(route);
                    continue;
                }
                asked => asked?,
            };
            self.forget_failure();
            if !self.run.terms.is_bare() {
                self.untold.set_heard();
            }
            let model = Arc::clone(route.model());
            last = Some(route);
            self.used = add(&self.used, &message.usage);
            self.fill.counted(&message.usage);
            let toolbox = brief.into_toolbox();
            self.keep_from_asking(&mut message, &toolbox, &mut unknown);
            let is_cut = self.settle_cut(&mut message);
            let is_whole = message.stop_reason.ended_by_itself();
            let calls: Vec<_> = message.tool_calls().cloned().collect();
            let goes_on = is_cut || !calls.is_empty() && message.stop_reason == StopReason::ToolUse;
            if !goes_on {
                // Asked only now, and before the answer counts as the last:
                // who comes later finds the run over and gets its own.
                taken = if calls.is_empty() { self.runs.steering(self.run) } else { vec![] };
                if taken.is_empty() {
                    self.note_answer(&message, &entry, &model);
                    return Ok(Last::Answer(message));
                }
            }
            if goes_on {
                let handed = if is_cut { vec![] } else { calls::handed(&calls, &toolbox) };
                let asked = self.store_call(message.clone()).await?;
                self.call_tools(calls, is_cut, &toolbox, &model, &asked).await?;
                if !handed.is_empty() {
                    self.note_answer(&message, &entry, &model);
                    self.run.note(|progress| progress.handed = handed);
                    return Ok(Last::Handed(message));
                }
                taken = self.runs.steering(self.run);
            } else {
                let stored = self.store_call(message).await?;
                self.parts.announce(&self.run.key, &stored);
            }
            self.emitter.next_turn(is_whole);
        }
        Err(endless())
    }

    fn named(&self, entry: &SessionEntry) -> SessionModel {
        let models = &self.parts.models;
        match &self.run.terms.model {
            Some(wanted) => models.wanted(wanted, &self.run.key),
            None => models.of_session(&self.run.key, Some(entry)),
        }
    }

    fn model(&self, entry: &SessionEntry) -> Result<Arc<ModelInfo>, Stop> {
        let SessionModel { name, info } = self.named(entry);
        info.ok_or_else(|| Stop::Failed {
            message: format!("Unknown model: {name}"),
            kind: "unknown",
        })
    }

    /// One call of the model. What arrived before it failed or was stopped is
    /// kept in the transcript.
    async fn ask(
        &mut self,
        brief: &mut Brief<'_>,
        route: &mut Route,
    ) -> Result<AssistantMessage, Stop> {
        let mut request = self.request(brief.entry, route.model());
        let (emitter, id, draft) = (&mut self.emitter, &mut self.answer_id, &mut self.draft);
        let mut hearing = Hearing::new(self.parts, emitter, id, draft, route.model());
        let mut events = |event: StreamEvent| hearing.hear(event);
        let outcome = tokio::select! {
            biased;
            reason = self.run.aborted() => Err(Stop::Aborted(reason)),
            answer = route.stream(&mut request, brief, &mut events) => Ok(answer),
        };
        // What an answer has used that nobody waits for any more.
        let begun = route.take_begun();
        self.pay(&route.take_dropped()).await;
        let model = route.model();
        match outcome {
            Ok(Ok(message)) if message.stop_reason != StopReason::Error => Ok(parted(message)),
            Ok(Ok(message)) => {
                let text = message.error_message.clone().unwrap_or_else(|| "unknown error".into());
                self.pay(&message.usage).await;
                let message = AgentMessage::Assistant(parted(message));
                self.append(message, self.answer_id.clone()).await?;
                Err(Stop::Failed { message: text, kind: "refusal" })
            }
            Ok(Err(error)) => Err(self.provider_failed(error, model).await?),
            Err(stop) => {
                self.pay(&begun).await;
                self.keep_partial(model, begun).await;
                Err(stop)
            }
        }
    }

    /// Takes what was used beside the answers of the run: by tools, and before one failed or
    /// was thrown away.
    async fn pay(&mut self, usage: &Usage) {
        self.used = add(&self.used, usage);
        charge(self.parts, &self.run.key, usage).await;
    }

    /// What the run has used so far, reviews of its tool calls included.
    fn spent(&self) -> Usage {
        add(&self.used, &self.run.reviews())
    }

    /// Keeps the facts of the answer for those who ask how the run ended.
    fn note_answer(&self, message: &AssistantMessage, entry: &SessionEntry, model: &ModelInfo) {
        let answer = Answer {
            stop_reason: message.stop_reason.as_str(),
            provider: message.provider.clone(),
            model: message.model.clone(),
            context_window: model.context_window,
            thinking: self.thinking(entry).as_str(),
            used: self.spent(),
            last: message.usage.clone(),
        };
        self.run.note(|progress| progress.answer = Some(answer));
    }

    /// How hard to think: what the message says, or the session, or what is usual for the
    /// model. A fallback thinks as hard as the model in whose place it answers.
    fn thinking(&self, entry: &SessionEntry) -> ThinkingLevel {
        let models = &self.parts.models;
        let usual = || models.thinking_of(&self.run.key, entry, self.named(entry).info.as_deref());
        self.run.thinking.unwrap_or_else(usual)
    }

    /// A request that says nothing yet: what is told, and the conversation, depend on the
    /// model that is asked in the end.
    fn request(&self, entry: &SessionEntry, model: &Arc<ModelInfo>) -> ModelRequest {
        // A provider that keeps conversations has another one of a bare run.
        let is_bare = self.run.terms.is_bare();
        let session_id = if is_bare { self.run.id.to_string() } else { entry.session_id.clone() };
        ModelRequest {
            thinking: self.thinking(entry),
            ..ModelRequest::aside(Arc::clone(model), Vec::new(), session_id)
        }
    }

    /// The model has answered: what comes from now on may be too long again, and what fails
    /// is not the provider because it was before.
    fn forget_failure(&mut self) {
        self.has_compacted = false;
        self.run.note(|progress| {
            (progress.provider_failed, progress.passing) = (false, None);
            progress.is_refused = false;
        });
    }

    async fn provider_failed(
        &mut self,
        error: ProviderError,
        model: &ModelInfo,
    ) -> Result<Stop, Stop> {
        tracing::warn!(run = %self.run.id, model = %model.id, %error, "model call failed");
        let (message, kind) = (error.message.clone(), error.wire_kind());
        let passing = Some(error.kind).filter(|_| error.may_pass());
        let is_refused = error.kind == ProviderErrorKind::Refusal;
        self.run.note(|progress| {
            (progress.provider_failed, progress.passing) = (true, passing);
            progress.is_refused = is_refused;
        });
        let mut partial =
            error.partial.map_or_else(|| self.partial(model, Usage::default()), |partial| *partial);
        partial.stop_reason = StopReason::Error;
        partial.error_message = Some(message.clone());
        self.pay(&partial.usage).await;
        let partial = AgentMessage::Assistant(parted(partial));
        self.append(partial, self.answer_id.clone()).await?;
        Ok(Stop::Failed { message, kind })
    }

    /// Stores what had been said when somebody stopped the run; it is told
    /// after the end of the run. That is no other one where the disk does not take it.
    async fn keep_partial(&mut self, model: &ModelInfo, usage: Usage) {
        let partial = self.partial(model, usage);
        if partial.content.is_empty() {
            return;
        }
        let (partial, id) = (AgentMessage::Assistant(partial), self.answer_id.clone());
        match self.parts.append_step(self.run, partial, id).await {
            Ok(stored) => self.kept = Some(stored),
            Err(error) => {
                tracing::error!(run = %self.run.id, %error, "what a stopped run has said is lost");
            }
        }
    }

    /// What the current model turn has said, as a message that was cut.
    fn partial(&self, model: &ModelInfo, usage: Usage) -> AssistantMessage {
        parted(AssistantMessage {
            content: self.draft.content(),
            api: model.api.as_str().into(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            usage,
            stop_reason: StopReason::Aborted,
            error_message: Some(ABORTED.into()),
            timestamp: self.parts.clock.now_ms(),
            response_id: None,
            extra: serde_json::Map::new(),
        })
    }

    /// Stores what a model call said that is not the last. One that calls tools
    /// is told after the first of them has begun.
    async fn store_call(&mut self, message: AssistantMessage) -> Result<StoredMessage, Stop> {
        let usage = message.usage.clone();
        let is_bare = self.run.terms.is_bare();
        let row = self.update(move |entry| take_call(entry, &usage, is_bare)).await;
        let message = AgentMessage::Assistant(message);
        let mut stored = self.parts.append_step(self.run, message, self.answer_id.clone()).await?;
        if let Some(row) = row {
            stored.session = SessionEntry { transcript: stored.session.transcript, ..row };
        }
        Ok(stored)
    }

    async fn append(
        &mut self,
        message: AgentMessage,
        id: Option<String>,
    ) -> Result<StoredMessage, SessionError> {
        let is_result = matches!(message, AgentMessage::ToolResult(_));
        let stored = self.parts.append_step(self.run, message, id).await?;
        if !is_result {
            self.parts.announce(&self.run.key, &stored);
        }
        Ok(stored)
    }
}

/// An answer with the thoughts in its text as blocks of their own.
fn parted(mut message: AssistantMessage) -> AssistantMessage {
    let is_whole = message.stop_reason.ended_by_itself();
    message.content = part_thoughts(message.content, is_whole);
    message
}
