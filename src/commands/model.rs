//! `/model`, `/models`: which model answers in the session.
//!
//! Promises: a name that may mean several models, or one that may not be
//! chosen, changes nothing. Texts are the original's where the catalogue is.

use std::collections::BTreeMap;

use serde_json::Value;

use super::refusal;
use crate::providers::NameError;
use crate::registry::Ctx;
use crate::sessions::{SessionEntry, SessionKey};
use crate::support::json;

/// Models on one page of `/models <provider>`.
const PAGE: usize = 20;
const LOOK: &str = "Use /models to list providers, or /models <provider> to list models.";

/// `/model [status | list | default | <name>]`.
pub async fn run(args: &str, cx: &Ctx, key: &SessionKey) -> String {
    let entry = match cx.services.sessions.entry(key).await {
        Ok(entry) => entry.unwrap_or_default(),
        Err(error) => return format!("⚠️ The session is not readable: {error}"),
    };
    match args.to_lowercase().as_str() {
        "" => current(cx, key, &entry),
        "status" => status(cx, key, &entry),
        "list" => list("", cx).await,
        "default" | "reset" => choose(None, cx, key).await,
        _ => choose(Some(args), cx, key).await,
    }
}

fn current(cx: &Ctx, key: &SessionKey, entry: &SessionEntry) -> String {
    let model = cx.services.models.of_session(key, Some(entry)).name;
    format!(
        "Current: {model}\nSwitch: /model <provider/model>\n\
         Browse: /models (providers) or /models <provider> (models)\nMore: /model status"
    )
}

fn status(cx: &Ctx, key: &SessionKey, entry: &SessionEntry) -> String {
    let models = &cx.services.models;
    let agent = key.agent(&cx.services.keys.now());
    let current = models.of_session(key, Some(entry));
    let mut lines = vec![
        format!("Current: {}", current.name),
        format!("Default: {}", models.of_agent(&agent).reference()),
        format!("Agent: {agent}"),
    ];
    match &current.info {
        Some(info) => {
            lines.push(format!("API: {}", info.api.as_str()));
            lines.push(format!("Context: {} tokens", info.context_window));
        }
        None => lines.push("There is no such model.".to_owned()),
    }
    lines.join("\n")
}

async fn choose(written: Option<&str>, cx: &Ctx, key: &SessionKey) -> String {
    let models = &cx.services.models;
    let usual = models.of_agent(&key.agent(&cx.services.keys.now()));
    let (model, said) = match written {
        None => (Value::Null, format!("Model reset to default ({}).", usual.reference())),
        Some(written) => match models.catalog().resolve(written, &usual.provider) {
            Ok(model) => {
                let name = model.reference().to_string();
                let shown = match models.catalog().alias(&model) {
                    Some(alias) => format!("{alias} ({name})"),
                    None => name.clone(),
                };
                (json!(name), format!("Model set to {shown} for this session."))
            }
            Err(error) => return unknown(&error),
        },
    };
    let params = json!({"key": key.as_str(), "model": model});
    match cx.call("sessions.patch", &params).await {
        Ok(_) => said,
        Err(error) => refusal(cx, "/model", &error),
    }
}

fn unknown(error: &NameError) -> String {
    match error {
        NameError::NotAllowed(name) => format!(
            "Model \"{name}\" is not allowed. {LOOK}\n\
             Add it to agents.defaults.models in the config, restart the gateway, \
             then retry: /model {name}"
        ),
        NameError::Unknown(name) => format!("Model \"{name}\" is not known. {LOOK}"),
        ambiguous @ NameError::Ambiguous { .. } => format!("{ambiguous}. {LOOK}"),
    }
}

/// `/models [provider [page]]`.
pub async fn list(args: &str, cx: &Ctx) -> String {
    let listed = match cx.call("models.list", &json!({})).await {
        Ok(listed) => listed,
        Err(error) => return refusal(cx, "/models", &error),
    };
    let mut providers = BTreeMap::<&str, Vec<&str>>::new();
    for model in listed["models"].as_array().into_iter().flatten() {
        let names = (model["provider"].as_str(), model["id"].as_str());
        if let (Some(provider), Some(id)) = names {
            providers.entry(provider).or_default().push(id);
        }
    }
    let mut words = args.split_whitespace();
    let Some(wanted) = words.next() else {
        return format!(
            "Providers:\n{}\n\nUse: /models <provider>\nSwitch: /model <provider/model>",
            counted(&providers)
        );
    };
    let wanted = wanted.to_lowercase();
    let Some((provider, ids)) = providers.get_key_value(wanted.as_str()) else {
        return format!(
            "Unknown provider: {wanted}\n\nAvailable providers:\n{}\n\nUse: /models <provider>",
            counted(&providers)
        );
    };
    let page = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    page_of(provider, ids, page)
}

fn counted(providers: &BTreeMap<&str, Vec<&str>>) -> String {
    let lines = providers.iter().map(|(name, ids)| format!("- {name} ({})", ids.len()));
    lines.collect::<Vec<_>>().join("\n")
}

fn page_of(provider: &str, ids: &[&str], page: usize) -> String {
    let pages = ids.len().div_ceil(PAGE).max(1);
    let page = page.clamp(1, pages);
    let first = (page - 1) * PAGE;
    let shown: Vec<_> = ids.iter().skip(first).take(PAGE).collect();
    let mut lines = vec![format!(
        "Models ({provider}): {}-{} of {} (page {page}/{pages})",
        first + 1,
        first + shown.len(),
        ids.len()
    )];
    lines.extend(shown.iter().map(|id| format!("- {provider}/{id}")));
    lines.push("\nSwitch: /model <provider/model>".to_owned());
    if page < pages {
        lines.push(format!("More: /models {provider} {}", page + 1));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_models_come_in_pages() {
        let names: Vec<_> = (1..=45).map(|number| format!("m{number}")).collect();
        let ids: Vec<_> = names.iter().map(String::as_str).collect();
        let last = page_of("p", &ids, 9);
        assert!(last.starts_with("Models (p): 41-45 of 45 (page 3/3)\n- p/m41\n"), "{last}");
        assert!(!last.contains("More:"), "{last}");
        let first = page_of("p", &ids, 1);
        assert!(first.contains("- p/m20\n\n") && first.ends_with("More: /models p 2"), "{first}");
    }
}
