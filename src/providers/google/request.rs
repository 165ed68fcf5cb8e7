//! The body of a request.
//!
//! Owns: everything in it but the conversation.

use serde_json::{Map, Value};

use super::super::ModelRequest;
use super::super::schema::for_google;
use super::contents::contents;
use super::thinking;
use crate::config::model_options::ToolChoice;
use crate::support::json;

/// The body for `request`.
pub fn body(request: &ModelRequest) -> Value {
    let model = &request.model;
    let mut body = Map::new();
    body.insert("contents".into(), json!(contents(request)));
    if let Some(text) = request.system.as_ref().filter(|text| !text.is_empty()) {
        // The role means nothing here, and the original sends it.
        let instruction = json!({"parts": [{"text": text}], "role": "user"});
        body.insert("systemInstruction".into(), instruction);
    }
    let tools: Vec<Value> = request
        .offered_tools()
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": for_google(&tool.parameters),
            })
        })
        .collect();
    if !tools.is_empty() {
        body.insert("tools".into(), json!([{"functionDeclarations": tools}]));
        if let Some(choice) = &model.options.params.tool_choice {
            let config = json!({"functionCallingConfig": calling(choice)});
            body.insert("toolConfig".into(), config);
        }
    }
    let mut generation = Map::new();
    if let Some(temperature) = model.options.params.temperature {
        generation.insert("temperature".into(), json!(temperature));
    }
    generation.insert("maxOutputTokens".into(), json!(model.answer_limit()));
    if let Some(config) = thinking::config(request) {
        generation.insert("thinkingConfig".into(), config);
    }
    body.insert("generationConfig".into(), Value::Object(generation));
    Value::Object(body)
}

fn calling(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Word(word) => json!({"mode": word.as_str().to_uppercase()}),
        ToolChoice::Object(given) => json!(given),
    }
}

#[cfg(test)]
mod tests;
