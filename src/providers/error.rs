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

/// Longest pause that a provider may ask for: a limit by the day is over by then, and
/// a wrong clock or a slip must not put a provider aside for years.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);
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
        let retry_after = json.as_ref().and_then(retry_delay);
        Self { status: Some(status), retry_after, ..Self::new(kind, message) }
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
        let code =
            error.get("code").and_then(|it| it.as_u64().or_else(|| it.as_str()?.parse().ok()));
        let status = code.and_then(|code| u16::try_from(code).ok());
        let kind = match status.filter(|status| (400..600).contains(status)) {
            Some(status) => kind_of_status(status, &message),
            None => kind_of_name(word("type"), &message)
                .or_else(|| kind_of_name(word("code"), &message))
                .unwrap_or(ProviderErrorKind::Server),
        };
        Self { retry_after: retry_delay(data), ..Self::new(kind, message) }
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
        let text = format!(
            "No API key for provider: {provider}; `clawgate models auth add --provider {provider}` \
             stores one"
        );
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

    /// Whether this member of the body is refused, because the model has nothing of the
    /// kind, or not this much of it.
    pub(super) fn refuses(&self, member: &str) -> bool {
        let text = self.message.to_lowercase();
        let is_refused = match member {
            // A choice among no tools is refused, too.
            "tools" | "tool_choice" => text.contains("does not support tools"),
            "think" => text.contains("does not support thinking"),
            "generationConfig.thinkingConfig" => text.contains("thinking"),
            // Thoughts of the conversation are something else, unless one is missing there.
            "thinking" if self.misses_thought() => true,
            "thinking" => text.contains("thinking") && !self.refuses_thoughts(),
            "output_config" => text.contains("output_config") || text.contains("effort"),
            "reasoning" | "reasoning_effort" => says_any(&text, &EFFORT),
            "reasoning.summary" => says_any(&text, &SUMMARY),
            "include" => says_no_thoughts(&text),
            name => text.contains(name),
        };
        self.kind == ProviderErrorKind::BadRequest && is_refused
    }

    /// Whether the cause is an answer of the conversation that has no thought where one must be:
    /// the model may think in others.
    pub(super) fn misses_thought(&self) -> bool {
        let text = self.message.to_lowercase();
        // As Anthropic says it; DeepSeek, Moonshot and who has their models.
        text.contains("expected `thinking`")
            || (text.contains("thinking") && text.contains("reasoning_content"))
    }

    /// Whether the request may do without its pictures: one is too large or of a kind
    /// that the provider does not know, or there are too many, or too much of them.
    pub(super) fn refuses_pictures(&self) -> bool {
        let text = self.message.to_lowercase();
        // Google says only how long a request may be.
        let is_said = ["image", "payload size"].iter().any(|words| text.contains(words));
        self.kind == ProviderErrorKind::BadRequest && (self.status == Some(413) || is_said)
    }

    /// The same of a request without pictures to leave out: what is too large then is the
    /// conversation.
    pub(super) fn of_length(self) -> Self {
        let is_long = self.kind == ProviderErrorKind::BadRequest && self.status == Some(413);
        let kind = if is_long { ProviderErrorKind::ContextLength } else { self.kind };
        Self { kind, ..self }
    }

    /// Whether the request may do without its thoughts. Anthropic takes them back only as they
    /// were, and from some models only when nothing that stood before them has changed; `OpenAI`
    /// and Google only from the account that they were sealed for.
    pub(super) fn refuses_thoughts(&self) -> bool {
        let text = self.message.to_lowercase();
        let is_said = THOUGHTS.iter().any(|words| words.iter().all(|word| text.contains(word)));
        self.kind == ProviderErrorKind::BadRequest && is_said
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
/// Longest text, in bytes, in which JSON is looked for: where none ends, each bracket is tried.
/// An event of a stream may be far longer than what people read.
const WORDS_MAX: usize = 64 * 1024;

/// What people are told of a failed run: its `message` in words, unless its `kind` (the
/// word for `errorKind`) says all that they can act on.
pub fn text_for_people(message: &str, kind: &str) -> String {
    let says_more = || message.starts_with(ALL_FAILED) || says_no_credit(message);
    match kind {
        "context_length" => TOO_LONG.to_owned(),
        "rate_limit" if !says_more() => RATE_LIMITED.to_owned(),
        _ if message.len() > WORDS_MAX => message.to_owned(),
        _ => in_words(message),
    }
}

/// A text with what errors say in the place of their JSON, as which some APIs are quoted; with
/// their status, unless it stands there already.
fn in_words(text: &str) -> String {
    let (mut words, mut rest) = (String::new(), text);
    while let Some((before, json)) = rest.find(['{', '[']).and_then(|at| rest.split_at_checked(at))
    {
        words.push_str(before);
        let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
        let value = values.next().and_then(Result::ok);
        // Where none begins, some may further on.
        let length = if value.is_some() { values.byte_offset() } else { 1 };
        let (json, behind) = json.split_at_checked(length).unwrap_or((json, ""));
        match value.as_ref().and_then(|value| Some((error_in(value)?, openai_text(value)?))) {
            Some((error, text)) => {
                let code = error.get("code").and_then(Value::as_u64);
                let status = code.filter(|code| (400..600).contains(code));
                let status = status.map(|status| format!("{status} ")).unwrap_or_default();
                if !words.ends_with(&status) {
                    words.push_str(&status);
                }
                words.push_str(&text);
            }
            None => words.push_str(json),
        }
        rest = behind;
    }
    words.push_str(rest);
    words
}

/// The error that is told by this JSON, if it says something.
fn error_in(json: &Value) -> Option<&Value> {
    let error = json.get(0).unwrap_or(json).get("error")?;
    let text = error.get("message").unwrap_or(error).as_str()?;
    (!text.is_empty()).then_some(error)
}

/// What a refused effort is called, in lower case. OpenAI names only the word itself.
const EFFORT: [&str; 9] = [
    "reasoning_effort",
    "reasoning.effort",
    "reasoningeffort",
    "reasoning effort",
    "unsupported value: 'minimal'",
    "unsupported value: 'low'",
    "unsupported value: 'medium'",
    "unsupported value: 'high'",
    "unsupported value: 'xhigh'",
];

/// What refused summaries of thoughts are called.
const SUMMARY: [&str; 2] = ["reasoning.summary", "reasoning summar"];
/// What sealed thoughts are called where a model has none.
const SEALED: [&str; 2] = ["encrypted content is not supported", "reasoning.encrypted_content"];
/// What is said of thoughts that are not taken back: both of one of these.
const THOUGHTS: [[&str; 2]; 5] = [
    ["thinking", "block"],
    ["thought", "signature"],
    ["encrypted content", "verified"],
    ["encrypted_content", "not issued"],
    ["without its required", "reasoning"],
];

fn says_any(text: &str, list: &[&str]) -> bool {
    list.iter().any(|words| text.contains(words))
}

/// Whether a model has no thoughts to give back: it says so, or knows no effort at all. One that
/// only has other values for it thinks.
fn says_no_thoughts(text: &str) -> bool {
    says_any(text, &SEALED) || (says_any(text, &EFFORT) && !text.contains("value"))
}

/// The text that OpenAI's own client shows. Google wraps the object in a list; Mistral and
/// servers of one's own have no `error` around it.
fn openai_text(json: &Value) -> Option<String> {
    let json = json.get(0).filter(|first| first.is_object()).unwrap_or(json);
    match json.get("error") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(error) if !error.is_null() => Some(said(error)),
        _ => told(json, "message").or_else(|| told(json, "detail")).or_else(|| whole(json)),
    }
}

