//! A disk without room: a small one of the gateway's own, in a namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::seen::{health, readiness};
use crate::stage::{Api, admin, ask, call, config, end_of, ends_of, history, text_of, until};
use crate::support::guest::Guest;
use crate::support::{
    Gateway, GatewayOptions, MockProvider, NodeClient, SECRET, WsClient, not_run,
};

/// Room for the database and its log, and little more.
const SIZE: &str = "24m";
/// What a message needs, and how many of them are tried.
const MESSAGE: usize = 64 * 1024;
const MOST: usize = 400;
const SMALL_WRITES: usize = 10;
const UPLOAD: &str = "/api/chat/uploads?sessionKey=main&fileName=picture.png";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Becomes the program of its arguments, with a disk of its own for the state.
const ON_A_DISK: &str = r#"#!/bin/sh
set -e
config="$(cat "$OPENCLAW_CONFIG_PATH")"
mount -t tmpfs -o size=SIZE,mode=0700 tmpfs "$OPENCLAW_STATE_DIR"
printf '%s' "$config" >"$OPENCLAW_CONFIG_PATH"
exec "$@"
"#;

/// How a program is started that may mount; `None` where nobody may.
fn namespace() -> Option<&'static str> {
    let ways = ["unshare --mount", "unshare --user --map-root-user --mount"];
    ways.into_iter().find(|way| {
        let tried = Command::new("sh")
            .args(["-c", &format!("{way} mount -t tmpfs tmpfs /mnt 2>/dev/null")])
            .status();
        tried.is_ok_and(|status| status.success())
    })
}

struct SmallDisk {
    gateway: Gateway,
    _scripts: TempDir,
    _mock: MockProvider,
}

impl SmallDisk {
    async fn start(namespace: &str) -> Self {
        let scripts = TempDir::with_prefix("clawgate-test-").unwrap();
        let write = |name: &str, text: String| {
            let path = scripts.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            path
        };
        let inside = write("inside", ON_A_DISK.replace("SIZE", SIZE));
        let through = format!("#!/bin/sh\nexec {namespace} {} \"$@\"\n", inside.display());
        let mock = MockProvider::start().await;
        let mut options = GatewayOptions::with_config(config(mock.address(), Api::OpenAi));
        options.through = Some(write("through", through));
        let gateway = Gateway::start(options).await;
        Self { gateway, _scripts: scripts, _mock: mock }
    }

    /// A place in the state directory, as the gateway sees it.
    fn place(&self, name: &str) -> PathBuf {
        let state = self.gateway.state_dir();
        let root = format!("/proc/{}/root", self.gateway.pid().unwrap());
        Path::new(&root).join(state.strip_prefix("/").unwrap()).join(name)
    }

    /// Writes until nothing more goes in.
    fn fill(&self) {
        let mut filler = fs::File::create(self.place("filler")).unwrap();
        while std::io::Write::write_all(&mut filler, &[b'x'; 4096]).is_ok() {}
        let full = std::io::Write::write_all(&mut filler, b"x");
        assert!(full.is_err(), "the disk is not full");
    }

    fn make_room(&self) {
        fs::remove_file(self.place("filler")).unwrap();
    }

    async fn upload(&self) -> (u16, Value) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let asked = reqwest::Client::builder().no_proxy().build().unwrap();
        let asked = asked.post(format!("http://{}{UPLOAD}", self.gateway.address()));
        let mut picture = PNG.to_vec();
        picture.resize(512 * 1024, b'x');
        let asked = asked.bearer_auth(SECRET).header("content-type", "image/png").body(picture);
        let answer = asked.send().await.unwrap();
        (answer.status().as_u16(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
    }

    /// All files below a folder of the state.
    fn files(&self, folder: &str) -> Vec<PathBuf> {
        fn below(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() { below(&path, found) } else { found.push(path) }
            }
        }
        let mut found = Vec::new();
        below(&self.place(folder), &mut found);
        found.sort();
        found
    }

    /// Whether each line of every transcript is whole.
    fn check_transcripts(&self) {
        let transcripts = self.files("agents/main/sessions");
        let transcripts = transcripts
            .iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        let mut lines = 0;
        for path in transcripts {
            for line in fs::read_to_string(path).unwrap().lines().filter(|line| !line.is_empty()) {
                let read: Result<Value, _> = serde_json::from_str(line);
                assert!(read.is_ok(), "{line:?} in {}", path.display());
                lines += 1;
            }
        }
        assert!(lines > 3, "something is stored");
    }
}

fn message(session: &str, run: &str) -> Value {
    let text = format!("{} @mock text text={run}", "x".repeat(MESSAGE));
    json!({"sessionKey": session, "message": text, "idempotencyKey": run})
}

