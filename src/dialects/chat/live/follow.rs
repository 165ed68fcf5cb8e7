//! Following the news of a conversation: while a response is under way, and while
//! sub-agents that it has begun still work.
//!
//! Promises: the end of a response is learnt, also when its news were missed; a
//! question of a turn that began here becomes a no when it was not answered in
//! time, whether its client is still there or not; one of a turn that is only looked
//! at is left to whoever asked for that; what the agent makes of the end of a
//! sub-agent is told as a message of its own.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::frame;
use super::turn::{End, Turn};
use super::view::View;
use crate::agent::feed::{Follower, RunNews, Told};
use crate::agent::{ActiveRun, RunEnd, RunReport};
use crate::dialects::chat::media;
use crate::dialects::question::kind_of;
use crate::providers::text_for_people;
use crate::sessions::SessionKey;
use crate::store::{StoreError, SubagentQuery};

/// What a sub-agent without a name is called.
const SUBAGENT: &str = "subagent";
/// The tool that begins one.
const SPAWN: &str = "sessions_spawn";
/// The tool by which the end of one is said to the agent.
const ANNOUNCE: &str = "subagent_announce";
/// How long what the agent makes of such an end is waited for: its run begins
/// within moments, or the sub-agent had nothing to say.
const ANNOUNCE_WAIT: Duration = Duration::from_secs(30);

/// A conversation that is followed, until this is dropped.
pub struct Following<'a> {
    view: &'a View,
    follower: Follower,
    key: SessionKey,
    /// What sub-agents are called.
    names: HashMap<SessionKey, String>,
    /// Sub-agents that work.
    children: HashSet<SessionKey>,
    /// Sub-agents that responses have begun which were asked for here; each may have several
    /// runs.
    own_children: HashSet<SessionKey>,
    /// Runs that tell of the end of one.
    announcing: HashSet<Arc<str>>,
    /// Until when another one may begin.
    expected: Instant,
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
}

impl<'a> Following<'a> {
    /// Follows a session from now on.
    pub fn of(view: &'a View, key: SessionKey) -> Self {
        view.set_followed(Some(key.clone()));
        let follower = view.services().runs.parts().feed.follow(&key);
        Self {
            view,
            follower,
            key,
            names: HashMap::new(),
            children: HashSet::new(),
            own_children: HashSet::new(),
            announcing: HashSet::new(),
            expected: Instant::now(),
        }
    }

    /// Whether it follows this session.
    pub fn is_of(&self, key: &SessionKey) -> bool {
        self.key == *key
    }

    /// Tells of a response until it is over.
    pub async fn tell_to_end(&mut self, turn: &mut Turn) -> Over {
        let runs = Arc::clone(&self.view.services().runs);
        // A message that another run takes in ends with that run.
        let run_id = turn.run_id.clone();
        let mut ends = std::pin::pin!(runs.ends(None, &run_id));
        loop {
            let next = tokio::select! {
                biased;
                next = self.next() => next,
                report = &mut ends => return over(report),
            };
            if let Some(told) = self.see_to(next, Some(turn)).await
                && let Some(end) = self.hear(&told, turn)
            {
                let progress = told.run.as_ref().map(|run| run.progress()).unwrap_or_default();
                return Over { end, text: Arc::clone(progress.shown()), files: progress.files };
            }
        }
    }

    fn is_busy(&self) -> bool {
        !self.children.is_empty() || !self.announcing.is_empty()
    }

    /// Whether no sub-agent is left to be told of.
    pub fn is_over(&self) -> bool {
        !self.is_busy() && Instant::now() >= self.expected
    }

    /// Tells of sub-agents while some of them work, and nothing else is to be done.
    pub async fn between(&mut self) {
        loop {
            if self.is_over() {
                return;
            }
            let (is_busy, expected) = (self.is_busy(), self.expected);
            let next = tokio::select! {
                biased;
                () = self.view.gone.cancelled() => return,
                () = self.view.queued() => return,
                next = self.next() => next,
                () = sleep_until(expected), if !is_busy => return,
            };
            // Runs of others are not told.
            self.see_to(next, None).await;
        }
    }

