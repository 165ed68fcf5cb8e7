//! Reminders, `wake`, and heartbeats.

use std::time::Duration;

use serde_json::{Value, json};

use super::{add, hour, log, may_make_jobs, run};
use crate::stage::{
    Api, RUN_LIMIT, admin, ask, call, config, connect, end_of, refusal, row, scripted, start, told,
    until,
};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider, NodeClient, WsClient};

async fn heartbeat(client: &WsClient, seen: usize) -> Value {
    let found = client.wait_until(RUN_LIMIT, |all| {
        let frames = all.iter().filter_map(|received| received.what.frame());
        let beats = frames.filter(|frame| frame["event"] == "heartbeat");
        beats.map(|frame| frame["payload"].clone()).nth(seen)
    });
    found.await.expect("no heartbeat")
}

/// A gateway whose agent has this file from the beginning.
async fn with_file(config: Value, text: &str) -> Gateway {
    let root = tempfile::TempDir::with_prefix("clawgate-test-").unwrap();
    std::fs::create_dir(root.path().join("workspace")).unwrap();
    std::fs::write(root.path().join("workspace/HEARTBEAT.md"), text).unwrap();
    Gateway::start_in(root, GatewayOptions::with_config(config)).await.unwrap()
}

fn reminder(text: &str) -> Value {
    json!({"name": "reminder", "schedule": hour(), "sessionTarget": "main", "wakeMode": "now",
        "payload": {"kind": "systemEvent", "text": text}})
}

#[tokio::test]
async fn a_reminder_makes_the_main_session_speak_and_its_question_stays_out_of_sight() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let id = add(&mut client, reminder("@mock text text=\"Tea is ready.\"")).await;
    let end = run(&mut client, &id).await;
    assert_eq!((&end["status"], &end["deliveryStatus"]), (&json!("ok"), &json!("not-requested")));
    let beat = heartbeat(&client, 0).await;
    assert_eq!((&beat["status"], &beat["reason"]), (&json!("skipped"), &json!("target-none")));
    assert_eq!(beat["preview"], "Tea is ready.");
    assert_eq!(call(&mut client, "last-heartbeat", json!({})).await, beat);
    let said = [("assistant".to_owned(), "Tea is ready.".to_owned())];
    assert_eq!(told(&mut client, "main").await, said);
    // The chat hears the answer, and nothing before it.
    let of_main = |frame: &Value| frame["payload"]["sessionKey"] == "agent:main:main";
    let states: Vec<_> = client
        .frames()
        .into_iter()
        .filter(of_main)
        .map(|frame| (frame["event"].clone(), frame["payload"]["state"].clone()))
        .collect();
    assert_eq!(states, [(json!("chat"), json!("final"))]);
    assert_eq!(log(&mut client, &id).await.len(), 1);
}

#[tokio::test]
async fn a_reminder_in_a_session_of_another_agent_is_told_as_that_agent_has_it() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["list"] = json!([
        {"id": "main", "default": true, "heartbeat": {"every": "24h", "target": "last"}},
        {"id": "ops"}
    ]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "agent:ops:main", "hello", "m-1").await;
    let mut tea = reminder("@mock text text=\"Tea is ready.\"");
    tea["sessionKey"] = json!("agent:ops:main");
    let id = add(&mut client, tea).await;
    run(&mut client, &id).await;
    let beat = heartbeat(&client, 0).await;
    assert_eq!(beat["preview"], "Tea is ready.", "{beat}");
    assert_eq!((&beat["status"], &beat["reason"]), (&json!("skipped"), &json!("target-none")));
}