/// Sends messages until one is refused. Some may find room: what the database had
/// before, or the rest of a block.
async fn send_until_refused(client: &mut WsClient) -> (String, Value) {
    for number in 0..MOST {
        let run = format!("run-{number}");
        let answer = client.request("chat.send", message(&run, &run)).await;
        if answer["ok"] != true {
            return (run, answer);
        }
        let end = end_of(client, &run).await;
        assert!(["final", "error"].contains(&end["state"].as_str().unwrap()), "{end}");
        assert_eq!(ends_of(client, &run).len(), 1, "{run}");
    }
    panic!("{MOST} messages were taken on a full disk");
}

/// With a file in the message itself.
async fn send_file(client: &mut WsClient) -> Value {
    let mut params = message("main", "run-file");
    params["attachments"] = json!([{"type": "image", "mimeType": "image/png",
        "fileName": "p.png", "content": "iVBORw0KGgo".repeat(4096)}]);
    client.request("chat.send", params).await
}

#[tokio::test]
async fn on_a_full_disk_nothing_is_taken_by_half_and_what_is_stored_can_be_read() {
    let Some(namespace) = namespace() else {
        return not_run(
            "a full disk needs a mount namespace, and this process may make none; run it as root \
             with CAP_SYS_ADMIN, or allow user namespaces (kernel.unprivileged_userns_clone=1)",
        );
    };
    let disk = SmallDisk::start(namespace).await;
    let mut client = admin(&disk.gateway).await;
    ask(&mut client, "main", "@mock text text=before", "run-0").await;
    let (status, made) = disk.upload().await;
    assert_eq!(status, 201, "{made}");
    let kept = disk.files("media");
    let before = history(&mut client, "main").await;

    let token = Guest::new("laptop", &["operator.read"]).token(&disk.gateway).await;
    let commands = ["device.info"];
    drop(NodeClient::connect(&disk.gateway, "Phone", "android 15", &commands).await);

    disk.fill();
    let (run, refused) = send_until_refused(&mut client).await;
    // Whoever was known before comes in, with what was granted.
    let laptop = Guest::new("laptop", &["operator.read"]).with(json!({"deviceToken": token}));
    call(&mut laptop.come(&disk.gateway).await.0, "sessions.list", json!({})).await;
    // Without that nothing was in the way.
    disk.gateway.logs("use of a token not noted").await;
    let phone = NodeClient::connect(&disk.gateway, "Phone", "android 15", &commands).await;
    let described = call(&mut client, "node.describe", json!({"nodeId": phone.id})).await;
    assert_eq!(described["commands"], json!(commands), "{described}");
    assert!(refused["error"]["code"].is_string(), "{refused}");
    let refused = send_file(&mut client).await;
    assert_eq!(refused["ok"], false, "{refused}");
    let (status, told) = disk.upload().await;
    assert!(status >= 500, "{status} {told}");
    assert!(told["error"]["message"].is_string(), "{told}");
    assert_eq!(disk.files("media"), kept, "nothing is left of what was refused");
    for number in 0..SMALL_WRITES {
        // What is small may find room, and makes the disk no emptier.
        let params = json!({"key": "main", "label": format!("label {number}")});
        client.request("sessions.patch", params).await;
        assert_eq!(readiness(&disk.gateway).await, (false, json!(["store"])));
    }
    let told = health(&mut client).await;
    assert_eq!((&told["ok"], &told["services"]["store"]["ok"]), (&json!(false), &json!(false)));
    assert_eq!(history(&mut client, "main").await, before, "what is stored can be read");
    call(&mut client, "sessions.list", json!({})).await;

    // However often it is tried, that is one change.
    let said = disk.gateway.stderr();
    assert_eq!(said.matches("a group of writes was not stored").count(), 1, "{said}");

    disk.make_room();
    // Nobody writes anything, or asks for a new look.
    until("health", async || {
        (call(&mut client, "health", json!({})).await["ok"] == true).then_some(())
    })
    .await;
    disk.gateway.logs("writes are stored again").await;
    until("readiness", async || readiness(&disk.gateway).await.0.then_some(())).await;
    // The same message once more: it was not taken.
    call(&mut client, "chat.send", message("main", &run)).await;
    assert_eq!(text_of(&end_of(&client, &run).await["message"]), run);
    let (status, made) = disk.upload().await;
    assert_eq!(status, 201, "{made}");
    let after = history(&mut client, "main").await;
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(after.len(), before.len() + 2, "{after:#?}");
    disk.check_transcripts();
    assert_eq!(health(&mut client).await["ok"], true);
}