    async fn next(&mut self) -> Next {
        let deadline = self.view.with_questions(|all| all.next_deadline());
        let overdue = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            told = self.follower.next() => told.map_or(Next::Missed, Next::Told),
            () = overdue => Next::Overdue,
        }
    }

    /// Does what is the same in and between responses; answers news that are left.
    async fn see_to(&mut self, next: Next, turn: Option<&mut Turn>) -> Option<Arc<Told>> {
        let told = match next {
            Next::Told(told) => told,
            Next::Missed => {
                self.look_again(turn).await;
                return None;
            }
            Next::Overdue => {
                let overdue = self.view.with_questions(|all| all.take_overdue(Instant::now()));
                self.view.refuse(overdue).await;
                return None;
            }
        };
        let is_child = told.key != self.key;
        if let RunNews::ToolAsks(card, data) = &told.news {
            let is_own = if is_child {
                self.own_children.contains(&told.key)
            } else {
                turn.is_some_and(|turn| turn.is_ours && turn.is_of(&told))
            };
            if is_own || data["phase"] != "requested" {
                self.view.tell_questions(|all| all.hear(&card.call, data));
            } else {
                let id = data["approvalId"].as_str().unwrap_or_default();
                self.view.overhear(kind_of(data), id);
            }
            self.view.refuse_if_gone().await;
            return None;
        }
        if matches!(told.news, RunNews::ToolEnds(..)) {
            // A call that is stopped takes its question back.
            self.view.settle_ended();
        }
        if is_child {
            self.hear_child(&told).await;
            return None;
        }
        let of_turn = turn.is_some_and(|turn| turn.is_of(&told));
        if let Some(run) = told.run.as_ref().filter(|run| !of_turn && announces(run)) {
            self.hear_announcement(run, &told.news).await;
        }
        Some(told)
    }

    /// Finds out what news that were missed may have told.
    async fn look_again(&mut self, turn: Option<&mut Turn>) {
        let mut own_run = None;
        if let Some(turn) = turn {
            turn.set_late();
            if turn.is_ours {
                self.find_children_of(&turn.run_id).await;
                own_run = Some(turn.run_id.as_str());
            }
        }
        let runs = &self.view.services().runs;
        // One that waits for another has asked nothing.
        let asks = runs.active(&self.key).is_some_and(|run| own_run == Some(&*run.id));
        self.children.extend(self.own_children.iter().cloned());
        self.children.retain(|child| runs.is_busy(child));
        self.announcing.clear();
        self.view.settle_ended();
        for child in &self.own_children {
            self.view.show_open_questions(child, true);
        }
        self.view.show_open_questions(&self.key, asks);
        self.view.refuse_if_gone().await;
    }

    /// Tells a piece of news of a response; how that ends, when it does.
    fn hear(&mut self, told: &Told, turn: &mut Turn) -> Option<End> {
        if let RunNews::ToolEnds(card, output) = &told.news
            && card.call.name == SPAWN
            && turn.is_of(told)
        {
            let child = output.details.as_ref().and_then(|it| it["childSessionKey"].as_str());
            let child = child.map(SessionKey::from_canonical);
            if turn.is_ours {
                self.own_children.extend(child.clone());
            }
            self.children.extend(child);
        }
        let heard = turn.hear(told);
        self.view.tell_all(heard.frames);
        heard.end
    }

    /// Those that a response has begun which was asked for here, though nobody heard of it.
    async fn find_children_of(&mut self, run_id: &str) {
        let store = &self.view.services().runs.parts().store;
        let Ok(rows) = store.subagents(SubagentQuery::OfParent(self.key.to_string())).await else {
            return;
        };
        let begun = rows.into_iter().filter(|row| row.parent_run_id.as_deref() == Some(run_id));
        self.own_children.extend(begun.map(|row| SessionKey::from_canonical(row.child_key)));
    }

    async fn hear_child(&mut self, told: &Told) {
        match &told.news {
            RunNews::Begins => {
                self.children.insert(told.key.clone());
                let name = self.name_of(&told.key).await;
                self.view.tell(&frame::subagent_start(&name));
            }
            RunNews::Ends(_) => {
                self.children.remove(&told.key);
                self.expected = Instant::now() + ANNOUNCE_WAIT;
                let name = self.name_of(&told.key).await;
                self.view.tell(&frame::subagent_done(&name));
            }
            _ => {}
        }
    }

    async fn hear_announcement(&mut self, run: &Arc<ActiveRun>, news: &RunNews) {
        match news {
            RunNews::Begins => drop(self.announcing.insert(Arc::clone(&run.id))),
            RunNews::Ends(_) => {
                self.announcing.remove(&run.id);
                let progress = run.progress();
                let kept = media::keep(&self.view.gateway, &self.key, &progress.files).await;
                let (files, missing) = kept;
                let said = format!("{}{missing}", progress.paragraphs());
                let said = said.trim_start();
                if !said.is_empty() {
                    self.view.tell(&frame::message(said));
                }
                if !files.is_empty() {
                    self.view.tell(&frame::media(&files));
                }
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
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.view.set_followed(None);
    }
}

/// Whether a run tells the agent of the end of a sub-agent.
fn announces(run: &ActiveRun) -> bool {
    let provenance = run.message.extra.get("provenance");
    provenance.is_some_and(|provenance| provenance["sourceTool"] == ANNOUNCE)
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
        RunEnd::Failed(error) => End::Failed(text_for_people(error, "unknown")),
        RunEnd::Aborted(reason) => End::of_stop(*reason),
    };
    let progress = &report.progress;
    Over { end, text: Arc::clone(progress.shown()), files: progress.files.clone() }
}
