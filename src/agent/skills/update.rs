//! Changing what is set for a skill in the config file.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::agent::exec::environment::is_refused;
use crate::config::edit::{EditError, ValuePath, remove, set};
use crate::config::{REDACTED, SaveError, edit_file, is_variable};
use crate::support::{Secret, json};

/// Longest key of a skill.
const MAX_KEY: usize = 128;
/// Variables of one skill.
const MAX_VARIABLES: usize = 64;
/// Longest value of a variable, or key.
const MAX_VALUE: usize = 32 * 1024;
/// Longest name of a variable.
const MAX_NAME: usize = 128;

/// What is to be changed of `skills.entries.<key>`. What is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct SkillChange {
    /// The skill's key.
    pub key: String,
    /// Whether it may be used.
    pub enabled: Option<bool>,
    /// The value of its main variable; an empty one takes it away, and what
    /// answers show in the place of secrets changes nothing.
    pub api_key: Option<Secret>,
    /// Variables; an empty value takes one away.
    pub env: BTreeMap<String, Secret>,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// A value cannot be set.
    #[error("at {path}: {rule}")]
    Invalid {
        /// Pointer into the params.
        path: String,
        /// What it must be.
        rule: &'static str,
    },
    /// The file cannot be changed.
    #[error(transparent)]
    Save(#[from] SaveError),
}

impl SkillChange {
    /// Checks the values; takes out those that stand for what is there already.
    pub(super) fn checked(mut self) -> Result<Self, UpdateError> {
        let wrong = |path: String, rule| Err(UpdateError::Invalid { path, rule });
        if self.key.is_empty() || self.key.len() > MAX_KEY || self.key.chars().any(char::is_control)
        {
            return wrong("/skillKey".into(), "must have 1 to 128 characters of one line");
        }
        let is_kept = |secret: &Secret| secret.matches(REDACTED);
        self.api_key = self.api_key.filter(|secret| !is_kept(secret));
        self.env.retain(|_, value| !is_kept(value));
        if let Some(rule) = self.api_key.as_ref().and_then(wrong_value) {
            return wrong("/apiKey".into(), rule);
        }
        if self.env.len() > MAX_VARIABLES {
            return wrong("/env".into(), "must NOT have more than 64 properties");
        }
        for (name, value) in &self.env {
            let path = || format!("/env/{}", name.replace('~', "~0").replace('/', "~1"));
            if !is_name(name) {
                return wrong(path(), "must be the name of a variable");
            }
            if is_code_variable(name) && !value.is_empty() {
                return wrong(path(), "must not be a variable that decides which code runs");
            }
            if let Some(rule) = wrong_value(value) {
                return wrong(path(), rule);
            }
        }
        Ok(self)
    }

    /// Writes it into the file; the entry as it is there now. Blocks.
    pub(super) fn save(&self, file: &Path) -> Result<Value, SaveError> {
        let mut after = Value::Null;
        edit_file(file, |text| {
            let text = self.edited(text)?;
            let whole = crate::config::parse(&text, file)?;
            after = whole["skills"]["entries"][&self.key].clone();
            Ok(text)
        })?;
        Ok(after)
    }

    fn edited(&self, text: &str) -> Result<String, EditError> {
        let entry = ["skills", "entries", &self.key];
        let at = |rest: &[&str]| ValuePath::of(&[&entry[..], rest].concat());
        let mut text = text.to_owned();
        if let Some(enabled) = self.enabled {
            text = set(&text, &at(&["enabled"]), &json!(enabled))?;
        }
        let key = self.api_key.iter().map(|secret| (at(&["apiKey"]), secret));
        let env = self.env.iter().map(|(name, value)| (at(&["env", name]), value));
        for (path, value) in key.chain(env) {
            text = if value.is_empty() {
                remove(&text, &path)?
            } else {
                set(&text, &path, &json!(value.expose()))?
            };
        }
        Ok(text)
    }
}

/// Whether a command may get this variable for a skill.
pub(super) fn is_fit(name: &str) -> bool {
    is_name(name) && !is_code_variable(name)
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME && is_variable(name)
}

fn wrong_value(value: &Secret) -> Option<&'static str> {
    let text = value.expose();
    if text.len() > MAX_VALUE {
        Some("must NOT have more than 32768 characters")
    } else if text.contains(char::is_control) {
        Some("must be one line")
    } else if text.contains("${") {
        // It would be read as the name of a variable at the next start.
        Some("must not contain ${; write references into the config file")
    } else {
        None
    }
}

/// Whether a variable decides which code a program runs. A skill has no business
/// with the shell or with anything of git's.
fn is_code_variable(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    is_refused(name) || upper == "SHELL" || upper.starts_with("GIT_")
}

/// The entry without its secrets: `enabled` as it is, for all other texts what
/// stands for a secret.
pub(super) fn redacted(entry: &Value) -> Value {
    match entry {
        Value::String(_) => json!(REDACTED),
        Value::Array(items) => items.iter().map(redacted).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), redacted(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Null => json!({}),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn change(key: &str) -> SkillChange {
        SkillChange { key: key.into(), ..SkillChange::default() }
    }

    #[test]
    fn only_what_is_asked_for_changes_in_the_file() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("openclaw.json");
        let before = "{\n  // mine\n  skills: {\n    entries: {\n      a: { apiKey: \"old\", config: { x: 1 }, env: { A: \"1\" } },\n    },\n  },\n}\n";
        fs::write(&file, before).unwrap();
        let mut change = change("a");
        change.enabled = Some(false);
        change.env.insert("A".into(), Secret::new(""));
        change.env.insert("B".into(), Secret::new("2"));
        let entry = change.clone().checked().unwrap().save(&file).unwrap();
        assert_eq!(
            entry,
            json!({"apiKey": "old", "config": {"x": 1}, "env": {"B": "2"}, "enabled": false})
        );
        let after = fs::read_to_string(&file).unwrap();
        assert!(after.contains("// mine") && after.contains("config: { x: 1 }"), "{after}");
    }

    #[test]
    fn an_answer_shows_the_switch_and_no_secret() {
        let entry = json!({"enabled": true, "apiKey": "k", "env": {"A": "1"}, "config": {"n": 3}});
        assert_eq!(
            redacted(&entry),
            json!({"enabled": true, "apiKey": REDACTED, "env": {"A": REDACTED}, "config": {"n": 3}})
        );
    }

    #[test]
    fn what_an_answer_showed_for_a_secret_changes_nothing() {
        let mut change = change("a");
        change.api_key = Some(Secret::new(REDACTED));
        change.env.insert("A".into(), Secret::new(REDACTED));
        let checked = change.checked().unwrap();
        assert!(checked.api_key.is_none() && checked.env.is_empty());
    }

    #[test]
    fn values_that_would_do_harm_are_refused_with_their_place() {
        for (name, value, part) in [
            ("LD_PRELOAD", "x", "at /env/LD_PRELOAD: must not be a variable that decides"),
            ("path", "x", "at /env/path: must not be a variable that decides"),
            ("A=B", "x", "at /env/A=B: must be the name of a variable"),
            ("a/b", "x", "at /env/a~1b: must be the name of a variable"),
            ("A", "a\nb", "at /env/A: must be one line"),
            ("A", "x${B}", "at /env/A: must not contain ${"),
        ] {
            let mut change = change("a");
            change.env.insert(name.into(), Secret::new(value));
            let error = change.checked().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(change("").checked().is_err());
        assert!(change(&"k".repeat(129)).checked().is_err());
    }
}
