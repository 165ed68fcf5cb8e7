//! `plugins.uiDescriptors`.

use serde_json::Value;

use crate::protocol::methods::NoParams;
use crate::registry::{Ctx, Reply};
use crate::support::json;

/// `plugins.uiDescriptors`: parts of the control UI that plugins bring. This
/// gateway loads none of the original's plugins, and `health` says so too.
pub async fn ui_descriptors(_: Ctx, _: NoParams) -> Reply<Value> {
    Ok(json!({"ok": true, "descriptors": []}))
}
