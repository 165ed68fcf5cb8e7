//! What may be shown of a config, and how what was hidden comes back.
//!
//! Owns: which values are secrets, by their place and by their name. Promises:
//! who writes back what was shown loses no secret. Must not: touch files.

pub(super) mod address;
mod comments;
mod restore;
mod slots;

use serde_json::Value;

use super::edit::{Step, walk};
use super::keys::{self, Kind};
pub(super) use comments::tell_secrets;
pub use restore::{LostSecret, restored};
pub use slots::{SLOTS, Slot, SlotKind, slot_at};

/// What stands in the place of a secret, as in the original.
pub const REDACTED: &str = "__OPENCLAW_REDACTED__";

/// A member with one of these and nothing else around it is a reference.
const REFERENCE: [&str; 3] = ["source", "provider", "id"];

/// Words that are secrets by themselves, and nothing as parts of others (`spinning`).
const WORDS: [&str; 4] = ["passwd", "credential", "credentials", "pin"];
/// What is a secret wherever it stands in a name that is written without signs.
const PARTS: [&str; 8] = [
    "password",
    "passphrase",
    "secret",
    "apikey",
    "authorization",
    "privatekey",
    "encryptkey",
    "cookie",
];

/// Whether a value with this name is a secret.
pub fn is_secret(name: &str) -> bool {
    if words(name).any(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))) {
        return true;
    }
    // All of a key, as Google hands it out; other programs only name one by `service-account`.
    let account = name.to_lowercase();
    if ["serviceaccount", "serviceaccountref"].iter().any(|end| account.ends_with(end)) {
        return true;
    }
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    // The section, and what only speaks of secrets.
    if name == "secrets" || name.ends_with("scopes") {
        return false;
    }
    PARTS.iter().any(|part| name.contains(part))
        || name.ends_with("token")
        || name.ends_with("tokenvalue")
}

/// The words of a name, be it written `userPin`, `USER_PIN` or `user-pin`.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let letters = rest.bytes().zip(rest.bytes().skip(1)).zip(rest.bytes().skip(2).chain([0]));
        let mut ends = letters.map(|((letter, next), after)| {
            let is_end = !letter.is_ascii_uppercase() && next.is_ascii_uppercase();
            // The last capital of several begins what follows.
            let is_last = letter.is_ascii_uppercase() && next.is_ascii_uppercase();
            !next.is_ascii_alphanumeric() || is_end || (is_last && after.is_ascii_lowercase())
        });
        let end = ends.position(|is_end| is_end).map_or(rest.len(), |last| last + 1);
        let (word, behind) = rest.split_at_checked(end)?;
        rest = behind;
        (!word.is_empty()).then_some(word)
    })
}

/// The whole config without its secrets. A reference, or the name of a variable,
/// is none.
pub fn redacted(config: &Value) -> Value {
    redacted_at(&[], config)
}

/// The same for the value at `path`.
pub fn redacted_at(path: &[Step], value: &Value) -> Value {
    map(&mut path.to_vec(), value, &mut hidden)
}

/// Whether a place is for variables or headers, which are secrets or settings.
pub fn is_variable_place(path: &[Step]) -> bool {
    let is_list = |name: &str| matches!(name, "env" | "vars" | "headers");
    let above = path.iter().rev().nth(1);
    matches!(above, Some(Step::Key(name)) if is_list(name))
}

/// Each value at a place for credentials, or whose name says that it is one, and
/// each item of a list that is `NAME=secret` or `Name: secret`. Empty texts are none.
pub fn credentials(config: &Value) -> Vec<(Vec<Step>, &Value)> {
    let mut found = Vec::new();
    walk(&mut Vec::new(), config, &mut |path, value| {
        let is_found = is_credential(path, value);
        if is_found {
            found.push((path.to_vec(), value));
        }
        !is_found
    });
    found
}

fn is_credential(path: &[Step], value: &Value) -> bool {
    let is_place =
        kind_at(path).is_some() || is_below_secret(path) || secret_of_item(path, value).is_some();
    let is_leaf = match value {
        Value::String(text) => !text.is_empty(),
        Value::Number(_) => true,
        Value::Object(_) => is_reference(value),
        _ => false,
    };
    is_place && is_leaf
}

/// What is secret in an item of a list of arguments; `None` when it is no such item.
pub(super) fn secret_of_item<'a>(path: &[Step], value: &'a Value) -> Option<&'a str> {
    let is_item = matches!(path.last(), Some(Step::Index(_)));
    value.as_str().filter(|_| is_item).and_then(address::secret_of_item)
}

