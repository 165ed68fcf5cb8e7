//! Links that commands of an agent put in the place of files which others are shown: they
//! may be seen by who may read sessions and the agent's own files, and by providers of models.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use crate::paths::get;
use crate::stage::{Api, admin, ask, call, config, refusal, scripted};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const CANARY: &str = "canary-5812";

async fn reader(gateway: &Gateway) -> WsClient {
    let mut reader = gateway.open().await;
    reader.connect_standard(&["operator.read"]).await;
    reader
}

#[tokio::test]
async fn another_name_of_the_gateways_own_file_is_neither_shown_nor_told_to_a_model() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let own = gateway.state_dir().join("credentials/oauth.json");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, CANARY).unwrap();
    let workspace = fs::canonicalize(gateway.workspace()).unwrap();
    for (name, own) in [
        ("TOOLS.md", own.clone()),
        ("shown.txt", own.clone()),
        ("USER.md", gateway.config_path()),
        ("config.txt", gateway.config_path()),
    ] {
        let _ = fs::remove_file(workspace.join(name));
        fs::hard_link(own, workspace.join(name)).unwrap();
    }
    fs::write(workspace.join("plain.txt"), "plain").unwrap();
    let mut reader = reader(&gateway).await;
    for name in ["TOOLS.md", "USER.md"] {
        let params = json!({"agentId": "main", "name": name});
        let refused = refusal(&mut reader, "agents.files.get", params.clone()).await;
        let path = workspace.join(name).display().to_string();
        assert_eq!(refused, format!("Access denied: {path} belongs to the gateway or the system"));
        let mut written = params;
        written["content"] = json!("x");
        let again = refusal(&mut client, "agents.files.set", written).await;
        assert_eq!(again, refused);
    }
    let list = call(&mut reader, "agents.files.list", json!({"agentId": "main"})).await;
    assert!(!list.to_string().contains(CANARY), "{list}");
    ask(&mut client, "main", "hello again", "run-2").await;
    let asked = mock.requests();
    let last = asked.last().unwrap().body.to_string();
    assert!(last.contains("hello again") && last.contains("[MISSING] Expected at: "), "{last}");
    assert!(!last.contains(CANARY) && !last.contains("\\\"gateway\\\":"), "{last}");
    let show = async |name: &str| {
        let source = workspace.join(name).display().to_string();
        get(&gateway, &format!("/__openclaw__/assistant-media?source={source}")).await
    };
    assert!(show("plain.txt").await.ends_with("plain"));
    for name in ["shown.txt", "config.txt"] {
        let answer = show(name).await;
        assert!(answer.starts_with("HTTP/1.1 404") && !answer.contains(CANARY), "{answer}");
    }
    assert_eq!(fs::read_to_string(own).unwrap(), CANARY);
}

/// The transcripts of an agent.
fn transcripts(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect()
}

#[tokio::test]
async fn a_transcript_that_is_a_link_to_a_file_elsewhere_is_not_read() {
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    let secret = root.path().join("secret");
    let header = json!({"type": "session", "version": 3, "id": "leak", "cwd": "/",
        "timestamp": "2026-01-01T00:00:00Z"});
    let said = json!({"type": "message", "id": "a1", "parentId": null,
        "timestamp": "2026-01-01T00:00:00Z",
        "message": {"role": "user", "content": CANARY, "timestamp": 1}});
    let text = format!("{header}\n{said}\n");
    fs::write(&secret, &text).unwrap();
    let folder = root.path().join("state/agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    // In the state directory, as what other agents have.
    let inside = root.path().join("state/inside");
    fs::write(&inside, &text).unwrap();
    let link = folder.join("leak.jsonl");
    symlink(&secret, &link).unwrap();
    let index = json!({"agent:main:leak": {"sessionId": "leak",
        "updatedAt": 1_796_000_000_000_u64}});
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    let mock = MockProvider::start().await;
    let options = GatewayOptions::with_config(config(mock.address(), Api::OpenAi));
    let gateway = Gateway::start_in(root, options).await.unwrap();
    let mut client = admin(&gateway).await;
    ask(&mut client, "later", "hello", "run-1").await;
    let mut reader = reader(&gateway).await;
    let read = call(&mut reader, "chat.history", json!({"sessionKey": "later"})).await;
    assert!(read.to_string().contains("hello"), "{read}");
    // One that becomes a link while the gateway runs.
    for path in transcripts(&folder).into_iter().filter(|path| *path != link) {
        fs::remove_file(&path).unwrap();
        symlink(&inside, &path).unwrap();
    }
    for key in ["leak", "later"] {
        let params = json!({"sessionKey": key});
        let answer = reader.request("chat.history", params).await.to_string();
        assert!(!answer.contains(CANARY), "{key}: {answer}");
    }
    let params = json!({"includeLastMessage": true, "includeDerivedTitles": true});
    let list = reader.request("sessions.list", params).await.to_string();
    assert!(!list.contains(CANARY), "{list}");
    assert_eq!(fs::read_to_string(secret).unwrap(), text);
}
