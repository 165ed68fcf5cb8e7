//! Replies of runs, on their way back to where their messages came from.
//!
//! Promises: that a reply is expected is written down before its run is
//! accepted; it goes into the outbox in the same commit that ends the
//! expecting. So a crash loses none, and makes none go out twice.

use std::sync::Arc;
use std::time::Duration;

use super::body::Body;
use super::followers::Follower;
use super::parts::{Message, message_parts, takes_place};
use super::preview::first_part;
use super::service::Channels;
use super::state::Account;
use super::workings::Workings;
use crate::agent::{AbortReason, Family, Hearer, Progress, RunEnd, RunReport, Runs, Speech};
use crate::config::TypingMode;
use crate::config::channels::ChannelKind;
use crate::sessions::SessionKey;
use crate::store::{ExpectedReply, NewPart, OutboxAddress, StoreError};

/// How often "is typing" is shown again; services forget it after 5 s.
const TYPING_EVERY: Duration = Duration::from_secs(4);
/// Time between two looks at a reply that is shown while it is written; more
/// often is more than services take.
const PREVIEW_EVERY: Duration = Duration::from_millis(1200);
/// A preview begins when so much is there: less is gone in a moment.
const PREVIEW_MIN: usize = 30;
/// How long the store may fail before its next try …
const STORE_PAUSE: Duration = Duration::from_secs(2);
/// … and at most: a record that is broken is never read.
const STORE_PAUSE_MAX: Duration = Duration::from_mins(1);

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
    /// Whether that was said in a group, and not to the agent by its name.
    pub is_overheard: bool,
}

/// A reply that is expected, until it is known whether there is a run of it.
#[must_use = "a reply that nobody settles goes out after the next start at the earliest"]
pub struct Expected {
    channels: Channels,
    reply: ReplyTo,
    /// Whether it was not expected before.
    is_new: bool,
    /// What happens in its run, from before there is one.
    workings: Option<Workings>,
}

impl Expected {
    /// Who hears it.
    pub fn hearer(&self) -> Hearer {
        self.reply.address.clone().into()
    }

    /// There is a run of it, or there is none.
    pub async fn settle(self, has_run: bool) {
        let Self { channels, reply, is_new, workings } = self;
        if has_run {
            if !is_new {
                channels.expect_again(&reply).await;
            }
            // Also when it was expected before, and there was no run then.
            channels.follow(reply, is_new, workings);
        } else if is_new && !channels.has_run(&reply.run_id) {
            if let Err(error) = channels.expect_no_more(&reply.run_id).await {
                tracing::error!(run = reply.run_id, %error, "a reply is still expected");
            }
        } else {
            channels.resume_later(reply.run_id);
        }
    }

    /// A text goes out in its place.
    pub(super) async fn answer(self, text: &str) -> Result<(), String> {
        let Self { channels, reply, .. } = self;
        let Some(runs) = channels.runs() else { return Err("the gateway is starting".into()) };
        let speech = channels.prefixed(&reply, None, words(text));
        let parts = channels.parts_of(&runs, &reply, &reply.run_id, speech, None, false).await;
        channels.settle(&reply, None, parts).await.map_err(|error| error.to_string())
    }
}

