//! Each row of the table of slash commands: its words, and what it does.

use std::fs;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::asking::{get, message, request, written};
use super::{Chat, key_of, place, said};
use crate::stage::{admin, call, told, until};

/// The id in a `session_created` frame.
fn created(frames: &[Value]) -> &str {
    let found = frames.iter().find(|frame| frame["type"] == "session_created");
    found.and_then(|frame| frame["session_id"].as_str()).expect("a session")
}

#[tokio::test]
async fn another_conversation_and_another_model_begin_with_a_command() {
    let (gateway, _mock) = place(|_| ()).await;
    let mut talk = Chat::open(&gateway).await;
    let current = "Current model: mock/mock-1\n\nUsage: /model <name>";
    assert_eq!(talk.command("/model").await, current);
    let frames = talk.say("/NEW").await;
    assert_eq!(message(&frames), "New session started.");
    let first = created(&frames).to_owned();
    assert_eq!(said(&talk.say("hello").await), "Echo: hello");

    let frames = talk.say("/model mock/mock-2").await;
    let switched = "Model switched: mock/mock-1 -> mock/mock-2\nNew session started.";
    assert_eq!(message(&frames), switched);
    let second = created(&frames).to_owned();
    assert_ne!(first, second);
    let listed = talk.command("/models").await;
    assert!(listed.starts_with("Available Models\n\n") && listed.contains("  mock/mock-2 *\n"));
    assert!(listed.ends_with("\nCurrent: mock/mock-2\nUse /model <name> to switch."), "{listed}");
    assert!(talk.command("/model nothing-like-it").await.contains("Use /models"));
    assert_eq!(said(&talk.say("hi").await), "Echo: hi");
    let row = get(&gateway, &format!("/api/sessions/{second}")).await;
    assert_eq!((&row["model"], &row["message_count"]), (&json!("mock/mock-2"), &json!(2)));
    // Commands are not part of the conversation.
    let said = row["messages"].as_array().unwrap().iter().map(|it| it["content"].clone());
    assert_eq!(said.collect::<Vec<_>>(), ["hi", "Echo: hi"]);
    assert_eq!(said_to_the_model(&mut talk).await, "Echo: /unknown words");
}

async fn said_to_the_model(talk: &mut Chat) -> String {
    said(&talk.say("/unknown words").await)
}

