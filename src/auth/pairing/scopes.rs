//! Scopes of devices: lists of names, since a device may ask for names that
//! this release does not know.

use std::collections::BTreeSet;

use crate::protocol::{Role, Scope, ScopeSet};

/// What the names of an operator's scopes begin with.
const OPERATOR_PREFIX: &str = "operator.";

/// The scopes as a token keeps them: sorted, once each, with what they imply.
pub fn normalized(scopes: &[String]) -> Vec<String> {
    let mut names: BTreeSet<&str> = scopes.iter().map(|name| name.trim()).collect();
    names.remove("");
    if names.contains(Scope::Admin.as_str()) {
        names.extend([Scope::Read.as_str(), Scope::Write.as_str()]);
    }
    if names.contains(Scope::Write.as_str()) {
        names.insert(Scope::Read.as_str());
    }
    names.into_iter().map(str::to_owned).collect()
}

/// Whether somebody with these scopes has `wanted` too.
pub fn covers(held: &[String], wanted: &str) -> bool {
    let has = |scope: &str| held.iter().any(|name| name.trim() == scope);
    let wanted = wanted.trim();
    has(wanted)
        || (wanted == Scope::Read.as_str() && has(Scope::Write.as_str()))
        || (wanted.starts_with(OPERATOR_PREFIX) && has(Scope::Admin.as_str()))
}

/// Whether somebody with these scopes has all that is wanted.
pub fn covers_all(held: &[String], wanted: &[String]) -> bool {
    wanted.iter().all(|scope| covers(held, scope))
}

/// Whether a token of this role can hold a scope.
pub fn is_of_role(role: &str, scope: &str) -> bool {
    role == Role::Operator.as_str() && scope.trim().starts_with(OPERATOR_PREFIX)
}

/// Adds what is not there yet, behind what is.
pub fn merge(into: &mut Vec<String>, more: &[String]) {
    for name in more {
        if !into.contains(name) {
            into.push(name.clone());
        }
    }
}

/// What the names are worth here.
pub fn worth(names: &[String]) -> ScopeSet {
    names.iter().filter_map(|name| Scope::parse(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn scopes_are_sorted_and_hold_what_they_imply() {
        assert_eq!(
            normalized(&names(&["operator.write", " operator.approvals ", "operator.write", ""])),
            names(&["operator.approvals", "operator.read", "operator.write"])
        );
        assert_eq!(
            normalized(&names(&["operator.admin"])),
            names(&["operator.admin", "operator.read", "operator.write"])
        );
    }

    #[test]
    fn admin_covers_operators_scopes_only() {
        let admin = names(&["operator.admin"]);
        assert!(covers(&admin, "operator.made.up"));
        assert!(!covers(&admin, "x"));
        assert!(covers(&names(&["operator.write"]), "operator.read"));
        assert!(!covers(&names(&["operator.read"]), "operator.write"));
    }
}
