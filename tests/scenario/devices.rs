//! How devices are paired, from the first connect to the last.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use clawgate::auth::DeviceIdentity;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::program::clawgate;
use crate::stage::{admin, call, refusal, until};
use crate::support::client::SOON;
use crate::support::guest::{FAR, Guest, command, proxied_config, said};
use crate::support::pty::Pty;
use crate::support::{Gateway, GatewayOptions, SECRET, default_config, program};

async fn gateway() -> Gateway {
    Gateway::start(GatewayOptions::with_config(proxied_config())).await
}

/// One line at the control socket, from somebody with this key file.
async fn at_the_socket(gateway: &Gateway, line: &str) -> Value {
    let key = gateway.state_dir().join("identity/device.json");
    let identity = DeviceIdentity::load(&key).unwrap().unwrap();
    say_with(gateway, &identity, line).await
}

async fn say_with(gateway: &Gateway, identity: &DeviceIdentity, line: &str) -> Value {
    let mut stream = proved(gateway, identity).await;
    serde_json::from_str(&say(&mut stream, line).await.unwrap()).unwrap()
}

/// A connection of the control socket with the proof of this key.
async fn proved(gateway: &Gateway, identity: &DeviceIdentity) -> BufReader<UnixStream> {
    let stream = UnixStream::connect(gateway.state_dir().join("clawgate.sock")).await.unwrap();
    let mut stream = BufReader::new(stream);
    let mut greeting = String::new();
    stream.read_line(&mut greeting).await.unwrap();
    let greeting: Value = serde_json::from_str(&greeting).unwrap();
    let text = format!("clawgate control socket|{}", greeting["nonce"].as_str().unwrap());
    let proof = json!({"signature": identity.sign(&text)});
    stream.get_mut().write_all(format!("{proof}\n").as_bytes()).await.unwrap();
    stream
}

/// The answer to a line; nothing or an error when the other end has gone.
async fn say(stream: &mut BufReader<UnixStream>, line: &str) -> std::io::Result<String> {
    // Whoever hears no more may have said why before.
    let _ = stream.get_mut().write_all(format!("{line}\n").as_bytes()).await;
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_device_of_this_machine_is_paired_at_once_and_its_token_outlasts_a_restart() {
    let mut gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    let guest = Guest::new("laptop", &["operator.write"]);
    let (_client, auth) = guest.come(&gateway).await;
    assert_eq!(auth["scopes"], json!(["operator.read", "operator.write"]));
    let resolved = operator.wait_for(SOON, |frame| frame["event"] == "device.pair.resolved").await;
    assert_eq!(resolved.unwrap()["payload"]["deviceId"], guest.id());
    let token = auth["deviceToken"].as_str().unwrap().to_owned();
    assert_eq!(guest.token(&gateway).await, token, "the same again");
    let list = call(&mut operator, "device.pair.list", json!({})).await;
    assert_eq!(list["paired"][0]["tokens"][0]["role"], "operator");
    assert!(!list.to_string().contains(&token));
    gateway.restart().await;
    assert_eq!(guest.token(&gateway).await, token);
    let alone = guest.with(json!({"deviceToken": token})).far();
    let (mut client, auth) = alone.come(&gateway).await;
    assert_eq!(auth["deviceToken"], token);
    assert_eq!(client.request("last-heartbeat", json!({})).await["ok"], true);
}

#[tokio::test]
async fn a_device_from_elsewhere_gets_in_with_the_command_that_the_error_names() {
    let gateway = gateway().await;
    let operator = admin(&gateway).await;
    let guest = Guest::new("phone", &["operator.read"]).far();
    let (error, closed) = guest.refused(&gateway).await;
    let details = &error["details"];
    let id = details["requestId"].as_str().unwrap();
    assert_eq!(error["message"], "pairing required: device is not approved yet");
    assert_eq!(details["reason"], "not-paired");
    assert!(details["expiresAtMs"].as_i64().unwrap() > crate::support::now_ms());
    assert_eq!(closed.reason, format!("{} (requestId: {id})", error["message"].as_str().unwrap()));
    let asked = operator.wait_for(SOON, |frame| frame["event"] == "device.pair.requested").await;
    let asked = asked.unwrap()["payload"].clone();
    assert_eq!((&asked["requestId"], &asked["remoteIp"]), (&json!(id), &json!(FAR)));
    assert_eq!(guest.asks(&gateway).await, id, "asking again changes nothing");
    let shown = said(&gateway, &["devices", "approve"]).await;
    assert!(shown.contains(id) && shown.contains(FAR), "{shown}");
    let line = details["approveCommand"].as_str().unwrap();
    let words: Vec<&str> = line.strip_prefix("clawgate ").unwrap().split(' ').collect();
    assert!(said(&gateway, &words).await.contains(&guest.id()));
    let (_client, auth) = guest.come(&gateway).await;
    assert_eq!(auth["scopes"], json!(["operator.read"]));
    let none = command(&gateway, &["devices", "approve", "--latest"]).await;
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("Nothing waits for approval."));
    let again = command(&gateway, &words).await;
    assert!(!again.status.success(), "it is approved once");
    let told = String::from_utf8(again.stderr).unwrap();
    assert!(told.contains("unknown requestId; `clawgate devices list` shows"), "{told}");
    for unknown in
        [&["reject", "x"][..], &["remove", "x"], &["revoke", "--device", "x", "--role", "node"]]
    {
        let output = command(&gateway, &[&["devices"], unknown].concat()).await;
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("; `clawgate devices list` shows"), "{unknown:?}: {told}");
        assert_eq!(output.status.code(), Some(1));
    }
    // The list has the device: there is nothing new to see.
    let id = guest.id();
    let other = command(&gateway, &["devices", "revoke", "--device", &id, "--role", "node"]).await;
    let told = String::from_utf8(other.stderr).unwrap();
    assert!(told.contains("denied") && !told.contains("clawgate devices list"), "{told}");
}

