//! How a value is written.

use serde_json::{Map, Value};

/// The habits of a text.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Whether keys stand in quotes.
    pub quoted: bool,
    /// What ends a line.
    pub newline: &'static str,
}

impl Style {
    /// A key.
    pub fn key(&self, key: &str) -> String {
        let mut chars = key.chars();
        let begins = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == '$');
        let is_name = begins && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
        if is_name && !self.quoted { key.to_owned() } else { text(key) }
    }

    /// A value whose first line is indented by `indent`.
    pub fn value(&self, value: &Value, indent: &str) -> String {
        match value {
            Value::Object(members) if !members.is_empty() => self.object(members, indent),
            Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
                let inner = format!("{indent}  ");
                let lines = items.iter().map(|item| format!("{inner}{}", self.value(item, &inner)));
                self.block("[", &lines.collect::<Vec<_>>(), "]", indent)
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.value(item, indent)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::String(string) => text(string),
            other => other.to_string(),
        }
    }

    fn object(&self, members: &Map<String, Value>, indent: &str) -> String {
        let inner = format!("{indent}  ");
        let lines = members
            .iter()
            .map(|(key, value)| format!("{inner}{}: {}", self.key(key), self.value(value, &inner)));
        self.block("{", &lines.collect::<Vec<_>>(), "}", indent)
    }

    fn block(&self, open: &str, lines: &[String], close: &str, indent: &str) -> String {
        let newline = self.newline;
        let lines = lines.join(&format!(",{newline}"));
        format!("{open}{newline}{lines}{newline}{indent}{close}")
    }
}

fn text(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