/// What is secret in texts that are for something else: in arguments, and in addresses
/// wherever they stand. It is hidden where they are shown. The name of a variable may be
/// among it.
pub(super) fn inner_secrets(config: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    walk(&mut Vec::new(), config, &mut |_, value| {
        match value {
            Value::String(text) => {
                found.extend(address::secret_of_argument(text));
                found.extend(address::secrets_of_address(text));
            }
            Value::Array(items) => {
                let values = with_flags(items).filter(|(_, is_value)| *is_value);
                let texts = values.filter_map(|(item, _)| item.as_str());
                // After a flag that has no value comes the next one.
                found.extend(texts.filter(|text| !text.starts_with("--")));
            }
            _ => {}
        }
        !is_reference(value)
    });
    found
}

/// Whether this is `{source, provider, id}`.
pub fn is_reference(value: &Value) -> bool {
    value.as_object().is_some_and(|members| {
        members.contains_key("source")
            && members.contains_key("id")
            && members.keys().all(|name| REFERENCE.contains(&name.as_str()))
    })
}

/// The value with what `change` gives in the place of some of its parts.
fn map(
    path: &mut Vec<Step>,
    value: &Value,
    change: &mut dyn FnMut(&[Step], &Value) -> Option<Value>,
) -> Value {
    if let Some(changed) = change(path, value) {
        return changed;
    }
    match value {
        Value::Object(members) => {
            let changed = members.iter().map(|(name, member)| {
                path.push(Step::Key(name.clone()));
                let member = map(path, member, change);
                path.pop();
                (name.clone(), member)
            });
            Value::Object(changed.collect())
        }
        Value::Array(items) => {
            let changed = items.iter().enumerate().map(|(index, item)| {
                path.push(Step::Index(index));
                let item = map(path, item, change);
                path.pop();
                item
            });
            Value::Array(changed.collect())
        }
        other => other.clone(),
    }
}

/// What is shown instead of a value; `None` when it is looked into.
fn hidden(path: &[Step], value: &Value) -> Option<Value> {
    if is_reference(value) {
        return Some(value.clone());
    }
    let kind = kind_at(path);
    let is_item = matches!(path.last(), Some(Step::Index(_)));
    match value {
        Value::String(text) => Some(match kind {
            _ if text.is_empty() || is_variable(text) => value.clone(),
            Some(SlotKind::Input | SlotKind::Text) => REDACTED.into(),
            Some(SlotKind::Public) => value.clone(),
            Some(SlotKind::Address) | None if is_below_secret(path) => REDACTED.into(),
            Some(SlotKind::Address) | None => address::argument(text)
                .or_else(|| address::item(text).filter(|_| is_item))
                .or_else(|| address::shown(text))
                .map_or(value.clone(), Value::String),
        }),
        Value::Number(_) => {
            let is_hidden =
                matches!(kind, Some(SlotKind::Input | SlotKind::Text)) || is_below_secret(path);
            is_hidden.then(|| REDACTED.into())
        }
        Value::Array(items) => Some(arguments(path, items)?),
        _ => None,
    }
}

/// What a place is for. What stands in an `env` that is not read here, such as that
/// of a container, is as secret as in one that is, and so are headers wherever they stand.
fn kind_at(path: &[Step]) -> Option<SlotKind> {
    let known = slots::slot_at(path).map(|slot| slot.kind);
    let is_in_env = matches!(path, [.., Step::Key(above), Step::Key(_)] if above == "env");
    let is_read = || keys::find(path).is_some_and(|found| found.kind != Kind::Any);
    known
        .or_else(|| (is_below_headers(path) || (is_in_env && !is_read())).then_some(SlotKind::Text))
}

/// A list of arguments, one of which is the value of the flag before it. Of those of a program
/// for secrets none is shown, as in the original.
fn arguments(path: &[Step], items: &[Value]) -> Option<Value> {
    let is_of_secrets = matches!(path, [Step::Key(section), Step::Key(list), _, Step::Key(name)]
        if section == "secrets" && list == "providers" && name == "args");
    if !is_of_secrets && !items.iter().any(is_secret_flag) {
        return None;
    }
    let shown = with_flags(items).enumerate().map(|(index, (item, is_value))| {
        let mut at = path.to_vec();
        at.push(Step::Index(index));
        let is_text = || item.as_str().is_some_and(|text| !is_variable(text));
        let is_hidden = is_value || (is_of_secrets && is_text());
        if is_hidden { REDACTED.into() } else { redacted_at(&at, item) }
    });
    Some(Value::Array(shown.collect()))
}

