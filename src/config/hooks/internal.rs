//! `hooks.internal`: what is done when something happens in the gateway itself. In OpenClaw
//! these are programs; the one that keeps what a session was about is built in here, and no
//! other is run.
//!
//! Owns: when it is wanted. Promises: as in OpenClaw.

use crate::config::ConfigError;
use crate::config::schema::Node;

/// Messages that are kept, as in the original.
const USUAL: usize = 15;
/// More is no memory but a transcript, which is kept anyway.
const MOST: usize = 200;

/// How many messages of a session that begins anew become a memory; `None` when it is not
/// wanted. It is when it has an entry, or all that OpenClaw comes with are, unless one of
/// the two says no.
pub(super) fn session_memory(node: &Node<'_>) -> Result<Option<usize>, ConfigError> {
    let entries = node.member("entries")?;
    for (_, entry) in entries.members()? {
        entry.members()?;
    }
    let entry = entries.member("session-memory")?;
    let messages = entry.member("messages")?.count()?.unwrap_or(USUAL).min(MOST);
    let of_all = node.member("enabled")?.boolean()?;
    let of_it = entry.member("enabled")?.boolean()?.or_else(|| entry.is_set().then_some(true));
    let is_wanted = of_all != Some(false) && of_it.or(of_all) == Some(true);
    Ok(is_wanted.then_some(messages))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::support::json;

    fn read(value: &Value) -> Result<Option<usize>, ConfigError> {
        session_memory(&Node::root(value, Path::new("openclaw.json")))
    }

    #[test]
    fn it_is_wanted_when_it_or_all_are_and_neither_is_off() {
        let with = |all: Value, entry: Value| {
            let entries = json!({"session-memory": entry, "other": {"a": 1}});
            json!({"enabled": all, "entries": entries})
        };
        let (none, on, off) = (Value::Null, json!({"enabled": true}), json!({"enabled": false}));
        for (value, expected) in [
            (json!({}), None),
            (with(none.clone(), none.clone()), None),
            (with(none.clone(), on.clone()), Some(USUAL)),
            (with(none.clone(), json!({"messages": 3})), Some(3)),
            (with(none.clone(), json!({"messages": 5000})), Some(MOST)),
            (with(none, off.clone()), None),
            (with(json!(true), Value::Null), Some(USUAL)),
            (with(json!(true), off), None),
            (with(json!(false), on), None),
        ] {
            assert_eq!(read(&value).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_key() {
        for (entry, why) in [
            (json!({"messages": 0}), "entries.session-memory.messages: must be a positive integer"),
            (json!({"enabled": "yes"}), "entries.session-memory.enabled: must be true or false"),
            (json!([]), "entries.session-memory: must be an object"),
        ] {
            let error = read(&json!({"entries": {"session-memory": entry}})).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
