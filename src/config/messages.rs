//! The `messages` section: what happens to a message that comes while another
//! one is being answered.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::{MAX_INTEGER, Node};

/// The modes for error texts.
const MODES: &str = "steer, queue, followup, collect, steer+backlog, interrupt";
/// As in the original.
const DEFAULT_DEBOUNCE_MS: u64 = 500;
/// As in the original.
const DEFAULT_CAP: usize = 20;
/// As in the original.
const DEFAULT_HISTORY_LIMIT: usize = 50;
/// Which messages get a reaction; the first as in the original.
const ACK_SCOPES: [&str; 6] = [DEFAULT_ACK_SCOPE, "group-all", "direct", "all", "off", "none"];
const DEFAULT_ACK_SCOPE: &str = "group-mentions";
/// Nobody waits longer than a day for quiet.
const DEBOUNCE_MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// What is said to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessagesSettings {
    /// Messages to a session that is busy.
    pub queue: QueueSettings,
    /// How many messages of a group before one to the agent it is told.
    pub history_limit: usize,
    /// What stands before answers in chats.
    pub response_prefix: Option<String>,
    /// The reaction of a channel to a message that is being answered; empty for none.
    pub ack_reaction: Option<String>,
    /// Which messages get it, in the word of the file.
    pub ack_scope: &'static str,
}

impl Default for MessagesSettings {
    fn default() -> Self {
        Self {
            queue: QueueSettings::default(),
            history_limit: DEFAULT_HISTORY_LIMIT,
            response_prefix: None,
            ack_reaction: None,
            ack_scope: DEFAULT_ACK_SCOPE,
        }
    }
}

/// How messages to a busy session are handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// Where nothing else is said.
    pub mode: QueueMode,
    /// For messages of these channels; chats over the gateway are `webchat`.
    pub by_channel: BTreeMap<String, QueueMode>,
    /// Milliseconds without a further message before collected ones are answered.
    pub debounce_ms: u64,
    /// The same for messages of these channels.
    pub debounce_by_channel: BTreeMap<String, u64>,
    /// Most messages that wait for turns of their own.
    pub cap: usize,
    /// Which message gives way beyond that.
    pub drop: DropPolicy,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            mode: QueueMode::Steer,
            by_channel: BTreeMap::new(),
            debounce_ms: DEFAULT_DEBOUNCE_MS,
            debounce_by_channel: BTreeMap::new(),
            cap: DEFAULT_CAP,
            drop: DropPolicy::Summarize,
        }
    }
}

/// What happens to a message that comes while a run is active in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueMode {
    /// It goes into the run before the next model call, with all that wait.
    Steer,
    /// The same, one message at each model call.
    Queue,
    /// It gets a run of its own afterwards.
    Followup,
    /// All that wait are answered together afterwards.
    Collect,
    /// It goes into the run and gets a run of its own afterwards.
    SteerBacklog,
    /// The run is stopped for it.
    Interrupt,
}

impl QueueMode {
    const ALL: [Self; 6] = [
        Self::Steer,
        Self::Queue,
        Self::Followup,
        Self::Collect,
        Self::SteerBacklog,
        Self::Interrupt,
    ];

    /// The name in the config file and in a session's entry.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Steer => "steer",
            Self::Queue => "queue",
            Self::Followup => "followup",
            Self::Collect => "collect",
            Self::SteerBacklog => "steer-backlog",
            Self::Interrupt => "interrupt",
        }
    }

    /// A name as a person writes it, in any case; `steer+backlog` is a mode, too.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.trim().to_lowercase().replace(['+', '_'], "-");
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }

    /// Whether the message goes into the run that is active.
    pub const fn is_steering(self) -> bool {
        matches!(self, Self::Steer | Self::Queue | Self::SteerBacklog)
    }

    /// Whether the message waits for a turn after that run.
    pub const fn has_own_turn(self) -> bool {
        matches!(self, Self::Followup | Self::Collect | Self::SteerBacklog)
    }
}

impl fmt::Display for QueueMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which message gives way when too many wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropPolicy {
    /// The one that waits longest.
    Old,
    /// The new one is refused.
    New,
    /// The one that waits longest; the next turn hears what it said.
    Summarize,
}

impl DropPolicy {
    /// The name in the config file and in a session's entry.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
            Self::Summarize => "summarize",
        }
    }

    /// A name as a person writes it, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.trim().to_lowercase();
        [Self::Old, Self::New, Self::Summarize].into_iter().find(|drop| drop.as_str() == name)
    }
}

impl fmt::Display for DropPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

