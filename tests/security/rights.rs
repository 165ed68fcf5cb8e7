//! Who may call what: GHSA-68f8-9mhj-h2mp, CVE-2026-25593, CVE-2026-28472,
//! CVE-2026-22172, CVE-2026-35663, CVE-2026-32042. `rights.txt` says for every
//! method and every credential whether a call is let in; it is made from the
//! table of methods, read by people when it changes, and each of its cells is
//! tried here over a real socket.

use std::fs;
use std::path::{Path, PathBuf};

use clawgate::handlers;
use clawgate::protocol::{Role, Scope, ScopeSet};
use clawgate::registry::Need;
use serde_json::{Value, json};

use crate::stage::{Api, config};
use crate::support::client::{ALL_SCOPES, SOON, standard_connect};
use crate::support::{DeviceKey, Gateway, GatewayOptions, MockProvider, SECRET, WsClient, now_ms};

/// How somebody connects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Another program than those that are trusted, without a device.
    Plain,
    /// `gateway-client`/`backend` on this machine.
    Backend,
    /// A device of this machine with a proof.
    Device,
    /// A device with the role `node`.
    Node,
    /// The simple profile.
    Simple,
}

/// What somebody shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Wrong,
    Token,
    Password,
}

/// One column: a credential, and what it is worth.
struct Column {
    letter: char,
    told: &'static str,
    way: Way,
    shown: Shown,
    /// What is asked for.
    asks: &'static [&'static str],
    /// What it is worth; `None` when the connect is refused.
    worth: Option<(Role, &'static [Scope])>,
}

const SIMPLE: &[Scope] = &[Scope::Read, Scope::Write, Scope::Admin, Scope::Approvals];

const fn column(
    letter: char,
    told: &'static str,
    way: Way,
    shown: Shown,
    asks: &'static [&'static str],
    worth: Option<(Role, &'static [Scope])>,
) -> Column {
    Column { letter, told, way, shown, asks, worth }
}

/// Everybody who may come. All ask for all scopes unless something else is said.
const COLUMNS: [Column; 17] = [
    column('a', "nothing", Way::Plain, Shown::Nothing, &ALL_SCOPES, None),
    column('b', "a wrong token", Way::Plain, Shown::Wrong, &ALL_SCOPES, None),
    column(
        'c',
        "the token, no device",
        Way::Plain,
        Shown::Token,
        &ALL_SCOPES,
        Some((Role::Operator, &[])),
    ),
    column(
        'd',
        "the password, no device",
        Way::Plain,
        Shown::Password,
        &ALL_SCOPES,
        Some((Role::Operator, &[])),
    ),
    column(
        'e',
        "a backend of this machine with nothing",
        Way::Backend,
        Shown::Nothing,
        &ALL_SCOPES,
        None,
    ),
    column(
        'f',
        "a backend of this machine with the token",
        Way::Backend,
        Shown::Token,
        &ALL_SCOPES,
        Some((Role::Operator, &Scope::ALL)),
    ),
    column(
        'g',
        "the same, asking for no scope",
        Way::Backend,
        Shown::Token,
        &[],
        Some((Role::Operator, &[])),
    ),
    column('h', "a device with a wrong token", Way::Device, Shown::Wrong, &ALL_SCOPES, None),
    column(
        'i',
        "a device, operator.admin",
        Way::Device,
        Shown::Token,
        &["operator.admin"],
        Some((Role::Operator, &[Scope::Admin])),
    ),
    column(
        'j',
        "a device, operator.read",
        Way::Device,
        Shown::Token,
        &["operator.read"],
        Some((Role::Operator, &[Scope::Read])),
    ),
    column(
        'k',
        "a device, operator.write",
        Way::Device,
        Shown::Token,
        &["operator.write"],
        Some((Role::Operator, &[Scope::Write])),
    ),
    column(
        'l',
        "a device, operator.approvals",
        Way::Device,
        Shown::Token,
        &["operator.approvals"],
        Some((Role::Operator, &[Scope::Approvals])),
    ),
    column(
        'm',
        "a device, operator.pairing",
        Way::Device,
        Shown::Token,
        &["operator.pairing"],
        Some((Role::Operator, &[Scope::Pairing])),
    ),
    column(
        'n',
        "a device, operator.talk.secrets",
        Way::Device,
        Shown::Token,
        &["operator.talk.secrets"],
        Some((Role::Operator, &[Scope::TalkSecrets])),
    ),
    column(
        'o',
        "a device with the role node",
        Way::Node,
        Shown::Token,
        &ALL_SCOPES,
        Some((Role::Node, &[])),
    ),
    column('p', "the simple profile with nothing", Way::Simple, Shown::Nothing, &[], None),
    column(
        'q',
        "the simple profile with the token",
        Way::Simple,
        Shown::Token,
        &[],
        Some((Role::Operator, SIMPLE)),
    ),
];

