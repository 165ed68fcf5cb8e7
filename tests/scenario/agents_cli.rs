//! `clawgate agents`, with and without a running gateway.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::command;
use crate::stage::{Api, admin, ask, call, scripted, until};
use crate::support::Gateway;

/// What the command prints, with its exit code.
async fn agents(gateway: &Gateway, args: &[&str]) -> (i32, String) {
    agents_with(gateway, args, &[]).await
}

/// The same with these variables.
async fn agents_with(gateway: &Gateway, args: &[&str], env: &[(&str, &str)]) -> (i32, String) {
    let mut command = command(gateway, &[&["agents"], args].concat());
    let output = command.envs(env.iter().copied()).output().await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap(), printed + &String::from_utf8_lossy(&output.stderr))
}

async fn json_of(gateway: &Gateway, args: &[&str]) -> Value {
    let args = [args, &["--json"]].concat();
    let (code, printed) = agents(gateway, &args).await;
    assert_eq!(code, 0, "{args:?}: {printed}");
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

fn config_of(gateway: &Gateway) -> Value {
    json5::from_str(&fs::read_to_string(gateway.config_path()).unwrap()).unwrap()
}

#[tokio::test]
async fn an_agent_is_added_shown_named_and_removed_without_a_gateway() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let workspace = gateway.root().join("work");
    let place = workspace.display().to_string();
    {
        let mut client = admin(&gateway).await;
        call(&mut client, "agents.create", json!({"name": "Work", "workspace": place})).await;
    }
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "agent:work:main", "@mock text text=hi", "run-1").await;
    gateway.terminate().await.unwrap();

    let add = [
        "add",
        "Side Kick",
        "--workspace",
        &format!("{place}-2"),
        "--model",
        "mock/mock-2",
        "--bind",
        "webhook:red",
        "--non-interactive",
    ];
    let added = json_of(&gateway, &add).await;
    assert_eq!((&added["agentId"], &added["model"]), (&json!("side-kick"), &json!("mock/mock-2")));
    assert_eq!(added["bindings"]["added"], json!(["webhook:red"]));
    assert_eq!(added["agentDir"], json!(gateway.state_dir().join("agents/side-kick/agent")));
    let (code, again) = agents(&gateway, &add).await;
    assert!(code == 1 && again.contains("agent \"side-kick\" already exists"), "{again}");

    let (code, text) = agents(&gateway, &["add", "other", "--model", "mock/none"]).await;
    assert!(code == 1 && text.contains("there is no model mock/none"), "{text}");

    let named =
        ["set-identity", "--agent", "work", "--name", "Worker", "--emoji", "🐝", "--theme", "busy"];
    let named = json_of(&gateway, &named).await;
    assert_eq!(named["identity"], json!({"name": "Worker", "theme": "busy", "emoji": "🐝"}));
    let file = fs::read_to_string(workspace.join("IDENTITY.md")).unwrap();
    assert!(
        file.contains("- **Name:** Worker\n") && file.contains("- **Theme:** busy\n"),
        "{file}"
    );
    let other = gateway.root().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("IDENTITY.md"), file.replace("Worker", "Wasp")).unwrap();
    let other = other.display().to_string();
    let read = ["set-identity", "--agent", "work", "--workspace", &other, "--from-identity"];
    assert_eq!(json_of(&gateway, &read).await["identity"]["name"], "Wasp");
    fs::write(workspace.join("IDENTITY.md"), file.replace("Worker", "Ant")).unwrap();
    let read = json_of(&gateway, &["set-identity", "--agent", "work"]).await;
    assert_eq!(read["identity"]["name"], "Ant", "where nothing is given, the file says it");
    fs::write(workspace.join("IDENTITY.md"), file.replace("Worker", "Bee")).unwrap();
    let read = ["set-identity", "--workspace", &place, "--from-identity"];
    assert_eq!(json_of(&gateway, &read).await["identity"]["name"], "Bee");

    let list = json_of(&gateway, &["list", "--bindings"]).await;
    let row =
        |id: &str| list.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone();
    assert_eq!(
        (&row("main")["isDefault"], &row("work")["identityName"]),
        (&json!(true), &json!("Bee"))
    );
    assert_eq!(row("work")["name"], "Work");
    assert_eq!(row("side-kick")["bindingDetails"], json!(["webhook account=red"]));
    let (_, text) = agents(&gateway, &[]).await;
    assert!(text.contains("main (default)") && text.contains("🐝 Bee"), "{text}");
    assert!(text.contains("Side Kick"), "one without an identity: {text}");

    let (code, text) = agents(&gateway, &["delete", "work"]).await;
    assert!(code == 1 && text.contains("--force"), "{text}");
    let (code, text) = agents(&gateway, &["delete", "nobody"]).await;
    let unknown = text.contains("agent \"nobody\" not found; `clawgate agents list`");
    assert!(code == 1 && unknown && !text.contains("--force"), "nobody is asked: {text}");
    let approvals = gateway.home().join(".openclaw/exec-approvals.json");
    let listed = json!({"allowlist": [{"pattern": "/bin/ls"}]});
    let file = json!({"version": 1, "agents": {"work": listed, "main": listed}});
    fs::create_dir_all(approvals.parent().unwrap()).unwrap();
    fs::write(&approvals, file.to_string()).unwrap();
    let gone = json_of(&gateway, &["delete", "work", "--force"]).await;
    assert_eq!((&gone["agentId"], &gone["kept"]), (&json!("work"), &json!([])));
    assert!(!workspace.exists() && !gateway.state_dir().join("agents/work").exists());
    let file: Value = serde_json::from_str(&fs::read_to_string(&approvals).unwrap()).unwrap();
    assert_eq!(file["agents"], json!({"main": listed}));
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let sessions = call(&mut client, "sessions.list", json!({})).await;
    assert!(!sessions.to_string().contains("agent:work:"), "{sessions}");
}

