//! Parts of messages that several APIs are told alike.
//!
//! Owns: the words for results without text and for a missing begin, the lines and the pictures of
//! content, content as a list. Must not: know where an API puts them.

use serde_json::Value;

use crate::protocol::message::{ContentBlock, ImageBlock, texts_of};
use crate::support::json;

/// What pictures of results are announced with, where results hold none.
pub const IMAGES_FOLLOW: &str = "Attached image(s) from tool result:";
/// Stands for the text of a result that is pictures only.
pub const SEE_IMAGE: &str = "(see attached image)";
/// A conversation must begin with a user; ours may begin with a note.
pub const BEGINNING: &str = "(beginning of the conversation)";
/// Stands for the text of a result that is empty.
pub const NO_OUTPUT: &str = "(no output)";

/// All text blocks, one below the other.
pub fn lines_of(blocks: &[ContentBlock]) -> String {
    texts_of(blocks).collect::<Vec<_>>().join("\n")
}

/// All pictures.
pub fn images_of(blocks: &[ContentBlock]) -> impl DoubleEndedIterator<Item = &ImageBlock> {
    blocks.iter().filter_map(|block| match block {
        ContentBlock::Image(image) => Some(image),
        _ => None,
    })
}

/// What a message says as a list of parts; a text alone is one of them.
pub fn parts_of(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        text => vec![json!({"type": "text", "text": text})],
    }
}

/// A picture as an address that holds all of it.
pub fn data_url(image: &ImageBlock) -> String {
    format!("data:{};base64,{}", image.mime_type, image.data)
}