pub(super) fn read(
    root: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<MessagesSettings, ConfigError> {
    let node = root.at("messages.queue")?;
    let standard = QueueSettings::default();
    let mode = node.member("mode")?.word(MODES, QueueMode::parse)?;
    let drop = node.member("drop")?.word("old, new, summarize", DropPolicy::parse)?;
    let debounce = node.member("debounceMs")?.bounded(0, DEBOUNCE_MAX_MS)?;
    let cap = node.member("cap")?.count()?;
    let mut debounce_by_channel = BTreeMap::new();
    for (channel, node) in node.member("debounceMsByChannel")?.members()? {
        if let Some(millis) = node.bounded(0, DEBOUNCE_MAX_MS)? {
            debounce_by_channel.insert(channel.trim().to_lowercase(), millis);
        }
    }
    let key = |name| format!("messages.queue.{name}");
    let queue = QueueSettings {
        mode: ledger.settle(&key("mode"), Choice::file(file, mode), standard.mode),
        by_channel: by_channel(&node.member("byChannel")?)?,
        debounce_ms: ledger.settle(
            &key("debounceMs"),
            Choice::file(file, debounce),
            standard.debounce_ms,
        ),
        debounce_by_channel,
        cap: ledger.settle(&key("cap"), Choice::file(file, cap), standard.cap),
        drop: ledger.settle(&key("drop"), Choice::file(file, drop), standard.drop),
    };
    let shown = queue.by_channel.iter().map(|(channel, mode)| format!("{channel}={mode}"));
    let shown = (!queue.by_channel.is_empty()).then(|| shown.collect());
    ledger.settle_list(&key("byChannel"), Choice::file(file, shown), Vec::new());
    let limit = root.at("messages.groupChat")?.member("historyLimit")?;
    let limit = Choice::file(file, limit.integer_or_zero(MAX_INTEGER)?);
    let history_limit =
        ledger.settle("messages.groupChat.historyLimit", limit, DEFAULT_HISTORY_LIMIT);
    let messages = root.at("messages")?;
    let prefix = Choice::file(file, messages.member("responsePrefix")?.text()?);
    let response_prefix = ledger.settle_optional("messages.responsePrefix", prefix);
    let reaction = Choice::file(file, messages.member("ackReaction")?.text()?);
    let ack_reaction = ledger.settle_optional("messages.ackReaction", reaction);
    let known = |text: &str| ACK_SCOPES.into_iter().find(|scope| *scope == text);
    let scope = messages.member("ackReactionScope")?.word(&ACK_SCOPES.join(", "), known)?;
    let scope = Choice::file(file, scope);
    let ack_scope = ledger.settle("messages.ackReactionScope", scope, DEFAULT_ACK_SCOPE);
    Ok(MessagesSettings { queue, history_limit, response_prefix, ack_reaction, ack_scope })
}

fn by_channel(node: &Node<'_>) -> Result<BTreeMap<String, QueueMode>, ConfigError> {
    let Some(value) = node.value() else { return Ok(BTreeMap::new()) };
    let Value::Object(members) = value else { return Err(node.wrong("must be an object")) };
    let mut modes = BTreeMap::new();
    for channel in members.keys() {
        if let Some(mode) = node.member(channel)?.word(MODES, QueueMode::parse)? {
            modes.insert(channel.to_lowercase(), mode);
        }
    }
    Ok(modes)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn load(queue: &Value) -> Result<QueueSettings, String> {
        let document = json!({ "messages": { "queue": queue } });
        let file = Path::new("x.json");
        read(&Node::root(&document, file), file, &mut Ledger::default())
            .map(|settings| settings.queue)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn modes_have_their_names_and_the_backlog_two() {
        for mode in QueueMode::ALL {
            assert_eq!(QueueMode::parse(mode.as_str()), Some(mode));
        }
        for text in ["steer+backlog", " Steer-Backlog ", "steer_backlog"] {
            assert_eq!(QueueMode::parse(text), Some(QueueMode::SteerBacklog), "{text}");
        }
        assert_eq!(QueueMode::parse("later"), None);
    }

    #[test]
    fn the_section_is_read_and_defaults_are_those_of_the_original() {
        assert_eq!(load(&json!({})).unwrap(), QueueSettings::default());
        let settings = load(&json!({"mode": "collect", "byChannel": {"WebChat": "followup"},
            "debounceMs": 0, "debounceMsByChannel": {"Telegram": 2000}, "cap": 3, "drop": "old"}))
        .unwrap();
        let expected = QueueSettings {
            mode: QueueMode::Collect,
            by_channel: [("webchat".to_owned(), QueueMode::Followup)].into(),
            debounce_ms: 0,
            debounce_by_channel: [("telegram".to_owned(), 2000)].into(),
            cap: 3,
            drop: DropPolicy::Old,
        };
        assert_eq!(settings, expected);
        let long = load(&json!({"debounceMs": 90_000_000})).unwrap();
        assert_eq!(long.debounce_ms, DEBOUNCE_MAX_MS);
    }

    #[test]
    fn how_much_of_a_group_is_told_is_read_and_may_be_nothing() {
        let file = Path::new("x.json");
        let limit = |document: &Value| {
            let read = read(&Node::root(document, file), file, &mut Ledger::default());
            read.map(|settings| settings.history_limit).map_err(|error| error.to_string())
        };
        assert_eq!(limit(&json!({})), Ok(DEFAULT_HISTORY_LIMIT));
        for set in [0, 5] {
            assert_eq!(limit(&json!({"messages": {"groupChat": {"historyLimit": set}}})), Ok(set));
        }
        let error = limit(&json!({"messages": {"groupChat": {"historyLimit": -1}}})).unwrap_err();
        assert!(error.contains("messages.groupChat.historyLimit"), "{error}");
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_it() {
        for (wrong, key) in [
            (json!({"mode": "later"}), "messages.queue.mode: must be one of steer"),
            (json!({"byChannel": {"webchat": 1}}), "messages.queue.byChannel.webchat"),
            (json!({"byChannel": []}), "messages.queue.byChannel: must be an object"),
            (json!({"cap": 0}), "messages.queue.cap"),
            (json!({"debounceMs": -1}), "messages.queue.debounceMs"),
            (json!({"drop": "all"}), "messages.queue.drop"),
        ] {
            let error = load(&wrong).unwrap_err();
            assert!(error.contains(key), "{error} names {key}");
        }
    }
}
