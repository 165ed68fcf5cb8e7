//! The section `tools.guardrails` as the dialect writes and shows it.
//!
//! Owns: its names there, and changes of it. Promises: whatever is not said stays as
//! it is; what is wrong is refused before anything is written. Must not: judge a call;
//! that is `agent::guardrails`.

pub mod presets;

use serde_json::{Map, Value};

use super::settings;
use crate::config::{RunContext, Settings, Strategy, tool_id};
use crate::protocol::ErrorShape;
use crate::registry::{Ctx, Reply};
use crate::support::json;

pub use presets::{Guarded, Preset, tools};

/// Where it stands in the config.
const PATH: [&str; 2] = ["tools", "guardrails"];
/// Members by both of the names that the upstream's client and server have for them,
/// and ours.
const MEMBERS: [(&str, &str); 6] = [
    ("enabled", "enabled"),
    ("hitl_enabled", "enabled"),
    ("default_strategy", "defaultStrategy"),
    ("default_action", "defaultStrategy"),
    ("aitl_model", "reviewModel"),
    ("context_defaults", "contextDefaults"),
];
/// The members of a rule, in the names of the dialect and ours.
const RULE: [(&str, &str); 9] = [
    ("name", "name"),
    ("pattern", "pattern"),
    ("scope", "scope"),
    ("action", "action"),
    ("enabled", "enabled"),
    ("description", "description"),
    ("contexts", "contexts"),
    ("models", "models"),
    ("hitl_channel", "hitlChannel"),
];

