//! All channels of the gateway.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, SetOnce};
use tokio_util::sync::CancellationToken;

use super::channel::Inlet;
use super::followers::Followers;
use super::history::History;
use super::outbox::Outbox;
use super::state::{Account, AccountState};
use super::turns::Turns;
use crate::agent::Runs;
use crate::agent::web::Tls;
use crate::config::channels::{ChannelAccount, ChannelKind};
use crate::config::secrets::{ResolvedSecrets, resolve};
use crate::config::{Env, Settings};
use crate::sessions::{KeyRules, Sessions};
use crate::store::{OutboxCounts, Store, StoreError};
use crate::support::{Clock, Few, Live, Tasks, sort};

/// How often it is tried to settle what the last process left: another program may hold the
/// database for a while, as a backup does …
const STORE_TRIES: u32 = 10;
/// … and how long the next try waits.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// How many accounts that were taken out of the configuration are known at least: more than
/// anybody takes out while a gateway runs. Of more, any may be forgotten.
const FORMER_MAX: usize = 100;

/// What channels work with.
pub struct ChannelsParts {
    /// The effective configuration.
    pub settings: Live<Settings>,
    /// The surroundings of the process, for secrets.
    pub env: Env,
    /// What is to be sent, and who was let in.
    pub store: Arc<dyn Store>,
    /// Conversations.
    pub sessions: Sessions,
    /// How session keys are read.
    pub keys: Live<KeyRules>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Background tasks.
    pub tasks: Tasks,
}

/// The accounts, by channel and id.
pub(super) type Accounts = Few<(ChannelKind, String), Arc<Account>>;

pub(super) struct Inner {
    pub parts: ChannelsParts,
    pub accounts: Live<Accounts>,
    /// Those that were taken out of the configuration: answers of runs to their people wait in
    /// the outbox until they are back.
    former: Live<Accounts>,
    pub outbox: Outbox,
    pub followers: Arc<Followers>,
    pub turns: Turns,
    pub history: History,
    pub tls: Arc<Tls>,
    /// Cancelled at the end: nobody waits for anything any more.
    pub closing: CancellationToken,
    /// Whether what the last process left was looked at …
    settled: OnceCell<()>,
    /// … and the replies that it owes, which needs runs.
    pub resumed: OnceCell<()>,
    /// Who opens an account, from looking whether another one has its bot.
    pub opening: Mutex<()>,
    /// When old files were last looked for, in milliseconds since the epoch.
    pub swept_at: AtomicU64,
    pub runs: SetOnce<Weak<Runs>>,
    inlet: OnceLock<Arc<dyn Inlet>>,
}

/// All channels; clones share them.
#[derive(Clone)]
pub struct Channels(pub(super) Arc<Inner>);

impl Channels {
    /// Those of a configuration. Nothing is started and nobody is asked.
    pub fn new(parts: ChannelsParts) -> Self {
        let settings = parts.settings.now();
        let configured = settings.channels.accounts.iter().cloned();
        let accounts: Accounts = configured
            .map(|config| ((config.kind, config.id.clone()), Arc::new(Account::new(config))))
            .collect();
        Self(Arc::new(Inner {
            parts,
            opening: Mutex::default(),
            accounts: Live::new(accounts),
            former: Live::default(),
            settled: OnceCell::new(),
            resumed: OnceCell::new(),
            outbox: Outbox::default(),
            followers: Arc::default(),
            turns: Turns::default(),
            history: History::default(),
            tls: Arc::new(Tls::default()),
            closing: CancellationToken::new(),
            swept_at: AtomicU64::new(0),
            runs: SetOnce::new(),
            inlet: OnceLock::new(),
        }))
    }

    /// Begins to work: settles what the last process left, then starts every
    /// account that is turned on. Not needed for the start of the gateway.
    pub async fn begin(self, runs: Arc<Runs>, inlet: Arc<dyn Inlet>) {
        // Both are set once; a second beginning changes nothing. Who has runs has an inlet.
        let _ = self.0.inlet.set(inlet);
        let _ = self.0.runs.set(Arc::downgrade(&runs));
        drop(runs);
        self.open_enabled(|_| true).await;
    }

    /// Whether it works already.
    pub fn has_begun(&self) -> bool {
        self.0.runs.get().is_some()
    }

