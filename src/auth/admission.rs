//! The decision about a `connect`.

use std::net::IpAddr;
use std::sync::Arc;

use crate::config::{AuthMode, AuthSettings, ControlUiSettings, ProxySettings};
use crate::protocol::connect::{ClientInfo, ConnectAuth, StandardConnect};
use crate::protocol::{ErrorShape, Role, Scope};
use crate::support::{Secret, json};

use super::arrival::DeviceGrant;
use super::failure::AuthFailure;
use super::pairing::{Pairing, worth};
use super::peer::{Peer, bucket};
use super::principal::{Excuse, Login, Owner, Principal};
use super::shared_secret;
use super::tries::{Tries, pay};
use super::vouch::{Vouch, Voucher, Vouchers};
use super::{device, origin};

/// A connect that was let in.
#[derive(Debug)]
pub struct Admission {
    /// What it may do.
    pub principal: Principal,
    /// The granted scopes by name, for hello.
    pub scope_names: Vec<String>,
    /// Id of its proved device.
    pub device_id: Option<String>,
    /// What its device got, if it is paired.
    pub granted: Option<DeviceGrant>,
}

impl Admission {
    /// The same, let in by this, which stands on that.
    fn by(self, login: Login, ground: Option<Secret>) -> Self {
        Self { principal: self.principal.by(login, ground), ..self }
    }

    /// The same, as a page without a device.
    fn excused_by(self, excuse: Excuse) -> Self {
        Self { principal: self.principal.excused_by(excuse), ..self }
    }

    /// The same, as who comes from there.
    #[must_use]
    pub fn of_peer(self, peer: &Peer) -> Self {
        Self { principal: self.principal.of_peer(peer), ..self }
    }
}

/// A connect that was not let in: the error to answer. The socket is closed
/// with 1008 and the same text.
pub type Refusal = ErrorShape;

/// Decides about connects.
pub struct Auth {
    pub(super) settings: AuthSettings,
    control_ui: ControlUiSettings,
    vouchers: Arc<Vouchers>,
    pub(super) tries: Tries,
    pub(super) pairing: Arc<Pairing>,
}

impl Auth {
    /// From the effective settings.
    pub fn new(
        settings: AuthSettings,
        control_ui: ControlUiSettings,
        proxies: ProxySettings,
        pairing: Arc<Pairing>,
    ) -> Self {
        Self {
            vouchers: Arc::new(Vouchers::new(proxies, settings.mode)),
            tries: Tries::new(settings.rate_limit),
            settings,
            control_ui,
            pairing,
        }
    }

    /// The same place under other rules. Who has tried too often has still done
    /// so.
    #[must_use]
    pub fn reconfigured(
        &self,
        settings: AuthSettings,
        control_ui: ControlUiSettings,
        proxies: ProxySettings,
    ) -> Self {
        let is_vouched_alike =
            settings.mode == self.settings.mode && proxies == *self.vouchers.settings();
        let vouchers = if is_vouched_alike {
            Arc::clone(&self.vouchers)
        } else {
            Arc::new(Vouchers::new(proxies, settings.mode))
        };
        let tries = self.tries.reconfigured(settings.rate_limit);
        Self { settings, control_ui, vouchers, tries, pairing: Arc::clone(&self.pairing) }
    }