#[tokio::test]
async fn whoever_hears_somebody_else_has_no_tool_of_the_owner() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut owner = admin(&gateway).await;
    let mut writer = connect(&gateway, &standard_connect(&["operator.write"])).await;
    let now = |text: &str| json!({"mode": "now", "text": text});
    let later = |text: &str| json!({"mode": "next-heartbeat", "text": text});
    call(&mut owner, "wake", now("the owner says")).await;
    assert!(may_make_jobs(&mock, "the owner says").await);
    call(&mut writer, "wake", now("a writer says")).await;
    assert!(!may_make_jobs(&mock, "a writer says").await);
    // Nor beside what the owner says, be it a message, nor after a crash.
    call(&mut writer, "wake", later("says another")).await;
    call(&mut owner, "wake", now("the owner goes on")).await;
    assert!(!may_make_jobs(&mock, "the owner goes on").await);
    call(&mut writer, "wake", later("says before a crash")).await;
    gateway.kill9();
    gateway.restart().await;
    let mut owner = admin(&gateway).await;
    ask(&mut owner, "main", "hello", "m-1").await;
    assert!(!may_make_jobs(&mock, "says before a crash").await);
    ask(&mut owner, "main", "and now", "m-2").await;
    assert!(may_make_jobs(&mock, "and now").await);
}

#[tokio::test]
async fn what_the_owner_has_told_and_made_is_his_after_a_crash_too() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut owner = admin(&gateway).await;
    let later = json!({"mode": "next-heartbeat", "text": "the cat is out"});
    call(&mut owner, "wake", later).await;
    gateway.kill9();
    gateway.restart().await;
    let mut owner = admin(&gateway).await;
    let id = add(&mut owner, reminder("Tea is ready.")).await;
    run(&mut owner, &id).await;
    assert!(may_make_jobs(&mock, "Tea is ready.").await);
    assert!(may_make_jobs(&mock, "the cat is out").await);
}

#[tokio::test]
async fn what_a_phone_shows_takes_tools_from_a_heartbeat_and_none_from_who_asks() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut owner = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    let posted = |key: &str| json!({"change": "posted", "key": key, "title": "Mail"});
    phone.report("notifications.changed", &posted("one")).await;
    ask(&mut owner, "main", "hello", "m-1").await;
    assert!(may_make_jobs(&mock, "key=one").await);
    phone.report("notifications.changed", &posted("two")).await;
    call(&mut owner, "wake", json!({"mode": "now", "text": "go on"})).await;
    assert!(!may_make_jobs(&mock, "key=two").await);
}

#[tokio::test]
async fn an_acknowledgement_bothers_nobody() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for (seen, said) in ["HEARTBEAT_OK", "All is quiet. HEARTBEAT_OK"].into_iter().enumerate() {
        let params = json!({"mode": "now", "text": format!("@mock text text={}", json!(said))});
        assert_eq!(call(&mut client, "wake", params).await, json!({"ok": true}));
        assert_eq!(heartbeat(&client, seen).await["status"], "ok-token");
    }
    assert_eq!(told(&mut client, "main").await, []);
    assert!(!client.frames().iter().any(|frame| frame["event"] == "chat"));
    // What may wait is heard with the next message.
    let later = json!({"mode": "next-heartbeat", "text": "the cat is out"});
    call(&mut client, "wake", later).await;
    let status = call(&mut client, "status", json!({})).await;
    assert_eq!(status["queuedSystemEvents"], json!(["the cat is out"]));
    ask(&mut client, "main", "hello", "m-1").await;
    let status = call(&mut client, "status", json!({})).await;
    assert_eq!(status["queuedSystemEvents"], json!([]));
}

#[tokio::test]
async fn an_acknowledgement_lifts_no_session_and_gives_it_no_preview() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "m-1").await;
    ask(&mut client, "other", "later", "m-2").await;
    let before = row(&mut client, "agent:main:main").await;
    let params = json!({"mode": "now", "text": "@mock text text=\"HEARTBEAT_OK\""});
    call(&mut client, "wake", params).await;
    assert_eq!(heartbeat(&client, 0).await["status"], "ok-token");
    let wanted = json!({"includeDerivedTitles": true, "includeLastMessage": true});
    let list = call(&mut client, "sessions.list", wanted).await;
    let (first, main) = (&list["sessions"][0], &list["sessions"][1]);
    assert_eq!((&first["key"], &main["key"]), (&json!("agent:main:other"), &before["key"]));
    assert_eq!(main["updatedAt"], before["updatedAt"], "{main}");
    assert_eq!(
        (&main["derivedTitle"], &main["lastMessagePreview"]),
        (&json!("hello"), &json!("Echo: hello"))
    );
}

