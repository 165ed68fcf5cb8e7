//! What somebody changes of a job.

use crate::protocol::decode::Setting;
use crate::protocol::methods::cron::{
    AgentTurn, DeliveryMode, JobPatch, Payload, PayloadPatch, Schedule, StatePatch, TurnPatch,
};

use super::{AgentId, CronError, Job, JobState, Timing, settle};

impl Job {
    /// Changes what a patch says, and when it is due next with its times.
    ///
    /// # Errors
    /// When it asks for what there is not.
    pub fn patch(&mut self, patch: JobPatch, now: u64) -> Result<(), CronError> {
        let before = (self.schedule.clone(), self.enabled);
        if let Some(schedule) = patch.schedule {
            let schedule = as_before(schedule, &self.schedule);
            self.schedule = settle("cron.update", schedule, &self.id, now)?;
        }
        self.name = patch.name.map_or_else(|| self.name.clone(), |name| name.trim().to_owned());
        change(&mut self.agent_id, patch.agent_id);
        self.agent_id = self.agent_id.take().map(|agent| AgentId::normalize(&agent).to_string());
        change(&mut self.session_key, patch.session_key);
        change(&mut self.missed, patch.missed);
        self.description = patch.description.or_else(|| self.description.take());
        self.enabled = patch.enabled.unwrap_or(self.enabled);
        self.delete_after_run = patch.delete_after_run.or(self.delete_after_run);
        self.session_target = patch.session_target.unwrap_or_else(|| self.session_target.clone());
        if self.session_target == "current" {
            let key = self.session_key.as_ref();
            self.session_target =
                key.map_or_else(|| "isolated".to_owned(), |key| format!("session:{key}"));
        }
        self.wake_mode = patch.wake_mode.unwrap_or(self.wake_mode);
        if let Some(payload) = patch.payload {
            self.patch_payload(payload)?;
        }
        let mode = patch.delivery.as_ref().and_then(|delivery| delivery.said.mode);
        if let Some(delivery) = patch.delivery {
            self.delivery.get_or_insert_default().patch(delivery);
        }
        // The main session answers in its chat: what another target had by default is over.
        if self.session_target == "main" && mode != Some(DeliveryMode::Announce) {
            self.delivery = self.delivery.take().filter(|delivery| !delivery.is_for_answers());
        }
        if let Some(alert) = patch.failure_alert {
            self.failure_alert = Some(alert.over(self.failure_alert.take()));
        }
        self.check("cron.update")?;
        if self.enabled && !before.1 && self.schedule == before.0 && self.is_over(now) {
            let text = "invalid cron.update params: at /enabled: it has run, or was missed; give \
                it another schedule.at as well";
            return Err(CronError::Invalid(text.into()));
        }
        // Not before: the target and the payload may be others now, and what is wrong is told
        // of what somebody has said.
        self.announce_by_default();
        self.updated_at_ms = now;
        if before != (self.schedule.clone(), self.enabled) {
            self.state.next_run_at_ms = self.due_after(now);
            // Both are counted for an instant, and this is another one.
            if matches!(self.schedule, Schedule::At { .. }) {
                (self.state.consecutive_errors, self.state.consecutive_skipped) = (None, None);
            }
        }
        patch_state(&mut self.state, patch.state.unwrap_or_default());
        Ok(())
    }

    fn patch_payload(&mut self, patch: PayloadPatch) -> Result<(), CronError> {
        match (patch, &mut self.payload) {
            (PayloadPatch::SystemEvent(text), Payload::SystemEvent { text: own }) => {
                *own = text.unwrap_or_else(|| own.clone());
            }
            (PayloadPatch::SystemEvent(Some(text)), payload) => {
                *payload = Payload::SystemEvent { text };
            }
            (PayloadPatch::AgentTurn(patch), Payload::AgentTurn(own)) => patch_turn(own, *patch),
            (PayloadPatch::AgentTurn(patch), payload) if !patch.turn.message.is_empty() => {
                let mut own = AgentTurn::default();
                patch_turn(&mut own, *patch);
                *payload = Payload::AgentTurn(own);
            }
            (PayloadPatch::SystemEvent(None), _) => {
                let text = "cron.update payload.kind=\"systemEvent\" requires text";
                return Err(CronError::Refused(text.into()));
            }
            (PayloadPatch::AgentTurn(..), _) => {
                let text = "cron.update payload.kind=\"agentTurn\" requires message";
                return Err(CronError::Refused(text.into()));
            }
        }
        Ok(())
    }