    /// Whether what let somebody in under the rules `before` is good under these, and
    /// worth what he has.
    pub fn still_admits(&self, who: &Principal, before: &Self) -> bool {
        let login = who.login();
        let is_same = |now: Option<&Secret>, then: Option<&Secret>| {
            now.zip(then).is_some_and(|(now, then)| now.matches(then.expose()))
        };
        let (now, then) = (&self.settings, &before.settings);
        // Who logs in again gets what the secret is worth now.
        let is_lost = |scope: Scope| !now.shared_secret_scopes.allows(scope) && who.allows(scope);
        if login != Login::Own && then.shared_secret_scopes.iter().any(is_lost) {
            return false;
        }
        if who.excuse().is_some_and(|excuse| !self.excuses(excuse)) {
            return false;
        }
        let page = who.peer().filter(|peer| peer.origin.is_some());
        if page.is_some_and(|page| origin::check(page, &self.control_ui).is_err()) {
            return false;
        }
        match login {
            Login::Own => true,
            Login::Open => now.mode == AuthMode::None,
            Login::Secret(AuthMode::Token) => {
                now.mode == AuthMode::Token && is_same(now.token.as_ref(), then.token.as_ref())
            }
            Login::Secret(AuthMode::Password) => {
                [AuthMode::Password, AuthMode::TrustedProxy].contains(&now.mode)
                    && (now.mode == then.mode || then.mode == AuthMode::TrustedProxy)
                    && is_same(now.password.as_ref(), then.password.as_ref())
            }
            Login::Secret(AuthMode::None | AuthMode::TrustedProxy) => false,
            Login::Vouched(by) => self.vouchers.still_vouch(by, who.peer()),
        }
    }

    /// Whether a page may come without a device.
    const fn excuses(&self, excuse: Excuse) -> bool {
        let pages = &self.control_ui;
        let is_near = matches!(excuse, Excuse::Near);
        pages.dangerously_disable_device_auth || (pages.allow_insecure_auth && is_near)
    }

    /// What lets a client in that shows no token of its device.
    pub(super) fn login(&self, peer: &Peer) -> Login {
        match (peer.voucher(), self.secret_mode(peer)) {
            (Some(voucher), _) => Login::Vouched(voucher),
            (None, AuthMode::None) => Login::Open,
            (None, mode) => Login::Secret(mode),
        }
    }

    /// The same, as who shows no token of its device.
    pub(super) fn logged_in(&self, admission: Admission, peer: &Peer) -> Admission {
        let login = self.login(peer);
        admission.by(login, self.ground(login))
    }

    /// What a login stands on, as long as nobody else decides about it: the secret that was
    /// shown, or that none is needed.
    pub(super) fn ground(&self, login: Login) -> Option<Secret> {
        match login {
            Login::Open => self.ground_of(AuthMode::None),
            Login::Secret(mode) => self.ground_of(mode),
            Login::Own | Login::Vouched(_) => None,
        }
    }

    /// What logins stand on now.
    pub(super) fn current_ground(&self) -> Option<Secret> {
        match self.settings.mode {
            // Beside the proxy there is the password.
            AuthMode::TrustedProxy => self.ground_of(AuthMode::Password),
            mode => self.ground_of(mode),
        }
    }

    fn ground_of(&self, mode: AuthMode) -> Option<Secret> {
        let shown = match mode {
            AuthMode::None => return Some(Secret::new(mode.as_str())),
            AuthMode::Token => self.settings.token.as_ref(),
            AuthMode::Password => self.settings.password.as_ref(),
            AuthMode::TrustedProxy => None,
        };
        shown.map(|shown| Secret::new(format!("{} {}", mode.as_str(), shown.expose())))
    }

    /// How clients authenticate.
    pub const fn mode(&self) -> AuthMode {
        self.settings.mode
    }

    /// Where logs see this client.
    pub fn client_ip(&self, peer: &Peer) -> IpAddr {
        peer.client_ip(self.vouchers.settings())
    }

    /// Whether a connection from this address is a trusted proxy's.
    pub fn is_proxy(&self, remote: IpAddr) -> bool {
        self.vouchers.settings().includes(remote)
    }

    /// Whether a trusted proxy has passed this on. What comes from this machine without a
    /// header of a proxy has gone past the one that is here, as a browser of this machine does.
    pub fn is_passed_on(&self, peer: &Peer) -> bool {
        !peer.is_local() && self.is_proxy(peer.remote)
    }

    /// Who is asked about users.
    pub fn vouchers(&self) -> &Vouchers {
        &self.vouchers
    }

