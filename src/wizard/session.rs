//! One client's way through the questions.
//!
//! Owns: the question that waits, and how the session is. Promises: an answer is
//! taken once and only by the question that it is for; one to what was only told leads to
//! what is next; a client that was lost goes on with `next`; who does not answer for long
//! is not waited for. Must not: keep an answer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::asker::{Asker, Stopped};
use super::ending::Outcome;
use super::step::{Answer, Step, StepKind, WrongAnswer};
use crate::support::{BoxFuture, Ids, json};

/// Somebody who looks for a key may take a while; later he begins again.
const STEP_LIMIT: Duration = Duration::from_mins(30);
/// Clients give up a request after 30 seconds; they are told before that what is
/// being done.
const WAIT: Duration = Duration::from_secs(25);

/// How a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Status {
    Running,
    Done,
    Cancelled(String),
    Failed(String),
}

/// A question that waits for its answer.
struct Question {
    id: String,
    step: Step,
    reply: oneshot::Sender<Answer>,
}

/// What is being done while nobody is asked.
struct Progress {
    text: String,
    is_told: bool,
}

struct State {
    status: Status,
    question: Option<Question>,
    progress: Option<Progress>,
    /// How many of those there were.
    progresses: u64,
    /// Whether it is too late to cancel.
    is_sealed: bool,
}

/// Why an answer was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NextError {
    /// The session is over.
    #[error("wizard not running")]
    NotRunning,
    /// No question with this id waits.
    #[error("wizard: no pending step")]
    NoStep,
    /// The answer is of another kind than the question.
    #[error("invalid wizard.next params: at /answer/value: {0}")]
    Answer(String),
}

/// A session.
pub struct WizardSession {
    /// Its id.
    pub id: String,
    ids: Arc<dyn Ids>,
    state: Mutex<State>,
    changed: Notify,
    /// Ends the script.
    pub(super) stop: CancellationToken,
}

