//! Replies of runs, on their way back to where their messages came from.
//!
//! Promises: that a reply is expected is written down before its run is
//! accepted; it goes into the outbox in the same commit that ends the
//! expecting. So a crash loses none, and makes none go out twice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::body::Body;
use super::channel::{Channel, SendFailure};
use super::chunk::{Measure, chunks};
use super::followers::Follower;
use super::parts::{Message, message_parts};
use super::service::Channels;
use super::state::Account;
use crate::agent::{
    AbortReason, Family, RunEnd, RunReport, Runs, add_turn, named_files, shown_text,
};
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
/// How long the store may fail before its next try …
const STORE_PAUSE: Duration = Duration::from_secs(2);
/// … and at most: a record that is broken is never read.
const STORE_PAUSE_MAX: Duration = Duration::from_mins(1);
/// What somebody hears whose message was being answered when the gateway stopped.
const INTERRUPTED: &str =
    "⚠️ The gateway stopped before it had answered. Send your message again to get an answer.";

/// What somebody hears whose message was being answered when somebody else stopped that.
const STOPPED: &str = "⚠️ It was stopped.";

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

/// What a run says in the end.
#[derive(Debug, Default)]
struct Said {
    text: String,
    /// What it names for its reader.
    files: Vec<String>,
}

impl Channels {
    /// Writes down that a run's reply is to go out; before the run is accepted.
    /// `false` when that is known already.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub async fn expect(&self, reply: &ReplyTo) -> Result<bool, StoreError> {
        if !self.0.resumed.initialized() {
            self.0.followers.own(&reply.run_id);
        }
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

    /// The run was not accepted after all, and its reply was not expected before.
    ///
    /// # Errors
    /// When that cannot be written down.
    pub async fn expect_no_more(&self, run_id: &str) -> Result<(), StoreError> {
        let now = self.0.parts.clock.now_ms();
        self.0.parts.store.settle_reply(run_id.into(), Vec::new(), now).await.map(drop)
    }

    /// Goes on with the reply of a run that was not accepted after all, if the last process owes
    /// it: once there are runs, and the database can be read.
    pub fn resume_later(&self, run_id: String) {
        let channels = self.clone();
        self.0.parts.tasks.spawn("reply", async move {
            let Some(runs) = channels.begun().await else { return };
            while let Err(error) = channels.resume_if_expected(&runs, &run_id).await {
                tracing::error!(run = run_id, %error, "a reply is still expected");
                tokio::select! {
                    // The next process looks again.
                    () = channels.0.closing.cancelled() => return,
                    () = tokio::time::sleep(STORE_PAUSE) => {}
                }
            }
        });
    }

    /// There is the run of a reply that is expected, or there is none. `is_new`: it was not
    /// expected before.
    pub async fn settle_expected(&self, reply: ReplyTo, is_new: bool, has_run: bool) {
        if has_run {
            // Also when it was expected before, and there was no run then.
            self.follow(reply);
        } else if is_new {
            if let Err(error) = self.expect_no_more(&reply.run_id).await {
                tracing::error!(run = reply.run_id, %error, "a reply is still expected");
            }
        } else {
            self.resume_later(reply.run_id);
        }
    }

    /// Waits for the end of an accepted run, and sends its reply; nothing where somebody
    /// does already.
    pub fn follow(&self, reply: ReplyTo) {
        if let Some(follower) = self.0.followers.take(&reply.run_id, &reply.address) {
            self.follow_as(follower, reply, None);
        }
    }

    fn follow_as(&self, follower: Follower, reply: ReplyTo, preview: Option<String>) {
        let channels = self.clone();
        self.0.parts.tasks.spawn("reply", async move {
            channels.follow_to_end(reply, preview).await;
            drop(follower);
        });
    }

    /// Sends a text in the place of a reply that is expected.
    pub(super) async fn answer(&self, reply: &ReplyTo, text: &str) -> Result<(), String> {
        let Some(runs) = self.runs() else { return Err("the gateway is starting".into()) };
        let said = Said { text: text.to_owned(), files: Vec::new() };
        let parts = self.parts_of(&runs, reply, &reply.run_id, said, None).await;
        self.settle(reply, parts).await.map_err(|error| error.to_string())
    }

    /// Goes on with the replies that the last process left, those that are followed excepted.
    /// No clock tells which these are: it may have been set back.
    pub(super) async fn resume_replies(&self, runs: &Arc<Runs>) -> Result<(), StoreError> {
        let rows = self.0.parts.store.expected_replies().await?;
        // The others may be about to be accepted.
        for row in rows.into_iter().filter(|row| !self.0.followers.is_own(&row.run_id)) {
            let run_id = row.run_id.clone();
            if !self.resume_reply(runs, row).await? {
                // It was never accepted: whoever has the message comes again.
                self.expect_no_more(&run_id).await?;
            }
        }
        Ok(())
    }

