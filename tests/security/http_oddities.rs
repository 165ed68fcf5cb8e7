//! Requests as nobody means them: whatever the method, the path and the headers
//! are, the answer is no failure of the gateway and has the headers that keep
//! browsers safe (CVE-2026-26317 and its like began with a path that was read
//! twice).

use clawgate::http::all_routes;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::{Duration, timeout};

use crate::routes::path_of;
use crate::support::control_ui::write_control_ui;
use crate::support::{Gateway, GatewayOptions, SECRET, WsClient, default_config};

/// Longer than an answer takes.
const HANG: Duration = Duration::from_secs(30);
const POLICY: &str = "max-age=31536000; includeSubDomains";
const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"];
/// What takes the place of a part of a path, or stands before or behind one.
const PARTS: [&str; 24] = [
    "",
    "/",
    "//",
    ".",
    "..",
    "%2e%2e",
    "%2f",
    "%5c",
    "\\",
    "%00",
    "%ff",
    "%",
    "%zz",
    "%c3%a4",
    ";a=b",
    "?",
    "?a=b&a=c",
    "?access_token=",
    "#",
    "%25",
    "x",
    "agent:main:main",
    "%F0%9F%98%80",
    "*",
];
const HEADERS: [&str; 14] = [
    "Origin: https://ui.example",
    "Origin: null",
    "Origin: \u{e4}",
    "Access-Control-Request-Method: POST",
    "Accept-Encoding: gzip;q=x, *;q=9",
    "Range: bytes=5-2",
    "If-None-Match: *",
    "Cookie: access_token=x; =; access_token",
    "X-Request-Id: \u{7}",
    "X-Forwarded-For: ,,",
    "traceparent: 00-zz-zz-zz",
    "Content-Type: ;;;",
    "Last-Event-ID: -1",
    "X-OpenClaw-Scopes: ,operator.read",
];

fn paths() -> Vec<String> {
    let paths =
        all_routes().map(|route| path_of(route.place).unwrap_or_else(|| "/chat".to_owned()));
    paths.chain(["/assets/index.js".into(), "/__openclaw__".into(), "/api".into()]).collect()
}

/// A path of the table that somebody has spoiled.
fn path() -> impl Strategy<Value = String> {
    let spoiled = (select(paths()), any::<prop::sample::Index>(), select(&PARTS[..]), 0..4_u8);
    spoiled.prop_map(|(path, at, part, how)| {
        let mut segments: Vec<_> = path.split('/').map(str::to_owned).collect();
        let at = 1 + at.index(segments.len() - 1);
        match how {
            0 => segments[at] = part.to_owned(),
            1 => segments[at].push_str(part),
            2 => segments.insert(at, part.to_owned()),
            _ => {
                let first = segments[at].chars().next();
                let encoded = first.map_or(String::new(), |it| format!("%{:02x}", u32::from(it)));
                segments[at] = encoded + segments[at].get(1..).unwrap_or_default();
            }
        }
        segments.join("/")
    })
}

async fn ask(gateway: &Gateway, head: &str) -> String {
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    tcp.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // What does not end has begun, which is enough.
    let mut space = vec![0; 64 * 1024];
    while !answer.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = timeout(HANG, tcp.read(&mut space)).await.expect("an answer").unwrap();
        if read == 0 {
            break;
        }
        answer.extend_from_slice(&space[..read]);
    }
    String::from_utf8_lossy(&answer).to_lowercase()
}

fn check(head: &str, answer: &str) {
    let status: u16 = answer.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    assert!((200..500).contains(&status), "{head}\n{answer}");
    let (above, _) = answer.split_once("\r\n\r\n").unwrap();
    // What is no HTTP is refused below us, with a status and nothing else.
    let is_ours = above.contains("x-request-id: ");
    let is_theirs = [400, 414, 431].contains(&status) && answer.ends_with("\r\n\r\n");
    assert!(is_ours || is_theirs, "{head}\n{answer}");
    if is_ours {
        for header in [
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "permissions-policy: ",
            &format!("strict-transport-security: {}", POLICY.to_lowercase()),
        ] {
            assert!(above.contains(header), "{header} of\n{head}\n{answer}");
        }
    }
}

async fn gateway() -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["controlUi"] = json!({"allowedOrigins": ["https://ui.example"]});
    config["gateway"]["http"] = json!({
        "endpoints": {"chatCompletions": {"enabled": true}, "responses": {"enabled": true}},
        "securityHeaders": {"strictTransportSecurity": POLICY},
    });
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    write_control_ui(&gateway.state_dir().join("control-ui"));
    gateway
}

#[test]
fn no_request_makes_the_gateway_fail_and_every_answer_is_safe_for_browsers() {
    let runtime = Runtime::new().unwrap();
    let gateway = runtime.block_on(gateway());
    let headers = prop::collection::vec(select(&HEADERS[..]), 0..4);
    let credential = select(vec![
        format!("Authorization: Bearer {SECRET}\r\n"),
        "Authorization: Bearer wrong\r\n".into(),
        "Authorization: Bearer\r\n".into(),
        String::new(),
    ]);
    let body = select(vec!["", "{}", "[]", "{\"a\":", "null"]);
    let requests = (select(&METHODS[..]), path(), headers, credential, body);
    let mut runner =
        TestRunner::new(Config { cases: 600, failure_persistence: None, ..Config::default() });
    let tried = runner.run(&requests, |(method, path, headers, credential, body)| {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {}\r\n{credential}{headers}\r\n{body}",
            body.len(),
        );
        check(&head, &runtime.block_on(ask(&gateway, &head)));
        Ok(())
    });
    if let Err(error) = tried {
        panic!("{error}");
    }
    runtime.block_on(async { gateway.open().await });
}

