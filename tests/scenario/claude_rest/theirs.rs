//! Sessions that Claude Code itself has, in the same lists.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use super::stream::Told;
use super::{SESSIONS, ask, begin, error, get, good, line, path, post};
use crate::stage::{Api, admin, ask as talk, scripted};

const ID: &str = "0a3f7c52-4a58-4c0b-9a53-2f0e6d1c7b11";

fn written(gateway: &crate::support::Gateway) -> String {
    let folder = gateway.home().join(".claude/projects/-srv-garden");
    fs::create_dir_all(&folder).unwrap();
    let user = json!({"parentUuid": null, "isSidechain": false, "type": "user",
        "cwd": "/srv/garden", "sessionId": ID, "gitBranch": "beds",
        "uuid": "6b1d9d3a-0000-4000-8000-000000000001", "timestamp": "2026-01-19T04:45:15.012Z",
        "message": {"role": "user", "content": "Which beds are free?"}});
    let answer = json!({"parentUuid": user["uuid"], "type": "assistant", "cwd": "/srv/garden",
        "sessionId": ID, "uuid": "6b1d9d3a-0000-4000-8000-000000000002",
        "timestamp": "2026-01-19T04:45:17.971Z", "message": {"role": "assistant",
        "content": [{"type": "text", "text": "Two."}]}});
    let text = format!("{user}\n{answer}\n");
    fs::write(folder.join(format!("{ID}.jsonl")), &text).unwrap();
    text
}

#[tokio::test]
async fn a_new_session_of_claude_code_is_told_and_listed() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut told = Told::open(&gateway).await;
    // The folder is watched a moment after the stream has begun.
    let first = "0a3f7c52-4a58-4c0b-9a53-2f0e6d1c7b12";
    let written_again = async {
        let folder = gateway.home().join(".claude/projects/-srv-garden");
        fs::create_dir_all(&folder).unwrap();
        loop {
            fs::write(folder.join(format!("{first}.jsonl")), "{}\n").unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        _ = told.until(first, "updated") => {}
        () = written_again => {}
    }
    assert!(line(&gateway, ID).await.is_none());
    written(&gateway);
    assert_eq!(told.until(ID, "updated").await, ["updated"]);
    assert_eq!(line(&gateway, ID).await.unwrap()["title"], "Which beds are free?");
}

#[tokio::test]
async fn the_list_without_pages_has_the_order_of_the_pages() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    talk(&mut client, "main", "@mock text text=\"yes\"", "run-1").await;
    written(&gateway);
    let ids = async |rest: &str| -> Vec<Value> {
        let list = good(get(&gateway, &format!("{SESSIONS}{rest}"))).await;
        list["sessions"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect()
    };
    let every = ids("").await;
    assert_eq!((every.len(), &every[0]), (2, &json!(ID)));
    assert_eq!(every, ids("/all").await);
}

#[tokio::test]
async fn sessions_of_claude_code_are_listed_and_read_and_never_changed() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let text = written(&gateway);
    let mut client = admin(&gateway).await;
    talk(&mut client, "main", "@mock text text=\"yes\"", "run-1").await;
    let first = good(get(&gateway, &format!("{SESSIONS}/all?limit=1"))).await;
    assert_eq!(first["pagination"]["totalCount"], 2);
    let cursor = first["pagination"]["nextCursor"].as_str().unwrap();
    let second = good(get(&gateway, &format!("{SESSIONS}/all?limit=1&cursor={cursor}"))).await;
    assert_eq!(
        second["pagination"],
        json!({"hasMore": false, "nextCursor": null,
        "totalCount": 2})
    );
    let both = [&first, &second].map(|page| page["sessions"][0]["id"].as_str().unwrap());
    assert!(both.contains(&ID) && both[0] != both[1], "{both:?}");
    let theirs = line(&gateway, ID).await.unwrap();
    let expected = json!(["Which beds are free?", "/srv/garden", 2, "idle", false]);
    let told = ["title", "workingDir", "messageCount", "sessionState", "isSidechain"];
    assert_eq!(json!(told.map(|name| theirs[name].clone())), expected);
    let every = good(get(&gateway, SESSIONS)).await;
    assert_eq!(every["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(good(get(&gateway, &path(ID, ""))).await["title"], "Which beds are free?");
    let page = good(get(&gateway, &path(ID, "/messages?page=0"))).await;
    assert_eq!(page["messages"][1]["message"]["content"][0]["text"], "Two.");
    let beyond = get(&gateway, &path(ID, "/messages?page=7")).await;
    assert_eq!(beyond, (404, error("page out of range")));

    for (method, rest, body) in [
        (Method::PATCH, "", json!({"title": "Mine"})),
        (Method::DELETE, "", Value::Null),
        (Method::POST, "/deactivate", Value::Null),
        (Method::POST, "/share", Value::Null),
    ] {
        let (status, told) = ask(&gateway, method, &path(ID, rest), body).await;
        assert_eq!(status, 400, "{rest}: {told}");
        assert!(told["error"].as_str().unwrap().contains("Claude Code's own"), "{told}");
    }
    let (status, told) = post(&gateway, SESSIONS, json!({"resumeSessionId": ID})).await;
    assert_eq!(status, 400, "{told}");
    good(post(&gateway, &path(ID, "/archive"), Value::Null)).await;
    assert_eq!(line(&gateway, ID).await.unwrap()["sessionState"], "archived");
    let active = good(get(&gateway, &format!("{SESSIONS}/all?status=active"))).await;
    assert_eq!(active["pagination"]["totalCount"], 1);
    let file = gateway.home().join(format!(".claude/projects/-srv-garden/{ID}.jsonl"));
    assert_eq!(fs::read_to_string(file).unwrap(), text);
    begin(&gateway, json!({})).await;
}
