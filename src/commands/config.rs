//! `/config`: looks at the config file, and changes it.
//!
//! Promises: only for those who may change the config, and only when the config
//! says so; a secret is neither shown nor kept; a change that the gateway would
//! not start with is not written.

use serde_json::Value;

use super::refusal;
use crate::config::edit::{self, ValuePath};
use crate::config::redact::redacted_at;
use crate::config::{self, edit_file, redacted};
use crate::registry::Ctx;

const USAGE: &str = "⚠️ Usage: /config show|get|set|unset [path[=value]]";
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
        return refusal("/config", &error);
    }
    let (action, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let rest = rest.trim().to_owned();
    let file = cx.services.settings.now().file.path.clone();
    let env = cx.services.env.clone();
    let work: Box<dyn FnOnce() -> Result<String, String> + Send> =
        match action.to_lowercase().as_str() {
            "" | "show" | "get" => Box::new(move || show(&file, &rest)),
            "set" => Box::new(move || {
                let (path, value) =
                    rest.split_once('=').ok_or("⚠️ Usage: /config set path=value")?;
                let (path, value) = (read_path(path)?, read_value(value));
                change(&file, &env, |text| edit::set(text, &path, &value))?;
                let shown = redacted_at(path.steps(), &value);
                Ok(format!("⚙️ Config updated: {path}={shown}\n{RESTART}"))
            }),
            "unset" if !rest.is_empty() => Box::new(move || {
                let path = read_path(&rest)?;
                let changed = change(&file, &env, |text| edit::remove(text, &path))?;
                Ok(if changed {
                    format!("⚙️ Config updated: {path} removed.\n{RESTART}")
                } else {
                    format!("⚙️ No config value found for {path}.")
                })
            }),
            _ => return USAGE.to_owned(),
        };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(said) | Err(said)) => said,
        Err(_) => "⚠️ /config failed inside the gateway; its log says why.".to_owned(),
    }
}

const RESTART: &str = "Restart the gateway for it to take effect.";

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
    file: &std::path::Path,
    env: &config::Env,
    edit: impl FnOnce(&str) -> Result<String, edit::EditError>,
) -> Result<bool, String> {
    let mut wrong = None;
    let changed = edit_file(file, |before| {
        let after = edit(before)?;
        match config::check(&after, env) {
            Ok(()) => Ok(after),
            Err(error) => {
                wrong = Some(error.to_string());
                Ok(before.to_owned())
            }
        }
    });
    if let Some(wrong) = wrong {
        return Err(format!("⚠️ Config not changed: {wrong}"));
    }
    changed.map_err(|error| format!("⚠️ Config not changed: {error}"))
}

fn show(file: &std::path::Path, path: &str) -> Result<String, String> {
    let unreadable = |error: &dyn std::fmt::Display| format!("⚠️ Config not readable: {error}");
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(unreadable(&error)),
    };
    let whole = config::parse(&text, file).map_err(|error| unreadable(&error))?;
    if path.is_empty() {
        return Ok(format!("⚙️ Config (raw):\n```json\n{:#}\n```", redacted(&whole)));
    }
    let path = read_path(path)?;
    Ok(match path.find(&whole) {
        None => format!("⚙️ No config value found for {path}."),
        Some(value) => {
            let shown = redacted_at(path.steps(), value);
            format!("⚙️ Config {path}:\n```json\n{shown:#}\n```")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_nested_without_end_is_a_text() {
        let deep = "[".repeat(100_000);
        assert_eq!(read_value(&deep), Value::String(deep.clone()));
        assert_eq!(read_value(" [1] "), serde_json::json!([1]));
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
