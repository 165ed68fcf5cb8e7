//! What a model is to know before it is asked.

use super::{ModelInfo, ModelRequest};
use crate::support::BoxFuture;

/// Completes a request for whichever model is asked.
pub trait Briefing: Send {
    /// Writes what `model` is told of itself, and what it may use, into `request`.
    fn brief<'a>(
        &'a mut self,
        model: &'a ModelInfo,
        request: &'a mut ModelRequest,
    ) -> BoxFuture<'a, ()>;
}

/// What it is told of itself, where all may use the same.
impl<F: FnMut(&ModelInfo) -> String + Send> Briefing for F {
    fn brief<'a>(
        &'a mut self,
        model: &'a ModelInfo,
        request: &'a mut ModelRequest,
    ) -> BoxFuture<'a, ()> {
        request.system = Some(self(model));
        Box::pin(std::future::ready(()))
    }
}
