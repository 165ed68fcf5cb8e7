//! `/compact`: what is long ago gives way to a summary.

use serde_json::{Map, Value};

use super::refusal;
use crate::agent::status::tokens;
use crate::registry::Ctx;
use crate::sessions::SessionKey;
use crate::support::json;

/// Does it; `instructions` go to the model that sums up.
pub async fn run(instructions: &str, cx: &Ctx, key: &SessionKey) -> String {
    let mut params = Map::from_iter([("key".to_owned(), json!(key.as_str()))]);
    if !instructions.is_empty() {
        params.insert("instructions".to_owned(), json!(instructions));
    }
    let done = match cx.call("sessions.compact", &Value::Object(params)).await {
        Ok(done) => done,
        Err(error) => return refusal(cx, "/compact", &error),
    };
    if done["compacted"] != true {
        let reason = done["reason"].as_str().unwrap_or("nothing to sum up");
        return format!("⚙️ Compaction skipped: {reason}");
    }
    let number = |name: &str| done["result"][name].as_u64().unwrap_or_default();
    let (before, after) = (number("tokensBefore"), number("tokensAfter"));
    let entry = cx.services.sessions.entry(key).await.ok().flatten();
    let window = cx.services.models.of_session(key, entry.as_ref()).context_window();
    let window = window.unwrap_or_default().max(1);
    format!(
        "⚙️ Compacted ({} → {}) • Context {}/{} ({}%)",
        tokens(before),
        tokens(after),
        tokens(after),
        tokens(window),
        after * 100 / window
    )
}
