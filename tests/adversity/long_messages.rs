//! Many who ask at once for what few could hold in memory many times.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, history, scripted};
use crate::support::Gateway;

/// Clients that come back at the same moment.
const CLIENTS: usize = 64;
/// Messages in the session, and how long each is.
const MESSAGES: usize = 3;
const LENGTH: usize = 8 * 1024 * 1024;
/// What four readers need, in each of the allocator's arenas; all of them at once need twice as
/// much.
const MAX_GROWTH_KIB: u64 = 1100 * 1024;

/// The most memory that the gateway had.
fn peak_kib(gateway: &Gateway) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// Puts long messages behind those of the one session there is, as another program would.
fn lengthen(gateway: &Gateway) {
    let folder = gateway.state_dir().join("agents/main/sessions");
    let mut paths = fs::read_dir(folder).unwrap().map(|found| found.unwrap().path());
    let is_transcript = |path: &PathBuf| path.extension().is_some_and(|it| it == "jsonl");
    let path = paths.find(is_transcript).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let mut parent = last["id"].clone();
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    for number in 0..MESSAGES {
        let id = json!(format!("{number:08x}"));
        let content = format!("long {number} {}", "word ".repeat(LENGTH / 5));
        let line = json!({"type": "message", "id": id, "parentId": parent,
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": {"role": "user", "content": content, "timestamp": 1}});
        writeln!(file, "{line}").unwrap();
        parent = id;
    }
}

#[tokio::test]
async fn whoever_asks_for_long_messages_waits_for_others_who_do() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(admin(&gateway).await);
    }
    ask(&mut clients[0], "main", "@mock text text=short", "run-first").await;
    lengthen(&gateway);

    let before = peak_kib(&gateway);
    let asking = clients.iter_mut().map(async |client| {
        assert_eq!(history(client, "main").await.len(), 2 + MESSAGES, "every message is there");
    });
    join_all(asking).await;
    let grown = peak_kib(&gateway).saturating_sub(before);
    println!("{CLIENTS} who ask took {} MiB more at most", grown / 1024);
    assert!(grown < MAX_GROWTH_KIB, "the gateway grew by {} MiB", grown / 1024);
}
