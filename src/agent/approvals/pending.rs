//! Questions that wait for a person.
//!
//! Owns: which questions are open and how the last ones ended. Promises: a
//! question has one answer, the first; without one it lapses at its time; what
//! has ended is remembered for a moment, so that who comes late learns that.
//! Must not: know what is asked, or survive the process: a restart denies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::support::json;

/// As in the original.
const REMEMBERED: Duration = Duration::from_secs(15);
/// More than anybody answers; keeps a model or a client from filling memory.
const MAX_QUESTIONS: usize = 512;

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// A command.
    Exec,
    /// Something a plugin is about to do.
    Plugin,
}

/// What a person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Yes, this time.
    AllowOnce,
    /// Yes, and do not ask again.
    AllowAlways,
    /// No.
    Deny,
}

impl Decision {
    /// Every decision, in the order of the wire.
    pub const ALL: [Self; 3] = [Self::AllowOnce, Self::AllowAlways, Self::Deny];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow-once",
            Self::AllowAlways => "allow-always",
            Self::Deny => "deny",
        }
    }

    /// The word, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

/// How a question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Decided(Decision),
    Lapsed,
}

/// One question.
#[derive(Debug)]
pub struct Question {
    /// Its id.
    pub id: String,
    /// What it is about.
    pub kind: QuestionKind,
    /// What is shown to whoever decides.
    pub request: Value,
    /// When it was asked, in milliseconds since the epoch.
    pub created_at: u64,
    /// When it lapses.
    pub expires_at: u64,
    /// The decisions that can be made.
    pub allowed: Vec<Decision>,
    /// The call of a run's tool that waits for it.
    pub call_id: Option<String>,
    deadline: Instant,
    /// Whether its yes was used by a client that runs the command elsewhere.
    redeemed: AtomicBool,
    ending: watch::Sender<Option<(Ending, Instant)>>,
}

/// What is asked, before it has an id.
#[derive(Debug, Clone)]
pub struct Draft {
    /// What it is about.
    pub kind: QuestionKind,
    /// What is shown.
    pub request: Value,
    /// The decisions that can be made.
    pub allowed: Vec<Decision>,
    /// How long it waits.
    pub limit: Duration,
    /// The call of a run's tool that waits for it.
    pub call_id: Option<String>,
}

impl Question {
    /// One about a command, that waits for long.
    ///
    /// # Panics
    ///
    /// Never: nothing else waits there.
    #[cfg(test)]
    pub fn example(id: &str) -> Arc<Self> {
        let draft = Draft {
            kind: QuestionKind::Exec,
            request: json!({"command": "ls"}),
            allowed: Decision::ALL.to_vec(),
            limit: Duration::from_hours(1),
            call_id: None,
        };
        Pending::default().ask(id.to_owned(), draft, 0).unwrap()
    }

    /// `{id, request, createdAtMs, expiresAtMs}`.
    pub fn to_wire(&self) -> Value {
        json!({"id": self.id, "request": self.request, "createdAtMs": self.created_at,
            "expiresAtMs": self.expires_at})
    }

    /// Waits for the answer; `None` when it lapses.
    pub async fn decision(&self) -> Option<Decision> {
        let mut ending = self.ending.subscribe();
        tokio::select! {
            biased;
            _ = ending.wait_for(Option::is_some) => {}
            () = sleep_until(self.deadline) => {
                self.end_then(Ending::Lapsed, || ());
            }
        }
        match *self.ending.borrow() {
            Some((Ending::Decided(decision), _)) => Some(decision),
            _ => None,
        }
    }

    /// Ends it without an answer.
    pub fn lapse(&self) {
        self.end_then(Ending::Lapsed, || ());
    }

    /// Ends it with this answer; `false` when it had ended before. `tell` is
    /// called in between: before anybody learns of the answer here.
    pub(super) fn decide_then(&self, decision: Decision, tell: impl FnOnce()) -> bool {
        if Instant::now() >= self.deadline {
            self.lapse();
        }
        self.end_then(Ending::Decided(decision), tell)
    }

