//! What a job is made of, as flags.

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::cli::CliError;
use crate::cron::schedule::parse_at;
use crate::support::json;

/// Flags that say what a job is, or what changes of it.
#[derive(Debug, Default, Args)]
#[allow(clippy::struct_excessive_bools)] // flags of a command line
pub struct JobFlags {
    /// Name for people
    #[arg(long)]
    pub name: Option<String>,
    /// For people
    #[arg(long)]
    description: Option<String>,
    /// Run once: an ISO 8601 time, or a time from now such as 20m
    #[arg(long, value_name = "WHEN", group = "schedule")]
    at: Option<String>,
    /// Run again and again, such as every 10m or 1d
    #[arg(long, value_name = "TIME", group = "schedule")]
    every: Option<String>,
    /// Run by the calendar: five fields, six with seconds, seven with a year
    #[arg(long, value_name = "EXPR", group = "schedule")]
    cron: Option<String>,
    /// Time zone of --cron, or of an --at without an offset, such as Europe/Paris
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Spread --cron over so long, such as 5m
    #[arg(long, value_name = "TIME", conflicts_with = "exact")]
    stagger: Option<String>,
    /// Run --cron to the second
    #[arg(long)]
    exact: bool,
    /// main, isolated, current or session:<key>
    #[arg(long, value_name = "TARGET", value_parser = target)]
    session: Option<String>,
    /// The session that the job is told about
    #[arg(long, value_name = "KEY")]
    session_key: Option<String>,
    /// Whose job it is
    #[arg(long)]
    agent: Option<String>,
    /// Ask the agent this
    #[arg(long, group = "payload")]
    message: Option<String>,
    /// Tell the main session this
    #[arg(long, value_name = "TEXT", group = "payload")]
    system_event: Option<String>,
    /// The model that answers --message
    #[arg(long)]
    model: Option<String>,
    /// Models that answer when that one cannot, with commas; "" is none
    #[arg(long, value_name = "MODELS", value_delimiter = ',')]
    fallbacks: Option<Vec<String>>,
    /// Leave the files of the workspace out of the prompt
    #[arg(long)]
    light_context: bool,
    /// How hard it thinks
    #[arg(long)]
    thinking: Option<String>,
    /// Stop a run after so many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout_seconds: Option<f64>,
    /// The tools that a run may use, with commas
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    tools: Vec<String>,
    /// When the main session hears of it
    #[arg(long, value_name = "MODE", value_parser = ["now", "next-heartbeat"])]
    wake: Option<String>,
    /// Announce answers in a chat
    #[arg(long, alias = "deliver", group = "delivery")]
    announce: bool,
    /// Post answers to a web server
    #[arg(long, value_name = "URL", group = "delivery")]
    webhook: Option<String>,
    /// Tell answers to nobody
    #[arg(long, group = "delivery")]
    no_deliver: bool,
    /// The channel of --announce
    #[arg(long)]
    channel: Option<String>,
    /// The chat, or the session, of --announce
    #[arg(long)]
    to: Option<String>,
    /// The thread or topic there
    #[arg(long, value_name = "ID")]
    thread_id: Option<String>,
    /// The account of the channel that sends
    #[arg(long, value_name = "ID")]
    account: Option<String>,
    /// A run counts as done when nobody could be told
    #[arg(long)]
    best_effort_deliver: bool,
    /// Tell of failures after so many in a row
    #[arg(long, value_name = "COUNT", conflicts_with = "no_failure_alert")]
    failure_alert_after: Option<u64>,
    /// Tell nobody of failures
    #[arg(long)]
    no_failure_alert: bool,
    /// Remove the job once it has run well
    #[arg(long, conflicts_with = "keep_after_run")]
    delete_after_run: bool,
    /// Keep the job once it has run
    #[arg(long)]
    keep_after_run: bool,
    /// What becomes of missed times: run, skip, or a time such as 30m
    #[arg(long, value_name = "POLICY")]
    missed: Option<String>,
}

