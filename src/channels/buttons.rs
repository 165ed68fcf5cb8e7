//! Buttons under a message, as `presentation` of OpenClaw names them.
//!
//! Promises: none is left out without a word.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest value in bytes: what Telegram takes.
const VALUE_MAX: usize = 64;

/// A button.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// What it is called.
    pub label: String,
    /// What is said by who presses it.
    pub value: String,
}

/// The buttons of each block that has some; what is to be selected from is buttons as well.
///
/// # Errors
/// Which one cannot be sent, and why; so is one with a value that `may_say` refuses.
pub fn presented_buttons(
    presentation: &Value,
    may_say: fn(&str) -> bool,
) -> Result<Vec<Vec<Button>>, String> {
    const PLACE: &str = "at /params/presentation";
    if !presentation.is_null() && !presentation.is_object() {
        return Err(format!("{PLACE}: must be object"));
    }
    if !is_list(&presentation["blocks"]) {
        return Err(format!("{PLACE}/blocks: must be array"));
    }
    let mut all = Vec::new();
    for (index, block) in blocks(presentation).enumerate() {
        let found =
            buttons_of(block, may_say).map_err(|why| format!("{PLACE}/blocks/{index}{why}"))?;
        if !found.is_empty() {
            all.push(found);
        }
    }
    Ok(all)
}

/// Whether it is a list, or is not written.
fn is_list(value: &Value) -> bool {
    value.is_null() || value.is_array()
}

fn buttons_of(block: &Value, may_say: fn(&str) -> bool) -> Result<Vec<Button>, String> {
    let mut found = Vec::new();
    for (kind, member) in [("buttons", "buttons"), ("select", "options")] {
        let written = &block[member];
        if !is_list(written) {
            return Err(format!("/{member}: must be array"));
        }
        let written = written.as_array().map(Vec::as_slice).unwrap_or_default();
        if !written.is_empty() && kind_of(block) != kind {
            return Err(format!("/type: must be '{kind}' with {member}"));
        }
        for (at, written) in written.iter().enumerate() {
            let read = button(written, may_say);
            found.push(read.map_err(|why| format!("/{member}/{at}{why}"))?);
        }
    }
    Ok(found)
}

/// What a presentation says, for a message without words of its own.
pub fn presented_words(presentation: &Value) -> Option<String> {
    let is_text = |block: &&Value| matches!(kind_of(block).as_str(), "text" | "context");
    let texts = blocks(presentation).filter(is_text).map(|block| &block["text"]);
    let texts = std::iter::once(&presentation["title"]).chain(texts).filter_map(Value::as_str);
    let texts: Vec<_> = texts.map(str::trim).filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

fn blocks(presentation: &Value) -> impl Iterator<Item = &Value> {
    presentation["blocks"].as_array().into_iter().flatten()
}

fn kind_of(block: &Value) -> String {
    block["type"].as_str().unwrap_or_default().trim().to_lowercase()
}

fn button(written: &Value, may_say: fn(&str) -> bool) -> Result<Button, String> {
    let text = |names: &[&str]| {
        let mut texts = names.iter().filter_map(|name| written[*name].as_str()).map(str::trim);
        texts.find(|text| !text.is_empty()).map(str::to_owned)
    };
    let label = text(&["label", "text"]).ok_or(": must have required property 'label'")?;
    let value = text(&["value", "callbackData", "callback_data"]);
    let value = value.ok_or(": must have required property 'value'")?;
    if value.len() > VALUE_MAX {
        return Err(format!("/value: must NOT have more than {VALUE_MAX} bytes"));
    }
    // Who presses it says it with rights of their own, and does not see it.
    if !may_say(&value) {
        return Err("/value: must NOT be a command unless you have operator.admin".into());
    }
    Ok(Button { label, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn presented_buttons(presentation: &Value) -> Result<Vec<Vec<Button>>, String> {
        super::presented_buttons(presentation, |value| value != "/no")
    }

    #[test]
    fn a_presentation_is_read_whole_or_refused_with_the_place_that_is_wrong() {
        let presentation = json!({"title": " T ", "blocks": [
            {"type": "text", "text": "body"},
            {"type": "divider"},
            {"type": "Buttons", "buttons": [{"label": "Yes", "value": "yes"},
                {"text": "No", "callback_data": "no"}]},
            {"type": "select", "options": [{"label": "One", "value": "1"}]},
            {"type": "buttons", "buttons": []},
        ]});
        let button = |label: &str, value: &str| Button { label: label.into(), value: value.into() };
        let expected = [vec![button("Yes", "yes"), button("No", "no")], vec![button("One", "1")]];
        assert_eq!(presented_buttons(&presentation).unwrap(), expected);
        assert_eq!(presented_words(&presentation).as_deref(), Some("T\n\nbody"));
        assert_eq!(presented_buttons(&Value::Null), Ok(vec![]));
        assert_eq!(presented_words(&Value::Null), None);

        let long = "é".repeat(33);
        for (wrong, why) in [
            (json!({"label": "x", "value": long}), "/value: must NOT have more than 64 bytes"),
            (json!({"value": "x"}), ": must have required property 'label'"),
            (
                json!({"label": "x", "callback_data": " /no"}),
                "/value: must NOT be a command unless you have operator.admin",
            ),
            (
                json!({"label": "x", "url": "https://x.test/"}),
                ": must have required property 'value'",
            ),
        ] {
            let fine = json!({"label": "a", "value": "a"});
            let block = json!({"type": "buttons", "buttons": [fine, wrong]});
            let place = "at /params/presentation/blocks/0/buttons/1";
            let refused = presented_buttons(&json!({"blocks": [block]})).unwrap_err();
            assert_eq!(refused, format!("{place}{why}"));
        }
    }

    #[test]
    fn what_may_hold_buttons_and_is_not_understood_is_refused() {
        let list = json!([{"label": "a", "value": "a"}]);
        let of = |block: Value| json!({"blocks": [block]});
        for (presentation, why) in [
            (json!("{}"), ": must be object"),
            (json!({"blocks": {"type": "buttons", "buttons": list}}), "/blocks: must be array"),
            (json!({"blocks": "[]"}), "/blocks: must be array"),
            (
                of(json!({"type": "buttons", "buttons": list.to_string()})),
                "/blocks/0/buttons: must be array",
            ),
            (of(json!({"type": "select", "options": {}})), "/blocks/0/options: must be array"),
            (
                of(json!({"type": "keyboard", "buttons": list})),
                "/blocks/0/type: must be 'buttons' with buttons",
            ),
            (
                of(json!({"type": "buttons", "options": list})),
                "/blocks/0/type: must be 'select' with options",
            ),
            (of(json!({"options": list})), "/blocks/0/type: must be 'select' with options"),
        ] {
            let refused = presented_buttons(&presentation).unwrap_err();
            assert_eq!(refused, format!("at /params/presentation{why}"));
        }
    }
}
