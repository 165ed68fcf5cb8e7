//! Variables inside the config file.
//!
//! Owns: `${NAME}` in texts, as OpenClaw writes it; `$${NAME}` is the text
//! itself. Promises: a variable that is not set is an error, never an empty
//! text. Must not: touch sections nobody reads, so that a variable of another
//! program's feature cannot keep the gateway from starting.

use std::convert::Infallible;
use std::path::Path;

use serde_json::{Map, Value};

use super::{ConfigError, Env};

/// The sections clawgate reads, with their variables filled in.
pub(super) fn sections(
    raw: &Value,
    names: &[&str],
    env: &Env,
    file: &Path,
) -> Result<Value, ConfigError> {
    let Value::Object(members) = raw else { return Ok(raw.clone()) };
    let mut filled = Map::new();
    for &name in names {
        if let Some(value) = members.get(name) {
            filled.insert(name.into(), fill(value, name, env, file)?);
        }
    }
    Ok(Value::Object(filled))
}

/// Only these members of a section, with their variables filled in.
pub(super) fn members(
    raw: &Value,
    section: &str,
    names: &[&str],
    env: &Env,
    file: &Path,
) -> Result<Option<Value>, ConfigError> {
    let Some(section_value) = raw.get(section) else { return Ok(None) };
    let Value::Object(members) = section_value else { return Ok(Some(section_value.clone())) };
    let mut filled = Map::new();
    for &name in names {
        if let Some(value) = members.get(name) {
            filled.insert(name.into(), fill(value, &format!("{section}.{name}"), env, file)?);
        }
    }
    Ok(Some(Value::Object(filled)))
}

/// This value, which stands at `key`, with its variables filled in.
pub(super) fn fill(value: &Value, key: &str, env: &Env, file: &Path) -> Result<Value, ConfigError> {
    Ok(match value {
        Value::String(text) => Value::String(fill_text(text, key, env, file)?),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let filled = items.map(|(i, item)| fill(item, &format!("{key}[{i}]"), env, file));
            Value::Array(filled.collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let filled = members.iter().map(|(name, member)| {
                Ok((name.clone(), fill(member, &format!("{key}.{name}"), env, file)?))
            });
            Value::Object(filled.collect::<Result<_, ConfigError>>()?)
        }
        other => other.clone(),
    })
}

fn fill_text(text: &str, key: &str, env: &Env, file: &Path) -> Result<String, ConfigError> {
    replaced(text, |name| {
        env.get(name).ok_or_else(|| ConfigError::MissingVariable {
            key: key.into(),
            variable: name.into(),
            place: file.display().to_string(),
            is_in_text: true,
        })
    })
}

/// Takes the members away that are texts with variables in them.
pub(super) fn leave_plain(value: &mut Value) {
    let Value::Object(members) = value else { return };
    members.retain(|_, member| member.as_str().is_none_or(|text| names(text).is_empty()));
    members.values_mut().for_each(leave_plain);
}

/// The names of the variables that are filled into a text.
pub(super) fn names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let Ok(_) = replaced::<Infallible>(text, |name| {
        names.push(name);
        Ok(String::new())
    });
    names
}

/// The text with what `value` has for each variable in its place.
fn replaced<'a, E>(
    text: &'a str,
    mut value: impl FnMut(&'a str) -> Result<String, E>,
) -> Result<String, E> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, tail)) = after.split_once('}').filter(|(name, _)| is_variable(name)) else {
            filled.push_str(before);
            filled.push_str("${");
            rest = after;
            continue;
        };
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.extend(["${", name, "}"]);
        } else {
            filled.push_str(before);
            filled.push_str(&value(name)?);
        }
        rest = tail;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// `[A-Z_][A-Z0-9_]*`: anything else in braces is ordinary text.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn variables_are_filled_in_where_they_are_read_and_nowhere_else() {
        let env = Env::fixed([("A", "one"), ("B_2", "two")], "/h");
        let raw = json!({
            "read": {"x": ["${A}-${B_2}", "$${A} ${lower} ${", 3]},
            "other": "${NOT_SET}",
        });
        let filled = sections(&raw, &["read", "absent"], &env, Path::new("f")).unwrap();
        assert_eq!(filled, json!({"read": {"x": ["one-two", "${A} ${lower} ${", 3]}}));
    }

    #[test]
    fn the_variables_of_a_text_are_those_that_are_filled_in() {
        assert_eq!(names("${A}-${B_2}x$${C} ${lower} ${ ${D}"), ["A", "B_2", "D"]);
        assert_eq!(names("no $A {B}"), [""; 0]);
    }

    #[test]
    fn a_variable_that_is_not_set_is_named_with_its_key() {
        let env = Env::fixed([], "/h");
        let raw = json!({"m": [{"key": "${GONE}"}]});
        let error = sections(&raw, &["m"], &env, Path::new("f.json")).unwrap_err().to_string();
        assert_eq!(
            error,
            "m[0].key: the environment variable GONE is not set (in f.json); \
             set it, or write `$${GONE}` for the text itself"
        );
    }
}