/// A cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// The connect itself is refused.
    Outside,
    Refused,
    Allowed,
}

impl Verdict {
    const fn sign(self) -> char {
        match self {
            Self::Outside => '-',
            Self::Refused => '.',
            Self::Allowed => 'X',
        }
    }
}

impl Column {
    fn verdict(&self, need: Need) -> Verdict {
        let Some((role, scopes)) = self.worth else { return Verdict::Outside };
        let scopes: ScopeSet = scopes.iter().copied().collect();
        let allowed = match need {
            Need::Open => true,
            Need::Operator(scope) => role == Role::Operator && scopes.allows(scope),
            Need::Node => role == Role::Node,
        };
        if allowed { Verdict::Allowed } else { Verdict::Refused }
    }

    async fn connect(&self, gateway: &Gateway, device: &str) -> (WsClient, Value) {
        let mut client = gateway.open().await;
        let nonce = client.nonce().await;
        let params = self.params(&nonce, device);
        let answer = client.request("connect", params).await;
        (client, answer)
    }

    fn params(&self, nonce: &str, device: &str) -> Value {
        let auth = match self.shown {
            Shown::Nothing => json!({}),
            Shown::Wrong => json!({"token": "not-the-token-at-all"}),
            Shown::Token => json!({"token": SECRET}),
            Shown::Password => json!({"password": SECRET}),
        };
        if self.way == Way::Simple {
            return json!({"clientType": "web", "clientVersion": "1", "auth": auth});
        }
        let mut params = standard_connect(self.asks);
        params["auth"] = auth;
        if self.way != Way::Backend {
            params["client"] =
                json!({"id": "cli", "version": "1", "platform": "linux", "mode": "cli"});
        }
        if self.way == Way::Node {
            params["role"] = json!("node");
            params["client"]["mode"] = json!("node");
            params["scopes"] = json!([]);
        }
        if matches!(self.way, Way::Device | Way::Node) {
            params["device"] = DeviceKey::named(device).proof(&params, nonce, now_ms());
        }
        params
    }
}

fn page() -> String {
    let mut page = String::from(
        "Who may call what. Made by `CLAWGATE_UPDATE=1 cargo test --test security rights`;\n\
         read what changes.\n\n\
         X  the call is let in    .  refused for its role or scope    -  no connection\n\n",
    );
    for column in &COLUMNS {
        page.push_str(&format!("{}  {}\n", column.letter, column.told));
    }
    let letters: String = COLUMNS.iter().map(|column| column.letter).collect();
    page.push_str(&format!("\n{:<34}{letters}\n", ""));
    let mut rows: Vec<_> = handlers::registry().list().collect();
    rows.sort_unstable_by_key(|(name, _)| *name);
    for (name, need) in rows {
        let signs: String = COLUMNS.iter().map(|column| column.verdict(need).sign()).collect();
        page.push_str(&format!("{name:<33} {signs}\n"));
    }
    page
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/security/rights.txt")
}

/// The rows of the page: method, and a sign for each column.
fn rows() -> Vec<(String, Vec<char>)> {
    let page = page();
    let (_, table) = page.split_once("\n\n").unwrap();
    let is_row = |line: &&str| line.split_whitespace().count() == 2 && line.len() > 34;
    let row = |line: &str| {
        let mut parts = line.split_whitespace();
        (parts.next().unwrap().to_owned(), parts.next().unwrap().chars().collect())
    };
    let all = table.lines().filter(is_row).map(row);
    all.filter(|(_, signs): &(String, Vec<char>)| signs.len() == COLUMNS.len()).collect()
}

