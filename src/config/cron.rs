//! The `cron` section: jobs.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use super::explain::{Choice, Ledger};
use super::maintenance::{HOURS, duration_or_zero, hours_or_zero};
use super::schema::Node;
use super::secrets::{self, SecretInput, SecretRef, SecretsConfig};
use super::{ConfigError, Env};
use crate::support::Secret;

/// Turns the scheduler off when it is set, as in the original.
const SKIP: &str = "OPENCLAW_SKIP_CRON";
/// As in the original: many jobs are due at the same full hour, and share a workspace and
/// what a provider allows.
const DEFAULT_MAX_CONCURRENT: usize = 1;
/// As in the original.
const DEFAULT_SESSION_RETENTION_MS: u64 = 24 * 60 * 60 * 1000;
/// As in the original.
const DEFAULT_KEEP_LINES: u32 = 2000;
/// An hour: a reminder that is a little late is worth something, a report of
/// this morning in the evening is not.
const DEFAULT_MISSED: &str = "1h";
/// What is to happen once happens late rather than never: nothing comes after it.
const DEFAULT_MISSED_ONCE: MissedPolicy = MissedPolicy::Run;
/// What `cron.missed` may be.
const MISSED: &str = "run, skip, or a time such as 30m";
/// As in the original.
const DEFAULT_ALERT_AFTER: u64 = 2;
/// As in the original.
const DEFAULT_COOLDOWN_MS: u64 = 60 * 60 * 1000;
/// As in the original.
const DEFAULT_RETRIES: u64 = 3;
/// As in the original.
const DEFAULT_BACKOFF_MS: [u64; 3] = [30_000, 60_000, 300_000];
/// Each asks a provider that just failed.
const RETRIES_MAX: u64 = 100;
/// A day: later nobody waits for what was to be done once.
const BACKOFF_MAX_MS: u64 = 24 * 60 * 60 * 1000;
/// More of them would make the list of runs slow to read.
const KEEP_LINES_MAX: u64 = 100_000;

/// How jobs run.
#[derive(Debug, Clone)]
pub struct CronSettings {
    /// Whether the scheduler runs at all; jobs can be edited in any case.
    pub enabled: bool,
    /// Runs at a time.
    pub max_concurrent: usize,
    /// What web servers get as `Authorization: Bearer`.
    pub webhook_token: Option<Secret>,
    /// Where that is, when it does not stand in the file.
    pub webhook_token_at: Option<SecretRef>,
    /// Sessions of runs go after so many milliseconds; never when absent.
    pub session_retention_ms: Option<u64>,
    /// How many runs of a job are remembered.
    pub keep_lines: u32,
    /// What becomes of instants that passed while nobody could run the job, for
    /// jobs that say nothing else.
    pub missed: MissedPolicy,
    /// The same for jobs of a single instant, which runs however late it is unless
    /// the config says something.
    pub missed_once: MissedPolicy,
    /// Who hears of failures, for jobs that say nothing else.
    pub failure_alert: FailureAlertSettings,
    /// Where each failure is told, for jobs that name no place of their own.
    pub failure_destination: Option<FailureDestinationSettings>,
    /// When a job of a single instant that failed is tried again.
    pub retry: CronRetrySettings,
    /// Where an OpenClaw with this file has its jobs; we only take over what is there.
    pub openclaw_store: Option<String>,
}

impl CronSettings {
    /// Follows the reference to the token of web servers. One that leads nowhere is told of;
    /// they get none then.
    pub async fn follow(&mut self, config: &SecretsConfig, env: &Env) {
        let Some(reference) = &self.webhook_token_at else { return };
        let wanted = BTreeSet::from([reference.clone()]);
        let (found, lost) = secrets::resolve(&wanted, config, env).await;
        for (reference, error) in lost {
            tracing::error!(%reference, %error, "cron.webhookToken cannot be had; web servers get none");
        }
        self.webhook_token = found.get(reference).filter(|token| !token.is_empty()).cloned();
    }
}

/// What becomes of instants that passed while nobody could run the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedPolicy {
    /// The last one runs, however old.
    Run,
    /// None runs.
    Skip,
    /// The last one runs if it is no older than this, in milliseconds.
    RunIfYounger(u64),
}

impl MissedPolicy {
    /// Reads `run`, `skip`, or a time such as `500ms`, `90s`, `30m`, `1.5h` or `2d`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim().to_lowercase().as_str() {
            "run" => Some(Self::Run),
            "skip" => Some(Self::Skip),
            time => duration_or_zero(time).map(Self::RunIfYounger),
        }
    }
}

