//! Skills that are put to use: by a command of a chat, and by what is set for
//! them in the commands that the agent runs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::stage::{
    Api, RUN_LIMIT, admin, ask, call, config, connect, end_of, scripted, start, text_of, told,
};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider};

fn make(dir: &Path, name: &str, more: &str) {
    fs::create_dir_all(dir).unwrap();
    let text = format!("---\nname: {name}\ndescription: About {name}\n{more}\n---\nBODY\n");
    fs::write(dir.join("SKILL.md"), text).unwrap();
}

#[tokio::test]
async fn a_command_that_names_a_skill_is_a_message_that_tells_the_model_to_use_it() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let dir = gateway.state_dir().join("skills/weather");
    make(&dir, "weather-report", "");
    let mut client = admin(&gateway).await;
    let file = dir.join("SKILL.md");
    let order = format!(
        "Use the skill \"weather-report\" for this: read {} and do what it says.\n\n\
         @mock text text=rain",
        file.display()
    );
    for (run, line) in [
        ("run-1", "/weather_report @mock text text=rain"),
        ("run-2", "/skill weather-report @mock text text=rain"),
    ] {
        let end = ask(&mut client, "main", line, run).await;
        assert_eq!(text_of(&end["message"]), "rain", "{line}");
        let told = told(&mut client, "main").await;
        assert_eq!(told[told.len() - 2], ("user".to_owned(), order.clone()), "{line}");
    }
    let asked = mock.requests().len();
    let end = ask(&mut client, "main", "/skill cooking soup", "run-3").await;
    let said = text_of(&end["message"]);
    assert_eq!(said, "⚠️ No skill is called \"cooking\". Skills: weather-report.");
    assert_eq!(mock.requests().len(), asked, "no model is asked");
    // Alone it is a question to the model.
    ask(&mut client, "main", "/skill", "run-4").await;
    assert_eq!(mock.requests().len(), asked + 1);
    call(&mut client, "skills.update", json!({"skillKey": "weather-report", "enabled": false}))
        .await;
    let end = ask(&mut client, "main", "/skill weather-report x", "run-5").await;
    assert!(text_of(&end["message"]).ends_with("Skills: there are none."), "{end}");
}

#[tokio::test]
async fn clients_are_told_of_the_commands_of_skills_and_none_hides_one_of_the_gateway() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    for name in ["status", "kill", "halt", "notes"] {
        make(&gateway.state_dir().join("skills").join(name), name, "");
    }
    let mut client = admin(&gateway).await;
    let list = call(&mut client, "commands.list", json!({})).await;
    let rows = list["commands"].as_array().unwrap();
    let names: Vec<_> = rows.iter().filter(|row| row["source"] == "skill").collect();
    let names: Vec<_> = names.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["halt_2", "kill_2", "notes", "status_2"]);
    let notes = rows.iter().find(|row| row["name"] == "notes").unwrap();
    assert_eq!(
        *notes,
        json!({
            "name": "notes", "nativeName": "notes", "textAliases": ["/notes"],
            "description": "About notes", "category": "tools", "source": "skill",
            "scope": "both", "acceptsArgs": true,
        })
    );
    let own = rows.iter().find(|row| row["name"] == "skill").unwrap();
    assert_eq!(
        own["args"],
        json!([
            {"name": "name", "description": "Skill name", "type": "string", "required": true},
            {"name": "input", "description": "Skill input", "type": "string"},
        ])
    );
}

#[tokio::test]
async fn a_skill_that_names_a_tool_has_it_called_as_its_sender_could() {
    for (allowed, said) in
        [(json!([]), "⚠️ exec: Tool not available: exec"), (json!(["exec"]), "hi")]
    {
        let mock = MockProvider::start().await;
        let mut config = config(mock.address(), Api::OpenAi);
        config["gateway"]["tools"] = json!({"allow": allowed});
        let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
        let more = "command-dispatch: tool\ncommand-tool: exec";
        make(&gateway.state_dir().join("skills/run"), "run", more);
        let mut client = admin(&gateway).await;
        let end = ask(&mut client, "main", "/run echo hi", "run-1").await;
        assert_eq!(text_of(&end["message"]), said);
        assert!(mock.requests().is_empty(), "no model is asked");
    }
}

#[tokio::test]
async fn what_is_set_for_a_skill_reaches_commands_and_nobody_is_shown_it() {
    const KEY: &str = "sk-a-very-secret-key";
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["exec"] = json!({"ask": "always", "env": {"B": "own"}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let more = "metadata: {openclaw: {primaryEnv: A_KEY}}";
    make(&gateway.state_dir().join("skills/a"), "a", more);
    let mut params = standard_connect(&ALL_SCOPES);
    params["caps"] = json!(["tool-events"]);
    let mut client = connect(&gateway, &params).await;
    let update = json!({"skillKey": "a", "apiKey": KEY, "env": {"B": "skill", "C": "sea"}});
    call(&mut client, "skills.update", update).await;
    let command = json!({"command": "echo ${#A_KEY} $B $C ${D-none}", "env": {"D": "asked"}});
    let line = format!("@mock tool name=exec args={command} then=\"done\"");
    for (session, said) in [("one", "20 own sea asked"), ("two", "0 own asked")] {
        start(&mut client, session, &line, session).await;
        let asked = client.wait_for(RUN_LIMIT, |frame| {
            let key = &frame["payload"]["request"]["sessionKey"];
            frame["event"] == "exec.approval.requested" && *key == format!("agent:main:{session}")
        });
        let question = asked.await.expect("somebody is asked")["payload"].clone();
        assert_eq!(question["request"]["envKeys"], json!(["D"]), "{question}");
        let decision = json!({"id": question["id"], "decision": "allow-once"});
        call(&mut client, "exec.approval.resolve", decision).await;
        end_of(&client, session).await;
        let told = told(&mut client, session).await;
        assert!(told.contains(&("toolResult".into(), said.into())), "{told:?}");
        call(&mut client, "skills.update", json!({"skillKey": "a", "enabled": false})).await;
    }
    let seen = client.frames().iter().map(ToString::to_string).collect::<String>();
    let kept = files_with(&gateway.state_dir(), KEY);
    let config = gateway.config_path().to_string_lossy().into_owned();
    assert!(!kept.is_empty());
    // And its earlier version, beside it.
    assert!(kept.iter().all(|path| path.to_string_lossy().starts_with(&config)), "{kept:?}");
    for text in [seen, gateway.stdout(), gateway.stderr()] {
        assert!(!text.contains(KEY), "{text}");
    }
}

/// The files below a folder that have these bytes in them.
fn files_with(dir: &Path, wanted: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| match path.is_dir() {
        true => files_with(&path, wanted),
        false => {
            let bytes = fs::read(&path).unwrap_or_default();
            let has_it = bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes());
            if has_it { vec![path] } else { Vec::new() }
        }
    });
    found.collect()
}
