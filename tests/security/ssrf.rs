//! Requests that somebody outside makes us send (CVE-2026-26322,
//! GHSA-grc3-2j34-p6gm, GHSA-77q5-rr5v-x43q, CVE-2026-53859).
//!
//! A model asks for addresses; what it asks for is in the hands of whoever
//! wrote the page before.

use serde_json::{Value, json};

use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};

/// A gateway, and somebody on this machine who must not be asked.
async fn stage(tools: Value) -> (Gateway, WsClient, MockProvider) {
    let victim = MockProvider::start().await;
    let proxy = format!("http://{}", victim.address());
    let mut config = default_config("127.0.0.1:9");
    config["tools"] = tools;
    let options = GatewayOptions::with_config(config)
        .env("HTTP_PROXY", &proxy)
        .env("HTTPS_PROXY", &proxy)
        .env("NO_PROXY", "*");
    let gateway = Gateway::start(options).await;
    let mut client = gateway.open().await;
    let hello = client.request("connect", standard_connect(&ALL_SCOPES)).await;
    assert_eq!(hello["ok"], true, "{hello}");
    (gateway, client, victim)
}

async fn fetch(client: &mut WsClient, url: &str) -> Value {
    let params = json!({"name": "web_fetch", "args": {"url": url}});
    client.request("tools.invoke", params).await["payload"].clone()
}

#[tokio::test]
async fn no_spelling_of_this_machine_reaches_what_listens_on_it() {
    let (gateway, mut client, victim) = stage(json!({})).await;
    let port = victim.address().rsplit_once(':').unwrap().1.to_owned();
    let hosts = [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "localhost.localdomain",
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "127.0.0.2",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0x7f.0x0.0x0.0x1",
        "017700000001",
        "0177.0.0.1",
        "0177.0.0.01",
        "①②⑦.⓪.⓪.①",
        "１２７.０.０.１",
        "127。0。0。1",
        "%31%32%37.0.0.1",
        "0",
        "0.0.0.0",
        "0x0",
        "00.0.0.0",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fc00::1]",
        "user@127.0.0.1",
        "user:pass@localhost",
        "example.com@127.0.0.1",
        "127.0.0.1#@example.com",
        "127.0.0.1%2f@example.com",
    ];
    for host in hosts {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{port}/v1/models");
            let answer = fetch(&mut client, &url).await;
            assert_eq!(answer["ok"], false, "{url}: {answer}");
            let told = answer["error"]["message"].as_str().unwrap();
            let is_refused = told.starts_with("Blocked:") || told.starts_with("Invalid URL:");
            assert!(is_refused, "{url}: {told}");
        }
    }
    let own = format!("http://127.0.0.1:{}/", gateway.port());
    assert_eq!(fetch(&mut client, &own).await["ok"], false);
    assert!(victim.requests().is_empty(), "{:?}", victim.requests());
}

#[tokio::test]
async fn networks_and_services_near_this_machine_are_refused_without_asking() {
    let (_gateway, mut client, _victim) = stage(json!({})).await;
    for url in [
        "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
        "http://2852039166/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://169.254.170.2/v2/credentials",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://100.100.100.200/latest/meta-data/",
        "http://168.63.129.16/machine",
        "http://192.0.0.192/latest/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://router.lan/",
        "http://printer.local/",
        "http://vault.internal/",
    ] {
        let answer = fetch(&mut client, url).await;
        let told = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{url}: {answer}"));
        assert!(told.starts_with("Blocked:"), "{url}: {told}");
    }
}

#[tokio::test]
async fn a_proxy_is_no_way_around_and_neither_is_a_header_of_the_model() {
    let (_gateway, mut client, victim) =
        stage(json!({"web": {"fetch": {"useTrustedEnvProxy": true}}})).await;
    let url = format!("http://{}/v1/models", victim.address());
    assert_eq!(fetch(&mut client, &url).await["ok"], false);
    let params = json!({"name": "web_fetch", "args": {"url": url, "headers": {"Host": "example.com"},
        "proxy": url, "allowedHostnames": ["127.0.0.1"]}});
    assert_eq!(client.request("tools.invoke", params).await["payload"]["ok"], false);
    assert!(victim.requests().is_empty());
}
