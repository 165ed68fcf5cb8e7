//! A tool of a server, as one of ours.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::ServiceError;
use serde_json::Value;

use super::connect::Offered;
use super::server::{Server, State};
use super::{Surroundings, result};
use crate::agent::tools::{Tool, ToolContext, ToolOutput, ToolSource};
use crate::providers::ToolSpec;
use crate::support::BoxFuture;
use crate::telemetry;

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
        let config = &self.server.config;
        // It may have broken since the turn began, and be back in a moment.
        let back = self.server.settled(&self.around);
        let _ = tokio::time::timeout(config.connect, back).await;
        let State::Ready(peer) = self.server.state() else {
            return Err(format!("The MCP server {} is not available.", config.name));
        };
        let mut params = CallToolRequestParams::new(self.offered.own_name.clone());
        params.arguments = arguments.as_object().cloned();
        // Dropped, it tells the server to stop.
        let asked = tokio::time::timeout(config.request, peer.call_tool_once(params)).await;
        let Ok(answered) = asked else {
            let seconds = config.request.as_secs_f64();
            return Err(format!("{} did not answer within {seconds} seconds.", config.name));
        };
        match answered {
            Ok(CallToolResponse::Complete(answer)) => {
                Ok(result::output(&config.name, &self.offered.own_name, answer))
            }
            Ok(_) => {
                Err(format!("{} wants to be asked in a way that is not supported.", config.name))
            }
            Err(ServiceError::McpError(error)) => Err(error.message.into_owned()),
            Err(error) => Err(format!("{}: {error}", config.name)),
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
            asked.unwrap_or_else(|error| {
                let error = telemetry::without_secrets(&error).into_owned();
                ToolOutput::failed(&self.offered.name, error)
            })
        })
    }
}
