//! From a configuration to a server that answers.
//!
//! Owns: starting or reaching it, saying hello, asking for its tools.
//! Promises: nothing configured goes anywhere but to that server: redirects
//! are not followed. Must not: decide when.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Fuse;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::ClientHandler;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams};
use rmcp::service::{
    NotificationContext, Peer, RoleClient, RunningServiceCancellationToken, serve_client,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::Value;
use tokio::sync::Notify;

use super::process::Process;
use super::{Surroundings, naming, schema};
use crate::config::cli_backend;
use crate::config::mcp::{McpProgram, McpServer, McpWay};
use crate::config::secrets::{ResolvedSecrets, SecretInput, resolve};
use crate::providers::root_cause;
use crate::support::{BoxFuture, Secret};

/// Longest message of a server: a picture.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// Most tools of a server: the model reads all of them with every call.
const MAX_TOOLS: usize = 256;
/// Most pages of its list.
const MAX_PAGES: usize = 32;
/// Longest description, in characters.
const MAX_DESCRIPTION: usize = 4000;
/// How long it may take to end a connection.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// A server that answers.
pub struct Connection {
    /// Who is asked.
    pub peer: Peer<RoleClient>,
    process: Option<Process>,
    token: RunningServiceCancellationToken,
    /// Ready once: it may be waited for again.
    waiting: Fuse<BoxFuture<'static, ()>>,
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
        let transport =
            AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MAX_MESSAGE);
        let service = serve_client(handler, transport).await;
        let service =
            service.map_err(|error| format!("it does not answer as a server: {error}"))?;
        Ok(Self::of(service, Some(process)))
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
            .max_sse_event_size(MAX_MESSAGE);
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let service = serve_client(handler, transport).await;
        let service = service.map_err(|error| format!("no connection: {}", root_cause(&error)))?;
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
        Self { peer, process, token, waiting: waiting.fuse() }
    }

    /// Waits until it is over.
    pub async fn ended(&mut self) -> String {
        let Some(process) = &mut self.process else {
            (&mut self.waiting).await;
            return "the connection ended".into();
        };
        tokio::select! {
            why = process.ended() => why,
            () = &mut self.waiting => "it closed its output".into(),
        }
    }

    /// Ends it.
    pub async fn close(self) {
        self.token.cancel();
        let _ = tokio::time::timeout(CLOSE_LIMIT, self.waiting).await;
        if let Some(process) = self.process {
            process.end().await;
        }
    }
}

/// The tools of a server.
///
/// # Errors
/// When it does not tell.
pub async fn tools(peer: &Peer<RoleClient>, server: &McpServer) -> Result<Vec<Offered>, String> {
    let has_tools = peer.peer_info().is_some_and(|info| info.capabilities.tools.is_some());
    let mut offered = Vec::new();
    if !has_tools {
        return Ok(offered);
    }
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await;
        let page = page.map_err(|error| format!("it does not tell its tools: {error}"))?;
        offered.extend(page.tools.iter().filter_map(|tool| read(server, tool)));
        cursor = page.next_cursor;
        if cursor.is_none() || offered.len() >= MAX_TOOLS {
            break;
        }
    }
    if offered.len() > MAX_TOOLS {
        tracing::warn!(server = server.name, "it has more than {MAX_TOOLS} tools");
        offered.truncate(MAX_TOOLS);
    }
    Ok(offered)
}

fn read(server: &McpServer, tool: &rmcp::model::Tool) -> Option<Offered> {
    let name = naming::name(&server.name, &tool.name);
    if !naming::is_wanted(&server.include, &server.exclude, &tool.name, &name) {
        return None;
    }
    let Some(parameters) = schema::cleaned(&tool.input_schema) else {
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
    Some(Offered { name, own_name: tool.name.to_string(), description, parameters })
}

/// What inputs hold; without those that are empty.
fn found(
    inputs: &BTreeMap<String, SecretInput>,
    secrets: &ResolvedSecrets,
) -> BTreeMap<String, Secret> {
    let found = inputs.iter();
    found.filter_map(|(name, input)| Some((name.clone(), input.resolve(secrets)?))).collect()
}
