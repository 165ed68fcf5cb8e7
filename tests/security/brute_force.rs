//! Guessing the secret: from a page on this machine ("ClawJacked"), under many
//! spellings of one address (GHSA-5847-rm3g-23mw), and all at once
//! (GHSA-5m9r-p9g7-679c).

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::client::{SOON, standard_connect};
use crate::support::guest::Guest;
use crate::support::{Gateway, GatewayOptions, SECRET, WsClient, default_config};

async fn gateway(rate_limit: Option<Value>) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    if let Some(rate_limit) = rate_limit {
        config["gateway"]["auth"]["rateLimit"] = rate_limit;
    }
    Gateway::start(GatewayOptions::with_config(config)).await
}

/// The code of what a try is answered with; empty when it gets in.
async fn attempt(gateway: &Gateway, header: (&str, &str), auth: Value) -> String {
    attempt_with(gateway, &[header], auth).await
}

async fn attempt_with(gateway: &Gateway, headers: &[(&str, &str)], auth: Value) -> String {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let headers: Vec<_> = headers.collect();
    let mut client = WsClient::open_with(&gateway.address(), "/", &headers).await.unwrap();
    let mut params = standard_connect(&["operator.read"]);
    params["auth"] = auth;
    let answer = client.request("connect", params).await;
    answer["error"]["details"]["code"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_page_on_this_machine_has_ten_guesses_whatever_else_it_sends() {
    let gateway = gateway(None).await;
    let page = ("Origin", "http://localhost:5173");
    for index in 0..10 {
        let auth = match index % 3 {
            0 => json!({"token": "guess"}),
            1 => json!({"token": "guess", "deviceToken": "bogus"}),
            _ => json!({"token": "guess", "password": "bogus", "bootstrapToken": "bogus"}),
        };
        assert_eq!(attempt(&gateway, page, auth).await, "AUTH_TOKEN_MISMATCH", "{index}");
    }
    for auth in [json!({"token": SECRET}), json!({"token": SECRET, "deviceToken": "bogus"})] {
        assert_eq!(attempt(&gateway, page, auth).await, "AUTH_RATE_LIMITED");
    }
    let other_page = ("Origin", "http://127.0.0.1:5173");
    assert_eq!(attempt(&gateway, other_page, json!({"token": SECRET})).await, "");
    assert_eq!(attempt(&gateway, ("X-None", "1"), json!({"token": SECRET})).await, "");
}

#[tokio::test]
async fn spellings_of_one_address_and_addresses_of_one_network_share_their_tries() {
    for spellings in [
        ["203.0.113.7", "::ffff:203.0.113.7", "::ffff:cb00:7107"],
        ["2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:0DB8:0001:0002::3"],
        ["203.0.113.7:1001", "203.0.113.7:1002", "[::ffff:203.0.113.7]:1003"],
        ["2001:db8:1:2::1", "[2001:db8:1:2::2]", "[2001:db8:1:2::3]:1003"],
    ] {
        let gateway = gateway(Some(json!({"maxAttempts": 3}))).await;
        for spelling in spellings {
            let header = ("X-Forwarded-For", spelling);
            let found = attempt(&gateway, header, json!({"token": "guess"})).await;
            assert_eq!(found, "AUTH_TOKEN_MISMATCH", "{spelling}");
        }
        for spelling in spellings {
            let header = ("X-Forwarded-For", spelling);
            let found = attempt(&gateway, header, json!({"token": SECRET})).await;
            assert_eq!(found, "AUTH_RATE_LIMITED", "{spelling}");
        }
        for neighbour in ["198.51.100.1", "198.51.100.2:1001", "[2001:db8::1]:1001"] {
            let header = ("X-Forwarded-For", neighbour);
            let found = attempt(&gateway, header, json!({"token": SECRET})).await;
            assert_eq!(found, "", "{neighbour}");
        }
    }
}

#[tokio::test]
async fn a_forged_beginning_of_the_chain_buys_no_tries() {
    let gateway = gateway(Some(json!({"maxAttempts": 3}))).await;
    for index in 0..5 {
        let chain = format!("10.9.8.{index}, 203.0.113.7");
        let found = attempt(&gateway, ("X-Forwarded-For", &chain), json!({"token": "guess"})).await;
        let expected = if index < 3 { "AUTH_TOKEN_MISMATCH" } else { "AUTH_RATE_LIMITED" };
        assert_eq!(found, expected, "{chain}");
    }
}

#[tokio::test]
async fn an_origin_buys_no_tries_behind_a_proxy_that_nobody_has_configured() {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["auth"]["rateLimit"] = json!({"maxAttempts": 3});
    config["gateway"]["controlUi"]["allowedOrigins"] = json!(["*"]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let guess = async |index: usize, token: &str| {
        let origin = format!("https://page{index}.example.com");
        let headers = [("X-Forwarded-For", "203.0.113.7"), ("Origin", origin.as_str())];
        attempt_with(&gateway, &headers, json!({"token": token})).await
    };
    for index in 0..3 {
        assert_eq!(guess(index, "guess").await, "AUTH_TOKEN_MISMATCH", "{index}");
    }
    for token in ["guess", SECRET] {
        assert_eq!(guess(3, token).await, "AUTH_RATE_LIMITED");
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}/sessions/main/history", gateway.address());
    let asked = client.get(url).bearer_auth(SECRET).header("Origin", "https://page4.example.com");
    let answer = asked.header("X-Forwarded-For", "203.0.113.7").send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 429);
}

#[tokio::test]
async fn tries_at_the_same_time_are_no_more_than_tries_one_after_the_other() {
    let gateway = gateway(Some(json!({"maxAttempts": 5}))).await;
    let header = ("X-Forwarded-For", "203.0.113.7");
    let tries = (0..30).map(|_| attempt(&gateway, header, json!({"token": "guess"})));
    let found = futures_util::future::join_all(tries).await;
    let compared = found.iter().filter(|code| *code == "AUTH_TOKEN_MISMATCH").count();
    assert_eq!(compared, 5, "{found:?}");
    assert_eq!(found.iter().filter(|code| *code == "AUTH_RATE_LIMITED").count(), 25);
}

#[tokio::test]
async fn who_comes_while_devices_cannot_be_read_has_guessed_nothing() {
    let gateway = gateway(Some(json!({"maxAttempts": 3, "exemptLoopback": false}))).await;
    let reader = Guest::new("reader", &["operator.read"]);
    let token = reader.token(&gateway).await;
    let (by_code, by_token) =
        (json!({"bootstrapToken": "unread"}), json!({"deviceToken": token.as_str()}));
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    database.busy_timeout(SOON).unwrap();
    let rename = |what: &str, name: &str| {
        database.execute_batch(&format!("ALTER TABLE {what} RENAME TO {name}")).unwrap();
    };
    rename("devices", "devices_away");
    rename("setup_codes", "codes_away");
    for shown in [&by_token, &by_code] {
        for _ in 0..4 {
            let (error, _) = reader.clone().with(shown.clone()).refused(&gateway).await;
            assert_eq!(error["code"], "UNAVAILABLE", "{error}");
        }
    }
    rename("devices_away", "devices");
    rename("codes_away", "setup_codes");
    reader.clone().with(by_token).come(&gateway).await;
    let (error, _) = reader.with(by_code).refused(&gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "{error}");
}

#[tokio::test]
async fn good_tokens_of_devices_at_the_same_time_are_no_failed_tries() {
    let gateway = gateway(Some(json!({"maxAttempts": 3, "exemptLoopback": false}))).await;
    let guest = Guest::new("reader", &["operator.read"]);
    let (_paired, auth) = guest.clone().come(&gateway).await;
    let token = auth["deviceToken"].as_str().unwrap();
    for shown in [json!({"token": token}), json!({"deviceToken": token})] {
        let guest = guest.clone().with(shown);
        futures_util::future::join_all((0..30).map(|_| guest.come(&gateway))).await;
    }
    let here = ("X-None", "1");
    for _ in 0..3 {
        assert_eq!(attempt(&gateway, here, json!({"token": "guess"})).await, "AUTH_TOKEN_MISMATCH");
    }
    assert_eq!(attempt(&gateway, here, json!({"token": SECRET})).await, "AUTH_RATE_LIMITED");
}
