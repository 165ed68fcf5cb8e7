//! Bodies of requests: read up to a bound of bytes and of time.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use tokio::time::{Instant, timeout};

use crate::auth::HttpProof;
use crate::gateway::{Companion, Wire, accompanied};

use super::Manner;

/// How long a body may take of somebody who has proved nothing: clients send it at once.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Of somebody who was let in, within so long …
pub(super) const WINDOW: Duration = Duration::from_secs(15);
/// … so much has to come, or all the rest: what a poor line of a phone has.
pub(super) const PROGRESS: usize = 64 * 1024;
/// Longer than the largest file takes there: nobody holds a place for ever.
pub(super) const LONGEST: Duration = Duration::from_hours(4);

/// How long a body may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// A few seconds: nobody knows who sends it.
    Hasty,
    /// As long as it comes on.
    Steady,
}

impl Pace {
    /// That of somebody who has shown this.
    pub(super) fn of(proof: HttpProof) -> Self {
        if proof == HttpProof::Nothing { Self::Hasty } else { Self::Steady }
    }

    /// Whether a body with this head may be under way for so long that what let its
    /// sender in may be taken away meanwhile.
    pub(super) fn may_be_long(self, headers: &HeaderMap) -> bool {
        let is_chunked = headers.contains_key(header::TRANSFER_ENCODING);
        self == Self::Steady && (is_chunked || said_length(headers).is_some_and(is_more))
    }
}

/// Whether so many bytes may be longer under way than [`WINDOW`].
fn is_more(bytes: u64) -> bool {
    usize::try_from(bytes).map_or(true, |bytes| bytes > PROGRESS)
}

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
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: u64,
    pace: Pace,
) -> Result<Bytes, Unread> {
    // What is said to be too large is not read.
    if is_said_too_large(headers, limit) {
        return Err(Unread::TooLarge);
    }
    let came = AtomicUsize::new(0);
    let counted = body.map_frame(|frame| {
        came.fetch_add(frame.data_ref().map_or(0, Bytes::len), Ordering::Relaxed);
        frame
    });
    let reading = Limited::new(counted, usize::try_from(limit).unwrap_or(usize::MAX)).collect();
    let mut reading = pin!(reading);
    let begun = Instant::now();
    let (window, longest) = match pace {
        Pace::Hasty => (TIME_LIMIT, TIME_LIMIT),
        Pace::Steady => (WINDOW, LONGEST),
    };
    loop {
        match timeout(window, &mut reading).await {
            Ok(Ok(body)) => return Ok(body.to_bytes()),
            // Or than the connection may send; or nobody is there any more to be told.
            Ok(Err(_)) => return Err(Unread::TooLarge),
            Err(_) => {
                let has_come_on = came.swap(0, Ordering::Relaxed) >= PROGRESS;
                if !has_come_on || begun.elapsed() >= longest {
                    return Err(Unread::TooSlow);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    /// So many bytes every ten seconds, so often.
    async fn comes(bytes: usize, count: usize, pace: Pace) -> Result<usize, Unread> {
        let chunk = Bytes::from(vec![b'x'; bytes]);
        let one = move |sent| {
            let chunk = chunk.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(10)).await;
                (sent < count).then(|| (Ok::<_, Infallible>(chunk), sent + 1))
            }
        };
        let body = Body::from_stream(stream::unfold(0, one));
        read(&HeaderMap::new(), body, u64::MAX, pace).await.map(|body| body.len())
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_let_in_may_send_for_as_long_as_it_comes_on() {
        assert_eq!(comes(PROGRESS, 15, Pace::Steady).await, Ok(15 * PROGRESS));
        assert_eq!(comes(PROGRESS, 15, Pace::Hasty).await, Err(Unread::TooSlow));
        assert_eq!(comes(1, 100, Pace::Steady).await, Err(Unread::TooSlow));
        assert_eq!(comes(PROGRESS, 1500, Pace::Steady).await, Err(Unread::TooSlow));
    }

    #[test]
    fn only_what_may_be_under_way_for_long_is_looked_at_again() {
        let with = |name: header::HeaderName, value: &str| {
            HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
        };
        let long =
            |headers: &HeaderMap| [Pace::Steady, Pace::Hasty].map(|pace| pace.may_be_long(headers));
        assert_eq!(long(&with(header::CONTENT_LENGTH, "65537")), [true, false]);
        assert_eq!(long(&with(header::TRANSFER_ENCODING, "chunked")), [true, false]);
        assert_eq!(long(&with(header::CONTENT_LENGTH, "65536")), [false, false]);
        assert_eq!(long(&HeaderMap::new()), [false, false]);
    }
}
