//! Messages that a service brings by HTTP.
//!
//! Promises: nothing of a request is looked at before it has proved who sent
//! it; it is answered well only once its message is kept.

use std::sync::Arc;

use serde_json::Value;

use super::inbound::Received;
use super::service::Channels;
use super::state::Account;
use crate::support::{BoxFuture, json};

/// What a request takes beside its files, in bytes.
const ENVELOPE: u64 = 256 * 1024;

/// A request to a path of a channel.
pub struct HookRequest<'a> {
    /// The value of a header; names are in small letters.
    pub header: &'a (dyn Fn(&str) -> Option<String> + Sync),
    /// All of its body.
    pub body: &'a [u8],
}

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct HookAnswer {
    /// Status.
    pub status: u16,
    /// JSON.
    pub body: Value,
    /// Whether the sender has proved who it is.
    pub is_known: bool,
}

/// Why a request is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookRefusal {
    /// It does not prove who sent it.
    #[error("the request is not signed as it has to be")]
    Unauthorized,
    /// It is not what it has to be.
    #[error("{0}")]
    Malformed(String),
    /// It cannot be read yet; whoever has it should come again.
    #[error("{0}")]
    Later(String),
}

impl From<HookRefusal> for HookAnswer {
    fn from(refusal: HookRefusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            HookRefusal::Unauthorized => Self::error(401, &text),
            HookRefusal::Malformed(_) => Self::failed(400, &text),
            HookRefusal::Later(_) => Self::failed(503, &text),
        }
    }
}

impl HookAnswer {
    /// An error in words, for somebody who has proved nothing.
    pub fn error(status: u16, text: &str) -> Self {
        Self { status, body: json!({"ok": false, "error": text}), is_known: false }
    }

    /// The same for somebody who has proved who it is.
    fn failed(status: u16, text: &str) -> Self {
        Self { is_known: true, ..Self::error(status, text) }
    }

    /// For somebody who has proved who it is.
    fn known(status: u16, body: Value) -> Self {
        Self { status, body, is_known: true }
    }
}

impl Channels {
    /// The account of a path: one that is in use before one that is turned off and has it, too.
    fn account_at(&self, path: &str) -> Option<Arc<Account>> {
        let accounts = self.0.accounts.now();
        let all = accounts.values().filter(|it| it.config.inbound_path() == Some(path));
        all.min_by_key(|it| it.channel().is_none()).cloned()
    }

    /// Most bytes of a request to a path, when a channel has it.
    pub fn hook_limit(&self, path: &str) -> Option<u64> {
        let account = self.account_at(path)?;
        // Files are in base64.
        Some(account.config.media_max_mb * 1024 * 1024 * 4 / 3 + ENVELOPE)
    }

    /// Whether the head of a request to a path proves who sent it; `None` where
    /// that takes the whole of it, or nobody is there to say.
    pub fn knows_hook(
        &self,
        path: &str,
        header: &(dyn Fn(&str) -> Option<String> + Sync),
    ) -> Option<bool> {
        self.account_at(path)?.channel()?.knows_hook(header)
    }

    /// Takes a request to a path.
    pub fn hook<'a>(
        &'a self,
        path: &'a str,
        request: HookRequest<'a>,
    ) -> BoxFuture<'a, HookAnswer> {
        Box::pin(async move {
            let account = self.account_at(path);
            let Some((account, channel)) = account.and_then(|it| Some((it.clone(), it.channel()?)))
            else {
                return HookAnswer::error(503, "this channel is not running");
            };
            let inbound = match channel.read_hook(&request) {
                Ok(Some(inbound)) => inbound,
                Ok(None) => return HookAnswer::known(200, json!({"ok": true})),
                Err(refusal) => return refusal.into(),
            };
            self.acknowledge(&account, &inbound);
            match self.take_in(&account, inbound).await {
                Some(Ok(received)) => HookAnswer::known(200, told(&received)),
                Some(Err(why)) => HookAnswer::failed(503, &why),
                None => HookAnswer::failed(500, "it failed inside the gateway"),
            }
        })
    }
}

fn told(received: &Received) -> Value {
    match received {
        Received::Accepted(run) => json!({"ok": true, "status": "accepted", "runId": run}),
        Received::Ignored(why) => json!({"ok": true, "status": "ignored", "reason": why}),
        Received::Pairing => json!({"ok": true, "status": "pairing"}),
    }
}
