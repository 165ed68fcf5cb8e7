//! `diagnostics.stability`, `update.run`.

use serde_json::Value;

use crate::protocol::decode::{Fields, Params, any, integer_from, object, text, text_or_number};

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

/// Where somebody wants to hear of an update.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateDelivery;

impl Params for UpdateDelivery {
    fn read(f: &mut Fields) -> Self {
        for name in ["channel", "to", "accountId"] {
            f.optional(name, text());
        }
        f.optional("threadId", text_or_number());
        Self
    }
}

/// Params of `update.run`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateRunParams {
    /// The session that asked.
    pub session_key: Option<String>,
    /// What it noted.
    pub note: Option<String>,
}

impl Params for UpdateRunParams {
    fn read(f: &mut Fields) -> Self {
        let session_key = f.optional("sessionKey", text());
        f.optional("deliveryContext", object::<UpdateDelivery>());
        let note = f.optional("note", text());
        f.optional("continuationMessage", text());
        f.optional("restartDelayMs", integer_from(0));
        f.optional("timeoutMs", integer_from(1));
        Self { session_key, note }
    }
}
