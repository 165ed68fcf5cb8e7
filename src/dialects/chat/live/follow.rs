//! Following the news of a conversation while a response is under way.
//!
//! Promises: the end of a response is learnt, also when its news were missed; a
//! question of a turn that began here becomes a no when it was not answered in
//! time, whether its client is still there or not.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::frame;
use super::turn::{End, Turn};
use super::view::View;
use crate::agent::approvals::QuestionKind;
use crate::agent::feed::{Follower, RunNews, Told};
use crate::agent::{RunEnd, RunReport};
use crate::sessions::SessionKey;
use crate::store::StoreError;

/// What a sub-agent without a name is called.
const SUBAGENT: &str = "subagent";

/// A conversation that is followed, until this is dropped.
pub struct Following<'a> {
    view: &'a View,
    follower: Follower,
    key: SessionKey,
    /// What sub-agents are called.
    names: HashMap<SessionKey, String>,
}

/// How a response ended.
pub struct Over {
    /// In which way.
    pub end: End,
    /// All of its text, as its run knows it.
    pub text: Arc<str>,
    /// The files that it names.
    pub files: Vec<String>,
}

enum Next {
    Told(Arc<Told>),
    Missed,
    Overdue,
    Ended(Result<Arc<RunReport>, StoreError>),
}

impl<'a> Following<'a> {
    /// Follows a session from now on.
    pub fn of(view: &'a View, key: SessionKey) -> Self {
        view.set_followed(Some(key.clone()));
        let follower = view.services().runs.parts().feed.follow(&key);
        Self { view, follower, key, names: HashMap::new() }
    }

    /// Tells of a response until it is over.
    pub async fn to_end(&mut self, turn: &mut Turn) -> Over {
        let runs = Arc::clone(&self.view.services().runs);
        // A message that another run takes in ends with that run.
        let run_id = turn.run_id.clone();
        let mut ends = std::pin::pin!(runs.ends(None, &run_id));
        loop {
            let deadline = self.view.with_questions(|all| all.next_deadline());
            let overdue = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            let next = tokio::select! {
                biased;
                told = self.follower.next() => told.map_or(Next::Missed, Next::Told),
                () = overdue => Next::Overdue,
                report = &mut ends => Next::Ended(report),
            };
            match next {
                Next::Told(told) => {
                    if let Some(end) = self.hear(turn, &told).await {
                        let progress = told.run.as_ref().map(|run| run.progress());
                        let progress = progress.unwrap_or_default();
                        return Over { end, text: progress.text, files: progress.files };
                    }
                }
                Next::Missed => {
                    turn.set_late();
                    self.look_for_questions();
                }
                Next::Overdue => {
                    let overdue = self.view.with_questions(|all| all.take_overdue(Instant::now()));
                    self.view.refuse(overdue).await;
                }
                Next::Ended(report) => return over(report),
            }
        }
    }

    /// Tells a piece of news; how the response ends, when it does.
    async fn hear(&mut self, turn: &mut Turn, told: &Told) -> Option<End> {
        let is_child = told.key != self.key;
        if let RunNews::ToolAsks(card, data) = &told.news {
            let is_own = is_child || turn.is_of(told);
            let frames = self.view.with_questions(|all| all.hear(&card.call, is_own, data));
            self.view.tell_all(frames);
            return None;
        }
        if is_child {
            self.hear_child(told).await;
            return None;
        }
        let heard = turn.hear(told);
        self.view.tell_all(heard.frames);
        heard.end
    }

    async fn hear_child(&mut self, told: &Told) {
        match &told.news {
            RunNews::Begins => {
                let name = self.name_of(&told.key).await;
                self.view.tell(&frame::subagent_start(&name));
            }
            RunNews::Ends(_) => {
                let name = self.name_of(&told.key).await;
                self.view.tell(&frame::subagent_done(&name));
            }
            _ => {}
        }
    }

    async fn name_of(&mut self, key: &SessionKey) -> String {
        if let Some(name) = self.names.get(key) {
            return name.clone();
        }
        let entry = self.view.services().sessions.entry(key).await.ok().flatten();
        let name = entry.and_then(|entry| entry.label).unwrap_or_else(|| SUBAGENT.to_owned());
        self.names.insert(key.clone(), name.clone());
        name
    }

    /// Shows the questions whose news were missed.
    fn look_for_questions(&self) {
        let approvals = &self.view.services().runs.parts().approvals;
        for kind in [QuestionKind::Exec, QuestionKind::Plugin] {
            for question in approvals.list(kind) {
                if question.request["sessionKey"] == self.key.as_str() {
                    let asked = self.view.with_questions(|all| {
                        if all.has(&question.id) { Vec::new() } else { all.overhear(&question) }
                    });
                    self.view.tell_all(asked);
                }
            }
        }
    }
}

/// What the end of a run says whose news did not.
fn over(report: Result<Arc<RunReport>, StoreError>) -> Over {
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            let end = End::Failed(format!("the end of the response is not known: {error}"));
            return Over { end, text: "".into(), files: Vec::new() };
        }
    };
    let end = match &report.end {
        RunEnd::Answered => End::Answered,
        RunEnd::Failed(error) => End::Failed(error.clone()),
        RunEnd::Aborted(_) => End::Stopped,
    };
    let progress = &report.progress;
    Over { end, text: Arc::clone(&progress.text), files: progress.files.clone() }
}
