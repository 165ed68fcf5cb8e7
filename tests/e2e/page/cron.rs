//! Jobs on our page.

use std::fs;

use serde_json::{Value, json};

use super::Place;
use crate::stage::{RUN_LIMIT, admin, call};
use crate::support::WsClient;

/// What the job asks the agent.
const SAID: &str = "@mock text text=\"Good morning\"";

/// The jobs, by name.
async fn jobs(place: &Place) -> Vec<Value> {
    let mut client = admin(&place.gateway).await;
    let p = json!({"includeDisabled": true, "sortBy": "name"});
    let list = call(&mut client, "cron.list", p).await;
    list["jobs"].as_array().unwrap().clone()
}

/// The members of a job that the form asks for.
fn entered(job: &Value) -> Value {
    let names = ["name", "enabled", "schedule", "sessionTarget", "payload", "delivery"];
    names.into_iter().map(|name| (name.to_owned(), job[name].clone())).collect()
}

#[tokio::test]
async fn a_job_is_planned_run_changed_and_deleted_on_the_page() {
    let mut place = Place::new().await;
    let mut steps = place.begin("cron", "plans", json!({"said": SAID}));

    let asked = place.asked_for("added", &mut steps).await;
    let added = jobs(&place).await;
    let wanted = json!({
        "name": "Morning news", "enabled": true,
        "schedule": {"kind": "cron", "expr": "30 8 * * 1-5", "tz": "Europe/Paris"},
        "sessionTarget": "isolated",
        "payload": {"kind": "agentTurn", "message": SAID, "timeoutSeconds": 90},
        "delivery": {"mode": "none"},
    });
    assert_eq!(added.iter().map(entered).collect::<Vec<_>>(), [wanted]);
    let next = added[0]["state"]["nextRunAtMs"].as_u64().unwrap();
    asked.done();

    let asked = place.asked_for("edited", &mut steps).await;
    let edited = jobs(&place).await;
    assert_eq!(edited[0]["name"], "News");
    assert_eq!(edited[0]["schedule"]["everyMs"], 30 * 60 * 1000, "{edited:?}");
    assert_eq!(edited[0]["sessionTarget"], "session:agent:main:news");
    assert_eq!(edited[0]["payload"]["message"], SAID);
    asked.done();

    let asked = place.asked_for("turned-off", &mut steps).await;
    let all = jobs(&place).await;
    let states: Vec<_> = all.iter().map(|job| (&job["name"], &job["enabled"])).collect();
    assert_eq!(states, [(&json!("News"), &json!(false)), (&json!("News (copy)"), &json!(true))]);
    asked.done();

    let asked = place.asked_for("deleted", &mut steps).await;
    let left = jobs(&place).await;
    assert_eq!(left.iter().map(|job| &job["name"]).collect::<Vec<_>>(), ["News (copy)"]);
    let mut client = admin(&place.gateway).await;
    let other = json!({"name": "From elsewhere", "schedule": {"kind": "every", "everyMs": 60_000},
        "sessionTarget": "main", "payload": {"kind": "systemEvent", "text": "tick"}});
    call(&mut client, "cron.add", other).await;
    asked.done();

    let told = steps.await.unwrap();
    assert_eq!(told["previewed"], next, "{told}");
    assert_eq!(told["next"], next, "{told}");
    let session = told["session"].as_str().unwrap();
    assert!(session.starts_with("#/chat/agent%3Amain%3Acron%3A"), "{told}");
}

/// Waits until this is told of a job.
async fn happens(client: &WsClient, id: &Value, action: &str) {
    let is_told = |frame: &Value| {
        let payload = &frame["payload"];
        payload["jobId"] == *id && payload["action"] == action
    };
    client.wait_for(RUN_LIMIT, is_told).await.expect(action);
}

#[tokio::test]
async fn a_job_that_is_removed_while_it_runs_does_not_come_back() {
    let mut place = Place::new().await;
    let mut client = admin(&place.gateway).await;
    let command = json!({"command": "until test -e go; do sleep 0.05; done; echo gone"});
    let message = format!("@mock tool name=exec args={command} then=\"done\"");
    let job = |name: &str| {
        json!({"name": name, "schedule": {"kind": "every", "everyMs": 3_600_000},
            "sessionTarget": "isolated", "payload": {"kind": "agentTurn", "message": message},
            "delivery": {"mode": "none"}})
    };
    let id = call(&mut client, "cron.add", job("Long")).await["id"].clone();
    let mut steps = place.begin("cron", "loses", json!({}));
    let asked = place.asked_for("shown", &mut steps).await;
    call(&mut client, "cron.run", json!({"id": id})).await;
    happens(&client, &id, "started").await;
    call(&mut client, "cron.remove", json!({"id": id})).await;
    fs::write(place.gateway.workspace().join("go"), "").unwrap();
    happens(&client, &id, "finished").await;
    call(&mut client, "cron.add", job("Later")).await;
    asked.done();
    steps.await.unwrap();
}

