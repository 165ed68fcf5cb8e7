//! The time while a request is answered: from its head to the last byte of the
//! answer's body.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;

use super::accompanied::{Companion, accompanied};
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
        answer.map(|body| accompanied(body, self))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answered();
    }
}

impl Companion for Answering {}
