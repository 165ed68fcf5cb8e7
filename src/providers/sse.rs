//! Events out of a stream of bytes: server-sent ones, or lines of JSON.
//!
//! Owns: finding lines and events across chunk borders. Promises: how the
//! bytes are cut into chunks makes no difference; no input makes it panic; no
//! event grows past its limit. Must not: know what the data means.

use std::collections::VecDeque;

/// Why a stream of bytes cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// Someone sends a line or an event without end.
    #[error("an event of the stream is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
}

/// What the parts of a stream are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON document in each line.
    Lines,
}

/// Lines out of chunks; `\n`, `\r\n` and `\r` end one. NDJSON is just this.
#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
    /// A `\r` has ended the last line: a `\n` right after it belongs to it.
    after_cr: bool,
}

impl Lines {
    /// Calls `line` for every line that is complete now.
    pub fn push(&mut self, chunk: &[u8], mut line: impl FnMut(&[u8])) {
        let mut rest = chunk;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.partial.extend_from_slice(rest);
                return;
            };
            let (text, tail) = rest.split_at(end);
            self.after_cr = tail.first() == Some(&b'\r');
            if self.partial.is_empty() {
                line(text);
            } else {
                self.partial.extend_from_slice(text);
                line(&std::mem::take(&mut self.partial));
            }
            rest = tail.get(1..).unwrap_or_default();
        }
    }

    /// How many bytes of an incomplete line are held.
    pub fn held(&self) -> usize {
        self.partial.len()
    }

    /// What stands after the last line end.
    pub fn finish(&mut self) -> Vec<u8> {
        self.after_cr = false;
        std::mem::take(&mut self.partial)
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    /// `event:`; empty when there was none.
    pub event: String,
    /// All `data:` lines, joined by `\n`.
    pub data: String,
}

/// Events out of chunks.
#[derive(Debug)]
pub struct SseParser {
    framing: Framing,
    lines: Lines,
    draft: Draft,
    ready: VecDeque<SseEvent>,
    failed: Option<SseError>,
}

#[derive(Debug)]
struct Draft {
    limit: usize,
    at_start: bool,
    event: String,
    data: Option<String>,
}

impl SseParser {
    /// A parser that refuses events of more than `limit` bytes.
    pub const fn new(framing: Framing, limit: usize) -> Self {
        Self {
            framing,
            lines: Lines { partial: Vec::new(), after_cr: false },
            draft: Draft { limit, at_start: true, event: String::new(), data: None },
            ready: VecDeque::new(),
            failed: None,
        }
    }

    /// Takes the next bytes. Whatever follows a failure is ignored.
    pub fn feed(&mut self, chunk: &[u8]) {
        let Self { framing, lines, draft, ready, failed } = self;
        lines.push(chunk, |line| {
            if failed.is_none() {
                match draft.take_line(*framing, line) {
                    Ok(event) => ready.extend(event),
                    Err(error) => *failed = Some(error),
                }
            }
        });
        if failed.is_none() {
            *failed = draft.check(lines.held()).err();
        }
        if failed.is_some() {
            lines.finish();
        }
    }

    /// Takes the end of the stream: an event that lacks its empty line counts,
    /// since some servers leave the last one out.
    pub fn finish(&mut self) {
        let rest = self.lines.finish();
        if self.failed.is_some() {
            return;
        }
        match self.draft.take_line(self.framing, &rest) {
            Ok(event) => self.ready.extend(event.or_else(|| self.draft.take())),
            Err(error) => self.failed = Some(error),
        }
    }

    /// The next event that is complete, if one is.
    ///
    /// # Errors
    /// When an event is too long; those before it come first.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, SseError> {
        match (self.ready.pop_front(), self.failed) {
            (Some(event), _) => Ok(Some(event)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }
}

impl Draft {
    fn check(&self, more: usize) -> Result<(), SseError> {
        let held = self.event.len() + self.data.as_ref().map_or(0, String::len);
        if held.saturating_add(more) > self.limit {
            return Err(SseError::TooLong { limit: self.limit });
        }
        Ok(())
    }

    fn take_line(&mut self, framing: Framing, bytes: &[u8]) -> Result<Option<SseEvent>, SseError> {
        match framing {
            Framing::Events => self.line(bytes),
            Framing::Lines => {
                let text = String::from_utf8_lossy(bytes);
                self.check(text.len())?;
                let data = text.trim().to_owned();
                Ok((!data.is_empty()).then(|| SseEvent { event: String::new(), data }))
            }
        }
    }