    /// Takes the accounts of the configuration as it is now: those that are set
    /// otherwise, or whose references lead elsewhere, begin anew, those that are
    /// there no more end. The others stay as they are.
    pub async fn reconfigure(&self, before: &Settings) {
        let settings = self.0.parts.settings.now();
        let (known, now) = (self.0.accounts.now(), self.0.parts.clock.now_ms());
        let has_other_secrets = settings.secrets != before.secrets;
        let references = settings.channels.accounts.iter().flat_map(ChannelAccount::references);
        let (env, references) =
            (settings.environment(&self.0.parts.env), references.cloned().collect());
        let (found, _) = resolve(&references, &settings.secrets, &env).await;
        let is_kept = |account: &Account, config: &ChannelAccount| {
            account.config == *config
                && (!has_other_secrets || config.references().is_empty())
                && !account.is_stale(&found)
        };
        let mut accounts = Accounts::new();
        for config in &settings.channels.accounts {
            let key = (config.kind, config.id.clone());
            let before = known.get(&key);
            let kept = before.filter(|account| is_kept(account, config)).cloned();
            let begun = || Arc::new(Account::in_place_of(before, config.clone()));
            accounts.insert(key, kept.unwrap_or_else(begun));
        }
        let is_in = |all: &Accounts, account: &Arc<Account>| {
            all.values().any(|other| Arc::ptr_eq(other, account))
        };
        // First: each is known all along. For that, those that are back stay among the former.
        let gone: Vec<_> = known.iter().filter(|(key, _)| !accounts.contains_key(*key)).collect();
        let former = self.0.former.now();
        let kept = former.iter().take(FORMER_MAX.saturating_sub(gone.len()));
        let all = kept.chain(gone).map(|(key, account)| (key.clone(), Arc::clone(account)));
        self.0.former.set(all.collect());
        self.0.accounts.set(accounts.clone());
        for account in known.values().filter(|account| !is_in(&accounts, account)) {
            account.close(now);
        }
        if self.runs().is_none() {
            // What the last process left waits for runs; the beginning opens all.
            return;
        }
        // Those that are not in use may have waited for another one, such as for its bot.
        let is_open = |account: &Arc<Account>| account.channel().is_some();
        self.open_enabled(|account| !is_in(&known, account) || !is_open(account)).await;
    }

    /// Whether an account works with another secret than what was found now.
    pub fn are_stale(&self, found: &ResolvedSecrets) -> bool {
        self.0.accounts.now().values().any(|account| account.is_stale(found))
    }

    /// Begins with those accounts that are turned on, not stopped, and meant. Of several with
    /// one bot the default one comes first.
    async fn open_enabled(&self, is_meant: impl Fn(&Arc<Account>) -> bool + Send) {
        let all = self.0.accounts.now();
        if all.is_empty() {
            return;
        }
        self.settle_once().await;
        let enabled = all.values().filter(|it| it.config.enabled && !it.is_stopped());
        let mut meant: Vec<_> = enabled.filter(|it| is_meant(it)).cloned().collect();
        sort::by_key(&mut meant, |it| !it.config.is_default);
        for account in meant {
            if let Err(error) = self.open_account(&account).await {
                tracing::error!(channel = account.config.kind.as_str(), account = account.config.id,
                    %error, "channel not started");
                self.open_later(account);
            }
        }
    }

    /// Settles what the last process left, once; who comes meanwhile waits for that. Of
    /// replies there is nothing to settle before the channels have begun.
    pub(super) async fn settle_once(&self) {
        self.0.settled.get_or_init(|| self.settle_past()).await;
        if let Some(runs) = self.runs() {
            self.0.resumed.get_or_init(|| self.settle_messages(Some(&runs))).await;
        }
    }

    /// Settles what the last process left. No account is in use yet, so nothing is being
    /// sent now.
    async fn settle_past(&self) {
        self.settle_messages(None).await;
        if let Err(error) = self.adopt_people().await {
            tracing::error!(%error, "people of OpenClaw not taken over");
        }
        self.sweep_files().await;
    }

    /// Settles what it was sending; with runs, what it had yet to answer.
    async fn settle_messages(&self, runs: Option<&Arc<Runs>>) {
        for _ in 0..STORE_TRIES {
            let settled = match runs {
                Some(runs) => self.resume_replies(runs).await,
                None => self.open_outbox().await,
            };
            let Err(error) = settled else { return };
            tracing::error!(%error, "messages of the last process are not settled");
            tokio::select! {
                () = self.0.closing.cancelled() => return,
                () = tokio::time::sleep(STORE_PAUSE) => {}
            }
        }
    }

    /// Ends every account; what waits to be sent is sent after the next start.
    pub fn end(&self) {
        self.0.closing.cancel();
        let now = self.0.parts.clock.now_ms();
        for account in self.0.accounts.now().values() {
            account.close(now);
        }
    }

    /// Every account with how it is.
    pub fn accounts(&self) -> Vec<(ChannelAccount, AccountState)> {
        let accounts = self.0.accounts.now();
        accounts.values().map(|account| (account.config.clone(), account.state())).collect()
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
        self.0.accounts.now().is_empty()
    }

    /// An account that there is.
    pub(super) fn current(&self, channel: &str, id: &str) -> Option<Arc<Account>> {
        let key = (ChannelKind::parse(channel)?, id.to_owned());
        self.0.accounts.now().get(&key).cloned()
    }

    /// The same, or one that there was: it is not in use, and what is to be sent by it waits.
    pub(super) fn account(&self, channel: &str, id: &str) -> Option<Arc<Account>> {
        self.current(channel, id).or_else(|| {
            let key = (ChannelKind::parse(channel)?, id.to_owned());
            self.0.former.now().get(&key).cloned()
        })
    }

    pub(super) fn runs(&self) -> Option<Arc<Runs>> {
        self.0.runs.get()?.upgrade()
    }

    pub(super) fn inlet(&self) -> Result<Arc<dyn Inlet>, String> {
        self.0.inlet.get().cloned().ok_or_else(|| "the gateway is starting".into())
    }
}
