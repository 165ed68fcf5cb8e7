//! Lock down mode: the dialect is shut, but for the way to open it again.
//!
//! Owns: what holds then. It is a key of the config, `gateway.dialects.chat.lockdown`, so
//! it outlives a restart, and the CLI, the Control UI and a hand in the file lift it as
//! well. Promises: while it is on, every route below `/api` of the dialect but
//! `auth/check` answers [`STATUS`], and a connection that is open does nothing but
//! `/lockdown`. Must not: touch other clients; they have rights of their own.

use serde_json::Value;

use crate::config::Settings;
use crate::registry::{Ctx, Reply};
use crate::support::json;

use super::settings;

/// Where it stands in the config.
const PATH: [&str; 4] = ["gateway", "dialects", "chat", "lockdown"];
/// The HTTP status of what is refused then.
pub const STATUS: u16 = 403;
/// What a `send` is told then.
pub const TOLD: &str = "Lock Down Mode is enabled. Send /lockdown off to end it.";

/// Whether it is on.
pub fn is_on(settings: &Settings) -> bool {
    settings.gateway.dialects.is_chat_locked
}

/// The body of what is refused then.
pub fn body() -> Value {
    json!({"status": "locked"})
}

/// Turns it on or off.
///
/// # Errors
/// When the caller may not change the config, or it cannot be written.
pub async fn set(cx: &Ctx, on: bool) -> Reply<()> {
    settings::change(cx, move |config| {
        if on {
            *settings::at(config, &PATH) = json!(true);
        } else {
            settings::remove(config, &PATH);
        }
        Ok(())
    })
    .await
}
