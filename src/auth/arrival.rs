//! A connect with a device: which of its credentials is good, and whether the
//! device is paired.

use crate::config::AuthMode;
use crate::protocol::connect::{DeviceProof, StandardConnect};
use crate::protocol::{ErrorShape, Role, Scope};
use crate::store::DeviceFacts;
use crate::support::Secret;

use super::admission::{Admission, Auth, Refusal, admission, is_backend, is_browser};
use super::device::{ProofError, id_of_key};
use super::failure::AuthFailure;
use super::origin;
use super::pairing::{Ask, LetIn, SetUp, Standing, Trust, covers, normalized};
use super::peer::Peer;
use super::principal::{Owner, Principal};
use super::shared_secret;
use super::tries::{Payment, pay};

/// Apps whose system is updated below them.
const NATIVE_APPS: [&str; 3] = ["openclaw-macos", "openclaw-ios", "openclaw-android"];

/// Scopes that one device can ask for; there are ten times fewer.
const MAX_SCOPES: usize = 64;
/// Characters that are kept of what a device says of itself; people read them.
const MAX_TEXT: usize = 200;

/// What a paired device is given in hello.
#[derive(Debug)]
pub struct DeviceGrant {
    /// Its token; none when only the device itself has it.
    pub token: Option<Secret>,
    /// When it was issued, in milliseconds since the epoch.
    pub issued_at_ms: u64,
    /// Tokens for other roles that a setup code gives: role, token, scopes,
    /// when issued.
    pub others: Vec<(Role, Secret, Vec<String>, u64)>,
    /// What it stands on.
    pub standing: Standing,
}

/// The credential of a connect that is good.
enum Shown {
    /// None is asked for.
    Nothing,
    /// The gateway's own secret, or the word of a proxy for its user.
    Secret,
    /// A token of the device.
    Token(LetIn),
    /// A setup code, which is good for no other device now.
    Code(SetUp),
}

/// What a setup code is worth.
enum Code<'a> {
    /// There is none.
    None,
    /// It lets the device in.
    Good(SetUp),
    /// It does not, or too many were tried; and the try that was paid for.
    Bad(AuthFailure, Payment<'a>),
}

impl Auth {
    /// Decides about a connect whose device has proved its key.
    pub(super) async fn admit_device(
        &self,
        connect: &StandardConnect,
        proof: &DeviceProof,
        role: Role,
        peer: &Peer,
        now_ms: u64,
    ) -> Result<Admission, Refusal> {
        let ask = self.ask(connect, proof, role, peer)?;
        let shown = self.credential(connect, &ask, peer, now_ms).await?;
        let is_logged_in = matches!(shown, Shown::Nothing | Shown::Secret);
        let admitted = self.admit_shown(shown, ask, connect, role, peer, now_ms).await?;
        Ok(if is_logged_in { self.logged_in(admitted, peer) } else { admitted })
    }

    async fn admit_shown(
        &self,
        shown: Shown,
        ask: Ask,
        connect: &StandardConnect,
        role: Role,
        peer: &Peer,
        now_ms: u64,
    ) -> Result<Admission, Refusal> {
        let owner = || Owner::Device(ask.device_id.clone());
        let is_excused = role == Role::Operator && is_backend(&connect.client, peer);
        match shown {
            Shown::Nothing if is_own_place(connect, peer) => {
                // Being here is worth no token: it would outlast the mode.
                let admitted = admission(role, &connect.scopes, owner());
                let scope_names = if is_browser(&connect.client) {
                    admitted.scope_names
                } else {
                    normalized(&connect.scopes)
                };
                Ok(Admission { scope_names, ..admitted })
            }
            Shown::Secret if is_excused => Ok(admission(role, &connect.scopes, owner())),
            Shown::Token(shown) if is_excused => Ok(paired(&ask, shown, Vec::new(), true)),
            Shown::Nothing => {
                let ask = Ask { trust: Trust::Stranger, ..ask };
                let let_in = self.pairing.arrive(ask.clone(), now_ms).await?;
                Ok(paired(&ask, let_in, Vec::new(), false))
            }
            Shown::Secret => {
                let let_in = self.pairing.arrive(ask.clone(), now_ms).await?;
                Ok(paired(&ask, let_in, Vec::new(), false))
            }
            Shown::Token(shown) => {
                let is_native = ask.trust == Trust::Neighbour { is_native: true };
                let trust = if is_native { ask.trust } else { Trust::Stranger };
                let ask = Ask { trust, ..ask };
                let let_in = self.pairing.arrive(ask.clone(), now_ms).await?;
                // What it came with is its token, also if it cannot be told again.
                let token = let_in.token.or(shown.token);
                Ok(paired(&ask, LetIn { token, ..let_in }, Vec::new(), true))
            }
            Shown::Code(SetUp { let_in, others }) => Ok(paired(&ask, let_in, others, true)),
        }
    }

