//! What happens to the file, and what of it waits.

use std::fs;
use std::os::unix::fs::symlink;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{config, edit, logged, patch, put, until};
use crate::stage::{Api, admin, call, scripted};
use crate::support::{Gateway, GatewayOptions, MockProvider};

#[tokio::test]
async fn a_file_that_is_wrong_changes_nothing_until_it_is_right_again() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut client, good) = (admin(&gateway).await, config(&gateway));
    for (wrong, path) in [
        (json!({"port": "x"}), "gateway.port"),
        (json!({"auth": {"mode": "open"}}), "gateway.auth.mode"),
    ] {
        edit(&gateway, |config| {
            config["gateway"] = wrong;
            config["session"] = json!({"mainKey": "wrong"});
        });
        let health = until(&mut client, "health", |told| told["configIssue"]["path"] == path).await;
        assert!(health["configIssue"]["message"].as_str().unwrap().starts_with("must be"));
    }
    let half = &good.to_string()[..40];
    for (written, told_as) in [(half, "openclaw.json:1:"), ("\n", "openclaw.json is empty")] {
        put(&gateway, written);
        let is_told = |told: &Value| told["configIssue"]["message"].to_string().contains(told_as);
        until(&mut client, "health", is_told).await;
    }
    let mut wrong = good.clone();
    wrong["models"]["providers"]["mock"]["api"] = json!("grpc");
    put(&gateway, &wrong.to_string());
    let seen =
        until(&mut client, "config.get", |seen| seen["issues"].to_string().contains("unknown api"));
    assert_eq!(seen.await["valid"], false);
    fs::remove_file(gateway.config_path()).unwrap();
    until(&mut client, "health", |told| told["configIssue"].to_string().contains("is gone")).await;
    assert_eq!(call(&mut client, "agents.list", json!({})).await["mainKey"], "main");
    let mut right = good.clone();
    right["session"] = json!({"mainKey": "right"});
    put(&gateway, &right.to_string());
    until(&mut client, "agents.list", |told| told["mainKey"] == "right").await;
    until(&mut client, "health", |told| told["configIssue"].is_null()).await;
    assert!(client.closed().is_none());
    assert_eq!(gateway.stderr().matches("the last good one stays").count(), 6, "once for each");
}

#[tokio::test]
async fn an_included_file_that_is_empty_takes_nothing_away() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let part = gateway.config_path().with_file_name("tools.json5");
    let is_denied =
        |names: Value| move |seen: &Value| seen["runtimeConfig"]["tools"]["deny"] == names;
    fs::write(&part, "{deny: ['exec']}").unwrap();
    edit(&gateway, |config| config["tools"] = json!({"$include": "tools.json5"}));
    until(&mut client, "config.get", is_denied(json!(["exec"]))).await;
    fs::write(&part, "").unwrap();
    let is_told = |told: &Value| {
        told["configIssue"]["message"].to_string().contains("tools.json5 is empty; write {} to go")
    };
    until(&mut client, "health", is_told).await;
    let seen = call(&mut client, "config.get", json!({})).await;
    assert!(is_denied(json!(["exec"]))(&seen), "{seen}");
    let refused = patch(&mut client, json!({"session": {"mainKey": "m"}})).await;
    assert!(refused["error"].to_string().contains("tools.json5 is empty"), "{refused}");
    fs::write(&part, "{deny: ['exec', 'write']}").unwrap();
    until(&mut client, "config.get", is_denied(json!(["exec", "write"]))).await;
    until(&mut client, "health", |told| told["configIssue"].is_null()).await;
}

