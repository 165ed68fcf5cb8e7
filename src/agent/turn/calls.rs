//! The tool calls of one model answer.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{Stop, Turn};
use crate::agent::emitter::Card;
use crate::agent::guardrails;
use crate::agent::named_files;
use crate::agent::run::AbortReason;
use crate::agent::tools::{Tool, ToolContext, ToolKind, ToolNews, ToolOutput, Toolbox};
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, StopReason, ToolCall, ToolResultMessage,
};
use crate::providers::ModelInfo;
use crate::sessions::StoredMessage;
use crate::telemetry::metrics::NUMBERS;
use crate::telemetry::traces::{self, Kind, Span};

/// News that may wait to be told; then the calls wait.
const NEWS_MAX: usize = 64;
/// A model that asks so many times in a row for tools that are not there is
/// answered for, as in the original.
const UNKNOWN_MAX: usize = 10;

/// How the result of a call begins that was stopped with its run.
pub const CUT_CALL: &str = "Stopped before it had a result";

/// The result of a call that stands in an answer which its limit has cut.
const OVER_LIMIT: &str = "The call was cut off by the output limit and was not made; \
    write less at once.";

/// The calls of an answer, at their places in it.
struct Calls {
    cards: Vec<Card>,
    /// What each has to show, or its result.
    outputs: Vec<Option<ToolOutput>>,
    is_done: Vec<bool>,
}

impl Calls {
    fn new(cards: Vec<Card>) -> Self {
        let (outputs, is_done) = (vec![None; cards.len()], vec![false; cards.len()]);
        Self { cards, outputs, is_done }
    }
}

/// Why a call is not made whose arguments could not be read.
pub(super) fn not_made(call: &ToolCall) -> Option<String> {
    let fault = call.fault.as_ref()?;
    Some(format!(
        "The call was not made: its arguments are no valid JSON object ({fault}). \
         Write all of them again."
    ))
}

/// The calls that whoever asked has to do.
pub(super) fn handed(calls: &[ToolCall], toolbox: &Toolbox) -> Vec<ToolCall> {
    let is_handed = |call: &&ToolCall| {
        call.fault.is_none() && toolbox.check(call).is_ok_and(|(tool, _)| tool.is_of_client())
    };
    calls.iter().filter(is_handed).cloned().collect()
}

/// A call of a tool, as a span. A tool that there is not has no name: the model
/// may have written anything.
async fn call_as_span(toolbox: &Toolbox, cx: &ToolContext, call: &ToolCall) -> ToolOutput {
    let mut span = Span::here("openclaw.tool.execution", Kind::Internal);
    let is_known = toolbox.find(&call.name).is_some();
    span.set("gen_ai.tool.name", if is_known { call.name.as_str() } else { "unknown" });
    let output =
        traces::within(span.context(), Box::pin(guardrails::call(cx, toolbox, call))).await;
    if output.is_error {
        span.fail("error");
    }
    output
}

