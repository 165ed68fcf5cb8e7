//! The items of an input.

use std::collections::HashMap;

use serde_json::Value;

use crate::http::openai::fetch::{Given, NO_FILES, Part, content, file_at, file_here, picture};
use crate::http::openai::read::{At, Wrong};
use crate::http::openai::words::{Entry, Who, called};
use crate::support::json;

/// What the items say.
#[derive(Default)]
pub struct Said {
    /// What was said, each with what came with it.
    pub entries: Vec<(Entry, Vec<Given>)>,
    /// What the system and the developer say.
    pub instructions: Vec<String>,
    /// Names of tools by the ids of their calls.
    names: HashMap<String, String>,
}

impl Said {
    /// Reads `input`: a text, or items.
    ///
    /// # Errors
    /// When it is neither, or one of them is not known.
    pub fn read(input: &At<'_>) -> Result<Self, Wrong> {
        let mut said = Self::default();
        match input.value() {
            Value::String(text) => said.add(Who::User, text.clone(), Vec::new()),
            Value::Array(_) => {
                for item in input.items()? {
                    said.take(&item)?;
                }
            }
            _ => return Err(input.wrong("Invalid input")),
        }
        Ok(said)
    }

    fn add(&mut self, who: Who, text: String, given: Vec<Given>) {
        if !text.is_empty() || !given.is_empty() || matches!(who, Who::Tool(_)) {
            self.entries.push((Entry { who, text }, given));
        }
    }

    fn take(&mut self, item: &At<'_>) -> Result<(), Wrong> {
        if item.object()?.is_none() {
            return Err(item.wrong("must be an object"));
        }
        let kind = item.member("type");
        match kind.text()?.unwrap_or("message") {
            "message" => self.take_message(item),
            "function_call" => {
                let id = item.member("call_id").required_text()?;
                let name = item.member("name").required_text()?;
                let arguments = item.member("arguments").text()?.unwrap_or("{}");
                self.names.insert(id.to_owned(), name.to_owned());
                self.add(Who::Assistant, called(name, id, arguments), Vec::new());
                Ok(())
            }
            "function_call_output" => {
                let id = item.member("call_id").required_text()?;
                let (text, given) = content(&item.member("output"), part)?;
                let name = self.names.get(id).map_or("of this call", String::as_str);
                self.add(Who::Tool(format!("{name} ({id})")), text, given);
                Ok(())
            }
            // What another model thought.
            "reasoning" => Ok(()),
            _ => Err(kind.wrong("must be message, function_call or function_call_output")),
        }
    }

    fn take_message(&mut self, item: &At<'_>) -> Result<(), Wrong> {
        let (text, given) = content(&item.member("content"), part)?;
        let role = item.member("role");
        match role.required_text()? {
            "system" | "developer" => self.instructions.push(text),
            "user" => self.add(Who::User, text, given),
            "assistant" => self.add(Who::Assistant, text, Vec::new()),
            _ => return Err(role.wrong("must be system, developer, user or assistant")),
        }
        Ok(())
    }
}

/// A part of a content.
fn part<'v>(part: &At<'v>) -> Result<Part<'v>, Wrong> {
    let kind = part.member("type");
    match kind.required_text()? {
        "input_text" | "output_text" | "text" => {
            part.member("text").required_text().map(Part::Text)
        }
        "refusal" => part.member("refusal").required_text().map(Part::Text),
        "input_image" => image(part).map(Part::Given),
        "input_file" => file(part).map(Part::Given),
        _ => Err(kind.wrong("must be input_text, output_text, input_image or input_file")),
    }
}

/// `image_url`, or `source` as the original has it.
fn image(part: &At<'_>) -> Result<Given, Wrong> {
    let source = part.member("source");
    if source.object()?.is_none() {
        return picture(&part.member("image_url"));
    }
    match source.member("type").required_text()? {
        "url" => picture(&source.member("url")),
        "base64" => Ok(Given::Here(json!({"type": "image",
            "mimeType": source.member("media_type").text()?,
            "content": source.member("data").required_text()?}))),
        _ => Err(source.member("type").wrong("must be url or base64")),
    }
}

/// `file_data`, `file_url`, or `source` as the original has it.
fn file(part: &At<'_>) -> Result<Given, Wrong> {
    let source = part.member("source");
    let (data, url, name, kind) = if source.object()?.is_some() {
        let kind = source.member("media_type").text()?;
        (source.member("data"), source.member("url"), source.member("filename"), kind)
    } else {
        let id = part.member("file_id");
        if id.is_set() {
            return Err(id.wrong(NO_FILES));
        }
        (part.member("file_data"), part.member("file_url"), part.member("filename"), None)
    };
    let name = name.text()?;
    if url.is_set() {
        return file_at(&url, name);
    }
    file_here(&data, name, kind)
}
