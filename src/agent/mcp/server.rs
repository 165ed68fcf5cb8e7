//! The life of one server.
//!
//! Owns: when it is started, again after it broke, and ended. Promises: it is
//! not started before it is wanted, and not again and again; one that is slow to
//! start holds up nobody for longer than `PATIENCE` in all. Must not: know what
//! its tools do.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connect::{self, Connection, Offered, Reached};
use super::{Surroundings, trouble};
use crate::config::mcp::{McpServer, McpWay};
use crate::support::json;

/// How long turns wait for one that starts for the first time, from its start on. When it
/// is there later, it takes part in what comes then.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one that broke rests, the first time; doubled each time.
const FIRST_REST: Duration = Duration::from_secs(1);
/// How long at most.
const LONGEST_REST: Duration = Duration::from_mins(5);
/// Who has lived so long may break again from the beginning.
const STABLE: Duration = Duration::from_mins(1);
/// Who broke so often in a row is started again only when it is wanted.
const MAX_RESTARTS: u32 = 5;

/// How long a list of tools holds at least: a server may say with each that it has changed.
const LIST_PAUSE: Duration = Duration::from_secs(1);

/// One server.
pub struct Server {
    /// What it is.
    pub config: McpServer,
    /// Ends it.
    pub stop: CancellationToken,
    state: watch::Sender<State>,
    wanted: Notify,
    /// Somebody has a call for it, though it rests.
    called: Notify,
    notes: Mutex<Notes>,
}

/// What is told of it beside its state.
#[derive(Default)]
struct Notes {
    /// When it was started for the first time.
    begun_at: Option<Instant>,
    error: Option<String>,
    /// What it had to offer last.
    offered: Vec<Offered>,
    refused: Vec<String>,
    starts: u32,
}

/// Where it is in its life.
#[derive(Clone)]
pub enum State {
    /// Nobody has wanted it, or not since it rested.
    Idle,
    /// It is being started.
    Starting,
    /// It answers.
    Ready(Reached),
    /// It does not, and rests.
    Failed,
    /// It is over.
    Stopped,
}

impl State {
    /// Whether it can be asked.
    fn is_there(&self) -> bool {
        matches!(self, Self::Ready(reached) if reached.is_there())
    }
}

