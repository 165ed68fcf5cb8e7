//! What is answered.

use serde_json::Value;

use super::kept::{call_id, message_id};
use crate::http::openai::outcome::{Answered, Cut, Failed, input_tokens};
use crate::http::openai::sse::{DONE, Pieces, event};
use crate::http::openai_word;
use crate::protocol::message::{ToolCall, Usage};
use crate::support::json;

/// A response that is being made.
pub struct Made {
    id: String,
    model: String,
    created_at: u64,
    /// The id of its message.
    message_id: String,
    /// What was told of its message, piece by piece.
    told: String,
    /// How many events have told of it.
    events: usize,
}

impl Made {
    /// One that has begun.
    pub fn new(id: String, model: String, created_at: u64) -> Self {
        let message_id = message_id(&id);
        Self { id, model, created_at, message_id, told: String::new(), events: 0 }
    }

    /// The whole of it.
    pub fn whole(&self, answered: &Answered) -> Value {
        let calls: Vec<_> = answered.calls.iter().map(|call| self.call(call)).collect();
        self.ended(answered, calls)
    }

    /// One that came to nothing, but perhaps to a beginning.
    pub fn failed(&self, failed: &Failed) -> Value {
        let said = Some(&failed.said).filter(|said| !said.is_empty());
        let said = said.map(|said| self.unfinished(said));
        let mut made = self.frame("failed", said.as_slice(), &Usage::default());
        let code = failed.code.unwrap_or_else(|| openai_word(failed.status));
        made["error"] = json!({"code": code, "message": failed.message});
        made
    }

    fn ended(&self, answered: &Answered, calls: Vec<Value>) -> Value {
        let mut output = Vec::new();
        if calls.is_empty() || !answered.text.is_empty() {
            output.push(self.answer(answered));
        }
        output.extend(calls);
        // Calls end it, too: clients of OpenAI take one that is not completed for cut.
        let status = if answered.cut.is_some() { "incomplete" } else { "completed" };
        let mut made = self.frame(status, &output, &answered.used);
        if let Some(cut) = answered.cut {
            let reason = match cut {
                Cut::Length => "max_output_tokens",
                Cut::Filter => "content_filter",
            };
            made["incomplete_details"] = json!({"reason": reason});
        }
        made
    }

    fn frame(&self, status: &str, output: &[Value], used: &Usage) -> Value {
        json!({"id": self.id, "object": "response", "created_at": self.created_at,
            "status": status, "model": self.model, "output": output, "usage": usage(used)})
    }

    fn answer(&self, answered: &Answered) -> Value {
        let phase = if answered.calls.is_empty() { "final_answer" } else { "commentary" };
        self.message(&answered.text, phase, "completed")
    }

    /// The message of a response that came to nothing.
    fn unfinished(&self, said: &str) -> Value {
        self.message(said, "commentary", "incomplete")
    }

    fn message(&self, text: &str, phase: &str, status: &str) -> Value {
        json!({"type": "message", "id": self.message_id, "role": "assistant",
            "content": [text_part(text)],
            "phase": phase, "status": status})
    }

    fn call(&self, call: &ToolCall) -> Value {
        json!({"type": "function_call", "id": call_id(&self.id, &call.id),
            "call_id": call.id, "name": call.name, "arguments": call.arguments.to_string(),
            "status": "completed"})
    }

    /// An event about the text of the message.
    fn of_text(&self, name: &str, member: &str, value: &Value) -> Value {
        let mut data = json!({"type": name, "item_id": self.message_id, "output_index": 0,
            "content_index": 0});
        data[member] = value.clone();
        data
    }

    /// The last events about the message.
    fn of_end(&self, text: &str, message: &Value) -> Vec<Value> {
        vec![
            self.of_text("response.output_text.done", "text", &json!(text)),
            self.of_text("response.content_part.done", "part", &text_part(text)),
            Self::of_item("response.output_item.done", 0, message),
        ]
    }

    fn of_item(name: &str, index: usize, item: &Value) -> Value {
        json!({"type": name, "output_index": index, "item": item})
    }

    fn of_response(name: &str, response: &Value) -> Value {
        json!({"type": name, "response": response})
    }

    /// The events of a call, which comes as a whole.
    fn of_call(index: usize, item: &Value) -> [Value; 4] {
        let mut begun = item.clone();
        begun["arguments"] = json!("");
        begun["status"] = json!("in_progress");
        let arguments = |name: &str, member: &str| {
            let mut data = json!({"type": name, "item_id": item["id"], "output_index": index});
            data[member] = item["arguments"].clone();
            data
        };
        [
            Self::of_item("response.output_item.added", index, &begun),
            arguments("response.function_call_arguments.delta", "delta"),
            arguments("response.function_call_arguments.done", "arguments"),
            Self::of_item("response.output_item.done", index, item),
        ]
    }

    /// These events as they are sent, each with its number. Clients of OpenAI insist on that
    /// too.
    fn numbered(&mut self, events: Vec<Value>) -> Vec<String> {
        let begins = self.events;
        self.events += events.len();
        let line = |(number, mut data): (usize, Value)| {
            data["sequence_number"] = json!(number);
            event(data["type"].as_str().unwrap_or_default(), &data)
        };
        (begins..).zip(events).map(line).collect()
    }

