//! What can go wrong in a call of a model.
//!
//! Owns: the kinds of failure and how an answer of the provider becomes one.
//! Promises: what had been streamed stays with the error; text is that of the
//! original. Must not: contain credentials; `http` removes them before anything
//! gets here.

use std::time::Duration;

use serde_json::Value;

use super::credentials::says_no_credit;
use super::failover::ALL_FAILED;
use super::overflow;
use crate::protocol::message::{AssistantMessage, StopReason, Usage};

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// The key is wrong, or may not do this.
    Auth,
    /// Too many requests, or no credit left.
    RateLimit,
    /// The provider has too much to do.
    Overloaded,
    /// The conversation is longer than the model allows.
    ContextLength,
    /// Nothing came for too long.
    Timeout,
    /// The provider could not be reached.
    Network,
    /// The provider does not accept the request.
    BadRequest,
    /// The provider failed.
    Server,
    /// The stream ended before the answer did.
    Cut,
    /// The provider sent what it should not.
    Protocol,
    /// There is no key to send.
    NoApiKey,
    /// The model, or a filter, declined to answer.
    Refusal,
}

/// Google refuses a key as if the request were wrong (400).
const BAD_KEY: [&str; 3] = ["API_KEY_INVALID", "API key not valid", "API key expired"];

/// How a provider writes its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorStyle {
    /// `400 {raw json}`.
    Anthropic,
    /// `400 <message>`.
    OpenAi,
    /// The raw body alone.
    Google,
    /// `Ollama API error 400: <body>`.
    Ollama,
}

/// A call of a model that failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What kind of failure it was.
    pub kind: ProviderErrorKind,
    /// HTTP status, when the provider gave one.
    pub status: Option<u16>,
    /// Text for people and for `errorMessage`.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// What had arrived, with stop reason `error` and this message; `None`
    /// when the call failed before the stream began.
    pub partial: Option<Box<AssistantMessage>>,
}

impl ProviderError {
    /// A failure without status.
    pub fn new(kind: ProviderErrorKind, message: impl Into<String>) -> Self {
        Self { kind, status: None, message: message.into(), retry_after: None, partial: None }
    }

    /// An answer of the provider with an error status.
    pub fn from_status(style: ErrorStyle, status: u16, body: &str) -> Self {
        let json: Option<Value> = serde_json::from_str(body).ok();
        let plain = || Some(body.trim().to_owned()).filter(|text| !text.is_empty());
        let text = match (style, &json) {
            (ErrorStyle::Anthropic, Some(json)) => Some(json.to_string()),
            (ErrorStyle::OpenAi, Some(json)) => openai_text(json),
            _ => plain(),
        };
        let message = match (style, text) {
            (ErrorStyle::Google, Some(text)) => text,
            (ErrorStyle::Ollama, Some(text)) => format!("Ollama API error {status}: {text}"),
            (_, Some(text)) => format!("{status} {text}"),
            (_, None) => format!("{status} status code (no body)"),
        };
        let is_bad_key = || BAD_KEY.iter().any(|words| message.contains(words));
        let kind = match kind_of_status(status, &message) {
            ProviderErrorKind::BadRequest if is_bad_key() => ProviderErrorKind::Auth,
            kind => kind,
        };
        Self { status: Some(status), ..Self::new(kind, message) }
    }

    /// An error that came as an event of a stream that had begun well.
    pub fn from_event(style: ErrorStyle, data: &Value) -> Self {
        let error = data.get("error").unwrap_or(data);
        let message = match style {
            ErrorStyle::Anthropic | ErrorStyle::Google => data.to_string(),
            ErrorStyle::OpenAi | ErrorStyle::Ollama => {
                openai_text(data).unwrap_or_else(|| data.to_string())
            }
        };
        let word = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
        // The status counts, whatever the server calls the type.
        let code = error.get("code").and_then(Value::as_u64);
        let status = code.and_then(|code| u16::try_from(code).ok());
        let kind = match status.filter(|status| (400..600).contains(status)) {
            Some(status) => kind_of_status(status, &message),
            None => kind_of_name(word("type"), &message)
                .or_else(|| kind_of_name(word("code"), &message))
                .unwrap_or(ProviderErrorKind::Server),
        };
        Self::new(kind, message)
    }

