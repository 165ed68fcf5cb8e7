//! How an agent is shown: what is configured, then what `IDENTITY.md` says.

use crate::config::AgentSettings;

use super::{Avatar, FileIdentity};

/// A name and a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Face {
    /// What it is called.
    pub name: String,
    /// Its emoji.
    pub emoji: Option<String>,
    /// Its picture.
    pub picture: Option<Avatar>,
    /// The path of its picture in the workspace, as it is written.
    pub path: Option<String>,
}

impl Face {
    /// Of an agent, which need not be configured, with what its file says.
    pub fn of(known: Option<&AgentSettings>, file: FileIdentity) -> Self {
        let identity = known.map(|agent| agent.identity.clone()).unwrap_or_default();
        let name = identity
            .name
            .or(file.name)
            .or_else(|| known.and_then(|agent| agent.name.clone()))
            .unwrap_or_else(|| "Assistant".into());
        let written = identity.avatar.as_deref();
        Self {
            name,
            emoji: identity.emoji.or(file.emoji),
            picture: written.and_then(Avatar::parse).or(file.avatar),
            path: written.map(ToOwned::to_owned).or(file.avatar_path),
        }
    }

    /// What a client shows where the picture goes: it, the emoji, the first letter.
    pub fn shown(&self) -> String {
        let initial = || self.name.chars().next().map(|first| first.to_uppercase().to_string());
        let picture = self.picture.as_ref().map(|picture| picture.source().to_owned());
        picture.or_else(|| self.emoji.clone()).or_else(initial).unwrap_or_else(|| "A".into())
    }
}
