//! The subscriber of all lines, which marks them first.
//!
//! Promises: the span of a request is there before anything looks at the line that
//! wants it; filters of layers keep notes from one call to the next, so a span that
//! was made between those would spoil them.

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber};
use tracing_core::span::Current;
use tracing_subscriber::filter::LevelFilter;

use super::asked::mark;

/// Has everything that is logged marked before it goes on.
pub(super) struct Marked<S>(pub S);

impl<S: Subscriber> Subscriber for Marked<S> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        mark();
        self.0.enabled(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        mark();
        self.0.event(event);
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        mark();
        self.0.new_span(span)
    }

    fn enter(&self, span: &Id) {
        mark();
        self.0.enter(span);
    }

    fn current_span(&self) -> Current {
        mark();
        self.0.current_span()
    }

    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        self.0.on_register_dispatch(dispatch);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.0.register_callsite(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.0.max_level_hint()
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.0.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.0.record_follows_from(span, follows);
    }

    fn event_enabled(&self, event: &Event<'_>) -> bool {
        self.0.event_enabled(event)
    }

    fn exit(&self, span: &Id) {
        self.0.exit(span);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.0.clone_span(id)
    }

    fn try_close(&self, id: Id) -> bool {
        self.0.try_close(id)
    }
}
