//! Accounts come and go.
//!
//! Promises: an account that fails is begun again, later each time; one that
//! panics hurts nobody else; an account that only waits to be called has no
//! task.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::channel::{Channel, Ear};
use super::inbound::{Inbound, Received};
use super::service::Channels;
use super::state::Account;
use super::telegram::{Telegram, TelegramParts};
use super::webhook::{Webhook, WebhookParts};
use crate::config::channels::{ChannelKind, ChannelWay};
use crate::config::secrets::resolve;
use crate::support::BoxFuture;

/// How long a failed account waits the first time …
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// … and at most: a service that is down for an hour is found again soon.
const BACKOFF_MAX: Duration = Duration::from_mins(2);
/// What is said of a channel whose task panicked.
const BROKEN: &str = "it failed inside the gateway; the log says where";

/// Why an account is not begun or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// There is none of this name.
    #[error("unknown account {0}")]
    UnknownAccount(String),
    /// The configuration does not let it be used.
    #[error("channel {channel} ({account}) cannot start: {why}")]
    Unusable {
        /// Its channel.
        channel: &'static str,
        /// Its id.
        account: String,
        /// Why.
        why: String,
    },
}

impl Channels {
    /// Begins to use an account; the default one when no id is given. One that
    /// is in use stays so. Who asks may go away: what is begun is begun whole. Answers
    /// its id, and whether it is in use now.
    ///
    /// # Errors
    /// When there is none, or the configuration does not let it be used.
    pub async fn start(
        &self,
        kind: ChannelKind,
        id: Option<&str>,
    ) -> Result<(String, bool), ControlError> {
        let account = self.find(kind, id)?;
        account.set_stopped(false);
        let (channels, opened) = (self.clone(), Arc::clone(&account));
        let opening = async move { channels.open_account(&opened).await };
        let opened = self.0.parts.tasks.spawn("channel start", opening).await.ok().flatten();
        let (channel, id) = (kind.as_str(), account.config.id.clone());
        let Some(opened) = opened else {
            return Err(ControlError::Unusable { channel, account: id, why: BROKEN.into() });
        };
        opened?;
        Ok((id, account.channel().is_some()))
    }

    /// Ends the use of an account until it is started again. Answers its id, and
    /// whether it is out of use now.
    ///
    /// # Errors
    /// When there is none.
    pub fn stop(
        &self,
        kind: ChannelKind,
        id: Option<&str>,
    ) -> Result<(String, bool), ControlError> {
        let account = self.find(kind, id)?;
        account.set_stopped(true);
        account.close(self.0.parts.clock.now_ms());
        Ok((account.config.id.clone(), account.channel().is_none()))
    }

    pub(super) fn find(
        &self,
        kind: ChannelKind,
        id: Option<&str>,
    ) -> Result<Arc<Account>, ControlError> {
        let unknown = || ControlError::UnknownAccount(id.unwrap_or("default").to_owned());
        let settings = self.0.parts.settings.now();
        let config = settings.channels.account(kind, id).ok_or_else(unknown)?;
        self.account(kind.as_str(), &config.id).ok_or_else(unknown)
    }

    pub(super) async fn open_account(&self, account: &Arc<Account>) -> Result<(), ControlError> {
        // First: what ends it after the next look is noticed once it is built.
        let endings = account.endings();
        if account.channel().is_some() || !self.is_current(account) {
            return Ok(());
        }
        let config = &account.config;
        let channel = match self.build(account).await {
            Ok(channel) => channel,
            Err(why) => {
                account.is_lost(&why);
                let (channel, account) = (config.kind.as_str(), config.id.clone());
                return Err(ControlError::Unusable { channel, account, why });
            }
        };
        let now = self.0.parts.clock.now_ms();
        let Some(token) = account.open(&channel, endings, now) else {
            tracing::debug!(
                channel = config.kind.as_str(),
                account = config.id,
                "channel not started: it is in use already, or was ended meanwhile"
            );
            return Ok(());
        };
        tracing::info!(channel = config.kind.as_str(), account = config.id, "channel started");
        let ear: Arc<dyn Ear> =
            Arc::new(AccountEar { channels: self.clone(), account: Arc::clone(account) });
        if let Some(listening) = Arc::clone(&channel).listen(Arc::clone(&ear)) {
            let supervisor = self.clone().keep(Arc::clone(account), channel, ear, listening, token);
            self.0.parts.tasks.spawn("channel", supervisor);
        } else {
            account.is_well(now);
        }
        self.resume_outbox(account).await;
        Ok(())
    }

    /// Whether an account is one of those that there are now, and may begin.
    fn is_current(&self, account: &Arc<Account>) -> bool {
        let config = &account.config;
        let now = self.account(config.kind.as_str(), &config.id);
        !self.0.closing.is_cancelled() && now.is_some_and(|it| Arc::ptr_eq(&it, account))
    }

