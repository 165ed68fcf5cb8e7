//! Typed reading of a JSON tree.
//!
//! Owns: the cursor that the sections of the config are read with. Promises:
//! an error names the full path of the key and what it must be. Must not: know
//! any key.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::support::reading;

use super::secrets::{SecretInput, SecretRef};
use super::{ConfigError, Env, Paths};

/// Largest integer that JSON carries exactly.
pub(super) const MAX_INTEGER: u64 = 9_007_199_254_740_991;

/// A place in the config file, which may be empty.
#[derive(Clone)]
pub(super) struct Node<'a> {
    key: String,
    value: Option<&'a Value>,
    file: &'a Path,
}

impl<'a> Node<'a> {
    /// The whole document.
    pub fn root(value: &'a Value, file: &'a Path) -> Self {
        Self { key: String::new(), value: Some(value), file }
    }

    /// The member `name`; empty when it is absent or `null`.
    pub fn member(&self, name: &str) -> Result<Self, ConfigError> {
        let value = match self.value {
            None => None,
            Some(Value::Object(members)) => members.get(name).filter(|value| !value.is_null()),
            Some(_) => return Err(self.wrong("must be an object")),
        };
        let key =
            if self.key.is_empty() { name.to_owned() } else { format!("{}.{name}", self.key) };
        Ok(Self { key, value, file: self.file })
    }

