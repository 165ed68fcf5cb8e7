//! The credentials that models are asked with.
//!
//! Owns: the profiles of `auth-profiles.json`, their order, and which of them
//! rest after a failure. Promises: a file is read again when it has changed, and
//! what it refers to at every use; what one conversation did wrong never makes a
//! credential rest (#15037); a new key under an old name does not rest, but for what OpenClaw,
//! or a version that knew no better, has noted under the name alone. The account of a token
//! that is renewed goes on resting with the next one, but for a token that was refused.
//! Must not: renew OAuth tokens, or log a secret.

mod cooldown;
mod profile;
pub mod status;
mod store;
mod usage_stats;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

pub use cooldown::{FailureReason, Rest, says_no_credit};
pub use profile::{Expiry, Profile};
pub use store::{ProfileFile, StoreError};

use super::ModelInfo;
use crate::config::models::is_same_provider;
use crate::config::profiles::{ProfileConfig, ProfileMode, ProfilesConfig};
use crate::config::secrets::{self, ResolvedSecrets, SecretRef, SecretSource, SecretsConfig};
use crate::config::{Env, Paths, Settings};
use crate::store::Store;
use crate::support::{Clock, Secret, Tasks, blocking, hex, sort};
use cooldown::Cooldowns;

/// Name of the file below an agent's directory.
const FILE: &str = "agent/auth-profiles.json";

/// A program that had no answer is left alone for so long: it may take seconds
/// each time, and every call of a model would wait for it.
const ASK_AGAIN_MS: u64 = 30_000;

/// Digits that tell a key from another with the same name. A key that nobody can guess is not
/// found by them; whoever reads the store can try guesses at one that is weak.
const KEY_DIGITS: usize = 12;

/// Where the profiles are of the agent with this directory.
pub fn path_below(agent_dir: &Path) -> PathBuf {
    agent_dir.join(FILE)
}

/// One way to be let in by a provider.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Id of the profile, or `<provider>:key` for the key of environment and
    /// configuration.
    pub id: String,
    /// The profile's secret; the model brings its own when there is none.
    secret: Option<(ProfileMode, Secret)>,
    /// What rests when it fails, see [`key_name`].
    key_name: String,
    /// Whether its secret is renewed, of the same account.
    is_renewed: bool,
}

impl Credential {
    /// `model`, reached with this credential.
    pub fn apply(&self, model: &Arc<ModelInfo>) -> Arc<ModelInfo> {
        match &self.secret {
            None => Arc::clone(model),
            // What Anthropic takes for a key must be one; tokens go elsewhere.
            Some((ProfileMode::OAuth | ProfileMode::Token, token))
                if model.api == super::Api::AnthropicMessages =>
            {
                Arc::new(model.with_bearer(token))
            }
            Some((_, key)) => Arc::new(model.with_key(key.clone())),
        }
    }

    /// What rests for this reason: a token that was refused, or the account of any.
    fn resting(&self, reason: FailureReason) -> &str {
        let is_of_account = self.is_renewed && reason != FailureReason::Auth;
        if is_of_account { &self.id } else { &self.key_name }
    }
}

/// When a file was written, and how long it is.
type Stamp = Option<(SystemTime, u64)>;

/// That of a file, and of the one beside it.
type Stamps = [Stamp; 2];

/// What is known of one file.
struct Loaded {
    stamps: Stamps,
    file: Arc<ProfileFile>,
    /// References that led nowhere, and when they were followed last, in
    /// milliseconds since the epoch.
    lost: HashMap<SecretRef, u64>,
}

/// A profile with what can be said about it now.
#[derive(Debug, Clone)]
pub struct ProfileState {
    /// It.
    pub profile: Profile,
    /// Its secret, when there is one that can be used.
    pub secret: Option<Secret>,
    /// Whether the order of `auth.order` leaves it out.
    pub is_left_out: bool,
}

impl ProfileState {
    /// Whether it can let somebody in by this provider, however that is written.
    pub fn opens(&self, provider: &str) -> bool {
        self.secret.is_some() && is_same_provider(&self.profile.provider, provider)
    }

