//! One line of the log file.
//!
//! Owns: the form of a line, which is that of OpenClaw's log, so that its tools
//! read it. Promises: an event is one line of JSON, no longer than
//! [`LINE_MAX`], without credentials. Must not: block.

use std::fmt::Write as _;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::asked::Marks;
use super::file;
use super::mask::without_secrets;
use super::traces::{self, SpanContext};
use crate::support::{Clock, SystemClock, json};

/// Longest text of a line, in bytes: more is a whole page of an answer that
/// somebody quotes.
pub(super) const TEXT_MAX: usize = 8 * 1024;
/// Longest line. JSON writes some characters with six, the text is in it twice,
/// and the rest is short.
pub const LINE_MAX: usize = 2 * 6 * TEXT_MAX + 4096;

/// Of this machine; it does not change while a gateway runs.
static HOST: LazyLock<String> =
    LazyLock::new(|| rustix::system::uname().nodename().to_string_lossy().into_owned());

/// Of lines that are the log's own.
static UNMARKED: Marks = Marks(Vec::new());

/// Hands each event to the log file.
pub(super) struct FileLayer;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for FileLayer {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, all: Context<'_, S>) {
        if let Some((marks, span)) = Marks::of(span).zip(all.span(id)) {
            span.extensions_mut().insert(marks);
        }
    }

    fn on_event(&self, event: &Event<'_>, all: Context<'_, S>) {
        if !file::is_open() {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        // Before it is cut: half of a secret is not known as one.
        let text = bounded(&without_secrets(&text.finished()));
        let mut marks = Marks::default();
        for span in all.event_scope(event).into_iter().flat_map(Scope::from_root) {
            let of_span = span.extensions().get::<Marks>().cloned().unwrap_or_default();
            marks.0.extend(of_span.0);
        }
        let (metadata, now_ms) = (event.metadata(), SystemClock.now_ms());
        file::write(Logged { metadata, text, now_ms, marks, span: traces::current() });
    }
}

/// An event on its way to the thread that writes.
pub(super) struct Logged {
    metadata: &'static Metadata<'static>,
    text: String,
    now_ms: u64,
    marks: Marks,
    span: Option<SpanContext>,
}

impl Logged {
    /// Its line.
    pub fn line(&self) -> String {
        let metadata = self.metadata;
        // Files of libraries are named by the machine that built this program.
        let is_ours = metadata.target().starts_with("clawgate");
        let place = metadata.file().zip(metadata.line()).filter(|_| is_ours);
        let part = subsystem(metadata.target());
        let rest = self.span.map_or(Rest::Nothing, Rest::Span);
        build(&part, *metadata.level(), place, &self.text, self.now_ms, (&self.marks, rest))
    }
}

/// The line that begins a file: it says how much was logged before it.
pub(super) fn opening(offset: u64, now_ms: u64) -> String {
    let line = |text: &str| {
        build("logging", Level::INFO, None, text, now_ms, (&UNMARKED, Rest::Offset(offset)))
    };
    line("log file opened")
}

/// A line of the log's own.
pub(super) fn own(text: &str, now_ms: u64) -> String {
    build("logging", Level::WARN, None, text, now_ms, (&UNMARKED, Rest::Nothing))
}

/// What some lines have behind the rest.
#[derive(Debug, Clone, Copy)]
enum Rest {
    Nothing,
    /// How much was logged before.
    Offset(u64),
    /// The span that it was written in; the members are those of the original.
    Span(SpanContext),
}

