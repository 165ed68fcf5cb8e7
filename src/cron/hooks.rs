//! What other programs ask for by HTTP.
//!
//! Promises: a request is on disk before it is answered, and one with the same
//! claim is taken up once, also across a stop; what had not begun then begins with
//! the next process, and what had is told. Must not: know about HTTP, or who may
//! ask.

mod run;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

use crate::agent::{Hold, HoldError, InLine, Runs, shortened};
use crate::protocol::methods::cron::WakeMode;
use crate::sessions::{AgentId, SessionKey};
use crate::store::{HookAccepted, HookNews, HookRow, RunState, StoreError, Teller};

use super::admission::NotBegun;
use super::outcome::Outcome;
use super::recover::INTERRUPTED;
use super::run_log::NOT_REQUESTED;
use super::scheduler::{BROKEN, Worker};
use super::service::Cron;
use super::texts;

/// Most characters of what the main session is told: with the mark before it, an event is
/// kept whole.
const TELL_MAX: usize = 8000;
/// What is told of one of which only the news were lost.
const ENDED: &str = "it ended well just before a stop of the gateway; see its session";

/// What an agent is asked by another program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookAsk {
    /// Which agent.
    pub agent_id: String,
    /// Canonical key of the session.
    pub session_key: String,
    /// A name for people, on one line.
    pub name: String,
    /// What it is asked.
    pub message: String,
    /// Where that is from; none when it counts as the owner's own words.
    pub source: Option<String>,
    /// Whether the main session answers news of it at once.
    pub wake_mode: WakeMode,
    /// Whether the answer is sent to a chat.
    pub deliver: bool,
    /// Of which channel; `last` is where the main session was last spoken to.
    pub channel: String,
    /// To which chat of it.
    pub to: Option<String>,
    /// With which model.
    pub model: Option<String>,
    /// How hard it thinks.
    pub thinking: Option<String>,
    /// Stopped after so many seconds.
    pub timeout_seconds: Option<u64>,
}

/// Why a request is not taken up.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// There are too many.
    #[error("too many hooks wait; send it again later")]
    Busy,
    /// It has more characters than an event may have.
    #[error("text must have at most {0} characters; what is longer is for an agent")]
    TooLong(usize),
    /// The gateway stops.
    #[error("the gateway is stopping; send it again after that")]
    Stopping,
    /// It cannot be written down.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Cron {
    /// Tells the main session of the default agent something.
    ///
    /// # Errors
    /// When it is not kept.
    pub async fn tell_by_hook(
        &self,
        runs: &Runs,
        claim: Option<String>,
        text: &str,
        mode: WakeMode,
    ) -> Result<(), HookError> {
        if self.is_stopped() {
            return Err(HookError::Stopping);
        }
        if text.chars().count() > TELL_MAX {
            return Err(HookError::TooLong(TELL_MAX));
        }
        let keys = &self.parts.keys.now();
        let (agent, main) = (&keys.default_agent, SessionKey::main(&keys.default_agent, keys));
        let told = self.keep_event(runs, claim, &main, &texts::untrusted_event(text)).await;
        // Also where there is no room for it: the turn that this begins makes some.
        let wakes = matches!(told, Ok(true) | Err(HookError::Busy));
        if wakes && mode == WakeMode::Now {
            self.heartbeats.wake(agent.as_str(), main);
        }
        told.map(drop)
    }

    /// Keeps an event for the main session; whether it was not kept before.
    async fn keep_event(
        &self,
        runs: &Runs,
        claim: Option<String>,
        main: &SessionKey,
        text: &str,
    ) -> Result<bool, HookError> {
        if claim.is_none() {
            runs.parts().notice(main, text, Teller::Other).await.map_err(unkept)?;
            return Ok(true);
        }
        let row = HookRow { id: self.parts.ids.uuid(), claim, ask: String::new() };
        let event = HookNews { session_key: main.to_string(), text: text.to_owned() };
        let accepted = self.parts.store.accept_hook(row, Some(event), self.now_ms()).await;
        match accepted.map_err(unkept)? {
            HookAccepted::Told(id) => {
                runs.parts().noted(main, text, id);
                Ok(true)
            }
            HookAccepted::Known(_) => Ok(false),
            HookAccepted::New | HookAccepted::Full => Err(HookError::Busy),
        }
    }

    /// Asks an agent; the id of the run, which begins soon. A request with a claim
    /// that is known has the run that it had.
    ///
    /// # Errors
    /// When it is not kept.
    pub async fn ask_by_hook(
        self: &Arc<Self>,
        runs: &Arc<Runs>,
        claim: Option<String>,
        ask: HookAsk,
    ) -> Result<String, HookError> {
        if self.is_stopped() {
            return Err(HookError::Stopping);
        }
        let id = self.parts.ids.uuid();
        // Before the row is there: the recovery must not take it for an old one.
        self.state.lock().hooks.insert(id.clone());
        let written = serde_json::to_string(&ask).unwrap_or_default();
        let key = SessionKey::from_canonical(ask.session_key);
        let row = HookRow { id: id.clone(), claim, ask: written };
        let accepted = self.parts.store.accept_hook(row, None, self.now_ms()).await;
        let known = match accepted {
            Ok(HookAccepted::New) => {
                let worker = Worker { cron: Arc::clone(self), runs: Arc::clone(runs) };
                worker.start_hook(id.clone(), &key);
                return Ok(id);
            }
            Ok(HookAccepted::Known(known)) => Ok(known),
            Ok(HookAccepted::Told(_) | HookAccepted::Full) => Err(HookError::Busy),
            Err(error) => Err(error.into()),
        };
        self.state.lock().hooks.remove(&id);
        known
    }
}