    fn key_name(&self) -> String {
        key_name(&self.profile.id, self.secret.iter())
    }
}

/// What a credential is called where it rests: a key that takes the place of another one does
/// not go on with its rest. What another program has noted is of whichever key has the id.
fn key_name<'a>(id: &str, secrets: impl Iterator<Item = &'a Secret>) -> String {
    let mut hash = Sha256::new();
    hash.update(id);
    for secret in secrets {
        hash.update("\0");
        hash.update(secret.expose());
    }
    let hash = hex(hash.finalize());
    format!("{id}#{}", hash.get(..KEY_DIGITS).unwrap_or(&hash))
}

/// All credentials.
pub struct Credentials {
    paths: Paths,
    default_agent: String,
    config: ProfilesConfig,
    secrets: SecretsConfig,
    env: Env,
    clock: Arc<dyn Clock>,
    files: Mutex<HashMap<PathBuf, Loaded>>,
    cooldowns: Arc<Cooldowns>,
    /// Where rests are kept, and who does it.
    keeper: OnceLock<(Arc<dyn Store>, Tasks)>,
    recalled: tokio::sync::OnceCell<()>,
}

impl Credentials {
    /// Of these settings. Reads nothing yet.
    pub fn new(settings: &Settings, env: &Env, clock: Arc<dyn Clock>) -> Self {
        Self {
            paths: settings.paths.clone(),
            default_agent: settings.agents.default_id.clone(),
            config: settings.profiles.clone(),
            secrets: settings.secrets.clone(),
            env: env.clone(),
            cooldowns: Arc::new(Cooldowns::new(settings.profiles.cooldowns.clone())),
            keeper: OnceLock::new(),
            recalled: tokio::sync::OnceCell::new(),
            clock,
            files: Mutex::default(),
        }
    }

    /// Keeps rests in `store`. They are read from there when they first matter.
    pub fn keep_in(&self, store: Arc<dyn Store>, tasks: Tasks) {
        // Said once, when the program is put together.
        let _ = self.keeper.set((store, tasks));
    }

    async fn recall(&self) {
        let Some((store, _)) = self.keeper.get() else { return };
        let read = async || match store.cooldowns().await {
            Ok(rows) => self.cooldowns.recall(rows, self.clock.now_ms()),
            Err(error) => tracing::warn!(%error, "rests of credentials are not remembered"),
        };
        self.recalled.get_or_init(read).await;
    }

    /// Has written down what changed; nobody waits for it.
    fn keep(&self) {
        let Some((store, tasks)) = self.keeper.get() else { return };
        if self.cooldowns.begins_storing() {
            let (cooldowns, store) = (Arc::clone(&self.cooldowns), Arc::clone(store));
            tasks.spawn("credential-rests", async move {
                while let Some(changes) = cooldowns.changes() {
                    if let Err(error) = store.change_cooldowns(changes.clone()).await {
                        cooldowns.not_stored(changes);
                        tracing::warn!(%error, "rests of credentials are not kept yet");
                        return;
                    }
                }
            });
        }
    }

    /// Where the profiles of an agent are.
    pub fn path(&self, agent: &str) -> PathBuf {
        path_below(&self.paths.agent_dir(agent))
    }

    /// Every profile that an agent can use, its own before those of the default
    /// agent.
    pub async fn profiles(&self, agent: &str) -> Vec<ProfileState> {
        self.recall().await;
        let mut states: Vec<ProfileState> = Vec::new();
        let mut order: HashMap<String, Vec<String>> = HashMap::new();
        for owner in self.owners(agent) {
            let (file, secrets) = self.load(&self.path(owner)).await;
            for (provider, ids) in &file.order {
                order.entry(provider.clone()).or_insert_with(|| ids.clone());
            }
            for profile in &file.profiles {
                if states.iter().all(|known| known.profile.id != profile.id) {
                    let secret = profile.secret(&secrets);
                    let profile = profile.clone();
                    states.push(ProfileState { profile, secret, is_left_out: false });
                }
            }
        }
        for (provider, ids) in &self.config.order {
            order.entry(provider.clone()).or_insert_with(|| ids.clone());
        }
        let rank = |state: &ProfileState| {
            let profile = &state.profile;
            let explicit = order.get(&profile.provider);
            let place = explicit
                .map_or(0, |ids| ids.iter().position(|id| *id == profile.id).unwrap_or(usize::MAX));
            let configured = self.config.profiles.iter().position(|it| it.id == profile.id);
            let mode = explicit.is_none().then_some(profile.mode);
            (place, mode, configured.unwrap_or(usize::MAX))
        };
        for state in &mut states {
            state.is_left_out = rank(state).0 == usize::MAX;
        }
        // Stable: what is equal stays in the order of the file.
        sort::by_key(&mut states, rank);
        states
    }

