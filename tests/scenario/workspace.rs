//! The folder of an agent: its files, what of them the model is told, and
//! `agents.files.*`.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, config, lines, refusal, told};
use crate::support::{Gateway, GatewayOptions, MockProvider};

/// A gateway that makes the files of workspaces, with these defaults of agents.
async fn gateway(defaults: Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    let target = &mut config["agents"]["defaults"];
    target["skipBootstrap"] = json!(false);
    for (name, value) in defaults.as_object().unwrap() {
        target[name] = value.clone();
    }
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// What the model was told of itself in the last call.
pub fn system_prompt(mock: &MockProvider) -> String {
    let requests = mock.requests();
    let messages = requests.last().unwrap().body["messages"].as_array().unwrap().clone();
    let system = messages.iter().find(|message| message["role"] != "user").unwrap();
    match &system["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap().to_owned(),
    }
}

#[tokio::test]
async fn the_first_run_makes_the_files_and_the_model_is_told_them() {
    let (gateway, mock) = gateway(json!({"userTimezone": "Asia/Tokyo"})).await;
    let workspace = gateway.workspace();
    assert_eq!(fs::read_dir(&workspace).unwrap().count(), 0, "nothing is made at the start");
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "@mock text text=hi", "run-1").await;
    for name in ["AGENTS.md", "SOUL.md", "USER.md", "BOOTSTRAP.md", "MEMORY.md", "HEARTBEAT.md"] {
        assert!(workspace.join(name).is_file(), "{name}");
    }
    let prompt = system_prompt(&mock);
    for part in [
        "- session_status: ".to_owned(),
        format!("Your working directory is {}.", workspace.display()),
        format!("## {}/AGENTS.md\n\n# AGENTS.md", workspace.display()),
        "This folder is new, and so are you.".into(),
        "Time zone: Asia/Tokyo. Today is ".into(),
        "model=mock/mock-1 | channel=webchat | thinking=off".into(),
    ] {
        assert!(prompt.contains(&part), "{part} in {prompt}");
    }
    assert!(!prompt.contains("HEARTBEAT.md\n\n"), "{prompt}");

    // The agent deletes it when it is done with it; what the user wrote stays.
    fs::remove_file(workspace.join("BOOTSTRAP.md")).unwrap();
    fs::write(workspace.join("SOUL.md"), "Be a pirate.").unwrap();
    fs::remove_file(workspace.join("USER.md")).unwrap();
    ask(&mut client, "main", "@mock text text=hi", "run-2").await;
    ask(&mut client, "main", "@mock text text=hi", "run-3").await;
    let prompt = system_prompt(&mock);
    assert!(prompt.contains("Be a pirate."), "{prompt}");
    assert!(!prompt.contains("BOOTSTRAP.md"), "{prompt}");
    assert!(!workspace.join("BOOTSTRAP.md").exists());
}

