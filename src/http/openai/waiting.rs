//! Waiting for a run.
//!
//! Promises: who goes away before its end stops it, also while it is being accepted,
//! and so does who is let in no more; what is told as it comes is in the end all that
//! was said; who is told nothing hears regularly that there is somebody.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use futures_util::FutureExt;
use tokio::time::{Instant, sleep_until};

use super::outcome::{Answered, Failed, Files, of};
use crate::agent::feed::{Follower, Missed, RunNews, Told};
use crate::agent::{AbortReason, Family, RunReport};
use crate::auth::Principal;
use crate::handlers::ask::{Question, ask};
use crate::http::{Attending, CUT, Manner};
use crate::protocol::ErrorShape;
use crate::registry::{Ctx, Services};
use crate::sessions::SessionKey;
use crate::store::StoreError;

/// After so long without a word a client is told that there is somebody: proxies
/// cut what is silent for a minute.
const QUIET: Duration = Duration::from_secs(15);

/// What happens next.
pub enum Step {
    /// More of the text.
    Says(String),
    /// What comes next is said by another turn of the model than what came before.
    Turns,
    /// Nothing for some time.
    Quiet,
    /// The run is over.
    Over(Result<Answered, Failed>),
}

/// What a run is waited with for.
enum Event {
    /// Whoever asks is let in no more.
    Cut,
    /// Something happens in the session.
    News(Result<Arc<Told>, Missed>),
    /// The run is over.
    Ends(Result<Arc<RunReport>, StoreError>),
}

/// Why there is no run to wait for.
enum Refused {
    /// Whoever asks is let in no more.
    Cut,
    /// The message is not accepted.
    Because(ErrorShape),
}

/// How long whoever waits has been told nothing.
struct Silence {
    /// Then it has been too long.
    until: Instant,
}

impl Silence {
    fn begin() -> Self {
        Self { until: Instant::now() + QUIET }
    }

    /// What `event` comes to, unless it has been too long before that: then the next
    /// silence begins. What happens and is not told does not end one.
    async fn unless_long<T>(&mut self, event: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = sleep_until(self.until) => {
                *self = Self::begin();
                None
            }
            event = event => Some(event),
        }
    }
}

/// A run, and whoever waits for it.
pub struct Waiting {
    attending: Attending,
    services: Arc<Services>,
    principal: Principal,
    key: SessionKey,
    run_id: String,
    follower: Follower,
    files: Files,
    /// What was said so far.
    said: String,
    /// Whether the model was asked again since.
    is_asked_again: bool,
    /// Whether some of it was missed: then the rest comes with the end.
    is_behind: bool,
    left: VecDeque<Step>,
    silence: Silence,
    is_over: bool,
}

impl Waiting {
    /// Asks, for a request that is attended.
    ///
    /// # Errors
    /// The answer when the message is not accepted, or whoever asks is let in no more.
    pub async fn for_answer(
        (attending, cx): (Attending, Ctx),
        question: Question,
        files: Files,
        manner: Manner,
    ) -> Result<Self, Response> {
        // Boxed: this is the longest part of a request.
        match Box::pin(Self::ask(attending, cx, question, files)).await {
            Ok(waiting) => Ok(waiting),
            Err(Refused::Cut) => Err(Attending::cut(manner)),
            Err(Refused::Because(error)) => Err(manner.of_error(&error)),
        }
    }

    async fn ask(
        attending: Attending,
        cx: Ctx,
        question: Question,
        files: Files,
    ) -> Result<Self, Refused> {
        let (key, run_id) = (question.key.clone(), question.run_id.clone());
        let follower = match ask(&cx, question).await {
            Ok(follower) => follower,
            Err(_) if attending.is_cut() => return Err(Refused::Cut),
            Err(error) => return Err(Refused::Because(error)),
        };
        Ok(Self {
            attending,
            services: Arc::clone(&cx.services),
            principal: (*cx.caller.principal).clone(),
            key,
            run_id,
            follower,
            files,
            said: String::new(),
            is_asked_again: false,
            is_behind: false,
            left: VecDeque::new(),
            silence: Silence::begin(),
            is_over: false,
        })
        // The run begins with the end of `cx`.
    }