    /// Whether it waits.
    pub fn is_open(&self) -> bool {
        self.ending.borrow().is_none() && Instant::now() < self.deadline
    }

    /// The answer it got, if it got one.
    pub fn decided(&self) -> Option<Decision> {
        match *self.ending.borrow() {
            Some((Ending::Decided(decision), _)) => Some(decision),
            _ => None,
        }
    }

    /// Uses its answer; `false` when that was done before.
    pub(super) fn redeem(&self) -> bool {
        !self.redeemed.swap(true, Ordering::SeqCst)
    }

    fn end_then(&self, ending: Ending, tell: impl FnOnce()) -> bool {
        self.ending.send_if_modified(|known| {
            let is_first = known.is_none();
            if is_first {
                *known = Some((ending, Instant::now()));
                tell();
            }
            is_first
        })
    }

    fn is_forgotten(&self) -> bool {
        let ended = self.ending.borrow().map_or(self.deadline, |(_, at)| at);
        Instant::now() >= ended + REMEMBERED
    }
}

/// Why a question is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// There is one with this id.
    #[error("approval id already pending")]
    Taken,
    /// There are too many.
    #[error("too many approvals are pending; decide on some of them first")]
    Full,
}

/// Why no question is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindError {
    /// None has this id.
    Unknown,
    /// More than one id begins so.
    Ambiguous,
}

/// The questions, in the order they were asked.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<Vec<Arc<Question>>>);

impl Pending {
    /// Asks.
    pub fn ask(&self, id: String, draft: Draft, now_ms: u64) -> Result<Arc<Question>, AskError> {
        let mut questions = self.0.lock();
        questions.retain(|question| !question.is_forgotten());
        if questions.iter().any(|question| question.id == id) {
            return Err(AskError::Taken);
        }
        if questions.len() >= MAX_QUESTIONS {
            // What has ended gives way.
            let ended = questions.iter().position(|question| !question.is_open());
            questions.remove(ended.ok_or(AskError::Full)?);
        }
        let Draft { kind, request, allowed, limit, call_id } = draft;
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let question = Arc::new(Question {
            id,
            kind,
            request,
            created_at: now_ms,
            expires_at: now_ms.saturating_add(limit_ms),
            allowed,
            call_id,
            deadline: Instant::now() + limit,
            redeemed: AtomicBool::new(false),
            ending: watch::Sender::new(None),
        });
        questions.push(Arc::clone(&question));
        Ok(question)
    }

    /// Those that wait.
    pub fn open(&self, kind: QuestionKind) -> Vec<Arc<Question>> {
        let mut questions = self.0.lock();
        questions.retain(|question| !question.is_forgotten());
        let open = questions.iter().filter(|it| it.kind == kind && it.is_open());
        open.cloned().collect()
    }