#[tokio::test]
async fn the_model_reads_when_a_person_has_said_something_and_nobody_else_does() {
    let (gateway, mock) = gateway(json!({"envelopeTimezone": "UTC"})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    ask(&mut client, "main", "and again", "run-2").await;
    let sent_at: Vec<_> = mock.requests().into_iter().map(|request| request.sent_at).collect();
    let [first, second] = &sent_at[..] else { panic!("{sent_at:?}") };
    assert_eq!((first.len(), second.len()), (1, 2), "{sent_at:?}");
    assert_eq!(first[0], second[0], "what was said before is said again as it was");
    assert!(second[1].ends_with(" UTC] "), "{sent_at:?}");
    let expected = [
        ("user", "hello"),
        ("assistant", "Echo: hello"),
        ("user", "and again"),
        ("assistant", "Echo: and again"),
    ];
    assert_eq!(told(&mut client, "main").await, lines(&expected));
    let list = call(&mut client, "sessions.list", json!({"includeDerivedTitles": true})).await;
    assert_eq!(list["sessions"][0]["derivedTitle"], "hello", "{list}");
}

#[tokio::test]
async fn without_envelope_timestamps_the_model_reads_no_times() {
    let (gateway, mock) = gateway(json!({"envelopeTimestamp": "off"})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(mock.requests()[0].sent_at, [""; 0]);
}

#[tokio::test]
async fn without_bootstrap_files_missing_ones_are_named_and_none_is_made() {
    let (gateway, mock) = gateway(json!({"skipBootstrap": true})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "@mock text text=hi", "run-1").await;
    let prompt = system_prompt(&mock);
    let missing = format!("[MISSING] Expected at: {}/SOUL.md", gateway.workspace().display());
    assert!(prompt.contains(&missing), "{prompt}");
    assert_eq!(fs::read_dir(gateway.workspace()).unwrap().count(), 0);
}

#[tokio::test]
async fn long_files_are_cut_to_their_limits_and_the_model_is_told_so() {
    let limits = json!({"bootstrapMaxChars": 300, "bootstrapTotalMaxChars": 1000});
    let (gateway, mock) = gateway(limits).await;
    let mut client = admin(&gateway).await;
    let long = format!("BEGIN {} END", "x".repeat(5000));
    let set = json!({"agentId": "main", "name": "AGENTS.md", "content": long});
    call(&mut client, "agents.files.set", set).await;
    ask(&mut client, "main", "@mock text text=hi", "run-1").await;
    let prompt = system_prompt(&mock);
    assert!(prompt.contains("BEGIN xxx") && prompt.contains("xxx END"), "{prompt}");
    assert!(prompt.contains("truncated: AGENTS.md has 5010 characters"), "{prompt}");
    assert!(prompt.contains("Notice: not all of AGENTS.md"), "{prompt}");
    assert!(!prompt.contains(&"x".repeat(301)));
}

#[tokio::test]
async fn memory_is_told_to_the_user_alone_and_sub_agents_get_rules_and_notes_only() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    for (name, text) in [("MEMORY.md", "PRIVATE"), ("SOUL.md", "MANNER"), ("TOOLS.md", "NOTES")] {
        let set = json!({"agentId": "main", "name": name, "content": text});
        call(&mut client, "agents.files.set", set).await;
    }
    let told = ["PRIVATE", "MANNER", "NOTES", "answer exactly NO_REPLY,"];
    for (session, expected) in [
        ("main", [true, true, true, true]),
        ("agent:main:telegram:group:7", [false, true, true, true]),
        ("agent:main:cron:job", [false, true, true, true]),
        ("agent:main:subagent:1", [false, false, true, false]),
    ] {
        ask(&mut client, session, "@mock text text=hi", &format!("run-{session}")).await;
        let prompt = system_prompt(&mock);
        assert_eq!(told.map(|word| prompt.contains(word)), expected, "{session}: {prompt}");
    }
}

#[tokio::test]
async fn a_prompt_of_the_users_own_stands_in_the_place_of_the_built_one() {
    let (gateway, mock) = gateway(json!({"systemPromptOverride": "Only this."})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "@mock text text=hi", "run-1").await;
    assert_eq!(system_prompt(&mock), "Only this.");
}

#[tokio::test]
async fn a_file_that_was_set_is_there_after_a_kill() {
    let (mut gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let set = json!({"agentId": "main", "name": "USER.md", "content": "# user\n"});
    let answer = call(&mut client, "agents.files.set", set).await;
    assert_eq!(answer["file"]["size"], 7);
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let get = json!({"agentId": "main", "name": "USER.md"});
    let read = call(&mut client, "agents.files.get", get).await;
    assert_eq!(read["file"], answer["file"]);
    let listed = call(&mut client, "agents.files.list", json!({"agentId": "main"})).await;
    let missing: Vec<_> =
        listed["files"].as_array().unwrap().iter().map(|file| file["missing"].clone()).collect();
    assert_eq!(missing, vec![json!(false); 8]);
}

#[tokio::test]
async fn no_name_and_no_link_leads_out_of_the_workspace() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let secret = gateway.root().join("secret");
    fs::write(&secret, "TOPSECRET").unwrap();
    symlink(&secret, gateway.workspace().join("SOUL.md")).unwrap();
    for name in ["../secret", "/etc/passwd", "memory/../SOUL.md", "soul.md", "SOUL.md\u{0}", "."] {
        for (method, content) in [("agents.files.get", None), ("agents.files.set", Some("x"))] {
            let mut params = json!({"agentId": "main", "name": name});
            if let Some(content) = content {
                params["content"] = json!(content);
            }
            let text = refusal(&mut client, method, params).await;
            assert_eq!(text, format!("unsupported file \"{name}\""));
        }
    }
    let soul = json!({"agentId": "main", "name": "SOUL.md"});
    let text = refusal(&mut client, "agents.files.get", soul).await;
    assert_eq!(text, "unsafe workspace file \"SOUL.md\"");
    let soul = json!({"agentId": "main", "name": "SOUL.md", "content": "x"});
    let text = refusal(&mut client, "agents.files.set", soul).await;
    assert_eq!(text, "unsafe workspace file \"SOUL.md\"");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "TOPSECRET");
    // It spoils no list.
    let listed = call(&mut client, "agents.files.list", json!({"agentId": "main"})).await;
    let files = listed["files"].as_array().unwrap();
    let soul = files.iter().find(|file| file["name"] == "SOUL.md").unwrap();
    assert_eq!(
        *soul,
        json!({"name": "SOUL.md", "path": gateway.workspace().join("SOUL.md"), "missing": true,
            "reason": "unsafe workspace file \"SOUL.md\""})
    );
    assert!(files.iter().any(|file| file["name"] == "USER.md" && file["missing"] == false));
    ask(&mut client, "main", "@mock text text=hi", "run-1").await;
    assert!(!system_prompt(&mock).contains("TOPSECRET"));
}