impl WizardSession {
    /// A new one, whose script is about to begin.
    pub fn new(ids: Arc<dyn Ids>) -> Self {
        let state = State {
            status: Status::Running,
            question: None,
            progress: None,
            progresses: 0,
            is_sealed: false,
        };
        Self {
            id: ids.uuid(),
            ids,
            state: Mutex::new(state),
            changed: Notify::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Whether the script goes on.
    pub fn is_running(&self) -> bool {
        self.state.lock().status == Status::Running
    }

    /// `status` and `error` as clients get them.
    pub fn status(&self) -> Value {
        self.state.lock().status.told()
    }

    /// Ends it, unless it is writing just now. After that there is nothing left to
    /// be cancelled.
    pub fn cancel(&self) {
        {
            let mut state = self.state.lock();
            let question = state.question.as_ref().map(|question| question.step.kind);
            let status = match (state.is_sealed, question) {
                (true, None) => return,
                (true, Some(StepKind::Note)) => Status::Done,
                _ => Status::Cancelled("cancelled".into()),
            };
            if state.status != Status::Running {
                return;
            }
            state.status = status;
            state.question = None;
        }
        self.stop.cancel();
        self.changed.notify_waiters();
    }

    /// Takes an answer, if one is given, and says what is next; the same question
    /// again without one. The answer's `error` says why a text does not do.
    ///
    /// # Errors
    /// See [`NextError`]; the session stays as it was.
    pub async fn next(&self, answer: Option<(&str, &Value)>) -> Result<Value, NextError> {
        if let Some((step, value)) = answer
            && let Some(why) = self.answer(step, value)?
        {
            let mut same = self.turn().await;
            same["error"] = json!(why);
            return Ok(same);
        }
        Ok(self.turn().await)
    }

    /// What is wrong with the answer, in words for people.
    fn answer(&self, id: &str, value: &Value) -> Result<Option<String>, NextError> {
        let mut state = self.state.lock();
        // Some clients answer what was only told, however long ago.
        if (1..=state.progresses).any(|number| self.progress_id(number) == id) {
            return Ok(None);
        }
        if state.status != Status::Running {
            return Err(NextError::NotRunning);
        }
        let Some(question) = state.question.as_ref().filter(|it| it.id == id) else {
            return Err(NextError::NoStep);
        };
        match question.step.read(value) {
            Err(WrongAnswer::Kind(why)) => Err(NextError::Answer(why)),
            Err(WrongAnswer::Text(why)) => Ok(Some(why)),
            Ok(answer) => {
                if let Some(question) = state.question.take() {
                    // A script that ended meanwhile has said so.
                    let _ = question.reply.send(answer);
                }
                Ok(None)
            }
        }
    }

    fn progress_id(&self, number: u64) -> String {
        format!("{}-{number}", self.id)
    }

    async fn turn(&self) -> Value {
        let until = Instant::now() + WAIT;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(now) = self.now(false) {
                return now;
            }
            if tokio::time::timeout_at(until, changed).await.is_err() {
                return self
                    .now(true)
                    .unwrap_or_else(|| json!({"done": false, "status": "running"}));
            }
        }
    }

    /// What there is to tell, `again` also what was told already.
    fn now(&self, again: bool) -> Option<Value> {
        let mut state = self.state.lock();
        if state.status != Status::Running {
            let mut end = json!({"done": true});
            let told = state.status.told();
            end.as_object_mut()?.extend(told.as_object().cloned()?);
            return Some(end);
        }
        let State { question, progress, progresses, .. } = &mut *state;
        let step = match (question, progress) {
            (Some(question), _) => question.step.wire(&question.id),
            (None, Some(progress)) if again || !progress.is_told => {
                progress.is_told = true;
                json!({"type": "progress", "message": progress.text, "executor": "gateway",
                    "id": self.progress_id(*progresses)})
            }
            _ => return None,
        };
        Some(json!({"done": false, "step": step, "status": "running"}))
    }

    /// The script has ended.
    pub(super) fn end(&self, outcome: Result<Outcome, Stopped>) {
        {
            let mut state = self.state.lock();
            state.question = None;
            if state.status == Status::Running {
                state.status = match outcome {
                    Ok(_) => Status::Done,
                    Err(Stopped::Cancelled(why)) => Status::Cancelled(why),
                    Err(Stopped::Failed(why)) => Status::Failed(why),
                };
            }
        }
        self.changed.notify_waiters();
    }
}

impl Status {
    /// `status` and `error` on the wire.
    fn told(&self) -> Value {
        match self {
            Self::Running => json!({"status": "running"}),
            Self::Done => json!({"status": "done"}),
            Self::Cancelled(why) => json!({"status": "cancelled", "error": why}),
            Self::Failed(why) => json!({"status": "error", "error": why}),
        }
    }
}

/// Puts the questions to whoever calls [`WizardSession::next`].
pub(super) struct SessionAsker(pub Arc<WizardSession>);

impl Asker for SessionAsker {
    fn ask<'a>(&'a mut self, step: &'a Step) -> BoxFuture<'a, Result<Answer, Stopped>> {
        Box::pin(async move {
            let session = &self.0;
            let (reply, answer) = oneshot::channel();
            {
                let mut state = session.state.lock();
                if state.status != Status::Running {
                    return Err(Stopped::cancelled());
                }
                let id = session.ids.uuid();
                state.question = Some(Question { id, step: step.clone(), reply });
                // That is over.
                state.progress = None;
            }
            session.changed.notify_waiters();
            match tokio::time::timeout(STEP_LIMIT, answer).await {
                Ok(answer) => answer.map_err(|_| Stopped::cancelled()),
                Err(_) => Err(Stopped::Cancelled(
                    "nobody answered for half an hour; nothing more was written".into(),
                )),
            }
        })
    }

    fn tell(&mut self, text: &str) {
        {
            let mut state = self.0.state.lock();
            state.progress = Some(Progress { text: text.to_owned(), is_told: false });
            state.progresses += 1;
        }
        self.0.changed.notify_waiters();
    }

