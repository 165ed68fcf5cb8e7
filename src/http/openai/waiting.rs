//! Waiting for a run.
//!
//! Promises: who goes away before its end stops it, and so does who is let in no
//! more; what is told as it comes is in the end all that was said.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt;

use super::outcome::{Answered, Failed, of};
use crate::agent::feed::{Follower, Missed, RunNews, Told};
use crate::agent::{AbortReason, Family};
use crate::auth::Principal;
use crate::handlers::ask::{Question, ask};
use crate::http::{Attending, CUT};
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
    /// Nothing for some time.
    Quiet,
    /// The run is over.
    Over(Result<Answered, Failed>),
}

/// A run, and whoever waits for it.
pub struct Waiting {
    attending: Attending,
    services: Arc<Services>,
    principal: Principal,
    key: SessionKey,
    run_id: String,
    follower: Follower,
    /// What was said so far.
    said: String,
    /// Whether some of it was missed: then the rest comes with the end.
    is_behind: bool,
    left: VecDeque<Step>,
    is_over: bool,
}

impl Waiting {
    /// Asks, for a request that is attended.
    ///
    /// # Errors
    /// When the message is not accepted.
    pub async fn for_answer(
        (attending, cx): (Attending, Ctx),
        question: Question,
    ) -> Result<Self, ErrorShape> {
        let (key, run_id) = (question.key.clone(), question.run_id.clone());
        let follower = ask(&cx, question).await?;
        Ok(Self {
            attending,
            services: Arc::clone(&cx.services),
            principal: (*cx.caller.principal).clone(),
            key,
            run_id,
            follower,
            said: String::new(),
            is_behind: false,
            left: VecDeque::new(),
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
            Ok(report) => of(&report),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// What happens next. Safe to drop and call again.
    pub async fn next(&mut self) -> Step {
        loop {
            if let Some(step) = self.left.pop_front() {
                return step;
            }
            let report = tokio::select! {
                biased;
                _ = self.attending.unless_cut(std::future::pending::<()>()) => {
                    self.left.clear();
                    return Step::Over(Err(CUT_OFF));
                }
                news = self.follower.next() => {
                    self.take(news);
                    continue;
                }
                report = self.services.runs.ends(Some(Family::Agent), &self.run_id) => report,
                () = tokio::time::sleep(QUIET) => return Step::Quiet,
            };
            self.is_over = true;
            while let Some(news) = self.follower.next().now_or_never() {
                self.take(news);
            }
            let end = match report {
                Ok(report) => of(&report),
                Err(error) => Err(unreadable(&error)),
            };
            if let Ok(answered) = &end {
                let rest = answered.text.strip_prefix(&self.said).unwrap_or_default();
                let rest = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
                self.left.extend(rest.map(Step::Says));
            }
            self.left.push_back(Step::Over(end));
        }
    }

    fn take(&mut self, news: Result<Arc<Told>, Missed>) {
        let Ok(told) = news else {
            self.is_behind = true;
            return;
        };
        let is_ours = told.run.as_ref().is_some_and(|run| *run.id == *self.run_id);
        if let RunNews::Says(text) = &told.news
            && is_ours
            && !self.is_behind
        {
            self.said.push_str(text);
            self.left.push_back(Step::Says(text.clone()));
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

const CUT_OFF: Failed = Failed { status: StatusCode::UNAUTHORIZED, message: CUT };

fn unreadable(error: &StoreError) -> Failed {
    tracing::error!(%error, "the end of a run cannot be read");
    Failed { status: StatusCode::SERVICE_UNAVAILABLE, message: "internal error" }
}