/// When a job of a single instant that failed is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronRetrySettings {
    /// So often in a row.
    pub max_attempts: u64,
    /// After so many milliseconds: the first time, the second, …; the last one
    /// holds for all after it.
    pub backoff_ms: Vec<u64>,
    /// After these failures.
    pub retry_on: Vec<CronRetryOn>,
}

/// A failure that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronRetryOn {
    /// Too many requests.
    RateLimit,
    /// The provider has too much to do.
    Overloaded,
    /// The provider cannot be reached.
    Network,
    /// The provider is silent.
    Timeout,
    /// The provider failed.
    ServerError,
}

impl CronRetryOn {
    /// All, with their words.
    const ALL: [(&str, Self); 5] = [
        ("rate_limit", Self::RateLimit),
        ("overloaded", Self::Overloaded),
        ("network", Self::Network),
        ("timeout", Self::Timeout),
        ("server_error", Self::ServerError),
    ];
    /// What may be written.
    const WORDS: &str = "rate_limit, overloaded, network, timeout, server_error";

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == word).map(|(_, kind)| kind)
    }
}

impl fmt::Display for CronRetryOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = Self::ALL.into_iter().find(|(_, kind)| kind == self);
        f.write_str(own.map_or("", |(word, _)| word))
    }
}

/// Who hears of failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureAlertSettings {
    /// Whether anybody does.
    pub enabled: bool,
    /// After so many in a row.
    pub after: u64,
    /// Not again for so many milliseconds.
    pub cooldown_ms: u64,
    /// Whether runs count that were skipped.
    pub include_skipped: bool,
    /// Whether a web server hears of them, and not a chat.
    pub by_webhook: bool,
}

/// A place for news of failures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailureDestinationSettings {
    /// `last`, or a channel.
    pub channel: Option<String>,
    /// A chat of it, a session, or the address of a web server.
    pub to: Option<String>,
    /// Which account of the channel sends.
    pub account_id: Option<String>,
    /// Whether a web server hears of them, and not a chat. Without `to` it hears of those of
    /// jobs that name its address.
    pub by_webhook: bool,
}