    /// The rules for web pages.
    pub const fn pages(&self) -> &ControlUiSettings {
        &self.control_ui
    }

    /// Where a client comes from, unless from this machine itself.
    pub fn remote_ip(&self, peer: &Peer) -> Option<IpAddr> {
        (!peer.is_local()).then(|| self.client_ip(peer))
    }

    /// Where limits see this client: its address, or the network of a v6 one,
    /// since that has more addresses than any limit.
    pub fn place_of(&self, peer: &Peer) -> IpAddr {
        bucket(self.client_ip(peer))
    }

    /// Decides about a connect of the standard profile, in the recorded order.
    pub async fn admit_standard(
        &self,
        connect: &StandardConnect,
        peer: &Peer,
        conn_id: &str,
        nonce: &str,
        now_ms: u64,
    ) -> Result<Admission, Refusal> {
        let role = Role::parse(connect.role.as_deref().unwrap_or("operator"))
            .ok_or_else(|| ErrorShape::invalid("invalid role"))?;
        if peer.origin.is_some() || peer.is_cross_site || is_browser(&connect.client) {
            self.check_origin(peer)?;
        }
        let Some(proof) = &connect.device else {
            let keeps_scopes = self.admit_without_device(connect, role, peer).await?;
            let owner = Owner::Connection(conn_id.to_owned());
            let asked = if keeps_scopes { connect.scopes.as_slice() } else { &[] };
            let admitted = self.logged_in(admission(role, asked, owner), peer);
            // Of such a page that is the only ground.
            let is_excused = keeps_scopes && is_own_ui(&connect.client);
            return Ok(if is_excused { admitted.excused_by(excuse_of(peer)) } else { admitted });
        };
        device::verify(proof, connect, role.as_str(), nonce, now_ms)
            .map_err(device::ProofError::to_error)?;
        // As in the original: who is vouched for needs no pairing in a browser.
        let is_vouched = peer.voucher().is_some() && is_control_ui(&connect.client);
        if is_vouched && role == Role::Operator {
            return Ok(self.logged_in(self.vouched(connect, &proof.id), peer));
        }
        self.admit_device(connect, proof, role, peer, now_ms).await
    }

    /// A user gets what he asks for of what a login without a device is worth:
    /// nobody has approved this device.
    fn vouched(&self, connect: &StandardConnect, device_id: &str) -> Admission {
        let worth = self.settings.shared_secret_scopes;
        let is_granted = |name: &&String| Scope::parse(name).is_some_and(|it| worth.allows(it));
        let granted: Vec<_> = connect.scopes.iter().filter(is_granted).cloned().collect();
        admission(Role::Operator, &granted, Owner::Device(device_id.to_owned()))
    }

    pub(super) fn check_origin(&self, peer: &Peer) -> Result<(), Refusal> {
        origin::check(peer, &self.control_ui).map(drop).map_err(|refusal| refusal.to_error(peer))
    }

    /// Lets a client in without a device; tells whether it keeps its scopes.
    async fn admit_without_device(
        &self,
        connect: &StandardConnect,
        role: Role,
        peer: &Peer,
    ) -> Result<bool, Refusal> {
        let client = &connect.client;
        let needs_device = || {
            ErrorShape::not_paired("device identity required")
                .details(json!({"code": "DEVICE_IDENTITY_REQUIRED"}))
        };
        let is_own_ui = is_own_ui(client);
        let ui_is_excused = self.excuses(excuse_of(peer));
        if role == Role::Node {
            return Err(needs_device());
        }
        // A proxy's word is a login like the shared secret. Tailscale's is one for
        // browsers with a device.
        let is_vouched = peer.voucher() == Some(Voucher::Proxy);
        if is_own_ui && !ui_is_excused && !is_vouched {
            return Err(ErrorShape::denied(
                "control ui requires device identity (use HTTPS or localhost secure context)",
            )
            .details(json!({"code": "CONTROL_UI_DEVICE_IDENTITY_REQUIRED"})));
        }
        let auth = &connect.auth;
        let gives_secret = auth.token.is_some() || auth.password.is_some();
        if let Vouch::Refused(failure) = peer.vouch
            && self.settings.mode == AuthMode::TrustedProxy
            && !gives_secret
        {
            return Err(failure.to_error(Some(client), false));
        }
        if !is_vouched && (self.settings.mode == AuthMode::None || !gives_secret) {
            return Err(needs_device());
        }
        self.check_secret(auth, Some(client), peer).await?;
        let is_of_this_machine = is_backend(client, peer) || is_newer_cli(connect, peer);
        Ok(is_of_this_machine || (is_own_ui && ui_is_excused))
    }

