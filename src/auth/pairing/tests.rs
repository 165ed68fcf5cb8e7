//! The rules, without a store.

use std::sync::Arc;

use proptest::prelude::*;

use super::decide::{ApproveError, Outcome, approve, arrive};
use super::scopes::covers_all;
use super::*;
use crate::auth::DeviceIdentity;
use crate::protocol::Scope;
use crate::store::{DeviceFacts, PendingDevice};
use crate::support::RandomIds;

const NEIGHBOUR: Trust = Trust::Neighbour { is_native: false };

fn minter() -> Minter {
    Minter::new(Arc::new(DeviceIdentity::from_seed(&[1; 32])), Arc::new(RandomIds))
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn ask(role: Role, scopes: &[&str], trust: Trust) -> Ask {
    let role_name = role.as_str().to_owned();
    Ask {
        device_id: "d".into(),
        role,
        facts: DeviceFacts {
            public_key: "k".into(),
            platform: Some("linux".into()),
            role: role_name.clone(),
            roles: vec![role_name],
            scopes: names(scopes),
            ..DeviceFacts::default()
        },
        trust,
    }
}

fn operator(scopes: &[&str], trust: Trust) -> Ask {
    ask(Role::Operator, scopes, trust)
}

fn fresh() -> DeviceRow {
    DeviceRow { device_id: "d".into(), ..DeviceRow::default() }
}

fn come(row: &mut DeviceRow, ask: &Ask) -> Result<Vec<String>, Box<(Reason, PendingDevice, bool)>> {
    match arrive(row, ask, &minter(), &uuid::Uuid::new_v4().to_string(), 7) {
        Outcome::In { token, .. } => Ok(token.scopes),
        Outcome::Waits { reason, request, is_new, .. } => Err(Box::new((reason, *request, is_new))),
    }
}

fn why(row: &mut DeviceRow, ask: &Ask) -> Reason {
    come(row, ask).unwrap_err().0
}

#[test]
fn a_neighbour_needs_nobody_and_a_stranger_does() {
    let mut row = fresh();
    let (reason, request, is_new) =
        *come(&mut row, &operator(&["operator.read"], Trust::Stranger)).unwrap_err();
    assert_eq!((reason, is_new, request.silent), (Reason::NotPaired, true, false));
    // Once a person is to look at it, coming from near does not help.
    let near = operator(&["operator.read"], NEIGHBOUR);
    let (_, again, is_new) = *come(&mut row, &near).unwrap_err();
    assert_eq!((again.request_id, is_new), (request.request_id, false));
    let mut row = fresh();
    assert_eq!(come(&mut row, &near).unwrap(), names(&["operator.read"]));
    assert_eq!(row.pending, None);
}

#[test]
fn what_was_not_approved_is_never_taken_silently() {
    let mut row = fresh();
    come(&mut row, &operator(&["operator.read"], NEIGHBOUR)).unwrap();
    let more = operator(&["operator.read", "operator.admin"], NEIGHBOUR);
    assert_eq!(why(&mut row, &more), Reason::ScopeUpgrade);
    row.pending = None;
    let other = Ask {
        facts: DeviceFacts { platform: Some("darwin".into()), ..more.facts.clone() },
        trust: Trust::Neighbour { is_native: true },
        ..more.clone()
    };
    assert_eq!(why(&mut row, &other), Reason::MetadataUpgrade, "nor behind another change");
    row.pending = None;
    row.paired.as_mut().unwrap().tokens.get_mut("operator").unwrap().revoked_at_ms = Some(1);
    assert_eq!(why(&mut row, &more), Reason::RoleUpgrade, "nor after a revocation");
    row.pending = None;
    let same = operator(&["operator.read"], NEIGHBOUR);
    assert_eq!(come(&mut row, &same).unwrap(), names(&["operator.read"]));
    let node = ask(Role::Node, &["operator.admin"], NEIGHBOUR);
    assert_eq!(why(&mut row, &node), Reason::RoleUpgrade, "nor in another role");
    row.pending = None;
    assert_eq!(come(&mut row, &ask(Role::Node, &[], NEIGHBOUR)).unwrap(), names(&[]));
}

#[test]
fn what_cannot_be_taken_silently_is_told_to_those_who_decide() {
    let mut row = fresh();
    let node = ask(Role::Node, &["operator.read"], NEIGHBOUR);
    let (reason, first, is_new) = *come(&mut row, &node).unwrap_err();
    assert_eq!((reason, is_new, first.silent), (Reason::NotPaired, true, false));
    assert_eq!(row.pending.as_ref(), Some(&first));
    let (_, again, is_new) = *come(&mut row, &node).unwrap_err();
    assert_eq!((again.request_id, is_new), (first.request_id, false), "they know it");
}

#[test]
fn an_updated_system_is_the_same_app_and_another_program_is_not() {
    let native = Trust::Neighbour { is_native: true };
    let updated = |trust| {
        let mut ask = operator(&["operator.read"], trust);
        ask.facts.platform = Some("linux 2".into());
        ask
    };
    for (trust, is_let_in) in [(native, true), (NEIGHBOUR, false), (Trust::Stranger, false)] {
        let mut row = fresh();
        come(&mut row, &operator(&["operator.read"], NEIGHBOUR)).unwrap();
        assert_eq!(come(&mut row, &updated(trust)).is_ok(), is_let_in);
    }
    let mut row = fresh();
    come(&mut row, &operator(&[], NEIGHBOUR)).unwrap();
    let mut same = operator(&[], Trust::Stranger);
    same.facts.platform = Some(" LINUX ".into());
    assert!(come(&mut row, &same).is_ok(), "the spelling does not count");
}

#[test]
fn another_version_of_a_system_is_stored_and_asks_nobody() {
    let on = |platform: &str, family: &str, trust| {
        let mut ask = operator(&["operator.read"], trust);
        ask.facts.platform = Some(platform.into());
        ask.facts.device_family = Some(family.into());
        ask
    };
    for (before, after, is_same) in [
        ("iOS 18.4.0", "iOS 18.5.0", true),
        ("ipados 18", "iPadOS 19", true),
        ("android", "Android 16", true),
        ("macOS 15.1", "macos 26.0", true),
        ("iOS 18", "iPadOS 18", false),
        ("iOS 18", "iosx 18", false),
        ("linux 6", "linux 7", false),
    ] {
        let mut row = fresh();
        come(&mut row, &on(before, "x", NEIGHBOUR)).unwrap();
        let answer = come(&mut row, &on(after, "x", Trust::Stranger));
        assert_eq!(answer.is_ok(), is_same, "{before}, {after}");
        let stored = row.paired.as_ref().unwrap().facts.platform.as_deref();
        assert_eq!(stored, Some(if is_same { after } else { before }));
        row.pending = None;
        let other = on(after, "y", Trust::Stranger);
        assert_eq!(why(&mut row, &other), Reason::MetadataUpgrade, "another kind of device");
    }
}

#[test]
fn an_approval_keeps_a_token_that_is_enough_and_makes_one_where_it_is_not() {
    let approved = |row: &mut DeviceRow| {
        approve(row, &|_| true, &minter(), 9).unwrap();
        row.paired.as_ref().unwrap().tokens["operator"].clone()
    };
    let all = ["operator.read", "operator.write"];
    let mut row = fresh();
    come(&mut row, &operator(&all, NEIGHBOUR)).unwrap();
    let first = row.paired.as_ref().unwrap().tokens["operator"].clone();
    let mut moved = operator(&["operator.read"], Trust::Stranger);
    moved.facts.platform = Some("darwin".into());
    assert_eq!(why(&mut row, &moved), Reason::MetadataUpgrade);
    assert_eq!(approved(&mut row), first, "the device may have nothing else");
    assert!(come(&mut row, &moved).is_ok());
    moved.facts.scopes = names(&["operator.admin"]);
    assert_eq!(why(&mut row, &moved), Reason::ScopeUpgrade);
    let more = approved(&mut row);
    assert!(more.hash != first.hash && more.scopes.contains(&"operator.admin".to_owned()));
    row.paired.as_mut().unwrap().tokens.get_mut("operator").unwrap().revoked_at_ms = Some(1);
    assert_eq!(why(&mut row, &moved), Reason::RoleUpgrade);
    assert_ne!(approved(&mut row).hash, more.hash, "what was revoked is not given back");
}

#[test]
fn a_neighbour_comes_in_either_role_first() {
    for is_node_first in [true, false] {
        let mut row = fresh();
        let mut both = [ask(Role::Node, &[], NEIGHBOUR), operator(&["operator.write"], NEIGHBOUR)];
        if !is_node_first {
            both.reverse();
        }
        for ask in &both {
            come(&mut row, ask).unwrap();
        }
        let more = operator(&["operator.admin"], NEIGHBOUR);
        assert_eq!(why(&mut row, &more), Reason::ScopeUpgrade, "once it has the role");
    }
    let mut row = fresh();
    come(&mut row, &ask(Role::Node, &[], NEIGHBOUR)).unwrap();
    let far = operator(&["operator.read"], Trust::Stranger);
    assert_eq!(why(&mut row, &far), Reason::RoleUpgrade, "from elsewhere a person is asked");
}

#[test]
fn a_role_that_was_imported_without_a_token_is_no_new_one() {
    let mut row = fresh();
    come(&mut row, &operator(&["operator.read"], NEIGHBOUR)).unwrap();
    row.paired.as_mut().unwrap().tokens.clear();
    let more = operator(&["operator.admin"], NEIGHBOUR);
    assert_eq!(why(&mut row, &more), Reason::RoleUpgrade, "more was never approved");
    row.pending = None;
    assert!(come(&mut row, &operator(&["operator.read"], NEIGHBOUR)).is_ok());
}

#[test]
fn requests_of_one_device_are_one_request() {
    let mut row = fresh();
    let first = come(&mut row, &operator(&["operator.read"], Trust::Stranger)).unwrap_err().1;
    let more = operator(&["operator.write"], Trust::Stranger);
    let (_, second, is_new) = *come(&mut row, &more).unwrap_err();
    assert!(is_new && second.request_id != first.request_id);
    assert_eq!(second.facts.scopes, names(&["operator.read", "operator.write"]));
    let (_, third, is_new) =
        *come(&mut row, &operator(&["operator.read"], Trust::Stranger)).unwrap_err();
    assert_eq!((third.request_id, is_new), (second.request_id, false), "it is in there already");
    let (_, node, _) = *come(&mut row, &ask(Role::Node, &[], Trust::Stranger)).unwrap_err();
    assert_eq!(node.facts.roles, names(&["operator", "node"]));
}

#[test]
fn who_asks_for_nothing_keeps_what_it_has_and_gets_back_nothing() {
    let mut row = fresh();
    come(&mut row, &operator(&["operator.admin"], NEIGHBOUR)).unwrap();
    let empty = operator(&[], Trust::Stranger);
    let mut request = come(&mut row.clone(), &ask(Role::Node, &[], Trust::Stranger)).unwrap_err().1;
    request.facts = empty.facts.clone();
    row.pending = Some(request.clone());
    let weak = |scope: &str| scope == "operator.read";
    let error = approve(&mut row, &weak, &minter(), 9).unwrap_err();
    assert_eq!(error, ApproveError::MissingScope("operator.admin".into()));
    row.paired.as_mut().unwrap().tokens.get_mut("operator").unwrap().revoked_at_ms = Some(1);
    approve(&mut row, &weak, &minter(), 9).unwrap();
    let token = &row.paired.unwrap().tokens["operator"];
    assert_eq!((token.scopes.as_slice(), token.revoked_at_ms), (&[][..], None));
}

fn scope() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(Scope::ALL.map(|scope| scope.as_str().to_owned()).to_vec()),
        Just("operator.made.up".to_owned()),
        Just("x".to_owned()),
        Just(String::new()),
    ]
}