/// Each item, and whether it is the value of the flag before it, which is that of a secret.
fn with_flags(items: &[Value]) -> impl Iterator<Item = (&Value, bool)> {
    let before = std::iter::once(None).chain(items.iter().map(Some));
    items
        .iter()
        .zip(before)
        .map(|(item, before)| (item, item.is_string() && before.is_some_and(is_secret_flag)))
}

/// Whether this is `--api-key`, whose value is the next item. `--no-password` has none.
fn is_secret_flag(item: &Value) -> bool {
    let is_switch = |name: &str| {
        ["no-", "allow-", "disable-", "enable-"].iter().any(|begin| name.starts_with(begin))
    };
    item.as_str()
        .and_then(|text| text.strip_prefix("--"))
        .is_some_and(|name| !name.contains('=') && is_secret(name) && !is_switch(name))
}

/// Whether this is a header, or a part of one.
fn is_below_headers(path: &[Step]) -> bool {
    let above = path.split_last().map(|(_, above)| above).unwrap_or_default();
    above.iter().any(|step| matches!(step, Step::Key(name) if name == "headers"))
}

/// Whether a name on the way is that of a secret.
fn is_below_secret(path: &[Step]) -> bool {
    path.iter().any(|step| matches!(step, Step::Key(name) if is_secret(name)))
}

