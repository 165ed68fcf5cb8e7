//! One account, and how it is.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::channel::Channel;
use crate::config::channels::{
    AccessSettings, ChannelAccount, ChannelKind, ChannelWay, ChunkMode, ReplyToMode,
};
use crate::config::secrets::ResolvedSecrets;
use crate::support::Secret;

/// Longest part of a reply by an account that is not configured any more: no service takes less
/// where nothing is set.
const CHUNK_OF_GONE: usize = 4000;
/// Largest file by such an account, in MiB: no channel takes less where nothing is set.
const MEDIA_MB_OF_GONE: u64 = 5;

/// How an account is, for those who ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountState {
    /// Whether it is in use.
    pub running: bool,
    /// Whether the service has answered since it was last lost, or wanted to be left alone.
    pub connected: bool,
    /// How often it was begun anew since then.
    pub reconnect_attempts: u32,
    /// What went wrong last; gone when all is well again.
    pub last_error: Option<String>,
    /// When it was begun, in milliseconds since the epoch.
    pub last_start_at: Option<u64>,
    /// When it ended.
    pub last_stop_at: Option<u64>,
    /// When the service answered after it was lost.
    pub last_connected_at: Option<u64>,
    /// When the last message came.
    pub last_inbound_at: Option<u64>,
    /// When the last message was sent.
    pub last_outbound_at: Option<u64>,
}

#[derive(Default)]
struct Live {
    state: AccountState,
    /// The account in use, and what ends it.
    open: Option<(Arc<dyn Channel>, CancellationToken)>,
    /// What its references led to when it was built last.
    secrets: ResolvedSecrets,
    /// How often it was ended, in use or not: what is being built then comes too
    /// late.
    endings: u64,
    /// Whether somebody has stopped it, until it is started again.
    is_stopped: bool,
    /// Whether somebody tries to begin it again and again.
    is_tried: bool,
}

/// One who tries to begin an account, until this is dropped.
pub(super) struct Trying(Arc<Account>);

impl Drop for Trying {
    fn drop(&mut self) {
        self.0.live.lock().is_tried = false;
    }
}

/// One account of a channel.
pub(super) struct Account {
    /// What is set for it.
    pub config: ChannelAccount,
    live: Mutex<Live>,
}

impl Account {
    pub fn new(config: ChannelAccount) -> Self {
        Self { config, live: Mutex::default() }
    }

    /// One that the configuration does not have any more, of which the name alone is known:
    /// what is to be sent by it waits until it is back.
    pub fn gone(kind: ChannelKind, id: &str) -> Self {
        Self::new(ChannelAccount {
            kind,
            id: id.to_owned(),
            is_default: false,
            is_listed: true,
            name: None,
            enabled: false,
            access: AccessSettings::default(),
            chunk_limit: CHUNK_OF_GONE,
            chunk_mode: ChunkMode::default(),
            reply_to: ReplyToMode::default(),
            media_max_mb: MEDIA_MB_OF_GONE,
            response_prefix: None,
            way: Err("it is not configured".into()),
        })
    }

    /// One in the place of another, if there was one: stopped when that was. One
    /// that cannot be used was logged out, and begins with its next credential.
    pub fn in_place_of(before: Option<&Arc<Self>>, config: ChannelAccount) -> Self {
        let is_stopped = config.way.is_ok() && before.is_some_and(|it| it.is_stopped());
        Self { config, live: Mutex::new(Live { is_stopped, ..Live::default() }) }
    }

    /// How it is.
    pub fn state(&self) -> AccountState {
        self.live.lock().state.clone()
    }

    /// The account, if it is in use.
    pub fn channel(&self) -> Option<Arc<dyn Channel>> {
        self.live.lock().open.as_ref().map(|(channel, _)| Arc::clone(channel))
    }

    /// How often it was ended.
    pub fn endings(&self) -> u64 {
        self.live.lock().endings
    }

