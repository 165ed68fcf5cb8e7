//! Jobs that speak where nobody hears them: by a channel that is not configured here, as one
//! that was taken over may.
//!
//! Promises: it is told before the job runs, and when it has. Must not: change anything.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::Settings;
use crate::config::channels::ChannelKind;
use crate::protocol::methods::cron::{DeliveryMode, Payload, WakeMode};
use crate::sessions::{KeyRules, SessionKey, WEBCHAT};
use crate::store::{StoreError, cron_jobs_beside, sessions_beside};
use crate::support::{json, sort};

use super::job::Job;
use super::outcome::Outcome;
use super::remind::own_session;
use super::scheduler::Worker;
use super::target::{LAST, Wanted, agent_named, home_of};

/// A job that nobody hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unheard {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Why nobody does, and what helps.
    pub why: String,
}

/// By which channel a job speaks.
enum Way {
    /// It names that.
    Named(String),
    /// That from which the first of these sessions that is there was last written to.
    LastOf(Vec<SessionKey>),
}

impl Way {
    fn of(job: &Job, rules: &KeyRules) -> Option<Self> {
        let delivery = job.delivery.clone().unwrap_or_default();
        match (&job.payload, delivery.mode()) {
            (Payload::AgentTurn(_), DeliveryMode::Announce) => {
                let channel = Wanted::of(&delivery).channel;
                Some(if channel == LAST {
                    Self::LastOf(vec![home_of(job, rules)])
                } else {
                    Self::Named(channel)
                })
            }
            (Payload::SystemEvent { .. }, mode)
                if mode != DeliveryMode::Webhook && job.wake_mode == WakeMode::Now =>
            {
                let main = SessionKey::main(&agent_named(job.agent_id.as_deref(), rules), rules);
                Some(Self::LastOf(own_session(job, rules).into_iter().chain([main]).collect()))
            }
            _ => None,
        }
    }
}

/// The sessions of which the first that is there decides by its last channel who hears a job.
pub(super) fn sessions_of(job: &Job, rules: &KeyRules) -> Vec<SessionKey> {
    match Way::of(job, rules) {
        Some(Way::LastOf(sessions)) => sessions,
        Some(Way::Named(_)) | None => Vec::new(),
    }
}

/// Those of some jobs that nobody hears. `last` are the channels from which sessions were last
/// written to, by the keys of all that are there.
pub(super) fn among(
    jobs: &[Job],
    last: &BTreeMap<String, Option<String>>,
    settings: &Settings,
    rules: &KeyRules,
) -> Vec<Unheard> {
    let found = jobs.iter().filter(|job| job.enabled).filter_map(|job| {
        let why = match Way::of(job, rules)? {
            Way::Named(channel) => (!is_here(settings, &channel)).then(|| of_channel(&channel))?,
            Way::LastOf(sessions) => {
                let there = |it: SessionKey| last.get(it.as_str()).map(|channel| (it, channel));
                let (session, channel) = sessions.into_iter().find_map(there)?;
                let channel = channel.as_ref()?;
                (!is_here(settings, channel)).then(|| of_session(&session, channel))?
            }
        };
        Some(Unheard { id: job.id.clone(), name: job.name.clone(), why })
    });
    found.collect()
}

/// Those of a database that nobody hears, read beside a gateway or without one.
///
/// # Errors
/// When it cannot be read, or belongs to a later release.
pub fn unheard_beside(
    database: &Path,
    settings: &Settings,
    rules: &KeyRules,
) -> Result<Vec<Unheard>, StoreError> {
    let jobs: Vec<_> =
        cron_jobs_beside(database)?.iter().filter_map(|row| Job::of_row(row).ok()).collect();
    let sessions = sessions_beside(database)?.unwrap_or_default().into_iter();
    let last = sort::map(sessions.map(|row| (row.key, row.entry.last_channel)));
    Ok(among(&jobs, &last, settings, rules))
}

/// Whether there is a channel with this id: chats with the gateway itself always are.
fn is_here(settings: &Settings, channel: &str) -> bool {
    let is_configured = |kind| settings.channels.of(kind).next().is_some();
    channel == WEBCHAT || ChannelKind::parse(channel).is_some_and(is_configured)
}

fn of_channel(channel: &str) -> String {
    format!(
        "its answers go to {channel}, which is not configured here, so nobody hears them; \
         configure it, or give the job another channel"
    )
}

fn of_session(session: &SessionKey, channel: &str) -> String {
    format!(
        "{session} was last written to from {channel}, which is not configured here, so nobody \
         hears there what the job says; write to that session from a channel that is, or give \
         the job another channel"
    )
}

impl Worker {
    /// Whoever is reminded in a session that was last written to from a channel that is not
    /// configured here hears nothing: that is part of the outcome.
    pub(super) async fn note_unheard(
        &self,
        job: &Job,
        session: &SessionKey,
        outcome: &mut Outcome,
    ) {
        let (wanted, agent) = (Wanted::at(None, None, None), self.cron.agent_of(job));
        let Ok(place) = self.cron.place(&wanted, &agent, session).await else { return };
        if is_here(&self.cron.parts.settings.now(), place.channel()) {
            return;
        }
        let error = of_session(session, place.channel());
        tracing::warn!(job = %job.id, %error, "nobody hears what a job reminds of");
        outcome.delivery = Some(json!({"intended": wanted.intended(),
            "resolved": wanted.resolved(Ok(&place)), "fallbackUsed": false, "delivered": false}));
        outcome.delivery_status = "not-delivered";
        outcome.delivery_error = Some(error);
    }
}
