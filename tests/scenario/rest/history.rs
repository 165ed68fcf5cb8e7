//! `GET /sessions/<key>/history` as JSON.

use reqwest::Method;
use serde_json::{Value, json};

use super::{answer, asking, gateway, open_gateway, told};
use crate::stage::{admin, ask, call};
use crate::support::Gateway;

const KEY: &str = "agent:main:http-ref";

async fn page(gateway: &Gateway, path: &str) -> Value {
    let (status, page) = told(asking(gateway, Method::GET, path)).await;
    assert_eq!(status, 200, "{path}: {page}");
    page
}

fn seqs(page: &Value) -> Vec<u64> {
    let messages = page["messages"].as_array().unwrap();
    messages.iter().map(|message| message["__openclaw"]["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn pages_are_cut_as_recorded() {
    let (gateway, _mock) = gateway(|_| ()).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock text text=\"first answer\"", "run-1").await;
    let tool = "@mock tool name=read args={\"path\":\"notes.txt\"} then=\"second answer\"";
    ask(&mut client, KEY, tool, "run-2").await;
    let at = "/sessions/agent%3Amain%3Ahttp-ref/history";
    let whole = page(&gateway, at).await;
    assert_eq!((seqs(&whole), &whole["hasMore"]), ((1..=6).collect(), &json!(false)));
    assert_eq!(whole["sessionKey"], KEY);
    assert_eq!(whole["items"], whole["messages"]);
    assert_eq!(whole.get("nextCursor"), None);
    let shown = call(&mut client, "chat.history", json!({"sessionKey": KEY})).await;
    assert_eq!(whole["messages"], shown["messages"], "the same as by the method");
    for (path, expected, next) in [
        ("/sessions/http-ref/history?limit=2", vec![5, 6], Some("5")),
        (&format!("{at}?limit=2&cursor=3"), vec![1, 2], None),
        (&format!("{at}?limit=2&cursor=5"), vec![3, 4], Some("3")),
        (&format!("{at}?cursor=seq:3"), vec![1, 2], None),
        (&format!("{at}?cursor=1"), vec![], None),
        (&format!("{at}?cursor=99"), (1..=6).collect(), None),
        (&format!("{at}?limit=0"), vec![6], Some("6")),
        (&format!("{at}?limit=-1"), vec![6], Some("6")),
        (&format!("{at}?limit=x"), vec![6], Some("6")),
        (&format!("{at}?limit=6"), (1..=6).collect(), None),
        (&format!("{at}?cursor=x"), (1..=6).collect(), None),
    ] {
        let page = page(&gateway, path).await;
        assert_eq!((seqs(&page), page["nextCursor"].as_str()), (expected, next), "{path}");
        assert_eq!(page["hasMore"], next.is_some(), "{path}");
        assert_eq!(page["sessionKey"], KEY);
    }
}

#[tokio::test]
async fn who_may_not_read_and_what_is_not_there_is_told_as_recorded() {
    let (gateway, _mock) = open_gateway().await;
    let get = |path: &str| asking(&gateway, Method::GET, path);
    let nope = r#"{"ok":false,"error":{"type":"not_found","message":"Session not found: nope"}}"#;
    assert_eq!(answer(get("/sessions/nope/history")).await, (404, nope.into()));
    let stream = get("/sessions/nope/history").header("accept", "text/event-stream");
    assert_eq!(answer(stream).await, (404, nope.into()));
    let lacks =
        r#"{"ok":false,"error":{"type":"forbidden","message":"missing scope: operator.read"}}"#;
    let narrow = get("/sessions/main/history").header("x-openclaw-scopes", "operator.approvals");
    assert_eq!(answer(narrow).await, (403, lacks.into()));
    for method in [Method::POST, Method::HEAD, Method::DELETE] {
        let other =
            asking(&gateway, method.clone(), "/sessions/main/history").send().await.unwrap();
        assert_eq!(
            (other.status().as_u16(), &other.headers()["allow"]),
            (405, &"GET".parse().unwrap()),
            "{method}"
        );
    }
}
