//! Values that the server makes up: what was recorded and what it is now.

use std::collections::HashMap;

use serde_json::Value;

/// Recorded id, token or nonce → the one of this run.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    known: HashMap<String, String>,
}

impl Learned {
    pub fn insert(&mut self, recorded: &str, actual: &str) {
        self.known.entry(recorded.to_owned()).or_insert_with(|| actual.to_owned());
    }

    pub fn get(&self, recorded: &str) -> Option<&str> {
        self.known.get(recorded).map(String::as_str)
    }

    /// Walks an answer beside its recording and keeps what the server made up.
    pub fn learn(&mut self, recorded: &Value, actual: &Value) {
        match (recorded, actual) {
            (Value::String(recorded), Value::String(actual)) => self.learn_text(recorded, actual),
            (Value::Array(recorded), Value::Array(actual)) => {
                for (recorded, actual) in recorded.iter().zip(actual) {
                    self.learn(recorded, actual);
                }
            }
            (Value::Object(recorded), Value::Object(actual)) => {
                for (key, recorded) in recorded {
                    if let Some(actual) = actual.get(&self.apply_text(key)) {
                        self.learn(recorded, actual);
                    }
                }
            }
            _ => {}
        }
    }

    fn learn_text(&mut self, recorded: &str, actual: &str) {
        let recorded_ids = made_up(recorded);
        let actual_ids = made_up(actual);
        if recorded_ids.len() == actual_ids.len() {
            for (recorded, actual) in recorded_ids.iter().zip(actual_ids) {
                self.insert(recorded, actual);
                // People name an approval by how its id begins.
                if let (true, Some(recorded), Some(actual)) =
                    (is_uuid(recorded), recorded.get(..8), actual.get(..8))
                {
                    self.insert(recorded, actual);
                }
            }
        }
    }

    /// The recorded value with everything replaced that is known by now.
    pub fn apply(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.apply_text(text)),
            Value::Array(items) => items.iter().map(|item| self.apply(item)).collect(),
            Value::Object(members) => {
                let member =
                    |(key, value): (&String, &Value)| (self.apply_text(key), self.apply(value));
                members.iter().map(member).collect()
            }
            other => other.clone(),
        }
    }

    pub fn apply_text(&self, text: &str) -> String {
        let ids = made_up(text);
        let cut = self.cut_id(text);
        ids.into_iter()
            .filter_map(|id| Some((id, self.get(id)?)))
            .chain(cut)
            .fold(text.to_owned(), |text, (recorded, actual)| text.replace(recorded, actual))
    }

    /// The beginning of a known UUID at the end of a text that was cut there.
    fn cut_id<'a>(&'a self, text: &'a str) -> Option<(&'a str, &'a str)> {
        let start = text.rfind(|c: char| !c.is_ascii_hexdigit() && c != '-')? + 1;
        let tail = text.get(start..).filter(|tail| (9..36).contains(&tail.len()))?;
        let known =
            |(recorded, _): &(&String, &String)| is_uuid(recorded) && recorded.starts_with(tail);
        let (_, actual) = self.known.iter().find(known)?;
        Some((tail, actual.get(..tail.len())?))
    }
}

/// The parts of a text that look made up: runs of base64url characters that
/// are a UUID, hex of 8, 12, 40 or 64 digits, or a 32- or 43-character token.
pub fn made_up(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split(|c| !is_part(c)).flat_map(inside_word).collect()
}

/// Ids can hang on a word: `inject-<uuid>`.
fn inside_word(word: &str) -> Option<&str> {
    if let Some(tail) = word.len().checked_sub(36).and_then(|at| word.get(at..))
        && is_uuid(tail)
    {
        return Some(tail);
    }
    let hex = word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let mixed = word.bytes().any(|b| b.is_ascii_digit())
        && word.bytes().any(|b| b.is_ascii_uppercase())
        && word.bytes().any(|b| b.is_ascii_lowercase());
    let hex_id = hex && [8, 12, 40, 64].contains(&word.len());
    let token = mixed && [24, 32, 43].contains(&word.len());
    (hex_id || token).then_some(word)
}

pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
