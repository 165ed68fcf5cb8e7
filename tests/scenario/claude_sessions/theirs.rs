//! Sessions that Claude Code itself has: real files, real sockets.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Claude, TURN, uuids};
use crate::control_ui::http;
use crate::stage::{Api, config};
use crate::support::config::SECRET;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const ID: &str = "0a3f7c52-4a58-4c0b-9a53-2f0e6d1c7b11";

fn file(gateway: &Gateway, id: &str) -> PathBuf {
    let folder = gateway.home().join(".claude/projects/-srv-garden");
    fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{id}.jsonl"))
}

fn uuid(number: usize) -> String {
    format!("6b1d9d3a-0000-4000-8000-{number:012}")
}

fn line(number: usize) -> String {
    let value = json!({"parentUuid": null, "isSidechain": false, "type": "user",
        "cwd": "/srv/garden", "sessionId": ID, "uuid": uuid(number),
        "timestamp": "2026-01-19T04:45:15.012Z",
        "message": {"role": "user", "content": format!("line {number}")}});
    format!("{value}\n")
}

fn lines(numbers: std::ops::Range<usize>) -> String {
    numbers.map(line).collect()
}

fn append(gateway: &Gateway, text: &str) {
    let mut file = OpenOptions::new().append(true).open(file(gateway, ID)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

async fn place(claude: Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["dialects"] = json!({ "claude": claude });
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    fs::write(file(&gateway, ID), lines(1..3)).unwrap();
    (gateway, mock)
}

async fn line_of(claude: &Claude, number: usize) -> Value {
    claude.find("line", |it| it["uuid"] == uuid(number)).await
}

async fn state(gateway: &Gateway) -> Value {
    let url = format!("http://{}/api/claude/sessions/all?limit=100", gateway.address());
    let answer = http().get(url).bearer_auth(SECRET).send().await.unwrap();
    let listed: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    let lines = listed["sessions"].as_array().unwrap();
    lines.iter().find(|line| line["id"] == ID).unwrap()["sessionState"].clone()
}

#[tokio::test]
async fn a_session_of_claude_code_is_told_and_what_is_added_to_it_and_nothing_twice() {
    let (gateway, _mock) = place(json!({})).await;
    let claude = Claude::open(&gateway, ID, "").await;
    line_of(&claude, 2).await;
    let frames = claude.frames();
    let info = json!({"type": "session_info", "totalPages": 1, "lowestBurstPage": 0});
    assert_eq!(frames[0], info);
    assert_eq!(frames[1].to_string(), line(1).trim(), "as it stands in the file");
    // A conversation that is taken up again repeats what was said.
    append(&gateway, &lines(2..5));
    line_of(&claude, 4).await;
    assert_eq!(uuids(&claude.frames()), [1, 2, 3, 4].map(uuid));
    // Half a line is none.
    let next = line(5);
    append(&gateway, &next[..40]);
    append(&gateway, &next[40..]);
    line_of(&claude, 5).await;
    assert_eq!(claude.frames().len(), 6);
}

#[tokio::test]
async fn a_file_that_was_cut_is_told_anew() {
    let (gateway, _mock) = place(json!({})).await;
    let claude = Claude::open(&gateway, ID, "").await;
    line_of(&claude, 2).await;
    fs::write(file(&gateway, ID), line(9)).unwrap();
    line_of(&claude, 9).await;
    append(&gateway, &line(10));
    line_of(&claude, 10).await;
    let infos = claude.frames().into_iter().filter(|it| it["type"] == "session_info");
    assert_eq!(infos.count(), 2);
}

#[tokio::test]
async fn who_comes_again_reads_on_after_the_line_that_he_knows() {
    let (gateway, _mock) = place(json!({})).await;
    // More than the newest pages.
    append(&gateway, &lines(3..2000));
    let mut claude = Claude::open(&gateway, ID, &format!("&fromUuid={}", uuid(1997))).await;
    line_of(&claude, 1999).await;
    assert_eq!(uuids(&claude.frames()), [1998, 1999].map(uuid));
    claude.send(json!({"type": "subscribe", "fromUuid": uuid(5)})).await;
    line_of(&claude, 1990).await;
    line_of(&claude, 6).await;
    assert!(claude.frames().iter().all(|it| it["type"] != "session_info"));
    claude.send(json!({"type": "subscribe", "fromUuid": "unknown"})).await;
    let info = claude.find("session", |it| it["type"] == "session_info").await;
    assert_eq!(info, json!({"type": "session_info", "totalPages": 4, "lowestBurstPage": 2}));
}

#[tokio::test]
async fn nobody_talks_in_a_session_of_claude_code() {
    let (gateway, _mock) = place(json!({})).await;
    let mut claude = Claude::open(&gateway, ID, "").await;
    line_of(&claude, 2).await;
    claude.say("go on").await;
    claude
        .send(json!({"type": "control_request", "request_id": "r",
            "request": {"subtype": "interrupt"}}))
        .await;
    let is_refusal = |frame: &Value| frame["type"] == "error";
    let count = |received: &[crate::support::client::Received]| {
        let frames = received.iter().filter_map(|it| it.what.frame());
        (frames.filter(|it| is_refusal(it)).count() == 2).then_some(())
    };
    claude.0.wait_until(TURN, count).await.expect("both are refused");
    let refusal = claude.find("refusal", is_refusal).await;
    assert!(refusal["message"].as_str().unwrap().contains("Claude Code's own"), "{refusal}");
    assert_eq!(fs::read_to_string(file(&gateway, ID)).unwrap(), lines(1..3));
}

#[tokio::test]
async fn what_is_added_while_nobody_looks_is_unread() {
    let (gateway, _mock) = place(json!({})).await;
    assert_eq!(state(&gateway).await, "idle", "nobody has looked here yet");
    let mut claude = Claude::open(&gateway, ID, "").await;
    line_of(&claude, 2).await;
    claude.send(json!({"type": "ack"})).await;
    claude.0.close().await;
    // Times of files are coarse.
    #[allow(clippy::disallowed_methods)] // the time of a file
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    append(&gateway, &line(3));
    OpenOptions::new().append(true).open(file(&gateway, ID)).unwrap().set_modified(later).unwrap();
    assert_eq!(state(&gateway).await, "unread");
}

#[tokio::test]
async fn without_its_sessions_those_of_claude_code_are_not_there() {
    let (gateway, _mock) = place(json!({"projects": false})).await;
    let path = format!("/api/claude/sessions/{ID}/subscribe?access_token={SECRET}");
    let refusal = WsClient::open_with(&gateway.address(), &path, &[]).await.err().unwrap();
    assert_eq!((refusal.status, refusal.body.as_str()), (404, r#"{"error":"Session not found"}"#));
}