    /// Nothing came for `limit`.
    pub fn timed_out(limit: Duration) -> Self {
        let text = format!("LLM request timed out: the provider sent nothing for {limit:?}");
        Self::new(ProviderErrorKind::Timeout, text)
    }

    /// The stream ended before the answer did.
    pub fn cut() -> Self {
        Self::new(
            ProviderErrorKind::Cut,
            "terminated: the provider closed the connection before its answer was complete",
        )
    }

    /// There is no key for this provider.
    pub fn no_api_key(provider: &str) -> Self {
        let text = format!("No API key for provider: {provider}");
        Self::new(ProviderErrorKind::NoApiKey, text)
    }

    /// The key for this provider cannot be sent.
    pub fn unusable_key(provider: &str) -> Self {
        let text = format!("The API key for provider {provider} has characters that no key has");
        Self::new(ProviderErrorKind::Auth, text)
    }

    /// Adds what had arrived, marked as failed with this error's text.
    #[must_use]
    pub fn with_partial(mut self, mut partial: AssistantMessage) -> Self {
        partial.stop_reason = StopReason::Error;
        partial.error_message = Some(self.message.clone());
        self.partial = Some(Box::new(partial));
        self
    }

    /// What the call has used all the same.
    pub fn usage(&self) -> Usage {
        self.partial.as_ref().map(|partial| partial.usage.clone()).unwrap_or_default()
    }

    /// Whether the same call may succeed when it is made again.
    pub const fn is_retryable(&self) -> bool {
        use ProviderErrorKind as Kind;
        match (self.kind, self.status) {
            (Kind::ContextLength | Kind::Refusal | Kind::NoApiKey, _) => false,
            (_, Some(status)) => matches!(status, 408 | 409 | 429 | 500..),
            // A timeout without status is our own watchdog: whoever asked has
            // waited long enough.
            (Kind::Network | Kind::Cut | Kind::RateLimit | Kind::Overloaded | Kind::Server, _) => {
                true
            }
            _ => false,
        }
    }

    /// Whether the same request may do better in a while.
    pub fn may_pass(&self) -> bool {
        use ProviderErrorKind as Kind;
        let kinds = [
            Kind::RateLimit,
            Kind::Overloaded,
            Kind::Network,
            Kind::Timeout,
            Kind::Server,
            Kind::Cut,
        ];
        kinds.contains(&self.kind) && !says_no_credit(&self.message)
    }

    /// The field of the body that a small model on one's own machine refuses,
    /// because it has nothing of the kind.
    pub(super) fn refused_feature(&self) -> Option<&'static str> {
        let refused = |what: &str| self.message.contains(&format!("does not support {what}"));
        match self.kind {
            ProviderErrorKind::BadRequest if refused("tools") => Some("tools"),
            ProviderErrorKind::BadRequest if refused("thinking") => Some("think"),
            _ => None,
        }
    }

    /// Whether the request may do without its pictures: one is too large or of a kind
    /// that the provider does not know, or there are too many, or too much of them.
    pub(super) fn refuses_pictures(&self) -> bool {
        let text = self.message.to_lowercase();
        // Google says only how long a request may be.
        let is_said = ["image", "payload size"].iter().any(|words| text.contains(words));
        self.kind == ProviderErrorKind::BadRequest && (self.status == Some(413) || is_said)
    }

    /// The word for `errorKind` of chat events.
    pub const fn wire_kind(&self) -> &'static str {
        match self.kind {
            ProviderErrorKind::Refusal => "refusal",
            ProviderErrorKind::Timeout => "timeout",
            ProviderErrorKind::RateLimit => "rate_limit",
            ProviderErrorKind::ContextLength => "context_length",
            _ => "unknown",
        }
    }
}

const TOO_LONG: &str = "Context overflow: prompt too large for the model. \
    Try /reset (or /new) to start a fresh session, or use a larger-context model.";
const RATE_LIMITED: &str = "⚠️ API rate limit reached. Please try again later.";

