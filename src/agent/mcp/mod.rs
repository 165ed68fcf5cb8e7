//! MCP servers, whose tools join ours.
//!
//! Owns: the servers of `mcp.servers`: when one is started, what it offers,
//! what becomes of it. Promises: nothing is started before somebody needs it;
//! a server that is slow, broken or gone keeps no run from starting and is seen
//! in `status`; programs end with the gateway, with all that they started.
//! Must not: decide who may use a tool.

mod connect;
mod naming;
mod process;
mod result;
mod schema;
mod server;
mod tool;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::tools::Tool;
use super::web::Tls;
use crate::config::secrets::SecretsConfig;
use crate::config::{Env, Settings};
use crate::support::Tasks;
pub use naming::SEPARATOR;
use server::Server;
use tool::McpTool;

/// How long a turn waits for servers that are starting. Who is there later
/// takes part in the next turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long servers may take to end; then they are killed.
const STOP_LIMIT: Duration = Duration::from_secs(6);

/// All servers.
pub struct Mcp {
    servers: Vec<Arc<Server>>,
    surroundings: Arc<Surroundings>,
}

/// What servers are started with.
struct Surroundings {
    env: Env,
    secrets: SecretsConfig,
    /// Where programs run that are not told where.
    directory: std::path::PathBuf,
    tls: Tls,
    tasks: Tasks,
    stop: CancellationToken,
}

impl Mcp {
    /// The servers of a configuration, none of them started.
    pub fn new(settings: &Settings, env: &Env, tasks: Tasks) -> Self {
        let servers =
            settings.mcp.servers.iter().map(|config| Arc::new(Server::new(config.clone())));
        let surroundings = Surroundings {
            env: env.clone(),
            secrets: settings.secrets.clone(),
            directory: settings.paths.state_dir.clone(),
            tls: Tls::default(),
            tasks,
            stop: CancellationToken::new(),
        };
        Self { servers: servers.collect(), surroundings: Arc::new(surroundings) }
    }

    /// The tools of all servers that are there, starting those that are not.
    /// `taken` are names of other tools.
    pub async fn tools(&self, taken: impl Iterator<Item = String>) -> Vec<Arc<dyn Tool>> {
        if self.servers.is_empty() || self.surroundings.stop.is_cancelled() {
            return Vec::new();
        }
        let asked = self.servers.iter().map(|server| server.offer(&self.surroundings));
        // Who is not there by then is left out.
        let _ = tokio::time::timeout(PATIENCE, join_all(asked)).await;
        let mut taken: HashSet<_> = taken.map(|name| name.to_lowercase()).collect();
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for server in &self.servers {
            let mut refused = Vec::new();
            for offered in server.offered() {
                if taken.insert(offered.name.to_lowercase()) {
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
        json!(self.servers.iter().map(|server| server.status()).collect::<Vec<_>>())
    }

    /// Whether there is any server.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Ends all of them, and waits for that.
    pub async fn stop(&self) {
        self.surroundings.stop.cancel();
        let ended = join_all(self.servers.iter().map(|server| server.ended()));
        if tokio::time::timeout(STOP_LIMIT, ended).await.is_err() {
            tracing::warn!("some MCP servers did not end in time");
        }
    }
}