    /// Checks the shared secret, paying for each try first.
    pub(super) async fn check_secret(
        &self,
        given: &ConnectAuth,
        client: Option<&ClientInfo>,
        peer: &Peer,
    ) -> Result<(), Refusal> {
        if peer.voucher().is_some() {
            return Ok(());
        }
        let refuse = |failure: AuthFailure| failure.to_error(client, false);
        let mode = self.secret_mode(peer);
        let is_a_try = shared_secret::is_a_try(mode, given);
        let place = if is_a_try { self.limited_place("shared-secret", peer) } else { None };
        let paid = pay(place).await.map_err(refuse)?;
        shared_secret::check(&self.settings, mode, given)
            .map_err(|failure| refuse(peer.refused(is_a_try).unwrap_or(failure)))?;
        paid.succeeded();
        Ok(())
    }

    /// Which secret a client at this place is asked for. Beside a proxy that
    /// logs users in, programs of this machine use the password.
    pub(super) fn secret_mode(&self, peer: &Peer) -> AuthMode {
        let has_password = self.settings.password.is_some();
        match self.settings.mode {
            AuthMode::TrustedProxy if peer.is_local() && has_password => AuthMode::Password,
            mode => mode,
        }
    }
}

/// A program of the gateway's own machine, as it is recorded. Whoever knows the
/// secret and comes from this machine could get the same with a device.
pub(super) fn is_backend(client: &ClientInfo, peer: &Peer) -> bool {
    client.id == "gateway-client"
        && client.mode == "backend"
        && peer.is_local()
        && peer.origin.is_none()
}

/// The command line of OpenClaw since protocol 4, which shows the secret to a gateway of its
/// machine and no device (`openclaw` 2026.9.6; its gateway lets it keep its scopes). With
/// protocol 3 it has a device, and without one it gets nothing, as is recorded.
fn is_newer_cli(connect: &StandardConnect, peer: &Peer) -> bool {
    let client = &connect.client;
    let is_cli = client.id == "cli" && client.mode == "cli";
    is_cli && connect.is_newer() && peer.is_local() && peer.origin.is_none()
}

/// Whether it is a program of the original's for people, which has to have a device.
fn is_own_ui(client: &ClientInfo) -> bool {
    ["openclaw-control-ui", "openclaw-tui"].contains(&client.id.as_str())
}

/// What may excuse such a program from there.
fn excuse_of(peer: &Peer) -> Excuse {
    if peer.is_local() { Excuse::Near } else { Excuse::Far }
}

fn is_control_ui(client: &ClientInfo) -> bool {
    client.id == "openclaw-control-ui"
}

pub(super) fn is_browser(client: &ClientInfo) -> bool {
    ["openclaw-control-ui", "webchat-ui"].contains(&client.id.as_str()) || client.mode == "webchat"
}

pub(super) fn admission(role: Role, asked: &[String], owner: Owner) -> Admission {
    let device_id = match &owner {
        Owner::Device(id) => Some(id.clone()),
        Owner::Connection(_) => None,
    };
    Admission {
        principal: Principal::new(role, worth(asked), owner),
        scope_names: asked.to_vec(),
        device_id,
        granted: None,
    }
}
