//! What comes with a message: pictures for the model, files for its tools.
//!
//! Promises: what a file is, its bytes say, not its sender; every file is on
//! disk before its message is accepted, and no large one is held whole that was
//! uploaded before.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::config::Settings;
use crate::protocol::ErrorShape;
use crate::protocol::message::{ContentBlock, UserContent, UserMessage};
use crate::providers::{PictureSize, picture_fits};
use crate::registry::{Ctx, Reply};
use crate::sessions::{
    MEDIA_MEMBER, Media, MediaType, NewMedia, SessionKey, StagedMedia, StoredMedia,
};
use crate::support::{Ids, blocking, json};

use super::uploads::{self, Taker};

/// Most attachments of one message: each becomes a file.
const COUNT_MAX: usize = 32;
/// Largest picture that the transcript itself holds. Larger ones are files
/// only, so that reading a conversation stays quick.
const INLINE_MAX: usize = 2_000_000;
/// Most characters of a text file that the model reads without asking.
const TEXT_MAX: usize = 200_000;
/// As many take at most so many bytes; and one more, to see that there are more.
const TEXT_BYTES_MAX: u64 = (TEXT_MAX as u64 + 1) * 4;
/// What a message says that is only pictures.
const NO_CAPTION: &str = "[User sent media without caption]";

/// A message with its files, not accepted yet.
pub(super) struct Incoming {
    /// What goes into the transcript.
    pub message: UserMessage,
    /// Its files.
    pub media: Option<StagedMedia>,
}

/// An attachment that has been read.
struct Attachment {
    given_name: Option<String>,
    kind: MediaType,
    held: Held,
}

/// Where an attachment is.
enum Held {
    /// In the message itself.
    Here(Vec<u8>),
    /// On disk, where it was uploaded to: its name, its size, and as much of its
    /// beginning as the model may read.
    Uploaded { id: String, size: u64, beginning: Vec<u8> },
}

/// Whether an attachment holds anything.
pub(super) fn has_content(item: &Value) -> bool {
    content(item).is_some() || uploads::named(item).is_some()
}

/// The message that a client sends to a session, as it will be stored.
pub(super) async fn receive(
    cx: &Ctx,
    key: &SessionKey,
    text: &str,
    items: Vec<Value>,
) -> Reply<Incoming> {
    let mut message = UserMessage::text(text, cx.now_ms());
    if items.is_empty() {
        return Ok(Incoming { message, media: None });
    }
    let settings = cx.services.settings.now();
    let media = cx.services.sessions.media();
    let taker = Taker {
        media: media.clone(),
        key: key.clone(),
        principal: Arc::clone(&cx.caller.principal),
        now_ms: cx.now_ms(),
    };
    // Decoding megabytes is no work for a thread that serves sockets.
    let read = blocking(move || read_all(&items, &settings, &taker)).await;
    let read = read.map_err(|_| ErrorShape::unavailable("Error: attachments not readable"))??;
    let arranged = arrange(text, read, &media, &*cx.services.ids);
    message.content = UserContent::Blocks(arranged.blocks);
    message.extra.insert(MEDIA_MEMBER.into(), json!(arranged.stored));
    let staged = media.stage(arranged.files, arranged.uploaded).await;
    let staged = staged.map_err(|error| ErrorShape::unavailable(format!("Error: {error}")))?;
    Ok(Incoming { message, media: Some(staged) })
}

fn read_all(items: &[Value], settings: &Settings, taker: &Taker) -> Reply<Vec<Attachment>> {
    if items.len() > COUNT_MAX {
        let text = format!("Error: {} attachments, at most {COUNT_MAX} are taken", items.len());
        return Err(ErrorShape::invalid(text));
    }
    let max = settings.agents.defaults.media_max_bytes;
    let read = |(index, item)| match uploads::named(item) {
        Some(id) => uploaded(&label(index, item), id, settings, taker),
        None => read(index, item, max),
    };
    items.iter().enumerate().map(read).collect()
}

/// What an attachment is called that is refused.
fn label(index: usize, item: &Value) -> String {
    let named = ["fileName", "name", "type"].into_iter().filter_map(|name| item[name].as_str());
    named
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .next()
        .unwrap_or_else(|| format!("attachment-{}", index + 1))
}

