//! Which request, and which run, a line of the log belongs to.
//!
//! Owns: the spans that mark such lines, on standard error and in the file.
//! Promises: what somebody else has chosen is a name in a line, never a line. They
//! are there whenever there is a log at all, since an error wants its request most.
//! Those of a connection's requests are made by the first line that wants them: most
//! requests log nothing, and a span costs more than their answer.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, EnteredSpan};
use tracing::{Span, error_span};

/// Letters of a name that somebody else has given; ids of tracing systems have
/// some fifty.
const MAX_LETTERS: usize = 128;
/// What a name is called that is none.
const UNNAMED: &str = "?";

/// Whether a text of somebody else fits into a line of the log as it is.
pub fn is_name(text: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b"-_.:/+=".contains(&it);
    !text.is_empty() && text.len() <= MAX_LETTERS && text.bytes().all(is_letter)
}

fn name(text: &str) -> &str {
    if is_name(text) { text } else { UNNAMED }
}

/// What is logged while a request by HTTP is answered.
pub fn request(id: &str) -> Span {
    error_span!("request", id = name(id))
}

thread_local! {
    /// The request that this thread works for at the moment.
    static HERE: RefCell<Here> = const { RefCell::new(Here::Nobody) };
}

/// Whom a thread works for.
enum Here {
    Nobody,
    /// A request that has logged nothing.
    Named(Names),
    /// One that has.
    Marked(EnteredSpan),
}

/// A request of a connection.
struct Names {
    conn_id: Arc<str>,
    id: Arc<str>,
}

/// The mark of a request of a connection: a span, once there is a line for it.
pub struct Frame(Mark);

enum Mark {
    Names(Names),
    Span(Span),
    /// It is the thread's.
    Lent,
}

impl Frame {
    /// That of the request `id`.
    pub fn new(conn_id: Arc<str>, id: Arc<str>) -> Self {
        Self(Mark::Names(Names { conn_id, id }))
    }

    /// Does something for the request.
    pub fn within<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let here = match std::mem::replace(&mut self.0, Mark::Lent) {
            Mark::Names(names) => Here::Named(names),
            Mark::Span(span) => Here::Marked(span.entered()),
            Mark::Lent => Here::Nobody,
        };
        let _working = Working { frame: self, before: HERE.replace(here) };
        work()
    }

    /// What `answer` gives; all that it does is done for the request.
    pub fn poll<F: Future + Unpin>(
        &mut self,
        answer: &mut F,
        task: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.within(|| Pin::new(answer).poll(task))
    }
}

/// Gives a mark back, also when the work panics.
struct Working<'a> {
    frame: &'a mut Frame,
    before: Here,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut self.before, Here::Nobody);
        self.frame.0 = match HERE.replace(before) {
            Here::Named(names) => Mark::Names(names),
            Here::Marked(span) => Mark::Span(span.exit()),
            Here::Nobody => Mark::Lent,
        };
    }
}

/// Somebody logs, or wants to know the span: now there is one.
pub(super) fn mark() {
    let names = HERE.try_with(|here| {
        let mut here = here.try_borrow_mut().ok()?;
        match std::mem::replace(&mut *here, Here::Nobody) {
            Here::Named(names) => Some(names),
            other => {
                *here = other;
                None
            }
        }
    });
    let Some(Names { conn_id, id }) = names.ok().flatten() else { return };
    let span = error_span!("request", conn = &*conn_id, id = name(&id));
    HERE.set(Here::Marked(span.entered()));
}

/// What is logged by a connection that speaks something else than requests.
pub fn connection(conn_id: &str) -> Span {
    error_span!("connection", conn = conn_id)
}

/// What a run logs that was asked for in this span.
pub fn run(asked: &Span, id: &str) -> Span {
    error_span!(parent: asked, "run", id = name(id))
}

/// What such a span says of lines in it, with the names of members in the log file.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(pub Vec<(&'static str, String)>);

impl Marks {
    /// Those of a span that has just begun; none for other spans.
    pub fn of(span: &Attributes<'_>) -> Option<Self> {
        let metadata = span.metadata();
        if metadata.target() != module_path!() {
            return None;
        }
        let mut reader = Reader { is_run: metadata.name() == "run", marks: Self::default() };
        span.record(&mut reader);
        Some(reader.marks)
    }
}

struct Reader {
    is_run: bool,
    marks: Marks,
}

impl Visit for Reader {
    fn record_str(&mut self, field: &Field, value: &str) {
        let member = match field.name() {
            "conn" => "connId",
            _ if self.is_run => "runId",
            _ => "requestId",
        };
        self.marks.0.push((member, value.to_owned()));
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

#[cfg(test)]
mod tests {
    use std::ops::Not;

    use super::*;

    fn has_span(frame: &Frame) -> bool {
        matches!(frame.0, Mark::Span(_))
    }

    #[test]
    fn a_request_gets_its_span_with_the_first_line_and_keeps_it() {
        let frame = |conn_id: &str, id: &str| Frame::new(conn_id.into(), id.into());
        let (mut quiet, mut loud) = (frame("a", "1"), frame("b", "2"));
        mark();
        quiet.within(|| loud.within(mark));
        assert!(!has_span(&quiet) && has_span(&loud));
        assert!(HERE.with_borrow(|here| matches!(here, Here::Nobody)));
        loud.within(mark);
        assert!(has_span(&loud));
        let panics = || quiet.within(|| assert!(has_span(&loud).not(), "expected"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert!(matches!(quiet.0, Mark::Names(_)), "given back");
        assert!(HERE.with_borrow(|here| matches!(here, Here::Nobody)));
    }

    #[test]
    fn what_would_write_into_the_log_is_no_name() {
        for good in ["req-1_a.b:c", "18c4a2f0-5f0e-4a3e-9f3e-000000000000", "a/b+c="] {
            assert_eq!(name(good), good);
        }
        for wrong in ["", "a b", "a\nb", "a\"b", "\u{1b}[31m", "é", &"x".repeat(129)] {
            assert_eq!(name(wrong), UNNAMED, "{wrong:?}");
        }
    }
}
