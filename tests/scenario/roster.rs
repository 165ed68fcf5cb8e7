//! Agents that are added, changed and removed while the gateway runs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::channels::receiver::{Receiver, bring};
use crate::channels::{SIGNING, with_channels};
use crate::stage::{Api, admin, ask, call, connect, history, refusal, scripted, until};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, default_config};
use crate::workspace::system_prompt;

fn config_of(gateway: &Gateway) -> String {
    fs::read_to_string(gateway.config_path()).unwrap()
}

fn entries(gateway: &Gateway) -> Value {
    let config: Value = json5::from_str(&config_of(gateway)).unwrap();
    config["agents"]["list"].clone()
}

fn beside(gateway: &Gateway, name: &str) -> String {
    gateway.root().join(name).display().to_string()
}

/// What the user's trash holds that begins like this.
fn thrown_away(gateway: &Gateway, name: &str) -> Vec<PathBuf> {
    let Ok(trash) = fs::read_dir(gateway.home().join(".Trash")) else { return Vec::new() };
    let paths = trash.map(|entry| entry.unwrap().path());
    let fits = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with(name);
    paths.filter(|path| fits(path)).collect()
}

#[tokio::test]
async fn an_agent_that_is_added_has_its_files_and_its_entry_and_comments_stay() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let text = config_of(&gateway);
    let text = format!("// mine\n{}", text.replacen("\"skipBootstrap\":true,", "", 1));
    fs::write(gateway.config_path(), text).unwrap();
    let mut client = admin(&gateway).await;
    let workspace = beside(&gateway, "two");
    let new = json!({"name": "Ref\nTwo", "workspace": workspace, "model": "mock/mock-2",
        "emoji": "🦀", "avatar": "https://example.org/a.png"});
    let created = call(&mut client, "agents.create", new).await;
    let expected = json!({"ok": true, "agentId": "ref-two", "name": "Ref Two",
        "workspace": workspace, "model": "mock/mock-2"});
    assert_eq!(created, expected);
    assert!(config_of(&gateway).starts_with("// mine\n"), "{}", config_of(&gateway));
    let identity = json!({"name": "Ref Two", "emoji": "🦀", "avatar": "https://example.org/a.png"});
    let entry = json!({"id": "ref-two", "name": "Ref Two", "workspace": workspace,
        "model": "mock/mock-2", "identity": identity});
    assert_eq!(entries(&gateway), json!([{"id": "main"}, entry]));
    let file = fs::read_to_string(Path::new(&workspace).join("IDENTITY.md")).unwrap();
    assert!(file.contains("- **Name:** Ref Two\n") && file.contains("- **Emoji:** 🦀\n"), "{file}");
    assert!(Path::new(&workspace).join("AGENTS.md").is_file());
    assert!(gateway.state_dir().join("agents/ref-two/sessions").is_dir());

    let change = json!({"agentId": "Ref-Two", "name": "Zwei", "model": "mock/mock-1"});
    let changed = call(&mut client, "agents.update", change).await;
    assert_eq!(changed, json!({"ok": true, "agentId": "ref-two"}));
    let file = fs::read_to_string(Path::new(&workspace).join("IDENTITY.md")).unwrap();
    assert!(file.contains("- **Name:** Zwei\n") && file.contains("- **Emoji:** 🦀\n"), "{file}");

    let list = call(&mut client, "agents.list", json!({})).await;
    assert_eq!(list["defaultId"], "main");
    let row = &list["agents"][1];
    assert_eq!((&row["id"], &row["name"]), (&json!("ref-two"), &json!("Zwei")));
    assert_eq!(
        (&row["workspace"], &row["model"]["primary"]),
        (&json!(workspace), &json!("mock/mock-1"))
    );
    ask(&mut client, "agent:ref-two:main", "@mock text text=hi", "run-1").await;
    assert!(system_prompt(&mock).contains(&format!("Your working directory is {workspace}.")));
}

#[tokio::test]
async fn of_two_clients_that_add_the_same_agent_one_is_refused() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut one, mut other) = (admin(&gateway).await, admin(&gateway).await);
    let params = |name: &str| json!({"name": name, "workspace": beside(&gateway, name)});
    for round in 0..4 {
        let (same, own) = (format!("same-{round}"), [format!("a-{round}"), format!("b-{round}")]);
        let (first, second) = tokio::join!(
            one.request("agents.create", params(&same)),
            other.request("agents.create", params(&same)),
        );
        let mut answers = [&first["ok"], &second["ok"]];
        answers.sort_by_key(|ok| ok.as_bool());
        assert_eq!(answers, [&json!(false), &json!(true)], "{first} {second}");
        let (first, second) = tokio::join!(
            one.request("agents.create", params(&own[0])),
            other.request("agents.create", params(&own[1])),
        );
        assert_eq!((&first["ok"], &second["ok"]), (&json!(true), &json!(true)), "{first} {second}");
    }
    assert_eq!(entries(&gateway).as_array().unwrap().len(), 1 + 4 * 3);
}

