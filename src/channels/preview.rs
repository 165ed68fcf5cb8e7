//! The beginning of a reply, where it is shown while it is written.
//!
//! Promises: which message that is, is written down, so that the reply takes its place in any
//! case.

use super::body::Body;
use super::channel::{Channel, SendFailure};
use super::chunk::{Measure, chunks};
use super::replies::ReplyTo;
use super::service::Channels;
use super::state::Account;
use crate::config::channels::ReplyToMode;

impl Channels {
    /// Shows the beginning of a reply. Which message that is, is written down the
    /// first time, so that the reply takes its place in any case. Answers whether
    /// it stands there, and whether more may be shown: not after a first message
    /// that is refused, or that the service may have while nobody knows its id.
    pub(super) async fn show_preview(
        &self,
        account: &Account,
        channel: &dyn Channel,
        reply: &ReplyTo,
        text: &str,
        preview: &mut Option<String>,
    ) -> (bool, bool) {
        let quotes = account.config.reply_to != ReplyToMode::Off;
        let body = Body {
            text: text.to_owned(),
            reply_to: reply.reply_to.clone().filter(|_| quotes),
            edits: preview.clone(),
            ..Body::default()
        };
        let sent = match channel.preview(&reply.address, &body).await {
            Ok(sent) => sent,
            Err(error) => {
                tracing::debug!(run = reply.run_id, %error, "preview not shown");
                let is_later = matches!(error, SendFailure::Later { .. });
                return (false, preview.is_some() || is_later);
            }
        };
        let (None, Some(id)) = (&preview, sent.message_id) else {
            return (true, preview.is_some());
        };
        let noted = self.0.parts.store.set_preview(reply.run_id.clone(), id.clone()).await;
        if let Err(error) = noted {
            tracing::warn!(run = reply.run_id, %error, "preview not noted");
        }
        *preview = Some(id);
        (true, true)
    }
}

/// As much of a growing text as one message holds.
pub(super) fn first_part(account: &Account, text: &str) -> String {
    let config = &account.config;
    let measure = Measure::of_service(config.kind);
    let mut parts = chunks(text, config.chunk_limit, measure, config.chunk_mode);
    if parts.is_empty() { String::new() } else { parts.swap_remove(0) }
}
