//! What is asked for.

use super::items::Said;
use crate::http::openai::fetch::Given;
use crate::http::openai::form;
use crate::http::openai::outcome::Files;
use crate::http::openai::read::{At, Wrong};
use crate::http::openai::target::FAMILY;
use crate::http::openai::tools::{self, ClientTools, Form};
use crate::http::openai::words::{Entry, Who};
use crate::providers::AnswerWishes;

const NO_USER: &str = "Missing user message in `input`.";

/// A request.
#[derive(Debug)]
pub struct Request<'v> {
    /// `model`.
    pub model: &'v str,
    /// `user`.
    pub user: Option<&'v str>,
    /// `stream`.
    pub is_stream: bool,
    /// `previous_response_id`.
    pub previous: Option<&'v str>,
    /// What was said, the message included.
    pub entries: Vec<Entry>,
    /// What came with each of them.
    pub given: Vec<Vec<Given>>,
    /// What the system prompt says beside what everybody's does.
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
        body.member("top_p").number_within(0.0, 1.0)?;
        refuse_unserved(body)?;
        let wishes = AnswerWishes {
            max_tokens: body.member("max_output_tokens").integer_within(1, u64::MAX)?,
            temperature: body.member("temperature").number_within(0.0, 2.0)?,
        };
        let model = body.member("model").text()?.unwrap_or(FAMILY);
        let instructions = body.member("instructions").text()?;
        let said = Said::read(&body.member("input"))?;
        let tools = tools::read(body, Form::Flat)?;
        let (entries, given): (Vec<_>, Vec<_>) = said.entries.into_iter().unzip();
        let is_word = |entry: &Entry| entry.who != Who::Assistant;
        if !entries.iter().any(is_word) {
            return Err(Wrong(NO_USER.into()));
        }
        let told = instructions.map(str::to_owned).into_iter().chain(said.instructions);
        let form = form::told(&body.member("text").member("format"), Form::Flat)?;
        let files = Files::beside(form.as_ref());
        let told = told.chain(tools.told.clone()).chain(form);
        let told: Vec<_> = told.filter(|text| !text.is_empty()).collect();
        Ok(Self {
            model,
            user: body.member("user").text()?,
            is_stream: body.member("stream").boolean()?,
            previous: body.member("previous_response_id").text()?,
            entries,
            given,
            instructions: Some(told.join("\n\n")).filter(|text| !text.is_empty()),
            files,
            tools,
            wishes,
        })
    }
}

/// Refuses what would make another answer than the one that is given here.
fn refuse_unserved(body: &At<'_>) -> Result<(), Wrong> {
    let conversation = body.member("conversation");
    if conversation.is_set() {
        let rule = "none is kept here; go on with `previous_response_id`, or name a `user`";
        return Err(conversation.wrong(rule));
    }
    let background = body.member("background");
    if background.boolean()? {
        return Err(background.wrong("must be false"));
    }
    let form = body.member("text").member("format").member("type");
    match form.text()? {
        None | Some("text" | "json_object" | "json_schema") => Ok(()),
        Some(_) => Err(form.wrong("must be text, json_object or json_schema")),
    }
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
    fn items_of_every_kind_are_read() {
        let body = json!({"model": "openclaw", "instructions": "be brief", "input": [
            {"role": "developer", "content": "be kind"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do"}]},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "3"}]});
        let read = Request::read(&At::root(&body)).unwrap();
        assert_eq!(read.instructions.as_deref(), Some("be brief\n\nbe kind"));
        assert_eq!(read.entries.len(), 3);
        assert_eq!(read.entries[2].who, Who::Tool("add (c1)".into()));
        let body = json!({"input": [{"role": "user", "content": [
            {"type": "input_file", "filename": "a.txt", "file_data": "aGk="},
            {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]}]});
        assert_eq!(Request::read(&At::root(&body)).unwrap().given[0].len(), 2);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (body, text) in [
            (json!({}), "input: Invalid input"),
            (json!({"input": 5}), "input: Invalid input"),
            (json!({"input": []}), NO_USER),
            (json!({"input": [{"type": "x"}]}), "input.0.type: "),
            (json!({"input": "x", "conversation": "conv_1"}), "conversation: none is kept here"),
            (json!({"input": "x", "conversation": {"id": "conv_1"}}), "conversation: none"),
            (json!({"input": "x", "background": true}), "background: must be false"),
            (
                json!({"input": "x", "text": {"format": {"type": "grammar"}}}),
                "text.format.type: must be text",
            ),
            (
                json!({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}),
                "input.0.content.0.file_data: ",
            ),
        ] {
            let told = wrong(&body);
            assert!(told.starts_with(text), "{told}");
        }
    }
}