    async fn build(&self, account: &Account) -> Result<Arc<dyn Channel>, String> {
        let (config, parts) = (&account.config, &self.0.parts);
        let way = config.way.as_ref().map_err(Clone::clone)?;
        let references = config.references().into_iter().cloned().collect();
        let settings = parts.settings.now();
        let env = settings.environment(&parts.env);
        let (secrets, lost) = resolve(&references, &settings.secrets, &env).await;
        if let Some((reference, error)) = lost.into_iter().next() {
            return Err(format!("{reference}: {error}"));
        }
        account.uses(secrets.clone());
        match way {
            ChannelWay::Webhook(webhook) => {
                let secret = webhook.secret.resolve(&secrets).ok_or("secret is empty")?;
                let around = WebhookParts {
                    secret,
                    media: self.media_folder(),
                    tls: self.0.tls.clone(),
                    clock: parts.clock.clone(),
                };
                Ok(Arc::new(Webhook::new(config, webhook, around)))
            }
            ChannelWay::Telegram(telegram) => {
                let token = telegram.token.resolve(&secrets).ok_or("botToken is empty")?;
                let secret = telegram.webhook_secret.as_ref();
                let bot = TelegramParts {
                    token,
                    webhook_secret: secret.and_then(|secret| secret.resolve(&secrets)),
                    media: self.media_folder(),
                    tls: self.0.tls.clone(),
                };
                if telegram.webhook_url.is_some() && bot.webhook_secret.is_none() {
                    return Err("webhookSecret is empty".into());
                }
                Ok(Arc::new(Telegram::new(config, telegram, bot)))
            }
        }
    }

    /// Listens until the account ends, again after each failure.
    async fn keep(
        self,
        account: Arc<Account>,
        channel: Arc<dyn Channel>,
        ear: Arc<dyn Ear>,
        first: BoxFuture<'static, String>,
        token: CancellationToken,
    ) {
        let tasks = self.0.parts.tasks.clone();
        let mut next = Some(first);
        while let Some(listening) = next {
            // A task of its own: a panic there is a failure like any other.
            let mut listening = tasks.spawn("channel listener", listening);
            let ended = tokio::select! {
                () = token.cancelled() => {
                    listening.abort();
                    return;
                }
                ended = &mut listening => ended,
            };
            let error = ended.ok().flatten().unwrap_or_else(|| BROKEN.to_owned());
            let times = account.is_lost(&error);
            let wait = backoff(times);
            tracing::warn!(channel = account.config.kind.as_str(), account = account.config.id,
                %error, ?wait, "channel lost; begins again");
            tokio::select! {
                () = token.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            next = Arc::clone(&channel).listen(Arc::clone(&ear));
        }
    }
}

/// How long to wait after so many failures in a row.
fn backoff(times: u32) -> Duration {
    let factor = 2_u32.saturating_pow(times.saturating_sub(1));
    BACKOFF_MIN.saturating_mul(factor).min(BACKOFF_MAX)
}

struct AccountEar {
    channels: Channels,
    account: Arc<Account>,
}

impl AccountEar {
    /// Names are the account's own.
    fn name(&self, name: &str) -> String {
        format!("{}:{}:{name}", self.account.config.kind.as_str(), self.account.config.id)
    }
}

impl Ear for AccountEar {
    fn notice(&self, inbound: &Inbound) {
        self.channels.acknowledge(&self.account, inbound);
    }

    fn hear(&self, inbound: Inbound) -> BoxFuture<'_, Result<Received, String>> {
        Box::pin(async move {
            let taken = self.channels.take_in(&self.account, inbound).await;
            taken.unwrap_or_else(|| Err("it failed inside the gateway".into()))
        })
    }

    fn give_up(&self, inbound: Inbound, why: String) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let id = inbound.message_id.clone();
            let told = self.channels.tell_given_up(&self.account, inbound, &why).await;
            if let Err(error) = told {
                tracing::error!(id, error, "message given up silently");
            }
        })
    }

    fn recall<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async move {
            let name = self.name(name);
            let found = self.channels.0.parts.store.channel_note(&name).await;
            found.map_err(|error| error.to_string())
        })
    }

    fn keep(&self, name: &str, value: String) -> BoxFuture<'_, Result<(), String>> {
        let kept = self.channels.0.parts.store.keep_channel_note(self.name(name), value);
        Box::pin(async move { kept.await.map_err(|error| error.to_string()) })
    }

    fn is_well(&self) {
        self.account.is_well(self.channels.0.parts.clock.now_ms());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_account_waits_longer_each_time_and_never_for_ever() {
        let waits = [1, 2, 3, 4, 100].map(|times| backoff(times).as_secs());
        assert_eq!(waits, [1, 2, 4, 8, 120]);
    }
}
