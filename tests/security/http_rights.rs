//! Who is answered by HTTP: GHSA-68f8-9mhj-h2mp, CVE-2026-34512, CVE-2026-26317,
//! CVE-2026-28458. `http_rights.txt` says for every route and every credential
//! whether a request is let in; it is made from the table of routes, read by
//! people when it changes, and each of its cells is tried here.

use clawgate::channels::webhook::{SIGNATURE, TIMESTAMP, sign};
use clawgate::http::{Entry, Place, Route, all_routes};
use clawgate::protocol::{Scope, ScopeSet};
use clawgate::support::Secret;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::credentials::{COLUMNS, Column, Shown, Way, assert_was_read, legend, letters};
use crate::stage::{Api, config};
use crate::support::control_ui::write_control_ui;
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, now_ms};

const SIGNING: &str = "a secret for signing webhooks";
/// The path of the channel that the gateway here has.
const HOOK: &str = "/webhooks/default";
/// The token of its hooks.
const HOOK_TOKEN: &str = "a-token-of-hooks-that-nobody-knows";
/// Where the gateway here has the Control UI.
const UI: &str = "/panel";
/// Our own page.
const PAGE: &str = "/clawgate/";
/// Where the signs of a line begin.
const WIDTH: usize = 58;
/// Paths of HTTP APIs that clients know of the original, and of some that were
/// open by mistake. What is answered under one of them is in the table.
const KNOWN_PATHS: [&str; 28] = [
    "/health",
    "/healthz",
    "/healthz/x",
    "/ready",
    "/readyz",
    "/metrics",
    "/status",
    "/config",
    "/debug",
    "/v1/models",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/tools/invoke",
    "/sessions",
    "/sessions/main",
    "/sessions/main/messages",
    "/hooks",
    "/hooks/wake",
    "/hooks/agent",
    "/webhooks",
    "/telegram-webhook",
    "/api/chat",
    "/api/claude",
    "/api/channels",
    "/__openclaw__/control-ui-config.json",
    "/avatar/main",
];

/// Its methods and its place.
pub fn name(route: &Route) -> String {
    let methods: Vec<_> = route.methods.iter().map(|method| method.as_str()).collect();
    let place = match route.place {
        Place::Path(path) | Place::Api(path) | Place::Like(path) | Place::PagePath(path) => path,
        Place::Page => PAGE,
        Place::Hooks => "(paths of channels)",
        Place::Webhooks => "(paths of hooks)",
        Place::UiPath(path) | Place::UiFolder(path) | Place::Folder(path) => path,
        Place::Ui => "(files of the Control UI)",
    };
    format!("{} {place}", methods.join(","))
}

/// Whether a request with this credential is let in. A new kind of entry has to
/// be told here.
fn is_let_in(entry: Entry, column: &Column) -> bool {
    let holds = |scope: Scope| match (column.way, column.shown) {
        (_, Shown::Nothing | Shown::Wrong) | (Way::Node, _) => false,
        (Way::Device, _) => column
            .worth
            .is_some_and(|(_, scopes)| scopes.iter().copied().collect::<ScopeSet>().allows(scope)),
        _ => true,
    };
    match entry {
        Entry::Reader => holds(Scope::Read),
        // All of these are of this machine.
        Entry::Requester => holds(Scope::Admin),
        Entry::Caller(scope) | Entry::Ticket(scope) => holds(scope),
        Entry::Open | Entry::Public => true,
        // No credential of the gateway is a signature.
        Entry::Signed => false,
    }
}

fn row(route: &Route) -> String {
    let sign = |let_in: bool| if let_in { 'X' } else { '.' };
    let signs: String = COLUMNS.iter().map(|column| sign(is_let_in(route.entry, column))).collect();
    let signed = sign(true);
    let foreign = sign(matches!(route.entry, Entry::Public | Entry::Signed));
    format!("{:<WIDTH$}{signs}{signed}{foreign}\n", name(route))
}

fn page() -> String {
    let mut page = String::from(
        "Who is answered by HTTP. Made by `CLAWGATE_UPDATE=1 cargo test --test security rights`;\n\
         read what changes. Upgrades are in rights.txt.\n\n\
         X  the request is let in    .  refused\n\n",
    );
    page.push_str(&legend());
    page.push_str("r  a request with all that its route asks for\n");
    page.push_str("s  the same, sent by a page of another site\n");
    page.push_str(&format!("\n{:<WIDTH$}{}rs\n", "", letters()));
    page.extend(all_routes().map(row));
    page
}

#[test]
fn the_http_rights_that_were_read_are_those_there_are() {
    assert_was_read("http_rights.txt", &page());
    let names: std::collections::BTreeSet<_> = all_routes().map(name).collect();
    assert_eq!(names.len(), all_routes().count(), "no line twice");
}

