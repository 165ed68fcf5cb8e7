//! A setup code sets up one device, once, with what it says
//! (CVE-2026-53862, CVE-2026-53852, GHSA-xr4f-mjxj-w6w5, GHSA-83w9-h5wv-j9xm).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use rqrr::PreparedImage;
use serde_json::{Value, json};

use crate::stage::{admin, call, connect};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::guest::{Guest, command, proxied_config, said};
use crate::support::{Gateway, GatewayOptions, SECRET};

const RACERS: usize = 100;

async fn gateway() -> Gateway {
    // Racers are many sockets of one place.
    let options = GatewayOptions::with_config(proxied_config());
    Gateway::start(options.env("OPENCLAW_MAX_PREAUTH_CONNECTIONS_PER_IP", "200")).await
}

async fn code(gateway: &Gateway) -> String {
    let mut operator = admin(gateway).await;
    let issued = call(&mut operator, "device.pair.setupCode", json!({})).await;
    issued["bootstrapToken"].as_str().unwrap().to_owned()
}

/// A phone that has the code.
fn phone(name: &str, code: &str) -> Guest {
    Guest::node(name).far().with(json!({"bootstrapToken": code}))
}

#[tokio::test]
async fn of_many_devices_that_race_with_one_code_one_gets_in() {
    let gateway = gateway().await;
    let code = code(&gateway).await;
    let racers: Vec<_> = (0..RACERS).map(|n| phone(&format!("racer {n}"), &code)).collect();
    let answers = join_all(racers.iter().map(|racer| racer.knock(&gateway))).await;
    let (winners, losers): (Vec<_>, Vec<_>) =
        answers.iter().map(|(_, answer)| answer).partition(|answer| answer["ok"] == true);
    assert_eq!(winners.len(), 1);
    for loser in losers {
        assert_eq!(loser["error"]["details"]["code"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "{loser}");
    }
    let mut operator = admin(&gateway).await;
    let list = call(&mut operator, "device.pair.list", json!({})).await;
    assert_eq!(list["paired"].as_array().unwrap().len(), 1);
    assert_eq!(list["pending"], json!([]));
}

#[tokio::test]
async fn a_code_gives_what_it_says_and_is_gone_with_its_use() {
    let gateway = gateway().await;
    let code = code(&gateway).await;
    for (guest, why) in [
        (Guest::new("phone", &["operator.admin"]), "more than it gives"),
        (Guest::new("phone", &["operator.pairing"]), "more than it gives"),
    ] {
        let wish = guest.far().with(json!({"bootstrapToken": code}));
        let (error, _) = wish.refused(&gateway).await;
        assert_eq!(error["details"]["code"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "{why}");
    }
    let (_client, auth) = phone("phone", &code).come(&gateway).await;
    assert_eq!((&auth["role"], &auth["scopes"]), (&json!("node"), &json!([])));
    let other = &auth["deviceTokens"][0];
    assert_eq!(other["role"], "operator");
    let expected =
        ["operator.approvals", "operator.read", "operator.talk.secrets", "operator.write"];
    assert_eq!(other["scopes"], json!(expected));
    let operator = Guest::new("phone", &["operator.read"]).far();
    let handed_on = operator.clone().with(json!({"deviceToken": other["deviceToken"]}));
    handed_on.come(&gateway).await;
    let (error, _) = phone("another phone", &code).refused(&gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "it was used");
}

#[tokio::test]
async fn a_phone_whose_hello_was_lost_comes_again_with_its_code_in_each_role() {
    let gateway = gateway().await;
    let code = code(&gateway).await;
    let node = phone("phone", &code);
    let first = node.token(&gateway).await;
    assert_eq!(node.token(&gateway).await, first);
    let operator = Guest::new("phone", &["operator.read"]).far();
    let by_code = operator.clone().with(json!({"bootstrapToken": code}));
    let own = by_code.token(&gateway).await;
    phone("another phone", &code).refused(&gateway).await;
    operator.clone().with(json!({"deviceToken": own})).come(&gateway).await;
    let (error, _) = by_code.refused(&gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "it has its token");
    said(&gateway, &["devices", "remove", &node.id()]).await;
    node.refused(&gateway).await;
}

#[tokio::test]
async fn a_code_pairs_beside_the_secret_and_a_bad_one_takes_nothing_away() {
    let mut config = proxied_config();
    config["gateway"]["auth"]["rateLimit"] = json!({"maxAttempts": 3});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let code = code(&gateway).await;
    let node = phone("phone", "").with(json!({"token": SECRET, "bootstrapToken": code}));
    let token = node.token(&gateway).await;
    let near = Guest::new("near", &["operator.read"]);
    near.with(json!({"token": SECRET, "bootstrapToken": code})).come(&gateway).await;
    // Apps keep the code that is used up, and that is no guess.
    phone("phone", "").with(json!({"deviceToken": token})).come(&gateway).await;
    let kept = phone("phone", "").with(json!({"deviceToken": token, "bootstrapToken": code}));
    for _ in 0..5 {
        kept.come(&gateway).await;
    }
    for guess in 0..3 {
        let (error, _) = phone("guesser", &format!("guess-{guess}")).refused(&gateway).await;
        assert_eq!(error["details"]["code"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "{error}");
    }
    let (error, _) = phone("guesser", "guess").refused(&gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_RATE_LIMITED", "{error}");
    kept.come(&gateway).await;
}

#[tokio::test]
async fn codes_are_issued_by_admins_and_can_be_taken_back() {
    let gateway = gateway().await;
    let all_but_admin = [
        "operator.read",
        "operator.write",
        "operator.approvals",
        "operator.pairing",
        "operator.talk.secrets",
    ];
    let mut other = connect(&gateway, &standard_connect(&all_but_admin)).await;
    let answer = other.request("device.pair.setupCode", json!({})).await;
    assert_eq!(answer["error"]["message"], "missing scope: operator.admin");
    let code = code(&gateway).await;
    assert!(
        said(&gateway, &["devices", "clear", "--yes", "--codes"]).await.contains("1 setup code")
    );
    phone("phone", &code).refused(&gateway).await;
    // The database does not know the secret.
    let state = std::fs::read(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    assert!(!state.windows(code.len()).any(|window| window == code.as_bytes()));
}

#[tokio::test]
async fn the_command_line_prints_a_code_that_works() {
    let gateway = gateway().await;
    let nowhere = command(&gateway, &["qr"]).await;
    assert_eq!(nowhere.status.code(), Some(2), "no phone reaches 127.0.0.1");
    let url = "wss://gateway.example";
    let printed = said(&gateway, &["qr", "--public-url", url, "--setup-code-only"]).await;
    let text = URL_SAFE_NO_PAD.decode(printed.trim()).unwrap();
    let setup: Value = serde_json::from_slice(&text).unwrap();
    assert!(setup["url"].as_str().unwrap().starts_with(url), "{setup}");
    let code = setup["bootstrapToken"].as_str().unwrap();
    phone("phone", code).come(&gateway).await;
    let shown = said(&gateway, &["qr", "--public-url", url, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert!(shown["setupCode"].is_string() && shown["expiresAtMs"].is_u64(), "{shown}");
}

/// What a camera reads in the picture of a code: light is a block, two rows to a line.
fn scanned(picture: &str) -> String {
    const SCALE: usize = 4;
    let lines: Vec<Vec<char>> = picture.lines().map(|line| line.chars().collect()).collect();
    let (width, height) = (lines[0].len(), lines.len() * 2);
    let is_light = |x: usize, y: usize| match lines[y / 2][x] {
        '█' => true,
        '▀' => y.is_multiple_of(2),
        '▄' => y % 2 == 1,
        ' ' => false,
        other => panic!("{other:?}"),
    };
    let grey = |x: usize, y: usize| if is_light(x / SCALE, y / SCALE) { 255 } else { 0 };
    let mut image = PreparedImage::prepare_from_greyscale(width * SCALE, height * SCALE, grey);
    let found = image.detect_grids();
    assert_eq!(found.len(), 1);
    found[0].decode().unwrap().1
}

#[tokio::test]
async fn a_camera_reads_the_code_off_a_terminal() {
    let gateway = gateway().await;
    let url = "wss://a-rather-long-name-of-a-gateway.at-home.example:18789";
    let printed = said(&gateway, &["qr", "--public-url", url]).await;
    let (picture, rest) = printed.split_once("\n\nSetup code: ").unwrap();
    let code = rest.lines().next().unwrap();
    assert_eq!(scanned(picture), code);
    let plain = said(&gateway, &["qr", "--public-url", url, "--no-ascii"]).await;
    assert!(plain.starts_with("Setup code: "), "{plain}");
}

/// A browser elsewhere that has this code of `clawgate dashboard`.
fn browser(name: &str, code: &str) -> Guest {
    Guest::new(name, &["operator.admin"]).far().with(json!({"bootstrapToken": code}))
}

async fn login_code(gateway: &Gateway) -> String {
    let shown = said(gateway, &["dashboard", "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["url"].as_str().unwrap().split_once("#code=").unwrap().1.to_owned()
}

#[tokio::test]
async fn a_page_that_guesses_login_codes_is_locked_out_and_the_others_are_not() {
    let gateway = gateway().await;
    let code = login_code(&gateway).await;
    let page = |name: &str, code: &str| {
        browser(name, code).header("Origin", &format!("http://localhost:{}", gateway.port()))
    };
    let own = |name: &str, code: &str| {
        let mut guest = page(name, code);
        guest.headers.retain(|(name, _)| name != "X-Forwarded-For");
        guest
    };
    for guess in 0..10 {
        let (error, _) = own("guesser", &format!("guess-{guess}")).refused(&gateway).await;
        assert_eq!(error["details"]["code"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "{error}");
    }
    let (error, _) = own("guesser", &code).refused(&gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_RATE_LIMITED", "{error}");
    browser("somebody else", &code).come(&gateway).await;
}

#[tokio::test]
async fn with_a_device_go_the_codes_that_it_has_issued() {
    let gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    for method in ["device.token.rotate", "device.token.revoke", "device.pair.remove"] {
        let issuer = Guest::new(&format!("issuer before {method}"), &ALL_SCOPES);
        let token = issuer.token(&gateway).await;
        let by_token = issuer.clone().with(json!({"deviceToken": token}));
        let mut codes = Vec::new();
        // It comes in with the gateway's secret, and with its own token.
        for way in [&issuer, &by_token] {
            let (mut client, _) = way.come(&gateway).await;
            for method in ["device.pair.loginCode", "device.pair.setupCode"] {
                let issued = call(&mut client, method, json!({})).await;
                codes.push(issued["bootstrapToken"].as_str().unwrap().to_owned());
            }
        }
        let mut params = json!({"deviceId": issuer.id()});
        if method != "device.pair.remove" {
            params["role"] = json!("operator");
        }
        call(&mut operator, method, params).await;
        for code in codes {
            let guest = Guest::new("ada", &["operator.read"]).far();
            let (error, _) = guest.with(json!({"bootstrapToken": code})).refused(&gateway).await;
            let why = &error["details"]["code"];
            assert_eq!(why, "AUTH_BOOTSTRAP_TOKEN_INVALID", "{method}: {error}");
        }
    }
}

#[tokio::test]
async fn where_no_secret_is_asked_for_a_login_code_still_pairs_a_browser_elsewhere() {
    let mut config = proxied_config();
    config["gateway"]["auth"] = json!({"mode": "none"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let (error, _) = browser("ada", "wrong").refused(&gateway).await;
    assert_eq!(error["details"]["code"], "PAIRING_REQUIRED", "{error}");
    let code = login_code(&gateway).await;
    let (_client, auth) = browser("ada", &code).come(&gateway).await;
    let back = browser("ada", "").with(json!({"deviceToken": auth["deviceToken"]}));
    back.come(&gateway).await;
    let (error, _) = browser("bob", &code).refused(&gateway).await;
    assert_eq!(error["details"]["code"], "PAIRING_REQUIRED", "{error}");
}
