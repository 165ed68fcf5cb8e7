//! Nodes: machines that connect and offer commands.
//!
//! Owns: which nodes are connected and what each may be asked for, the
//! invocations under way, the pairing of nodes, and the order of work that waits
//! for them. Promises: a node is asked only for what it declared, its platform
//! has, the config does not deny and it was granted; an invocation ends once, by
//! its answer, its time or the end of its connection; only the node that was
//! asked can answer. Must not: know about sockets or methods.

mod heard;
mod import;
mod invoke;
mod listing;
mod live;
mod pairing;
pub mod policy;
mod reports;
mod system_run;
mod work;

pub use invoke::{
    IN_BACKGROUND, InvokeError, MAX_LIMIT, NodeAnswer, NodeCall, NodeInvocation, NodeReply,
};
pub use listing::{FindNodeError, NodeRow, is_same_name};
pub use live::{Joining, LiveNode};
pub use pairing::{ApproveError, required_scopes};
pub use reports::{AgentRequest, ExecReport, NodeReport, SpeechPrint};
pub use system_run::{NodePlan, RunResult, forwarded, shell_argv};

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

use crate::bus::Bus;
use crate::config::Settings;
use crate::store::Store;
use crate::support::{Clock, Ids, Live};

/// What nodes work with.
pub struct NodesParts {
    /// The effective configuration.
    pub settings: Live<Settings>,
    /// Where they are kept.
    pub store: Arc<dyn Store>,
    /// Where events go.
    pub bus: Bus,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn Ids>,
    /// Where OpenClaw keeps its nodes.
    pub original: PathBuf,
}

/// All nodes.
pub struct Nodes {
    parts: NodesParts,
    // Never held across an await; see docs/locks.md.
    state: Mutex<live::State>,
    /// Held from a decision on a node until that counts, so that the last one does.
    deciding: AsyncMutex<()>,
    /// Set once OpenClaw's nodes were taken over.
    imported: OnceCell<()>,
    /// Set once that was tried for somebody who only looks.
    sought: OnceCell<()>,
}

impl Nodes {
    /// Nobody is connected yet.
    pub fn new(parts: NodesParts) -> Self {
        Self {
            parts,
            state: Mutex::default(),
            deciding: AsyncMutex::default(),
            imported: OnceCell::new(),
            sought: OnceCell::new(),
        }
    }

    /// The effective configuration.
    pub fn settings(&self) -> Arc<Settings> {
        self.parts.settings.now()
    }
}
