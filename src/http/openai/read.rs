//! Reading a request: each value with its place, for whoever sent a wrong one.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value};

use crate::http::{Asked, Manner};
use crate::support::strict_json;

/// Why a request is not taken, in words for its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong(pub String);

impl Wrong {
    /// The answer.
    pub fn answer(&self) -> Response {
        Manner::OpenAi.error(StatusCode::BAD_REQUEST, &self.0)
    }
}

/// A value of a request and where it is.
#[derive(Debug, Clone)]
pub struct At<'v> {
    path: String,
    value: &'v Value,
}

impl<'v> At<'v> {
    /// The whole request.
    pub const fn root(value: &'v Value) -> Self {
        Self { path: String::new(), value }
    }

    /// A member; nothing where there is none. `null` is as if it were not there.
    pub fn member(&self, name: &str) -> Self {
        let value = self.value.get(name).unwrap_or(&Value::Null);
        Self { path: self.below(name), value }
    }

    /// Whether there is something.
    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// The value as it is.
    pub const fn value(&self) -> &'v Value {
        self.value
    }

    /// A text.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text(&self) -> Result<Option<&'v str>, Wrong> {
        match self.value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            _ => Err(self.wrong("must be a string")),
        }
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// When it is not.
    pub fn required_text(&self) -> Result<&'v str, Wrong> {
        self.text()?.ok_or_else(|| self.wrong("must be a string"))
    }

    /// Yes or no; no where there is nothing.
    ///
    /// # Errors
    /// When it is something else.
    pub fn boolean(&self) -> Result<bool, Wrong> {
        match self.value {
            Value::Null => Ok(false),
            Value::Bool(is) => Ok(*is),
            _ => Err(self.wrong("must be a boolean")),
        }
    }

    /// A number that the agent does not need, but that must be one.
    ///
    /// # Errors
    /// When it is none, or outside of these bounds.
    pub fn number_within(&self, least: f64, most: f64) -> Result<Option<f64>, Wrong> {
        if !self.is_set() {
            return Ok(None);
        }
        let number = self.value.as_f64().filter(|number| (least..=most).contains(number));
        let wrong = || self.wrong(&format!("must be a number from {least} to {most}"));
        number.map(Some).ok_or_else(wrong)
    }

    /// A whole number within these bounds; none where there is nothing.
    ///
    /// # Errors
    /// When it is something else.
    pub fn integer_within(&self, least: u64, most: u64) -> Result<Option<u64>, Wrong> {
        if !self.is_set() {
            return Ok(None);
        }
        let number = self.value.as_u64().filter(|number| (least..=most).contains(number));
        let wrong = || self.wrong(&format!("must be an integer from {least} to {most}"));
        number.map(Some).ok_or_else(wrong)
    }

    /// An object; none where there is nothing.
    ///
    /// # Errors
    /// When it is something else.
    pub fn object(&self) -> Result<Option<&'v Map<String, Value>>, Wrong> {
        match self.value {
            Value::Null => Ok(None),
            Value::Object(members) => Ok(Some(members)),
            _ => Err(self.wrong("must be an object")),
        }
    }

    /// The items of a list; none where there is nothing.
    ///
    /// # Errors
    /// When it is something else.
    pub fn items(&self) -> Result<Vec<Self>, Wrong> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(index, value)| Self { path: self.below(&index.to_string()), value })
                .collect()),
            _ => Err(self.wrong("must be an array")),
        }
    }

    /// The refusal of this value.
    pub fn wrong(&self, rule: &str) -> Wrong {
        if self.path.is_empty() {
            return Wrong(format!("the body {rule}"));
        }
        Wrong(format!("{}: {rule}", self.path))
    }

    fn below(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

/// The body of a request, which is an object.
///
/// # Errors
/// The answer to another one.
pub async fn body(asked: &mut Asked<'_>, limit: u64) -> Result<Value, Response> {
    let bytes = asked.bytes(limit).await?;
    let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    let value = strict_json(bytes);
    let value = value.map_err(|error| Wrong(format!("the body is not JSON: {error}")).answer())?;
    At::root(&value).object().map_err(|wrong| wrong.answer())?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let body = json!({"a": [{"b": 1}], "n": 3, "null": null});
        let root = At::root(&body);
        let items = root.member("a").items().unwrap();
        let told = items[0].member("b").text().unwrap_err();
        assert_eq!(told, Wrong("a.0.b: must be a string".into()));
        assert_eq!(root.member("null").text(), Ok(None));
        assert_eq!(root.member("no").member("more").boolean(), Ok(false));
        let told = root.member("n").number_within(0.0, 2.0).unwrap_err();
        assert_eq!(told, Wrong("n: must be a number from 0 to 2".into()));
        assert_eq!(At::root(&json!([])).object().unwrap_err().0, "the body must be an object");
    }
}
