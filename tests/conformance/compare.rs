//! Structural comparison of one recorded value with one answer.

use std::mem::discriminant;

use serde_json::{Map, Value};

use super::classes::class_of;
use super::ids::{Learned, is_uuid};
use super::text::{Places, same};

/// One thing that is not as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which frame: `<connection> res <method>`, `<connection> event <name>`, …
    pub place: String,
    /// JSON path inside the frame.
    pub path: String,
    pub kind: Kind,
    pub text: String,
}

/// How it differs; a [`super::differences::Difference`] allows one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A member or item that the recording does not have.
    Extra,
    /// A member or item that is missing.
    Absent,
    /// Another JSON type.
    Type,
    /// Another value of the same type.
    Value,
    /// A frame that did not come.
    MissingFrame,
    /// A frame that the recording does not have.
    ExtraFrame,
    /// Frames in another order.
    Order,
    /// Another close code or reason, no close, or an unexpected one.
    Close,
}

/// What a comparison needs to know about this run.
pub struct Comparer<'a> {
    pub learned: &'a Learned,
    pub places: &'a Places,
    place: &'a str,
    findings: Vec<Finding>,
}

impl<'a> Comparer<'a> {
    pub fn new(place: &'a str, learned: &'a Learned, places: &'a Places) -> Self {
        Self { learned, places, place, findings: Vec::new() }
    }

    /// All differences between a recorded frame and the one that came.
    pub fn frame(mut self, recorded: &Value, actual: &Value) -> Vec<Finding> {
        self.value(recorded, actual, "");
        self.findings
    }

    fn report(&mut self, kind: Kind, path: &str, text: String) {
        let (place, path) = (self.place.to_owned(), path.to_owned());
        self.findings.push(Finding { place, path, kind, text });
    }

    fn value(&mut self, recorded: &Value, actual: &Value, path: &str) {
        let same_type = discriminant(recorded) == discriminant(actual);
        match (recorded, actual) {
            _ if same_type && class_of(path).is_some() && !recorded.is_string() => {}
            (Value::Object(recorded), Value::Object(actual)) => self.object(recorded, actual, path),
            (Value::Array(recorded), Value::Array(actual)) => self.array(recorded, actual, path),
            (Value::String(recorded), Value::String(actual)) => self.text(recorded, actual, path),
            (Value::Number(_), Value::Number(_)) => {
                if recorded.as_f64() != actual.as_f64() {
                    self.report(Kind::Value, path, format!("recorded {recorded}, got {actual}"));
                }
            }
            _ if recorded == actual => {}
            (Value::Bool(_), Value::Bool(_)) => {
                self.report(Kind::Value, path, format!("recorded {recorded}, got {actual}"));
            }
            _ => {
                let text = format!("recorded {}, got {}", brief(recorded), brief(actual));
                self.report(Kind::Type, path, text);
            }
        }
    }

    fn text(&mut self, recorded: &str, actual: &str, path: &str) {
        // An id must stay the same wherever it is seen again.
        let (word, id) = named_id(recorded);
        if let Some(known) = self.learned.get(id).map(|known| format!("{word}{known}"))
            && is_uuid(id)
        {
            if known != actual {
                let text = format!("{recorded} was {known} before, got {actual}");
                self.report(Kind::Value, path, text);
            }
            return;
        }
        let recorded = &self.learned.apply_text(recorded);
        if class_of(path).is_none() && !same(recorded, actual, self.places) {
            let text = format!("recorded {}, got {}", brief_text(recorded), brief_text(actual));
            self.report(Kind::Value, path, text);
        }
    }

    fn object(&mut self, recorded: &Map<String, Value>, actual: &Map<String, Value>, path: &str) {
        if let Some(kept) = recorded.get("__clipped_keys") {
            return self.clipped_object(kept, actual, path);
        }
        for (key, value) in recorded.iter().filter(|(key, _)| !is_marker(key)) {
            let at = format!("{path}/{key}");
            // A member can be named by an id.
            match actual.get(&self.learned.apply_text(key)) {
                Some(got) => self.value(value, got, &at),
                None => self.report(Kind::Absent, &at, format!("recorded {}", brief(value))),
            }
        }
        if is_open(recorded) {
            return;
        }
        let known: Vec<String> = recorded.keys().map(|key| self.learned.apply_text(key)).collect();
        for (key, value) in actual.iter().filter(|(key, _)| !known.contains(key)) {
            self.report(Kind::Extra, &format!("{path}/{key}"), format!("got {}", brief(value)));
        }
    }

