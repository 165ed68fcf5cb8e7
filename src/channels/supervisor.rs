//! Accounts come and go.
//!
//! Promises: an account that fails is begun again, later each time; one that
//! panics hurts nobody else; an account that only waits to be called has no
//! task.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::channel::{Channel, Ear};
use super::inbound::{Inbound, Received};
use super::service::Channels;
use super::state::Account;
use super::telegram::{Telegram, TelegramParts};
use super::webhook::{Webhook, WebhookParts};
use crate::config::channels::{ChannelKind, ChannelWay, check_call_secret};
use crate::config::secrets::resolve;
use crate::support::BoxFuture;

/// How long a failed account waits the first time …
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// … and at most: a service that is down for an hour is found again soon.
const BACKOFF_MAX: Duration = Duration::from_mins(2);
/// What was answered and has listened for so long has begun well: its next failure is the
/// first one.
const LASTING: Duration = Duration::from_secs(10);
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
    /// is in use stays so. Who asks may go away: what is begun is begun whole; what cannot
    /// begin is tried again as at the start. Answers its id, and whether it is in use now.
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
        let (channel, id) = (kind.as_str(), account.config.id.clone());
        let (channels, opened) = (self.clone(), Arc::clone(&account));
        let opening = async move {
            // What is sent from here on is not what the last process was sending.
            channels.settle_once().await;
            let outcome = channels.open_account(&opened).await;
            if outcome.is_err() {
                channels.open_later(opened);
            }
            outcome
        };
        let opened = self.0.parts.tasks.result_of("channel start", opening).await;
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
        self.current(kind.as_str(), &config.id).ok_or_else(unknown)
    }

    pub(super) async fn open_account(&self, account: &Arc<Account>) -> Result<(), ControlError> {
        // First: what ends it after the next look is noticed once it is built.
        let endings = account.endings();
        if account.channel().is_some() || !self.is_current(account) {
            return Ok(());
        }
        let config = &account.config;
        let built = self.build(account).await;
        let opened = built.and_then(|channel| {
            let token = self.open_alone(account, &channel, endings)?;
            Ok((channel, token))
        });
        let (channel, token) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                account.is_lost(&why);
                let (channel, account) = (config.kind.as_str(), config.id.clone());
                return Err(ControlError::Unusable { channel, account, why });
            }
        };
        let Some(token) = token else {
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
            account.is_well(self.0.parts.clock.now_ms());
        }
        self.resume_outbox(account);
        Ok(())
    }

    /// Opens an account that was built, unless another one has its bot; `None` as
    /// [`Account::open`] tells.
    fn open_alone(
        &self,
        account: &Account,
        channel: &Arc<dyn Channel>,
        endings: u64,
    ) -> Result<Option<CancellationToken>, String> {
        // Of two that are built at a time the second one sees the first.
        let _turn = self.0.opening.lock();
        if let Some(other) = self.rival_of(account) {
            let id = &other.config.id;
            return Err(format!("botToken is that of account {id} of telegram as well"));
        }
        Ok(account.open(channel, endings, self.0.parts.clock.now_ms()))
    }

    /// The account that is in use as the bot of another one.
    fn rival_of(&self, account: &Account) -> Option<Arc<Account>> {
        let token = account.token()?;
        let accounts = self.0.accounts.now();
        let mut others = accounts.values().filter(|it| it.config.id != account.config.id);
        others.find(|it| it.is_bot(&token)).cloned()
    }

    /// Begins an account that could not be: what its secrets are kept in may come later. Not
    /// for one that is set wrongly or whose bot another one has, which may be stopped only
    /// for a while, and until somebody has ended it. Of one account there is one who tries.
    pub(super) fn open_later(&self, account: Arc<Account>) {
        if !account.is_wanted() || self.rival_of(&account).is_some() {
            return;
        }
        let Some(trying) = account.try_again() else { return };
        let channels = self.clone();
        self.0.parts.tasks.spawn("channel start", async move {
            let _trying = trying;
            for failures in 1.. {
                let wait = backoff(failures);
                tokio::select! {
                    () = channels.0.closing.cancelled() => return,
                    () = tokio::time::sleep(wait) => {}
                }
                if !account.is_wanted() || !channels.is_current(&account) {
                    return;
                }
                let Err(error) = channels.open_account(&account).await else { return };
                tracing::warn!(%error, "channel not started yet");
                if channels.rival_of(&account).is_some() {
                    return;
                }
            }
        });
    }

    /// Whether an account is one of those that there are now, and may begin.
    fn is_current(&self, account: &Arc<Account>) -> bool {
        let config = &account.config;
        let now = self.current(config.kind.as_str(), &config.id);
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
                let written = telegram.webhook_secret.as_ref();
                let bot = TelegramParts {
                    token,
                    webhook_secret: written.and_then(|written| written.resolve(&secrets)),
                    media: self.media_folder(),
                    tls: self.0.tls.clone(),
                };
                if telegram.webhook_url.is_some() {
                    let secret = bot.webhook_secret.as_ref();
                    check_call_secret(secret.ok_or("webhookSecret is empty")?)?;
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
        let (mut next, mut failures) = (Some(first), 0);
        while let Some(listening) = next {
            let (begun, answered_at) = (Instant::now(), account.state().last_connected_at);
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
            let has_answered = account.state().last_connected_at != answered_at;
            account.is_lost(&error);
            failures = failures_after(failures, begun.elapsed(), has_answered);
            let wait = backoff(failures);
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

/// How many failures in a row there are with one more, of what has listened for so long. That
/// the service has answered meanwhile says little alone: it may refuse what comes next each time.
/// That it took long says nothing alone: a service that hangs does that each time.
fn failures_after(before: u32, listened: Duration, has_answered: bool) -> u32 {
    if has_answered && listened >= LASTING { 1 } else { before.saturating_add(1) }
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

    fn commands(&self) -> Vec<(&'static str, &'static str)> {
        self.channels.inlet().map(|inlet| inlet.commands()).unwrap_or_default()
    }

    fn is_well(&self) {
        self.account.is_well(self.channels.0.parts.clock.now_ms());
    }

    fn is_put_off(&self, why: &str) {
        self.account.is_put_off(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_account_waits_longer_each_time_and_never_for_ever() {
        let waits = [1, 2, 3, 4, 100].map(|times| backoff(times).as_secs());
        assert_eq!(waits, [1, 2, 4, 8, 120]);
        assert_eq!(failures_after(3, Duration::from_secs(1), true), 4);
        assert_eq!(failures_after(3, LASTING, true), 1);
        // A service that hangs and never answers.
        assert_eq!(failures_after(3, LASTING, false), 4);
    }
}