#[tokio::test]
async fn an_agent_that_is_removed_lies_in_the_trash_and_nothing_names_it() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let workspace = beside(&gateway, "old");
    call(&mut client, "agents.create", json!({"name": "Old", "workspace": workspace})).await;
    call(&mut client, "agents.create", json!({"name": "Twin", "workspace": workspace})).await;
    let mut config: Value = json5::from_str(&config_of(&gateway)).unwrap();
    config["bindings"] = json!([
        {"agentId": "old", "match": {"channel": "telegram"}},
        {"agentId": "main", "match": {"channel": "webhook"}},
    ]);
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    ask(&mut client, "agent:old:main", "@mock text text=hi", "run-1").await;

    let job = json!({"name": "of old", "agentId": "old", "sessionTarget": "isolated", "wakeMode": "now",
        "schedule": {"kind": "every", "everyMs": 3_600_000},
        "payload": {"kind": "agentTurn", "message": "@mock text text=hi"}});
    let job = call(&mut client, "cron.add", job).await;

    // The workspace is also that of another one.
    let removed = call(&mut client, "agents.delete", json!({"agentId": "old"})).await;
    let kept = json!([{"path": workspace, "reason": "another agent works there"}]);
    let expected = json!({"ok": true, "agentId": "old", "removedBindings": 1, "kept": kept});
    assert_eq!(removed, expected);
    let sessions = call(&mut client, "sessions.list", json!({})).await;
    assert!(!sessions.to_string().contains("agent:old:"), "{sessions}");
    let thrown = thrown_away(&gateway, "old-");
    assert_eq!(thrown.len(), 1, "{thrown:?}");
    assert_eq!(fs::read_dir(thrown[0].join("sessions")).unwrap().count(), 1);
    assert!(!gateway.state_dir().join("agents/old").exists());
    assert!(Path::new(&workspace).is_dir());
    let config: Value = json5::from_str(&config_of(&gateway)).unwrap();
    assert_eq!(config["bindings"], json!([{"agentId": "main", "match": {"channel": "webhook"}}]));

    call(&mut client, "agents.delete", json!({"agentId": "twin"})).await;
    assert!(!Path::new(&workspace).exists());
    assert_eq!(thrown_away(&gateway, "old-").len(), 2, "the workspace has this name as well");
    let params =
        json!({"sessionKey": "agent:old:main", "message": "hi", "idempotencyKey": "run-2"});
    let text = refusal(&mut client, "chat.send", params).await;
    assert_eq!(text, "Agent \"old\" no longer exists in configuration");

    // Nobody else does its work.
    call(&mut client, "cron.run", json!({"id": job["id"], "mode": "force"})).await;
    let entry = until("the job fails", async || {
        let runs = call(&mut client, "cron.runs", json!({"id": job["id"]})).await;
        runs["entries"].as_array().and_then(|runs| runs.first().cloned())
    });
    let entry = entry.await;
    assert_eq!(entry["status"], "error", "{entry}");
    assert!(entry["error"].as_str().unwrap().contains("unknown agent id \"old\""), "{entry}");
}

#[tokio::test]
async fn nothing_of_an_agent_that_is_added_while_one_of_its_name_is_removed_goes_with_that() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut client, mut other) = (admin(&gateway).await, admin(&gateway).await);
    let workspace = beside(&gateway, "again");
    let new = json!({"name": "Again", "workspace": workspace});
    call(&mut client, "agents.create", new.clone()).await;
    // It takes a while to end all of them.
    for number in 0..40 {
        let key = format!("agent:again:{number}");
        let params = json!({"key": key, "label": format!("old {number}")});
        call(&mut client, "sessions.patch", params).await;
    }
    let params = json!({"agentId": "again"});
    let delete = json!({"type": "req", "id": "d", "method": "agents.delete", "params": params});
    client.send(&delete).await;
    until("room for another one", async || {
        (other.request("agents.create", new.clone()).await["ok"] == true).then_some(())
    })
    .await;
    let mine = Path::new(&workspace).join("mine");
    fs::write(&mine, "precious").unwrap();
    call(&mut other, "sessions.patch", json!({"key": "agent:again:new", "label": "new"})).await;
    let deleted = client.answer("d").await.expect("an answer");
    assert_eq!(deleted["ok"], true, "{deleted}");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "precious");
    assert!(gateway.state_dir().join("agents/again/sessions").is_dir());
    assert_eq!(thrown_away(&gateway, "again-").len(), 2, "what was the old one's");
    let listed = call(&mut other, "sessions.list", json!({"agentId": "again"})).await;
    let keys: Vec<_> =
        listed["sessions"].as_array().unwrap().iter().map(|row| row["key"].clone()).collect();
    assert_eq!(keys, ["agent:again:new"]);
}

