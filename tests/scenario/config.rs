//! `config.*` over real connections: what is shown can be written back, and
//! nothing else gets in.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use serde_json::{Value, json};

use crate::stage::{Api, admin, call, connect, refusal, scripted};
use crate::support::client::standard_connect;
use crate::support::guest::proxied_config;
use crate::support::{Gateway, GatewayOptions, SECRET, WsClient};

const HIDDEN: &str = "__OPENCLAW_REDACTED__";

fn text(gateway: &Gateway) -> String {
    fs::read_to_string(gateway.config_path()).unwrap()
}

#[tokio::test]
async fn a_client_writes_back_what_it_was_shown_and_no_secret_is_lost() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let commented = format!("// by hand\n{}", text(&gateway));
    fs::write(gateway.config_path(), &commented).unwrap();
    let mut client = admin(&gateway).await;
    let shown = call(&mut client, "config.get", json!({})).await;
    assert_eq!(
        (&shown["valid"], &shown["exists"], &shown["raw"]),
        (&json!(true), &json!(true), &Value::Null)
    );
    assert_eq!(shown["parsed"]["gateway"]["auth"]["token"], HIDDEN);
    assert!(!shown.to_string().contains(SECRET));
    let mut wanted = shown["config"].clone();
    wanted["session"] = json!({"mainKey": "chief"});
    let params = json!({"raw": wanted.to_string(), "baseHash": shown["hash"]});
    let written = call(&mut client, "config.set", params.clone()).await;
    assert_eq!((&written["ok"], &written["requiresRestart"]), (&json!(true), &json!(false)));
    assert!(!written.to_string().contains(SECRET));
    let now = text(&gateway);
    assert!(now.starts_with("// by hand\n") && now.contains(SECRET) && !now.contains(HIDDEN));
    let backup = fs::read_to_string(gateway.config_path().with_extension("json.bak")).unwrap();
    assert_eq!(backup, commented);
    // The same again was made for a file that is gone.
    let stale = "config changed since last load; re-run config.get and retry";
    assert_eq!(refusal(&mut client, "config.set", params).await, stale);
    gateway.restart().await;
    let hello = gateway.open().await.request("connect", standard_connect(&[])).await;
    let defaults = &hello["payload"]["snapshot"]["sessionDefaults"];
    assert_eq!(defaults["mainSessionKey"], "agent:main:chief");
}

#[tokio::test]
async fn without_a_file_a_gateway_runs_and_says_that_there_is_none_to_be_written() {
    let options = GatewayOptions::default()
        .env("OPENCLAW_CONFIG_PATH", "/dev/null")
        .env("OPENCLAW_GATEWAY_TOKEN", SECRET);
    let gateway = Gateway::start(options).await;
    let mut client = admin(&gateway).await;
    let health = call(&mut client, "health", json!({})).await;
    assert_eq!(health["configIssue"], Value::Null, "{health}");
    let shown = call(&mut client, "config.get", json!({})).await;
    assert_eq!((&shown["valid"], &shown["config"]), (&json!(true), &json!({})), "{shown}");
    let told = "/dev/null is no file that can be written; point OPENCLAW_CONFIG_PATH to one";
    for method in ["config.set", "config.patch"] {
        let params = json!({"raw": "{gateway: {port: 19001}}", "baseHash": shown["hash"]});
        assert_eq!(refusal(&mut client, method, params).await, told, "{method}");
    }
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[tokio::test]
async fn a_patch_touches_its_places_only_and_the_fourth_in_a_minute_waits() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    fs::write(gateway.config_path(), text(&gateway).replacen('{', "{ /* kept */ ", 1)).unwrap();
    let mut client = admin(&gateway).await;
    let before = text(&gateway);
    let hash = call(&mut client, "config.get", json!({})).await["hash"].clone();
    let patch = |raw: Value, hash: &Value| json!({"raw": raw.to_string(), "baseHash": hash});
    let nothing = patch(json!({"gateway": {"bind": "loopback"}}), &hash);
    let noop = call(&mut client, "config.patch", nothing).await;
    assert_eq!((&noop["noop"], text(&gateway)), (&json!(true), before.clone()));
    let wrong = patch(json!({"gateway": {"port": "x"}}), &hash);
    let answer = client.request("config.patch", wrong).await;
    let issue = &answer["error"]["details"]["issues"][0];
    assert_eq!(issue["path"], "gateway.port", "{answer}");
    assert_eq!(text(&gateway), before);
    let real = patch(json!({"ui": {"seamColor": "#123456"}}), &hash);
    let written = call(&mut client, "config.patch", real.clone()).await;
    assert_eq!((&written["requiresRestart"], &written["noop"]), (&json!(false), &Value::Null));
    assert!(text(&gateway).starts_with("{ /* kept */ ") && text(&gateway).contains("#123456"));
    let answer = client.request("config.apply", real.clone()).await;
    let error = &answer["error"];
    assert_eq!((&error["code"], &error["retryable"]), (&json!("UNAVAILABLE"), &json!(true)));
    assert_eq!(error["details"], json!({"method": "config.apply", "limit": "3 per 60s"}));
    // Another connection of this machine has a budget of its own.
    let stale = "config changed since last load; re-run config.get and retry";
    assert_eq!(refusal(&mut admin(&gateway).await, "config.patch", real).await, stale);
}

