//! Where answers and news of failures go.

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use std::sync::Arc;

use parking_lot::Mutex;

use super::{add, asking, hour, job, run};
use crate::stage::{
    Api, RUN_LIMIT, SecretFile, admin, ask, call, config, scripted, serve, told, until,
};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

type Posts = Arc<Mutex<Vec<(Option<String>, Value)>>>;

/// A web server that keeps what is posted.
async fn web() -> (String, Posts, JoinSet<()>) {
    let posts = Posts::default();
    let keep = |State(posts): State<Posts>, headers: HeaderMap, body: String| async move {
        let token = headers.get("authorization").map(|it| it.to_str().unwrap().to_owned());
        posts.lock().push((token, serde_json::from_str(&body).unwrap()));
    };
    let app = Router::new().route("/hook", post(keep)).with_state(Arc::clone(&posts));
    let (port, server) = serve(app).await;
    (format!("http://127.0.0.1:{port}/hook"), posts, server)
}

async fn with_web() -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["web"]["fetch"]["ssrfPolicy"] = json!({"allowedHostnames": ["127.0.0.1"]});
    let token = json!({"source": "env", "provider": "default", "id": "CRON_TOKEN"});
    config["cron"] = json!({"webhookToken": token});
    let options = GatewayOptions::with_config(config).env("CRON_TOKEN", "hook-token");
    (Gateway::start(options).await, mock)
}

#[tokio::test]
async fn an_answer_is_announced_where_the_session_last_spoke() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut tells = asking("tells", "@mock text text=\"the report\"");
    tells["delivery"] = json!({"mode": "announce"});
    let id = add(&mut client, tells).await;
    // Nobody has spoken there.
    let end = run(&mut client, &id).await;
    assert_eq!((&end["status"], &end["deliveryStatus"]), (&json!("error"), &json!("unknown")));
    assert!(end["error"].as_str().unwrap().starts_with("Channel is required"), "{end}");
    ask(&mut client, "main", "hello", "m-1").await;
    let end = run(&mut client, &id).await;
    assert_eq!(
        (&end["status"], &end["deliveryStatus"]),
        (&json!("ok"), &json!("delivered")),
        "{end}"
    );
    assert_eq!(end["delivery"]["resolved"]["to"], "agent:main:main");
    let main = told(&mut client, "main").await;
    assert_eq!(main.last().unwrap(), &("assistant".to_owned(), "the report".to_owned()));
    let state = &job(&mut client, &id).await["state"];
    assert_eq!((&state["lastDelivered"], &state["consecutiveErrors"]), (&json!(true), &json!(0)));
    // Nothing to tell is not told.
    let patch =
        json!({"id": id, "patch": {"payload": {"kind": "agentTurn", "message": "@mock silent"}}});
    call(&mut client, "cron.update", patch).await;
    let end = run(&mut client, &id).await;
    assert_eq!((&end["status"], &end["delivered"]), (&json!("ok"), &json!(false)), "{end}");
    assert_eq!(told(&mut client, "main").await, main);
}

#[tokio::test]
async fn a_list_says_where_answers_go_in_the_words_of_the_original() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut tells = asking("tells", "@mock text text=\"the report\"");
    tells["delivery"] = json!({"mode": "announce"});
    let id = add(&mut client, tells).await;
    let preview = async |client: &mut WsClient, patch: Value| {
        call(client, "cron.update", json!({"id": id, "patch": patch})).await;
        let previews = call(client, "cron.list", json!({})).await["deliveryPreviews"].take();
        let text = |name: &str| previews[&id][name].as_str().unwrap().to_owned();
        (text("label"), text("detail"))
    };
    let same = json!({"name": "tells"});
    let (label, detail) = preview(&mut client, same.clone()).await;
    assert_eq!(label, "announce -> last");
    assert!(detail.starts_with("last -> no route, will fail-closed: Channel is"), "{detail}");
    for key in ["main", "desk"] {
        ask(&mut client, key, "hello", key).await;
    }
    let announced = |channel: &str, to: &str| {
        let delivery = json!({"mode": "announce", "channel": channel, "to": to});
        json!({ "delivery": delivery })
    };
    let unknown = "unknown session \"agent:main:nowhere\" on channel \"webchat\"";
    for (patch, label, detail) in [
        (same, "announce -> webchat:agent:main:main", "resolved from last, main session"),
        (
            json!({"sessionKey": "agent:main:desk"}),
            "announce -> webchat:agent:main:desk",
            "resolved from last, session agent:main:desk",
        ),
        (announced("telegram", "123"), "announce -> telegram:123", "explicit"),
        (announced("webchat", "nowhere"), "announce -> webchat:nowhere", unknown),
        (
            json!({"delivery": {"mode": "webhook", "to": "https://example.test/hook"}}),
            "webhook:https://example.test/hook",
            "webhook",
        ),
        (json!({"delivery": {"mode": "none"}}), "not requested", "not requested"),
    ] {
        let told = preview(&mut client, patch).await;
        assert_eq!((told.0.as_str(), told.1.as_str()), (label, detail));
    }
}

