//! What a change of a job leaves as it was, and what it takes away.

use serde_json::{Value, json};

use super::{add, asking, job};
use crate::stage::{Api, RUN_LIMIT, admin, call, refusal, scripted};
use crate::support::WsClient;

/// Changes a job; the job as it is then.
async fn change(client: &mut WsClient, id: &str, patch: Value) -> Value {
    call(client, "cron.update", json!({"id": id, "patch": patch})).await
}

/// The last event of a job, once there are so many.
async fn told_last(client: &WsClient, id: &str, count: usize) -> Value {
    let told = client.wait_until(RUN_LIMIT, |all| {
        let frames = all.iter().filter_map(|received| received.what.frame());
        let is_of_job = |payload: &&Value| payload["jobId"] == id && payload["action"].is_string();
        frames.map(|frame| &frame["payload"]).filter(is_of_job).nth(count - 1).cloned()
    });
    told.await.unwrap_or_else(|| panic!("{id} has no {count} events: {:?}", client.frames()))
}

#[tokio::test]
async fn what_is_told_last_of_a_job_is_its_last_change() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut one = admin(&gateway).await;
    let mut two = admin(&gateway).await;
    let mut three = admin(&gateway).await;
    for _ in 0..20 {
        let id = add(&mut one, asking("new", "m")).await;
        let named = |name: &str| json!({"id": id, "patch": {"name": name}});
        let update = "cron.update";
        tokio::join!(
            call(&mut one, update, named("one")),
            call(&mut two, update, named("two")),
            call(&mut three, update, named("three")),
        );
        let last = told_last(&one, &id, 4).await;
        assert_eq!(last["job"], job(&mut one, &id).await);
        let (first, second, _) = tokio::join!(
            one.request(update, named("four")),
            two.request(update, named("five")),
            call(&mut three, "cron.remove", json!({"id": id})),
        );
        // Once it is gone there is nothing to change.
        let changes = [first, second].iter().filter(|answer| answer["ok"] == true).count();
        let last = told_last(&one, &id, 5 + changes).await;
        assert_eq!(last["action"], "removed", "{last}");
    }
}

#[tokio::test]
async fn news_of_failures_change_member_by_member_and_false_turns_them_off() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut new = asking("reports", "m");
    new["failureAlert"] = json!({"after": 3, "channel": "webchat", "to": "desk"});
    new["delivery"]["failureDestination"] = json!({"channel": "webchat", "to": "desk"});
    let id = add(&mut client, new).await;

    let patch = json!({"failureAlert": {"cooldownMs": 5, "after": 2},
        "delivery": {"failureDestination": {"mode": "announce"}}});
    let changed = change(&mut client, &id, patch).await;
    let alert = json!({"after": 2, "channel": "webchat", "to": "desk", "cooldownMs": 5});
    let destination = json!({"channel": "webchat", "to": "desk", "mode": "announce"});
    assert_eq!(changed["failureAlert"], alert);
    assert_eq!(changed["delivery"]["failureDestination"], destination);

    // A blank text is none any more.
    let patch = json!({"failureAlert": {"to": ""}, "delivery": {"failureDestination": {"to": ""}}});
    let changed = change(&mut client, &id, patch).await;
    assert_eq!(changed["failureAlert"]["to"], Value::Null);
    let destination = json!({"channel": "webchat", "mode": "announce"});
    assert_eq!(changed["delivery"]["failureDestination"], destination);

    let changed = change(&mut client, &id, json!({"failureAlert": false})).await;
    assert_eq!(changed["failureAlert"], false);
    assert_eq!(changed["delivery"]["failureDestination"], destination);
    let changed = change(&mut client, &id, json!({"failureAlert": {"after": 4}})).await;
    assert_eq!(changed["failureAlert"], json!({"after": 4}));
    assert_eq!(job(&mut client, &id).await["failureAlert"], changed["failureAlert"]);
}

#[tokio::test]
async fn a_job_that_goes_to_the_main_session_announces_no_more() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut new = asking("tea", "m");
    new.as_object_mut().unwrap().remove("delivery");
    let id = add(&mut client, new).await;
    assert_eq!(job(&mut client, &id).await["delivery"], json!({"mode": "announce"}));
    let to_main =
        json!({"sessionTarget": "main", "payload": {"kind": "systemEvent", "text": "tea"}});
    let changed = change(&mut client, &id, to_main.clone()).await;
    assert_eq!((&changed["sessionTarget"], &changed["delivery"]), (&json!("main"), &Value::Null));

    // Who asks for it there is told that it is not done.
    let announce = json!({"id": id, "patch": {"delivery": {"mode": "announce"}}});
    let why = refusal(&mut client, "cron.update", announce).await;
    assert!(why.contains("only supported for sessionTarget=\"isolated\""), "{why}");
    assert_eq!(job(&mut client, &id).await, changed);

    // It does again where that is the default, and says so at once.
    let back = json!({"sessionTarget": "isolated",
        "payload": {"kind": "agentTurn", "message": "m"}});
    let changed = change(&mut client, &id, back).await;
    assert_eq!(changed["delivery"], json!({"mode": "announce"}));
    assert_eq!(job(&mut client, &id).await, changed);

    let mut posts = asking("posts", "m");
    posts["delivery"] = json!({"mode": "webhook", "to": "http://127.0.0.1/x"});
    let id = add(&mut client, posts.clone()).await;
    let changed = change(&mut client, &id, to_main).await;
    assert_eq!(changed["delivery"], posts["delivery"], "a web server still gets it");
}