/// All that there is, if that is anything: a text, a list, or members that nobody knows. Without
/// a word a refusal would be taken for that of too long a conversation.
fn whole(json: &Value) -> Option<String> {
    let text = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
    Some(text).filter(|text| !["", "null", "{}", "[]"].contains(&text.trim()))
}

/// What an error says. `OpenRouter` has beside it what the provider said that it asked, of
/// which its own words tell nothing.
fn said(error: &Value) -> String {
    let text = told(error, "message").unwrap_or_else(|| error.to_string());
    let behind = error.get("metadata").and_then(|metadata| told(metadata, "raw"));
    match behind.filter(|behind| !behind.is_empty()) {
        Some(behind) => format!("{text}\n{behind}"),
        None => text,
    }
}

/// How long to wait; Google says so in the error instead of a header.
fn retry_delay(json: &Value) -> Option<Duration> {
    let details = json.get(0).unwrap_or(json).get("error")?.get("details")?.as_array()?;
    let asked = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds = asked.strip_suffix('s')?.parse::<f64>().ok()?;
    Some(Duration::try_from_secs_f64(seconds).ok()?.min(RETRY_AFTER_MAX))
}

/// This member, as a text.
fn told(json: &Value, member: &str) -> Option<String> {
    match json.get(member)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
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
        // The last one is what the Responses API does not let be asked, also the next time.
        "invalid_request_error" | "not_found_error" | "request_too_large" | "invalid_prompt" => {
            ProviderErrorKind::BadRequest
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