impl Server {
    /// One that was not started.
    pub fn new(config: McpServer, stop: CancellationToken) -> Self {
        let error = config.way.as_ref().err().cloned();
        let state = if error.is_some() { State::Failed } else { State::Idle };
        if let Some(error) = &error {
            tracing::warn!(
                server = config.name,
                error,
                "mcp.servers has a server that cannot work"
            );
        }
        Self {
            config,
            stop,
            state: watch::Sender::new(state),
            wanted: Notify::new(),
            called: Notify::new(),
            notes: Mutex::new(Notes { error, ..Notes::default() }),
        }
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// What a turn may use of it. Starts it unless it is there. Only the first
    /// time, when nothing is known of it, that is waited for, and by all turns
    /// together no longer than `PATIENCE`; one that broke is offered as it was.
    pub async fn offer(self: &Arc<Self>, around: &Arc<Surroundings>) {
        self.want(around);
        let waits_until = {
            let notes = self.notes.lock();
            let is_known = notes.error.is_some() || !notes.offered.is_empty();
            notes.begun_at.filter(|_| !is_known).map(|begun| begun + PATIENCE)
        };
        if let Some(until) = waits_until {
            // Who is not there by then is left out.
            let _ = tokio::time::timeout_at(until, self.settle()).await;
        }
    }

    /// What it has to offer, or had before it broke.
    pub fn offered(&self) -> Vec<Offered> {
        self.notes.lock().offered.clone()
    }

    /// Starts it unless it is there, also while it rests, and waits until it is
    /// clear whether it works. It may have broken a moment ago.
    pub async fn awake(self: &Arc<Self>, around: &Arc<Surroundings>) {
        let starts = self.notes.lock().starts;
        let state = self.state();
        let is_over = matches!(state, State::Failed | State::Ready(..)) && !state.is_there();
        self.want(around);
        if !is_over || self.config.way.is_err() {
            return self.settle().await;
        }
        self.called.notify_one();
        let was_tried = |state: &State| match state {
            State::Idle | State::Starting => false,
            State::Ready(..) | State::Failed => self.notes.lock().starts != starts,
            State::Stopped => true,
        };
        // The sender is ours.
        let _ = self.state.subscribe().wait_for(was_tried).await;
    }

    /// Why it does not work, if that is known.
    pub fn error(&self) -> Option<String> {
        self.notes.lock().error.clone()
    }

    fn want(self: &Arc<Self>, around: &Arc<Surroundings>) {
        if self.config.way.is_err() || self.state().is_there() {
            return;
        }
        let is_first = {
            let mut notes = self.notes.lock();
            let is_first = notes.begun_at.is_none();
            notes.begun_at.get_or_insert_with(Instant::now);
            is_first
        };
        if is_first {
            self.state.send_replace(State::Starting);
            around.tasks.spawn("mcp server", live(Arc::clone(self), Arc::clone(around)));
        }
        self.wanted.notify_one();
    }

    async fn settle(&self) {
        let is_clear = |state: &State| !matches!(state, State::Idle | State::Starting);
        // The sender is ours.
        let _ = self.state.subscribe().wait_for(is_clear).await;
    }

    /// Waits until it is over, if it was ever started.
    pub async fn ended(&self) {
        let has_begun = self.notes.lock().begun_at.is_some();
        if has_begun {
            let is_over = |state: &State| matches!(state, State::Stopped);
            let _ = self.state.subscribe().wait_for(is_over).await;
        }
    }

    /// Takes note that it does a tool only as a task.
    pub fn does_as_task(&self, name: &str) {
        let mut notes = self.notes.lock();
        for offered in notes.offered.iter_mut().filter(|offered| offered.name == name) {
            offered.is_task = true;
        }
    }

    /// Notes which of its tools are not offered: others have their names, or it does them
    /// only as tasks.
    pub fn refuse(&self, names: Vec<String>) {
        let mut notes = self.notes.lock();
        if !names.is_empty() && notes.refused != names {
            tracing::warn!(server = self.config.name, ?names, "tools that are not offered");
        }
        notes.refused = names;
    }

    /// For people.
    pub fn status(&self) -> Value {
        let state = self.state();
        let notes = self.notes.lock();
        let transport = match &self.config.way {
            Ok(McpWay::Stdio(_)) => Some("stdio"),
            Ok(McpWay::Http { .. }) => Some("streamable-http"),
            Err(_) => None,
        };
        let (state, tools) = match &state {
            State::Idle => ("idle", None),
            State::Starting => ("starting", None),
            State::Ready(..) => ("ready", Some(notes.offered.len())),
            State::Failed => ("failed", None),
            State::Stopped => ("stopped", None),
        };
        let mut status = json!({"name": self.config.name, "state": state, "starts": notes.starts});
        if let Some(transport) = transport {
            status["transport"] = transport.into();
        }
        if let Some(tools) = tools {
            status["tools"] = tools.into();
        }
        if let Some(error) = &notes.error {
            status["error"] = error.as_str().into();
        }
        if !notes.refused.is_empty() {
            status["refused"] = json!(notes.refused);
        }
        status
    }

    /// Takes note that it does not work.
    fn fail(&self, why: &str) {
        let why = trouble::told(why);
        tracing::warn!(server = self.config.name, why, "an MCP server is gone");
        self.notes.lock().error = Some(why);
        self.state.send_replace(State::Failed);
    }

    /// Opens a connection and asks for its tools.
    async fn open(
        &self,
        around: &Surroundings,
        changed: &Arc<Notify>,
    ) -> Result<Connection, String> {
        self.notes.lock().starts += 1;
        let opening = async {
            let connection = Connection::open(&self.config, around, Arc::clone(changed)).await?;
            let peer = connection.reached.peer.clone();
            let (tools, _) = connect::tools(&peer, &self.config).await?;
            Ok((connection, tools))
        };
        let limit = self.config.connect;
        let opened = tokio::time::timeout(limit, opening).await;
        let (connection, tools) = opened.unwrap_or_else(|_| {
            Err(format!("it was not there within {} seconds", limit.as_secs_f64()))
        })?;
        {
            let mut notes = self.notes.lock();
            (notes.error, notes.offered) = (None, tools);
        }
        self.state.send_replace(State::Ready(connection.reached.clone()));
        Ok(connection)
    }

    /// Keeps a connection until it is over; says why. `None` when we end it.
    async fn keep(&self, connection: &mut Connection, changed: &Notify) -> Option<String> {
        let mut not_before = Instant::now();
        loop {
            let is_due = async {
                changed.notified().await;
                tokio::time::sleep_until(not_before).await;
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                why = connection.ended() => return Some(why),
                () = is_due => {
                    let peer = connection.reached.peer.clone();
                    let listing = connect::tools(&peer, &self.config);
                    let listing = tokio::time::timeout(self.config.request, listing);
                    let listed = self.stop.run_until_cancelled(listing).await?;
                    // Of a list that breaks off nobody knows what it would have had.
                    if let Ok(Ok((tools, true))) = listed {
                        self.notes.lock().offered = tools;
                    } else {
                        tracing::warn!(server = self.config.name, "it does not tell its new tools");
                    }
                    not_before = Instant::now() + LIST_PAUSE;
                }
            }
        }
    }
}

/// Starts it, keeps it, starts it again, until the gateway ends.
async fn live(server: Arc<Server>, around: Arc<Surroundings>) {
    let changed = Arc::new(Notify::new());
    let mut failures = 0_u32;
    loop {
        let opened = tokio::select! {
            biased;
            () = server.stop.cancelled() => break,
            opened = server.open(&around, &changed) => opened,
        };
        let has_worked = opened.is_ok();
        match opened {
            Ok(mut connection) => {
                let since = Instant::now();
                let Some(why) = server.keep(&mut connection, &changed).await else {
                    connection.close().await;
                    break;
                };
                // Nobody asks it any more while it is closed.
                server.fail(&why);
                if connection.may_answer() {
                    let (stop, limit) = (server.stop.clone(), server.config.request);
                    around.tasks.spawn("mcp calls", async move {
                        let closing = connection.close_after_calls(limit);
                        let _ = stop.run_until_cancelled(closing).await;
                    });
                } else {
                    connection.close().await;
                }
                if since.elapsed() >= STABLE {
                    failures = 0;
                }
            }
            Err(why) => server.fail(&why),
        }
        failures += 1;
        tokio::select! {
            () = server.stop.cancelled() => break,
            () = server.called.notified() => {}
            () = tokio::time::sleep(rest(failures)) => {}
        }
        if !has_worked || failures > MAX_RESTARTS {
            server.state.send_replace(State::Idle);
            tokio::select! {
                () = server.stop.cancelled() => break,
                () = server.wanted.notified() => {}
            }
        }
        server.state.send_replace(State::Starting);
    }
    server.state.send_replace(State::Stopped);
}

fn rest(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_REST.saturating_mul(doubled).min(LONGEST_REST)
}