/// A file that was uploaded before.
fn uploaded(label: &str, id: &str, settings: &Settings, taker: &Taker) -> Reply<Attachment> {
    let upload = taker.find(id).ok_or_else(|| uploads::missing(label, id))?;
    let kind = MediaType::named(&upload.mime_type);
    let (size, most) = (upload.bytes, uploads::most(kind, settings));
    if size > most {
        // The configuration has changed since.
        return Err(too_large(label, size, most, uploads::limiting_key(kind, settings)));
    }
    let needed = match u64::try_from(INLINE_MAX) {
        Ok(inline) if kind.is_picture() && size <= inline => size,
        _ if is_text(kind) => TEXT_BYTES_MAX,
        _ => 0,
    };
    let beginning = taker.beginning(id, needed).map_err(|error| {
        tracing::warn!(upload = id, %error, "an upload cannot be read");
        uploads::missing(label, id)
    })?;
    let held = Held::Uploaded { id: upload.id, size, beginning };
    Ok(Attachment { given_name: upload.file_name, kind, held })
}

fn too_large(label: &str, size: u64, max: u64, config_path: &str) -> ErrorShape {
    let why = format!("Error: attachment {label}: exceeds size limit ({size} > {max} bytes)");
    ErrorShape::invalid(why).details(json!({
        "code": "ATTACHMENT_TOO_LARGE", "bytes": size, "maxBytes": max,
        "configPath": config_path, "uploadPath": uploads::UPLOADS}))
}

/// The recorded forms: `content` as base64 or data URL, or `source.data`.
fn content(item: &Value) -> Option<&str> {
    let held = ["/content", "/data", "/source/data"].into_iter().filter_map(|at| item.pointer(at));
    held.filter_map(Value::as_str).find(|text| !text.trim().is_empty())
}

/// Whether [`receive`] takes an attachment that is in the message itself.
pub(crate) fn can_be_read(item: &Value, settings: &Settings) -> bool {
    read(0, item, settings.agents.defaults.media_max_bytes).is_ok()
}

fn read(index: usize, item: &Value, max: u64) -> Reply<Attachment> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let given_name = text("fileName").or_else(|| text("name")).map(str::to_owned);
    let label = label(index, item);
    let refuse = |why: &str| ErrorShape::invalid(format!("Error: attachment {label}: {why}"));
    let content = content(item).ok_or_else(|| refuse("content must be base64 text"))?.trim();
    let (url_type, data) = match content.strip_prefix("data:").and_then(|url| url.split_once(',')) {
        Some((head, data)) => (head.split(';').next(), data),
        None => (None, content),
    };
    let size = (data.len() / 4 * 3)
        .saturating_sub(data.bytes().rev().take(2).filter(|b| *b == b'=').count());
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    if size > max {
        return Err(too_large(&label, size, max, uploads::INLINE_KEY));
    }
    // Some encoders break lines.
    let unbroken = || STANDARD.decode(data.split_ascii_whitespace().collect::<String>());
    let bytes = STANDARD.decode(data).or_else(|_| unbroken());
    let bytes = bytes.map_err(|_| refuse("invalid base64 content"))?;
    if bytes.is_empty() {
        let why = format!("UnsupportedAttachmentError: attachment {label}: empty payload");
        return Err(ErrorShape::invalid(why));
    }
    let source_type = item.pointer("/source/media_type").and_then(Value::as_str);
    let claimed = text("mimeType").or(source_type).or(url_type).unwrap_or_default();
    Ok(Attachment { given_name, kind: MediaType::of(&bytes, claimed), held: Held::Here(bytes) })
}

/// A message and its files.
struct Arranged {
    blocks: Vec<ContentBlock>,
    stored: Vec<StoredMedia>,
    files: Vec<NewMedia>,
    /// Names of files that are on disk already.
    uploaded: Vec<String>,
}

