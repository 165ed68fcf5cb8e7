//! Frames that a gateway sends.

use serde::Deserialize;
use serde_json::Value;

use super::error::GatewayError;
use crate::support::reading;

/// Something that happened at the gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its name, such as `chat`.
    pub name: String,
    /// Its data; null when it has none.
    pub payload: Value,
    /// Its number on this connection.
    pub seq: Option<u64>,
}

impl Event {
    /// The string at this JSON pointer of the payload.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.payload.pointer(pointer)?.as_str()
    }
}

/// A frame, as far as a client cares.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Frame {
    /// An answer to the request of this id.
    Answer {
        /// Id of the request.
        id: String,
        /// Payload or error.
        result: Result<Value, GatewayError>,
    },
    /// An event.
    Event(Event),
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    #[serde(default)]
    ok: bool,
    #[serde(default)]
    payload: Value,
    error: Option<Value>,
    event: Option<String>,
    seq: Option<u64>,
}

/// Reads one message. Frames of a type that we do not know are `None`: a newer
/// gateway may have some.
pub(super) fn parse(message: &[u8]) -> Result<Option<Frame>, serde_json::Error> {
    let raw: Raw = serde_json::from_slice(message)?;
    let error = raw.error.as_ref().map(reading::of).transpose()?;
    Ok(match (raw.kind.as_str(), raw.id, raw.event) {
        ("res", Some(id), _) => {
            let result = if raw.ok {
                Ok(raw.payload)
            } else {
                Err(error.unwrap_or_else(GatewayError::unnamed))
            };
            Some(Frame::Answer { id, result })
        }
        ("event", _, Some(name)) => {
            Some(Frame::Event(Event { name, payload: raw.payload, seq: raw.seq }))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn answers_and_events_are_told_apart_and_the_rest_is_passed_over() {
        let read = |text: &str| parse(text.as_bytes()).unwrap();
        assert_eq!(
            read(r#"{"type":"res","id":"a","ok":true,"payload":{"x":1}}"#),
            Some(Frame::Answer { id: "a".into(), result: Ok(json!({"x": 1})) })
        );
        assert_eq!(
            read(r#"{"type":"res","id":"a","ok":true}"#),
            Some(Frame::Answer { id: "a".into(), result: Ok(Value::Null) })
        );
        assert_eq!(
            read(r#"{"type":"res","id":"a","ok":false}"#),
            Some(Frame::Answer { id: "a".into(), result: Err(GatewayError::unnamed()) })
        );
        assert_eq!(
            read(r#"{"type":"event","event":"tick","payload":{"ts":1},"seq":4}"#),
            Some(Frame::Event(Event {
                name: "tick".into(),
                payload: json!({"ts": 1}),
                seq: Some(4)
            }))
        );
        assert_eq!(read(r#"{"type":"notice"}"#), None);
        assert_eq!(read(r#"{"type":"event"}"#), None);
        assert!(parse(b"{oops").is_err());
    }
}
