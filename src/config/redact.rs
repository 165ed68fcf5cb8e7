//! What may be shown of a config.

use serde_json::Value;

/// What stands in the place of a secret, as in the original.
pub const REDACTED: &str = "__OPENCLAW_REDACTED__";

/// Whether a value with this name is a secret.
pub fn is_secret(name: &str) -> bool {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    ["password", "passphrase", "secret", "apikey", "authorization", "privatekey", "cookie"]
        .iter()
        .any(|part| name.contains(part))
        || name.ends_with("token")
        || name.ends_with("tokenvalue")
}

/// The same value without its secrets. A reference to a variable is none.
pub fn redacted(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, value)| (name.clone(), redacted_member(name, value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(redacted).collect()),
        other => other.clone(),
    }
}

/// A member of this name without its secrets.
pub fn redacted_member(name: &str, value: &Value) -> Value {
    let is_variable = |text: &str| text.starts_with("${") && text.ends_with('}');
    match value {
        Value::String(text) if is_secret(name) && !is_variable(text) && !text.is_empty() => {
            Value::String(REDACTED.to_owned())
        }
        Value::Array(items) if is_secret(name) => {
            Value::Array(items.iter().map(|item| redacted_member(name, item)).collect())
        }
        Value::Number(_) if is_secret(name) => Value::String(REDACTED.to_owned()),
        other => redacted(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_they_stand_and_nothing_else() {
        let config = json!({
            "gateway": {"auth": {"mode": "token", "token": "t", "password": "${PW}"}, "port": 1},
            "models": {"providers": {"a": {"apiKey": "k", "headers": {"Authorization": "Bearer x"},
                "models": [{"maxTokens": 8, "id": "m"}]}}},
            "channels": {"telegram": {"botToken": 5, "webhookSecret": ["a", "b"]}},
            "env": {"OPENAI_API_KEY": "k"},
        });
        let hidden = json!(REDACTED);
        let shown = json!({
            "gateway": {"auth": {"mode": "token", "token": hidden, "password": "${PW}"}, "port": 1},
            "models": {"providers": {"a": {"apiKey": hidden, "headers": {"Authorization": hidden},
                "models": [{"maxTokens": 8, "id": "m"}]}}},
            "channels": {"telegram": {"botToken": hidden, "webhookSecret": [hidden, hidden]}},
            "env": {"OPENAI_API_KEY": hidden},
        });
        assert_eq!(redacted(&config), shown);
    }
}