#[tokio::test]
async fn an_answer_that_only_says_that_all_is_well_is_announced_to_nobody() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "m-1").await;
    let long = format!("{} HEARTBEAT_OK", "x".repeat(301));
    for (said, status) in [
        ("HEARTBEAT_OK", "not-requested"),
        ("All is quiet. HEARTBEAT_OK", "not-requested"),
        (long.as_str(), "delivered"),
    ] {
        let mut tells = asking("tells", &format!("@mock text text={}", json!(said)));
        tells["delivery"] = json!({"mode": "announce"});
        let id = add(&mut client, tells).await;
        let end = run(&mut client, &id).await;
        assert_eq!(
            (&end["status"], &end["deliveryStatus"]),
            (&json!("ok"), &json!(status)),
            "{end}"
        );
    }
    let main = told(&mut client, "main").await;
    assert_eq!(main.last().unwrap(), &("assistant".to_owned(), "x".repeat(301)));
    assert_eq!(main.len(), 3, "what was asked, its answer, and the news: {main:?}");
}

#[tokio::test]
async fn files_of_an_answer_are_named_where_it_is_announced_in_a_session() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "m-1").await;
    for (said, shown) in [
        ("MEDIA:./plot.png", "File: ./plot.png"),
        ("The plot:\nMEDIA:./plot.png", "The plot:\n\nFile: ./plot.png"),
    ] {
        let mut plots = asking("plots", &format!("@mock text text={}", json!(said)));
        plots["delivery"] = json!({"mode": "announce"});
        let id = add(&mut client, plots).await;
        assert_eq!(run(&mut client, &id).await["deliveryStatus"], "delivered");
        let last = told(&mut client, "main").await.pop().unwrap();
        assert_eq!(last, ("assistant".to_owned(), shown.to_owned()));
    }
}

#[tokio::test]
async fn an_answer_is_announced_in_the_session_that_is_named_and_no_channel_is_made_up() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "desk", "hello", "d-1").await;
    let mut tells = asking("tells", "@mock text text=\"for the desk\"");
    tells["delivery"] = json!({"mode": "announce", "channel": "webchat", "to": "desk"});
    let id = add(&mut client, tells).await;
    run(&mut client, &id).await;
    let desk = told(&mut client, "desk").await;
    assert_eq!(desk.last().unwrap().1, "for the desk");
    for (delivery, status, error) in [
        (
            json!({"mode": "announce", "channel": "telegram", "to": "1"}),
            "error",
            "no channel \"telegram\" is configured",
        ),
        (
            json!({"channel": "telegram", "bestEffort": true}),
            "ok",
            "no channel \"telegram\" is configured",
        ),
        (
            json!({"channel": "webchat", "to": "nowhere", "bestEffort": false}),
            "error",
            "unknown session \"agent:main:nowhere\" on channel \"webchat\"",
        ),
    ] {
        call(&mut client, "cron.update", json!({"id": id, "patch": {"delivery": delivery}})).await;
        let end = run(&mut client, &id).await;
        assert_eq!(end["status"], status, "{end}");
        let told = end["deliveryError"].as_str().or(end["error"].as_str());
        assert_eq!(told, Some(error), "{end}");
        assert_eq!(end["summary"], "for the desk");
    }
}

#[tokio::test]
async fn a_web_server_gets_the_token_that_its_reference_leads_to_now() {
    let (mock, file) = (MockProvider::start().await, SecretFile::new("first-token"));
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["web"]["fetch"]["ssrfPolicy"] = json!({"allowedHostnames": ["127.0.0.1"]});
    config["cron"] = json!({"webhookToken": SecretFile::reference()});
    file.name_in(&mut config);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let (url, posts, _server) = web().await;
    let mut client = admin(&gateway).await;
    let mut report = asking("report", "@mock text text=\"done\"");
    report["delivery"] = json!({"mode": "webhook", "to": url});
    let id = add(&mut client, report).await;
    run(&mut client, &id).await;
    file.tells("second-token");
    call(&mut client, "secrets.reload", json!({})).await;
    run(&mut client, &id).await;
    let tokens: Vec<_> = posts.lock().iter().map(|(token, _)| token.clone().unwrap()).collect();
    assert_eq!(tokens, ["Bearer first-token", "Bearer second-token"]);
}

