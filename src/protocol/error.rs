//! The `error` member of a response.

use serde_json::{Map, Value};

use super::Profile;
use crate::support::{Unfinished, json};

/// Codes of the standard profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The request is wrong or not allowed.
    InvalidRequest,
    /// The request is fine, but cannot be served now.
    Unavailable,
    /// The client has to identify or pair itself first.
    NotPaired,
    /// A channel is not linked.
    NotLinked,
    /// A run took longer than its caller allows.
    AgentTimeout,
    /// An approval is unknown or expired.
    ApprovalNotFound,
}

impl ErrorCode {
    /// The code as it is written on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::Unavailable => "UNAVAILABLE",
            Self::NotPaired => "NOT_PAIRED",
            Self::NotLinked => "NOT_LINKED",
            Self::AgentTimeout => "AGENT_TIMEOUT",
            Self::ApprovalNotFound => "APPROVAL_NOT_FOUND",
        }
    }
}

/// What went wrong, finer than [`ErrorCode`]: the code of the simple profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A parameter is missing or malformed.
    InvalidParams,
    /// Somebody else has what only one may have. On the wire that is a malformed parameter.
    Taken,
    /// The named thing does not exist.
    NotFound,
    /// The credential is missing, wrong, or worth too little.
    PermissionDenied,
    /// The credential is worth too little: a scope is missing. On the wire that is a denied
    /// permission.
    MissingScope,
    /// Too many requests.
    RateLimited,
    /// The gateway or something behind it failed.
    InternalError,
    /// It took too long.
    Timeout,
}

impl ErrorKind {
    /// The code as it is written on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidParams | Self::Taken => "invalid_params",
            Self::NotFound => "not_found",
            Self::PermissionDenied | Self::MissingScope => "permission_denied",
            Self::RateLimited => "rate_limited",
            Self::InternalError => "internal_error",
            Self::Timeout => "timeout",
        }
    }
}

/// What whoever lacks this scope is told.
pub fn missing_scope(scope: &str) -> String {
    format!("missing scope: {scope}")
}

/// An error on its way to a client.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorShape {
    /// Code of the standard profile.
    pub code: ErrorCode,
    /// Code of the simple profile.
    pub kind: ErrorKind,
    /// What happened and what to do about it.
    pub message: String,
    /// Machine-readable particulars.
    pub details: Option<Box<Value>>,
    /// Whether the same request may succeed later.
    pub retryable: Option<bool>,
    /// Milliseconds to wait before that.
    pub retry_after_ms: Option<u64>,
    /// Answered beside the error; `chat.send` and `agent` do that.
    pub payload: Option<Box<Value>>,
}

impl ErrorShape {
    fn new(code: ErrorCode, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            code,
            kind,
            message: message.into(),
            details: None,
            retryable: None,
            retry_after_ms: None,
            payload: None,
        }
    }

    /// A request that is malformed.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, ErrorKind::InvalidParams, message)
    }

    /// A request about something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, ErrorKind::NotFound, message)
    }

    /// A request that its sender may not make.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, ErrorKind::PermissionDenied, message)
    }

    /// A request whose sender lacks this scope.
    pub fn lacks(scope: &str) -> Self {
        Self::denied(missing_scope(scope)).kind(ErrorKind::MissingScope)
    }

    /// Whether its sender lacks a scope.
    pub fn is_lack(&self) -> bool {
        self.kind == ErrorKind::MissingScope
    }

    /// A client that must identify itself first.
    pub fn not_paired(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotPaired, ErrorKind::PermissionDenied, message)
    }

    /// A request that cannot be served now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unavailable, ErrorKind::InternalError, message)
    }

    /// Replaces the code of the simple profile.
    #[must_use]
    pub fn kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Adds particulars.
    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Marks the error as passing, to be tried again after `after_ms`.
    #[must_use]
    pub fn retry_after(mut self, after_ms: u64) -> Self {
        self.retryable = Some(true);
        self.retry_after_ms = Some(after_ms);
        self
    }

    /// Adds a payload that is answered beside the error.
    #[must_use]
    pub fn payload(mut self, payload: Value) -> Self {
        self.payload = Some(Box::new(payload));
        self
    }

    /// The `error` member as this profile writes it; members without a value
    /// are absent.
    pub fn to_wire(&self, profile: Profile) -> Value {
        let code = match profile {
            Profile::Standard(_) => self.code.as_str(),
            Profile::Simple => self.kind.as_str(),
        };
        let mut wire = Map::new();
        wire.insert("code".into(), json!(code));
        wire.insert("message".into(), json!(self.message));
        if let Some(details) = &self.details {
            wire.insert("details".into(), (**details).clone());
        }
        if let Some(retryable) = self.retryable {
            wire.insert("retryable".into(), json!(retryable));
        }
        if let Some(after) = self.retry_after_ms {
            wire.insert("retryAfterMs".into(), json!(after));
        }
        Value::Object(wire)
    }
}

impl From<Unfinished> for ErrorShape {
    fn from(unfinished: Unfinished) -> Self {
        Self::unavailable(unfinished.to_string())
    }
}

impl std::fmt::Display for ErrorShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for ErrorShape {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lacks_a_scope_is_known_by_the_kind_and_not_by_words() {
        let (lacks, quotes) = (ErrorShape::lacks("x"), ErrorShape::denied(missing_scope("x")));
        assert!(lacks.is_lack() && !quotes.is_lack());
        assert_eq!(lacks.to_wire(Profile::Simple), quotes.to_wire(Profile::Simple));
    }
}
