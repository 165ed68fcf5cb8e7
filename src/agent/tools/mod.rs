//! Tools that the model may call.
//!
//! Owns: the list of tools and the way of a call to one. Promises: a call that
//! names no tool, or arguments that do not fit, is an answer the model can
//! read, never the end of the run. Must not: know the model's API.

mod arguments;
pub mod catalog;
mod clients;
mod context;
mod cron;
mod exec;
pub(super) mod files;
mod gateway;
mod image;
mod memory;
mod message;
mod misnamed;
mod nodes;
mod output;
mod policy;
pub(super) mod schema;
mod sessions;
mod web;

pub use context::{CallNews, NewsSender, ToolContext, ToolNews};
pub use files::patch;
pub use misnamed::misnamed;
pub use output::ToolOutput;
pub use policy::{ToolScope, allows};
pub use web::user_agent;

use std::sync::Arc;

use serde_json::Value;

use crate::agent::mcp::Mcp;
use crate::agent::reach::FileLocks;
use crate::agent::web::Tls;
use crate::config::{Env, Settings};
use crate::protocol::message::ToolCall;
use crate::providers::ToolSpec;
use crate::support::{BoxFuture, Live, Tasks};

/// What calling a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Nothing: the turn could be played again.
    Reads,
    /// Something.
    Changes,
    /// It runs a program: clients see its output as it comes.
    Command,
}

/// Where a tool comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolSource {
    /// It is built in.
    Core,
    /// The MCP server of this name.
    Mcp(String),
}

impl ToolSource {
    /// The sources that lists of tools tell apart, and what the tools of each are called.
    pub const LISTED: [(&'static str, &'static str); 2] =
        [("core", "Built-in tools"), ("plugin", "Connected tools")];

    /// `core` or `plugin`, as lists of tools have it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Mcp(_) => "plugin",
        }
    }

    /// `core` or `mcp`, as the answer of a call has it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Mcp(_) => "mcp",
        }
    }

    /// The name of what is not built in.
    pub fn plugin(&self) -> Option<&str> {
        match self {
            Self::Core => None,
            Self::Mcp(server) => Some(server),
        }
    }
}

/// Why a call does not come to its tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no such tool here.
    #[error("Tool {0} not found")]
    Unknown(String),
    /// The arguments do not fit; the text says how.
    #[error("{0}")]
    Invalid(String),
}

/// One tool.
pub trait Tool: Send + Sync {
    /// The name that the model calls it by.
    fn name(&self) -> &str;

    /// How the model sees it.
    fn spec(&self) -> ToolSpec;

    /// Whether the configuration has it at all.
    fn is_offered(&self, _settings: &Settings) -> bool {
        true
    }

    /// Whether it is there for this agent, where the configuration has it.
    fn is_for(&self, _settings: &Settings, _agent: &str) -> bool {
        true
    }

    /// What calling it does.
    fn kind(&self) -> ToolKind {
        ToolKind::Changes
    }

    /// Whether whoever asked does it himself: then a call of it ends the run.
    fn is_of_client(&self) -> bool {
        false
    }

    /// Where it comes from.
    fn source(&self) -> ToolSource {
        ToolSource::Core
    }

    /// In words, what is done with these arguments: it follows the tool's name
    /// on cards. `None` when there is nothing to say. The arguments were not
    /// checked.
    fn meta(&self, _arguments: &Value) -> Option<String> {
        None
    }

    /// Does it, with arguments that fit its schema. Dropping the future stops it.
    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput>;
}

/// The tools there are.
pub struct Tools {
    builtin: Live<Vec<Arc<dyn Tool>>>,
    mcp: Mcp,
    env: Env,
    /// The same under every configuration: a call of the one before may still write.
    locks: FileLocks,
}

impl Tools {
    /// Those of a configuration. Nothing is started and nobody is asked.
    pub fn new(settings: &Live<Settings>, env: &Env, tasks: Tasks) -> Self {
        let locks = FileLocks::default();
        let builtin = Live::new(builtin(&settings.now(), env, &locks));
        Self { builtin, mcp: Mcp::new(settings.clone(), env, tasks), env: env.clone(), locks }
    }

