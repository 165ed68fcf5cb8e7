//! What the Control UI asks for by HTTP, and who is answered.

use std::fs;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{header, http, with_ui};
use crate::stage::{Api, admin, ask, call, config};
use crate::support::guest::Guest;
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, default_config};

const RUNTIME: &str = "/__openclaw/control-ui-config.json";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n..";
const UNAUTHORIZED: &str = r#"{"error":{"message":"Unauthorized","type":"unauthorized"}}"#;

fn asked(gateway: &Gateway, method: Method, path: &str) -> RequestBuilder {
    http().request(method, format!("http://{}{path}", gateway.address()))
}

async fn status_and_text(request: RequestBuilder) -> (u16, String) {
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

async fn json_of(request: RequestBuilder) -> Value {
    let (status, text) = status_and_text(request).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

async fn with_auth(auth: Value) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["auth"] = auth;
    Gateway::start(GatewayOptions::with_config(config)).await
}

#[tokio::test]
async fn what_the_ui_begins_with_is_told_in_the_recorded_shape() {
    let gateway = with_ui(json!({"chatMessageMaxWidth": "82%", "embedSandbox": "strict"})).await;
    let without = asked(&gateway, Method::GET, RUNTIME).send().await.unwrap();
    assert_eq!(without.status(), 401);
    assert_eq!(header(&without, "x-frame-options"), "DENY");
    assert_eq!(header(&without, "content-type"), "application/json; charset=utf-8");
    assert_eq!(without.text().await.unwrap(), UNAUTHORIZED);
    let wrong = asked(&gateway, Method::GET, RUNTIME).bearer_auth("wrong");
    assert_eq!(status_and_text(wrong).await, (401, UNAUTHORIZED.to_owned()));
    let by_query = asked(&gateway, Method::GET, &format!("{RUNTIME}?token={SECRET}"));
    assert_eq!(by_query.send().await.unwrap().status(), 401, "no credential in an address");
    let told = json_of(asked(&gateway, Method::GET, RUNTIME).bearer_auth(SECRET)).await;
    let state = gateway.state_dir();
    let root = |name: &str| json!(state.join(name));
    assert_eq!(
        told,
        json!({
            "basePath": "",
            "assistantName": "Assistant",
            "assistantAvatar": "A",
            "assistantAvatarSource": null,
            "assistantAvatarStatus": "none",
            "assistantAvatarReason": "missing",
            "assistantAgentId": "main",
            "serverVersion": concat!("2026.5.7+clawgate.", env!("CARGO_PKG_VERSION")),
            "localMediaPreviewRoots": [
                "/tmp/openclaw", root("media"), root("canvas"), root("workspace"),
                root("sandboxes"), gateway.workspace(),
            ],
            "embedSandbox": "strict",
            "allowExternalEmbedUrls": false,
            "chatMessageMaxWidth": "82%",
        })
    );
    let head = asked(&gateway, Method::HEAD, RUNTIME).bearer_auth(SECRET).send().await.unwrap();
    assert_eq!((head.status().as_u16(), header(&head, "cache-control")), (200, "no-cache"));
    assert!(head.bytes().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_token_of_a_device_that_may_read_is_a_bearer_until_it_is_revoked() {
    let gateway = with_ui(json!({})).await;
    for (name, scopes, expected) in [
        ("reader", &["operator.read"][..], 200),
        ("writer", &["operator.write"], 200),
        ("approver", &["operator.approvals"], 403),
    ] {
        let (_client, auth) = Guest::new(name, scopes).come(&gateway).await;
        let token = auth["deviceToken"].as_str().unwrap().to_owned();
        let answer = asked(&gateway, Method::GET, RUNTIME).bearer_auth(&token);
        let (status, text) = status_and_text(answer).await;
        assert_eq!(status, expected, "{name}: {text}");
        if expected == 403 {
            let refusal = r#"{"ok":false,"error":{"type":"forbidden","message":"missing scope: operator.read"}}"#;
            assert_eq!(text, refusal);
        }
        if name == "reader" {
            let mut chief = admin(&gateway).await;
            let id = crate::support::DeviceKey::named(name).id();
            call(&mut chief, "device.token.revoke", json!({"deviceId": id, "role": "operator"}))
                .await;
            let again = asked(&gateway, Method::GET, RUNTIME).bearer_auth(&token);
            assert_eq!(status_and_text(again).await, (401, UNAUTHORIZED.to_owned()));
        }
    }
}

#[tokio::test]
async fn passwords_are_bearers_and_in_mode_none_only_this_machine_is_let_in() {
    let gateway = with_auth(json!({"mode": "password", "password": SECRET})).await;
    let request = || asked(&gateway, Method::GET, RUNTIME);
    assert_eq!(status_and_text(request().bearer_auth(SECRET)).await.0, 200);
    assert_eq!(status_and_text(request().bearer_auth("wrong")).await.0, 401);
    assert_eq!(status_and_text(request().basic_auth("x", Some(SECRET))).await.0, 401);

    let gateway = with_auth(json!({"mode": "none"})).await;
    let request = || asked(&gateway, Method::GET, RUNTIME);
    assert_eq!(status_and_text(request()).await.0, 200);
    let narrow = request().header("x-openclaw-scopes", "operator.approvals");
    assert_eq!(status_and_text(narrow).await.0, 403);
    let reading = request().header("x-openclaw-scopes", "operator.approvals, operator.read");
    assert_eq!(status_and_text(reading).await.0, 200);
    let forwarded = request().header("X-Forwarded-For", "198.51.100.9");
    assert_eq!(status_and_text(forwarded).await, (401, UNAUTHORIZED.to_owned()));
    let page = request().header("Origin", "https://evil.example");
    assert_eq!(status_and_text(page).await.0, 403);
    let rebound = request().header("Host", "evil.example");
    assert_eq!(status_and_text(rebound).await.0, 403);
}

#[tokio::test]
async fn a_user_that_a_trusted_proxy_names_needs_no_bearer() {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    config["gateway"]["auth"] = json!({
        "mode": "trusted-proxy",
        "trustedProxy": {"userHeader": "x-user", "allowLoopback": true},
    });
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let request = || asked(&gateway, Method::GET, RUNTIME).header("X-Forwarded-For", "203.0.113.9");
    assert_eq!(status_and_text(request().header("x-user", "ann")).await.0, 200);
    let narrow = request().header("x-user", "ann").header("x-openclaw-scopes", "");
    assert_eq!(status_and_text(narrow).await.0, 403);
    assert_eq!(status_and_text(request()).await.0, 401);
    assert_eq!(status_and_text(request().bearer_auth("anything")).await.0, 401);
}

#[tokio::test]
async fn wrong_bearers_and_wrong_logins_are_counted_together() {
    let gateway = with_auth(json!({
        "mode": "token",
        "token": SECRET,
        "rateLimit": {"maxAttempts": 5, "windowMs": 60_000, "lockoutMs": 60_000},
    }))
    .await;
    let request = |bearer: &str| {
        let asked = asked(&gateway, Method::GET, RUNTIME).bearer_auth(bearer);
        asked.header("X-Forwarded-For", "198.51.100.9")
    };
    for attempt in 1..=5 {
        assert_eq!(status_and_text(request("wrong")).await.0, 401, "{attempt}");
    }
    for bearer in ["wrong", SECRET] {
        let locked = request(bearer).send().await.unwrap();
        assert_eq!(locked.status(), 429);
        let wait: u64 = header(&locked, "retry-after").parse().unwrap();
        assert!((50..=60).contains(&wait), "{wait}");
        assert_eq!(
            locked.text().await.unwrap(),
            r#"{"error":{"message":"Too many failed authentication attempts. Please try again later.","type":"rate_limited"}}"#
        );
    }
    let (refused, _) = Guest::new("late", &["operator.read"]).far().refused(&gateway).await;
    assert_eq!(refused["details"]["code"], "AUTH_RATE_LIMITED", "{refused}");
    let here = asked(&gateway, Method::GET, RUNTIME).bearer_auth(SECRET);
    assert_eq!(status_and_text(here).await.0, 200, "this machine is exempt");
}

#[tokio::test]
async fn wrong_bearers_from_elsewhere_are_limited_without_being_told_to() {
    let gateway = with_ui(json!({})).await;
    let request = || {
        let asked = asked(&gateway, Method::GET, RUNTIME).bearer_auth("wrong");
        asked.header("X-Forwarded-For", "198.51.100.9")
    };
    let mut answers = Vec::new();
    for _ in 0..101 {
        answers.push(status_and_text(request()).await.0);
    }
    assert_eq!(answers.pop(), Some(429));
    assert!(answers.iter().all(|status| *status == 401), "{answers:?}");
    let right = asked(&gateway, Method::GET, RUNTIME).bearer_auth(SECRET);
    let right = right.header("X-Forwarded-For", "198.51.100.9");
    assert_eq!(status_and_text(right).await.0, 200, "the secret itself is not looked up");
}

#[tokio::test]
async fn the_picture_of_an_agent_is_told_and_sent() {
    let gateway = with_ui(json!({"basePath": "/ui"})).await;
    let meta = |id: &str| {
        asked(&gateway, Method::GET, &format!("/ui/avatar/{id}?meta=1")).bearer_auth(SECRET)
    };
    let none = json!({"avatarUrl": null, "avatarSource": null, "avatarStatus": "none",
        "avatarReason": "missing"});
    for id in ["main", "nope"] {
        assert_eq!(json_of(meta(id)).await, none, "{id}");
    }
    let picture = || asked(&gateway, Method::GET, "/ui/avatar/main");
    let missing = picture().bearer_auth(SECRET);
    assert_eq!(status_and_text(missing).await, (404, "Not Found".to_owned()));
    fs::create_dir_all(gateway.workspace()).unwrap();
    fs::write(gateway.workspace().join("me.png"), PNG).unwrap();
    fs::write(gateway.workspace().join("IDENTITY.md"), "- Name: Inky\n- Avatar: me.png\n").unwrap();
    let told = json!({"avatarUrl": "/ui/avatar/main", "avatarSource": "me.png",
        "avatarStatus": "local", "avatarReason": null});
    assert_eq!(json_of(meta("main")).await, told);
    assert_eq!(status_and_text(picture()).await, (401, UNAUTHORIZED.to_owned()));
    let sent = picture().bearer_auth(SECRET).send().await.unwrap();
    assert_eq!(header(&sent, "content-type"), "image/png");
    assert!(header(&sent, "content-security-policy").ends_with("sandbox"));
    assert_eq!(sent.bytes().await.unwrap(), PNG);
    let begun = asked(&gateway, Method::GET, &format!("/ui{RUNTIME}")).bearer_auth(SECRET);
    let begun = json_of(begun).await;
    assert_eq!(begun["assistantName"], "Inky");
    assert_eq!(begun["assistantAvatar"], "/ui/avatar/main");
    for wrong in ["..%2fmain", "main/x", "", "a.b", "%00", &"x".repeat(65)] {
        let path = format!("/ui/avatar/{wrong}");
        let answer = asked(&gateway, Method::GET, &path).bearer_auth(SECRET);
        assert_eq!(status_and_text(answer).await.0, 404, "{wrong}");
    }
}

fn media(gateway: &Gateway, source: &str, more: &str) -> RequestBuilder {
    let source: String = source.bytes().map(|it| format!("%{it:02x}")).collect();
    let path = format!("/__openclaw__/assistant-media?source={source}{more}");
    asked(gateway, Method::GET, &path)
}

#[tokio::test]
async fn files_that_a_chat_shows_need_a_bearer_or_a_ticket_for_just_that_file() {
    let gateway = with_ui(json!({})).await;
    let inbound = gateway.state_dir().join("media/inbound");
    fs::create_dir_all(&inbound).unwrap();
    for (name, text) in [("a b.png", PNG), ("b.png", b"other"), ("page.html", b"<script>")] {
        fs::write(inbound.join(name), text).unwrap();
    }
    let path = inbound.join("a b.png").display().to_string();
    assert_eq!(status_and_text(media(&gateway, &path, "")).await.0, 401);
    assert_eq!(status_and_text(media(&gateway, &path, "&meta=1")).await.0, 401);
    let by_query = media(&gateway, &path, &format!("&token={SECRET}"));
    assert_eq!(status_and_text(by_query).await.0, 401, "no credential in an address");
    assert_eq!(status_and_text(media(&gateway, "", "").bearer_auth(SECRET)).await.0, 404);

    let told = json_of(media(&gateway, &path, "&meta=1").bearer_auth(SECRET)).await;
    assert_eq!(told["available"], true);
    assert!(told["mediaTicketExpiresAt"].as_str().unwrap().ends_with('Z'), "{told}");
    let ticket = format!("&mediaTicket={}", told["mediaTicket"].as_str().unwrap());
    let shown = media(&gateway, &path, &ticket).send().await.unwrap();
    assert_eq!(shown.status(), 200);
    assert_eq!(header(&shown, "content-type"), "image/png");
    assert_eq!(header(&shown, "content-disposition"), "inline");
    assert!(header(&shown, "content-security-policy").ends_with("sandbox"));
    assert_eq!(shown.bytes().await.unwrap(), PNG);
    let other = inbound.join("b.png").display().to_string();
    assert_eq!(status_and_text(media(&gateway, &other, &ticket)).await.0, 401);
    let again = media(&gateway, &path, &format!("&meta=1{ticket}"));
    assert_eq!(status_and_text(again).await.0, 401, "a ticket is worth no other ticket");

    for source in [format!("file://{path}").replace(' ', "%20"), "media://inbound/a%20b.png".into()]
    {
        let sent = media(&gateway, &source, "").bearer_auth(SECRET).send().await.unwrap();
        assert_eq!(sent.bytes().await.unwrap(), PNG, "{source}");
    }
    let page = inbound.join("page.html").display().to_string();
    let saved = media(&gateway, &page, "").bearer_auth(SECRET).send().await.unwrap();
    assert_eq!(header(&saved, "content-type"), "application/octet-stream");
    assert_eq!(header(&saved, "content-disposition"), "attachment");
}

#[tokio::test]
async fn no_other_file_of_the_machine_is_shown_and_no_address_is_fetched() {
    let mock = MockProvider::start().await;
    let gateway = with_ui(json!({})).await;
    let state = gateway.state_dir();
    let inbound = state.join("media/inbound");
    fs::create_dir_all(&inbound).unwrap();
    fs::write(inbound.join(".hidden.png"), PNG).unwrap();
    std::os::unix::fs::symlink(gateway.config_path(), inbound.join("link.png")).unwrap();
    let outside = json!({"available": false, "code": "outside-allowed-folders",
        "reason": "Outside allowed folders"});
    let invalid = json!({"available": false, "code": "invalid-file", "reason": "Invalid file"});
    let within = |rest: &str| format!("{}/{rest}", inbound.display());
    let config = gateway.config_path().display().to_string();
    for (source, expected) in [
        ("/etc/passwd".to_owned(), &outside),
        ("/etc/none".to_owned(), &outside),
        ("x".to_owned(), &outside),
        (config.clone(), &outside),
        (state.join("gateway-token").display().to_string(), &outside),
        (format!("file://{config}"), &outside),
        ("file://evil.example/etc/passwd".to_owned(), &outside),
        (within("../../openclaw.json"), &outside),
        (format!("file://{}", within("%2e%2e/%2e%2e/openclaw.json")), &outside),
        ("media://inbound/..%2f..%2fopenclaw.json".to_owned(), &outside),
        (format!("http://{}/v1/models", mock.address()), &outside),
        ("data:image/png;base64,AAAA".to_owned(), &outside),
        (within(".hidden.png"), &invalid),
        (within("link.png"), &invalid),
    ] {
        let told = json_of(media(&gateway, &source, "&meta=1").bearer_auth(SECRET)).await;
        assert_eq!(&told, expected, "{source}");
        let sent = media(&gateway, &source, "").bearer_auth(SECRET);
        assert_eq!(status_and_text(sent).await, (404, "Not Found".to_owned()), "{source}");
    }
    assert!(mock.requests().is_empty(), "nothing was fetched");
    let missing = media(&gateway, &within("none.png"), "&meta=1").bearer_auth(SECRET);
    assert_eq!(json_of(missing).await["code"], "file-not-found");
    let folder = media(&gateway, &inbound.display().to_string(), "&meta=1").bearer_auth(SECRET);
    assert_eq!(json_of(folder).await["code"], "not-a-file");
}

#[tokio::test]
async fn pictures_that_the_original_has_sent_are_shown_to_their_session() {
    let mock = MockProvider::start().await;
    let gateway =
        Gateway::start(GatewayOptions::with_config(config(mock.address(), Api::OpenAi))).await;
    let id = "0f8b1f4e-6c1e-4c0f-9d0a-0f5a1c2b3d4e";
    let folder = gateway.state_dir().join("media/outgoing");
    fs::create_dir_all(folder.join("records")).unwrap();
    fs::create_dir_all(folder.join("originals")).unwrap();
    fs::write(folder.join("originals/cat.png"), PNG).unwrap();
    let record = json!({
        "attachmentId": id, "sessionKey": "agent:main:main", "messageId": "m1",
        "original": {"path": "/elsewhere/originals/cat.png", "contentType": "image/png"},
    });
    fs::write(folder.join(format!("records/{id}.json")), record.to_string()).unwrap();
    let path = format!("/api/chat/media/outgoing/agent%3Amain%3Amain/{id}/full");
    let request = || asked(&gateway, Method::GET, &path);
    assert_eq!(status_and_text(request()).await, (401, UNAUTHORIZED.to_owned()));
    let unowned = status_and_text(request().bearer_auth(SECRET)).await;
    assert_eq!(unowned.0, 403, "{}", unowned.1);
    assert!(unowned.1.contains("requester session ownership required"));
    let owner =
        |key: &str| request().bearer_auth(SECRET).header("x-openclaw-requester-session-key", key);
    let stranger = status_and_text(owner("agent:main:other")).await;
    assert!(stranger.1.contains("requester session does not own attachment session"));
    let gone = status_and_text(owner("agent:main:main")).await;
    assert_eq!(gone, (404, "not found".to_owned()), "there is no such session yet");
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let sent = owner("agent:main:main").send().await.unwrap();
    assert_eq!((sent.status().as_u16(), header(&sent, "content-type")), (200, "image/png"));
    assert_eq!(sent.bytes().await.unwrap(), PNG);
    let other = format!("/api/chat/media/outgoing/main/{id}/full");
    let other = asked(&gateway, Method::GET, &other).bearer_auth(SECRET);
    assert_eq!(status_and_text(other).await, (404, "not found".to_owned()));
}
