//! What a model is told before it is asked for an answer of a run.
//!
//! Promises: each model that is tried is told of the tools that it may use itself, and gets
//! the conversation as it can read it.

use super::{Turn, notes};
use crate::agent::conversation::Conversation;
use crate::agent::parts::RunsParts;
use crate::agent::prompt::Prompt;
use crate::agent::run::ActiveRun;
use crate::agent::runs::Runs;
use crate::agent::tools::{ToolScope, Toolbox};
use crate::protocol::methods::agent::PromptMode;
use crate::providers::{Briefing, ModelInfo, ModelRequest, ThinkingLevel};
use crate::sessions::{SessionEntry, SessionError};
use crate::support::BoxFuture;

/// See the module.
pub(super) struct Brief<'t> {
    pub runs: &'t Runs,
    pub parts: &'t RunsParts,
    pub run: &'t ActiveRun,
    pub entry: &'t SessionEntry,
    scope: ToolScope,
    thinking: ThinkingLevel,
    notices: Vec<String>,
    /// What has been said.
    pub conversation: Conversation<'t>,
    /// What the model may use that was told last.
    pub toolbox: Toolbox,
}

impl<'a> Turn<'a> {
    /// What there is to tell with this row of the session.
    pub(super) async fn brief<'e>(&self, entry: &'e SessionEntry) -> Result<Brief<'e>, SessionError>
    where
        'a: 'e,
    {
        let (runs, parts, run) = (&**self.runs, self.parts, &**self.run);
        let mut messages = parts.sessions.context(&run.key).await?;
        if run.terms.is_bare() {
            notes::keep_own(&mut messages, &run.message, &run.id);
        }
        notes::leave_out(&mut messages);
        let mut conversation = Conversation {
            run_id: Some(&*run.id),
            share: self.share,
            is_pruned: true,
            ..Conversation::new(parts, messages)
        };
        if run.terms.is_bare() {
            conversation.zone = None;
        }
        Ok(Brief {
            runs,
            parts,
            run,
            entry,
            scope: runs.tool_scope(&run.key, entry, Some(run)).await?,
            thinking: self.thinking(entry),
            notices: self.notices.clone(),
            conversation,
            toolbox: Toolbox::default(),
        })
    }
}

impl Brief<'_> {
    /// What a model may use, once the servers of its tools are there.
    pub async fn tools_of(&self, model: &ModelInfo) -> Toolbox {
        let scope = self.scope.clone().answered_by(model.reference());
        self.runs.toolbox_of(&self.run.key, Some(self.run), &scope).await
    }

    /// What the model may use that was told last. The rest is not needed any more.
    pub fn into_toolbox(self) -> Toolbox {
        self.toolbox
    }

    /// Writes what `model` is told, and what it may use, into a request.
    pub async fn fill(&mut self, model: &ModelInfo, system: String, request: &mut ModelRequest) {
        request.system = Some(system);
        request.tools = self.toolbox.specs();
        self.conversation.fit(model, request).await;
    }

    /// What a model is told of itself; nothing in a bare run.
    async fn prompt(&self, toolbox: &Toolbox) -> Option<Prompt> {
        let terms = &self.run.terms;
        if terms.is_bare() {
            return None;
        }
        let prompt = Prompt::gather(self.parts, &self.run.key, self.entry, toolbox).await;
        let prompt = if terms.is_light { prompt.without_files() } else { prompt };
        let prompt = prompt.minimal(terms.prompt == PromptMode::Minimal);
        let prompt = prompt.instructed(terms.instructions.as_deref());
        Some(prompt.by_channel(terms.channel.as_deref()))
    }
}

impl Briefing for Brief<'_> {
    fn brief<'a>(
        &'a mut self,
        model: &'a ModelInfo,
        request: &'a mut ModelRequest,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.toolbox = self.tools_of(model).await;
            let prompt = self.prompt(&self.toolbox).await;
            let render = |it: Prompt| it.render(model, self.thinking, &self.notices);
            let system = prompt.map(render).unwrap_or_default();
            self.fill(model, system, request).await;
        })
    }
}