/// A job whose outcome a web server is to have posts it with the token, and its run goes
/// well though there is no such page.
async fn is_posted(job_for: impl FnOnce(&str) -> Value, summary: &str) {
    let ((gateway, _mock), (url, posts, _server)) = (with_web().await, web().await);
    let mut client = admin(&gateway).await;
    let id = add(&mut client, job_for(&url)).await;
    let end = run(&mut client, &id).await;
    assert_eq!(
        (&end["status"], &end["deliveryStatus"]),
        (&json!("ok"), &json!("delivered")),
        "{end}"
    );
    let got = posts.lock().clone();
    assert_eq!((got.len(), got[0].0.as_deref()), (1, Some("Bearer hook-token")));
    assert_eq!((&got[0].1["jobId"], &got[0].1["summary"]), (&json!(id), &json!(summary)));
    let nowhere = json!({"to": url.replace("/hook", "/nowhere")});
    call(&mut client, "cron.update", json!({"id": id, "patch": {"delivery": nowhere}})).await;
    let end = run(&mut client, &id).await;
    assert_eq!((&end["status"], &end["deliveryStatus"]), (&json!("ok"), &json!("not-delivered")));
    assert!(end["deliveryError"].as_str().unwrap().contains("404"), "{end}");
}

#[tokio::test]
async fn a_web_server_gets_the_answer_with_the_token() {
    let answering = |url: &str| {
        let mut posted = asking("posted", "@mock text text=\"over the wire\"");
        posted["delivery"] = json!({"mode": "webhook", "to": url});
        posted
    };
    is_posted(answering, "over the wire").await;
}

/// A job that reminds the main session of something, and posts that.
fn posting(text: &str, wake: &str, url: &str) -> Value {
    json!({"name": "posts", "schedule": hour(), "sessionTarget": "main", "wakeMode": wake,
        "payload": {"kind": "systemEvent", "text": text},
        "delivery": {"mode": "webhook", "to": url}})
}

#[tokio::test]
async fn a_web_server_gets_what_the_main_session_is_reminded_of() {
    is_posted(|url| posting("Tea is ready", "next-heartbeat", url), "Tea is ready").await;
}

#[tokio::test]
async fn who_is_reminded_at_once_does_not_wait_for_a_web_server() {
    let (gateway, _mock) = with_web().await;
    let mut client = admin(&gateway).await;
    let app = Router::new().route("/hook", post(std::future::pending::<()>));
    let (port, _server) = serve(app).await;
    let url = format!("http://127.0.0.1:{port}/hook");
    let id = add(&mut client, posting("@mock text text=\"Tea is ready.\"", "now", &url)).await;
    call(&mut client, "cron.run", json!({"id": id})).await;
    let beat = client.wait_for(RUN_LIMIT, |frame| frame["event"] == "heartbeat").await;
    assert_eq!(beat.expect("no heartbeat")["payload"]["preview"], "Tea is ready.");
    let has_ended = |frame: &Value| frame["payload"]["action"] == "finished";
    assert!(!client.frames().iter().any(has_ended), "the web server is still waited for");
}

#[tokio::test]
async fn somebody_hears_of_a_job_that_fails_again_and_again_and_not_each_time() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "m-1").await;
    let mut fails = asking("fails", "@mock err status=400 type=invalid_request_error");
    fails["failureAlert"] = json!({"after": 2, "mode": "announce", "cooldownMs": 3_600_000});
    let id = add(&mut client, fails).await;
    for _ in 0..4 {
        assert_eq!(run(&mut client, &id).await["status"], "error");
    }
    let news = until("the alert", async || {
        let said = told(&mut client, "main").await.into_iter().map(|(_, text)| text);
        let news: Vec<_> = said.filter(|text| text.starts_with("Cron job")).collect();
        (!news.is_empty()).then_some(news)
    });
    let news = news.await;
    assert_eq!(news.len(), 1, "{news:?}");
    assert!(news[0].starts_with("Cron job \"fails\" failed 2 times in a row: "), "{news:?}");
    assert!(job(&mut client, &id).await["state"]["lastFailureAlertAtMs"].is_u64());
    // Once it has run well, its failures are news again.
    let asks = |message: &str| {
        let payload = json!({"kind": "agentTurn", "message": message});
        json!({"id": id, "patch": {"payload": payload}})
    };
    call(&mut client, "cron.update", asks("@mock text text=well")).await;
    assert_eq!(run(&mut client, &id).await["status"], "ok");
    let failing = asks("@mock err status=400 type=invalid_request_error");
    call(&mut client, "cron.update", failing).await;
    for _ in 0..2 {
        assert_eq!(run(&mut client, &id).await["status"], "error");
    }
    until("another alert", async || (failures(&mut client, "main").await.len() == 2).then_some(()))
        .await;
}

