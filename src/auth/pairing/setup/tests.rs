//! What a code is good for, by the clock and with a real store.

use std::sync::Arc;

use super::*;
use crate::auth::DeviceIdentity;
use crate::auth::pairing::{Minter, Trust};
use crate::auth::principal::{Login, Owner};
use crate::config::AuthMode;
use crate::store::SqliteStore;
use crate::support::RandomIds;

const NOW: u64 = 1_767_225_600_000;

struct Place {
    pairing: Pairing,
    _dir: tempfile::TempDir,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&dir.path().join("x.sqlite")).unwrap();
    let minter = Minter::new(Arc::new(DeviceIdentity::from_seed(&[1; 32])), Arc::new(RandomIds));
    let original = dir.path().join("devices");
    let pairing = Pairing::new(Arc::new(store), minter, original, Box::new(|_| {}));
    Place { pairing, _dir: dir }
}

fn browser(id: &str, scopes: &[Scope]) -> Ask {
    let operator = Role::Operator.as_str().to_owned();
    let facts = DeviceFacts {
        public_key: format!("key of {id}"),
        role: operator.clone(),
        roles: vec![operator],
        scopes: scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        ..DeviceFacts::default()
    };
    Ask { device_id: id.to_owned(), role: Role::Operator, facts, trust: Trust::Stranger }
}

impl Place {
    async fn code(&self, caller: &Principal, now_ms: u64) -> Result<String, ManageError> {
        let issued = self.pairing.issue_code(caller, CodeFor::Browser, now_ms).await?;
        assert_eq!(issued.expires_at_ms, now_ms + BROWSER_LIFE_MS);
        Ok(issued.token.expose().to_owned())
    }

    async fn shows(&self, id: &str, code: &str, now_ms: u64) -> bool {
        let ask = browser(id, &BROWSER_SCOPES);
        let set_up = self.pairing.show_code(&ask, code, None, now_ms).await.unwrap();
        set_up.is_some_and(|it| it.let_in.token.is_some() && it.others.is_empty())
    }

    /// A browser that is logged in, as its requests come.
    async fn logged_in(&self, id: &str) -> Principal {
        let code = self.code(&Principal::of_this_machine(), NOW).await.unwrap();
        assert!(self.shows(id, &code, NOW).await);
        let scopes = BROWSER_SCOPES.into_iter().collect();
        Principal::new(Role::Operator, scopes, Owner::Device(id.into())).with_own_token()
    }
}

#[tokio::test]
async fn a_login_code_is_good_for_one_browser_and_five_minutes() {
    let place = place();
    let machine = Principal::of_this_machine();
    let code = place.code(&machine, NOW).await.unwrap();
    assert!(!place.shows("late", &code, NOW + BROWSER_LIFE_MS).await);
    assert!(place.shows("in time", &code, NOW + BROWSER_LIFE_MS - 1).await);
    assert!(!place.shows("another", &code, NOW).await);
    let code = place.code(&machine, NOW).await.unwrap();
    assert_eq!(place.pairing.clear_codes(NOW).await.unwrap(), 1);
    assert!(!place.shows("taken back", &code, NOW).await);
}

#[tokio::test]
async fn a_browser_gets_the_same_token_again_until_it_has_used_it_or_it_is_taken_away() {
    let place = place();
    let machine = Principal::of_this_machine();
    let own = browser("own", &BROWSER_SCOPES);
    let token = async |code: &str, now_ms| {
        let set_up = place.pairing.show_code(&own, code, None, now_ms).await.unwrap()?;
        Some(set_up.let_in.token.unwrap().expose().to_owned())
    };
    let code = place.code(&machine, NOW).await.unwrap();
    let first = token(&code, NOW).await.unwrap();
    assert_eq!(token(&code, NOW + 1).await.as_ref(), Some(&first), "its hello was lost");
    assert!(!place.shows("another", &code, NOW + 1).await);
    assert_eq!(token(&code, NOW + BROWSER_LIFE_MS).await, None, "too late");
    assert!(place.pairing.show_token(&own, &first, NOW + 2).await.unwrap().is_some());
    assert_eq!(token(&code, NOW + 3).await, None, "it has used it");

    let of_operator = ("own", "operator");
    for change in ["rotate", "revoke", "remove"] {
        let code = place.code(&machine, NOW + 100_000).await.unwrap();
        token(&code, NOW + 100_000).await.unwrap();
        let pairing = &place.pairing;
        match change {
            "rotate" => {
                pairing.rotate(&machine, of_operator, None, NOW).await.unwrap();
            }
            "revoke" => {
                pairing.revoke(&machine, of_operator, NOW).await.unwrap();
            }
            _ => pairing.remove(&machine, "own", NOW).await.unwrap(),
        }
        assert_eq!(token(&code, NOW + 100_001).await, None, "{change}");
    }
}