/// A gateway with a channel that takes requests.
pub async fn gateway(mode: &str, mock: &MockProvider) -> Gateway {
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["auth"] = json!({"mode": mode, mode: SECRET});
    config["channels"] = json!({"webhook": {"secret": SIGNING, "allowFrom": ["ann"]}});
    config["hooks"] = json!({"enabled": true, "token": HOOK_TOKEN});
    config["gateway"]["controlUi"] = json!({"basePath": UI});
    config["gateway"]["dialects"] = json!({"claude": {"share": true}});
    config["gateway"]["http"]["endpoints"] =
        json!({"chatCompletions": {"enabled": true}, "responses": {"enabled": true}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    write_control_ui(&gateway.state_dir().join("control-ui"));
    gateway
}

pub fn client() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A connection that is kept may be over its time when the next request is sent.
    Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap()
}

/// A path for the route; a name in it is that of nothing.
pub fn path(route: &Route) -> String {
    let path = match route.place {
        Place::Path(path) | Place::PagePath(path) => path,
        Place::Api(path) | Place::Like(path) => return path.replace(':', "no-such-"),
        Place::Page => PAGE,
        Place::Hooks => HOOK,
        Place::Webhooks => "/hooks/wake",
        Place::UiPath("/__openclaw/control-ui-config.json") => {
            "/panel/__openclaw/control-ui-config.json"
        }
        Place::UiPath(_) => "/panel/__openclaw__/assistant-media?source=/x&meta=1",
        Place::UiFolder(_) => "/panel/avatar/main?meta=1",
        Place::Folder(_) => "/api/chat/media/outgoing/main/x/full",
        Place::Ui => "/panel/chat",
    };
    path.to_owned()
}

/// A request as this column makes it, with what it knows in every place where a
/// server might look.
async fn request(
    client: &Client,
    gateway: &Gateway,
    method: &Method,
    path: &str,
    column: &Column,
) -> RequestBuilder {
    let secret = match (column.way, column.shown) {
        (_, Shown::Nothing) => None,
        (_, Shown::Wrong) => Some("not-the-token-at-all".to_owned()),
        // What a device has is the token of its own.
        (Way::Device | Way::Node, _) => {
            let device = format!("http device {}", column.letter);
            let (_client, hello) = column.connect(gateway, &device).await;
            let token = hello["payload"]["auth"]["deviceToken"].as_str();
            Some(token.unwrap_or_else(|| panic!("no token: {hello}")).to_owned())
        }
        _ => Some(SECRET.to_owned()),
    };
    let query = match &secret {
        Some(secret) if column.way == Way::Simple && path.contains('?') => {
            format!("&token={secret}")
        }
        Some(secret) if column.way == Way::Simple => format!("?token={secret}"),
        _ => String::new(),
    };
    let url = format!("http://{}{path}{query}", gateway.address());
    let agent = if column.way == Way::Backend { "gateway-client" } else { "openclaw" };
    let asked = client
        .request(method.clone(), url)
        .header("User-Agent", agent)
        .header("X-OpenClaw-Scopes", column.asks.join(","))
        .body("{}");
    let Some(secret) = secret else { return asked };
    asked.bearer_auth(&secret).header("X-OpenClaw-Token", secret)
}

/// Whether a token in its path is the proof.
fn is_link(route: &Route) -> bool {
    route.entry == Entry::Signed && matches!(route.place, Place::Api(_))
}

/// The token of a link to a session.
async fn link(client: &Client, gateway: &Gateway) -> String {
    let post = async |path: String| {
        let url = format!("http://{}/api/claude/sessions{path}", gateway.address());
        let answer = client.post(url).bearer_auth(SECRET).send().await.unwrap();
        serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap()
    };
    let made = post(String::new()).await;
    let link = post(format!("/{}/share", made["id"].as_str().unwrap())).await;
    link["shareToken"].as_str().unwrap_or_else(|| panic!("{link}")).to_owned()
}

/// What an answer comes to.
fn sign_of(route: &Route, status: StatusCode) -> char {
    let place = route.place;
    match status.as_u16() {
        401 | 403 => '.',
        // Who has no link is told that there is none.
        404 if is_link(route) => '.',
        // A token in the query is refused before it is looked at.
        400 if place == Place::Webhooks => '.',
        // Nothing is there by these names; who may not ask is not told so.
        404 if matches!(place, Place::Folder(_)) => 'X',
        400 | 404 | 409 | 422 if matches!(place, Place::Api(_) | Place::Like(_)) => 'X',
        // An upload for no session.
        400 if matches!(place, Place::PagePath(_)) => 'X',
        200..=299 => 'X',
        other => panic!("neither let in nor refused: {other}"),
    }
}

/// A request with all that a route asks for.
fn proved(
    client: &Client,
    gateway: &Gateway,
    (route, link): (&Route, &str),
    method: &Method,
) -> RequestBuilder {
    let path = path(route);
    let path = if is_link(route) { path.replace("no-such-token", link) } else { path };
    let url = format!("http://{}{path}", gateway.address());
    let asked = client.request(method.clone(), url);
    match route.entry {
        Entry::Open | Entry::Public => asked,
        Entry::Signed if is_link(route) => asked,
        Entry::Reader | Entry::Caller(_) | Entry::Ticket(_) | Entry::Requester => {
            asked.bearer_auth(SECRET)
        }
        Entry::Signed if route.place == Place::Webhooks => {
            let body = json!({"text": "hello", "mode": "next-heartbeat"}).to_string();
            asked.bearer_auth(HOOK_TOKEN).body(body)
        }
        Entry::Signed => {
            let body = json!({"id": "1", "text": "hello", "from": {"id": "bob"}}).to_string();
            let now = u64::try_from(now_ms()).unwrap() / 1000;
            let (time, signature) = sign(&Secret::new(SIGNING), now, body.as_bytes());
            asked.header(TIMESTAMP, time).header(SIGNATURE, signature).body(body)
        }
    }
}

#[tokio::test]
async fn every_cell_of_the_http_rights_is_what_a_real_request_meets() {
    let mock = MockProvider::start().await;
    let (by_token, by_password) = (gateway("token", &mock).await, gateway("password", &mock).await);
    let client = client();
    let link = link(&client, &by_token).await;
    for route in all_routes() {
        for method in route.methods {
            let mut met = String::new();
            for column in &COLUMNS {
                let gateway =
                    if column.shown == Shown::Password { &by_password } else { &by_token };
                let asked = request(&client, gateway, method, &path(route), column).await;
                met.push(sign_of(route, asked.send().await.unwrap().status()));
            }
            let asked = proved(&client, &by_token, (route, &link), method);
            met.push(sign_of(route, asked.send().await.unwrap().status()));
            let mut foreign = String::new();
            for header in [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")] {
                let asked =
                    proved(&client, &by_token, (route, &link), method).header(header.0, header.1);
                foreign.push(sign_of(route, asked.send().await.unwrap().status()));
            }
            let rebound =
                proved(&client, &by_token, (route, &link), method).header("Host", "evil.example");
            foreign.push(sign_of(route, rebound.send().await.unwrap().status()));
            let expected = row(route);
            let (signs, last) = expected.trim_end()[WIDTH..].split_at(COLUMNS.len() + 1);
            assert_eq!(met, signs, "{method} {}", name(route));
            assert_eq!(foreign, last.repeat(3), "{method} {}", name(route));
        }
    }
}

#[tokio::test]
async fn what_is_not_in_the_table_of_routes_is_not_there() {
    let mock = MockProvider::start().await;
    let gateway = gateway("token", &mock).await;
    let client = client();
    let all = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    let known = KNOWN_PATHS.into_iter().map(str::to_owned);
    for path in known.chain(all_routes().map(path)) {
        let is_its = |route: &&Route| {
            let below = path.strip_prefix("/hooks");
            let is_hook = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            self::path(route) == path || (route.place == Place::Webhooks && is_hook)
        };
        let lines: Vec<_> = all_routes().filter(is_its).collect();
        for method in &all {
            let url = format!("http://{}{path}", gateway.address());
            let asked = client.request(method.clone(), url).bearer_auth(SECRET).body("{}");
            let answer = asked.send().await.unwrap();
            let status = answer.status().as_u16();
            match lines.iter().find(|route| route.takes(method)).or(lines.first()) {
                None => assert_eq!(status, 404, "{method} {path} is in no table"),
                Some(Route { place: Place::Folder(_), methods, .. })
                    if methods.contains(method) =>
                {
                    let text = if *method == Method::HEAD { "" } else { "not found" };
                    assert_eq!((status, answer.text().await.unwrap()), (404, text.to_owned()));
                }
                // What it names is not there, but it is.
                Some(route)
                    if route.takes(method)
                        && matches!(route.place, Place::Api(_) | Place::Like(_)) =>
                {
                    assert_ne!(status, 405, "{method} {path}");
                    if status == 404 && *method != Method::HEAD {
                        assert!(!answer.text().await.unwrap().contains("Not Found"), "{path}");
                    }
                }
                Some(route) if route.takes(method) => {
                    assert!(![404, 405].contains(&status), "{method} {path}: {status}");
                }
                // As in the original: what is only read is not there for the rest.
                Some(Route { place: Place::Ui, .. }) => assert_eq!(status, 404, "{method} {path}"),
                Some(_) => {
                    assert_eq!(status, 405, "{method} {path}");
                    let taken = |it: &&Method| lines.iter().any(|route| route.takes(it));
                    let allowed: Vec<_> = all.iter().filter(taken).map(Method::as_str).collect();
                    assert_eq!(answer.headers()["allow"], allowed.join(", "), "{path}");
                }
            }
        }
    }
}
