//! Everybody who may come to a gateway, and what he is worth: the columns of the
//! pages that say who may do what.

use std::fs;
use std::path::{Path, PathBuf};

use clawgate::protocol::{Role, Scope, ScopeSet};
use clawgate::registry::Need;
use serde_json::{Value, json};

use crate::stage::{Api, config};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{DeviceKey, Gateway, GatewayOptions, MockProvider, SECRET, WsClient, now_ms};

/// How somebody connects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
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
pub enum Shown {
    Nothing,
    Wrong,
    Token,
    Password,
}

/// One column: a credential, and what it is worth.
pub struct Column {
    pub letter: char,
    pub told: &'static str,
    pub way: Way,
    pub shown: Shown,
    /// What is asked for.
    pub asks: &'static [&'static str],
    /// What it is worth; `None` when the connect is refused.
    pub worth: Option<(Role, &'static [Scope])>,
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
pub const COLUMNS: [Column; 17] = [
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
pub enum Verdict {
    /// The connect itself is refused.
    Outside,
    Refused,
    Allowed,
}

impl Verdict {
    pub const fn sign(self) -> char {
        match self {
            Self::Outside => '-',
            Self::Refused => '.',
            Self::Allowed => 'X',
        }
    }
}

impl Column {
    pub fn verdict(&self, need: Need) -> Verdict {
        let Some((role, scopes)) = self.worth else { return Verdict::Outside };
        let scopes: ScopeSet = scopes.iter().copied().collect();
        let allowed = match need {
            Need::Open => true,
            Need::Operator(scope) => role == Role::Operator && scopes.allows(scope),
            Need::Node => role == Role::Node,
        };
        if allowed { Verdict::Allowed } else { Verdict::Refused }
    }

    pub async fn connect(&self, gateway: &Gateway, device: &str) -> (WsClient, Value) {
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

/// The columns of a page, each with what it stands for.
pub fn legend() -> String {
    COLUMNS.iter().map(|column| format!("{}  {}\n", column.letter, column.told)).collect()
}

/// The letters of the columns.
pub fn letters() -> String {
    COLUMNS.iter().map(|column| column.letter).collect()
}

/// Asserts that a page of this folder is what it has to be. With
/// `CLAWGATE_UPDATE=1` it is written first.
pub fn assert_was_read(name: &str, expected: &str) {
    let file: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/security").join(name);
    if std::env::var("CLAWGATE_UPDATE").is_ok_and(|value| value == "1") {
        fs::write(&file, expected).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    let changed: Vec<_> =
        expected.lines().filter(|line| !found.lines().any(|known| known == *line)).collect();
    assert!(found == expected, "tests/security/{name} is stale; new or changed: {changed:#?}");
}

/// A gateway in this mode; the secret is the same.
pub async fn gateway(mode: &str, mock: &MockProvider) -> Gateway {
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["auth"] = json!({"mode": mode, mode: SECRET});
    Gateway::start(GatewayOptions::with_config(config)).await
}