#[tokio::test]
async fn a_phone_gets_a_token_for_each_role_of_its_code_and_what_cannot_be_told_is_replaced() {
    let place = place();
    let node = Role::Node.as_str().to_owned();
    let operator = browser("phone", &[Scope::Read]);
    let mut as_node = browser("phone", &[]);
    (as_node.role, as_node.facts.role, as_node.facts.roles) =
        (Role::Node, node.clone(), vec![node]);
    let code = async || {
        let machine = Principal::of_this_machine();
        let issued = place.pairing.issue_code(&machine, CodeFor::Phone, NOW).await.unwrap();
        issued.token.expose().to_owned()
    };
    let of_phone = code().await;
    let show = async |ask: &Ask, code: &str| {
        let set_up = place.pairing.show_code(ask, code, None, NOW).await.unwrap().unwrap();
        set_up.let_in.token.map(|token| token.expose().to_owned())
    };
    let first = show(&as_node, &of_phone).await.unwrap();
    assert!(place.pairing.show_token(&as_node, &first, NOW).await.unwrap().is_some());
    let own = show(&operator, &of_phone).await.unwrap();
    assert!(place.pairing.show_token(&operator, &own, NOW).await.unwrap().is_some());

    assert_eq!(show(&operator, &code().await).await.unwrap(), own, "it has a good one");
    let make_theirs = |row: &mut DeviceRow| {
        row.paired.as_mut().unwrap().tokens.get_mut("operator").unwrap().salt = None;
    };
    place.pairing.edit("phone", NOW, make_theirs).await.unwrap();
    assert_ne!(show(&operator, &code().await).await.unwrap(), own);
}

#[tokio::test]
async fn a_login_code_is_for_operators_only() {
    let place = place();
    let code = place.code(&Principal::of_this_machine(), NOW).await.unwrap();
    let node = Role::Node.as_str().to_owned();
    let mut ask = browser("node", &[]);
    (ask.role, ask.facts.role, ask.facts.roles) = (Role::Node, node.clone(), vec![node]);
    assert!(place.pairing.show_code(&ask, &code, None, NOW).await.unwrap().is_none());
    assert!(place.shows("browser", &code, NOW).await, "it was not spent on that");
}

#[tokio::test]
async fn who_has_less_than_a_code_gives_issues_none() {
    let place = place();
    for missing in BROWSER_SCOPES {
        let scopes = BROWSER_SCOPES.into_iter().filter(|scope| *scope != missing).collect();
        let caller = Principal::new(Role::Operator, scopes, Owner::Connection("c".into()));
        let issued = place.code(&caller, NOW).await;
        // Who administrates has the rest as well.
        assert_eq!(issued.is_ok(), caller.allows(Scope::Admin), "{missing:?}: {issued:?}");
    }
}

#[tokio::test]
async fn a_code_goes_with_the_token_of_the_device_that_issued_it() {
    let place = place();
    let machine = Principal::of_this_machine();
    let issuer = place.logged_in("issuer").await;
    let good = place.code(&issuer, NOW).await.unwrap();
    assert!(place.shows("good", &good, NOW).await);
    let token = ("issuer", "operator");
    let before_rotation = place.code(&issuer, NOW).await.unwrap();
    place.pairing.rotate(&machine, token, None, NOW).await.unwrap();
    assert!(!place.shows("a", &before_rotation, NOW).await);
    let before_revocation = place.code(&issuer, NOW).await.unwrap();
    place.pairing.revoke(&machine, token, NOW).await.unwrap();
    assert!(!place.shows("b", &before_revocation, NOW).await);
    assert_eq!(place.code(&issuer, NOW).await.unwrap_err(), ManageError::Denied);
    let other = place.logged_in("other").await;
    let before_removal = place.code(&other, NOW).await.unwrap();
    place.pairing.remove(&machine, "other", NOW).await.unwrap();
    assert!(!place.shows("c", &before_removal, NOW).await);
    // One of the gateway's own user stays.
    let own = place.code(&machine, NOW).await.unwrap();
    assert!(place.shows("d", &own, NOW).await);
}