    /// Whether somebody has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.live.lock().is_stopped
    }

    /// Whether it is to be in use.
    pub fn is_wanted(&self) -> bool {
        self.config.enabled && self.config.way.is_ok() && !self.is_stopped()
    }

    /// Somebody stops it, or lets it be started again.
    pub fn set_stopped(&self, is_stopped: bool) {
        self.live.lock().is_stopped = is_stopped;
    }

    /// Somebody tries to begin it again and again; `None` where somebody does already.
    pub fn try_again(self: &Arc<Self>) -> Option<Trying> {
        let is_tried = std::mem::replace(&mut self.live.lock().is_tried, true);
        (!is_tried).then(|| Trying(Arc::clone(self)))
    }

    /// It is used from now on. `None` when it is already, when it is stopped, and
    /// when it was ended since it had `endings`.
    pub fn open(
        &self,
        channel: &Arc<dyn Channel>,
        endings: u64,
        now_ms: u64,
    ) -> Option<CancellationToken> {
        let mut live = self.live.lock();
        if live.open.is_some() || live.is_stopped || live.endings != endings {
            return None;
        }
        let token = CancellationToken::new();
        live.open = Some((Arc::clone(channel), token.clone()));
        live.state.running = true;
        live.state.connected = false;
        live.state.reconnect_attempts = 0;
        live.state.last_error = None;
        live.state.last_start_at = Some(now_ms);
        Some(token)
    }

    /// What its references lead to.
    pub fn uses(&self, secrets: ResolvedSecrets) {
        self.live.lock().secrets = secrets;
    }

    /// The token of its bot, if it is one and was built.
    pub fn token(&self) -> Option<Secret> {
        let Ok(ChannelWay::Telegram(telegram)) = &self.config.way else { return None };
        telegram.token.resolve(&self.live.lock().secrets)
    }

    /// Whether it is in use, as the bot that has this token.
    pub fn is_bot(&self, token: &Secret) -> bool {
        self.channel().is_some() && self.token().as_ref() == Some(token)
    }

    /// Whether it is to be used, and its references lead to something else than
    /// when it was built. One that leads nowhere says nothing.
    pub fn is_stale(&self, found: &ResolvedSecrets) -> bool {
        let live = self.live.lock();
        let is_wanted = self.config.enabled && !live.is_stopped;
        self.config.references().into_iter().any(|reference| {
            let new = found.get(reference);
            is_wanted && new.is_some() && new != live.secrets.get(reference)
        })
    }

    /// It is used no more, also when it is being built.
    pub fn close(&self, now_ms: u64) {
        let mut live = self.live.lock();
        live.endings = live.endings.saturating_add(1);
        let Some((_, token)) = live.open.take() else { return };
        token.cancel();
        live.state.running = false;
        live.state.connected = false;
        live.state.last_stop_at = Some(now_ms);
    }

    /// The service has answered.
    pub fn is_well(&self, now_ms: u64) {
        let mut live = self.live.lock();
        if !live.state.connected {
            live.state.connected = true;
            live.state.last_connected_at = Some(now_ms);
        }
        live.state.reconnect_attempts = 0;
        live.state.last_error = None;
    }

    /// The service was lost, or the account could not be begun.
    pub fn is_lost(&self, error: &str) {
        let mut live = self.live.lock();
        live.state.connected = false;
        live.state.last_error = Some(error.to_owned());
        live.state.reconnect_attempts = live.state.reconnect_attempts.saturating_add(1);
    }

    /// The service wants to be asked later.
    pub fn is_put_off(&self, why: &str) {
        let mut live = self.live.lock();
        live.state.connected = false;
        live.state.last_error = Some(why.to_owned());
    }

    /// A message came.
    pub fn heard(&self, now_ms: u64) {
        self.live.lock().state.last_inbound_at = Some(now_ms);
    }

    /// A message was sent.
    pub fn spoke(&self, now_ms: u64) {
        self.live.lock().state.last_outbound_at = Some(now_ms);
    }
}
