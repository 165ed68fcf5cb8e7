//! What is asked for.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::http::openai::fetch::{Given, NO_FILES, Part, content, file_here, picture};
use crate::http::openai::form;
use crate::http::openai::outcome::Files;
use crate::http::openai::read::{At, Wrong};
use crate::http::openai::target::FAMILY;
use crate::http::openai::tools::{self, ClientTools, Form};
use crate::http::openai::words::{Entry, Who, called};
use crate::providers::AnswerWishes;

const NO_USER: &str = "Missing user message in `messages`.";

/// A request.
#[derive(Debug)]
pub struct Request<'v> {
    /// `model`.
    pub model: Cow<'v, str>,
    /// `user`.
    pub user: Option<&'v str>,
    /// `stream`.
    pub is_stream: bool,
    /// `stream_options.include_usage`.
    pub tells_usage: bool,
    /// What was said, the message included.
    pub entries: Vec<Entry>,
    /// What came with each of them.
    pub given: Vec<Vec<Given>>,
    /// What the system and the developer say, whether a tool has to be called, and which form
    /// the answer has.
    pub instructions: Option<String>,
    /// Whether its answer names files.
    pub files: Files,
    /// The client's tools.
    pub tools: ClientTools,
    /// How its answer should be made.
    pub wishes: AnswerWishes,
}

impl<'v> Request<'v> {
    /// Reads a body. What a model cannot be asked by every API is read, and has no
    /// effect.
    ///
    /// # Errors
    /// When it is not one.
    pub fn read(body: &At<'v>) -> Result<Self, Wrong> {
        for (name, least, most) in UNUSED {
            body.member(name).number_within(least, most)?;
        }
        let tokens = |name| body.member(name).integer_within(1, u64::MAX);
        let (newer, older) = (tokens("max_completion_tokens")?, tokens("max_tokens")?);
        let temperature = body.member("temperature").number_within(0.0, 2.0)?;
        let model = body.member("model").text()?.unwrap_or(FAMILY);
        let mut said = Said::default();
        for message in body.member("messages").items()? {
            said.take(&message)?;
        }
        let tools = tools::read(body, Form::Nested)?;
        if !said.entries.iter().any(|(entry, _)| entry.who == Who::User) {
            return Err(Wrong(NO_USER.into()));
        }
        let options = body.member("stream_options");
        options.object()?;
        let mut instructions = said.instructions;
        instructions.extend(tools.told.clone());
        let form = form::told(&body.member("response_format"), Form::Nested)?;
        let files = Files::beside(form.as_ref());
        instructions.extend(form);
        let (entries, given) = said.entries.into_iter().unzip();
        Ok(Self {
            model: Cow::Borrowed(model),
            user: body.member("user").text()?,
            is_stream: body.member("stream").boolean()?,
            tells_usage: options.member("include_usage").boolean()?,
            entries,
            given,
            instructions: Some(instructions.join("\n\n")).filter(|text| !text.is_empty()),
            files,
            tools,
            wishes: AnswerWishes { max_tokens: newer.or(older), temperature },
        })
    }
}

/// Numbers that must be right where they are there. There is one answer.
const UNUSED: [(&str, f64, f64); 4] = [
    ("top_p", 0.0, 1.0),
    ("n", 1.0, 1.0),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
];

/// What the messages say.
#[derive(Default)]
struct Said {
    entries: Vec<(Entry, Vec<Given>)>,
    instructions: Vec<String>,
    /// Names of tools by the ids of their calls.
    names: HashMap<String, String>,
}

impl Said {
    fn take(&mut self, message: &At<'_>) -> Result<(), Wrong> {
        if message.object()?.is_none() {
            return Err(message.wrong("must be an object"));
        }
        let role = message.member("role");
        let (text, given) = content(&message.member("content"), part)?;
        let who = match role.required_text()? {
            "system" | "developer" => {
                self.instructions.push(text);
                return Ok(());
            }
            "user" => Who::User,
            "assistant" => {
                let text = self.with_calls(message, text)?;
                self.entries.push((Entry { who: Who::Assistant, text }, Vec::new()));
                return Ok(());
            }
            "tool" | "function" => {
                let id = message.member("tool_call_id").text()?.unwrap_or_default();
                let name = message.member("name").text()?;
                let known = self.names.get(id).map(String::as_str);
                let name = name.or(known).unwrap_or("of this call");
                Who::Tool(if id.is_empty() { name.to_owned() } else { format!("{name} ({id})") })
            }
            _ => return Err(role.wrong("must be system, developer, user, assistant or tool")),
        };
        if !text.is_empty() || !given.is_empty() || matches!(who, Who::Tool(_)) {
            self.entries.push((Entry { who, text }, given));
        }
        Ok(())
    }

