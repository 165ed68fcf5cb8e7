//! What a web page can do: nothing, unless it is one of ours. Cross-site requests
//! (CVE-2026-26317, CVE-2026-28458), cross-site WebSockets, and pages whose own
//! name leads here (DNS rebinding).

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, WsClient, default_config};

async fn gateway(mode: &str) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["auth"]["mode"] = json!(mode);
    config["gateway"]["controlUi"] = json!({"allowedOrigins": ["https://ui.example"]});
    Gateway::start(GatewayOptions::with_config(config)).await
}

/// What the answer to a request is.
async fn ask(gateway: &Gateway, line: &str, headers: &str) -> String {
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let request = format!("{line} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The status of a request for `/` with these headers.
async fn status(gateway: &Gateway, headers: &str) -> String {
    let answer = ask(gateway, "GET /", headers).await;
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Nothing of the state, the settings or the users (CVE-2026-41335); what every route
/// answers is in `unauthenticated.txt`.
#[tokio::test]
async fn who_has_not_logged_in_reads_that_a_gateway_is_here_and_nothing_else() {
    let gateway = gateway("token").await;
    let about = format!(
        "clawgate {} is running.\n\nThis address speaks the OpenClaw gateway protocol over \
         WebSocket: ws://<this host>:{}/\nTry: clawgate chat \"hi\"\n",
        env!("CARGO_PKG_VERSION"),
        gateway.port(),
    );
    for (line, expected) in [
        ("GET /", about.as_str()),
        ("GET /api/chat/ws", "{\"status\":\"error\",\"message\":\"Not Found\"}"),
        ("GET /..%2fopenclaw.json", "Not Found"),
        ("POST /hooks/agent", "Not Found"),
    ] {
        let answer = ask(&gateway, line, "Host: localhost\r\nContent-Length: 0\r\n").await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, expected, "{line}");
    }
    let refused = ask(&gateway, "GET /", "Host: evil.example\r\n").await;
    let (_, body) = refused.split_once("\r\n\r\n").unwrap();
    assert!(body.starts_with("host not allowed") && body.lines().count() == 1, "{body}");
}

#[tokio::test]
async fn a_request_of_a_foreign_page_or_under_a_foreign_name_is_forbidden() {
    let gateway = gateway("token").await;
    for (headers, expected) in [
        ("Host: localhost\r\n", "200"),
        ("Host: 127.0.0.1:18789\r\nOrigin: http://127.0.0.1:18789\r\n", "200"),
        ("Host: localhost\r\nOrigin: https://ui.example\r\nSec-Fetch-Site: cross-site\r\n", "200"),
        ("Host: ui.example\r\n", "200"),
        ("Host: localhost\r\nSec-Fetch-Site: same-origin\r\n", "200"),
        (
            "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n\
             Sec-Fetch-Dest: document\r\n",
            "200",
        ),
        ("Host: localhost\r\nOrigin: https://evil.example\r\n", "403"),
        ("Host: localhost\r\nOrigin: null\r\n", "403"),
        ("Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", "403"),
        ("Host: localhost\r\nSec-Fetch-Site: same-site\r\n", "403"),
        ("Host: evil.example:18789\r\n", "403"),
        ("Host: evil.example\r\nX-Forwarded-For: 127.0.0.1\r\n", "403"),
        ("Host: 127.0.0.1.evil.example\r\n", "403"),
    ] {
        assert_eq!(status(&gateway, headers).await, expected, "{headers}");
    }
    // A name in the target counts instead of the header (RFC 9112, §3.2.2).
    for (target, headers, expected) in [
        ("http://localhost/", "Host: localhost\r\n", "200"),
        ("http://evil.example/", "Host: localhost\r\n", "403"),
        ("http://localhost@evil.example:18789/", "Host: localhost\r\n", "403"),
        ("http://evil.example/", "", "403"),
    ] {
        let answer = ask(&gateway, &format!("GET {target}"), headers).await;
        assert_eq!(answer.split(' ').nth(1), Some(expected), "{target}: {answer}");
    }
}

/// A browser of this machine that a name leads here has not come through the proxy that is
/// here as well.
#[tokio::test]
async fn a_proxy_on_this_machine_answers_for_the_names_that_it_passes_on_and_no_others() {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["auth"]["mode"] = json!("none");
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    for (line, headers, expected) in [
        ("GET /", "Host: gw.example\r\nX-Forwarded-For: 203.0.113.9\r\n", "200"),
        ("GET /metrics", "Host: gw.example\r\nX-Forwarded-For: 203.0.113.9\r\n", "401"),
        ("GET /metrics", "Host: localhost\r\n", "200"),
        ("GET /metrics", "Host: evil.example:18789\r\n", "403"),
        (
            "GET /sessions/main/history",
            "Host: evil.example\r\nSec-Fetch-Site: same-origin\r\n",
            "403",
        ),
        ("GET /", "Host: evil.example\r\n", "403"),
    ] {
        let answer = ask(&gateway, line, headers).await;
        assert_eq!(answer.split(' ').nth(1), Some(expected), "{line} {headers}: {answer}");
    }
}

/// With `dangerouslyAllowHostHeaderOriginFallback` a page connects by the name that it has;
/// it has to be there to do so.
#[tokio::test]
async fn where_the_name_of_the_gateway_is_its_page_that_page_is_served_under_it() {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["controlUi"] = json!({"dangerouslyAllowHostHeaderOriginFallback": true});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let (name, page) = ("gw.example:18789", "http://gw.example:18789");
    for (headers, expected) in [
        (String::new(), "200"),
        (format!("Origin: {page}\r\n"), "200"),
        ("Origin: https://evil.example\r\n".to_owned(), "403"),
        ("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n".to_owned(), "403"),
    ] {
        let headers = format!("Host: {name}\r\n{headers}");
        assert_eq!(status(&gateway, &headers).await, expected, "{headers}");
    }
    let simple = json!({"clientType": "web", "auth": {"token": crate::support::SECRET}});
    let answer = connect(&gateway, &[("Origin", page), ("Host", name)], &simple).await;
    assert_eq!(answer["ok"], true, "{answer}");
}

async fn connect(gateway: &Gateway, headers: &[(&str, &str)], params: &Value) -> Value {
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut client = WsClient::open_with(&gateway.address(), "/", &headers).await.unwrap();
    client.request("connect", params.clone()).await
}

#[tokio::test]
async fn a_foreign_page_gets_no_websocket_whatever_it_knows_or_calls_us() {
    for mode in ["token", "none"] {
        let gateway = gateway(mode).await;
        let simple = json!({"clientType": "web", "auth": {"token": crate::support::SECRET}});
        for params in [&standard_connect(&["operator.read"]), &simple] {
            for headers in [
                &[("Origin", "https://evil.example")][..],
                // Its own name leads here: origin and host agree.
                &[("Origin", "http://evil.example:18789"), ("Host", "evil.example:18789")],
                &[("Origin", "null")],
                &[("Origin", "http://localhost.evil.example")],
                &[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "websocket")],
            ] {
                let answer = connect(&gateway, headers, params).await;
                let code = &answer["error"]["details"]["code"];
                assert_eq!(code, "CONTROL_UI_ORIGIN_NOT_ALLOWED", "{headers:?}: {answer}");
            }
        }
        let own = "192.0.2.20:18789";
        let same_place = format!("https://{own}");
        for ours in [
            &[("Origin", "https://ui.example")][..],
            // Nobody else serves a page by https from an address of ours.
            &[("Origin", same_place.as_str()), ("Host", own)],
        ] {
            let answer = connect(&gateway, ours, &simple).await;
            let is_in = answer["ok"] == true;
            assert!(is_in || (mode == "none" && ours.len() > 1), "{mode} {ours:?}: {answer}");
            let code = &answer["error"]["details"]["code"];
            assert_ne!(code, "CONTROL_UI_ORIGIN_NOT_ALLOWED", "{answer}");
        }
    }
}

#[tokio::test]
async fn a_page_that_is_refused_is_told_what_was_seen_and_what_to_write() {
    let gateway = gateway("token").await;
    let params = standard_connect(&["operator.read"]);
    let host = "gateway.example:18789";
    let page = [("Origin", "https://Page.example:443"), ("Host", host)];
    let answer = connect(&gateway, &page, &params).await;
    let expected = json!({
        "code": "CONTROL_UI_ORIGIN_NOT_ALLOWED", "reason": "origin not allowed",
        "origin": "https://Page.example:443", "host": host,
        "fix": "add \"https://page.example\" to gateway.controlUi.allowedOrigins",
    });
    assert_eq!(answer["error"]["details"], expected, "{answer}");
    let told = || gateway.stderr().contains("origin=\"https://Page.example:443\"").then_some(());
    crate::stage::until("the refusal in the log", async || told()).await;
    // What is no address is not told as one to write, and nothing without end.
    for origin in ["null", "\"], admin: [\"", &format!("https://{}.example", "a".repeat(9000))] {
        let answer = connect(&gateway, &[("Origin", origin), ("Host", host)], &params).await;
        let details = &answer["error"]["details"];
        let shown = details["origin"].as_str().unwrap();
        assert!(origin.starts_with(shown) && shown.len() <= 256, "{details}");
        assert!(!details["fix"].to_string().contains("admin"), "{details}");
    }
}
