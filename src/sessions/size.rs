//! How large values are as JSON.

use serde_json::{Map, Value};

/// No number is longer as JSON, with the comma behind it.
const NUMBER_MAX: usize = 32;

/// Bytes of a value as JSON.
pub(super) fn json_size(value: &impl serde::Serialize) -> usize {
    let mut counter = Counter(0);
    // Values out of JSON always go back into JSON, and counting cannot fail.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// At most so many bytes an object has as JSON: every byte of a text may become six.
/// Nearly no message is so large that its texts have to be looked at.
pub(super) fn size_at_most(members: &Map<String, Value>) -> usize {
    fn of_text(text: &str) -> usize {
        text.len().saturating_mul(6).saturating_add(4)
    }
    fn of_value(value: &Value) -> usize {
        match value {
            Value::Null | Value::Bool(_) => 6,
            Value::Number(_) => NUMBER_MAX,
            Value::String(text) => of_text(text),
            Value::Array(items) => items.iter().map(of_value).fold(2, usize::saturating_add),
            Value::Object(members) => size_at_most(members),
        }
    }
    let member = |(name, value): (&String, &Value)| of_text(name).saturating_add(of_value(value));
    members.iter().map(member).fold(2, usize::saturating_add)
}

struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn no_message_is_larger_than_it_may_be_at_most() {
        for value in [
            json!({}),
            json!({"": null, "a": true, "b": [false, [], {}]}),
            json!({"n": [u64::MAX, i64::MIN, f64::MIN, f64::MIN_POSITIVE, -1.797_693_134_862_315_7e308]}),
            json!({"\u{0}\u{1f}\"": "\u{0}\u{7f}\u{2028}ä😀\\\n"}),
        ] {
            let members = value.as_object().unwrap();
            assert!(json_size(members) <= size_at_most(members), "{value}");
        }
    }
}