    /// Goes on with a reply, unless somebody does already; `false` when there is no run of it,
    /// and nobody waits for one.
    async fn resume_reply(&self, runs: &Runs, row: ExpectedReply) -> Result<bool, StoreError> {
        let is_agent = row.scope == Family::Agent.as_str();
        let family = if is_agent { Family::Agent } else { Family::Chat };
        let reply = ReplyTo {
            run_id: row.run_id,
            family,
            key: SessionKey::from_canonical(row.session_key),
            address: row.address,
            reply_to: row.reply_to,
        };
        if runs.ended(Some(family), &reply.run_id).await?.is_none() {
            // Who is about to follow it finds its place free.
            return Ok(self.0.followers.has(&reply.run_id));
        }
        if let Some(follower) = self.0.followers.take(&reply.run_id, &reply.address) {
            self.follow_as(follower, reply, row.preview);
        }
        Ok(true)
    }

    /// Goes on with the reply of a run, if one is expected.
    async fn resume_if_expected(&self, runs: &Runs, run_id: &str) -> Result<(), StoreError> {
        let mut rows = self.0.parts.store.expected_replies().await?.into_iter();
        match rows.find(|row| row.run_id == run_id) {
            Some(row) => self.resume_reply(runs, row).await.map(drop),
            None => Ok(()),
        }
    }

    /// Runs, once the channels have begun; `None` at the end of the gateway.
    async fn begun(&self) -> Option<Arc<Runs>> {
        tokio::select! {
            biased;
            runs = self.0.runs.wait() => runs.upgrade(),
            () = self.0.closing.cancelled() => None,
        }
    }

    async fn follow_to_end(&self, reply: ReplyTo, mut preview: Option<String>) {
        let Some(runs) = self.begun().await else { return };
        let mut pause = STORE_PAUSE;
        let report = loop {
            match self.watch_to_end(&runs, &reply, &mut preview).await {
                Ok(report) => break report,
                Err(error) => {
                    tracing::error!(run = reply.run_id, %error, "end of a run not known yet");
                    tokio::select! {
                        // The next process looks again.
                        () = self.0.closing.cancelled() => return,
                        () = tokio::time::sleep(pause) => {}
                    }
                    pause = pause.saturating_mul(2).min(STORE_PAUSE_MAX);
                }
            }
        };
        let is_own_stop =
            report.end == RunEnd::Aborted(AbortReason::Shutdown) && runs.is_stopping();
        if is_own_stop {
            // The next process says so.
            return;
        }
        let answering = report.progress.answered_by.as_deref();
        if let Some(answering) = answering {
            // Its answer takes the place of what was shown of it, which would stay beside
            // the answer if this one came first. After it, the same answer goes out no more.
            self.0.followers.through(answering, &reply.address).await;
        }
        let said = self.answer_of(&reply, &report).await;
        let delivery = answering.unwrap_or(&reply.run_id);
        let parts = self.parts_of(&runs, &reply, delivery, said, preview).await;
        while let Err(error) = self.settle(&reply, parts.clone()).await {
            tracing::error!(run = reply.run_id, %error, "a reply is not in the outbox yet");
            tokio::time::sleep(STORE_PAUSE).await;
        }
    }

