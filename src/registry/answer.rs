//! What a request is answered with.
//!
//! Owns: the JSON of an answer. Promises: what many ask for is written once.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::protocol::Response;

/// JSON that answers a request.
#[derive(Debug)]
pub enum Answer {
    /// Written for it alone.
    Own(String),
    /// The same for many.
    Shared(Shared),
}

impl Answer {
    /// As text.
    pub fn json(&self) -> &str {
        match self {
            Self::Own(json) => json,
            Self::Shared(Shared(json)) => json.get(),
        }
    }

    /// As the frame that answers the request `id`.
    pub fn response(self, id: &Arc<str>) -> Response {
        match self {
            Self::Own(json) => Response::new(id, json),
            Self::Shared(Shared(json)) => Response::shared(id, json),
        }
    }
}

/// An answer of which there is one for many: it is copied into the frame of each, and
/// nowhere else.
#[derive(Debug, Clone)]
pub struct Shared(Arc<Box<RawValue>>);

impl From<Arc<Box<RawValue>>> for Shared {
    fn from(json: Arc<Box<RawValue>>) -> Self {
        Self(json)
    }
}

/// What a handler may return.
pub trait Answers {
    /// As JSON.
    ///
    /// # Errors
    /// It cannot be written; only a map whose keys are no texts cannot.
    fn into_answer(self) -> serde_json::Result<Answer>;
}

impl<T: Serialize> Answers for T {
    fn into_answer(self) -> serde_json::Result<Answer> {
        serde_json::to_string(&self).map(Answer::Own)
    }
}

impl Answers for Shared {
    fn into_answer(self) -> serde_json::Result<Answer> {
        Ok(Answer::Shared(self))
    }
}
