//! Bodies of requests: read up to a bound of bytes and of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};

use crate::gateway::{Companion, Wire, accompanied};

use super::Manner;

/// How long a body may take: clients send it at once.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Why a body is not there. What of it was not read is not read any more, so the
/// connection ends with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// It has more bytes than it may.
    TooLarge,
    /// It did not come in time.
    TooSlow,
}

impl Unread {
    /// The status of the answer.
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
        }
    }

    /// The answer; the connection ends with it.
    pub(super) fn answer(self, manner: Manner, limit: u64) -> Response {
        let answer = manner.error(self.status(), &self.message(limit));
        ([(header::CONNECTION, "close")], answer).into_response()
    }

    /// In words; `limit` is how many bytes there may be.
    pub(super) fn message(self, limit: u64) -> String {
        match self {
            Self::TooLarge => format!("the body must have at most {limit} bytes"),
            Self::TooSlow => "the body took too long".into(),
        }
    }
}

/// How many bytes a body has, as the head of its request says.
pub(super) fn said_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Bytes of a body that nobody wants, as some clients send with GET.
const UNWANTED: u64 = 64 * 1024;

/// Whether a request with this method is for a route that reads no body.
pub(super) fn is_unwanted(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

/// The answer to a request whose body nobody wants, and that is too large to be
/// left unread in silence.
pub(super) fn refused(parts: &request::Parts, manner: Manner) -> Option<Response> {
    let is_too_large = is_unwanted(&parts.method) && is_said_too_large(&parts.headers, UNWANTED);
    is_too_large.then(|| Unread::TooLarge.answer(manner, UNWANTED))
}

/// The body of a request, and what tells whether it was read to its end.
pub(super) fn watched(body: Body) -> (Body, Reading) {
    let reading = Reading::default();
    let end = End(Arc::clone(&reading.is_over));
    (accompanied(body, end), reading)
}

/// How far a body was read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    is_over: Arc<AtomicBool>,
}

impl Reading {
    /// The answer to the request; when some of its body was not read, the connection
    /// is ended so that the client can read the answer.
    pub fn ended(self, wire: &Wire, headers: &HeaderMap, mut answer: Response) -> Response {
        let is_chunked = headers.contains_key(header::TRANSFER_ENCODING);
        let is_said = is_chunked || is_said_too_large(headers, 0);
        if !is_said || self.is_over.load(Ordering::Acquire) {
            return answer;
        }
        wire.meter.leave_rest();
        // What is shorter has come already, and the next request can follow it.
        if is_chunked || is_said_too_large(headers, UNWANTED) {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}

/// Notes that a body was read to its end.
struct End(Arc<AtomicBool>);

impl Companion for End {
    fn at_end(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Whether the head of a request says that its body has more bytes than that.
pub(super) fn is_said_too_large(headers: &HeaderMap, limit: u64) -> bool {
    said_length(headers).is_some_and(|length| length > limit)
}

/// The body.
///
/// # Errors
/// When it is too large or too slow.
pub(super) async fn read(headers: &HeaderMap, body: Body, limit: u64) -> Result<Bytes, Unread> {
    // What is said to be too large is not read.
    if is_said_too_large(headers, limit) {
        return Err(Unread::TooLarge);
    }
    let reading = Limited::new(body, usize::try_from(limit).unwrap_or(usize::MAX)).collect();
    match tokio::time::timeout(TIME_LIMIT, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        // Or than the connection may send; or nobody is there any more to be told.
        Ok(Err(_)) => Err(Unread::TooLarge),
        Err(_) => Err(Unread::TooSlow),
    }
}
