//! `/api/guardrails`: the section `tools.guardrails` in the names of the dialect.

use serde_json::{Map, Value};

use super::super::guardrails::{Edit, change, presets, shown, tools as known};
use super::{Answered, BODY_MAX, Failed, done};
use crate::config::{RunContext, Strategy};
use crate::http::Asked;
use crate::protocol::ErrorShape;
use crate::registry::Ctx;
use crate::support::json;

fn invalid(text: impl Into<String>) -> Failed {
    Failed::Method(ErrorShape::invalid(text))
}

/// All that is set, after a change or without one.
fn whole(cx: &Ctx) -> Value {
    let mut answer = done();
    if let (Value::Object(members), Value::Object(config)) =
        (&mut answer, shown(&cx.services.settings.now()))
    {
        members.extend(config);
    }
    answer
}

/// `GET /api/guardrails/config`.
pub async fn config(asked: Asked<'_>) -> Answered {
    Ok(whole(&asked.cx()))
}

/// `PUT /api/guardrails/config`: the members that are there are changed.
pub async fn set_config(mut asked: Asked<'_>) -> Answered {
    let body = asked.json(BODY_MAX).await?;
    let cx = asked.cx();
    change(&cx, Edit::Config(body)).await?;
    Ok(whole(&cx))
}

/// `GET /api/guardrails/rules`.
pub async fn rules(asked: Asked<'_>) -> Answered {
    let config = shown(&asked.gateway.services.settings.now());
    Ok(json!({"status": "ok", "rules": config["rules"]}))
}

/// `POST /api/guardrails/rules`.
pub async fn add_rule(mut asked: Asked<'_>) -> Answered {
    let body = asked.json(BODY_MAX).await?;
    let cx = asked.cx();
    let id = cx.services.ids.uuid();
    change(&cx, Edit::AddRule(id.clone(), body)).await?;
    rule(&cx, &id)
}

/// `PUT /api/guardrails/rules/:id`: the members that are there are changed.
pub async fn update_rule(mut asked: Asked<'_>) -> Answered {
    let body = asked.json(BODY_MAX).await?;
    let (cx, id) = (asked.cx(), asked.path.get("id").to_owned());
    if !change(&cx, Edit::UpdateRule(id.clone(), body)).await? {
        return Err(Failed::Missing("Rule not found"));
    }
    rule(&cx, &id)
}

fn rule(cx: &Ctx, id: &str) -> Answered {
    let config = shown(&cx.services.settings.now());
    let rules = config["rules"].as_array();
    let found = rules.into_iter().flatten().find(|rule| rule["id"] == id);
    let found = found.ok_or(Failed::Missing("Rule not found"))?;
    Ok(json!({"status": "ok", "rule": found}))
}

/// `DELETE /api/guardrails/rules/:id`.
pub async fn delete_rule(asked: Asked<'_>) -> Answered {
    let id = asked.path.get("id").to_owned();
    if change(&asked.cx(), Edit::DeleteRule(id)).await? {
        return Ok(done());
    }
    Err(Failed::Missing("Rule not found"))
}

/// The strategy that a body names; `allow` when it names none, as in the upstream.
fn strategy(body: &Value) -> Result<Strategy, Failed> {
    match &body["strategy"] {
        Value::Null => Ok(Strategy::Allow),
        word => word.as_str().and_then(Strategy::parse).ok_or_else(|| {
            let words: Vec<_> = Strategy::ALL.iter().map(|it| it.as_str()).collect();
            invalid(format!("strategy must be one of: {}", words.join(", ")))
        }),
    }
}

fn context(word: &str) -> Result<RunContext, Failed> {
    RunContext::parse(word)
        .ok_or_else(|| invalid("the context must be one of: interactive, background"))
}

/// `PUT /api/guardrails/policies/:ctx/:tool`.
pub async fn set_policy(mut asked: Asked<'_>) -> Answered {
    let body = asked.json(BODY_MAX).await?;
    let (context, strategy) = (context(asked.path.get("ctx"))?, strategy(&body)?);
    let tool = asked.path.get("tool").to_owned();
    change(&asked.cx(), Edit::Policy { model: None, context, tool, strategy }).await?;
    Ok(done())
}

