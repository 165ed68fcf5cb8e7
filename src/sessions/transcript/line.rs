//! One line of a transcript, in the format of the original or bare.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::support::json_of_javascript;

/// A line that can be read.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    /// The first line of the `openclaw` format.
    Header(Header),
    /// Any other.
    Entry(Entry<'a>),
}

/// What a header says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Key of the session, which we add so that the index can be rebuilt.
    pub session_key: Option<String>,
    /// ISO time at which the transcript began.
    pub timestamp: Option<String>,
    /// Where the agent works.
    pub cwd: Option<String>,
    /// Bytes behind this line that were copied from the transcript that it was
    /// branched off; nothing when none were, or nobody noted it.
    pub copied: Option<u64>,
}

/// An entry of the tree, or a bare message.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// Bare messages have none.
    pub id: Option<String>,
    pub parent: Parent,
    /// ISO time of a tree entry.
    pub timestamp: Option<String>,
    pub body: Body<'a>,
}

/// Where an entry hangs in the tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// Nothing said: it follows the line before it.
    Previous,
    /// It is a root.
    None,
    /// It follows this entry.
    Id(String),
}

/// What an entry holds.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    /// The JSON text of a message.
    Message(&'a str),
    /// What came before was summed up.
    Compaction { summary: String, first_kept: Option<Kept>, tokens_before: Option<u64> },
    /// A branch that was left was summed up.
    BranchSummary { summary: String },
    /// A note of the runtime to the model; `content` is JSON.
    CustomMessage { custom_type: String, content: &'a str },
    /// Kept and skipped.
    Other,
}

/// The first entry that the model still reads in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    /// That with this id.
    Id(String),
    /// The line with this number, where entries have no ids: the first version of the
    /// format counts the lines that can be read from 0, which is the header.
    Line(u64),
}

impl Body<'_> {
    /// Whether it has a place in the numbering of messages.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Compaction { .. })
    }
}

/// A member of JSON that may be of another kind than expected: then it is as if
/// it were not there.
#[derive(Debug)]
pub(crate) struct Loose<T>(pub Option<T>);

impl<T> Default for Loose<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Loose<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(from)?.get();
        let read = serde_json::from_str(text).ok();
        // Halves of characters are written as escapes.
        Ok(Self(read.or_else(|| if text.contains("\\u") { mended(text) } else { None })))
    }
}

/// A value in which halves of characters are no text.
fn mended<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_value(json_of_javascript(text).ok()?).ok()
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(default, rename = "type")]
    kind: Loose<String>,
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(default)]
    id: Loose<String>,
    #[serde(default, rename = "parentId", deserialize_with = "present")]
    parent_id: Option<Loose<String>>,
    #[serde(default)]
    timestamp: Loose<String>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(default)]
    summary: Loose<String>,
    #[serde(default, rename = "firstKeptEntryId")]
    first_kept: Loose<String>,
    #[serde(default, rename = "firstKeptEntryIndex")]
    first_kept_line: Loose<u64>,
    #[serde(default, rename = "tokensBefore")]
    tokens_before: Loose<u64>,
    #[serde(default, rename = "customType")]
    custom_type: Loose<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, rename = "sessionKey")]
    session_key: Loose<String>,
    #[serde(default)]
    cwd: Loose<String>,
    #[serde(default, rename = "copiedBytes")]
    copied: Loose<u64>,
}

/// `null` is something else than nothing: it makes a root.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Loose<String>>, D::Error> {
    Loose::deserialize(from).map(Some)
}

/// Puts a `?` in the place of each byte that is no text, so that the rest of
/// the line can be read.
pub(crate) fn mend(mut line: &mut [u8]) {
    while let Err(error) = std::str::from_utf8(line) {
        let rest = line.get_mut(error.valid_up_to()..).unwrap_or_default();
        let bad = error.error_len().unwrap_or(rest.len());
        let (bad, after) = rest.split_at_mut(bad);
        bad.fill(b'?');
        line = after;
    }
}