/// Pictures become blocks; other files, and pictures that are too large for
/// that or for a model, are named above the text. Short texts follow below it.
fn arrange(text: &str, attachments: Vec<Attachment>, media: &Media, ids: &dyn Ids) -> Arranged {
    let (mut pictures, mut named, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut stored, mut files, mut uploaded) = (Vec::new(), Vec::new(), Vec::new());
    for Attachment { given_name, kind, held } in attachments {
        let (name, size) = match &held {
            Held::Here(bytes) => {
                let name = Media::name(given_name.as_deref(), kind.extension, &ids.uuid());
                (name, u64::try_from(bytes.len()).unwrap_or(u64::MAX))
            }
            Held::Uploaded { id, size, .. } => (id.clone(), *size),
        };
        let path = media.path(&name).to_string_lossy().into_owned();
        let (Held::Here(shown) | Held::Uploaded { beginning: shown, .. }) = &held;
        let is_small = usize::try_from(size).is_ok_and(|size| size <= INLINE_MAX);
        let inline = kind.is_picture() && is_small && picture_fits(PictureSize::of(shown));
        if inline {
            pictures.push(ContentBlock::image(STANDARD.encode(shown), kind.mime));
        } else {
            named.push(format!("{path} ({})", kind.mime));
            texts.extend(text_file(&name, kind, (shown, size), ids));
        }
        stored.push(StoredMedia { path, mime_type: kind.mime.into(), bytes: size, inline });
        match held {
            Held::Here(bytes) => files.push(NewMedia { name, bytes }),
            Held::Uploaded { id, .. } => uploaded.push(id),
        }
    }
    let mut parts = notes(&named);
    if !text.trim().is_empty() {
        parts.push(text.to_owned());
    } else if parts.is_empty() {
        parts.push(NO_CAPTION.to_owned());
    }
    let mut whole = parts.join("\n");
    for text in texts {
        let _ = write!(whole, "\n\n{text}");
    }
    let mut blocks = vec![ContentBlock::text(whole)];
    blocks.extend(pictures);
    Arranged { blocks, stored, files, uploaded }
}

/// The lines that name files, as recorded.
fn notes(named: &[String]) -> Vec<String> {
    match named {
        [] => vec![],
        [one] => vec![format!("[media attached: {one}]")],
        several => {
            let count = several.len();
            let line = |(index, file)| format!("[media attached {}/{count}: {file}]", index + 1);
            let head = format!("[media attached: {count} files]");
            std::iter::once(head).chain(several.iter().enumerate().map(line)).collect()
        }
    }
}

/// Whether the model reads files of this type without asking.
fn is_text(kind: MediaType) -> bool {
    kind.mime.starts_with("text/")
        || matches!(kind.mime, "application/json" | "application/xml" | "application/yaml")
}

