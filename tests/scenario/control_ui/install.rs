//! `clawgate ui`, with the real npm and a registry on this machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha512};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{get, without_ui};
use crate::program::command;
use crate::support::Gateway;
use crate::support::control_ui::{PAGE, write_control_ui};

const VERSION: &str = "2026.5.7";

/// A folder as npm packs it: `package/`, with a UI and other things.
fn package(version: &str) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let package = place.path().join("package");
    fs::create_dir_all(package.join("dist")).unwrap();
    let manifest = json!({"name": "openclaw", "version": version});
    fs::write(package.join("package.json"), manifest.to_string()).unwrap();
    fs::write(package.join("dist/index.js"), "throw new Error('run')\n").unwrap();
    write_control_ui(&package.join("dist/control-ui"));
    place
}

fn packed(place: &Path) -> PathBuf {
    let path = place.join("openclaw.tgz");
    let gzip = GzEncoder::new(File::create(&path).unwrap(), Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    archive.append_dir_all("package", place.join("package")).unwrap();
    archive.into_inner().unwrap().finish().unwrap();
    path
}

async fn ui(gateway: &Gateway, args: &[&str], env: &[(&str, &str)]) -> Output {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = command(gateway, &[&["ui"], args].concat());
    command.env("PATH", path).envs(env.iter().copied()).output().await.unwrap()
}

async fn said(gateway: &Gateway, args: &[&str]) -> Value {
    let output = ui(gateway, &[args, &["--json"]].concat(), &[]).await;
    assert!(output.status.success(), "{args:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn refused(gateway: &Gateway, args: &[&str], env: &[(&str, &str)]) -> String {
    let output = ui(gateway, args, env).await;
    assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// What is in the state folder that an installation could have left.
fn leftovers(gateway: &Gateway) -> Vec<String> {
    let entries = fs::read_dir(gateway.state_dir()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("control-ui") && name != "control-ui").collect()
}

#[tokio::test]
async fn a_ui_is_installed_replaced_and_removed_while_the_gateway_runs() {
    let gateway = without_ui(json!({})).await;
    assert_eq!(said(&gateway, &["status"]).await["installed"], false);
    let place = package("2026.1.1");
    let folder = place.path().join("package");
    let package = folder.display().to_string();
    let state = said(&gateway, &["install", "--from", &package]).await;
    assert_eq!((&state["installed"], &state["version"]), (&json!(true), &json!("2026.1.1")));
    assert_eq!((&state["files"], &state["fits"]), (&json!(6), &json!(VERSION)));
    assert_eq!(get(&gateway, "/").await.text().await.unwrap(), PAGE);
    assert_eq!(get(&gateway, "/.clawgate.json").await.status(), 404);

    // The next one takes the place of all of it.
    let dist = folder.join("dist/control-ui");
    fs::write(dist.join("sw.js"), "// second\n").unwrap();
    fs::remove_file(dist.join("favicon.svg")).unwrap();
    let only = dist.display().to_string();
    assert_eq!(said(&gateway, &["install", "--from", &only]).await["version"], "2026.1.1");
    assert_eq!(get(&gateway, "/sw.js").await.text().await.unwrap(), "// second\n");
    assert_eq!(get(&gateway, "/favicon.svg").await.status(), 404);

    // A bare folder does not tell its version.
    let bare = place.path().join("bare");
    write_control_ui(&bare);
    let bare = bare.display().to_string();
    assert_eq!(said(&gateway, &["install", "--from", &bare]).await["version"], Value::Null);

    let file = packed(place.path()).display().to_string();
    assert_eq!(said(&gateway, &["install", "--from", &file]).await["version"], "2026.1.1");
    assert_eq!(get(&gateway, "/sw.js").await.text().await.unwrap(), "// second\n");
    let told = ui(&gateway, &["status"], &[]).await;
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.starts_with("Control UI 2026.1.1 in ") && told.contains("serves it at"), "{told}");

    assert_eq!(said(&gateway, &["remove"]).await, json!({"removed": true}));
    assert_eq!(get(&gateway, "/sw.js").await.status(), 404);
    assert_eq!(said(&gateway, &["remove"]).await, json!({"removed": false}));
    assert_eq!(leftovers(&gateway), [""; 0]);
}

#[tokio::test]
async fn what_is_installed_beside_a_configured_folder_is_told_not_to_be_served() {
    let elsewhere = tempfile::tempdir().unwrap();
    let root = elsewhere.path().display().to_string();
    let gateway = without_ui(json!({"root": root})).await;
    let place = package("2026.1.1");
    let package = place.path().join("package").display().to_string();
    let install = ["install", "--from", package.as_str()];
    let told = ui(&gateway, &install, &[]).await;
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("/control-ui (6 files"), "{told}");
    assert!(told.contains(&format!("It is not served: the gateway serves {root},")), "{told}");
    let state = said(&gateway, &install).await;
    assert_eq!((&state["installed"], &state["url"]), (&json!(true), &Value::Null));
    assert_eq!(state["root"], root);

    let told = ui(&gateway, &["status"], &[]).await;
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.starts_with(&format!("There is no Control UI in {root}.\nPut one")), "{told}");
    assert!(told.contains("clawgate config unset gateway.controlUi.root"), "{told}");
}