    /// What an agent said, with the calls that it made.
    fn with_calls(&mut self, message: &At<'_>, text: String) -> Result<String, Wrong> {
        let mut lines = vec![text];
        for call in message.member("tool_calls").items()? {
            let id = call.member("id").text()?.unwrap_or_default();
            let function = call.member("function");
            let name = function.member("name").required_text()?;
            let arguments = function.member("arguments").text()?.unwrap_or("{}");
            self.names.insert(id.to_owned(), name.to_owned());
            lines.push(called(name, id, arguments));
        }
        lines.retain(|line| !line.is_empty());
        Ok(lines.join("\n"))
    }
}

/// A part of a content.
fn part<'v>(part: &At<'v>) -> Result<Part<'v>, Wrong> {
    let kind = part.member("type");
    match kind.required_text()? {
        "text" | "input_text" => part.member("text").required_text().map(Part::Text),
        "refusal" => part.member("refusal").required_text().map(Part::Text),
        "image_url" => {
            let image = part.member("image_url");
            let url = if image.value().is_object() { image.member("url") } else { image };
            picture(&url).map(Part::Given)
        }
        "file" => file(&part.member("file")).map(Part::Given),
        "input_audio" => Err(kind.wrong("nobody here hears audio; send what it says as text")),
        _ => Err(kind.wrong("must be text, image_url or file")),
    }
}

/// `file_data` and `filename`.
fn file(file: &At<'_>) -> Result<Given, Wrong> {
    let (id, name) = (file.member("file_id"), file.member("filename"));
    if id.is_set() {
        return Err(id.wrong(NO_FILES));
    }
    file_here(&file.member("file_data"), name.text()?, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn wrong(body: &Value) -> String {
        Request::read(&At::root(body)).unwrap_err().0
    }

    #[test]
    fn a_conversation_with_tools_and_pictures_is_read() {
        let url = "data:image/png;base64,iVBORw0KGgo=";
        let body = json!({"model": "openclaw", "stream": true,
            "stream_options": {"include_usage": true}, "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": url}}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1",
                "type": "function", "function": {"name": "add", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]});
        let read = Request::read(&At::root(&body)).unwrap();
        assert!(read.is_stream && read.tells_usage);
        assert_eq!(read.instructions.as_deref(), Some("be brief"));
        assert_eq!(read.entries.len(), 4);
        assert_eq!(read.entries[1].text, "[called the tool add (c1) with {}]");
        assert_eq!(read.entries[2].who, Who::Tool("add (c1)".into()));
        let counts = |read: &Request<'_>| read.given.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(counts(&read), [1, 0, 0, 1]);
        let file = json!({"messages": [{"role": "user", "content": [{"type": "file",
            "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}}]}]});
        let read = Request::read(&At::root(&file)).unwrap();
        let Given::Here(file) = &read.given[0][0] else { panic!("{:?}", read.given) };
        assert_eq!((&file["fileName"], &file["mimeType"]), (&json!("a.txt"), &json!("text/plain")));
        let picture = &body["messages"][1];
        let body = json!({"messages": [picture, {"role": "system", "content": "be brief"},
            {"role": "user", "content": "what is it"}]});
        assert_eq!(counts(&Request::read(&At::root(&body)).unwrap()), [1, 0]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let user = json!([{"role": "user", "content": "x"}]);
        for (body, text) in [
            (json!({}), "Missing user message in `messages`."),
            (json!({"messages": {}}), "messages: must be an array"),
            (json!({"messages": [{"role": "boss", "content": "x"}]}), "messages.0.role: "),
            (json!({"messages": [{"role": "user", "content": 5}]}), "messages.0.content: "),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}),
                "messages.0.content.0.type: ",
            ),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}),
                "messages.0.content.0.type: nobody here hears audio",
            ),
            (
                json!({"messages": [{"role": "user", "content": [
                    {"type": "file", "file": {"file_id": "file-1"}}]}]}),
                "messages.0.content.0.file.file_id: no files are kept here",
            ),
            (json!({"messages": user, "n": 2}), "n: must be a number from 1 to 1"),
            (json!({"messages": user, "stream": "yes"}), "stream: must be a boolean"),
        ] {
            let told = wrong(&body);
            assert!(told.starts_with(text), "{told}");
        }
    }
}