    /// An object of which only (some) member names were kept.
    fn clipped_object(&mut self, kept: &Value, actual: &Map<String, Value>, path: &str) {
        for key in kept.as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !actual.contains_key(key) {
                self.report(Kind::Absent, &format!("{path}/{key}"), "recorded, clipped".to_owned());
            }
        }
    }

    /// A presence list: the gateway itself, then whoever is or was there. The
    /// recordings share one gateway among several files, so who *was* there is
    /// reported under the path of a departed entry, `…/departed`.
    fn presence(&mut self, recorded: &[Value], actual: &[Value], path: &str) {
        if let ([first, ..], [own, ..]) = (recorded, actual) {
            self.value(first, own, &format!("{path}/0"));
        }
        let is_entry = |entry: &&Value| entry["__clipped_items"].is_null();
        let mut left: Vec<&Value> = actual.iter().skip(1).filter(is_entry).collect();
        let entries = recorded.iter().enumerate().skip(1);
        for (index, entry) in entries.filter(|(_, entry)| is_entry(entry)) {
            let alike = |got: &&Value| {
                ["host", "mode", "reason", "text"].iter().all(|name| entry[*name] == got[*name])
                    && entry.as_object().map(Map::len) == got.as_object().map(Map::len)
            };
            match left.iter().position(alike) {
                Some(at) => self.value(entry, left.remove(at), &format!("{path}/{index}")),
                None => self.report(Kind::Absent, &presence_path(path, index, entry), brief(entry)),
            }
        }
        for entry in left {
            let index = actual.len();
            self.report(Kind::Extra, &presence_path(path, index, entry), brief(entry));
        }
    }

    /// A transcript with more, fewer or other messages than recorded: each is compared
    /// with the one that says the same, in their order, and what has none is
    /// missing or additional.
    fn messages(&mut self, recorded: &[Value], actual: &[Value], path: &str) {
        let alike = |at: usize, now: usize| self.is_alike(&recorded[at], &actual[now]);
        let (mut next, mut found) = (0, Vec::new());
        for (at, now) in in_common(recorded.len(), actual.len(), &alike) {
            found.extend((next..at).map(|at| (Some(at), None)));
            next = at + 1;
            found.push((Some(at), Some(now)));
        }
        found.extend((next..recorded.len()).map(|at| (Some(at), None)));
        let is_paired = |now: usize| found.iter().any(|(_, other)| *other == Some(now));
        let extra: Vec<usize> = (0..actual.len()).filter(|now| !is_paired(*now)).collect();
        for (at, now) in found {
            match (at, now) {
                (Some(at), Some(now)) => {
                    self.value(&recorded[at], &actual[now], &format!("{path}/{at}"));
                }
                (Some(at), None) => {
                    let text = format!("recorded {}", brief(&recorded[at]));
                    self.report(Kind::Absent, &format!("{path}/{at}"), text);
                }
                _ => {}
            }
        }
        for now in extra {
            let text = format!("got {}", brief(&actual[now]));
            self.report(Kind::Extra, &format!("{path}/{now}"), text);
        }
    }

    /// Whether two messages are results of the same tool, answers that were cut,
    /// or are from the same side and begin with the same.
    fn is_alike(&self, recorded: &Value, actual: &Value) -> bool {
        let (was, is) = (&recorded["content"][0], &actual["content"][0]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        ["role", "toolName"].iter().all(|name| recorded[*name] == actual[*name])
            && ["type", "name"].iter().all(|name| was[*name] == is[*name])
            && (recorded["role"] == "toolResult"
                || [recorded, actual].iter().all(|message| message["stopReason"] == "aborted")
                || same(
                    &self.learned.apply_text(&text(&was["text"])),
                    &text(&is["text"]),
                    self.places,
                ))
    }

    /// Items in any order: which is which is told by this member of theirs.
    fn by_member(&mut self, name: &str, recorded: &[Value], actual: &[Value], path: &str) {
        let place = |value: &Value| format!("{path}/{}", value[name].as_str().unwrap_or("?"));
        for value in recorded {
            match actual.iter().find(|got| got[name] == value[name]) {
                Some(got) => self.value(value, got, &place(value)),
                None => self.report(Kind::Absent, &place(value), "recorded".to_owned()),
            }
        }
        for got in actual.iter().filter(|got| recorded.iter().all(|it| it[name] != got[name])) {
            self.report(Kind::Extra, &place(got), "got".to_owned());
        }
    }

    fn array(&mut self, recorded: &[Value], actual: &[Value], path: &str) {
        let is_presence = path.ends_with("/presence")
            || (path == "/payload" && self.place.ends_with(" system-presence"));
        if is_presence {
            return self.presence(recorded, actual, path);
        }
        if path.ends_with("/children") {
            return self.by_member("key", recorded, actual, path);
        }
        // Those come first that are due first, which hangs on the hour of the replay.
        if path == "/payload/jobs" && self.place.ends_with(" cron.list") {
            return self.by_member("name", recorded, actual, path);
        }
        let clipped = recorded.last().is_some_and(|last| !last["__clipped_items"].is_null());
        let other_role = |(was, is): (&Value, &Value)| was["role"] != is["role"];
        if path.ends_with("/messages")
            && !clipped
            && (recorded.len() != actual.len() || recorded.iter().zip(actual).any(other_role))
        {
            return self.messages(recorded, actual, path);
        }
        let kept = if clipped { &recorded[..recorded.len() - 1] } else { recorded };
        for (index, value) in kept.iter().enumerate() {
            let at = format!("{path}/{index}");
            match actual.get(index) {
                Some(got) => self.value(value, got, &at),
                None => self.report(Kind::Absent, &at, format!("recorded {}", brief(value))),
            }
        }
        if !clipped {
            for (index, value) in actual.iter().enumerate().skip(kept.len()) {
                self.report(
                    Kind::Extra,
                    &format!("{path}/{index}"),
                    format!("got {}", brief(value)),
                );
            }
        }
    }
}

