//! The `channels` section, and `bindings`: by which chat services people reach
//! which agent.
//!
//! Owns: the shape of both, as OpenClaw writes them, and their bounds.
//! Promises: unknown channels are kept and left alone; no secret shows up in
//! `Debug`. Must not: look a secret up; that is done when a channel starts.

mod access;
mod account;
mod binding;
mod clash;
mod paths;

pub use access::{AccessSettings, DmPolicy, GroupPolicy, GroupSettings, PeerId};
pub use account::{
    ChannelAccount, ChannelKind, ChannelWay, ChunkMode, ReplyToMode, TelegramSettings,
    WebhookSettings, check_call_secret,
};
pub use binding::{Binding, BoundPeer};
pub use paths::{OWN_FOLDERS, OWN_PATHS};

use serde_json::Value;

use super::ConfigError;
use super::document::ConfigIssue;
use super::schema::Node;

/// What is set for channels.
#[derive(Debug, Clone, Default)]
pub struct ChannelsSettings {
    /// The accounts of all channels, by channel and id.
    pub accounts: Vec<ChannelAccount>,
    /// Which agent answers whom; the first that fits best.
    pub bindings: Vec<Binding>,
    /// `commands.ownerAllowFrom`: who may do by a chat what an admin may, as
    /// `channel:id`.
    pub owners: Vec<String>,
}

impl ChannelsSettings {
    /// The accounts of one channel.
    pub fn of(&self, kind: ChannelKind) -> impl Iterator<Item = &ChannelAccount> {
        self.accounts.iter().filter(move |account| account.kind == kind)
    }

    /// The channels that are configured, in the order in which they are listed.
    pub fn kinds(&self) -> impl Iterator<Item = ChannelKind> {
        ChannelKind::ALL.into_iter().filter(|kind| self.of(*kind).next().is_some())
    }

    /// Whether somebody may do by a chat what an admin may: who is named with the channel, or,
    /// as in OpenClaw, by an id alone, which is one of Telegram: who calls a webhook says
    /// itself what the ids of its people are. Everybody never may.
    pub fn is_owner(&self, kind: ChannelKind, id: &str) -> bool {
        let whole = format!("{}:{id}", kind.as_str());
        let is_it = |owner: &str| owner == whole || (kind == ChannelKind::Telegram && owner == id);
        !id.is_empty() && id != "*" && self.owners.iter().any(|owner| is_it(owner.trim()))
    }

    /// The accounts that are turned on and cannot be used: where they are, and why.
    pub fn unusable(&self) -> Vec<ConfigIssue> {
        let enabled = self.accounts.iter().filter(|account| account.enabled);
        let issues = enabled.filter_map(|account| {
            let message = account.way.as_ref().err()?.clone();
            Some(ConfigIssue { path: account.place(), message })
        });
        issues.collect()
    }

    /// One account; the default one of its channel when no id is given.
    pub fn account(&self, kind: ChannelKind, id: Option<&str>) -> Option<&ChannelAccount> {
        let id = id.map(str::trim).filter(|id| !id.is_empty());
        match id {
            Some(id) => self.of(kind).find(|account| account.id == id),
            None => self.of(kind).find(|it| it.is_default).or_else(|| self.of(kind).next()),
        }
    }
}

/// Reads both sections.
pub(super) fn read(root: &Node<'_>) -> Result<ChannelsSettings, ConfigError> {
    let node = root.member("channels")?;
    let mut accounts = Vec::new();
    for kind in ChannelKind::ALL {
        accounts.extend(account::read(&node.member(kind.as_str())?, kind)?);
    }
    clash::part(&mut accounts);
    let owners = root.member("commands")?.member("ownerAllowFrom")?.items()?;
    let owners = owners.iter().map(|owner| match owner.value() {
        Some(Value::Number(id)) => Ok(id.to_string()),
        _ => owner.required_text(),
    });
    Ok(ChannelsSettings {
        accounts,
        bindings: binding::read(&root.member("bindings")?)?,
        owners: owners.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests;