    fn line(&mut self, bytes: &[u8]) -> Result<Option<SseEvent>, SseError> {
        // What is no text grows when it becomes one.
        let text = String::from_utf8_lossy(bytes);
        self.check(text.len())?;
        let mut line = text.as_ref();
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.take());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments (an empty field name), `id`, `retry`, and what is unknown.
            _ => {}
        }
        Ok(None)
    }

    /// An event without data is none, by the standard; nor is one whose data is blank, with which
    /// some proxies keep a connection open.
    fn take(&mut self) -> Option<SseEvent> {
        let event = std::mem::take(&mut self.event);
        let data = self.data.take().filter(|data| !data.trim().is_empty());
        data.map(|data| SseEvent { event, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Outcome = (Vec<SseEvent>, Option<SseError>);

    fn parse<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
        let mut parser = SseParser::new(Framing::Events, limit);
        for chunk in chunks {
            parser.feed(chunk);
        }
        parser.finish();
        let mut events = Vec::new();
        loop {
            match parser.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return (events, None),
                Err(error) => return (events, Some(error)),
            }
        }
    }

    fn event(event: &str, data: &str) -> SseEvent {
        SseEvent { event: event.into(), data: data.into() }
    }

    #[track_caller]
    fn reads(input: &str, expected: &[SseEvent]) {
        assert_eq!(parse(1000, [input.as_bytes()]), (expected.to_vec(), None));
    }

    #[test]
    fn every_kind_of_line_end_ends_a_line() {
        for end in ["\n", "\r\n", "\r"] {
            let input = format!("event: a{end}data: 1{end}{end}data:2{end}{end}");
            reads(&input, &[event("a", "1"), event("", "2")]);
        }
    }

    #[test]
    fn data_lines_are_joined_and_comments_skipped() {
        reads(": ping\ndata: a\n: more\ndata:  b\ndata\n\n", &[event("", "a\n b\n")]);
    }

    #[test]
    fn an_event_without_data_is_none_and_its_name_is_forgotten() {
        reads("event: a\nid: 1\nretry: 5\n\ndata: x\n\n", &[event("", "x")]);
        reads("event: a\ndata:\n\ndata: \n\ndata: x\n\n", &[event("", "x")]);
    }

    #[test]
    fn the_last_event_counts_without_its_empty_line() {
        reads("data: a\n\ndata: b", &[event("", "a"), event("", "b")]);
        reads("data: a\n", &[event("", "a")]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_and_broken_utf_8_replaced() {
        reads("\u{feff}data: a\n\n", &[event("", "a")]);
        assert_eq!(parse(99, [&b"data: \xff\n\n"[..]]), (vec![event("", "\u{fffd}")], None));
    }

    #[test]
    fn a_character_survives_being_cut_in_two() {
        let (head, tail) = "data: é\n\n".as_bytes().split_at(7);
        assert_eq!(parse(99, [head, tail]), (vec![event("", "é")], None));
    }

    #[test]
    fn an_endless_line_and_an_endless_event_fail_after_what_came_before() {
        let limit = Some(SseError::TooLong { limit: 20 });
        let line = format!("data: a\n\ndata: {}", "x".repeat(30));
        assert_eq!(parse(20, [line.as_bytes()]), (vec![event("", "a")], limit));
        let many = format!("data: a\n\n{}\n", "data: 12345\n".repeat(5));
        assert_eq!(parse(20, [many.as_bytes()]), (vec![event("", "a")], limit));
    }

    #[test]
    fn what_is_no_text_does_not_grow_past_the_limit() {
        let bytes = [b"data: ".as_slice(), &[0xff; 60], b"\n\n"].concat();
        for framing in [Framing::Events, Framing::Lines] {
            let mut parser = SseParser::new(framing, 70);
            parser.feed(&bytes);
            assert_eq!(parser.next_event(), Err(SseError::TooLong { limit: 70 }));
        }
    }

    #[test]
    fn lines_of_json_need_no_field_and_no_last_line_end() {
        let mut parser = SseParser::new(Framing::Lines, 20);
        for chunk in ["{\"a\":1}\n\n{\"b", "\":\"é\"}\r\n{}"] {
            parser.feed(chunk.as_bytes());
        }
        parser.finish();
        let next = |parser: &mut SseParser| parser.next_event().unwrap().map(|event| event.data);
        let lines = [next(&mut parser), next(&mut parser), next(&mut parser), next(&mut parser)];
        let expected = ["{\"a\":1}", "{\"b\":\"é\"}", "{}"].map(|line| Some(line.to_owned()));
        assert_eq!(lines[..3], expected);
        assert_eq!(lines[3], None);
        parser.feed(&[b'x'; 30]);
        assert_eq!(parser.next_event(), Err(SseError::TooLong { limit: 20 }));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            parts in prop::collection::vec(prop::sample::select(vec![
                "data: ", "data:", "event: x", "\n", "\r", "\r\n", "\n\n", ":", "é😀", "{\"a\":1}", " ", "id: 4",
            ]), 0..40),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            limit in prop::sample::select(vec![8_usize, 24, 1000]),
        ) {
            let input = parts.concat().into_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
            at.extend([0, input.len()]);
            at.sort_unstable();
            let chunks = at.windows(2).map(|pair| &input[pair[0]..pair[1]]);
            prop_assert_eq!(parse(limit, chunks), parse(limit, [input.as_slice()]));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse(50, bytes.chunks(7));
        }
    }
}
