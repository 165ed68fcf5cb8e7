//! `clawgate backup`: the state directory in one file, of a gateway at work.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::program::{clawgate, command, json_of, said};
use crate::stage::{Api, admin, ask, call, scripted, told};
use crate::support::Gateway;

const KEY: &str = "agent:main:main";

async fn backup(gateway: &Gateway, args: &[&str]) -> std::process::Output {
    clawgate(gateway, &[&["backup"], args].concat()).await
}

/// A folder for archives outside of the state directory.
fn shelf(gateway: &Gateway) -> PathBuf {
    let folder = gateway.root().join("shelf");
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Puts what is in an archive in the place of the state directory, as the help says.
fn restore(gateway: &Gateway, archive: &str) {
    let state_dir = gateway.state_dir();
    fs::rename(&state_dir, gateway.root().join("lost")).unwrap();
    fs::create_dir(&state_dir).unwrap();
    let mut tar = std::process::Command::new("tar");
    let done = tar.args(["-xzf", archive, "-C"]).arg(&state_dir).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[tokio::test]
async fn a_backup_of_a_gateway_at_work_is_that_gateway_again() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock text text=\"before\"", "run-1").await;
    let shelf = shelf(&gateway);
    let output = shelf.to_str().unwrap();
    let (is_done, mut others) = (AtomicBool::new(false), admin(&gateway).await);
    let writing = async {
        let mut count = 0;
        while count < 20 || (count < 500 && !is_done.load(Ordering::Relaxed)) {
            let note = json!({"sessionKey": KEY, "message": format!("note {count}")});
            call(&mut others, "chat.inject", note).await;
            count += 1;
        }
        count
    };
    let copying = async {
        let made = backup(&gateway, &["create", "-o", output, "--verify", "--json"]).await;
        is_done.store(true, Ordering::Relaxed);
        json_of(&made)
    };
    let (written, made) = tokio::join!(writing, copying);
    assert_eq!((&made["verified"], &made["database"]), (&json!(true), &json!(true)), "{made}");
    let archive = made["archive"].as_str().unwrap();
    assert_eq!(fs::metadata(archive).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(names(&shelf).len(), 1, "{:?}", names(&shelf));
    let all = told(&mut client, KEY).await;
    assert!(all.len() >= written, "{all:?}");

    gateway.terminate().await;
    restore(&gateway, archive);
    gateway.restart().await;
    // What had been acknowledged when the backup began is there, and nothing twice.
    let restored = told(&mut admin(&gateway).await, KEY).await;
    assert!(restored.len() >= 2 && all.starts_with(&restored), "{restored:?}");
    let rows = call(&mut admin(&gateway).await, "sessions.list", json!({})).await;
    assert!(rows.to_string().contains(KEY), "{rows}");
}

#[tokio::test]
async fn an_archive_is_whole_or_refused_and_never_written_over() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    ask(&mut admin(&gateway).await, KEY, "@mock text text=\"x\"", "run-1").await;
    gateway.terminate().await;
    let archive = shelf(&gateway).join("a.tgz");
    let (path, inside) = (archive.to_str().unwrap(), gateway.state_dir().join("b.tgz"));
    let planned = json_of(&backup(&gateway, &["create", "-o", path, "--dry-run", "--json"]).await);
    assert!(planned["files"].as_u64().unwrap() > 3 && !archive.exists(), "{planned}");
    let text = said(&backup(&gateway, &["create", "-o", path]).await);
    assert!(text.contains("keep it as you keep those"), "{text}");
    let (outside, folder) = (gateway.root().join("outside.json5"), shelf(&gateway));
    fs::write(&outside, "{}").unwrap();
    let link = gateway.state_dir().join("shelf");
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    let keys = gateway.state_dir().join("keys.json");
    std::os::unix::fs::symlink(&outside, &keys).unwrap();
    let near = gateway.state_dir().join("near");
    std::os::unix::fs::symlink(gateway.state_dir().join("clawgate.sqlite"), &near).unwrap();
    let mut planned = command(&gateway, &["backup", "create", "--dry-run", "-o", "never.tgz"]);
    let planned = planned.env("OPENCLAW_CONFIG_PATH", &outside).output().await.unwrap();
    let planned = said(&planned);
    for place in [&outside, &link, &keys] {
        let told = format!("not in it: {}\n", place.display());
        assert_eq!(planned.matches(&told).count(), 1, "{planned}");
    }
    assert!(!planned.contains(near.to_str().unwrap()), "what it leads to is in it: {planned}");
    let found = json_of(&backup(&gateway, &["verify", path, "--json"]).await);
    assert_eq!((&found["ok"], &found["database"]), (&json!(true), &json!(true)), "{found}");

    let refused = async |args: &[&str]| {
        let output = backup(&gateway, args).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let whole = fs::read(&archive).unwrap();
    let why = refused(&["create", "-o", path]).await;
    assert!(why.contains("is there already") && fs::read(&archive).unwrap() == whole, "{why}");
    let why = refused(&["create", "-o", inside.to_str().unwrap()]).await;
    assert!(why.contains("inside the state directory") && !inside.exists(), "{why}");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 0xff;
    let why = refused(&["verify", inside.to_str().unwrap()]).await;
    assert!(why.contains("cannot read") && !why.contains("no whole backup"), "{why}");
    for bytes in [&whole[..whole.len() - 9], &whole[..whole.len() / 2], &damaged, b"", b"no"] {
        fs::write(&archive, bytes).unwrap();
        let why = refused(&["verify", path]).await;
        assert!(why.contains("is no whole backup"), "{why}");
    }
    let mut tar = std::process::Command::new("tar");
    let done = tar.args(["-czf", path, "-C"]).arg(gateway.root()).arg("outside.json5").output();
    assert!(done.unwrap().status.success());
    let why = refused(&["verify", path]).await;
    assert!(why.contains("is no backup of a gateway"), "{why}");
    fs::remove_file(&archive).unwrap();
    // A path that is no text is told as well as it can be.
    let odd = folder.join(OsStr::from_bytes(b"odd\xff.tgz"));
    let mut made = command(&gateway, &["backup", "create", "--json", "-o"]);
    let made = json_of(&made.arg(&odd).output().await.unwrap());
    assert!(made["archive"].as_str().unwrap().ends_with("odd\u{fffd}.tgz"), "{made}");
    let mut verified = command(&gateway, &["backup", "verify"]);
    said(&verified.arg(&odd).output().await.unwrap());
    fs::remove_file(&odd).unwrap();
    fs::rename(gateway.state_dir(), gateway.root().join("elsewhere")).unwrap();
    let why = refused(&["create", "-o", path]).await;
    assert!(why.contains("nothing to back up") && !archive.exists(), "{why}");
}

#[tokio::test]
async fn what_the_config_names_elsewhere_is_said_to_be_missing() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let root = fs::canonicalize(gateway.root()).unwrap();
    let [place, work] = ["elsewhere", "work"].map(|name| root.join(name));
    let inside = gateway.state_dir().join("workspace-b");
    for folder in [&place, &work, &inside] {
        fs::create_dir_all(folder).unwrap();
    }
    let (config, more) = (place.join("main.json5"), place.join("more.json5"));
    let agents = json!([{"id": "a", "workspace": work}, {"id": "b", "workspace": inside},
        {"id": "c", "workspace": root.join("not-there")}]);
    fs::write(&more, json!({"agents": {"list": agents}}).to_string()).unwrap();
    fs::write(&config, json!({"$include": "./more.json5"}).to_string()).unwrap();
    let missing = async || {
        let mut planned = command(&gateway, &["backup", "create", "--dry-run", "--json"]);
        planned.args(["-o", "never.tgz"]).env("OPENCLAW_CONFIG_PATH", &config);
        let planned = json_of(&planned.output().await.unwrap());
        let all = planned["notIncluded"].as_array().unwrap().iter();
        let all = all.map(|it| PathBuf::from(it.as_str().unwrap()));
        let mut named: Vec<_> = all.filter(|it| !it.starts_with(gateway.home())).collect();
        named.sort_unstable();
        named
    };
    assert_eq!(missing().await, [&config, &more, &work].map(PathBuf::clone));
    // A key that only the gateway has hides nothing of it.
    let provider = json!({"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "${NOBODY_HAS_THIS}",
        "api": "openai-completions", "models": [{"id": "m"}]});
    let whole = json!({"agents": {"list": agents}, "models": {"providers": {"p": provider}}});
    fs::write(&more, whole.to_string()).unwrap();
    assert_eq!(missing().await, [config.clone(), more, work]);
    // A backup can be made before the config is mended.
    fs::write(&config, "{oops").unwrap();
    assert_eq!(missing().await, [config]);
}

