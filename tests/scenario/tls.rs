//! `wss`: the gateway's own certificate, somebody else's, and a new one.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clawgate::support::Fingerprint;
use rustix::process::Signal;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::reload::{put, signal};
use crate::stage::{call, until};
use crate::support::client::{ALL_SCOPES, SOON, WsClient, standard_connect};
use crate::support::{Gateway, GatewayOptions, SECRET, default_config, node, program, tls};

/// A connection that does not become a WebSocket lasts 15 s.
const SILENCE_LIMIT: Duration = Duration::from_secs(25);

async fn gateway(settings: Value) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["tls"] = settings;
    Gateway::start(GatewayOptions::with_config(config)).await
}

fn own_certificate(gateway: &Gateway) -> PathBuf {
    gateway.state_dir().join("gateway/tls/gateway-cert.pem")
}

fn fingerprint(certificate: &Path) -> Fingerprint {
    Fingerprint::of(&CertificateDer::from_pem_file(certificate).unwrap())
}

async fn admin(gateway: &Gateway, trusted: &Path) -> WsClient {
    let mut client = tls::open(gateway.port(), trusted).await.unwrap();
    let hello = client.request("connect", standard_connect(&ALL_SCOPES)).await;
    assert_eq!(hello["ok"], true, "{hello}");
    client
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_gateway_makes_its_own_certificate_and_says_its_fingerprint() {
    let mut gateway = gateway(json!({"enabled": true})).await;
    let certificate = own_certificate(&gateway);
    let first = fingerprint(&certificate);
    let said = format!("  TLS       SHA-256 fingerprint {first}\n");
    assert!(gateway.stdout().contains(&said), "{}", gateway.stdout());
    assert!(gateway.stdout().contains(&format!("wss://127.0.0.1:{}", gateway.port())));
    assert_eq!(mode(&certificate), 0o644);
    assert_eq!(mode(&certificate.with_file_name("gateway-key.pem")), 0o600);
    let mut client = admin(&gateway, &certificate).await;
    call(&mut client, "health", json!({})).await;
    gateway.restart().await;
    assert_eq!(fingerprint(&certificate), first, "it is kept");
    admin(&gateway, &certificate).await;
}

#[tokio::test]
async fn frames_of_any_size_go_through_tls() {
    let gateway = gateway(json!({"enabled": true})).await;
    let mut client = admin(&gateway, &own_certificate(&gateway)).await;
    call(&mut client, "sessions.create", json!({"key": "main"})).await;
    let text = "large ".repeat(1200);
    for _ in 0..60 {
        call(&mut client, "chat.inject", json!({"sessionKey": "main", "message": text})).await;
    }
    let told = call(&mut client, "chat.history", json!({"sessionKey": "main"})).await;
    let messages = told["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 60);
    assert!(told.to_string().len() > 400_000);
    assert!(messages.iter().all(|message| message.to_string().contains(text.trim_end())));
}

#[tokio::test]
async fn plain_clients_and_strangers_certificates_are_refused() {
    let gateway = gateway(json!({"enabled": true})).await;
    assert!(WsClient::open_with(&gateway.address(), "/", &[]).await.is_err());
    let other = Pair::new(&gateway, "other");
    assert!(tls::connect(gateway.port(), &other.cert).await.is_err());
    let mut client = admin(&gateway, &own_certificate(&gateway)).await;
    call(&mut client, "health", json!({})).await;
}

#[tokio::test]
async fn who_is_silent_instead_of_beginning_tls_is_cut() {
    let gateway = gateway(json!({"enabled": true})).await;
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let mut nothing = Vec::new();
    let read = timeout(SILENCE_LIMIT, tcp.read_to_end(&mut nothing)).await;
    // Either way it ends: with a reset when the gateway was quick.
    let _ = read.expect("the gateway ends the connection");
}

/// A certificate for `localhost` of somebody else's making.
struct Pair {
    cert: PathBuf,
    key: PathBuf,
}

impl Pair {
    fn new(gateway: &Gateway, name: &str) -> Self {
        Self::write(gateway.root(), name)
    }

    fn write(folder: &Path, name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let pair = Self {
            cert: folder.join(format!("{name}-cert.pem")),
            key: folder.join(format!("{name}-key.pem")),
        };
        fs::write(&pair.cert, made.cert.pem()).unwrap();
        fs::write(&pair.key, made.signing_key.serialize_pem()).unwrap();
        pair
    }

    fn replace(&self, other: &Self) {
        fs::copy(&self.key, &other.key).unwrap();
        fs::copy(&self.cert, &other.cert).unwrap();
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_served_and_open_connections_stay() {
    let folder = TempDir::new().unwrap();
    let served = Pair::write(folder.path(), "served");
    let old = Pair::write(folder.path(), "old");
    served.replace(&old);
    let gateway = gateway(json!({
        "enabled": true, "certPath": served.cert, "keyPath": served.key,
    }))
    .await;
    let mut before = admin(&gateway, &old.cert).await;

    let next = Pair::write(folder.path(), "next");
    next.replace(&served);
    let connect = || async { tls::connect(gateway.port(), &next.cert).await.ok() };
    until("the new certificate", connect).await;
    assert!(tls::connect(gateway.port(), &old.cert).await.is_err());
    call(&mut before, "health", json!({})).await;

    fs::write(&served.cert, "-----BEGIN CERTIFICATE-----\nnothing").unwrap();
    let told =
        || async { gateway.stderr().contains("the new certificate is of no use").then_some(()) };
    until("a complaint about the certificate", told).await;
    admin(&gateway, &next.cert).await;
    // Nobody asks for a new look.
    until("the fault", async || {
        let wrong = call(&mut before, "health", json!({})).await["services"]["tls"]["error"].take();
        wrong.as_str()?.contains("there is no certificate in").then_some(())
    })
    .await;
    next.replace(&served);
    let is_well = json!({"ok": true});
    until("its end", async || {
        let health = call(&mut before, "health", json!({})).await;
        (health["services"]["tls"] == is_well).then_some(())
    })
    .await;
}

/// How it is now.
async fn health(client: &mut WsClient) -> Value {
    call(client, "health", json!({"probe": true})).await
}

/// Whether this is wrong with the config now, or nothing is.
async fn has_fault(client: &mut WsClient, path: Option<&str>) -> Option<()> {
    (health(client).await["configIssue"]["path"].as_str() == path).then_some(())
}

#[tokio::test]
async fn no_restart_is_begun_without_a_certificate_that_can_be_used() {
    let folder = TempDir::new().unwrap();
    let served = Pair::write(folder.path(), "served");
    let gateway = gateway(json!({
        "enabled": true, "certPath": served.cert, "keyPath": served.key,
    }))
    .await;
    let mut client = admin(&gateway, &served.cert).await;
    let key = fs::read(&served.key).unwrap();
    fs::copy(Pair::write(folder.path(), "next").key, &served.key).unwrap();
    let hash = call(&mut client, "config.get", json!({})).await["hash"].clone();
    let raw = json!({"gateway": {"bind": "lan"}}).to_string();
    let refused = client.request("config.patch", json!({"raw": raw, "baseHash": hash})).await;
    let issue = &refused["error"]["details"]["issues"][0];
    assert_eq!(issue["path"], "gateway.tls", "{refused}");
    signal(&gateway, Signal::USR1);
    until("the fault", async || has_fault(&mut client, Some("gateway.tls")).await).await;
    fs::write(&served.key, key).unwrap();
    until("its end", async || has_fault(&mut client, None).await).await;
    assert!(client.closed().is_none());
    // Nor is one made in the place of another that was lost.
    let lost = Pair::write(folder.path(), "lost");
    served.replace(&lost);
    for file in [&served.cert, &served.key] {
        fs::remove_file(file).unwrap();
    }
    signal(&gateway, Signal::USR1);
    until("the loss", async || has_fault(&mut client, Some("gateway.tls")).await).await;
    assert!(!served.cert.exists() && client.closed().is_none());
    lost.replace(&served);
    until("its end", async || has_fault(&mut client, None).await).await;
    signal(&gateway, Signal::USR1);
    assert_eq!(client.wait_closed(SOON).await.unwrap().code, 1012);
    admin(&gateway, &served.cert).await;
}

#[tokio::test]
async fn commands_on_this_machine_know_the_certificate_in_use_while_it_is_renewed() {
    let folder = TempDir::new().unwrap();
    let served = Pair::write(folder.path(), "served");
    let gateway = gateway(json!({
        "enabled": true, "certPath": served.cert, "keyPath": served.key,
    }))
    .await;
    let asked = async || clawgate(&gateway, &gateway.state_dir(), &["call", "health"]).await;
    let next = Pair::write(folder.path(), "next");
    // The certificate is there, and its key is not yet; then it is none, or gone.
    fs::copy(&next.cert, &served.cert).unwrap();
    let (ok, text) = asked().await;
    assert!(ok, "{text}");
    fs::write(&served.cert, "nothing").unwrap();
    let (ok, text) = asked().await;
    assert!(ok, "{text}");
    fs::remove_file(&served.cert).unwrap();
    let (ok, text) = asked().await;
    assert!(ok, "{text}");
    next.replace(&served);
    let connect = || async { tls::connect(gateway.port(), &next.cert).await.ok() };
    until("the new certificate", connect).await;
    // What is in use is told after it is.
    until("the new pin", async || asked().await.0.then_some(())).await;
    fs::remove_file(&served.cert).unwrap();
    let (ok, text) = asked().await;
    assert!(ok, "{text}");
}

#[tokio::test]
async fn who_goes_on_has_the_certificate_that_is_gone_by_then() {
    let folder = TempDir::new().unwrap();
    let (one, next) = (Pair::write(folder.path(), "one"), Pair::write(folder.path(), "next"));
    let known = folder.path().join("known.pem");
    fs::copy(&one.cert, &known).unwrap();
    let gateway = gateway(json!({"enabled": true, "certPath": one.cert, "keyPath": one.key})).await;
    let client = admin(&gateway, &known).await;
    for file in [&one.cert, &one.key] {
        fs::remove_file(file).unwrap();
    }
    // Nobody can listen everywhere while somebody does at one address.
    let _stranger = TcpListener::bind(("127.0.0.2", gateway.port())).unwrap();
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["gateway"]["bind"] = json!("lan");
    config["gateway"]["tls"]["certPath"] = json!(next.cert);
    config["gateway"]["tls"]["keyPath"] = json!(next.key);
    put(&gateway, &config.to_string());
    assert_eq!(client.wait_closed(SOON).await.unwrap().code, 1012);
    let is_ready = || gateway.stderr().matches("ready address").count() == 2;
    until("who goes on", async || is_ready().then_some(())).await;
    let mut client = admin(&gateway, &known).await;
    has_fault(&mut client, Some("gateway.port")).await.expect("the fault");
}

#[tokio::test]
async fn a_gateway_without_a_usable_certificate_does_not_start() {
    let folder = TempDir::new().unwrap();
    let (one, other) = (Pair::write(folder.path(), "one"), Pair::write(folder.path(), "other"));
    for (settings, said) in [
        (json!({"certPath": one.cert, "keyPath": other.key}), "cannot be used with"),
        (
            json!({"certPath": one.cert, "keyPath": "/nowhere/key.pem"}),
            "/nowhere/key.pem is missing",
        ),
        (
            json!({"certPath": "/nowhere/cert.pem", "keyPath": one.key}),
            "/nowhere/cert.pem is missing",
        ),
        (json!({"certPath": one.key, "keyPath": one.key}), "there is no certificate in"),
        (json!({"certPath": one.cert, "keyPath": one.cert}), "there is no private key in"),
        (json!({"autoGenerate": false}), "gateway-cert.pem is missing"),
    ] {
        let mut config = default_config("127.0.0.1:9");
        config["gateway"]["tls"] = settings;
        config["gateway"]["tls"]["enabled"] = json!(true);
        let failed = Gateway::try_start(GatewayOptions::with_config(config)).await;
        let Err(error) = failed else { panic!("it started: {said}") };
        assert!(error.contains(said), "{said} is not in {error}");
    }
}

/// What `clawgate …` printed, and how it ended.
async fn clawgate(gateway: &Gateway, state: &Path, args: &[&str]) -> (bool, String) {
    clawgate_with(gateway, state, args, None).await
}

/// The same where the environment names authorities.
async fn clawgate_with(
    gateway: &Gateway,
    state: &Path,
    args: &[&str],
    authorities: Option<&Path>,
) -> (bool, String) {
    let mut command = Command::new(program());
    command
        .args(args)
        .env_clear()
        .env("HOME", gateway.home())
        .env("OPENCLAW_STATE_DIR", state)
        .stdin(Stdio::null());
    if let Some(file) = authorities {
        command.env("NODE_EXTRA_CA_CERTS", file);
    }
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = [ran.stdout, ran.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (ran.status.success(), text)
}

#[tokio::test]
async fn commands_on_this_machine_know_the_certificate_and_others_pin_it() {
    let gateway = gateway(json!({"enabled": true})).await;
    let (ok, text) = clawgate(&gateway, &gateway.state_dir(), &["health"]).await;
    assert!(ok, "{text}");
    let localhost = format!("wss://localhost:{}", gateway.port());
    let call = ["call", "health", "--url", &localhost, "--token", SECRET];
    let (ok, text) = clawgate(&gateway, &gateway.state_dir(), &call).await;
    assert!(ok, "{text}");
    // What the state directory has of a token is not for whoever listens there.
    let (ok, text) = clawgate(&gateway, &gateway.state_dir(), &call[..4]).await;
    assert!(!ok && text.contains("pass --token or --password"), "{text}");

    // From a machine that knows nothing of this gateway.
    let elsewhere = gateway.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let pin = fingerprint(&own_certificate(&gateway)).to_string();
    let pinned = [&call[..], &["--tls-fingerprint", &pin]].concat();
    let (ok, text) = clawgate(&gateway, &elsewhere, &pinned).await;
    assert!(ok, "{text}");
    let wrong = Fingerprint::of(b"another").to_string();
    let (ok, text) =
        clawgate(&gateway, &elsewhere, &[&call[..], &["--tls-fingerprint", &wrong]].concat()).await;
    assert!(!ok && text.contains(&pin) && text.contains(&wrong), "{text}");
    let (ok, text) = clawgate(&gateway, &elsewhere, &call).await;
    assert!(!ok && text.contains("--tls-fingerprint"), "{text}");

    let remote = json!({"gateway": {"mode": "remote", "remote": {
        "url": localhost, "token": SECRET, "tlsFingerprint": format!("sha256:{pin}"),
    }}});
    fs::write(elsewhere.join("openclaw.json"), remote.to_string()).unwrap();
    let (ok, text) = clawgate(&gateway, &elsewhere, &["status"]).await;
    assert!(ok && text.contains(&localhost), "{text}");
}

#[tokio::test]
async fn commands_believe_the_authorities_that_the_environment_names() {
    let gateway = gateway(json!({"enabled": true})).await;
    let certificate = own_certificate(&gateway);
    let url = format!("wss://localhost:{}", gateway.port());
    let call = ["call", "health", "--url", &url, "--token", SECRET];
    let elsewhere = gateway.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let (ok, text) = clawgate(&gateway, &elsewhere, &call).await;
    assert!(!ok && text.contains("NODE_EXTRA_CA_CERTS"), "{text}");
    let (ok, text) = clawgate_with(&gateway, &elsewhere, &call, Some(&certificate)).await;
    assert!(ok, "{text}");
    for wrong in [gateway.config_path(), elsewhere.join("gone.pem")] {
        let (ok, text) = clawgate_with(&gateway, &elsewhere, &call, Some(&wrong)).await;
        let said = format!(
            "NODE_EXTRA_CA_CERTS is left out: no certificates can be read from {}: ",
            wrong.display(),
        );
        assert!(!ok && text.contains(&said), "{text}");
        // Who is believed without it still is.
        let own = gateway.state_dir();
        let (ok, text) = clawgate_with(&gateway, &own, &["health"], Some(&wrong)).await;
        assert!(ok && text.contains(&said), "{text}");
    }
    let dotenv = format!("NODE_EXTRA_CA_CERTS={}\n", certificate.display());
    fs::write(elsewhere.join(".env"), dotenv).unwrap();
    let (ok, text) = clawgate(&gateway, &elsewhere, &call).await;
    assert!(ok, "{text}");
}

/// A client that others wrote, with Node's TLS.
#[tokio::test]
async fn a_client_for_node_connects_with_the_certificate() {
    let gateway = gateway(json!({"enabled": true})).await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/wss.mjs");
    let mut command = Command::new("node");
    command
        .arg(script)
        .arg(format!("wss://localhost:{}/", gateway.port()))
        .arg(own_certificate(&gateway))
        .arg(SECRET)
        .env("NODE_PATH", node::package("ws").parent().unwrap())
        .stdin(Stdio::null());
    let running = tokio::task::spawn_blocking(move || command.output().unwrap());
    let ran = timeout(SOON * 3, running).await.expect("the client ends").unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
    let hello: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(hello["payload"]["type"], "hello-ok", "{hello}");
}
