//! Where a message may go.

use serde_json::Value;

use super::service::Channels;
use super::state::Account;
use super::telegram::Telegram;
use super::webhook::Webhook;
use crate::agent::Hearer;
use crate::config::channels::{ChannelAccount, ChannelKind, PeerId};
use crate::sessions::{SessionEntry, SessionKey, WEBCHAT};
use crate::store::{OutboxAddress, StoreError};

/// Why a message has nowhere to go. Texts as recorded, where they are.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Nobody says by which channel, and there is none.
    #[error("Error: Channel is required (no configured channels detected).")]
    NoChannel,
    /// Nobody says by which channel, and there are several.
    #[error("Error: Channel is required when multiple channels are configured: {0}")]
    SeveralChannels(String),
    /// No such channel is configured.
    #[error("unsupported channel: {0}")]
    Unsupported(String),
    /// Chats with the gateway are no channel.
    #[error(
        "unsupported channel: webchat (internal-only). Use `chat.send` for WebChat UI messages or choose a deliverable channel."
    )]
    Webchat,
    /// The channel has no such account.
    #[error("unknown account {account} of channel {channel}")]
    UnknownAccount {
        /// The channel.
        channel: &'static str,
        /// The account.
        account: String,
    },
    /// Nobody says to whom.
    #[error("Error: Delivering to {0} requires target <id>")]
    NoTarget(&'static str),
    /// An agent may not write there.
    #[error(
        "{0} is not among the people and groups of this channel's configuration (allowFrom, groups, sendTo)"
    )]
    OutOfReach(String),
    /// Who was let in cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A place that a message may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The channel.
    pub kind: ChannelKind,
    /// The place.
    pub address: OutboxAddress,
}

impl Target {
    /// Whether buttons may be under a message there, also while nobody is in touch with it.
    pub const fn takes_buttons(&self) -> bool {
        match self.kind {
            ChannelKind::Telegram => Telegram::HAS_BUTTONS,
            ChannelKind::Webhook => Webhook::HAS_BUTTONS,
        }
    }
}

/// A place in a caller's words.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Id of a channel.
    pub channel: Option<&'a str>,
    /// Which of our accounts there.
    pub account: Option<&'a str>,
    /// Person, group or room.
    pub to: Option<&'a str>,
    /// Thread in it.
    pub thread: Option<&'a str>,
}

/// A text, or a number as a text.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn said(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