/// Why an event is not kept.
fn unkept(error: StoreError) -> HookError {
    if error.is_crowded() { HookError::Busy } else { error.into() }
}

impl Worker {
    /// Goes on with what the last process left.
    pub(super) async fn recover_hooks(&self) -> Result<(), StoreError> {
        let store = &self.cron.parts.store;
        for id in store.open_hooks().await? {
            if self.cron.state.lock().hooks.contains(&id) {
                continue;
            }
            let run = store.run(&id).await?;
            let Some(ask) = self.hook(&id).await? else { continue };
            let Some(run) = run else {
                self.cron.state.lock().hooks.insert(id.clone());
                self.start_hook(id, &SessionKey::from_canonical(ask.session_key));
                continue;
            };
            tracing::warn!(run = %id, "run of a hook was interrupted");
            let news = match run.state {
                RunState::Done => format!("Hook {}: {ENDED} ({})", ask.name, ask.session_key),
                _ => format!("Hook {} (error): {INTERRUPTED}", ask.name),
            };
            self.end_hook(&id, &ask, Some(&news)).await?;
        }
        Ok(())
    }

    /// What a request asks for that is not done.
    async fn hook(&self, id: &str) -> Result<Option<HookAsk>, StoreError> {
        let store = &self.cron.parts.store;
        let Some(written) = store.open_hook(id).await? else { return Ok(None) };
        let ask = serde_json::from_str(&written).ok();
        if ask.is_none() {
            tracing::error!(run = id, "hook not readable; it is not run");
            store.end_hook(id, None).await?;
        }
        Ok(ask)
    }

    /// Begins a run when there is room for it, and its session is free. Until then only
    /// the names of the two are in memory. It is in line for its session from here on.
    fn start_hook(&self, id: String, key: &SessionKey) {
        let line = self.line_of_hook(&id, key);
        let worker = Self { cron: Arc::clone(&self.cron), runs: Arc::clone(&self.runs) };
        self.runs.parts().tasks.spawn("hook", async move {
            let done = match line {
                Ok(line) => Box::pin(worker.take_up_hook(&id, line)).await,
                // It is for the next process.
                Err(HoldError::Stopping | HoldError::Active) => Ok(()),
            };
            if let Err(error) = done {
                tracing::error!(run = id, %error, "hook not done; the next start looks at it");
            }
            worker.cron.state.lock().hooks.remove(&id);
        });
    }

    /// Does it when its turn has come, unless somebody stops it before.
    async fn take_up_hook(&self, id: &str, line: Option<InLine>) -> Result<(), StoreError> {
        match self.admit_hook(line).await {
            Ok((hold, place)) if !self.cron.is_stopped() => {
                Box::pin(self.do_hook(id, hold)).await?;
                drop(place);
                Ok(())
            }
            // Else it is for the next process.
            Ok(_) | Err(NotBegun::Stopping | NotBegun::Moved) => Ok(()),
            Err(NotBegun::Ended(outcome)) => {
                let Some(ask) = self.hook(id).await? else { return Ok(()) };
                self.end_hook(id, &ask, news(&ask, &outcome).as_deref()).await
            }
        }
    }

    async fn do_hook(&self, id: &str, hold: Option<Hold>) -> Result<(), StoreError> {
        let Some(ask) = self.hook(id).await? else { return Ok(()) };
        let running = AssertUnwindSafe(self.run_hook(id, &ask, hold)).catch_unwind();
        let broken = |_| Outcome::failed(BROKEN, "cron-setup", self.cron.now_ms());
        let outcome = running.await.unwrap_or_else(broken);
        tracing::info!(
            run = id,
            session = ask.session_key,
            status = outcome.status,
            delivery = outcome.delivery_status,
            "run of a hook ended"
        );
        self.end_hook(id, &ask, news(&ask, &outcome).as_deref()).await
    }

    /// The request is done.
    async fn end_hook(
        &self,
        id: &str,
        ask: &HookAsk,
        news: Option<&str>,
    ) -> Result<(), StoreError> {
        let (parts, keys) = (self.runs.parts(), &self.cron.parts.keys.now());
        let agent = AgentId::normalize(&ask.agent_id);
        let main = SessionKey::main(&agent, keys);
        let text = news.map(|news| shortened(&texts::untrusted_event(news)));
        let event = text.clone().map(|text| HookNews { session_key: main.to_string(), text });
        let store = &self.cron.parts.store;
        match (store.end_hook(id, event).await, text) {
            (Ok(Some(told)), Some(text)) => parts.noted(&main, &text, told),
            // Nobody waits for an answer who could send it again.
            (Err(error), Some(text)) if error.is_crowded() => {
                store.end_hook(id, None).await?;
                tracing::warn!(run = id, session = %main, "news of a hook are kept until a stop only");
                parts.notices.add(&main, &text, Teller::Other);
            }
            (ended, _) => return ended.map(drop),
        }
        if ask.wake_mode == WakeMode::Now {
            self.cron.heartbeats.wake(agent.as_str(), main);
        }
        Ok(())
    }
}

/// What the main session is told of the end of a run: failures, and an answer
/// that did not arrive where it should.
fn news(ask: &HookAsk, outcome: &Outcome) -> Option<String> {
    let is_lost = ask.deliver && !["delivered", NOT_REQUESTED].contains(&outcome.delivery_status);
    if outcome.status == "ok" && !is_lost {
        return None;
    }
    let said = outcome.summary.as_deref().or(outcome.error.as_deref()).unwrap_or(outcome.status);
    let how = if outcome.status == "ok" { String::new() } else { format!(" ({})", outcome.status) };
    Some(format!("Hook {}{how}: {said}", ask.name))
}
