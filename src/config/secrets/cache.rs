//! Secrets that programs have told.
//!
//! Owns: what was told, until it is asked for again. Promises: a program is not
//! asked at every use; a reload changes all of it or nothing. Must not: keep
//! what a variable or a file holds: they are quick, and tell what is true now.

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
pub struct SecretCache(Arc<Mutex<HashMap<SecretRef, Secret>>>);

impl SecretCache {
    /// Takes out of `wanted` what is known.
    pub(super) fn take_known(&self, wanted: &mut BTreeSet<SecretRef>) -> ResolvedSecrets {
        let known = self.0.lock();
        let mut found = ResolvedSecrets::default();
        wanted.retain(|reference| match known.get(reference) {
            Some(secret) => {
                found.insert(reference.clone(), secret.clone());
                false
            }
            None => true,
        });
        found
    }

    /// Remembers what programs have told.
    pub(super) fn learn(&self, told: &ResolvedSecrets) {
        let mut known = self.0.lock();
        for (reference, secret) in told.iter() {
            let has_room = known.len() < MAX_KNOWN || known.contains_key(reference);
            if reference.source == SecretSource::Exec && has_room {
                known.insert(reference.clone(), secret.clone());
            }
        }
    }

    /// What is known now.
    pub(super) fn references(&self) -> BTreeSet<SecretRef> {
        self.0.lock().keys().cloned().collect()
    }

    /// Remembers what was told now, and of the rest only what is in `kept`.
    pub(super) fn swap(&self, told: &ResolvedSecrets, kept: &BTreeSet<SecretRef>) {
        self.0.lock().retain(|reference, _| kept.contains(reference));
        self.learn(told);
    }
}

impl fmt::Debug for SecretCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretCache({})", self.0.lock().len())
    }
}

/// Two configurations are the same whatever has been told meanwhile.
impl PartialEq for SecretCache {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SecretCache {}