#[tokio::test]
async fn who_comes_from_elsewhere_without_a_device_has_no_more_writes_by_connecting_anew() {
    let gateway = Gateway::start(GatewayOptions::with_config(proxied_config())).await;
    let from = async |address: &str| {
        let headers = [("X-Forwarded-For".to_owned(), address.to_owned())];
        let mut client = WsClient::open_with(&gateway.address(), "/", &headers).await.unwrap();
        let hello = client.connect_simple().await;
        assert_eq!(hello["ok"], true, "{hello}");
        client
    };
    let params = json!({"raw": "{}", "baseHash": "x"});
    for _ in 0..3 {
        let mut client = from("203.0.113.7").await;
        let refused = refusal(&mut client, "config.patch", params.clone()).await;
        assert!(refused.starts_with("config changed since last load"), "{refused}");
    }
    let refused = refusal(&mut from("203.0.113.7").await, "config.patch", params.clone()).await;
    assert!(refused.starts_with("rate limit exceeded for config.patch"), "{refused}");
    let other = refusal(&mut from("203.0.113.8").await, "config.patch", params).await;
    assert!(other.starts_with("config changed since last load"), "{other}");
}

#[tokio::test]
async fn who_may_only_read_reads_no_secret_and_writes_nothing() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let before = text(&gateway);
    let mut reader = connect(&gateway, &standard_connect(&["operator.read"])).await;
    let shown = call(&mut reader, "config.get", json!({})).await;
    assert!(!shown.to_string().contains(SECRET));
    for method in
        ["config.set", "config.patch", "config.apply", "secrets.reload", "secrets.resolve"]
    {
        let params = json!({"raw": "{}", "baseHash": shown["hash"]});
        assert_eq!(refusal(&mut reader, method, params).await, "missing scope: operator.admin");
    }
    assert_eq!(text(&gateway), before);
}

#[tokio::test]
async fn of_many_who_write_at_once_one_wins_and_the_others_are_told() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut first = admin(&gateway).await;
    let shown = call(&mut first, "config.get", json!({})).await;
    let writers = (0..8).map(|number| {
        let mut wanted = shown["config"].clone();
        wanted["ui"] = json!({"number": number});
        let params = json!({"raw": wanted.to_string(), "baseHash": shown["hash"]});
        let gateway = &gateway;
        async move {
            let mut client = admin(gateway).await;
            let answer = client.request("config.set", params).await;
            (answer["ok"] == true).then_some(number)
        }
    });
    let won: Vec<i32> =
        futures_util::future::join_all(writers).await.into_iter().flatten().collect();
    assert_eq!(won.len(), 1, "{won:?}");
    assert!(text(&gateway).contains(&format!("\"number\": {}", won[0])), "{}", text(&gateway));
}

#[tokio::test]
async fn a_crowd_that_writes_at_once_is_answered_and_the_gateway_goes_on() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut params = standard_connect(&["operator.admin", "operator.read"]);
    params["userAgent"] = json!("openclaw-dashboard/1.0");
    // More requests than a runtime has threads for what waits. Most have read another file, so
    // that they are quick; the first of each round is written.
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(connect(&gateway, &params).await);
    }
    for round in 1..=32 {
        for (at, client) in clients.iter_mut().enumerate() {
            let mut config = json!({"messages": {"queue": {"cap": round}}});
            if at > 0 {
                config["baseHash"] = json!("0".repeat(64));
            }
            let request = json!({"type": "req", "id": format!("r-{round}"), "method": "config.set",
                "params": config});
            client.send(&request).await;
        }
    }
    for (at, client) in clients.iter().enumerate() {
        for round in 1..=32 {
            let answer = client.answer(&format!("r-{round}")).await;
            let answer = answer.unwrap_or_else(|| panic!("{at}: no answer to r-{round}"));
            assert_eq!(answer["ok"], at == 0, "{at}: {answer}");
        }
    }
    call(&mut admin(&gateway).await, "health", json!({})).await;
    let now: Value = serde_json::from_str(&text(&gateway)).unwrap();
    assert_eq!(now["messages"]["queue"]["cap"], 32);
}
