//! Commands that change a setting of the session: `/think`, `/verbose`, …
//!
//! Owns: the words for each setting. Promises: a setting is changed by
//! `sessions.patch` in the name of the sender, several of one message all or
//! none. Texts are the original's.

use serde_json::{Map, Value};

use super::directives::{self, Directive};
use super::refusal;
use super::table::{Action, COMMANDS, Setting};
use crate::protocol::Scope;
use crate::registry::{Ctx, Reply};
use crate::sessions::usage::{DateRange, Zone};
use crate::sessions::{SessionEntry, SessionKey};
use crate::support::json;

/// Changes settings; what is said to that.
pub async fn change(all: &[Directive], cx: &Ctx, key: &SessionKey) -> String {
    let mut params = Map::from_iter([("key".to_owned(), json!(key.as_str()))]);
    for (setting, level) in all {
        let (member, value) = patch(*setting, level);
        params.insert(member.to_owned(), value);
    }
    let changed = cx.call("sessions.patch", &Value::Object(params)).await;
    let said = all.iter().map(|(setting, level)| told(*setting, level)).collect::<Vec<_>>();
    let names: Vec<_> = all.iter().map(|(setting, _)| name(*setting)).collect();
    match changed {
        Ok(_) => said.join(" "),
        Err(error) => refusal(cx, &names.join(" "), &error),
    }
}

/// A command that is not a setting with a level that there is: it asks for the
/// current one, or has a form of its own.
pub async fn run(setting: Setting, words: &str, cx: &Ctx, key: &SessionKey) -> String {
    let entry = match cx.services.sessions.entry(key).await {
        Ok(entry) => entry.unwrap_or_default(),
        Err(error) => return format!("⚠️ The session is not readable: {error}"),
    };
    let word = words.trim().trim_start_matches(':').trim();
    match setting {
        Setting::Usage => usage(word, cx, key, &entry).await,
        Setting::Activation => activation(word, cx, key, &entry).await,
        Setting::Send => send(word, cx, key).await,
        _ => match directives::level_of(setting, word) {
            Some(level) => change(&[(setting, level)], cx, key).await,
            None if word.is_empty() || word == "status" => current(setting, cx, key, &entry),
            None => unrecognized(setting, word),
        },
    }
}

fn name(setting: Setting) -> &'static str {
    let spec = COMMANDS.iter().find(|spec| spec.action == Some(Action::Setting(setting)));
    spec.and_then(|spec| spec.aliases.first()).copied().unwrap_or_default()
}

fn patch(setting: Setting, level: &str) -> (&'static str, Value) {
    match setting {
        Setting::Think => ("thinkingLevel", json!(level)),
        Setting::Verbose => ("verboseLevel", json!(level)),
        Setting::Trace => ("traceLevel", json!(level)),
        Setting::Fast => ("fastMode", json!(level == "on")),
        Setting::Reasoning => ("reasoningLevel", json!(level)),
        Setting::Elevated => ("elevatedLevel", json!(level)),
        Setting::Usage => ("responseUsage", json!(level)),
        Setting::Activation => ("groupActivation", json!(level)),
        Setting::Send => (
            "sendPolicy",
            match level {
                "on" => json!("allow"),
                "off" => json!("deny"),
                _ => Value::Null,
            },
        ),
    }
}

fn told(setting: Setting, level: &str) -> String {
    match (setting, level) {
        (Setting::Think, "off") => "Thinking disabled.".into(),
        (Setting::Think, level) => format!("Thinking level set to {level}."),
        (Setting::Verbose, "off") => "⚙️ Verbose logging disabled.".into(),
        (Setting::Verbose, "full") => "⚙️ Verbose logging set to full.".into(),
        (Setting::Verbose, _) => "⚙️ Verbose logging enabled.".into(),
        (Setting::Trace, "off") => "⚙️ Trace disabled.".into(),
        (Setting::Trace, "raw") => {
            "⚙️ Raw trace enabled. Warning: trace output may contain sensitive information.".into()
        }
        (Setting::Trace, _) => {
            "⚙️ Trace enabled. Warning: trace output may contain sensitive information.".into()
        }
        (Setting::Fast, "on") => "⚙️ Fast mode enabled.".into(),
        (Setting::Fast, _) => "⚙️ Fast mode disabled.".into(),
        (Setting::Reasoning, "off") => "⚙️ Reasoning visibility disabled.".into(),
        (Setting::Reasoning, "stream") => "⚙️ Reasoning stream enabled.".into(),
        (Setting::Reasoning, _) => "⚙️ Reasoning visibility enabled.".into(),
        (Setting::Elevated, "off") => "⚙️ Elevated mode disabled.".into(),
        (Setting::Elevated, level) => format!("⚙️ Elevated mode set to {level}."),
        (Setting::Usage, level) => format!("⚙️ Usage footer: {level}."),
        (Setting::Activation, level) => format!("⚙️ Group activation set to {level}."),
        (Setting::Send, level) => format!("⚙️ Send policy set to {level}."),
    }
}

