//! Questions of runs, as they are told to those who follow one.

use serde_json::Value;

use crate::agent::approvals::QuestionKind;

/// Of which kind the question of an `approval` event is: each is answered by a method of
/// its own.
pub fn kind_of(data: &Value) -> QuestionKind {
    let has_plugin_id = data["approvalId"].as_str().is_some_and(|id| id.starts_with("plugin:"));
    if data["kind"] == "plugin" || has_plugin_id {
        QuestionKind::Plugin
    } else {
        QuestionKind::Exec
    }
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn the_event_or_the_id_says_of_which_kind_it_is() {
        for (data, kind) in [
            (json!({"kind": "plugin", "approvalId": "x"}), QuestionKind::Plugin),
            (json!({"approvalId": "plugin:x"}), QuestionKind::Plugin),
            (json!({"kind": "exec", "approvalId": "x"}), QuestionKind::Exec),
            (json!({}), QuestionKind::Exec),
        ] {
            assert_eq!(kind_of(&data), kind, "{data}");
        }
    }
}
