//! What can go wrong between a client and its gateway.
//!
//! Owns: the texts. Promises: each says what to do next. Must not: hold a
//! credential.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio_tungstenite::tungstenite;

use super::tls::TlsFailure;

/// The `error` member of an answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayError {
    /// Machine-readable code, such as `INVALID_REQUEST`.
    #[serde(default = "unknown_code")]
    pub code: String,
    /// What happened.
    #[serde(default)]
    pub message: String,
    /// Machine-readable particulars.
    pub details: Option<Value>,
    /// Whether the same request may succeed later.
    #[serde(default)]
    pub retryable: bool,
    /// Milliseconds to wait before that.
    pub retry_after_ms: Option<u64>,
}

fn unknown_code() -> String {
    "UNKNOWN".to_owned()
}

impl GatewayError {
    /// What stands in for an error that a gateway did not spell out.
    pub fn unnamed() -> Self {
        Self {
            code: unknown_code(),
            message: "the gateway refused without saying why; its log may tell".to_owned(),
            details: None,
            retryable: false,
            retry_after_ms: None,
        }
    }

    /// `details.code`, the finer code of handshake errors.
    pub fn detail_code(&self) -> Option<&str> {
        self.details.as_ref()?.get("code")?.as_str()
    }

    /// Whether the gateway misses a device identity, which this client has not.
    pub fn wants_device(&self) -> bool {
        self.detail_code() == Some("DEVICE_IDENTITY_REQUIRED")
    }

    /// How long to wait before another try, when one may help.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.filter(|_| self.retryable).map(Duration::from_millis)
    }

    /// What the user can do about a refused handshake.
    fn advice(&self) -> &'static str {
        let code = self.detail_code().unwrap_or_default();
        if code.starts_with("AUTH_PASSWORD") {
            "; give the gateway's password by --password or OPENCLAW_GATEWAY_PASSWORD"
        } else if code.starts_with("AUTH_RATE") {
            "; wait a minute and try again"
        } else if code.starts_with("AUTH_")
            || self.wants_device()
            || self.code == "permission_denied"
        {
            "; give the gateway's token by --token or OPENCLAW_GATEWAY_TOKEN \
             (one stored on this machine is sent to this machine only)"
        } else {
            ""
        }
    }
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for GatewayError {}

/// Why a client could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens there.
    #[error(
        "no gateway answers at {url}; start one with `clawgate gateway`, or name another with --url"
    )]
    Refused {
        /// Where nothing listens.
        url: String,
    },
    /// The network does not lead there.
    #[error("cannot reach {url}: {source}; check the address and the network")]
    Unreachable {
        /// Where to.
        url: String,
        /// What the network said.
        #[source]
        source: Box<tungstenite::Error>,
    },
    /// There is no TLS with it.
    #[error(
        "no TLS with {url}: {source}; a gateway that made its own certificate prints its \
         fingerprint when it starts: give that by --tls-fingerprint or \
         gateway.remote.tlsFingerprint; where an authority of your own made it, name the file of \
         that authority's certificate in NODE_EXTRA_CA_CERTS"
    )]
    Tls {
        /// Which gateway.
        url: String,
        /// What went wrong.
        #[source]
        source: TlsFailure,
    },
    /// HTTP 503: restarting, or too many sockets.
    #[error("the gateway at {url} takes no connections at the moment; try again shortly")]
    Busy {
        /// Which gateway.
        url: String,
    },
    /// Something else listens there, or it does not speak the protocol.
    #[error("what answers at {url} is not a gateway ({found}); check the address")]
    NotAGateway {
        /// Where.
        url: String,
        /// What it said instead.
        found: String,
    },
    /// Nothing there has begun as a gateway does, or not to its end.
    #[error(
        "no gateway has let this client in at {url} for {} s: one that is still starting or busy \
         needs a longer --timeout, or another program listens there{}",
        limit.as_secs_f32(), which_program(*port)
    )]
    Mute {
        /// Where.
        url: String,
        /// Its port, if that is one of this machine.
        port: Option<u16>,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The gateway refused the handshake.
    #[error("the gateway refused the connection: {0}{advice}", advice = .0.advice())]
    Handshake(Box<GatewayError>),
    /// The gateway refused a request.
    #[error("{0}")]
    Request(Box<GatewayError>),
    /// The gateway closed the connection.
    #[error("{}", closed_text(*code, reason, shutdown.as_deref()))]
    Closed {
        /// Close code; 1005 when there was none.
        code: u16,
        /// What the gateway gave as its reason, may be empty.
        reason: String,
        /// Reason of the `shutdown` event before it.
        shutdown: Option<String>,
    },
    /// The connection broke.
    #[error("the connection to the gateway broke: {source}; check that it still runs")]
    Lost {
        /// What the network said.
        #[source]
        source: Box<tungstenite::Error>,
    },
    /// Not even a tick came for a long time.
    #[error("the gateway has sent nothing for {} s; the connection is dead", .0.as_secs())]
    Silent(Duration),
    /// An answer took too long.
    #[error(
        "{what} took longer than {} s; raise --timeout if the gateway is busy", limit.as_secs_f32()
    )]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
    },
    /// More arrived than there is room for.
    #[error("the gateway sent more events than could be taken in while waiting for an answer")]
    Flooded,
}