#[tokio::test]
async fn an_acknowledgement_takes_back_nothing_of_what_others_did_meanwhile() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "m-1").await;
    let main = "agent:main:main";
    let mut lifted_at = row(&mut client, main).await["updatedAt"].clone();
    for (seen, go) in ["go-1", "go-2"].into_iter().enumerate() {
        let waits = json!({"command": format!("until test -e {go}; do sleep 0.05; done")});
        let text = format!("@mock tool name=exec args={waits} then=\"HEARTBEAT_OK\"");
        let asked = mock.requests().len();
        call(&mut client, "wake", json!({"mode": "now", "text": text})).await;
        until("the tool", async || (mock.requests().len() > asked).then_some(())).await;
        if go == "go-2" {
            call(&mut client, "sessions.patch", json!({"key": main, "label": "Mine"})).await;
            let labelled_at = row(&mut client, main).await["updatedAt"].clone();
            assert!(labelled_at.as_u64() > lifted_at.as_u64(), "{labelled_at}");
            lifted_at = labelled_at;
        }
        std::fs::write(gateway.workspace().join(go), "").unwrap();
        assert_eq!(heartbeat(&client, seen).await["status"], "ok-token");
        assert_eq!(mock.requests().len(), asked + 2, "it has called its tool");
        assert_eq!(row(&mut client, main).await["updatedAt"], lifted_at, "{go}");
    }
}

#[tokio::test]
async fn who_is_woken_is_asked_in_the_session_that_was_told_wherever_heartbeats_are() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["heartbeat"] = json!({"session": "side"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let params = json!({"mode": "now", "text": "@mock text text=\"The cat is out.\""});
    call(&mut client, "wake", params).await;
    assert_eq!(heartbeat(&client, 0).await["preview"], "The cat is out.");
    let said = [("assistant".to_owned(), "The cat is out.".to_owned())];
    assert_eq!(told(&mut client, "main").await, said);
    let status = call(&mut client, "status", json!({})).await;
    assert_eq!(status["queuedSystemEvents"], json!([]));
}

#[tokio::test]
async fn where_too_much_waits_who_is_woken_hears_it_and_presence_is_told() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for number in 0..100 {
        let later = json!({"mode": "next-heartbeat", "text": format!("event {number}")});
        call(&mut client, "wake", later).await;
    }
    let late = json!({"text": "plain news", "instanceId": "late", "host": "late"});
    let why = refusal(&mut client, "system-event", late).await;
    assert!(why.contains("too many system events wait"), "{why}");
    let is_told = |frame: &Value| {
        let present = frame["payload"]["presence"].as_array();
        frame["event"] == "presence"
            && present.into_iter().flatten().any(|entry| entry["instanceId"] == "late")
    };
    client.wait_for(RUN_LIMIT, is_told).await.expect("it is told who is there");
    let doorbell = json!({"mode": "now", "text": "doorbell"});
    let why = refusal(&mut client, "wake", doorbell.clone()).await;
    assert!(why.contains("too many system events wait"), "{why}");
    until("room", async || {
        (client.request("wake", doorbell.clone()).await["ok"] == true).then_some(())
    })
    .await;
}

