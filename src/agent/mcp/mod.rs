//! MCP servers, whose tools join ours.
//!
//! Owns: the servers of `mcp.servers`: when one is started, what it offers,
//! what becomes of it. Promises: nothing is started before somebody needs it;
//! a server that is slow, broken or gone keeps no run from starting and is seen
//! in `status`; programs end with the gateway, with all that they started.
//! Must not: decide who may use a tool.

mod arguments;
mod client;
mod connect;
mod lines;
mod list;
mod naming;
mod patterns;
mod process;
mod result;
mod root;
mod schema;
mod server;
mod tool;
mod trouble;
mod way;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::tools::Tool;
use super::web::Tls;
use crate::config::{Env, Settings};
use crate::support::{Live, Tasks, json};
pub use naming::SEPARATOR;
use server::Server;
use tool::McpTool;

/// How long servers may take to end; then they are killed.
const STOP_LIMIT: Duration = Duration::from_secs(6);

/// All servers.
pub struct Mcp {
    servers: Live<Vec<Arc<Server>>>,
    surroundings: Arc<Surroundings>,
}

/// What servers are started with.
struct Surroundings {
    env: Env,
    settings: Live<Settings>,
    /// Where programs run that are not told where.
    directory: std::path::PathBuf,
    tls: Tls,
    tasks: Tasks,
    stop: CancellationToken,
}

impl Mcp {
    /// The servers of a configuration, none of them started.
    pub fn new(settings: Live<Settings>, env: &Env, tasks: Tasks) -> Self {
        let now = settings.now();
        let surroundings = Surroundings {
            env: env.clone(),
            directory: now.paths.state_dir.clone(),
            settings,
            tls: Tls::default(),
            tasks,
            stop: CancellationToken::new(),
        };
        let mcp = Self { servers: Live::default(), surroundings: Arc::new(surroundings) };
        mcp.reconfigure(&now);
        mcp
    }

    /// The servers of another configuration. Those that are the same in both
    /// stay as they are; those that are in it no more are ended.
    pub fn reconfigure(&self, settings: &Settings) {
        let before = self.servers.now();
        let (wanted, stop) = (settings.mcp.servers.iter(), &self.surroundings.stop);
        let servers: Vec<_> = wanted
            .map(|config| {
                let known = before.iter().find(|known| known.config == *config);
                let begins = || Arc::new(Server::new(config.clone(), stop.child_token()));
                known.cloned().unwrap_or_else(begins)
            })
            .collect();
        for server in before.iter() {
            if !servers.iter().any(|kept| Arc::ptr_eq(kept, server)) {
                server.stop.cancel();
            }
        }
        self.servers.set(servers);
    }

    /// The tools of all servers that are there, starting those that are not.
    /// `taken` are names of other tools.
    pub async fn tools(&self, taken: impl Iterator<Item = String>) -> Vec<Arc<dyn Tool>> {
        let servers = self.servers.now();
        if servers.is_empty() || self.surroundings.stop.is_cancelled() {
            return Vec::new();
        }
        join_all(servers.iter().map(|server| server.offer(&self.surroundings))).await;
        let mut taken: HashSet<_> = taken.map(|name| name.to_lowercase()).collect();
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for server in servers.iter() {
            let mut refused = Vec::new();
            for offered in server.offered() {
                if !offered.is_task && taken.insert(offered.name.to_lowercase()) {
                    let surroundings = Arc::clone(&self.surroundings);
                    tools.push(Arc::new(McpTool::new(Arc::clone(server), surroundings, offered)));
                } else {
                    refused.push(offered.name);
                }
            }
            server.refuse(refused);
        }
        tools
    }

    /// What has become of each server.
    pub fn status(&self) -> Value {
        json!(self.servers.now().iter().map(|server| server.status()).collect::<Vec<_>>())
    }

    /// Whether there is any server.
    pub fn is_empty(&self) -> bool {
        self.servers.now().is_empty()
    }

    /// Ends all of them, and waits for that.
    pub async fn stop(&self) {
        self.surroundings.stop.cancel();
        let servers = self.servers.now();
        let ended = join_all(servers.iter().map(|server| server.ended()));
        if tokio::time::timeout(STOP_LIMIT, ended).await.is_err() {
            tracing::warn!("some MCP servers did not end in time");
        }
    }
}
