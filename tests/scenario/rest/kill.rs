//! `POST /sessions/<key>/kill`.

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::{answer, asking, failed, gateway, open_gateway, told};
use crate::stage::{admin, deltas, row, settles, start};
use crate::subagents::spawn;
use crate::support::guest::Guest;
use crate::support::{Gateway, SECRET, WsClient};

const PARENT: &str = "agent:main:parent";
const REQUESTER: &str = "x-openclaw-requester-session-key";
const NOT_NAMED: &str =
    "Session kills require a local admin request or requester session ownership.";

fn killing(gateway: &Gateway, key: &str) -> RequestBuilder {
    asking(gateway, Method::POST, &format!("/sessions/{}/kill", key.replace(':', "%3A")))
}

/// A sub-agent that goes on until it is stopped.
async fn long_child(client: &mut WsClient) -> String {
    let args = json!({"task": "@child stream n=600 delay=100", "label": "long"});
    let said = spawn(client, PARENT, &[args], "run-1").await;
    said[0]["childSessionKey"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_is_refused_is_refused_as_recorded() {
    let (gateway, _mock) = open_gateway().await;
    let nope = failed("not_found", "Session not found: nope");
    assert_eq!(answer(killing(&gateway, "nope")).await, (404, nope.to_string()));
    let by_get = asking(&gateway, Method::GET, "/sessions/nope/kill").send().await.unwrap();
    assert_eq!(by_get.status(), 405);
    assert_eq!(by_get.headers()["allow"], "POST");
    let lacks = failed("forbidden", "missing scope: operator.admin");
    let narrow = killing(&gateway, "nope").header("x-openclaw-scopes", "operator.write");
    assert_eq!(answer(narrow).await, (403, lacks.to_string()));
}

#[tokio::test]
async fn an_admin_of_this_machine_stops_sub_agents_and_nothing_else() {
    let (gateway, _mock) = gateway(|_| ()).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "agent:main:busy", "@mock stream n=600 delay=100", "run-0").await;
    deltas(&client, "run-0", 1).await;
    let killed = |killed: bool| (200, json!({"ok": true, "killed": killed}));
    assert_eq!(told(killing(&gateway, "agent:main:busy")).await, killed(false));
    let child = long_child(&mut client).await;
    assert_eq!(told(killing(&gateway, &child)).await, killed(true));
    settles(&mut client, &child, "killed").await;
    assert_eq!(told(killing(&gateway, &child)).await, killed(false), "it is over");
    assert_eq!(row(&mut client, "agent:main:busy").await["status"], "running");
}

#[tokio::test]
async fn from_elsewhere_only_the_session_that_has_begun_it_stops_it() {
    let (gateway, _mock) = gateway(|_| ()).await;
    let mut client = admin(&gateway).await;
    let child = long_child(&mut client).await;
    let far = || killing(&gateway, &child).header("x-forwarded-for", "203.0.113.7");
    assert_eq!(told(far()).await, (403, failed("forbidden", NOT_NAMED)));
    let not_theirs = "Subagents can only control runs spawned from their own session.";
    let other = far().header(REQUESTER, "agent:main:other");
    assert_eq!(told(other).await, (403, failed("forbidden", not_theirs)));
    // A client that may write stops what is its own, and this is another's.
    let token = Guest::new("writer", &["operator.write"]).token(&gateway).await;
    let writer = far().header(REQUESTER, PARENT).bearer_auth(token);
    let (status, said) = answer(writer).await;
    assert_eq!((status, said), (403, failed("forbidden", not_theirs).to_string()));
    let reader = Guest::new("reader", &["operator.read"]).token(&gateway).await;
    let (status, said) = answer(far().header(REQUESTER, PARENT).bearer_auth(reader)).await;
    let lacks = failed("forbidden", "missing scope: operator.write");
    assert_eq!((status, said), (403, lacks.to_string()));

    let own = far().header(REQUESTER, "parent").bearer_auth(SECRET);
    assert_eq!(answer(own).await, (200, r#"{"ok":true,"killed":true}"#.into()));
    settles(&mut client, &child, "killed").await;
}
