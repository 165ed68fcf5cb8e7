//! What a job is made of, as flags.

use clap::Args;
use serde_json::{Map, Value};

use crate::cli::CliError;
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
    /// Time zone of --cron, such as Europe/Paris
    #[arg(long, value_name = "ZONE", requires = "cron")]
    tz: Option<String>,
    /// Spread --cron over so long, such as 5m
    #[arg(long, value_name = "TIME", requires = "cron", conflicts_with = "exact")]
    stagger: Option<String>,
    /// Run --cron to the second
    #[arg(long, requires = "cron")]
    exact: bool,
    /// main, isolated, current or session:<key>
    #[arg(long, value_name = "TARGET")]
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
    /// now or next-heartbeat
    #[arg(long, value_name = "MODE")]
    wake: Option<String>,
    /// Announce answers in a chat
    #[arg(long, group = "delivery")]
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
    /// When a time cannot be read.
    pub fn members(&self, now: u64) -> Result<Map<String, Value>, CliError> {
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

    fn schedule(&self, now: u64) -> Result<Option<Value>, CliError> {
        if let Some(at) = &self.at {
            let from_now = duration(at.trim_start_matches('+'));
            let at = from_now.map_or_else(|| at.clone(), |time| (now + time).to_string());
            return Ok(Some(json!({"kind": "at", "at": at})));
        }
        if let Some(every) = &self.every {
            return Ok(Some(json!({"kind": "every", "everyMs": millis("--every", every)?})));
        }
        let Some(expr) = &self.cron else { return Ok(None) };
        let mut schedule = json!({"kind": "cron", "expr": expr});
        if let Some(tz) = &self.tz {
            schedule["tz"] = tz.as_str().into();
        }
        match &self.stagger {
            Some(stagger) => schedule["staggerMs"] = millis("--stagger", stagger)?.into(),
            None if self.exact => schedule["staggerMs"] = 0.into(),
            None => {}
        }
        Ok(Some(schedule))
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
        set("toolsAllow", (!self.tools.is_empty()).then(|| json!(self.tools)));
        if turn.is_empty() {
            return None;
        }
        turn.insert("kind".into(), "agentTurn".into());
        Some(Value::Object(turn))
    }

    fn delivery(&self) -> Option<Value> {
        let mut delivery = Map::new();
        let mode = if self.no_deliver {
            Some("none")
        } else if self.webhook.is_some() {
            Some("webhook")
        } else if self.announce || self.channel.is_some() || self.to.is_some() {
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

fn millis(flag: &str, text: &str) -> Result<u64, CliError> {
    duration(text)
        .ok_or_else(|| CliError::Usage(format!("{flag}: give a time such as 90s, 10m, 2h or 1d")))
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
            tools: vec!["read".into()],
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
                    "toolsAllow": ["read"], "kind": "agentTurn"},
                "failureAlert": false,
                "delivery": {"mode": "announce", "to": "desk"}})
        );
        let exact = JobFlags { cron: Some("0 * * * *".into()), exact: true, ..JobFlags::default() };
        assert_eq!(exact.members(0).unwrap()["schedule"]["staggerMs"], 0);
        assert!(JobFlags::default().members(0).unwrap().is_empty());
        let wrong = JobFlags { every: Some("often".into()), ..JobFlags::default() };
        assert!(wrong.members(0).unwrap_err().to_string().contains("--every"));
    }
}
