//! Notes before a compaction: the model writes what lasts of a conversation into its
//! workspace, while it can still read all of it.
//!
//! Promises: nothing of it is told, or kept in the transcript; it is tried once before
//! each compaction; a failure holds nothing up.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::brief::Brief;
use super::calls::not_made;
use super::{Stop, Turn};
use crate::agent::guardrails;
use crate::agent::prompt::Prompt;
use crate::agent::spent::{add, ask, charge};
use crate::agent::tools::{ToolContext, ToolOutput, Toolbox};
use crate::config::MemoryFlush;
use crate::protocol::message::{
    AgentMessage, StopReason, ToolCall, ToolResultMessage, Usage, UserMessage,
};
use crate::providers::{
    Api, Briefing, ModelInfo, ModelRequest, ProviderError, Route, ThinkingLevel,
};
use crate::sessions::{SessionEntry, SessionError};
use crate::support::BoxFuture;

/// A model that does not come to an end is not asked more often.
const ROUNDS_MAX: usize = 8;
/// Somebody waits for an answer meanwhile.
const LIMIT: Duration = Duration::from_mins(3);
/// Whose models do not write them: one is no model, the other has its own conversation, and
/// its own tools.
const NOT_BY: [Api; 2] = [Api::Offline, Api::ClaudeCli];
/// The tools that it has for this.
const TOOLS: [&str; 3] = ["read", "write", "edit"];
/// In the session's row: before which compaction it was asked last.
const MARK: &str = "memoryFlushedFor";
/// In a prompt, where the day goes.
const DAY: &str = "YYYY-MM-DD";

const PROMPT: &str = "This conversation is about to be summed up, and you will read only the \
    summary of it. Write what is to last beyond it into memory/YYYY-MM-DD.md: decisions, facts, \
    wishes of the user, what is open. Make the file if it is not there; if it is, add to its end \
    and leave what it says. Change no other file. Go on with nothing else, and answer NO_REPLY \
    when you are done, or when there is nothing to write.";
const SYSTEM: &str = "You take notes for your own memory before a conversation is summed up. \
    Nobody reads what you answer.";

/// Why there are no notes.
#[derive(Debug, thiserror::Error)]
enum NotesError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error("{0}")]
    Model(String),
    #[error("given up after {LIMIT:?}")]
    TimedOut,
}

/// What a model is told for its notes.
struct NotesBrief<'t> {
    brief: Brief<'t>,
    instructions: String,
}

impl Briefing for NotesBrief<'_> {
    fn brief<'a>(
        &'a mut self,
        model: &'a ModelInfo,
        request: &'a mut ModelRequest,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Self { brief, instructions } = self;
            brief.toolbox = brief.tools_of(model).await.only(&TOOLS);
            let (key, toolbox) = (&brief.run.key, &brief.toolbox);
            let prompt = Prompt::gather(brief.parts, key, brief.entry, toolbox).await;
            let prompt = prompt.instructed(Some(instructions.as_str()));
            let system = prompt.render(model, ThinkingLevel::Off, &[]);
            brief.fill(model, system, request).await;
        })
    }
}

