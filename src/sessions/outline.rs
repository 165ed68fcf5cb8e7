//! How long the entries of a transcript are, without reading what they say.
//!
//! Promises: one line in memory at a time, and of that no copy; a gigabyte takes
//! seconds. Must not: know what pages are.

use std::borrow::Cow;
use std::fmt;
use std::io;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::entries::EntryPlace;
use super::transcript::{Body, Forward, Line};

/// An entry, seen from far away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    /// Parts that it has for a reader: its blocks, what says that it failed.
    pub parts: usize,
    /// Its line.
    pub bytes: u64,
    /// Where the next entry begins.
    pub next: EntryPlace,
}

/// Looks at entry after entry.
pub struct Outlines<'f> {
    lines: Forward<'f>,
    place: EntryPlace,
}

impl<'f> Outlines<'f> {
    pub(super) const fn new(lines: Forward<'f>, from: EntryPlace) -> Self {
        Self { lines, place: from }
    }

    fn step(&mut self) -> io::Result<Option<usize>> {
        let Some(line) = self.lines.next()? else { return Ok(None) };
        let mut parts = 0;
        if let Some(Line::Entry(entry)) = Line::parse(line)
            && entry.body.is_counted()
        {
            self.place.seq = self.place.seq.saturating_add(1);
            parts = match entry.body {
                Body::Message(text) => count(text),
                // A boundary and the summary behind it.
                _ => 2,
            };
        }
        self.place.bytes = self.lines.ends();
        Ok(Some(parts))
    }
}

impl Iterator for Outlines<'_> {
    type Item = io::Result<Outline>;

    fn next(&mut self) -> Option<Self::Item> {
        let before = self.place.bytes;
        let parts = match self.step() {
            Ok(parts) => parts?,
            Err(error) => return Some(Err(error)),
        };
        let bytes = self.place.bytes.saturating_sub(before);
        Some(Ok(Outline { parts, bytes, next: self.place }))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "parts")]
    content: usize,
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
}

/// The parts of a message. A message of an unusual shape is one.
fn count(text: &str) -> usize {
    let Ok(message) = serde_json::from_str::<Message<'_>>(text) else { return 1 };
    if message.role.as_deref() != Some("assistant") {
        return 1;
    }
    let is_cut = matches!(message.stop_reason.as_deref(), Some("error" | "aborted"));
    message.content.saturating_add(usize::from(is_cut))
}

/// How many elements a list has; anything else counts as one.
fn parts<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    struct Count;
    impl<'de> Visitor<'de> for Count {
        type Value = usize;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("content")
        }

        fn visit_str<E: de::Error>(self, _: &str) -> Result<usize, E> {
            Ok(1)
        }

        fn visit_unit<E: de::Error>(self) -> Result<usize, E> {
            Ok(0)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
            let mut count = 0_usize;
            while list.next_element::<IgnoredAny>()?.is_some() {
                count = count.saturating_add(1);
            }
            Ok(count)
        }
    }
    impl<'de> DeserializeSeed<'de> for Count {
        type Value = usize;

        fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
            from.deserialize_any(self)
        }
    }
    Count.deserialize(from)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::StoredTranscript;
    use super::*;

    #[test]
    fn entries_are_counted_by_their_parts_and_begin_where_they_are_said_to() {
        let lines = [
            r#"{"type":"session","version":3,"id":"s"}"#,
            r#"{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"hi"}}"#,
            concat!(
                r#"{"type":"message","id":"b","parentId":"a","message":{"role":"assistant","#,
                r#""content":[{"type":"text","text":"x"},{"type":"toolCall"}],"stopReason":"error"}}"#
            ),
            "torn {",
            r#"{"type":"compaction","id":"c","parentId":"b","summary":"s"}"#,
        ];
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(lines.join("\n").as_bytes()).unwrap();
        let length = file.metadata().unwrap().len();
        let transcript = StoredTranscript::new(&file, length, None);
        let seen =
            |from| transcript.outlines(from).unwrap().map(Result::unwrap).collect::<Vec<Outline>>();
        let all = seen(EntryPlace::default());
        assert_eq!(all.iter().map(|it| it.parts).collect::<Vec<_>>(), [0, 1, 3, 0, 2]);
        assert_eq!(all.iter().map(|it| it.bytes).sum::<u64>(), length);
        assert_eq!(seen(all[1].next), all[2..]);
        let mut entries = transcript.entries(all[1].next).unwrap();
        assert_eq!(entries.next().unwrap().unwrap().id, "b");
        assert_eq!(entries.place(), all[2].next);
        assert_eq!(entries.next().unwrap().unwrap().id, "c");
        assert!(entries.next().is_none());
    }
}
