//! Credentials of the dialects: where they may stand, what a cookie is worth, and
//! in which words somebody is refused, for every route and every socket there is.

use std::time::Duration;

use clawgate::dialects::{ALL, Dialect};
use clawgate::http::{Entry, Manner, Place, Route, SocketEntry, SocketRoute};
use clawgate::protocol::Scope;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::{admin, call};
use crate::support::client::standard_connect;
use crate::support::guest::Guest;
use crate::support::{DeviceKey, Gateway, GatewayOptions, SECRET, WsClient, default_config};

const LIMIT: Duration = Duration::from_secs(60);

async fn gateway(rate_limit: Option<Value>) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["http"]["endpoints"] =
        json!({"chatCompletions": {"enabled": true}, "responses": {"enabled": true}});
    if let Some(rate_limit) = rate_limit {
        config["gateway"]["auth"]["rateLimit"] = rate_limit;
    }
    Gateway::start(GatewayOptions::with_config(config)).await
}

fn client() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().unwrap()
}

fn asked(gateway: &Gateway, method: &Method, path: &str) -> RequestBuilder {
    client().request(method.clone(), format!("http://{}{path}", gateway.address())).body("{}")
}

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    // What streams is not waited for.
    let body = if status < 300 { String::new() } else { answer.text().await.unwrap() };
    (status, serde_json::from_str(&body).unwrap_or_default())
}

fn named(pattern: &str) -> String {
    pattern.replace(':', "no-such-")
}

/// Every line of a dialect that needs somebody, with each of its methods.
fn guarded(dialect: &'static Dialect) -> impl Iterator<Item = (&'static Route, &'static Method)> {
    let is_guarded = |route: &&Route| matches!(route.entry, Entry::Caller(_) | Entry::Ticket(_));
    let routes = dialect.routes.iter().filter(is_guarded);
    routes.flat_map(|route| route.methods.iter().map(move |method| (route, method)))
}

fn path(route: &Route) -> String {
    let Place::Api(pattern) = route.place else { panic!("a dialect's place is a pattern") };
    named(pattern)
}

/// The words in which somebody is told that he is nobody.
fn unauthorized(manner: Manner) -> Value {
    match manner {
        Manner::Claude => json!({"error": "Unauthorized", "code": "INVALID_TOKEN"}),
        Manner::Chat => {
            json!({"status": "unauthorized", "message": "Invalid or missing admin secret"})
        }
        Manner::OpenAi => json!({"error": {"message": "Unauthorized", "type": "unauthorized"}}),
        Manner::Recorded => panic!("no dialect speaks so"),
    }
}

/// What may be in front of a credential in an address.
const QUERIES: [(&str, Option<Manner>); 5] = [
    ("access_token", Some(Manner::Claude)),
    ("token", Some(Manner::Chat)),
    ("secret", Some(Manner::Chat)),
    ("key", None),
    ("auth", None),
];

#[tokio::test]
async fn a_credential_counts_where_the_clients_of_the_api_have_it_and_nowhere_else() {
    let gateway = gateway(None).await;
    for dialect in ALL {
        for (route, method) in guarded(dialect) {
            let (path, told) = (path(route), unauthorized(dialect.manner));
            let place = format!("{method} {path}");
            let ask = |query: &str| asked(&gateway, method, &format!("{path}{query}"));
            assert_eq!(answer(ask("")).await, (401, told.clone()), "{place}");
            assert_eq!(answer(ask("").bearer_auth("wrong")).await.0, 401, "{place}");
            let good = answer(ask("").bearer_auth(SECRET)).await.0;
            assert!(![401, 403, 405, 500].contains(&good), "{place}: {good}");
            for (name, manner) in QUERIES {
                let status = answer(ask(&format!("?{name}={SECRET}"))).await.0;
                let is_let_in = manner == Some(dialect.manner);
                assert_eq!(status != 401, is_let_in, "{place} ?{name}=");
                let twice = answer(ask(&format!("?{name}={SECRET}&{name}={SECRET}"))).await;
                assert_eq!(twice.0, 401, "{place} ?{name}= twice");
                let both = ask(&format!("?{name}={SECRET}")).bearer_auth("wrong");
                assert_eq!(answer(both).await.0, 401, "{place}: the header wins");
            }
            let cookie = |value: &str| ask("").header("Cookie", format!("access_token={value}"));
            assert_eq!(answer(cookie("wrong")).await.0 / 100, 4, "{place}");
            for header in [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")] {
                for request in [cookie(SECRET), ask("").bearer_auth(SECRET)] {
                    let (status, told) = answer(request.header(header.0, header.1)).await;
                    assert_eq!(status, 403, "{place} {header:?}");
                    let text = match dialect.manner {
                        Manner::Claude => &told["error"],
                        Manner::OpenAi => &told["error"]["message"],
                        Manner::Chat | Manner::Recorded => &told["message"],
                    };
                    assert!(text.is_string(), "{place}: {told}");
                }
            }
            let is_read = *method == Method::GET;
            let is_claude = dialect.manner == Manner::Claude;
            let alone = answer(cookie(SECRET)).await.0;
            assert_eq!([401, 403].contains(&alone), !(is_claude && is_read), "{place}: {alone}");
            let own = answer(cookie(SECRET).header("Sec-Fetch-Site", "same-origin")).await.0;
            assert_eq!([401, 403].contains(&own), !is_claude, "{place}: {own}");
        }
    }
}