#[tokio::test]
async fn conversations_are_listed_and_deleted() {
    let (gateway, _mock) = place(|_| ()).await;
    let mut talk = Chat::open(&gateway).await;
    assert_eq!(talk.command("/sessions").await, "No recorded sessions.");
    let none = "No sessions to switch to. Use /new to start one.";
    assert_eq!(talk.command("/change").await, none);
    assert!(talk.command("/session").await.starts_with("Session Info\n  Active: no\n"));

    let id = created(&talk.say("/new").await).to_owned();
    talk.say("hello").await;
    let info = talk.command("/session").await;
    let expected =
        format!("Session Info\n  Active: yes\n  ID: {id}\n  Model: mock/mock-1\n  Messages: 2");
    assert_eq!(info, expected);
    let listed = talk.command("/sessions").await;
    assert!(listed.starts_with(&format!("Sessions (1 total, 2 messages)\n\n  {id}  ")), "{listed}");
    assert!(listed.ends_with("  mock/mock-1  (2 msgs)"), "{listed}");
    let recent = talk.command("/change").await;
    assert!(recent.starts_with("Recent Sessions:\n\n  1. "), "{recent}");
    assert!(recent.ends_with(&format!("\n     ID: {id}")), "{recent}");

    assert_eq!(talk.command("/session delete nope").await, "Session 'nope' not found.");
    let other = created(&talk.say("/new").await).to_owned();
    let deleted = format!("Session '{id}' deleted.");
    assert_eq!(talk.command(&format!("/session delete {id}")).await, deleted);
    assert_eq!(talk.command("/sessions clear").await, "All sessions cleared (1 deleted).");
    assert_eq!(talk.command("/sessions").await, "No recorded sessions.");
    let (status, _) = request(&gateway, Method::GET, &format!("/api/sessions/{other}"), None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn memory_is_cleared_into_the_trash() {
    let (gateway, _mock) = place(|_| ()).await;
    let mut talk = Chat::open(&gateway).await;
    let workspace = gateway.workspace();
    fs::create_dir_all(workspace.join("memory")).unwrap();
    for file in ["MEMORY.md", "memory/a.md", "KEPT.md"] {
        fs::write(workspace.join(file), file).unwrap();
    }
    assert_eq!(talk.command("/clear").await, "Memory cleared (2 files removed).");
    assert!(!workspace.join("MEMORY.md").exists() && !workspace.join("memory").exists());
    assert!(workspace.join("KEPT.md").exists());
    assert_eq!(fs::read_dir(gateway.home().join(".Trash")).unwrap().count(), 2);
    assert_eq!(talk.command("/clear").await, "Memory cleared (0 files removed).");
}

#[tokio::test]
async fn only_safe_settings_are_changed_and_they_are_written() {
    let (gateway, _mock) = place(|_| ()).await;
    let mut talk = Chat::open(&gateway).await;
    assert_eq!(
        talk.command("/config gateway.auth.token x").await,
        "Cannot set 'GATEWAY.AUTH.TOKEN'. Allowed keys: ARCHIVAL_POLICY, COPILOT_MODEL, \
         THINKING_LEVEL"
    );
    assert_eq!(talk.command("/config COPILOT_MODEL").await, "Usage: /config <KEY> <VALUE>");
    for (command, said) in [
        ("/config copilot_model mock/mock-2", "Config updated: COPILOT_MODEL = mock/mock-2"),
        ("/config THINKING_LEVEL low", "Config updated: THINKING_LEVEL = low"),
        ("/config ARCHIVAL_POLICY 7d", "Config updated: ARCHIVAL_POLICY = 7d"),
        ("/config ARCHIVAL_POLICY 8d", "Error: Invalid policy. Valid: 24h, 7d, 30d, never"),
        ("/config THINKING_LEVEL wild", "Error: there is no thinking level 'wild'"),
    ] {
        assert_eq!(talk.command(command).await, said);
    }
    let config = written(&gateway);
    assert_eq!(config["agents"]["defaults"]["model"]["primary"], "mock/mock-2");
    assert_eq!(config["agents"]["defaults"]["thinkingDefault"], "low");
    assert_eq!(config["session"]["maintenance"]["pruneAfter"], "7d");
    let shown = talk.command("/config").await;
    assert!(shown.starts_with("Runtime Configuration\n  Model: mock/mock-2\n"), "{shown}");
    assert!(shown.contains("  Admin secret: set\n") && shown.contains("  Archival policy: 7d\n"));
}

#[tokio::test]
async fn skills_are_switched_off_and_on_again() {
    let (gateway, _mock) = place(|_| ()).await;
    let folder = gateway.state_dir().join("skills/demo");
    fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: demo\ndescription: Shows something\n---\nDo it.\n";
    fs::write(folder.join("SKILL.md"), text).unwrap();
    let mut talk = Chat::open(&gateway).await;
    assert_eq!(talk.command("/skills").await, "Skills (1):\n  - demo");
    let listed = "Installed skills (1):\n  demo\n\nUsage: /removeskill <name>";
    assert_eq!(talk.command("/removeskill").await, listed);
    assert_eq!(talk.command("/removeskill other").await, "Skill 'other' not found.");
    assert_eq!(talk.command("/removeskill demo").await, "Skill 'demo' removed.");
    assert_eq!(talk.command("/skills").await, "Skills (0):\n  (none)");
    let offered = talk.command("/addskill").await;
    assert!(offered.starts_with("Available skills (1):\n  demo - Shows something"), "{offered}");

    talk.send("/addskill demo").await;
    assert_eq!(message(&talk.response().await), "Installing skill 'demo'...");
    assert_eq!(message(&talk.response().await), "Skill 'demo' installed.");
    assert_eq!(talk.command("/skills").await, "Skills (1):\n  - demo");
    talk.send("/addskill nowhere").await;
    talk.response().await;
    let failed = message(&talk.response().await);
    assert!(
        failed.starts_with("Failed to install skill 'nowhere'. ClawHub is not asked"),
        "{failed}"
    );
}

#[tokio::test]
async fn mcp_servers_are_written_into_the_config() {
    let (gateway, _mock) = place(|_| ()).await;
    let mut talk = Chat::open(&gateway).await;
    for (command, said) in [
        ("/mcp", "No MCP servers configured."),
        ("/mcp add docs", "Usage: /mcp add <name> <url>"),
        (
            "/mcp add docs ftp://127.0.0.1/mcp",
            "Error: the URL of an MCP server begins with http:// or https://",
        ),
        (
            "/mcp add docs http://127.0.0.1:9/mcp",
            "MCP server 'docs' added. Start a /new session to activate.",
        ),
        ("/mcp add docs http://127.0.0.1:9/x", "Error: there is an MCP server 'docs' already"),
        ("/mcp disable docs", "MCP server 'docs' disabled."),
        ("/mcp", "MCP Servers (1):\n  [-] docs (http)"),
        ("/mcp enable docs", "MCP server 'docs' enabled."),
    ] {
        assert_eq!(talk.command(command).await, said, "{command}");
    }
    assert_eq!(
        written(&gateway)["mcp"]["servers"]["docs"],
        json!({"url": "http://127.0.0.1:9/mcp", "transport": "streamable-http", "enabled": true})
    );
    assert_eq!(talk.command("/mcp remove docs").await, "MCP server 'docs' removed.");
    assert_eq!(talk.command("/mcp remove docs").await, "MCP server 'docs' not found.");
    assert_eq!(talk.command("/mcp what").await, "Unknown MCP action 'what'.");
    assert_eq!(written(&gateway)["mcp"], Value::Null);
}

#[tokio::test]
async fn schedules_are_jobs() {
    let (gateway, _mock) = place(|_| ()).await;
    let mut talk = Chat::open(&gateway).await;
    let none = "No scheduled tasks.\n\nUsage: /schedule add <cron> <prompt>";
    assert_eq!(talk.command("/schedules").await, none);
    let usage = "Usage: /schedule add <min> <hour> <dom> <month> <dow> <prompt>";
    assert_eq!(talk.command("/schedule add 0 9 * * *").await, usage);
    assert!(talk.command("/schedule add 99 9 * * * Hello").await.starts_with("Error: "));
    let made = talk.command("/schedule add 0 9 * * 1 Water the plants").await;
    let mut client = admin(&gateway).await;
    let jobs = call(&mut client, "cron.list", json!({})).await;
    let job = &jobs["jobs"][0];
    assert_eq!(job["payload"]["message"], "Water the plants");
    assert_eq!(job["schedule"]["expr"], "0 9 * * 1");
    let id = job["id"].as_str().unwrap();
    let expected = format!(
        "Scheduled task created:\n  ID: {id}\n  Cron: 0 9 * * 1\n  Prompt: Water the plants"
    );
    assert_eq!(made, expected);
    let listed = format!(
        "Scheduled Tasks (1):\n  [+] {id} - Water the plants\n        Schedule: 0 9 * * 1  |  \
         Last run: never"
    );
    assert_eq!(talk.command("/schedules").await, listed);
    let removed = format!("Task '{id}' removed.");
    assert_eq!(talk.command(&format!("/schedule remove {id}")).await, removed);
    let gone = format!("Task '{id}' not found.");
    assert_eq!(talk.command(&format!("/schedule remove {id}")).await, gone);
}

#[tokio::test]
async fn a_schedule_answers_in_the_conversation_in_which_it_was_made() {
    let (gateway, _mock) = place(|_| ()).await;
    let mut talk = Chat::open(&gateway).await;
    let conversation = talk.begin().await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &conversation).await;
    let prompt = "Water the plants\n\n  @mock text text=\"Watered.\"";
    let made = talk.command(&format!("/schedule add  0 9 * *  1  {prompt}")).await;
    assert!(made.ends_with(&format!("Cron: 0 9 * * 1\n  Prompt: {prompt}")), "{made}");
    let jobs = call(&mut client, "cron.list", json!({})).await;
    let job = &jobs["jobs"][0];
    assert_eq!(
        (&job["payload"]["message"], &job["name"]),
        (&json!(prompt), &json!("Water the plants"))
    );
    // Nobody has ever spoken in the main session.
    call(&mut client, "cron.run", json!({"id": job["id"]})).await;
    let answer = until("the answer", async || told(&mut client, &key).await.pop()).await;
    assert_eq!(answer, ("assistant".to_owned(), "Watered.".to_owned()));
}

#[tokio::test]
async fn the_gateway_tells_how_it_is_and_what_it_does_not_have() {
    let (gateway, _mock) = place(|_| ()).await;
    let mut talk = Chat::open(&gateway).await;
    let status = talk.command("/status").await;
    let dir = gateway.state_dir().display().to_string();
    assert!(status.starts_with("System Status\n  Model: mock/mock-1\n  Uptime: 0h 0m"), "{status}");
    assert!(
        status.ends_with(&format!(
            "  Connected channels: none\n  Scheduled tasks: 0 active / 0 total\n  Data dir: {dir}"
        )),
        "{status}"
    );
    assert!(talk.command("/profile").await.starts_with("Agent Profile\n  Name: "));
    assert!(talk.command("/channels").await.contains("Telegram: not configured"));
    let checks = talk.command("/preflight").await;
    assert!(checks.starts_with("Preflight Checks (OK)\n  [OK] config: valid\n"), "{checks}");
    assert!(talk.command("/help").await.starts_with("Available Commands\n\n  /new, "));
    let no_phone = "Phone calls are not offered by this gateway.";
    assert_eq!(talk.command("/phone +491234").await, no_phone);
    assert_eq!(talk.command("/call").await, no_phone);
    assert!(talk.command("/plugins").await.starts_with("No plugins found."));
    assert_eq!(talk.command("/plugin enable x").await, "Plugin 'x' not found.");
    let usage = "Usage: /plugin enable <id> or /plugin disable <id>";
    assert_eq!(talk.command("/plugin").await, usage);
}

#[tokio::test]
async fn in_lock_down_mode_nothing_is_answered_but_the_way_out() {
    let (mut gateway, _mock) = place(|_| ()).await;
    let mut talk = Chat::open(&gateway).await;
    let off = "Lock Down Mode: disabled\n\nUsage: /lockdown on | /lockdown off";
    assert_eq!(talk.command("/lockdown").await, off);
    assert_eq!(talk.command("/lockdown off").await, "Lock Down Mode is already disabled.");
    let on = talk.command("/lockdown on").await;
    assert!(on.starts_with("Lock Down Mode ENABLED"), "{on}");
    assert_eq!(written(&gateway)["gateway"]["dialects"]["chat"]["lockdown"], true);

    let locked = (StatusCode::FORBIDDEN, json!({"status": "locked"}));
    for path in ["/api/sessions", "/api/models", "/api/guardrails/config", "/api/setup/status"] {
        assert_eq!(request(&gateway, Method::GET, path, None).await, locked, "{path}");
    }
    let (status, known) = request(&gateway, Method::POST, "/api/auth/check", Some(json!({}))).await;
    assert_eq!((status, &known["authenticated"]), (StatusCode::OK, &json!(true)));
    for said in ["hello", "/status", "/new"] {
        let told = "Lock Down Mode is enabled. Send /lockdown off to end it.";
        assert_eq!(talk.command(said).await, told);
    }
    // Others are not shut out, and it outlives a restart.
    gateway.restart().await;
    assert_eq!(request(&gateway, Method::GET, "/api/models", None).await, locked);
    let mut client = admin(&gateway).await;
    let base = call(&mut client, "config.get", json!({})).await["hash"].clone();
    let patch = json!({"raw": "{gateway: {dialects: null}}", "baseHash": base});
    call(&mut client, "config.patch", patch).await;
    get(&gateway, "/api/models").await;

    let mut talk = Chat::open(&gateway).await;
    talk.command("/lockdown on").await;
    let off = talk.command("/lockdown off").await;
    assert!(off.starts_with("Lock Down Mode DISABLED"), "{off}");
    assert_eq!(written(&gateway)["gateway"]["dialects"], Value::Null);
    get(&gateway, "/api/models").await;
}

#[tokio::test]
async fn a_command_does_no_more_than_its_sender_may() {
    let (gateway, _mock) =
        place(|config| config["gateway"]["auth"]["sharedSecretScopes"] = json!(["read"])).await;
    let mut talk = Chat::open(&gateway).await;
    for (command, scope) in [
        ("/new", "operator.write"),
        ("/sessions clear", "operator.admin"),
        ("/clear", "operator.admin"),
        ("/config THINKING_LEVEL low", "operator.admin"),
        ("/mcp add x http://127.0.0.1:9/", "operator.admin"),
        ("/schedule add 0 9 * * * x", "operator.admin"),
        ("/lockdown on", "operator.admin"),
    ] {
        let refused = format!("Error: missing scope: {scope}");
        assert_eq!(talk.command(command).await, refused, "{command}");
    }
    assert_eq!(talk.command("/sessions").await, "No recorded sessions.");
}
