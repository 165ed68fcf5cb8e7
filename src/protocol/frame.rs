//! Request frames.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::decode::{self, Fields, Params, Unknown, any, literal, non_empty};
use crate::support::json_of_javascript;

/// A `req` frame; `params` stay as they came.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Echoed in the answer. Never empty.
    pub id: Cow<'a, str>,
    /// Name of the method. Never empty.
    pub method: Cow<'a, str>,
    /// The method's own business; none when they are `{}` or `null`.
    pub params: Option<Box<RawValue>>,
}

/// Why a message is no request.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameError {
    /// It is not JSON.
    NotJson,
    /// It is JSON, but not a request frame.
    NotRequest {
        /// The frame's own `id`, or `"invalid"` when that is not there or `null`.
        id: Value,
        /// What is wrong, in the original's words.
        text: String,
    },
}

/// A frame whose members are in any order, read in one pass without building a tree.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    method: Cow<'a, str>,
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

/// Reads one message that came as bytes.
///
/// # Errors
/// As [`parse_request`]; what is no UTF-8 is no JSON (RFC 8259 §8.1).
pub fn parse_binary(message: &[u8]) -> Result<Request<'_>, FrameError> {
    std::str::from_utf8(message).map_err(|_| FrameError::NotJson).and_then(parse_request)
}

/// Reads one message.
///
/// # Errors
/// [`FrameError`], with the texts of the original.
pub fn parse_request(message: &str) -> Result<Request<'_>, FrameError> {
    parse_usual(message).map_or_else(|| parse_unusual(message), Ok)
}

/// The members in the order in which the clients of OpenClaw write them: each is where
/// it is looked for. `None` for everything else, also for what is wrong.
fn parse_usual(message: &str) -> Option<Request<'_>> {
    let rest = message.strip_prefix(r#"{"type":"req","id":""#)?;
    let (id, rest) = split_plain(rest)?;
    let (method, rest) = split_plain(rest.strip_prefix(r#","method":""#)?)?;
    let params = match rest {
        "}" => None,
        rest => match rest.strip_prefix(r#","params":"#)?.strip_suffix('}')? {
            params if is_empty(params) => None,
            params => {
                let params = serde_json::from_str::<&RawValue>(params).ok()?;
                (!is_empty(params.get())).then(|| params.to_owned())
            }
        },
    };
    Some(Request { id: id.into(), method: method.into(), params })
}

/// The rest of a JSON string that is as it is written, and what is behind its quote;
/// `None` when it is empty or has an escape.
fn split_plain(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\')?;
    let (plain, rest) = text.split_at_checked(end)?;
    rest.strip_prefix('"').filter(|_| !plain.is_empty()).map(|rest| (plain, rest))
}

fn parse_unusual(message: &str) -> Result<Request<'_>, FrameError> {
    if let Ok(envelope) = serde_json::from_str::<Envelope>(message)
        && envelope.kind == "req"
        && !envelope.id.is_empty()
        && !envelope.method.is_empty()
    {
        let Envelope { id, method, params, .. } = envelope;
        return Ok(Request { id, method, params: params.filter(|params| !is_empty(params.get())) });
    }
    let value = json_of_javascript(message).map_err(|_| FrameError::NotJson)?;
    let id = value.get("id").filter(|id| !id.is_null()).cloned();
    let id = id.unwrap_or_else(|| Value::from("invalid"));
    let checked: Checked = decode::decode_value(value, Unknown::Refuse)
        .map_err(|parts| FrameError::NotRequest { id, text: parts.join("; ") })?;
    // Valid, only unusual (a member given twice, say).
    let params = checked.params.and_then(|params| serde_json::value::to_raw_value(&params).ok());
    Ok(Request {
        id: checked.id.into(),
        method: checked.method.into(),
        params: params.filter(|params| !is_empty(params.get())),
    })
}

fn is_empty(params: &str) -> bool {
    matches!(params, "{}" | "null")
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn refusal(message: &str) -> (Value, String) {
        match parse_request(message) {
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
            (
                r#"{"type":"req","id":null,"method":"health"}"#,
                json!("invalid"),
                "at /id: must be string",
            ),
            ("[]", json!("invalid"), "must be object"),
            ("null", json!("invalid"), "must be object"),
        ] {
            assert_eq!(refusal(frame), (id, text.to_owned()), "{frame}");
        }
    }

    #[test]
    fn text_that_is_no_json_is_told_apart() {
        for text in ["{oops", "", "\u{0}"] {
            assert_eq!(parse_request(text).unwrap_err(), FrameError::NotJson);
        }
        assert_eq!(parse_binary(&[0xff, 0xfe]).unwrap_err(), FrameError::NotJson);
    }

    #[test]
    fn a_request_keeps_its_params_as_they_came() {
        let request =
            parse_request(r#"{"type":"req","id":"a","method":"m","params":{"b":1,"a":[2]}}"#)
                .unwrap();
        assert_eq!(request.params.unwrap().get(), r#"{"b":1,"a":[2]}"#);
        let twice = parse_request(r#"{"type":"req","id":"a","id":"b","method":"m"}"#).unwrap();
        assert_eq!(twice.id, "b");
    }

    #[test]
    fn what_clients_send_is_read_in_the_usual_form() {
        for (message, params) in [
            (r#"{"type":"req","id":"a","method":"m"}"#, None),
            (r#"{"type":"req","id":"a","method":"m","params":null}"#, None),
            (r#"{"type":"req","id":"a","method":"m","params":{}}"#, None),
            (r#"{"type":"req","id":"a","method":"m","params": null }"#, None),
            (r#"{"type":"req","id":"a","method":"m","params": {}}"#, None),
            (r#"{"type":"req","id":"a","method":"m","params":{"é":"\n"}}"#, Some(r#"{"é":"\n"}"#)),
        ] {
            let request = parse_usual(message).unwrap();
            assert_eq!((&*request.id, &*request.method), ("a", "m"));
            assert_eq!(request.params.as_ref().map(|it| it.get()), params, "{message}");
        }
    }

    /// Pieces of frames, right and wrong.
    const PIECES: [&str; 24] = [
        r#"{"type":"req","id":""#,
        r#"","method":""#,
        r#"","params":"#,
        r#","params":"#,
        "{",
        "}",
        "a",
        "é",
        "\"",
        "\\n",
        "\\",
        "null",
        " ",
        "\t",
        "\n",
        "[1]",
        "{\"b\":2}",
        ",",
        "5",
        r#","id":"b""#,
        r#","extra":1"#,
        r#","params":{}"#,
        "\u{1}",
        "\"\"",
    ];

    proptest::proptest! {
        #[test]
        fn the_usual_form_is_read_as_any_other(
            pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..8),
            is_whole in proptest::bool::ANY,
        ) {
            let (head, middle) = (PIECES[0], format!("a{}m{}", PIECES[1], PIECES[2]));
            let message = if is_whole {
                format!("{head}{middle}{}}}", pieces.concat())
            } else {
                format!("{head}{}", pieces.concat())
            };
            if let Some(Request { id, method, params }) = parse_usual(&message) {
                let read = parse_unusual(&message).unwrap();
                let text = |params: Option<Box<RawValue>>| params.map(|it| it.get().to_owned());
                proptest::prop_assert_eq!(
                    (id, method, text(params)),
                    (read.id, read.method, text(read.params))
                );
            }
        }

        #[test]
        fn parsing_never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = parse_binary(&bytes);
        }
    }
}