/// The word before an id that hangs on one, `chatcmpl_`, and the id.
fn named_id(text: &str) -> (&str, &str) {
    let (word, id) = text.rsplit_once('_').unwrap_or_default();
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    if is_word { text.split_at(text.len() - id.len()) } else { ("", text) }
}

fn presence_path(path: &str, index: usize, entry: &Value) -> String {
    match entry["reason"].as_str() {
        Some("disconnect") => format!("{path}/departed"),
        _ => format!("{path}/{index}"),
    }
}

/// The longest list of pairs, in both orders, of items that are alike.
pub fn in_common(
    recorded: usize,
    actual: usize,
    alike: &dyn Fn(usize, usize) -> bool,
) -> Vec<(usize, usize)> {
    let mut kept = vec![vec![0; actual + 1]; recorded + 1];
    for at in (0..recorded).rev() {
        for now in (0..actual).rev() {
            kept[at][now] = if alike(at, now) {
                kept[at + 1][now + 1] + 1
            } else {
                kept[at + 1][now].max(kept[at][now + 1])
            };
        }
    }
    let (mut at, mut now, mut pairs) = (0, 0, Vec::new());
    while at < recorded && now < actual {
        if alike(at, now) {
            pairs.push((at, now));
            (at, now) = (at + 1, now + 1);
        } else if kept[at][now + 1] >= kept[at + 1][now] {
            now += 1;
        } else {
            at += 1;
        }
    }
    pairs
}

/// Members that the recorder put in.
fn is_marker(key: &str) -> bool {
    key.starts_with("__folded") || key == "__of" || key.starts_with("__clipped")
}

/// Whether the recording left members of this object out.
fn is_open(recorded: &Map<String, Value>) -> bool {
    recorded.contains_key("__folded")
        || recorded.get("session").is_some_and(|row| !row["__folded"].is_null())
}

fn brief(value: &Value) -> String {
    brief_text(&value.to_string())
}

fn brief_text(text: &str) -> String {
    const KEPT: usize = 160;
    let mut brief: String = text.chars().take(KEPT).collect();
    if text.chars().count() > KEPT {
        brief.push('…');
    }
    brief
}