fn some_scopes() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(scope(), 0..5)
}

proptest! {
    #[test]
    fn an_approval_gives_what_was_asked_for_and_no_more_than_its_giver_has(
        asked in some_scopes(),
        held in some_scopes(),
        is_node in any::<bool>(),
    ) {
        let mut row = fresh();
        let role = if is_node { Role::Node } else { Role::Operator };
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let request = ask(role, &asked, Trust::Stranger);
        come(&mut row, &request).unwrap_err();
        let done = approve(&mut row, &|scope| covers(&held, scope), &minter(), 9);
        if done.is_ok() {
            let paired = row.paired.unwrap();
            for (of, token) in &paired.tokens {
                prop_assert_eq!(of.as_str(), role.as_str());
                prop_assert!(covers_all(&held, &token.scopes));
                prop_assert!(covers_all(&paired.facts.scopes, &token.scopes));
                prop_assert!(covers_all(&request.facts.scopes, &token.scopes));
                prop_assert!(!is_node || token.scopes.is_empty());
            }
        } else {
            prop_assert_eq!(row.paired, None);
        }
    }

    #[test]
    fn however_a_device_comes_it_never_has_more_than_was_approved(
        steps in proptest::collection::vec((some_scopes(), any::<bool>(), any::<bool>()), 1..8),
    ) {
        let mut row = fresh();
        let mut approved: Vec<String> = Vec::new();
        for (scopes, is_near, is_node) in steps {
            let role = if is_node { Role::Node } else { Role::Operator };
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let trust = if is_near { NEIGHBOUR } else { Trust::Stranger };
            let request = ask(role, &scopes, trust);
            let has = |row: &DeviceRow| {
                row.paired.as_ref().is_some_and(|it| it.tokens.contains_key(role.as_str()))
            };
            let had_role = has(&row);
            let let_in = come(&mut row, &request).is_ok();
            prop_assert!(!let_in || had_role || is_near);
            prop_assert_eq!(has(&row), let_in || had_role);
            if let_in && !had_role {
                approved.extend(request.facts.scopes.clone());
            }
            let Some(paired) = &row.paired else { continue };
            prop_assert!(covers_all(&approved, &paired.facts.scopes));
            for token in paired.tokens.values() {
                prop_assert!(covers_all(&approved, &token.scopes));
            }
        }
    }
}
