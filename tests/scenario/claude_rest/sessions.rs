//! Single sessions: each row of the table of routes, and what each refuses.

use std::fs;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{SESSIONS, ask, begin, error, get, good, line, path, post};
use crate::control_ui::http;
use crate::stage::{Api, admin, ask as talk, call, scripted, until};
use crate::support::SECRET;

async fn patch(gateway: &crate::support::Gateway, id: &str, body: Value) -> (u16, Value) {
    ask(gateway, Method::PATCH, &path(id, ""), body).await
}

#[tokio::test]
async fn a_session_is_made_with_every_member_and_found_by_its_id() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    fs::create_dir_all(gateway.workspace().join(".git")).unwrap();
    fs::write(gateway.workspace().join(".git/HEAD"), "ref: refs/heads/work\n").unwrap();
    let body = json!({"workingDir": gateway.workspace(), "title": "Garden",
        "permissionMode": "plan"});
    let made = good(post(&gateway, SESSIONS, body)).await;
    let expected = json!({
        "id": made["id"], "workingDir": gateway.workspace(), "createdAt": made["createdAt"],
        "lastActivity": made["lastActivity"], "lastUserActivity": made["createdAt"],
        "status": "active", "title": "Garden", "permissionMode": "plan",
        "git": {"isRepo": true, "branch": "work"},
    });
    assert_eq!(made, expected);
    let time = made["createdAt"].as_str().unwrap();
    assert!(time.ends_with('Z') && time.contains('T'), "{time}");
    let id = made["id"].as_str().unwrap();
    let found = good(get(&gateway, &path(id, ""))).await;
    assert_eq!((&found["id"], &found["title"]), (&made["id"], &json!("Garden")));
    let listed = good(get(&gateway, SESSIONS)).await;
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
    // It is a session like any other.
    let mut client = admin(&gateway).await;
    let resolved = call(&mut client, "sessions.resolve", json!({"sessionId": id})).await;
    let key = json!({"key": resolved["key"]});
    let described = call(&mut client, "sessions.describe", key).await;
    assert_eq!(described["session"]["label"], "Garden");
}

#[tokio::test]
async fn a_deletion_whose_sender_goes_away_is_told_if_it_is_done() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut keys = Vec::new();
    for number in 0..60 {
        let made = call(&mut client, "sessions.create", json!({})).await;
        let path = path(&text(&made["sessionId"]), "");
        let url = format!("http://{}{path}", gateway.address());
        let sending = http().delete(url).bearer_auth(SECRET).send();
        // From before the request is read to after it is answered.
        let patience = Duration::from_micros(number * 250);
        drop(tokio::time::timeout(patience, sending).await);
        keys.push(text(&made["key"]));
    }
    let told = async || {
        let listed = call(&mut client, "sessions.list", json!({"limit": 100})).await;
        let rows = listed["sessions"].as_array().unwrap();
        let frames = client.frames();
        let is_told = |key: &String| {
            frames.iter().any(|frame| {
                let payload = &frame["payload"];
                payload["reason"] == "delete" && payload["sessionKey"] == key.as_str()
            })
        };
        let is_there = |key: &String| rows.iter().any(|row| row["key"] == key.as_str());
        keys.iter().all(|key| is_there(key) || is_told(key)).then_some(())
    };
    until("an event for each session that is gone", told).await;
}

#[tokio::test]
async fn what_a_new_session_cannot_be_is_said_and_nothing_is_made() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let invalid = error("Invalid request body");
    for body in [json!([]), json!({"title": 1}), json!({"workingDir": {}}), json!("x")] {
        assert_eq!(post(&gateway, SESSIONS, body).await, (400, invalid.clone()));
    }
    let (status, told) = post(&gateway, SESSIONS, json!({"workingDir": "/elsewhere"})).await;
    assert_eq!(status, 400);
    assert!(told["error"].as_str().unwrap().contains("workspace of an agent"), "{told}");
    let unknown = json!({"resumeSessionId": "none"});
    assert_eq!(post(&gateway, SESSIONS, unknown).await, (404, error("Session not found")));
    let (status, told) = post(&gateway, SESSIONS, json!({"permissionMode": "yolo"})).await;
    assert_eq!(status, 400);
    assert!(told["error"].as_str().unwrap().contains("permissionMode"), "{told}");
    assert_eq!(good(get(&gateway, SESSIONS)).await, json!({"sessions": []}));
}

