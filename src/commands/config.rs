//! `/config`: looks at the config file, and changes it.
//!
//! Promises: only for those who may change the config, and only when the config
//! says so; a secret is neither shown nor kept; a change that the gateway would
//! not start with is not written.

use serde_json::Value;

use super::refusal;
use crate::agent::roster::WouldWork;
use crate::config;
use crate::config::document::{self, ConfigBase, ConfigIssue, ConfigSnapshot, ConfigWrite};
use crate::config::edit::ValuePath;
use crate::config::redact::redacted_at;
use crate::handlers;
use crate::registry::Ctx;
use crate::support::blocking;

const USAGE: &str = "⚠️ Usage: /config show|get|set|unset [path[=value]]";
const FAILED: &str = "⚠️ /config failed inside the gateway; its log says why.";
/// Who may call this may change the config.
const METHOD: &str = "config.patch";

/// What may be kept of a message with these words: no value.
pub fn line(words: &str) -> String {
    let kept = words.split_once('=').map_or(words, |(path, _)| path);
    let (action, rest) = kept.split_once(char::is_whitespace).unwrap_or((kept, ""));
    let shown = match action.to_lowercase().as_str() {
        // A value without the sign may follow the path, or be glued to it.
        "set" => {
            let path =
                rest.split(|c: char| c.is_whitespace() || c == ':').find(|it| !it.is_empty());
            path.map(|path| format!("set {path}=…"))
        }
        "" | "show" | "get" | "unset" => Some(kept.to_owned()),
        // Who mistook the word may have written a value all the same.
        _ => None,
    };
    ["/config", &shown.unwrap_or_else(|| action.to_owned())].join(" ").trim().to_owned()
}

/// Does it.
pub async fn run(words: &str, cx: &Ctx) -> String {
    if !cx.services.settings.now().commands.config {
        return "⚠️ /config is disabled. Set commands.config=true to enable.".to_owned();
    }
    if let Err(error) = cx.check(METHOD) {
        return refusal(cx, "/config", &error);
    }
    let (action, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let (action, rest) = (action.to_lowercase(), rest.trim());
    let said = match action.as_str() {
        "" | "show" | "get" => {
            let (env, path) = (cx.services.env.clone(), rest.to_owned());
            let shown = blocking(move || show(&env, &path)).await;
            shown.unwrap_or_else(|_| Err(FAILED.to_owned()))
        }
        action => write(action, rest, cx).await,
    };
    said.unwrap_or_else(|wrong| wrong)
}

/// Changes the file; what is said of that.
async fn write(action: &str, rest: &str, cx: &Ctx) -> Result<String, String> {
    let (wanted, done, nothing) = match action {
        "set" => {
            let (path, value) = rest.split_once('=').ok_or("⚠️ Usage: /config set path=value")?;
            let (path, value) = (read_path(path)?, read_value(value));
            let shown = redacted_at(path.steps(), &value);
            let done = format!("⚙️ Config updated: {path}={shown}");
            (ConfigWrite::Set(path, value), done, None)
        }
        "unset" if !rest.is_empty() => {
            let path = read_path(rest)?;
            let done = format!("⚙️ Config updated: {path} removed.");
            let nothing = format!("⚙️ No config value found for {path}.");
            (ConfigWrite::Unset(path), done, Some(nothing))
        }
        _ => return Err(USAGE.to_owned()),
    };
    let env = cx.services.env.clone();
    let work = move |would_work: Box<WouldWork>| change(&wanted, &env, would_work);
    let written = handlers::in_turn(&cx.services, work).await;
    let (written, _turn) = written.map_err(|_| FAILED.to_owned())?;
    let is_changed = written?;
    match nothing {
        Some(nothing) if !is_changed => Ok(nothing),
        _ => Ok(format!("{done}{}", taken_up(cx).await)),
    }
}

/// Has the gateway use what is written now; what is to be said of that. A restart, or the end
/// of the sender's connection, comes after that was said.
async fn taken_up(cx: &Ctx) -> String {
    match handlers::take_up(cx, false).await {
        Ok(taken) if taken.restarts => "\nThe gateway restarts for it to take effect.".into(),
        Ok(taken) if taken.pending.is_empty() => String::new(),
        Ok(_) => "\nRestart the gateway for it to take effect.".into(),
        Err(wrong) => format!("\n⚠️ It is not in use: {}", wrong.message),
    }
}

fn read_path(written: &str) -> Result<ValuePath, String> {
    written.trim().parse().map_err(|error| format!("⚠️ {error}"))
}

/// JSON5, or else just a text.
fn read_value(written: &str) -> Value {
    let written = written.trim();
    let read = config::parse_value(written, std::path::Path::new("value"));
    read.unwrap_or_else(|_| Value::String(written.to_owned()))
}

fn change(
    write: &ConfigWrite,
    env: &config::Env,
    would_work: impl Fn(&str) -> Result<(), ConfigIssue>,
) -> Result<bool, String> {
    let written = document::write(write, &ConfigBase::Any, env, would_work);
    let written = written.map_err(|error| format!("⚠️ Config not changed: {error}"))?;
    Ok(written.changed)
}

fn show(env: &config::Env, path: &str) -> Result<String, String> {
    let unreadable = |error: &dyn std::fmt::Display| format!("⚠️ Config not readable: {error}");
    let seen = ConfigSnapshot::read(env).map_err(|error| unreadable(&error))?;
    if let Some(issue) = seen.issues.first().filter(|_| !seen.is_readable) {
        return Err(unreadable(&issue.message));
    }
    if path.is_empty() {
        return Ok(format!("⚙️ Config (raw):\n```json\n{:#}\n```", seen.source));
    }
    let path = read_path(path)?;
    let found = path.find(&seen.source);
    // It may stand in what cannot be read.
    if let Some(issue) = seen.issues.first().filter(|_| found.is_none() && !seen.is_whole) {
        return Err(unreadable(&issue.message));
    }
    Ok(match found {
        None => format!("⚙️ No config value found for {path}."),
        Some(value) => format!("⚙️ Config {path}:\n```json\n{value:#}\n```"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_nested_without_end_is_a_text() {
        let deep = "[".repeat(100_000);
        assert_eq!(read_value(&deep), Value::String(deep.clone()));
        assert_eq!(read_value(" [1] "), crate::support::json!([1]));
    }

    #[test]
    fn a_value_is_not_kept_with_the_line() {
        for (words, kept) in [
            ("set gateway.auth.token=geheim", "/config set gateway.auth.token=…"),
            ("set gateway.auth.token geheim", "/config set gateway.auth.token=…"),
            ("SET a = b c", "/config set a=…"),
            ("set gateway.auth.token:geheim", "/config set gateway.auth.token=…"),
            ("change gateway.auth.token geheim", "/config change"),
            ("set", "/config set"),
            ("get gateway.port", "/config get gateway.port"),
            ("", "/config"),
        ] {
            assert_eq!(line(words), kept);
        }
    }
}