    /// What the device is and asks for.
    fn ask(
        &self,
        connect: &StandardConnect,
        proof: &DeviceProof,
        role: Role,
        peer: &Peer,
    ) -> Result<Ask, Refusal> {
        let (device_id, public_key) =
            id_of_key(&proof.public_key).ok_or_else(|| ProofError::IdMismatch.to_error())?;
        if connect.scopes.len() > MAX_SCOPES {
            return Err(ErrorShape::invalid(format!(
                "invalid connect params: at /scopes: must NOT have more than {MAX_SCOPES} items"
            )));
        }
        let client = &connect.client;
        let kept = |text: &str| text.chars().take(MAX_TEXT).collect::<String>();
        let is_native = NATIVE_APPS.contains(&client.id.as_str())
            && client.mode == "ui"
            && peer.origin.is_none();
        let trust = if is_own_place(connect, peer) {
            Trust::Neighbour { is_native }
        } else {
            Trust::Stranger
        };
        let facts = DeviceFacts {
            public_key,
            display_name: client.display_name.as_deref().map(kept),
            platform: Some(kept(&client.platform)),
            device_family: client.device_family.as_deref().map(kept),
            client_id: Some(client.id.clone()),
            client_mode: Some(client.mode.clone()),
            role: role.as_str().to_owned(),
            roles: vec![role.as_str().to_owned()],
            scopes: connect.scopes.iter().map(|scope| kept(scope)).collect(),
            remote_ip: self.remote_ip(peer).map(|ip| ip.to_string()),
        };
        Ok(Ask { device_id, role, facts, trust })
    }

    /// The first of the credentials that is good, in the recorded order: a code before
    /// all others, since a secret alone pairs nobody from elsewhere. Each try is paid for
    /// before it is compared.
    async fn credential(
        &self,
        connect: &StandardConnect,
        ask: &Ask,
        peer: &Peer,
        now_ms: u64,
    ) -> Result<Shown, Refusal> {
        match self.code(connect, ask, peer, now_ms).await? {
            Code::None => self.without_code(connect, ask, peer, now_ms, None).await,
            Code::Good(set_up) => Ok(Shown::Code(set_up)),
            Code::Bad(failure, paid) => {
                let shown = self.without_code(connect, ask, peer, now_ms, Some(failure)).await?;
                // Apps keep a code that is used up beside what they got for it.
                if matches!(shown, Shown::Secret | Shown::Token(_)) {
                    paid.was_no_guess();
                }
                Ok(shown)
            }
        }
    }

    /// The first of the others; `bad_code` is what is wrong with the code, if there is one.
    async fn without_code(
        &self,
        connect: &StandardConnect,
        ask: &Ask,
        peer: &Peer,
        now_ms: u64,
        bad_code: Option<AuthFailure>,
    ) -> Result<Shown, Refusal> {
        let given = &connect.auth;
        let can_retry = given.token.is_some() && given.device_token.is_none();
        let refuse = |failure: AuthFailure| {
            let retries = failure == AuthFailure::TokenMismatch && can_retry;
            failure.to_error(Some(&connect.client), retries)
        };
        if self.settings.mode == AuthMode::None {
            return self.own_token(connect, ask, now_ms).await;
        }
        if peer.voucher().is_some() {
            return Ok(Shown::Secret);
        }
        let mode = self.secret_mode(peer);
        let is_a_try = shared_secret::is_a_try(mode, given);
        let token = given.device_token.as_ref().or(given.token.as_ref());
        let place = if is_a_try { self.limited_place("shared-secret", peer) } else { None };
        // A good token gives its place the try back, and must not buy guesses of the secret.
        let guessed = if mode == AuthMode::Password { &given.password } else { &given.token };
        let own = place.as_ref().filter(|_| token.is_some() && guessed.as_ref() != token);
        let own = own.map(|(limiter, _)| (*limiter, format!("shared-secret {}", ask.device_id)));
        let secret = pay(place).await.map_err(refuse)?;
        let compared = pay(own).await.and_then(|own| {
            shared_secret::check(&self.settings, mode, given).map(|()| own.succeeded())
        });
        let Err(failure) = compared else {
            secret.succeeded();
            return Ok(Shown::Secret);
        };
        let Some(token) = token else {
            let of_code = bad_code.filter(|_| !is_a_try);
            return Err(refuse(of_code.or(peer.refused(is_a_try)).unwrap_or(failure)));
        };
        // A token in the member of the secret is paid for already.
        let is_paid = is_a_try && given.device_token.is_none();
        let place = if is_paid { None } else { self.limited_place("device-token", peer) };
        let paid = pay(place).await.map_err(refuse)?;
        let shown = match self.pairing.show_token(ask, token, now_ms).await {
            Ok(shown) => shown,
            // Nobody has compared it: who comes while devices cannot be read guesses nothing.
            Err(error) => {
                paid.was_no_guess();
                return Err(error);
            }
        };
        if let Some(let_in) = shown {
            secret.was_no_guess();
            paid.was_no_guess();
            return Ok(Shown::Token(let_in));
        }
        let failed = given.device_token.as_ref().map(|_| AuthFailure::DeviceTokenMismatch);
        Err(refuse(failed.unwrap_or(failure)))
    }

