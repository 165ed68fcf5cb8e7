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
use crate::support::json;

use super::job::Job;
use super::outcome::Outcome;
use super::scheduler::Worker;
use super::target::{LAST, Wanted, home_of};

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
    /// That from which a session was last written to.
    LastOf(SessionKey),
}

impl Way {
    fn of(job: &Job, rules: &KeyRules) -> Option<Self> {
        let delivery = job.delivery.clone().unwrap_or_default();
        let home = home_of(job, rules);
        match (&job.payload, delivery.mode()) {
            (Payload::AgentTurn(_), DeliveryMode::Announce) => {
                let channel = Wanted::of(&delivery).channel;
                Some(if channel == LAST { Self::LastOf(home) } else { Self::Named(channel) })
            }
            (Payload::SystemEvent { .. }, mode)
                if mode != DeliveryMode::Webhook && job.wake_mode == WakeMode::Now =>
            {
                Some(Self::LastOf(home))
            }
            _ => None,
        }
    }
}

/// The session whose last channel decides who hears a job.
pub(super) fn session_of(job: &Job, rules: &KeyRules) -> Option<SessionKey> {
    match Way::of(job, rules)? {
        Way::LastOf(session) => Some(session),
        Way::Named(_) => None,
    }
}

/// Those of some jobs that nobody hears. `last` are the channels from which sessions were last
/// written to, by their keys.
pub(super) fn among(
    jobs: &[Job],
    last: &BTreeMap<String, String>,
    settings: &Settings,
    rules: &KeyRules,
) -> Vec<Unheard> {
    let found = jobs.iter().filter(|job| job.enabled).filter_map(|job| {
        let why = match Way::of(job, rules)? {
            Way::Named(channel) => (!is_here(settings, &channel)).then(|| of_channel(&channel))?,
            Way::LastOf(session) => {
                let channel = last.get(session.as_str())?;
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
    let last = sessions.filter_map(|row| Some((row.key, row.entry.last_channel?))).collect();
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
