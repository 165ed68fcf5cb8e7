//! The rules of pairing: what becomes of a device that comes, and of an
//! approval.
//!
//! Promises: nobody gets more than was approved, and no approval gives more
//! than who approves has. Must not: read or write anything.

use std::collections::BTreeMap;

use crate::protocol::Role;
use crate::store::{DeviceFacts, DeviceRow, DeviceToken, PairedDevice, PendingDevice};

use super::scopes::{covers, covers_all, is_of_role, merge};
use super::token::Minter;

/// Scopes after which a request is begun anew, instead of being added to.
const MAX_ASKED: usize = 64;

/// Systems whose apps tell the version as well: `iOS 18.5.0`.
const VERSIONED: [&str; 4] = ["android", "ios", "ipados", "macos"];

/// A device that has proved its key and shown a credential.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Its id.
    pub device_id: String,
    /// The role it comes in.
    pub role: Role,
    /// What it says of itself; its one role and the scopes it asks for.
    pub facts: DeviceFacts,
    /// How far its credential and its place are trusted.
    pub trust: Trust,
}

/// What happens without a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Nothing.
    Stranger,
    /// It knows the gateway's secret, and comes from this machine itself.
    Neighbour {
        /// Whether it is an app whose system may have been updated.
        is_native: bool,
    },
}

/// Why a device is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is not known, at least not with this key.
    NotPaired,
    /// It is another machine than it was.
    MetadataUpgrade,
    /// It has no token for this role.
    RoleUpgrade,
    /// It was not approved for all of these scopes.
    ScopeUpgrade,
}

impl Reason {
    /// `details.reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotPaired => "not-paired",
            Self::MetadataUpgrade => "metadata-upgrade",
            Self::RoleUpgrade => "role-upgrade",
            Self::ScopeUpgrade => "scope-upgrade",
        }
    }

    /// The error's text.
    pub const fn message(self) -> &'static str {
        match self {
            Self::NotPaired => "pairing required: device is not approved yet",
            Self::MetadataUpgrade => {
                "pairing required: device identity changed and must be re-approved"
            }
            Self::RoleUpgrade => {
                "pairing required: device is asking for a higher role than currently approved"
            }
            Self::ScopeUpgrade => {
                "pairing required: device is asking for more scopes than currently approved"
            }
        }
    }

    /// What whoever approves should do.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::NotPaired => "Approve this device from the pending pairing requests.",
            Self::MetadataUpgrade => {
                "Review the refreshed device details, then approve the pending request."
            }
            Self::RoleUpgrade => {
                "Review the requested role upgrade, then approve the pending request."
            }
            Self::ScopeUpgrade => "Review the requested scopes, then approve the pending upgrade.",
        }
    }
}

/// What becomes of a device that comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is let in.
    In {
        /// Its token for this role.
        token: DeviceToken,
        /// The request that was approved just now, without a person.
        approved: Option<String>,
    },
    /// Somebody has to approve it first.
    Waits {
        /// Why.
        reason: Reason,
        /// The request.
        request: Box<PendingDevice>,
        /// Whether it is to be announced.
        is_new: bool,
        /// Roles and scopes that were approved.
        approved: Option<(Vec<String>, Vec<String>)>,
    },
}

/// Decides, and changes what is known of the device.
pub fn arrive(
    row: &mut DeviceRow,
    ask: &Ask,
    minter: &Minter,
    request_id: &str,
    now_ms: u64,
) -> Outcome {
    let paired = row.paired.as_mut().filter(|it| it.facts.public_key == ask.facts.public_key);
    let role = ask.role.as_str();
    let Some(reason) = paired.as_deref().map_or(Some(Reason::NotPaired), |it| lacks(it, ask))
    else {
        // It has all that it asks for, but perhaps not in its token.
        let token = paired.and_then(|paired| {
            let (known, told) = (&mut paired.facts.platform, &ask.facts.platform);
            if is_update(known.as_deref(), told.as_deref()) {
                known.clone_from(told);
            }
            let token = live(paired, role)?;
            if covers_all(&token.scopes, &ask.facts.scopes) || ask.role == Role::Node {
                return Some(token.clone());
            }
            let mut scopes = token.scopes.clone();
            merge(&mut scopes, &ask.facts.scopes);
            let fresh = minter.mint((&ask.device_id, role), &scopes, Some(token), now_ms);
            paired.tokens.insert(role.to_owned(), fresh.clone());
            Some(fresh)
        });
        return match token {
            Some(token) => Outcome::In { token, approved: None },
            None => wait(row, ask, Reason::RoleUpgrade, request_id, now_ms),
        };
    };
    let mut waits = wait(row, ask, reason, request_id, now_ms);
    let Some(pending) = row.pending.as_ref().filter(|pending| pending.silent) else { return waits };
    let approved = Some(pending.request_id.clone());
    let asked = &ask.facts.scopes;
    if approve(row, &|scope| covers(asked, scope), minter, now_ms).is_err() {
        // Nobody else could approve it without a look at it either: people hear of it.
        if let (Outcome::Waits { request, .. }, Some(pending)) = (&mut waits, &mut row.pending) {
            (request.silent, pending.silent) = (false, false);
        }
        return waits;
    }
    let token = row.paired.as_ref().and_then(|paired| live(paired, role)).cloned();
    token.map_or(waits, |token| Outcome::In { token, approved })
}

