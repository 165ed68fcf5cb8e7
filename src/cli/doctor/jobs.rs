//! Jobs: those that OpenClaw left, those that nobody hears, those that sleep for too long.
//!
//! Must not: tell that the database cannot be read; that is told elsewhere.

use super::finding::{Finding, Severity};
use super::state::NAMES_MAX;
use crate::app;
use crate::config::{Paths, Settings};
use crate::cron::schedule::date;
use crate::cron::{put_off_beside, unheard_beside, unreadable_list};
use crate::store;

/// Whether there are jobs that nobody hears.
pub fn unheard(paths: &Paths, settings: &Settings) -> Option<Finding> {
    let rules = app::key_rules(settings);
    let jobs = unheard_beside(&paths.database(), settings, &rules).ok()?;
    let told = jobs.iter().map(|job| format!("{} ({}): {}", job.name, job.id, job.why));
    let told = first(told);
    (!jobs.is_empty()).then(|| {
        Finding::new(
            "cron.unheard",
            Severity::Warn,
            format!("{} jobs speak where nobody hears them: {told}", jobs.len()),
            "they run, and what they say is in their sessions alone",
            "configure the channel, docs/channels.md, or give the job another one: \
             clawgate cron edit <job> --announce --channel <channel> --to <chat>",
        )
    })
}

/// Jobs that are due later than their schedules say.
pub fn put_off(paths: &Paths, now_ms: u64) -> Option<Finding> {
    let jobs = put_off_beside(&paths.database(), now_ms).ok()?;
    let told = jobs.iter().map(|job| format!("{} ({}), {}", job.name, job.id, date(job.due_at)));
    let told = first(told);
    (!jobs.is_empty()).then(|| {
        Finding::new(
            "cron.put_off",
            Severity::Warn,
            format!("{} jobs are due later than by their schedules: {told}", jobs.len()),
            "they were made at a time that is still to come: the clock was ahead then, or is \
             behind now",
            "set the clock where it is wrong; else turn each off and on again: clawgate cron \
             disable <job>, then clawgate cron enable <job>",
        )
    })
}

/// The first of those that are told of.
fn first(told: impl Iterator<Item = String>) -> String {
    told.take(NAMES_MAX).collect::<Vec<_>>().join("; ")
}

/// Jobs of OpenClaw that cannot be read.
pub fn unreadable(paths: &Paths, settings: &Settings) -> Option<Finding> {
    // Where there is no database yet nothing was taken over.
    let notes = store::sources_beside(&paths.database()).unwrap_or_default();
    let (what, help) = unreadable_list(settings, &notes)?;
    let why = "jobs of OpenClaw that were not taken over before do not run here";
    Some(Finding::new("cron.list", Severity::Warn, what, why, help))
}
