//! The entries of a transcript in their order, for whoever writes the
//! conversation down in another format.
//!
//! Promises: reads one line at a time, from any place where a line begins; says
//! what people see (no marks for the model, no silent replies, as
//! `chat.history`), but whole. Must not: know other formats.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::display::{is_of_heartbeat, is_of_session};
use super::media::{Media, StoredMedia};
use super::outline::Outlines;
use super::service::Sessions;
use super::transcript::{Body, Forward, Line, Position, bare_id, head};
use super::types::StoredMessage;
use super::{SessionError, SessionKey, directives, reading, time};
use crate::protocol::message::{AgentMessage, ContentBlock, UserContent, UserMessage, text_of};
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

impl TranscriptEntry {
    /// A message that has just been stored, as people see it; `None` for what
    /// nobody needs to see. Pictures that are files are not looked up.
    pub fn of_stored(stored: &StoredMessage) -> Option<Self> {
        let timestamp = stored.message.timestamp();
        let message = shown(stored.message.clone(), None)?;
        Some(Self { id: stored.id.clone(), timestamp, body: EntryBody::Message(message) })
    }
}

/// What an entry holds. One at a time is in memory, so its size does not matter.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant)]
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

impl Entries<'_> {
    /// Where the next entry begins.
    pub fn place(&self) -> EntryPlace {
        EntryPlace { bytes: self.lines.ends(), seq: self.seq }
    }

    fn step(&mut self) -> io::Result<Step> {
        let Some(line) = self.lines.next()? else { return Ok(Step::End) };
        let Some(Line::Entry(entry)) = Line::parse(line) else { return Ok(Step::Nothing) };
        if !entry.body.is_counted() {
            return Ok(Step::Nothing);
        }
        self.seq = self.seq.saturating_add(1);
        let written = entry.timestamp.as_deref().map(time::millis).unwrap_or_default();
        let id = entry.id.unwrap_or_else(|| bare_id(self.seq));
        let media = self.media.as_ref();
        let body = match entry.body {
            Body::Message(text) => reading::message(text)
                .and_then(|message| shown(message, media))
                .map(EntryBody::Message),
            Body::Compaction { summary, tokens_before, .. } => Some(EntryBody::Compaction {
                summary,
                tokens_before: tokens_before.unwrap_or_default(),
            }),
            _ => None,
        };
        let Some(body) = body else { return Ok(Step::Nothing) };
        let said = match &body {
            EntryBody::Message(message) => message.timestamp(),
            EntryBody::Compaction { .. } => 0,
        };
        let timestamp = if said > 0 { said } else { written };
        Ok(Step::Entry(Box::new(TranscriptEntry { id, timestamp, body })))
    }
}

/// The entries that people see. Lines that cannot be read, and what is for the
/// model only, are passed over.
impl Iterator for Entries<'_> {
    type Item = io::Result<TranscriptEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.step() {
                Ok(Step::Entry(entry)) => return Some(Ok(*entry)),
                Ok(Step::Nothing) => {}
                Ok(Step::End) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// What a line was.
enum Step {
    Entry(Box<TranscriptEntry>),
    Nothing,
    End,
}

/// A transcript that is open for reading, by one reader at a time: they share the
/// place in the file.
pub struct StoredTranscript<'f> {
    pub(super) file: &'f File,
    pub(super) length: u64,
    media: Option<Media>,
}

impl<'f> StoredTranscript<'f> {
    /// The transcript in this file up to the byte `length`, of which only whole
    /// lines are read. With `media`, pictures that are files beside it are put
    /// into their messages.
    pub const fn new(file: &'f File, length: u64, media: Option<Media>) -> Self {
        Self { file, length, media }
    }

    /// Where it ends.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Which file it is. Another one may be put into its place.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let about = self.file.metadata()?;
        Ok((about.dev(), about.ino()))
    }

    /// Where its session works, as its first line says.
    pub fn cwd(&self) -> io::Result<Option<String>> {
        Ok(head(self.file)?.and_then(|(_, header)| header?.cwd))
    }

    /// The entries from a place on.
    pub fn entries(&self, from: EntryPlace) -> io::Result<Entries<'f>> {
        let lines = Forward::new(self.file, from.bytes, self.length)?;
        Ok(Entries { lines, seq: from.seq, media: self.media.clone() })
    }

    /// How long the entries from a place on are.
    pub fn outlines(&self, from: EntryPlace) -> io::Result<Outlines<'f>> {
        Ok(Outlines::new(Forward::new(self.file, from.bytes, self.length)?, from))
    }
}

impl Sessions {
    /// Opens the transcript of a session; an empty answer when it has none.
    /// `read` runs where it may wait for the disk.
    pub async fn read_transcript<T: Default + Send + 'static>(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        read: impl FnOnce(StoredTranscript<'_>) -> io::Result<T> + Send + 'static,
    ) -> Result<T, SessionError> {
        let media = self.media();
        let work = move |file: &File, end: &Position| {
            read(StoredTranscript::new(file, end.bytes, Some(media)))
        };
        self.read(key, entry, work).await
    }
}

/// A message as people see it; `None` for what nobody needs to see.
fn shown(message: AgentMessage, media: Option<&Media>) -> Option<AgentMessage> {
    match message {
        AgentMessage::User(message) if is_of_heartbeat(&message.extra) => None,
        AgentMessage::User(message) => Some(AgentMessage::User(user(message, media))),
        AgentMessage::Assistant(mut message) => {
            if is_of_heartbeat(&message.extra) || is_silent(&message.content) {
                return None;
            }
            strip(&mut message.content);
            Some(AgentMessage::Assistant(message))
        }
        AgentMessage::ToolResult(message) => Some(AgentMessage::ToolResult(message)),
    }
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
    let text = text_of(content);
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