#[tokio::test]
async fn beacons_take_no_room_from_what_somebody_wants_to_be_heard() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for number in 0..110 {
        let text = format!("Node: mac{number} · mode local · reason launch");
        let beacon = json!({"text": text, "instanceId": format!("mac{number}")});
        call(&mut client, "system-event", beacon).await;
    }
    let later = json!({"mode": "next-heartbeat", "text": "the cat is out"});
    call(&mut client, "wake", later).await;
    let status = call(&mut client, "status", json!({})).await;
    let waiting = status["queuedSystemEvents"].as_array().unwrap();
    assert_eq!((waiting.len(), &waiting[20]), (21, &json!("the cat is out")));
    assert_eq!(waiting[19], "Node: mac109 · mode local · reason launch");
}

#[tokio::test]
async fn an_agent_is_asked_by_the_clock_when_its_file_says_something() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["heartbeat"] =
        json!({"every": "1s", "prompt": "@mock text text=\"Mail came.\""});
    let gateway = with_file(config, "# Look\n").await;
    let mut client = admin(&gateway).await;
    let first = heartbeat(&client, 0).await;
    assert_eq!(
        (&first["status"], &first["reason"]),
        (&json!("skipped"), &json!("empty-heartbeat-file"))
    );
    assert!(mock.requests().is_empty());
    std::fs::write(gateway.workspace().join("HEARTBEAT.md"), "# Look\n- check the mail\n").unwrap();
    let said = until("news", async || {
        told(&mut client, "main").await.into_iter().next().map(|(_, text)| text)
    });
    assert_eq!(said.await, "Mail came.");
    let off = call(&mut client, "set-heartbeats", json!({"enabled": false})).await;
    assert_eq!(off, json!({"ok": true, "enabled": false}));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (asked, health) = (mock.requests().len(), call(&mut client, "health", json!({})).await);
    assert_eq!(health["heartbeatSeconds"], 1);
    assert_eq!(health["agents"][0]["heartbeat"]["everyMs"], 1000);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(mock.requests().len(), asked);
}

#[tokio::test]
async fn a_question_of_ones_own_needs_no_file() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["heartbeat"] =
        json!({"every": "1s", "prompt": "@mock text text=\"Mail came.\""});
    let gateway = with_file(config, "# Look\n").await;
    let mut client = admin(&gateway).await;
    std::fs::remove_file(gateway.workspace().join("HEARTBEAT.md")).unwrap();
    let said = until("news", async || {
        told(&mut client, "main").await.into_iter().next().map(|(_, text)| text)
    });
    assert_eq!(said.await, "Mail came.");
}

#[tokio::test]
async fn one_by_the_clock_comes_once_its_session_is_free() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["heartbeat"] =
        json!({"every": "2s", "prompt": "@mock text text=\"Mail came.\""});
    let gateway = with_file(config, "# Look\n").await;
    let mut client = admin(&gateway).await;
    // It is time for one while this goes on.
    let slow = json!({"command": "sleep 3"});
    let text = format!("@mock tool name=exec args={slow} then=done");
    start(&mut client, "main", &text, "m-1").await;
    until("it runs", async || (!mock.requests().is_empty()).then_some(())).await;
    std::fs::write(gateway.workspace().join("HEARTBEAT.md"), "- check the mail\n").unwrap();
    end_of(&client, "m-1").await;
    let (beats, news) = until("news", async || {
        let frames = client.frames().into_iter().filter(|frame| frame["event"] == "heartbeat");
        let beats: Vec<Value> = frames.map(|frame| frame["payload"].clone()).collect();
        let news = beats.iter().position(|beat| beat["preview"] == "Mail came.")?;
        Some((beats, news))
    })
    .await;
    let before = &beats[..news];
    assert!(before.iter().all(|beat| beat["reason"] == "empty-heartbeat-file"), "{before:?}");
}

