//! `secrets.*`, which the original reads by hand.

use serde_json::Value;

use crate::protocol::decode::{Fields, Params, any};

/// Params of `secrets.resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecretsResolveParams {
    /// What the secrets are for, in words; `None` when it is missing or blank.
    pub command_name: Option<String>,
    /// Places of the config; `None` when it is no list of texts.
    pub target_ids: Option<Vec<String>>,
}

impl Params for SecretsResolveParams {
    fn read(f: &mut Fields) -> Self {
        let text = |value: &Value| {
            let text = value.as_str().map(str::trim).filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        let command_name = f.optional("commandName", any());
        let target_ids = f.optional("targetIds", any());
        let target_ids = target_ids.as_ref().and_then(Value::as_array);
        Self {
            command_name: command_name.as_ref().and_then(text),
            target_ids: target_ids.and_then(|ids| ids.iter().map(text).collect()),
        }
    }
}
