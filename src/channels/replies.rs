//! Replies of runs, on their way back to where their messages came from.
//!
//! Promises: that a reply is expected is written down before its run is
//! accepted; it goes into the outbox in the same commit that ends the
//! expecting. So a crash loses none, and makes none go out twice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::body::Body;
use super::channel::Channel;
use super::chunk::{Measure, chunks};
use super::service::Channels;
use super::state::Account;
use crate::agent::{AbortReason, Family, RunEnd, RunReport, Runs, shown_text};
use crate::config::channels::ReplyToMode;
use crate::protocol::message::{AgentMessage, text_of};
use crate::sessions::{HistoryOptions, SessionKey};
use crate::store::{ExpectedReply, NewPart, OutboxAddress, StoreError};

/// How often "is typing" is shown again; services forget it after 5 s.
const TYPING_EVERY: Duration = Duration::from_secs(4);
/// Time between two looks at a reply that is shown while it is written; more
/// often is more than services take.
const PREVIEW_EVERY: Duration = Duration::from_millis(1200);
/// A preview begins when so much is there: less is gone in a moment.
const PREVIEW_MIN: usize = 30;
/// How far back the reply of a run of the last process is looked for.
const LOOK_BACK: usize = 400;
/// How long the store may fail before its next try.
const STORE_PAUSE: Duration = Duration::from_secs(2);
/// What somebody hears whose message was being answered when the gateway stopped.
const INTERRUPTED: &str =
    "⚠️ The gateway stopped before it had answered. Send your message again to get an answer.";

/// A run whose reply goes to a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyTo {
    /// The run.
    pub run_id: String,
    /// By which method it came.
    pub family: Family,
    /// Its session.
    pub key: SessionKey,
    /// Where the reply goes.
    pub address: OutboxAddress,
    /// The message that it answers.
    pub reply_to: Option<String>,
}

