//! What is known of the session beside its messages.

use serde_json::Value;

use crate::cli::tui::text::one_line;

/// A part of the session's row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// `provider/model`.
    pub model: String,
    /// How much it thinks.
    pub thinking: String,
    /// How much it may be told to think.
    pub thinking_levels: Vec<String>,
    /// What people call the session.
    pub label: String,
    /// What else is set, such as `verbose on`.
    pub settings: Vec<String>,
    /// Tokens of the conversation.
    pub tokens: Option<u64>,
    /// Tokens that fit.
    pub context: Option<u64>,
}

impl Row {
    /// From a row of `sessions.list`, or of its `defaults` for a session that is not there yet.
    pub fn read(row: &Value, defaults: &Value) -> Self {
        let text = |name: &str| {
            let of = |value: &Value| value[name].as_str().map(one_line);
            of(row).or_else(|| of(defaults)).unwrap_or_default()
        };
        let (provider, model) = (text("modelProvider"), text("model"));
        let thinking = text("thinkingLevel");
        let setting = |(name, shown): (&str, &str)| match row[name].as_str().map(one_line) {
            Some(value) if value != "off" => Some(format!("{shown} {value}")),
            _ => None,
        };
        let all = [
            ("verboseLevel", "verbose"),
            ("reasoningLevel", "reasoning"),
            ("elevatedLevel", "elevated"),
            ("sendPolicy", "send"),
        ];
        let levels = |value: &Value| {
            let ids =
                value["thinkingLevels"].as_array()?.iter().filter_map(|level| level["id"].as_str());
            Some(ids.map(one_line).collect::<Vec<_>>())
        };
        let count = |name: &str| row[name].as_u64().or_else(|| defaults[name].as_u64());
        Self {
            model: if provider.is_empty() { model } else { format!("{provider}/{model}") },
            thinking: if thinking.is_empty() { text("thinkingDefault") } else { thinking },
            thinking_levels: levels(row).or_else(|| levels(defaults)).unwrap_or_default(),
            label: ["label", "displayName"]
                .iter()
                .find_map(|name| row[*name].as_str())
                .map(one_line)
                .unwrap_or_default(),
            settings: all.into_iter().filter_map(setting).collect(),
            tokens: row["totalTokens"].as_u64(),
            context: count("contextTokens"),
        }
    }
}
