//! The decision about a `connect`.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::json;

use crate::config::{AuthMode, AuthSettings, ControlUiSettings, RateLimitSettings};
use crate::protocol::connect::{ClientInfo, ConnectAuth, SimpleConnect, StandardConnect};
use crate::protocol::{ErrorShape, Role, Scope, ScopeSet};

use super::limiter::Limiter;
use super::peer::{Peer, bucket};
use super::principal::{Owner, Principal};
use super::shared_secret::{self, AuthFailure};
use super::{device, origin};

/// A connect that was let in.
#[derive(Debug, Clone)]
pub struct Admission {
    /// What it may do.
    pub principal: Principal,
    /// The granted scopes by name, for hello.
    pub scope_names: Vec<String>,
    /// Id of its proved device.
    pub device_id: Option<String>,
}

/// A connect that was not let in: the error to answer. The socket is closed
/// with 1008 and the same text.
pub type Refusal = ErrorShape;

/// Decides about connects.
pub struct Auth {
    settings: AuthSettings,
    control_ui: ControlUiSettings,
    trusted_proxies: Vec<IpAddr>,
    /// Per client address, when the configuration asks for it.
    by_address: Option<Limiter>,
    /// Per page origin, always: any web page can reach a loopback gateway.
    by_origin: Limiter,
    /// Per client address, requests that do not prove who sent them.
    by_hook: Limiter,
}

/// So many requests in a minute that prove nothing, then none for a minute. Far
/// above how many a service has under way at a time.
const HOOK_LIMIT: RateLimitSettings = RateLimitSettings {
    max_attempts: 100,
    window: Duration::from_mins(1),
    lockout: Duration::from_mins(1),
    exempt_loopback: true,
};

impl Auth {
    /// From the effective settings.
    pub fn new(
        settings: AuthSettings,
        control_ui: ControlUiSettings,
        trusted_proxies: Vec<IpAddr>,
    ) -> Self {
        Self {
            by_address: settings.rate_limit.map(Limiter::new),
            by_origin: Limiter::new(RateLimitSettings::default()),
            by_hook: Limiter::new(HOOK_LIMIT),
            settings,
            control_ui,
            trusted_proxies,
        }
    }

    /// How clients authenticate.
    pub const fn mode(&self) -> AuthMode {
        self.settings.mode
    }

    /// Where logs see this client.
    pub fn client_ip(&self, peer: &Peer) -> IpAddr {
        peer.client_ip(&self.trusted_proxies)
    }

    /// Where limits see this client: its address, or the network of a v6 one,
    /// since that has more addresses than any limit.
    pub fn place_of(&self, peer: &Peer) -> IpAddr {
        bucket(self.client_ip(peer))
    }

    /// Pays for one request by HTTP that has yet to prove who sent it; `false`
    /// when its place has sent too many that did not.
    pub fn pay_hook(&self, peer: &Peer, now_ms: u64) -> bool {
        peer.is_local() || self.by_hook.pay(&self.place_of(peer).to_string(), now_ms)
    }

    /// The request has proved who sent it.
    pub fn forgive_hook(&self, peer: &Peer) {
        self.by_hook.forgive(&self.place_of(peer).to_string());
    }

    /// Decides about a connect of the standard profile, in the recorded order.
    pub fn admit_standard(
        &self,
        connect: &StandardConnect,
        peer: &Peer,
        conn_id: &str,
        nonce: &str,
        now_ms: u64,
    ) -> Result<Admission, Refusal> {
        let role = Role::parse(connect.role.as_deref().unwrap_or("operator"))
            .ok_or_else(|| ErrorShape::invalid("invalid role"))?;
        if peer.origin.is_some() || is_browser(&connect.client) {
            self.check_origin(peer)?;
        }
        let Some(proof) = &connect.device else {
            let keeps_scopes = self.admit_without_device(connect, role, peer, now_ms)?;
            let owner = Owner::Connection(conn_id.to_owned());
            let asked = if keeps_scopes { connect.scopes.as_slice() } else { &[] };
            return Ok(admission(role, asked, owner));
        };
        device::verify(proof, connect, role.as_str(), nonce, now_ms)
            .map_err(device::ProofError::to_error)?;
        self.check_credentials(&connect.auth, Some(&connect.client), true, peer, now_ms)?;
        if !peer.is_local() {
            return Err(pairing_required(&proof.id, role, &connect.scopes));
        }
        let admitted = admission(role, &connect.scopes, Owner::Device(proof.id.clone()));
        let needs_no_token = self.settings.mode == AuthMode::None && is_browser(&connect.client);
        if needs_no_token {
            return Ok(admitted);
        }
        Ok(Admission { scope_names: normalized(&connect.scopes), ..admitted })
    }

