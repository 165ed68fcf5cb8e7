//! What stands in the config by way of variables.
//!
//! Owns: at which places a value comes from the environment. Promises: such a value
//! is neither shown nor logged, whatever the place is for; but a number, and a word
//! that the place is for, are no secrets. The log may have the way to a file as well, and
//! a word of letters whose variable is not called a secret. Must not: fill anything in.

use serde_json::Value;

use super::edit::{Step, ValuePath, walk};
use super::keys::{self, Kind};
use super::redact::{REDACTED, is_secret, redacted};
use super::{Env, hiding, substitute};
use crate::support::Secret;

/// Keeps the values that `env` has for `raw` out of the log, as those of `.env` are kept
/// out of it. What the place wants stays, and so does a name of letters alone: half of the
/// lines have one. Of a variable that is called a secret neither stays.
pub(super) fn hide(raw: &Value, env: &Env) {
    for (path, text) in texts(raw) {
        for name in substitute::names(text) {
            let Some(value) = env.get(name) else { continue };
            let is_word = value.bytes().all(|byte| byte.is_ascii_alphabetic());
            if is_secret(name) || !(is_word || is_setting(&path, &value)) {
                hiding::variable(name, &Secret::new(value));
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
    walk(&mut Vec::new(), raw, &mut |path, value| {
        let text = value.as_str().filter(|text| !substitute::names(text).is_empty());
        found.extend(text.map(|text| (path.to_vec(), text)));
        true
    });
    found
}

/// Whether this is what a place wants that is for no text.
fn is_setting(path: &[Step], text: &str) -> bool {
    keys::find(path).is_some_and(|found| fits(&found.kind, text))
}

fn fits(kind: &Kind, text: &str) -> bool {
    match kind {
        Kind::Boolean => matches!(text, "true" | "false"),
        Kind::Integer(..) | Kind::Number(..) | Kind::Within(..) => text.parse::<f64>().is_ok(),
        Kind::Word(words) => words.contains(&text),
        Kind::Either(kinds) => kinds.iter().any(|kind| fits(kind, text)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::json;
    use crate::telemetry;

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
            ("DB_PASSWORD", "fillingscanary"),
            ("DB_PASSWORD_FILE", folder),
            ("PROXY", "http://me:fillings-canary@h/"),
            ("BASE_URL", "https://gw.corp/fillings-compatible/fillings-key-0123456789"),
            ("SECRET_URL", "https://gw.corp/fillings-secret-word"),
        ];
        let env = Env::fixed(variables, home.path());
        let args = ["https://${ADDRESS}/", "${USER}", "${DB_PASSWORD}", "${DB_PASSWORD_FILE}"];
        let others = ["${PROXY}", "${BASE_URL}", "${SECRET_URL}"];
        let raw = json!({"mcp": {"servers": {"m": {"args": args}, "n": {"args": others}}},
            "gateway": {"port": "${PORT}"}, "agents": {"defaults": {"workspace": "${FOLDER}"}}});
        hide(&raw, &env);
        let line = "fillings-canary-1 fillingscanary fillings-canary";
        assert_eq!(telemetry::without_secrets(line), "*** *** ***");
        let line = format!("18791443 {folder} clawgate");
        assert_eq!(telemetry::without_secrets(&line), line);
        // In the address of a setting a long word is no key.
        let result = "fillings-compatible fillings-key-0123456789 fillings-secret-word";
        let mask = "[hidden: a secret of the gateway]";
        let shown = format!("fillings-compatible {mask} {mask}");
        assert_eq!(telemetry::result_without_secrets(result), shown);
    }
}