/// What a session was told of jobs that fail.
async fn failures(client: &mut WsClient, session: &str) -> Vec<String> {
    let said = told(client, session).await.into_iter().map(|(_, text)| text);
    said.filter(|text| text.starts_with("Cron job")).collect()
}

#[tokio::test]
async fn whoever_gets_the_answers_hears_of_each_failure_unless_somebody_says_otherwise() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "m-1").await;
    let fails = |name: &str, change: Value| {
        let mut job = asking(name, "@mock err status=400 type=invalid_request_error");
        job["delivery"] = json!({"mode": "announce"});
        for (member, value) in change.as_object().unwrap() {
            job[member] = value.clone();
        }
        job
    };
    let effortless = json!({"mode": "announce", "bestEffort": true});
    for quiet in [
        fails("kept", json!({"delivery": {"mode": "none"}})),
        fails("effortless", json!({"delivery": effortless})),
        fails("off", json!({"failureAlert": false})),
        fails("rarely", json!({"failureAlert": {"after": 3}})),
    ] {
        let id = add(&mut client, quiet).await;
        assert_eq!(run(&mut client, &id).await["status"], "error");
    }
    let id = add(&mut client, fails("loud", json!({}))).await;
    for count in 1..=2 {
        assert_eq!(run(&mut client, &id).await["status"], "error");
        let news = until("the news", async || {
            Some(failures(&mut client, "main").await).filter(|news| news.len() >= count)
        });
        let news = news.await;
        let is_loud = |text: &String| text.starts_with("Cron job \"loud\" failed: ");
        assert!(news.len() == count && news.iter().all(is_loud), "{news:?}");
    }
}

#[tokio::test]
async fn failures_are_told_where_the_config_says_unless_a_job_says_so_itself() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["cron"] = json!({"failureDestination": {"channel": "webchat", "to": "desk"}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    for session in ["main", "desk", "shed"] {
        ask(&mut client, session, "hello", session).await;
    }
    let text = "@mock err status=400 type=invalid_request_error";
    let usual = asking("usual", text);
    let mut announces = asking("announces", text);
    announces["delivery"] = json!({"mode": "announce"});
    let mut own = asking("own", text);
    own["delivery"]["failureDestination"] = json!({"to": "shed"});
    for (job, session) in [(usual, "desk"), (announces, "desk"), (own, "shed")] {
        let begins = format!("Cron job {} failed: ", job["name"]);
        let id = add(&mut client, job).await;
        assert_eq!(run(&mut client, &id).await["status"], "error");
        until("the news", async || {
            let news = failures(&mut client, session).await;
            news.iter().any(|text| text.starts_with(&begins)).then_some(())
        })
        .await;
    }
    assert_eq!(failures(&mut client, "main").await, [""; 0]);
    assert_eq!(failures(&mut client, "desk").await.len(), 2);
}

#[tokio::test]
async fn somebody_hears_of_a_job_whose_run_takes_longer_than_its_interval() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "m-1").await;
    let mut slow = asking("slow", "@mock stream n=200 delay=100");
    slow["schedule"] = json!({"kind": "every", "everyMs": 50});
    let mut quiet = slow.clone();
    quiet["name"] = json!("quiet");
    slow["failureAlert"] = json!({"after": 2, "includeSkipped": true, "cooldownMs": 3_600_000});
    let (slow, quiet) = (add(&mut client, slow).await, add(&mut client, quiet).await);
    let begins = |text: &str| text.starts_with("Cron job \"slow\" failed ");
    until("the alert", async || {
        told(&mut client, "main").await.iter().any(|(_, text)| begins(text)).then_some(())
    })
    .await;
    let skips = job(&mut client, &slow).await["state"]["consecutiveSkipped"].as_u64();
    assert!(skips.is_some_and(|skips| skips >= 2), "{skips:?}");
    until("a skip of the other", async || {
        let skips = job(&mut client, &quiet).await["state"]["consecutiveSkipped"].as_u64();
        skips.filter(|skips| *skips >= 2)
    })
    .await;
    let said = told(&mut client, "main").await;
    let alerts = said.iter().filter(|(_, text)| text.starts_with("Cron job")).count();
    assert_eq!(alerts, 1, "{said:?}");
    // Each second they are told of together, however short the interval.
    let frames = client.frames();
    let told_of = frames
        .iter()
        .filter(|frame| frame["event"] == "cron" && frame["payload"]["status"] == "skipped");
    let skipped = skips.unwrap_or_default();
    assert!((told_of.count() as u64) < skipped, "{skipped} skipped");
}
