//! Request and response frames.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::decode::{self, Fields, Params, Unknown, any, literal, non_empty};
use super::{ErrorShape, Profile};

/// A `req` frame; `params` stay as they came.
#[derive(Debug, Clone, Deserialize)]
pub struct Request {
    /// Echoed in the answer. Never empty.
    pub id: String,
    /// Name of the method. Never empty.
    pub method: String,
    /// The method's own business.
    pub params: Option<Box<RawValue>>,
}

/// Why a message is no request.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameError {
    /// It is not JSON.
    NotJson,
    /// It is JSON, but not a request frame.
    NotRequest {
        /// The frame's own `id`, or `"invalid"` when it has none.
        id: Value,
        /// What is wrong, in the original's words.
        text: String,
    },
}

/// The common case, read in one pass without building a tree.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    id: String,
    method: String,
    params: Option<Box<RawValue>>,
}

/// The same members for the error texts.
struct Checked {
    id: String,
    method: String,
    params: Option<Value>,
}

impl Params for Checked {
    fn read(f: &mut Fields) -> Self {
        f.required("type", literal(&["req"]));
        Self {
            id: f.required("id", non_empty()),
            method: f.required("method", non_empty()),
            params: f.optional("params", any()),
        }
    }
}

/// Reads one message.
///
/// # Errors
/// [`FrameError`], with the texts of the original.
pub fn parse_request(message: &[u8]) -> Result<Request, FrameError> {
    if let Ok(envelope) = serde_json::from_slice::<Envelope>(message)
        && envelope.kind == "req"
        && !envelope.id.is_empty()
        && !envelope.method.is_empty()
    {
        let Envelope { id, method, params, .. } = envelope;
        return Ok(Request { id, method, params });
    }
    let value: Value = serde_json::from_slice(message).map_err(|_| FrameError::NotJson)?;
    let id = value.get("id").cloned().unwrap_or_else(|| Value::from("invalid"));
    let checked: Checked = decode::decode_value(value, Unknown::Refuse)
        .map_err(|parts| FrameError::NotRequest { id, text: parts.join("; ") })?;
    // Valid, only unusual (a member given twice, say).
    Ok(Request {
        id: checked.id,
        method: checked.method,
        params: checked.params.and_then(|params| serde_json::value::to_raw_value(&params).ok()),
    })
}

/// A `res` frame with a payload, as text. `payload` must be JSON.
pub fn response_ok(id: &str, payload: &str) -> String {
    let mut frame = String::with_capacity(payload.len() + id.len() + 48);
    frame.push_str(r#"{"type":"res","id":"#);
    push_json_string(&mut frame, id);
    frame.push_str(r#","ok":true,"payload":"#);
    frame.push_str(payload);
    frame.push('}');
    frame
}

/// A `res` frame with an error, as text.
pub fn response_err(id: &Value, error: &ErrorShape, profile: Profile) -> String {
    let mut frame = String::from(r#"{"type":"res","id":"#);
    frame.push_str(&id.to_string());
    frame.push_str(r#","ok":false"#);
    if let Some(payload) = &error.payload {
        frame.push_str(r#","payload":"#);
        frame.push_str(&payload.to_string());
    }
    frame.push_str(r#","error":"#);
    frame.push_str(&error.to_wire(profile).to_string());
    frame.push('}');
    frame
}

fn push_json_string(out: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(message: &str) -> (Value, String) {
        match parse_request(message.as_bytes()) {
            Err(FrameError::NotRequest { id, text }) => (id, text),
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    #[test]
    fn refusals_use_the_recorded_texts() {
        for (frame, id, text) in [
            (
                r#"{"type":"req","method":"health"}"#,
                json!("invalid"),
                "must have required property 'id'",
            ),
            (r#"{"type":"req","id":"q1"}"#, json!("q1"), "must have required property 'method'"),
            (
                r#"{"type":"res","id":"q2","ok":true}"#,
                json!("q2"),
                "must have required property 'method'; at root: unexpected property 'ok'; at /type: must be equal to constant",
            ),
            (
                r#"{"type":"req","id":"q3","method":"health","extra":1}"#,
                json!("q3"),
                "at root: unexpected property 'extra'",
            ),
            (
                r#"{"type":"req","id":"","method":"health"}"#,
                json!(""),
                "at /id: must NOT have fewer than 1 characters",
            ),
            (r#"{"type":"req","id":5,"method":"health"}"#, json!(5), "at /id: must be string"),
            ("[]", json!("invalid"), "must be object"),
            ("null", json!("invalid"), "must be object"),
        ] {
            assert_eq!(refusal(frame), (id, text.to_owned()), "{frame}");
        }
    }

    #[test]
    fn text_that_is_no_json_is_told_apart() {
        for text in ["{oops", "", "\u{0}"] {
            assert_eq!(parse_request(text.as_bytes()).unwrap_err(), FrameError::NotJson);
        }
        assert_eq!(parse_request(&[0xff, 0xfe]).unwrap_err(), FrameError::NotJson);
    }

    #[test]
    fn a_request_keeps_its_params_as_they_came() {
        let request =
            parse_request(br#"{"type":"req","id":"a","method":"m","params":{"b":1,"a":[2]}}"#)
                .unwrap();
        assert_eq!(request.params.unwrap().get(), r#"{"b":1,"a":[2]}"#);
        let twice = parse_request(br#"{"type":"req","id":"a","id":"b","method":"m"}"#).unwrap();
        assert_eq!(twice.id, "b");
    }

    #[test]
    fn answers_escape_the_id() {
        let frame = response_ok("a\"b\n", "null");
        let parsed: Value = serde_json::from_str(&frame).unwrap();
        assert_eq!(parsed, json!({"type": "res", "id": "a\"b\n", "ok": true, "payload": null}));
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = parse_request(&bytes);
        }
    }
}
