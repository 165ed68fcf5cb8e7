//! What each client gets with each credential, frozen: a change that takes
//! something away from a client that had it is a change of
//! `compatibility.txt`, which people read (#57550, #47640).
//!
//! Together with `rights.txt`, which says what each scope may call, this is
//! credential x client x method: hello names exactly the methods that the scopes
//! of a line are good for.

use clawgate::handlers;
use clawgate::protocol::{Role, Scope, ScopeSet};
use clawgate::registry::Need;
use serde_json::{Value, json};

use crate::credentials::assert_was_read;
use crate::support::client::ALL_SCOPES;
use crate::support::guest::FAR;
use crate::support::{
    DeviceKey, Gateway, GatewayOptions, SECRET, WsClient, default_config, now_ms,
};

/// A page that the gateway knows.
const KNOWN: &str = "https://ui.example";
/// What an approved device was approved for.
const APPROVED: [&str; 2] = ["operator.read", "operator.write"];

/// A client as it presents itself.
#[derive(Clone, Copy)]
struct Client {
    id: &'static str,
    mode: &'static str,
    role: &'static str,
    protocol: u64,
}

const fn client(id: &'static str, mode: &'static str, role: &'static str) -> Client {
    Client { id, mode, role, protocol: 3 }
}

/// The same, of a later protocol than the recorded one.
const fn newer(id: &'static str, mode: &'static str, role: &'static str) -> Client {
    Client { id, mode, role, protocol: 4 }
}

/// Every id that the protocol knows, in the mode that it has in practice, those that get
/// something else in a later one, and the simple form.
const CLIENTS: [Client; 19] = [
    client("cli", "cli", "operator"),
    client("gateway-client", "backend", "operator"),
    client("gateway-client", "cli", "operator"),
    client("openclaw-control-ui", "webchat", "operator"),
    client("webchat-ui", "webchat", "operator"),
    client("webchat", "webchat", "operator"),
    client("openclaw-tui", "cli", "operator"),
    client("openclaw-macos", "ui", "operator"),
    client("openclaw-ios", "ui", "operator"),
    client("openclaw-android", "ui", "operator"),
    client("openclaw-ios", "node", "node"),
    client("openclaw-android", "node", "node"),
    client("node-host", "node", "node"),
    client("openclaw-probe", "probe", "operator"),
    client("fingerprint", "probe", "operator"),
    client("test", "test", "operator"),
    newer("cli", "cli", "operator"),
    newer("openclaw-control-ui", "webchat", "operator"),
    client("simple", "", "operator"),
];

/// What a client shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Wrong,
    Secret,
    /// The token of its own that it got when it was paired.
    OwnToken,
}

/// A credential, and where its owner is.
struct Case {
    told: &'static str,
    mode: &'static str,
    shown: Shown,
    /// Whether it proves a device, and whether that is paired.
    device: Option<bool>,
    /// Whether a proxy is between.
    is_far: bool,
}

const fn case(
    told: &'static str,
    mode: &'static str,
    shown: Shown,
    device: Option<bool>,
    is_far: bool,
) -> Case {
    Case { told, mode, shown, device, is_far }
}

const CASES: [Case; 16] = [
    case("nothing, on this machine", "token", Shown::Nothing, None, false),
    case("a wrong token, on this machine", "token", Shown::Wrong, None, false),
    case("the token, on this machine", "token", Shown::Secret, None, false),
    case("the token, from elsewhere", "token", Shown::Secret, None, true),
    case("the password, on this machine", "password", Shown::Secret, None, false),
    case("the password, from elsewhere", "password", Shown::Secret, None, true),
    case("a new device, on this machine", "token", Shown::Nothing, Some(false), false),
    case("a new device and the token, on this machine", "token", Shown::Secret, Some(false), false),
    case("a new device and the token, from elsewhere", "token", Shown::Secret, Some(false), true),
    case(
        "a new device and the password, on this machine",
        "password",
        Shown::Secret,
        Some(false),
        false,
    ),
    case("a paired device and the token, from elsewhere", "token", Shown::Secret, Some(true), true),
    case(
        "a paired device and its token, on this machine",
        "token",
        Shown::OwnToken,
        Some(true),
        false,
    ),
    case(
        "a paired device and its token, from elsewhere",
        "token",
        Shown::OwnToken,
        Some(true),
        true,
    ),
    case(
        "a paired device and a wrong token, from elsewhere",
        "token",
        Shown::Wrong,
        Some(true),
        true,
    ),
    case("nothing, in mode none, on this machine", "none", Shown::Nothing, None, false),
    case("a new device, in mode none, on this machine", "none", Shown::Nothing, Some(false), false),
];

async fn gateway(mode: &str) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["auth"] = match mode {
        "none" => json!({"mode": mode}),
        _ => json!({"mode": mode, mode: SECRET}),
    };
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    config["gateway"]["controlUi"] = json!({"allowedOrigins": [KNOWN]});
    Gateway::start(GatewayOptions::with_config(config)).await
}

impl Client {
    fn name(self) -> String {
        let role = if self.role == "node" { " as node" } else { "" };
        let protocol = if self.protocol == 4 { ", v4" } else { "" };
        if self.mode.is_empty() {
            "the simple form".into()
        } else {
            format!("{}/{}{role}{protocol}", self.id, self.mode)
        }
    }

    fn is_simple(self) -> bool {
        self.mode.is_empty()
    }

