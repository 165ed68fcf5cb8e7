//! The channel `telegram`: the Bot API.
//!
//! Owns: what the API is asked, and what is made of its updates. Promises: an
//! update is passed on durably before the API hears that we have it, and is one
//! message however often it comes; a message of which nobody knows whether the
//! API has it is not sent again. Source: core.telegram.org/bots/api.

mod api;
mod content;
pub mod format;
mod poll;
mod send;
mod update;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use serde_json::Value;

use super::body::Body;
use super::channel::{Action, Channel, Ear, Refused, SendFailure, Sent};
use super::hook::{HookRefusal, HookRequest};
use super::inbound::{Inbound, RemoteFile};
use crate::config::channels::{ChannelAccount, TelegramSettings};
use crate::store::{OutboxAddress, OutboxPart};
use crate::support::{BoxFuture, Secret, json};

use api::{Api, ApiError};
use update::Bot;

/// The header that proves that Telegram called.
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";
/// Why something is not sent now.
const QUIET: &str = "the Bot API wants less of us";
/// Why something does not take the place of what is shown.
const OTHER_BOT: &str = "another bot has shown the beginning of it";
/// What can be done with a message that is there.
const ACTIONS: &[&str] = &["react", "edit", "delete", "pin"];

/// What a bot needs beside its settings.
pub struct TelegramParts {
    /// Its token.
    pub token: Secret,
    /// What Telegram says to be known, when it calls us.
    pub webhook_secret: Option<Secret>,
    /// Where files are that are sent.
    pub media: PathBuf,
    /// Certificates.
    pub tls: Arc<crate::agent::web::Tls>,
}

/// One bot.
pub struct Telegram {
    api: Api,
    streams: bool,
    has_link_previews: bool,
    max_bytes: usize,
    media: PathBuf,
    /// Where Telegram calls us, and what it says then.
    webhook: Option<(String, Secret)>,
    /// Who we are, once the API has told.
    bot: Mutex<Option<Bot>>,
    /// Whether people are shown which commands there are.
    shows_commands: AtomicBool,
}

impl Telegram {
    /// Whether buttons may be under a message.
    pub const HAS_BUTTONS: bool = true;

    /// One with these settings. Nobody is asked.
    pub fn new(
        account: &ChannelAccount,
        settings: &TelegramSettings,
        parts: TelegramParts,
    ) -> Self {
        let megabytes = usize::try_from(account.media_max_mb).unwrap_or(usize::MAX);
        Self {
            api: Api::new(&settings.api_root, parts.token, parts.tls),
            streams: settings.streams,
            has_link_previews: settings.has_link_previews,
            max_bytes: megabytes.saturating_mul(1024 * 1024),
            media: parts.media,
            webhook: settings.webhook_url.clone().zip(parts.webhook_secret),
            bot: Mutex::new(None),
            shows_commands: AtomicBool::new(false),
        }
    }

    /// Asks the API who we are.
    async fn introduce(&self) -> Result<Bot, ApiError> {
        let me = self.api.call("getMe", &json!({})).await?;
        let bot = Bot {
            id: me["id"].as_i64().unwrap_or_default(),
            username: me["username"].as_str().unwrap_or_default().to_owned(),
        };
        *self.bot.lock() = Some(bot.clone());
        Ok(bot)
    }

    /// Who we are, asked for where the API has not told yet.
    async fn known(&self) -> Result<Bot, SendFailure> {
        let known = self.bot.lock().clone();
        match known {
            Some(bot) => Ok(bot),
            None => self.introduce().await.map_err(|error| SendFailure::Later {
                after: error.retry_after(),
                why: error.to_string(),
            }),
        }
    }

    /// The API's id of a message that is told with its bot; `None` where that is another one. In a
    /// chat with a person each bot counts its own messages, and one may take the place of another.
    fn own<'a>(&self, id: &'a str) -> Option<&'a str> {
        let Some((bot, own)) = id.split_once(':') else { return Some(id) };
        let us = self.bot.lock().as_ref()?.id;
        (bot.parse::<i64>() == Ok(us)).then_some(own)
    }

    /// A message without what it has to do with those of another bot.
    async fn own_body(&self, body: &Body) -> Result<Body, SendFailure> {
        let mut named = [&body.edits, &body.reply_to].into_iter().flatten();
        if named.any(|id| id.contains(':')) {
            self.known().await?;
        }
        let own = |id: Option<&str>| id.and_then(|id| self.own(id)).map(str::to_owned);
        let (edits, reply_to) = (own(body.edits.as_deref()), own(body.reply_to.as_deref()));
        Ok(Body { reply_to, edits, ..body.clone() })
    }
}

/// The name of the bot that has this token.
///
/// # Errors
/// Why the API does not tell, without the token.
pub async fn bot_name(
    api_root: &str,
    token: Secret,
    tls: Arc<crate::agent::web::Tls>,
) -> Result<String, String> {
    let me = Api::new(api_root, token, tls).call("getMe", &json!({})).await;
    let me = me.map_err(|error| error.to_string())?;
    Ok(me["username"].as_str().unwrap_or_default().to_owned())
}

