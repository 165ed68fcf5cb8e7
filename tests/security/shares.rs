//! Links to single Claude sessions: nothing but that session, to nobody but who has
//! the link, as long as it holds.

use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::stage::{Api, admin, ask, call, config};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient};

/// A word that stands in what must not be shown.
const CANARY: &str = "canary-7f1d";

async fn place(share: bool) -> (Gateway, MockProvider) {
    place_with(share, json!({})).await
}

/// With these settings of slash commands.
async fn place_with(share: bool, commands: Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["dialects"] = json!({"claude": {"share": share}});
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    config["commands"] = commands;
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

/// Questions to each of the sessions that are talked in at the same time.
const TALKS: usize = 5;
/// So many that it takes a moment to send them all away.
const GUESTS: usize = 30;
/// How long a test waits for what must happen.
const LIMIT: Duration = Duration::from_secs(60);

async fn watch(
    gateway: &Gateway,
    token: &str,
    headers: &[(String, String)],
) -> Result<WsClient, u16> {
    let path = format!("/api/share/{token}/subscribe");
    let opened = WsClient::open_with(&gateway.address(), &path, headers).await;
    opened.map_err(|refusal| refusal.status)
}

/// Somebody who has seen the beginning.
async fn guest(gateway: &Gateway, token: &str) -> WsClient {
    let guest = watch(gateway, token, &[]).await.expect("let in");
    let is_info = |it: &Value| it["type"] == "session_info";
    assert!(guest.wait_for(LIMIT, is_info).await.is_some());
    guest
}

fn texts(guest: &WsClient) -> String {
    guest.frames().iter().map(Value::to_string).collect()
}

#[tokio::test]
async fn a_guest_sees_what_happens_and_says_nothing_and_does_not_count_as_a_reader() {
    let (gateway, _mock) = place(true).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let token = shared(&gateway, &id).await;
    let mut guest = guest(&gateway, &token).await;
    assert!(texts(&guest).contains("Tomatoes"));
    for frame in [
        json!({"type": "user_message", "content": CANARY}),
        json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "interrupt"}}),
        json!({"type": "control_request", "request_id": "r2",
            "request": {"subtype": "set_permission_mode", "mode": "plan"}}),
        json!({"type": "control_response", "request_id": "r3",
            "response": {"response": {"behavior": "allow"}}}),
        json!({"type": "typing", "isTyping": true}),
        json!({"type": "ack"}),
    ] {
        guest.send(&frame).await;
    }
    said(&mut client, "garden", "Peppers").await;
    let is_end = |it: &Value| it["type"] == "queue-operation";
    assert!(guest.wait_for(LIMIT, is_end).await.is_some(), "{}", texts(&guest));
    // Read again, with what was said meanwhile.
    guest.send(&json!({"type": "subscribe"})).await;
    let twice = |received: &[crate::support::client::Received]| {
        let frames = received.iter().filter_map(|it| it.what.frame());
        (frames.filter(|it| it["type"] == "session_info").count() == 2).then_some(())
    };
    guest.wait_until(LIMIT, twice).await.expect("it may ask to begin anew");
    let seen = texts(&guest);
    assert!(seen.contains("Peppers") && !seen.contains(CANARY));
    assert!(!seen.contains(&gateway.root().display().to_string()), "{seen}");
    assert!(!seen.contains("control_") && !seen.contains("\"error\""), "{seen}");
    let init = guest.frames().into_iter().find(|it| it["subtype"] == "init").unwrap();
    assert_eq!((&init["cwd"], &init["tools"]), (&json!(""), &json!([])));
    let (_, told) = owner(&gateway).ask(Method::GET, "/api/claude/sessions/all").await;
    let lines = told["sessions"].as_array().unwrap();
    let line = lines.iter().find(|line| line["id"] == id).unwrap();
    assert_eq!(line["sessionState"], "unread", "a guest is no reader");
    assert_eq!(line["permissionMode"], "default");
}

/// Somebody who may do everything, and has seen the beginning.
async fn viewer(gateway: &Gateway, id: &str) -> WsClient {
    let path = format!("/api/claude/sessions/{id}/subscribe?access_token={SECRET}");
    let mut viewer = WsClient::open_with(&gateway.address(), &path, &[]).await.expect("let in");
    // What is refused is told behind all that was told before.
    viewer.send(&json!({"type": "tool_result", "tool_use_id": "none"})).await;
    assert!(viewer.wait_for(LIMIT, |it| it["type"] == "error").await.is_some());
    viewer
}

