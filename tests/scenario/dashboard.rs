//! `clawgate dashboard` as a process: the link that it prints, where that leads,
//! and what opens it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::stage::until;
use crate::support::guest::{Guest, command, said};
use crate::support::pty::Pty;
use crate::support::{Gateway, GatewayOptions, SECRET, default_config, now_ms, program};

const SCOPES: [&str; 5] =
    ["operator.admin", "operator.read", "operator.write", "operator.approvals", "operator.pairing"];
const FIVE_MINUTES_MS: i64 = 300_000;

async fn gateway() -> Gateway {
    Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await
}

fn code_of(url: &str) -> &str {
    url.split_once("#code=").unwrap().1
}

/// A browser that has this code, and nothing else.
fn browser(name: &str, code: &str) -> Guest {
    Guest::new(name, &SCOPES).with(json!({"bootstrapToken": code}))
}

#[tokio::test]
async fn the_command_prints_a_link_whose_code_lets_one_browser_in() {
    let gateway = gateway().await;
    let output = command(&gateway, &["dashboard"]).await;
    let url = String::from_utf8(output.stdout).unwrap();
    let here = format!("http://127.0.0.1:{}/clawgate/login#code=", gateway.port());
    assert!(url.starts_with(&here) && url.lines().count() == 1, "{url}");
    let code = code_of(url.trim());
    let (mut client, auth) = browser("first", code).come(&gateway).await;
    assert_eq!(auth["role"], "operator", "{auth}");
    assert!(auth["deviceToken"].is_string() && auth["deviceTokens"].is_null(), "{auth}");
    let list = client.request("device.pair.list", json!({})).await;
    assert_eq!(list["payload"]["paired"][0]["deviceId"], browser("first", "").id());
    let (error, _) = browser("second", code).refused(&gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "{error}");

    let shown: Value =
        serde_json::from_str(&said(&gateway, &["dashboard", "--json"]).await).unwrap();
    let left = shown["expiresAtMs"].as_i64().unwrap() - now_ms();
    assert!((1..=FIVE_MINUTES_MS).contains(&left), "{shown}");
    assert_eq!((&shown["ui"], &shown["tlsFingerprint"]), (&json!("own"), &Value::Null));
    browser("third", code_of(shown["url"].as_str().unwrap())).come(&gateway).await;
}