impl Channels {
    /// The channel that is meant; the only one when none is named.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn kind(&self, channel: Option<&str>) -> Result<ChannelKind, TargetError> {
        let settings = &self.0.parts.settings.now().channels;
        let Some(name) = said(channel) else {
            let kinds: Vec<_> = settings.kinds().collect();
            return match kinds.as_slice() {
                [] => Err(TargetError::NoChannel),
                [only] => Ok(*only),
                several => {
                    let names: Vec<_> = several.iter().map(|kind| kind.as_str()).collect();
                    Err(TargetError::SeveralChannels(names.join(", ")))
                }
            };
        };
        if name.eq_ignore_ascii_case(WEBCHAT) {
            return Err(TargetError::Webchat);
        }
        let known = ChannelKind::parse(name);
        let known = known.filter(|kind| settings.of(*kind).next().is_some());
        known.ok_or_else(|| TargetError::Unsupported(name.to_lowercase()))
    }

    /// The place that a caller means; the channel's usual one when none is
    /// named.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn target(&self, wanted: &Wanted<'_>) -> Result<Target, TargetError> {
        let kind = self.kind(wanted.channel)?;
        let account = self.found(kind, wanted.account)?;
        let usual = || account.config.access.default_to.as_ref().map(PeerId::as_str);
        let to = said(wanted.to).or_else(usual);
        let to = to.ok_or(TargetError::NoTarget(kind.as_str()))?;
        let (target, topic) = place_of(kind, to);
        let thread = said(wanted.thread).map(str::to_owned).or(topic).unwrap_or_default();
        let (channel, id) = (kind.as_str().to_owned(), account.config.id.clone());
        Ok(Target { kind, address: OutboxAddress { channel, account: id, target, thread } })
    }

    /// The account that is meant.
    pub(super) fn found(
        &self,
        kind: ChannelKind,
        id: Option<&str>,
    ) -> Result<std::sync::Arc<Account>, TargetError> {
        self.find(kind, said(id)).map_err(|_| TargetError::UnknownAccount {
            channel: kind.as_str(),
            account: id.unwrap_or_default().to_owned(),
        })
    }

    /// Where replies of a session go, if a channel is known for it.
    pub fn context_target(&self, entry: &SessionEntry) -> Option<Target> {
        let context = entry.delivery_context.as_ref()?;
        let is_whole = ["channel", "to"].iter().all(|name| text_of(&context[*name]).is_some());
        is_whole.then(|| self.place_of_context(context).ok()).flatten()
    }

    /// The place that `{channel?, to?, accountId?, threadId?}` means, each a text or a number;
    /// what is absent is what is usual.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn place_of_context(&self, context: &Value) -> Result<Target, TargetError> {
        let text = |name: &str| text_of(&context[name]);
        let (channel, account, to, thread) =
            (text("channel"), text("accountId"), text("to"), text("threadId"));
        self.target(&Wanted {
            channel: channel.as_deref(),
            account: account.as_deref(),
            to: to.as_deref(),
            thread: thread.as_deref(),
        })
    }

    /// The same of a session by its key, as far as it can be read.
    pub async fn place_of_session(&self, key: &SessionKey) -> Option<Target> {
        let entry = self.0.parts.sessions.entry(key).await.ok().flatten()?;
        self.context_target(&entry)
    }

    /// The chat of a hearer, if a channel has it now.
    pub fn place_of_hearer(&self, hearer: &Hearer) -> Option<Target> {
        let address = hearer.chat()?.clone();
        let kind = ChannelKind::parse(&address.channel)?;
        self.found(kind, Some(&address.account)).is_ok().then_some(Target { kind, address })
    }

    /// Whether an agent may write to a place by itself: to those that are its own, such as
    /// where its conversation is, and to the people and groups that the configuration names
    /// or an operator has let in.
    ///
    /// # Errors
    /// [`TargetError::OutOfReach`] when it may not.
    pub async fn check_reach(&self, target: &Target, own: &[Target]) -> Result<(), TargetError> {
        let address = &target.address;
        let is_own = own.iter().any(|own| {
            let own = &own.address;
            (&own.channel, &own.account, &own.target)
                == (&address.channel, &address.account, &address.target)
        });
        let account = self.found(target.kind, Some(&address.account))?;
        if is_own || reachable(&account.config, &address.target) {
            return Ok(());
        }
        let (channel, id) = (address.channel.clone(), address.account.clone());
        if self.0.parts.store.is_paired(channel, id, address.target.clone()).await? {
            return Ok(());
        }
        Err(TargetError::OutOfReach(address.target.clone()))
    }
}

/// Whether the configuration names a person or group. `*` among those who may
/// write to the agent does not let it write to everybody; in `sendTo` it does.
pub fn reachable(account: &ChannelAccount, id: &str) -> bool {
    let access = &account.access;
    let named = access.allow_from.iter().chain(&access.default_to);
    named.into_iter().any(|peer| !peer.is_everybody() && peer.is(id))
        || access
            .groups
            .iter()
            .any(|(group, rules)| group == id && group != "*" && rules.enabled != Some(false))
        || access.send_to.iter().any(|peer| peer.is_everybody() || peer.is(id))
}

/// Person or group, and thread, of what people write: `telegram:42`,
/// `group:-5`, `-5:topic:3`.
fn place_of(kind: ChannelKind, to: &str) -> (String, Option<String>) {
    let prefix = format!("{}:", kind.as_str());
    let mut bare = to;
    for prefix in [prefix.as_str(), "tg:", "group:", "direct:"] {
        if kind == ChannelKind::Telegram || prefix.starts_with(kind.as_str()) {
            bare = bare.strip_prefix(prefix).unwrap_or(bare);
        }
    }
    match bare.split_once(":topic:") {
        Some((id, topic)) if kind == ChannelKind::Telegram => (id.into(), Some(topic.into())),
        _ => (bare.into(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_people_write_them() {
        for (kind, to, id, topic) in [
            (ChannelKind::Telegram, "telegram:42", "42", None),
            (ChannelKind::Telegram, "tg:group:-5:topic:3", "-5", Some("3")),
            (ChannelKind::Telegram, "@name", "@name", None),
            (ChannelKind::Webhook, "webhook:a:topic:b", "a:topic:b", None),
            (ChannelKind::Webhook, "group:x", "group:x", None),
        ] {
            assert_eq!(place_of(kind, to), (id.into(), topic.map(Into::into)), "{to}");
        }
    }
}