    /// What the code of a connect gives, if it has one.
    async fn code(
        &self,
        connect: &StandardConnect,
        ask: &Ask,
        peer: &Peer,
        now_ms: u64,
    ) -> Result<Code<'_>, Refusal> {
        let Some(code) = &connect.auth.bootstrap_token else { return Ok(Code::None) };
        let paid = match pay(self.limited_place("bootstrap-token", peer)).await {
            Ok(paid) => paid,
            // Who has guessed codes here may still know something else.
            Err(failure) => return Ok(Code::Bad(failure, Payment::default())),
        };
        let ground = self.current_ground();
        match self.pairing.show_code(ask, code, ground.as_ref(), now_ms).await {
            Ok(None) => Ok(Code::Bad(AuthFailure::BootstrapTokenInvalid, paid)),
            Ok(Some(set_up)) => {
                paid.was_no_guess();
                Ok(Code::Good(set_up))
            }
            // Nobody has said that it is not good.
            Err(error) => {
                paid.was_no_guess();
                Err(error)
            }
        }
    }

    /// In auth mode `none` nothing is needed; a token of its own still says that
    /// the device is paired.
    async fn own_token(
        &self,
        connect: &StandardConnect,
        ask: &Ask,
        now_ms: u64,
    ) -> Result<Shown, Refusal> {
        let Some(token) = &connect.auth.device_token else { return Ok(Shown::Nothing) };
        let shown = self.pairing.show_token(ask, token, now_ms).await?;
        Ok(shown.map_or(Shown::Nothing, Shown::Token))
    }
}

/// Whether nobody but a program or a page of this machine can be at the other
/// end.
pub(super) fn is_own_place(connect: &StandardConnect, peer: &Peer) -> bool {
    let is_own_page = || is_browser(&connect.client) && origin::is_own_page(peer);
    // Of a page with an origin nothing else is to be known. Some browsers say of each on
    // another port of this machine that its site is the same and its origin is not.
    let is_no_page = peer.origin.is_none() && !peer.is_cross_site;
    peer.is_local() && (is_no_page || is_own_page())
}

/// What is asked for, as far as the device's token is good for it.
fn paired(ask: &Ask, let_in: LetIn, others: Vec<(Role, LetIn)>, own_token: bool) -> Admission {
    let LetIn { token, scopes, issued_at_ms, standing } = let_in;
    let asked = ask.facts.scopes.iter().filter(|scope| covers(&scopes, scope));
    let granted = asked.filter_map(|scope| Scope::parse(scope)).collect();
    let principal = Principal::new(ask.role, granted, Owner::Device(ask.device_id.clone()));
    let others = others.into_iter().filter_map(|(role, let_in)| {
        Some((role, let_in.token?, let_in.scopes, let_in.issued_at_ms))
    });
    Admission {
        principal: if own_token { principal.with_own_token() } else { principal.paired() },
        scope_names: scopes,
        device_id: Some(ask.device_id.clone()),
        granted: Some(DeviceGrant { token, issued_at_ms, others: others.collect(), standing }),
    }
}
