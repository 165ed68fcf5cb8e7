//! Something that takes time.

use tokio::time::Instant;

use super::context::{SpanContext, current};
use super::queue::{self, Ended};
use crate::support::SystemClock;

/// What kind of work a span is, as OTLP numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Done here.
    Internal = 1,
    /// Done for somebody who asked.
    Server = 2,
    /// Asked of somebody else.
    Client = 3,
}

/// A fact about a span.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A text out of a list or out of the configuration.
    Text(String),
    /// A number.
    Number(u64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// A span under way; it ends when it is dropped. Nothing while nobody wants any.
#[derive(Debug)]
pub struct Span(Option<Box<Open>>);

#[derive(Debug)]
struct Open {
    ended: Ended,
    began: Instant,
}

impl Span {
    /// A span that begins now, below `parent` or as the first of a trace.
    pub fn begin(name: &str, kind: Kind, parent: Option<SpanContext>) -> Self {
        if !queue::is_on() {
            return Self(None);
        }
        let Some(context) = next(parent) else { return Self(None) };
        let ended = Ended {
            name: name.to_owned(),
            kind,
            context,
            parent: parent.map(|parent| parent.span_id),
            began_ns: SystemClock.now_ns(),
            ended_ns: 0,
            attributes: Vec::new(),
            has_failed: false,
        };
        Self(Some(Box::new(Open { ended, began: Instant::now() })))
    }

    /// One below the span that the running task is in.
    pub fn here(name: &str, kind: Kind) -> Self {
        if !queue::is_on() {
            return Self(None);
        }
        Self::begin(name, kind, current())
    }

    /// What it is known by.
    pub fn context(&self) -> Option<SpanContext> {
        self.0.as_ref().map(|open| open.ended.context)
    }

    /// What the lines of the log are marked with that are written in it.
    pub fn for_log(&self) -> tracing::Span {
        self.context().map_or_else(
            tracing::Span::none,
            |context| tracing::info_span!("trace", id = %format_args!("{:032x}", context.trace_id)),
        )
    }

    /// Gives it another name, once more is known.
    pub fn rename(&mut self, name: &str) {
        if let Some(open) = &mut self.0 {
            name.clone_into(&mut open.ended.name);
        }
    }

    /// Notes a fact.
    pub fn set<'a>(&mut self, name: &'static str, value: impl Into<Attribute> + 'a) {
        if let Some(open) = &mut self.0 {
            open.ended.attributes.push((name, value.into()));
        }
    }

    /// It goes wrong; `kind` is a word out of a list.
    pub fn fail(&mut self, kind: &str) {
        if let Some(open) = &mut self.0 {
            open.ended.has_failed = true;
            open.ended.attributes.push(("error.type", kind.into()));
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(open) = self.0.take() else { return };
        let Open { mut ended, began } = *open;
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        ended.ended_ns = ended.began_ns.saturating_add(took);
        if ended.context.is_sampled {
            queue::put(Box::new(ended));
        }
    }
}

/// What a span below `parent` is known by; `None` when the system has no random
/// numbers.
fn next(parent: Option<SpanContext>) -> Option<SpanContext> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).ok()?;
    let (trace, span) = bytes.split_at(16);
    let trace_id = u128::from_be_bytes(trace.try_into().ok()?).max(1);
    let span_id = u64::from_be_bytes(span.try_into().ok()?).max(1);
    let Some(parent) = parent else {
        return Some(SpanContext { trace_id, span_id, is_sampled: is_kept(trace_id) });
    };
    Some(SpanContext { span_id, ..parent })
}

/// Whether a trace is among those that are kept: the same one everywhere.
#[allow(clippy::cast_precision_loss)] // a share of all needs no more
fn is_kept(trace_id: u128) -> bool {
    let place = trace_id >> 75;
    (place as f64) < queue::rate() * (1_u128 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::NUMBERS;
    use crate::telemetry::traces::{Queued, close, open};

    /// One test for all: the queue belongs to the process.
    #[test]
    fn spans_are_made_while_somebody_wants_them_and_dropped_when_nobody_takes_them() {
        assert!(Span::begin("off", Kind::Internal, None).context().is_none());
        let mut queue = open(1.0);
        let mut parent = Span::begin("parent", Kind::Server, None);
        parent.set("number", 7);
        let child = Span::begin("child", Kind::Client, parent.context());
        let (of_parent, of_child) = (parent.context().unwrap(), child.context().unwrap());
        assert_eq!(of_parent.trace_id, of_child.trace_id);
        drop(child);
        parent.fail("timeout");
        drop(parent);
        let mut next = || match queue.try_recv() {
            Ok(Queued::Span(span)) => span,
            other => panic!("{other:?}"),
        };
        let (child, parent) = (next(), next());
        assert_eq!((child.name.as_str(), child.parent), ("child", Some(of_parent.span_id)));
        assert_eq!((parent.parent, parent.has_failed), (None, true));
        assert!(parent.began_ns <= child.began_ns && child.ended_ns >= child.began_ns);
        let facts = vec![("number", Attribute::Number(7)), ("error.type", "timeout".into())];
        assert_eq!(parent.attributes, facts);

        let dropped = || NUMBERS.spans.all().find(|(word, _)| *word == "dropped").unwrap().1;
        let before = dropped();
        for _ in 0..3000 {
            drop(Span::begin("many", Kind::Internal, None));
        }
        assert_eq!(dropped() - before, 3000 - 2048);

        let queue = open(0.0);
        let unkept = Span::begin("unkept", Kind::Internal, None);
        assert!(!unkept.context().unwrap().is_sampled);
        drop(unkept);
        // Somebody else has decided about the trace.
        let kept = SpanContext { trace_id: 1, span_id: 1, is_sampled: true };
        drop(Span::begin("kept", Kind::Internal, Some(kept)));
        assert_eq!(queue.len(), 1);
        let _half = open(0.5);
        let all = (0..1000).map(|_| Span::begin("half", Kind::Internal, None));
        let kept = all.filter(|span| span.context().is_some_and(|it| it.is_sampled)).count();
        assert!((400..600).contains(&kept), "{kept}");
        close();
        assert!(Span::begin("off", Kind::Internal, None).context().is_none());
    }
}