#[tokio::test]
async fn a_secret_that_is_set_by_a_command_is_told_to_nobody_who_looks() {
    let (gateway, _mock) = place_with(true, json!({"config": true})).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let guest = guest(&gateway, &shared(&gateway, &id).await).await;
    let (mut one, two) = (viewer(&gateway, &id).await, viewer(&gateway, &id).await);
    // The second is the first for the gateway, which passes over control characters.
    for (count, name) in [(1, "config"), (2, "con\u{7}fig")] {
        let line = format!("/{name} set gateway.remote.token={CANARY}");
        one.send(&json!({"type": "user_message", "content": line})).await;
        let is_over = |received: &[crate::support::client::Received]| {
            let frames = received.iter().filter_map(|it| it.what.frame());
            (frames.filter(|it| it["type"] == "queue-operation").count() == count).then_some(())
        };
        for who in [&one, &two, &guest] {
            who.wait_until(LIMIT, is_over).await.unwrap_or_else(|| panic!("{}", texts(who)));
        }
    }
    assert!(std::fs::read_to_string(gateway.config_path()).unwrap().contains(CANARY), "it is set");
    let later = viewer(&gateway, &id).await;
    for who in [&one, &two, &guest, &later] {
        assert!(!texts(who).contains(CANARY), "{}", texts(who));
    }
    let shown = "/config set gateway.remote.token=…";
    assert_eq!(texts(&two).matches(shown).count(), 2, "{}", texts(&two));
    assert!(!texts(&later).contains(shown), "a command is in no transcript");
}

/// Talks in a session, so often.
async fn talk(client: &mut WsClient, key: &str) {
    for turn in 0..TALKS {
        said(client, key, &format!("{key}-{turn}")).await;
    }
}

/// #61123: who may see one session hears of no other, whatever happens at the same time.
#[tokio::test]
async fn guests_of_two_sessions_hear_nothing_of_each_other() {
    let (gateway, _mock) = place(true).await;
    let (mut one, mut other) = (admin(&gateway).await, admin(&gateway).await);
    let garden = said(&mut one, "garden", "garden-begin").await;
    let orchard = said(&mut other, "orchard", "orchard-begin").await;
    let garden = guest(&gateway, &shared(&gateway, &garden).await).await;
    let orchard = guest(&gateway, &shared(&gateway, &orchard).await).await;
    tokio::join!(talk(&mut one, "garden"), talk(&mut other, "orchard"));
    for (guest, own, foreign) in [(garden, "garden", "orchard"), (orchard, "orchard", "garden")] {
        let last = format!("{own}-{}", TALKS - 1);
        let is_last = |it: &Value| it["type"] == "assistant" && it.to_string().contains(&last);
        assert!(guest.wait_for(LIMIT, is_last).await.is_some(), "{}", texts(&guest));
        let seen = texts(&guest);
        assert!(!seen.contains(foreign), "a guest of {own} has heard of {foreign}: {seen}");
    }
}

#[tokio::test]
async fn a_link_ends_for_all_who_look_though_whoever_revokes_it_goes_away() {
    let (gateway, _mock) = place(true).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let token = shared(&gateway, &id).await;
    let mut guests = Vec::new();
    for _ in 0..GUESTS {
        guests.push(guest(&gateway, &token).await);
    }
    let address = gateway.address();
    let request = format!(
        "DELETE /api/claude/sessions/{id}/share HTTP/1.1\r\nHost: {address}\r\n\
         Authorization: Bearer {SECRET}\r\n\r\n"
    );
    let mut owner = TcpStream::connect(&address).await.unwrap();
    owner.write_all(request.as_bytes()).await.unwrap();
    // They are sent away one after the other.
    guests[0].wait_closed(LIMIT).await.expect("revoked");
    drop(owner);
    for guest in &guests {
        assert_eq!(guest.wait_closed(LIMIT).await.expect("revoked").code, 4001);
    }
}

#[tokio::test]
async fn a_connection_ends_with_its_link() {
    let (gateway, _mock) = place(true).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let token = shared(&gateway, &id).await;
    let one = guest(&gateway, &token).await;
    let path = format!("/api/claude/sessions/{id}/share");
    assert_eq!(owner(&gateway).ask(Method::DELETE, &path).await.0, 200);
    assert_eq!(one.wait_closed(LIMIT).await.expect("revoked").code, 4001);
    assert_eq!(watch(&gateway, &token, &[]).await.err(), Some(404));

    // With more links than there may be the oldest ends, and no other.
    let oldest = shared(&gateway, &id).await;
    let newer = shared(&gateway, &id).await;
    let (one, two) = (guest(&gateway, &oldest).await, guest(&gateway, &newer).await);
    for _ in 0..7 {
        shared(&gateway, &id).await;
    }
    assert_eq!(one.wait_closed(LIMIT).await.expect("too many").code, 4001);
    assert!(two.closed().is_none());

    // What is said after `/new` is another conversation.
    call(&mut client, "sessions.reset", json!({"key": "garden"})).await;
    assert_eq!(watch(&gateway, &newer, &[]).await.err(), Some(404));
    let other = said(&mut client, "garden", CANARY).await;
    assert_eq!(two.wait_closed(LIMIT).await.expect("begun anew").code, 4001);
    assert!(!texts(&two).contains(CANARY));

    let token = shared(&gateway, &other).await;
    let three = guest(&gateway, &token).await;
    let now = call(&mut client, "config.get", json!({})).await;
    let off = json!({"gateway": {"dialects": {"claude": {"share": false}}}}).to_string();
    let patch = json!({"raw": off, "baseHash": now["hash"]});
    call(&mut client, "config.patch", patch).await;
    assert_eq!(three.wait_closed(LIMIT).await.expect("switched off").code, 4001);
    assert_eq!(watch(&gateway, &token, &[]).await.err(), Some(404));
}

