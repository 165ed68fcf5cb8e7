//! From a request to a permit.
//!
//! Owns: the order of the steps. Promises: a permit is only issued when the
//! policy lets the command through or a person said yes to it, and says of what
//! the world was like when that was decided; whoever gives up waiting takes the
//! question back. Must not: read or write files itself.

use std::sync::Arc;
use std::time::Duration;

use super::asking::{ApprovalNews, Asked};
use super::assess::Assessment;
use super::denial::Denial;
use super::lineage::Lineage;
use super::listed::workspaces;
use super::pending::{Decision, Draft, Question, QuestionKind};
use super::permit::{Binding, Permit, Program};
use super::policy::Policy;
use super::request::ExecRequest;
use super::service::Approvals;
use crate::bus::Audience;
use crate::config::{ExecAsk, ExecSecurity, GUARDRAIL_ASK_LIMIT};
use crate::sessions::SessionEntry;
use crate::support::{blocking, json};

/// What a person can read and a client shows whole, in bytes. A longer command
/// is not shown in part: it is refused.
pub const SHOWN_MAX: usize = 16 * 1024;

impl Approvals {
    /// Decides on a command, asking a person if need be; that takes as long as
    /// it takes. Dropping the future takes the question back.
    ///
    /// # Errors
    /// With the text for the model when it may not run.
    pub async fn authorize(
        &self,
        request: &ExecRequest,
        news: &dyn ApprovalNews,
    ) -> Result<Permit, Denial> {
        let lineage = self.lineage(request).await?;
        let policy = self.policy(request, &lineage).await?;
        let host = request.host.as_str();
        if policy.security == ExecSecurity::Deny {
            let text = format!("exec denied: host={host} security=deny");
            return Err(Denial::by_policy(request, "security=deny", text));
        }
        if policy.lets_all() {
            let binding = self.bind(request, None).await?;
            return Ok(Permit::issue(request, binding, None, None));
        }
        let seen = self.assess(request, &policy).await?;
        let is_covered = seen.covered.is_some();
        let asks = policy.asks(is_covered);
        if !asks && policy.security == ExecSecurity::Allowlist && !is_covered {
            let text = "exec denied: allowlist miss".into();
            return Err(Denial::by_policy(request, "allowlist-miss", text));
        }
        if asks && !self.has_deciders() {
            return self.unanswerable(request, &policy, &seen).await;
        }
        // Only the allowlist chooses how a command is started.
        let direct = match policy.security {
            ExecSecurity::Full => None,
            _ => seen.covered.as_ref().map(|(_, program)| program.clone()),
        };
        let binding = self.bind(request, direct.as_ref()).await?;
        if !asks {
            self.note_use(request, &seen, direct.as_ref()).await;
            return Ok(Permit::issue(request, binding, direct, None));
        }
        let question = self.ask(request, lineage.own(), &policy, &seen, &binding)?;
        let answer = self.wait_for(request, &question, news).await;
        match answer {
            None => Err(Denial::by_question(request, "approval-timeout", &question.id)),
            Some(Decision::Deny) => Err(Denial::by_question(request, "user-denied", &question.id)),
            Some(decision) => {
                // Much can have been said against it in the meantime.
                let lineage = self.lineage(request).await?;
                if self.policy(request, &lineage).await?.security == ExecSecurity::Deny {
                    return Err(Denial::by_question(request, "security=deny", &question.id));
                }
                if decision == Decision::AllowAlways {
                    self.always_allow(request, &seen).await;
                }
                let id = question.id.clone();
                Ok(Permit::issue(request, binding, direct, Some(id)))
            }
        }
    }

    pub(super) async fn lineage(&self, request: &ExecRequest) -> Result<Lineage, Denial> {
        let lineage = Lineage::of(&self.parts.sessions, &request.session).await;
        lineage.map_err(|error| {
            let text = format!("Exec denied: {error}");
            Denial::by_policy(request, "session-unavailable", text)
        })
    }

    pub(super) async fn policy(
        &self,
        request: &ExecRequest,
        lineage: &Lineage,
    ) -> Result<Policy, Denial> {
        let file = self.file.read().await.map_err(|error| {
            let text = format!("Exec denied: {error}");
            Denial::by_policy(request, "approvals-file-unavailable", text)
        })?;
        let settings = self.parts.settings.now();
        let bounds = lineage.bounds(&request.agent, &settings);
        Ok(Policy::of(request, &bounds, &file.file))
    }

    async fn assess(&self, request: &ExecRequest, policy: &Policy) -> Result<Assessment, Denial> {
        let (of, entries) = (request.clone(), policy.entries.clone());
        let settings = self.parts.settings.now();
        let home = settings.paths.home().map(ToOwned::to_owned);
        let workspaces = [workspaces(&settings), vec![request.workspace.clone()]].concat();
        let looked = blocking(move || Assessment::of(&of, &entries, home.as_deref(), &workspaces));
        looked.await.map_err(|error| {
            let text = format!("Exec denied: the command cannot be analysed: {error}");
            Denial::by_policy(request, "analysis-failed", text)
        })
    }

    async fn bind(
        &self,
        request: &ExecRequest,
        direct: Option<&Program>,
    ) -> Result<Binding, Denial> {
        let path = match direct {
            Some(Program::Direct { path, .. }) => Some(path.clone()),
            _ => None,
        };
        let binding = Binding::take(request, path).await;
        binding.map_err(|error| Denial::unreadable(request, &error))
    }