#[tokio::test]
async fn a_code_goes_with_the_device_that_issued_it_also_where_that_has_shown_a_secret() {
    let place = place();
    let machine = Principal::of_this_machine();
    let ground = Secret::new("token a");
    for change in ["nothing", "rotate", "revoke", "remove"] {
        place.logged_in(change).await;
        let scopes = BROWSER_SCOPES.into_iter().collect();
        let issuer = Principal::new(Role::Operator, scopes, Owner::Device(change.into())).paired();
        let issuer = issuer.by(Login::Secret(AuthMode::Token), Some(ground.clone()));
        let code = place.code(&issuer, NOW).await.unwrap();
        let (pairing, token) = (&place.pairing, (change, "operator"));
        match change {
            "rotate" => {
                pairing.rotate(&machine, token, None, NOW).await.unwrap();
            }
            "revoke" => {
                pairing.revoke(&machine, token, NOW).await.unwrap();
            }
            "remove" => pairing.remove(&machine, change, NOW).await.unwrap(),
            _ => {}
        }
        let ask = browser(&format!("guest after {change}"), &BROWSER_SCOPES);
        let set_up = pairing.show_code(&ask, &code, Some(&ground), NOW).await.unwrap();
        assert_eq!(set_up.is_some(), change == "nothing", "{change}");
        // What it asks for while its connection ends.
        let late = place.code(&issuer, NOW).await;
        assert_eq!(late.is_ok(), !["revoke", "remove"].contains(&change), "{change}");
    }
}

#[tokio::test]
async fn a_device_without_a_token_of_its_own_issues_codes_all_the_same() {
    let place = place();
    let scopes = BROWSER_SCOPES.into_iter().collect();
    let caller = Principal::new(Role::Operator, scopes, Owner::Device("vouched".into()));
    let code = place.code(&caller, NOW).await.unwrap();
    assert!(place.shows("own", &code, NOW).await);
}

#[tokio::test]
async fn a_code_goes_with_the_secret_that_its_issuer_has_shown() {
    let place = place();
    let issuer = |ground: &Secret| {
        let scopes = BROWSER_SCOPES.into_iter().collect();
        let caller = Principal::new(Role::Operator, scopes, Owner::Connection("c".into()));
        caller.by(Login::Secret(AuthMode::Token), Some(ground.clone()))
    };
    let (before, after) = (Secret::new("token a"), Secret::new("token b"));
    let code = place.code(&issuer(&before), NOW).await.unwrap();
    let ask = browser("own", &BROWSER_SCOPES);
    for (ground, is_good) in [(Some(&after), false), (None, false), (Some(&before), true)] {
        let set_up = place.pairing.show_code(&ask, &code, ground, NOW).await.unwrap();
        assert_eq!(set_up.is_some(), is_good);
    }
    // Whoever reads the record learns nothing of the secret.
    let record = place.pairing.store.setup_code(&hash(&code), NOW).await.unwrap().unwrap();
    assert!(!record.grant.contains(&hash(before.expose())), "{}", record.grant);
    // One of an earlier version, which did not write it down.
    let mut grant: serde_json::Value = serde_json::from_str(&record.grant).unwrap();
    assert!(grant.as_object_mut().unwrap().remove("login").is_some());
    let earlier = SetupCode { hash: hash("earlier"), grant: grant.to_string(), ..record };
    assert!(place.pairing.store.add_setup_code(earlier, NOW).await.unwrap());
    assert!(place.shows("other", "earlier", NOW).await);
}