impl<'a> Line<'a> {
    /// Reads a line without its newline; `None` when it is blank or broken.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let whole = bare(line)?;
        let raw: Raw<'a> = serde_json::from_str(whole).ok()?;
        let Some(kind) = &raw.kind.0 else {
            // A bare message has a role where an entry has a type.
            raw.role?;
            let body = Body::Message(whole);
            let (id, parent, timestamp) = (None, Parent::Previous, None);
            return Some(Self::Entry(Entry { id, parent, timestamp, body }));
        };
        if kind == "session" {
            let (session_key, timestamp) = (raw.session_key.0, raw.timestamp.0);
            let (cwd, copied) = (raw.cwd.0, raw.copied.0);
            return Some(Self::Header(Header { session_key, timestamp, cwd, copied }));
        }
        let parent = match raw.parent_id {
            None => Parent::Previous,
            Some(given) => given.0.map_or(Parent::None, Parent::Id),
        };
        let body = match kind.as_str() {
            "message" => raw.message.map_or(Body::Other, |message| Body::Message(message.get())),
            "compaction" => Body::Compaction {
                summary: raw.summary.0.unwrap_or_default(),
                first_kept: first_kept(raw.first_kept.0, raw.first_kept_line.0),
                tokens_before: raw.tokens_before.0,
            },
            "branch_summary" => Body::BranchSummary { summary: raw.summary.0.unwrap_or_default() },
            "custom_message" => raw.content.map_or(Body::Other, |content| Body::CustomMessage {
                custom_type: raw.custom_type.0.unwrap_or_default(),
                content: content.get(),
            }),
            _ => Body::Other,
        };
        Some(Self::Entry(Entry { id: raw.id.0, parent, timestamp: raw.timestamp.0, body }))
    }

    /// A line that can be read, with all of its members.
    pub(crate) fn json(line: &[u8]) -> Option<Value> {
        json_of_javascript(bare(line)?).ok()
    }
}

/// An id says more than a number, which newer files do not have.
fn first_kept(id: Option<String>, line: Option<u64>) -> Option<Kept> {
    id.map(Kept::Id).or(line.map(Kept::Line))
}

/// The text of a line without what is around it.
fn bare(line: &[u8]) -> Option<&str> {
    // Some editors put a byte order mark first.
    Some(std::str::from_utf8(line).ok()?.trim_start_matches('\u{feff}').trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(line: &str) -> Entry<'_> {
        match Line::parse(line.as_bytes()) {
            Some(Line::Entry(entry)) => entry,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_formats_and_every_parent_are_told_apart() {
        let root =
            entry(r#"{"type":"message","id":"a","parentId":null,"message":{"role":"user"}}"#);
        assert!(matches!(root.body, Body::Message(r#"{"role":"user"}"#)));
        assert_eq!((root.id.as_deref(), root.parent), (Some("a"), Parent::None));
        assert_eq!(entry(r#"{"type":"x","parentId":"b"}"#).parent, Parent::Id("b".into()));
        let bare = entry(r#" {"role":"user","content":"hi","timestamp":1} "#);
        assert_eq!(bare.parent, Parent::Previous);
        assert!(matches!(
            bare.body,
            Body::Message(r#"{"role":"user","content":"hi","timestamp":1}"#)
        ));
    }

    #[test]
    fn a_header_tells_the_key() {
        let line = br#"{"type":"session","version":3,"id":"x","sessionKey":"agent:main:main"}"#;
        let Some(Line::Header(header)) = Line::parse(line) else { panic!("no header") };
        assert_eq!(header.session_key.as_deref(), Some("agent:main:main"));
    }

    #[test]
    fn halves_of_characters_cost_only_themselves() {
        let line =
            r#"{"type":"compaction","id":"a","summary":"so \ud83e far","tokensBefore":"\ud83e"}"#;
        let Body::Compaction { summary, tokens_before, .. } = entry(line).body else {
            panic!("no summary")
        };
        assert_eq!((summary.as_str(), tokens_before), ("so \u{fffd} far", None));
        assert_eq!(Line::json(line.as_bytes()).unwrap()["summary"], "so \u{fffd} far");
        assert_eq!(Line::json("\u{feff}{\"a\":1}\r\n".as_bytes()).unwrap()["a"], 1);
        assert_eq!(Line::json(b"{"), None);
    }

    #[test]
    fn what_is_no_text_costs_only_itself() {
        for (bytes, text) in [
            (&b"plain \xc3\xa9"[..], "plain é"),
            (b"a\xffb\xc3", "a?b?"),
            (b"\xf0\x9f\x98x\xe2\x82\xac", "???x€"),
            (b"", ""),
        ] {
            let mut line = bytes.to_vec();
            mend(&mut line);
            assert_eq!(line, text.as_bytes());
        }
    }

    #[test]
    fn broken_and_foreign_lines_do_no_harm() {
        for broken in ["", "  ", "{", r#"{"type":"mess"#, "[1]", "42", r#"{"x":1}"#, "\u{0}"] {
            assert!(Line::parse(broken.as_bytes()).is_none(), "{broken:?}");
        }
        assert!(Line::parse(b"{\"type\":\"x\xff\"}").is_none());
        assert!(matches!(entry("\u{feff}{\"type\":\"x\"}\r").body, Body::Other));
        assert!(matches!(entry(r#"{"type":"newfangled","id":7}"#).body, Body::Other));
        assert!(matches!(entry(r#"{"type":"message","message":null}"#).body, Body::Other));
    }
}
