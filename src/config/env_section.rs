//! The `env` section: variables that the file brings along.
//!
//! Owns: which of them hold. Promises: a variable of the environment wins; one
//! that decides which code programs run is not taken. Must not: change the
//! environment of the process.

use std::collections::BTreeMap;

use super::schema::Node;
use super::{ConfigError, decides_code, is_variable};
use crate::support::Secret;

/// Members that are no variables.
const OTHERS: [&str; 2] = ["vars", "shellEnv"];

/// The variables of the section; those in `vars` beat those beside it.
pub(super) fn read(node: &Node<'_>) -> Result<BTreeMap<String, Secret>, ConfigError> {
    let beside = node.members()?.into_iter().filter(|(name, _)| !OTHERS.contains(&name.as_str()));
    let mut variables = BTreeMap::new();
    for (name, value) in beside.chain(node.member("vars")?.members()?) {
        let Some(text) = value.text()? else { continue };
        // OpenClaw takes any name; one that no program could ask for is none.
        if is_variable(&name) && !decides_code(&name) {
            variables.insert(name, Secret::new(text));
        }
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use crate::support::json;

    use super::*;

    fn names(section: &Value) -> Result<Vec<String>, String> {
        let root = json!({"env": section});
        let node = Node::root(&root, Path::new("f")).member("env").unwrap();
        let read = read(&node).map_err(|error| error.to_string())?;
        Ok(read.into_iter().map(|(name, value)| format!("{name}={}", value.expose())).collect())
    }

    #[test]
    fn variables_stand_in_vars_and_beside_it() {
        let section = json!({"A": "1", "B": "2", "vars": {"B": "3"}, "shellEnv": {"enabled": true},
            "LD_PRELOAD": "/x.so", "C": null, "a-b": "4"});
        assert_eq!(names(&section).unwrap(), ["A=1", "B=3"]);
        assert_eq!(names(&Value::Null).unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_no_variable_is_refused_with_its_path() {
        for (section, path) in [
            (json!({"vars": {"A": 1}}), "env.vars.A: must be a string"),
            (json!({"A": {"b": "c"}}), "env.A: must be a string"),
            (json!("x"), "env: must be an object"),
        ] {
            let error = names(&section).unwrap_err();
            assert!(error.starts_with(path), "{error}");
        }
    }
}
