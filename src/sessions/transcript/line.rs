//! One line of a transcript, in the format of the original or bare.

use serde::Deserialize;
use serde_json::value::RawValue;

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
    Compaction { summary: String, first_kept: Option<String> },
    /// A branch that was left was summed up.
    BranchSummary { summary: String },
    /// A note of the runtime to the model; `content` is JSON.
    CustomMessage { custom_type: String, content: &'a str },
    /// Kept and skipped.
    Other,
}

impl Body<'_> {
    /// Whether it has a place in the numbering of messages.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Compaction { .. })
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow, rename = "parentId", default, deserialize_with = "present")]
    parent_id: Option<&'a RawValue>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
    #[serde(borrow, rename = "firstKeptEntryId")]
    first_kept: Option<&'a RawValue>,
    #[serde(borrow, rename = "customType")]
    custom_type: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow, rename = "sessionKey")]
    session_key: Option<&'a RawValue>,
    #[serde(borrow)]
    cwd: Option<&'a RawValue>,
}

/// `null` is something else than nothing: it makes a root.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

fn text(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
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
        let whole = std::str::from_utf8(line).ok()?;
        // Some editors put a byte order mark first.
        let whole = whole.trim_start_matches('\u{feff}').trim();
        let raw: Raw<'a> = serde_json::from_str(whole).ok()?;
        let Some(kind) = text(raw.kind) else {
            // A bare message has a role where an entry has a type.
            raw.role?;
            let body = Body::Message(whole);
            let (id, parent, timestamp) = (None, Parent::Previous, None);
            return Some(Self::Entry(Entry { id, parent, timestamp, body }));
        };
        if kind == "session" {
            let (session_key, timestamp) = (text(raw.session_key), text(raw.timestamp));
            return Some(Self::Header(Header { session_key, timestamp, cwd: text(raw.cwd) }));
        }
        let parent = match raw.parent_id {
            None => Parent::Previous,
            given => text(given).map_or(Parent::None, Parent::Id),
        };
        let body = raw.body(&kind);
        Some(Self::Entry(Entry { id: text(raw.id), parent, timestamp: text(raw.timestamp), body }))
    }
}

impl<'a> Raw<'a> {
    fn body(&self, kind: &str) -> Body<'a> {
        match kind {
            "message" => self.message.map_or(Body::Other, |message| Body::Message(message.get())),
            "compaction" => Body::Compaction {
                summary: text(self.summary).unwrap_or_default(),
                first_kept: text(self.first_kept),
            },
            "branch_summary" => {
                Body::BranchSummary { summary: text(self.summary).unwrap_or_default() }
            }
            "custom_message" => self.content.map_or(Body::Other, |content| Body::CustomMessage {
                custom_type: text(self.custom_type).unwrap_or_default(),
                content: content.get(),
            }),
            _ => Body::Other,
        }
    }
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
