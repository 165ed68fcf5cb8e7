//! A gateway that is started with a file that it cannot use.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{config, logged, put};
use crate::stage::{Api, admin, call, until};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, program};

/// A gateway on this text of a config file.
async fn broken(text: &str, args: &[&str]) -> Result<Gateway, String> {
    broken_bytes(text.as_bytes(), args).await
}

async fn broken_bytes(text: &[u8], args: &[&str]) -> Result<Gateway, String> {
    broken_beside(text, &[], args).await
}

/// The same with these files beside it.
async fn broken_beside(
    text: &[u8],
    beside: &[(&str, &str)],
    args: &[&str],
) -> Result<Gateway, String> {
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    fs::create_dir_all(root.path().join("state")).unwrap();
    let options = GatewayOptions {
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        ..GatewayOptions::default()
    };
    fs::write(root.path().join("state/openclaw.json"), text).unwrap();
    for (name, text) in beside {
        fs::write(root.path().join("state").join(name), text).unwrap();
    }
    Gateway::start_in(root, options).await
}

fn good(mock: &MockProvider) -> Value {
    let mut config = crate::stage::config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["workspace"] = json!("~/work");
    config
}

#[tokio::test]
async fn it_waits_for_the_file_to_be_mended_and_then_goes_on_by_itself() {
    let mock = MockProvider::start().await;
    let mut wrong = good(&mock);
    wrong["gateway"]["bind"] = json!("lan");
    wrong["session"] = json!({"scope": "everybody"});
    let gateway = broken(&wrong.to_string(), &[]).await.unwrap();
    let pid = gateway.pid();
    // Nobody but this machine, and nobody without the secret.
    if let Some(ip) = outside() {
        assert!(TcpStream::connect((ip, gateway.port())).is_err(), "{ip}");
    }
    let mut params = standard_connect(&["operator.admin"]);
    params["auth"]["token"] = json!("wrong");
    assert_eq!(gateway.open().await.request("connect", params).await["ok"], false);
    let mut client = admin(&gateway).await;
    let health = call(&mut client, "health", json!({})).await;
    assert_eq!(health["configIssue"]["path"], "session.scope", "{health}");
    let refused = client.request("chat.send", json!({})).await;
    let error = &refused["error"];
    assert_eq!(error["details"]["code"], "CONFIG_INVALID", "{refused}");
    assert_eq!(error["details"]["issues"][0]["path"], "session.scope");
    assert!(error["message"].as_str().unwrap().contains("clawgate config validate"));
    let about = about(&gateway);
    assert!(about.contains("session.scope: must be one of"), "{about}");
    let seen = call(&mut client, "config.get", json!({})).await;
    assert_eq!(
        (&seen["valid"], &seen["issues"][0]["path"]),
        (&json!(false), &json!("session.scope"))
    );
    let still_wrong =
        json!({"raw": r#"{"session": {"scope": "nobody"}}"#, "baseHash": seen["hash"]});
    assert_eq!(client.request("config.patch", still_wrong).await["ok"], false);
    let raw = json!({"session": {"scope": "global"}, "gateway": {"bind": "loopback"}}).to_string();
    let mended = json!({"raw": raw, "baseHash": seen["hash"]});
    let answer = client.request("config.patch", mended).await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(client.wait_closed(super::LIMIT).await.unwrap().code, 1012);
    logged(&gateway, "model=mock/mock-1").await;
    let mut client = admin(&gateway).await;
    assert_eq!(call(&mut client, "agents.list", json!({})).await["scope"], "global");
    assert_eq!(gateway.pid(), pid, "the same process");
    assert_eq!(config(&gateway)["gateway"]["auth"]["token"], SECRET);
}

#[tokio::test]
async fn once_the_file_is_right_it_goes_over_to_the_address_of_the_file() {
    let mock = MockProvider::start().await;
    let mut config = good(&mock);
    config["gateway"]["bind"] = json!("lan");
    let right = config.to_string();
    config["session"] = json!({"scope": "everybody"});
    let gateway = broken(&config.to_string(), &[]).await.unwrap();
    put(&gateway, &right);
    logged(&gateway, &format!("ready address=0.0.0.0:{}", gateway.port())).await;
    let mut client = admin(&gateway).await;
    assert_eq!(client.request("sessions.list", json!({})).await["ok"], true);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_mended_by_hand() {
    let mock = MockProvider::start().await;
    let good = good(&mock).to_string();
    let half = good.find("\"models\"").unwrap() + 20;
    let gateway = broken(&good[..half], &[]).await.unwrap();
    logged(&gateway, "openclaw.json:1:").await;
    let mut client = admin(&gateway).await;
    let refused = client.request("sessions.list", json!({})).await;
    assert_eq!(refused["ok"], false);
    // No command finds a key in such a text, so none is named.
    let told = refused["error"]["message"].as_str().unwrap();
    assert!(told.contains("Mend it by hand;") && !told.contains("config set"), "{told}");
    let (_, [_, error]) = clawgate(&gateway, &["config", "set", "gateway.port", "5"]).await;
    let place = format!("{}:1:", gateway.config_path().display());
    assert!(error.contains(&place) && error.contains("not valid JSON5"), "{error}");
    put(&gateway, &good);
    logged(&gateway, "model=mock/mock-1").await;
    let mut client = admin(&gateway).await;
    assert_eq!(client.request("sessions.list", json!({})).await["ok"], true);
}

#[tokio::test]
async fn a_file_that_is_not_utf_8_is_waited_for_and_keeps_the_token_before_the_fault() {
    let mock = MockProvider::start().await;
    let mut text = good(&mock).to_string().into_bytes();
    let fault = text.len() - 1;
    text.splice(fault..fault, *b", \"x\": \"\xe4\"");
    let gateway = broken_bytes(&text, &[]).await.unwrap();
    logged(&gateway, "the text is not UTF-8; save it as UTF-8").await;
    let mut client = admin(&gateway).await;
    let seen = call(&mut client, "config.get", json!({})).await;
    assert_eq!(seen["valid"], false, "{seen}");
    assert!(seen["issues"].to_string().contains("openclaw.json:1:"), "{seen}");
    let write = |raw: String| json!({"raw": raw, "baseHash": seen["hash"]});
    let part = json!({"session": {"scope": "global"}}).to_string();
    let refused = client.request("config.patch", write(part)).await;
    assert!(refused["error"].to_string().contains("save it as UTF-8"), "{refused}");
    let answer = client.request("config.set", write(good(&mock).to_string())).await;
    assert_eq!(answer["ok"], true, "{answer}");
    logged(&gateway, "model=mock/mock-1").await;
    let backup = gateway.config_path().with_extension("json.bak");
    assert_eq!(fs::read(backup).unwrap(), text);
}

#[tokio::test]
async fn a_file_without_its_last_bracket_keeps_the_token_and_the_bracket_is_named() {
    let mock = MockProvider::start().await;
    let good = good(&mock).to_string();
    let gateway = broken(good.strip_suffix('}').unwrap(), &[]).await.unwrap();
    logged(&gateway, "the `{` of 1:1 is not closed").await;
    let mut client = admin(&gateway).await;
    assert_eq!(client.request("sessions.list", json!({})).await["ok"], false);
    put(&gateway, &good);
    logged(&gateway, "model=mock/mock-1").await;
    let mut client = admin(&gateway).await;
    assert_eq!(client.request("sessions.list", json!({})).await["ok"], true);
}

#[tokio::test]
async fn an_empty_file_is_none_without_settings() {
    let mock = MockProvider::start().await;
    let gateway = broken("", &[]).await.unwrap();
    logged(&gateway, "openclaw.json is empty; write {} to go on without settings").await;
    let (is_valid, [_, error]) = clawgate(&gateway, &["config", "validate"]).await;
    assert!(!is_valid && error.contains("openclaw.json is empty"), "{error}");
    let (_, [report, _]) = clawgate(&gateway, &["doctor"]).await;
    assert!(report.contains("openclaw.json is empty"), "{report}");
    put(&gateway, &good(&mock).to_string());
    logged(&gateway, "model=mock/mock-1").await;
}

#[tokio::test]
async fn an_empty_file_that_is_included_is_waited_for_too() {
    let mock = MockProvider::start().await;
    let mut config = good(&mock);
    config["tools"] = json!({"$include": "tools.json5"});
    let text = config.to_string();
    let gateway = broken_beside(text.as_bytes(), &[("tools.json5", "\n")], &[]).await.unwrap();
    logged(&gateway, "tools.json5 is empty; write {} to go on without settings. Mend it by hand;")
        .await;
    let mut client = admin(&gateway).await;
    assert_eq!(client.request("sessions.list", json!({})).await["ok"], false);
    // Nobody touches the config file itself.
    fs::write(gateway.state_dir().join("tools.json5"), "{deny: ['exec']}").unwrap();
    logged(&gateway, "model=mock/mock-1").await;
    let seen = call(&mut admin(&gateway).await, "config.get", json!({})).await;
    assert_eq!(seen["runtimeConfig"]["tools"], json!({"deny": ["exec"]}), "{seen}");
    assert!(!gateway.stderr().contains("the last good one stays"), "{}", gateway.stderr());
}

#[tokio::test]
async fn the_commands_of_its_machine_reach_it_and_hear_what_is_wrong() {
    let mock = MockProvider::start().await;
    let mut wrong = good(&mock);
    wrong["session"] = json!({"scope": "everybody"});
    let gateway = broken(&wrong.to_string(), &[]).await.unwrap();
    until("where it waits", async || gateway.stdout().contains("waits on ws://").then_some(()))
        .await;
    let (is_well, [health, _]) = clawgate(&gateway, &["health", "--json"]).await;
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(health["configIssue"]["path"], "session.scope", "{is_well}: {health}");
    let (is_read, [log, error]) = clawgate(&gateway, &["logs"]).await;
    assert!(is_read && log.contains("session.scope"), "{log} {error}");
    assert!(!error.contains("no gateway runs here"), "{error}");
    for command in [&["status"][..], &["devices", "list"]] {
        let (is_served, [_, error]) = clawgate(&gateway, command).await;
        assert!(!is_served, "{command:?}");
        let refused = format!("the config file {} cannot be used", gateway.config_path().display());
        assert!(error.contains(&refused) && error.contains("CONFIG_INVALID"), "{error}");
    }
    let (is_known, [token, error]) = clawgate(&gateway, &["token"]).await;
    assert!(is_known && error.contains("session.scope"), "{error}");
    assert_eq!(token, format!("{SECRET}\n"));
    let (_, [report, _]) = clawgate(&gateway, &["doctor"]).await;
    let running = format!("a gateway runs on this state directory, at {}", gateway.address());
    assert!(report.contains("serves nothing else, until it is mended"), "{report}");
    assert!(report.contains(&running), "{report}");
}

#[tokio::test]
async fn where_only_its_token_can_be_had_its_commands_and_it_go_by_the_same() {
    let mock = MockProvider::start().await;
    let folder = TempDir::new().unwrap();
    let (token, key) = (folder.path().join("token"), folder.path().join("key"));
    fs::write(&token, "token-of-a-file").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let mut config = good(&mock);
    let provider = |path: &Path| json!({"source": "file", "path": path, "mode": "singleValue"});
    config["secrets"] = json!({"providers": {"t": provider(&token), "k": provider(&key)}});
    let reference = |name: &str| json!({"source": "file", "provider": name, "id": "value"});
    config["gateway"]["auth"]["token"] = reference("t");
    config["models"]["providers"]["mock"]["apiKey"] = reference("k");
    let gateway = broken(&config.to_string(), &[]).await.unwrap();
    until("where it waits", async || gateway.stdout().contains("waits on ws://").then_some(()))
        .await;
    let (_, [health, error]) = clawgate(&gateway, &["health", "--json"]).await;
    assert!(health.contains("configIssue"), "{health} {error}");
    let (is_read, [_, error]) = clawgate(&gateway, &["logs"]).await;
    assert!(is_read, "{error}");
    let (is_known, [told, error]) = clawgate(&gateway, &["token"]).await;
    assert!(is_known && error.contains("waits for its config file to be mended"), "{error}");
    let generated = fs::read_to_string(gateway.state_dir().join("gateway-token")).unwrap();
    assert_eq!(told, generated);
}

#[tokio::test]
async fn an_api_that_there_is_not_leads_there_too_and_a_strict_start_ends() {
    let mock = MockProvider::start().await;
    let mut wrong = good(&mock);
    wrong["models"]["providers"]["mock"]["api"] = json!("grpc");
    let gateway = broken(&wrong.to_string(), &[]).await.unwrap();
    let health = call(&mut admin(&gateway).await, "health", json!({})).await;
    assert_eq!(health["configIssue"]["path"], "models.providers.mock.api", "{health}");
    for wrong in [wrong.to_string(), "{session: 5}".to_owned(), String::new()] {
        let error = broken(&wrong, &["--strict"]).await.err().unwrap();
        assert!(error.contains("exit status: 1"), "{error}");
    }
}

/// Whether a command on the gateway's machine goes well, and what it prints and
/// complains of.
async fn clawgate(gateway: &Gateway, args: &[&str]) -> (bool, [String; 2]) {
    let output = tokio::process::Command::new(program())
        .args(args)
        .env_clear()
        .env("HOME", gateway.home())
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .output()
        .await
        .unwrap();
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.success(), texts)
}

/// What a browser is shown.
fn about(gateway: &Gateway) -> String {
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    let host = gateway.address();
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// An address of this machine that others reach, if it has one.
fn outside() -> Option<std::net::IpAddr> {
    clawgate::support::route_to((Ipv4Addr::new(192, 0, 2, 1), 9))
}