#[tokio::test]
async fn a_calendar_that_does_not_say_how_it_is_spread_is_spread_as_before() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut new = asking("spread", "m");
    new["schedule"] = json!({"kind": "cron", "expr": "0 9 * * *", "staggerMs": 7000});
    let id = add(&mut client, new).await;
    for (schedule, spread) in [
        (json!({"kind": "cron", "expr": "0 * * * *"}), json!(7000)),
        (json!({"kind": "cron", "expr": "0 * * * *", "staggerMs": 0}), json!(0)),
        (json!({"kind": "every", "everyMs": 60_000}), Value::Null),
        (json!({"kind": "cron", "expr": "0 * * * *"}), json!(300_000)),
    ] {
        let changed = change(&mut client, &id, json!({"schedule": schedule})).await;
        assert_eq!(changed["schedule"]["staggerMs"], spread, "{schedule}");
    }
}

#[tokio::test]
async fn an_interval_that_stays_as_long_keeps_its_instants() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut new = asking("steady", "m");
    new["schedule"] = json!({"kind": "every", "everyMs": 3_600_000, "anchorMs": 5});
    let id = add(&mut client, new.clone()).await;
    let next = job(&mut client, &id).await["state"]["nextRunAtMs"].clone();
    // As forms send it, which know no anchor.
    let renamed = json!({"name": "renamed", "schedule": {"kind": "every", "everyMs": 3_600_000}});
    let changed = change(&mut client, &id, renamed).await;
    assert_eq!(
        (&changed["name"], &changed["schedule"], &changed["state"]["nextRunAtMs"]),
        (&json!("renamed"), &new["schedule"], &next)
    );
    // Another one begins now.
    let longer = json!({"schedule": {"kind": "every", "everyMs": 7_200_000}});
    let changed = change(&mut client, &id, longer).await;
    assert_eq!(changed["schedule"]["anchorMs"], changed["updatedAtMs"], "{changed}");
}

#[tokio::test]
async fn how_a_job_is_doing_can_be_said_but_not_when_it_runs() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let id = add(&mut client, asking("job", "m")).await;
    let mut meant = job(&mut client, &id).await["state"].clone();
    let said = json!({"consecutiveErrors": 7, "lastError": "no luck", "lastRunStatus": "error",
        "lastDelivered": false, "lastDeliveryStatus": "not-delivered"});
    meant.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
    let mut state = said;
    state.as_object_mut().unwrap().extend(
        json!({"nextRunAtMs": 1, "runningAtMs": 2, "lastRunAtMs": 3, "consecutiveSkipped": 4,
            "lastErrorReason": "auth"})
        .as_object()
        .unwrap()
        .clone(),
    );
    let changed = change(&mut client, &id, json!({"state": state})).await;
    assert_eq!(changed["state"], meant);
    assert_eq!(job(&mut client, &id).await, changed);

    // What is not said stays.
    let changed = change(&mut client, &id, json!({"state": {"consecutiveErrors": 0}})).await;
    meant["consecutiveErrors"] = json!(0);
    assert_eq!(changed["state"], meant);

    for (wrong, why) in [
        (json!({"bogus": 1}), "at /patch/state: unexpected property 'bogus'"),
        (json!({"nextRunAtMs": -1}), "at /patch/state/nextRunAtMs: must be >= 0"),
        (json!({"lastStatus": "fine"}), "at /patch/state/lastStatus: must be equal to constant"),
    ] {
        let update = json!({"id": id, "patch": {"state": wrong}});
        let told = refusal(&mut client, "cron.update", update).await;
        assert!(told.starts_with(&format!("invalid cron.update params: {why}; ")), "{told}");
    }
}

#[tokio::test]
async fn a_job_that_is_named_wrongly_is_told_all_that_is_wrong() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for (method, params, why) in [
        (
            "cron.runs",
            json!({"id": ""}),
            "at /id: must NOT have fewer than 1 characters; at /id: must match pattern \
             \"^[^/\\\\]+$\"",
        ),
        ("cron.run", json!([]), "must be object; must match a schema in anyOf"),
        ("cron.remove", json!([]), "must be object; must match a schema in anyOf"),
        (
            "wake",
            json!({"mode": null, "text": "x"}),
            "at /mode: must be string; at /mode: must be equal to constant; at /mode: must match \
             a schema in anyOf",
        ),
        (
            "config.schema.lookup",
            json!({"path": ""}),
            "at /path: must NOT have fewer than 1 characters; at /path: must match pattern \
             \"^[A-Za-z0-9_./\\[\\]\\-*]+$\"",
        ),
    ] {
        let told = refusal(&mut client, method, params).await;
        assert_eq!(told, format!("invalid {method} params: {why}"));
    }
}

#[tokio::test]
async fn runs_of_one_job_are_those_of_a_job_that_is_named() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let answer = client.request("cron.runs", json!({"scope": "job"})).await;
    assert_eq!(answer["error"]["code"], "INVALID_REQUEST", "{answer}");
    assert_eq!(answer["error"]["message"], "invalid cron.runs params: missing id");
    for params in [json!({}), json!({"scope": "all"}), json!({"scope": "job", "jobId": "gone"})] {
        assert_eq!(call(&mut client, "cron.runs", params).await["total"], 0);
    }
}
