//! Which span something happens in.

use std::fmt::Write as _;

tokio::task_local! {
    static CURRENT: SpanContext;
}

/// What a span is known by, here and elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace that it belongs to; not 0.
    pub trace_id: u128,
    /// Itself; not 0.
    pub span_id: u64,
    /// Whether the spans of the trace are kept.
    pub is_sampled: bool,
}

impl SpanContext {
    /// The one of a `traceparent` header (W3C Trace Context), if it is one.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let (span, flags) = (parts.next()?, parts.next()?);
        let is_hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        // A later version may say more behind what is known of this one.
        let is_whole = version != "00" || parts.next().is_none();
        let is_formed =
            is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
        if !is_whole || !is_formed || version == "ff" {
            return None;
        }
        let trace_id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
        let span_id = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Self { trace_id, span_id, is_sampled })
    }

    /// As a `traceparent` header.
    pub fn header(&self) -> String {
        let mut text = String::with_capacity(55);
        let Self { trace_id, span_id, is_sampled } = self;
        // Writing to a string does not fail.
        let _ = write!(text, "00-{trace_id:032x}-{span_id:016x}-{:02x}", u8::from(*is_sampled));
        text
    }
}

/// The span that the running task is in.
pub fn current() -> Option<SpanContext> {
    CURRENT.try_with(|context| *context).ok()
}

/// Runs `future` in a span, or as it is.
pub async fn within<F: Future>(context: Option<SpanContext>, future: F) -> F::Output {
    match context {
        Some(context) => CURRENT.scope(context, future).await,
        None => future.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_as_it_is_written() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = SpanContext::parse(text).unwrap();
        assert!(context.is_sampled);
        assert_eq!(context.header(), text);
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more";
        assert!(!SpanContext::parse(later).unwrap().is_sampled);
        for wrong in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
        ] {
            assert_eq!(SpanContext::parse(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn what_runs_within_a_span_knows_it() {
        let context = SpanContext { trace_id: 1, span_id: 2, is_sampled: true };
        assert_eq!(current(), None);
        within(Some(context), async { assert_eq!(current(), Some(context)) }).await;
        within(None, async { assert_eq!(current(), None) }).await;
    }
}
