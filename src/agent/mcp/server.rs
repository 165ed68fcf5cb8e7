//! The life of one server.
//!
//! Owns: when it is started, again after it broke, and ended. Promises: it is
//! not started before it is wanted, and not again and again. Must not: know
//! what its tools do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::service::{Peer, RoleClient};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::connect::{self, Connection, Offered};
use crate::config::mcp::{McpServer, McpWay};
use crate::support::json;
use crate::telemetry;

/// How long one that broke rests, the first time; doubled each time.
const FIRST_REST: Duration = Duration::from_secs(1);
/// How long at most.
const LONGEST_REST: Duration = Duration::from_mins(5);
/// Who has lived so long may break again from the beginning.
const STABLE: Duration = Duration::from_mins(1);
/// Who broke so often in a row is started again only when it is wanted.
const MAX_RESTARTS: u32 = 5;

/// One server.
pub struct Server {
    /// What it is.
    pub config: McpServer,
    /// Ends it.
    pub stop: CancellationToken,
    state: watch::Sender<State>,
    begun: AtomicBool,
    wanted: Notify,
    notes: Mutex<Notes>,
}

/// What is told of it beside its state.
#[derive(Default)]
struct Notes {
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
    /// It answers: who is asked.
    Ready(Peer<RoleClient>),
    /// It does not, and rests.
    Failed,
    /// It is over.
    Stopped,
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
            begun: AtomicBool::new(false),
            wanted: Notify::new(),
            notes: Mutex::new(Notes { error, ..Notes::default() }),
        }
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// What a turn may use of it. Starts it unless it is there. Only the first
    /// time, when nothing is known of it, that is waited for; one that broke is
    /// offered as it was.
    pub async fn offer(self: &Arc<Self>, around: &Arc<Surroundings>) {
        let is_known = {
            let notes = self.notes.lock();
            notes.error.is_some() || !notes.offered.is_empty()
        };
        self.want(around);
        if !is_known {
            self.settle().await;
        }
    }

    /// What it has to offer, or had before it broke.
    pub fn offered(&self) -> Vec<Offered> {
        self.notes.lock().offered.clone()
    }

    /// Starts it unless it is there, and waits until it is clear whether it
    /// works.
    pub async fn settled(self: &Arc<Self>, around: &Arc<Surroundings>) {
        self.want(around);
        self.settle().await;
    }

    fn want(self: &Arc<Self>, around: &Arc<Surroundings>) {
        if self.config.way.is_err() || matches!(self.state(), State::Ready(_)) {
            return;
        }
        if !self.begun.swap(true, Ordering::AcqRel) {
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
        if self.begun.load(Ordering::Acquire) {
            let is_over = |state: &State| matches!(state, State::Stopped);
            let _ = self.state.subscribe().wait_for(is_over).await;
        }
    }

    /// Notes which of its tools have names that others have.
    pub fn refuse(&self, names: Vec<String>) {
        let mut notes = self.notes.lock();
        if !names.is_empty() && notes.refused != names {
            tracing::warn!(server = self.config.name, ?names, "tools whose names are taken");
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
            State::Ready(_) => ("ready", Some(notes.offered.len())),
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

    /// Opens a connection and asks for its tools.
    async fn open(
        &self,
        around: &Surroundings,
        changed: &Arc<Notify>,
    ) -> Result<Connection, String> {
        self.notes.lock().starts += 1;
        let opening = async {
            let connection = Connection::open(&self.config, around, Arc::clone(changed)).await?;
            let peer = connection.peer.clone();
            let tools = connect::tools(&peer, &self.config).await?;
            Ok((connection, peer, tools))
        };
        let limit = self.config.connect;
        let opened = tokio::time::timeout(limit, opening).await;
        let (connection, peer, tools) = opened.unwrap_or_else(|_| {
            Err(format!("it was not there within {} seconds", limit.as_secs_f64()))
        })?;
        {
            let mut notes = self.notes.lock();
            (notes.error, notes.offered) = (None, tools);
        }
        self.state.send_replace(State::Ready(peer));
        Ok(connection)
    }

    /// Keeps a connection until it is over; says why. `None` when we end it.
    async fn keep(&self, mut connection: Connection, changed: &Notify) -> Option<String> {
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    connection.close().await;
                    return None;
                }
                why = connection.ended() => {
                    connection.close().await;
                    return Some(why);
                }
                () = changed.notified() => {
                    let peer = connection.peer.clone();
                    let listed = connect::tools(&peer, &self.config);
                    let listed = tokio::time::timeout(self.config.request, listed).await;
                    if let Ok(Ok(tools)) = listed {
                        self.notes.lock().offered = tools;
                    } else {
                        tracing::warn!(server = self.config.name, "it does not tell its new tools");
                    }
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
        let why = match opened {
            Ok(connection) => {
                let since = Instant::now();
                let Some(why) = server.keep(connection, &changed).await else { break };
                if since.elapsed() >= STABLE {
                    failures = 0;
                }
                why
            }
            Err(why) => why,
        };
        failures += 1;
        let why = telemetry::without_secrets(&why).into_owned();
        tracing::warn!(server = server.config.name, why, "an MCP server is gone");
        server.notes.lock().error = Some(why);
        server.state.send_replace(State::Failed);
        tokio::select! {
            () = server.stop.cancelled() => break,
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
