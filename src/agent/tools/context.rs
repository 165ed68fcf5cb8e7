//! What a tool has at hand.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::agent::approvals::{ApprovalNews, Decision};
use crate::agent::guardrails::GuardNews;
use crate::agent::parts::RunsParts;
use crate::agent::run::ActiveRun;
use crate::agent::runs::Runs;
use crate::auth::Owner;
use crate::channels::Target;
use crate::config::AgentSettings;
use crate::providers::ModelInfo;
use crate::sessions::{SessionEntry, SessionError, SessionKey};
use crate::support::BoxFuture;

use super::{Tool, ToolOutput, ToolScope, may_use};

/// What a tool tells before it is done.
#[derive(Debug, Clone)]
pub enum ToolNews {
    /// All that it has to show so far.
    Update(ToolOutput),
    /// The data of an `approval` event.
    Approval(Value),
    /// What the guardrails make of it.
    Guard(GuardNews),
}

/// News of the calls of one answer, with the place of each call in it.
pub type NewsSender = mpsc::Sender<(usize, ToolNews)>;

/// What one call has at hand.
pub struct ToolContext {
    /// The gateway's conversations and runs, and what they work with.
    pub runs: Arc<Runs>,
    /// The session that the call belongs to.
    pub key: SessionKey,
    /// Its agent.
    pub agent: AgentSettings,
    /// The model that calls; none when a client does.
    pub model: Option<Arc<ModelInfo>>,
    /// The run that it belongs to; none when a client calls.
    pub run: Option<Arc<ActiveRun>>,
    /// The model's name for the call.
    pub call_id: String,
    is_owner: bool,
    news: Option<(usize, NewsSender)>,
}

impl ToolContext {
    /// For a call that nobody follows.
    pub const fn new(runs: Arc<Runs>, key: SessionKey, agent: AgentSettings) -> Self {
        let call_id = String::new();
        Self { runs, key, agent, model: None, run: None, call_id, is_owner: false, news: None }
    }

    /// The same for a call of a run, whose news go to `sender`.
    #[must_use]
    pub fn of_run(self, run: Arc<ActiveRun>, model: Arc<ModelInfo>, call_id: String) -> Self {
        Self { run: Some(run), model: Some(model), call_id, ..self }
    }

    /// The same with somebody who follows; `index` is the call's place.
    #[must_use]
    pub fn followed(self, index: usize, sender: NewsSender) -> Self {
        Self { news: Some((index, sender)), ..self }
    }

    /// The same for a client that calls, who is the gateway's owner or not.
    #[must_use]
    pub fn owned(self, is_owner: bool) -> Self {
        Self { is_owner, ..self }
    }

    /// Whether the gateway's owner calls, and nobody else had a word in it.
    pub fn is_owner(&self) -> bool {
        self.run.as_ref().map_or(self.is_owner, |run| run.owned.get())
    }

    /// What runs work with.
    pub fn parts(&self) -> &RunsParts {
        self.runs.parts()
    }

    /// The tools of whoever calls, in the session of `entry`: a run and the model that answers
    /// may have fewer than the session, and so has a client.
    ///
    /// # Errors
    /// When the session is not readable.
    pub async fn scope(&self, entry: Option<&SessionEntry>) -> Result<ToolScope, SessionError> {
        let scope = ToolScope::of_session(self.parts(), &self.key, entry).await?;
        let scope = scope.owned(self.is_owner());
        let scope = match &self.model {
            Some(model) => scope.answered_by(model.reference()),
            None => scope,
        };
        Ok(match &self.run {
            Some(run) => scope.limited(&run.terms.tools),
            None => scope.by_client(),
        })
    }

    /// Whether whoever calls may use a tool now: while a person was asked about the call, much
    /// can have been said against it.
    pub async fn may_still_use(&self, tool: &dyn Tool) -> bool {
        let scope = async {
            let entry = self.parts().sessions.entry(&self.key).await?;
            self.scope(entry.as_ref()).await
        };
        match scope.await {
            Ok(scope) => {
                let settings = self.parts().settings.now();
                may_use(tool, &settings, self.agent.id.as_str(), &scope)
            }
            Err(error) => {
                let name = tool.name();
                tracing::error!(%error, tool = name, "a session is not readable; the tool is not used");
                false
            }
        }
    }

    /// Where the conversation is, if in a chat of a channel. Several people may share a
    /// session: whoever is answered comes first.
    pub async fn place(&self) -> Option<Target> {
        let channels = &self.parts().channels;
        if let Some(run) = &self.run
            && let Some(answered) = channels.place_of_hearer(&run.terms.hearer)
        {
            return Some(answered);
        }
        channels.place_of_session(&self.key).await
    }

    /// Who may stop what the call begins: who may stop its run.
    pub fn owner(&self) -> Owner {
        self.run.as_ref().map_or_else(Owner::gateway, |run| (*run.owner).clone())
    }

    /// Tells those who follow. Waits when they are behind.
    pub async fn tell(&self, news: ToolNews) {
        if let Some((index, sender)) = &self.news {
            // Nobody follows a call whose run is over.
            let _ = sender.send((*index, news)).await;
        }
    }
}

/// Questions about a call are told to those who follow it.
pub struct CallNews<'a>(pub &'a ToolContext);

impl ApprovalNews for CallNews<'_> {
    fn tell(&self, data: Value) -> BoxFuture<'_, ()> {
        Box::pin(self.0.tell(ToolNews::Approval(data)))
    }

    /// A person may take half an hour: other runs go on in the place of the one that waits.
    fn while_asked<'a>(
        &'a self,
        asking: BoxFuture<'a, Option<Decision>>,
    ) -> BoxFuture<'a, Option<Decision>> {
        match &self.0.run {
            Some(run) => Box::pin(self.0.runs.while_lending(run, asking)),
            None => asking,
        }
    }
}