    /// The same for the last ones.
    fn last(&mut self, events: Vec<Value>) -> Vec<String> {
        let mut lines = self.numbered(events);
        lines.push(DONE.to_owned());
        lines
    }
}

/// What was used. Clients of OpenAI read the details without a look whether they are there. How
/// much of the answer was thought is not known: none is what they are told.
fn usage(used: &Usage) -> Value {
    let input = input_tokens(used);
    json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": used.cache_read},
        "output_tokens": used.output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + used.output})
}

/// A text of the message. Clients of OpenAI insist on the list, as on the status of a
/// call; the original has neither.
fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

/// Whether two texts have the same letters in the same order.
fn is_same_but_for_space(told: &str, text: &str) -> bool {
    let is_letter = |letter: &char| !letter.is_whitespace();
    told.chars().filter(is_letter).eq(text.chars().filter(is_letter))
}

impl Pieces for Made {
    fn begin(&mut self) -> Vec<String> {
        let begun = self.frame("in_progress", &[], &Usage::default());
        let item = json!({"type": "message", "id": self.message_id, "role": "assistant",
            "content": [text_part("")], "status": "in_progress"});
        let part = text_part("");
        let events = vec![
            Self::of_response("response.created", &begun),
            Self::of_response("response.in_progress", &begun),
            Self::of_item("response.output_item.added", 0, &item),
            self.of_text("response.content_part.added", "part", &part),
        ];
        self.numbered(events)
    }

    fn says(&mut self, text: &str) -> Vec<String> {
        self.told.push_str(text);
        let delta = self.of_text("response.output_text.delta", "delta", &json!(text));
        self.numbered(vec![delta])
    }

    fn between(&mut self) -> Vec<String> {
        self.says("\n\n")
    }

    fn over(&mut self, end: Result<Answered, Failed>) -> Vec<String> {
        let mut answered = match end {
            Ok(answered) => answered,
            Err(failed) => {
                let said = std::mem::take(&mut self.told);
                let mut events = self.of_end(&said, &self.unfinished(&said));
                let made = self.failed(&Failed { said, ..failed });
                events.push(Self::of_response("response.failed", &made));
                return self.last(events);
            }
        };
        // Clients put the pieces together and take what they get for the text of the message.
        if is_same_but_for_space(&self.told, &answered.text) {
            answered.text = std::mem::take(&mut self.told);
        }
        let message = self.answer(&answered);
        let mut events = self.of_end(&answered.text, &message);
        let calls: Vec<_> = answered.calls.iter().map(|call| self.call(call)).collect();
        for (index, call) in calls.iter().enumerate() {
            // The message is the first item: it has been told of.
            events.extend(Self::of_call(index + 1, call));
        }
        let mut whole = self.ended(&answered, calls);
        if answered.text.is_empty()
            && !answered.calls.is_empty()
            && let Some(output) = whole["output"].as_array_mut()
        {
            output.insert(0, message);
        }
        let is_cut = answered.cut.is_some();
        let name = if is_cut { "response.incomplete" } else { "response.completed" };
        events.push(Self::of_response(name, &whole));
        self.last(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str) -> Answered {
        Answered { text: text.into(), calls: Vec::new(), used: Usage::default(), cut: None }
    }

    /// The data of these lines, without the last one.
    fn data_of(lines: &[String]) -> Vec<Value> {
        let data = lines.iter().flat_map(|line| line.lines());
        let data = data.filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    #[test]
    fn what_a_cache_gave_is_told_as_part_of_what_went_in() {
        let used = Usage { input: 3, output: 5, cache_read: 40, ..Usage::default() };
        let made = Made::new("resp_1".into(), "openclaw".into(), 1);
        let whole = made.whole(&Answered { used, ..answered("Done.") });
        let usage = json!({"input_tokens": 43, "input_tokens_details": {"cached_tokens": 40},
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 48});
        assert_eq!(whole["usage"], usage);
    }

    #[test]
    fn the_text_of_a_stream_is_its_pieces_to_the_letter() {
        // What the run keeps has other white space between its turns than what came.
        for (pieces, text, whole) in [
            (["I look. ", "\nDone."], "I look.\n\nDone.", "I look. \n\n\nDone."),
            // What came does not count any more: the text is what does.
            (["I look.", "No."], "Done.", "Done."),
        ] {
            let mut made = Made::new("resp_1".into(), "openclaw".into(), 1);
            made.says(pieces[0]);
            made.between();
            made.says(pieces[1]);
            let all = data_of(&made.over(Ok(answered(text))));
            assert_eq!(all[0]["type"], "response.output_text.done", "{all:?}");
            let last = &all[3]["response"]["output"][0]["content"][0];
            for told in [&all[0], &all[1]["part"], &all[2]["item"]["content"][0], last] {
                assert_eq!(told["text"], whole, "{all:?}");
            }
        }
    }
}