impl JobFlags {
    /// The members of a job that these flags name. `now` is in milliseconds
    /// since the epoch.
    ///
    /// # Errors
    /// When a time cannot be read, a text is empty, or flags do not fit together.
    pub fn members(&self, now: u64) -> Result<Map<String, Value>, CliError> {
        for (flag, value) in [
            ("--name", &self.name),
            ("--message", &self.message),
            ("--system-event", &self.system_event),
        ] {
            if value.as_ref().is_some_and(|text| text.trim().is_empty()) {
                return Err(CliError::Usage(format!("{flag}: give a text")));
            }
        }
        let mut job = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                job.insert(name.to_owned(), value);
            }
        };
        let text = |value: &Option<String>| value.clone().map(Value::from);
        set("name", text(&self.name));
        set("description", text(&self.description));
        set("agentId", text(&self.agent));
        set("sessionKey", text(&self.session_key));
        set("sessionTarget", text(&self.session));
        set("wakeMode", text(&self.wake));
        set("missed", text(&self.missed));
        set("schedule", self.schedule(now)?);
        set("payload", self.payload());
        set("delivery", self.delivery());
        let alert = self.failure_alert_after.map(|after| json!({"after": after}));
        set("failureAlert", alert.or(self.no_failure_alert.then_some(false.into())));
        let after_run = self.delete_after_run.then_some(true);
        let after_run = after_run.or(self.keep_after_run.then_some(false));
        set("deleteAfterRun", after_run.map(Value::from));
        Ok(job)
    }

    /// Whether they say when it runs.
    pub const fn has_schedule(&self) -> bool {
        self.at.is_some() || self.every.is_some() || self.cron.is_some()
    }

    /// Whether they say what it does.
    pub const fn has_payload(&self) -> bool {
        self.message.is_some() || self.system_event.is_some()
    }

    /// Of a calendar what is named, which may be less than the whole.
    fn schedule(&self, now: u64) -> Result<Option<Value>, CliError> {
        self.check_schedule()?;
        if let Some(at) = &self.at {
            return Ok(Some(json!({"kind": "at", "at": self.moment(at, now)?})));
        }
        if let Some(every) = &self.every {
            let every = duration(every).filter(|time| *time > 0);
            let every = every.ok_or_else(|| no_time("--every"))?;
            return Ok(Some(json!({"kind": "every", "everyMs": every})));
        }
        let stagger = self.stagger.as_ref();
        let stagger = stagger.map(|it| duration(it).ok_or_else(|| no_time("--stagger")));
        let stagger = stagger.transpose()?.or_else(|| self.exact.then_some(0));
        let mut calendar = Map::new();
        for (name, value) in [
            ("expr", self.cron.clone().map(Value::from)),
            ("tz", self.tz.clone().map(Value::from)),
            ("staggerMs", stagger.map(Value::from)),
        ] {
            calendar.extend(value.map(|value| (name.to_owned(), value)));
        }
        if calendar.is_empty() {
            return Ok(None);
        }
        calendar.insert("kind".into(), "cron".into());
        Ok(Some(Value::Object(calendar)))
    }

    /// Refuses flags that would mean nothing.
    fn check_schedule(&self) -> Result<(), CliError> {
        let is_no_calendar = self.at.is_some() || self.every.is_some();
        let wrong = if self.every.is_some() && self.tz.is_some() {
            "--tz is only valid with --cron or offset-less --at"
        } else if is_no_calendar && (self.stagger.is_some() || self.exact) {
            "--stagger/--exact are only valid for cron schedules"
        } else {
            return Ok(());
        };
        Err(CliError::Usage(wrong.to_owned()))
    }

    /// The moment of `--at`, which without an offset is one of the zone of `--tz`.
    fn moment(&self, at: &str, now: u64) -> Result<String, CliError> {
        let at = at.trim();
        let zone = self.tz.as_deref().map(str::trim).filter(|zone| !zone.is_empty());
        if let Some(zone) = zone.filter(|zone| TimeZone::get(zone).is_err()) {
            return Err(CliError::Usage(format!(
                "--tz: unknown time zone \"{zone}\"; use an IANA name such as Europe/Paris"
            )));
        }
        if let Some(time) = duration(at.trim_start_matches('+')) {
            return Ok(now.saturating_add(time).to_string());
        }
        let is_clear = at.contains('[') || at.parse::<Timestamp>().is_ok();
        let zone = zone.filter(|_| !is_clear);
        let moment = zone.and_then(|zone| parse_at(&format!("{at}[{zone}]")));
        // What cannot be read the gateway refuses.
        Ok(moment.map_or_else(|| at.to_owned(), |moment| moment.to_string()))
    }

    fn payload(&self) -> Option<Value> {
        if let Some(text) = &self.system_event {
            return Some(json!({"kind": "systemEvent", "text": text}));
        }
        let mut turn = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                turn.insert(name.to_owned(), value);
            }
        };
        set("message", self.message.clone().map(Value::from));
        set("model", self.model.clone().map(Value::from));
        let named = |names: &Vec<String>| {
            json!(names.iter().filter(|it| !it.is_empty()).collect::<Vec<_>>())
        };
        set("fallbacks", self.fallbacks.as_ref().map(named));
        set("lightContext", self.light_context.then_some(true.into()));
        set("thinking", self.thinking.clone().map(Value::from));
        set("timeoutSeconds", self.timeout_seconds.map(Value::from));
        // With spaces between them they are one argument.
        let tools = self.tools.iter().flat_map(|names| names.split_whitespace());
        let tools: Vec<_> = tools.collect();
        set("toolsAllow", (!tools.is_empty()).then(|| json!(tools)));
        if turn.is_empty() {
            return None;
        }
        turn.insert("kind".into(), "agentTurn".into());
        Some(Value::Object(turn))
    }

    fn delivery(&self) -> Option<Value> {
        let mut delivery = Map::new();
        let has_target = [&self.channel, &self.to, &self.thread_id].iter().any(|it| it.is_some());
        let mode = if self.no_deliver {
            Some("none")
        } else if self.webhook.is_some() {
            Some("webhook")
        } else if self.announce || has_target {
            Some("announce")
        } else {
            None
        };
        if let Some(mode) = mode {
            delivery.insert("mode".into(), mode.into());
        }
        for (name, value) in [
            ("channel", &self.channel),
            ("accountId", &self.account),
            ("threadId", &self.thread_id),
            ("to", self.webhook.as_ref().map_or(&self.to, |_| &self.webhook)),
        ] {
            if let Some(value) = value {
                delivery.insert(name.into(), value.as_str().into());
            }
        }
        if self.best_effort_deliver {
            delivery.insert("bestEffort".into(), true.into());
        }
        (!delivery.is_empty()).then_some(Value::Object(delivery))
    }
}

