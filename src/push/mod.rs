//! Notifications of browsers, by Web Push (RFC 8030, 8291, 8292).
//!
//! Owns: the key pair that names this gateway to push services, which browsers
//! want notifications, their encryption and their delivery. Promises: the
//! private key stays in its file; only a push service that may be reached is
//! asked, and only it learns that there is something, not what; a browser that
//! is gone is forgotten, and so is one of a device that is no longer paired.
//! Must not: know methods.

mod keys;
mod message;
mod send;
mod subscriptions;

use std::sync::Arc;

use tokio::sync::Mutex;

pub use send::{Delivery, Notice, PushError};
pub use subscriptions::{Subscription, SubscriptionKeys};

use crate::agent::web::{GuardedClient, Policy, Proxies, SystemLookup, Tls};
use crate::config::{Env, Settings};
use crate::store::{JsonFile, Store};
use crate::support::{Clock, Ids, Live};

/// What notifications work with.
pub struct PushParts {
    /// What the config says.
    pub settings: Live<Settings>,
    /// The surroundings of the process.
    pub env: Env,
    /// Which devices are paired.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn Ids>,
}

/// All of it.
pub struct Push {
    parts: PushParts,
    keys: JsonFile,
    subscriptions: JsonFile,
    tls: Arc<Tls>,
    /// Held from reading a file to writing it.
    gate: Mutex<()>,
}

impl Push {
    /// Nothing is read and nobody is asked yet.
    pub fn new(parts: PushParts) -> Self {
        // Where OpenClaw keeps them.
        let dir = parts.settings.now().paths.state_dir.join("push");
        Self {
            keys: JsonFile::new(dir.join("vapid-keys.json")),
            subscriptions: JsonFile::new(dir.join("web-push-subscriptions.json")),
            tls: Arc::default(),
            gate: Mutex::default(),
            parts,
        }
    }

    /// What may be reached.
    fn policy(&self) -> Policy {
        Policy::new(&self.parts.settings.now().push.web.ssrf_policy)
    }

    fn client(&self) -> GuardedClient {
        let lookup = Arc::new(SystemLookup);
        // No proxy: what it reaches cannot be checked.
        GuardedClient::new(self.policy(), lookup, Proxies::default(), Arc::clone(&self.tls))
    }
}