    /// How an agent can be let in by the provider of `model`, best first.
    pub async fn for_model(&self, agent: &str, model: &ModelInfo) -> Vec<Credential> {
        let own = || {
            let id = format!("{}:key", model.provider);
            let headers = model.headers.values().filter(|_| model.api_key.is_none());
            let key_name = key_name(&id, model.api_key.iter().chain(headers));
            Credential { id, secret: None, key_name, is_renewed: false }
        };
        if model.options.auth.is_some() {
            self.recall().await;
            return vec![own()];
        }
        let now = self.clock.now_ms();
        let states = self.profiles(agent).await;
        let fitting = states.into_iter().filter(|state| {
            let profile = &state.profile;
            let is_expected = self.expected(&profile.id).is_none_or(|it| accepts(it, profile));
            model.is_of(&profile.provider)
                && !state.is_left_out
                && is_expected
                && profile.expiry.is_valid(now)
        });
        let mut found: Vec<Credential> = fitting
            .filter_map(|state| {
                let (key_name, is_renewed) = (state.key_name(), state.profile.is_renewed());
                let ProfileState { profile, secret, .. } = state;
                let secret = Some((profile.mode, secret?));
                Some(Credential { id: profile.id, secret, key_name, is_renewed })
            })
            .collect();
        if found.is_empty() || model.has_credential() {
            found.push(own());
        }
        found
    }

    /// Whether a stored credential lets an agent in by the provider of `model`.
    pub async fn has_profile(&self, agent: &str, model: &ModelInfo) -> bool {
        self.for_model(agent, model).await.iter().any(|credential| credential.secret.is_some())
    }

    /// What the configuration says about a profile.
    fn expected(&self, id: &str) -> Option<&ProfileConfig> {
        self.config.profiles.iter().find(|profile| profile.id == id)
    }

    /// Until when a credential rests, as far as this model is concerned.
    pub fn rest(&self, credential: &Credential, model: &ModelInfo) -> Option<Rest> {
        let now = self.clock.now_ms();
        let names = [&credential.key_name, &credential.id];
        let rests = names.iter().filter_map(|name| self.cooldowns.rest(name, model, now));
        rests.max_by_key(|rest| rest.until_ms)
    }

    /// Any rest of a profile, for those who look at it.
    pub fn longest_rest(&self, state: &ProfileState) -> Option<Rest> {
        let (now, key_name) = (self.clock.now_ms(), state.key_name());
        let names = [&key_name, &state.profile.id];
        let rests = names.iter().filter_map(|name| self.cooldowns.longest(name, now));
        rests.max_by_key(|rest| rest.until_ms)
    }

    /// What [`Self::failed`] is to know of a call that begins now.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// A call with this credential failed, which began at `began_ms`.
    pub fn failed(
        &self,
        credential: &Credential,
        model: &ModelInfo,
        failure: &super::ProviderError,
        began_ms: u64,
    ) {
        let name = credential.resting(FailureReason::of(failure));
        self.cooldowns.failed(name, model, failure, began_ms, self.now_ms());
        self.keep();
    }

    /// A call with this credential went well.
    pub fn succeeded(&self, credential: &Credential, model: &ModelInfo) {
        for name in [&credential.key_name, &credential.id] {
            self.cooldowns.succeeded(name, model, self.clock.now_ms());
        }
        self.keep();
    }