    /// The one with this id, also when it has just ended; or the open one whose
    /// id begins so, and where there is none that which has just ended.
    pub fn find(&self, kind: QuestionKind, id: &str) -> Result<Arc<Question>, FindError> {
        let mut questions = self.0.lock();
        questions.retain(|question| !question.is_forgotten());
        let of_kind = || questions.iter().filter(|question| question.kind == kind);
        if let Some(exact) = of_kind().find(|question| question.id == id) {
            return Ok(Arc::clone(exact));
        }
        let begun = |is_open: bool| {
            let fits = |it: &&Arc<Question>| !id.is_empty() && it.id.starts_with(id);
            of_kind().filter(fits).filter(move |it| it.is_open() == is_open)
        };
        let is_open = begun(true).next().is_some();
        let mut found = begun(is_open);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(Arc::clone(one)),
            (None, _) => Err(FindError::Unknown),
            (Some(_), Some(_)) => Err(FindError::Ambiguous),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(limit: Duration) -> Draft {
        Draft {
            kind: QuestionKind::Exec,
            request: json!({"command": "ls"}),
            allowed: Decision::ALL.to_vec(),
            limit,
            call_id: None,
        }
    }

    fn decide(question: &Question, decision: Decision) -> bool {
        question.decide_then(decision, || ())
    }

    const MINUTE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_counts_and_all_who_wait_get_it() {
        let pending = Pending::default();
        let question = pending.ask("a".into(), draft(MINUTE), 5).unwrap();
        let waiting = [question.decision(), question.decision()];
        let answer = async {
            assert!(decide(&question, Decision::Deny));
            assert!(!decide(&question, Decision::AllowOnce));
        };
        let (answers, ()) = tokio::join!(futures_util::future::join_all(waiting), answer);
        assert_eq!(answers, [Some(Decision::Deny); 2]);
        assert_eq!(question.decided(), Some(Decision::Deny));
        assert_eq!((question.created_at, question.expires_at), (5, 60_005));
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_answer_it_lapses_and_none_counts_after_that() {
        let pending = Pending::default();
        let question = pending.ask("a".into(), draft(MINUTE), 0).unwrap();
        assert_eq!(question.decision().await, None);
        assert!(!decide(&question, Decision::AllowOnce));
        let unwatched = pending.ask("b".into(), draft(MINUTE), 0).unwrap();
        tokio::time::advance(MINUTE).await;
        assert!(!decide(&unwatched, Decision::AllowOnce), "nobody waited for it, yet it lapsed");
        assert_eq!(unwatched.decision().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_ended_is_remembered_for_a_moment() {
        let pending = Pending::default();
        let question = pending.ask("a".into(), draft(MINUTE), 0).unwrap();
        decide(&question, Decision::Deny);
        assert_eq!(pending.open(QuestionKind::Exec).len(), 0);
        assert!(pending.find(QuestionKind::Exec, "a").is_ok());
        assert_eq!(pending.ask("a".into(), draft(MINUTE), 0).unwrap_err(), AskError::Taken);
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(pending.find(QuestionKind::Exec, "a").unwrap_err(), FindError::Unknown);
        assert!(pending.ask("a".into(), draft(MINUTE), 0).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_beginning_finds_the_only_open_one() {
        let pending = Pending::default();
        for id in ["abc1", "abd2"] {
            pending.ask(id.into(), draft(MINUTE), 0).unwrap();
        }
        let find = |id: &str| pending.find(QuestionKind::Exec, id).map(|it| it.id.clone());
        assert_eq!(find("abc"), Ok("abc1".into()));
        assert_eq!(find("ab"), Err(FindError::Ambiguous));
        assert_eq!(find("x"), Err(FindError::Unknown));
        assert_eq!(find(""), Err(FindError::Unknown));
        assert!(pending.find(QuestionKind::Plugin, "abc1").is_err());
        decide(&pending.find(QuestionKind::Exec, "abc1").unwrap(), Decision::Deny);
        assert_eq!(find("ab"), Ok("abd2".into()));
        assert_eq!(find("abc"), Ok("abc1".into()), "who decides too late hears that it is decided");
    }

    #[tokio::test(start_paused = true)]
    async fn their_number_is_bounded() {
        let pending = Pending::default();
        for id in 0..MAX_QUESTIONS {
            pending.ask(id.to_string(), draft(MINUTE), 0).unwrap();
        }
        assert_eq!(pending.ask("x".into(), draft(MINUTE), 0).unwrap_err(), AskError::Full);
        decide(&pending.find(QuestionKind::Exec, "7").unwrap(), Decision::Deny);
        assert!(pending.ask("x".into(), draft(MINUTE), 0).is_ok(), "what has ended gives way");
        assert_eq!(pending.ask("y".into(), draft(MINUTE), 0).unwrap_err(), AskError::Full);
    }
}
