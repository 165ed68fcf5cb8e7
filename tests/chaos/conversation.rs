//! What a model is sent, in either dialect: each call has its result.

use std::collections::BTreeMap;

use serde_json::Value;

/// The text of a result that an abort has made.
const STOPPED: &str = "Stopped before it had a result";

/// One step of a conversation.
#[derive(Debug)]
enum Step {
    Said(String),
    /// The calls of one answer, by their ids.
    Called(Vec<String>),
    /// The id of a call, and its result.
    Result(String, String),
}

/// How often each request was made: the run that it is for, and how many
/// rounds of tools of that run it holds.
#[derive(Debug, Default)]
pub struct Asked(BTreeMap<(String, usize), usize>);

impl Asked {
    /// Checks one request. `run_of` finds the name of a run in a message.
    pub fn check(&mut self, body: &Value, run_of: impl Fn(&str) -> Option<String>) {
        let steps = steps(&body["messages"]);
        check_pairs(&steps, body);
        let Some((at, run)) = steps.iter().enumerate().rev().find_map(|(at, step)| match step {
            Step::Said(text) => Some((at, run_of(text)?)),
            _ => None,
        }) else {
            return;
        };
        let turn = &steps[at + 1..];
        let is_stopped = turn.iter().any(|step| match step {
            Step::Result(_, text) => text.contains(STOPPED),
            _ => false,
        });
        assert!(!is_stopped, "{run} went on after it was stopped: {body}");
        let rounds = turn.iter().filter(|step| matches!(step, Step::Called(_))).count();
        let count = self.0.entry((run.clone(), rounds)).or_default();
        *count += 1;
        assert_eq!(*count, 1, "{run} was asked twice after {rounds} rounds: {body}");
    }

    /// How many requests were made.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Every call is followed by its results, one each, and nothing between.
fn check_pairs(steps: &[Step], body: &Value) {
    let mut open: Vec<&str> = Vec::new();
    for step in steps {
        match step {
            Step::Result(id, _) => {
                let at = open.iter().position(|call| call == id);
                let at = at.unwrap_or_else(|| panic!("a result without its call, {id}: {body}"));
                open.remove(at);
            }
            Step::Said(_) | Step::Called(_) => {
                assert!(open.is_empty(), "calls without results, {open:?}: {body}");
                if let Step::Called(ids) = step {
                    open = ids.iter().map(String::as_str).collect();
                }
            }
        }
    }
    assert!(open.is_empty(), "calls without results, {open:?}: {body}");
}

fn steps(messages: &Value) -> Vec<Step> {
    messages.as_array().into_iter().flatten().flat_map(steps_of).collect()
}

fn steps_of(message: &Value) -> Vec<Step> {
    let parts = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_type = |wanted: &'static str| parts.iter().filter(move |part| part["type"] == wanted);
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    match message["role"].as_str() {
        Some("tool") => {
            vec![Step::Result(id(&message["tool_call_id"]), message["content"].to_string())]
        }
        Some("assistant") => {
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let ids: Vec<_> =
                calls.chain(of_type("tool_use")).map(|call| id(&call["id"])).collect();
            if ids.is_empty() { vec![] } else { vec![Step::Called(ids)] }
        }
        Some("user") => {
            let results = of_type("tool_result");
            let mut steps: Vec<_> = results
                .map(|part| Step::Result(id(&part["tool_use_id"]), part["content"].to_string()))
                .collect();
            // Messages that came in a row are parts of one.
            let texts = of_type("text").filter_map(|part| part["text"].as_str());
            let texts = texts.chain(message["content"].as_str());
            let texts = texts.filter(|text| !text.is_empty());
            steps.extend(texts.map(|text| Step::Said(text.to_owned())));
            steps
        }
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use serde_json::json;

    use super::*;

    /// Whether these requests are found to be wrong.
    fn is_found(requests: &[Value]) -> bool {
        let run_of = |text: &str| text.split_once(" @").map(|(run, _)| run.to_owned());
        let check = || {
            let mut asked = Asked::default();
            requests
                .iter()
                .for_each(|messages| asked.check(&json!({"messages": messages}), run_of));
        };
        catch_unwind(check).is_err()
    }

    #[test]
    fn what_is_wrong_with_a_conversation_is_found_in_both_dialects() {
        let said = json!({"role": "user", "content": "r1 @mock"});
        let more = json!({"role": "user", "content": "r2 @mock"});
        let call = json!({"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "x"});
        let cut =
            json!({"role": "tool", "tool_call_id": "b", "content": format!("{STOPPED} (rpc).")});
        let whole = json!([said, call, result("b"), result("a")]);
        assert!(!is_found(&[json!([said]), whole.clone()]));
        assert!(!is_found(&[json!([said, call, result("a"), cut, more])]));
        assert!(is_found(&[whole.clone(), whole]), "asked twice");
        assert!(is_found(&[json!([said, call, result("a"), cut])]), "asked after a stop");
        assert!(is_found(&[json!([said, call, result("a")])]), "without a result");
        assert!(is_found(&[json!([said, call, result("a"), more, result("b")])]), "too late");
        assert!(is_found(&[json!([said, result("a")])]), "without a call");

        let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]});
        let result = |id: &str| {
            let part = json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
            json!({"role": "user", "content": [part, {"type": "text", "text": "r2 @mock"}]})
        };
        assert!(!is_found(&[json!([said, call, result("a")])]));
        assert!(is_found(&[json!([said, call, more])]) && is_found(&[json!([said, call])]));
        assert!(is_found(&[json!([said, call, result("c")])]));
    }
}