/// Flags of what can only change.
#[derive(Debug, Default, Args)]
#[allow(clippy::struct_excessive_bools)] // flags of a command line
pub struct EditFlags {
    /// Turn it on
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// Turn it off
    #[arg(long)]
    disable: bool,
    /// Make it a job of the default agent
    #[arg(long, conflicts_with = "agent")]
    clear_agent: bool,
    /// Tell it about no session
    #[arg(long, conflicts_with = "session_key")]
    clear_session_key: bool,
    /// Let a run use every tool
    #[arg(long, conflicts_with = "tools")]
    clear_tools: bool,
    /// Put the files of the workspace into the prompt
    #[arg(long, conflicts_with = "light_context")]
    no_light_context: bool,
    /// A run fails when nobody could be told
    #[arg(long, conflicts_with = "best_effort_deliver")]
    no_best_effort_deliver: bool,
    /// Tell of failures in a row, as the config says where nothing else does
    #[arg(long, conflicts_with = "no_failure_alert")]
    failure_alert: bool,
    /// The channel that hears of them
    #[arg(long, value_name = "CHANNEL", conflicts_with = "no_failure_alert")]
    failure_alert_channel: Option<String>,
    /// The chat there that does, or the web server
    #[arg(long, value_name = "TO", conflicts_with = "no_failure_alert")]
    failure_alert_to: Option<String>,
    /// The account of the channel that tells
    #[arg(long, value_name = "ID", conflicts_with = "no_failure_alert")]
    failure_alert_account_id: Option<String>,
    /// Whether a channel hears of them, or a web server
    #[arg(long, value_name = "MODE", conflicts_with = "no_failure_alert",
        value_parser = ["announce", "webhook"])]
    failure_alert_mode: Option<String>,
    /// Not again for so long, such as 1h
    #[arg(long, value_name = "TIME", conflicts_with = "no_failure_alert", value_parser = span)]
    failure_alert_cooldown: Option<u64>,
    /// Count runs that were skipped
    #[arg(long, conflicts_with_all = ["no_failure_alert", "failure_alert_exclude_skipped"])]
    failure_alert_include_skipped: bool,
    /// Do not count them
    #[arg(long, conflicts_with = "no_failure_alert")]
    failure_alert_exclude_skipped: bool,
}

