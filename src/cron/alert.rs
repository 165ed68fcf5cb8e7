//! News of jobs that fail.

use std::sync::Arc;

use crate::config::{CronSettings, FailureAlertSettings, FailureDestinationSettings};
use crate::protocol::methods::cron::{
    AlertRules, Delivery, DeliveryMode, Destination, FailureAlert,
};
use crate::store::{CronChange, CronJobChange};
use crate::support::json;

use super::deliver::Saying;
use super::job::{Job, Origin};
use super::scheduler::Worker;
use super::service::Skipped;
use super::target::Wanted;
use super::texts;

/// A run that failed, or an instant that counts as one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure<'a> {
    /// Of which job.
    pub job: &'a Job,
    /// Who made that, unless a client did.
    pub origin: Option<&'a Origin>,
    /// Why.
    pub error: &'a str,
    /// Its row.
    pub row_id: &'a str,
}

/// Where somebody hears of failures.
struct Ear {
    wanted: Wanted,
    by_webhook: bool,
    /// Whether that is another place than the config alone would have.
    is_own: bool,
}

impl Ear {
    /// Who hears of each failure of a job: at its own place, where that does not say all with
    /// what the config says, else where its answers go. A job whose failures are told in
    /// another way tells nobody of itself, nor does one whose answers need not arrive.
    fn of_each(job: &Job, settings: &CronSettings) -> Option<Self> {
        let delivery = job.delivery.clone().unwrap_or_default();
        let own = delivery.failure_destination.as_ref();
        let is_vital = !job.is_best_effort();
        let usual = settings.failure_destination.as_ref().filter(|_| own.is_some() || is_vital);
        Self::at(own, usual, &delivery).or_else(|| {
            let is_told = job.failure_alert.is_some() || settings.failure_alert.enabled;
            let announces = delivery.mode() == DeliveryMode::Announce && is_vital && !is_told;
            let wanted = announces.then(|| Wanted::of(&delivery))?;
            Some(Self { wanted, by_webhook: false, is_own: true })
        })
    }

    /// The place of a job for news of each failure, if it or the config has one. What a job
    /// does not say of it is as the config says, unless it is another one. A web server
    /// without an address is none.
    fn at(
        own: Option<&Destination>,
        usual: Option<&FailureDestinationSettings>,
        delivery: &Delivery,
    ) -> Option<Self> {
        if own.is_none() && usual.is_none() {
            return None;
        }
        let said = own.cloned().unwrap_or_default();
        let by_webhook = said.mode.map(|mode| mode == DeliveryMode::Webhook);
        let channel = |written: Option<&str>| Wanted::at(written, None, None).channel;
        let is_of = |usual: &&FailureDestinationSettings| {
            by_webhook.is_none_or(|it| it == usual.by_webhook)
                && said.channel.as_deref().is_none_or(|written| {
                    channel(Some(written)) == channel(usual.channel.as_deref())
                })
        };
        let usual = usual.filter(is_of);
        let filled = |said: Destination| {
            let usual = usual.cloned().unwrap_or_default();
            let channel = said.channel.or(usual.channel);
            let to = said.to.or(usual.to);
            let account_id = said.account_id.or(usual.account_id);
            destination(&Destination { channel, to, account_id, mode: said.mode }, delivery)
        };
        let by_webhook = by_webhook.unwrap_or(usual.is_some_and(|usual| usual.by_webhook));
        let wanted = filled(said);
        let is_own = usual.is_none() || wanted != filled(Destination::default());
        let is_place = !by_webhook || wanted.to.is_some();
        is_place.then_some(Self { wanted, by_webhook, is_own })
    }
}

/// When and where somebody hears of failures.
struct Alert {
    after: u64,
    cooldown_ms: u64,
    include_skipped: bool,
    ear: Ear,
}

