//! The time while a request is answered: from its head to the last byte of the
//! answer's body.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Response;
use http_body::{Frame, SizeHint};

use super::meter::Meter;

/// While it lives the connection is not cut for being silent.
pub struct Answering(Arc<Meter>);

impl Answering {
    /// The head of a request has come.
    pub fn begin(meter: &Arc<Meter>) -> Self {
        meter.answering();
        Self(Arc::clone(meter))
    }

    /// Lives on until the answer has been handed over to be written.
    pub fn until_sent(self, answer: Response<Body>) -> Response<Body> {
        answer.map(|body| Body::new(Watched { body, _answering: self }))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answered();
    }
}

struct Watched {
    body: Body,
    _answering: Answering,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