    /// The agents whose files count for `agent`, its own first.
    fn owners<'a>(&'a self, agent: &'a str) -> impl Iterator<Item = &'a str> {
        let default = self.default_agent.as_str();
        std::iter::once(agent).chain((agent != default).then_some(default))
    }

    /// Asks programs again for the secrets of profiles when they are next used.
    pub fn forget(&self) {
        self.files.lock().clear();
    }

    /// What is in a file by now, and the secrets that it refers to.
    async fn load(&self, path: &Path) -> (Arc<ProfileFile>, ResolvedSecrets) {
        let file = self.read(path).await;
        let secrets = self.follow(path, &file).await;
        (file, secrets)
    }

    async fn read(&self, path: &Path) -> Arc<ProfileFile> {
        let known =
            self.files.lock().get(path).map(|known| (known.stamps, Arc::clone(&known.file)));
        let (place, before) = (path.to_owned(), known.as_ref().map(|(stamps, _)| *stamps));
        let found = blocking(move || changed(&place, before)).await;
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(%error, "stored credentials are not looked at");
            None
        });
        match found {
            Some((stamps, read)) => self.take_in(path, stamps, read),
            None => known.map(|(_, file)| file).unwrap_or_default(),
        }
    }

    fn take_in(
        &self,
        path: &Path,
        stamps: Stamps,
        read: Result<ProfileFile, StoreError>,
    ) -> Arc<ProfileFile> {
        let mut files = self.files.lock();
        // Another call may have read the same, and followed its references.
        if let Some(known) = files.get(path).filter(|known| known.stamps == stamps) {
            return Arc::clone(&known.file);
        }
        let file = Arc::new(read.unwrap_or_else(|error| {
            tracing::warn!(%error, "stored credentials are not used");
            ProfileFile::default()
        }));
        // Before anybody is given the file.
        self.cooldowns.take_over(&file.rests, self.clock.now_ms());
        let loaded = Loaded { stamps, file: Arc::clone(&file), lost: HashMap::new() };
        files.insert(path.to_owned(), loaded);
        file
    }

    /// The secrets that a file refers to, as they are now. What leads nowhere is
    /// told once.
    async fn follow(&self, path: &Path, file: &ProfileFile) -> ResolvedSecrets {
        let now = self.clock.now_ms();
        let lost = self.files.lock().get(path).map(|known| known.lost.clone()).unwrap_or_default();
        let is_left_alone = |reference: &SecretRef| {
            let asked = lost.get(reference).filter(|_| reference.source == SecretSource::Exec);
            asked.is_some_and(|asked| now.saturating_sub(*asked) < ASK_AGAIN_MS)
        };
        let references = file.profiles.iter().filter_map(Profile::reference);
        let wanted: BTreeSet<_> = references.filter(|it| !is_left_alone(it)).cloned().collect();
        let (secrets, gone) = secrets::resolve(&wanted, &self.secrets, &self.env).await;
        if let Some(known) = self.files.lock().get_mut(path) {
            known.lost.retain(|reference, _| secrets.get(reference).is_none());
            for (reference, error) in gone {
                if !known.lost.contains_key(&reference) {
                    tracing::warn!(%reference, %error, "a stored credential is not used");
                }
                known.lost.insert(reference, now);
            }
        }
        secrets
    }
}

/// What is in a file by now, unless it is as it was before.
fn changed(
    path: &Path,
    before: Option<Stamps>,
) -> Option<(Stamps, Result<ProfileFile, StoreError>)> {
    let stamps = [path, ProfileFile::state_path(path).as_path()].map(stamp);
    (before != Some(stamps)).then(|| (stamps, ProfileFile::read(path)))
}

fn stamp(path: &Path) -> Stamp {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.modified().ok()?, facts.len()))
}

/// Whether the stored profile is what the configuration expects. A token is
/// what many an OAuth login leaves behind.
fn accepts(expected: &ProfileConfig, stored: &Profile) -> bool {
    expected.provider == stored.provider
        && (expected.mode == stored.mode
            || (expected.mode == ProfileMode::OAuth && stored.mode == ProfileMode::Token))
}

#[cfg(test)]
mod tests;
