//! Files and cards of a response.

use std::fs;

use serde_json::json;

use super::{Chat, find, names, place, said};
use crate::control_ui::http;
use crate::stage::until;
use crate::support::config::SECRET;

/// The smallest PNG there is.
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
    \0\0\0\nIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";

#[tokio::test]
async fn files_of_an_answer_come_after_its_words_and_can_be_read() {
    let (gateway, _mock) = place(|_| {}).await;
    fs::write(gateway.workspace().join("plot.png"), PNG).unwrap();
    fs::write(gateway.workspace().join("page.html"), "<script>alert(1)</script>").unwrap();
    fs::write(gateway.root().join("secret.txt"), "secret").unwrap();
    let mut chat = Chat::open(&gateway).await;
    let args = json!({"command": "echo MEDIA:plot.png; echo MEDIA:page.html; echo MEDIA:../secret.txt; \
        echo MEDIA:https://example.org/a.png"});
    let frames = chat.say(&format!("@mock tool name=exec args={args} then=\"Look.\"")).await;
    assert_eq!(
        names(&frames),
        ["tool_start", "tool_progress", "tool_done", "delta", "media", "done"]
    );
    let told = "Look.\n⚠️ secret.txt could not be sent: it is neither in the workspace nor among \
                the gateway's media";
    assert_eq!(said(&frames), told);
    let files = find(&frames, "media")["files"].as_array().unwrap();
    // What is outside of the workspace is not shown.
    assert_eq!(files.len(), 3, "{files:?}");
    let (plot, page, link) = (&files[0], &files[1], &files[2]);
    let url = plot["url"].as_str().unwrap();
    assert!(url.starts_with("/api/media/plot"), "{url}");
    assert_eq!(
        *plot,
        json!({"kind": "image", "name": "plot.png", "url": url, "mime": "image/png",
            "content_type": "image/png"})
    );
    assert_eq!((&page["kind"], &link["kind"]), (&json!("file"), &json!("file")));
    assert_eq!(link["url"], "https://example.org/a.png");

    let client = http();
    let base = format!("http://{}", gateway.address());
    // With its ticket, as an <img> asks for it; or with the secret.
    let path = url.split('?').next().unwrap();
    for shown in [url.to_owned(), format!("{path}?token={SECRET}")] {
        let answer = client.get(format!("{base}{shown}")).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{shown}");
        assert_eq!(answer.headers()["content-type"], "image/png");
        assert_eq!(answer.bytes().await.unwrap(), PNG);
    }
    for (refused, status) in [
        (path.to_owned(), 401),
        (format!("{path}?ticket=v1.x.y"), 401),
        (format!("/api/media/..%2f..%2fopenclaw.json?token={SECRET}"), 403),
        (format!("/api/media/none.png?token={SECRET}"), 404),
    ] {
        let answer = client.get(format!("{base}{refused}")).send().await.unwrap();
        assert_eq!(answer.status(), status, "{refused}");
    }
    // What is no picture is saved, and is never a page.
    let answer =
        client.get(format!("{base}{}", page["url"].as_str().unwrap())).send().await.unwrap();
    assert_eq!(answer.headers()["content-disposition"], "attachment");
    assert_eq!(answer.headers()["content-type"], "application/octet-stream");
}

#[tokio::test]
async fn a_file_that_cannot_be_had_is_told_and_one_with_spaces_in_its_name_is_shown() {
    let (gateway, _mock) = place(|_| {}).await;
    fs::write(gateway.workspace().join("x y.txt"), "words").unwrap();
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say("@mock text text=\"MEDIA:./nofile.png\"").await;
    assert_eq!(names(&frames), ["delta", "done"]);
    assert_eq!(said(&frames), "⚠️ nofile.png could not be sent: there is no such file");
    let frames = chat.say("@mock text text=\"MEDIA:./x y.txt\"").await;
    assert_eq!(names(&frames), ["media", "done"]);
    assert_eq!(find(&frames, "media")["files"][0]["name"], "x y.txt");
}

#[tokio::test]
async fn a_file_with_two_dots_in_its_name_can_be_read() {
    let (gateway, _mock) = place(|_| {}).await;
    fs::write(gateway.workspace().join("v1..2.png"), PNG).unwrap();
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say("@mock text text=\"MEDIA:./v1..2.png\"").await;
    let file = &find(&frames, "media")["files"][0];
    assert_eq!(file["name"], "v1..2.png");
    let url = format!("http://{}{}", gateway.address(), file["url"].as_str().unwrap());
    assert_eq!(http().get(url).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn files_of_old_answers_go() {
    let (mut gateway, _mock) = place(|_| {}).await;
    let kept = gateway.state_dir().join("media/outgoing/chat");
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join("old.png"), PNG).unwrap();
    let old = fs::File::open(kept.join("old.png")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    gateway.restart().await;
    until("it is gone", async || (!kept.join("old.png").exists()).then_some(())).await;
}

/// A server of one tool, whose results have a card.
const SERVER: &str = r#"
import json, sys
card = {"contentType": "application/vnd.microsoft.card.adaptive", "content": {"body": []}}
def answer(message):
    method = message["method"]
    if method == "initialize":
        return {"protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "own", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": "show", "inputSchema": {"type": "object"}}]}
    return {"content": [{"type": "text", "text": "shown"}], "structuredContent": {"cards": [card]}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}
        print(json.dumps(reply), flush=True)
"#;

#[tokio::test]
async fn cards_of_a_server_of_tools_come_after_the_words() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("server.py");
    fs::write(&script, SERVER).unwrap();
    let (gateway, _mock) = place(|config| {
        config["mcp"]["servers"] = json!({"own": {"command": "python3", "args": [script]}});
    })
    .await;
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say("@mock tool name=own__show args={} then=\"There.\"").await;
    assert_eq!(names(&frames), ["tool_start", "tool_done", "delta", "cards", "done"]);
    assert_eq!(find(&frames, "tool_start")["mcp_server"], "own");
    assert_eq!(
        *find(&frames, "cards"),
        json!({"type": "cards", "cards": [
            {"contentType": "application/vnd.microsoft.card.adaptive", "content": {"body": []}}
        ]})
    );
}