    /// Decides about a connect of the simple profile.
    pub fn admit_simple(
        &self,
        connect: &SimpleConnect,
        peer: &Peer,
        conn_id: &str,
        now_ms: u64,
    ) -> Result<Admission, Refusal> {
        if peer.origin.is_some() {
            self.check_origin(peer)?;
        }
        if connect.has_device {
            return Err(ErrorShape::denied(
                "device is not paired with this gateway; leave deviceAuth out and pass the gateway token",
            ));
        }
        if self.settings.mode == AuthMode::None && !peer.is_local() {
            return Err(ErrorShape::denied(
                "unauthorized: auth mode none serves direct loopback connections only (set gateway.auth.mode to token)",
            ));
        }
        self.check_credentials(&connect.auth, None, false, peer, now_ms)?;
        let scopes = self.settings.shared_secret_scopes;
        Ok(Admission {
            principal: Principal::new(
                Role::Operator,
                scopes,
                Owner::Connection(conn_id.to_owned()),
            ),
            scope_names: scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
            device_id: None,
        })
    }

    fn check_origin(&self, peer: &Peer) -> Result<(), Refusal> {
        origin::check(peer, &self.control_ui).map_err(|refusal| {
            ErrorShape::denied(
                "origin not allowed (open the Control UI from the gateway host or allow it in gateway.controlUi.allowedOrigins)",
            )
            .details(json!({
                "code": "CONTROL_UI_ORIGIN_NOT_ALLOWED",
                "reason": refusal.reason(),
            }))
        })
    }

    /// Lets a client in without a device; tells whether it keeps its scopes.
    fn admit_without_device(
        &self,
        connect: &StandardConnect,
        role: Role,
        peer: &Peer,
        now_ms: u64,
    ) -> Result<bool, Refusal> {
        let client = &connect.client;
        let needs_device = || {
            ErrorShape::not_paired("device identity required")
                .details(json!({"code": "DEVICE_IDENTITY_REQUIRED"}))
        };
        let is_own_ui = ["openclaw-control-ui", "openclaw-tui"].contains(&client.id.as_str());
        let ui_is_excused = self.control_ui.dangerously_disable_device_auth
            || (self.control_ui.allow_insecure_auth && peer.is_local());
        if role == Role::Node {
            return Err(needs_device());
        }
        if is_own_ui && !ui_is_excused {
            return Err(ErrorShape::denied(
                "control ui requires device identity (use HTTPS or localhost secure context)",
            )
            .details(json!({"code": "CONTROL_UI_DEVICE_IDENTITY_REQUIRED"})));
        }
        let auth = &connect.auth;
        if self.settings.mode == AuthMode::None || (auth.token.is_none() && auth.password.is_none())
        {
            return Err(needs_device());
        }
        self.check_credentials(auth, Some(client), false, peer, now_ms)?;
        let is_backend = client.id == "gateway-client"
            && client.mode == "backend"
            && peer.is_local()
            && peer.origin.is_none();
        Ok(is_backend || is_own_ui)
    }