pub(super) fn read(
    node: &Node<'_>,
    env: &Env,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<CronSettings, ConfigError> {
    let key = |name: &str| format!("cron.{name}");
    let skipped = env.get(SKIP).is_some_and(|word| !matches!(word.trim(), "" | "0" | "false"));
    let enabled = Choice::env(SKIP, skipped.then_some(false))
        .or_file(file, node.member("enabled")?.boolean()?);
    let concurrent = Choice::file(file, node.member("maxConcurrentRuns")?.count()?);
    let token = Choice::file(file, node.member("webhookToken")?.secret(env)?);
    let (webhook_token, webhook_token_at) = match ledger.settle_secret(&key("webhookToken"), token)
    {
        Some(SecretInput::Text(token)) => (Some(token), None),
        Some(SecretInput::Ref(reference)) => (None, Some(reference)),
        None => (None, None),
    };
    let keep = node.at("runLog.keepLines")?.bounded(1, KEEP_LINES_MAX)?;
    let missed = node.member("missed")?;
    let written = missed.quantity(MISSED, |text| Some(text.to_owned()))?;
    let is_own = written.is_some();
    let text = ledger.settle(&key("missed"), Choice::file(file, written), DEFAULT_MISSED.into());
    let wrong = || missed.wrong(&format!("must be {MISSED}"));
    let missed = MissedPolicy::parse(&text).ok_or_else(wrong)?;
    Ok(CronSettings {
        enabled: ledger.settle(&key("enabled"), enabled, true),
        max_concurrent: ledger.settle(
            &key("maxConcurrentRuns"),
            concurrent,
            DEFAULT_MAX_CONCURRENT,
        ),
        webhook_token,
        webhook_token_at,
        session_retention_ms: retention(&node.member("sessionRetention")?, file, ledger)?,
        keep_lines: ledger.settle(
            &key("runLog.keepLines"),
            Choice::file(file, keep),
            DEFAULT_KEEP_LINES,
        ),
        missed,
        missed_once: if is_own { missed } else { DEFAULT_MISSED_ONCE },
        failure_alert: failure_alert(&node.member("failureAlert")?, file, ledger)?,
        failure_destination: failure_destination(&node.member("failureDestination")?)?,
        retry: retry(&node.member("retry")?, file, ledger)?,
        openclaw_store: node.member("store")?.text()?.filter(|path| !path.trim().is_empty()),
    })
}

/// A time, or `false` for never.
fn retention(
    node: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<Option<u64>, ConfigError> {
    let written = match node.value() {
        Some(serde_json::Value::Bool(false)) => Some(None),
        _ => node.quantity(HOURS, hours_or_zero)?.map(Some),
    };
    let retention = written.unwrap_or(Some(DEFAULT_SESSION_RETENTION_MS));
    let show = |time: Option<u64>| time.map_or("never".into(), |time| format!("{time} ms"));
    let shown = written.map(show);
    let standard = show(Some(DEFAULT_SESSION_RETENTION_MS));
    ledger.settle("cron.sessionRetention", Choice::file(file, shown), standard);
    Ok(retention)
}

fn retry(
    node: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<CronRetrySettings, ConfigError> {
    let attempts = node.member("maxAttempts")?.integer_or_zero(RETRIES_MAX)?;
    let waits = node.member("backoffMs")?.items()?.into_iter().map(|item| {
        let rule = || item.wrong("must be a time in milliseconds");
        item.bounded(0, BACKOFF_MAX_MS)?.ok_or_else(rule)
    });
    let waits = waits.collect::<Result<Vec<u64>, _>>()?;
    let on = node.member("retryOn")?.items()?.into_iter().map(|item| {
        let rule = || item.wrong(&format!("must be one of {}", CronRetryOn::WORDS));
        item.word(CronRetryOn::WORDS, CronRetryOn::parse)?.ok_or_else(rule)
    });
    let on = on.collect::<Result<Vec<_>, _>>()?;
    let all = CronRetryOn::ALL.into_iter().map(|(_, kind)| kind).collect();
    let attempts = Choice::file(file, attempts);
    let waits = Choice::file(file, Some(waits).filter(|waits| !waits.is_empty()));
    let on = Choice::file(file, Some(on).filter(|on| !on.is_empty()));
    let key = |name: &str| format!("cron.retry.{name}");
    Ok(CronRetrySettings {
        max_attempts: ledger.settle(&key("maxAttempts"), attempts, DEFAULT_RETRIES),
        backoff_ms: ledger.settle_list(&key("backoffMs"), waits, DEFAULT_BACKOFF_MS.to_vec()),
        retry_on: ledger.settle_list(&key("retryOn"), on, all),
    })
}

fn failure_alert(
    node: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<FailureAlertSettings, ConfigError> {
    let key = |name: &str| format!("cron.failureAlert.{name}");
    let enabled = Choice::file(file, node.member("enabled")?.boolean()?);
    let after = Choice::file(file, node.member("after")?.count()?);
    let cooldown = node.member("cooldownMs")?.integer_or_zero(u64::MAX)?;
    let skipped = Choice::file(file, node.member("includeSkipped")?.boolean()?);
    let mode = node.member("mode")?.word("announce, webhook", mode)?;
    let mode = ledger.settle(&key("mode"), Choice::file(file, mode), "announce");
    Ok(FailureAlertSettings {
        enabled: ledger.settle(&key("enabled"), enabled, false),
        after: ledger.settle(&key("after"), after, DEFAULT_ALERT_AFTER),
        cooldown_ms: ledger.settle(
            &key("cooldownMs"),
            Choice::file(file, cooldown),
            DEFAULT_COOLDOWN_MS,
        ),
        include_skipped: ledger.settle(&key("includeSkipped"), skipped, false),
        by_webhook: mode == "webhook",
    })
}

/// How failures are told.
fn mode(word: &str) -> Option<&'static str> {
    ["announce", "webhook"].into_iter().find(|mode| *mode == word)
}

/// A place of which nothing is said is none.
fn failure_destination(node: &Node<'_>) -> Result<Option<FailureDestinationSettings>, ConfigError> {
    let text = |name: &str| -> Result<Option<String>, ConfigError> {
        Ok(node.member(name)?.text()?.filter(|text| !text.trim().is_empty()))
    };
    let mode = node.member("mode")?.word("announce, webhook", mode)?;
    let place = FailureDestinationSettings {
        channel: text("channel")?,
        to: text("to")?,
        account_id: text("accountId")?,
        by_webhook: mode == Some("webhook"),
    };
    let is_said = mode.is_some() || place != FailureDestinationSettings::default();
    Ok(is_said.then_some(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn load(cron: &Value, skip: &str) -> Result<CronSettings, String> {
        let file = Path::new("x.json");
        let env = Env::fixed([(SKIP, skip)], Path::new("/"));
        let read = read(&Node::root(cron, file), &env, file, &mut Ledger::default());
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_word_jobs_run_and_are_bounded() {
        let settings = load(&json!({}), "").unwrap();
        assert!(settings.enabled && !settings.failure_alert.enabled);
        let hour = MissedPolicy::parse("1h").unwrap();
        assert_eq!((settings.keep_lines, settings.missed), (2000, hour));
        assert_eq!(settings.missed_once, MissedPolicy::Run);
        assert_eq!(settings.session_retention_ms, Some(86_400_000));
        assert!(!load(&json!({"enabled": true}), "1").unwrap().enabled);
        assert_eq!(
            load(&json!({"sessionRetention": false}), "").unwrap().session_retention_ms,
            None
        );
        let skips = load(&json!({"missed": "Skip"}), "").unwrap();
        assert_eq!((skips.missed, skips.missed_once), (MissedPolicy::Skip, MissedPolicy::Skip));
        for (written, millis) in
            [(json!("1.5h"), 5_400_000), (json!("500ms"), 500), (json!(1.5), 90_000)]
        {
            let settings = load(&json!({"missed": written}), "").unwrap();
            let policy = MissedPolicy::RunIfYounger(millis);
            assert_eq!((settings.missed, settings.missed_once), (policy, policy), "{written}");
        }
        assert_eq!(settings.retry.backoff_ms, [30_000, 60_000, 300_000]);
        assert_eq!((settings.retry.max_attempts, settings.retry.retry_on.len()), (3, 5));
        let own = json!({"retry": {"maxAttempts": 0, "backoffMs": [5], "retryOn": ["network"]}});
        let own = load(&own, "").unwrap().retry;
        assert_eq!((own.max_attempts, own.backoff_ms), (0, vec![5]));
        assert_eq!(own.retry_on, [CronRetryOn::Network]);
        let place = |written: Value| {
            let settings = load(&json!({"failureDestination": written}), "").unwrap();
            settings.failure_destination
        };
        assert_eq!(place(json!({"to": " "})), None);
        let last = FailureDestinationSettings::default();
        assert_eq!(place(json!({"mode": "announce"})), Some(last.clone()));
        // As in the original; `foreign` tells of it.
        let web = FailureDestinationSettings { by_webhook: true, ..last.clone() };
        assert_eq!(place(json!({"mode": "webhook"})), Some(web));
        let chat = FailureDestinationSettings { channel: Some("telegram".into()), ..last };
        assert_eq!(place(json!({"channel": "telegram"})), Some(chat));
    }

    #[test]
    fn what_the_original_takes_counts_as_it_does_there_or_as_the_bound() {
        let settings = load(
            &json!({"sessionRetention": "24", "runLog": {"keepLines": 1_000_000},
                "retry": {"backoffMs": [0, 99_999_999_999_u64]}}),
            "",
        );
        let settings = settings.unwrap();
        assert_eq!(settings.session_retention_ms, Some(86_400_000), "a bare number counts hours");
        assert_eq!(
            (settings.keep_lines, settings.retry.backoff_ms),
            (100_000, vec![0, 86_400_000])
        );
        for (written, millis) in [("0", 0), ("1d12h", 129_600_000)] {
            let settings = load(&json!({"sessionRetention": written}), "").unwrap();
            assert_eq!(settings.session_retention_ms, Some(millis), "{written}");
        }
    }

    #[tokio::test]
    async fn the_token_of_web_servers_may_be_a_reference() {
        let reference = |id: &str| json!({"source": "env", "provider": "default", "id": id});
        let env = Env::fixed([("CRON_TOKEN", "token-of-cron")], Path::new("/"));
        for (id, expected) in [("CRON_TOKEN", Some("token-of-cron")), ("NONE", None)] {
            let mut settings = load(&json!({"webhookToken": reference(id)}), "").unwrap();
            assert!(settings.webhook_token.is_none());
            settings.follow(&SecretsConfig::default(), &env).await;
            assert_eq!(settings.webhook_token.as_ref().map(Secret::expose), expected);
        }
        let settings = load(&json!({"webhookToken": "t"}), "").unwrap();
        assert_eq!(settings.webhook_token.as_ref().map(Secret::expose), Some("t"));
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_it() {
        for (wrong, key) in [
            (json!({"enabled": "yes"}), "enabled"),
            (json!({"maxConcurrentRuns": 0}), "maxConcurrentRuns"),
            (json!({"sessionRetention": "soon"}), "sessionRetention"),
            (json!({"runLog": {"keepLines": 0}}), "runLog.keepLines"),
            (json!({"missed": "later"}), "missed: must be run, skip"),
            (json!({"failureAlert": {"mode": "sms"}}), "failureAlert.mode"),
            (json!({"failureDestination": {"mode": "sms"}}), "failureDestination.mode"),
            (json!({"retry": {"maxAttempts": -1}}), "retry.maxAttempts"),
            (json!({"retry": {"backoffMs": [5, "x"]}}), "retry.backoffMs"),
            (json!({"retry": {"backoffMs": 5}}), "retry.backoffMs"),
            (json!({"retry": {"retryOn": ["timeout", "always"]}}), "must be one of rate_limit"),
        ] {
            let error = load(&wrong, "").unwrap_err();
            assert!(error.contains(key), "{error} names {key}");
        }
    }
}