#[tokio::test]
async fn a_guest_who_asks_again_is_told_of_no_conversation_that_took_the_place() {
    let (gateway, _mock) = place(true).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let mut guest = guest(&gateway, &shared(&gateway, &id).await).await;
    // Nothing has been said in it yet of which the guest would have heard.
    call(&mut client, "sessions.reset", json!({"key": "garden"})).await;
    guest.send(&json!({"type": "subscribe"})).await;
    assert_eq!(guest.wait_closed(LIMIT).await.expect("begun anew").code, 4001);
    let begun = guest.frames().into_iter().filter(|it| it["type"] == "session_info");
    assert_eq!(begun.count(), 1, "{}", texts(&guest));
}

/// Switches sharing on or off.
async fn switch(client: &mut WsClient, share: bool) {
    let now = call(client, "config.get", json!({})).await;
    let raw = json!({"gateway": {"dialects": {"claude": {"share": share}}}}).to_string();
    call(client, "config.patch", json!({"raw": raw, "baseHash": now["hash"]})).await;
}

#[tokio::test]
async fn a_link_that_was_switched_off_does_not_come_back() {
    let (mut gateway, _mock) = place(true).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let link = format!("/api/share/{}", shared(&gateway, &id).await);
    switch(&mut client, false).await;
    switch(&mut client, true).await;
    assert_eq!(nobody(&gateway).ask(Method::GET, &link).await.0, 404);

    // Switched off while nobody looks: what counts is what the gateway starts with.
    let link = format!("/api/share/{}", shared(&gateway, &id).await);
    assert_eq!(nobody(&gateway).ask(Method::GET, &link).await.0, 200);
    drop(client);
    for share in [false, true] {
        gateway.terminate().await.expect("it ends");
        let text = std::fs::read_to_string(gateway.config_path()).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["gateway"]["dialects"]["claude"]["share"] = json!(share);
        std::fs::write(gateway.config_path(), config.to_string()).unwrap();
        gateway.restart().await;
        assert_eq!(nobody(&gateway).ask(Method::GET, &link).await.0, 404);
    }

    // A restart alone ends none.
    let link = format!("/api/share/{}", shared(&gateway, &id).await);
    gateway.terminate().await.expect("it ends");
    gateway.restart().await;
    assert_eq!(nobody(&gateway).ask(Method::GET, &link).await.0, 200);
}

#[tokio::test]
async fn a_start_without_a_config_file_ends_no_link() {
    let (mut gateway, _mock) = place(true).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let link = format!("/api/share/{}", shared(&gateway, &id).await);
    drop(client);
    let (path, away) = (gateway.config_path(), gateway.state_dir().join("away.json"));
    gateway.terminate().await.expect("it ends");
    std::fs::rename(&path, &away).unwrap();
    gateway.restart().await;
    assert_eq!(nobody(&gateway).ask(Method::GET, &link).await.0, 404, "off by default");
    gateway.terminate().await.expect("it ends");
    std::fs::rename(&away, &path).unwrap();
    gateway.restart().await;
    assert_eq!(nobody(&gateway).ask(Method::GET, &link).await.0, 200);
}

#[tokio::test]
async fn no_link_is_no_socket_and_guessing_is_paid_for() {
    let (gateway, _mock) = place(true).await;
    let mut client = admin(&gateway).await;
    let id = said(&mut client, "garden", "Tomatoes").await;
    let token = shared(&gateway, &id).await;
    assert_eq!(watch(&gateway, &id, &[]).await.err(), Some(404), "an id is no token");
    // A token opens nothing but its own socket.
    let path = format!("/api/claude/sessions/{id}/subscribe?access_token={token}");
    let refused = WsClient::open_with(&gateway.address(), &path, &[]).await;
    assert_eq!(refused.err().map(|it| it.status), Some(401));
    let from = [("X-Forwarded-For".to_owned(), "203.0.113.7".to_owned())];
    let mut tries = 0;
    while watch(&gateway, &format!("guess-{tries}"), &from).await.err() == Some(404) {
        tries += 1;
        assert!(tries < 1000, "guesses are free");
    }
    assert_eq!(watch(&gateway, &token, &from).await.err(), Some(429), "not even the right one");
    let other = [("X-Forwarded-For".to_owned(), "203.0.113.8".to_owned())];
    assert!(watch(&gateway, &token, &other).await.is_ok());

    let (off, _mock) = place(false).await;
    assert_eq!(watch(&off, &token, &[]).await.err(), Some(404));
}