fn build(
    subsystem: &str,
    level: Level,
    place: Option<(&str, u32)>,
    text: &str,
    now_ms: u64,
    (marks, rest): (&Marks, Rest),
) -> String {
    let name = json!({"subsystem": subsystem}).to_string();
    let (level_id, level_name) = level_of(level);
    let at = i64::try_from(now_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let at = at.unwrap_or_default();
    let local = at.to_zoned(TimeZone::system());
    let mut meta = json!({
        "runtime": "clawgate",
        "runtimeVersion": env!("CARGO_PKG_VERSION"),
        "hostname": *HOST,
        "name": name,
        "parentNames": ["openclaw"],
        "date": format!("{at:.3}"),
        "logLevelId": level_id,
        "logLevelName": level_name,
    });
    if let Some((file, line)) = place {
        let short = file.rsplit('/').next().unwrap_or(file);
        meta["path"] = json!({
            "fileName": short,
            "fileNameWithLine": format!("{short}:{line}"),
            "fileLine": line.to_string(),
            "filePath": file,
            "filePathWithLine": format!("{file}:{line}"),
        });
    }
    let mut members = Map::new();
    members.insert("0".into(), name.into());
    members.insert("1".into(), text.into());
    members.insert("_meta".into(), meta);
    members.insert("time".into(), local.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string().into());
    members.insert("hostname".into(), HOST.as_str().into());
    members.insert("message".into(), text.into());
    for (member, name) in &marks.0 {
        // Its sender may have taken a secret for one.
        members.insert((*member).into(), without_secrets(name).into());
    }
    match rest {
        Rest::Nothing => {}
        Rest::Offset(offset) => {
            members.insert("offset".into(), offset.into());
        }
        Rest::Span(SpanContext { trace_id, span_id, is_sampled }) => {
            members.insert("traceId".into(), format!("{trace_id:032x}").into());
            members.insert("spanId".into(), format!("{span_id:016x}").into());
            members.insert("traceFlags".into(), if is_sampled { "01" } else { "00" }.into());
        }
    }
    Value::Object(members).to_string() + "\n"
}

/// The part of the gateway that speaks: the first two modules of its path.
fn subsystem(target: &str) -> String {
    let inner = target.strip_prefix("clawgate::").unwrap_or(target);
    inner.split("::").take(2).collect::<Vec<_>>().join("/")
}

/// Number and name of a level, as in the original's lines.
fn level_of(level: Level) -> (u8, &'static str) {
    match level {
        Level::TRACE => (1, "TRACE"),
        Level::DEBUG => (2, "DEBUG"),
        Level::INFO => (3, "INFO"),
        Level::WARN => (4, "WARN"),
        Level::ERROR => (5, "ERROR"),
    }
}

/// A text of at most [`TEXT_MAX`] bytes.
pub(super) fn bounded(text: &str) -> String {
    if text.len() <= TEXT_MAX {
        return text.to_owned();
    }
    let kept = &text[..text.floor_char_boundary(TEXT_MAX)];
    format!("{kept}… ({} bytes in all)", text.len())
}

/// Message and fields of an event.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn add(&mut self, field: &Field, value: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => self.message.write_fmt(value),
            name => write!(self.fields, " {name}={value}"),
        };
    }

    fn finished(self) -> String {
        let text = self.message + &self.fields;
        text.trim_start().to_owned()
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::Secret;
    use crate::telemetry::hide;

    #[test]
    fn a_line_has_the_members_that_openclaws_tools_read() {
        let marks = Marks(vec![("requestId", "r-1".into()), ("runId", "run-1".into())]);
        let line = build(
            "bus/hub",
            Level::WARN,
            Some(("src/bus/hub.rs", 7)),
            "slow a=1",
            0,
            (&marks, Rest::Offset(9)),
        );
        assert!(line.ends_with("}\n") && line.matches('\n').count() == 1);
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["0"], r#"{"subsystem":"bus/hub"}"#);
        assert_eq!((&line["1"], &line["message"]), (&json!("slow a=1"), &json!("slow a=1")));
        assert_eq!(line["_meta"]["date"], "1970-01-01T00:00:00.000Z");
        assert_eq!(line["_meta"]["logLevelName"], "WARN");
        assert_eq!(line["_meta"]["path"]["fileNameWithLine"], "hub.rs:7");
        assert_eq!((&line["requestId"], &line["runId"]), (&json!("r-1"), &json!("run-1")));
        assert_eq!(line["offset"], 9);
        assert!(line["time"].as_str().unwrap().parse::<Timestamp>().is_ok(), "{line}");
    }

    #[test]
    fn a_line_has_no_secret_no_second_line_and_a_bound() {
        hide(&Secret::new("line-canary-1"));
        let long = "\u{1}".repeat(TEXT_MAX - 8) + "line-canary-1\nforged" + &"x".repeat(TEXT_MAX);
        let line = build(
            "x",
            Level::INFO,
            None,
            &bounded(&without_secrets(&long)),
            0,
            (&UNMARKED, Rest::Nothing),
        );
        assert!(!line.contains("line-c") && line.matches('\n').count() == 1, "{line}");
        assert!(line.contains("bytes in all") && line.len() <= LINE_MAX, "{}", line.len());
    }

    #[test]
    fn the_subsystem_is_the_module_that_speaks() {
        assert_eq!(subsystem("clawgate::gateway::connection::io"), "gateway/connection");
        assert_eq!(subsystem("clawgate::app"), "app");
        assert_eq!(subsystem("hyper::client"), "hyper/client");
    }
}
