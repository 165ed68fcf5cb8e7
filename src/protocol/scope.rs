//! Roles and scopes.

use serde::{Serialize, Serializer};

/// What a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A person or a program acting for one.
    Operator,
    /// A device that offers commands.
    Node,
}

impl Role {
    /// The role with this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "operator" => Some(Self::Operator),
            "node" => Some(Self::Node),
            _ => None,
        }
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Node => "node",
        }
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A right that an operator connection can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Scope {
    /// Everything.
    Admin,
    /// Look.
    Read,
    /// Act; includes looking.
    Write,
    /// Decide on approvals.
    Approvals,
    /// Manage devices and nodes.
    Pairing,
    /// Read secrets of the talk configuration.
    TalkSecrets,
}

impl Scope {
    /// Every scope there is, in the order the original lists them.
    pub const ALL: [Self; 6] =
        [Self::Admin, Self::Read, Self::Write, Self::Approvals, Self::Pairing, Self::TalkSecrets];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "operator.admin",
            Self::Read => "operator.read",
            Self::Write => "operator.write",
            Self::Approvals => "operator.approvals",
            Self::Pairing => "operator.pairing",
            Self::TalkSecrets => "operator.talk.secrets",
        }
    }

    /// The scope with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of scopes. Unknown names have no place in it: they are worth nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScopeSet(u8);

impl ScopeSet {
    /// No right at all.
    pub const NONE: Self = Self(0);

    /// Whether the set is good for `needed`: admin satisfies everything, write
    /// satisfies read, everything else only itself.
    pub const fn allows(self, needed: Scope) -> bool {
        if self.contains(Scope::Admin) || self.contains(needed) {
            return true;
        }
        matches!(needed, Scope::Read) && self.contains(Scope::Write)
    }

    /// Whether `scope` itself is in the set.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// The scopes, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<Scope> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_covers_all_write_covers_read_nothing_else_implies_anything() {
        for held in Scope::ALL {
            let set: ScopeSet = [held].into_iter().collect();
            for needed in Scope::ALL {
                let expected = held == needed
                    || held == Scope::Admin
                    || (held == Scope::Write && needed == Scope::Read);
                assert_eq!(set.allows(needed), expected, "{held:?} for {needed:?}");
            }
            assert!(!ScopeSet::NONE.allows(held));
        }
    }
}