fn current(setting: Setting, cx: &Ctx, key: &SessionKey, entry: &SessionEntry) -> String {
    let settings = cx.services.settings.now();
    let (agents, agent) = (&settings.agents, key.agent(&cx.services.runs.parts().keys.now()));
    let or_off = |level: &Option<String>| level.clone().unwrap_or_else(|| "off".into());
    let (what, level, options) = match setting {
        Setting::Think => {
            let level = cx.services.models.thinking(key, entry).as_str().to_owned();
            ("thinking level", level, "off, minimal, low, medium, high")
        }
        Setting::Verbose => {
            let level = agents.verbose_level(agent.as_str(), entry.verbose_level.as_deref());
            ("verbose level", level.unwrap_or("off").to_owned(), "on, full, off")
        }
        Setting::Trace => ("trace level", or_off(&entry.trace_level), "on, off, raw"),
        Setting::Reasoning => {
            let level = agents.reasoning_level(agent.as_str(), entry.reasoning_level.as_deref());
            ("reasoning level", level.unwrap_or("off").to_owned(), "on, off, stream")
        }
        Setting::Fast => {
            let mode = match entry.fast_mode {
                Some(true) => "on",
                Some(false) => "off",
                None => "off (default)",
            };
            ("fast mode", mode.to_owned(), "status, on, off")
        }
        _ => ("elevated level", or_off(&entry.elevated_level), "on, off, ask, full"),
    };
    format!("Current {what}: {level}.\nOptions: {options}.")
}

fn unrecognized(setting: Setting, word: &str) -> String {
    let (what, valid) = match setting {
        Setting::Think => ("thinking level", "off, minimal, low, medium, high"),
        Setting::Verbose => ("verbose level", "off, on, full"),
        Setting::Trace => ("trace level", "off, on, raw"),
        Setting::Fast => ("fast mode", "status, on, off"),
        Setting::Reasoning => ("reasoning level", "on, off, stream"),
        _ => ("elevated level", "off, on, ask, full"),
    };
    format!("Unrecognized {what} \"{word}\". Valid levels: {valid}.")
}

async fn usage(word: &str, cx: &Ctx, key: &SessionKey, entry: &SessionEntry) -> String {
    let level = match word.to_lowercase().as_str() {
        // Without a word, the next one.
        "" => match entry.response_usage.as_deref() {
            Some("tokens") => "full",
            Some("full") => "off",
            _ => "tokens",
        },
        "cost" => return cost(cx, key).await.unwrap_or_else(|error| refusal(cx, "/usage", &error)),
        "on" | "tokens" => "tokens",
        "full" => "full",
        "off" => "off",
        _ => return "⚙️ Usage: /usage off|tokens|full|cost".into(),
    };
    change(&[(Setting::Usage, level)], cx, key).await
}

async fn cost(cx: &Ctx, key: &SessionKey) -> Reply<String> {
    let entry = cx.services.sessions.entry(key).await.ok().flatten().unwrap_or_default();
    let own = entry.estimated_cost_usd.unwrap_or_default();
    if cx.caller.person.is_some() && !cx.caller.principal.allows(Scope::Admin) {
        // What others use is none of a person's business.
        return Ok(format!("💸 Usage cost\nSession ${own:.4}"));
    }
    let today = DateRange::read(Zone::local(), None, None, None, cx.now_ms());
    let today = today.map(|range| range.last.to_string()).unwrap_or_default();
    let days = cx.call("usage.cost", &json!({"days": 30, "mode": "gateway"})).await?;
    let of = |value: &Value| value["totalCost"].as_f64().unwrap_or_default();
    // Days on which nothing was used are not told.
    let mut daily = days["daily"].as_array().into_iter().flatten();
    let today = daily.find(|day| day["date"] == today).map(of);
    Ok(format!(
        "💸 Usage cost\nSession ${own:.4}\nToday ${:.4}\nLast 30d ${:.4}",
        today.unwrap_or_default(),
        of(&days["totals"]),
    ))
}

async fn activation(word: &str, cx: &Ctx, key: &SessionKey, entry: &SessionEntry) -> String {
    let is_group = matches!(entry.chat_type.as_deref(), Some("group" | "channel"));
    if !is_group && key.kind() != "group" {
        return "⚙️ Group activation only applies to group chats.".into();
    }
    match directives::level_of(Setting::Activation, word) {
        Some(mode) => change(&[(Setting::Activation, mode)], cx, key).await,
        None => "⚙️ Usage: /activation mention|always".into(),
    }
}

async fn send(word: &str, cx: &Ctx, key: &SessionKey) -> String {
    match directives::level_of(Setting::Send, word) {
        Some(mode) => change(&[(Setting::Send, mode)], cx, key).await,
        None => "⚙️ Usage: /send on|off|inherit".into(),
    }
}
