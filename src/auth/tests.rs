//! Who gets in with what: the matrix of credentials and devices
//! (CVE-2026-28472, CVE-2026-22172).

use std::sync::Arc;

use proptest::prelude::*;

use super::identity::DeviceIdentity;
use super::pairing::{Minter, Pairing};
use super::*;
use crate::config::{AuthMode, AuthSettings, ControlUiSettings, ProxySettings, RateLimitSettings};
use crate::protocol::connect::{
    ClientInfo, ConnectAuth, DeviceProof, SimpleConnect, StandardConnect,
};
use crate::protocol::{Role, Scope, ScopeSet};
use crate::store::SqliteStore;
use crate::support::{RandomIds, Secret};

const NOW: u64 = 1_767_225_600_000;
const NONCE: &str = "the-nonce";

/// The store of this test; it goes with the process.
fn pairing() -> Arc<Pairing> {
    let dir = tempfile::tempdir().unwrap().keep();
    let store = SqliteStore::open(&dir.join("x.sqlite")).unwrap();
    let identity = Arc::new(DeviceIdentity::from_seed(&[1; 32]));
    let minter = Minter::new(identity, Arc::new(RandomIds));
    Arc::new(Pairing::new(Arc::new(store), minter, dir.join("devices"), Box::new(|_| {})))
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn auth(mode: AuthMode) -> Auth {
    let settings = AuthSettings {
        referred: Vec::new(),
        mode,
        token: Some(Secret::new("right")),
        password: Some(Secret::new("right")),
        shared_secret_scopes: [Scope::Read, Scope::Write].into_iter().collect(),
        rate_limit: None,
    };
    let ranges = vec!["127.0.0.1".parse().unwrap()];
    let proxies = ProxySettings { ranges, ..ProxySettings::default() };
    Auth::new(settings, ControlUiSettings::default(), proxies, pairing())
}

fn peer(remote: &str, forwarded: bool, origin: Option<&str>) -> Peer {
    Peer {
        forwarded_for: forwarded.then(|| "198.51.100.7".into()),
        is_forwarded: forwarded,
        origin: origin.map(Into::into),
        ..Peer::direct(remote.parse().unwrap())
    }
}

fn local() -> Peer {
    peer("127.0.0.1", false, None)
}

fn connect(id: &str, mode: &str, token: Option<&str>, scopes: &[&str]) -> StandardConnect {
    StandardConnect {
        min_protocol: 3,
        max_protocol: 3,
        client: ClientInfo {
            id: id.into(),
            mode: mode.into(),
            version: "1".into(),
            platform: "linux".into(),
            ..ClientInfo::default()
        },
        caps: vec![],
        offers: crate::protocol::connect::NodeOffers::default(),
        role: None,
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        device: None,
        auth: ConnectAuth { token: token.map(Into::into), ..ConnectAuth::default() },
        user_agent: None,
    }
}

fn with_proof(
    mut connect: StandardConnect,
    nonce: &str,
    signed_text_suffix: &str,
) -> StandardConnect {
    let identity = DeviceIdentity::from_seed(&[7; 32]);
    let text = format!(
        "v3|{}|{}|{}|operator|{}|{NOW}|{}|{nonce}|linux|{signed_text_suffix}",
        identity.device_id(),
        connect.client.id,
        connect.client.mode,
        connect.scopes.join(","),
        connect.auth.token.as_deref().unwrap_or_default(),
    );
    connect.device = Some(DeviceProof {
        id: identity.device_id().to_owned(),
        public_key: identity.public_key().to_owned(),
        signature: identity.sign(&text),
        signed_at: NOW,
        nonce: nonce.to_owned(),
    });
    connect
}

fn decide(auth: &Auth, connect: &StandardConnect, peer: &Peer) -> Result<Admission, String> {
    wait(auth.admit_standard(connect, peer, "conn", NONCE, NOW)).map_err(|refusal| refusal.message)
}

#[test]
fn only_validated_combinations_pass() {
    let auth = auth(AuthMode::Token);
    for (token, token_is_right) in [(None, false), (Some("wrong"), false), (Some("right"), true)] {
        let plain = || connect("cli", "cli", token, &["operator.admin"]);
        let good = decide(&auth, &with_proof(plain(), NONCE, ""), &local());
        let forged = decide(&auth, &with_proof(plain(), NONCE, "forged"), &local());
        let replayed = decide(&auth, &with_proof(plain(), "an-older-nonce", ""), &local());
        let none = decide(&auth, &plain(), &local());
        assert_eq!(good.is_ok(), token_is_right, "good device, token {token:?}");
        assert_eq!(forged.unwrap_err(), "device signature invalid");
        assert_eq!(replayed.unwrap_err(), "device nonce mismatch");
        match none {
            Ok(admission) => {
                assert!(token_is_right);
                assert!(!admission.principal.allows(Scope::Read), "no device, no scopes");
            }
            Err(_) => assert!(!token_is_right),
        }
    }
}

#[test]
fn a_device_that_nobody_approved_is_let_in_only_from_this_machine() {
    let auth = auth(AuthMode::Token);
    let connect = with_proof(connect("cli", "cli", Some("right"), &["operator.admin"]), NONCE, "");
    for far in [peer("192.0.2.9", false, None), peer("127.0.0.1", true, None)] {
        let refusal = decide(&auth, &connect, &far).unwrap_err();
        assert_eq!(refusal, "pairing required: device is not approved yet");
    }
    let refusal = decide(&auth, &connect, &local()).unwrap_err();
    assert!(refusal.starts_with("pairing required"), "a person is to look at it: {refusal}");
    let auth = self::auth(AuthMode::Token);
    assert!(decide(&auth, &connect, &local()).is_ok());
    assert!(decide(&auth, &connect, &peer("192.0.2.9", false, None)).is_ok(), "it is known now");
}

#[test]
fn what_a_device_stands_on_is_looked_at_again_after_something_was_taken_away() {
    let auth = auth(AuthMode::Token);
    let devices = Arc::clone(&auth.pairing);
    let guest = with_proof(connect("cli", "cli", Some("right"), &["operator.read"]), NONCE, "");
    let admitted = wait(auth.admit_standard(&guest, &local(), "conn", NONCE, NOW)).unwrap();
    let standing = admitted.granted.unwrap().standing;
    let id = admitted.device_id.unwrap();
    assert!(wait(devices.still_stands(&standing, NOW)));
    let owner = Principal::of_this_machine();
    // Somebody else's end is not its own.
    wait(devices.remove(&owner, "another", NOW)).unwrap_err();
    assert!(wait(devices.still_stands(&standing, NOW)));
    wait(devices.rotate(&owner, (&id, "operator"), None, NOW)).unwrap();
    assert!(!wait(devices.still_stands(&standing, NOW)));
    wait(devices.remove(&owner, &id, NOW)).unwrap();
    assert!(!wait(devices.still_stands(&standing, NOW)));
}

/// Who lets a place try three times, how a device comes by the secret, and the token it got so.
fn with_a_device() -> (Auth, StandardConnect, Secret) {
    let settings = AuthSettings {
        rate_limit: Some(RateLimitSettings {
            max_attempts: 3,
            exempt_loopback: false,
            ..RateLimitSettings::default()
        }),
        ..auth(AuthMode::Token).settings
    };
    let proxies = ProxySettings::default();
    let auth = Auth::new(settings, ControlUiSettings::default(), proxies, pairing());
    let guest = with_proof(connect("cli", "cli", Some("right"), &[]), NONCE, "");
    let admitted = wait(auth.admit_standard(&guest, &local(), "conn", NONCE, NOW)).unwrap();
    (auth, guest, admitted.granted.unwrap().token.unwrap())
}

#[test]
fn a_good_device_token_gives_back_its_own_try_and_no_other() {
    let (auth, _, token) = with_a_device();
    let own = with_proof(connect("cli", "cli", Some(token.expose()), &[]), NONCE, "");
    let wrong = connect("cli", "cli", Some("wrong"), &[]);
    for _ in 0..10 {
        assert!(decide(&auth, &own, &local()).is_ok());
    }
    for _ in 0..2 {
        assert!(decide(&auth, &wrong, &local()).unwrap_err().contains("mismatch"));
        assert!(decide(&auth, &own, &local()).is_ok());
    }
    assert!(decide(&auth, &wrong, &local()).unwrap_err().contains("mismatch"));
    assert!(decide(&auth, &wrong, &local()).unwrap_err().contains("too many"), "they add up");
}

#[test]
fn a_good_device_token_buys_no_guesses_of_the_secret() {
    let (auth, guest, token) = with_a_device();
    // Whether the token alone lets it in that shows this as the secret.
    let by_token = |shown: &str| {
        let mut beside = with_proof(connect("cli", "cli", Some(shown), &[]), NONCE, "");
        beside.auth.device_token = Some(token.expose().to_owned());
        decide(&auth, &beside, &local()).unwrap().principal.token_device().is_some()
    };
    for _ in 0..5 {
        assert!(by_token(token.expose()), "apps show it in both places");
    }
    assert!(!by_token("right"));
    for _ in 0..3 {
        assert!(by_token("wrong"));
    }
    assert!(by_token("right"), "nobody compares it now");
    let alone = decide(&auth, &guest, &local()).unwrap().principal;
    assert!(alone.token_device().is_none(), "its place has not failed");
}

#[test]
fn a_page_without_a_device_stays_while_it_needs_none() {
    let settings = auth(AuthMode::Token).settings;
    let rules = |everywhere: bool, here: bool| {
        let pages = ControlUiSettings {
            dangerously_disable_device_auth: everywhere,
            allow_insecure_auth: here,
            ..ControlUiSettings::default()
        };
        Auth::new(settings.clone(), pages, ProxySettings::default(), pairing())
    };
    let before = rules(true, true);
    let admitted = |connect: &StandardConnect, peer: &Peer| {
        let principal = decide(&before, connect, peer).unwrap().principal;
        assert!(principal.allows(Scope::Admin));
        principal
    };
    let page = connect("openclaw-tui", "ui", Some("right"), &["operator.admin"]);
    let (near, far) = (admitted(&page, &local()), admitted(&page, &peer("192.0.2.9", false, None)));
    for (everywhere, here, stays) in
        [(true, false, [true, true]), (false, true, [true, false]), (false, false, [false, false])]
    {
        let now = rules(everywhere, here);
        assert_eq!([&near, &far].map(|who| now.still_admits(who, &before)), stays);
    }
    let backend = connect("gateway-client", "backend", Some("right"), &["operator.admin"]);
    assert!(rules(false, false).still_admits(&admitted(&backend, &local()), &before));
}

#[test]
fn a_long_origin_is_remembered_by_its_beginning() {
    let auth = auth(AuthMode::Token);
    let place = |origin: &str| {
        let page = peer("127.0.0.1", false, Some(origin));
        auth.limited_place("x", &page).expect("pages are limited").1
    };
    let long = format!("https://{}", "a".repeat(60_000));
    assert_eq!(place(&format!("{long}b")), place(&format!("{long}c")));
    assert!(place(&long).len() < 400);
    assert_ne!(place("https://a.example"), place("https://b.example"));
}

#[test]
fn a_forwarded_or_browser_connection_is_no_local_backend() {
    let auth = auth(AuthMode::Token);
    let backend = connect("gateway-client", "backend", Some("right"), &["operator.admin"]);
    let admin = |peer: &Peer| {
        decide(&auth, &backend, peer).map(|admission| admission.principal.allows(Scope::Admin))
    };
    assert_eq!(admin(&local()), Ok(true));
    assert_eq!(admin(&peer("127.0.0.1", true, None)), Ok(false));
    assert_eq!(admin(&peer("192.0.2.9", false, None)), Ok(false));
    assert_eq!(admin(&peer("127.0.0.1", false, Some("http://localhost:5173"))), Ok(false));
    assert!(admin(&peer("127.0.0.1", false, Some("https://evil.example"))).is_err());
}

#[test]
fn a_local_backend_with_its_own_token_needs_no_approval_as_another_machine() {
    let auth = auth(AuthMode::Token);
    let of_family = |mut connect: StandardConnect, family: &str| {
        connect.client.device_family = Some(family.into());
        with_proof(connect, NONCE, family)
    };
    let new = of_family(connect("cli", "cli", Some("right"), &["operator.read"]), "laptop");
    let admitted = wait(auth.admit_standard(&new, &local(), "conn", NONCE, NOW)).unwrap();
    let (id, token) = (admitted.device_id.unwrap(), admitted.granted.unwrap().token.unwrap());
    let again = |id: &str, mode: &str, scope: &str, peer: &Peer| {
        let moved = connect(id, mode, Some(token.expose()), &[scope]);
        wait(auth.admit_standard(&of_family(moved, "server"), peer, "conn", NONCE, NOW))
    };
    let backend = |scope: &str, peer: &Peer| again("gateway-client", "backend", scope, peer);
    let admitted = backend("operator.read", &local()).unwrap();
    assert!(admitted.principal.allows(Scope::Read));
    assert_eq!(admitted.principal.token_device(), Some(&*id), "it has shown nothing else");
    let standing = admitted.granted.unwrap().standing;
    assert!(backend("operator.write", &local()).is_err(), "its token is not good for that");
    let far = peer("192.0.2.9", false, None);
    for refused in [backend("operator.read", &far), again("cli", "cli", "operator.read", &local())]
    {
        let refusal = refused.unwrap_err().message;
        assert_eq!(refusal, "pairing required: device identity changed and must be re-approved");
    }
    let owner = Principal::of_this_machine();
    wait(auth.pairing.remove(&owner, &id, NOW)).unwrap();
    assert!(!wait(auth.pairing.still_stands(&standing, NOW)));
}

#[test]
fn the_command_line_since_protocol_4_needs_no_device_on_this_machine() {
    let auth = auth(AuthMode::Token);
    let mut cli = connect("cli", "cli", Some("right"), &["operator.admin"]);
    let admin = |cli: &StandardConnect, peer: &Peer| {
        decide(&auth, cli, peer).map(|admission| admission.principal.allows(Scope::Admin))
    };
    assert_eq!(admin(&cli, &local()), Ok(false), "of protocol 3 it is recorded");
    cli.max_protocol = 4;
    assert_eq!(admin(&cli, &local()), Ok(true));
    assert_eq!(admin(&cli, &peer("127.0.0.1", true, None)), Ok(false));
    assert_eq!(admin(&cli, &peer("192.0.2.9", false, None)), Ok(false));
    assert_eq!(admin(&cli, &peer("127.0.0.1", false, Some("http://localhost:5173"))), Ok(false));
    cli.client.mode = "probe".into();
    assert_eq!(admin(&cli, &local()), Ok(false));
    cli.client.mode = "cli".into();
    cli.auth.token = Some("wrong".into());
    admin(&cli, &local()).unwrap_err();
}

#[test]
fn a_node_needs_a_device() {
    let mut node = connect("node-host", "node", Some("right"), &[]);
    node.role = Some("node".into());
    assert_eq!(
        decide(&auth(AuthMode::Token), &node, &local()).unwrap_err(),
        "device identity required"
    );
    node.role = Some("admin".into());
    assert_eq!(decide(&auth(AuthMode::Token), &node, &local()).unwrap_err(), "invalid role");
}

fn simple(token: Option<&str>) -> SimpleConnect {
    SimpleConnect {
        client_type: Some("web".into()),
        client_version: None,
        auth: ConnectAuth { token: token.map(Into::into), ..ConnectAuth::default() },
        device: None,
    }
}

fn admit_simple(auth: &Auth, connect: &SimpleConnect, peer: &Peer) -> Result<Admission, Refusal> {
    wait(auth.admit_simple(connect, peer, "conn", NONCE, NOW))
}

#[test]
fn the_simple_form_is_worth_what_its_secret_is_worth() {
    let token_mode = auth(AuthMode::Token);
    let far = peer("192.0.2.9", false, None);
    for peer in [&local(), &far] {
        let admitted = admit_simple(&token_mode, &simple(Some("right")), peer).unwrap();
        let principal = admitted.principal;
        assert!(principal.allows(Scope::Write) && !principal.allows(Scope::Admin));
        assert!(admit_simple(&token_mode, &simple(Some("wrong")), peer).is_err());
        assert!(admit_simple(&token_mode, &simple(None), peer).is_err());
    }
    let open = auth(AuthMode::None);
    assert!(admit_simple(&open, &simple(None), &local()).is_ok());
    assert!(admit_simple(&open, &simple(None), &far).is_err());
    assert!(admit_simple(&open, &simple(None), &peer("127.0.0.1", true, None)).is_err());
    let page = peer("127.0.0.1", false, Some("https://evil.example"));
    assert!(admit_simple(&open, &simple(None), &page).is_err());
}

#[test]
fn a_device_is_told_which_of_its_credentials_is_wrong() {
    let auth = auth(AuthMode::Token);
    for (token, device_token, bootstrap_token, expected) in [
        (None, None, None, "AUTH_TOKEN_MISSING"),
        (Some("wrong"), None, None, "AUTH_TOKEN_MISMATCH"),
        (None, Some("bogus"), None, "AUTH_DEVICE_TOKEN_MISMATCH"),
        (Some("wrong"), Some("bogus"), None, "AUTH_DEVICE_TOKEN_MISMATCH"),
        (None, None, Some("bogus"), "AUTH_BOOTSTRAP_TOKEN_INVALID"),
        (Some("wrong"), None, Some("bogus"), "AUTH_TOKEN_MISMATCH"),
        (None, Some("bogus"), Some("bogus"), "AUTH_DEVICE_TOKEN_MISMATCH"),
        (Some("wrong"), Some("bogus"), Some("bogus"), "AUTH_DEVICE_TOKEN_MISMATCH"),
        (Some("right"), Some("bogus"), Some("bogus"), ""),
    ] {
        let signed = token.or(device_token).or(bootstrap_token);
        let mut device = with_proof(connect("cli", "cli", signed, &[]), NONCE, "");
        device.auth = ConnectAuth {
            token: token.map(Into::into),
            device_token: device_token.map(Into::into),
            bootstrap_token: bootstrap_token.map(Into::into),
            password: None,
        };
        let refusal = wait(auth.admit_standard(&device, &local(), "conn", NONCE, NOW)).err();
        let details = refusal.as_ref().and_then(|refusal| refusal.details.as_ref());
        let code = details.map_or("", |details| details["code"].as_str().unwrap());
        assert_eq!(code, expected, "{token:?} {device_token:?} {bootstrap_token:?}");
    }
}

#[test]
fn pages_that_guess_are_locked_out_whatever_else_they_send() {
    let auth = auth(AuthMode::Token);
    let page = peer("127.0.0.1", false, Some("http://localhost:5173"));
    let mut refusals = Vec::new();
    for attempt in 0..11 {
        let mut guess = connect("gateway-client", "backend", Some("guess"), &[]);
        if attempt % 2 == 1 {
            guess = with_proof(guess, NONCE, "");
            guess.auth.device_token = Some("bogus".into());
        }
        refusals.push(decide(&auth, &guess, &page).unwrap_err());
    }
    assert!(refusals.last().unwrap().contains("too many failed"), "{refusals:?}");
    let right = connect("gateway-client", "backend", Some("right"), &[]);
    assert!(decide(&auth, &right, &page).unwrap_err().contains("too many failed"));
    assert!(decide(&auth, &right, &local()).is_ok(), "others are not locked out");
}

proptest! {
    #[test]
    fn what_is_asked_for_never_adds_to_what_the_credential_is_worth(
        asked in proptest::collection::vec("[a-z.]{0,20}|operator\\.(admin|read|write|approvals|pairing)", 0..6),
        id in proptest::sample::select(vec!["cli", "webchat", "test", "gateway-client", "openclaw-ios"]),
        mode in proptest::sample::select(vec!["cli", "ui", "probe", "backend", "test"]),
        far in proptest::bool::ANY,
        protocol in 3_u64..5,
    ) {
        let names: Vec<&str> = asked.iter().map(String::as_str).collect();
        let mut connect = connect(id, mode, Some("right"), &names);
        connect.max_protocol = protocol;
        let from = if far { peer("192.0.2.9", false, None) } else { local() };
        if let Ok(admission) = decide(&auth(AuthMode::Token), &connect, &from) {
            let is_of_this_machine = match (id, mode) {
                ("gateway-client", "backend") => !far,
                ("cli", "cli") => !far && protocol == 4,
                _ => false,
            };
            let worth: ScopeSet = if is_of_this_machine {
                asked.iter().filter_map(|name| Scope::parse(name)).collect()
            } else {
                ScopeSet::NONE
            };
            prop_assert_eq!(admission.principal.role(), Role::Operator);
            for scope in Scope::ALL {
                prop_assert_eq!(admission.principal.allows(scope), worth.allows(scope));
            }
        }
    }
}
