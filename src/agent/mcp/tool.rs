//! A tool of a server, as one of ours.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientRequest, CustomResult, ErrorCode, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::Value;

use super::connect::Offered;
use super::server::{Server, State};
use super::trouble::{self, Again, Trouble};
use super::{Surroundings, arguments as names, result};
use crate::agent::tools::{Tool, ToolContext, ToolOutput, ToolSource};
use crate::providers::ToolSpec;
use crate::support::BoxFuture;

/// Words of servers that do a tool only as a task: of the libraries for TypeScript, Python and
/// Rust, and of whoever names the member that says so.
const ONLY_AS_TASK: [&str; 4] =
    ["task augmentation", "task-augmented", "task-based invocation", "taskSupport"];

/// When a server is asked again that took no connection.
const SOON: Duration = Duration::from_millis(500);

/// The tool.
pub struct McpTool {
    server: Arc<Server>,
    around: Arc<Surroundings>,
    offered: Offered,
}

impl McpTool {
    /// One that a server has offered.
    pub fn new(server: Arc<Server>, around: Arc<Surroundings>, offered: Offered) -> Self {
        Self { server, around, offered }
    }

    async fn ask(&self, arguments: &Value) -> Result<ToolOutput, String> {
        let soon = SOON.min(self.server.config.connect);
        let asked = trouble::persistently(soon, move || self.ask_once(arguments)).await;
        asked.map_err(|trouble| trouble.text)
    }

    async fn ask_once(&self, arguments: &Value) -> Result<ToolOutput, Trouble> {
        let config = &self.server.config;
        // It may have broken since the turn began, and be back in a moment.
        let awake = self.server.awake(&self.around);
        let _ = tokio::time::timeout(config.connect, awake).await;
        let State::Ready(reached) = self.server.state() else {
            let why = self.server.error().map(|why| format!(": {why}")).unwrap_or_default();
            return Err(format!("The MCP server {} is not available{why}.", config.name).into());
        };
        let _under_way = reached.calls.token();
        let mut params = CallToolRequestParams::new(self.offered.own_name.clone());
        let named = arguments.as_object();
        params.arguments = named.map(|named| names::own(&self.offered.renamed, named));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let answered = tokio::time::timeout(config.request, answer(&reached.peer, request)).await;
        let Ok(answered) = answered else {
            let seconds = config.request.as_secs_f64();
            return Err(format!("{} did not answer within {seconds} seconds.", config.name).into());
        };
        let answer = match answered {
            Ok(ServerResult::CallToolResult(answer)) => Some(answer),
            Ok(ServerResult::CustomResult(CustomResult(answer))) => result::repaired(answer),
            Ok(ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_)) => {
                Some(CallToolResult::default())
            }
            Ok(_) => {
                let text = "wants to be asked in a way that is not supported.";
                return Err(format!("{} {text}", config.name).into());
            }
            Err(ServiceError::McpError(error)) => {
                // The reader of the list passes over `execution.taskSupport`.
                if is_only_as_task(error.code, &error.message) {
                    self.server.does_as_task(&self.offered.name);
                }
                return Err(error.message.into_owned().into());
            }
            Err(error) => {
                let again = trouble::again(&error);
                if again == Again::Anew {
                    reached.lost.cancel();
                }
                let text = format!("{}: {}", config.name, trouble::of(&error));
                return Err(Trouble { text, again });
            }
        };
        let answer = answer.ok_or_else(|| format!("{} gave no answer to a call.", config.name))?;
        Ok(result::output(&config.name, &self.offered.own_name, answer))
    }
}

/// Whether a server refuses a call since it does the tool only as a task.
fn is_only_as_task(code: ErrorCode, message: &str) -> bool {
    code == ErrorCode::METHOD_NOT_FOUND && ONLY_AS_TASK.iter().any(|words| message.contains(words))
}

/// Asks for something, whatever is answered.
pub async fn answer(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
) -> Result<ServerResult, ServiceError> {
    let asked = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    let mut waits = Waits { peer, id: Some(asked.id.clone()) };
    let answered = asked.await_response().await;
    waits.id = None;
    answered
}

/// Somebody waits for an answer. Dropped before that is there, it tells the server to stop.
struct Waits<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let why = "nobody waits for it any more".to_owned();
            let told = CancelledNotificationParam::new(Some(id), Some(why));
            // It is under way at once, if there is room for it.
            let _ = self.peer.notify_cancelled(told).now_or_never();
        }
    }
}

impl Tool for McpTool {
    fn name(&self) -> &str {
        &self.offered.name
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.offered.name.clone(),
            description: self.offered.description.clone(),
            parameters: self.offered.parameters.clone(),
        }
    }

    fn source(&self) -> ToolSource {
        ToolSource::Mcp(self.server.config.name.clone())
    }

    fn call<'a>(&'a self, _: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let asked = self.ask(arguments).await;
            asked.unwrap_or_else(|why| ToolOutput::failed(&self.offered.name, trouble::told(&why)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_a_task_says_so_in_the_words_of_a_library() {
        let not_found = ErrorCode::METHOD_NOT_FOUND;
        for message in [
            "Tool slow requires task augmentation (taskSupport: 'required')",
            "MCP error -32601: Tool slow requires task augmentation (taskSupport: 'required')",
            "This tool requires task-augmented invocation",
            "Tool requires task-based invocation",
        ] {
            assert!(is_only_as_task(not_found, message), "{message}");
            assert!(!is_only_as_task(ErrorCode::INVALID_PARAMS, message), "{message}");
        }
        for message in ["Method not found: create_task", "no such task", "Method not found"] {
            assert!(!is_only_as_task(not_found, message), "{message}");
        }
    }
}