    /// Nobody can be asked: without a yes it is a no, unless the allowlist is
    /// said to be enough then, and no guardrail may want a person's. It chooses how
    /// the command is started, also where others may run.
    async fn unanswerable(
        &self,
        request: &ExecRequest,
        policy: &Policy,
        seen: &Assessment,
    ) -> Result<Permit, Denial> {
        let is_enough = policy.fallback == ExecSecurity::Allowlist && !self.is_guarded(request);
        let program = seen.covered.as_ref().map(|(_, program)| program.clone());
        let Some(program) = program.filter(|_| is_enough) else {
            let id = self.parts.ids.uuid();
            return Err(Denial::by_question(request, "no-approval-route", &id));
        };
        let direct = Some(program);
        let binding = self.bind(request, direct.as_ref()).await?;
        self.note_use(request, seen, direct.as_ref()).await;
        Ok(Permit::issue(request, binding, direct, None))
    }

    /// Whether a guardrail may be what has a person asked, which it does by the call's own
    /// word.
    fn is_guarded(&self, request: &ExecRequest) -> bool {
        let settings = self.parts.settings.now();
        request.ask == Some(ExecAsk::Always) && settings.tools.guardrails.enabled
    }

    /// How long a question about a command waits.
    pub(super) fn patience(&self, request: &ExecRequest) -> Duration {
        let limit = self.parts.settings.now().exec_policy.approval_timeout;
        if self.is_guarded(request) { limit.min(GUARDRAIL_ASK_LIMIT) } else { limit }
    }

    fn ask(
        &self,
        request: &ExecRequest,
        session: &SessionEntry,
        policy: &Policy,
        seen: &Assessment,
        binding: &Binding,
    ) -> Result<Arc<Question>, Denial> {
        let warned = seen.warning.as_ref().map_or(0, String::len);
        if request.command.len() + warned > SHOWN_MAX {
            let text = format!(
                "Exec denied: the command with its variables is longer than {SHOWN_MAX} bytes, \
                 too long to be shown whole to whoever decides. Write it to a file and run that."
            );
            return Err(Denial::by_policy(request, "command-too-long", text));
        }
        let is_always = policy.ask == ExecAsk::Always;
        let allowed = Decision::ALL.into_iter().filter(|decision| {
            *decision != Decision::AllowAlways || (!is_always && seen.can_be_listed)
        });
        let allowed: Vec<_> = allowed.collect();
        let mut shown = json!({
            "command": request.command,
            "systemRunBinding": null,
            "systemRunPlan": null,
            "cwd": binding.cwd(),
            "nodeId": null,
            "host": request.host.as_str(),
            "security": policy.security.as_str(),
            "ask": policy.ask.as_str(),
            "warningText": seen.warning,
            "commandAnalysis": seen.analysis,
            "allowedDecisions": words(&allowed),
            "agentId": request.agent,
            "resolvedPath": seen.first.as_ref().map(|found| &found.path),
            "sessionKey": request.session.as_str(),
            "turnSourceChannel": session.last_channel,
            "turnSourceTo": null,
            "turnSourceAccountId": null,
            "turnSourceThreadId": null,
        });
        if !request.env_asked.is_empty() {
            shown["envKeys"] = json!(request.env_asked);
        }
        let (limit, call_id) = (self.patience(request), Some(request.call_id.clone()));
        let draft = Draft { kind: QuestionKind::Exec, request: shown, allowed, limit, call_id };
        self.open(None, draft).map_err(|error| {
            Denial::by_policy(request, "approval-unavailable", format!("Exec denied: {error}"))
        })
    }

    /// Waits for the answer about a command.
    pub(super) async fn wait_for(
        &self,
        request: &ExecRequest,
        question: &Arc<Question>,
        news: &dyn ApprovalNews,
    ) -> Option<Decision> {
        let about = Asked {
            kind: "exec",
            noun: "Command",
            item: "command",
            call_id: &request.call_id,
            rest: &[("command", &request.command), ("host", request.host.as_str())],
        };
        self.wait(question, about, news).await
    }

    async fn always_allow(&self, request: &ExecRequest, seen: &Assessment) {
        let Some(path) = seen.first.as_ref().and_then(|found| found.path.to_str()) else { return };
        let now = self.parts.clock.now_ms();
        // The yes to this command holds all the same.
        if let Err(error) = self.file.always_allow(&request.agent, path, now).await {
            tracing::warn!(%error, "allow-always not written; the command will be asked about again");
        }
    }

    async fn note_use(&self, request: &ExecRequest, seen: &Assessment, direct: Option<&Program>) {
        let (Some((entry, _)), Some(Program::Direct { path, .. })) = (&seen.covered, direct) else {
            return;
        };
        let now = self.parts.clock.now_ms();
        let resolved = path.to_string_lossy();
        if let Err(error) = self.file.note_use(entry, &request.command, &resolved, now).await {
            tracing::warn!(%error, "use of the allowlist not noted");
        }
    }

    /// Whether anybody is connected who may decide.
    pub(super) fn has_deciders(&self) -> bool {
        self.parts.bus.wants(QuestionKind::Exec.requested(), &Audience::Everyone)
    }
}

/// The words on the wire.
pub(super) fn words(decisions: &[Decision]) -> Vec<&'static str> {
    decisions.iter().map(|decision| decision.as_str()).collect()
}
