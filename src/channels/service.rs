//! All channels of the gateway.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};

use tokio_util::sync::CancellationToken;

use super::channel::Inlet;
use super::outbox::Outbox;
use super::state::{Account, AccountState};
use crate::agent::Runs;
use crate::agent::web::Tls;
use crate::config::channels::{ChannelAccount, ChannelKind};
use crate::config::{Env, Settings};
use crate::sessions::{KeyRules, Sessions};
use crate::store::{OutboxCounts, Store, StoreError};
use crate::support::{Clock, Tasks};

/// What channels work with.
pub struct ChannelsParts {
    /// The effective configuration.
    pub settings: Arc<Settings>,
    /// The surroundings of the process, for secrets.
    pub env: Env,
    /// What is to be sent, and who was let in.
    pub store: Arc<dyn Store>,
    /// Conversations.
    pub sessions: Sessions,
    /// How session keys are read.
    pub keys: Arc<KeyRules>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Background tasks.
    pub tasks: Tasks,
}

pub(super) struct Inner {
    pub parts: ChannelsParts,
    pub accounts: BTreeMap<(ChannelKind, String), Arc<Account>>,
    pub outbox: Outbox,
    pub tls: Arc<Tls>,
    /// Cancelled at the end: nobody waits for anything any more.
    pub closing: CancellationToken,
    /// When old files were last looked for, in milliseconds since the epoch.
    pub swept_at: AtomicU64,
    runs: OnceLock<Weak<Runs>>,
    inlet: OnceLock<Arc<dyn Inlet>>,
}

/// All channels; clones share them.
#[derive(Clone)]
pub struct Channels(pub(super) Arc<Inner>);

impl Channels {
    /// Those of a configuration. Nothing is started and nobody is asked.
    pub fn new(parts: ChannelsParts) -> Self {
        let configured = parts.settings.channels.accounts.iter().cloned();
        let accounts = configured
            .map(|config| ((config.kind, config.id.clone()), Arc::new(Account::new(config))))
            .collect();
        Self(Arc::new(Inner {
            parts,
            accounts,
            outbox: Outbox::default(),
            tls: Arc::new(Tls::default()),
            closing: CancellationToken::new(),
            swept_at: AtomicU64::new(0),
            runs: OnceLock::new(),
            inlet: OnceLock::new(),
        }))
    }

    /// Begins to work: settles what the last process left, then starts every
    /// account that is turned on. Not needed for the start of the gateway.
    pub async fn begin(self, runs: Arc<Runs>, inlet: Arc<dyn Inlet>) {
        if self.0.accounts.is_empty() {
            return;
        }
        // Both are set once; a second beginning changes nothing.
        let _ = self.0.runs.set(Arc::downgrade(&runs));
        let _ = self.0.inlet.set(inlet);
        if let Err(error) = self.open_outbox().await {
            tracing::error!(%error, "the outbox of the last process cannot be read");
        }
        if let Err(error) = self.adopt_people().await {
            tracing::error!(%error, "people of OpenClaw not taken over");
        }
        if let Err(error) = self.resume_replies(&runs).await {
            tracing::error!(%error, "replies of the last process are not resumed");
        }
        drop(runs);
        self.sweep_files().await;
        let all: Vec<_> = self.0.accounts.values().cloned().collect();
        for account in all.into_iter().filter(|account| account.config.enabled) {
            if let Err(error) = self.open_account(&account).await {
                tracing::error!(channel = account.config.kind.as_str(), account = account.config.id,
                    %error, "channel not started");
            }
        }
    }

    /// Ends every account; what waits to be sent is sent after the next start.
    pub fn end(&self) {
        self.0.closing.cancel();
        let now = self.0.parts.clock.now_ms();
        for account in self.0.accounts.values() {
            account.close(now);
        }
    }

    /// Every account with how it is.
    pub fn accounts(&self) -> impl Iterator<Item = (&ChannelAccount, AccountState)> {
        self.0.accounts.values().map(|account| (&account.config, account.state()))
    }

    /// How many parts of an account are how far.
    pub async fn outbox_counts(
        &self,
        account: &ChannelAccount,
    ) -> Result<OutboxCounts, StoreError> {
        self.0.parts.store.outbox_counts(account.kind.as_str(), &account.id).await
    }

    /// Whether no channel is configured.
    pub fn is_empty(&self) -> bool {
        self.0.accounts.is_empty()
    }

    pub(super) fn account(&self, channel: &str, id: &str) -> Option<Arc<Account>> {
        let kind = ChannelKind::parse(channel)?;
        self.0.accounts.get(&(kind, id.to_owned())).cloned()
    }

    pub(super) fn runs(&self) -> Option<Arc<Runs>> {
        self.0.runs.get()?.upgrade()
    }

    pub(super) fn inlet(&self) -> Option<Arc<dyn Inlet>> {
        self.0.inlet.get().cloned()
    }
}
