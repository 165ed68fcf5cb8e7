//! Answers of jobs: the scheduler's way to chats.

use super::outbox::DeliveryError;
use super::sending::Outgoing;
use super::service::Channels;
use super::target::{Target, TargetError, Wanted, text_of};
use crate::config::channels::ChannelKind;
use crate::cron::{Announcement, Bounds, NamedChat, Outlet, OutletError, Told};
use crate::sessions::{AgentId, SessionKey};
use crate::store::OutboxAddress;
use crate::support::BoxFuture;

impl Outlet for Channels {
    fn say(&self, announcement: Announcement) -> BoxFuture<'_, Result<Told, OutletError>> {
        Box::pin(async move {
            let target = self.place_of(&announcement).await?;
            let bounds = announcement.bound_to.as_ref().filter(|_| announcement.to.is_some());
            if let Some(bounds) = bounds {
                self.check_bounds(&target, bounds).await?;
            }
            let message = self.outgoing(&target, &announcement).await?;
            let sent = self.send(&announcement.idempotency_key, &target, &message).await;
            let failed = |error: DeliveryError| OutletError::Failed(error.to_string());
            let sent = sent.map_err(failed)?;
            Ok(if sent.is_complete { Told::Said } else { Told::Waits })
        })
    }
}

impl Channels {
    /// Whether a job that is bound by these may have something said in a chat.
    async fn check_bounds(&self, target: &Target, bounds: &Bounds) -> Result<(), OutletError> {
        let mut own: Vec<_> = bounds.asked_in.as_ref().and_then(asked_in).into_iter().collect();
        for key in &bounds.sessions {
            own.extend(self.place_of_session(key).await);
        }
        let reached = self.check_reach(target, &own).await;
        reached.map_err(|error| OutletError::Failed(error.to_string()))
    }

    /// The message, with the files that it names.
    async fn outgoing(
        &self,
        target: &Target,
        announcement: &Announcement,
    ) -> Result<Outgoing, OutletError> {
        let (agent, answer) = (&announcement.agent_id, announcement.answer.as_ref());
        let mut text = announcement.text.clone();
        if answer.is_some() {
            text = self.with_prefix(&target.address, agent, answer, text);
        }
        if announcement.files.is_empty() {
            return Ok(Outgoing { text, ..Outgoing::default() });
        }
        let failed = |why: &str| OutletError::Failed(why.to_owned());
        let runs = self.runs().ok_or_else(|| failed("the gateway is starting"))?;
        let account = self.account(&target.address.channel, &target.address.account);
        let account = account.ok_or_else(|| failed("there is no such account"))?;
        let agent = AgentId::normalize(agent);
        let home = SessionKey::main(&agent, &self.0.parts.keys.now());
        let (media, told) = self.attach(&runs, &account, &home, &announcement.files).await;
        let text = format!("{text}{told}").trim_start_matches('\n').to_owned();
        Ok(Outgoing { text, media, ..Outgoing::default() })
    }

    /// Where an announcement goes: to the chat it names, else to where the main
    /// session of its agent was last written to from, unless it names another account
    /// than that of this place, else to the usual one.
    async fn place_of(&self, announcement: &Announcement) -> Result<Target, OutletError> {
        let failed = |error: TargetError| match error {
            TargetError::Unsupported(name) => OutletError::NoChannel(name),
            other => OutletError::Failed(other.to_string()),
        };
        let kind = self.kind(Some(&announcement.channel)).map_err(failed)?;
        if announcement.to.is_none() {
            let agent = AgentId::normalize(&announcement.agent_id);
            let main = SessionKey::main(&agent, &self.0.parts.keys.now());
            let last = self.place_of_session(&main).await;
            let named = announcement.account_id.as_deref().map(str::trim);
            let named = named.filter(|id| !id.is_empty());
            let is_meant = |last: &Target| {
                last.kind == kind && named.is_none_or(|id| id == last.address.account)
            };
            if let Some(last) = last.filter(is_meant) {
                return Ok(last);
            }
        }
        let thread = announcement.thread_id.as_ref().and_then(text_of);
        self.target(&Wanted {
            channel: Some(kind.as_str()),
            account: announcement.account_id.as_deref(),
            to: announcement.to.as_deref(),
            thread: thread.as_deref(),
        })
        .map_err(failed)
    }
}

/// The chat in which a job was asked for. Its id is the channel's own: no words of people,
/// which would be read once more.
fn asked_in(chat: &NamedChat) -> Option<Target> {
    let address = OutboxAddress {
        channel: chat.channel.clone(),
        account: chat.account_id.clone()?,
        target: chat.to.clone(),
        thread: String::new(),
    };
    Some(Target { kind: ChannelKind::parse(&chat.channel)?, address })
}
