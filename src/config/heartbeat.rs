//! `agents.defaults.heartbeat` and `agents.list[].heartbeat`: how often an
//! agent is asked whether something is to be done.

use std::path::Path;

use jiff::tz::TimeZone;

use super::agent_id::id_of;
use super::explain::{Choice, Ledger};
use super::maintenance::{MINUTES, duration_or_zero};
use super::profiles::ProfilesConfig;
use super::schema::Node;
use super::{AgentsSettings, ConfigError};

/// What an agent is asked, in the words of the original.
pub const HEARTBEAT_PROMPT: &str = "Read HEARTBEAT.md if it exists (workspace context). Follow it \
    strictly. Do not infer or repeat old tasks from prior chats. If nothing needs attention, reply \
    HEARTBEAT_OK.";
/// How often an agent is asked where nobody says so, as in the original.
const DEFAULT_EVERY: (&str, u64) = ("30m", 30 * 60_000);
/// The same where Anthropic is asked by a person's login, which has narrow limits.
const LOGIN_EVERY: (&str, u64) = ("1h", 60 * 60_000);
/// As in the original.
const DEFAULT_ACK_MAX_CHARS: usize = 300;
/// Longer acknowledgements would hide what is worth reading.
const ACK_MAX_CHARS_MAX: u64 = 10_000;
const CLOCK: &str = "a time of the day such as 08:00 (24:00 is the end of the day)";

/// How often one agent is asked, and what becomes of the answer.
#[derive(Debug, Clone)]
pub struct HeartbeatSettings {
    /// The agent.
    pub agent_id: String,
    /// How often, as it is written.
    pub every: String,
    /// The same in milliseconds; `None` is never, but when somebody wakes it.
    pub every_ms: Option<u64>,
    /// What it is asked.
    pub prompt: String,
    /// Where an answer goes that says something: `none`, `last` or a channel.
    pub target: String,
    /// A chat of the channel, or a session.
    pub to: Option<String>,
    /// The model that answers, when it is not the agent's.
    pub model: Option<String>,
    /// The session; the agent's main session when absent.
    pub session: Option<String>,
    /// So many characters beside `HEARTBEAT_OK` are not worth telling.
    pub ack_max_chars: usize,
    /// The hours in which it is asked by the clock; all when absent.
    pub active_hours: Option<ActiveHours>,
}

impl HeartbeatSettings {
    /// Those where nothing is said: an agent is asked when somebody wakes it.
    pub fn usual() -> Self {
        Self {
            agent_id: String::new(),
            every: "0m".into(),
            every_ms: None,
            prompt: HEARTBEAT_PROMPT.into(),
            target: "none".into(),
            to: None,
            model: None,
            session: None,
            ack_max_chars: DEFAULT_ACK_MAX_CHARS,
            active_hours: None,
        }
    }
}

/// A part of the day.
#[derive(Debug, Clone)]
pub struct ActiveHours {
    /// Its first minute.
    pub start: u16,
    /// The minute after its last one; before `start` it is of the next day.
    pub end: u16,
    /// Where the clock hangs: the user's zone, or this machine's, when absent.
    pub zone: Option<TimeZone>,
}

impl ActiveHours {
    /// Whether a minute of the day is in it.
    pub const fn holds(&self, minute: u16) -> bool {
        if self.start <= self.end {
            self.start <= minute && minute < self.end
        } else {
            self.start <= minute || minute < self.end
        }
    }
}

