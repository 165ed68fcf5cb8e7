//! Asking the next credential, and then the next model, when one fails.
//!
//! Owns: what all conversations share for that, and who answers which of them. The order in
//! which models are tried is a [`Route`]. Must not: know of sessions or runs.

mod notice;
mod route;

pub use notice::{Attempt, FallbackNotice};
pub(super) use route::ALL_FAILED;
pub use route::Route;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::credentials::Credentials;
use super::{Catalog, ModelInfo, ModelRef};

/// Conversations that are remembered to be answered by a fallback.
const MAX_ACTIVE: usize = 10_000;

/// Everything that failing over needs.
pub struct Failover {
    catalog: Arc<Catalog>,
    credentials: Arc<Credentials>,
    /// Which conversations are answered by a fallback, and by which.
    active: Mutex<HashMap<String, ModelRef>>,
}

impl Failover {
    /// Over these models and credentials.
    pub fn new(catalog: Arc<Catalog>, credentials: Arc<Credentials>) -> Arc<Self> {
        Arc::new(Self { catalog, credentials, active: Mutex::default() })
    }

    /// All models there are.
    pub const fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// All credentials there are.
    pub const fn credentials(&self) -> &Arc<Credentials> {
        &self.credentials
    }

    /// The way to an answer for `agent`: `first`, else the first of `others`
    /// that gives one. `conversation` is the same for all answers of one.
    pub fn route(
        self: &Arc<Self>,
        agent: &str,
        conversation: &str,
        first: Arc<ModelInfo>,
        others: Vec<Arc<ModelInfo>>,
    ) -> Route {
        let models = std::iter::once(Arc::clone(&first)).chain(others).collect();
        Route::new(Arc::clone(self), agent, first, models).remembered(conversation)
    }

    /// Remembers that `active` has answered a conversation whose model is `selected`; what
    /// there is to tell of that, when it has not been told. `attempts` failed before.
    fn note_answer(
        &self,
        conversation: &str,
        selected: ModelRef,
        active: ModelRef,
        attempts: Vec<Attempt>,
    ) -> Option<FallbackNotice> {
        let mut known = self.active.lock();
        if selected == active {
            let previous = known.remove(conversation);
            return previous.map(|previous| FallbackNotice::Cleared { selected, previous });
        }
        if known.len() >= MAX_ACTIVE {
            known.clear();
        }
        let before = known.insert(conversation.to_owned(), active.clone());
        (before.as_ref() != Some(&active)).then_some(FallbackNotice::Active {
            selected,
            active,
            attempts,
        })
    }
}
