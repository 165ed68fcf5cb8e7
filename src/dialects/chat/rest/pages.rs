//! What the pages of the dialect show: ideas for a beginning, models, skills, the agent.

use serde_json::Value;

use super::super::setup;
use super::Answered;
use crate::http::Asked;
use crate::support::json;

/// Levels of thinking that a model that thinks takes.
const EFFORTS: [&str; 3] = ["low", "medium", "high"];

/// `GET /api/chat/suggestions`: what may be said first. Each is a thing that the
/// agent can do here: those that need a tool are there when the tool is.
pub async fn suggestions(asked: Asked<'_>) -> Answered {
    let cx = asked.cx();
    let tools = cx.call("tools.catalog", &json!({})).await?;
    let named = tools["groups"].as_array().into_iter().flatten();
    let named = named.flat_map(|group| group["tools"].as_array().into_iter().flatten());
    let known: Vec<_> = named.filter_map(|tool| tool["id"].as_str()).collect();
    let ideas = [
        (None, "What can you do?", "sparkles"),
        (Some("exec"), "How is this machine doing?", "terminal"),
        (Some("read"), "What is in your workspace?", "folder"),
        (Some("web_search"), "What is new today?", "globe"),
        (Some("memory_search"), "What do you remember of our conversations?", "brain"),
        (Some("cron"), "Remind me of something tomorrow morning", "clock"),
    ];
    let offered = ideas.iter().filter(|(tool, ..)| tool.is_none_or(|tool| known.contains(&tool)));
    let rows: Vec<_> = offered.map(|(_, text, icon)| json!({"text": text, "icon": icon})).collect();
    Ok(json!({"suggestions": rows}))
}

/// `GET /api/models`, `GET /api/chat/models`.
pub async fn models(asked: Asked<'_>) -> Answered {
    let cx = asked.cx();
    let listed = cx.call("models.list", &json!({})).await?;
    let current = cx.services.models.of_agent(&cx.services.keys.now().default_agent).reference();
    let row = |model: &Value| {
        let text = |name: &str| model[name].as_str().unwrap_or_default();
        let efforts: &[&str] = if model["reasoning"] == true { &EFFORTS } else { &[] };
        json!({
            "id": format!("{}/{}", text("provider"), text("id")),
            "name": text("name"),
            "policy": "enabled",
            "billing_multiplier": 1.0,
            "reasoning_efforts": efforts,
        })
    };
    let rows: Vec<_> = listed["models"].as_array().into_iter().flatten().map(row).collect();
    Ok(json!({"models": rows, "current": current.to_string()}))
}

/// `GET /api/setup/status`.
pub async fn setup(asked: Asked<'_>) -> Answered {
    Ok(setup::status(&asked.cx()).await?)
}

/// `GET /api/profile`.
pub async fn profile(asked: Asked<'_>) -> Answered {
    Ok(setup::profile(&asked.cx()).await?)
}

/// `GET /api/skills`.
pub async fn skills(asked: Asked<'_>) -> Answered {
    let status = asked.cx().call("skills.status", &json!({})).await?;
    let row = |skill: &Value| {
        json!({
            "name": skill["name"],
            "description": skill["description"],
            "source": skill["source"],
            "installed": skill["disabled"] != true,
            "eligible": skill["eligible"],
            "verb": "",
        })
    };
    let rows: Vec<_> = status["skills"].as_array().into_iter().flatten().map(row).collect();
    Ok(json!({"status": "ok", "skills": rows}))
}
