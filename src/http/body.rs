//! Bodies of requests: read up to a bound of bytes and of time.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, Limited};

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

    /// In words; `limit` is how many bytes there may be.
    pub(super) fn message(self, limit: u64) -> String {
        match self {
            Self::TooLarge => format!("the body must have at most {limit} bytes"),
            Self::TooSlow => "the body took too long".into(),
        }
    }
}

/// Whether the head of a request says that its body has more bytes than that.
pub(super) fn is_said_too_large(headers: &HeaderMap, limit: u64) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    length.and_then(|it| it.parse::<u64>().ok()).is_some_and(|length| length > limit)
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
