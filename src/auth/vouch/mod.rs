//! What those in front of the gateway say of a client.
//!
//! Owns: users that a trusted proxy or Tailscale Serve names in a header.
//! Promises: a header counts only from where it is believed, and only when it is
//! there once; it says who somebody is and never what he may do. Must not: know
//! sockets.

mod proxy;
mod tailscale;
mod whois;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::config::{AuthMode, ProxySettings};

use super::{AuthFailure, Peer};
use whois::Whois;

/// Headers by name, in lower case, of those that somebody asks for.
pub type Claims = BTreeMap<String, String>;

/// What is said of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Vouch {
    /// Nobody was asked.
    #[default]
    Nothing,
    /// Who it is.
    For(Voucher),
    /// Why it is nobody.
    Refused(AuthFailure),
}

/// Who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voucher {
    /// A trusted proxy.
    Proxy,
    /// Tailscale.
    Tailscale,
}

/// Asks those in front.
pub struct Vouchers {
    settings: ProxySettings,
    by_proxy: bool,
    wanted: Vec<String>,
    whois: Whois,
}

impl Vouchers {
    /// As the settings want it.
    pub fn new(settings: ProxySettings, mode: AuthMode) -> Self {
        let by_proxy = mode == AuthMode::TrustedProxy;
        let mut wanted = Vec::new();
        if by_proxy {
            wanted.extend(settings.user.user_header.clone());
            wanted.extend(settings.user.required_headers.clone());
        }
        if settings.allow_tailscale {
            wanted.extend(tailscale::HEADERS.map(str::to_owned));
        }
        Self { settings, by_proxy, wanted, whois: Whois::default() }
    }

    /// The headers that [`Peer::claims`] should have.
    pub fn wanted_headers(&self) -> &[String] {
        &self.wanted
    }

    /// Who stands in front.
    pub const fn settings(&self) -> &ProxySettings {
        &self.settings
    }

    /// Whether who was let in on such a word would be now; a proxy's was said of `peer`.
    pub fn still_vouch(&self, by: Voucher, peer: Option<&Peer>) -> bool {
        match by {
            Voucher::Proxy => {
                self.by_proxy && peer.is_some_and(|it| proxy::user(&self.settings, it).is_ok())
            }
            Voucher::Tailscale => self.settings.allow_tailscale && !self.by_proxy,
        }
    }

    /// The same peer, with what is said of it.
    pub async fn ask<'a>(&self, peer: &'a Peer) -> Cow<'a, Peer> {
        let vouch = if self.by_proxy {
            proxy::user(&self.settings, peer).map(|user| (Voucher::Proxy, user))
        } else if self.settings.allow_tailscale && !peer.is_local() {
            let user = tailscale::user(peer, &self.whois).await;
            user.map(|user| (Voucher::Tailscale, user))
        } else {
            return Cow::Borrowed(peer);
        };
        let vouch = match vouch {
            Ok((by, user)) => {
                tracing::info!(?by, user, "a user is vouched for");
                Vouch::For(by)
            }
            Err(failure) => Vouch::Refused(failure),
        };
        Cow::Owned(Peer { vouch, ..peer.clone() })
    }
}
