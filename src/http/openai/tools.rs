//! Tools that a client has itself.

use serde_json::Value;

use super::read::{At, Wrong};
use crate::providers::ToolSpec;
use crate::support::json;

/// Most tools of a request; OpenAI takes as many.
const COUNT_MAX: usize = 128;
/// Longest name of a tool; models know no longer ones.
const NAME_MAX: usize = 64;
const NAME_RULE: &str = "must be 1 to 64 letters, digits, _ and -";

/// The tools of a request, and what its model is told of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ClientTools {
    /// The tools.
    pub specs: Vec<ToolSpec>,
    /// That it has to call one; empty when it need not.
    pub told: Option<String>,
}

/// Where the description of a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In `function`, as chat completions have it.
    Nested,
    /// In the tool itself, as responses have it.
    Flat,
}

/// Reads `tools` and `tool_choice`.
///
/// # Errors
/// When one cannot be called, or the one that is to be called is not there.
pub fn read(body: &At<'_>, form: Form) -> Result<ClientTools, Wrong> {
    let tools = body.member("tools");
    let items = tools.items()?;
    if items.len() > COUNT_MAX {
        return Err(tools.wrong(&format!("must have at most {COUNT_MAX} tools")));
    }
    let mut specs: Vec<ToolSpec> = Vec::new();
    for item in &items {
        let spec = tool(item, form)?;
        if specs.iter().any(|known| known.name == spec.name) {
            return Err(item.wrong(&format!("there is another tool called {:?}", spec.name)));
        }
        specs.push(spec);
    }
    chosen(&body.member("tool_choice"), form, specs)
}

fn tool(item: &At<'_>, form: Form) -> Result<ToolSpec, Wrong> {
    if item.object()?.is_none() {
        return Err(item.wrong("must be an object"));
    }
    if item.member("type").required_text()? != "function" {
        return Err(item.member("type").wrong("must be \"function\""));
    }
    let function = function(item, form)?;
    let name = function.member("name");
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let text = name.required_text()?;
    if text.is_empty() || text.len() > NAME_MAX || !text.chars().all(is_part) {
        return Err(name.wrong(NAME_RULE));
    }
    let parameters = function.member("parameters");
    let none = || json!({"type": "object", "properties": {}});
    let mut schema = parameters.object()?.map_or_else(none, |it| Value::Object(it.clone()));
    // An object or nothing: providers take an object only, and who has nothing gives an empty one.
    if schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object")) {
        schema["type"] = json!("object");
    }
    if !matches!(schema.get("type"), None | Some(Value::String(_))) {
        return Err(parameters.member("type").wrong("must be a string"));
    }
    Ok(ToolSpec {
        name: text.to_owned(),
        description: function.member("description").text()?.unwrap_or_default().to_owned(),
        parameters: schema,
    })
}

fn function<'v>(item: &At<'v>, form: Form) -> Result<At<'v>, Wrong> {
    if form == Form::Flat {
        return Ok(item.clone());
    }
    let function = item.member("function");
    if function.object()?.is_none() {
        return Err(function.wrong("must be an object"));
    }
    Ok(function)
}

fn chosen(choice: &At<'_>, form: Form, specs: Vec<ToolSpec>) -> Result<ClientTools, Wrong> {
    if let Value::Object(_) = choice.value() {
        if choice.member("type").required_text()? != "function" {
            return Err(choice.member("type").wrong("must be \"function\""));
        }
        let name = function(choice, form)?.member("name");
        let wanted = name.required_text()?;
        let specs: Vec<_> = specs.into_iter().filter(|spec| spec.name == wanted).collect();
        if specs.is_empty() {
            return Err(name.wrong("must be the name of a tool of this request"));
        }
        let told = Some(format!("Call the tool {wanted} before you answer."));
        return Ok(ClientTools { specs, told });
    }
    match choice.text()? {
        None | Some("auto") => Ok(ClientTools { specs, told: None }),
        Some("none") => Ok(ClientTools::default()),
        Some("required") if specs.is_empty() => Err(choice.wrong("needs tools")),
        Some("required") => {
            let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
            let told = format!("Call one of these tools before you answer: {}.", names.join(", "));
            Ok(ClientTools { specs, told: Some(told) })
        }
        Some(_) => Err(choice.wrong("must be none, auto, required or a tool")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(body: &Value, form: Form) -> Result<(Vec<String>, bool), String> {
        let read = read(&At::root(body), form).map_err(|wrong| wrong.0)?;
        Ok((read.specs.into_iter().map(|spec| spec.name).collect(), read.told.is_some()))
    }

    #[test]
    fn the_choice_says_which_tools_there_are() {
        let nested = |choice: Value| {
            json!({"tools": [{"type": "function", "function": {"name": "a"}},
                {"type": "function", "function": {"name": "b"}}], "tool_choice": choice})
        };
        let of = |choice| names(&nested(choice), Form::Nested);
        let both = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(of(json!(null)), Ok((both.clone(), false)));
        assert_eq!(of(json!("required")), Ok((both, true)));
        assert_eq!(of(json!("none")), Ok((vec![], false)));
        let one = json!({"type": "function", "function": {"name": "b"}});
        assert_eq!(of(one), Ok((vec!["b".to_owned()], true)));
        let other = json!({"type": "function", "function": {"name": "c"}});
        assert!(of(other).unwrap_err().starts_with("tool_choice.function.name: "));
    }

    #[test]
    fn arguments_that_may_be_nothing_are_an_object() {
        let parameters = |kind: Value| {
            let tool = json!({"type": "function", "name": "a", "parameters": {"type": kind}});
            let read = read(&At::root(&json!({"tools": [tool]})), Form::Flat);
            read.map(|read| read.specs[0].parameters.clone()).map_err(|wrong| wrong.0)
        };
        assert_eq!(parameters(json!(["object", "null"])), Ok(json!({"type": "object"})));
        for other in [json!(["string", "null"]), json!(5)] {
            let told = parameters(other).unwrap_err();
            assert_eq!(told, "tools.0.parameters.type: must be a string");
        }
    }

    #[test]
    fn what_cannot_be_called_is_refused_by_its_place() {
        for (tools, text) in [
            (json!([{"type": "web_search"}]), "tools.0.type: must be \"function\""),
            (json!([{"type": "function", "name": "a b"}]), "tools.0.name: "),
            (
                json!([{"type": "function", "name": "a", "parameters": []}]),
                "tools.0.parameters: must be an object",
            ),
            (
                json!([{"type": "function", "name": "a"}, {"type": "function", "name": "a"}]),
                "tools.1: there is another tool",
            ),
        ] {
            let told = names(&json!({"tools": tools}), Form::Flat).unwrap_err();
            assert!(told.starts_with(text), "{told}");
        }
    }
}