#[tokio::test]
async fn a_model_that_there_is_not_is_told_and_stops_no_change() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    edit(&gateway, |config| {
        config["agents"]["defaults"]["model"]["primary"] = json!("nowhere/none");
        config["session"] = json!({"mainKey": "chief"});
    });
    until(&mut client, "agents.list", |told| told["mainKey"] == "chief").await;
    let seen = call(&mut client, "config.get", json!({})).await;
    assert_eq!((&seen["valid"], &seen["issues"]), (&json!(true), &json!([])));
    let warnings = seen["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|it| it["path"] == "agents.defaults.model"), "{warnings:?}");
    // What is there already keeps nobody from writing something else.
    let answer = patch(&mut client, json!({"session": {"mainKey": "boss"}})).await;
    assert_eq!(answer["ok"], true, "{answer}");
    // A name that is in vain in one place is so in another one.
    let agent = json!({"id": "other", "model": "nowhere/none"});
    let answer = patch(&mut client, json!({"agents": {"list": [agent]}})).await;
    let place = answer["error"]["details"]["issues"][0]["path"].as_str().unwrap_or_default();
    assert!(place.starts_with("agents.list["), "{answer}");
    let answer = patch(&mut client, json!({"agents": {"defaults": {"model": "other/none"}}})).await;
    assert_eq!(
        answer["error"]["details"]["issues"][0]["path"], "agents.defaults.model",
        "{answer}"
    );
}

#[tokio::test]
async fn a_patch_that_no_gateway_would_work_with_is_refused_and_not_written() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut client, before) = (admin(&gateway).await, config(&gateway));
    let model = json!({"agents": {"defaults": {"model": {"primary": "mock/none"}}}});
    let answer = patch(&mut client, model).await;
    let issue = &answer["error"]["details"]["issues"][0];
    assert_eq!(issue["path"], "agents.defaults.model", "{answer}");
    assert_eq!(config(&gateway), before);
    assert_eq!(call(&mut client, "health", json!({})).await.get("configIssue"), None);
}

#[tokio::test]
async fn how_long_the_file_is_left_alone_counts_for_the_next_change() {
    let mock = MockProvider::start().await;
    let mut first = crate::stage::config(mock.address(), Api::OpenAi);
    // Longer than anything here waits for a change.
    first["gateway"]["reload"] = json!({"mode": "hot", "debounceMs": 60_000});
    let gateway = Gateway::start(GatewayOptions::with_config(first)).await;
    let mut client = admin(&gateway).await;
    let shorter = json!({"gateway": {"reload": {"debounceMs": 0}}});
    let answer = patch(&mut client, shorter).await;
    assert_eq!(answer["ok"], true, "{answer}");
    edit(&gateway, |config| config["session"]["mainKey"] = json!("chief"));
    until(&mut client, "agents.list", |told| told["mainKey"] == "chief").await;
}

#[tokio::test]
async fn what_was_written_by_a_method_is_taken_up_once() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    patch(&mut client, json!({"session": {"mainKey": "chief"}})).await;
    assert_eq!(call(&mut client, "agents.list", json!({})).await["mainKey"], "chief", "at once");
    // What comes later is noticed, so that would have been noticed as well.
    edit(&gateway, |config| config["session"]["mainKey"] = json!("other"));
    until(&mut client, "agents.list", |told| told["mainKey"] == "other").await;
    let lines = || gateway.stderr().matches("the config file has changed").count();
    crate::stage::until("both lines", async || (lines() >= 2).then_some(())).await;
    assert_eq!(lines(), 2);
}

#[tokio::test]
async fn a_mounted_folder_that_is_exchanged_is_noticed() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let (path, folder) = (gateway.config_path(), gateway.root().join("mount"));
    for (name, key) in [("..1", "first"), ("..2", "second")] {
        let mut config = config(&gateway);
        config["session"] = json!({"mainKey": key});
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("openclaw.json"), config.to_string()).unwrap();
    }
    symlink("..1", folder.join("..data")).unwrap();
    symlink(folder.join("..data/openclaw.json"), path.with_extension("link")).unwrap();
    fs::rename(path.with_extension("link"), &path).unwrap();
    until(&mut client, "agents.list", |told| told["mainKey"] == "first").await;
    symlink("..2", folder.join("..new")).unwrap();
    fs::rename(folder.join("..new"), folder.join("..data")).unwrap();
    until(&mut client, "agents.list", |told| told["mainKey"] == "second").await;
}

