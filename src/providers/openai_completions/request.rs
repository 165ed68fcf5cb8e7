//! The body of a request.
//!
//! Owns: everything in it but the messages.

use serde_json::{Map, Value};

use super::super::effort::effort;
use super::super::{ModelInfo, ModelRequest, ThinkingLevel, ToolSpec};
use super::compat::{Compat, Efforts, is_moonshot};
use super::messages::messages;
use crate::config::model_options::{ThinkingFormat, ToolChoice, ToolChoiceWord};
use crate::protocol::message::AgentMessage;
use crate::support::json;

/// The body for `request`.
pub fn body(request: &ModelRequest) -> Value {
    let model = &request.model;
    let compat = Compat::of(model);
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.into(), value);
    set("model", json!(model.id));
    set("messages", json!(messages(request, &compat)));
    set("stream", json!(true));
    if compat.usage_in_streaming {
        set("stream_options", json!({"include_usage": true}));
    }
    if compat.store {
        set("store", json!(false));
    }
    set(compat.max_tokens.as_str(), json!(model.answer_limit()));
    if let Some(temperature) = model.options.params.temperature.filter(|_| compat.temperature) {
        set("temperature", json!(temperature));
    }
    let tools = request.offered_tools();
    if !tools.is_empty() {
        set("tools", tools.iter().map(|tool| function(tool, &compat)).collect());
        if let Some(choice) = &model.options.params.tool_choice {
            set("tool_choice", tool_choice(choice, must_be_free(request, &compat)));
        }
    } else if has_tool_history(&request.messages) {
        // Some proxies refuse calls in the history of a request without tools.
        set("tools", json!([]));
    }
    if model.reasoning {
        body.extend(thinking(request, &compat));
    }
    body.extend(routing(model));
    Value::Object(body)
}

fn function(tool: &ToolSpec, compat: &Compat) -> Value {
    let mut function = json!({
        "name": tool.name, "description": tool.description, "parameters": tool.parameters,
    });
    if compat.strict {
        function["strict"] = json!(false);
    }
    json!({"type": "function", "function": function})
}

fn has_tool_history(messages: &[AgentMessage]) -> bool {
    messages.iter().any(|message| match message {
        AgentMessage::Assistant(answer) => answer.tool_calls().next().is_some(),
        AgentMessage::ToolResult(_) => true,
        AgentMessage::User(_) => false,
    })
}

/// What asks for thought, or for none.
fn thinking(request: &ModelRequest, compat: &Compat) -> Vec<(String, Value)> {
    let wanted = request.thinking != ThinkingLevel::Off && !pins_call(request);
    let effort = match compat.efforts {
        Efforts::All => effort(request),
        Efforts::High => wanted.then(|| ThinkingLevel::High.as_str().to_owned()),
        Efforts::Kimi => Some(effort_of_kimi(request.thinking).to_owned()),
    };
    let (name, value) = match compat.thinking {
        ThinkingFormat::Zai | ThinkingFormat::Qwen => ("enable_thinking", json!(wanted)),
        ThinkingFormat::QwenChatTemplate => {
            ("chat_template_kwargs", json!({"enable_thinking": wanted, "preserve_thinking": true}))
        }
        ThinkingFormat::Together => ("reasoning", json!({"enabled": wanted})),
        ThinkingFormat::Deepseek => {
            let switch = if wanted { "enabled" } else { "disabled" };
            let effort = effort.filter(|_| compat.effort).map(|word| json!(word));
            let effort = effort.map(|word| ("reasoning_effort".to_owned(), word));
            let switch = ("thinking".to_owned(), json!({"type": switch}));
            return std::iter::once(switch).chain(effort).collect();
        }
        ThinkingFormat::Openrouter | ThinkingFormat::Openai => match effort {
            Some(word) if compat.thinking == ThinkingFormat::Openrouter => {
                ("reasoning", json!({"effort": word}))
            }
            Some(word) if compat.effort => ("reasoning_effort", json!(word)),
            _ => return Vec::new(),
        },
    };
    vec![(name.to_owned(), value)]
}

/// It thinks in any case: who wants no thought gets the least.
fn effort_of_kimi(level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::XHigh => "max",
        ThinkingLevel::High => "high",
        _ => "low",
    }
}

/// Which of its own suppliers a reseller may use.
fn routing(model: &ModelInfo) -> Option<(String, Value)> {
    let compat = &model.options.compat;
    if model.base_url.contains("openrouter.ai") {
        return Some(("provider".into(), json!(compat.open_router_routing.as_ref()?)));
    }
    let routing = compat.vercel_gateway_routing.as_ref()?;
    let at_vercel = model.base_url.contains("ai-gateway.vercel.sh");
    at_vercel.then(|| ("providerOptions".into(), json!({"gateway": routing})))
}

/// Whether nothing may force a call: Moonshot refuses that of a model that thinks.
fn must_be_free(request: &ModelRequest, compat: &Compat) -> bool {
    let model = &request.model;
    // Those without this switch think in any case.
    let has_switch = compat.thinking == ThinkingFormat::Deepseek;
    let thinks = model.reasoning && (!has_switch || request.thinking != ThinkingLevel::Off);
    thinks && is_moonshot(model)
}

/// Whether a certain tool is to be called, for which models of Moonshot do not think, as in the
/// original.
fn pins_call(request: &ModelRequest) -> bool {
    let model = &request.model;
    let Some(ToolChoice::Object(given)) = &model.options.params.tool_choice else { return false };
    let kind = given.get("type").and_then(Value::as_str);
    let is_certain = matches!(kind, Some("function" | "tool"));
    is_certain && is_moonshot(model) && !request.tools.is_empty()
}

fn tool_choice(choice: &ToolChoice, must_be_free: bool) -> Value {
    match choice {
        ToolChoice::Word(ToolChoiceWord::Any) if must_be_free => json!("auto"),
        ToolChoice::Word(ToolChoiceWord::Any) => json!("required"),
        ToolChoice::Word(word) => json!(word.as_str()),
        ToolChoice::Object(given) => json!(given),
    }
}

#[cfg(test)]
mod tests;
