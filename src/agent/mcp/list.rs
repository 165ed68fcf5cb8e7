//! The list of a server's tools, page by page.
//!
//! Promises: an entry that is no tool costs no other. Must not: know what is made of them.

use rmcp::model::{
    ClientRequest, CustomResult, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool,
};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde::Deserialize;
use serde_json::Value;

use super::tool::answer;

/// A page of the list, and where the next one is.
pub async fn page(
    peer: &Peer<RoleClient>,
    server: &str,
    cursor: Option<String>,
) -> Result<(Vec<Tool>, Option<String>), ServiceError> {
    let params = PaginatedRequestParams::default().with_cursor(cursor);
    let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
    match answer(peer, request).await? {
        ServerResult::ListToolsResult(page) => Ok((page.tools, page.next_cursor)),
        // It is none as a whole.
        ServerResult::CustomResult(CustomResult(page)) => {
            read(server, &page).ok_or(ServiceError::UnexpectedResponse)
        }
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

fn read(server: &str, page: &Value) -> Option<(Vec<Tool>, Option<String>)> {
    let mut tools = Vec::new();
    for entry in page["tools"].as_array()? {
        if let Ok(tool) = Tool::deserialize(entry) {
            tools.push(tool);
        } else {
            let tool = entry["name"].as_str().unwrap_or_default();
            tracing::warn!(server, tool, "it is no tool, or has no schema");
        }
    }
    Some((tools, page["nextCursor"].as_str().map(str::to_owned)))
}