#[tokio::test]
async fn an_agent_is_called_what_its_identity_file_says() {
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let before = call(&mut client, "agent.identity.get", json!({"agentId": "main"})).await;
    assert_eq!(before["name"], "Assistant");
    let text = "- **Name:** Inky\n- **Emoji:** 🐙\n- **Avatar:** https://example.org/a.png\n";
    let set = json!({"agentId": "main", "name": "IDENTITY.md", "content": text});
    call(&mut client, "agents.files.set", set).await;
    let identity = call(&mut client, "agent.identity.get", json!({"agentId": "main"})).await;
    assert_eq!(
        identity,
        json!({
            "agentId": "main", "name": "Inky", "emoji": "🐙",
            "avatar": "https://example.org/a.png",
            "avatarSource": "https://example.org/a.png", "avatarStatus": "remote",
        })
    );
    let listed = call(&mut client, "agents.list", json!({})).await;
    assert_eq!(listed["agents"][0]["identity"]["name"], "Inky");

    fs::write(gateway.workspace().join("me.png"), b"\x89PNG\r\n\x1a\n..").unwrap();
    let set = json!({"agentId": "main", "name": "IDENTITY.md", "content": "- Avatar: me.png\n"});
    call(&mut client, "agents.files.set", set).await;
    let identity = call(&mut client, "agent.identity.get", json!({"agentId": "main"})).await;
    let picture = "data:image/png;base64,iVBORw0KGgouLg==";
    assert_eq!(
        (&identity["avatar"], &identity["avatarStatus"]),
        (&json!(picture), &json!("local"))
    );
    let listed = call(&mut client, "agents.list", json!({})).await;
    assert_eq!(listed["agents"][0]["identity"]["avatarUrl"], picture);
}

#[tokio::test]
async fn rules_that_cannot_be_read_are_told_by_health_until_they_can() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "@mock text text=hi", "run-1").await;
    let kept = call(&mut client, "health", json!({})).await;
    assert_eq!(kept["degraded"], json!([]), "{kept}");
    let rules = gateway.workspace().join("AGENTS.md");
    fs::remove_file(&rules).unwrap();
    symlink(gateway.config_path(), &rules).unwrap();
    ask(&mut client, "main", "@mock text text=hi", "run-2").await;
    assert!(!system_prompt(&mock).contains("mock-key"));
    // No new look is asked for: what was told before is out of date by itself.
    let health = call(&mut client, "health", json!({})).await;
    assert_eq!((&health["ok"], &health["degraded"]), (&json!(true), &json!(["workspaces"])));
    let error = health["services"]["workspaces"]["error"].as_str().unwrap();
    assert!(error.contains(rules.to_str().unwrap()), "{error}");
    fs::remove_file(&rules).unwrap();
    fs::write(&rules, "Be brief.").unwrap();
    ask(&mut client, "main", "@mock text text=hi", "run-3").await;
    let health = call(&mut client, "health", json!({})).await;
    assert_eq!(health["degraded"], json!([]), "{health}");
}

#[tokio::test]
async fn why_a_file_or_folder_cannot_be_written_is_said() {
    let (gateway, _mock) = gateway(json!({"skipBootstrap": true})).await;
    let mut client = admin(&gateway).await;
    let workspace = gateway.workspace();
    fs::remove_dir(&workspace).unwrap();
    fs::write(&workspace, "in the way").unwrap();
    let set = json!({"agentId": "main", "name": "AGENTS.md", "content": "x"});
    let create = json!({"name": "Late", "workspace": workspace.join("late")});
    for (method, params) in [("agents.files.set", set), ("agents.create", create)] {
        let text = refusal(&mut client, method, params).await;
        assert!(text.contains("(os error "), "{method}: {text}");
    }
}