    /// Those of another configuration, for turns that begin from now on. What a
    /// tool does now it does to its end.
    pub fn reconfigure(&self, settings: &Settings) {
        self.builtin.set(builtin(settings, &settings.environment(&self.env), &self.locks));
        self.mcp.reconfigure(settings);
    }

    /// The tools that somebody may use in a session of this agent. Starts the MCP
    /// servers of them, and waits a moment for those that are not there yet.
    pub async fn toolbox(&self, settings: &Settings, agent: &str, scope: &ToolScope) -> Toolbox {
        let builtin = self.builtin.now();
        let taken = builtin.iter().map(|tool| tool.name().to_owned());
        let foreign = self.mcp.tools(taken).await;
        let all = builtin.iter().chain(&foreign);
        let allowed = all.filter(|tool| may_use(&***tool, settings, agent, scope));
        Toolbox(allowed.cloned().collect())
    }

    /// The MCP servers.
    pub const fn mcp(&self) -> &Mcp {
        &self.mcp
    }

    /// Every tool that is built in.
    pub fn builtin(&self) -> Arc<Vec<Arc<dyn Tool>>> {
        self.builtin.now()
    }
}

/// Whether a tool is there for this agent and may be used.
fn may_use(tool: &dyn Tool, settings: &Settings, agent: &str, scope: &ToolScope) -> bool {
    let is_there = tool.is_offered(settings) && tool.is_for(settings, agent);
    let is_harmless = tool.kind() == ToolKind::Reads || !scope.only_reads();
    is_there && is_harmless && scope.allows(settings, tool.name())
}

/// The tools that are built in, under one configuration.
fn builtin(settings: &Settings, env: &Env, locks: &FileLocks) -> Vec<Arc<dyn Tool>> {
    let tls = Arc::new(Tls::default());
    let mut builtin: Vec<Arc<dyn Tool>> = vec![
        Arc::new(gateway::GatewayStatus),
        Arc::new(cron::CronTool),
        Arc::new(exec::Exec),
        Arc::new(exec::ProcessTool),
        Arc::new(memory::MemorySearch),
        Arc::new(memory::MemoryGet),
        Arc::new(message::MessageTool),
        Arc::new(nodes::Nodes),
        Arc::new(image::Image::new(&settings.web.fetch, env, Arc::clone(&tls))),
    ];
    builtin.extend(files::tools(locks));
    builtin.extend(sessions::all());
    builtin.extend(web::tools(settings, env, &tls));
    builtin
}

/// The tools of one turn.
#[derive(Clone, Default)]
pub struct Toolbox(Vec<Arc<dyn Tool>>);

impl Toolbox {
    /// The same with tools of whoever asks. They come before others of their names,
    /// which would do something else than he means.
    #[must_use]
    pub fn with_clients(mut self, specs: &[ToolSpec]) -> Self {
        self.0.retain(|tool| specs.iter().all(|spec| spec.name != tool.name()));
        let theirs = specs.iter().cloned().map(clients::ClientTool::new);
        self.0.extend(theirs.map(|tool| Arc::new(tool) as Arc<dyn Tool>));
        self
    }

    /// Those of these names which whoever asks does not do himself.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        self.0.retain(|tool| names.contains(&tool.name()) && !tool.is_of_client());
        self
    }

    /// The tools.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Tool> {
        self.0.iter().map(|tool| &**tool)
    }

    /// How the model sees them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.0.iter().map(|tool| tool.spec()).collect()
    }

    /// The tool of this name.
    pub fn find(&self, name: &str) -> Option<&dyn Tool> {
        self.0.iter().find(|tool| tool.name() == name).map(|tool| &**tool)
    }

    /// Runs one call.
    pub async fn call(&self, cx: &ToolContext, call: &ToolCall) -> ToolOutput {
        match self.check(call) {
            Ok((tool, arguments)) => tool.call(cx, &arguments).await.without_secrets(),
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }

    /// The tool of a call, and its arguments as the tool wants them.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn check(&self, call: &ToolCall) -> Result<(&dyn Tool, Value), CallError> {
        let Some(tool) = self.find(&call.name) else {
            return Err(CallError::Unknown(call.name.clone()));
        };
        let arguments = arguments::check(&tool.spec(), &call.arguments);
        arguments.map(|arguments| (tool, arguments)).map_err(CallError::Invalid)
    }
}