    /// Waits for the end of a run, and shows meanwhile that and what is being
    /// written. What is being shown is waited for, and after a first message whose
    /// id is not known none is tried again: a message that nobody knows of would
    /// stay.
    async fn watch_to_end(
        &self,
        runs: &Arc<Runs>,
        reply: &ReplyTo,
        preview: &mut Option<String>,
    ) -> Result<Arc<RunReport>, StoreError> {
        let mut ended = std::pin::pin!(runs.ends(Some(reply.family), &reply.run_id));
        let mut typing = tokio::time::interval(TYPING_EVERY);
        let mut looks = tokio::time::interval(PREVIEW_EVERY);
        let (mut shown, mut may_show) = (String::new(), true);
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
            } else if may_show && channel.has_previews() {
                let text = first_part(&account, &progress.paragraphs());
                if text.chars().count() >= PREVIEW_MIN && text != shown {
                    may_show = self.show_preview(&account, &*channel, reply, &text, preview).await;
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

    /// What a person gets of the end of a run; empty when that is nothing.
    async fn answer_of(&self, reply: &ReplyTo, report: &RunReport) -> Said {
        let words = |text: String| Said { text, files: Vec::new() };
        let progress = &report.progress;
        match &report.end {
            // A silent reply says nothing, and may have files.
            RunEnd::Answered if progress.started_at.is_some() || !progress.text.is_empty() => {
                Said { text: progress.paragraphs(), files: progress.files.clone() }
            }
            // One of the last process.
            RunEnd::Answered => self.stored_reply(reply).await.unwrap_or_default(),
            RunEnd::Failed(error) if report.is_interrupted() => {
                tracing::info!(run = reply.run_id, error, "told a person that a run was cut off");
                words(INTERRUPTED.to_owned())
            }
            RunEnd::Failed(error) => words(format!("⚠️ No answer: {error}")),
            RunEnd::Aborted(AbortReason::Timeout) => {
                words("⚠️ It took too long and was stopped.".to_owned())
            }
            RunEnd::Aborted(AbortReason::Shutdown) => words(INTERRUPTED.to_owned()),
            // After what was said so far, of which the beginning may be shown.
            RunEnd::Aborted(_) if progress.is_taken_away => {
                let mut text = progress.paragraphs();
                add_turn(&mut text, STOPPED);
                words(text)
            }
            // Who is answered has asked for it.
            RunEnd::Aborted(_) => Said::default(),
        }
    }

    /// The reply of a run of the last process, out of its transcript.
    async fn stored_reply(&self, reply: &ReplyTo) -> Option<Said> {
        let options =
            HistoryOptions { limit: LOOK_BACK, is_raw: true, ..HistoryOptions::default() };
        let page = self.0.parts.sessions.history(&reply.key, options).await;
        let messages = page
            .inspect_err(|error| tracing::error!(run = reply.run_id, %error, "reply not found"))
            .ok()?
            .messages;
        let begins = |message: &Value| message["idempotencyKey"] == reply.run_id.as_str();
        let at = messages.iter().position(begins)?;
        let told = messages.iter().skip(at + 1).take_while(|message| message["role"] != "user");
        let mut said = Said::default();
        for message in told.filter_map(|message| serde_json::from_value(message.clone()).ok()) {
            let files = match message {
                AgentMessage::Assistant(message) => {
                    let text = text_of(&message.content);
                    let is_whole = message.stop_reason.ended_by_itself();
                    add_turn(&mut said.text, &shown_text(&text, is_whole));
                    named_files::of_answer(&text, is_whole)
                }
                AgentMessage::ToolResult(result) => named_files::of_result(
                    &result.tool_name,
                    &result.content,
                    result.details.as_ref(),
                ),
                AgentMessage::User(_) => continue,
            };
            named_files::add(&mut said.files, files);
        }
        Some(said)
    }

    /// The messages that an answer becomes.
    async fn parts_of(
        &self,
        runs: &Runs,
        reply: &ReplyTo,
        delivery: &str,
        said: Said,
        preview: Option<String>,
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
        let (media, told) = self.attach(runs, &account, &reply.key, &said.files).await;
        let text = format!("{}{told}", said.text);
        let first = Body { reply_to: reply.reply_to.clone(), edits: preview, ..Body::default() };
        let (text, quotes) = (text.trim_start_matches('\n'), account.config.reply_to);
        let message = Message { text, media: &media, first, quotes };
        message_parts(&account, delivery, address, &message)
    }

    /// Shows the beginning of a reply. Which message that is, is written down the
    /// first time, so that the reply takes its place in any case. Answers whether
    /// more may be shown: not after a first message that is refused, or that the
    /// service may have while nobody knows its id.
    async fn show_preview(
        &self,
        account: &Account,
        channel: &dyn Channel,
        reply: &ReplyTo,
        text: &str,
        preview: &mut Option<String>,
    ) -> bool {
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
                return preview.is_some() || matches!(error, SendFailure::Later { .. });
            }
        };
        let (None, Some(id)) = (&preview, sent.message_id) else { return preview.is_some() };
        let noted = self.0.parts.store.set_preview(reply.run_id.clone(), id.clone()).await;
        if let Err(error) = noted {
            tracing::warn!(run = reply.run_id, %error, "preview not noted");
        }
        *preview = Some(id);
        true
    }
}

/// As much of a growing text as one message holds.
fn first_part(account: &Account, text: &str) -> String {
    let config = &account.config;
    let measure = Measure::of_service(config.kind);
    let mut parts = chunks(text, config.chunk_limit, measure, config.chunk_mode);
    if parts.is_empty() { String::new() } else { parts.swap_remove(0) }
}
