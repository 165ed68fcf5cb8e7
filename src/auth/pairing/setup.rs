//! Setup codes: a secret that lets one device in.
//!
//! Promises: of many devices that come with one code, one is let in; that one gets the
//! same again until it has used it, since its hello may not have arrived; a code gives no
//! more than who issued it has.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::auth::Principal;
use crate::protocol::{ErrorKind, ErrorShape, Role, Scope};
use crate::store::{CodeUse, DeviceFacts, DeviceRow, DeviceToken, PendingDevice, SetupCode};
use crate::support::{Secret, reading, sort};

use super::decide::{Ask, approve, live};
use super::manage::{ManageError, holds};
use super::scopes::{covers, covers_all};
use super::token::{Minter, hash};
use super::{LetIn, Pairing, since, standing, too_many, unavailable};

#[cfg(test)]
mod tests;

/// Long enough to walk to a phone with it.
const PHONE_LIFE_MS: u64 = 600_000;
/// Long enough to carry the link to the browser that is to have it.
const BROWSER_LIFE_MS: u64 = 300_000;
/// The scopes that a phone works with; administration is not among them.
const PHONE_SCOPES: [Scope; 4] = [Scope::Approvals, Scope::Read, Scope::TalkSecrets, Scope::Write];
/// The scopes that the web UIs ask for.
const BROWSER_SCOPES: [Scope; 5] =
    [Scope::Admin, Scope::Approvals, Scope::Pairing, Scope::Read, Scope::Write];

/// Whom a code lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeFor {
    /// An app, which is a node as well.
    Phone,
    /// A browser that administrates this gateway.
    Browser,
}

impl CodeFor {
    fn grant(self) -> SetupGrant {
        let (roles, scopes): (&[Role], &[Scope]) = match self {
            Self::Phone => (&[Role::Node, Role::Operator], &PHONE_SCOPES),
            Self::Browser => (&[Role::Operator], &BROWSER_SCOPES),
        };
        SetupGrant {
            roles: roles.iter().map(|role| role.as_str().to_owned()).collect(),
            scopes: scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
            stands_on: None,
            login: None,
        }
    }

    const fn life_ms(self) -> u64 {
        match self {
            Self::Phone => PHONE_LIFE_MS,
            Self::Browser => BROWSER_LIFE_MS,
        }
    }
}

/// What a device gets for a code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetupGrant {
    /// A token for each of these roles.
    pub roles: Vec<String>,
    /// The scopes of the operator's token.
    pub scopes: Vec<String>,
    /// The token of the device that issued it, if that had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stands_on: Option<IssuerToken>,
    /// What stands for the login of whoever issued it, if it was let in by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    login: Option<String>,
}

/// A token with which a code is good, and without which it is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IssuerToken {
    device_id: String,
    hash: String,
}

/// What a device got for a code: the tokens by their hashes, by role.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Taken {
    device_id: String,
    tokens: BTreeMap<String, String>,
    at_ms: u64,
}

/// The tokens of a device, by role.
type Tokens = BTreeMap<String, DeviceToken>;

/// A code, just issued.
#[derive(Debug)]
pub struct Issued {
    /// The secret that a device shows as `bootstrapToken`.
    pub token: Secret,
    /// What it is good for.
    pub grant: SetupGrant,
    /// When it ends, in milliseconds since the epoch.
    pub expires_at_ms: u64,
}

/// A device that was let in by a code.
#[derive(Debug)]
pub struct SetUp {
    /// In the role that it came in.
    pub let_in: LetIn,
    /// Its tokens for the other roles.
    pub others: Vec<(Role, LetIn)>,
}

