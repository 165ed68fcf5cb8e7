//! The run of a hook's request, and its session.
//!
//! Promises: no request gets into the run of another; what one says does not count as the
//! owner's own words.

use std::sync::Arc;
use std::time::Duration;

use super::HookAsk;
use crate::agent::web::wrap;
use crate::agent::{Family, Hold, RunEnd, RunTerms, Runs, SendRequest};
use crate::auth::Owner;
use crate::cron::ask::USUAL_LIMIT;
use crate::cron::job::Job;
use crate::cron::outcome::Outcome;
use crate::cron::room::Room;
use crate::cron::scheduler::Worker;
use crate::cron::service::{Cron, Ticket};
use crate::cron::target::Wanted;
use crate::cron::texts;
use crate::protocol::message::UserMessage;
use crate::protocol::methods::cron::{Delivery, DeliveryMode};
use crate::providers::ThinkingLevel;
use crate::sessions::{JOB_KIND, SessionError, SessionKey};
use crate::support::json;

impl Worker {
    /// Runs what it asks for, in the session that it names.
    pub(super) async fn run_hook(&self, id: &str, ask: &HookAsk, lane: Option<Hold>) -> Outcome {
        let now = self.cron.now_ms();
        let ticket = ticket(id, ask, now);
        let (key, _taken) = self.cron.take_room(id, ask, &self.runs);
        match self.hook_room(id, ask, &key).await {
            Ok(()) => {
                let room = Room { key: key.clone(), lane, row: None };
                let request = self.hook_request(id, ask, &key);
                let delivery = ticket.job.delivery.clone().unwrap_or_default();
                let wanted = Wanted::of(&delivery).at_home();
                self.ask(&ticket, room, request, &wanted).await
            }
            Err(error) => {
                let error = error.to_string();
                if let Some(lane) = lane {
                    lane.end(RunEnd::Failed(error.clone())).await;
                }
                Outcome::failed(&error, "cron-setup", now)
            }
        }
    }

    /// Begins the session of a run. One of hooks begins anew with each run, as a
    /// job's does; any other goes on.
    async fn hook_room(
        &self,
        id: &str,
        ask: &HookAsk,
        key: &SessionKey,
    ) -> Result<(), SessionError> {
        let parts = self.runs.parts();
        let workspace = parts.agent_of(key).workspace;
        let is_there = parts.sessions.entry(key).await?.is_some();
        if is_there && !key.is_hook() {
            return Ok(());
        }
        if is_there {
            parts.sessions.reset(key, &workspace).await?;
        }
        let name = format!("Hook: {}", ask.name);
        let begun = parts.sessions.begin_as(key, id, &workspace, move |entry| {
            entry.display_name = Some(name);
        });
        let begun = begun.await?;
        parts.events.reason(key, Some(&begun), "create", true);
        Ok(())
    }

    fn hook_request(&self, id: &str, ask: &HookAsk, key: &SessionKey) -> SendRequest {
        let (now, zone) = (self.cron.now_ms(), self.cron.zone());
        let mark = self.cron.parts.ids.uuid();
        let wrapped =
            ask.source.as_deref().map(|source| wrap(&ask.message, source, &mark, usize::MAX).text);
        let text = texts::hook(ask, wrapped.as_deref(), &zone, now);
        let mut message = UserMessage::text(text, now);
        message.extra.insert("provenance".into(), json!({"kind": JOB_KIND, "hookId": id}));
        SendRequest {
            family: Family::Agent,
            key: key.clone(),
            written_key: key.to_string(),
            idempotency_key: id.to_owned(),
            message,
            media: None,
            thinking: ask.thinking.as_deref().and_then(ThinkingLevel::meant_by),
            owner: Owner::gateway(),
            dedupe_text: None,
            limit: Some(ask.timeout_seconds.map_or(USUAL_LIMIT, Duration::from_secs)),
            // What is said comes from outside, whoever has set the hook up.
            terms: RunTerms { is_owner: false, model: ask.model.clone(), ..RunTerms::default() },
        }
    }
}

impl Cron {
    /// The session of a run: another one below it while it is taken, so that no
    /// request gets into the run of another. Free again when the second is dropped.
    fn take_room(
        self: &Arc<Self>,
        id: &str,
        ask: &HookAsk,
        runs: &Runs,
    ) -> (SessionKey, Option<Taken>) {
        let key = SessionKey::from_canonical(&ask.session_key);
        if !key.is_hook() {
            return (key, None);
        }
        let is_free = !runs.is_in_use(&key) && self.state.lock().hook_rooms.insert(key.to_string());
        if is_free {
            let taken = Taken { cron: Arc::clone(self), key: key.to_string() };
            return (key, Some(taken));
        }
        (SessionKey::from_canonical(format!("{key}:{id}")), None)
    }
}

/// A session that a run of a hook has to itself.
struct Taken {
    cron: Arc<Cron>,
    key: String,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.cron.state.lock().hook_rooms.remove(&self.key);
    }
}

/// The job that a request would be: what runs it knows only those.
fn ticket(id: &str, ask: &HookAsk, now: u64) -> Ticket {
    let mode = if ask.deliver { DeliveryMode::Announce } else { DeliveryMode::None };
    let delivery = Delivery {
        mode: Some(mode),
        channel: Some(ask.channel.clone()),
        to: ask.to.clone(),
        // Where nobody can be told, the main session is.
        best_effort: Some(true),
        ..Delivery::default()
    };
    let job = Job {
        agent_id: Some(ask.agent_id.clone()),
        name: ask.name.clone(),
        delivery: Some(delivery),
        ..Job::nameless(id)
    };
    let row_id = id.to_owned();
    Ticket { job, origin: None, row_id, run_id: None, instant: now, started_at: now }
}
