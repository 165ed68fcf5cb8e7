//! The `session` section.

use std::fmt;
use std::path::Path;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::maintenance::{self, MaintenanceSettings};
use super::reset::{self, ResetSettings};
use super::schema::Node;

/// How conversations are keyed and kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSettings {
    /// Name of an agent's main session.
    pub main_key: String,
    /// Whether people share one session.
    pub scope: SessionScope,
    /// Format of new transcripts; a transcript keeps the one it began in.
    pub transcript_format: TranscriptFormat,
    /// When a session begins anew by itself.
    pub reset: ResetSettings,
    /// What becomes of old sessions and transcripts.
    pub maintenance: MaintenanceSettings,
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

/// How a transcript's lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptFormat {
    /// A header, then a tree of entries, as OpenClaw writes it.
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
    let format =
        node.at("transcript.format")?.word("openclaw, messages", TranscriptFormat::parse)?;
    Ok(SessionSettings {
        main_key: ledger.settle("session.mainKey", Choice::file(file, main_key), "main".into()),
        scope: ledger.settle("session.scope", Choice::file(file, scope), SessionScope::PerSender),
        transcript_format: ledger.settle(
            "session.transcript.format",
            Choice::file(file, format),
            TranscriptFormat::OpenClaw,
        ),
        reset: reset::read(&node, file, ledger)?,
        maintenance: maintenance::read(&node.member("maintenance")?, file, ledger)?,
    })
}
