//! The entries of a transcript in their order, for whoever writes the
//! conversation down in another format.
//!
//! Promises: reads one line at a time, from any place where a line begins; says
//! what people see (no marks for the model, no silent replies, as
//! `chat.history`), but whole. Must not: know other formats.

use std::fs::File;
use std::io;

use serde_json::{Map, Value};

use super::display::{HEARTBEAT_KIND, is_of_session};
use super::media::{Media, StoredMedia};
use super::service::Sessions;
use super::transcript::{Body, Forward, Line, bare_id};
use super::{SessionError, SessionKey, directives, reading, time};
use crate::protocol::message::{AgentMessage, ContentBlock, UserContent, UserMessage};
use crate::store::SessionEntry;

/// Where a line begins in a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryPlace {
    /// Bytes before it.
    pub bytes: u64,
    /// Messages and compactions before it.
    pub seq: u64,
}

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptEntry {
    /// Its id, as `chat.history` has it.
    pub id: String,
    /// Milliseconds since the epoch.
    pub timestamp: u64,
    /// What it holds.
    pub body: EntryBody,
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryBody {
    /// A message.
    Message(AgentMessage),
    /// What came before was summed up.
    Compaction {
        /// The summary.
        summary: String,
        /// Tokens of the context before.
        tokens_before: u64,
    },
}

/// Reads the entries of a transcript.
pub struct Entries<'f> {
    lines: Forward<'f>,
    seq: u64,
    media: Option<Media>,
}

impl<'f> Entries<'f> {
    /// Starts at `from`; what comes at the byte `to` or after it is not looked
    /// at. With `media`, pictures that are files beside the transcript are put
    /// into their messages.
    pub fn new(
        file: &'f File,
        from: EntryPlace,
        to: u64,
        media: Option<Media>,
    ) -> io::Result<Self> {
        Ok(Self { lines: Forward::new(file, from.bytes, to)?, seq: from.seq, media })
    }

    /// Where the next entry begins.
    pub fn place(&self) -> EntryPlace {
        EntryPlace { bytes: self.lines.ends(), seq: self.seq }
    }

    /// The next entry that people see. `None` at the end. Lines that cannot be
    /// read, and what is for the model only, are passed over.
    pub fn next(&mut self) -> io::Result<Option<TranscriptEntry>> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            let Some(Line::Entry(entry)) = Line::parse(line) else { continue };
            if !entry.body.is_counted() {
                continue;
            }
            self.seq = self.seq.saturating_add(1);
            let written = entry.timestamp.as_deref().map(time::millis).unwrap_or_default();
            let id = entry.id.unwrap_or_else(|| bare_id(self.seq));
            let body = match entry.body {
                Body::Message(text) => {
                    let Some(message) = reading::message(text) else { continue };
                    let Some(message) = shown(message, self.media.as_ref()) else { continue };
                    EntryBody::Message(message)
                }
                Body::Compaction { summary, tokens_before, .. } => EntryBody::Compaction {
                    summary,
                    tokens_before: tokens_before.unwrap_or_default(),
                },
                _ => continue,
            };
            let said = match &body {
                EntryBody::Message(message) => message.timestamp(),
                EntryBody::Compaction { .. } => 0,
            };
            let timestamp = if said > 0 { said } else { written };
            return Ok(Some(TranscriptEntry { id, timestamp, body }));
        }
    }
}

impl Sessions {
    /// Reads the transcript of a session from a place on; an empty answer when it
    /// has none. `read` runs where it may wait for the disk. Pictures that are
    /// files are in their messages.
    pub async fn read_entries<T: Default + Send + 'static>(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        from: EntryPlace,
        read: impl FnOnce(Entries<'_>) -> io::Result<T> + Send + 'static,
    ) -> Result<T, SessionError> {
        let media = self.media();
        let work = move |file: &File, end: &super::transcript::Position| {
            read(Entries::new(file, from, end.bytes, Some(media))?)
        };
        self.read(key, entry, work).await
    }
}

/// A message as people see it; `None` for what nobody needs to see.
fn shown(message: AgentMessage, media: Option<&Media>) -> Option<AgentMessage> {
    match message {
        AgentMessage::User(message) if is_kind(&message.extra, HEARTBEAT_KIND) => None,
        AgentMessage::User(message) => Some(AgentMessage::User(user(message, media))),
        AgentMessage::Assistant(mut message) => {
            if is_silent(&message.content) {
                return None;
            }
            strip(&mut message.content);
            Some(AgentMessage::Assistant(message))
        }
        AgentMessage::ToolResult(message) => Some(AgentMessage::ToolResult(message)),
    }
}

fn is_kind(members: &Map<String, Value>, wanted: &str) -> bool {
    let kind = members.get("provenance").and_then(|provenance| provenance.get("kind"));
    kind.is_some_and(|kind| kind == wanted)
}

/// What a person said, without what was put around it for the model.
fn user(mut message: UserMessage, media: Option<&Media>) -> UserMessage {
    let is_of_session = is_of_session(&message.extra);
    let clean = |text: &mut String, is_first: bool| {
        if is_of_session {
            *text = directives::strip_internal(text);
        }
        if is_first {
            *text = directives::strip_sent_at(text).to_owned();
        }
        if text.contains("[[") {
            *text = directives::strip(text);
        }
    };
    match &mut message.content {
        UserContent::Text(text) => clean(text, true),
        UserContent::Blocks(blocks) => {
            for (index, block) in blocks.iter_mut().enumerate() {
                if let ContentBlock::Text(block) = block {
                    clean(&mut block.text, index == 0);
                }
            }
        }
    }
    let Some(media) = media else { return message };
    let files = StoredMedia::of(&message.extra);
    let apart = files.iter().filter(|stored| stored.is_picture_apart());
    let picture = |stored: &StoredMedia| {
        Some(ContentBlock::image(media.base64_now(stored)?, stored.mime_type.clone()))
    };
    let pictures: Vec<_> = apart.filter_map(picture).collect();
    if !pictures.is_empty() {
        let mut blocks = match message.content {
            UserContent::Text(text) => vec![ContentBlock::text(text)],
            UserContent::Blocks(blocks) => blocks,
        };
        blocks.extend(pictures);
        message.content = UserContent::Blocks(blocks);
    }
    message
}

/// Whether an answer is nothing but a sign that there is nothing to say.
fn is_silent(content: &[ContentBlock]) -> bool {
    let says =
        |block: &ContentBlock| matches!(block, ContentBlock::Text(_) | ContentBlock::Thinking(_));
    if !content.iter().all(says) {
        return false;
    }
    let text = crate::protocol::message::text_of(content);
    directives::is_silent(&text) || directives::is_heartbeat(&text)
}

fn strip(content: &mut [ContentBlock]) {
    for block in content {
        match block {
            ContentBlock::Text(block) if block.text.contains("[[") => {
                block.text = directives::strip(&block.text);
            }
            _ => {}
        }
    }
}