/// What people are told of a failed run: its `message`, unless its `kind` (the
/// word for `errorKind`) says all that they can act on.
pub fn text_for_people<'a>(message: &'a str, kind: &str) -> &'a str {
    let says_more = || message.starts_with(ALL_FAILED) || says_no_credit(message);
    match kind {
        "context_length" => TOO_LONG,
        "rate_limit" if !says_more() => RATE_LIMITED,
        _ => message,
    }
}

/// The text that OpenAI's own client shows. Google wraps the object in a list.
fn openai_text(json: &Value) -> Option<String> {
    let json = json.get(0).unwrap_or(json);
    match json.get("error")? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        error => match error.get("message") {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Null) | None => Some(error.to_string()),
            Some(other) => Some(other.to_string()),
        },
    }
}

fn kind_of_status(status: u16, message: &str) -> ProviderErrorKind {
    match status {
        401 | 403 => ProviderErrorKind::Auth,
        429 => ProviderErrorKind::RateLimit,
        529 => ProviderErrorKind::Overloaded,
        _ if overflow::is_overflow(message) => ProviderErrorKind::ContextLength,
        408 | 504 => ProviderErrorKind::Timeout,
        500.. => ProviderErrorKind::Server,
        _ => ProviderErrorKind::BadRequest,
    }
}