#[tokio::test]
async fn a_running_gateway_is_asked_to_remove_an_agent() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let workspace = gateway.root().join("work").display().to_string();
    call(&mut client, "agents.create", json!({"name": "Work", "workspace": workspace})).await;
    let (code, text) = agents(&gateway, &["delete", "work", "--force", "--keep-files"]).await;
    assert_eq!((code, text.as_str()), (0, "work is removed, with 0 bindings\n"));
    until("the gateway says so", async || {
        gateway.stderr().contains("an agent was removed").then_some(())
    })
    .await;
    assert!(Path::new(&workspace).is_dir());
    let (code, text) = agents(&gateway, &["delete", "work", "--force"]).await;
    assert!(code == 1 && text.contains("agent \"work\" not found; `clawgate"), "{text}");
    assert_eq!(json_of(&gateway, &[]).await, json_of(&gateway, &["list"]).await);
}

#[tokio::test]
async fn no_variable_leads_to_an_agent_of_another_gateway() {
    let (here, _mock) = scripted(Api::OpenAi).await;
    let (other, _mock) = scripted(Api::OpenAi).await;
    for gateway in [&here, &other] {
        let workspace = gateway.root().join("work").display().to_string();
        let params = json!({"name": "Work", "workspace": workspace});
        call(&mut admin(gateway).await, "agents.create", params).await;
    }
    let (url, port) = (format!("ws://{}", other.address()), other.port().to_string());
    let env = [("OPENCLAW_GATEWAY_URL", url.as_str()), ("OPENCLAW_GATEWAY_PORT", port.as_str())];
    let delete = ["delete", "work", "--force", "--keep-files"];
    let (code, text) = agents_with(&here, &delete, &env).await;
    assert_eq!((code, text.as_str()), (0, "work is removed, with 0 bindings\n"));
    let has_it =
        |gateway: &Gateway| config_of(gateway)["agents"]["list"].to_string().contains("\"work\"");
    assert!(!has_it(&here) && has_it(&other));
}

#[tokio::test]
async fn accounts_are_given_and_taken_and_belong_to_one_agent() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for name in ["a", "b"] {
        let workspace = gateway.root().join(name).display().to_string();
        call(&mut client, "agents.create", json!({"name": name, "workspace": workspace})).await;
    }
    let bound =
        json_of(&gateway, &["bind", "--agent", "a", "--bind", "telegram", "--bind", "webhook:*"])
            .await;
    assert_eq!(bound["added"], json!(["telegram", "webhook:*"]));
    let bound = json_of(&gateway, &["bind", "--agent", "a", "--bind", "Telegram:ops"]).await;
    assert_eq!((&bound["added"], &bound["updated"]), (&json!([]), &json!(["telegram:ops"])));
    let (code, text) = agents(&gateway, &["bind", "--agent", "b", "--bind", "telegram:ops"]).await;
    assert_eq!((code, text.as_str()), (1, "telegram:ops stays with a\n"));
    // A new agent has all of its accounts, or is not made.
    let add = ["add", "c", "--bind", "webhook", "--bind", "telegram:ops"];
    let (code, text) = agents(&gateway, &add).await;
    assert!(code == 1 && text.contains("telegram:ops stays with a, so there is no new"), "{text}");
    let config = config_of(&gateway);
    assert!(!config["agents"]["list"].to_string().contains("\"c\""), "{config}");
    assert_eq!(config["bindings"].as_array().unwrap().len(), 2, "{config}");
    assert!(!gateway.state_dir().join("agents/c").exists());
    let list = json_of(&gateway, &["bindings", "--agent", "a"]).await;
    assert_eq!(list[0]["match"], json!({"channel": "telegram", "accountId": "ops"}));
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert_eq!(json_of(&gateway, &["bindings", "--agent", "b"]).await, json!([]));
    let gone =
        json_of(&gateway, &["unbind", "--agent", "a", "--bind", "webhook:*", "--bind", "webhook"])
            .await;
    assert_eq!((&gone["removed"], &gone["missing"]), (&json!(["webhook:*"]), &json!(["webhook"])));
    json_of(&gateway, &["unbind", "--agent", "a", "--all"]).await;
    assert_eq!(config_of(&gateway)["bindings"], json!([]));
    for args in [
        &["bind", "--agent", "a", "--bind", "fax"][..],
        &["unbind", "--agent", "a"],
        &["unbind", "--all", "--bind", "webhook"],
    ] {
        assert_eq!(agents(&gateway, args).await.0, 2, "{args:?}");
    }
    let (code, text) = agents(&gateway, &["bind", "--agent", "nobody", "--bind", "webhook"]).await;
    assert!(code == 1 && text.contains("agent \"nobody\" not found; `clawgate"), "{text}");
}