#[tokio::test]
async fn what_an_agent_was_always_allowed_goes_with_it() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let new = json!({"name": "Trusted", "workspace": beside(&gateway, "trusted")});
    call(&mut client, "agents.create", new).await;
    let read = call(&mut client, "exec.approvals.get", json!({})).await;
    let list = json!({"security": "full", "allowlist": [{"id": "1", "pattern": "/bin/ls"}]});
    let file = json!({"version": 1, "agents": {"trusted": list, "main": list}});
    let set = json!({"file": file, "baseHash": read["hash"]});
    call(&mut client, "exec.approvals.set", set).await;
    let removed = call(&mut client, "agents.delete", json!({"agentId": "trusted"})).await;
    assert!(removed.get("kept").is_none(), "{removed}");
    let read = call(&mut client, "exec.approvals.get", json!({})).await;
    assert_eq!(read["file"]["agents"], json!({"main": list}));
}

#[tokio::test]
async fn files_of_an_agent_stay_when_that_is_asked_for() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let workspace = beside(&gateway, "kept");
    call(&mut client, "agents.create", json!({"name": "Kept", "workspace": workspace})).await;
    let params = json!({"agentId": "kept", "deleteFiles": false});
    let removed = call(&mut client, "agents.delete", params).await;
    assert_eq!(removed, json!({"ok": true, "agentId": "kept", "removedBindings": 0}));
    assert!(Path::new(&workspace).is_dir() && thrown_away(&gateway, "").is_empty());
    assert_eq!(entries(&gateway), json!([{"id": "main"}]));
}

#[tokio::test]
async fn no_agent_works_where_secrets_are_or_is_called_what_is_taken() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let before = config_of(&gateway);
    let state = gateway.state_dir().display().to_string();
    let home = gateway.home().display().to_string();
    for workspace in [
        "/",
        &state,
        &home,
        "~",
        "a/../..",
        &format!("{state}/identity"),
        &format!("{state}/agents/main/sessions"),
        "bad\u{0}path",
    ] {
        let params = json!({"name": "Two", "workspace": workspace});
        let text = refusal(&mut client, "agents.create", params).await;
        assert!(text.contains("cannot be a workspace"), "{workspace}: {text}");
    }
    let workspace = beside(&gateway, "two");
    for (name, told) in [
        ("Main", "\"main\" is reserved"),
        ("  ", "\"main\" is reserved"),
        ("../..", "\"main\" is reserved"),
        (
            &"x".repeat(300),
            "invalid agents.create params: at /name: must NOT have more than 200 characters",
        ),
    ] {
        let params = json!({"name": name, "workspace": workspace});
        assert_eq!(refusal(&mut client, "agents.create", params).await, told);
    }
    let params = json!({"name": "Two", "workspace": workspace, "model": "mock/none"});
    let text = refusal(&mut client, "agents.create", params).await;
    assert_eq!(text, "invalid agents.create params: at /model: there is no model \"mock/none\"");
    let params = json!({"agentId": "main", "model": "none/at-all"});
    let text = refusal(&mut client, "agents.update", params).await;
    assert!(text.ends_with("at /model: there is no model \"none/at-all\""), "{text}");
    let text = refusal(&mut client, "agents.delete", json!({"agentId": "MAIN"})).await;
    assert_eq!(text, "\"main\" cannot be deleted");
    assert_eq!(config_of(&gateway), before);
    assert!(!Path::new(&workspace).exists());
}

#[tokio::test]
async fn an_agent_keeps_a_model_that_there_is_not_and_is_given_no_other_one() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "lost", "model": "nowhere/first"}]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let params = json!({"agentId": "lost", "name": "Found", "model": "nowhere/first"});
    call(&mut client, "agents.update", params).await;
    let lost = entries(&gateway)[1].clone();
    assert_eq!((&lost["name"], &lost["model"]), (&json!("Found"), &json!("nowhere/first")));
    for (agent, model) in [("lost", "nowhere/second"), ("main", "nowhere/first")] {
        let params = json!({"agentId": agent, "model": model});
        let text = refusal(&mut client, "agents.update", params).await;
        assert!(text.ends_with(&format!("at /model: there is no model \"{model}\"")), "{text}");
    }
}