#[test]
fn the_rights_that_were_read_are_those_there_are() {
    let expected = page();
    if std::env::var("CLAWGATE_UPDATE").is_ok_and(|value| value == "1") {
        fs::write(file(), &expected).unwrap();
    }
    let found = fs::read_to_string(file()).unwrap_or_default();
    let changed: Vec<_> =
        expected.lines().filter(|line| !found.lines().any(|known| known == *line)).collect();
    assert!(found == expected, "tests/security/rights.txt is stale; new or changed: {changed:#?}");
    assert_eq!(rows().len(), handlers::registry().list().count());
}

/// A gateway in this mode; the secret is the same.
async fn gateway(mode: &str, mock: &MockProvider) -> Gateway {
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["auth"] = json!({"mode": mode, mode: SECRET});
    Gateway::start(GatewayOptions::with_config(config)).await
}

/// What a call of this method comes to. Params that no method takes: as little
/// as possible happens when it is let in.
async fn try_call(client: &mut WsClient, method: &str) -> Verdict {
    let answer = client.request(method, json!({"noSuchMember": true})).await;
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    let is_refused =
        message.starts_with("missing scope: ") || message.starts_with("unauthorized role: ");
    if is_refused { Verdict::Refused } else { Verdict::Allowed }
}

#[tokio::test]
async fn every_cell_of_the_rights_is_what_a_real_connection_meets() {
    let mock = MockProvider::start().await;
    let (by_token, by_password) = (gateway("token", &mock).await, gateway("password", &mock).await);
    let rows = rows();
    for (index, column) in COLUMNS.iter().enumerate() {
        let gateway = if column.shown == Shown::Password { &by_password } else { &by_token };
        let device = format!("device {}", column.letter);
        let (mut client, answer) = column.connect(gateway, &device).await;
        if column.worth.is_none() {
            assert_eq!(answer["ok"], false, "{}: {answer}", column.told);
            let closed = client.wait_closed(SOON).await.expect("closed");
            assert_eq!(closed.code, 1008, "{}: {closed:?}", column.told);
            assert!(rows.iter().all(|(_, signs)| signs[index] == '-'), "{}", column.told);
            continue;
        }
        assert_eq!(answer["ok"], true, "{}: {answer}", column.told);
        let offered = answer["payload"]["features"]["methods"].clone();
        for (number, (method, signs)) in rows.iter().enumerate() {
            let is_offered = offered.as_array().unwrap().contains(&json!(method));
            assert_eq!(is_offered, signs[index] == 'X', "hello of {} on {method}", column.told);
            // Whoever may call this one is gone with the rest.
            if is_offered && method == "gateway.restart.request" {
                continue;
            }
            // Who goes on with the wrong role is closed after ten tries.
            if number % 8 == 7 && column.way == Way::Node {
                client = column.connect(gateway, &device).await.0;
            }
            let met = try_call(&mut client, method).await;
            assert_eq!(met.sign(), signs[index], "{method} for {}", column.told);
        }
    }
}

#[tokio::test]
async fn no_method_is_answered_before_the_connect() {
    let mock = MockProvider::start().await;
    let gateway = gateway("token", &mock).await;
    let before = fs::read(gateway.config_path()).unwrap();
    for (method, _) in handlers::registry().list() {
        let mut client = gateway.open().await;
        client.nonce().await;
        let params = json!({"auth": {"token": SECRET}, "raw": "{}", "baseHash": "x"});
        client.send(&json!({"type": "req", "id": "1", "method": method, "params": params})).await;
        let closed = client.wait_closed(SOON).await.expect("closed");
        assert_eq!(closed.code, 1008, "{method}: {closed:?}");
        let well = client.frames().into_iter().any(|frame| frame["ok"] == true);
        assert!(!well, "{method}: {:?}", client.frames());
    }
    assert_eq!(fs::read(gateway.config_path()).unwrap(), before);
}