#[tokio::test]
async fn what_a_crash_left_of_a_config_file_goes_also_where_a_link_leads() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let (path, folder) = (gateway.config_path(), gateway.root().join("elsewhere"));
    fs::create_dir(&folder).unwrap();
    fs::rename(&path, folder.join("openclaw.json")).unwrap();
    symlink(folder.join("openclaw.json"), &path).unwrap();
    let left = folder.join(".clawgate-0123456789abcdef");
    fs::write(&left, "{gateway: {auth: {token: 'half").unwrap();
    let file = fs::File::options().write(true).open(&left).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    gateway.restart().await;
    gateway.logs("removed files that a crash left half written").await;
    assert!(!left.exists() && folder.join("openclaw.json").exists());
}

#[tokio::test]
async fn a_file_that_is_included_anew_and_changes_before_it_is_watched_is_read_again() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let folder = gateway.config_path().with_file_name("parts");
    fs::create_dir(&folder).unwrap();
    let include = |cap: u64| {
        let text = json!({"queue": {"cap": cap}}).to_string();
        fs::write(folder.join("messages.json"), text).unwrap();
    };
    include(7);
    // What is taken up waits for the database in the end: links to sessions are ended.
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    edit(&gateway, |config| config["messages"] = json!({"$include": "./parts/messages.json"}));
    let mut is_used = async |cap: u64| {
        let has = |seen: &Value| seen["runtimeConfig"]["messages"]["queue"]["cap"] == cap;
        until(&mut client, "config.get", has).await;
    };
    is_used(7).await;
    include(8);
    database.execute_batch("ROLLBACK").unwrap();
    is_used(8).await;
}

#[tokio::test]
async fn an_included_link_that_leads_elsewhere_is_noticed() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let folder = gateway.state_dir();
    for (name, cap) in [("one.json", 7), ("two.json", 8)] {
        fs::write(folder.join(name), json!({"queue": {"cap": cap}}).to_string()).unwrap();
    }
    let has =
        |cap: u64| move |seen: &Value| seen["runtimeConfig"]["messages"]["queue"]["cap"] == cap;
    symlink("one.json", folder.join("messages.json")).unwrap();
    edit(&gateway, |config| config["messages"] = json!({"$include": "messages.json"}));
    until(&mut client, "config.get", has(7)).await;
    symlink("two.json", folder.join("next.json")).unwrap();
    fs::rename(folder.join("next.json"), folder.join("messages.json")).unwrap();
    until(&mut client, "config.get", has(8)).await;
}

#[tokio::test]
async fn another_address_waits_for_a_restart_or_brings_it() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    edit(&gateway, |config| {
        config["gateway"]["reload"] = json!({"mode": "hot"});
        config["gateway"]["bind"] = json!("custom");
        config["gateway"]["customBindHost"] = json!("127.0.0.2");
        config["session"] = json!({"mainKey": "chief"});
    });
    until(&mut client, "health", |told| told["restartPending"] == json!(["gateway.bind"])).await;
    let seen = call(&mut client, "config.get", json!({})).await;
    let warnings = seen["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["path"] == "gateway.bind"), "{warnings:?}");
    assert_eq!(call(&mut client, "agents.list", json!({})).await["mainKey"], "chief", "the rest");
    assert!(client.closed().is_none());
    let answer = patch(&mut client, json!({"gateway": {"reload": {"mode": "hybrid"}}})).await;
    assert_eq!(answer["payload"]["requiresRestart"], true, "answered before: {answer}");
    let closed = client.wait_closed(super::LIMIT).await.unwrap();
    assert_eq!((closed.code, &*closed.reason), (1012, "service restart"));
    logged(&gateway, &format!("ready address=127.0.0.2:{}", gateway.port())).await;
}

#[tokio::test]
async fn a_file_that_is_not_watched_is_taken_up_by_those_who_say_so() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    patch(&mut client, json!({"gateway": {"reload": {"mode": "off"}}})).await;
    edit(&gateway, |config| config["session"] = json!({"mainKey": "chief"}));
    patch(&mut client, json!({"ui": {"n": 1}})).await;
    assert_eq!(call(&mut client, "agents.list", json!({})).await["mainKey"], "chief");
    let lines = || gateway.stderr().matches("the config file has changed").count();
    crate::stage::until("both lines", async || (lines() >= 2).then_some(())).await;
    assert_eq!(lines(), 2);
}