#[tokio::test]
async fn a_session_is_resumed_renamed_and_deleted_and_its_transcript_stays() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    talk(&mut client, "garden", "@mock text text=\"Tomatoes\"", "run-1").await;
    let row = call(&mut client, "sessions.describe", json!({"key": "garden"})).await;
    let id = row["session"]["sessionId"].as_str().unwrap().to_owned();
    let of = |told: Value| told["title"].as_str().unwrap().to_owned();
    assert_eq!(of(good(get(&gateway, &path(&id, ""))).await), "@mock text text=\"Tomatoes\"");
    let resumed = json!({"resumeSessionId": id, "title": "Beds"});
    let resumed = good(post(&gateway, SESSIONS, resumed)).await;
    assert_eq!((resumed["id"].as_str(), resumed["title"].as_str()), (Some(&*id), Some("Beds")));
    let success = json!({"success": true});
    assert_eq!(patch(&gateway, &id, json!({"title": "Roses"})).await, (200, success.clone()));
    assert_eq!(of(good(get(&gateway, &path(&id, ""))).await), "Roses");
    assert_eq!(patch(&gateway, &id, json!({})).await, (400, error("Invalid request body")));
    let folder = gateway.state_dir().join("agents/main/sessions");
    let file = folder.join(format!("{id}.jsonl"));
    let before = fs::read(&file).unwrap();
    assert_eq!(ask(&gateway, Method::DELETE, &path(&id, ""), Value::Null).await, (200, success));
    assert_eq!(fs::read(&file).unwrap(), before);
    let gone = (404, error("Session not found"));
    for (method, rest) in [
        (Method::GET, ""),
        (Method::DELETE, ""),
        (Method::GET, "/messages?page=0"),
        (Method::POST, "/archive"),
        (Method::POST, "/unarchive"),
        (Method::POST, "/deactivate"),
        (Method::POST, "/share"),
        (Method::DELETE, "/share"),
    ] {
        assert_eq!(ask(&gateway, method, &path(&id, rest), Value::Null).await, gone, "{rest}");
    }
    assert_eq!(patch(&gateway, &id, json!({"title": "x"})).await, gone);
}

#[tokio::test]
async fn a_title_that_another_session_has_gets_a_number() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let of = async |id: &str| good(get(&gateway, &path(id, ""))).await["title"].clone();
    let mut ids = Vec::new();
    for title in ["Session 21", "Session 21 (2)", "Session 21 (3)"] {
        let id = begin(&gateway, json!({"title": "Session 21"})).await;
        assert_eq!(of(&id).await, title);
        ids.push(id);
    }
    let success = (200, json!({"success": true}));
    assert_eq!(patch(&gateway, &ids[0], json!({"title": "Roses"})).await, success);
    assert_eq!(patch(&gateway, &ids[1], json!({"title": "Roses"})).await, success);
    assert_eq!(of(&ids[1]).await, "Roses (2)");
    // It has that name already.
    assert_eq!(patch(&gateway, &ids[1], json!({"title": "Roses"})).await, success);
    assert_eq!(of(&ids[1]).await, "Roses (2)");
    let resumed = json!({"resumeSessionId": ids[2], "title": "Roses"});
    assert_eq!(good(post(&gateway, SESSIONS, resumed)).await["title"], "Roses (3)");
    assert_eq!(patch(&gateway, &ids[2], json!({"title": ""})).await, success);
    assert_eq!(of(&ids[2]).await, "Untitled");
}