impl Channels {
    /// Writes down that a run's reply is to go out; before the run is accepted.
    /// `false` when that is known already.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub async fn expect(&self, reply: &ReplyTo) -> Result<bool, StoreError> {
        let expected = ExpectedReply {
            run_id: reply.run_id.clone(),
            scope: reply.family.as_str().into(),
            session_key: reply.key.to_string(),
            address: reply.address.clone(),
            reply_to: reply.reply_to.clone(),
            preview: None,
            created_at: self.0.parts.clock.now_ms(),
        };
        self.0.parts.store.expect_reply(expected).await
    }

    /// The run was not accepted after all.
    ///
    /// # Errors
    /// When that cannot be written down.
    pub async fn expect_no_more(&self, run_id: &str) -> Result<(), StoreError> {
        let now = self.0.parts.clock.now_ms();
        self.0.parts.store.settle_reply(run_id.into(), Vec::new(), now).await.map(drop)
    }

    /// Waits for the end of an accepted run, and sends its reply.
    pub fn follow(&self, reply: ReplyTo) {
        let channels = self.clone();
        self.0.parts.tasks.spawn("reply", async move { channels.follow_to_end(reply, None).await });
    }

    /// Sends a text in the place of a reply that is expected.
    pub(super) async fn answer(&self, reply: &ReplyTo, text: &str) -> Result<(), String> {
        let parts = self.parts_of(reply, &reply.run_id, text, None);
        self.settle(reply, parts).await.map_err(|error| error.to_string())
    }

    /// Goes on with the replies that the last process left.
    pub(super) async fn resume_replies(&self, runs: &Arc<Runs>) -> Result<(), StoreError> {
        for row in self.0.parts.store.expected_replies().await? {
            let is_agent = row.scope == Family::Agent.as_str();
            let family = if is_agent { Family::Agent } else { Family::Chat };
            let reply = ReplyTo {
                run_id: row.run_id,
                family,
                key: SessionKey::from_canonical(row.session_key),
                address: row.address,
                reply_to: row.reply_to,
            };
            if runs.ended(Some(family), &reply.run_id).await?.is_some() {
                let channels = self.clone();
                let going_on = async move { channels.follow_to_end(reply, row.preview).await };
                self.0.parts.tasks.spawn("reply", going_on);
            } else {
                // It was never accepted: whoever has the message comes again.
                self.expect_no_more(&reply.run_id).await?;
            }
        }
        Ok(())
    }

    async fn follow_to_end(&self, reply: ReplyTo, mut preview: Option<String>) {
        let Some(runs) = self.runs() else { return };
        let report = match self.watch_to_end(&runs, &reply, &mut preview).await {
            Ok(report) => report,
            Err(error) => {
                tracing::error!(run = reply.run_id, %error, "end of a run not known; its reply \
                    is sent after the next start");
                return;
            }
        };
        let is_own_stop = report.end == RunEnd::Aborted(AbortReason::Shutdown)
            && report.ended_at >= runs.started_at();
        if is_own_stop {
            // The next process says so.
            return;
        }
        let text = self.text_of(&reply, &report).await;
        let delivery = report.progress.answered_by.as_deref().unwrap_or(&reply.run_id);
        let parts = self.parts_of(&reply, delivery, &text, preview.as_deref());
        while let Err(error) = self.settle(&reply, parts.clone()).await {
            tracing::error!(run = reply.run_id, %error, "a reply is not in the outbox yet");
            tokio::time::sleep(STORE_PAUSE).await;
        }
    }

    /// Waits for the end of a run, and shows meanwhile that and what is being
    /// written. What is being shown is waited for: a message that nobody knows
    /// of would stay.
    async fn watch_to_end(
        &self,
        runs: &Arc<Runs>,
        reply: &ReplyTo,
        preview: &mut Option<String>,
    ) -> Result<Arc<RunReport>, StoreError> {
        let mut ended = std::pin::pin!(runs.ends(Some(reply.family), &reply.run_id));
        let mut typing = tokio::time::interval(TYPING_EVERY);
        let mut looks = tokio::time::interval(PREVIEW_EVERY);
        let mut shown = String::new();
        loop {
            let is_look = tokio::select! {
                biased;
                report = &mut ended => return report,
                _ = typing.tick() => false,
                _ = looks.tick() => true,
            };
            let address = &reply.address;
            let found = self.account(&address.channel, &address.account);
            let Some((account, channel)) = found.and_then(|it| Some((it.clone(), it.channel()?)))
            else {
                continue;
            };
            // Nothing is written before its turn has come.
            let progress = runs.progress(&reply.run_id).filter(|it| it.started_at.is_some());
            let Some(progress) = progress else { continue };
            if !is_look {
                channel.show_typing(&address.target, &address.thread).await;
            } else if channel.has_previews() {
                let text = first_part(&account, &*channel, &progress.text);
                if text.chars().count() >= PREVIEW_MIN && text != shown {
                    self.show_preview(&account, &*channel, reply, &text, preview).await;
                    shown = text;
                }
            }
        }
    }

    async fn settle(&self, reply: &ReplyTo, parts: Vec<NewPart>) -> Result<(), StoreError> {
        let (store, now) = (&self.0.parts.store, self.0.parts.clock.now_ms());
        store.settle_reply(reply.run_id.clone(), parts, now).await?;
        self.kick(reply.address.clone());
        Ok(())
    }

    /// What a person hears of the end of a run; empty when that is nothing.
    async fn text_of(&self, reply: &ReplyTo, report: &RunReport) -> String {
        match &report.end {
            RunEnd::Answered if !report.progress.text.is_empty() => {
                report.progress.text.to_string()
            }
            // A silent reply, or one of the last process.
            RunEnd::Answered if report.progress.started_at.is_some() => String::new(),
            RunEnd::Answered => self.stored_reply(reply).await.unwrap_or_default(),
            RunEnd::Failed(error) if report.is_interrupted() => {
                tracing::info!(run = reply.run_id, error, "told a person that a run was cut off");
                INTERRUPTED.to_owned()
            }
            RunEnd::Failed(error) => format!("⚠️ No answer: {error}"),
            RunEnd::Aborted(AbortReason::Timeout) => {
                "⚠️ It took too long and was stopped.".to_owned()
            }
            RunEnd::Aborted(AbortReason::Shutdown) => INTERRUPTED.to_owned(),
            RunEnd::Aborted(_) => String::new(),
        }
    }

    /// The reply of a run of the last process, out of its transcript.
    async fn stored_reply(&self, reply: &ReplyTo) -> Option<String> {
        let options =
            HistoryOptions { limit: LOOK_BACK, is_raw: true, ..HistoryOptions::default() };
        let page = self.0.parts.sessions.history(&reply.key, options).await;
        let messages = page
            .inspect_err(|error| tracing::error!(run = reply.run_id, %error, "reply not found"))
            .ok()?
            .messages;
        let begins = |message: &Value| message["idempotencyKey"] == reply.run_id.as_str();
        let at = messages.iter().position(begins)?;
        let said = messages.iter().skip(at + 1).take_while(|message| message["role"] != "user");
        let texts: Vec<_> = said
            .filter_map(|message| serde_json::from_value(message.clone()).ok())
            .filter_map(|message| match message {
                AgentMessage::Assistant(message) => Some(shown_text(&text_of(&message.content))),
                _ => None,
            })
            .collect();
        Some(texts.concat())
    }

    /// The messages that a text becomes.
    fn parts_of(
        &self,
        reply: &ReplyTo,
        delivery: &str,
        text: &str,
        preview: Option<&str>,
    ) -> Vec<NewPart> {
        let address = &reply.address;
        let Some(account) = self.account(&address.channel, &address.account) else {
            tracing::warn!(
                channel = address.channel,
                account = address.account,
                "a reply has nowhere to go: the account is gone"
            );
            return Vec::new();
        };
        let first = Body {
            reply_to: reply.reply_to.clone(),
            edits: preview.map(str::to_owned),
            ..Body::default()
        };
        text_parts(&account, delivery, address, text, &first)
    }

    /// Shows the beginning of a reply. Which message that is, is written down the
    /// first time, so that the reply takes its place in any case.
    async fn show_preview(
        &self,
        account: &Account,
        channel: &dyn Channel,
        reply: &ReplyTo,
        text: &str,
        preview: &mut Option<String>,
    ) {
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
                return;
            }
        };
        let (None, Some(id)) = (&preview, sent.message_id) else { return };
        let noted = self.0.parts.store.set_preview(reply.run_id.clone(), id.clone()).await;
        if let Err(error) = noted {
            tracing::warn!(run = reply.run_id, %error, "preview not noted");
        }
        *preview = Some(id);
    }
}