#[tokio::test]
async fn one_that_has_waited_for_its_session_is_as_the_config_says_by_then() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=2000 delay=50", "m-1").await;
    until("it answers", async || (mock.requests().len() == 1).then_some(())).await;
    let news = json!({"mode": "now", "text": "@mock text text=\"Mail came.\""});
    call(&mut client, "wake", news).await;
    let change = json!({"agents": {"defaults": {"heartbeat": {"every": "7m", "target": "last"}}}});
    let hash = call(&mut client, "config.get", json!({})).await["hash"].clone();
    call(&mut client, "config.patch", json!({"raw": change.to_string(), "baseHash": hash})).await;
    until("it counts", async || {
        let health = call(&mut client, "health", json!({})).await;
        (health["heartbeatSeconds"] == 420).then_some(())
    })
    .await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
    let beat = heartbeat(&client, 0).await;
    assert_eq!((&beat["status"], &beat["preview"]), (&json!("sent"), &json!("Mail came.")));
}

#[tokio::test]
async fn outside_of_its_hours_an_agent_is_asked_only_when_somebody_wakes_it() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    // Two hours that begin two hours from now.
    let hour = |later: u64| format!("{:02}:00", (super::now() / 3_600_000 + later) % 24);
    let hours = json!({"start": hour(2), "end": hour(4), "timezone": "UTC"});
    config["agents"]["defaults"]["heartbeat"] =
        json!({"every": "1s", "prompt": "@mock text text=\"Mail came.\"", "activeHours": hours});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    std::fs::write(gateway.workspace().join("HEARTBEAT.md"), "- check the mail\n").unwrap();
    let mut client = admin(&gateway).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(mock.requests().is_empty());
    let params = json!({"mode": "now", "text": "@mock text text=\"HEARTBEAT_OK\""});
    call(&mut client, "wake", params).await;
    assert_eq!(heartbeat(&client, 0).await["status"], "ok-token");
}

#[tokio::test]
async fn what_is_to_be_told_survives_a_kill_and_is_told_once() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let later = json!({"mode": "next-heartbeat", "text": "the cat is out"});
    call(&mut client, "wake", later).await;
    let mut waits = reminder("feed the cat");
    waits["wakeMode"] = json!("next-heartbeat");
    let id = add(&mut client, waits).await;
    run(&mut client, &id).await;
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let status = call(&mut client, "status", json!({})).await;
    assert_eq!(status["queuedSystemEvents"], json!(["the cat is out", "feed the cat"]));
    ask(&mut client, "main", "hello", "m-1").await;
    let heard = mock.requests().pop().unwrap().body.to_string();
    assert!(heard.contains("the cat is out") && heard.contains("feed the cat"), "{heard}");
    assert!(gateway.terminate().await.unwrap().success());
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let status = call(&mut client, "status", json!({})).await;
    assert_eq!(status["queuedSystemEvents"], json!([]));
}

#[tokio::test]
async fn a_reminder_that_is_cut_off_by_a_kill_is_heard_in_the_next_turn() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let text = "feed the cat @mock stream n=500 delay=50";
    let id = add(&mut client, reminder(text)).await;
    run(&mut client, &id).await;
    until("it is being said", async || (!mock.requests().is_empty()).then_some(())).await;
    // What is forgotten once an agent is asked is so by then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let status = call(&mut client, "status", json!({})).await;
    assert_eq!(status["queuedSystemEvents"], json!([text]));
}

#[tokio::test]
async fn what_wakes_an_agent_while_it_answers_is_one_turn() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=40 delay=80", "m-1").await;
    until("it answers", async || (mock.requests().len() == 1).then_some(())).await;
    for number in 0..5 {
        call(&mut client, "wake", json!({"mode": "now", "text": format!("event {number}")})).await;
        // Long enough that each is seen by itself.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    end_of(&client, "m-1").await;
    heartbeat(&client, 0).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let requests = mock.requests();
    assert_eq!(requests.len(), 2, "the message, and one turn for all");
    let heard = requests[1].body.to_string();
    assert!((0..5).all(|number| heard.contains(&format!("event {number}"))), "{heard}");
    let frames = client.frames();
    assert_eq!(frames.iter().filter(|frame| frame["event"] == "heartbeat").count(), 1);
}