#[tokio::test]
async fn a_key_that_only_the_gateway_has_is_not_needed_to_install_one() {
    let gateway = without_ui(json!({})).await;
    let provider = json!({"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "${NOBODY_HAS_THIS}",
        "api": "openai-completions", "models": [{"id": "m"}]});
    let config = gateway.root().join("keys.json");
    fs::write(&config, json!({"models": {"providers": {"p": provider}}}).to_string()).unwrap();
    let place = package("2026.1.1");
    let package = place.path().join("package").display().to_string();
    for args in [&["install", "--from", package.as_str()][..], &["status"], &["remove"]] {
        let env = [("OPENCLAW_CONFIG_PATH", config.to_str().unwrap())];
        let output = ui(&gateway, args, &env).await;
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
}

#[tokio::test]
async fn what_is_no_ui_leaves_the_one_that_is_there() {
    let gateway = without_ui(json!({})).await;
    let place = package(VERSION);
    let folder = place.path().join("package").display().to_string();
    said(&gateway, &["install", "--from", &folder]).await;
    let broken = place.path().join("broken.tgz");
    let whole = fs::read(packed(place.path())).unwrap();
    fs::write(&broken, &whole[..whole.len() / 2]).unwrap();
    let broken = broken.display().to_string();
    let text = place.path().join("text.tgz");
    fs::write(&text, "no archive").unwrap();
    let text = text.display().to_string();
    let linked = place.path().join("linked");
    write_control_ui(&linked);
    std::os::unix::fs::symlink("/etc/passwd", linked.join("assets/x.js")).unwrap();
    let linked = linked.display().to_string();
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().display().to_string();
    for (from, expected) in [
        (&*broken, "is no npm package with a Control UI"),
        (&*text, "is no npm package with a Control UI"),
        (&*linked, "assets/x.js is neither a file nor a folder"),
        (&*empty, "there is no index.html"),
        ("/nowhere/at/all", "cannot install from /nowhere/at/all"),
    ] {
        let told = refused(&gateway, &["install", "--from", from], &[]).await;
        assert!(told.contains(expected), "{told}");
        assert_eq!(get(&gateway, "/").await.text().await.unwrap(), PAGE, "{from}");
    }
    assert_eq!(said(&gateway, &["status"]).await["version"], VERSION);
    assert_eq!(leftovers(&gateway), [""; 0]);
    for wrong in
        [&["install", "--version", "--help"][..], &["install", "--version", "a", "--from", "b"]]
    {
        assert_eq!(ui(&gateway, wrong, &[]).await.status.code(), Some(2), "{wrong:?}");
    }
}

/// A registry that has one version.
#[allow(clippy::disallowed_methods)] // no supervisor in a test
async fn serve_package(package: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let integrity = format!("sha512-{}", STANDARD.encode(Sha512::digest(&package)));
    let tarball = format!("{address}/openclaw/-/openclaw-{VERSION}.tgz");
    let about = json!({
        "name": "openclaw",
        "dist-tags": {"latest": VERSION},
        "versions": {VERSION: {
            "name": "openclaw", "version": VERSION,
            "dist": {"tarball": tarball, "integrity": integrity},
        }},
    });
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let (about, package) = (about.to_string().into_bytes(), package.clone());
            tokio::spawn(async move {
                let mut request = vec![0; 16 * 1024];
                let read = socket.read(&mut request).await.unwrap_or_default();
                let is_package = String::from_utf8_lossy(&request[..read]).contains(".tgz");
                let (kind, body) =
                    if is_package { ("octet-stream", package) } else { ("json", about) };
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/{kind}\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n",
                    body.len()
                );
                let _ = socket.write_all(head.as_bytes()).await;
                let _ = socket.write_all(&body).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn npm_fetches_the_version_that_fits_and_what_it_says_becomes_what_to_do() {
    let gateway = without_ui(json!({})).await;
    let place = package(VERSION);
    let registry = serve_package(fs::read(packed(place.path())).unwrap()).await;
    let env = |registry| [("npm_config_registry", registry), ("npm_config_fetch_retries", "0")];
    let installed = ui(&gateway, &["install", "--json"], &env(&registry)).await;
    assert!(installed.status.success(), "{installed:?}");
    let told = String::from_utf8_lossy(&installed.stderr);
    assert!(told.contains("fetching openclaw@"), "it takes long: {told}");
    assert_eq!(said(&gateway, &["status"]).await["version"], VERSION);
    assert_eq!(get(&gateway, "/chat").await.text().await.unwrap(), PAGE);

    let unknown = ["install", "--version", "1.0.0"];
    let told = refused(&gateway, &unknown, &env(&registry)).await;
    assert!(told.contains("there is no openclaw@1.0.0 for npm"), "{told}");
    let told = refused(&gateway, &["install"], &env("http://127.0.0.1:9")).await;
    assert!(told.contains("npm does not reach its registry"), "{told}");
    assert!(told.contains(&format!("openclaw-{VERSION}.tgz")) && told.contains("--from"), "{told}");
    let nowhere = gateway.home().join("no-programs").display().to_string();
    let told = refused(&gateway, &["install"], &[("PATH", &nowhere)]).await;
    assert!(told.contains("npm is not here: install Node.js"), "{told}");
    assert_eq!(get(&gateway, "/chat").await.text().await.unwrap(), PAGE, "what was there stays");
    assert_eq!(leftovers(&gateway), [""; 0]);
}