impl ClientError {
    /// The gateway's answer to a request, when it is an error.
    pub fn refused(error: GatewayError) -> Self {
        Self::Request(Box::new(error))
    }

    /// Whether the connection is gone, so that a new one may help.
    pub const fn is_lost(&self) -> bool {
        matches!(self, Self::Closed { .. } | Self::Lost { .. } | Self::Silent(_))
    }
}

/// How to find out who listens.
fn which_program(port: Option<u16>) -> String {
    port.map_or_else(String::new, |port| {
        format!("; `lsof -nP -iTCP:{port} -sTCP:LISTEN` says which one")
    })
}

fn closed_text(code: u16, reason: &str, shutdown: Option<&str>) -> String {
    let mut text = format!("the gateway closed the connection ({code}");
    if !reason.is_empty() {
        text.push_str(": ");
        text.push_str(reason);
    }
    text.push(')');
    if let Some(shutdown) = shutdown {
        text.push_str(", because of ");
        text.push_str(shutdown);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn refusal(code: &str, message: &str, detail: &str) -> Box<GatewayError> {
        serde_json::from_value(
            json!({"code": code, "message": message, "details": {"code": detail}}),
        )
        .unwrap()
    }

    #[test]
    fn a_refused_handshake_says_which_flag_helps() {
        let token = refusal("INVALID_REQUEST", "unauthorized: x", "AUTH_TOKEN_MISMATCH");
        assert!(ClientError::Handshake(token).to_string().contains("--token"));
        let password = refusal("INVALID_REQUEST", "unauthorized: x", "AUTH_PASSWORD_MISSING");
        assert!(ClientError::Handshake(password).to_string().contains("--password"));
        let limited = refusal("INVALID_REQUEST", "unauthorized: x", "AUTH_RATE_LIMITED");
        assert!(ClientError::Handshake(limited).to_string().contains("wait"));
        let pairing = refusal("NOT_PAIRED", "pairing required", "PAIRING_REQUIRED");
        assert_eq!(
            ClientError::Handshake(pairing).to_string(),
            "the gateway refused the connection: NOT_PAIRED: pairing required"
        );
    }

    #[test]
    fn a_close_shows_its_reason() {
        let closed = |reason: &str, shutdown: Option<&str>| {
            let shutdown = shutdown.map(str::to_owned);
            ClientError::Closed { code: 1012, reason: reason.to_owned(), shutdown }.to_string()
        };
        assert_eq!(closed("", None), "the gateway closed the connection (1012)");
        assert_eq!(
            closed("service restart", Some("gateway restarting")),
            "the gateway closed the connection (1012: service restart), because of gateway restarting"
        );
    }

    #[test]
    fn programs_are_looked_for_on_this_machine_only() {
        let mute = |port: Option<u16>| {
            let url = "wss://far".to_owned();
            ClientError::Mute { url, port, limit: Duration::from_millis(2500) }.to_string()
        };
        let far = mute(None);
        assert!(far.contains("2.5 s") && !far.contains("lsof"), "{far}");
        assert!(mute(Some(7)).contains("lsof -nP -iTCP:7 -sTCP:LISTEN"));
    }

    #[test]
    fn members_that_are_absent_have_defaults() {
        let error: GatewayError = serde_json::from_value(json!({})).unwrap();
        assert_eq!((error.code.as_str(), error.message.as_str()), ("UNKNOWN", ""));
        let later: GatewayError = serde_json::from_value(
            json!({"code": "UNAVAILABLE", "message": "m", "retryable": true, "retryAfterMs": 500}),
        )
        .unwrap();
        assert_eq!(later.retry_after(), Some(Duration::from_millis(500)));
    }
}