    /// Whether it has a single instant that does not come again: it has run since that came,
    /// or nobody could run it then.
    fn is_over(&self, now: u64) -> bool {
        let Ok(Timing::At(at)) = self.timing() else { return false };
        let was_skipped = self.state.consecutive_skipped.is_some_and(|count| count > 0);
        self.state.last_run_at_ms.is_some_and(|ran| ran >= at) || at <= now && was_skipped
    }
}

/// The new schedule of a job: a calendar that does not say how it is spread is as before, and
/// so is the anchor of an interval that stays as long. Forms send the schedule with whatever
/// changes.
fn as_before(mut schedule: Schedule, before: &Schedule) -> Schedule {
    match (&mut schedule, before) {
        (Schedule::Cron { stagger_ms, .. }, Schedule::Cron { stagger_ms: own, .. }) => {
            *stagger_ms = stagger_ms.or(*own);
        }
        (
            Schedule::Every { every_ms, anchor_ms },
            Schedule::Every { every_ms: known, anchor_ms: own },
        ) if *every_ms == *known => *anchor_ms = anchor_ms.or(*own),
        _ => {}
    }
    schedule
}

fn change<T>(member: &mut Option<T>, setting: Setting<T>) {
    match setting {
        Setting::Keep => {}
        Setting::Clear => *member = None,
        Setting::Set(value) => *member = Some(value),
    }
}

/// Takes what is said, and leaves what is not.
fn say<T>(member: &mut Option<T>, said: Option<T>) {
    if said.is_some() {
        *member = said;
    }
}

fn patch_state(own: &mut JobState, said: StatePatch) {
    say(&mut own.last_run_status, said.last_run_status);
    say(&mut own.last_status, said.last_status);
    say(&mut own.last_error, said.last_error);
    say(&mut own.last_duration_ms, said.last_duration_ms);
    say(&mut own.consecutive_errors, said.consecutive_errors);
    say(&mut own.last_delivered, said.last_delivered);
    say(&mut own.last_delivery_status, said.last_delivery_status);
    say(&mut own.last_delivery_error, said.last_delivery_error);
    say(&mut own.last_failure_alert_at_ms, said.last_failure_alert_at_ms);
}

fn patch_turn(own: &mut AgentTurn, patch: TurnPatch) {
    let TurnPatch { turn, tools_allow, cleared } = patch;
    if !turn.message.is_empty() {
        own.message = turn.message;
    }
    own.model = turn.model.or_else(|| own.model.take());
    own.fallbacks = turn.fallbacks.or_else(|| own.fallbacks.take());
    own.thinking = turn.thinking.or_else(|| own.thinking.take());
    own.timeout_seconds = turn.timeout_seconds.or_else(|| own.timeout_seconds.take());
    own.light_context = turn.light_context.or(own.light_context);
    own.allow_unsafe_external_content =
        turn.allow_unsafe_external_content.or(own.allow_unsafe_external_content);
    change(&mut own.tools_allow, tools_allow);
    for name in cleared {
        match name {
            "model" => own.model = None,
            "fallbacks" => own.fallbacks = None,
            _ => own.thinking = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::protocol::methods::cron::{Delivery, Destination};

    use super::*;

    #[test]
    fn what_holds_by_default_is_by_what_a_patch_makes_of_a_job() {
        let patched = |job: &Job, target: &str, payload: PayloadPatch| {
            let mut job = Job::as_written(&job.to_row(None, None)).unwrap();
            let (session_target, payload) = (Some(target.to_owned()), Some(payload));
            job.patch(JobPatch { session_target, payload, ..JobPatch::default() }, 5).unwrap();
            job
        };
        let turn = AgentTurn { message: "m".into(), ..AgentTurn::default() };
        // As an earlier release has taken it over.
        let delivery =
            Delivery { failure_destination: Some(Destination::default()), ..Delivery::default() };
        let isolated = Job {
            name: "job".into(),
            payload: Payload::AgentTurn(turn.clone()),
            delivery: Some(delivery.clone()),
            ..Job::nameless("job")
        };
        let main = patched(&isolated, "main", PayloadPatch::SystemEvent(Some("x".into())));
        assert_eq!(main.delivery, Some(delivery), "it has never said that it announces");
        let asks = PayloadPatch::AgentTurn(Box::new(TurnPatch { turn, ..TurnPatch::default() }));
        let again = patched(&main, "isolated", asks);
        assert_eq!(again.delivery.unwrap().mode, Some(DeliveryMode::Announce));
    }
}