/// The content of a text file for the model, marked as somebody else's words: its
/// beginning, when that is not all of its size.
fn text_file(
    name: &str,
    kind: MediaType,
    (bytes, size): (&[u8], u64),
    ids: &dyn Ids,
) -> Option<String> {
    let is_whole = u64::try_from(bytes.len()).is_ok_and(|length| length >= size);
    let read = match std::str::from_utf8(bytes) {
        // Cut within a character.
        Err(error) if !is_whole && error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?)
        }
        read => read,
    };
    let text = read.ok().filter(|_| is_text(kind))?;
    let mut shown = text.trim_end_matches('\n').replace("</file", "&lt;/file");
    if let Some((end, _)) = shown.char_indices().nth(TEXT_MAX) {
        shown.truncate(end);
        shown.push_str("\n[cut here; the rest is in the file]");
    }
    // The mark cannot be guessed, so the file cannot end its own quotation.
    let mark: String = ids.uuid().chars().filter(|c| *c != '-').take(16).collect();
    Some(format!(
        "<file name=\"{name}\" mime=\"{mime}\">\n\n<<<EXTERNAL_UNTRUSTED_CONTENT id=\"{mark}\">>>\n\
         Source: External\n---\n{shown}\n<<<END_EXTERNAL_UNTRUSTED_CONTENT id=\"{mark}\">>>\n</file>",
        mime = kind.mime,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::png;
    use crate::support::RandomIds;

    const DOT: &str = "iVBORw0KGgo=";

    fn kind(item: &Value) -> &'static str {
        read(0, item, 20 << 20).map(|read| read.kind.mime).unwrap()
    }

    fn refusal(item: &Value) -> String {
        read(0, item, 1 << 20).err().unwrap().message
    }

    #[test]
    fn every_recorded_form_is_read() {
        assert_eq!(
            kind(&json!({"type": "image", "mimeType": "image/png", "content": DOT})),
            "image/png"
        );
        assert_eq!(kind(&json!({"content": format!("data:image/jpeg;base64,{DOT}")})), "image/png");
        let source = json!({"type": "base64", "media_type": "image/png", "data": DOT});
        assert_eq!(kind(&json!({"type": "image", "source": source})), "image/png");
        assert_eq!(kind(&json!({"mimeType": "text/csv", "content": "aGVs\r\nbG8=\n"})), "text/csv");
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_its_label() {
        let big = "A".repeat(2 * 1024 * 1024);
        for (item, text) in [
            (
                json!({"type": "image", "content": "***"}),
                "Error: attachment image: invalid base64 content",
            ),
            (json!({"content": "%%"}), "Error: attachment attachment-1: invalid base64 content"),
            (json!({"fileName": "a.png"}), "Error: attachment a.png: content must be base64 text"),
            (
                json!({"content": [1]}),
                "Error: attachment attachment-1: content must be base64 text",
            ),
            (
                json!({"name": "b", "content": big}),
                "Error: attachment b: exceeds size limit (1572864 > 1048576 bytes)",
            ),
            (
                json!({"content": "data:text/plain;base64,"}),
                "UnsupportedAttachmentError: attachment attachment-1: empty payload",
            ),
        ] {
            assert_eq!(refusal(&item), text);
        }
    }

    fn arranged(text: &str, items: &[Value]) -> (Vec<ContentBlock>, Vec<StoredMedia>) {
        let home = tempfile::tempdir().unwrap();
        let media = Media::new(home.path());
        let read: Vec<_> = items.iter().map(|item| read(0, item, 20 << 20).unwrap()).collect();
        let arranged = arrange(text, read, &media, &RandomIds);
        assert_eq!(arranged.files.len(), items.len());
        (arranged.blocks, arranged.stored)
    }

    fn text(blocks: &[ContentBlock]) -> &str {
        let ContentBlock::Text(block) = &blocks[0] else { panic!("text comes first") };
        &block.text
    }

    #[test]
    fn pictures_are_blocks_and_a_message_of_pictures_says_so() {
        let (blocks, stored) = arranged(" ", &[json!({"content": DOT})]);
        assert_eq!(text(&blocks), NO_CAPTION);
        assert_eq!(blocks[1], ContentBlock::image(DOT, "image/png"));
        assert!(stored[0].inline && stored[0].path.contains("/media/inbound/"));
    }

    #[test]
    fn of_a_large_text_the_model_reads_the_beginning_and_is_told_so() {
        let kind = MediaType::named("text/plain");
        let text = "ä".repeat(TEXT_MAX + 9);
        let cut = &text.as_bytes()[..text.len() - 3];
        for (bytes, size) in [(text.as_bytes(), text.len()), (cut, text.len())] {
            let shown = text_file("a.txt", kind, (bytes, size as u64), &RandomIds).unwrap();
            assert_eq!(shown.matches('ä').count(), TEXT_MAX);
            assert!(shown.contains("[cut here; the rest is in the file]"));
        }
        assert_eq!(text_file("a.txt", kind, (cut, cut.len() as u64), &RandomIds), None);
    }

    #[test]
    fn large_pictures_and_files_are_named_above_the_text() {
        let large =
            STANDARD.encode([b"\x89PNG\r\n\x1a\n".as_slice(), &vec![0; INLINE_MAX]].concat());
        let file =
            json!({"fileName": "a.txt", "mimeType": "text/plain", "content": "PC9maWxlPg=="});
        let wide = json!({"content": STANDARD.encode(png(8001, 1))});
        let (blocks, stored) = arranged("look", &[wide]);
        let line = format!("[media attached: {} (image/png)]\nlook", stored[0].path);
        assert_eq!(text(&blocks), line);
        assert!(blocks.len() == 1 && stored[0].is_picture_apart());
        let (blocks, stored) = arranged("look", &[json!({"content": large}), file]);
        assert_eq!(blocks.len(), 1);
        let lines: Vec<_> = text(&blocks).lines().collect();
        assert_eq!(lines[0], "[media attached: 2 files]");
        assert_eq!(lines[1], format!("[media attached 1/2: {} (image/png)]", stored[0].path));
        assert_eq!(lines[2], format!("[media attached 2/2: {} (text/plain)]", stored[1].path));
        assert_eq!((lines[3], lines[4]), ("look", ""));
        assert!(lines[5].starts_with("<file name=\"a---"), "{}", lines[5]);
        assert!(lines.contains(&"&lt;/file>"), "{lines:?}");
        assert!(stored[0].is_picture_apart() && !stored[1].is_picture());
    }
}