/// Heartbeats of every agent that has them: of the default one, or of those in
/// the list that say something of it.
pub(super) fn read(
    root: &Node<'_>,
    agents: &AgentsSettings,
    profiles: &ProfilesConfig,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<Vec<HeartbeatSettings>, ConfigError> {
    let usual = if profiles.has_anthropic_login() { LOGIN_EVERY } else { DEFAULT_EVERY };
    let defaults = root.at("agents.defaults.heartbeat")?;
    let every = Choice::file(file, every(&defaults)?.map(|(text, _)| text));
    ledger.settle("agents.defaults.heartbeat.every", every, usual.0.to_owned());
    let mut own = Vec::new();
    for item in root.at("agents.list")?.items()? {
        let node = item.member("heartbeat")?;
        if let (true, Some(id)) = (node.is_set(), item.member("id")?.text()?) {
            own.push(of_agent(&id_of(&id), &defaults, Some(&node), usual)?);
        }
    }
    if own.is_empty() {
        own.push(of_agent(&agents.default_id, &defaults, None, usual)?);
    }
    Ok(own)
}

/// How an agent is asked that has no heartbeats, when somebody wakes it: as it is said for
/// all. What another agent of the list says is its own.
pub(super) fn of_others(root: &Node<'_>) -> Result<HeartbeatSettings, ConfigError> {
    let never = HeartbeatSettings::usual();
    let said = of_agent("", &root.at("agents.defaults.heartbeat")?, None, DEFAULT_EVERY)?;
    Ok(HeartbeatSettings { every: never.every, every_ms: never.every_ms, ..said })
}

fn of_agent(
    agent_id: &str,
    defaults: &Node<'_>,
    own: Option<&Node<'_>>,
    usual: (&str, u64),
) -> Result<HeartbeatSettings, ConfigError> {
    // What the agent does not say is said for all.
    let member = |name: &str| match own.map(|node| node.member(name)).transpose()? {
        Some(node) if node.is_set() => Ok(node),
        _ => defaults.member(name),
    };
    let text = |name: &str| -> Result<Option<String>, ConfigError> {
        let text = member(name)?.text()?.map(|text| text.trim().to_owned());
        Ok(text.filter(|text| !text.is_empty()))
    };
    let own_every = own.map(every).transpose()?.flatten();
    let (every, every_ms) = match own_every {
        Some(every) => every,
        None => every(defaults)?.unwrap_or((usual.0.to_owned(), usual.1)),
    };
    Ok(HeartbeatSettings {
        agent_id: agent_id.to_owned(),
        every,
        every_ms: Some(every_ms).filter(|time| *time > 0),
        prompt: text("prompt")?.unwrap_or_else(|| HEARTBEAT_PROMPT.to_owned()),
        target: text("target")?.unwrap_or_else(|| "none".to_owned()),
        to: text("to")?,
        model: text("model")?,
        session: text("session")?,
        ack_max_chars: member("ackMaxChars")?
            .bounded(0, ACK_MAX_CHARS_MAX)?
            .unwrap_or(DEFAULT_ACK_MAX_CHARS),
        active_hours: active_hours(&member("activeHours")?)?,
    })
}

fn every(node: &Node<'_>) -> Result<Option<(String, u64)>, ConfigError> {
    // As in the original, an empty text is never.
    let read = |text: &str| {
        let text = if text.is_empty() { "0m" } else { text };
        Some((text.to_owned(), duration_or_zero(text)?))
    };
    node.member("every")?.quantity(MINUTES, read)
}

fn active_hours(node: &Node<'_>) -> Result<Option<ActiveHours>, ConfigError> {
    if !node.is_set() {
        return Ok(None);
    }
    let clock = |name: &str, standard: u16| -> Result<u16, ConfigError> {
        let read = |text: &str| {
            if text.is_empty() { Some(standard) } else { minute_of_day(text) }
        };
        Ok(node.member(name)?.quantity(CLOCK, read)?.unwrap_or(standard))
    };
    let zone_node = node.member("timezone")?;
    let zone = match zone_node.text()?.map(|name| name.trim().to_owned()) {
        None => None,
        Some(name) if matches!(name.as_str(), "" | "user") => None,
        Some(name) if name == "local" => Some(TimeZone::system()),
        // `foreign` tells of one that this machine does not know.
        Some(name) => TimeZone::get(&name).ok(),
    };
    Ok(Some(ActiveHours { start: clock("start", 0)?, end: clock("end", 24 * 60)?, zone }))
}

fn minute_of_day(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let two = |text: &str| text.parse::<u16>().ok().filter(|_| (1..=2).contains(&text.len()));
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    let minute = hours * 60 + minutes;
    (minutes < 60 && minute <= 24 * 60).then_some(minute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, Overrides, Settings, load};
    use crate::support::json;
    use serde_json::Value;

    fn heartbeats(document: &Value) -> Result<Vec<HeartbeatSettings>, String> {
        loaded(document).map(|it| it.heartbeats)
    }

    fn loaded(document: &Value) -> Result<Settings, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("openclaw.json"), document.to_string()).unwrap();
        let state = dir.path().to_str().unwrap();
        let env = Env::fixed([("OPENCLAW_STATE_DIR", state)], dir.path());
        let overrides = Overrides { read_only: true, ..Overrides::default() };
        load(&env, &overrides).map_err(|error| error.to_string())
    }

    #[test]
    fn one_agent_has_heartbeats_unless_some_of_the_list_say_so() {
        let all = heartbeats(&json!({})).unwrap();
        assert_eq!(
            (all.len(), all[0].agent_id.as_str(), all[0].every_ms),
            (1, "main", Some(1_800_000))
        );
        let off = heartbeats(&json!({"agents": {"defaults": {"heartbeat": {"every": "0m"}}}}));
        let off = off.unwrap();
        assert_eq!((off[0].every.as_str(), off[0].every_ms), ("0m", None));
        let empty = json!({"every": "", "activeHours": {"start": "", "timezone": "Mars/Base"}});
        let empty = heartbeats(&json!({"agents": {"defaults": {"heartbeat": empty}}})).unwrap();
        assert_eq!(empty[0].every_ms, None);
        let hours = empty[0].active_hours.as_ref().unwrap();
        assert_eq!((hours.start, hours.end, hours.zone.is_none()), (0, 1440, true));
        let some = heartbeats(&json!({"agents": {
            "defaults": {"heartbeat": {"every": "2h", "target": "last"}},
            "list": [{"id": "main"}, {"id": "Ops", "heartbeat": {"every": 5}}]}}));
        let some = some.unwrap();
        assert_eq!(some.len(), 1);
        assert_eq!((some[0].agent_id.as_str(), some[0].every_ms), ("ops", Some(300_000)));
        assert_eq!(some[0].target, "last");
    }

    #[test]
    fn with_a_login_to_anthropic_an_agent_is_asked_each_hour() {
        let profile = |provider: &str, mode: &str| json!({"provider": provider, "mode": mode});
        let (key, login) = (profile("anthropic", "api_key"), profile("Anthropic", "token"));
        let other = profile("openai", "oauth");
        for (profiles, order, expected) in [
            (json!({"a": key}), json!({}), "30m"),
            (json!({"a": login}), json!({}), "1h"),
            (json!({"a": profile("claude-cli", "oauth")}), json!({}), "1h"),
            (json!({"a": other}), json!({}), "30m"),
            (json!({"a": login, "b": key}), json!({}), "30m"),
            (json!({"a": login, "b": key}), json!({"anthropic": ["a", "b"]}), "1h"),
            (json!({"a": login, "b": key}), json!({"anthropic": ["gone", "b", "a"]}), "30m"),
        ] {
            let auth = json!({"profiles": profiles, "order": order});
            let usual = heartbeats(&json!({"auth": auth})).unwrap().remove(0);
            assert_eq!(usual.every, expected, "{auth}");
            let expected_ms = if expected == "1h" { 3_600_000 } else { 1_800_000 };
            assert_eq!(usual.every_ms, Some(expected_ms), "{auth}");
            let heartbeat = json!({"every": "5m"});
            let said = json!({"auth": auth, "agents": {"defaults": {"heartbeat": heartbeat}}});
            assert_eq!(heartbeats(&said).unwrap()[0].every, "5m");
        }
    }

    #[test]
    fn an_agent_without_heartbeats_has_nothing_of_another_one() {
        let document = json!({"agents": {"defaults": {"heartbeat": {"target": "last"}},
            "list": [{"id": "main"}, {"id": "ops", "heartbeat":
                {"target": "telegram", "to": "-100", "model": "x/y"}}]}});
        let loaded = loaded(&document).unwrap();
        let (ops, others) = (&loaded.heartbeats[0], &loaded.heartbeat_of_others);
        assert_eq!((ops.target.as_str(), ops.to.as_deref()), ("telegram", Some("-100")));
        assert_eq!((others.target.as_str(), others.to.as_deref()), ("last", None));
        assert_eq!((others.model.as_deref(), others.every_ms), (None, None));
    }

    #[test]
    fn active_hours_may_go_past_midnight() {
        let hours = |start: &str, end: &str| {
            let all = heartbeats(&json!({"agents": {"defaults": {"heartbeat":
                {"activeHours": {"start": start, "end": end, "timezone": "UTC"}}}}}));
            all.unwrap()[0].active_hours.clone().unwrap()
        };
        let day = hours("08:00", "22:30");
        assert!(day.holds(480) && day.holds(1349) && !day.holds(1350) && !day.holds(0));
        let night = hours("22:00", "06:00");
        assert!(night.holds(1320) && night.holds(0) && !night.holds(360));
        assert!(hours("00:00", "24:00").holds(1439));
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_it() {
        for (wrong, key) in [
            (json!({"every": "often"}), "heartbeat.every"),
            (json!({"activeHours": {"start": "8"}}), "activeHours.start"),
            (json!({"activeHours": {"end": "24:01"}}), "activeHours.end"),
            (json!({"ackMaxChars": -1}), "heartbeat.ackMaxChars"),
        ] {
            let error = heartbeats(&json!({"agents": {"defaults": {"heartbeat": wrong}}}));
            let error = error.unwrap_err();
            assert!(error.contains(key), "{error} names {key}");
        }
    }
}