#[tokio::test]
async fn a_login_that_is_taken_back_or_removed_is_none() {
    let gateway = gateway().await;
    let url = said(&gateway, &["dashboard", "--no-open"]).await;
    said(&gateway, &["devices", "clear", "--yes", "--codes"]).await;
    browser("late", code_of(url.trim())).refused(&gateway).await;

    let url = said(&gateway, &["dashboard", "--no-open"]).await;
    let guest = browser("ada", code_of(url.trim()));
    let (client, auth) = guest.come(&gateway).await;
    said(&gateway, &["devices", "remove", &guest.id()]).await;
    assert!(client.wait_closed(crate::support::client::SOON).await.is_some());
    let again = guest.with(json!({"deviceToken": auth["deviceToken"]}));
    let (error, _) = again.refused(&gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_DEVICE_TOKEN_MISMATCH", "{error}");
}

#[tokio::test]
async fn the_link_leads_to_where_a_browser_reaches_the_gateway() {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["tls"] = json!({"enabled": true});
    config["gateway"]["bind"] = json!("lan");
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let output = command(&gateway, &["dashboard", "--no-open"]).await;
    let (url, notes) = (text(&output.stdout), text(&output.stderr));
    let here = format!("https://127.0.0.1:{}/clawgate/login#code=", gateway.port());
    assert!(url.starts_with(&here), "{url}");
    let fingerprint = gateway.stdout();
    let fingerprint = fingerprint.split("fingerprint ").nth(1).unwrap().lines().next().unwrap();
    assert!(notes.contains(fingerprint), "{notes}");

    let public = ["dashboard", "--no-open", "--public-url", "https://gw.example/claw/"];
    let output = command(&gateway, &public).await;
    let (url, notes) = (text(&output.stdout), text(&output.stderr));
    assert!(url.starts_with("https://gw.example/claw/clawgate/login#code="), "{url}");
    let closed = "a page of https://gw.example may not connect: origin not allowed; to allow it, \
                  add \"https://gw.example\" to gateway.controlUi.allowedOrigins";
    assert!(notes.contains(closed), "{notes}");
    for open in ["https://192.0.2.7:8443", "http://localhost:8080"] {
        let output = command(&gateway, &["dashboard", "--no-open", "--public-url", open]).await;
        assert!(!text(&output.stderr).contains("may not connect"), "{output:?}");
    }
    for wrong in ["gw.example", "https://gw.example/?token=x", "https://ada@gw.example"] {
        let output = command(&gateway, &["dashboard", "--public-url", wrong]).await;
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
    let output = command(&gateway, &["dashboard", "--ui", "control"]).await;
    assert_eq!(output.status.code(), Some(2), "none is installed: {output:?}");
    assert!(text(&output.stderr).contains("clawgate ui install"), "{output:?}");
}

#[tokio::test]
async fn the_link_of_a_remote_gateway_leads_there() {
    let gateway = gateway().await;
    let home = tempfile::tempdir().unwrap();
    let url = format!("ws://localhost:{}", gateway.port());
    let config = json!({"gateway": {"mode": "remote", "remote": {"url": url, "token": SECRET}}});
    fs::write(home.path().join("openclaw.json"), config.to_string()).unwrap();
    let mut asked = on(home.path());
    let output = asked.args(["dashboard", "--no-open"]).output().unwrap();
    let printed = text(&output.stdout);
    let expected = format!("http://localhost:{}/clawgate/login#code=", gateway.port());
    assert!(printed.starts_with(&expected), "{output:?}");
    browser("ada", code_of(printed.trim())).come(&gateway).await;
}

#[tokio::test]
async fn without_a_gateway_it_says_how_to_start_one() {
    let mut gateway = gateway().await;
    gateway.kill9();
    let output = command(&gateway, &["dashboard"]).await;
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
    assert!(text(&output.stderr).contains("start one with `clawgate gateway`"), "{output:?}");
}

/// The command on another machine, with its state and config in a folder.
fn on(folder: &Path) -> Command {
    let mut command = Command::new(program());
    command.env_clear().env("HOME", folder).env("OPENCLAW_STATE_DIR", folder);
    command.env("OPENCLAW_CONFIG_PATH", folder.join("openclaw.json"));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A terminal on the gateway's machine. What opens pages there keeps a copy, notes its
/// arguments, and ends with this code.
struct Desk {
    bin: PathBuf,
    opened: PathBuf,
    arguments: PathBuf,
}

impl Desk {
    fn new(gateway: &Gateway, ends_with: u8) -> Self {
        let bin = gateway.root().join(format!("bin-{ends_with}"));
        fs::create_dir(&bin).unwrap();
        let (opened, arguments) = (bin.join("opened"), bin.join("arguments"));
        let script = format!(
            "#!/bin/sh\nprintf %s \"$*\" > '{1}'\ncp -p \"$1\" '{0}.tmp'\nmv '{0}.tmp' '{0}'\nexit {ends_with}\n",
            opened.display(),
            arguments.display()
        );
        let program = bin.join("xdg-open");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        Self { bin, opened, arguments }
    }

    fn runs(&self, gateway: &Gateway, env: &[(&str, &str)]) -> Pty {
        let mut command = Command::new(program());
        let path = format!("{}:/usr/bin:/bin", self.bin.display());
        command
            .arg("dashboard")
            .env_clear()
            .env("PATH", path)
            .env("HOME", gateway.home())
            .env("OPENCLAW_STATE_DIR", gateway.state_dir())
            .env("OPENCLAW_CONFIG_PATH", gateway.config_path())
            .envs(env.iter().copied());
        Pty::spawn(command)
    }
}

#[tokio::test]
async fn a_browser_is_opened_on_a_screen_and_over_ssh_the_way_there_is_told() {
    let gateway = gateway().await;
    let desk = Desk::new(&gateway, 0);
    let mut terminal = desk.runs(&gateway, &[("DISPLAY", ":0")]);
    terminal.shows("Opened in your browser.");
    assert!(terminal.ends().success());
    let opened = until("the page", async || fs::read_to_string(&desk.opened).ok()).await;
    let link = opened.split_once("0;url=").unwrap().1.split('"').next().unwrap();
    let here = format!("http://127.0.0.1:{}/clawgate/login#code=", gateway.port());
    assert!(link.starts_with(&here), "{opened}");
    browser("ada", code_of(link)).come(&gateway).await;
    // Arguments are seen by everybody on the machine.
    let arguments = fs::read_to_string(&desk.arguments).unwrap();
    assert_eq!(arguments, gateway.home().join("clawgate-login.html").display().to_string());
    assert_eq!(fs::metadata(&desk.opened).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!Path::new(&arguments).exists());

    fs::remove_file(&desk.opened).unwrap();
    let ssh = [
        ("SSH_CONNECTION", "203.0.113.9 50000 192.0.2.7 22"),
        ("USER", "ada"),
        ("DISPLAY", "localhost:10.0"),
    ];
    let mut terminal = desk.runs(&gateway, &ssh);
    let tunnel = format!("ssh -N -L {0}:127.0.0.1:{0} ada@192.0.2.7", gateway.port());
    terminal.shows(&tunnel);
    assert!(terminal.ends().success());
    assert!(!desk.opened.exists() && !terminal.all().contains("Opened"), "{}", terminal.all());

    let mut terminal = desk.runs(&gateway, &[]);
    assert!(terminal.ends().success());
    assert!(!desk.opened.exists(), "there is no screen");

    let broken = Desk::new(&gateway, 3);
    let mut terminal = broken.runs(&gateway, &[("WAYLAND_DISPLAY", "wayland-0")]);
    assert!(terminal.ends().success(), "the link is printed all the same");
    assert!(broken.opened.exists() && !terminal.all().contains("Opened"), "{}", terminal.all());
}