/// An upgrade with these lines; the status and the body of its answer.
async fn upgrade(gateway: &Gateway, path: &str, lines: &str) -> (u16, Value) {
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n",
        gateway.address()
    );
    tcp.write_all(head.as_bytes()).await.unwrap();
    let mut came = Vec::new();
    let read = async {
        let mut space = [0; 4096];
        loop {
            let count = tcp.read(&mut space).await.unwrap();
            came.extend_from_slice(&space[..count]);
            let text = String::from_utf8_lossy(&came).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
            let body = serde_json::from_str(body).ok();
            if status == 101 || count == 0 || body.is_some() {
                return (status, body.unwrap_or_default());
            }
        }
    };
    tokio::time::timeout(LIMIT, read).await.expect("an answer")
}

#[tokio::test]
async fn a_socket_of_a_dialect_opens_for_nobody_who_has_not_proved_himself() {
    let gateway = gateway(None).await;
    for dialect in ALL {
        for SocketRoute { path, entry, .. } in dialect.sockets {
            let path = named(path);
            if *entry == SocketEntry::Signed {
                // The proof is in the path, and no credential is one.
                for head in [String::new(), format!("Authorization: Bearer {SECRET}\r\n")] {
                    assert_eq!(upgrade(&gateway, &path, &head).await.0, 404, "{path}");
                }
                continue;
            }
            let told = unauthorized(dialect.manner);
            assert_eq!(upgrade(&gateway, &path, "").await, (401, told.clone()), "{path}");
            let wrong = upgrade(&gateway, &path, "Authorization: Bearer wrong\r\n").await;
            assert_eq!(wrong, (401, told), "{path}");
            let bearer = format!("Authorization: Bearer {SECRET}\r\n");
            for foreign in ["Origin: https://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
                let status = upgrade(&gateway, &path, &format!("{bearer}{foreign}")).await.0;
                assert_eq!(status, 403, "{path} {foreign}");
            }
            // What it names may not be there.
            let opens = |status: u16| [101, 404].contains(&status);
            assert!(opens(upgrade(&gateway, &path, &bearer).await.0), "{path}");
            for (name, manner) in QUERIES {
                let status = upgrade(&gateway, &format!("{path}?{name}={SECRET}"), "").await.0;
                assert_eq!(opens(status), manner == Some(dialect.manner), "{path}?{name}=");
            }
            let cookie = format!("Cookie: access_token={SECRET}\r\n");
            let status = upgrade(&gateway, &path, &cookie).await.0;
            assert_eq!(opens(status), dialect.manner == Manner::Claude, "{path}: {status}");
        }
    }
}

