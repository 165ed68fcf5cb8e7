//! Blocks of a message that are no text.
//!
//! Works on JSON: transcripts hold blocks of several programs and times.

use serde_json::Value;

use crate::sessions::media::StoredMedia;

/// Longest address that is told.
const URL_MAX: usize = 4096;

/// Where the data of a block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// In the block, as base64.
    Base64(String),
    /// At an address.
    Url(String),
    /// In the media folder.
    File(StoredMedia),
    /// The block does not say.
    Nothing,
}

/// A block that is no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// `image`, `audio`, `video` or `file`.
    pub kind: &'static str,
    /// Its file name.
    pub name: Option<String>,
    /// What it is.
    pub mime_type: Option<String>,
    /// Where its data is.
    pub content: Content,
}

/// The blocks of a stored message that are no text: those in its content, then
/// the files that came with it and are not in there.
pub fn of(message: &Value) -> Vec<Block> {
    let content = message.get("content").and_then(Value::as_array);
    let mut blocks: Vec<_> = content.into_iter().flatten().filter_map(block).collect();
    if let Some(members) = message.as_object() {
        let files = StoredMedia::of(members).into_iter().filter(|stored| !stored.inline);
        blocks.extend(files.map(|stored| Block {
            kind: kind_of(&stored.mime_type),
            name: (!stored.is_picture()).then(|| stored.name().map(|name| given(&name))).flatten(),
            mime_type: Some(stored.mime_type.clone()),
            content: Content::File(stored),
        }));
    }
    blocks
}

fn block(block: &Value) -> Option<Block> {
    let text = |value: &Value, names: &[&str]| {
        let mut found = names.iter().filter_map(|name| value.get(name)?.as_str());
        found.find(|text| !text.is_empty()).map(str::to_owned)
    };
    let written = text(block, &["type"])?;
    let source = block.get("source").filter(|source| source.is_object());
    let place = source.unwrap_or(block);
    let url = block.pointer("/image_url/url").and_then(Value::as_str).map(str::to_owned);
    let url = url.or_else(|| text(place, &["url", "image_url"]));
    let mime_type = text(place, &["mimeType", "media_type", "mediaType", "mime_type"])
        .or_else(|| text(block, &["mimeType", "media_type"]));
    let (content, mime_type) = match (text(place, &["data"]), url) {
        (Some(data), _) if data.starts_with("data:") => embedded(&data, mime_type),
        (Some(data), _) => (Content::Base64(data), mime_type),
        (None, Some(url)) if url.starts_with("data:") => embedded(&url, mime_type),
        (None, Some(url)) if is_address(&url) => (Content::Url(url), mime_type),
        _ => (Content::Nothing, mime_type),
    };
    let kind = match written.as_str() {
        "image" | "image_url" | "input_image" | "output_image" => "image",
        "audio" | "input_audio" => "audio",
        "video" => "video",
        "file" | "document" | "input_file" | "attachment" | "media" => {
            mime_type.as_deref().map_or("file", kind_of)
        }
        _ => return None,
    };
    let name = text(block, &["fileName", "filename", "name", "title", "alt"]);
    let name = name.map(|name| name.chars().filter(|c| !c.is_control()).take(200).collect());
    Some(Block { kind, name, mime_type, content })
}

/// What stands in a `data:` address.
fn embedded(url: &str, mime_type: Option<String>) -> (Content, Option<String>) {
    let Some((head, data)) = url.strip_prefix("data:").and_then(|rest| rest.split_once(',')) else {
        return (Content::Nothing, mime_type);
    };
    let Some(written) = head.strip_suffix(";base64") else { return (Content::Nothing, mime_type) };
    let written = written.split(';').next().filter(|written| !written.is_empty());
    (Content::Base64(data.to_owned()), mime_type.or_else(|| written.map(str::to_owned)))
}

fn is_address(url: &str) -> bool {
    let lower: String = url.chars().take(8).collect::<String>().to_lowercase();
    url.len() <= URL_MAX && (lower.starts_with("https://") || lower.starts_with("http://"))
}

fn kind_of(mime_type: &str) -> &'static str {
    match mime_type.split('/').next().unwrap_or_default() {
        "image" => "image",
        "audio" => "audio",
        "video" => "video",
        _ => "file",
    }
}

/// The name that a client gave a file of the media folder: what stands before
/// the id in it, with the extension.
fn given(name: &str) -> String {
    match name.split_once("---") {
        Some((stem, rest)) => {
            let extension = rest.rsplit_once('.').map_or("", |(_, extension)| extension);
            format!("{stem}.{extension}")
        }
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    fn read(block: &Value) -> Option<(&'static str, Content, Option<String>)> {
        super::block(block).map(|block| (block.kind, block.content, block.mime_type))
    }

    #[test]
    fn blocks_of_every_form_are_found() {
        let (png, data) = (Some("image/png".to_owned()), || Content::Base64("QQ==".into()));
        for block in [
            json!({"type": "image", "mimeType": "image/png", "data": "QQ=="}),
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}),
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}),
            json!({"type": "file", "mimeType": "image/png", "data": "QQ=="}),
        ] {
            assert_eq!(read(&block), Some(("image", data(), png.clone())), "{block}");
        }
        let there =
            json!({"type": "image", "source": {"type": "url", "url": "https://example.org/a"}});
        assert_eq!(
            read(&there),
            Some(("image", Content::Url("https://example.org/a".into()), None))
        );
        for url in ["file:///etc/passwd", "/etc/passwd", "javascript:alert(1)", "data:text/html,x"]
        {
            let block = json!({"type": "image", "url": url});
            assert_eq!(read(&block), Some(("image", Content::Nothing, None)), "{url}");
        }
        assert_eq!(read(&json!({"type": "text", "text": "data"})), None);
        assert_eq!(read(&json!("image")), None);
    }

    #[test]
    fn a_file_is_called_what_its_sender_called_it() {
        assert_eq!(given("a---898b60dd-749e.txt"), "a.txt");
        assert_eq!(given("898b60dd.txt"), "898b60dd.txt");
    }
}
