//! Messages that somebody sends: an operator, an agent's tool, the gateway.

use std::time::Duration;

use serde_json::Value;

use super::body::{Body, MediaItem, Poll};
use super::buttons::Button;
use super::channel::{Action, Refused};
use super::outbox::{Delivered, DeliveryError};
use super::parts::{Message, message_parts, new_part};
use super::service::Channels;
use super::target::Target;
use crate::config::channels::{ChannelKind, ReplyToMode};
use crate::store::NewPart;

/// How long a sender waits for the service; what takes longer goes on without.
const WAIT: Duration = Duration::from_secs(25);

/// A message to a place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outgoing {
    /// What it says.
    pub text: String,
    /// What comes with it.
    pub media: Vec<MediaItem>,
    /// A question instead.
    pub poll: Option<Poll>,
    /// What may be pressed under it, by block.
    pub buttons: Vec<Vec<Button>>,
    /// The message that it answers.
    pub reply_to: Option<String>,
    /// Whether nobody is woken by it.
    pub is_silent: bool,
}

impl Channels {
    /// Sends a message durably, and waits a while for the service; not for one that is
    /// turned off. The same key again sends nothing again.
    ///
    /// # Errors
    /// When the service does not take it, or nobody knows whether it did.
    pub async fn send(
        &self,
        key: &str,
        target: &Target,
        message: &Outgoing,
    ) -> Result<Delivered, DeliveryError> {
        let parts = self.parts_to_send(key, target, message)?;
        let account = self.account(&target.address.channel, &target.address.account);
        let is_wanted = account.is_some_and(|account| account.is_wanted());
        let limit = if is_wanted { WAIT } else { Duration::ZERO };
        self.put_and_wait(key, parts, limit).await
    }

    /// The same, without waiting.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub async fn post(
        &self,
        key: &str,
        target: &Target,
        message: &Outgoing,
    ) -> Result<(), DeliveryError> {
        let parts = self.parts_to_send(key, target, message)?;
        Ok(self.put(parts).await?)
    }

    fn parts_to_send(
        &self,
        key: &str,
        target: &Target,
        message: &Outgoing,
    ) -> Result<Vec<NewPart>, DeliveryError> {
        let address = &target.address;
        let refused = |why: &str| DeliveryError::Refused(why.to_owned());
        let account = self.current(&address.channel, &address.account);
        let account = account.ok_or_else(|| refused("there is no such account"))?;
        // It would wait until the config is another, and nobody would know.
        account.config.way.as_ref().map_err(|why| refused(why))?;
        let base = Body {
            buttons: message.buttons.clone(),
            reply_to: message.reply_to.clone(),
            is_silent: message.is_silent,
            ..Body::default()
        };
        if let Some(poll) = message.poll.clone() {
            let body = Body { poll: Some(poll), ..base };
            return Ok(vec![new_part(key, address, 0, &body)]);
        }
        // Whoever names a message wants it quoted.
        let quotes = ReplyToMode::First;
        let (text, media) = (message.text.as_str(), message.media.as_slice());
        let message = Message { text, media, first: base, quotes, end_quotes: false };
        let parts = message_parts(&account, key, address, &message);
        if parts.is_empty() {
            return Err(refused("there is nothing to send"));
        }
        Ok(parts)
    }

    /// Does something with a message that is there.
    ///
    /// # Errors
    /// When the channel cannot, or the service refuses.
    pub async fn act(&self, target: &Target, name: &str, params: &Value) -> Result<Value, Refused> {
        let address = &target.address;
        let channel = self.account(&address.channel, &address.account);
        let channel = channel.and_then(|account| account.channel());
        let stopped = || Refused::Failed(format!("channel {} is not running", address.channel));
        let channel = channel.ok_or_else(stopped)?;
        if !channel.actions().contains(&name) {
            return Err(Refused::Unsupported);
        }
        let thread = Some(address.thread.as_str()).filter(|thread| !thread.is_empty());
        channel.act(Action { name, to: &address.target, thread, params }).await
    }

    /// The actions that a channel can do, beside sending; none while it does
    /// not run.
    pub fn actions(&self, kind: ChannelKind, account: Option<&str>) -> &'static [&'static str] {
        let account = self.find(kind, account).ok();
        let channel = account.and_then(|account| account.channel());
        channel.map_or(&[], |channel| channel.actions())
    }

    /// Whether a channel can ask questions with answers to choose from.
    pub fn has_polls(&self, kind: ChannelKind, account: Option<&str>) -> bool {
        let account = self.find(kind, account).ok();
        account.and_then(|account| account.channel()).is_some_and(|channel| channel.has_polls())
    }

    /// Asks the service of an account whether it is there and knows us.
    ///
    /// # Errors
    /// Why not.
    pub async fn probe(&self, kind: ChannelKind, account: &str) -> Result<Value, String> {
        let account = self.account(kind.as_str(), account);
        let channel = account.and_then(|account| account.channel());
        channel.ok_or("it is not running")?.probe().await
    }

    /// How messages of an account come in, while it runs.
    pub fn mode(&self, kind: ChannelKind, account: &str) -> Option<&'static str> {
        let account = self.account(kind.as_str(), account)?;
        Some(account.channel()?.mode())
    }
}
