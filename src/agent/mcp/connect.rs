//! From a configuration to a server that answers.
//!
//! Owns: starting or reaching it, saying hello, asking for its tools.
//! Promises: nothing configured goes anywhere but to that server: redirects
//! are not followed. Must not: decide when.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Fuse, FusedFuture};
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::ClientHandler;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{
    ClientInitializeError, NotificationContext, Peer, RoleClient, RunningServiceCancellationToken,
    serve_client,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::arguments::Renamed;
use super::client::Client;
use super::lines::Lines;
use super::process::Process;
use super::way::Way;
use super::{Surroundings, list, naming, schema, trouble};
use crate::config::cli_backend;
use crate::config::mcp::{McpProgram, McpServer, McpWay};
use crate::config::secrets::{ResolvedSecrets, SecretInput, resolve};
use crate::providers::root_cause;
use crate::support::{BoxFuture, Secret, sort};

/// Longest message of a server: a picture.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// Most tools of a server: the model reads all of them with every call.
const MAX_TOOLS: usize = 256;
/// Most pages of its list.
const MAX_PAGES: usize = 32;
/// Longest description, in characters.
const MAX_DESCRIPTION: usize = 4000;
/// How long it may take to end a connection.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// How long a program may take to have ended that says or reads nothing more.
const NEWS_LIMIT: Duration = Duration::from_secs(3);

/// A server that answers.
pub struct Connection {
    /// For those who ask.
    pub reached: Reached,
    process: Option<Process>,
    token: RunningServiceCancellationToken,
    /// Ready once: it may be waited for again.
    waiting: Fuse<BoxFuture<'static, ()>>,
}

/// Who is asked over a connection.
#[derive(Clone)]
pub struct Reached {
    /// Who answers.
    pub peer: Peer<RoleClient>,
    /// Cancelled by who was told that it answers nothing new any more.
    pub lost: CancellationToken,
    /// Calls that are under way.
    pub calls: TaskTracker,
}

impl Reached {
    /// Whether it can be asked.
    pub fn is_there(&self) -> bool {
        !self.peer.is_transport_closed() && !self.lost.is_cancelled()
    }
}

/// A tool of a server.
#[derive(Debug, Clone)]
pub struct Offered {
    /// For the model.
    pub name: String,
    /// For the server.
    pub own_name: String,
    /// What it is good for, in the server's words.
    pub description: String,
    /// Schema of its arguments.
    pub parameters: Value,
    /// The server's names of some of them.
    pub renamed: Renamed,
    /// Whether the server has said that it does it only as a task, which nobody here asks for.
    pub is_task: bool,
}

/// What we are to a server.
struct Handler {
    changed: Arc<Notify>,
}

impl ClientHandler for Handler {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("clawgate", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
    }
}

impl Connection {
    /// Reaches a server. `changed` is told when its tools are others.
    ///
    /// # Errors
    /// Why that is not possible; no secret is in it.
    pub async fn open(
        server: &McpServer,
        around: &Surroundings,
        changed: Arc<Notify>,
    ) -> Result<Self, String> {
        let references = server.references().into_iter().cloned().collect();
        let settings = around.settings.now();
        let (secrets, lost) =
            resolve(&references, &settings.secrets, &settings.environment(&around.env)).await;
        if let Some((reference, error)) = lost.into_iter().next() {
            return Err(format!("the secret {reference} cannot be had: {error}"));
        }
        let handler = Handler { changed };
        match server.way.as_ref().map_err(String::clone)? {
            McpWay::Stdio(program) => {
                Self::start(&server.name, program, &secrets, around, handler).await
            }
            McpWay::Http { url, headers } => {
                Self::reach(url, headers, &secrets, around, handler).await
            }
        }
    }

    async fn start(
        name: &str,
        program: &McpProgram,
        secrets: &ResolvedSecrets,
        around: &Surroundings,
        handler: Handler,
    ) -> Result<Self, String> {
        let variables = around.settings.now().environment(&around.env);
        let mut env = cli_backend::passed(&|name| variables.get(name));
        env.extend(found(&program.env, secrets));
        let started = Process::start(name, program, &env, &around.directory, &around.tasks);
        let (process, stdout, stdin) =
            started.map_err(|error| format!("cannot start {:?}: {error}", program.command))?;
        // The lines have bounds already.
        let transport = AsyncRwTransport::new_client(Lines::new(name, stdout), stdin)
            .with_max_line_length(usize::MAX);
        let way = Way::Program(Box::new(transport));
        let (why, may_have_ended) = match serve_client(handler, way).await {
            Ok(service) => return Ok(Self::of(service, Some(process))),
            Err(error) => (trouble::of_beginning(&error), is_closed(&error)),
        };
        let why = format!("it does not answer as a server: {why}");
        if !may_have_ended {
            return Err(why);
        }
        Err(match tokio::time::timeout(NEWS_LIMIT, process.failed()).await {
            Ok((_, Some(reason))) => format!("cannot start {:?}: {reason}", program.command),
            Ok((ended, None)) => format!("{why}; {ended}"),
            Err(_) => why,
        })
    }

    async fn reach(
        url: &SecretInput,
        headers: &BTreeMap<String, SecretInput>,
        secrets: &ResolvedSecrets,
        around: &Surroundings,
        handler: Handler,
    ) -> Result<Self, String> {
        let url = url.resolve(secrets).ok_or("url is empty")?;
        let is_http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let url = Url::parse(url.expose()).ok().filter(is_http);
        let url = url.ok_or("url is no http or https address")?;
        let mut sent = HashMap::new();
        for (name, value) in found(headers, secrets) {
            let header = HeaderName::try_from(&name).ok();
            let value = HeaderValue::from_str(value.expose()).ok();
            let (header, mut value) =
                header.zip(value).ok_or_else(|| format!("headers.{name} is no header"))?;
            value.set_sensitive(true);
            sent.insert(header, value);
        }
        let builder = around.tls.trusted(&url).await?;
        let client = builder.build().map_err(|error| root_cause(&error))?;
        let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
            .custom_headers(sent)
            .max_sse_event_size(MAX_MESSAGE)
            // Who is another one after a restart may have other tools.
            .reinit_on_expired_session(false);
        let transport = StreamableHttpClientTransport::with_client(Client(client), config);
        let service = serve_client(handler, Way::Http(transport)).await;
        let service =
            service.map_err(|error| format!("no connection: {}", trouble::of_beginning(&error)))?;
        Ok(Self::of(service, None))
    }

    fn of(
        service: rmcp::service::RunningService<RoleClient, Handler>,
        process: Option<Process>,
    ) -> Self {
        let (peer, token) = (service.peer().clone(), service.cancellation_token());
        let waiting: BoxFuture<'static, ()> = Box::pin(async move {
            if let Err(error) = service.waiting().await {
                tracing::warn!(%error, "an MCP connection ended badly");
            }
        });
        let (lost, calls) = (CancellationToken::new(), TaskTracker::new());
        let reached = Reached { peer, lost, calls };
        Self { reached, process, token, waiting: waiting.fuse() }
    }

    /// Waits until it is over.
    pub async fn ended(&mut self) -> String {
        let Some(process) = &mut self.process else {
            return tokio::select! {
                () = &mut self.waiting => "the connection ended".into(),
                () = self.reached.lost.cancelled() => "it began anew".into(),
            };
        };
        let mut closed = "it closed its output";
        if !self.waiting.is_terminated() {
            tokio::select! {
                why = process.ended() => return why,
                () = &mut self.waiting => {}
                () = self.reached.lost.cancelled() => closed = "it reads no more",
            }
        }
        // Whoever holds it ends what it has left behind before that is known.
        let ended = tokio::time::timeout(NEWS_LIMIT, process.ended()).await;
        ended.unwrap_or_else(|_| closed.into())
    }

    /// Whether the calls that are under way may be answered all the same.
    pub fn may_answer(&self) -> bool {
        self.process.is_none() && self.reached.lost.is_cancelled()
    }

    /// Ends it once its calls are answered, after this time at the latest.
    pub async fn close_after_calls(self, limit: Duration) {
        self.reached.calls.close();
        let _ = tokio::time::timeout(limit, self.reached.calls.wait()).await;
        self.close().await;
    }

    /// Ends it.
    pub async fn close(self) {
        self.token.cancel();
        if !self.waiting.is_terminated() {
            let _ = tokio::time::timeout(CLOSE_LIMIT, self.waiting).await;
        }
        if let Some(process) = self.process {
            process.end().await;
        }
    }
}

