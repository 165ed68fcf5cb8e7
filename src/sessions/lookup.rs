//! One message of a transcript, whole.

use std::fs::File;
use std::io;

use serde_json::Value;

use crate::support::json;

use super::display::{self, View};
use super::media::{MEDIA_MEMBER, StoredMedia};
use super::service::Sessions;
use super::transcript::{Backward, Body, Line, Position, bare_id};
use super::{SessionError, SessionKey, reading, time};

/// What was found under an id.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Lookup {
    /// No such session, or no such message in its transcript.
    #[default]
    Missing,
    /// A message that clients do not get to see (a silent reply).
    Hidden,
    /// The message in its display form, with texts and pictures.
    Found(Value),
}

/// A message as it is stored.
enum Stored {
    Message(Value),
    Compaction(u64),
}

impl Sessions {
    /// The message with this id; `max_chars` cuts its texts.
    pub async fn message(
        &self,
        key: &SessionKey,
        id: &str,
        max_chars: usize,
    ) -> Result<Lookup, SessionError> {
        let Some(entry) = self.entry(key).await? else { return Ok(Lookup::Missing) };
        let wanted = id.to_owned();
        let read = move |file: &File, end: &Position| find(file, end, &wanted);
        let shown = match self.read(key, &entry, read).await? {
            None => return Ok(Lookup::Missing),
            Some((Stored::Compaction(timestamp), seq)) => {
                Some(display::compaction(id, seq, timestamp))
            }
            Some((Stored::Message(mut message), seq)) => {
                self.add_pictures(&mut message).await;
                display::show(message, id, seq, &View::whole(max_chars))
            }
        };
        Ok(shown.map_or(Lookup::Hidden, Lookup::Found))
    }

    /// Puts pictures that are only files into the message.
    async fn add_pictures(&self, message: &mut Value) {
        let Value::Object(members) = message else { return };
        let mut files = StoredMedia::of(members);
        let media = self.media();
        let mut pictures = Vec::new();
        for stored in files.iter_mut().filter(|stored| stored.is_picture_apart()) {
            if let Some(data) = media.base64(stored).await {
                stored.inline = true;
                let mime_type = &stored.mime_type;
                pictures.push(json!({"type": "image", "data": data, "mimeType": mime_type}));
            }
        }
        if let Some(Value::Array(blocks)) = members.get_mut("content")
            && !pictures.is_empty()
        {
            blocks.extend(pictures);
            members.insert(MEDIA_MEMBER.into(), json!(files));
        }
    }
}

fn find(file: &File, end: &Position, id: &str) -> io::Result<Option<(Stored, u64)>> {
    let mut lines = Backward::new(file, end.bytes);
    let mut seq = end.messages;
    while let Some(line) = lines.next()? {
        let Some(Line::Entry(entry)) = Line::parse(line) else { continue };
        if !entry.body.is_counted() {
            continue;
        }
        let is_wanted = match &entry.id {
            Some(found) => found == id,
            None => bare_id(seq) == id,
        };
        if is_wanted {
            let stored = if let Body::Message(text) = entry.body {
                reading::value(text).map(Stored::Message)
            } else {
                let timestamp = entry.timestamp.as_deref().map(time::millis);
                Some(Stored::Compaction(timestamp.unwrap_or_default()))
            };
            return Ok(stored.map(|stored| (stored, seq)));
        }
        seq = seq.saturating_sub(1);
    }
    Ok(None)
}
