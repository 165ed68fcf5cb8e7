//! What a request to a hook holds, as templates and rules see it.

use axum::http::HeaderMap;
use serde_json::Value;

use crate::config::hooks::{Field, Source, Transform, shown, value_at};

/// Headers that nobody is told: they hold credentials.
const HIDDEN: [&str; 5] =
    ["authorization", "cookie", "proxy-authorization", "x-openclaw-token", "x-api-key"];

/// What a request holds.
#[derive(Clone, Copy)]
pub(super) struct Sent<'a> {
    /// Its body.
    pub payload: &'a Value,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// What stands behind the question mark.
    pub query: &'a str,
    /// What stands behind the path of hooks.
    pub path: &'a str,
    /// When it came, ISO 8601.
    pub now: &'a str,
}

impl Source for Sent<'_> {
    fn value(&self, field: &Field) -> Option<Value> {
        match field {
            Field::Path => Some(self.path.into()),
            Field::Now => Some(self.now.into()),
            Field::Header(name) => self.header(name).map(Value::String),
            Field::Query(name) => {
                let pairs = form_urlencoded::parse(self.query.as_bytes());
                // Of two the last, as in the original.
                let value = pairs.filter(|(key, _)| key == name.as_str()).last();
                value.map(|(_, value)| value.into_owned().into())
            }
            Field::Payload(ways) => value_at(self.payload, ways).cloned(),
        }
    }
}

impl Sent<'_> {
    /// The values of a header; none for one that holds a credential.
    pub fn header(&self, name: &str) -> Option<String> {
        if HIDDEN.contains(&name) {
            return None;
        }
        let lines = self.headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
        let lines: Vec<_> = lines.collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    }

    /// A member of the body that is a text and says something.
    pub fn text(&self, name: &str) -> Option<&str> {
        said(self.payload.get(name))
    }
}

/// A text that says something, without what is blank around it.
pub(super) fn said(value: Option<&Value>) -> Option<&str> {
    value?.as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// The same request, with what a mapping says for values that it does not have.
pub(super) struct Filled<'a> {
    /// The request.
    pub sent: &'a Sent<'a>,
    /// The rules of the mapping.
    pub transform: &'a Transform,
}

impl Source for Filled<'_> {
    fn value(&self, field: &Field) -> Option<Value> {
        let own = self.sent.value(field).filter(|value| !shown(Some(value)).is_empty());
        let default = || self.transform.defaults.iter().find(|(name, _)| name == field);
        own.or_else(|| default().map(|(_, value)| value.clone()))
    }
}