#[tokio::test]
async fn a_node_is_paired_from_near_and_by_approval_from_afar() {
    let gateway = gateway().await;
    let (mut near, auth) = Guest::node("camera").come(&gateway).await;
    assert_eq!((&auth["role"], &auth["scopes"]), (&json!("node"), &json!([])));
    assert!(auth["deviceToken"].is_string());
    assert_eq!(refusal(&mut near, "last-heartbeat", json!({})).await, "unauthorized role: node");
    let far = Guest::node("sensor").far();
    let id = far.asks(&gateway).await;
    let mut operator = admin(&gateway).await;
    call(&mut operator, "device.pair.approve", json!({"requestId": id})).await;
    let token = far.token(&gateway).await;
    let (_client, auth) = far.clone().with(json!({"deviceToken": token})).come(&gateway).await;
    assert_eq!(auth["role"], "node");
    let operator_role = Guest::new("sensor", &[]).far().with(json!({"deviceToken": token}));
    let (error, _) = operator_role.refused(&gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_DEVICE_TOKEN_MISMATCH", "it is a node's token");
}

#[tokio::test]
async fn a_phone_that_has_nothing_but_its_token_outlasts_an_update_and_an_approval() {
    let gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    let issued = call(&mut operator, "device.pair.setupCode", json!({})).await;
    let phone = |platform: &str, family: &str, auth: Value| {
        let guest = Guest::node("phone").far().with(auth);
        guest.says("platform", platform).says("deviceFamily", family)
    };
    let code = json!({"bootstrapToken": issued["bootstrapToken"]});
    let token = phone("iOS 18.4.0", "iPhone", code).token(&gateway).await;
    let own = || json!({"deviceToken": token});
    phone("iOS 18.5.0", "iPhone", own()).come(&gateway).await;
    let list = call(&mut operator, "device.pair.list", json!({})).await;
    assert_eq!(list["paired"][0]["platform"], "iOS 18.5.0", "{list}");

    let moved = phone("iOS 18.5.0", "iPad", own());
    let (error, _) = moved.refused(&gateway).await;
    assert_eq!(error["details"]["reason"], "metadata-upgrade", "{error}");
    let request = json!({"requestId": error["details"]["requestId"]});
    call(&mut operator, "device.pair.approve", request).await;
    let (_client, auth) = moved.come(&gateway).await;
    assert_eq!(auth["deviceToken"], token, "it could not get to know another one");
}

#[tokio::test]
async fn a_device_of_this_machine_is_paired_for_either_role_first() {
    let gateway = gateway().await;
    for name in ["node first", "operator first"] {
        let (node, operator) = (Guest::node(name), Guest::new(name, &["operator.write"]));
        let in_order = if name == "node first" { [node, operator] } else { [operator, node] };
        for guest in &in_order {
            guest.come(&gateway).await;
        }
    }
    Guest::node("near").come(&gateway).await;
    let (error, _) = Guest::new("near", &["operator.read"]).far().refused(&gateway).await;
    assert_eq!(error["details"]["reason"], "role-upgrade", "{error}");
}

#[tokio::test]
async fn the_command_line_manages_devices_without_a_token() {
    let gateway = gateway().await;
    let (kept, _) = Guest::new("kept", &["operator.read"]).come(&gateway).await;
    let lost = Guest::new("lost", &["operator.read"]);
    let token = lost.token(&gateway).await;
    let id = lost.id();
    let list: Value =
        serde_json::from_str(&said(&gateway, &["devices", "list", "--json"]).await).unwrap();
    assert_eq!(list["paired"].as_array().unwrap().len(), 2);
    let table = said(&gateway, &["devices", "list"]).await;
    assert!(table.contains(&id) && table.contains("this machine"), "{table}");
    assert!(!table.contains(&token));
    let role = ["--device", &id, "--role", "operator"];
    said(&gateway, &[&["devices", "rotate"], &role[..]].concat()).await;
    let old = lost.clone().with(json!({"deviceToken": token}));
    assert_eq!(old.refused(&gateway).await.0["details"]["code"], "AUTH_DEVICE_TOKEN_MISMATCH");
    let new = lost.token(&gateway).await;
    assert_ne!(new, token);
    said(&gateway, &[&["devices", "revoke"], &role[..]].concat()).await;
    let revoked = lost.clone().with(json!({"deviceToken": new}));
    revoked.refused(&gateway).await;
    said(&gateway, &["devices", "remove", &id]).await;
    let stranger = Guest::new("stranger", &["operator.admin"]).far();
    let request = stranger.asks(&gateway).await;
    said(&gateway, &["devices", "reject", &request]).await;
    assert_ne!(stranger.asks(&gateway).await, request);
    assert_eq!(command(&gateway, &["devices", "clear"]).await.status.code(), Some(2));
    let cleared = said(&gateway, &["devices", "clear", "--yes", "--pending", "--json"]).await;
    let cleared: Value = serde_json::from_str(&cleared).unwrap();
    assert_eq!(cleared["removedDevices"], json!([Guest::new("kept", &[]).id()]));
    assert_eq!(cleared["rejectedPending"].as_array().unwrap().len(), 1);
    assert_eq!(kept.wait_closed(SOON).await.unwrap().code, 4001);
    let help = said(&gateway, &["devices", "--help"]).await;
    for name in ["list", "approve", "reject", "remove", "revoke", "rotate", "clear"] {
        assert!(help.contains(name), "{help}");
    }
}

/// What the command tells on the machine of a gateway, with this config and these
/// variables.
async fn told(gateway: &Gateway, config: &Path, env: &[(&str, &str)], args: &[&str]) -> Value {
    let mut command = tokio::process::Command::new(program());
    command
        .args(args)
        .arg("--json")
        .env_clear()
        .env("HOME", gateway.home())
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .env("OPENCLAW_CONFIG_PATH", config)
        .envs(env.iter().copied());
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn who_means_another_gateway_does_not_get_the_one_that_runs_here() {
    let start = || Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9")));
    let (here, other) = (start().await, start().await);
    let (near, far) =
        (Guest::new("near", &["operator.read"]), Guest::new("far", &["operator.read"]));
    near.come(&here).await;
    far.come(&other).await;
    let remote = here.root().join("remote.json");
    let url = format!("ws://{}", other.address());
    let config = json!({"gateway": {"mode": "remote", "remote": {"url": url, "token": SECRET}}});
    std::fs::write(&remote, config.to_string()).unwrap();
    let (own, local, port) =
        (here.port().to_string(), here.config_path(), other.port().to_string());
    let none: &[(&str, &str)] = &[];
    let by_port: &[(&str, &str)] = &[("OPENCLAW_GATEWAY_PORT", port.as_str())];
    let by_own_port: &[(&str, &str)] = &[("OPENCLAW_GATEWAY_PORT", own.as_str())];
    let by_url: &[(&str, &str)] = &[("OPENCLAW_GATEWAY_URL", url.as_str())];
    for (config, env, gateway, guest) in [
        (&local, none, &here, &near),
        (&local, by_own_port, &here, &near),
        (&local, by_port, &other, &far),
        (&local, by_url, &other, &far),
        (&remote, none, &other, &far),
    ] {
        let list = told(&here, config, env, &["devices", "list"]).await;
        let ids: Vec<_> =
            list["paired"].as_array().unwrap().iter().map(|it| &it["deviceId"]).collect();
        assert_eq!(ids, [&json!(guest.id())], "{env:?}");
        let link = told(&here, config, env, &["dashboard"]).await;
        let expected = format!("http://{}/", gateway.address());
        assert!(link["url"].as_str().unwrap().starts_with(&expected), "{env:?}");
    }
    let cleared = told(&here, &local, by_port, &["devices", "clear", "--yes"]).await;
    assert_eq!(cleared["removedDevices"], json!([far.id()]));
    let list = told(&here, &local, none, &["devices", "list"]).await;
    assert_eq!(list["paired"][0]["deviceId"], near.id());
}

#[tokio::test]
async fn who_leaves_before_the_browser_is_there_leaves_no_login_page() {
    let gateway = gateway().await;
    let bin = gateway.root().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let (opener, begun) = (bin.join("xdg-open"), bin.join("begun"));
    let script = format!("#!/bin/sh\n: > '{}'\nexec sleep 5\n", begun.display());
    std::fs::write(&opener, script).unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = std::process::Command::new(program());
    command
        .arg("dashboard")
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("DISPLAY", ":0")
        .env("HOME", gateway.home())
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .env("OPENCLAW_CONFIG_PATH", gateway.config_path());
    let mut terminal = Pty::spawn(command);
    until("the browser begins", async || begun.exists().then_some(())).await;
    let page = gateway.home().join("clawgate-login.html");
    assert!(page.exists());
    let pid = rustix::process::Pid::from_raw(i32::try_from(terminal.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(terminal.ends().success(), "{}", terminal.all());
    assert!(!page.exists());
}

#[tokio::test]
async fn the_control_socket_is_private_about_devices_only_and_gone_with_the_gateway() {
    let mut gateway = gateway().await;
    let path = gateway.state_dir().join("clawgate.sock");
    let about = std::fs::metadata(&path).unwrap();
    assert!(about.file_type().is_socket());
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let ok = at_the_socket(&gateway, r#"{"method":"device.pair.list","params":{}}"#).await;
    assert_eq!(ok["payload"], json!({"pending": [], "paired": []}));
    for (line, expected) in [
        (r#"{"method":"config.get"}"#, "not served here"),
        (r#"{"method":"chat.send","params":{}}"#, "not served here"),
        (r#"{"method":"device.pair.list","params":{"x":1}}"#, "unexpected property 'x'"),
        (r#"{"method":"device.no.such"}"#, "unknown method"),
        ("rubbish", "invalid request"),
    ] {
        let answer = at_the_socket(&gateway, line).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(expected), "{line}: {answer}");
    }
    // A command in the sandbox reaches the socket, but not the key.
    let stranger = DeviceIdentity::from_seed(&[9; 32]);
    let answer = say_with(&gateway, &stranger, r#"{"method":"device.pair.list"}"#).await;
    assert_eq!(answer["ok"], false, "{answer}");
    // What a killed gateway leaves is in nobody's way.
    gateway.kill9();
    assert!(path.exists());
    gateway.restart().await;
    assert_eq!(at_the_socket(&gateway, r#"{"method":"device.pair.list"}"#).await["ok"], true);
    gateway.terminate().await;
    assert!(!path.exists());
    let output = command(&gateway, &["devices", "list", "--timeout", "5"]).await;
    assert_eq!(output.status.code(), Some(1), "nobody is there: {output:?}");
}

#[tokio::test]
async fn who_is_at_the_control_socket_goes_with_it_when_it_is_switched_off() {
    let gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    let key = gateway.state_dir().join("identity/device.json");
    let mut stream = proved(&gateway, &DeviceIdentity::load(&key).unwrap().unwrap()).await;
    let line = r#"{"method":"device.pair.list"}"#;
    let answer = say(&mut stream, line).await.unwrap();
    assert!(answer.starts_with(r#"{"ok":true"#), "{answer}");
    let hash = call(&mut operator, "config.get", json!({})).await["hash"].clone();
    let off = json!({"gateway": {"controlSocket": false}}).to_string();
    call(&mut operator, "config.patch", json!({"raw": off, "baseHash": hash})).await;
    assert!(!gateway.state_dir().join("clawgate.sock").exists());
    assert_eq!(say(&mut stream, line).await.unwrap_or_default(), "");
}

/// A device as OpenClaw writes it, with its token.
fn paired_there(guest: &Guest, token: &str) -> Value {
    json!({
        "deviceId": guest.id(), "publicKey": guest.key().public_key(), "platform": "linux",
        "clientId": "cli", "clientMode": "cli", "role": "operator", "roles": ["operator"],
        "displayName": "Bob", "scopes": ["operator.read"], "approvedScopes": ["operator.read"],
        "tokens": {"operator": {
            "token": token, "role": "operator", "scopes": ["operator.read"],
            "createdAtMs": 5, "rotatedAtMs": 0, "revokedAtMs": 0, "lastUsedAtMs": 0,
        }},
        "createdAtMs": 5, "approvedAtMs": 6,
    })
}

#[tokio::test]
async fn a_device_that_openclaw_removes_later_is_removed_here_and_half_a_character_costs_nothing() {
    let root = tempfile::TempDir::with_prefix("clawgate-test-").unwrap();
    let file = root.path().join("state/devices/paired.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let guests = ["stays", "goes"].map(|name| Guest::new(name, &["operator.read"]));
    let tokens = ["A", "B"].map(|letter| letter.repeat(43));
    let of = |at: usize| (guests[at].id(), paired_there(&guests[at], &tokens[at]));
    let write = |devices: Vec<(String, Value)>| {
        let text = Value::Object(devices.into_iter().collect()).to_string();
        // What JavaScript makes of a name that it cuts inside of a character.
        std::fs::write(&file, text.replace("Bob", r"Bob \ud83d")).unwrap();
    };
    write(vec![of(0), of(1)]);
    let options = GatewayOptions::with_config(proxied_config());
    let mut gateway = Gateway::start_in(root, options).await.unwrap();
    let far = |at: usize| guests[at].clone().far().with(json!({"deviceToken": tokens[at]}));
    for (at, token) in tokens.iter().enumerate() {
        assert_eq!(far(at).come(&gateway).await.1["deviceToken"], *token);
    }
    gateway.terminate().await;
    // OpenClaw runs here in between, and somebody removes the second device.
    write(vec![of(0)]);
    gateway.restart().await;
    assert_eq!(far(1).refused(&gateway).await.0["details"]["code"], "AUTH_DEVICE_TOKEN_MISMATCH");
    assert_eq!(far(0).come(&gateway).await.1["deviceToken"], tokens[0]);
    gateway.logs("device removed, as OpenClaw has removed it").await;
    // A file that is gone removes nobody.
    gateway.terminate().await;
    std::fs::remove_file(&file).unwrap();
    gateway.restart().await;
    assert_eq!(far(0).come(&gateway).await.1["deviceToken"], tokens[0]);
}

/// What an import in place tells of devices: how many come, and which do not.
async fn imported_in_place(gateway: &Gateway, more: &[&str]) -> (Value, Vec<(String, String)>) {
    let state = gateway.state_dir().display().to_string();
    let args = [&["import", "--json", "--from", state.as_str()][..], more].concat();
    let output = clawgate(gateway, &args).await;
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let left_out = report["leftOut"].as_array().unwrap().iter();
    let told = left_out.map(|one| (text(&one["what"]), text(&one["why"]))).collect();
    (report["devices"].clone(), told)
}

#[tokio::test]
async fn a_device_that_was_removed_here_does_not_come_back_by_an_import() {
    let root = tempfile::TempDir::with_prefix("clawgate-test-").unwrap();
    let state = root.path().join("state");
    let file = state.join("devices/paired.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::create_dir_all(state.join("agents")).unwrap();
    let guests = ["lost", "dropped", "new"].map(|name| Guest::new(name, &["operator.read"]));
    let tokens = ["A", "B", "C"].map(|letter| letter.repeat(43));
    let write = |which: &[usize]| {
        let of = |at: &usize| (guests[*at].id(), paired_there(&guests[*at], &tokens[*at]));
        let list = Value::Object(which.iter().map(of).collect());
        std::fs::write(&file, list.to_string()).unwrap();
    };
    write(&[0, 1]);
    let options = GatewayOptions::with_config(proxied_config());
    let mut gateway = Gateway::start_in(root, options).await.unwrap();
    let far = |at: usize| guests[at].clone().far().with(json!({"deviceToken": tokens[at]}));
    for (at, token) in tokens.iter().enumerate().take(2) {
        assert_eq!(far(at).come(&gateway).await.1["deviceToken"], *token);
    }
    let mut operator = admin(&gateway).await;
    call(&mut operator, "device.pair.remove", json!({"deviceId": guests[0].id()})).await;
    gateway.terminate().await;
    // OpenClaw runs here: somebody removes a device there, and another one comes.
    write(&[0, 2]);
    let lost = "it came before and was removed here; it can only pair again";
    let lost = (format!("device {}", guests[0].id()), lost.to_owned());
    let dropped = "OpenClaw has removed it, so it is removed here";
    let dropped = (format!("device {}", guests[1].id()), dropped.to_owned());
    let both = (json!(1), vec![dropped, lost.clone()]);
    assert_eq!(imported_in_place(&gateway, &["--dry-run"]).await, both);
    assert_eq!(imported_in_place(&gateway, &[]).await, both);
    // Nor by another one.
    assert_eq!(imported_in_place(&gateway, &[]).await, (json!(0), vec![lost]));
    gateway.restart().await;
    for at in [0, 1] {
        let refused = far(at).refused(&gateway).await.0;
        assert_eq!(refused["details"]["code"], "AUTH_DEVICE_TOKEN_MISMATCH");
    }
    assert_eq!(far(2).come(&gateway).await.1["deviceToken"], tokens[2]);
}

#[tokio::test]
async fn a_device_that_was_paired_here_stays_when_openclaw_removes_one_with_its_key() {
    let root = tempfile::TempDir::with_prefix("clawgate-test-").unwrap();
    let file = root.path().join("state/devices/paired.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let guest = Guest::new("twice", &["operator.read"]);
    let theirs = "A".repeat(43);
    let list = json!({guest.id(): paired_there(&guest, &theirs)});
    std::fs::write(&file, list.to_string()).unwrap();
    let options = GatewayOptions::with_config(proxied_config());
    let mut gateway = Gateway::start_in(root, options).await.unwrap();
    let far = |token: &str| guest.clone().far().with(json!({"deviceToken": token}));
    assert_eq!(far(&theirs).come(&gateway).await.1["deviceToken"], theirs);
    let mut operator = admin(&gateway).await;
    call(&mut operator, "device.pair.remove", json!({"deviceId": guest.id()})).await;
    let ours = guest.come(&gateway).await.1["deviceToken"].as_str().unwrap().to_owned();
    gateway.terminate().await;
    std::fs::write(&file, "{}").unwrap();
    gateway.restart().await;
    assert_eq!(far(&ours).come(&gateway).await.1["deviceToken"], ours);
}

#[tokio::test]
async fn devices_that_openclaw_paired_come_in_as_before_and_stay_away_when_removed() {
    let root = tempfile::TempDir::with_prefix("clawgate-test-").unwrap();
    let folder = root.path().join("state/devices");
    std::fs::create_dir_all(&folder).unwrap();
    let guest = Guest::new("old friend", &["operator.read"]);
    let theirs = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let other = paired_there(&guest, "y");
    let file = json!({guest.id(): paired_there(&guest, theirs), "an id of no key": other});
    std::fs::write(folder.join("paired.json"), file.to_string()).unwrap();
    let options = GatewayOptions::with_config(proxied_config());
    let mut gateway = Gateway::start_in(root, options).await.unwrap();
    let far = guest.clone().far().with(json!({"deviceToken": theirs}));
    let (_client, auth) = far.come(&gateway).await;
    assert_eq!(auth["deviceToken"], theirs);
    assert_eq!(guest.come(&gateway).await.1.get("deviceToken"), None, "only the device has it");
    let mut operator = admin(&gateway).await;
    let list = call(&mut operator, "device.pair.list", json!({})).await;
    assert_eq!(list["paired"].as_array().unwrap().len(), 1, "{list}");
    call(&mut operator, "device.pair.remove", json!({"deviceId": guest.id()})).await;
    gateway.restart().await;
    assert_eq!(far.refused(&gateway).await.0["details"]["code"], "AUTH_DEVICE_TOKEN_MISMATCH");
    assert_eq!(std::fs::read_to_string(folder.join("paired.json")).unwrap(), file.to_string());
}

#[tokio::test]
async fn requests_and_answers_of_many_devices_at_once_do_not_disturb_each_other() {
    let gateway = gateway().await;
    let guests: Vec<_> =
        (0..20).map(|n| Guest::new(&format!("guest {n}"), &["operator.read"])).collect();
    let come = guests.iter().map(|guest| guest.come(&gateway));
    let limit = tokio::time::timeout(Duration::from_secs(30), futures_util::future::join_all(come));
    let come = limit.await.unwrap();
    let tokens: std::collections::HashSet<_> =
        come.iter().map(|(_, auth)| auth["deviceToken"].as_str().unwrap()).collect();
    assert_eq!(tokens.len(), 20);
}
