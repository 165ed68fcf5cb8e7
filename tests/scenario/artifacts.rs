//! Pictures and files of conversations, asked for one by one.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, connect, end_of, refusal, scripted};
use crate::support::{SECRET, WsClient};

/// A picture of one pixel.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async fn send(client: &mut WsClient, session: &str, run_id: &str, files: Value) {
    let params = json!({"sessionKey": session, "message": "@mock text text=seen",
        "idempotencyKey": run_id, "attachments": files});
    call(client, "chat.send", params).await;
    end_of(client, run_id).await;
}

async fn list(client: &mut WsClient, params: Value) -> Vec<Value> {
    let answer = call(client, "artifacts.list", params).await;
    answer["artifacts"].as_array().unwrap().clone()
}

fn titles(list: &[Value]) -> Vec<&str> {
    list.iter().map(|artifact| artifact["title"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_came_with_messages_and_what_tools_saw_is_listed_and_given() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let picture = json!({"type": "image", "mimeType": "image/png", "content": DOT});
    let text = json!({"type": "file", "mimeType": "text/plain", "fileName": "a.txt", "content": "aGVsbG8="});
    send(&mut client, "main", "run-1", json!([picture, text])).await;
    fs::write(gateway.workspace().join("dot.png"), STANDARD.decode(DOT).unwrap()).unwrap();
    let read = "@mock tool name=read args={\"path\":\"dot.png\"} then=\"done\"";
    ask(&mut client, "main", read, "run-2").await;

    let all = list(&mut client, json!({"sessionKey": "main"})).await;
    assert_eq!(titles(&all), ["image 1", "a.txt", "image 2"], "{all:?}");
    let kinds: Vec<_> =
        all.iter().map(|it| (&it["type"], &it["messageSeq"], &it["sizeBytes"])).collect();
    assert_eq!(kinds[0], (&json!("image"), &json!(1), &json!(70)));
    assert_eq!(kinds[1], (&json!("file"), &json!(1), &json!(5)));
    assert_eq!(kinds[2], (&json!("image"), &json!(5), &json!(70)));
    for (artifact, data) in all.iter().zip([DOT, "aGVsbG8=", DOT]) {
        assert_eq!(artifact["sessionKey"], "agent:main:main");
        assert_eq!(artifact["download"], json!({"mode": "bytes"}));
        let one = json!({"sessionKey": "agent:main:main", "artifactId": artifact["id"]});
        let got = call(&mut client, "artifacts.get", one.clone()).await;
        assert_eq!(got, json!({"artifact": artifact}));
        let got = call(&mut client, "artifacts.download", one).await;
        assert_eq!(got, json!({"artifact": artifact, "encoding": "base64", "data": data}));
    }

    // By run, also as a task; an id is the same wherever it is asked for.
    let of_run = list(&mut client, json!({"runId": "run-2"})).await;
    assert_eq!((of_run.len(), &of_run[0]["id"]), (1, &all[2]["id"]));
    assert_eq!(of_run[0]["runId"], "run-2");
    let of_task = list(&mut client, json!({"taskId": "run-1", "sessionKey": "main"})).await;
    assert_eq!(
        (titles(&of_task), &of_task[0]["taskId"]),
        (vec!["image 1", "a.txt"], &json!("run-1"))
    );
    let text =
        refusal(&mut client, "artifacts.list", json!({"runId": "run-1", "sessionKey": "other"}))
            .await;
    assert_eq!(text, "no session found for artifact query");
}

#[tokio::test]
async fn a_simple_client_reads_the_name_that_it_gave_to_the_session() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let hello = json!({"clientType": "web", "clientVersion": "1", "auth": {"token": SECRET}});
    let mut client = connect(&gateway, &hello).await;
    let text = json!([{"type": "file", "mimeType": "text/plain", "fileName": "a.txt", "content": "aGVsbG8="}]);
    send(&mut client, "trip", "run-1", text).await;
    let all = list(&mut client, json!({"runId": "run-1"})).await;
    assert_eq!((titles(&all), &all[0]["sessionKey"]), (vec!["a.txt"], &json!("trip")));
    let one = json!({"runId": "run-1", "artifactId": all[0]["id"]});
    for method in ["artifacts.get", "artifacts.download"] {
        let got = call(&mut client, method, one.clone()).await;
        assert_eq!(got["artifact"], all[0], "{method}");
    }
}

#[tokio::test]
async fn what_is_gone_or_elsewhere_is_not_given() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let text = json!([{"type": "file", "mimeType": "text/plain", "fileName": "a.txt", "content": "aGVsbG8="}]);
    send(&mut client, "main", "run-1", text).await;
    let all = list(&mut client, json!({"sessionKey": "main"})).await;
    let params = |session: &str| json!({"sessionKey": session, "artifactId": all[0]["id"]});
    let told = refusal(&mut client, "artifacts.download", params("agent:main:other")).await;
    assert_eq!(told, "artifact not found");

    // A transcript that names another file names nothing.
    let secret = gateway.root().join("secret");
    fs::write(&secret, "TOPSECRET").unwrap();
    let sessions = gateway.state_dir().join("agents/main/sessions");
    let is_transcript =
        |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "jsonl");
    let transcript =
        fs::read_dir(sessions).unwrap().map(|it| it.unwrap().path()).find(is_transcript);
    let transcript = transcript.unwrap();
    let stored = fs::read_to_string(&transcript).unwrap();
    let inbound = gateway.state_dir().join("media/inbound").display().to_string();
    let name = fs::read_dir(&inbound).unwrap().next().unwrap().unwrap().file_name();
    let path = format!("{inbound}/{}", name.to_str().unwrap());
    // As long as the other one: where lines end is known.
    let elsewhere = format!("{:/>width$}", secret.display(), width = path.len());
    fs::write(&transcript, stored.replace(&path, &elsewhere)).unwrap();
    let all = list(&mut client, json!({"sessionKey": "main"})).await;
    assert_eq!(all[0]["download"], json!({"mode": "unsupported"}), "{all:?}");
    let told = client.request("artifacts.download", params("main")).await;
    assert_eq!(told["error"]["message"], "artifact download is unsupported", "{told}");
    assert_eq!(told["error"]["details"]["type"], "artifact_download_unsupported");
}
