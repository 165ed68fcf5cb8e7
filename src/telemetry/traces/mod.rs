//! Traces: what a request led to, and how long each part took.
//!
//! Owns: spans, the context that goes from one to the next, the queue of those that
//! have ended, their form on the wire (OTLP, protobuf). Promises: while nobody wants
//! traces, each place that would make a span costs one load; the queue is bounded
//! and nobody waits for it; no attribute is what a person, a model or a tool has
//! said. Must not: know where they are sent.

mod context;
mod protobuf;
mod queue;
mod span;

pub use context::{SpanContext, current, within};
pub use protobuf::encode;
pub use queue::{Ended, Queued, close, flush, is_on, open};
pub use span::{Attribute, Kind, Span};
