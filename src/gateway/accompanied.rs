//! Bodies of requests and answers that something goes with.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};

/// What is dropped with the body that it goes with.
pub trait Companion: Send + Unpin + 'static {
    /// The body has been read to its end.
    fn at_end(&self) {}
}

/// The body, with what lives as long as it.
pub fn accompanied(body: Body, companion: impl Companion) -> Body {
    Body::new(Accompanied { body, companion })
}

struct Accompanied<C> {
    body: Body,
    companion: C,
}

impl<C: Companion> HttpBody for Accompanied<C> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.companion.at_end();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