/// What a device has not, of all that it comes with.
fn lacks(paired: &PairedDevice, ask: &Ask) -> Option<Reason> {
    let (known, told) = (&paired.facts, &ask.facts);
    let system = (known.platform.as_deref(), told.platform.as_deref());
    if (differs(system.0, system.1) && !is_update(system.0, system.1))
        || differs(known.device_family.as_deref(), told.device_family.as_deref())
    {
        Some(Reason::MetadataUpgrade)
    } else if live(paired, ask.role.as_str()).is_none() {
        Some(Reason::RoleUpgrade)
    } else if !covers_all(&known.scopes, &told.scopes) {
        Some(Reason::ScopeUpgrade)
    } else {
        None
    }
}

fn plain(text: Option<&str>) -> String {
    text.unwrap_or_default().trim().to_ascii_lowercase()
}

fn differs(stored: Option<&str>, now: Option<&str>) -> bool {
    !plain(stored).is_empty() && plain(stored) != plain(now)
}

/// Whether a system is the same in another version (openclaw#83490, #89702).
fn is_update(stored: Option<&str>, now: Option<&str>) -> bool {
    let (stored, now) = (plain(stored), plain(now));
    let name = |text: &str| VERSIONED.into_iter().find(|it| text.split(' ').next() == Some(*it));
    stored != now && name(&stored).is_some() && name(&stored) == name(&now)
}

/// The token of this role, unless it was revoked.
pub fn live<'a>(paired: &'a PairedDevice, role: &str) -> Option<&'a DeviceToken> {
    paired.tokens.get(role).filter(|token| token.revoked_at_ms.is_none())
}

/// Notes what the device asks for: the same as before, or all of it together.
fn wait(row: &mut DeviceRow, ask: &Ask, reason: Reason, request_id: &str, now_ms: u64) -> Outcome {
    let same_key = |facts: &DeviceFacts| facts.public_key == ask.facts.public_key;
    let paired = row.paired.as_ref().filter(|paired| same_key(&paired.facts));
    let silent = is_silent(reason, ask, paired);
    let approved = paired.map(|it| (it.facts.roles.clone(), it.facts.scopes.clone()));
    let is_repair = row.paired.is_some();
    let before = row.pending.take().filter(|pending| same_key(&pending.facts));
    let mut facts = ask.facts.clone();
    let (request, is_new) = match before {
        // Asked again, so the id that somebody may be about to approve stays.
        Some(before) if holds_all(&before.facts, &facts) => {
            let DeviceFacts { role, roles, scopes, .. } = before.facts;
            let facts = DeviceFacts { role, roles, scopes, ..facts };
            let silent = silent && before.silent;
            (PendingDevice { facts, silent, is_repair, ..before }, false)
        }
        before => {
            let was_silent = before.as_ref().is_none_or(|before| before.silent);
            // Who asks for something else each time is not remembered without end.
            let has_room = |before: &PendingDevice| before.facts.scopes.len() < MAX_ASKED;
            if let Some(before) = before.filter(has_room) {
                let (mut roles, mut scopes) = (before.facts.roles, before.facts.scopes);
                merge(&mut roles, &facts.roles);
                merge(&mut scopes, &facts.scopes);
                (facts.roles, facts.scopes) = (roles, scopes);
            }
            let silent = silent && was_silent;
            let request_id = request_id.to_owned();
            (PendingDevice { request_id, facts, silent, is_repair, ts: now_ms }, true)
        }
    };
    row.pending = Some(request.clone());
    Outcome::Waits { reason, request: Box::new(request), is_new, approved }
}

