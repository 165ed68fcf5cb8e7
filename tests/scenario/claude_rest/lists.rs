//! The long list: its order, its pages, its filters.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{SESSIONS, begin, error, get, good, line, path, post};
use crate::stage::{Api, admin, ask, call, scripted};
use crate::support::{Gateway, WsClient};

/// A gateway with so many sessions in which something was said, oldest first.
async fn peopled(gateway: &Gateway, client: &mut WsClient, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..count {
        let key = format!("bed-{number}");
        ask(client, &key, "@mock text text=\"yes\"", &format!("run-{number}")).await;
        ids.push(id_of(client, &key).await);
    }
    assert!(line(gateway, &ids[0]).await.is_some());
    ids
}

async fn id_of(client: &mut WsClient, key: &str) -> String {
    let row = call(client, "sessions.describe", json!({"key": key})).await;
    row["session"]["sessionId"].as_str().unwrap().to_owned()
}

fn ids(page: &Value) -> Vec<String> {
    let lines = page["sessions"].as_array().unwrap().iter();
    lines.map(|line| line["id"].as_str().unwrap().to_owned()).collect()
}

async fn page(gateway: &Gateway, query: &str) -> Value {
    good(get(gateway, &format!("{SESSIONS}/all?{query}"))).await
}

#[tokio::test]
async fn a_line_of_the_list_has_every_member() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let id = peopled(&gateway, &mut client, 1).await.remove(0);
    let line = line(&gateway, &id).await.unwrap();
    let expected = json!({
        "id": id, "title": "@mock text text=\"yes\"", "workingDir": gateway.workspace(),
        "createdAt": line["createdAt"], "lastActivity": line["lastActivity"],
        "lastUserActivity": line["lastUserActivity"], "messageCount": 2, "isSidechain": false,
        "sessionState": "unread", "permissionMode": "default",
    });
    assert_eq!(line, expected);
    for time in ["createdAt", "lastActivity", "lastUserActivity"] {
        assert!(line[time].as_u64().unwrap() > 1_500_000_000_000, "{line}");
    }
}

#[tokio::test]
async fn pages_have_no_hole_and_no_double_while_sessions_change() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let made = peopled(&gateway, &mut client, 7).await;
    let first = page(&gateway, "limit=3").await;
    let newest: Vec<_> = made.iter().rev().cloned().collect();
    assert_eq!(ids(&first), newest[..3]);
    assert_eq!(first["pagination"]["totalCount"], 7);
    assert_eq!(first["pagination"]["hasMore"], true);
    // One that was shown and one that was not go to the top; a new one comes, one goes.
    ask(&mut client, "bed-5", "@mock text text=\"again\"", "again-5").await;
    ask(&mut client, "bed-0", "@mock text text=\"again\"", "again-0").await;
    ask(&mut client, "bed-new", "@mock text text=\"new\"", "run-new").await;
    call(&mut client, "sessions.delete", json!({"key": "bed-6"})).await;
    let mut seen = ids(&first);
    let mut next = first["pagination"]["nextCursor"].clone();
    while let Some(cursor) = next.as_str() {
        let (time, id) = cursor.split_once('_').unwrap();
        assert!(time.parse::<u64>().is_ok() && made.contains(&id.to_owned()), "{cursor}");
        let following = page(&gateway, &format!("limit=2&cursor={cursor}")).await;
        seen.extend(ids(&following));
        next = following["pagination"]["nextCursor"].clone();
        assert_eq!(following["pagination"]["hasMore"], json!(!next.is_null()));
    }
    let distinct: HashSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "{seen:?}");
    // All that did not move are there.
    assert_eq!(seen[3..], [newest[3].clone(), newest[4].clone(), newest[5].clone()]);
    let again = page(&gateway, "").await;
    let new = id_of(&mut client, "bed-new").await;
    assert_eq!(ids(&again)[..3], [new, made[0].clone(), made[5].clone()]);
}

#[tokio::test]
async fn what_is_put_away_is_in_its_own_list_until_it_is_taken_out() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let made = peopled(&gateway, &mut client, 2).await;
    let success = json!({"success": true});
    assert_eq!(good(post(&gateway, &path(&made[0], "/archive"), Value::Null)).await, success);
    let lists = async || {
        let mut lists = Vec::new();
        for status in ["all", "active", "archived"] {
            lists.push(ids(&page(&gateway, &format!("status={status}")).await));
        }
        lists
    };
    let (old, new) = (made[0].clone(), made[1].clone());
    let both = vec![new.clone(), old.clone()];
    assert_eq!(lists().await, [both.clone(), vec![new.clone()], vec![old.clone()]]);
    assert_eq!(line(&gateway, &old).await.unwrap()["sessionState"], "archived");
    let active = good(get(&gateway, SESSIONS)).await;
    assert_eq!(ids(&active), [new]);
    // A new transcript under the same key was not put away.
    call(&mut client, "sessions.reset", json!({"key": "bed-0"})).await;
    assert_eq!(ids(&good(get(&gateway, SESSIONS)).await).len(), 2);
    assert_eq!(good(post(&gateway, &path(&made[1], "/archive"), Value::Null)).await, success);
    assert_eq!(good(post(&gateway, &path(&made[1], "/unarchive"), Value::Null)).await, success);
    assert_eq!(ids(&page(&gateway, "status=archived").await), Vec::<String>::new());
}

#[tokio::test]
async fn empty_sessions_are_not_in_the_long_list_and_what_is_asked_wrongly_is_said() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let id = begin(&gateway, json!({"title": "Empty"})).await;
    assert_eq!(line(&gateway, &id).await, None);
    assert_eq!(ids(&good(get(&gateway, SESSIONS)).await), [id]);
    let all = page(&gateway, "limit=1000").await;
    let none = json!({"hasMore": false, "nextCursor": null, "totalCount": 0});
    assert_eq!(all, json!({"sessions": [], "pagination": none}));
    for (query, told) in [
        ("limit=0", "limit must be a number from 1 to 100"),
        ("limit=x", "limit must be a number from 1 to 100"),
        ("status=gone", "status must be all, active or archived"),
        ("cursor=x", "cursor must be a nextCursor"),
    ] {
        let answer = get(&gateway, &format!("{SESSIONS}/all?{query}")).await;
        assert_eq!(answer, (400, error(told)), "{query}");
    }
}