#[tokio::test]
async fn what_is_shown_in_the_place_of_a_missing_model_comes_back_and_changes_nothing() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["model"] = json!("nowhere/x");
    let moved = json!({"primary": "nowhere/y", "fallbacks": ["mock/mock-2"]});
    let listed = [("main", Value::Null), ("bare", json!("first")), ("moved", moved)];
    let entry = |(id, model): &(&str, Value)| match model {
        Value::Null => json!({"id": id}),
        model => json!({"id": id, "model": model}),
    };
    config["agents"]["list"] = listed.iter().map(entry).collect();
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let list = call(&mut client, "agents.list", json!({})).await;
    let shown = ["nowhere/x", "unknown/first", "mock/mock-2"];
    for (index, ((id, model), shown)) in listed.iter().zip(shown).enumerate() {
        assert_eq!(list["agents"][index]["model"]["primary"], shown, "{list}");
        let params = json!({"agentId": id, "name": "Found", "model": shown});
        call(&mut client, "agents.update", params).await;
        let entry = entries(&gateway)[index].clone();
        assert_eq!((&entry["name"], &entry["model"]), (&json!("Found"), model));
    }
    // Any other one is chosen.
    let params = json!({"agentId": "moved", "model": "mock/mock-1"});
    call(&mut client, "agents.update", params).await;
    assert_eq!(entries(&gateway)[2]["model"]["primary"], "mock/mock-1");
}

#[tokio::test]
async fn a_dashboard_adds_and_changes_agents_in_its_own_words() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut params = standard_connect(&ALL_SCOPES);
    params["userAgent"] = json!("openclaw-dashboard/0.1.0");
    let mut client = connect(&gateway, &params).await;
    let created = call(&mut client, "agents.create", json!({"name": "Dash", "emoji": "📊"})).await;
    assert_eq!(
        (&created["id"], &created["name"], &created["emoji"]),
        (&json!("dash"), &json!("Dash"), &json!("📊"))
    );
    let workspace = gateway.workspace().join("dash");
    assert_eq!(created["workspace"], json!(workspace));
    assert!(workspace.join("IDENTITY.md").is_file());
    let change = json!({"id": "dash", "name": "Board", "model": "mock/mock-2"});
    let changed = call(&mut client, "agents.update", change).await;
    let expected = json!({"ok": true, "agentId": "dash", "id": "dash", "name": "Board",
        "model": "mock/mock-2", "emoji": "📊"});
    assert_eq!(changed, expected);
    assert_eq!(entries(&gateway)[1]["name"], "Board");
    let set = json!({"agentId": "main", "filename": "SOUL.md", "content": "calm"});
    call(&mut client, "agents.files.set", set).await;
    let read = json!({"agentId": "main", "filename": "SOUL.md"});
    let read = call(&mut client, "agents.files.get", read).await;
    assert_eq!((&read["name"], &read["content"]), (&json!("SOUL.md"), &json!("calm")));
    let files = call(&mut client, "agents.files.list", json!({"agentId": "main"})).await;
    let soul = files["files"].as_array().unwrap().iter().find(|file| file["name"] == "SOUL.md");
    assert_eq!(soul.unwrap()["content"], "calm");
    call(&mut client, "agents.delete", json!({"id": "dash"})).await;
    assert_eq!(entries(&gateway), json!([{"id": "main"}]));
}

#[tokio::test]
async fn two_agents_of_two_accounts_answer_each_with_its_model_and_workspace() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let account =
        json!({"secret": SIGNING, "url": receiver.url(), "dmPolicy": "open", "allowFrom": ["*"]});
    let channels = json!({"webhook": {"accounts": {"red": account, "blue": account}}});
    let config = with_channels(mock.address(), &channels);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let agents = [("Ann", "red", "mock-1"), ("Bob", "blue", "mock-2")];
    for (name, _, model) in agents {
        let params = json!({"name": name, "workspace": beside(&gateway, name), "model": format!("mock/{model}")});
        call(&mut client, "agents.create", params).await;
    }
    let base = call(&mut client, "config.get", json!({})).await;
    let bindings = agents.map(|(name, account, _)| {
        json!({"agentId": name.to_lowercase(), "match": {"channel": "webhook", "accountId": account}})
    });
    let patch = json!({"raw": json!({"bindings": bindings}).to_string(), "baseHash": base["hash"]});
    call(&mut client, "config.patch", patch).await;

    for (name, account, model) in agents {
        let path = format!("/webhooks/{account}");
        until("it is taken", async || {
            let message = json!({"id": "1", "text": "hello", "from": {"id": "eve"}});
            (bring(&gateway, &path, &message).await.0 == 200).then_some(())
        })
        .await;
        let key = format!("agent:{}:webhook:direct:eve", name.to_lowercase());
        until("it is answered", async || {
            (history(&mut client, &key).await.len() == 2).then_some(())
        })
        .await;
        assert_eq!(mock.requests().last().unwrap().body["model"], model);
        let place = format!("Your working directory is {}.", beside(&gateway, name));
        assert!(system_prompt(&mock).contains(&place), "{name}");
    }
    assert_eq!(receiver.texts(2).await, ["Echo: hello", "Echo: hello"]);
}