/// Whether the text is `${NAME}` and nothing else.
pub fn is_variable(text: &str) -> bool {
    text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_they_stand_and_nothing_else() {
        let config = json!({
            "gateway": {"auth": {"mode": "token", "token": "t", "password": "${PW}"}, "port": 1},
            "models": {"providers": {"a": {"apiKey": "k", "headers": {"X-Team": "x"},
                "request": {"tls": {"ca": "c", "key": "k"},
                    "proxy": {"mode": "explicit-proxy", "url": "http://me:pw@proxy:1/"}},
                "models": [{"maxTokens": 8, "id": "m",
                    "headers": {"X-Team": "x", "X-More": ["y", 5], "X-Own": "${OWN}"}}]}}},
            "channels": {"telegram": {"botToken": 5, "webhookSecret": ["a", "b"]}},
            "mcp": {"servers": {"m": {"url": "https://h/s/key", "env": {"PORT": 1, "OFF": ""},
                "args": ["--api-key", "k", "--quiet", "--token=t", "x"]},
                "flags": {"args": ["--pin", "1", "--db-passwd=p", "--spinning", "s", "--no-pin", "n"]},
                "docker": {"args": ["run", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN=ghp_1", "--env",
                    "PORT=1", "-H", "Authorization: Bearer b", "--header", "Cookie: c=d",
                    "Accept: text/plain", "X-Api-Key: ${KEY}"]}}},
            "env": {"OPENAI_API_KEY": "k", "vars": {"A": "k"}, "shellEnv": {"timeoutMs": 1}},
            "secrets": {"providers": {"f": {"source": "file", "path": "/p"},
                "env": {"source": "env"}, "x": {"source": "exec", "env": {"VAULT": "k"},
                "args": ["--read", "kv/house", "${WHERE}"]}},
                "defaults": {"env": "env"}},
            "agents": {"defaults": {"sandbox": {"mode": "all", "docker": {"env": {"A": "k"}}}},
                "list": [{"id": "a", "sandbox": {"docker": {"env": {"A": "k", "B": "${B}"}}}}]},
            "hooks": {"internal": {"entries": {"h": {"env": {"A": "k"}}}},
                "mappings": [{"messageTemplate": "Password: {{x}}"}]},
            "sharedSecretScopes": ["read"], "passwords": {"a": ["b", 1, true]},
            "skills": {"entries": {"gh": {"apiKey": {"source": "env", "id": "GH"}, "env": {"A": "b"}}}},
        });
        let hidden = json!(REDACTED);
        let shown = json!({
            "gateway": {"auth": {"mode": "token", "token": hidden, "password": "${PW}"}, "port": 1},
            "models": {"providers": {"a": {"apiKey": hidden, "headers": {"X-Team": hidden},
                "request": {"tls": {"ca": "c", "key": hidden},
                    "proxy": {"mode": "explicit-proxy",
                        "url": format!("http://me:{REDACTED}@proxy:1/")}},
                "models": [{"maxTokens": 8, "id": "m", "headers": {"X-Team": hidden,
                    "X-More": [hidden, hidden], "X-Own": "${OWN}"}}]}}},
            "channels": {"telegram": {"botToken": hidden, "webhookSecret": [hidden, hidden]}},
            "mcp": {"servers": {"m": {"url": hidden, "env": {"PORT": hidden, "OFF": ""},
                "args": ["--api-key", hidden, "--quiet", format!("--token={REDACTED}"), "x"]},
                "flags": {"args": ["--pin", hidden, format!("--db-passwd={REDACTED}"), "--spinning",
                    "s", "--no-pin", "n"]},
                "docker": {"args": ["run", "-e",
                    format!("GITHUB_PERSONAL_ACCESS_TOKEN={REDACTED}"), "--env", "PORT=1", "-H",
                    format!("Authorization: {REDACTED}"), "--header",
                    format!("Cookie: {REDACTED}"), "Accept: text/plain", "X-Api-Key: ${KEY}"]}}},
            "env": {"OPENAI_API_KEY": hidden, "vars": {"A": hidden}, "shellEnv": {"timeoutMs": 1}},
            "secrets": {"providers": {"f": {"source": "file", "path": "/p"},
                "env": {"source": "env"}, "x": {"source": "exec", "env": {"VAULT": hidden},
                "args": [hidden, hidden, "${WHERE}"]}},
                "defaults": {"env": "env"}},
            "agents": {"defaults": {"sandbox": {"mode": "all", "docker": {"env": {"A": hidden}}}},
                "list": [{"id": "a", "sandbox": {"docker": {"env": {"A": hidden, "B": "${B}"}}}}]},
            "hooks": {"internal": {"entries": {"h": {"env": {"A": hidden}}}},
                "mappings": [{"messageTemplate": "Password: {{x}}"}]},
            "sharedSecretScopes": ["read"], "passwords": {"a": [hidden, hidden, true]},
            "skills": {"entries": {"gh": {"apiKey": {"source": "env", "id": "GH"}, "env": {"A": hidden}}}},
        });
        assert_eq!(redacted(&config), shown);
    }

    /// The original hides them, and those who move from it have them in the file.
    #[test]
    fn keys_of_channels_that_are_not_here_are_hidden() {
        let (hidden, key) = (json!(REDACTED), "{\"private_key\": \"k\"}");
        let with = |first: &Value, second: &Value, third: &Value| {
            json!({"channels": {"feishu": {"encryptKey": first}, "googlechat": {
                "serviceAccount": second, "serviceAccountFile": "/p/account.json",
                "accounts": {"a": {"serviceAccount": {"client_email": third}}}}}})
        };
        let config = with(&json!("k"), &json!(key), &json!("a@b"));
        assert_eq!(redacted(&config), with(&hidden, &hidden, &hidden));
        let tool = json!({"mcp": {"servers": {"m": {"args": ["--service-account", "default"]}}}});
        assert_eq!(redacted(&tool), tool);
    }

    #[test]
    fn a_short_word_is_the_name_of_a_secret_only_as_a_whole() {
        for name in ["pin", "userPin", "USER_PIN", "DBPin", "pin-code", "dbPasswd", "credential"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["pinned", "spinning", "Spin", "pinning-rate", "shipIn", "passwds", "", "é"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_part_of_the_config_is_shown_as_in_the_whole() {
        let at = |path: &str, value: Value| {
            redacted_at(path.parse::<crate::config::edit::ValuePath>().unwrap().steps(), &value)
        };
        assert_eq!(at("gateway.auth", json!({"token": "t"})), json!({"token": REDACTED}));
        assert_eq!(at("gateway.auth.token", json!("t")), json!(REDACTED));
        assert_eq!(at("x.cookies", json!(["a", {"b": "c"}])), json!([REDACTED, {"b": REDACTED}]));
        assert_eq!(at("gateway.port", json!(5)), json!(5));
    }

    #[test]
    fn every_credential_is_found_with_its_path() {
        let config = json!({
            "gateway": {"auth": {"token": "t", "password": ""}},
            "channels": {"x": {"botToken": {"source": "env", "id": "A"}}},
            "mcp": {"servers": {"m": {"env": {"PORT": 1},
                "args": ["-e", "A_TOKEN=s", "PORT=1", "-e", "B_TOKEN=${B}"]}}},
            "agents": {"defaults": {"sandbox": {"docker": {"env": {"A": "k"}}}}},
        });
        let found = credentials(&config).into_iter();
        let paths: Vec<_> =
            found.map(|(path, _)| crate::config::edit::ValuePath::from(path).to_string()).collect();
        let expected = [
            "gateway.auth.token",
            "channels.x.botToken",
            "mcp.servers.m.env.PORT",
            "mcp.servers.m.args[1]",
            "agents.defaults.sandbox.docker.env.A",
        ];
        assert_eq!(paths, expected);
    }
}