impl Channels {
    /// Writes down that a run's reply is to go out; before the run is accepted.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub async fn expect(&self, reply: ReplyTo) -> Result<Expected, StoreError> {
        // Until the replies of the last process are looked through: it is none of them.
        let _turn = if self.0.resumed.initialized() {
            None
        } else {
            Some(self.0.followers.own(&reply.run_id).await)
        };
        let is_new = self.note_expected(&reply).await?;
        let workings = self.runs().map(|runs| Workings::of(&runs, &reply));
        Ok(Expected { channels: self.clone(), reply, is_new, workings })
    }

    async fn note_expected(&self, reply: &ReplyTo) -> Result<bool, StoreError> {
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

    /// Whether a run is there now: another request with its key may have begun one.
    fn has_run(&self, run_id: &str) -> bool {
        self.runs().is_some_and(|runs| runs.accepted_at(run_id).is_some())
    }

    /// What was expected may have been the reply of an earlier run of this key that was stopped,
    /// and be settled since: that of a run which is there now is expected all the same.
    async fn expect_again(&self, reply: &ReplyTo) {
        if self.has_run(&reply.run_id)
            && let Err(error) = self.note_expected(reply).await
        {
            tracing::error!(run = reply.run_id, %error, "a reply may not be expected");
        }
    }

    /// The run was not accepted after all, and its reply was not expected before.
    async fn expect_no_more(&self, run_id: &str) -> Result<(), StoreError> {
        let now = self.0.parts.clock.now_ms();
        self.0.parts.store.settle_reply(run_id.into(), None, Vec::new(), now).await.map(drop)
    }

    /// Goes on with the reply of a run that was not accepted after all, if the last process owes
    /// it: once there are runs, and the database can be read.
    fn resume_later(&self, run_id: String) {
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

    /// Waits for the end of an accepted run, and sends its reply. Where somebody does already it
    /// may be that of an earlier run of this key: what is expected after that is sent here. What
    /// was shown of one that was expected before, it takes the place of.
    fn follow(&self, reply: ReplyTo, is_new: bool, workings: Option<Workings>) {
        let free = match self.0.followers.take(&reply.run_id, &reply.address) {
            Some(follower) if is_new => return self.follow_as(follower, reply, None, workings),
            free => free,
        };
        let channels = self.clone();
        self.0.parts.tasks.spawn("reply", async move {
            let follower = match free {
                Some(follower) => follower,
                None => channels.0.followers.take_next(&reply.run_id, &reply.address).await,
            };
            let expected = channels.0.parts.store.expected_reply(&reply.run_id).await;
            match expected {
                Ok(Some(row)) => channels.follow_as(follower, reply, row.preview, workings),
                Ok(None) => {}
                // It is followed as well: what is not expected is not sent.
                Err(error) => {
                    tracing::error!(run = reply.run_id, %error, "expected replies not read");
                    channels.follow_as(follower, reply, None, workings);
                }
            }
        });
    }

    fn follow_as(
        &self,
        follower: Follower,
        reply: ReplyTo,
        preview: Option<String>,
        workings: Option<Workings>,
    ) {
        let channels = self.clone();
        self.0.parts.tasks.spawn("reply", async move {
            channels.follow_to_end(reply, preview, workings).await;
            drop(follower);
        });
    }

    /// Goes on with the replies that the last process left, those that are followed excepted.
    /// No clock tells which these are: it may have been set back.
    pub(super) async fn resume_replies(&self, runs: &Arc<Runs>) -> Result<(), StoreError> {
        for row in self.0.parts.store.expected_replies().await? {
            // Nobody expects it anew meanwhile. Those of this process may be about to be accepted.
            let Some(_turn) = self.0.followers.of_last(&row.run_id).await else { continue };
            let (run_id, is_shown) = (row.run_id.clone(), row.preview.is_some());
            // What is shown of one without a run is of a result that is told again.
            if !self.resume_reply(runs, row).await? && !is_shown {
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
            is_overheard: false,
        };
        if runs.ended(Some(family), &reply.run_id).await?.is_none() {
            // Who is about to follow it finds its place free.
            return Ok(self.0.followers.has(&reply.run_id));
        }
        if let Some(follower) = self.0.followers.take(&reply.run_id, &reply.address) {
            self.follow_as(follower, reply, row.preview, None);
        }
        Ok(true)
    }

    /// Goes on with the reply of a run, if one is expected.
    async fn resume_if_expected(&self, runs: &Runs, run_id: &str) -> Result<(), StoreError> {
        match self.0.parts.store.expected_reply(run_id).await? {
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

    async fn follow_to_end(
        &self,
        reply: ReplyTo,
        mut preview: Option<String>,
        workings: Option<Workings>,
    ) {
        let Some(runs) = self.begun().await else { return };
        let mut workings = workings.unwrap_or_else(|| Workings::of(&runs, &reply));
        let mut pause = STORE_PAUSE;
        let report = loop {
            match self.watch_to_end(&runs, &reply, &mut preview, &mut workings).await {
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
        let (speech, is_cut) = self.answer_of(&runs, &reply, &report).await;
        let speech = self.footed(&reply, &report, speech).await;
        let speech = self.prefixed(&reply, report.progress.answer.as_ref(), speech);
        let delivery = answering.unwrap_or(&reply.run_id);
        let shown = preview.clone();
        let parts = self.parts_of(&runs, &reply, delivery, speech, shown, is_cut).await;
        let accepted_at = Some(report.accepted_at);
        while let Err(error) = self.settle(&reply, accepted_at, parts.clone()).await {
            tracing::error!(run = reply.run_id, %error, "a reply is not in the outbox yet");
            tokio::time::sleep(STORE_PAUSE).await;
        }
        let is_left = workings.shows_thought && !parts.iter().any(takes_place);
        if let Some(shown) = preview.filter(|_| is_left) {
            self.take_back(&reply, &shown).await;
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
        workings: &mut Workings,
    ) -> Result<Arc<RunReport>, StoreError> {
        let mut ended = std::pin::pin!(runs.ends(Some(reply.family), &reply.run_id));
        let mut typing = tokio::time::interval(TYPING_EVERY);
        let mut looks = tokio::time::interval(PREVIEW_EVERY);
        let (mut shown, mut may_show) = (String::new(), true);
        loop {
            let is_look = tokio::select! {
                biased;
                // First: what is told of a run is told before its answer.
                told = workings.next() => {
                    self.tell(reply, workings, told).await;
                    continue;
                }
                report = &mut ended => {
                    // Also what came between the two looks.
                    while let Some(told) = workings.now() {
                        self.tell(reply, workings, told).await;
                    }
                    return report;
                }
                _ = typing.tick() => false,
                _ = looks.tick() => true,
            };
            let address = &reply.address;
            let found = self.account(&address.channel, &address.account);
            let Some((account, channel)) = found.and_then(|it| Some((it.clone(), it.channel()?)))
            else {
                continue;
            };
            // Nothing is written before its turn has come, and what another run says is shown
            // by that one's reply.
            let progress = runs.progress(&reply.run_id).filter(Progress::speaks_for_itself);
            let Some(progress) = progress else { continue };
            if !is_look {
                if self.shows_typing(reply, &workings.thought, &progress) {
                    channel.show_typing(&address.target, &address.thread).await;
                }
            } else if may_show && channel.has_previews() {
                let (growing, is_thought) = self.growing(reply, &workings.thought, &progress).await;
                let text = first_part(&account, &growing);
                if text.chars().count() >= PREVIEW_MIN && text != shown {
                    let showing = self.show_preview(&account, &*channel, reply, &text, preview);
                    let (is_there, may_go_on) = showing.await;
                    workings.shows_thought = is_thought || (workings.shows_thought && !is_there);
                    (shown, may_show) = (text, may_go_on);
                }
            }
        }
    }

    /// Whether it is time to show that the agent is typing. Where it may have nothing to say to
    /// what it hears, that is once it says something.
    fn shows_typing(&self, reply: &ReplyTo, thought: &str, progress: &Progress) -> bool {
        let usual = if reply.is_overheard { TypingMode::Message } else { TypingMode::Instant };
        let says = || !progress.shown().trim().is_empty();
        match self.0.parts.settings.now().session.typing.unwrap_or(usual) {
            TypingMode::Never => false,
            TypingMode::Instant => true,
            TypingMode::Thinking => !thought.is_empty() || says(),
            TypingMode::Message => says(),
        }
    }

    async fn settle(
        &self,
        reply: &ReplyTo,
        accepted_at: Option<u64>,
        parts: Vec<NewPart>,
    ) -> Result<(), StoreError> {
        let (store, now) = (&self.0.parts.store, self.0.parts.clock.now_ms());
        store.settle_reply(reply.run_id.clone(), accepted_at, parts, now).await?;
        self.kick(reply.address.clone());
        Ok(())
    }

    /// The messages that an answer becomes; the one with the note that it was cut off, which is
    /// its end, names its message in any case.
    async fn parts_of(
        &self,
        runs: &Runs,
        reply: &ReplyTo,
        delivery: &str,
        speech: Speech,
        preview: Option<String>,
        is_cut: bool,
    ) -> Vec<NewPart> {
        let address = &reply.address;
        let (channel, id) = (&address.channel, &address.account);
        let gone = || Some(Arc::new(Account::gone(ChannelKind::parse(channel)?, id)));
        let Some(account) = self.account(channel, id).or_else(gone) else {
            tracing::warn!(channel, account = id, "a reply has nowhere to go: no such channel");
            return Vec::new();
        };
        let (media, told) = self.attach(runs, &account, &reply.key, &speech.files).await;
        let text = format!("{}{told}", speech.text);
        let first = Body { reply_to: reply.reply_to.clone(), edits: preview, ..Body::default() };
        let (quotes, text) = (account.config.reply_to, text.trim_start_matches('\n'));
        let message = Message { text, media: &media, first, quotes, end_quotes: is_cut };
        message_parts(&account, delivery, address, &message)
    }
}

fn words(text: impl Into<String>) -> Speech {
    Speech { text: text.into(), files: Vec::new() }
}
