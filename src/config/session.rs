//! The `session` section.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::maintenance::{self, MaintenanceSettings};
use super::reset::{self, ResetSettings};
use super::schema::Node;
use crate::support::sort;

/// How conversations are keyed and kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSettings {
    /// Name of an agent's main session.
    pub main_key: String,
    /// Whether people share one session.
    pub scope: SessionScope,
    /// Which direct messages of channels share a session.
    pub dm_scope: DmScope,
    /// People who write from several places: a name, and `channel:peer` or
    /// `peer` for each place.
    pub identity_links: BTreeMap<String, Vec<String>>,
    /// Format of new transcripts; a transcript keeps the one it began in.
    pub transcript_format: TranscriptFormat,
    /// When a session begins anew by itself.
    pub reset: ResetSettings,
    /// What becomes of old sessions and transcripts.
    pub maintenance: MaintenanceSettings,
    /// When channels show that an agent is typing, if it is said.
    pub typing: Option<TypingMode>,
    /// Where an OpenClaw with this file has its index, with `{agentId}` for the agent; we
    /// only take over what is there.
    pub openclaw_store: Option<String>,
}

/// When a channel shows that an agent is typing; the words of the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypingMode {
    /// Not at all.
    Never,
    /// As soon as a message is being answered.
    Instant,
    /// Once the model thinks.
    Thinking,
    /// Once there is something of the answer.
    Message,
}

impl TypingMode {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "never" => Some(Self::Never),
            "instant" => Some(Self::Instant),
            "thinking" => Some(Self::Thinking),
            "message" => Some(Self::Message),
            _ => None,
        }
    }
}

/// Who shares a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionScope {
    /// Each sender has their own.
    PerSender,
    /// Everybody shares one.
    Global,
}

impl SessionScope {
    /// The name in the config file and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PerSender => "per-sender",
            Self::Global => "global",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::PerSender, Self::Global].into_iter().find(|scope| scope.as_str() == text)
    }
}

impl fmt::Display for SessionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which direct messages share a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DmScope {
    /// All of an agent: they go to its main session.
    #[default]
    Main,
    /// Those of one person, on whatever channel.
    PerPeer,
    /// Those of one person on one channel.
    PerChannelPeer,
    /// Those of one person to one account of a channel.
    PerAccountChannelPeer,
}

impl DmScope {
    const ALL: [Self; 4] =
        [Self::Main, Self::PerPeer, Self::PerChannelPeer, Self::PerAccountChannelPeer];

    /// The name in the config file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::PerPeer => "per-peer",
            Self::PerChannelPeer => "per-channel-peer",
            Self::PerAccountChannelPeer => "per-account-channel-peer",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

impl fmt::Display for DmScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How messages are laid out in a transcript, which keeps the format it began in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TranscriptFormat {
    /// A header, then a tree of entries; what OpenClaw itself reads.
    #[default]
    OpenClaw,
    /// Each line is a bare message.
    Messages,
}

impl TranscriptFormat {
    /// The name in the config file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenClaw => "openclaw",
            Self::Messages => "messages",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::OpenClaw, Self::Messages].into_iter().find(|format| format.as_str() == text)
    }
}

impl fmt::Display for TranscriptFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

pub(super) fn read(
    root: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<SessionSettings, ConfigError> {
    let node = root.member("session")?;
    let main_key = node.member("mainKey")?.text()?.map(|key| key.trim().to_lowercase());
    let main_key = main_key.filter(|key| !key.is_empty());
    let scope = node.member("scope")?.word("per-sender, global", SessionScope::parse)?;
    let dm_scope = node
        .member("dmScope")?
        .word(&DmScope::ALL.map(DmScope::as_str).join(", "), DmScope::parse)?;
    let identity_links = links(&node.member("identityLinks")?)?;
    let names: Vec<_> = identity_links.keys().cloned().collect();
    let names = (!names.is_empty()).then_some(names);
    ledger.settle_list("session.identityLinks", Choice::file(file, names), Vec::new());
    let format =
        node.at("transcript.format")?.word("openclaw, messages", TranscriptFormat::parse)?;
    Ok(SessionSettings {
        typing: typing(root, &node, file, ledger)?,
        main_key: ledger.settle("session.mainKey", Choice::file(file, main_key), "main".into()),
        scope: ledger.settle("session.scope", Choice::file(file, scope), SessionScope::PerSender),
        dm_scope: ledger.settle("session.dmScope", Choice::file(file, dm_scope), DmScope::Main),
        identity_links,
        transcript_format: ledger.settle(
            "session.transcript.format",
            Choice::file(file, format),
            TranscriptFormat::default(),
        ),
        reset: reset::read(&node, file, ledger)?,
        maintenance: maintenance::read(&node.member("maintenance")?, file, ledger)?,
        openclaw_store: node.member("store")?.text()?.filter(|path| !path.trim().is_empty()),
    })
}

/// `typingMode` of `session`, else of `agents.defaults`.
fn typing(
    root: &Node<'_>,
    session: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<Option<TypingMode>, ConfigError> {
    let mut mode = None;
    for (place, key) in [
        (session, "session.typingMode"),
        (&root.at("agents.defaults")?, "agents.defaults.typingMode"),
    ] {
        let node = place.member("typingMode")?;
        let own = node.word("never, instant, thinking, message", TypingMode::parse)?;
        ledger.settle_optional(key, Choice::file(file, node.text()?));
        mode = mode.or(own);
    }
    Ok(mode)
}

fn links(node: &Node<'_>) -> Result<BTreeMap<String, Vec<String>>, ConfigError> {
    let places =
        |name: &String| Ok((name.clone(), node.member(name)?.texts()?.unwrap_or_default()));
    match node.value() {
        None => Ok(BTreeMap::new()),
        Some(Value::Object(members)) => {
            Ok(sort::map(members.keys().map(places).collect::<Result<Vec<_>, ConfigError>>()?))
        }
        Some(_) => Err(node.wrong("must be an object of lists")),
    }
}