/// A change.
#[derive(Debug)]
pub enum Edit {
    /// These members of the whole.
    Config(Value),
    /// A rule with this id.
    AddRule(String, Value),
    /// Members of the rule with this id.
    UpdateRule(String, Value),
    /// The rule with this id goes.
    DeleteRule(String),
    /// What is done about a tool.
    Policy {
        /// With this model only.
        model: Option<String>,
        /// Where.
        context: RunContext,
        /// The tool.
        tool: String,
        /// What is done.
        strategy: Strategy,
    },
    /// A preset for these tools. It turns guardrails on.
    Preset(&'static Preset, Vec<Guarded>),
    /// The same for everything.
    All(Strategy, Vec<Guarded>),
}

/// Makes a change; `false` when the rule that is meant is not there.
///
/// # Errors
/// When the caller may not change the config, or the result would be wrong.
pub async fn change(cx: &Ctx, edit: Edit) -> Reply<bool> {
    settings::change(cx, move |config| {
        let [tools, guardrails] = PATH;
        let mut section = config[tools][guardrails].clone();
        let is_done = apply(&mut section, &edit)?;
        if section != config[tools][guardrails] {
            *settings::at(config, &PATH) = section;
        }
        Ok(is_done)
    })
    .await
}

fn apply(section: &mut Value, edit: &Edit) -> Reply<bool> {
    match edit {
        Edit::Config(members) => set_members(section, members)?,
        Edit::AddRule(id, members) => {
            let mut rule = Map::from_iter([("id".to_owned(), json!(id))]);
            fill(&mut rule, members)?;
            match settings::at(section, &["rules"]) {
                Value::Array(rules) => rules.push(Value::Object(rule)),
                rules => *rules = json!([rule]),
            }
        }
        Edit::UpdateRule(id, members) => {
            let rules = section.get_mut("rules").and_then(Value::as_array_mut);
            let found = rules.into_iter().flatten().find(|rule| rule["id"] == id.as_str());
            let Some(rule) = found.and_then(Value::as_object_mut) else { return Ok(false) };
            fill(rule, members)?;
        }
        Edit::DeleteRule(id) => {
            let rules = section.get_mut("rules").and_then(Value::as_array_mut);
            let Some(rules) = rules else { return Ok(false) };
            let before = rules.len();
            rules.retain(|rule| rule["id"] != id.as_str());
            return Ok(rules.len() < before);
        }
        Edit::Policy { model, context, tool, strategy } => {
            let (tool, context) = (tool_id(tool), context.as_str());
            let model = model.as_ref().map(|model| model.trim().to_lowercase());
            let path: Vec<&str> = match &model {
                Some(model) => vec!["modelPolicies", model, context, &tool],
                None => vec!["toolPolicies", context, &tool],
            };
            *settings::at(section, &path) = json!(strategy.as_str());
        }
        Edit::Preset(preset, tools) => {
            *settings::at(section, &["enabled"]) = json!(true);
            forget_models(section);
            for context in RunContext::ALL {
                let word = context.as_str();
                // What there is not yet is as risky as can be.
                let unknown = preset.strategy(context, presets::Risk::High);
                *settings::at(section, &["contextDefaults", word]) = json!(unknown.as_str());
                *settings::at(section, &["toolPolicies", word]) = preset.policies(context, tools);
            }
        }
        Edit::All(strategy, tools) => {
            let word = json!(strategy.as_str());
            forget_models(section);
            for context in RunContext::ALL {
                let policies = tools.iter().map(|tool| (tool.id.clone(), word.clone()));
                *settings::at(section, &["contextDefaults", context.as_str()]) = word.clone();
                *settings::at(section, &["toolPolicies", context.as_str()]) =
                    Value::Object(policies.collect());
            }
            *settings::at(section, &["defaultStrategy"]) = word;
        }
    }
    Ok(true)
}

/// Takes away what is said of single models: that is asked first, so nothing else would
/// be said of all tools.
fn forget_models(section: &mut Value) {
    settings::remove(section, &["modelPolicies"]);
}

fn set_members(section: &mut Value, members: &Value) -> Reply<()> {
    let Some(members) = members.as_object() else {
        return Err(ErrorShape::invalid("the body must be an object"));
    };
    for channel in ["hitl_channel", "default_channel"] {
        if members.get(channel).is_some_and(|channel| channel != "chat") {
            let text = "the channel must be chat: phone calls are not offered by this gateway";
            return Err(ErrorShape::invalid(text));
        }
    }
    for (written, own) in MEMBERS {
        let Some(value) = members.get(written) else { continue };
        match value {
            // The upstream has no model as an empty text.
            Value::String(text) if text.is_empty() => drop(settings::remove(section, &[own])),
            value => *settings::at(section, &[own]) = value.clone(),
        }
    }
    for (written, own) in [("tool_policies", "toolPolicies"), ("model_policies", "modelPolicies")] {
        if let Some(value) = members.get(written) {
            *settings::at(section, &[own]) = value.clone();
        }
    }
    if let Some(rules) = members.get("rules").and_then(Value::as_array) {
        let mut all = Vec::new();
        for written in rules {
            let mut rule = Map::new();
            let id = written["id"].as_str().filter(|id| !id.is_empty());
            let id = id.ok_or_else(|| ErrorShape::invalid("each rule must have an id"))?;
            rule.insert("id".into(), json!(id));
            fill(&mut rule, written)?;
            all.push(Value::Object(rule));
        }
        *settings::at(section, &["rules"]) = json!(all);
    }
    // One context, as a tab of the upstream's page sends it.
    let one = members.get("context_default").unwrap_or(&Value::Null);
    if let Some(context) = one["context"].as_str().filter(|context| !context.is_empty()) {
        match one["strategy"].as_str().filter(|strategy| !strategy.is_empty()) {
            Some(strategy) => {
                *settings::at(section, &["contextDefaults", context]) = json!(strategy);
            }
            None => drop(settings::remove(section, &["contextDefaults", context])),
        }
    }
    Ok(())
}

fn fill(rule: &mut Map<String, Value>, members: &Value) -> Reply<()> {
    let Some(members) = members.as_object() else {
        return Err(ErrorShape::invalid("a rule must be an object"));
    };
    for (written, own) in RULE {
        if let Some(value) = members.get(written) {
            rule.insert(own.into(), value.clone());
        }
    }
    Ok(())
}

/// The section as the dialect shows it.
pub fn shown(settings: &Settings) -> Value {
    let guardrails = &settings.tools.guardrails;
    let section = &settings.raw["tools"]["guardrails"];
    let strategy = guardrails.default_strategy.as_str();
    let object = |name: &str| match &section[name] {
        Value::Object(members) => Value::Object(members.clone()),
        _ => json!({}),
    };
    let models: Vec<_> = guardrails.model_policies.keys().collect();
    let rules = section["rules"].as_array().into_iter().flatten().map(rule);
    json!({
        "enabled": guardrails.enabled,
        "hitl_enabled": guardrails.enabled,
        "default_strategy": strategy,
        "default_action": strategy,
        "hitl_channel": "chat",
        "default_channel": "chat",
        "phone_number": "",
        "context_defaults": object("contextDefaults"),
        "tool_policies": object("toolPolicies"),
        "model_columns": models,
        "model_policies": object("modelPolicies"),
        "aitl_model": guardrails.review_model.as_deref().unwrap_or_default(),
        "aitl_spotlighting": true,
        "filter_mode": "prompt_shields",
        "content_safety_endpoint": "",
        "rules": rules.collect::<Vec<_>>(),
    })
}

fn rule(written: &Value) -> Value {
    let usual = |own: &str| match own {
        "scope" => json!("tool"),
        "action" => json!("hitl"),
        "enabled" => json!(true),
        "contexts" | "models" => json!([]),
        "hitlChannel" => json!("chat"),
        _ => json!(""),
    };
    let mut rule = Map::from_iter([("id".to_owned(), written["id"].clone())]);
    for (name, own) in RULE {
        let value = written.get(own).cloned().unwrap_or_else(|| usual(own));
        rule.insert(name.into(), value);
    }
    Value::Object(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_everything_leaves_no_model_with_a_word_of_its_own() {
        let policies = json!({"p/m": {"interactive": {"exec": "allow"}}});
        for edit in
            [Edit::All(Strategy::Deny, Vec::new()), Edit::Preset(&presets::PRESETS[2], Vec::new())]
        {
            let mut section = json!({"enabled": true, "modelPolicies": policies});
            assert!(apply(&mut section, &edit).unwrap());
            assert_eq!(section.get("modelPolicies"), None, "{edit:?}");
            assert_eq!(section["contextDefaults"]["background"], "deny", "{edit:?}");
        }
    }

    #[test]
    fn changes_touch_what_they_name_and_nothing_else() {
        let mut section = json!({"rules": [{"id": "a", "pattern": "x"}], "reviewModel": "m/x"});
        let edit = |section: &mut Value, edit: Edit| apply(section, &edit).unwrap();
        let members = json!({"enabled": true, "default_action": "hitl", "aitl_model": "",
            "context_default": {"context": "background", "strategy": "deny"}});
        assert!(edit(&mut section, Edit::Config(members)));
        assert!(edit(&mut section, Edit::AddRule("b".into(), json!({"pattern": "y", "z": 1}))));
        assert!(edit(&mut section, Edit::UpdateRule("a".into(), json!({"enabled": false}))));
        assert!(!edit(&mut section, Edit::UpdateRule("c".into(), json!({}))));
        assert!(!edit(&mut section, Edit::DeleteRule("c".into())));
        let policy = Edit::Policy {
            model: Some("P/M".into()),
            context: RunContext::Interactive,
            tool: "bash".into(),
            strategy: Strategy::Deny,
        };
        assert!(edit(&mut section, policy));
        assert_eq!(
            section,
            json!({"rules": [{"id": "a", "pattern": "x", "enabled": false},
                    {"id": "b", "pattern": "y"}],
                "enabled": true, "defaultStrategy": "hitl",
                "contextDefaults": {"background": "deny"},
                "modelPolicies": {"p/m": {"interactive": {"exec": "deny"}}}})
        );
        assert!(edit(&mut section, Edit::DeleteRule("a".into())));
        assert_eq!(section["rules"][0]["id"], "b");
        let mut nothing = Value::Null;
        assert!(!edit(&mut nothing, Edit::DeleteRule("a".into())));
        assert!(!edit(&mut nothing, Edit::UpdateRule("a".into(), json!({}))));
        assert!(edit(&mut nothing, Edit::Config(json!({}))));
        assert_eq!(nothing, Value::Null, "what changes nothing writes nothing");
    }
}
