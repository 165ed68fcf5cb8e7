//! Pictures, as far as providers take them.
//!
//! Owns: how large a picture is, by its first bytes; which ones go first, and what
//! stands for one that is left out. Promises: no pixels are decoded, and no bytes
//! lead to a panic. Must not: know how many an API takes; its adapter does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::ModelRequest;
use super::parts::images_of;
use crate::protocol::message::{AgentMessage, ContentBlock, ImageBlock, UserContent, UserMessage};

/// Longest side that is sent, in pixels. Anthropic refuses a longer one, and with
/// it every later request of the conversation.
const SIDE_MAX: u32 = 8000;
/// What stands for a picture that the provider does not take.
const NOT_TAKEN: &str = "(image left out: the provider does not take it)";
/// Characters of base64 that are looked at for a size: a photograph may tell it
/// behind all that the camera has to say.
const HEADS: [usize; 2] = [1024, 256 * 1024];

/// Width and height of a picture, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureSize {
    width: u32,
    height: u32,
}

impl PictureSize {
    /// What a PNG, JPEG, GIF or WebP says at its beginning. `None` when that is
    /// not there, or it is none of these.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let (width, height) =
            png(bytes).or_else(|| jpeg(bytes)).or_else(|| gif(bytes)).or_else(|| webp(bytes))?;
        Some(Self { width, height })
    }

    /// The same of a picture in base64.
    pub fn of_base64(data: &str) -> Option<Self> {
        HEADS.iter().find_map(|length| {
            let head = data.get(..*length).unwrap_or(data);
            Self::of(&STANDARD.decode(head).ok()?)
        })
    }

    /// Whether no side is longer than this.
    pub const fn is_within(self, side: u32) -> bool {
        self.width <= side && self.height <= side
    }
}

/// Whether a picture of this size is sent. One that does not tell its size is.
pub fn picture_fits(size: Option<PictureSize>) -> bool {
    size.is_none_or(|size| size.is_within(SIDE_MAX))
}

fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    // The first chunk has a length of four bytes, then its name.
    let chunk = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?.get(4..)?;
    let sides = chunk.strip_prefix(b"IHDR")?;
    Some((u32::from_be_bytes(array(sides, 0)?), u32::from_be_bytes(array(sides, 4)?)))
}

fn gif(bytes: &[u8]) -> Option<(u32, u32)> {
    let sides = bytes.strip_prefix(b"GIF87a").or_else(|| bytes.strip_prefix(b"GIF89a"))?;
    let side = |at| Some(u32::from(u16::from_le_bytes(array(sides, at)?)));
    Some((side(0)?, side(2)?))
}

/// Segments come one after the other; that of the frame has the sides.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    loop {
        let (marker, segment) = rest.strip_prefix(b"\xff")?.split_first()?;
        let number = |at| Some(u16::from_be_bytes(array(segment, at)?));
        rest = match *marker {
            // Any number of these may stand before a marker.
            0xff => rest.get(1..)?,
            // Markers without a segment.
            0x01 | 0xd0..=0xd7 => segment,
            // The picture itself, or its end.
            0xd9 | 0xda => return None,
            frame @ 0xc0..=0xcf if !matches!(frame, 0xc4 | 0xc8 | 0xcc) => {
                let (height, width) = (number(3)?, number(5)?);
                return Some((width.into(), height.into()));
            }
            _ => segment.get(usize::from(number(0)?)..)?,
        };
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    let chunk = bytes.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WEBP")?;
    let (name, content) = (chunk.get(..4)?, chunk.get(8..)?);
    Some(match name {
        b"VP8 " => {
            // Fourteen bits; the others say how it is scaled.
            let sides = content.get(3..)?.strip_prefix(b"\x9d\x01\x2a")?;
            let side = |at| Some(u32::from(u16::from_le_bytes(array(sides, at)?) & 0x3fff));
            (side(0)?, side(2)?)
        }
        b"VP8L" => {
            let bits = u32::from_le_bytes(array(content.strip_prefix(b"\x2f")?, 0)?);
            ((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1)
        }
        b"VP8X" => {
            let side = |at| {
                let [low, middle, high] = array(content, at)?;
                Some(u32::from_le_bytes([low, middle, high, 0]) + 1)
            };
            (side(4)?, side(7)?)
        }
        _ => return None,
    })
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Leaves out the oldest pictures that are meant, as long as there are more than
/// `keep` of all kinds. Answers how many.
pub fn leave_out(
    messages: &mut [AgentMessage],
    keep: usize,
    is_meant: impl Fn(&ImageBlock) -> bool,
) -> usize {
    let blocks = messages.iter_mut().filter_map(content).flatten();
    let pictures: Vec<_> = blocks.filter(|it| matches!(it, ContentBlock::Image(_))).collect();
    let surplus = pictures.len().saturating_sub(keep);
    let is_meant =
        |block: &&mut ContentBlock| matches!(block, ContentBlock::Image(image) if is_meant(image));
    let mut count = 0;
    for picture in pictures.into_iter().filter(is_meant).take(surplus) {
        *picture = ContentBlock::text(NOT_TAKEN);
        count += 1;
    }
    count
}

/// How many of the newest pictures have at most `most` bytes of base64 together. The very
/// newest counts in any case.
pub fn newest_within(messages: &[AgentMessage], most: usize) -> usize {
    let newest_first = messages.iter().rev().flat_map(|message| images_of(shown(message)).rev());
    let sizes = newest_first.map(|image| image.data.len());
    let mut sum = 0_usize;
    let fitting = sizes.take_while(|size| {
        sum += *size;
        sum <= most
    });
    fitting.count().max(1)
}

/// The blocks of a message that may be pictures for the model.
fn content(message: &mut AgentMessage) -> Option<&mut Vec<ContentBlock>> {
    match message {
        AgentMessage::User(UserMessage { content: UserContent::Blocks(blocks), .. }) => {
            Some(blocks)
        }
        AgentMessage::ToolResult(result) => Some(&mut result.content),
        AgentMessage::User(_) | AgentMessage::Assistant(_) => None,
    }
}

/// The same, to look at.
fn shown(message: &AgentMessage) -> &[ContentBlock] {
    match message {
        AgentMessage::User(UserMessage { content: UserContent::Blocks(blocks), .. }) => blocks,
        AgentMessage::ToolResult(result) => &result.content,
        AgentMessage::User(_) | AgentMessage::Assistant(_) => &[],
    }
}

/// When the newest message with a picture was sent.
pub fn newest_picture(request: &ModelRequest) -> Option<u64> {
    let has_some = |message: &&AgentMessage| images_of(shown(message)).next().is_some();
    request.messages.iter().filter(has_some).map(AgentMessage::timestamp).max()
}

/// The same request without the pictures of messages that were sent by `until`; `None` when it
/// has none, or is about them.
pub fn without_pictures(request: &ModelRequest, until: u64) -> Option<ModelRequest> {
    if request.needs_pictures || !request.model.accepts_images() {
        return None;
    }
    let mut without = request.clone();
    let meant = without.messages.iter_mut().filter(|message| message.timestamp() <= until);
    let left_out: usize =
        meant.map(|message| leave_out(std::slice::from_mut(message), 0, |_| true)).sum();
    (left_out > 0).then_some(without)
}

#[cfg(test)]
mod tests;