impl EditFlags {
    /// Adds to a patch what these flags name.
    pub fn add_to(&self, patch: &mut Map<String, Value>) {
        if self.enable || self.disable {
            patch.insert("enabled".into(), self.enable.into());
        }
        for (name, is_cleared) in
            [("agentId", self.clear_agent), ("sessionKey", self.clear_session_key)]
        {
            if is_cleared {
                patch.insert(name.into(), Value::Null);
            }
        }
        for (name, is_meant, value) in [
            ("toolsAllow", self.clear_tools, Value::Null),
            ("lightContext", self.no_light_context, false.into()),
        ] {
            if is_meant {
                let turn = || json!({"kind": "agentTurn"});
                patch.entry("payload").or_insert_with(turn)[name] = value;
            }
        }
        if self.no_best_effort_deliver {
            patch.entry("delivery").or_insert_with(|| json!({}))["bestEffort"] = false.into();
        }
        let rules = self.alert();
        if (self.failure_alert || !rules.is_empty())
            && let Some(alert) =
                patch.entry("failureAlert").or_insert_with(|| json!({})).as_object_mut()
        {
            alert.extend(rules);
        }
    }

    /// How failures are told, beside after how many.
    fn alert(&self) -> Map<String, Value> {
        let text = |value: &Option<String>| value.clone().map(Value::from);
        let includes = self.failure_alert_include_skipped;
        let is_said = includes || self.failure_alert_exclude_skipped;
        let channel = self.failure_alert_channel.as_ref();
        let rules = [
            ("channel", channel.map(|channel| channel.trim().to_lowercase().into())),
            ("to", text(&self.failure_alert_to)),
            ("accountId", text(&self.failure_alert_account_id)),
            ("mode", text(&self.failure_alert_mode)),
            ("cooldownMs", self.failure_alert_cooldown.map(Value::from)),
            ("includeSkipped", is_said.then_some(includes.into())),
        ];
        let rules = rules.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        rules.collect()
    }
}

fn no_time(flag: &str) -> CliError {
    CliError::Usage(format!("{flag}: give a time such as 90s, 10m, 2h or 1d"))
}

/// Reads `--failure-alert-cooldown`.
fn span(text: &str) -> Result<u64, String> {
    duration(text).ok_or_else(|| "give a time such as 90s, 10m, 2h or 1d".to_owned())
}

/// Reads `--session`.
fn target(text: &str) -> Result<String, String> {
    let is_key = text.strip_prefix("session:").is_some_and(|key| !key.trim().is_empty());
    if is_key || ["main", "isolated", "current"].contains(&text) {
        Ok(text.to_owned())
    } else {
        Err("give main, isolated, current or session:<key>".to_owned())
    }
}

