//! `/model`, `/models`.

use crate::registry::{Ctx, Reply as Answer};
use crate::sessions::SessionKey;
use crate::support::json;

use super::super::book;
use super::{Reply, refusal};

/// The model that answers where one is, or would.
async fn current(cx: &Ctx, session: Option<&SessionKey>) -> String {
    let models = &cx.services.models;
    let Some(key) = session else {
        return models.of_agent(&cx.services.keys.now().default_agent).reference().to_string();
    };
    let entry = cx.services.sessions.entry(key).await.ok().flatten();
    models.of_session(key, entry.as_ref()).name.to_string()
}

/// `/model [X]`: another model means another conversation.
pub async fn model(cx: &Ctx, session: Option<&SessionKey>, args: &str) -> Reply {
    let before = current(cx, session).await;
    if args.is_empty() {
        return format!("Current model: {before}\n\nUsage: /model <name>").into();
    }
    let models = &cx.services.models;
    let usual = models.of_agent(&cx.services.keys.now().default_agent);
    let wanted = match models.catalog().resolve(args, &usual.provider) {
        Ok(model) => model.reference().to_string(),
        Err(error) => return format!("{error}. Use /models to see which there are.").into(),
    };
    match book::begin(cx, Some(&wanted)).await {
        Ok(session) => Reply {
            content: format!("Model switched: {before} -> {wanted}\nNew session started."),
            moved: Some(session),
        },
        Err(error) => refusal(&error).into(),
    }
}

/// `/models`.
pub async fn list(cx: &Ctx, session: Option<&SessionKey>) -> Answer<String> {
    let current = current(cx, session).await;
    let listed = cx.call("models.list", &json!({})).await?;
    let rows = listed["models"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        return Ok("No models available.".into());
    }
    let mut lines = vec!["Available Models".to_owned(), String::new()];
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let name = format!("{}/{}", text("provider"), text("id"));
        let mark = if name == current { " *" } else { "" };
        lines.push(format!("  {name}{mark}"));
    }
    lines.push(format!("\nCurrent: {current}\nUse /model <name> to switch."));
    Ok(lines.join("\n"))
}