fn kind_of_name(name: &str, message: &str) -> Option<ProviderErrorKind> {
    Some(match name {
        "overloaded_error" => ProviderErrorKind::Overloaded,
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => {
            ProviderErrorKind::RateLimit
        }
        "authentication_error" | "permission_error" => ProviderErrorKind::Auth,
        "timeout_error" => ProviderErrorKind::Timeout,
        "content_filter" => ProviderErrorKind::Refusal,
        _ if overflow::is_overflow(message) => ProviderErrorKind::ContextLength,
        "invalid_request_error" | "not_found_error" | "request_too_large" => {
            ProviderErrorKind::BadRequest
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::ProviderErrorKind as Kind;
    use super::*;

    use crate::support::json;

    #[track_caller]
    fn answers(style: ErrorStyle, status: u16, body: &str, kind: Kind, message: &str) {
        let error = ProviderError::from_status(style, status, body);
        assert_eq!((error.kind, error.message.as_str()), (kind, message));
        assert_eq!(error.status, Some(status));
    }

    #[test]
    fn an_openai_error_shows_its_message() {
        let body = r#"{"error":{"message":"bad key","type":"x"}}"#;
        answers(ErrorStyle::OpenAi, 401, body, Kind::Auth, "401 bad key");
        answers(ErrorStyle::OpenAi, 429, body, Kind::RateLimit, "429 bad key");
        answers(ErrorStyle::OpenAi, 500, r#"{"error":"oops"}"#, Kind::Server, "500 oops");
        let list = r#"[{"error":{"message":"unknown field"}}]"#;
        answers(ErrorStyle::OpenAi, 400, list, Kind::BadRequest, "400 unknown field");
    }

    #[test]
    fn an_anthropic_error_shows_its_raw_body() {
        let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        answers(ErrorStyle::Anthropic, 529, body, Kind::Overloaded, &format!("529 {body}"));
    }

    #[test]
    fn google_shows_the_raw_body_and_ollama_says_who_it_is() {
        let body = r#"{"error":{"code":503,"message":"busy"}}"#;
        answers(ErrorStyle::Google, 503, body, Kind::Server, body);
        answers(ErrorStyle::Google, 503, "", Kind::Server, "503 status code (no body)");
        let text = r#"Ollama API error 404: {"error":"no such model"}"#;
        answers(ErrorStyle::Ollama, 404, r#"{"error":"no such model"}"#, Kind::BadRequest, text);
    }

    #[test]
    fn a_key_that_google_refuses_is_no_wrong_request() {
        let body = r#"{"error":{"code":400,"message":"API key expired. Please renew the API key.",
            "status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#;
        answers(ErrorStyle::Google, 400, body, Kind::Auth, body);
        let list = r#"[{"error":{"message":"API key not valid. Please pass a valid API key."}}]"#;
        let text = "400 API key not valid. Please pass a valid API key.";
        answers(ErrorStyle::OpenAi, 400, list, Kind::Auth, text);
    }

    #[test]
    fn a_body_that_is_not_json_is_shown_and_a_missing_one_is_said() {
        answers(ErrorStyle::OpenAi, 502, "Bad Gateway\n", Kind::Server, "502 Bad Gateway");
        answers(ErrorStyle::OpenAi, 503, "", Kind::Server, "503 status code (no body)");
        answers(ErrorStyle::OpenAi, 400, "{}", Kind::ContextLength, "400 status code (no body)");
    }

    #[test]
    fn too_long_a_conversation_is_recognised_by_its_text() {
        let body = r#"{"error":{"message":"maximum context length is 10 tokens"}}"#;
        let message = "400 maximum context length is 10 tokens";
        answers(ErrorStyle::OpenAi, 400, body, Kind::ContextLength, message);
        let limited = r#"{"error":{"message":"too many tokens per minute"}}"#;
        let message = "429 too many tokens per minute";
        answers(ErrorStyle::OpenAi, 429, limited, Kind::RateLimit, message);
    }

    #[test]
    fn an_error_event_is_judged_by_its_type() {
        let event = |style, data| {
            let error = ProviderError::from_event(style, &data);
            (error.kind, error.message)
        };
        let data = json!({"type": "error", "error": {"type": "overloaded_error", "message": "m"}});
        let text = data.to_string();
        assert_eq!(event(ErrorStyle::Anthropic, data), (Kind::Overloaded, text));
        let data = json!({"error": {"message": "slow down", "code": 429}});
        assert_eq!(event(ErrorStyle::OpenAi, data), (Kind::RateLimit, "slow down".into()));
        // As vLLM, Azure and OpenAI write them.
        for (kind, error) in [
            (Kind::BadRequest, json!({"type": "BadRequestError", "code": 400})),
            (Kind::RateLimit, json!({"type": null, "code": 429})),
            (Kind::Refusal, json!({"type": null, "code": "content_filter"})),
            (Kind::RateLimit, json!({"type": "tokens", "code": "rate_limit_exceeded"})),
            (Kind::Server, json!({"type": "server_error", "code": null})),
        ] {
            assert_eq!(event(ErrorStyle::OpenAi, json!({"error": error})).0, kind, "{error}");
        }
        let data = json!({"error": {"message": "boom"}});
        assert_eq!(event(ErrorStyle::OpenAi, data), (Kind::Server, "boom".into()));
    }

    #[test]
    fn what_may_pass_is_retried_and_what_stays_is_not() {
        let status = |status| ProviderError::from_status(ErrorStyle::OpenAi, status, "x");
        for code in [408, 409, 429, 500, 502, 503, 529] {
            assert!(status(code).is_retryable(), "{code}");
        }
        for code in [400, 401, 403, 404, 422] {
            assert!(!status(code).is_retryable(), "{code}");
        }
        assert!(ProviderError::new(Kind::Network, "x").is_retryable());
        assert!(ProviderError::cut().is_retryable());
        assert!(!ProviderError::timed_out(Duration::from_secs(1)).is_retryable());
        let overflow = ProviderError::from_status(ErrorStyle::OpenAi, 500, "prompt is too long");
        assert!(!overflow.is_retryable());
    }

    #[test]
    fn pictures_are_refused_in_words_or_by_size() {
        let refuses = |status, message: &str| {
            let body = json!({"error": {"message": message}}).to_string();
            ProviderError::from_status(ErrorStyle::Anthropic, status, &body).refuses_pictures()
        };
        assert!(refuses(400, "image dimensions exceed max allowed size: 8000 pixels"));
        assert!(refuses(400, "Image does not match the provided media type"));
        assert!(refuses(413, "Request exceeds the maximum size"));
        assert!(refuses(400, "Request payload size exceeds the limit: 20971520 bytes."));
        assert!(!refuses(400, "unknown field") && !refuses(429, "too many images"));
    }

    #[test]
    fn the_wire_knows_five_kinds() {
        let wire = |kind| ProviderError::new(kind, "").wire_kind();
        assert_eq!(wire(Kind::Refusal), "refusal");
        assert_eq!(wire(Kind::Timeout), "timeout");
        assert_eq!(wire(Kind::RateLimit), "rate_limit");
        assert_eq!(wire(Kind::ContextLength), "context_length");
        assert_eq!(wire(Kind::Auth), "unknown");
    }
}
