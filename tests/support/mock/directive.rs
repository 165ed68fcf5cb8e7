//! Reading `@mock <verb> key=value …` out of a message.

use serde_json::{Map, Value};

/// What a message asks the provider to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Directive {
    pub verb: String,
    pub options: Map<String, Value>,
}

impl Directive {
    /// The last directive of the text; without one the verb is `echo`.
    pub fn parse(text: &str) -> Self {
        let echo = Self { verb: "echo".to_owned(), options: Map::new() };
        let Some(at) = text.rfind("@mock ") else { return echo };
        let line = text[at + 6..].lines().next().unwrap_or_default().trim_start();
        let verb: String = line.chars().take_while(char::is_ascii_lowercase).collect();
        if verb.is_empty() {
            return echo;
        }
        let options = options(&line[verb.len()..]);
        Self { verb, options }
    }

    pub fn number(&self, name: &str, default: u64) -> u64 {
        match self.options.get(name) {
            Some(Value::Number(number)) => number.as_u64().unwrap_or(default),
            Some(Value::String(text)) => text.parse().unwrap_or(default),
            _ => default,
        }
    }

    pub fn text(&self, name: &str) -> Option<String> {
        match self.options.get(name)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

fn options(mut rest: &str) -> Map<String, Value> {
    let mut found = Map::new();
    loop {
        rest = rest.trim_start();
        let name: String =
            rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let Some(after) = rest[name.len()..].strip_prefix('=') else { return found };
        if name.is_empty() {
            return found;
        }
        let (value, next) = value(after);
        found.insert(name, value);
        rest = next;
    }
}

/// A JSON text or a bare word, and what follows it.
fn value(text: &str) -> (Value, &str) {
    if text.starts_with(['{', '[', '"']) {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        if let Some(Ok(value)) = values.next() {
            return (value, &text[values.byte_offset()..]);
        }
        return (Value::String(text.to_owned()), "");
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (Value::String(text[..end].to_owned()), &text[end..])
}