#[tokio::test]
async fn refusals_of_upgrades_are_safe_for_browsers_too() {
    let gateway = gateway().await;
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    for (path, more) in [
        ("/", "Sec-WebSocket-Version: 12\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
        ("/", ""),
        ("/api/chat/ws", "Sec-WebSocket-Version: 13\r\n"),
        ("/api/claude/sessions/x/subscribe", "Sec-WebSocket-Version: 13\r\n"),
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{upgrade}{more}\r\n");
        let answer = ask(&gateway, &head).await;
        assert!(answer.contains("strict-transport-security: max-age="), "{head}\n{answer}");
        assert!(answer.contains("x-content-type-options: nosniff"), "{head}\n{answer}");
    }
    // Told is what would do instead.
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (method, more, status, told) in [
        ("POST", "Sec-WebSocket-Version: 13\r\n", 405, "allow: get"),
        ("GET", "Sec-WebSocket-Version: 12\r\n", 400, "sec-websocket-version: 13"),
        ("GET", "", 400, "sec-websocket-version: 13"),
    ] {
        let head = format!("{method} / HTTP/1.1\r\nHost: localhost\r\n{upgrade}{key}{more}\r\n");
        let answer = ask(&gateway, &head).await;
        assert!(answer.starts_with(&format!("http/1.1 {status}")), "{head}\n{answer}");
        assert!(answer.contains(&format!("\r\n{told}\r\n")), "{head}\n{answer}");
    }
    // A WebSocket itself has none of it, as recorded.
    let more = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{upgrade}{more}\r\n");
    let answer = ask(&gateway, &head).await;
    assert!(answer.starts_with("http/1.1 101") && !answer.contains("strict-transport"), "{answer}");
}

/// As in the original. Strict clients, as this one and browsers are, end a WebSocket for
/// which they named some and none was chosen.
#[tokio::test]
async fn of_the_subprotocols_that_a_client_names_the_first_is_chosen() {
    let gateway = gateway().await;
    let named = ("Sec-WebSocket-Protocol".to_owned(), "openclaw.v3, chat".to_owned());
    let mut client = WsClient::open_with(&gateway.address(), "/", &[named]).await.unwrap();
    let hello = client.connect_standard(&["operator.read"]).await;
    assert_eq!(hello["ok"], true, "{hello}");
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (line, chosen) in [
        ("Sec-WebSocket-Protocol: one, two\r\n", Some("one")),
        ("Sec-WebSocket-Protocol: one\r\nSec-WebSocket-Protocol: two\r\n", Some("one")),
        ("Sec-WebSocket-Protocol: no name, two\r\n", None),
        ("Sec-WebSocket-Protocol: \r\n", None),
        ("", None),
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{upgrade}{line}\r\n");
        let answer = ask(&gateway, &head).await;
        assert!(answer.starts_with("http/1.1 101"), "{head}\n{answer}");
        let told = answer.lines().find_map(|line| line.strip_prefix("sec-websocket-protocol: "));
        assert_eq!(told, chosen, "{head}\n{answer}");
    }
}

/// RFC 9112, §3.2.
#[tokio::test]
async fn a_request_with_two_host_headers_is_refused_whichever_of_them_is_known() {
    let gateway = gateway().await;
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for lines in ["", upgrade] {
        for (one, other) in
            [("localhost", "evil.example"), ("evil.example", "localhost"), ("localhost", "")]
        {
            let head =
                format!("GET /health HTTP/1.1\r\nHost: {one}\r\nhost: {other}\r\n{lines}\r\n");
            let answer = ask(&gateway, &head).await;
            assert!(answer.starts_with("http/1.1 400"), "{head}\n{answer}");
            assert!(answer.contains("\r\nconnection: close\r\n"), "{head}\n{answer}");
        }
    }
    let answer = ask(&gateway, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
}

/// By which it would be done without the name in the `Host` header, and its pings would put
/// every deadline off.
#[tokio::test]
async fn nobody_is_served_by_http_2_who_speaks_it_unasked() {
    let gateway = gateway().await;
    // Its preface, empty settings, and a request for `/` of `evil.example`.
    let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    let headers: &[u8] = b"\x82\x86\x84\x41\x0cevil.example";
    let length = u8::try_from(headers.len()).unwrap();
    let head: &[u8] = &[0, 0, length, 1, 5, 0, 0, 0, 1];
    for sent in [[preface, settings].concat(), [preface, settings, head, headers].concat()] {
        let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
        tcp.write_all(&sent).await.unwrap();
        let mut answer = Vec::new();
        // Cut while something is unread it may also be reset.
        let _ = timeout(HANG, tcp.read_to_end(&mut answer)).await.expect("it is cut");
        let told = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || told.starts_with("HTTP/1.1 4"), "{told:?}");
    }
    gateway.open().await;
}