    /// A page always says where it is from: from this machine, or the one that
    /// the gateway knows.
    fn headers(self, gateway: &Gateway, is_far: bool) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        if is_far {
            headers.push(("X-Forwarded-For".to_owned(), FAR.to_owned()));
        }
        if self.mode == "webchat" {
            let own = format!("http://{}", gateway.address());
            headers.push(("Origin".to_owned(), if is_far { KNOWN.to_owned() } else { own }));
        }
        headers
    }

    /// Comes with these credentials and, if it has one, its device.
    async fn come(self, gateway: &Gateway, come: &Come<'_>) -> Value {
        let headers = self.headers(gateway, come.is_far);
        let mut socket = WsClient::open_with(&gateway.address(), "/", &headers).await.unwrap();
        if self.is_simple() {
            let params = json!({"clientType": "web", "auth": come.auth});
            return socket.request("connect", params).await;
        }
        let mut params = json!({
            "minProtocol": self.protocol, "maxProtocol": self.protocol,
            "client": {"id": self.id, "version": "1", "platform": "linux", "mode": self.mode},
            "role": self.role, "scopes": come.scopes, "auth": come.auth,
        });
        if let Some(device) = come.device {
            let nonce = socket.nonce().await;
            params["device"] = DeviceKey::named(device).proof(&params, &nonce, now_ms());
        }
        socket.request("connect", params).await
    }
}

/// How a client comes.
struct Come<'a> {
    auth: Value,
    device: Option<&'a str>,
    scopes: &'a [&'a str],
    is_far: bool,
}

impl Case {
    fn secret(&self) -> Value {
        json!({if self.mode == "password" { "password" } else { "token" }: SECRET})
    }

    /// What a client meets.
    async fn meet(&self, gateway: &Gateway, client: Client, number: usize) -> Value {
        let device = format!("{} {number}", client.name());
        let is_node = client.role == "node";
        let wanted: &[&str] = match self.device {
            _ if is_node => &[],
            Some(true) => &APPROVED,
            _ => &ALL_SCOPES,
        };
        let mut come = Come {
            auth: self.secret(),
            device: self.device.map(|_| device.as_str()),
            scopes: wanted,
            is_far: false,
        };
        let mut own = Value::Null;
        if self.device == Some(true) {
            // A backend needs no pairing here, so it gets none.
            let near = if client.mode == "backend" { CLIENTS[0] } else { client };
            let paired = near.come(gateway, &come).await;
            own = paired["payload"]["auth"]["deviceToken"].clone();
            assert!(own.is_string(), "{}: {paired}", client.name());
        }
        come.is_far = self.is_far;
        come.auth = match self.shown {
            Shown::Nothing => json!({}),
            Shown::Wrong => json!({"token": "not-the-token-at-all"}),
            Shown::Secret => self.secret(),
            Shown::OwnToken => json!({"deviceToken": own}),
        };
        client.come(gateway, &come).await
    }
}

/// The scopes of a hello, or the code of a refusal; checks that hello names the
/// methods that these scopes are good for.
fn outcome(client: Client, answer: &Value) -> String {
    if answer["ok"] != true {
        let error = &answer["error"];
        let code = error["details"]["code"].as_str().or_else(|| error["code"].as_str());
        return code.unwrap().to_owned();
    }
    let hello = &answer["payload"];
    let scopes: Vec<String> = serde_json::from_value(hello["auth"]["scopes"].clone()).unwrap();
    let set: ScopeSet = scopes.iter().filter_map(|name| Scope::parse(name)).collect();
    let is_node = client.role == "node";
    assert_eq!(hello["auth"]["role"], client.role, "{hello}");
    let mut expected: Vec<_> = handlers::registry()
        .list()
        .filter(|(_, need)| match need {
            Need::Open => true,
            Need::Operator(scope) => !is_node && set.allows(*scope),
            Need::Node => is_node,
        })
        .map(|(name, _)| name.to_owned())
        .collect();
    let mut offered: Vec<String> =
        serde_json::from_value(hello["features"]["methods"].clone()).unwrap();
    expected.sort();
    offered.sort();
    assert_eq!(offered, expected, "{}", client.name());
    if is_node {
        return Role::Node.as_str().to_owned();
    }
    let short = scopes.iter().map(|name| name.trim_start_matches("operator."));
    let mut short: Vec<_> = short.collect();
    short.sort_unstable();
    if short.is_empty() { "no scopes".to_owned() } else { short.join(" ") }
}

#[tokio::test]
async fn what_a_client_had_with_a_credential_it_still_has() {
    let gateways = [gateway("token").await, gateway("password").await, gateway("none").await];
    let mut page = String::from(
        "What each client gets with each credential: its scopes, or the code of the refusal.\n\
         Clients ask for all scopes; devices that were paired before, for operator.read and\n\
         operator.write. Pages are of this machine, or from elsewhere of an allowed origin.\n\
         Which methods a scope is good for is in rights.txt. Made by\n\
         `CLAWGATE_UPDATE=1 cargo test --test security what_a_client_had`; read what changes:\n\
         a line that gets less is a client that stops working.\n",
    );
    for (number, case) in CASES.iter().enumerate() {
        let gateway = match case.mode {
            "token" => &gateways[0],
            "password" => &gateways[1],
            _ => &gateways[2],
        };
        page.push_str(&format!("\n{}\n", case.told));
        for client in CLIENTS {
            // The simple form has no device.
            if client.is_simple() && case.device.is_some() {
                continue;
            }
            let answer = case.meet(gateway, client, number).await;
            page.push_str(&format!("  {:<34}{}\n", client.name(), outcome(client, &answer)));
        }
    }
    assert_was_read("compatibility.txt", &page);
}
