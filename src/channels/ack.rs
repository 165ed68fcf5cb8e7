//! The reaction that tells a person that a message is being answered.
//!
//! Promises: nobody waits for it, and nothing depends on it. Must not: react where the settings
//! do not want it.

use super::access;
use super::inbound::Inbound;
use super::replies::ReplyTo;
use super::service::Channels;
use super::state::Account;
use crate::config::channels::ChannelWay;
use crate::sessions::{PeerKind, SessionEntry};

/// The reaction of an agent that has no emoji of its own, as in the original.
const USUAL: &str = "👀";

impl Channels {
    /// Reacts to a message that is about to be answered, where that is wanted.
    pub(super) fn react(
        &self,
        account: &Account,
        reply: &ReplyTo,
        inbound: &Inbound,
        entry: Option<&SessionEntry>,
    ) {
        let (settings, config) = (self.0.parts.settings.now(), &account.config);
        let Ok(ChannelWay::Telegram(own)) = &config.way else { return };
        let is_group = inbound.chat.kind != PeerKind::Direct;
        let is_wanted = match settings.messages.ack_scope {
            "all" => true,
            "direct" => !is_group,
            "group-all" => is_group,
            "group-mentions" => {
                is_group && inbound.is_mention && access::needs_mention(config, inbound, entry)
            }
            _ => false,
        };
        let Some(channel) = account.channel().filter(|_| is_wanted) else { return };
        let agent = reply.key.agent(&self.0.parts.keys.now());
        let agent = settings.agents.agent(agent.as_str());
        let of_agent = agent.and_then(|agent| agent.identity.emoji.as_deref()).map(str::trim);
        let said = own.ack_reaction.as_deref().or(settings.messages.ack_reaction.as_deref());
        let emoji = said.map(str::trim);
        let emoji = emoji.or(of_agent.filter(|emoji| !emoji.is_empty())).unwrap_or(USUAL);
        let Some(id) = reply.reply_to.clone().filter(|_| !emoji.is_empty()) else { return };
        let (to, emoji) = (inbound.chat.id.clone(), emoji.to_owned());
        let reacting = async move { channel.react(&to, &id, &emoji).await };
        self.0.parts.tasks.spawn("reaction", reacting);
    }
}