impl Alert {
    /// As a job wants it, else as the config does, but for jobs whose answers need not arrive.
    fn of(job: &Job, settings: &FailureAlertSettings) -> Option<Self> {
        let rules = match &job.failure_alert {
            Some(FailureAlert::On(rules)) => rules.clone(),
            None if settings.enabled && !job.is_best_effort() => AlertRules::default(),
            Some(FailureAlert::Off(_)) | None => return None,
        };
        let mode = rules.mode.map(|mode| mode == DeliveryMode::Webhook);
        let by_webhook = mode.unwrap_or(settings.by_webhook);
        // Where the answers go, when nothing else is said; a web server is no chat.
        let delivery = job.delivery.clone();
        let delivery = delivery.filter(|it| by_webhook || it.mode() != DeliveryMode::Webhook);
        let delivery = delivery.unwrap_or_default();
        let channel = rules.channel.as_deref().or(delivery.channel.as_deref());
        let to = rules.to.as_deref().or(delivery.to.as_deref());
        let account = rules.account_id.as_deref().or(delivery.account_id.as_deref());
        Some(Self {
            after: rules.after.unwrap_or(settings.after).max(1),
            cooldown_ms: rules.cooldown_ms.unwrap_or(settings.cooldown_ms),
            include_skipped: rules.include_skipped.unwrap_or(settings.include_skipped),
            ear: Ear {
                wanted: in_thread(Wanted::at(channel, to, account), &delivery),
                by_webhook,
                is_own: true,
            },
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

/// The places that a job means: for its answers, for each failure, for several in a row. Web
/// servers are none of them, nor is the place of the config.
pub(super) fn places_of(job: &Job, settings: &CronSettings) -> Vec<Wanted> {
    let mut places = Vec::new();
    if let Some(delivery) = &job.delivery {
        if delivery.mode() != DeliveryMode::Webhook {
            places.push(Wanted::of(delivery));
        }
        let own = delivery.failure_destination.as_ref();
        let elsewhere = Ear::at(own, settings.failure_destination.as_ref(), delivery);
        let elsewhere = elsewhere.filter(|ear| ear.is_own && !ear.by_webhook);
        places.extend(elsewhere.map(|ear| ear.wanted));
    }
    let alert = Alert::of(job, &settings.failure_alert).filter(|alert| !alert.ear.by_webhook);
    places.extend(alert.map(|alert| alert.ear.wanted));
    places
}

fn destination(place: &Destination, delivery: &Delivery) -> Wanted {
    let (channel, to) = (place.channel.as_deref(), place.to.as_deref());
    in_thread(Wanted::at(channel, to, place.account_id.as_deref()), delivery)
}

/// A place for failures; in the thread of the answers where it is the chat of these.
fn in_thread(wanted: Wanted, delivery: &Delivery) -> Wanted {
    let answers = Wanted::of(delivery);
    let place = |it: &Wanted| (it.channel.clone(), it.to.clone(), it.account_id.clone());
    let is_same = place(&wanted) == place(&answers);
    Wanted { thread_id: answers.thread_id.filter(|_| is_same), ..wanted }
}

/// Whether nobody has been told for so long; the clock may have been ahead then.
fn is_rested(job: &Job, cooldown_ms: u64, now: u64) -> bool {
    let last = job.state.last_failure_alert_at_ms;
    last.is_none_or(|last| last > now || now - last >= cooldown_ms)
}

impl Worker {
    /// Tells of a run that failed, where the job or the config wants that.
    pub(super) async fn alert(&self, failure: Failure<'_>) {
        let settings = &self.cron.parts.settings.now().cron;
        if let Some(ear) = Ear::of_each(failure.job, settings) {
            self.tell_failure(failure, &ear, 1, "failed").await;
        }
        if let Some(alert) = Alert::of(failure.job, &settings.failure_alert) {
            self.alert_when_due(&alert, failure).await;
        }
    }

    /// Tells of instants that were skipped, where they count as failures.
    pub(super) async fn alert_of_skips(&self, skipped: &Skipped) {
        let Skipped { job, origin, error, row_id } = skipped;
        let failure = Failure { job, origin: origin.as_ref(), error, row_id };
        let settings = &self.cron.parts.settings.now().cron.failure_alert;
        if let Some(alert) = Alert::of(job, settings).filter(|alert| alert.include_skipped) {
            self.alert_when_due(&alert, failure).await;
        }
    }

    async fn alert_when_due(&self, alert: &Alert, failure: Failure<'_>) {
        let (job, cooldown_ms) = (failure.job, alert.cooldown_ms);
        let Some(times) = alert.is_due(job, self.cron.now_ms()) else { return };
        let clock = Arc::clone(&self.cron.parts.clock);
        // Written first: told twice is worse than not told of this one.
        let noted = self.cron.edit(&job.id, move |row| {
            // Somebody may have been told of the instant before meanwhile; with the time of
            // before that it would seem that the clock was ahead.
            let now = clock.now_ms();
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
        self.tell_failure(failure, &alert.ear, times, "alert").await;
    }

    /// Tells of a failure at a place; `kind` keeps what is told of it there apart from what
    /// is told elsewhere.
    async fn tell_failure(&self, failure: Failure<'_>, ear: &Ear, times: u64, kind: &str) {
        let Failure { job, origin, error, row_id } = failure;
        let text = texts::failure(job, error, times);
        let told = if ear.by_webhook {
            let payload = json!({"jobId": job.id, "jobName": job.name, "action": "failed",
                "status": "error", "error": error, "consecutiveErrors": times, "text": text,
                "ts": self.cron.now_ms()});
            match &ear.wanted.to {
                Some(url) => self.cron.post(url, &payload).await,
                None => Err("there is no address of a web server to tell".to_owned()),
            }
        } else {
            let (agent, home) = (self.cron.agent_of(job), self.cron.home_of(job));
            match self.cron.place(&ear.wanted, &agent, &home).await {
                Ok(place) => {
                    // The owner of the config may name any chat.
                    let origin = origin.filter(|_| ear.is_own);
                    let bounds = self.cron.bounds_of(job, origin);
                    let what = Saying { text: &text, files: &[], bound_to: bounds.as_ref() };
                    let id = format!("{row_id}#{kind}");
                    self.say(&place, agent.as_str(), what, &id).await.map(drop)
                }
                Err(error) => Err(error),
            }
        };
        if let Err(why) = told {
            tracing::warn!(job = %job.id, error, why, "nobody could be told of a failing job");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Env, preview};

    use super::*;

    fn settings(cron: &str) -> CronSettings {
        preview(&format!("{{cron: {cron}}}"), &Env::fixed([], "/h")).unwrap().cron
    }

    #[test]
    fn a_clock_that_was_ahead_keeps_nobody_from_hearing_of_failures() {
        let mut job = Job::nameless("job");
        job.state.last_failure_alert_at_ms = Some(100_000);
        let is_rested_at = |now| is_rested(&job, 1000, now);
        assert!(!is_rested_at(100_999) && is_rested_at(101_000));
        assert!(is_rested_at(5000) && is_rested_at(99_999), "it has been set back");
    }

    #[test]
    fn who_has_answers_that_need_not_arrive_is_alerted_only_where_the_job_says_so() {
        let usual = settings("{failureAlert: {enabled: true}}").failure_alert;
        let mut job = Job::nameless("job");
        assert!(Alert::of(&job, &usual).is_some());
        job.delivery = Some(Delivery { best_effort: Some(true), ..Delivery::default() });
        assert!(Alert::of(&job, &usual).is_none());
        job.failure_alert = Some(FailureAlert::On(AlertRules::default()));
        assert!(Alert::of(&job, &usual).is_some());
    }

    #[test]
    fn a_web_server_that_gets_the_answers_is_no_chat_for_failures() {
        let delivery = Delivery {
            mode: Some(DeliveryMode::Webhook),
            to: Some("https://x.test/".into()),
            ..Delivery::default()
        };
        let job = Job {
            delivery: Some(delivery),
            failure_alert: Some(FailureAlert::On(AlertRules::default())),
            ..Job::nameless("job")
        };
        assert_eq!(places_of(&job, &settings("{}")), [Wanted::at(None, None, None)]);
        let by_webhook = settings("{failureAlert: {mode: 'webhook'}}");
        assert!(places_of(&job, &by_webhook).is_empty());
        let alert = Alert::of(&job, &by_webhook.failure_alert).unwrap();
        assert_eq!(alert.ear.wanted.to.as_deref(), Some("https://x.test/"));
    }

    #[test]
    fn a_place_keeps_the_thread_of_the_answers_in_their_chat_alone() {
        let delivery = Delivery {
            mode: Some(DeliveryMode::Announce),
            channel: Some("telegram".into()),
            to: Some("-100".into()),
            thread_id: Some(json!(5)),
            ..Delivery::default()
        };
        let place = |to: &str| Destination {
            channel: Some("Telegram".into()),
            to: Some(to.to_owned()),
            ..Destination::default()
        };
        let thread = |place: &Destination| destination(place, &delivery).thread_id;
        assert_eq!(thread(&place("-100")), Some(json!(5)));
        assert_eq!(thread(&place("7")), None);
        let job = |rules: AlertRules| Job {
            delivery: Some(delivery.clone()),
            failure_alert: Some(FailureAlert::On(rules)),
            ..Job::nameless("job")
        };
        let usual = settings("{}").failure_alert;
        let thread = |rules| Alert::of(&job(rules), &usual).unwrap().ear.wanted.thread_id;
        assert_eq!(thread(AlertRules::default()), Some(json!(5)));
        assert_eq!(thread(AlertRules { to: Some("7".into()), ..AlertRules::default() }), None);
    }

    #[test]
    fn what_a_job_does_not_say_of_its_place_is_as_the_config_says_unless_it_is_another_one() {
        let usual = FailureDestinationSettings {
            channel: Some("telegram".into()),
            to: Some("-100".into()),
            ..FailureDestinationSettings::default()
        };
        let ear = |own: Option<Destination>| {
            let ear = Ear::at(own.as_ref(), Some(&usual), &Delivery::default()).unwrap();
            (ear.wanted.channel, ear.wanted.to, ear.by_webhook, ear.is_own)
        };
        let telegram =
            |to: &str, is_own: bool| ("telegram".to_owned(), Some(to.to_owned()), false, is_own);
        assert_eq!(ear(None), telegram("-100", false));
        let to = |to: &str| Some(to.to_owned());
        assert_eq!(
            ear(Some(Destination { to: to("7"), ..Destination::default() })),
            telegram("7", true)
        );
        let chat = |channel: &str| Destination {
            channel: Some(channel.to_owned()),
            ..Destination::default()
        };
        assert_eq!(ear(Some(chat("webchat"))), ("webchat".into(), None, false, true));
        // It is that of the config.
        assert_eq!(ear(Some(chat("Telegram"))), telegram("-100", false));
        let account = Destination { account_id: Some("work".into()), ..Destination::default() };
        assert_eq!(ear(Some(account)), telegram("-100", true));
        let (mode, to) = (Some(DeliveryMode::Webhook), to("https://x.test/"));
        let web = Destination { mode, to: to.clone(), ..Destination::default() };
        assert_eq!(ear(Some(web)), ("last".into(), to, true, true));
    }

    #[test]
    fn a_job_names_the_place_that_its_failures_are_told_at_and_not_that_of_the_config() {
        let settings = settings("{failureDestination: {channel: 'telegram', to: '-100'}}");
        let elsewhere = |place: Destination| {
            let failure_destination = Some(place);
            let delivery = Delivery { failure_destination, ..Delivery::default() };
            let job = Job { delivery: Some(delivery), ..Job::nameless("job") };
            // The first is that of the answers.
            places_of(&job, &settings).split_off(1)
        };
        let named = |to: &str| Destination { to: Some(to.into()), ..Destination::default() };
        assert_eq!(elsewhere(named("7")), [Wanted::at(Some("telegram"), Some("7"), None)]);
        assert_eq!(elsewhere(named("-100")), []);
        assert_eq!(elsewhere(Destination::default()), []);
        let web = Destination { mode: Some(DeliveryMode::Webhook), ..named("https://x.test/") };
        assert_eq!(elsewhere(web), []);
    }

    #[test]
    fn a_web_server_without_an_address_is_no_place_and_failures_are_told_as_without_it() {
        let settings = settings("{failureDestination: {mode: 'webhook'}}");
        let heard = |place: Option<Destination>| {
            let delivery = Delivery {
                mode: Some(DeliveryMode::Announce),
                channel: Some("telegram".into()),
                to: Some("-100".into()),
                failure_destination: place,
                ..Delivery::default()
            };
            let job = Job { delivery: Some(delivery), ..Job::nameless("job") };
            let ear = Ear::of_each(&job, &settings).unwrap();
            (ear.by_webhook, ear.wanted.to)
        };
        assert_eq!(heard(None), (false, Some("-100".into())));
        let mode = Some(DeliveryMode::Webhook);
        assert_eq!(
            heard(Some(Destination { mode, ..Destination::default() })),
            (false, Some("-100".into()))
        );
        // One that says where has it.
        let to = Some("https://x.test/".to_owned());
        let web = Destination { to: to.clone(), ..Destination::default() };
        assert_eq!(heard(Some(web)), (true, to));
    }
}