    /// Checks the shared secret, paying for each try first.
    fn check_credentials(
        &self,
        given: &ConnectAuth,
        client: Option<&ClientInfo>,
        has_device: bool,
        peer: &Peer,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        let can_retry = has_device && given.token.is_some() && given.device_token.is_none();
        let refuse = |failure: AuthFailure| {
            failure.to_error(client, failure == AuthFailure::TokenMismatch && can_retry)
        };
        let is_a_try = shared_secret::is_a_try(&self.settings, given);
        let place = if is_a_try { self.limited_place("shared-secret", peer) } else { None };
        pay(place.as_ref(), now_ms).map_err(refuse)?;
        let Err(failure) = shared_secret::check(&self.settings, given) else {
            forgive(place.as_ref());
            return Ok(());
        };
        // No device token and no bootstrap token has been issued yet, so any is wrong.
        let has_device_token = has_device && given.device_token.is_some();
        let counts_bootstrap = has_device && (has_device_token || !is_a_try);
        if counts_bootstrap && given.bootstrap_token.is_some() {
            return Err(refuse(AuthFailure::BootstrapTokenInvalid));
        }
        if has_device_token {
            let place = self.limited_place("device-token", peer);
            pay(place.as_ref(), now_ms).map_err(refuse)?;
            return Err(refuse(AuthFailure::DeviceTokenMismatch));
        }
        Err(refuse(failure))
    }

    /// The limiter and the place in it that this peer pays at, if any.
    fn limited_place(&self, purpose: &str, peer: &Peer) -> Option<(&Limiter, String)> {
        let place = self.place_of(peer);
        if let Some(origin) = &peer.origin
            && place.is_loopback()
        {
            return Some((&self.by_origin, format!("{purpose} {}", origin.to_ascii_lowercase())));
        }
        let limiter = self.by_address.as_ref()?;
        let exempt = place.is_loopback() && limiter.exempts_loopback();
        (!exempt).then(|| (limiter, format!("{purpose} {place}")))
    }
}

fn pay(place: Option<&(&Limiter, String)>, now_ms: u64) -> Result<(), AuthFailure> {
    match place {
        Some((limiter, place)) if !limiter.pay(place, now_ms) => Err(AuthFailure::RateLimited),
        _ => Ok(()),
    }
}

fn forgive(place: Option<&(&Limiter, String)>) {
    if let Some((limiter, place)) = place {
        limiter.forgive(place);
    }
}

fn is_browser(client: &ClientInfo) -> bool {
    ["openclaw-control-ui", "webchat-ui"].contains(&client.id.as_str()) || client.mode == "webchat"
}

fn admission(role: Role, asked: &[String], owner: Owner) -> Admission {
    let scopes: ScopeSet = asked.iter().filter_map(|name| Scope::parse(name)).collect();
    let device_id = match &owner {
        Owner::Device(id) => Some(id.clone()),
        Owner::Connection(_) => None,
    };
    Admission {
        principal: Principal::new(role, scopes, owner),
        scope_names: asked.to_vec(),
        device_id,
    }
}

/// A device's scopes as they are shown: sorted, with what they imply.
fn normalized(scopes: &[String]) -> Vec<String> {
    let mut names: std::collections::BTreeSet<&str> =
        scopes.iter().map(|name| name.trim()).collect();
    if names.contains(Scope::Admin.as_str()) {
        names.extend([Scope::Read.as_str(), Scope::Write.as_str()]);
    }
    if names.contains(Scope::Write.as_str()) {
        names.insert(Scope::Read.as_str());
    }
    names.into_iter().map(str::to_owned).collect()
}

/// Pairing over the network needs an approval that cannot be given yet, so a
/// device is let in only from this machine.
fn pairing_required(device_id: &str, role: Role, scopes: &[String]) -> Refusal {
    ErrorShape::not_paired("pairing required: device is not approved yet").details(json!({
        "code": "PAIRING_REQUIRED",
        "reason": "not-paired",
        "deviceId": device_id,
        "requestedRole": role.as_str(),
        "requestedScopes": scopes,
        "remediationHint": "connect from the gateway's own machine, for instance through `ssh -N -L 18789:127.0.0.1:18789 HOST`",
    }))
}
