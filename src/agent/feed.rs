//! What happens in the runs of a session, for those inside of the gateway who
//! follow it: all that is known of it, as it is.
//!
//! Owns: who follows which session. Promises: news come in the order in which
//! things happened, those of sub-agents to whoever follows the session that
//! spawned them as well; what nobody follows costs nothing; whoever is too slow is told that he
//! has missed something. Must not: know what becomes of news, or who may see
//! them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

use crate::protocol::message::Usage;
use crate::providers::{ModelInfo, StreamEvent};
use crate::sessions::{CompactionReason, SessionKey, StoredMessage};

use super::compaction::Compacted;
use super::emitter::Card;
use super::guardrails::GuardNews;
use super::run::{AbortReason, ActiveRun};
use super::tools::ToolOutput;

/// News that may wait for a follower: some seconds of a fast model. What it takes is
/// there while somebody follows, some 200 KB.
const MAX_WAITING: usize = 4096;

/// What happened.
#[derive(Debug, Clone)]
pub enum RunNews {
    /// A message is in the transcript: of a user, a tool, the model or the gateway.
    /// The answer of a model is told by [`Self::Stream`] before, a result of a tool by
    /// [`Self::ToolEnds`].
    Stored(StoredMessage),
    /// The run begins to work on its message.
    Begins,
    /// A model is asked.
    Asks {
        /// Id that its answer will have in the transcript.
        entry_id: String,
        /// The model.
        model: Arc<ModelInfo>,
    },
    /// Its answer grows, or it is asked again. When some of the answer had come by then,
    /// [`Self::Asks`] tells that another one begins in its place.
    Stream(StreamEvent),
    /// More of the text that people see, without directives and thoughts.
    Says(String),
    /// A tool is called.
    ToolBegins(Card),
    /// A tool has something to show already: all of it so far.
    ToolShows(Card, ToolOutput),
    /// A call waits for somebody to allow it, or that was decided: the data of an
    /// `approval` event.
    ToolAsks(Card, Value),
    /// What the guardrails make of a call.
    ToolGuarded(Card, GuardNews),
    /// A tool has ended.
    ToolEnds(Card, ToolOutput),
    /// The conversation is being summed up.
    Compacts(CompactionReason),
    /// That has ended; `None` when nothing came of it.
    Compacted(CompactionReason, Option<Compacted>),
    /// The run has ended.
    Ends(Ending),
    /// The gateway itself has answered a message, without a run: that of this id.
    Noted {
        /// Id of the message's request.
        run_id: String,
        /// The answer.
        answer: StoredMessage,
    },
}

/// How a run ended.
#[derive(Debug, Clone)]
pub enum Ending {
    /// With an answer.
    Answered {
        /// Sum over all calls of models.
        usage: Usage,
        /// Why the last one stopped, such as `stop`.
        stop_reason: String,
    },
    /// With an error.
    Failed {
        /// In the words of the provider.
        message: String,
        /// The same for people.
        told: String,
        /// `errorKind`.
        kind: String,
    },
    /// Somebody stopped it.
    Aborted(AbortReason),
    /// Its message went into this run, which goes on.
    TakenInto(String),
}

/// One piece of news.
#[derive(Debug)]
pub struct Told {
    /// The session in which it happened.
    pub key: SessionKey,
    /// The run; none where none is known.
    pub run: Option<Arc<ActiveRun>>,
    /// What happened.
    pub news: RunNews,
}

/// A follower was too slow: so much was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} pieces of news were missed")]
pub struct Missed(pub u64);

type Followed = HashMap<SessionKey, Sender<Arc<Told>>>;

/// The way of news to those who follow a session; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Feed(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    followed: RwLock<Followed>,
    /// How many sessions are followed, so that it can be seen without the lock
    /// that there is nothing to do.
    count: AtomicUsize,
}

impl Feed {
    /// Follows a session from now on.
    pub fn follow(&self, key: &SessionKey) -> Follower {
        let mut followed = self.0.followed.write();
        let sender = followed.entry(key.clone()).or_insert_with(|| Sender::new(MAX_WAITING));
        let news = Some(sender.subscribe());
        self.0.count.store(followed.len(), Ordering::Release);
        Follower { feed: self.clone(), key: key.clone(), news }
    }

