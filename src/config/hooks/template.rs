//! Texts with places for values of a request: `New mail from {{messages[0].from}}`.
//!
//! Promises: a text is taken apart once, when the config is read; what a request
//! holds is never looked at for further places.

use serde_json::Value;

/// Longest name of a place; what is longer is text.
const EXPRESSION_MAX: usize = 512;

/// A text with places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Field),
}

/// Where a value of a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// `path`: what stands behind the path of the hooks.
    Path,
    /// `now`: the time, ISO 8601.
    Now,
    /// `headers.<name>`.
    Header(String),
    /// `query.<name>`.
    Query(String),
    /// `payload.<way>`, or the way alone: a value of the body.
    Payload(Vec<Way>),
}

/// One step into the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// To a member; of a list, to the item of that number.
    Name(String),
    /// `[0]`: to an item.
    Index(usize),
}

/// What a template is filled with.
pub trait Source {
    /// The value of a place; `None` when there is none.
    fn value(&self, field: &Field) -> Option<Value>;
}

impl Template {
    /// Takes a text apart.
    pub fn parse(text: &str) -> Self {
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find("{{") {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some((field, after)) = expression(from) {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Value(field));
                rest = after;
            } else {
                // A brace that opens nothing.
                plain.push('{');
                rest = from.get(1..).unwrap_or_default();
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Self { parts }
    }

    /// Whether it has places.
    pub fn has_values(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Value(_)))
    }

    /// The text with its values, if it has at most `max` bytes.
    pub fn fill(&self, source: &dyn Source, max: usize) -> Option<String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Value(field) => {
                    text.push_str(&shown(source.value(field).as_ref()));
                }
            }
            if text.len() > max {
                return None;
            }
        }
        Some(text)
    }
}

/// The place that a text begins with, and what comes after it.
fn expression(text: &str) -> Option<(Field, &str)> {
    let inner = text.strip_prefix("{{")?;
    let end = inner.find('}').filter(|end| (1..=EXPRESSION_MAX).contains(end))?;
    let (written, after) = inner.split_at(end);
    Some((Field::parse(written), after.strip_prefix("}}")?))
}

/// A value as a text has it: nothing for what is not there, JSON for what is
/// more than one value.
pub fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

impl Field {
    /// Reads the name of a place.
    pub fn parse(written: &str) -> Self {
        let written = written.trim();
        match written {
            "path" => return Self::Path,
            "now" => return Self::Now,
            _ => {}
        }
        if let Some(name) = written.strip_prefix("headers.") {
            return Self::Header(name.trim().to_lowercase());
        }
        if let Some(name) = written.strip_prefix("query.") {
            return Self::Query(name.trim().to_owned());
        }
        Self::Payload(ways(written.strip_prefix("payload.").unwrap_or(written)))
    }
}

fn ways(written: &str) -> Vec<Way> {
    let (mut found, mut rest) = (Vec::new(), written);
    while let Some(first) = rest.chars().next() {
        if let Some((index, after)) = bracketed(rest) {
            found.push(Way::Index(index));
            rest = after;
            continue;
        }
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end.max(first.len_utf8()));
        if end > 0 {
            found.push(Way::Name(name.to_owned()));
        }
        rest = after;
    }
    found
}

/// The number in brackets that a text begins with, and what comes after it.
fn bracketed(text: &str) -> Option<(usize, &str)> {
    let (number, after) = text.strip_prefix('[')?.split_once(']')?;
    Some((number.parse().ok()?, after))
}

/// What is at the end of a way into a body; nothing when the way leads nowhere.
pub fn value_at<'a>(body: &'a Value, ways: &[Way]) -> Option<&'a Value> {
    if ways.is_empty() {
        return None;
    }
    ways.iter().try_fold(body, |value, way| match (value, way) {
        (Value::Array(items), Way::Index(index)) => items.get(*index),
        (Value::Array(items), Way::Name(name)) => items.get(name.parse::<usize>().ok()?),
        (Value::Object(members), Way::Name(name)) => members.get(name),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    struct Body(Value);

    impl Source for Body {
        fn value(&self, field: &Field) -> Option<Value> {
            match field {
                Field::Path => Some(json!("mapped/x")),
                Field::Now => Some(json!("2026-01-01T00:00:00.000Z")),
                Field::Header(name) => (name == "x-event").then(|| json!("push")),
                Field::Query(name) => (name == "q").then(|| json!("asked")),
                Field::Payload(ways) => value_at(&self.0, ways).cloned(),
            }
        }
    }

    fn filled(text: &str, body: Value) -> String {
        Template::parse(text).fill(&Body(body), 10_000).unwrap()
    }

    #[test]
    fn places_are_filled_with_what_the_request_has() {
        let body = json!({"who": "Bob", "n": 3, "ok": true, "none": null,
            "items": [{"x": "first"}, {"x": {"deep": 1}}], "payload": {"a": 1}});
        for (text, expected) in [
            ("no place", "no place"),
            ("{{who}} has {{ n }}", "Bob has 3"),
            ("{{items[0].x}} {{items.1.x}}", "first {\"deep\":1}"),
            ("{{items[1].x.deep}}", "1"),
            ("{{payload.who}}", "Bob"),
            ("{{ok}}{{none}}{{missing.way}}{{who.x}}{{items.x}}{{items[9].x}}", "true"),
            ("{{path}} {{now}}", "mapped/x 2026-01-01T00:00:00.000Z"),
            ("{{headers.X-Event}} {{query.q}} {{headers.none}}", "push asked "),
            ("{{}} {who} {{who} {{{who}}", "{{}} {who} {{who} "),
            ("é{{who}}é{", "éBobé{"),
        ] {
            assert_eq!(filled(text, body.clone()), expected, "{text}");
        }
    }

    #[test]
    fn what_a_request_holds_is_never_filled_again() {
        let body = json!({"a": "{{b}}", "b": "secret", "c": "{{", "d": "b}}"});
        assert_eq!(filled("{{a}}", body.clone()), "{{b}}");
        assert_eq!(filled("{{c}}b}}", body.clone()), "{{b}}");
        assert_eq!(filled("{{c}}{{d}}", body), "{{b}}");
    }

    #[test]
    fn a_text_has_a_bound() {
        let template = Template::parse("{{a}}{{a}}{{a}}");
        assert_eq!(template.fill(&Body(json!({"a": "xxxx"})), 11), None);
        assert_eq!(template.fill(&Body(json!({"a": "xxxx"})), 12).unwrap().len(), 12);
        let long = format!("{{{{{}}}}}", "a".repeat(600));
        assert!(!Template::parse(&long).has_values());
    }
}