/// Whether a program has closed a pipe before it was reached: it may have ended.
const fn is_closed(error: &ClientInitializeError) -> bool {
    matches!(
        error,
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
    )
}

/// The tools of a server, and whether these are all: those that it has told when it fails
/// on the way.
///
/// # Errors
/// When it tells none.
pub async fn tools(
    peer: &Peer<RoleClient>,
    server: &McpServer,
) -> Result<(Vec<Offered>, bool), String> {
    let has_tools = peer.peer_info().is_some_and(|info| info.capabilities.tools.is_some());
    let (mut offered, mut is_whole) = (Vec::new(), true);
    if !has_tools {
        return Ok((offered, is_whole));
    }
    let (mut cursor, mut cursors, mut known) = (None, HashSet::new(), HashSet::new());
    for number in 0..MAX_PAGES {
        let (page, next) = match list::page(peer, &server.name, cursor).await {
            Ok(page) => page,
            Err(error) if number == 0 => {
                return Err(format!("it does not tell its tools: {}", trouble::of(&error)));
            }
            Err(error) => {
                let why = trouble::of(&error);
                tracing::warn!(server = server.name, why, "it does not tell all of its tools");
                is_whole = false;
                break;
            }
        };
        // A page may be empty, though others come after it.
        let new = page.iter().filter(|tool| known.insert(tool.name.clone()));
        offered.extend(new.filter_map(|tool| read(server, tool)));
        cursor = next;
        let Some(next) = &cursor else { break };
        if offered.len() >= MAX_TOOLS {
            break;
        }
        if !cursors.insert(next.clone()) {
            tracing::warn!(server = server.name, "its list of tools goes in a circle");
            break;
        }
    }
    if offered.len() > MAX_TOOLS {
        tracing::warn!(server = server.name, "it has more than {MAX_TOOLS} tools");
        offered.truncate(MAX_TOOLS);
    }
    Ok((offered, is_whole))
}

fn read(server: &McpServer, tool: &rmcp::model::Tool) -> Option<Offered> {
    let name = naming::name(&server.name, &tool.name);
    if !naming::is_wanted(&server.include, &server.exclude, &tool.name, &name) {
        return None;
    }
    let Some((parameters, renamed)) = schema::cleaned(&tool.input_schema) else {
        tracing::warn!(server = server.name, tool = %tool.name, "its schema cannot be used");
        return None;
    };
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    let description: String = description.trim().chars().take(MAX_DESCRIPTION).collect();
    let description = if description.is_empty() {
        format!("{} of the MCP server {}.", tool.name, server.name)
    } else {
        description
    };
    let own_name = tool.name.to_string();
    Some(Offered { name, own_name, description, parameters, renamed, is_task: false })
}

/// What inputs hold; without those that are empty.
fn found(
    inputs: &BTreeMap<String, SecretInput>,
    secrets: &ResolvedSecrets,
) -> BTreeMap<String, Secret> {
    let found = inputs.iter();
    sort::map(found.filter_map(|(name, input)| Some((name.clone(), input.resolve(secrets)?))))
}
