//! News of jobs that fail.

use serde_json::json;

use crate::config::FailureAlertSettings;
use crate::protocol::methods::cron::{AlertRules, DeliveryMode, FailureAlert};
use crate::store::{CronChange, CronJobChange};

use super::deliver::Saying;
use super::job::Job;
use super::scheduler::Worker;
use super::service::Skipped;
use super::target::Wanted;
use super::texts;

/// When and where somebody hears of failures.
struct Alert {
    after: u64,
    cooldown_ms: u64,
    include_skipped: bool,
    by_webhook: bool,
    wanted: Wanted,
}

impl Alert {
    /// As a job wants it, else as the config does.
    fn of(job: &Job, settings: &FailureAlertSettings) -> Option<Self> {
        let rules = match &job.failure_alert {
            Some(FailureAlert::On(rules)) => rules.clone(),
            None if settings.enabled => AlertRules::default(),
            Some(FailureAlert::Off(_)) | None => return None,
        };
        // Where the answers go, when nothing else is said.
        let delivery = job.delivery.clone().unwrap_or_default();
        let channel = rules.channel.as_deref().or(delivery.channel.as_deref());
        let to = rules.to.as_deref().or(delivery.to.as_deref());
        let account = rules.account_id.as_deref().or(delivery.account_id.as_deref());
        let mode = rules.mode.map(|mode| mode == DeliveryMode::Webhook);
        Some(Self {
            after: rules.after.unwrap_or(settings.after).max(1),
            cooldown_ms: rules.cooldown_ms.unwrap_or(settings.cooldown_ms),
            include_skipped: rules.include_skipped.unwrap_or(settings.include_skipped),
            by_webhook: mode.unwrap_or(settings.by_webhook),
            wanted: Wanted::at(channel, to, account),
        })
    }

    /// How many failures there are to tell, if it is time to.
    fn is_due(&self, job: &Job, now: u64) -> Option<u64> {
        let state = &job.state;
        let skipped = if self.include_skipped { state.consecutive_skipped } else { None };
        let errors = state.consecutive_errors.unwrap_or_default();
        let times = errors.saturating_add(skipped.unwrap_or_default());
        (times >= self.after && is_rested(job, self.cooldown_ms, now)).then_some(times)
    }
}

/// Whether nobody has been told for so long.
fn is_rested(job: &Job, cooldown_ms: u64, now: u64) -> bool {
    let last = job.state.last_failure_alert_at_ms;
    last.is_none_or(|last| now.saturating_sub(last) >= cooldown_ms)
}

impl Worker {
    /// Tells of a run that failed, where the job or the config wants that.
    pub(super) async fn alert(&self, job: &Job, error: &str, row_id: &str) {
        let elsewhere = job.delivery.as_ref().and_then(|it| it.failure_destination.clone());
        if let Some(place) = elsewhere {
            let account = place.account_id.as_deref();
            let wanted = Wanted::at(place.channel.as_deref(), place.to.as_deref(), account);
            let by_webhook = place.mode == Some(DeliveryMode::Webhook);
            self.tell_failure(job, &wanted, by_webhook, error, 1, &format!("{row_id}#failed"))
                .await;
        }
        let settings = &self.cron.parts.settings.now().cron.failure_alert;
        if let Some(alert) = Alert::of(job, settings) {
            self.alert_when_due(&alert, job, error, row_id).await;
        }
    }

    /// Tells of instants that were skipped, where they count as failures.
    pub(super) async fn alert_of_skips(&self, skipped: &Skipped) {
        let Skipped { job, error, row_id } = skipped;
        let settings = &self.cron.parts.settings.now().cron.failure_alert;
        if let Some(alert) = Alert::of(job, settings).filter(|alert| alert.include_skipped) {
            self.alert_when_due(&alert, job, error, row_id).await;
        }
    }

    async fn alert_when_due(&self, alert: &Alert, job: &Job, error: &str, row_id: &str) {
        let (now, cooldown_ms) = (self.cron.now_ms(), alert.cooldown_ms);
        let Some(times) = alert.is_due(job, now) else { return };
        // Written first: told twice is worse than not told of this one.
        let noted = self.cron.edit(&job.id, move |row| {
            // Somebody may have been told of the instant before meanwhile.
            let mut job = Job::of_row(row).ok().filter(|job| is_rested(job, cooldown_ms, now))?;
            job.state.last_failure_alert_at_ms = Some(now);
            let row = job.to_row(row.due_at, row.origin.clone());
            Some(CronChange::of_job(CronJobChange::Put(row)))
        });
        match noted.await {
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => {
                tracing::error!(job = %job.id, %error, "alert of a failing job not told");
                return;
            }
        }
        let id = format!("{row_id}#alert");
        self.tell_failure(job, &alert.wanted, alert.by_webhook, error, times, &id).await;
    }

    async fn tell_failure(
        &self,
        job: &Job,
        wanted: &Wanted,
        by_webhook: bool,
        error: &str,
        times: u64,
        id: &str,
    ) {
        let text = texts::failure(job, error, times);
        let told = if by_webhook {
            let payload = json!({"jobId": job.id, "jobName": job.name, "action": "failed",
                "status": "error", "error": error, "consecutiveErrors": times, "text": text,
                "ts": self.cron.now_ms()});
            match &wanted.to {
                Some(url) => self.cron.post(url, &payload).await,
                None => Err("there is no address of a web server to tell".to_owned()),
            }
        } else {
            let (agent, home) = (self.cron.agent_of(job), self.cron.home_of(job));
            match self.cron.place(wanted, &agent, &home).await {
                Ok(place) => {
                    let what = Saying { text: &text, files: &[] };
                    self.say(&place, agent.as_str(), what, id).await
                }
                Err(error) => Err(error),
            }
        };
        if let Err(why) = told {
            tracing::warn!(job = %job.id, error, why, "nobody could be told of a failing job");
        }
    }
}
