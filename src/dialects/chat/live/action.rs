//! What a client wants.
//!
//! Owns: how its frames are read: by `action`, or by `type` as the document of the
//! dialect allows. Promises: whatever comes is an action or a text that says what
//! is wrong with it.

use serde_json::Value;

use crate::support::json_of_javascript;

/// Longest name or id that is repeated to a client.
const ECHO_MAX: usize = 200;

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Begin a conversation.
    NewSession,
    /// Go on with one.
    ResumeSession(String),
    /// Say something.
    Send(Said),
    /// Decide about a call.
    ApproveTool {
        /// The call.
        call_id: String,
        /// Whether it may be done.
        approved: bool,
    },
}

/// Something that is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The words, as they were written.
    pub text: String,
    /// The conversation, where the client names one.
    pub session_id: Option<String>,
}

impl Action {
    /// Reads a frame; `None` for one that asks for nothing.
    ///
    /// # Errors
    /// The text for the client.
    pub fn parse(frame: &str) -> Result<Option<Self>, String> {
        let frame = json_of_javascript(frame).map_err(|_| "Invalid JSON".to_owned())?;
        if !frame.is_object() {
            return Err("Invalid JSON".into());
        }
        let name = given(&frame, "action").or_else(|| given(&frame, "type"));
        match name.and_then(Value::as_str).unwrap_or_default() {
            "new_session" => Ok(Some(Self::NewSession)),
            "resume_session" => {
                let id = text(&frame, "session_id")?.unwrap_or_default();
                Ok(Some(Self::ResumeSession(id)))
            }
            "send" => said(&frame).map(|said| said.map(Self::Send)),
            "approve_tool" => {
                let call_id = text(&frame, "call_id")?.ok_or("call_id is required")?;
                let approved = match given(&frame, "response") {
                    Some(Value::Bool(approved)) => *approved,
                    response => is_yes(response.and_then(Value::as_str).unwrap_or_default()),
                };
                Ok(Some(Self::ApproveTool { call_id, approved }))
            }
            _ => {
                let name = name.map(|name| match name {
                    Value::String(name) => name.clone(),
                    other => other.to_string(),
                });
                Err(format!("Unknown action: {}", shortened(&name.unwrap_or_default())))
            }
        }
    }
}

/// Clients say `text` or `message`.
fn said(frame: &Value) -> Result<Option<Said>, String> {
    let words = [text(frame, "text")?, text(frame, "message")?];
    let Some(words) = words.into_iter().flatten().find(|words| !words.trim().is_empty()) else {
        return Ok(None);
    };
    let session_id = text(frame, "session_id")?.filter(|id| !id.trim().is_empty());
    Ok(Some(Said { text: words, session_id }))
}

fn is_yes(response: &str) -> bool {
    let response = response.trim();
    response.eq_ignore_ascii_case("y") || response.eq_ignore_ascii_case("yes")
}

/// A member that has a value.
fn given<'a>(frame: &'a Value, name: &str) -> Option<&'a Value> {
    frame.get(name).filter(|value| !value.is_null())
}

fn text(frame: &Value, name: &str) -> Result<Option<String>, String> {
    match given(frame, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{name} must be a string")),
    }
}

/// A client's own word as it is repeated to it.
pub fn shortened(text: &str) -> String {
    text.chars().take(ECHO_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(frame: &str) -> Result<Option<Action>, String> {
        Action::parse(frame)
    }

    fn send(text: &str, session_id: Option<&str>) -> Action {
        let session_id = session_id.map(str::to_owned);
        Action::Send(Said { text: text.into(), session_id })
    }

    #[test]
    fn the_frames_of_the_document_are_read() {
        assert_eq!(read(r#"{"action": "new_session"}"#), Ok(Some(Action::NewSession)));
        assert_eq!(
            read(r#"{"action": "resume_session", "session_id": "abc-123"}"#),
            Ok(Some(Action::ResumeSession("abc-123".into())))
        );
        assert_eq!(
            read(r#"{"action": "send", "text": "Hello, how are you?"}"#),
            Ok(Some(send("Hello, how are you?", None)))
        );
        assert_eq!(
            read(r#"{"action":"approve_tool","call_id":"call-abc-123","response":"yes"}"#),
            Ok(Some(Action::ApproveTool { call_id: "call-abc-123".into(), approved: true }))
        );
        assert_eq!(read(r#"{"type": "new_session"}"#), Ok(Some(Action::NewSession)));
    }

    #[test]
    fn what_is_said_is_text_or_message_and_blanks_are_nothing() {
        assert_eq!(read(r#"{"action":"send","message":" hi "}"#), Ok(Some(send(" hi ", None))));
        assert_eq!(
            read(r#"{"action":"send","text":" ","message":"hi","session_id":"s"}"#),
            Ok(Some(send("hi", Some("s"))))
        );
        for empty in [r#"{"action":"send"}"#, r#"{"action":"send","text":" \n","message":null}"#] {
            assert_eq!(read(empty), Ok(None), "{empty}");
        }
    }

    #[test]
    fn half_of_an_emoji_takes_nothing_else_with_it() {
        let frame = r#"{"action":"send","text":"a\ud83d b"}"#;
        assert_eq!(read(frame), Ok(Some(send("a\u{fffd} b", None))));
    }

    #[test]
    fn only_yes_and_y_are_a_yes() {
        for (response, approved) in [
            (r#""y""#, true),
            (r#""YES""#, true),
            (r#"" Yes ""#, true),
            ("true", true),
            (r#""yep""#, false),
            (r#""no""#, false),
            (r#""""#, false),
            ("1", false),
            ("null", false),
        ] {
            let frame =
                format!(r#"{{"action":"approve_tool","call_id":"c","response":{response}}}"#);
            let expected = Action::ApproveTool { call_id: "c".into(), approved };
            assert_eq!(read(&frame), Ok(Some(expected)), "{frame}");
        }
        let expected = Action::ApproveTool { call_id: "c".into(), approved: false };
        assert_eq!(read(r#"{"action":"approve_tool","call_id":"c"}"#), Ok(Some(expected)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (frame, said) in [
            ("{", "Invalid JSON"),
            ("5", "Invalid JSON"),
            ("[]", "Invalid JSON"),
            (r#"{"action":"dance"}"#, "Unknown action: dance"),
            (r#"{"action":5}"#, "Unknown action: 5"),
            ("{}", "Unknown action: "),
            (r#"{"action":"send","text":5}"#, "text must be a string"),
            (r#"{"action":"resume_session","session_id":{}}"#, "session_id must be a string"),
            (r#"{"action":"approve_tool","response":"y"}"#, "call_id is required"),
        ] {
            assert_eq!(read(frame), Err(said.to_owned()), "{frame}");
        }
        let long = format!(r#"{{"action":"{}"}}"#, "x".repeat(1000));
        assert_eq!(read(&long).unwrap_err().len(), "Unknown action: ".len() + ECHO_MAX);
    }
}
