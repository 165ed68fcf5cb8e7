//! Artifacts out of a transcript.

use std::fs::File;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::blocks::{self, Block, Content};
use super::{Artifact, Download};
use crate::sessions::transcript::{Backward, Body, Line, Position};
use crate::sessions::{Media, display, reading};

/// The newest so many are listed; each is some 200 bytes of an answer.
const ARTIFACTS_MAX: usize = 2000;
/// So far back a transcript is read: the same as for the history.
const READ_MAX: u64 = 256 * 1024 * 1024;
/// Characters of an id behind its prefix: 108 bits.
const ID_LENGTH: usize = 18;

/// An artifact, and its place in its message.
#[derive(Debug)]
pub struct Found {
    pub artifact: Artifact,
    /// Which of the blocks of its message that are no text.
    pub index: usize,
}

/// The artifacts of a transcript, the oldest first.
pub fn artifacts(
    file: &File,
    end: &Position,
    session_id: &str,
    run_id: Option<&str>,
    media: &Media,
) -> io::Result<Vec<Found>> {
    let mut found: Vec<Found> = Vec::new();
    // Of the messages behind the one that begins their run.
    let mut of_run: Vec<Found> = Vec::new();
    walk(file, end, |message, seq| {
        let blocks = blocks::of(message).into_iter().enumerate().rev();
        let new = blocks.map(|(index, block)| {
            let artifact = artifact(&block, session_id, seq, index, media);
            Found { artifact, index }
        });
        let Some(run_id) = run_id else {
            found.extend(new);
            return found.len() < ARTIFACTS_MAX;
        };
        of_run.extend(new);
        if message["role"] == "user" {
            let of_this = message["idempotencyKey"] == run_id;
            let group = std::mem::take(&mut of_run);
            found.extend(group.into_iter().filter(|_| of_this));
        }
        found.len() < ARTIFACTS_MAX
    })?;
    found.reverse();
    number(&mut found);
    Ok(found)
}

/// The data of one block.
pub fn content(
    file: &File,
    end: &Position,
    wanted: u64,
    index: usize,
) -> io::Result<Option<Content>> {
    let mut content = None;
    walk(file, end, |message, seq| {
        if seq == wanted {
            content = blocks::of(message).into_iter().nth(index).map(|block| block.content);
        }
        seq > wanted
    })?;
    Ok(content)
}

/// Goes back over the messages that clients see, while `visit` wants more.
fn walk(file: &File, end: &Position, mut visit: impl FnMut(&Value, u64) -> bool) -> io::Result<()> {
    let mut lines = Backward::new(file, end.bytes);
    let mut seq = end.messages;
    while lines.consumed() <= READ_MAX {
        let Some(line) = lines.next()? else { break };
        let Some(Line::Entry(entry)) = Line::parse(line) else { continue };
        if !entry.body.is_counted() {
            continue;
        }
        if let Body::Message(text) = entry.body
            && let Some(message) = reading::value(text)
            && !message.as_object().is_some_and(display::is_hidden)
            && !visit(&message, seq)
        {
            break;
        }
        seq = seq.saturating_sub(1);
    }
    Ok(())
}

fn artifact(block: &Block, session_id: &str, seq: u64, index: usize, media: &Media) -> Artifact {
    let (size, download) = match &block.content {
        Content::Base64(data) => (Some(decoded_size(data)), Download::Bytes),
        Content::Url(_) => (None, Download::Url),
        Content::File(stored) => {
            let is_there = stored.name().is_some_and(|name| media.path(&name).is_file());
            let download = if is_there { Download::Bytes } else { Download::Unsupported };
            (Some(stored.bytes), download)
        }
        Content::Nothing => (None, Download::Unsupported),
    };
    let place = format!("{session_id}\n{seq}\n{index}\n{}", block.kind);
    let mut hash = URL_SAFE_NO_PAD.encode(Sha256::digest(place));
    hash.truncate(ID_LENGTH);
    Artifact {
        id: format!("artifact_{hash}"),
        kind: block.kind,
        title: block.name.clone().unwrap_or_default(),
        mime_type: block.mime_type.clone(),
        size,
        message_seq: seq,
        download,
    }
}

/// Bytes that base64 stands for.
fn decoded_size(data: &str) -> u64 {
    let digits = data.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count();
    u64::try_from(digits).unwrap_or(u64::MAX).saturating_mul(3) / 4
}

/// Names those without a name by their kind and number.
fn number(found: &mut [Found]) {
    let mut counts = std::collections::HashMap::<&str, usize>::new();
    for Found { artifact, .. } in found {
        let count = counts.entry(artifact.kind).or_default();
        *count += 1;
        if artifact.title.trim().is_empty() {
            artifact.title = format!("{} {count}", artifact.kind);
        }
    }
}
