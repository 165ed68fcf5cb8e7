//! `agents.defaults.compaction.memoryFlush`: the notes that an agent takes before a
//! conversation is summed up.

use std::path::Path;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// As in the original.
const DEFAULT_SOFT_THRESHOLD: u64 = 4_000;
/// Far more than any model reads.
const TOKENS_MAX: u64 = 100_000_000;

/// Whether, when and how an agent is asked for notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFlush {
    /// Whether it is.
    pub is_enabled: bool,
    /// It is asked when a compaction is so many tokens away.
    pub soft_threshold_tokens: u64,
    /// What it is told in the place of the usual words.
    pub prompt: Option<String>,
    /// What its system prompt says of it in the place of the usual words.
    pub system_prompt: Option<String>,
}

pub(super) fn read(
    node: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<MemoryFlush, ConfigError> {
    let key = |name| format!("agents.defaults.compaction.memoryFlush.{name}");
    let enabled = Choice::file(file, node.member("enabled")?.boolean()?);
    let threshold = node.member("softThresholdTokens")?.bounded(0, TOKENS_MAX)?;
    let threshold = Choice::file(file, threshold);
    let text = |name| -> Result<Choice<String>, ConfigError> {
        let text = node.member(name)?.text()?;
        Ok(Choice::file(file, text.filter(|text| !text.trim().is_empty())))
    };
    let (prompt, system_prompt) = (text("prompt")?, text("systemPrompt")?);
    Ok(MemoryFlush {
        is_enabled: ledger.settle(&key("enabled"), enabled, true),
        soft_threshold_tokens: ledger.settle(
            &key("softThresholdTokens"),
            threshold,
            DEFAULT_SOFT_THRESHOLD,
        ),
        prompt: ledger.settle_optional(&key("prompt"), prompt),
        system_prompt: ledger.settle_optional(&key("systemPrompt"), system_prompt),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn load(flush: &Value) -> Result<MemoryFlush, String> {
        let file = Path::new("x.json");
        read(&Node::root(flush, file), file, &mut Ledger::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_on_as_in_the_original_and_a_wrong_value_is_named() {
        let usual = load(&json!({})).unwrap();
        assert_eq!((usual.is_enabled, usual.soft_threshold_tokens), (true, 4_000));
        assert_eq!((usual.prompt, usual.system_prompt), (None, None));
        let other = json!({"enabled": false, "softThresholdTokens": 0, "prompt": "p",
            "systemPrompt": " "});
        let other = load(&other).unwrap();
        assert_eq!((other.is_enabled, other.soft_threshold_tokens), (false, 0));
        assert_eq!((other.prompt.as_deref(), other.system_prompt), (Some("p"), None));
        let error = load(&json!({"softThresholdTokens": -1})).unwrap_err();
        assert!(error.contains("softThresholdTokens"), "{error}");
    }
}
