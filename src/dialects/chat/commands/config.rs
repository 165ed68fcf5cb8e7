//! `/config [KEY VALUE]`: a few settings by the names of the dialect.
//!
//! Promises: nothing can be set that opens a door: only these keys, and only by who
//! may change the config.

use serde_json::Value;

use crate::config::AuthMode;
use crate::protocol::ErrorShape;
use crate::providers::ThinkingLevel;
use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;
use crate::support::json;

use super::super::{retention, settings};

/// The keys, in the order in which they are told.
const KEYS: [&str; 3] = ["ARCHIVAL_POLICY", "COPILOT_MODEL", "THINKING_LEVEL"];
const USAGE: &str = "Usage: /config <KEY> <VALUE>";

/// Does it.
pub async fn run(cx: &Ctx, _session: Option<&SessionKey>, args: &str) -> Reply<String> {
    if args.is_empty() {
        return shown(cx);
    }
    let Some((key, value)) = args.split_once(char::is_whitespace) else { return Ok(USAGE.into()) };
    let (key, value) = (key.to_uppercase(), value.trim().to_owned());
    match key.as_str() {
        "COPILOT_MODEL" => model(cx, &value).await?,
        "THINKING_LEVEL" => thinking(cx, &value).await?,
        "ARCHIVAL_POLICY" => retention::set(cx, &value).await?,
        _ => return Ok(format!("Cannot set '{key}'. Allowed keys: {}", KEYS.join(", "))),
    }
    Ok(format!("Config updated: {key} = {value}"))
}

fn shown(cx: &Ctx) -> Reply<String> {
    cx.check("status")?;
    let settings = cx.services.settings.now();
    let models = &cx.services.models;
    let model = models.of_agent(&cx.services.keys.now().default_agent);
    let (level, model) = (models.thinking_default(&model).as_str(), model.reference());
    let secret = if settings.gateway.auth.mode == AuthMode::None { "not set" } else { "set" };
    Ok(format!(
        "Runtime Configuration\n  Model: {model}\n  Thinking: {level}\n  Archival policy: {}\n  \
         Admin port: {}\n  Data dir: {}\n  Admin secret: {secret}\n\n{USAGE}",
        retention::policy(&settings),
        settings.gateway.port,
        settings.paths.state_dir.display(),
    ))
}

/// The model of all agents that have none of their own.
async fn model(cx: &Ctx, written: &str) -> Reply<()> {
    let models = &cx.services.models;
    let usual = models.of_agent(&cx.services.keys.now().default_agent);
    let found = models.catalog().resolve(written, &usual.provider);
    let found = found.map_err(|error| ErrorShape::invalid(error.to_string()))?;
    let name = found.reference().to_string();
    settings::change(cx, move |config| {
        let model = settings::at(config, &["agents", "defaults", "model"]);
        match model {
            Value::Object(members) => drop(members.insert("primary".into(), json!(name))),
            model => *model = json!(name),
        }
        Ok(())
    })
    .await
}

async fn thinking(cx: &Ctx, written: &str) -> Reply<()> {
    let Some(level) = ThinkingLevel::meant_by(written) else {
        return Err(ErrorShape::invalid(format!("there is no thinking level '{written}'")));
    };
    settings::change(cx, move |config| {
        *settings::at(config, &["agents", "defaults", "thinkingDefault"]) = json!(level.as_str());
        Ok(())
    })
    .await
}
