//! What stands in the config by way of variables.
//!
//! Owns: at which places a value comes from the environment. Promises: such a value
//! is neither shown nor logged, whatever the place is for; but a number, and a word
//! that the place is for, are no secrets. Must not: fill anything in.

use std::path::Path;

use serde_json::Value;

use super::edit::{Step, ValuePath};
use super::keys::{self, Kind};
use super::redact::{REDACTED, redacted};
use super::{Env, substitute};
use crate::support::Secret;
use crate::telemetry;

/// Keeps the values that `env` has for `raw` out of the log. The way to a file that is
/// there stays, and so does a name of letters alone: half of the lines have one.
pub(super) fn hide(raw: &Value, env: &Env) {
    for (path, text) in texts(raw) {
        for value in substitute::names(text).into_iter().filter_map(|name| env.get(name)) {
            let way = Path::new(&value);
            let is_way = way.is_absolute() && way.exists();
            let is_name = !value.bytes().any(|byte| byte.is_ascii_digit());
            if !is_way && !is_name && !is_setting(&path, &value) {
                telemetry::hide_variable(&Secret::new(value));
            }
        }
    }
}

/// Puts the names of variables in the place of their values; `shown` is `raw` with its
/// variables filled in, without its secrets.
pub(super) fn put_back(raw: &Value, shown: &mut Value) {
    let texts = texts(raw);
    if texts.is_empty() {
        return;
    }
    let unfilled = redacted(raw);
    for (path, _) in texts {
        let place = ValuePath::from(path);
        let Some(filled) = place.find(shown) else { continue };
        let is_plain = filled.as_str().is_some_and(|text| is_setting(place.steps(), text));
        if *filled != REDACTED && !is_plain {
            let written = place.find(&unfilled).cloned();
            place.put(shown, written.unwrap_or_else(|| REDACTED.into()));
        }
    }
}

/// The texts with variables in them, with their paths.
fn texts(raw: &Value) -> Vec<(Vec<Step>, &str)> {
    let mut found = Vec::new();
    collect(&mut Vec::new(), raw, &mut found);
    found
}

fn collect<'a>(path: &mut Vec<Step>, raw: &'a Value, found: &mut Vec<(Vec<Step>, &'a str)>) {
    match raw {
        Value::String(text) if !substitute::names(text).is_empty() => {
            found.push((path.clone(), text));
        }
        Value::Object(members) => {
            for (name, member) in members {
                path.push(Step::Key(name.clone()));
                collect(path, member, found);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                collect(path, item, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Whether this is what a place wants that is for no text.
fn is_setting(path: &[Step], text: &str) -> bool {
    keys::find(path).is_some_and(|found| fits(&found.kind, text))
}

fn fits(kind: &Kind, text: &str) -> bool {
    match kind {
        Kind::Boolean => matches!(text, "true" | "false"),
        Kind::Integer(..) | Kind::Number(..) => text.parse::<f64>().is_ok(),
        Kind::Word(words) => words.contains(&text),
        Kind::Either(kinds) => kinds.iter().any(|kind| fits(kind, text)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_variable_holds_is_not_shown_but_for_numbers_and_words() {
        let raw = json!({
            "gateway": {"port": "${PORT}", "bind": "${BIND}", "auth": {"token": "${TOKEN}"}},
            "mcp": {"servers": {"m": {"args": ["-x", "${TOKEN}", "$${PLAIN}"]}}},
            "session": {"mainKey": "a-${NAME}"}, "other": "u:p@${HOST}",
        });
        let mut shown = json!({
            "gateway": {"port": "18790", "bind": "lan", "auth": {"token": REDACTED}},
            "mcp": {"servers": {"m": {"args": ["-x", "canary", "${PLAIN}"]}}},
            "session": {"mainKey": "a-canary"}, "other": "u:p@canary",
        });
        put_back(&raw, &mut shown);
        let expected = json!({
            "gateway": {"port": "18790", "bind": "lan", "auth": {"token": REDACTED}},
            "mcp": {"servers": {"m": {"args": ["-x", "${TOKEN}", "${PLAIN}"]}}},
            "session": {"mainKey": "a-${NAME}"}, "other": redacted(&raw)["other"],
        });
        assert_eq!(shown, expected);
        // A number is none where it is a secret that somebody put into the wrong place.
        let mut wrong = json!({"gateway": {"port": "canary", "bind": "canary"}});
        put_back(&raw, &mut wrong);
        assert_eq!(wrong, json!({"gateway": {"port": "${PORT}", "bind": "${BIND}"}}));
    }

    #[test]
    fn what_is_filled_in_is_not_logged() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().to_str().unwrap();
        let variables = [
            ("ADDRESS", "fillings-canary-1"),
            ("PORT", "18791443"),
            ("FOLDER", folder),
            ("USER", "clawgate"),
        ];
        let env = Env::fixed(variables, home.path());
        let raw = json!({"mcp": {"servers": {"m": {"args": ["https://${ADDRESS}/", "${USER}"]}}},
            "gateway": {"port": "${PORT}"}, "agents": {"defaults": {"workspace": "${FOLDER}"}}});
        hide(&raw, &env);
        let line = format!("fillings-canary-1 18791443 {folder} clawgate");
        let masked = telemetry::without_secrets(&line).into_owned();
        assert_eq!(masked, format!("*** 18791443 {folder} clawgate"));
    }
}