fn duration(text: &str) -> Option<u64> {
    // A bare number is a year or a mistake, not a time.
    let text = text.trim().to_lowercase();
    let has_unit = text.ends_with(|letter: char| letter.is_ascii_alphabetic());
    crate::config::duration_or_zero(&text).filter(|_| has_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_the_members_of_a_job() {
        let flags = JobFlags {
            name: Some("tea".into()),
            at: Some("20m".into()),
            message: Some("make tea".into()),
            tools: vec!["read exec".into()],
            fallbacks: Some(vec![String::new()]),
            light_context: true,
            no_failure_alert: true,
            to: Some("desk".into()),
            ..JobFlags::default()
        };
        assert_eq!(
            Value::Object(flags.members(1000).unwrap()),
            json!({"name": "tea", "schedule": {"kind": "at", "at": "1201000"},
                "payload": {"message": "make tea", "fallbacks": [], "lightContext": true,
                    "toolsAllow": ["read", "exec"], "kind": "agentTurn"},
                "failureAlert": false,
                "delivery": {"mode": "announce", "to": "desk"}})
        );
        let exact = JobFlags { cron: Some("0 * * * *".into()), exact: true, ..JobFlags::default() };
        assert_eq!(exact.members(0).unwrap()["schedule"]["staggerMs"], 0);
        assert!(JobFlags::default().members(0).unwrap().is_empty());
        let wrong = JobFlags { every: Some("often".into()), ..JobFlags::default() };
        assert!(wrong.members(0).unwrap_err().to_string().contains("--every"));
    }

    #[test]
    fn a_moment_without_an_offset_is_one_of_the_zone_that_is_named() {
        let at = |at: &str, tz: &str| {
            let (at, tz) = (Some(at.into()), Some(tz.into()));
            let flags = JobFlags { at, tz, ..JobFlags::default() };
            let schedule = flags.members(0).map(|job| job["schedule"]["at"].clone());
            let at = schedule.map(|at| at.as_str().unwrap().to_owned());
            at.map(|at| parse_at(&at).unwrap_or_default()).map_err(|error| error.to_string())
        };
        let moment = |text: &str| Ok(parse_at(text).unwrap());
        for (written, zone, meant) in [
            ("2026-12-25T09:00", "Europe/Paris", "2026-12-25T08:00Z"),
            ("2026-12-25 09:00:30", "America/New_York", "2026-12-25T14:00:30Z"),
            ("2026-12-25", "Asia/Tokyo", "2026-12-24T15:00Z"),
            ("2026-12-25T09:00Z", "Europe/Paris", "2026-12-25T09:00Z"),
            ("2026-12-25T09:00-03:00", "Europe/Paris", "2026-12-25T12:00Z"),
            ("2026-12-25T09:00[Asia/Tokyo]", "Europe/Paris", "2026-12-25T00:00Z"),
            ("2026-12-25T09:00", "", "2026-12-25T09:00Z"),
        ] {
            assert_eq!(at(written, zone), moment(meant), "{written} {zone}");
        }
        let unknown = at("2026-12-25T09:00", "Nowhere/Foo").unwrap_err();
        assert!(unknown.contains("unknown time zone \"Nowhere/Foo\""), "{unknown}");
    }

    #[test]
    fn flags_that_would_mean_nothing_are_refused() {
        let every = || JobFlags { every: Some("1h".into()), ..JobFlags::default() };
        let at = || JobFlags { at: Some("20m".into()), ..JobFlags::default() };
        let zoned = JobFlags { tz: Some("Asia/Tokyo".into()), ..every() };
        let spread = JobFlags { stagger: Some("5m".into()), ..at() };
        let exact = JobFlags { exact: true, ..every() };
        let never = JobFlags { every: Some("0s".into()), ..JobFlags::default() };
        let silent = JobFlags { message: Some(" ".into()), ..every() };
        for (flags, flag) in [
            (zoned, "--tz is only valid with"),
            (spread, "--stagger/--exact are only valid"),
            (exact, "--stagger/--exact are only valid"),
            (never, "--every: give a time"),
            (silent, "--message: give a text"),
        ] {
            let told = flags.members(0).unwrap_err().to_string();
            assert!(told.starts_with(flag), "{flag}: {told}");
        }
        assert!(target("isolate").is_err() && target("session:").is_err());
        assert_eq!(target("session:a").as_deref(), Ok("session:a"));
    }
}
