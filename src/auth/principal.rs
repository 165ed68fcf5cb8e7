//! The rights of one connection, as a value.

use std::sync::Arc;

use super::peer::Peer;
use super::vouch::{Claims, Voucher};
use crate::config::AuthMode;
use crate::protocol::{Role, Scope, ScopeSet};
use crate::support::Secret;

/// Whose runs these are: aborting is for the owner or an admin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A device, over all its connections.
    Device(String),
    /// A connection without a device.
    Connection(String),
}

/// What no connection is called.
const GATEWAY: &str = "gateway";

/// What no other connection is called either.
const MACHINE: &str = "this machine";

impl Owner {
    /// The gateway itself: only an admin may stop what it began.
    pub fn gateway() -> Self {
        Self::Connection(GATEWAY.into())
    }

    /// As text, for a record.
    pub fn to_text(&self) -> String {
        match self {
            Self::Device(id) => format!("device:{id}"),
            Self::Connection(id) => format!("connection:{id}"),
        }
    }

    /// The owner that such a text names; the gateway for any other text.
    pub fn from_text(text: &str) -> Self {
        match text.split_once(':') {
            Some(("device", id)) => Self::Device(id.into()),
            Some(("connection", id)) => Self::Connection(id.into()),
            _ => Self::gateway(),
        }
    }
}

/// What let somebody in, as far as the configuration can take it away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// Something else than the configuration: a token of its own device, a
    /// channel, the control socket.
    Own,
    /// Nothing was asked for.
    Open,
    /// The gateway's own secret, of this mode.
    Secret(AuthMode),
    /// The word of somebody in front.
    Vouched(Voucher),
}

/// Why a page needs no device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excuse {
    /// It may be one that is on this machine.
    Near,
    /// Only that no page needs one.
    Far,
}

/// Somebody who may do certain things. Only `auth` can make one, so holding
/// it proves that a credential was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    role: Role,
    scopes: ScopeSet,
    owner: Owner,
    has_own_token: bool,
    is_paired: bool,
    login: Login,
    /// What that stands on in the configuration, as far as it can be told apart.
    ground: Option<Secret>,
    excuse: Option<Excuse>,
    /// What rules look at again that change: where it comes from as a page, and what a proxy
    /// says of it.
    peer: Option<Arc<Peer>>,
}

impl Principal {
    pub(super) const fn new(role: Role, scopes: ScopeSet, owner: Owner) -> Self {
        Self {
            role,
            scopes,
            owner,
            has_own_token: false,
            is_paired: false,
            login: Login::Own,
            ground: None,
            excuse: None,
            peer: None,
        }
    }

    /// An operator or node with these scopes.
    #[cfg(test)]
    pub fn for_tests(role: Role, scopes: &[Scope]) -> Self {
        Self::new(role, scopes.iter().copied().collect(), Owner::Connection("test".into()))
    }

    /// Whoever can open a file that only the gateway's user can.
    pub fn of_this_machine() -> Self {
        let scopes = Scope::ALL.into_iter().collect();
        Self::new(Role::Operator, scopes, Owner::Connection(MACHINE.into()))
    }

    /// The same for a device that has shown nothing but a token of its own.
    pub(super) fn with_own_token(self) -> Self {
        Self { has_own_token: true, ..self.paired() }
    }

    /// The same for a device that is paired, whatever it has shown.
    pub(super) fn paired(self) -> Self {
        Self { is_paired: true, ..self }
    }

    /// The same, let in by this, which stands on that.
    pub(super) fn by(self, login: Login, ground: Option<Secret>) -> Self {
        Self { login, ground, ..self }
    }

    /// The same, as a page without a device.
    pub(super) fn excused_by(self, excuse: Excuse) -> Self {
        Self { excuse: Some(excuse), ..self }
    }

    /// The same, as who comes from there, if rules look at that again when they change. After
    /// [`Self::by`].
    pub(super) fn of_peer(self, peer: &Peer) -> Self {
        let is_named = self.login == Login::Vouched(Voucher::Proxy);
        let claims = if is_named { peer.claims.clone() } else { Claims::new() };
        let peer = (is_named || peer.origin.is_some()).then(|| {
            let (origin, host) = (peer.origin.clone(), peer.host.clone());
            let is_forwarded = peer.is_forwarded;
            Arc::new(Peer { is_forwarded, origin, host, claims, ..Peer::direct(peer.remote) })
        });
        Self { peer, ..self }
    }

    /// Where it comes from, as a page or with the name that a proxy gives it.
    pub(super) fn peer(&self) -> Option<&Peer> {
        self.peer.as_deref()
    }

    /// Why it needs no device, if it is a page that would.
    pub(super) const fn excuse(&self) -> Option<Excuse> {
        self.excuse
    }

    /// What let it in.
    pub const fn login(&self) -> Login {
        self.login
    }

    /// What its login stands on: with another one, what it has handed on is good no more.
    pub(super) const fn ground(&self) -> Option<&Secret> {
        self.ground.as_ref()
    }

    /// The device, when its own token is all that it has shown. Without
    /// `operator.admin` it manages no device but itself.
    pub fn token_device(&self) -> Option<&str> {
        match &self.owner {
            Owner::Device(id) if self.has_own_token => Some(id),
            _ => None,
        }
    }

    /// Whether it was let in as a device that is paired.
    pub(super) const fn is_paired(&self) -> bool {
        self.is_paired
    }

    /// The device, if there is one.
    pub fn device(&self) -> Option<&str> {
        match &self.owner {
            Owner::Device(id) => Some(id),
            Owner::Connection(_) => None,
        }
    }

    /// Whether it is this device, in this role if one is named.
    pub fn is_device(&self, device_id: &str, role: Option<&str>) -> bool {
        matches!(&self.owner, Owner::Device(id) if id == device_id)
            && role.is_none_or(|role| self.role.as_str() == role)
    }

    /// Somebody who writes by a channel. The channel has proved who it is, by its
    /// own immutable id, and the configuration lets that person write: the
    /// rights of a chat. An owner has those of an admin.
    pub fn of_channel(channel: &str, account: &str, person: &str, is_owner: bool) -> Self {
        let scopes: ScopeSet = if is_owner {
            [Scope::Admin, Scope::Approvals, Scope::Read, Scope::Write].into_iter().collect()
        } else {
            [Scope::Read, Scope::Write].into_iter().collect()
        };
        let owner = Owner::Connection(format!("channel:{channel}:{account}:{person}"));
        Self::new(Role::Operator, scopes, owner)
    }

    /// Operator or node.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Whose runs it starts.
    pub const fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Whether it holds `scope`. Scopes are for operators; a node has none.
    pub fn allows(&self, scope: Scope) -> bool {
        self.role == Role::Operator && self.scopes.allows(scope)
    }
}