impl Pairing {
    /// Issues a code in the name of somebody who has all that it gives. One of a
    /// device that has a token goes with that token, whatever it has shown, and one of who
    /// has shown the gateway's secret with that secret.
    pub async fn issue_code(
        &self,
        caller: &Principal,
        purpose: CodeFor,
        now_ms: u64,
    ) -> Result<Issued, ManageError> {
        let mut grant = purpose.grant();
        if let Some(scope) = grant.scopes.iter().find(|scope| !holds(caller, scope)) {
            return Err(ManageError::MissingScope(scope.clone()));
        }
        if caller.token_device().is_some() && !caller.allows(Scope::Admin) {
            return Err(ManageError::Denied);
        }
        if let Some(device_id) = caller.device() {
            let hash = self.operator_token(device_id, now_ms).await?;
            // What it came in with was taken away meanwhile.
            if hash.is_none() && caller.is_paired() {
                return Err(ManageError::Denied);
            }
            let device_id = device_id.to_owned();
            grant.stands_on = hash.map(|hash| IssuerToken { device_id, hash });
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| {
            ErrorShape::unavailable(format!("the system has no random numbers: {error}"))
        })?;
        let token = Secret::new(URL_SAFE_NO_PAD.encode(bytes));
        grant.login = caller.ground().map(|ground| login_by(token.expose(), ground));
        let text = serde_json::to_string(&grant)
            .map_err(|error| ErrorShape::unavailable(format!("Error: {error}")))?;
        let code = SetupCode {
            hash: hash(token.expose()),
            grant: text,
            issued_by: caller.owner().to_text(),
            expires_at_ms: now_ms + purpose.life_ms(),
            taken_by: None,
        };
        let expires_at_ms = code.expires_at_ms;
        if !self.store.add_setup_code(code, now_ms).await.map_err(unavailable)? {
            let text = "too many setup codes are open; wait until they end, or take them back with `clawgate devices clear --codes`";
            return Err(ErrorShape::unavailable(text).kind(ErrorKind::RateLimited).into());
        }
        tracing::info!(by = %caller.owner().to_text(), purpose = ?purpose, "setup code issued");
        Ok(Issued { token, grant, expires_at_ms })
    }

    /// The hash of a device's token for operators, if it has one that is good.
    async fn operator_token(
        &self,
        device_id: &str,
        now_ms: u64,
    ) -> Result<Option<String>, ErrorShape> {
        let row = self.look(device_id, now_ms).await?;
        let token = row.paired.as_ref().and_then(|it| live(it, Role::Operator.as_str()));
        Ok(token.map(|token| token.hash.clone()))
    }

    /// Takes back every code; answers how many were still good.
    pub async fn clear_codes(&self, now_ms: u64) -> Result<usize, ErrorShape> {
        self.store.clear_setup_codes(now_ms).await.map_err(unavailable)
    }

    /// Pairs a device that shows a code; `None` when the code is not good, or
    /// not for what the device asks. `ground` is what logins stand on now.
    pub async fn show_code(
        &self,
        ask: &Ask,
        text: &str,
        ground: Option<&Secret>,
        now_ms: u64,
    ) -> Result<Option<SetUp>, ErrorShape> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let hash = hash(text);
        let known = self.store.setup_code(&hash, now_ms).await.map_err(unavailable)?;
        let Some(grant) = known.and_then(|code| fitting(&code, ask)) else { return Ok(None) };
        if grant.login.is_some() && grant.login != ground.map(|ground| login_by(text, ground)) {
            return Ok(None);
        }
        if let Some(IssuerToken { device_id, hash }) = &grant.stands_on
            && self.operator_token(device_id, now_ms).await?.as_ref() != Some(hash)
        {
            return Ok(None);
        }
        // The list is complete before a code is spent on it.
        self.imported().await;
        let request_id = self.minter.new_id();
        let pending = pending(ask, &grant, &request_id, now_ms);
        let (give, mut taken) = oneshot::channel();
        let (minter, role) = (self.minter.clone(), ask.role);
        let code_use: CodeUse = Box::new(move |row, code| {
            // Here those who race part: one of them gets it.
            let is_first = code.taken_by.is_none();
            let tokens = match &code.taken_by {
                None => pair(row, pending, &minter, now_ms),
                Some(taken_by) => again(row, taken_by, role),
            };
            let note = tokens.as_ref().filter(|_| is_first).and_then(|tokens| {
                let tokens = tokens.iter().map(|(role, it)| (role.clone(), it.hash.clone()));
                let (device_id, tokens) = (row.device_id.clone(), sort::map(tokens));
                serde_json::to_string(&Taken { device_id, tokens, at_ms: now_ms }).ok()
            });
            // Nobody waits any more when the connection has gone; it counts all the same.
            let _ = give.send(tokens.map(|tokens| (tokens, is_first)));
            note
        });
        let used =
            self.store.use_setup_code(&hash, &ask.device_id, now_ms, since(now_ms), code_use);
        if !used.await.map_err(unavailable)? {
            return Err(too_many());
        }
        let Ok(Some((tokens, is_first))) = taken.try_recv() else { return Ok(None) };
        if is_first {
            tracing::info!(device = %ask.device_id, "device paired by a setup code");
            self.tell_resolved(&request_id, &ask.device_id, "approved", now_ms);
        }
        let let_in = |role: Role, token: &DeviceToken| {
            let shown = self.minter.reveal(&ask.device_id, role, token);
            standing(&ask.device_id, role, token.clone(), shown, epoch)
        };
        let Some(own) = tokens.get(ask.role.as_str()) else { return Ok(None) };
        let others = grant.roles.iter().filter_map(|name| {
            let role = Role::parse(name).filter(|role| *role != ask.role)?;
            Some((role, let_in(role, tokens.get(name)?)))
        });
        Ok(Some(SetUp { let_in: let_in(ask.role, own), others: others.collect() }))
    }
}

