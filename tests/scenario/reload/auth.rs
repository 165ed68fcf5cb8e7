//! Who is let in changes while clients are connected.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{LIMIT, edit, patch, until};
use crate::stage::{Api, admin, ask, call, connect, scripted, text_of};
use crate::support::client::standard_connect;
use crate::support::guest::Guest;
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient};

const OTHER: &str = "another-secret-0002";

async fn knocks(gateway: &Gateway, token: &str) -> Value {
    let mut params = standard_connect(&["operator.admin"]);
    params["auth"]["token"] = json!(token);
    gateway.open().await.request("connect", params).await
}

/// A device that comes back by its own token.
async fn paired(gateway: &Gateway) -> WsClient {
    let guest = Guest::new("reader", &["operator.read"]);
    let (_client, auth) = guest.clone().come(gateway).await;
    let token = auth["deviceToken"].as_str().unwrap();
    guest.with(json!({"deviceToken": token})).come(gateway).await.0
}

async fn is_turned_away(client: &WsClient) {
    let closed = client.wait_closed(LIMIT).await.unwrap();
    assert_eq!((closed.code, &*closed.reason), (4001, "gateway auth changed"));
}

/// Whoever came by the old secret is turned away, and the other one lets in.
async fn is_by_the_other_secret(gateway: &Gateway, before: &WsClient) {
    is_turned_away(before).await;
    assert_eq!(knocks(gateway, OTHER).await["ok"], true);
}

#[tokio::test]
async fn another_secret_closes_those_who_came_by_the_old_one_and_nobody_else() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut author, other, device) =
        (admin(&gateway).await, admin(&gateway).await, paired(&gateway).await);
    let answer = patch(&mut author, json!({"gateway": {"auth": {"token": OTHER}}})).await;
    assert_eq!(answer["payload"]["requiresRestart"], false, "answered before it goes: {answer}");
    is_turned_away(&author).await;
    is_turned_away(&other).await;
    assert_eq!(knocks(&gateway, SECRET).await["error"]["details"]["code"], "AUTH_TOKEN_MISMATCH");
    assert_eq!(knocks(&gateway, OTHER).await["ok"], true);
    assert!(device.closed().is_none(), "its own token is good");
}

#[tokio::test]
async fn a_setup_code_goes_with_the_secret_that_its_issuer_has_shown() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let code = async |issuer: &mut WsClient| {
        let issued = call(issuer, "device.pair.setupCode", json!({})).await;
        issued["bootstrapToken"].as_str().unwrap().to_owned()
    };
    let phone = |name: &str, code: &str| Guest::node(name).with(json!({"bootstrapToken": code}));
    let mut author = admin(&gateway).await;
    let (used, left) = (code(&mut author).await, code(&mut author).await);
    phone("first", &used).come(&gateway).await;
    patch(&mut author, json!({"gateway": {"auth": {"token": OTHER}}})).await;
    is_turned_away(&author).await;
    let (error, _) = phone("second", &left).refused(&gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "{error}");
    let mut by_other = standard_connect(&["operator.admin"]);
    by_other["auth"]["token"] = json!(OTHER);
    let anew = code(&mut connect(&gateway, &by_other).await).await;
    phone("second", &anew).come(&gateway).await;
}

/// A gateway that looks at its file as soon as that changes.
async fn hasty() -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = crate::stage::config(mock.address(), Api::OpenAi);
    config["gateway"]["reload"] = json!({"debounceMs": 0});
    config["commands"] = json!({"config": true});
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

#[tokio::test]
async fn a_page_that_is_allowed_no_more_is_closed_and_nobody_else() {
    let (kept, taken) = ("https://kept.example", "https://taken.example");
    let mock = MockProvider::start().await;
    let mut config = crate::stage::config(mock.address(), Api::OpenAi);
    config["gateway"]["controlUi"] = json!({"allowedOrigins": [kept, taken]});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let come = async |origin: &str| {
        let headers = [("Origin".to_owned(), origin.to_owned())];
        let mut page = WsClient::open_with(&gateway.address(), "/", &headers).await.unwrap();
        let answer = page.connect_simple().await;
        (page, answer["ok"] == true)
    };
    let (stays, is_in) = come(kept).await;
    assert!(is_in);
    let (goes, is_in) = come(taken).await;
    assert!(is_in);
    let program = admin(&gateway).await;
    edit(&gateway, |config| config["gateway"]["controlUi"]["allowedOrigins"] = json!([kept]));
    is_turned_away(&goes).await;
    assert!(!come(taken).await.1, "it is not let in again either");
    assert!(stays.closed().is_none() && program.closed().is_none());
}