#[tokio::test]
async fn where_nothing_is_is_said_in_the_words_of_the_api() {
    let gateway = gateway(None).await;
    let get = |path: &'static str| answer(asked(&gateway, &Method::GET, path));
    assert_eq!(get("/api/claude/nothing").await, (404, json!({"error": "Not Found"})));
    let chat = json!({"status": "error", "message": "Not Found"});
    assert_eq!(get("/api/auth/nothing").await, (404, chat));
    assert_eq!(get("/api/nothing/at/all").await, (404, Value::Null));
    let wrong = asked(&gateway, &Method::DELETE, "/api/claude/auth-status").send().await.unwrap();
    assert_eq!(
        (wrong.status().as_u16(), &wrong.headers()["allow"]),
        (405, &"GET, HEAD".parse().unwrap())
    );
    let told: Value = serde_json::from_str(&wrong.text().await.unwrap()).unwrap();
    assert_eq!(told, json!({"error": "Method Not Allowed"}));
    let status = asked(&gateway, &Method::GET, "/api/claude/auth-status").send().await.unwrap();
    assert_eq!(status.text().await.unwrap(), r#"{"loggedIn":true}"#);
}

#[tokio::test]
async fn a_token_of_a_device_counts_for_its_scopes_until_it_is_revoked() {
    let gateway = gateway(None).await;
    let scopes = ["operator.read"];
    let (_client, auth) = Guest::new("reader", &scopes).come(&gateway).await;
    let token = auth["deviceToken"].as_str().unwrap().to_owned();
    let names = |manner: Manner| if manner == Manner::Claude { "access_token" } else { "token" };
    let shown = |manner: Manner, path: &str| format!("{path}?{}={token}", names(manner));
    // One of them has no place for it in an address.
    let show = |manner: Manner, method: &Method, path: &str| match manner {
        Manner::OpenAi => asked(&gateway, method, path).bearer_auth(&token),
        _ => asked(&gateway, method, &shown(manner, path)),
    };
    let mut sockets = Vec::new();
    for dialect in ALL {
        for (route, method) in guarded(dialect) {
            let request = show(dialect.manner, method, &path(route));
            let is_enough = matches!(route.entry, Entry::Caller(it) | Entry::Ticket(it)
                if it == Scope::Read);
            let status = answer(request).await.0;
            assert_eq!(status != 403, is_enough, "{method} {}: {status}", path(route));
            assert_ne!(status, 401, "{method} {}", path(route));
        }
        for route in
            dialect.sockets.iter().filter(|route| route.entry == SocketEntry::Caller(Scope::Read))
        {
            let place = shown(dialect.manner, &named(route.path));
            sockets.extend(WsClient::open_with(&gateway.address(), &place, &[]).await);
        }
    }
    let mut chief = admin(&gateway).await;
    let revoked = json!({"deviceId": DeviceKey::named("reader").id(), "role": "operator"});
    call(&mut chief, "device.token.revoke", revoked).await;
    for socket in &sockets {
        let closed = socket.wait_closed(LIMIT).await.expect("it is closed");
        assert_eq!(closed.code, 4001, "{closed:?}");
    }
    for dialect in ALL {
        for (route, method) in guarded(dialect) {
            let request = show(dialect.manner, method, &path(route));
            assert_eq!(answer(request).await.0, 401, "{method} {}", path(route));
        }
    }
}

/// What is said of this secret in this place.
async fn check(gateway: &Gateway, request: RequestBuilder) -> (bool, Option<u64>) {
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200, "{}", gateway.address());
    let wait = answer.headers().get("retry-after").map(|it| it.to_str().unwrap().parse().unwrap());
    let told: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    (told["authenticated"].as_bool().unwrap(), wait)
}

#[tokio::test]
async fn a_secret_is_checked_wherever_it_is_shown() {
    let gateway = gateway(None).await;
    let ask = |query: &str| asked(&gateway, &Method::POST, &format!("/api/auth/check{query}"));
    let body = |body: &str| ask("").body(body.to_owned());
    let good = json!({"secret": SECRET}).to_string();
    for request in [
        ask("").bearer_auth(SECRET),
        ask(&format!("?token={SECRET}")),
        ask(&format!("?secret={SECRET}")),
        body(&good),
        ask("?token=wrong").bearer_auth(SECRET),
    ] {
        assert_eq!(check(&gateway, request).await, (true, None));
    }
    for request in [
        ask(""),
        ask("").bearer_auth("wrong"),
        ask("?token=wrong").body(good.clone()),
        body(r#"{"secret":"wrong"}"#),
        body(r#"{"secret":7}"#),
        body("no JSON"),
        body(""),
    ] {
        assert_eq!(check(&gateway, request).await, (false, None));
    }
    let foreign = ask("").bearer_auth(SECRET).header("Origin", "https://evil.example");
    assert_eq!(answer(foreign).await.0, 403);
    let long = body(&json!({"secret": "x".repeat(5000)}).to_string());
    assert_eq!(answer(long).await.0, 413);
}

#[tokio::test]
async fn a_check_costs_what_a_login_costs() {
    let limit = json!({"maxAttempts": 3, "exemptLoopback": false});
    let gateway = gateway(Some(limit)).await;
    let ask = |secret: &str| asked(&gateway, &Method::POST, "/api/auth/check").bearer_auth(secret);
    for _ in 0..3 {
        assert_eq!(check(&gateway, ask("guess")).await, (false, None));
    }
    let (is_good, wait) = check(&gateway, ask(SECRET)).await;
    assert!(!is_good && wait.is_some_and(|seconds| seconds > 1), "{wait:?}");
    let mut client = gateway.open().await;
    let mut params = standard_connect(&["operator.read"]);
    params["auth"] = json!({"token": SECRET});
    let refused = client.request("connect", params).await;
    assert_eq!(refused["error"]["details"]["code"], "AUTH_RATE_LIMITED", "{refused}");
    for dialect in ALL {
        for (route, method) in guarded(dialect) {
            let request = asked(&gateway, method, &path(route)).bearer_auth(SECRET);
            assert_eq!(answer(request).await.0, 429, "{method} {}", path(route));
        }
    }
}