impl Turn<'_> {
    /// Has the model write down what lasts, unless it was asked for that since the last
    /// compaction.
    pub(super) async fn take_notes(&mut self, route: &Route) -> Result<(), Stop> {
        let settings = self.parts.settings.now();
        let flush = &settings.agents.defaults.memory_flush;
        let is_talk = !self.run.terms.is_heartbeat && !self.run.key.is_spawned();
        let can = !NOT_BY.contains(&route.model().api);
        if !(flush.is_enabled && is_talk && can) {
            return Ok(());
        }
        let entry = self.parts.sessions.entry(&self.run.key).await?.unwrap_or_default();
        let mark = format!("{}:{}", entry.session_id, entry.compaction_count.unwrap_or_default());
        if entry.extra.get(MARK).is_some_and(|last| *last == mark.as_str()) {
            return Ok(());
        }
        self.update(move |entry| drop(entry.extra.insert(MARK.into(), Value::from(mark)))).await;
        // Paid for, also when there are no notes in the end.
        let mut used = Usage::default();
        let route = route.beside().without(&NOT_BY);
        let writing = Box::pin(self.write_notes(&entry, flush, route, &mut used));
        let written = tokio::select! {
            biased;
            reason = self.run.aborted() => Err(Stop::Aborted(reason)),
            written = tokio::time::timeout(LIMIT, writing) => {
                Ok(written.unwrap_or(Err(NotesError::TimedOut)))
            }
        };
        self.used = add(&self.used, &used);
        charge(self.parts, &self.run.key, &used).await;
        if let Err(error) = written? {
            tracing::warn!(run = %self.run.id, %error, "no notes taken before a compaction");
        }
        Ok(())
    }

    /// `used` is what it takes, also where a model fails in the end.
    async fn write_notes(
        &self,
        entry: &SessionEntry,
        flush: &MemoryFlush,
        mut route: Route,
        used: &mut Usage,
    ) -> Result<(), NotesError> {
        let model = Arc::clone(route.model());
        let instructions =
            flush.system_prompt.as_deref().unwrap_or(SYSTEM).replace(DAY, &self.day());
        let mut brief = NotesBrief { brief: self.brief(entry).await?, instructions };
        let toolbox = brief.brief.tools_of(&model).await.only(&TOOLS);
        let said = &mut brief.brief.conversation;
        said.is_pruned = false;
        // What was said last is answered afterwards, and not in this place.
        while matches!(said.messages.last(), Some(AgentMessage::User(_))) {
            said.messages.pop();
        }
        let writes = toolbox.find("write").is_some() || toolbox.find("edit").is_some();
        if said.messages.is_empty() || !writes {
            return Ok(());
        }
        let prompt = flush.prompt.as_deref().unwrap_or(PROMPT).replace(DAY, &self.day());
        let now_ms = self.parts.clock.now_ms();
        said.behind.push(AgentMessage::User(UserMessage::text(prompt, now_ms)));
        let session_id = entry.session_id.clone();
        let mut request = ModelRequest::aside(model, Vec::new(), session_id);
        for _ in 0..ROUNDS_MAX {
            let answer = ask(&mut route, &mut request, &mut brief, used).await?;
            if let Some(why) = answer.failure() {
                return Err(NotesError::Model(why));
            }
            let calls: Vec<_> = answer.tool_calls().cloned().collect();
            if calls.is_empty() || answer.stop_reason != StopReason::ToolUse {
                break;
            }
            brief.brief.conversation.behind.push(AgentMessage::Assistant(answer));
            for call in calls {
                let result = self.call_for_notes(call, &brief.brief.toolbox, route.model()).await;
                brief.brief.conversation.behind.push(result);
            }
        }
        Ok(())
    }

    async fn call_for_notes(
        &self,
        call: ToolCall,
        toolbox: &Toolbox,
        model: &Arc<ModelInfo>,
    ) -> AgentMessage {
        let key = self.run.key.clone();
        let agent = self.parts.agent_of(&key);
        let cx = ToolContext::new(Arc::clone(self.runs), key, agent).of_run(
            Arc::clone(self.run),
            Arc::clone(model),
            call.id.clone(),
        );
        let output = match not_made(&call) {
            Some(why) => ToolOutput::error(why),
            None => guardrails::call(&cx, toolbox, &call).await,
        };
        AgentMessage::ToolResult(ToolResultMessage {
            tool_call_id: call.id,
            tool_name: call.name,
            is_error: output.is_error_in_transcript(),
            content: output.content,
            details: output.details,
            timestamp: self.parts.clock.now_ms(),
            extra: Map::new(),
        })
    }

    /// Today, where the user lives.
    fn day(&self) -> String {
        let now_ms = self.parts.clock.now_ms();
        self.parts.settings.now().workspace.local_time(now_ms).date().to_string()
    }
}
