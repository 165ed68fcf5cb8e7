//! Where tries at credentials are counted, and paid for.
//!
//! Owns: the limiters of the places that clients come from. Promises: whoever pays says
//! what came of it, or has failed.

use std::sync::Arc;
use std::time::Duration;

use crate::config::RateLimitSettings;

use super::admission::Auth;
use super::failure::AuthFailure;
use super::limiter::{Limiter, Try};
use super::peer::Peer;

/// So many requests in a minute that prove nothing, then none for a minute. Far
/// above how many a service has under way at a time.
const HOOK_LIMIT: RateLimitSettings = RateLimitSettings {
    max_attempts: 100,
    window: Duration::from_mins(1),
    lockout: Duration::from_mins(1),
    exempt_loopback: true,
};

/// So many wrong tokens of hooks in a minute, as in the original.
const HOOK_TOKEN_LIMIT: RateLimitSettings = RateLimitSettings {
    max_attempts: 20,
    window: Duration::from_mins(1),
    lockout: Duration::from_mins(1),
    exempt_loopback: false,
};

/// Letters of an origin that count. The name of a host has 253 at most, a header some 64 000,
/// and thousands of origins are remembered.
const MAX_ORIGIN: usize = 300;

/// The limiters.
pub(super) struct Tries {
    /// Per client address, when the configuration asks for it.
    addresses: Option<Arc<Limiter>>,
    /// Per page origin, always: any web page can reach a loopback gateway.
    origins: Arc<Limiter>,
    /// Per client address, requests that do not prove who sent them.
    hooks: Arc<Limiter>,
    /// Per client address, requests with a wrong token of hooks.
    hook_tokens: Arc<Limiter>,
}

impl Tries {
    /// Nobody has tried anything yet.
    pub fn new(addresses: Option<RateLimitSettings>) -> Self {
        Self {
            addresses: addresses.map(Limiter::new).map(Arc::new),
            origins: Arc::new(Limiter::new(RateLimitSettings::default())),
            hooks: Arc::new(Limiter::new(HOOK_LIMIT)),
            hook_tokens: Arc::new(Limiter::new(HOOK_TOKEN_LIMIT)),
        }
    }

    /// The same under other rules. Who has tried too often has still done so.
    pub fn reconfigured(&self, addresses: Option<RateLimitSettings>) -> Self {
        let addresses = addresses.map(|limit| match &self.addresses {
            Some(known) => Arc::new(known.reconfigured(limit)),
            None => Arc::new(Limiter::new(limit)),
        });
        Self {
            addresses,
            origins: Arc::clone(&self.origins),
            hooks: Arc::clone(&self.hooks),
            hook_tokens: Arc::clone(&self.hook_tokens),
        }
    }
}

impl Auth {
    /// Pays for one request by HTTP that has yet to prove who sent it; none when its
    /// place has sent too many that did not.
    pub async fn pay_hook(&self, peer: &Peer) -> Option<Payment<'_>> {
        let is_local = peer.is_local();
        let place = (!is_local).then(|| (&*self.tries.hooks, self.place_of(peer).to_string()));
        pay(place).await.ok()
    }

    /// For how many milliseconds [`Self::pay_hook`] answers no.
    pub(super) fn hook_wait_ms(&self, peer: &Peer) -> u64 {
        self.tries.hooks.wait_ms(&self.place_of(peer).to_string())
    }

    /// Pays for one try of a token of hooks. The right token counts all the same:
    /// [`Self::forgive_hook_token`].
    ///
    /// # Errors
    /// For how many milliseconds its place has tried too many.
    pub async fn pay_hook_token(&self, peer: &Peer) -> Result<Payment<'_>, u64> {
        let place = self.place_of(peer).to_string();
        let paid = pay(Some((&self.tries.hook_tokens, place.clone()))).await;
        paid.map_err(|_| self.tries.hook_tokens.wait_ms(&place))
    }

    /// The token was right, although its place has tried too many.
    pub fn forgive_hook_token(&self, peer: &Peer) {
        self.tries.hook_tokens.forgive(&self.place_of(peer).to_string());
    }

    /// The limiter and the place in it that this peer pays at, if any.
    pub(super) fn limited_place(&self, purpose: &str, peer: &Peer) -> Option<Place<'_>> {
        let (place, addresses) = (self.place_of(peer), self.tries.addresses.as_deref());
        // An origin means something where a browser of this machine says it: a program
        // elsewhere has as many as it likes.
        if let Some(origin) = &peer.origin
            && place.is_loopback()
            && (peer.is_local() || addresses.is_none())
        {
            // A header that is text has ASCII alone.
            let told = origin.get(..MAX_ORIGIN).unwrap_or(origin).to_ascii_lowercase();
            return Some((&self.tries.origins, format!("{purpose} {told}")));
        }
        let limiter = addresses?;
        // Who comes through a proxy that nobody knows is not from this machine.
        let exempt = peer.is_local() && limiter.exempts_loopback();
        (!exempt).then(|| (limiter, format!("{purpose} {place}")))
    }
}

/// Where a try is paid for.
pub(super) type Place<'a> = (&'a Limiter, String);

/// A try that was paid for, where tries are counted. It has failed unless somebody
/// says otherwise.
#[derive(Default)]
pub struct Payment<'a>(Option<Try<'a>>);

impl Payment<'_> {
    /// It was right: its place starts over.
    pub fn succeeded(self) {
        if let Some(paid) = self.0 {
            paid.succeeded();
        }
    }

    /// It was no guess: it does not count.
    pub(super) fn was_no_guess(self) {
        if let Some(paid) = self.0 {
            paid.was_no_guess();
        }
    }
}

/// Pays for a try at a place, if tries are counted there.
///
/// # Errors
/// When the place is locked.
pub(super) async fn pay(place: Option<Place<'_>>) -> Result<Payment<'_>, AuthFailure> {
    let Some((limiter, place)) = place else { return Ok(Payment::default()) };
    let paid = limiter.pay(&place).await.ok_or(AuthFailure::RateLimited)?;
    Ok(Payment(Some(paid)))
}