/// `PUT /api/guardrails/model-policies/:model/:ctx/:tool`.
pub async fn set_model_policy(mut asked: Asked<'_>) -> Answered {
    let body = asked.json(BODY_MAX).await?;
    let (context, strategy) = (context(asked.path.get("ctx"))?, strategy(&body)?);
    let tool = asked.path.get("tool").to_owned();
    let model = Some(asked.path.get("model").to_owned());
    change(&asked.cx(), Edit::Policy { model, context, tool, strategy }).await?;
    Ok(done())
}

/// `GET /api/guardrails/contexts`: what there is here; strategies that come to
/// something else say so.
pub async fn contexts(_: Asked<'_>) -> Answered {
    let row = |(id, label, description): (&str, &str, &str)| json!({"id": id, "label": label, "description": description});
    let contexts = [
        ("interactive", "Interactive", "Runs that somebody began and waits for"),
        ("background", "Background", "Jobs, heartbeats and sub-agents"),
    ];
    let channels = [("chat", "Chat", "A question to everybody connected who may decide")];
    let strategies = [
        ("allow", "Allow", "The call goes on"),
        ("deny", "Deny", "The call is refused"),
        ("hitl", "HITL", "A person is asked; no answer in five minutes is a no"),
        ("pitl", "PITL", "Not offered by this gateway: the call is refused"),
        ("aitl", "AITL", "A model reviews the call; an unclear answer is a no"),
        ("filter", "Filter", "There is no prompt shield here: the call goes on"),
    ];
    Ok(json!({
        "status": "ok",
        "contexts": contexts.map(row),
        "channels": channels.map(row),
        "strategies": strategies.map(row),
    }))
}

/// `GET /api/guardrails/tools`.
pub async fn tools(asked: Asked<'_>) -> Answered {
    let all = known(&asked.cx());
    let (servers, tools): (Vec<_>, Vec<_>) = all.into_iter().partition(|tool| tool.is_server);
    let tool = |it: &presets::Guarded| json!({"name": it.id, "source": "builtin", "description": it.description, "risk": it.risk.as_str()});
    let server = |it: &presets::Guarded| {
        json!({"name": it.name, "enabled": true, "description": it.description, "type": "",
            "builtin": false, "risk": it.risk.as_str()})
    };
    Ok(json!({
        "status": "ok",
        "tools": tools.iter().map(tool).collect::<Vec<_>>(),
        "mcp_servers": servers.iter().map(server).collect::<Vec<_>>(),
    }))
}

/// `GET /api/guardrails/inventory`: the same as one list.
pub async fn inventory(asked: Asked<'_>) -> Answered {
    let row = |it: &presets::Guarded| {
        let source = if it.is_server { "mcp" } else { "builtin" };
        json!({"id": it.id, "name": it.name, "category": source, "source": source,
            "description": it.description, "risk": it.risk.as_str()})
    };
    let rows: Vec<_> = known(&asked.cx()).iter().map(row).collect();
    Ok(json!({"status": "ok", "inventory": rows}))
}

/// `GET /api/guardrails/presets`.
pub async fn presets(asked: Asked<'_>) -> Answered {
    let tools = known(&asked.cx());
    let row = |preset: &presets::Preset| {
        let policies: Map<String, Value> = RunContext::ALL
            .iter()
            .map(|context| (context.as_str().to_owned(), preset.policies(*context, &tools)))
            .collect();
        json!({"id": preset.id, "name": preset.name, "description": preset.description,
            "tool_policies": policies})
    };
    let rows: Vec<_> = presets::PRESETS.iter().map(row).collect();
    Ok(json!({"status": "ok", "presets": rows}))
}

/// `POST /api/guardrails/presets/:id`.
pub async fn apply_preset(asked: Asked<'_>) -> Answered {
    let id = asked.path.get("id");
    let preset = presets::PRESETS.iter().find(|preset| preset.id == id);
    let Some(preset) = preset else { return Err(invalid(format!("Unknown preset: {id}"))) };
    let cx = asked.cx();
    change(&cx, Edit::Preset(preset, known(&cx))).await?;
    Ok(whole(&cx))
}

/// `POST /api/guardrails/set-all`.
pub async fn set_all(mut asked: Asked<'_>) -> Answered {
    let body = asked.json(BODY_MAX).await?;
    if !body["strategy"].is_string() {
        return Err(invalid("strategy is required"));
    }
    let (cx, strategy) = (asked.cx(), strategy(&body)?);
    change(&cx, Edit::All(strategy, known(&cx))).await?;
    Ok(whole(&cx))
}