    /// The same place with another value in it, such as one put together.
    pub fn with<'b>(&self, value: &'b Value) -> Node<'b>
    where
        'a: 'b,
    {
        Node { key: self.key.clone(), value: Some(value), file: self.file }
    }

    /// The place at this path inside, for errors about it.
    pub fn inside(&self, path: &str) -> Self {
        Self { key: format!("{}.{path}", self.key), value: None, file: self.file }
    }

    /// The member at a dotted path.
    pub fn at(&self, path: &str) -> Result<Self, ConfigError> {
        path.split('.').try_fold(self.clone(), |node, name| node.member(name))
    }

    /// Whether something is written here.
    pub fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// The value as it is.
    pub fn value(&self) -> Option<&'a Value> {
        self.value
    }

    /// A text.
    pub fn text(&self) -> Result<Option<String>, ConfigError> {
        match self.value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.wrong("must be a string")),
        }
    }

    /// A text that `parse` understands; `None` from it is an error that lists
    /// what is `allowed`.
    pub fn word<T>(
        &self,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        self.text()?
            .map(|text| {
                parse(text.trim()).ok_or_else(|| self.wrong(&format!("must be one of {allowed}")))
            })
            .transpose()
    }

    /// `true` or `false`.
    pub fn boolean(&self) -> Result<Option<bool>, ConfigError> {
        match self.value {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.wrong("must be true or false")),
        }
    }

    /// A positive integer that fits `T`, at most `max`.
    pub fn integer<T: TryFrom<u64>>(&self, max: u64) -> Result<Option<T>, ConfigError> {
        self.integer_within(1, max)
    }

    /// An integer from `min` to `max`.
    pub fn integer_within<T: TryFrom<u64>>(
        &self,
        min: u64,
        max: u64,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.value else { return Ok(None) };
        // To JavaScript, `2e6` and `5.0` are integers as well.
        let whole = || value.as_f64()?.to_string().parse().ok();
        value
            .as_u64()
            .or_else(whole)
            .filter(|number| (min..=max).contains(number))
            .and_then(|number| T::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| self.wrong(&integer_rule(min, max)))
    }

    /// An integer from 0 to `max`.
    pub fn integer_or_zero<T: TryFrom<u64>>(&self, max: u64) -> Result<Option<T>, ConfigError> {
        self.integer_within(0, max)
    }

    /// An integer, positive unless `least` is 0; what is beyond these bounds counts as
    /// the bound.
    pub fn bounded<T: TryFrom<u64>>(
        &self,
        least: u64,
        most: u64,
    ) -> Result<Option<T>, ConfigError> {
        let number: Option<u64> = self.integer_within(least.min(1), MAX_INTEGER)?;
        Ok(number.and_then(|number| T::try_from(number.clamp(least, most)).ok()))
    }

    /// A number with a unit, such as `30d`, or a bare number; `parse` makes
    /// something of it, or it is an error that says what is `allowed`.
    pub fn quantity<T>(
        &self,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let text = match self.value {
            None => return Ok(None),
            Some(Value::String(text)) => text.trim().to_lowercase(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) => return Err(self.wrong(&format!("must be {allowed}"))),
        };
        parse(&text).map(Some).ok_or_else(|| self.wrong(&format!("must be {allowed}")))
    }

    /// The members of an object with free names, in order.
    pub fn members(&self) -> Result<Vec<(String, Self)>, ConfigError> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Value::Object(members)) => {
                members.keys().map(|name| Ok((name.clone(), self.member(name)?))).collect()
            }
            Some(_) => Err(self.wrong("must be an object")),
        }
    }

    /// A positive integer without a bound of its own.
    pub fn count<T: TryFrom<u64>>(&self) -> Result<Option<T>, ConfigError> {
        self.integer(MAX_INTEGER)
    }

    /// A path, expanded.
    pub fn path(&self, paths: &Paths) -> Result<Option<PathBuf>, ConfigError> {
        self.text()?.map(|text| paths.expand(text.trim())).transpose()
    }

    /// The items of a list; none when nothing is written.
    pub fn items(&self) -> Result<Vec<Self>, ConfigError> {
        let Some(value) = self.value else { return Ok(Vec::new()) };
        let Value::Array(items) = value else { return Err(self.wrong("must be a list")) };
        Ok(items
            .iter()
            .enumerate()
            .map(|(index, value)| Self {
                key: format!("{}[{index}]", self.key),
                value: Some(value),
                file: self.file,
            })
            .collect())
    }

    /// A list of texts.
    pub fn texts(&self) -> Result<Option<Vec<String>>, ConfigError> {
        if !self.is_set() {
            return Ok(None);
        }
        let texts = self.items()?.into_iter().map(|item| item.required_text());
        texts.collect::<Result<_, _>>().map(Some)
    }

    /// A text that must be there.
    pub fn required_text(&self) -> Result<String, ConfigError> {
        self.text()?.ok_or_else(|| self.wrong("is missing; it must be a string"))
    }

    /// A credential: a text, or OpenClaw's reference to one. A variable
    /// (`{source: "env", id: "NAME"}`) is looked up here.
    pub fn secret(&self, env: &Env) -> Result<Option<SecretInput>, ConfigError> {
        let Some(Value::Object(members)) = self.value else {
            let text = self.text()?.filter(|text| !text.trim().is_empty());
            let written = text.map(|text| SecretInput::written(&text)).transpose();
            return written.map_err(|rule| self.wrong(rule));
        };
        let source = self.member("source")?.required_text()?;
        if source != "env" || members.contains_key("provider") {
            let read = reading::of::<SecretRef>(&Value::Object(members.clone()));
            let reference = read.map_err(|error| self.wrong(&without_value(&error.to_string())))?;
            return Ok(Some(SecretInput::Ref(reference)));
        }
        let variable = self.member("id")?.required_text()?;
        match env.get(&variable) {
            Some(value) => SecretInput::written(&value).map(Some).map_err(|rule| self.wrong(rule)),
            None => Err(ConfigError::MissingVariable {
                key: self.key.clone(),
                variable,
                place: self.place(),
                is_in_text: false,
            }),
        }
    }

    /// The value as a `T`, whose default stands for nothing; an error names the
    /// key inside it, and quotes no value of another kind.
    pub fn deserialize<T: DeserializeOwned + Default>(&self) -> Result<T, ConfigError> {
        let Some(value) = self.value else { return Ok(T::default()) };
        reading::read(value).map_err(|(inside, error)| {
            let key = format!("{}{inside}", self.key);
            Self { key, ..self.clone() }.wrong(&without_value(&error.to_string()))
        })
    }

    /// The error that this value breaks `rule`.
    pub fn wrong(&self, rule: &str) -> ConfigError {
        let key = if self.key.is_empty() { "<root>".into() } else { self.key.clone() };
        ConfigError::Invalid { key, reason: rule.into(), place: self.place() }
    }

    fn place(&self) -> String {
        self.file.display().to_string()
    }
}

/// What is said of a value of another kind than is wanted, without the value: what stands in
/// the wrong place may be a secret.
fn without_value(reason: &str) -> String {
    let of_kind = reason.rsplit_once(", expected ").filter(|_| reason.starts_with("invalid type"));
    let Some((found, wanted)) = of_kind else { return reason.to_owned() };
    let kind = found.split(['"', '`']).next().unwrap_or_default().trim_end();
    format!("{kind}, expected {wanted}")
}

/// An integer in a variable.
pub(super) fn env_integer<T: TryFrom<u64>>(
    env: &Env,
    name: &str,
    min: u64,
    max: u64,
) -> Result<Option<T>, ConfigError> {
    let Some(text) = env.get(name) else { return Ok(None) };
    text.parse()
        .ok()
        .filter(|number| (min..=max).contains(number))
        .and_then(|number| T::try_from(number).ok())
        .map(Some)
        .ok_or_else(|| ConfigError::Invalid {
            key: name.into(),
            reason: integer_rule(min, max),
            place: "the environment".into(),
        })
}

fn integer_rule(min: u64, max: u64) -> String {
    if (min, max) == (1, MAX_INTEGER) {
        "must be a positive integer".into()
    } else {
        format!("must be an integer between {min} and {max}")
    }
}
