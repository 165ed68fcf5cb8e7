//! What a code is good for, by the clock and with a real store.

use std::sync::Arc;

use super::*;
use crate::auth::DeviceIdentity;
use crate::auth::pairing::{Minter, Trust};
use crate::auth::principal::Owner;
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
        let set_up = self.pairing.show_code(&ask, code, now_ms).await.unwrap();
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
    for again in ["in time", "another"] {
        assert!(!place.shows(again, &code, NOW).await, "{again}");
    }
    let code = place.code(&machine, NOW).await.unwrap();
    assert_eq!(place.pairing.clear_codes(NOW).await.unwrap(), 1);
    assert!(!place.shows("taken back", &code, NOW).await);
}

#[tokio::test]
async fn a_login_code_is_for_operators_only() {
    let place = place();
    let code = place.code(&Principal::of_this_machine(), NOW).await.unwrap();
    let node = Role::Node.as_str().to_owned();
    let mut ask = browser("node", &[]);
    (ask.role, ask.facts.role, ask.facts.roles) = (Role::Node, node.clone(), vec![node]);
    assert!(place.pairing.show_code(&ask, &code, NOW).await.unwrap().is_none());
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