    fn seal(&mut self) -> Result<(), Stopped> {
        let mut state = self.0.state.lock();
        if state.status != Status::Running {
            return Err(Stopped::cancelled());
        }
        state.is_sealed = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{RandomIds, Tasks};

    fn session() -> (Arc<WizardSession>, SessionAsker) {
        let session = Arc::new(WizardSession::new(Arc::new(RandomIds)));
        (Arc::clone(&session), SessionAsker(session))
    }

    fn question(kind: StepKind) -> Step {
        Step::new(kind, "n", "Well?")
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_without_end() {
        let (session, mut asker) = session();
        let script = Tasks::default()
            .spawn("script", async move { asker.ask(&question(StepKind::Confirm)).await });
        let shown = session.next(None).await.unwrap();
        assert_eq!(shown["step"]["message"], "Well?");
        let stopped = script.await.unwrap().unwrap().unwrap_err();
        session.end(Err(stopped));
        assert_eq!(session.status()["status"], "cancelled");
        let answer = session.next(Some(("x", &json!(true)))).await;
        assert_eq!(answer, Err(NextError::NotRunning));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_done_is_told_at_once_and_again_before_a_client_gives_up() {
        let (session, mut asker) = session();
        asker.tell("Working");
        let first = session.next(None).await.unwrap();
        assert_eq!(
            (&first["step"]["type"], &first["step"]["message"]),
            (&json!("progress"), &json!("Working"))
        );
        let id = first["step"]["id"].as_str().unwrap();
        let began = Instant::now();
        let again = session.next(Some((id, &Value::Null))).await.unwrap();
        assert_eq!((again, began.elapsed()), (first.clone(), WAIT));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_done_before_a_question_is_not_told_after_it_and_may_be_answered_late() {
        let (session, mut asker) = session();
        asker.tell("Looking");
        let looking = session.next(None).await.unwrap();
        let (go, may_go) = oneshot::channel();
        let script = Tasks::default().spawn("script", async move {
            asker.ask(&question(StepKind::Confirm)).await.unwrap();
            may_go.await.unwrap();
            asker.tell("Writing");
            tokio::time::sleep(WAIT / 2).await;
            asker.ask(&question(StepKind::Confirm)).await
        });
        let confirm = session.next(None).await.unwrap();
        let id = |step: &Value| step["step"]["id"].as_str().unwrap().to_owned();
        let next = session.next(Some((&id(&confirm), &json!(true)))).await.unwrap();
        assert_eq!(next, json!({"done": false, "status": "running"}), "nothing is being done");
        go.send(()).unwrap();
        let writing = session.next(None).await.unwrap();
        let message = |step: &Value| step["step"]["message"].as_str().unwrap().to_owned();
        assert_eq!((message(&looking), message(&writing)), ("Looking".into(), "Writing".into()));
        for told in [&looking, &writing] {
            let question = session.next(Some((&id(told), &Value::Null))).await.unwrap();
            assert_eq!(question["step"]["type"], "confirm");
        }
        session.cancel();
        assert!(script.await.unwrap().unwrap().is_err());
        // Also how it has ended is told to who answers so.
        let end = session.next(Some((&id(&writing), &Value::Null))).await.unwrap();
        assert_eq!((&end["done"], &end["status"]), (&json!(true), &json!("cancelled")));
        let unknown = format!("{}-3", session.id);
        let refused = session.next(Some((&unknown, &Value::Null))).await;
        assert_eq!(refused, Err(NextError::NotRunning));
    }

    #[tokio::test]
    async fn it_is_too_late_to_cancel_while_it_writes_and_after_that_it_is_done() {
        let (session, mut asker) = session();
        asker.seal().unwrap();
        session.cancel();
        assert_eq!(session.status(), json!({"status": "running"}));
        let script = Tasks::default()
            .spawn("script", async move { asker.ask(&question(StepKind::Note)).await });
        session.next(None).await.unwrap();
        session.cancel();
        assert_eq!(session.status(), json!({"status": "done"}));
        assert!(script.await.unwrap().unwrap().is_err());
        let (session, mut asker) = self::session();
        session.cancel();
        assert!(asker.seal().is_err());
    }
}