/// The messages that a text becomes; `first` says what the first of them is
/// beside its text.
pub(super) fn text_parts(
    account: &Account,
    delivery: &str,
    address: &OutboxAddress,
    text: &str,
    first: &Body,
) -> Vec<NewPart> {
    let config = &account.config;
    let measure = account.channel().map_or(Measure::Chars, |channel| channel.measure());
    let texts = chunks(text, config.chunk_limit, measure, config.chunk_mode);
    let of_parts = (texts.len() > 1).then_some(texts.len());
    let quotes = |place: usize| match config.reply_to {
        ReplyToMode::Off => false,
        ReplyToMode::First => place == 0,
        ReplyToMode::All => true,
    };
    let numbered = (0_u32..).zip(texts);
    numbered
        .map(|(part, text)| {
            let place = usize::try_from(part).unwrap_or(usize::MAX);
            let body = Body {
                text,
                reply_to: first.reply_to.clone().filter(|_| quotes(place)),
                edits: first.edits.clone().filter(|_| place == 0),
                is_silent: first.is_silent,
                of_parts,
                ..Body::default()
            };
            new_part(delivery, address, part, &body)
        })
        .collect()
}

/// As much of a growing text as one message holds.
fn first_part(account: &Account, channel: &dyn Channel, text: &str) -> String {
    let config = &account.config;
    let mut parts = chunks(text, config.chunk_limit, channel.measure(), config.chunk_mode);
    if parts.is_empty() { String::new() } else { parts.swap_remove(0) }
}

/// A part of the outbox.
pub(super) fn new_part(delivery: &str, address: &OutboxAddress, part: u32, body: &Body) -> NewPart {
    NewPart {
        delivery: delivery.to_owned(),
        address: address.clone(),
        part,
        // A body is texts and numbers: it always has a JSON form.
        body: serde_json::to_string(body).unwrap_or_default(),
    }
}
