//! The page of agents.

use std::fs;

use serde_json::{Value, json};

use super::Place;
use crate::stage::{admin, call};

const SKILLS: [(&str, &str); 2] = [("greet", "Says hello"), ("weather", "Forecasts")];

#[tokio::test]
async fn an_agents_files_models_tools_and_skills_are_changed_on_its_page() {
    let place = Place::with(|config| {
        config["agents"]["list"] = json!([{"id": "main"}, {"id": "helper", "name": "Helper"}]);
        config["agents"]["defaults"]["models"] = json!({"mock/mock-1": {}, "mock/mock-2": {}});
    });
    let place = place.await;
    for (name, description) in SKILLS {
        let folder = place.gateway.workspace().join("skills").join(name);
        fs::create_dir_all(&folder).unwrap();
        let text = format!("---\nname: {name}\ndescription: {description}\n---\nDo it.\n");
        fs::write(folder.join("SKILL.md"), text).unwrap();
    }
    let mut client = admin(&place.gateway).await;
    let job = json!({
        "name": "Look around", "agentId": "main", "sessionTarget": "isolated",
        "schedule": {"kind": "every", "everyMs": 3_600_000}, "delivery": {"mode": "none"},
        "payload": {"kind": "agentTurn", "message": "What is new?"},
    });
    call(&mut client, "cron.add", job).await;
    let seen = place.visit("agents", json!({})).await;
    assert_eq!(seen.told, "Helper (default)");
    seen.check_calls(&["agents.files.set", "tools.catalog", "tools.effective", "skills.status"]);

    let soul = fs::read_to_string(place.gateway.workspace().join("SOUL.md")).unwrap();
    assert_eq!(soul, "# Soul\n\nBe **kind**.\n");
    let config: Value =
        serde_json::from_str(&fs::read_to_string(place.gateway.config_path()).unwrap()).unwrap();
    let main = json!({
        "id": "main",
        "model": {"primary": "mock/mock-2", "fallbacks": ["mock/mock-1"]},
        "tools": {"deny": ["exec"]},
        "skills": ["weather"],
    });
    let helper = json!({"id": "helper", "name": "Helper", "default": true});
    assert_eq!(config["agents"]["list"], json!([main, helper]));
    let list = call(&mut client, "agents.list", json!({})).await;
    assert_eq!(list["defaultId"], "helper");
    let had = json!({"sessionKey": "agent:main:main"});
    let had = call(&mut client, "tools.effective", had).await.to_string();
    assert!(had.contains("\"process\"") && !had.contains("\"exec\""), "{had}");
}