/// What stands for a login beside a code. Without the code nobody finds out by it what the
/// secret is, however short that may be.
fn login_by(code: &str, ground: &Secret) -> String {
    hash(&format!("{} {}", code.trim(), ground.expose()))
}

/// What a code gives, when that is enough for what a device asks.
fn fitting(code: &SetupCode, ask: &Ask) -> Option<SetupGrant> {
    let grant: SetupGrant = reading::text(&code.grant).ok()?;
    let has_role = grant.roles.iter().any(|role| role == ask.role.as_str());
    (has_role && covers_all(&grant.scopes, &ask.facts.scopes)).then_some(grant)
}

/// What the device asks for with a code: all that it gives.
fn pending(ask: &Ask, grant: &SetupGrant, request_id: &str, now_ms: u64) -> PendingDevice {
    PendingDevice {
        request_id: request_id.to_owned(),
        facts: DeviceFacts {
            roles: grant.roles.clone(),
            scopes: grant.scopes.clone(),
            ..ask.facts.clone()
        },
        silent: true,
        is_repair: false,
        ts: now_ms,
    }
}

/// Pairs a device; its tokens for the roles that the code gives.
fn pair(row: &mut DeviceRow, asked: PendingDevice, minter: &Minter, now_ms: u64) -> Option<Tokens> {
    let DeviceFacts { roles, scopes, .. } = asked.facts.clone();
    row.pending = Some(asked);
    // A device that comes with a code may have lost what cannot be told again.
    for (name, token) in row.paired.iter_mut().flat_map(|it| &mut it.tokens) {
        let is_told = Role::parse(name).and_then(|it| minter.reveal(&row.device_id, it, token));
        if roles.contains(name) && is_told.is_none() {
            token.revoked_at_ms = Some(now_ms);
        }
    }
    approve(row, &|scope| covers(&scopes, scope), minter, now_ms).ok()?;
    let mut tokens = row.paired.as_ref()?.tokens.clone();
    tokens.retain(|role, _| roles.contains(role));
    Some(tokens)
}

/// What the device got that a code has let in, while it is the one that asks again and has
/// not come with its token for this role yet.
fn again(row: &DeviceRow, taken_by: &str, role: Role) -> Option<Tokens> {
    let taken: Taken = reading::text(taken_by).ok()?;
    let paired = row.paired.as_ref().filter(|_| taken.device_id == row.device_id)?;
    let is_same = |name: &str, token: &DeviceToken| taken.tokens.get(name) == Some(&token.hash);
    let own = live(paired, role.as_str()).filter(|token| is_same(role.as_str(), token))?;
    let was_used = own.last_used_at_ms.is_some_and(|used| used >= taken.at_ms);
    let mut tokens = paired.tokens.clone();
    tokens.retain(|name, token| token.revoked_at_ms.is_none() && is_same(name, token));
    (!was_used).then_some(tokens)
}
