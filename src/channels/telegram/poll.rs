//! How updates come: we ask for them, or Telegram brings them.
//!
//! Promises: the API hears that we have an update only after it was passed on
//! and that was written down; so none is lost over a crash, and one that comes
//! again is known by its message.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Telegram;
use super::update::{self, Bot};
use crate::channels::channel::Ear;
use crate::channels::inbound::Inbound;

/// How long the API may wait for something to tell, in seconds.
const WAIT_SECONDS: u64 = 25;
/// How long such a call may take in all.
const CALL: Duration = Duration::from_secs(45);
/// Most updates at a time, the most that the API gives.
const BATCH: u64 = 100;
/// What is kept: the bot, and the first of its updates that we have not.
const OFFSET: &str = "offset";
/// How often an update is tried that cannot be passed on: then it is given up,
/// or nothing would ever come after it …
const TRIES: u32 = 8;
/// … and how long it waits the first time.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the pictures of an album take that were sent together, as in the
/// original.
const ALBUM_PAUSE: Duration = Duration::from_millis(500);
/// The updates that we want.
const WANTED: [&str; 1] = ["message"];

/// Asks for updates until that fails; answers why.
pub(super) async fn poll(bot: Arc<Telegram>, ear: Arc<dyn Ear>) -> String {
    match ask(&bot, &*ear).await {
        Ok(never) => match never {},
        Err(why) => why,
    }
}

async fn ask(telegram: &Telegram, ear: &dyn Ear) -> Result<std::convert::Infallible, String> {
    let failed = |error: super::ApiError| error.to_string();
    let bot = telegram.introduce().await.map_err(failed)?;
    // While Telegram brings updates, it gives none to those who ask.
    let params = json!({"drop_pending_updates": false});
    telegram.api.call("deleteWebhook", &params).await.map_err(failed)?;
    ear.is_well();
    let noted = ear.recall(OFFSET).await?;
    let mut offset = noted.and_then(|note| known_offset(&note, &bot));
    loop {
        let mut params =
            json!({"timeout": WAIT_SECONDS, "limit": BATCH, "allowed_updates": WANTED});
        if let Some(offset) = offset {
            params["offset"] = json!(offset);
        }
        let mut updates =
            telegram.api.call_for("getUpdates", &params, CALL).await.map_err(failed)?;
        ear.is_well();
        if ends_in_album(&updates) {
            // The rest of it is on its way. What is not confirmed comes again.
            tokio::time::sleep(ALBUM_PAUSE).await;
            params["timeout"] = json!(0);
            updates = telegram.api.call_for("getUpdates", &params, CALL).await.map_err(failed)?;
        }
        let updates = updates.as_array().cloned().unwrap_or_default();
        let fresh = |update: &&Value| {
            let id = update["update_id"].as_i64();
            id.is_some_and(|id| offset.is_none_or(|offset| id >= offset))
        };
        let fresh: Vec<_> = updates.iter().filter(fresh).collect();
        for together in fresh.chunk_by(|one, next| update::is_same_album(one, next)) {
            let Some(id) = together.last().and_then(|update| update["update_id"].as_i64()) else {
                continue;
            };
            if let Some(inbound) = update::read_album(together, &bot) {
                pass_on(inbound, id, ear).await;
            }
            let next = id.saturating_add(1);
            ear.keep(OFFSET, format!("{} {next}", bot.id)).await?;
            offset = Some(next);
        }
    }
}

/// The first update that we have not, where that was learned with this bot: each
/// counts its own, and those before it would be lost. Without it Telegram gives
/// what it has not heard that we have.
fn known_offset(note: &str, bot: &Bot) -> Option<i64> {
    let (id, next) = note.split_once(' ')?;
    if id == bot.id.to_string() { next.parse().ok() } else { None }
}

/// Whether the last update is a part of an album, so that more of it may come.
fn ends_in_album(updates: &Value) -> bool {
    let last = updates.as_array().and_then(|updates| updates.last());
    last.is_some_and(|update| !update["message"]["media_group_id"].is_null())
}

async fn pass_on(inbound: Inbound, id: i64, ear: &dyn Ear) {
    let mut pause = PAUSE;
    for tried in 1..=TRIES {
        match ear.hear(inbound.clone()).await {
            Ok(_) => return,
            Err(why) if tried == TRIES => {
                tracing::error!(update = id, why, "update given up");
                return ear.give_up(inbound, why).await;
            }
            Err(why) => {
                tracing::warn!(update = id, why, "update not taken; trying again");
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2);
            }
        }
    }
}

/// Tells Telegram where to bring updates. Ends only when that fails.
pub(super) async fn register(bot: Arc<Telegram>, ear: Arc<dyn Ear>) -> String {
    let Some((url, secret)) = &bot.webhook else { return "webhookUrl is not set".into() };
    let params = json!({"url": url, "secret_token": secret.expose(), "allowed_updates": WANTED});
    let registered = async {
        bot.introduce().await?;
        bot.api.call("setWebhook", &params).await
    };
    if let Err(error) = registered.await {
        return error.to_string();
    }
    ear.is_well();
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_counts_for_the_bot_that_it_was_learned_with() {
        let bot = Bot { id: 99, username: "claw_bot".into() };
        for (note, offset) in [
            ("99 1001", Some(1001)),
            ("98 1001", None),
            ("9 91001", None),
            // An earlier version kept no bot.
            ("1001", None),
            ("99 x", None),
        ] {
            assert_eq!(known_offset(note, &bot), offset, "{note}");
        }
    }
}