#[tokio::test]
async fn a_job_that_came_without_a_word_is_shown_at_its_first_change() {
    let mut place = Place::new().await;
    let mut client = admin(&place.gateway).await;
    let job = json!({"name": "Daily", "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "main", "payload": {"kind": "systemEvent", "text": "tick"}});
    let id = call(&mut client, "cron.add", job).await["id"].clone();
    let mut steps = place.begin("cron", "hears", json!({}));
    let asked = place.asked_for("shown", &mut steps).await;
    call(&mut client, "cron.update", json!({"id": id, "patch": {"name": "Adopted"}})).await;
    asked.done();
    steps.await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_is_told_beside_its_field_and_what_is_typed_outlasts_a_restart() {
    let mut place = Place::new().await;
    let mut steps = place.begin("cron", "keeps", json!({}));
    let asked = place.asked_for("restart", &mut steps).await;
    place.gateway.restart_in_place().await;
    asked.done();
    let told = steps.await.unwrap();
    assert_eq!(told["message"], "must not be empty", "{told}");
    assert!(told["expr"].as_str().unwrap().starts_with("CronPattern: "), "{told}");
    assert!(
        told["zone"].as_str().unwrap().starts_with("unknown time zone \"Mars/Base\""),
        "{told}"
    );
    assert_eq!(told["none"], "must not be empty", "{told}");
    assert_eq!(told["limit"], "must be >= 0", "{told}");
    assert_eq!(told["wrong"], 2, "and nothing else: {told}");
    assert!(told["address"].as_str().unwrap().contains("valid http(s) URL"), "{told}");
    let kept = jobs(&place).await;
    assert_eq!(kept.len(), 1);
    assert_eq!(
        (&kept[0]["name"], &kept[0]["delivery"]["to"]),
        (&json!("Kept"), &json!("https://hook.example/in"))
    );
}

#[tokio::test]
async fn a_web_server_that_hears_of_a_reminder_does_so_after_a_change_and_of_a_copy() {
    let place = Place::new().await;
    let mut client = admin(&place.gateway).await;
    let every = json!({"kind": "every", "everyMs": 3_600_000});
    let posted = json!({"mode": "webhook", "to": "https://hook.example/in"});
    let tea = json!({"name": "Tea", "schedule": every, "sessionTarget": "main",
        "payload": {"kind": "systemEvent", "text": "Tea is ready"}, "delivery": posted});
    let news = json!({"name": "News", "schedule": every, "sessionTarget": "isolated",
        "payload": {"kind": "agentTurn", "message": SAID}, "delivery": {"mode": "announce"}});
    for job in [tea, news] {
        call(&mut client, "cron.add", job).await;
    }
    place.run("cron", "reminds", json!({})).await;
    let jobs = jobs(&place).await;
    let told: Vec<_> = jobs.iter().map(|job| (&job["name"], &job["delivery"])).collect();
    let names = [json!("Coffee"), json!("Coffee (copy)"), json!("News")];
    assert_eq!(told, [(&names[0], &posted), (&names[1], &posted), (&names[2], &Value::Null)]);
}

/// A job without what no two jobs have in common.
fn common(job: &Value) -> Value {
    let mut job = job.clone();
    let own = ["id", "name", "state", "createdAtMs", "updatedAtMs"];
    job.as_object_mut().unwrap().retain(|name, _| !own.contains(&name.as_str()));
    job
}

#[tokio::test]
async fn a_copy_of_a_job_has_what_the_form_does_not_show() {
    let place = Place::new().await;
    let mut client = admin(&place.gateway).await;
    let news = json!({"name": "News", "agentId": "main", "sessionKey": "agent:main:desk",
        "description": "What came in", "enabled": false, "deleteAfterRun": true, "missed": "30m",
        "schedule": {"kind": "every", "everyMs": 3_600_000, "anchorMs": 1_000},
        "sessionTarget": "isolated", "wakeMode": "next-heartbeat",
        "payload": {"kind": "agentTurn", "message": SAID, "thinking": "low", "timeoutSeconds": 90,
            "fallbacks": [], "toolsAllow": ["read"], "lightContext": true,
            "allowUnsafeExternalContent": true},
        "delivery": {"mode": "announce", "channel": "telegram", "to": "7", "threadId": 9,
            "accountId": "work", "bestEffort": true,
            "failureDestination": {"mode": "webhook", "to": "https://hook.example/in"}},
        "failureAlert": {"after": 2, "channel": "telegram", "to": "5", "cooldownMs": 60_000}});
    let news = common(&call(&mut client, "cron.add", news).await);
    place.run("cron", "copies", json!({})).await;
    let jobs = jobs(&place).await;
    let named = |name: &str| common(jobs.iter().find(|job| job["name"] == name).unwrap());
    assert_eq!(named("A copy"), news);

    // A thread is one of its chat.
    let mut elsewhere = news.clone();
    elsewhere["delivery"]["to"] = json!("8");
    elsewhere["delivery"].as_object_mut().unwrap().remove("threadId");
    assert_eq!(named("Elsewhere"), elsewhere);

    let mut posted = news["delivery"].clone();
    for name in ["channel", "accountId", "threadId"] {
        posted.as_object_mut().unwrap().remove(name);
    }
    (posted["mode"], posted["to"]) = (json!("webhook"), json!("https://hook.example/copy"));
    assert_eq!(named("Posted")["delivery"], posted);

    assert_eq!(named("Once")["deleteAfterRun"], true);
    assert_eq!(named("Again")["deleteAfterRun"], Value::Null);
    assert_eq!(named("Again")["failureAlert"], news["failureAlert"]);
}

#[tokio::test]
async fn escape_takes_no_form_away_in_which_something_was_typed() {
    let place = Place::new().await;
    place.run("cron", "asks_first", json!({})).await;
}

#[tokio::test]
async fn a_job_that_is_due_after_the_last_date_takes_no_list_away() {
    let place = Place::new().await;
    place.run("cron", "far", json!({})).await;
    assert_eq!(jobs(&place).await, Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_wrong_with_an_empty_calendar_is_said_in_plain_words() {
    let told = Place::new().await.run("cron", "empties", json!({})).await;
    assert_eq!(told, "must not be empty");
}

#[tokio::test]
async fn a_time_is_typed_without_a_pause_after_its_year() {
    let typed = Place::new().await.run("cron", "types_a_time", json!({})).await;
    assert_eq!(typed, "2027-06-01T09:00");
}
