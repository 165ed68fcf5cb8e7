//! The questions that wait, for everybody who asks or answers them.

use std::sync::Arc;

use serde_json::Value;

use super::file::{self, ApprovalsFile, ApprovalsFileError, ApprovalsSnapshot};
use super::pending::{AskError, Decision, Draft, FindError, Pending, Question, QuestionKind};
use crate::auth::Principal;
use crate::bus::{Audience, Bus, EventKind};
use crate::config::{Paths, Settings};
use crate::protocol::{Scope, missing_scope};
use crate::sessions::{AgentId, SessionKey, Sessions};
use crate::support::{Clock, Ids, Live, RandomIds, json};

/// What approvals work with.
pub struct ApprovalsParts {
    /// The effective configuration.
    pub settings: Live<Settings>,
    /// Conversations.
    pub sessions: Sessions,
    /// Where events go.
    pub bus: Bus,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn Ids>,
}

/// Which commands may run, and who is being asked.
pub struct Approvals {
    pub(super) parts: ApprovalsParts,
    pub(super) file: ApprovalsFile,
    pending: Pending,
}

/// Why a question is not answered this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// Whoever answers has no right to.
    #[error("{}", missing_scope(Scope::Approvals.as_str()))]
    NotAllowed,
    /// No question has this id.
    #[error("unknown or expired approval id")]
    Unknown,
    /// Several ids begin so.
    #[error("ambiguous approval id prefix; use the full id")]
    Ambiguous,
    /// It was answered in another way, or too late.
    #[error("approval already resolved")]
    Resolved,
    /// It is asked each time.
    #[error(
        "allow-always is unavailable because the effective policy requires approval every time"
    )]
    NotAlways,
    /// This decision was not offered.
    #[error("invalid decision")]
    NotOffered,
}

impl QuestionKind {
    /// The event that asks.
    pub const fn requested(self) -> EventKind {
        match self {
            Self::Exec => EventKind::ExecApprovalRequested,
            Self::Plugin => EventKind::PluginApprovalRequested,
        }
    }

    const fn resolved(self) -> EventKind {
        match self {
            Self::Exec => EventKind::ExecApprovalResolved,
            Self::Plugin => EventKind::PluginApprovalResolved,
        }
    }
}

impl Approvals {
    /// Nothing is read before the first question.
    pub fn new(parts: ApprovalsParts) -> Self {
        let path = parts.settings.now().paths.exec_approvals();
        let file = ApprovalsFile::new(path, Arc::clone(&parts.ids));
        Self { parts, file, pending: Pending::default() }
    }

    /// Asks, and tells everybody who may decide. Without an id it gets one.
    ///
    /// # Errors
    /// When the id is taken or too many questions are open.
    pub fn open(&self, id: Option<String>, draft: Draft) -> Result<Arc<Question>, AskError> {
        let id = id.unwrap_or_else(|| match draft.kind {
            QuestionKind::Exec => self.parts.ids.uuid(),
            QuestionKind::Plugin => format!("plugin:{}", self.parts.ids.uuid()),
        });
        let question = self.pending.ask(id, draft, self.parts.clock.now_ms())?;
        let kind = question.kind.requested();
        self.parts.bus.publish(kind, &Audience::Everyone, &question.to_wire());
        Ok(question)
    }

    /// Whether somebody but this connection may decide.
    pub fn has_other_deciders(&self, kind: QuestionKind, conn_id: &Arc<str>) -> bool {
        self.parts.bus.wants(kind.requested(), &Audience::Others(Arc::clone(conn_id)))
    }

    /// The questions that wait.
    pub fn list(&self, kind: QuestionKind) -> Vec<Arc<Question>> {
        self.pending.open(kind)
    }

    /// The calls of tools in a session that wait for a decision.
    pub fn waiting_calls(&self, session: &SessionKey) -> Vec<String> {
        let kinds = [QuestionKind::Exec, QuestionKind::Plugin];
        let open = kinds.into_iter().flat_map(|kind| self.list(kind));
        let here = open.filter(|question| question.request["sessionKey"] == session.as_str());
        here.filter_map(|question| question.call_id.clone()).collect()
    }

    /// The question with this id, or the open one whose id begins so.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn find(&self, kind: QuestionKind, id: &str) -> Result<Arc<Question>, DecideError> {
        self.pending.find(kind, id).map_err(|error| match error {
            FindError::Unknown => DecideError::Unknown,
            FindError::Ambiguous => DecideError::Ambiguous,
        })
    }

    /// Answers a question with the rights of `principal`; `name` is shown to
    /// the others. The same answer again is fine.
    ///
    /// # Errors
    /// When it may not or cannot be answered so.
    pub fn decide(
        &self,
        principal: &Principal,
        kind: QuestionKind,
        id: &str,
        decision: Decision,
        name: &str,
    ) -> Result<(), DecideError> {
        if !principal.allows(Scope::Approvals) {
            return Err(DecideError::NotAllowed);
        }
        let question = self.find(kind, id)?;
        if question.is_open() && !question.allowed.contains(&decision) {
            return Err(match decision {
                Decision::AllowAlways => DecideError::NotAlways,
                _ => DecideError::NotOffered,
            });
        }
        // Told before those who wait for it go on.
        if question.decide_then(decision, || self.tell_resolved(&question, decision, name)) {
            return Ok(());
        }
        match question.decided() {
            Some(known) if known == decision => Ok(()),
            _ => Err(DecideError::Resolved),
        }
    }

    pub(super) fn tell_resolved(&self, question: &Question, decision: Decision, name: &str) {
        let payload = json!({"id": question.id, "decision": decision.as_str(), "resolvedBy": name,
            "ts": self.parts.clock.now_ms(), "request": question.request});
        self.parts.bus.publish(question.kind.resolved(), &Audience::Everyone, &payload);
    }

    /// The approvals file, made if there was none.
    ///
    /// # Errors
    /// When it cannot be read, made or understood.
    pub async fn file(&self) -> Result<ApprovalsSnapshot, ApprovalsFileError> {
        self.file.read_or_make().await
    }

    /// Whether what the file says can be followed, if there is one.
    ///
    /// # Errors
    /// Why not.
    pub async fn check_file(&self) -> Result<(), ApprovalsFileError> {
        self.file.read().await.map(drop)
    }

    /// Puts another in its place, which was made from the one with hash `base`.
    ///
    /// # Errors
    /// When that is not the newest, or it cannot be written.
    pub async fn replace_file(
        &self,
        file: Value,
        base: Option<&str>,
    ) -> Result<ApprovalsSnapshot, ApprovalsFileError> {
        self.file.replace(file, base).await
    }

    /// Takes out of the file what it says for an agent that was removed: a later one of its
    /// name is allowed nothing by it.
    ///
    /// # Errors
    /// When it cannot be read, understood or written.
    pub async fn forget(&self, agent: &AgentId) -> Result<(), ApprovalsFileError> {
        self.file.forget(agent.as_str()).await
    }
}

/// Whether what the file says can be followed, where no gateway runs. Blocks.
///
/// # Errors
/// As of [`Approvals::check_file`].
pub fn check_file(paths: &Paths) -> Result<(), ApprovalsFileError> {
    file::read(&paths.exec_approvals()).map(drop)
}

/// [`Approvals::forget`] where no gateway runs.
///
/// # Errors
/// As of that.
pub async fn forget_agent(paths: &Paths, agent: &AgentId) -> Result<(), ApprovalsFileError> {
    let file = ApprovalsFile::new(paths.exec_approvals(), Arc::new(RandomIds));
    file.forget(agent.as_str()).await
}
