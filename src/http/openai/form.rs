//! The form that a client wants an answer to have.
//!
//! Promises: who wants JSON has it asked for in words; not every API can hold its model
//! to it.

use super::read::{At, Wrong};
use super::tools::Form;

const JSON: &str = "Your answer is read by a program: it must be one JSON object, with no code \
    fence around it. Say nothing else, also not before you call tools.";

/// What the model is told of `response_format` or `text.format`, of which `place` says where
/// a schema is; nothing where any text will do.
///
/// # Errors
/// When a schema is none.
pub fn told(format: &At<'_>, place: Form) -> Result<Option<String>, Wrong> {
    let schema = match (format.member("type").value().as_str(), place) {
        (Some("json_object"), _) => return Ok(Some(JSON.to_owned())),
        (Some("json_schema"), Form::Nested) => format.member("json_schema").member("schema"),
        (Some("json_schema"), Form::Flat) => format.member("schema"),
        _ => return Ok(None),
    };
    Ok(Some(if schema.object()?.is_some() {
        format!("{JSON} It must match this JSON schema: {}", schema.value())
    } else {
        JSON.to_owned()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn told(format: &Value, place: Form) -> Result<Option<String>, Wrong> {
        super::told(&At::root(format), place)
    }

    #[test]
    fn a_schema_is_told_from_where_each_api_has_it() {
        let schema = json!({"type": "object", "required": ["a"]});
        let nested = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
        let flat = json!({"type": "json_schema", "name": "x", "schema": schema});
        let text = told(&nested, Form::Nested).unwrap().unwrap();
        assert!(text.starts_with(JSON) && text.ends_with(&schema.to_string()), "{text}");
        assert_eq!(told(&flat, Form::Flat), Ok(Some(text)));
        let any = json!({"type": "json_object"});
        assert_eq!(told(&any, Form::Nested), Ok(Some(JSON.to_owned())));
        for format in [json!(null), json!("json"), json!({"type": "text"}), json!({"type": "x"})] {
            assert_eq!(told(&format, Form::Nested), Ok(None), "{format}");
        }
        let wrong = json!({"type": "json_schema", "schema": 5});
        let wrong = told(&wrong, Form::Flat).unwrap_err();
        assert_eq!(wrong.0, "schema: must be an object");
    }
}