/// Whether a request already asks for all that is asked for now.
fn holds_all(before: &DeviceFacts, now: &DeviceFacts) -> bool {
    now.roles.iter().all(|role| before.roles.contains(role))
        && now.scopes.iter().all(|scope| before.scopes.contains(scope))
}

/// Whether this needs no person. More scopes in a role that it has, or had before
/// that was revoked, always need one, however they are asked for.
fn is_silent(reason: Reason, ask: &Ask, paired: Option<&PairedDevice>) -> bool {
    let Trust::Neighbour { is_native } = ask.trust else { return false };
    let has_scopes = paired.is_some_and(|it| covers_all(&it.facts.scopes, &ask.facts.scopes));
    // One that was imported may have a role without a token for it.
    let role = ask.role.as_str();
    let had_role = paired.is_some_and(|it| {
        it.tokens.contains_key(role) || it.facts.roles.iter().any(|known| known == role)
    });
    match reason {
        Reason::NotPaired => true,
        // In a role that is new it is a new device, whichever role came first.
        Reason::RoleUpgrade => !had_role || has_scopes,
        Reason::MetadataUpgrade => is_native && has_scopes,
        Reason::ScopeUpgrade => false,
    }
}

/// Why a request is not approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApproveError {
    /// Nothing is asked for.
    NoRequest,
    /// Who approves has not got this scope.
    MissingScope(String),
    /// None of the roles that are asked for can have this scope.
    InvalidScope(String),
}

/// Approves what a device asks for, in the name of somebody who `holds` scopes.
pub fn approve(
    row: &mut DeviceRow,
    holds: &dyn Fn(&str) -> bool,
    minter: &Minter,
    now_ms: u64,
) -> Result<(), ApproveError> {
    let PendingDevice { facts, .. } = row.pending.clone().ok_or(ApproveError::NoRequest)?;
    let has_role = |scope: &String| facts.roles.iter().any(|role| is_of_role(role, scope));
    if let Some(scope) = facts.scopes.iter().find(|scope| !has_role(scope)) {
        return Err(ApproveError::InvalidScope(scope.clone()));
    }
    let known = row.paired.clone().filter(|paired| paired.facts.public_key == facts.public_key);
    let (mut tokens, created_at_ms) = known
        .as_ref()
        .map_or_else(|| (BTreeMap::default(), now_ms), |it| (it.tokens.clone(), it.created_at_ms));
    for role in &facts.roles {
        let older = tokens.get(role);
        let good = older.filter(|older| older.revoked_at_ms.is_none());
        // It stays: a device that has nothing but its token does not get to know another
        // one (openclaw#56377, #62176).
        let may_keep = |it: &DeviceToken| it.scopes.iter().all(|scope| holds(scope));
        if good.is_some_and(|it| is_enough(it, role, &facts.scopes) && may_keep(it)) {
            continue;
        }
        // Who asks for nothing keeps what the token has; a revoked one has nothing.
        let scopes = match good {
            Some(older) if facts.scopes.is_empty() => older.scopes.clone(),
            _ => facts.scopes.clone(),
        };
        let token = minter.mint((&row.device_id, role), &scopes, older, now_ms);
        if let Some(scope) = token.scopes.iter().find(|scope| !holds(scope)) {
            return Err(ApproveError::MissingScope(scope.clone()));
        }
        tokens.insert(role.clone(), token);
    }
    let (mut roles, mut scopes) =
        known.map(|it| (it.facts.roles, it.facts.scopes)).unwrap_or_default();
    merge(&mut roles, &facts.roles);
    merge(&mut scopes, &facts.scopes);
    let facts = DeviceFacts { roles, scopes, ..facts };
    row.paired = Some(PairedDevice { facts, tokens, created_at_ms, approved_at_ms: now_ms });
    row.pending = None;
    Ok(())
}

/// Whether a token has all that can be in one of this role, of what is asked for.
fn is_enough(token: &DeviceToken, role: &str, asked: &[String]) -> bool {
    asked.iter().all(|scope| covers(&token.scopes, scope) || !is_of_role(role, scope))
}
