//! Anthropic messages.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::{Value, json};

use super::plan::{self, Plan};
use super::{Step, failure_answer, json_answer, stream_answer, tokens};

pub fn answer(body: &Value, serial: u64) -> Response<Body> {
    let plan = plan::plan(&body["messages"]);
    if let Some(failure) = plan.failure.as_ref().filter(|failure| failure.after_chunks == 0) {
        let error = json!({
            "type": "error",
            "error": { "type": failure.kind, "message": failure.message },
        });
        return failure_answer(failure, &error);
    }
    let call = Call { plan: &plan, body, serial };
    if body["stream"] == true {
        stream_answer(call.steps())
    } else {
        json_answer(StatusCode::OK, &call.whole())
    }
}

struct Call<'a> {
    plan: &'a Plan,
    body: &'a Value,
    serial: u64,
}

impl Call<'_> {
    fn head(&self, content: Vec<Value>, stop: Option<&str>, output: usize) -> Value {
        json!({
            "id": format!("msg_mock_{}", self.serial),
            "type": "message",
            "role": "assistant",
            "model": self.body["model"],
            "stop_sequence": null,
            "content": content,
            "stop_reason": stop,
            "usage": {
                "input_tokens": tokens(&self.body["messages"].to_string()),
                "output_tokens": output,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        })
    }

    fn stop(&self) -> &'static str {
        if self.plan.tools.is_empty() { "end_turn" } else { "tool_use" }
    }

    fn tools(&self) -> Vec<Value> {
        let tool = |(i, tool): (usize, &plan::Tool)| {
            json!({
                "type": "tool_use",
                "id": format!("toolu_mock_{}_{i}", self.serial),
                "name": tool.name,
                "input": tool.args,
            })
        };
        self.plan.tools.iter().enumerate().map(tool).collect()
    }

    fn output(&self) -> usize {
        tokens(&self.plan.text.concat())
    }

    fn whole(&self) -> Value {
        let mut content = Vec::new();
        if !self.plan.think.is_empty() {
            let thought = self.plan.think.concat();
            content.push(json!({ "type": "thinking", "thinking": thought, "signature": "sig" }));
        }
        if !self.plan.text.is_empty() {
            content.push(json!({ "type": "text", "text": self.plan.text.concat() }));
        }
        content.extend(self.tools());
        self.head(content, Some(self.stop()), self.output())
    }

    fn steps(&self) -> Vec<Step> {
        let message = self.head(Vec::new(), None, 1);
        let mut steps = vec![event(&json!({ "type": "message_start", "message": message }))];
        let mut index = 0;
        if !self.plan.think.is_empty() {
            let start = json!({ "type": "thinking", "thinking": "", "signature": "" });
            let pieces = self.pieces("thinking_delta", "thinking", &self.plan.think);
            let sign = json!({ "type": "signature_delta", "signature": "mock-signature" });
            self.block(&mut steps, &mut index, &start, pieces, Some(&sign));
        }
        if !self.plan.text.is_empty() {
            let start = json!({ "type": "text", "text": "" });
            let pieces = self.pieces("text_delta", "text", &self.plan.text);
            self.block(&mut steps, &mut index, &start, pieces, None);
            if self.plan.failure.is_some() {
                steps.pop();
                steps.push(Step::Cut);
                return steps;
            }
        }
        for tool in self.tools() {
            let mut start = tool.clone();
            start["input"] = json!({});
            let parts = plan::halves(&tool["input"].to_string());
            let pieces = parts
                .iter()
                .map(|part| json!({ "type": "input_json_delta", "partial_json": part }))
                .collect();
            steps.push(Step::Wait(self.plan.delay));
            self.block(&mut steps, &mut index, &start, Pieces::AtOnce(pieces), None);
        }
        steps.push(event(&json!({
            "type": "message_delta",
            "delta": { "stop_reason": self.stop(), "stop_sequence": null },
            "usage": { "output_tokens": self.output() },
        })));
        steps.push(event(&json!({ "type": "message_stop" })));
        steps
    }

    fn pieces(&self, kind: &str, member: &str, texts: &[String]) -> Pieces {
        Pieces::Paced(texts.iter().map(|text| json!({ "type": kind, member: text })).collect())
    }

    fn block(
        &self,
        steps: &mut Vec<Step>,
        index: &mut usize,
        start: &Value,
        pieces: Pieces,
        last: Option<&Value>,
    ) {
        let at = *index;
        *index += 1;
        steps.push(event(
            &json!({ "type": "content_block_start", "index": at, "content_block": start }),
        ));
        let delta = |delta: &Value| {
            event(&json!({ "type": "content_block_delta", "index": at, "delta": delta }))
        };
        let (list, paced) = match pieces {
            Pieces::Paced(list) => (list, true),
            Pieces::AtOnce(list) => (list, false),
        };
        for piece in &list {
            if paced {
                steps.push(Step::Wait(self.plan.delay));
            }
            steps.push(delta(piece));
        }
        steps.extend(last.map(delta));
        steps.push(event(&json!({ "type": "content_block_stop", "index": at })));
    }
}

/// Deltas of one block: with the script's pause before each, or without.
enum Pieces {
    Paced(Vec<Value>),
    AtOnce(Vec<Value>),
}

fn event(value: &Value) -> Step {
    Step::Send(format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap()))
}