#[tokio::test]
async fn titles_that_several_give_at_once_get_a_number_each_and_one_that_is_free_again_is_used() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let titles = async || {
        let listed = good(get(&gateway, SESSIONS)).await;
        let sessions = listed["sessions"].as_array().unwrap().iter();
        let mut titles: Vec<_> =
            sessions.map(|it| it["title"].as_str().unwrap().to_owned()).collect();
        titles.sort();
        titles
    };
    // What only contains it is another one.
    begin(&gateway, json!({"title": "A garden (2)"})).await;
    let ids = join_all((0..4).map(|_| begin(&gateway, json!({"title": "garden"})))).await;
    let all = ["A garden (2)", "garden", "garden (2)", "garden (3)", "garden (4)"];
    assert_eq!(titles().await, all);
    let title = good(get(&gateway, &path(&ids[0], ""))).await["title"].clone();
    assert_eq!(ask(&gateway, Method::DELETE, &path(&ids[0], ""), Value::Null).await.0, 200);
    let id = begin(&gateway, json!({"title": "garden"})).await;
    assert_eq!(good(get(&gateway, &path(&id, ""))).await["title"], title);
    assert_eq!(titles().await, all);
}

#[tokio::test]
async fn a_title_as_long_as_they_may_be_is_cut_for_its_number() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let long = "ä".repeat(512);
    for title in [long.clone(), format!("{} (2)", "ä".repeat(508))] {
        let id = begin(&gateway, json!({"title": long})).await;
        assert_eq!(good(get(&gateway, &path(&id, ""))).await["title"], title);
    }
    let id = begin(&gateway, json!({})).await;
    assert_eq!(patch(&gateway, &id, json!({"title": long})).await.0, 200);
    let title = good(get(&gateway, &path(&id, ""))).await["title"].clone();
    assert_eq!(title, format!("{} (3)", "ä".repeat(508)));
}

#[tokio::test]
async fn the_long_opening_of_a_session_is_its_title_up_to_120_characters() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let text = "word ".repeat(60);
    talk(&mut client, "long", &text, "run-1").await;
    let row = call(&mut client, "sessions.describe", json!({"key": "long"})).await;
    let id = row["session"]["sessionId"].as_str().unwrap();
    let title = line(&gateway, id).await.unwrap()["title"].as_str().unwrap().to_owned();
    assert_eq!(title.chars().count(), 120);
    assert!(text.starts_with(title.trim_end_matches('…')), "{title}");
    assert_eq!(
        good(get(&gateway, &path(&begin(&gateway, json!({})).await, ""))).await["title"],
        "Untitled"
    );
}

#[tokio::test]
async fn pages_of_messages_have_numbers_from_0_and_say_what_is_wrong() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    talk(&mut client, "garden", "@mock text text=\"Tomatoes\"", "run-1").await;
    let row = call(&mut client, "sessions.describe", json!({"key": "garden"})).await;
    let id = row["session"]["sessionId"].as_str().unwrap();
    let page = good(get(&gateway, &path(id, "/messages?page=0"))).await;
    let types: Vec<_> = page["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["user", "assistant"]);
    assert_eq!(page["messages"][1]["message"]["content"][0]["text"], "Tomatoes");
    let rest = json!([page["sessionId"], page["page"], page["totalPages"], page["sealed"]]);
    assert_eq!(rest, json!([id, 0, 1, false]));
    let required = (400, error("page parameter is required"));
    for query in ["", "?page=", "?page=-1", "?page=x", "?page=0&page=0"] {
        assert_eq!(get(&gateway, &path(id, &format!("/messages{query}"))).await, required);
    }
    for number in ["1", "99999999"] {
        let answer = get(&gateway, &path(id, &format!("/messages?page={number}"))).await;
        assert_eq!(answer, (404, error("page out of range")));
    }
    let empty = begin(&gateway, json!({})).await;
    let page = good(get(&gateway, &path(&empty, "/messages?page=0"))).await;
    assert_eq!((&page["messages"], &page["totalPages"]), (&json!([]), &json!(1)));
}
