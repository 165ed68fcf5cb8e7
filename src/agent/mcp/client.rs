//! Requests to a server that listens.
//!
//! Promises: a session that the server does not know any more is told as that, in whatever
//! words it says so; an event with half a character as an escape loses that, not its call.
//! Must not: ask again.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};

use crate::support::whole_escapes;

/// How the reason of a status 400 begins, in an error of the protocol.
const REFUSED: &str = "Bad Request";

type Failed = StreamableHttpError<reqwest::Error>;

/// Asks as the usual client does, which knows a lost session by status 404 alone. Many
/// servers say 400.
#[derive(Clone)]
pub struct Client(pub reqwest::Client);

impl StreamableHttpClient for Client {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, auth, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let has_session = session.is_some();
        let id = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let client = &self.0;
        let answered = client
            .post_message_with_response_limits(uri, message, session, auth, headers, limits)
            .await;
        if has_session && is_lost(&answered, id.as_ref()) {
            return Err(Failed::SessionExpired);
        }
        Ok(match answered? {
            StreamableHttpPostResponse::Sse(events, id) => {
                StreamableHttpPostResponse::Sse(whole(events), id)
            }
            answer => answer,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, Failed> {
        self.0.get_stream(uri, session, last_event, auth, headers).await.map(whole)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<BoxedSseResponse, Failed> {
        let client = &self.0;
        client
            .get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, most)
            .await
            .map(whole)
    }
}

/// The same events, with each half of a character replaced: the reader passes over what has one,
/// and who waits for it would wait to the end.
fn whole(events: BoxedSseResponse) -> BoxedSseResponse {
    let mended = events.map(|event| {
        event.map(|mut event| {
            let escaped = event.data.as_deref().filter(|data| data.contains("\\u"));
            if let Some(data) = escaped.and_then(whole_escapes) {
                event.data = Some(data);
            }
            event
        })
    });
    mended.boxed()
}

/// Whether the answer to this request says that there is no such session.
fn is_lost(answered: &Result<StreamableHttpPostResponse, Failed>, id: Option<&RequestId>) -> bool {
    match answered {
        // Most of them name no request, or another one: nobody would take that for the answer.
        Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(told), _)) => {
            let is_ours = told.id.is_some() && told.id.as_ref() == id;
            let text = &told.error.message;
            (!is_ours || text.starts_with(REFUSED)) && is_about_session(text)
        }
        Err(Failed::UnexpectedServerResponse(text)) => {
            text.starts_with("HTTP 400 ") && is_about_session(text)
        }
        _ => false,
    }
}

fn is_about_session(text: &str) -> bool {
    let text = text.to_lowercase();
    // A server with a single session has none after its restart.
    text.contains("session") || text.contains("not initialized")
}
