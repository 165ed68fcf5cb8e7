//! Secrets that programs have told.
//!
//! Owns: what was told, until it is asked for again. Promises: a program is not
//! asked at every use; a reload changes all of it or nothing. Must not: answer with
//! what a variable or a file has held: they are quick, and tell what is true now. That
//! is kept for a gateway that goes on though its secrets are gone.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{ResolvedSecrets, SecretRef, SecretSource};
use crate::support::Secret;

/// More references than any configuration has; beyond that programs are asked
/// each time.
const MAX_KNOWN: usize = 1000;

/// What programs have told; clones share it.
#[derive(Clone, Default)]
pub struct SecretCache(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    secrets: HashMap<SecretRef, Secret>,
    /// What was found last, whoever has told it.
    last: ResolvedSecrets,
    /// How often programs were asked for all of it again.
    reloads: u64,
}

impl SecretCache {
    /// Takes out of `wanted` what is known. The number is for [`Self::learn`].
    pub(super) fn take_known(&self, wanted: &mut BTreeSet<SecretRef>) -> (ResolvedSecrets, u64) {
        let known = self.0.lock();
        let mut found = ResolvedSecrets::default();
        wanted.retain(|reference| match known.secrets.get(reference) {
            Some(secret) => {
                found.insert(reference.clone(), secret.clone());
                false
            }
            None => true,
        });
        (found, known.reloads)
    }

    /// Remembers what programs have told that were asked after so many reloads. After
    /// another one it may be what was true before.
    pub(super) fn learn(&self, told: &ResolvedSecrets, reloads: u64) {
        let mut known = self.0.lock();
        if known.reloads == reloads {
            known.learn(told);
        }
    }

    /// What was found last, whoever has told it.
    pub(super) fn last(&self) -> ResolvedSecrets {
        self.0.lock().last.clone()
    }

    /// What is known now.
    pub(super) fn references(&self) -> BTreeSet<SecretRef> {
        self.0.lock().secrets.keys().cloned().collect()
    }

    /// Remembers what was told now, and of the rest only what is in `kept`.
    pub(super) fn swap(&self, told: &ResolvedSecrets, kept: &BTreeSet<SecretRef>) {
        let mut known = self.0.lock();
        known.secrets.retain(|reference, _| kept.contains(reference));
        known.learn(told);
        known.reloads += 1;
    }
}

impl Told {
    fn learn(&mut self, told: &ResolvedSecrets) {
        for (reference, secret) in told.iter() {
            if self.last.len() < MAX_KNOWN || self.last.get(reference).is_some() {
                self.last.insert(reference.clone(), secret.clone());
            }
            let has_room = self.secrets.len() < MAX_KNOWN || self.secrets.contains_key(reference);
            if reference.source == SecretSource::Exec && has_room {
                self.secrets.insert(reference.clone(), secret.clone());
            }
        }
    }
}

impl fmt::Debug for SecretCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretCache({})", self.0.lock().secrets.len())
    }
}

/// Two configurations are the same whatever has been told meanwhile.
impl PartialEq for SecretCache {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SecretCache {}