    /// Tells of a run.
    pub fn of_run(&self, run: &Arc<ActiveRun>, news: impl FnOnce() -> RunNews) {
        // Nobody is shown how heartbeats come about.
        if self.is_idle() || run.terms.is_heartbeat {
            return;
        }
        let parent = run.spawned_by.as_deref().map(SessionKey::from_canonical);
        let run_of = Some(Arc::clone(run));
        self.tell(&run.key, parent.as_ref(), run_of, news);
    }

    /// Tells of a session.
    pub fn of_session(&self, key: &SessionKey, news: impl FnOnce() -> RunNews) {
        if !self.is_idle() {
            self.tell(key, None, None, news);
        }
    }

    fn is_idle(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 0
    }

    fn tell(
        &self,
        key: &SessionKey,
        parent: Option<&SessionKey>,
        run: Option<Arc<ActiveRun>>,
        news: impl FnOnce() -> RunNews,
    ) {
        let followed = self.0.followed.read();
        let senders: Vec<_> =
            std::iter::once(key).chain(parent).filter_map(|key| followed.get(key)).collect();
        if senders.is_empty() {
            return;
        }
        let told = Arc::new(Told { key: key.clone(), run, news: news() });
        for sender in senders {
            // Who has just gone needs nothing.
            let _ = sender.send(Arc::clone(&told));
        }
    }

    fn leave(&self, key: &SessionKey) {
        let mut followed = self.0.followed.write();
        if followed.get(key).is_some_and(|sender| sender.receiver_count() == 0) {
            followed.remove(key);
        }
        self.0.count.store(followed.len(), Ordering::Release);
    }
}

/// Somebody who follows a session, until it is dropped.
#[derive(Debug)]
pub struct Follower {
    feed: Feed,
    key: SessionKey,
    /// `None` only while it is being dropped.
    news: Option<Receiver<Arc<Told>>>,
}

impl Follower {
    /// The next piece of news. Safe to drop and call again.
    ///
    /// # Errors
    /// When some were missed; the next call gives the oldest that is left.
    pub async fn next(&mut self) -> Result<Arc<Told>, Missed> {
        let Some(news) = &mut self.news else { return std::future::pending().await };
        match news.recv().await {
            Ok(told) => Ok(told),
            Err(RecvError::Lagged(missed)) => Err(Missed(missed)),
            // The sender lives as long as there is somebody who follows.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.news.take());
        self.feed.leave(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> SessionKey {
        SessionKey::from_canonical(format!("agent:main:{name}"))
    }

    #[tokio::test]
    async fn news_reach_whoever_follows_the_session_and_are_made_for_nobody_else() {
        let feed = Feed::default();
        let mut follower = feed.follow(&key("a"));
        feed.of_session(&key("b"), || unreachable!("nobody follows it"));
        feed.of_session(&key("a"), || RunNews::Says("x".into()));
        let told = follower.next().await.unwrap();
        assert!(matches!(&told.news, RunNews::Says(text) if text == "x"));
        drop(follower);
        feed.of_session(&key("a"), || unreachable!("nobody follows it any more"));
        assert!(feed.is_idle());
    }

    #[tokio::test]
    async fn whoever_is_too_slow_is_told_so() {
        let feed = Feed::default();
        let mut follower = feed.follow(&key("a"));
        for _ in 0..=MAX_WAITING {
            feed.of_session(&key("a"), || RunNews::Begins);
        }
        assert_eq!(follower.next().await.unwrap_err(), Missed(1));
        assert!(follower.next().await.is_ok());
    }

    #[test]
    fn the_last_one_who_goes_ends_it() {
        let feed = Feed::default();
        let (first, second) = (feed.follow(&key("a")), feed.follow(&key("a")));
        drop(first);
        assert!(!feed.is_idle());
        drop(second);
        assert!(feed.is_idle());
    }
}
