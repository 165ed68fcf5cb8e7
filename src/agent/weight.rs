//! What fills the context of a session.

use std::sync::Arc;

use crate::protocol::message::AgentMessage;
use crate::providers::{ModelInfo, ThinkingLevel};
use crate::sessions::{SessionEntry, SessionError, SessionKey};
use crate::support::sort;

use super::prompt::Prompt;
use super::run::ActiveRun;
use super::runs::Runs;
use super::tools::{ToolScope, Toolbox};

/// What the next call of the model carries, in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextWeight {
    /// The system prompt.
    pub system: usize,
    /// Name and size of each tool, largest first.
    pub tools: Vec<(String, usize)>,
    /// Count and size of the messages: the user's, the model's, tool results.
    pub messages: [(usize, usize); 3],
    /// Tokens of the last call, as the provider counted them.
    pub tokens: Option<u64>,
    /// What the model can read, in tokens.
    pub window: Option<u64>,
}

impl Runs {
    /// The tools of a session, or of a run in it, with the model that it wishes; without
    /// a run those that its owner has.
    ///
    /// # Errors
    /// When the session is not readable.
    pub async fn toolbox(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        run: Option<&ActiveRun>,
    ) -> Result<Toolbox, SessionError> {
        let models = &self.parts().models;
        let model = match run.and_then(|run| run.terms.model.as_ref()) {
            Some(wanted) => models.wanted(wanted, key),
            None => models.of_session(key, Some(entry)),
        };
        let scope = self.tool_scope(key, entry, run).await?;
        Ok(self.toolbox_of(key, run, &scope.answered_by(model.name)).await)
    }

    /// For whom the tools of a session are wanted, or those of a run in it.
    ///
    /// # Errors
    /// When the session is not readable.
    pub(super) async fn tool_scope(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        run: Option<&ActiveRun>,
    ) -> Result<ToolScope, SessionError> {
        let scope = ToolScope::of_session(self.parts(), key, Some(entry)).await?;
        Ok(match run {
            Some(run) => scope.owned(run.owned.get()).limited(&run.terms.tools),
            None => scope.owned(true),
        })
    }

    /// The tools of a session, or of a run in it, with the model that `scope` names.
    pub(super) async fn toolbox_of(
        &self,
        key: &SessionKey,
        run: Option<&ActiveRun>,
        scope: &ToolScope,
    ) -> Toolbox {
        if run.is_some_and(|run| run.terms.is_bare()) {
            return Toolbox::default();
        }
        let parts = self.parts();
        let agent = key.agent(&parts.keys.now());
        let toolbox = parts.tools.toolbox(&parts.settings.now(), agent.as_str(), scope).await;
        match run {
            Some(run) => toolbox.with_clients(&run.terms.client_tools),
            None => toolbox,
        }
    }

    /// Weighs the context of a session.
    ///
    /// # Errors
    /// When the session is not readable.
    pub async fn weigh(&self, key: &SessionKey) -> Result<ContextWeight, SessionError> {
        let parts = self.parts();
        let entry = parts.sessions.entry(key).await?;
        let model = parts.models.of_session(key, entry.as_ref());
        let entry = entry.unwrap_or_default();
        let toolbox = self.toolbox(key, &entry, None).await?;
        let prompt = Prompt::gather(parts, key, &entry, &toolbox).await;
        let rendered = |model: &Arc<ModelInfo>| prompt.render(model, ThinkingLevel::Off, &[]);
        let sized = toolbox.specs().into_iter().map(|spec| {
            let size = spec.description.chars().count() + spec.parameters.to_string().len();
            (spec.name, size)
        });
        let mut tools: Vec<_> = sized.collect();
        sort::by_key(&mut tools, |(_, size)| std::cmp::Reverse(*size));
        let mut messages = [(0, 0); 3];
        for message in parts.sessions.context(key).await? {
            let [user, model, results] = &mut messages;
            let (kind, calls) = match &message {
                AgentMessage::User(_) => (user, 0),
                AgentMessage::Assistant(said) => {
                    (model, said.tool_calls().map(|call| call.arguments.to_string().len()).sum())
                }
                AgentMessage::ToolResult(_) => (results, 0),
            };
            kind.0 += 1;
            kind.1 += message.text().chars().count() + calls;
        }
        Ok(ContextWeight {
            system: model.info.as_ref().map_or(0, |model| rendered(model).chars().count()),
            tools,
            messages,
            tokens: entry.total_tokens.filter(|tokens| *tokens > 0),
            window: model.context_window(),
        })
    }
}
