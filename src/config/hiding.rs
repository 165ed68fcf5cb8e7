//! How what stands in the config, and in variables, is kept out of the log.
//!
//! Owns: what of a value is hidden: all of it, or the secret parts of an address. Promises:
//! the way to a file that is there, and the name of a variable, are no secrets, whatever
//! they are called. Must not: decide which places hold secrets (see `redact`).

use std::path::Path;

use serde_json::Value;

use super::edit::Step;
use super::redact::{self, address, is_secret};
use crate::support::Secret;
use crate::telemetry;

/// Keeps the value of a variable or a header out of the log from now on, and the parts of
/// an address. The way to a file that is there stays, though the variable is called a
/// secret: half of the lines may have it, and it is where a secret is kept.
pub fn variable(name: &str, value: &Secret) {
    let text = value.expose();
    if is_way(text) {
        return;
    }
    let hide_it = if is_secret(name) { telemetry::hide } else { telemetry::hide_variable };
    hide_it(value);
    // A long part is a secret where the whole is one.
    parts(text, hide_it);
}

/// The same of what is written in the file.
pub(super) fn credentials(filled: &Value) {
    for (path, value) in redact::credentials(filled) {
        let shown = redact::redacted_at(&path, value);
        if let Some(text) = value.as_str().filter(|_| shown != *value) {
            // The name before it is no secret, unless all of the item is.
            let item = redact::secret_of_item(&path, value).filter(|_| shown != redact::REDACTED);
            credential(&path, item.unwrap_or(text), shown == redact::REDACTED);
        }
    }
    // Of a text that is shown otherwise only this is hidden.
    for text in redact::inner_secrets(filled).into_iter().filter(|text| !is_no_secret(text)) {
        telemetry::hide(&Secret::new(text));
    }
}

/// The same of what is secret at `path`; `is_all` where nothing of the value is shown.
fn credential(path: &[Step], text: &str, is_all: bool) {
    if is_no_secret(text) {
        return;
    }
    let secret = Secret::new(text);
    if let Some(Step::Key(name)) = path.last().filter(|_| redact::is_variable_place(path)) {
        return variable(name, &secret);
    }
    telemetry::hide(&secret);
    // In an address that is shown, a long part may be a word.
    parts(text, if is_all { telemetry::hide } else { telemetry::hide_variable });
}

/// The same of the parts of an address alone; `hide_long` is for what may be any word.
fn parts(text: &str, hide_long: fn(&Secret)) {
    let address::Parts { secrets, long } = address::parts(text);
    for secret in secrets {
        telemetry::hide(&Secret::new(secret));
    }
    for part in long {
        hide_long(&Secret::new(part));
    }
}

/// Whether a text at a place for a secret is none: the name of a variable, or the way to a
/// file that is there.
fn is_no_secret(text: &str) -> bool {
    redact::is_variable(text.strip_prefix("Bearer ").unwrap_or(text)) || is_way(text)
}

/// Whether this is the way to a file that is there.
fn is_way(text: &str) -> bool {
    let way = Path::new(text);
    way.is_absolute() && way.exists()
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    const MASK: &str = "[hidden: a secret of the gateway]";

    #[test]
    fn of_an_argument_only_the_secret_stays_out_of_the_log() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().to_str().unwrap();
        let args = [
            "-e",
            "A_TOKEN=argument-canary-1",
            "--env=B=pg://u:argument-canary-2@h",
            "--api-key",
            "argument-canary-3",
            "--token=argument-canary-4",
            "https://h/argument-canary-path/sse?api_key=argument-canary-5",
            "--private-key",
            folder,
            "-e",
            &format!("DB_PASSWORD_FILE={folder}"),
            "--no-password",
            "argument-word-7",
            "--url=https://me:argument-canary-8@h",
            "--authorization",
            "Bearer ${ARGUMENT_VARIABLE_9}",
        ];
        let providers = json!({"p": {"baseUrl": "https://me:argument-canary-6@h/v1"}});
        let servers = json!({"m": {"args": args}});
        credentials(&json!({"mcp": {"servers": servers}, "models": {"providers": providers}}));
        let said = telemetry::without_secrets("A_TOKEN=argument-canary-1, argument-canary-2");
        assert_eq!(said, "A_TOKEN=***, ***");
        let said = "--api-key argument-canary-3 --token=argument-canary-4 argument-canary-path \
                    argument-canary-5 argument-canary-6 argument-canary-8";
        let shown =
            format!("--api-key {MASK} --token={MASK} argument-canary-path {MASK} {MASK} {MASK}");
        assert_eq!(telemetry::result_without_secrets(said), shown);
        let words = "argument-word-7 ${ARGUMENT_VARIABLE_9}";
        assert_eq!(telemetry::without_secrets(words), words);
        let line = format!("--private-key {folder}");
        assert_eq!(telemetry::without_secrets(&line), line);
    }
}
