//! Links to single Claude sessions: nothing but that session, to nobody but who has
//! the link, as long as it holds.

use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, config};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient};

/// A word that stands in what must not be shown.
const CANARY: &str = "canary-7f1d";

async fn place(share: bool) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["dialects"] = json!({"claude": {"share": share}});
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

struct Asked<'g> {
    gateway: &'g Gateway,
    secret: Option<&'g str>,
    from: Option<&'g str>,
}

impl Asked<'_> {
    async fn ask(&self, method: Method, path: &str) -> (u16, Value) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().build().unwrap();
        let mut request =
            client.request(method, format!("http://{}{path}", self.gateway.address()));
        if let Some(secret) = self.secret {
            request = request.bearer_auth(secret);
        }
        if let Some(from) = self.from {
            request = request.header("X-Forwarded-For", from);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
    }
}

fn owner(gateway: &Gateway) -> Asked<'_> {
    Asked { gateway, secret: Some(SECRET), from: None }
}

fn nobody(gateway: &Gateway) -> Asked<'_> {
    Asked { gateway, secret: None, from: None }
}

async fn said(client: &mut WsClient, key: &str, text: &str) -> String {
    ask(client, key, &format!("@mock text text=\"{text}\""), &format!("run-{key}-{text}")).await;
    let row = call(client, "sessions.describe", json!({"key": key})).await;
    row["session"]["sessionId"].as_str().unwrap().to_owned()
}

async fn shared(gateway: &Gateway, id: &str) -> String {
    let path = format!("/api/claude/sessions/{id}/share");
    let (status, link) = owner(gateway).ask(Method::POST, &path).await;
    assert_eq!(status, 200, "{link}");
    let token = link["shareToken"].as_str().unwrap();
    assert_eq!(token.len(), 43, "256 bits");
    assert_eq!(link["shareUrl"], format!("/api/share/{token}"));
    token.to_owned()
}

#[tokio::test]
async fn a_link_shows_its_session_until_it_is_revoked_and_is_kept_as_a_hash() {
    let (gateway, _mock) = place(true).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let token = shared(&gateway, &id).await;
    let link = format!("/api/share/{token}");
    let (status, told) = nobody(&gateway).ask(Method::GET, &link).await;
    assert_eq!((status, &told["sessionId"], &told["messageCount"]), (200, &json!(id), &json!(2)));
    let messages = format!("{link}/messages?page=0");
    let (status, page) = nobody(&gateway).ask(Method::GET, &messages).await;
    assert_eq!((status, page["messages"].as_array().unwrap().len()), (200, 2));
    for line in page["messages"].as_array().unwrap() {
        assert_eq!((&line["cwd"], &line["gitBranch"]), (&json!(""), &json!("HEAD")), "{line}");
    }
    let root = gateway.root().display().to_string();
    assert!(!page.to_string().contains(&root) && !told.to_string().contains(&root));
    for file in ["clawgate.sqlite", "clawgate.sqlite-wal"] {
        let bytes = std::fs::read(gateway.state_dir().join(file)).unwrap();
        assert!(!bytes.windows(token.len()).any(|part| part == token.as_bytes()), "{file}");
    }
    assert!(!gateway.stderr().contains(&token), "not in the log");
    let revoked = format!("/api/claude/sessions/{id}/share");
    let answer = owner(&gateway).ask(Method::DELETE, &revoked).await;
    assert_eq!(answer, (200, json!({"success": true})));
    let gone = (404, json!({"error": "Share not found"}));
    assert_eq!(nobody(&gateway).ask(Method::GET, &link).await, gone);
    assert_eq!(nobody(&gateway).ask(Method::GET, &messages).await, gone);
}

#[tokio::test]
async fn a_link_is_worth_nothing_anywhere_else_and_shows_no_other_session() {
    let (gateway, _mock) = place(true).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let other = said(&mut client, "secret", CANARY).await;
    let token = shared(&gateway, &id).await;
    let with_token = Asked { gateway: &gateway, secret: Some(&token), from: None };
    for path in [
        "/api/claude/sessions".to_owned(),
        format!("/api/claude/sessions/{id}"),
        format!("/api/claude/sessions/{other}/messages?page=0"),
        "/api/notifications/stream".to_owned(),
    ] {
        assert_eq!(with_token.ask(Method::GET, &path).await.0, 401, "{path}");
        let query = if path.contains('?') { "&" } else { "?" };
        let path = format!("{path}{query}access_token={token}");
        assert_eq!(nobody(&gateway).ask(Method::GET, &path).await.0, 401, "{path}");
    }
    for rest in ["", "/messages?page=0"] {
        for path in [format!("/api/share/{other}{rest}"), format!("/api/share/{id}{rest}")] {
            assert_eq!(nobody(&gateway).ask(Method::GET, &path).await.0, 404, "{path}");
        }
        let path = format!("/api/share/{token}{rest}");
        let (_, told) = nobody(&gateway).ask(Method::GET, &path).await;
        assert!(!told.to_string().contains(CANARY) && !told.to_string().contains(SECRET));
    }
    let mut socket = gateway.open().await;
    let mut params = standard_connect(&["operator.read"]);
    params["auth"] = json!({"token": token});
    assert_eq!(socket.request("connect", params).await["ok"], false);
    for method in [Method::POST, Method::PATCH, Method::DELETE] {
        assert_eq!(nobody(&gateway).ask(method, &format!("/api/share/{token}")).await.0, 405);
    }
    // What is said after `/new` is another transcript, and was not shared.
    call(&mut client, "sessions.reset", json!({"key": "garden"})).await;
    said(&mut client, "garden", CANARY).await;
    assert_eq!(nobody(&gateway).ask(Method::GET, &format!("/api/share/{token}")).await.0, 404);
}

#[tokio::test]
async fn who_guesses_is_locked_out_at_his_place_and_nobody_else_is() {
    let (gateway, _mock) = place(true).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let link = format!("/api/share/{}", shared(&gateway, &id).await);
    let from = |place| Asked { gateway: &gateway, secret: None, from: Some(place) };
    let mut tries = 0;
    while from("203.0.113.7").ask(Method::GET, &format!("/api/share/guess-{tries}")).await.0 == 404
    {
        tries += 1;
        assert!(tries < 1000, "guesses are free");
    }
    assert_eq!(from("203.0.113.7").ask(Method::GET, &link).await.0, 429, "not even the right one");
    assert_eq!(from("203.0.113.8").ask(Method::GET, &link).await.0, 200);
}

#[tokio::test]
async fn sharing_is_off_unless_the_configuration_says_otherwise_and_needs_an_administrator() {
    let (gateway, _mock) = place(false).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let path = format!("/api/claude/sessions/{id}/share");
    let (status, told) = owner(&gateway).ask(Method::POST, &path).await;
    assert_eq!(status, 403);
    assert!(told["error"].as_str().unwrap().contains("gateway.dialects.claude.share"), "{told}");
    let gone = (404, json!({"error": "Share not found"}));
    assert_eq!(nobody(&gateway).ask(Method::GET, "/api/share/any").await, gone);
}
