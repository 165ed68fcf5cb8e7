//! What a job asks an agent, from the question to the answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::agent::{AbortReason, Family, Hold, RunEnd, RunTerms, SendRequest};
use crate::auth::Owner;
use crate::protocol::message::UserMessage;
use crate::protocol::methods::cron::{AgentTurn, DeliveryMode};
use crate::providers::ThinkingLevel;
use crate::sessions::JOB_KIND;
use crate::support::json;

use super::outcome::Outcome;
use super::room::Room;
use super::scheduler::Worker;
use super::service::Ticket;
use super::target::Wanted;
use super::texts;

/// A run that says nothing else is stopped after so long: one that hangs must
/// not keep its job from running for days.
pub(super) const USUAL_LIMIT: Duration = Duration::from_hours(1);
/// Longest time that a job may ask for.
const LIMIT_MAX_SECONDS: f64 = 7.0 * 86_400.0;

impl Worker {
    /// Asks an agent, and delivers its answer. `hold` is what the run has waited for.
    pub(super) async fn ask_agent(
        self: &Arc<Self>,
        ticket: &Ticket,
        turn: &AgentTurn,
        hold: Option<Hold>,
    ) -> Outcome {
        let now = self.cron.now_ms();
        // Who waited for its session may know it already.
        let known = hold.as_ref().and_then(Hold::stands_for).map(str::to_owned);
        let run_id = known.unwrap_or_else(|| self.cron.parts.ids.uuid());
        let terms = terms(ticket, turn);
        let room = match self.room(ticket, &run_id, &terms, hold).await {
            Ok(room) => room,
            Err(error) => return Outcome::failed(&error.to_string(), "cron-setup", now),
        };
        let request = self.request(ticket, turn, &room, &run_id, terms);
        let wanted = Wanted::of(&ticket.job.delivery.clone().unwrap_or_default());
        self.ask(ticket, room, request, &wanted).await
    }

    /// Runs what is asked in a session, to its end, and delivers the answer.
    pub(super) async fn ask(
        &self,
        ticket: &Ticket,
        mut room: Room,
        mut request: SendRequest,
        wanted: &Wanted,
    ) -> Outcome {
        let run_id = request.idempotency_key.clone();
        let delivery = ticket.job.delivery.as_ref();
        if delivery.is_some_and(|delivery| delivery.mode() == DeliveryMode::Announce) {
            request.terms.hearer = wanted.hearer();
        }
        let lane = room.lane.take();
        if let Some(reason) = lane.as_ref().and_then(Hold::stop_reason) {
            return self.not_asked(room, lane, reason).await;
        }
        let sent = self.runs.send(request).await;
        self.runs.begin_in(&run_id, &self.cron.permits);
        if let Some(lane) = lane {
            lane.hand_over().await;
        }
        let report = match sent {
            // The run begins as its start goes.
            Ok((_, start)) => {
                drop(start);
                let ended = self.runs.ends_below(room.row.as_ref(), &room.key, &run_id).await;
                ended.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let now = self.cron.now_ms();
        let mut outcome = match &report {
            Ok(report) => Outcome::of_report(report, now),
            Err(error) => Outcome::failed(error, "agent-run", now),
        };
        outcome.session_key = Some(room.key.to_string());
        let end = match &report {
            Ok(report) => report.end.clone(),
            Err(error) => RunEnd::Failed(error.clone()),
        };
        outcome.session_id = self.close(room, end).await;
        if outcome.status == "ok" {
            let said = report.map(|report| report.progress.clone()).unwrap_or_default();
            let text = said.paragraphs();
            self.deliver(ticket, wanted, &mut outcome, &text, &said.files).await;
        }
        outcome
    }

    /// The end of a run that somebody has stopped before its agent was asked.
    async fn not_asked(&self, room: Room, lane: Option<Hold>, reason: AbortReason) -> Outcome {
        let mut outcome = Outcome::stopped(reason, self.cron.now_ms());
        outcome.session_key = Some(room.key.to_string());
        outcome.session_id = self.close(room, RunEnd::Aborted(reason)).await;
        if let Some(lane) = lane {
            lane.stop(reason).await;
        }
        outcome
    }

    fn request(
        &self,
        ticket: &Ticket,
        turn: &AgentTurn,
        room: &Room,
        run_id: &str,
        terms: RunTerms,
    ) -> SendRequest {
        let now = self.cron.now_ms();
        let zone = self.cron.zone();
        let text = texts::turn(&ticket.job, turn, &zone, now);
        let mut message = UserMessage::text(text, now);
        let provenance = json!({"kind": JOB_KIND, "jobId": ticket.job.id});
        message.extra.insert("provenance".into(), provenance);
        SendRequest {
            family: Family::Agent,
            key: room.key.clone(),
            written_key: room.key.to_string(),
            idempotency_key: run_id.to_owned(),
            message,
            media: None,
            thinking: turn.thinking.as_deref().and_then(ThinkingLevel::meant_by),
            owner: Owner::gateway(),
            dedupe_text: None,
            limit: limit(turn),
            terms,
        }
    }
}

/// What a run may do: the job's tools of those that whoever made it had.
fn terms(ticket: &Ticket, turn: &AgentTurn) -> RunTerms {
    let own = turn.tools_allow.iter().cloned();
    let origin = ticket.origin.iter().filter_map(|origin| origin.tools.clone());
    RunTerms {
        is_owner: true,
        is_heartbeat: false,
        model: turn.model.clone().filter(|model| !model.trim().is_empty()),
        fallbacks: turn.fallbacks.clone(),
        is_light: turn.light_context == Some(true),
        tools: own.chain(origin).collect(),
        ..RunTerms::default()
    }
}

/// How long a run may take; `None` when that is left to the agents.
pub(super) fn limit(turn: &AgentTurn) -> Option<Duration> {
    let Some(seconds) = turn.timeout_seconds.as_ref().and_then(Value::as_f64) else {
        return Some(USUAL_LIMIT);
    };
    let time = Duration::try_from_secs_f64(seconds.min(LIMIT_MAX_SECONDS)).unwrap_or_default();
    (time > Duration::ZERO).then_some(time)
}
