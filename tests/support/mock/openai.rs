//! OpenAI chat completions.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::{Value, json};

use super::super::now_ms;
use super::plan::{self, Plan};
use super::{Step, failure_answer, json_answer, stream_answer, tokens};

pub fn answer(body: &Value, serial: u64) -> Response<Body> {
    let mut plan = plan::plan(&body["messages"]);
    let is_cut = shorten(&mut plan, body) || plan.is_cut;
    if let Some(failure) = plan.failure.as_ref().filter(|failure| failure.after_chunks == 0) {
        let error = json!({ "error": {
            "message": failure.message, "type": failure.kind, "code": null, "param": null,
        }});
        return failure_answer(failure, &error);
    }
    let call = Call { plan: &plan, body, serial, is_cut };
    if body["stream"] == true {
        stream_answer(call.steps())
    } else {
        json_answer(StatusCode::OK, &call.whole())
    }
}

/// Ends an answer early that may have a few tokens only; a chunk counts as one.
fn shorten(plan: &mut Plan, body: &Value) -> bool {
    let limit = body["max_completion_tokens"].as_u64().or(body["max_tokens"].as_u64());
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap());
    let is_cut = limit < 16 && plan.text.len() > limit;
    if is_cut {
        plan.text.truncate(limit);
    }
    is_cut
}

struct Call<'a> {
    plan: &'a Plan,
    body: &'a Value,
    serial: u64,
    is_cut: bool,
}

impl Call<'_> {
    fn head(&self, object: &str) -> Value {
        json!({
            "id": format!("chatcmpl-mock-{}", self.serial),
            "object": object,
            "created": now_ms() / 1000,
            "model": self.body["model"],
        })
    }

    fn tool_calls(&self) -> Vec<Value> {
        let call = |(i, tool): (usize, &plan::Tool)| {
            json!({
                "id": format!("call_mock_{}_{i}", self.serial),
                "type": "function",
                "function": { "name": tool.name, "arguments": tool.args.to_string() },
            })
        };
        self.plan.tools.iter().enumerate().map(call).collect()
    }

    fn finish(&self) -> &str {
        if let Some(finish) = &self.plan.finish {
            finish
        } else if self.is_cut {
            "length"
        } else if self.plan.tools.is_empty() {
            "stop"
        } else {
            "tool_calls"
        }
    }

    fn usage(&self) -> Value {
        let prompt = tokens(&self.body["messages"].to_string());
        let completion = tokens(&self.plan.text.concat());
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        })
    }

    fn whole(&self) -> Value {
        let text = self.plan.text.concat();
        let mut message = json!({ "role": "assistant", "content": text });
        if text.is_empty() {
            message["content"] = Value::Null;
        }
        if !self.plan.tools.is_empty() {
            message["tool_calls"] = self.tool_calls().into();
        }
        let mut whole = self.head("chat.completion");
        whole["choices"] =
            json!([{ "index": 0, "message": message, "finish_reason": self.finish() }]);
        whole["usage"] = self.usage();
        whole
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Step {
        let mut chunk = self.head("chat.completion.chunk");
        chunk["choices"] = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        Step::Send(format!("data: {chunk}\n\n"))
    }

    fn steps(&self) -> Vec<Step> {
        let wait = || Step::Wait(self.plan.delay);
        let mut steps = vec![self.chunk(&json!({ "role": "assistant", "content": "" }), None)];
        for piece in &self.plan.think {
            steps.extend([wait(), self.chunk(&json!({ "reasoning_content": piece }), None)]);
        }
        for piece in &self.plan.text {
            steps.extend([wait(), self.chunk(&json!({ "content": piece }), None)]);
        }
        if self.plan.failure.is_some() {
            steps.push(Step::Cut);
            return steps;
        }
        for (index, call) in self.tool_calls().iter().enumerate() {
            steps.push(wait());
            steps.extend(self.tool_steps(index, call));
        }
        steps.push(self.chunk(&json!({}), Some(self.finish())));
        let mut last = self.head("chat.completion.chunk");
        last["choices"] = json!([]);
        last["usage"] = self.usage();
        steps.push(Step::Send(format!("data: {last}\n\ndata: [DONE]\n\n")));
        steps
    }

    fn tool_steps(&self, index: usize, call: &Value) -> Vec<Step> {
        let name = &call["function"]["name"];
        let start = json!({ "tool_calls": [{
            "index": index, "id": call["id"], "type": "function",
            "function": { "name": name, "arguments": "" },
        }]});
        let mut steps = vec![self.chunk(&start, None)];
        for piece in plan::halves(call["function"]["arguments"].as_str().unwrap()) {
            let part =
                json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] });
            steps.push(self.chunk(&part, None));
        }
        steps
    }
}