impl Turn<'_> {
    /// Runs the calls of an answer, all at the same time, and stores their
    /// results in the order of the calls. `asked` is the answer, which is told
    /// when the calls have begun. Those of an answer that its limit has cut are refused:
    /// the last of them is not whole, and what comes before may depend on it. So are those
    /// whose arguments cannot be read.
    pub(super) async fn call_tools(
        &mut self,
        calls: Vec<ToolCall>,
        is_cut: bool,
        toolbox: &Toolbox,
        model: &Arc<ModelInfo>,
        asked: &StoredMessage,
    ) -> Result<(), Stop> {
        let row = self.tool_row().await;
        let cards: Vec<_> = calls.into_iter().map(|call| self.card(call, toolbox)).collect();
        for card in &cards {
            self.emitter.tool_start(card, &row);
        }
        self.parts.announce(&self.run.key, asked);
        let mut calls = Calls::new(cards);
        let refused = if is_cut {
            vec![Some(OVER_LIMIT.to_owned()); calls.cards.len()]
        } else {
            calls.cards.iter().map(|card| not_made(&card.call)).collect()
        };
        self.refuse(&mut calls, &refused, &row);
        let stopped = self.run_calls(&mut calls, toolbox, model, &row).await;
        if let Some(reason) = stopped {
            self.cut(&mut calls, reason, &row);
        }
        // All of it, before the disk may refuse a result.
        let outputs = calls.outputs.iter().flatten();
        let used: Vec<_> = outputs.filter_map(|output| output.usage.clone()).collect();
        for usage in &used {
            self.pay(usage).await;
        }
        // Written even when stopped: a call without a result breaks the
        // session for every provider (#10310).
        for (card, output) in calls.cards.into_iter().zip(calls.outputs) {
            let Some(output) = output else { continue };
            self.fill.grows(&output.content, model.context_window);
            let files =
                named_files::of_result(&card.call.name, &output.content, output.details.as_ref());
            if !files.is_empty() {
                self.run.note(|progress| named_files::add(&mut progress.files, files));
            }
            let result = AgentMessage::ToolResult(ToolResultMessage {
                tool_call_id: card.call.id,
                tool_name: card.call.name,
                is_error: output.is_error_in_transcript(),
                content: output.content,
                details: output.details,
                timestamp: self.parts.clock.now_ms(),
                extra: Map::new(),
            });
            if let Err(error) = self.append(result, None).await {
                let Some(reason) = stopped else { return Err(error.into()) };
                // Who has stopped it is told that it has stopped, whatever the disk takes.
                tracing::error!(run = %self.run.id, %error, "result of a stopped call is lost");
                return Err(Stop::Aborted(reason));
            }
        }
        stopped.map_or(Ok(()), |reason| Err(Stop::Aborted(reason)))
    }

    /// Whether an answer has calls that its limit has cut, so that they are to be
    /// refused. Who has set the limit himself gets what there is without them: with
    /// the same limit the next answer would be cut as well.
    pub(super) fn settle_cut(&self, message: &mut AssistantMessage) -> bool {
        if message.stop_reason != StopReason::Length || message.tool_calls().next().is_none() {
            return false;
        }
        let is_wished = self.run.terms.wishes.max_tokens.is_some();
        if is_wished {
            message.content.retain(|block| !matches!(block, ContentBlock::ToolCall(_)));
        }
        !is_wished
    }

    /// Gives the calls that are not to be made the result that says why.
    fn refuse(&mut self, calls: &mut Calls, why: &[Option<String>], row: &Map<String, Value>) {
        let Calls { cards, outputs, is_done } = calls;
        for (((card, output), is_done), why) in cards.iter().zip(outputs).zip(is_done).zip(why) {
            let Some(why) = why else { continue };
            let refused = ToolOutput::error(why);
            self.emitter.tool_end(card, row, &refused);
            NUMBERS.tools.count("error");
            (*output, *is_done) = (Some(refused), true);
        }
    }

    fn card(&self, call: ToolCall, toolbox: &Toolbox) -> Card {
        let tool = toolbox.find(&call.name);
        let meta = tool.and_then(|tool| tool.meta(&call.arguments));
        let kind = tool.map_or(ToolKind::Changes, Tool::kind);
        Card { call, meta, kind, started_at: self.parts.clock.now_ms() }
    }

    /// Runs the calls that have no result until all have one, or somebody stops the run.
    async fn run_calls(
        &mut self,
        calls: &mut Calls,
        toolbox: &Toolbox,
        model: &Arc<ModelInfo>,
        row: &Map<String, Value>,
    ) -> Option<AbortReason> {
        let (sender, mut news) = mpsc::channel(NEWS_MAX);
        let agent = self.parts.agent_of(&self.run.key);
        let Calls { cards, outputs, is_done } = calls;
        let mut running: FuturesUnordered<_> = cards
            .iter()
            .zip(is_done.iter())
            .enumerate()
            .filter(|(_, (_, is_done))| !**is_done)
            .map(|(index, (card, _))| {
                let key = self.run.key.clone();
                let cx = ToolContext::new(Arc::clone(self.runs), key, agent.clone())
                    .of_run(Arc::clone(self.run), Arc::clone(model), card.call.id.clone())
                    .followed(index, sender.clone());
                async move { (index, call_as_span(toolbox, &cx, &card.call).await) }
            })
            .collect();
        loop {
            tokio::select! {
                biased;
                reason = self.run.aborted() => return Some(reason),
                Some((index, news)) = news.recv() => self.tell_news(cards, outputs, row, index, news),
                done = running.next() => {
                    let (index, output) = done?;
                    // It may have told something just before its end.
                    while let Ok((index, news)) = news.try_recv() {
                        self.tell_news(cards, outputs, row, index, news);
                    }
                    self.emitter.tool_end(&cards[index], row, &output);
                    NUMBERS.tools.count(if output.is_error { "error" } else { "ok" });
                    outputs[index] = Some(output);
                    is_done[index] = true;
                }
            }
        }
    }

    /// Tells what the call at `index` has to show already.
    fn tell_news(
        &mut self,
        cards: &[Card],
        outputs: &mut [Option<ToolOutput>],
        row: &Map<String, Value>,
        index: usize,
        news: ToolNews,
    ) {
        match news {
            ToolNews::Update(output) => {
                self.emitter.tool_update(&cards[index], row, &output);
                outputs[index] = Some(output);
            }
            ToolNews::Approval(data) => {
                self.emitter.tool_approval(&cards[index], &data);
            }
            ToolNews::Guard(news) => self.emitter.tool_guarded(&cards[index], news),
        }
    }

    /// Gives the calls that were stopped a result: what they had to show.
    fn cut(&mut self, calls: &mut Calls, reason: AbortReason, row: &Map<String, Value>) {
        let Calls { cards, outputs, is_done } = calls;
        for ((card, output), is_done) in cards.iter().zip(outputs).zip(is_done) {
            if *is_done {
                continue;
            }
            let text = format!("{CUT_CALL} ({}).", reason.as_str());
            let mut cut = ToolOutput::error(text);
            if let Some(shown) = output.take() {
                cut.content.splice(0..0, shown.content);
            }
            self.emitter.tool_end(card, row, &cut);
            *output = Some(cut);
        }
    }

    /// The session's row for tool events; empty when nobody gets any.
    async fn tool_row(&self) -> Map<String, Value> {
        if !self.emitter.has_tool_watchers() {
            return Map::new();
        }
        let entry = self.parts.sessions.entry(&self.run.key).await.ok().flatten();
        entry.map(|entry| self.parts.events.tool_row(&self.run.key, &entry)).unwrap_or_default()
    }

    /// Counts answers in a row that only call tools which are not there. After
    /// too many of them the answer becomes one that says so.
    pub(super) fn keep_from_asking(
        &mut self,
        message: &mut AssistantMessage,
        toolbox: &Toolbox,
        unknown: &mut usize,
    ) {
        let names: Vec<_> = message.tool_calls().map(|call| call.name.clone()).collect();
        let only_unknown = names.iter().all(|name| toolbox.find(name).is_none());
        let Some(first) = names.first().filter(|_| only_unknown) else {
            *unknown = 0;
            return;
        };
        *unknown += 1;
        if *unknown > UNKNOWN_MAX {
            let text = format!(
                "I can't use the tool \"{first}\" here because it isn't available. \
                 I need to stop retrying it and answer without that tool."
            );
            self.emitter.say(&text);
            self.emitter.set_abandoned();
            message.content = vec![ContentBlock::text(text)];
            message.stop_reason = StopReason::Stop;
        }
    }
}
