//! `diagnostics.stability`, `update.run`.

use serde_json::Value;

use crate::protocol::decode::{Fields, Params, any, integer_from, object, text};

use super::config::DeliveryContext;

/// Params of `diagnostics.stability`, read by hand as the original does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StabilityParams {
    /// The last so many records.
    pub limit: Option<Value>,
    /// Only of this type.
    pub kind: Option<Value>,
    /// Only those after this one.
    pub since_seq: Option<Value>,
}

impl Params for StabilityParams {
    fn read(f: &mut Fields) -> Self {
        let read = Self {
            limit: f.optional("limit", any()),
            kind: f.optional("type", any()),
            since_seq: f.optional("sinceSeq", any()),
        };
        f.ignore_rest();
        read
    }
}

/// Params of `update.run`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdateRunParams {
    /// The session that asked.
    pub session_key: Option<String>,
    /// The chat that asked.
    pub delivery_context: Option<DeliveryContext>,
    /// What it noted.
    pub note: Option<String>,
}

impl Params for UpdateRunParams {
    fn read(f: &mut Fields) -> Self {
        let session_key = f.optional("sessionKey", text());
        let delivery_context = f.optional("deliveryContext", object());
        let note = f.optional("note", text());
        f.optional("continuationMessage", text());
        f.optional("restartDelayMs", integer_from(0));
        f.optional("timeoutMs", integer_from(1));
        Self { session_key, delivery_context, note }
    }
}