    /// The end, for who waits for nothing else.
    pub async fn end(mut self) -> Result<Answered, Failed> {
        let ends = self.services.runs.ends(Some(Family::Agent), &self.run_id);
        let Some(report) = self.attending.unless_cut(ends).await else { return Err(CUT_OFF) };
        self.is_over = true;
        match report {
            Ok(report) => of(&report, report.progress.paragraphs(), self.files),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// What happens next. Safe to drop and call again.
    pub async fn next(&mut self) -> Step {
        loop {
            if let Some(step) = self.left.pop_front() {
                self.silence = Silence::begin();
                return step;
            }
            match self.event().await {
                Some(Event::Cut) => return Step::Over(Err(CUT_OFF)),
                Some(Event::News(news)) => self.take(news),
                Some(Event::Ends(report)) => self.take_end(report),
                None => return Step::Quiet,
            }
        }
    }

    /// What happens, unless nothing could be told for too long.
    async fn event(&mut self) -> Option<Event> {
        let Self { attending, services, run_id, follower, silence, .. } = self;
        let event = async {
            tokio::select! {
                biased;
                _ = attending.unless_cut(std::future::pending::<()>()) => Event::Cut,
                news = follower.next() => Event::News(news),
                report = services.runs.ends(Some(Family::Agent), run_id) => Event::Ends(report),
            }
        };
        silence.unless_long(event).await
    }

    /// The rest of what was said, and how it ended.
    fn take_end(&mut self, report: Result<Arc<RunReport>, StoreError>) {
        self.is_over = true;
        while let Some(news) = self.follower.next().now_or_never() {
            self.take(news);
        }
        let end = match report {
            Ok(report) => {
                // What was told of it already stands as it came.
                let shown = of(&report, report.progress.shown().to_string(), self.files);
                let shown = shown.map_or_else(|failed| failed.said, |answered| answered.text);
                self.left.extend(rest(&self.said, &report.progress.said(), &shown));
                of(&report, report.progress.paragraphs(), self.files)
            }
            Err(error) => Err(unreadable(&error)),
        };
        self.left.push_back(Step::Over(end));
    }

    fn take(&mut self, news: Result<Arc<Told>, Missed>) {
        let Ok(told) = news else {
            self.is_behind = true;
            return;
        };
        let is_ours = told.run.as_ref().is_some_and(|run| *run.id == *self.run_id);
        if !is_ours || self.is_behind {
            return;
        }
        match &told.news {
            RunNews::Asks { .. } => self.is_asked_again = !self.said.is_empty(),
            RunNews::Says(text) => {
                if std::mem::take(&mut self.is_asked_again) {
                    self.left.push_back(Step::Turns);
                }
                self.said.push_str(text);
                self.left.push_back(Step::Says(text.clone()));
            }
            _ => {}
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (services, principal) = (Arc::clone(&self.services), self.principal.clone());
        let (key, run_id) = (self.key.clone(), std::mem::take(&mut self.run_id));
        let tasks = self.services.runs.parts().tasks.clone();
        tasks.spawn("http abort", async move {
            let stopped = services.runs.abort(&key, Some(&run_id), &principal, AbortReason::Rpc);
            if let Err(error) = stopped.await {
                tracing::warn!(run = run_id, %error, "who asked is gone; the run goes on");
            }
        });
    }
}

/// What is left to tell of `shown`, which is what these turns have said, and what stands below
/// it. Nothing where something else was told.
fn rest(told: &str, turns: &[&str], shown: &str) -> Vec<Step> {
    let (mut rest, mut begins) = (Vec::new(), 0);
    if !shown.starts_with(told) {
        return rest;
    }
    for said in turns {
        let left = said.get(told.len().saturating_sub(begins)..).unwrap_or_default();
        if !left.is_empty() {
            if begins > 0 && begins >= told.len() {
                rest.push(Step::Turns);
            }
            rest.push(Step::Says(left.to_owned()));
        }
        begins += said.len();
    }
    let below = shown.get(begins.max(told.len())..).unwrap_or_default();
    if !below.is_empty() {
        rest.push(Step::Says(below.to_owned()));
    }
    rest
}

const CUT_OFF: Failed = Failed::new(StatusCode::UNAUTHORIZED, CUT);

fn unreadable(error: &StoreError) -> Failed {
    tracing::error!(%error, "the end of a run cannot be read");
    Failed::new(StatusCode::SERVICE_UNAVAILABLE, "internal error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_for_who_is_behind_has_its_turns_apart_too() {
        let turns = ["I look.", "", "Döne.", "Bye."];
        let (text, below) = (turns.concat(), "\n\nFile: a.txt");
        let shown = format!("{text}{below}");
        let rest = |told: &str, turns: &[&str], shown: &str| {
            let steps = rest(told, turns, shown).into_iter().map(|step| {
                let Step::Says(text) = step else { return "|".to_owned() };
                text
            });
            steps.collect::<String>()
        };
        for (told, left) in [
            ("", "I look.|Döne.|Bye.\n\nFile: a.txt"),
            ("I lo", "ok.|Döne.|Bye.\n\nFile: a.txt"),
            ("I look.", "|Döne.|Bye.\n\nFile: a.txt"),
            ("I look.Dö", "ne.|Bye.\n\nFile: a.txt"),
            (text.as_str(), below),
            (shown.as_str(), ""),
            ("Another", ""),
        ] {
            assert_eq!(rest(told, &turns, &shown), left, "{told}");
        }
        assert_eq!(rest("", &[""], "Nothing."), "Nothing.");
    }

    #[tokio::test(start_paused = true)]
    async fn news_that_are_not_told_do_not_put_off_what_keeps_the_connection_in_use() {
        let mut silence = Silence::begin();
        for _ in 0..3 {
            let began = Instant::now();
            let mut news = 0;
            while silence.unless_long(tokio::time::sleep(QUIET / 4)).await.is_some() {
                news += 1;
                assert!(news < 4, "nothing was said for {:?}", began.elapsed());
            }
            assert!(began.elapsed() >= QUIET, "{:?}", began.elapsed());
        }
    }
}
