//! Which request, and which run, a line of the log belongs to.
//!
//! Owns: the spans that mark such lines, on standard error and in the file.
//! Promises: what somebody else has chosen is a name in a line, never a line. They
//! are there whenever there is a log at all, since an error wants its request most.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::span::Attributes;
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

/// What is logged while a request of a connection is answered.
pub fn frame(conn_id: &str, id: &str) -> Span {
    error_span!("request", conn = conn_id, id = name(id))
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
    use super::*;

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
