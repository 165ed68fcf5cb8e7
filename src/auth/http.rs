//! Who a request by HTTP is.
//!
//! Promises: the same rules as for a `connect`: a try is paid for before it is
//! compared, at the places where logins pay; nothing in an address is looked at.
//! Must not: know which request it is.

use crate::config::AuthMode;
use crate::protocol::connect::ConnectAuth;
use crate::protocol::{ErrorShape, Role, Scope, ScopeSet};

use super::admission::Auth;
use super::pairing::{Standing, worth};
use super::peer::Peer;
use super::principal::{Login, Owner, Principal};
use super::shared_secret;
use super::tries::pay;
use super::vouch::Voucher;

/// Whose the runs are that no device has begun.
const OWNER: &str = "http";

/// What a request has with it.
#[derive(Clone, Copy, Default)]
pub struct HttpShown<'a> {
    /// `Authorization: Bearer`.
    pub bearer: Option<&'a str>,
    /// `x-openclaw-scopes`: what it wants to have of what it is worth.
    pub scopes: Option<&'a str>,
}

/// What lets a request in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpProof {
    /// There is none.
    Nothing,
    /// Nothing is asked for, or a proxy names the user.
    Place,
    /// The gateway's own token or password.
    Secret,
    /// A token of a paired device.
    Device,
}

/// A request that was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpCaller {
    /// What it may do.
    pub principal: Principal,
    /// By what.
    pub proof: HttpProof,
    /// What its device stands on, if it is one.
    pub standing: Option<Standing>,
}

impl HttpCaller {
    /// Somebody of whom nothing is asked, and who may do nothing.
    pub fn nobody() -> Self {
        let owner = Owner::Connection(OWNER.into());
        let principal = Principal::new(Role::Operator, ScopeSet::default(), owner);
        Self { principal, proof: HttpProof::Nothing, standing: None }
    }

    /// The same, as who comes from there.
    #[must_use]
    pub fn of_peer(self, peer: &Peer) -> Self {
        Self { principal: self.principal.of_peer(peer), ..self }
    }
}

/// Why a request is not let in.
#[derive(Debug, Clone, PartialEq)]
pub enum HttpRefusal {
    /// It proves nothing.
    Unauthorized,
    /// Its place has tried too often.
    Locked {
        /// For so long.
        wait_ms: u64,
    },
    /// It cannot be found out.
    Unavailable(ErrorShape),
}

impl Auth {
    /// Decides about a request.
    ///
    /// # Errors
    /// When it is nobody's.
    pub async fn admit_http(
        &self,
        shown: HttpShown<'_>,
        peer: &Peer,
        now_ms: u64,
    ) -> Result<HttpCaller, HttpRefusal> {
        let peer = &*self.vouchers().ask(peer).await;
        // Tailscale names people, and their browsers have a device.
        if peer.voucher() == Some(Voucher::Proxy) {
            return Ok(self.of_place(shown, Login::Vouched(Voucher::Proxy)));
        }
        let mode = self.secret_mode(peer);
        if mode == AuthMode::None {
            let is_here = peer.is_local() && !peer.is_cross_site;
            let open = || self.of_place(shown, Login::Open);
            return is_here.then(open).ok_or(HttpRefusal::Unauthorized);
        }
        let bearer = shown.bearer.ok_or(HttpRefusal::Unauthorized)?;
        let place = self.limited_place("shared-secret", peer);
        let wait_ms = || place.as_ref().map_or(0, |(limiter, place)| limiter.wait_ms(place));
        let Ok(paid) = pay(place.clone()).await else {
            return Err(HttpRefusal::Locked { wait_ms: wait_ms() });
        };
        let given = ConnectAuth {
            token: Some(bearer.to_owned()),
            password: Some(bearer.to_owned()),
            ..ConnectAuth::default()
        };
        if shared_secret::check(&self.settings, mode, &given).is_ok() {
            paid.succeeded();
            let principal = self.worth_of(None, Login::Secret(mode));
            return Ok(HttpCaller { principal, proof: HttpProof::Secret, standing: None });
        }
        // All devices are looked through: that costs, also where logins are not
        // limited.
        let Some(look) = self.pay_hook(peer).await else {
            return Err(HttpRefusal::Locked { wait_ms: self.hook_wait_ms(peer) });
        };
        let found = self.pairing.holder(bearer, now_ms).await;
        let (device_id, let_in) =
            found.map_err(HttpRefusal::Unavailable)?.ok_or(HttpRefusal::Unauthorized)?;
        look.succeeded();
        paid.was_no_guess();
        let scopes = worth(&let_in.scopes);
        let principal = Principal::new(Role::Operator, scopes, Owner::Device(device_id));
        Ok(HttpCaller {
            principal: principal.with_own_token(),
            proof: HttpProof::Device,
            standing: Some(let_in.standing),
        })
    }

    fn of_place(&self, shown: HttpShown<'_>, login: Login) -> HttpCaller {
        let principal = self.worth_of(shown.scopes, login);
        HttpCaller { principal, proof: HttpProof::Place, standing: None }
    }

    /// What a login without a device is worth, or as much of it as is wanted.
    fn worth_of(&self, wanted: Option<&str>, login: Login) -> Principal {
        let worth = self.settings.shared_secret_scopes;
        let scopes: ScopeSet = match wanted {
            None => worth,
            Some(list) => {
                let asked = list.split(',').filter_map(|name| Scope::parse(name.trim()));
                asked.filter(|scope| worth.allows(*scope)).collect()
            }
        };
        let principal = Principal::new(Role::Operator, scopes, Owner::Connection(OWNER.into()));
        principal.by(login, self.ground(login))
    }
}