#[tokio::test]
async fn a_user_of_a_proxy_who_is_allowed_no_more_is_closed_and_no_other_one() {
    let (kept, taken) = ("ann@example.com", "bob@example.com");
    let mock = MockProvider::start().await;
    let mut config = crate::stage::config(mock.address(), Api::OpenAi);
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    config["gateway"]["auth"] = json!({"mode": "trusted-proxy", "trustedProxy":
        {"userHeader": "x-user", "allowUsers": [kept, taken], "allowLoopback": true}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let come = async |user: &str| {
        let headers = [("X-User".to_owned(), user.to_owned())];
        let mut client = WsClient::open_with(&gateway.address(), "/", &headers).await.unwrap();
        let answer = client.request("connect", json!({"clientType": "web"})).await;
        (client, answer["ok"] == true)
    };
    let (mut stays, is_in) = come(kept).await;
    assert!(is_in);
    let (goes, is_in) = come(taken).await;
    assert!(is_in);
    edit(&gateway, |config| {
        config["gateway"]["auth"]["trustedProxy"]["allowUsers"] = json!([kept]);
    });
    is_turned_away(&goes).await;
    assert!(!come(taken).await.1, "he is not let in again either");
    assert_eq!(stays.request("health", json!({})).await["ok"], true);
    edit(&gateway, |config| {
        config["gateway"]["auth"]["trustedProxy"]["userHeader"] = json!("x-email");
    });
    is_turned_away(&stays).await;
}

#[tokio::test]
async fn who_changes_the_secret_is_answered_though_the_file_is_looked_at_at_once() {
    let (gateway, _mock) = hasty().await;
    let mut author = admin(&gateway).await;
    let answer = patch(&mut author, json!({"gateway": {"auth": {"token": OTHER}}})).await;
    assert_eq!(answer["ok"], true, "{answer}");
    is_by_the_other_secret(&gateway, &author).await;
}

#[tokio::test]
async fn who_changes_the_secret_in_a_chat_reads_that_it_is_done() {
    let (gateway, _mock) = hasty().await;
    let mut author = admin(&gateway).await;
    let command = format!("/config set gateway.auth.token={OTHER}");
    let said = text_of(&ask(&mut author, "main", &command, "run-1").await["message"]);
    assert!(said.starts_with("⚙️ Config updated: gateway.auth.token="), "{said}");
    is_by_the_other_secret(&gateway, &author).await;
}

#[tokio::test]
async fn a_restart_is_as_late_as_its_author_wishes_though_the_file_is_looked_at_at_once() {
    let (gateway, _mock) = hasty().await;
    let mut author = admin(&gateway).await;
    let hash = call(&mut author, "config.get", json!({})).await["hash"].clone();
    let params = json!({"raw": json!({"gateway": {"bind": "lan"}}).to_string(), "baseHash": hash,
        "restartDelayMs": 60_000});
    let answer = call(&mut author, "config.patch", params).await;
    let restart = &answer["restart"];
    assert_eq!((&restart["delayMs"], &restart["coalesced"]), (&json!(60_000), &json!(false)));
    assert!(author.closed().is_none());
}

#[tokio::test]
async fn a_secret_that_is_worth_less_closes_those_who_came_by_it_and_who_come_again_get_less() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut bare, device) = (gateway.open().await, paired(&gateway).await);
    // By the secret, and without a scope that could be lost.
    let mut reader = gateway.open().await;
    let asked = standard_connect(&[]);
    assert_eq!(reader.request("connect", asked).await["ok"], true);
    assert_eq!(bare.connect_simple().await["ok"], true);
    edit(&gateway, |config| config["gateway"]["auth"]["sharedSecretScopes"] = json!(["read"]));
    is_turned_away(&bare).await;
    let mut again = gateway.open().await;
    assert_eq!(again.connect_simple().await["ok"], true);
    let refused = again.request("cron.add", json!({})).await;
    assert_eq!(refused["ok"], false, "{refused}");
    assert!(device.closed().is_none(), "its own token is worth the same");
    assert!(reader.closed().is_none(), "he has nothing that is worth less");
    edit(&gateway, |config| config["gateway"]["auth"]["sharedSecretScopes"] = json!(["admin"]));
    crate::stage::until("more", async || {
        let mut more = gateway.open().await;
        more.connect_simple().await;
        (more.request("config.get", json!({})).await["ok"] == true).then_some(())
    })
    .await;
    assert!(again.closed().is_none(), "more is no reason to close anybody");
}

#[tokio::test]
async fn who_has_shown_a_secret_that_is_another_before_his_hello_gets_none() {
    let (gateway, _mock) = hasty().await;
    let guest = Guest::node("late");
    // Known from now on: before he is announced nothing is written the next time.
    let (mut first, _) = guest.come(&gateway).await;
    first.close().await;
    first.wait_closed(LIMIT).await.expect("an end");
    let mut watcher = admin(&gateway).await;
    // A node is let in and announced, and then noted in the database.
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    database.busy_timeout(LIMIT).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let late = guest.ask(&gateway, "hello").await;
    until(&mut watcher, "system-presence", |present| {
        let mut entries = present.as_array().unwrap().iter();
        entries.any(|it| it["instanceId"] == guest.id() && it["reason"] == "connect")
    })
    .await;
    edit(&gateway, |config| config["gateway"]["auth"]["token"] = json!(OTHER));
    is_turned_away(&watcher).await;
    database.execute_batch("ROLLBACK").unwrap();
    is_turned_away(&late).await;
    assert!(late.frames().iter().all(|frame| frame["id"] != "hello"), "{:?}", late.frames());
    let told = |line: &str| gateway.stderr().matches(line).count();
    crate::stage::until("the end of somebody who never was there", async || {
        (told(" disconnected conn=") > told(" connected conn=")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn another_secret_closes_clients_of_the_simple_form_too() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut bare = gateway.open().await;
    assert_eq!(bare.connect_simple().await["ok"], true);
    edit(&gateway, |config| config["gateway"]["auth"]["token"] = json!(OTHER));
    is_turned_away(&bare).await;
}

#[tokio::test]
async fn another_mode_in_the_file_closes_those_whom_it_does_not_know() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (other, mut device) = (admin(&gateway).await, paired(&gateway).await);
    edit(&gateway, |config| {
        config["gateway"]["auth"] = json!({"mode": "password", "password": OTHER});
    });
    is_turned_away(&other).await;
    let mut params = standard_connect(&["operator.admin"]);
    params["auth"] = json!({"password": OTHER});
    let mut by_password = gateway.open().await;
    assert_eq!(by_password.request("connect", params).await["ok"], true);
    edit(&gateway, |config| config["session"] = json!({"mainKey": "chief"}));
    until(&mut by_password, "agents.list", |told| told["mainKey"] == "chief").await;
    assert!(by_password.closed().is_none());
    assert_eq!(device.request("health", json!({})).await["ok"], true);
}
