//! Response frames.

use std::sync::Arc;

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ErrorShape, Profile};

/// An answer that has more space than this to spare gives it back: it may wait, and only
/// its length is counted.
pub const MAX_SPARE: usize = 4 * 1024;

/// A `res` frame with a payload, in its parts: the payload may be large, and one for many.
#[derive(Debug, Clone)]
pub struct Response {
    /// What stands before the payload.
    pub head: ResponseHead,
    /// The payload and what stands behind it.
    pub rest: ResponseRest,
}

/// What stands before the payload of a [`Response`].
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// The request's id as it stands between the quotes of JSON.
    id: Arc<str>,
}

/// The payload of a [`Response`] and what stands behind it.
#[derive(Debug, Clone)]
pub enum ResponseRest {
    /// Both.
    Own(String),
    /// The payload, which other responses have as well; [`Response::END`] is behind it.
    Shared(Arc<Box<RawValue>>),
}

impl Response {
    /// What stands behind a payload.
    pub const END: &str = "}";

    /// The answer to the request `id`; `payload` must be JSON.
    pub fn new(id: &Arc<str>, mut payload: String) -> Self {
        payload.reserve_exact(Self::END.len());
        payload.push_str(Self::END);
        if payload.capacity() - payload.len() > MAX_SPARE {
            payload.shrink_to_fit();
        }
        Self { head: ResponseHead::new(id), rest: ResponseRest::Own(payload) }
    }

    /// The same with a payload that others have as well.
    pub fn shared(id: &Arc<str>, payload: Arc<Box<RawValue>>) -> Self {
        Self { head: ResponseHead::new(id), rest: ResponseRest::Shared(payload) }
    }

    /// The answer to the request `id`, one part behind the other; `None` for an id that
    /// does not stand in JSON as it is.
    pub fn parts<'a>(id: &'a str, payload: &'a str) -> Option<[&'a str; 5]> {
        let whole = [ResponseHead::BEFORE_ID, id, ResponseHead::BEHIND_ID, payload, Self::END];
        is_plain(id).then_some(whole)
    }

    /// Bytes of the whole frame.
    #[allow(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> usize {
        let rest = match &self.rest {
            ResponseRest::Own(rest) => rest.len(),
            ResponseRest::Shared(payload) => payload.get().len() + Self::END.len(),
        };
        self.head.len() + rest
    }

    /// The whole frame.
    pub fn into_text(self) -> String {
        let head = self.head.parts().concat();
        match &self.rest {
            ResponseRest::Own(rest) => head + rest,
            ResponseRest::Shared(payload) => head + payload.get() + Self::END,
        }
    }
}

impl ResponseHead {
    const BEFORE_ID: &str = r#"{"type":"res","id":""#;
    const BEHIND_ID: &str = r#"","ok":true,"payload":"#;

    fn new(id: &Arc<str>) -> Self {
        Self { id: between_quotes(id) }
    }

    fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// One behind the other.
    pub fn parts(&self) -> [&str; 3] {
        [Self::BEFORE_ID, &self.id, Self::BEHIND_ID]
    }
}

/// A text as it stands between the quotes of JSON.
fn between_quotes(text: &Arc<str>) -> Arc<str> {
    if is_plain(text) {
        return Arc::clone(text);
    }
    let json = Value::from(&**text).to_string();
    json.get(1..json.len() - 1).unwrap_or_default().into()
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
}

/// A `res` frame, as text, with a payload that is written here; `space` is for so many
/// bytes of it.
///
/// # Errors
/// When it is no JSON.
pub fn response_of(id: &str, payload: &impl Serialize, space: usize) -> serde_json::Result<String> {
    let head = ResponseHead::new(&id.into());
    let mut frame = Vec::with_capacity(head.len() + space + Response::END.len());
    for part in head.parts() {
        frame.extend_from_slice(part.as_bytes());
    }
    serde_json::to_writer(&mut frame, payload)?;
    frame.extend_from_slice(Response::END.as_bytes());
    String::from_utf8(frame).map_err(serde_json::Error::custom)
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

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn answers_escape_the_id() {
        for id in ["a", "\"a\\b\n\"", "é"] {
            let expected = json!({"type": "res", "id": id, "ok": true, "payload": null});
            let whole = response_of(id, &Value::Null, 4).unwrap();
            let id = id.into();
            let parts = [Response::new(&id, "null".into()), Response::shared(&id, Arc::default())];
            for response in parts {
                let (length, frame) = (response.len(), response.into_text());
                assert_eq!((length, &frame), (whole.len(), &whole));
                assert_eq!(serde_json::from_str::<Value>(&frame).unwrap(), expected);
            }
        }
    }

    #[test]
    fn an_answer_has_little_space_to_spare() {
        let mut payload = String::with_capacity(10 * MAX_SPARE);
        payload.push_str("null");
        let ResponseRest::Own(rest) = Response::new(&"1".into(), payload).rest else {
            panic!("it is its own")
        };
        assert!(rest == "null}" && rest.capacity() <= MAX_SPARE);
    }
}
