//! Answers on their way to those who are to hear them.

use serde_json::Value;

use crate::agent::RunsParts;
use crate::protocol::message::AssistantMessage;
use crate::protocol::methods::cron::DeliveryMode;
use crate::sessions::{SessionKey, directives};
use crate::support::json;

use super::job::Job;
use super::outcome::Outcome;
use super::outlet::{Announcement, Bounds, Told};
use super::run_log::NOT_REQUESTED;
use super::scheduler::Worker;
use super::service::Ticket;
use super::target::{Place, Wanted};

/// What the original says of a web server where it looks for a chat.
const NO_CHAT: &str = "webhook delivery has no chat target";

/// What is said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saying<'a> {
    /// In words.
    pub text: &'a str,
    /// Files that were named with it.
    pub files: &'a [String],
    /// By what it is bound; see [`Announcement::bound_to`].
    pub bound_to: Option<&'a Bounds>,
}

impl Worker {
    /// Delivers what a run said as its job wants it; what becomes of that is part of the
    /// outcome. `said` is all of it.
    pub(super) async fn deliver(
        &self,
        ticket: &Ticket,
        wanted: &Wanted,
        outcome: &mut Outcome,
        said: &str,
        files: &[String],
    ) {
        let delivery = ticket.job.delivery.clone().unwrap_or_default();
        let report = |resolved: Option<Value>, delivered: bool| {
            let mut report = json!({"intended": wanted.intended()});
            if let Some(resolved) = resolved {
                report["resolved"] = resolved;
            }
            report["fallbackUsed"] = false.into();
            report["delivered"] = delivered.into();
            Some(report)
        };
        match delivery.mode() {
            DeliveryMode::None => outcome.delivery = report(None, false),
            DeliveryMode::Webhook => {
                let resolved = wanted.resolved(Err(NO_CHAT));
                outcome.delivery = report(Some(resolved.clone()), false);
                let now = self.cron.now_ms();
                let entry = outcome.entry(ticket, now, ticket.job.state.next_run_at_ms);
                let url = delivery.to.as_deref().unwrap_or_default();
                let posted = self.cron.post(url, &entry).await;
                if let Err(error) = &posted {
                    let job = &ticket.job.id;
                    tracing::warn!(%job, %error, "a web server has not got the end of a job");
                }
                outcome.delivery = report(Some(resolved), posted.is_ok());
                outcome.delivery_status =
                    if posted.is_ok() { "delivered" } else { "not-delivered" };
                outcome.delivery_error = posted.err();
            }
            DeliveryMode::Announce => {
                let (job, now) = (&ticket.job, self.cron.now_ms());
                let (agent, home) = (self.cron.agent_of(job), self.cron.home_of(job));
                let place = match self.cron.place(wanted, &agent, &home).await {
                    Ok(place) => place,
                    Err(error) => {
                        outcome.delivery = report(Some(wanted.resolved(Err(&error))), false);
                        outcome.delivery_status = "unknown";
                        give_up(outcome, job, &error, now);
                        return;
                    }
                };
                let resolved = wanted.resolved(Ok(&place));
                let text = news(said, self.cron.ack_max_chars(&agent));
                if text.is_empty() && files.is_empty() {
                    outcome.delivery = report(Some(resolved), false);
                    outcome.delivery_status = NOT_REQUESTED;
                    return;
                }
                let bounds = self.cron.bounds_of(job, ticket.origin.as_ref());
                let what = Saying { text: &text, files, bound_to: bounds.as_ref() };
                let told = self.say(&place, agent.as_str(), what, &ticket.row_id).await;
                outcome.delivery = report(Some(resolved), told == Ok(Told::Said));
                match told {
                    Ok(Told::Said) => outcome.delivery_status = "delivered",
                    // Whether it arrives is seen in the outbox.
                    Ok(Told::Waits) => outcome.delivery_status = "unknown",
                    Err(error) => {
                        outcome.delivery_status = "not-delivered";
                        outcome.delivery_error = Some(error.clone());
                        give_up(outcome, job, &error, now);
                    }
                }
            }
        }
    }

    /// Says something in a session or in a chat of a channel. `id` is the same
    /// for the same thing.
    ///
    /// # Errors
    /// Why it is not said.
    pub(super) async fn say(
        &self,
        place: &Place,
        agent_id: &str,
        what: Saying<'_>,
        id: &str,
    ) -> Result<Told, String> {
        match place {
            Place::Session(key) => {
                if what.bound_to.is_some_and(|bounds| !self.cron.may_say_in(key, bounds)) {
                    return Err(format!(
                        "the agent that made the job may say nothing in session \"{key}\" of \
                         another one: it is not among its subagents.allowAgents"
                    ));
                }
                let text = in_session(what);
                say_in_session(self.runs.parts(), key, &text, id).await.map(|()| Told::Said)
            }
            Place::Chat { channel, to, thread_id, account_id } => {
                let said = self.cron.parts.outlet.say(Announcement {
                    agent_id: agent_id.to_owned(),
                    channel: channel.clone(),
                    to: to.clone(),
                    thread_id: thread_id.clone(),
                    account_id: account_id.clone(),
                    text: what.text.to_owned(),
                    answer: None,
                    files: what.files.to_vec(),
                    bound_to: what.bound_to.cloned(),
                    idempotency_key: id.to_owned(),
                });
                said.await.map_err(|error| error.to_string())
            }
        }
    }
}

/// What of an answer people are to hear; nothing where its agent only says that there is
/// nothing to tell, be that in the words for heartbeats, which it knows as well.
fn news(said: &str, ack_max: usize) -> String {
    let told = Some(said).filter(|said| !directives::is_silent(said));
    told.and_then(|said| directives::heartbeat_news(said, ack_max)).unwrap_or_default()
}

/// What stands in a session: it has no files of another one, so these are named.
fn in_session(what: Saying<'_>) -> String {
    let names = what.files.iter().map(|file| format!("File: {file}"));
    let names = names.collect::<Vec<_>>().join("\n");
    let parts = [what.text, names.as_str()].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n\n")
}

/// A run whose answer did not arrive has failed, unless its job says that this
/// does not matter.
fn give_up(outcome: &mut Outcome, job: &Job, error: &str, now: u64) {
    tracing::warn!(job = %job.id, error, "nobody hears the answer of a job");
    if job.is_best_effort() {
        outcome.delivery_error = Some(error.to_owned());
    } else {
        outcome.fail(error, error, "delivery", now);
    }
}

/// Adds a message to a session, which everybody who watches it sees.
async fn say_in_session(
    parts: &RunsParts,
    key: &SessionKey,
    text: &str,
    id: &str,
) -> Result<(), String> {
    let message = AssistantMessage::from_gateway(text, parts.clock.now_ms());
    let stored = parts.say_in(key, message).await.map_err(|error| error.to_string())?;
    parts.publish_note(key, &format!("cron-{id}"), 0, &stored);
    parts.announce(key, &stored);
    Ok(())
}