#[tokio::test]
async fn a_folder_that_is_named_as_one_is_made_for_the_archive() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    gateway.terminate().await;
    let root = fs::canonicalize(gateway.root()).unwrap();
    let (folder, inside) = (root.join("new/er"), gateway.state_dir().join("new"));
    let output = format!("{}/", folder.display());
    let create = ["create", "--json", "-o", output.as_str()];
    let planned = json_of(&backup(&gateway, &[&create[..], &["--dry-run"]].concat()).await);
    assert!(planned["archive"].as_str().unwrap().starts_with(&output), "{planned}");
    assert!(!root.join("new").exists());
    let made = json_of(&backup(&gateway, &create).await);
    let archive = Path::new(made["archive"].as_str().unwrap());
    assert!(archive.is_file() && archive.parent() == Some(folder.as_path()), "{made}");
    let around = format!("{}/none/../state/new/", root.display());
    for output in [format!("{}/", inside.display()), around] {
        let refused = backup(&gateway, &["create", "-o", &output]).await;
        let why = String::from_utf8(refused.stderr).unwrap();
        assert!(why.contains("inside the state directory") && !inside.exists(), "{why}");
        assert!(!root.join("none").exists());
    }
    // What a kill leaves is removed by the next one, and told.
    let left = folder.join(".clawgate-backup-left.tmp");
    fs::write(&left, "secret").unwrap();
    let output = folder.join("next.tgz");
    let made = backup(&gateway, &["create", "-o", output.to_str().unwrap()]).await;
    let told = String::from_utf8(made.stderr).unwrap();
    assert!(told.contains("removed ") && told.contains("cut off") && !left.exists(), "{told}");
}

#[tokio::test]
async fn an_archive_that_leads_out_of_its_folder_is_no_backup() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    gateway.terminate().await;
    let archive = shelf(&gateway).join("out.tgz");
    let mut tar = std::process::Command::new("tar");
    tar.args(["-czPf", archive.to_str().unwrap(), "-C"]).arg(gateway.state_dir());
    let done = tar.args(["openclaw.json", "../state/openclaw.json"]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let output = backup(&gateway, &["verify", archive.to_str().unwrap()]).await;
    let why = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{why}");
    assert!(why.contains("../state/openclaw.json is outside of the folder"), "{why}");
}