impl Channel for Telegram {
    fn send<'a>(
        &'a self,
        part: &'a OutboxPart,
        body: &'a Body,
    ) -> BoxFuture<'a, Result<Sent, SendFailure>> {
        Box::pin(async move {
            if let Some(wait) = self.api.quiet_in(&part.address.target) {
                return Err(SendFailure::Later { after: Some(wait), why: QUIET.to_owned() });
            }
            let own = self.own_body(body).await?;
            if part.was_cut_off() && body.edits.is_some() && own.edits.is_none() {
                // It was a message of its own, which the last process may have sent.
                return Err(SendFailure::Unknown(OTHER_BOT.to_owned()));
            }
            send::part(self, part, &own).await
        })
    }

    fn listen(self: Arc<Self>, ear: Arc<dyn Ear>) -> Option<BoxFuture<'static, String>> {
        Some(match &self.webhook {
            Some(_) => Box::pin(poll::register(self, ear)),
            None => Box::pin(poll::poll(self, ear)),
        })
    }

    fn knows_hook(&self, header: &(dyn Fn(&str) -> Option<String> + Sync)) -> Option<bool> {
        let known = self.webhook.as_ref().zip(header(SECRET_HEADER));
        Some(known.is_some_and(|((_, secret), given)| secret.matches(&given)))
    }

    fn read_hook(&self, request: &HookRequest<'_>) -> Result<Option<Inbound>, HookRefusal> {
        if self.knows_hook(request.header) != Some(true) {
            return Err(HookRefusal::Unauthorized);
        }
        let malformed = |error: serde_json::Error| HookRefusal::Malformed(error.to_string());
        let update: Value = serde_json::from_slice(request.body).map_err(malformed)?;
        // Until the API has told who we are, nobody knows what is to us.
        let unknown = || HookRefusal::Later("the Bot API has not told yet who we are".into());
        let bot = self.bot.lock().clone().ok_or_else(unknown)?;
        Ok(update::read(&update, &bot))
    }

    fn acknowledge<'a>(&'a self, message_id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(press) = update::press_of(message_id).filter(|_| !self.api.is_quiet()) else {
                return;
            };
            let params = json!({"callback_query_id": press});
            if let Err(error) = self.api.call("answerCallbackQuery", &params).await {
                tracing::debug!(%error, "a button is shown as waiting after it was pressed");
            }
        })
    }

    fn react<'a>(&'a self, to: &'a str, message_id: &'a str, emoji: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if self.api.is_quiet() {
                return;
            }
            let params = json!({"messageId": message_id, "emoji": emoji});
            let action = Action { name: "react", to, thread: None, params: &params };
            if let Err(error) = send::act(self, action).await {
                tracing::debug!(%error, "a message has no reaction");
            }
        })
    }

    fn fetch<'a>(&'a self, file: &'a RemoteFile) -> BoxFuture<'a, Result<Vec<u8>, SendFailure>> {
        Box::pin(async move {
            let refused = |why: &str| SendFailure::Refused(why.to_owned());
            let is_large = |size: u64| usize::try_from(size).is_ok_and(|it| it > self.max_bytes);
            if file.size.is_some_and(is_large) {
                return Err(refused("it is larger than channels.telegram.mediaMaxMb"));
            }
            let told = self.api.call("getFile", &json!({"file_id": file.id})).await;
            let told = told.map_err(ApiError::into_fetch_failure)?;
            let path = told["file_path"].as_str();
            let path = path.ok_or_else(|| refused("the Bot API does not say where it is"))?;
            let bytes = self.api.download(path, self.max_bytes).await;
            bytes.map_err(ApiError::into_fetch_failure)
        })
    }

    fn actions(&self) -> &'static [&'static str] {
        ACTIONS
    }

    fn act<'a>(&'a self, action: Action<'a>) -> BoxFuture<'a, Result<Value, Refused>> {
        Box::pin(send::act(self, action))
    }

    fn has_polls(&self) -> bool {
        true
    }

    fn show_typing<'a>(&'a self, to: &'a str, thread: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if self.api.is_quiet() {
                return;
            }
            let mut params = json!({"chat_id": to, "action": "typing"});
            send::add_thread(&mut params, thread);
            if let Err(error) = self.api.call("sendChatAction", &params).await {
                tracing::debug!(%error, "typing not shown");
            }
        })
    }

    fn has_previews(&self) -> bool {
        self.streams
    }

    fn preview<'a>(
        &'a self,
        address: &'a OutboxAddress,
        body: &'a Body,
    ) -> BoxFuture<'a, Result<Sent, SendFailure>> {
        Box::pin(async move {
            if self.api.is_quiet() {
                return Err(SendFailure::Later { after: None, why: QUIET.to_owned() });
            }
            let (bot, own) = (self.known().await?, self.own_body(body).await?);
            if body.edits.is_some() && own.edits.is_none() {
                return Err(SendFailure::Refused(OTHER_BOT.to_owned()));
            }
            let sent = send::preview(self, address, &own).await?;
            Ok(Sent { message_id: sent.message_id.map(|id| format!("{}:{id}", bot.id)) })
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            let bot = self.introduce().await.map_err(|error| error.to_string())?;
            Ok(json!({"ok": true, "bot": {"id": bot.id, "username": bot.username}}))
        })
    }

    fn mode(&self) -> &'static str {
        if self.webhook.is_some() { "webhook" } else { "polling" }
    }
}
