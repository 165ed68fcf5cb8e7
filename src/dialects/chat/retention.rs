//! How long conversations are kept: `session.maintenance.pruneAfter` in the four words
//! of the dialect.

use serde_json::Value;

use crate::config::{MaintenanceMode, Settings};
use crate::protocol::ErrorShape;
use crate::registry::{Ctx, Reply};
use crate::support::json;

use super::{book, settings};

const HOUR_MS: u64 = 60 * 60 * 1000;
/// The words, and what they mean in milliseconds.
const POLICIES: [(&str, Option<u64>); 4] = [
    ("24h", Some(24 * HOUR_MS)),
    ("7d", Some(7 * 24 * HOUR_MS)),
    ("30d", Some(30 * 24 * HOUR_MS)),
    ("never", None),
];
const SECTION: [&str; 2] = ["session", "maintenance"];

/// The word for what holds now; hours when somebody chose another time.
pub fn policy(settings: &Settings) -> String {
    let maintenance = &settings.session.maintenance;
    let is_done = maintenance.mode == MaintenanceMode::Enforce;
    let after = maintenance.prune_after_ms.filter(|_| is_done);
    let known = POLICIES.iter().find(|(_, millis)| *millis == after);
    match (known, after) {
        (Some((word, _)), _) => (*word).to_owned(),
        (None, after) => format!("{}h", after.unwrap_or_default().div_ceil(HOUR_MS)),
    }
}

/// The words there are.
pub fn options() -> Vec<&'static str> {
    POLICIES.iter().map(|(word, _)| *word).collect()
}

/// Chooses one.
///
/// # Errors
/// For another word, and when the config may not or cannot be changed.
pub async fn set(cx: &Ctx, word: &str) -> Reply<()> {
    let Some((word, millis)) = POLICIES.iter().find(|(known, _)| *known == word) else {
        let text = format!("Invalid policy. Valid: {}", options().join(", "));
        return Err(ErrorShape::invalid(text));
    };
    settings::change(cx, move |config| {
        // Another key for the same would go on to hold.
        settings::remove(config, &[SECTION[0], SECTION[1], "pruneDays"]);
        if millis.is_some() {
            let section = settings::at(config, &SECTION);
            section["pruneAfter"] = json!(word);
            section["mode"] = json!(MaintenanceMode::Enforce.as_str());
        } else {
            settings::remove(config, &[SECTION[0], SECTION[1], "pruneAfter"]);
        }
        Ok(())
    })
    .await
}

/// `GET /api/sessions/stats`.
///
/// # Errors
/// Those of [`book::all`].
pub async fn stats(cx: &Ctx) -> Reply<Value> {
    let all = book::all(cx).await?;
    Ok(json!({
        "total_sessions": all.len(),
        "total_messages": all.iter().map(|it| it.messages).sum::<u64>(),
        "archival_policy": policy(&cx.services.settings.now()),
    }))
}
