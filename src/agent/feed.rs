//! What happens in the runs of a session, for those inside of the gateway who
//! follow it: all that is known of it, as it is.
//!
//! Owns: who follows which session. Promises: news come in the order in which
//! things happened, those of sub-agents to whoever follows the session that
//! spawned them as well; what nobody follows costs nothing; whoever is too slow is told that he
//! has missed something. Must not: know what becomes of news, or who may see
//! them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;

use crate::protocol::message::Usage;
use crate::providers::{ModelInfo, StreamEvent};
use crate::sessions::{CompactionReason, SessionKey, StoredMessage};

use super::compaction::Compacted;
use super::emitter::Card;
use super::guardrails::GuardNews;
use super::run::{AbortReason, ActiveRun};
use super::tools::ToolOutput;

/// News that may wait for a follower: some seconds of a fast model. They take room as they
/// come: of many who follow, most wait for a run that says nothing yet.
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

type Followed = HashMap<SessionKey, Vec<Arc<Waiting>>>;

/// What waits for one follower.
#[derive(Debug, Default)]
struct Waiting {
    queue: Mutex<Queue>,
    /// Rings whenever there is more.
    bell: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    news: VecDeque<Arc<Told>>,
    /// How many were dropped since the follower was told so.
    missed: u64,
}

impl Waiting {
    fn add(&self, told: Arc<Told>) {
        {
            let mut queue = self.queue.lock();
            if queue.news.len() >= MAX_WAITING {
                queue.news.pop_front();
                queue.missed += 1;
            }
            queue.news.push_back(told);
        }
        self.bell.notify_one();
    }

    fn take(&self) -> Option<Result<Arc<Told>, Missed>> {
        let mut queue = self.queue.lock();
        match std::mem::take(&mut queue.missed) {
            0 => queue.news.pop_front().map(Ok),
            missed => Some(Err(Missed(missed))),
        }
    }
}

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
        let waiting = Arc::<Waiting>::default();
        let mut followed = self.0.followed.write();
        followed.entry(key.clone()).or_default().push(Arc::clone(&waiting));
        self.0.count.store(followed.len(), Ordering::Release);
        Follower { feed: self.clone(), key: key.clone(), waiting }
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
        let sessions = std::iter::once(key).chain(parent);
        let followers: Vec<_> = sessions.filter_map(|key| followed.get(key)).flatten().collect();
        if followers.is_empty() {
            return;
        }
        let told = Arc::new(Told { key: key.clone(), run, news: news() });
        for follower in followers {
            follower.add(Arc::clone(&told));
        }
    }

    fn leave(&self, key: &SessionKey, gone: &Arc<Waiting>) {
        let mut followed = self.0.followed.write();
        if let Some(followers) = followed.get_mut(key) {
            followers.retain(|other| !Arc::ptr_eq(other, gone));
            if followers.is_empty() {
                followed.remove(key);
            }
        }
        self.0.count.store(followed.len(), Ordering::Release);
    }
}

/// Somebody who follows a session, until it is dropped.
#[derive(Debug)]
pub struct Follower {
    feed: Feed,
    key: SessionKey,
    waiting: Arc<Waiting>,
}

impl Follower {
    /// The next piece of news. Safe to drop and call again.
    ///
    /// # Errors
    /// When some were missed; the next call gives the oldest that is left.
    pub async fn next(&mut self) -> Result<Arc<Told>, Missed> {
        // However much there is, whoever reads it leaves room for others.
        consume_budget().await;
        loop {
            if let Some(next) = self.waiting.take() {
                return next;
            }
            // It has rung already where something came since.
            self.waiting.bell.notified().await;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.feed.leave(&self.key, &self.waiting);
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

    #[tokio::test]
    async fn nobody_is_kept_room_for_news_that_have_not_come() {
        let feed = Feed::default();
        let room = |follower: &Follower| follower.waiting.queue.lock().news.capacity();
        let (mut reads, behind) = (feed.follow(&key("a")), feed.follow(&key("a")));
        assert_eq!((room(&reads), room(&behind)), (0, 0));
        for _ in 0..100 {
            feed.of_session(&key("a"), || RunNews::Begins);
            assert!(reads.next().await.is_ok());
        }
        assert!(room(&reads) < 10 && room(&behind) >= 100, "each has its own");
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_and_one_who_looks_again_loses_nothing() {
        let feed = Feed::default();
        let mut follower = feed.follow(&key("a"));
        for _ in 0..3 {
            {
                let mut next = std::pin::pin!(follower.next());
                assert!(futures_util::poll!(next.as_mut()).is_pending());
                feed.of_session(&key("a"), || RunNews::Begins);
                // It goes away without having looked once more.
            }
            assert!(follower.next().await.is_ok());
        }
        let mut next = std::pin::pin!(follower.next());
        assert!(futures_util::poll!(next.as_mut()).is_pending());
        feed.of_session(&key("a"), || RunNews::Begins);
        assert!(next.await.is_ok());
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
