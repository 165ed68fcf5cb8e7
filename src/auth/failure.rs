//! Why a login failed, and what is told of it.

use crate::protocol::connect::ClientInfo;
use crate::protocol::{ErrorKind, ErrorShape};
use crate::support::json;

/// Why a login failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthFailure {
    TokenMissing,
    TokenMismatch,
    TokenNotConfigured,
    PasswordMissing,
    PasswordMismatch,
    PasswordNotConfigured,
    DeviceTokenMismatch,
    BootstrapTokenInvalid,
    RateLimited,
    ProxyUntrusted,
    ProxyLoopback,
    ProxyHeaderMissing,
    ProxyUserMissing,
    ProxyUserNotAllowed,
    TailscaleUserMissing,
    TailscaleProxyMissing,
    TailscaleWhoisFailed,
    TailscaleUserMismatch,
    Unauthorized,
}

impl AuthFailure {
    /// The recorded answer; the hint depends on what the client says it is.
    pub fn to_error(
        self,
        client: Option<&ClientInfo>,
        can_retry_with_device_token: bool,
    ) -> ErrorShape {
        let (code, reason, text, step) = self.row();
        let hint = match self {
            Self::TokenMissing | Self::TokenMismatch => Hints::of(client).token,
            Self::PasswordMissing | Self::PasswordMismatch => Hints::of(client).password,
            _ => "",
        };
        let message = match (text, hint) {
            ("", _) => "unauthorized".to_owned(),
            (text, "") => format!("unauthorized: {text}"),
            (text, hint) => format!("unauthorized: {text} ({hint})"),
        };
        let step = if can_retry_with_device_token { "retry_with_device_token" } else { step };
        let error = ErrorShape::denied(message).details(json!({
            "code": code,
            "authReason": reason,
            "canRetryWithDeviceToken": can_retry_with_device_token,
            "recommendedNextStep": step,
        }));
        if self == Self::RateLimited { error.kind(ErrorKind::RateLimited) } else { error }
    }

    /// `details.code`, `authReason`, text without hint, next step.
    const fn row(self) -> Row {
        match self {
            Self::TokenMissing => {
                ("AUTH_TOKEN_MISSING", "token_missing", "gateway token missing", UPDATE_CONFIG)
            }
            Self::TokenMismatch => {
                ("AUTH_TOKEN_MISMATCH", "token_mismatch", "gateway token mismatch", UPDATE_SECRET)
            }
            Self::TokenNotConfigured => (
                "AUTH_TOKEN_NOT_CONFIGURED",
                "token_missing_config",
                "gateway token not configured on gateway (set gateway.auth.token)",
                UPDATE_CONFIG,
            ),
            Self::PasswordMissing => (
                "AUTH_PASSWORD_MISSING",
                "password_missing",
                "gateway password missing",
                UPDATE_CONFIG,
            ),
            Self::PasswordMismatch => (
                "AUTH_PASSWORD_MISMATCH",
                "password_mismatch",
                "gateway password mismatch",
                UPDATE_SECRET,
            ),
            Self::PasswordNotConfigured => (
                "AUTH_PASSWORD_NOT_CONFIGURED",
                "password_missing_config",
                "gateway password not configured on gateway (set gateway.auth.password)",
                UPDATE_CONFIG,
            ),
            Self::DeviceTokenMismatch => (
                "AUTH_DEVICE_TOKEN_MISMATCH",
                "device_token_mismatch",
                "device token mismatch (rotate/reissue device token)",
                UPDATE_SECRET,
            ),
            Self::BootstrapTokenInvalid => (
                "AUTH_BOOTSTRAP_TOKEN_INVALID",
                "bootstrap_token_invalid",
                "bootstrap token invalid or expired (scan a fresh setup code)",
                REVIEW_CONFIG,
            ),
            Self::RateLimited => (
                "AUTH_RATE_LIMITED",
                "rate_limited",
                "too many failed authentication attempts (retry later)",
                "wait_then_retry",
            ),
            Self::ProxyUntrusted => by_proxy("trusted_proxy_untrusted_source"),
            Self::ProxyLoopback => by_proxy("trusted_proxy_loopback_source"),
            Self::ProxyHeaderMissing => by_proxy("trusted_proxy_missing_header"),
            Self::ProxyUserMissing => by_proxy("trusted_proxy_user_missing"),
            Self::ProxyUserNotAllowed => by_proxy("trusted_proxy_user_not_allowed"),
            Self::TailscaleUserMissing
            | Self::TailscaleProxyMissing
            | Self::TailscaleWhoisFailed
            | Self::TailscaleUserMismatch => self.tailscale_row(),
            Self::Unauthorized => by_proxy("unauthorized"),
        }
    }

    const fn tailscale_row(self) -> Row {
        let (code, reason, text) = match self {
            Self::TailscaleProxyMissing => (
                "AUTH_TAILSCALE_PROXY_MISSING",
                "tailscale_proxy_missing",
                "tailscale proxy headers missing (use Tailscale Serve or gateway token/password)",
            ),
            Self::TailscaleWhoisFailed => (
                "AUTH_TAILSCALE_WHOIS_FAILED",
                "tailscale_whois_failed",
                "tailscale identity check failed (use Tailscale Serve auth or gateway token/password)",
            ),
            Self::TailscaleUserMismatch => (
                "AUTH_TAILSCALE_IDENTITY_MISMATCH",
                "tailscale_user_mismatch",
                "tailscale identity mismatch (use Tailscale Serve auth or gateway token/password)",
            ),
            _ => (
                "AUTH_TAILSCALE_IDENTITY_MISSING",
                "tailscale_user_missing",
                "tailscale identity missing (use Tailscale Serve auth or gateway token/password)",
            ),
        };
        (code, reason, text, REVIEW_CONFIG)
    }
}

type Row = (&'static str, &'static str, &'static str, &'static str);

/// The wire has one code for all of them; `authReason` says which.
const fn by_proxy(reason: &'static str) -> Row {
    ("AUTH_UNAUTHORIZED", reason, "", REVIEW_CONFIG)
}

const UPDATE_CONFIG: &str = "update_auth_configuration";
const UPDATE_SECRET: &str = "update_auth_credentials";
const REVIEW_CONFIG: &str = "review_auth_configuration";

/// What the user of this kind of client can do.
struct Hints {
    token: &'static str,
    password: &'static str,
}

impl Hints {
    fn of(client: Option<&ClientInfo>) -> Self {
        let id = client.map_or("", |client| client.id.as_str());
        let mode = client.map_or("", |client| client.mode.as_str());
        if mode == "cli" {
            return Self {
                token: "set gateway.remote.token to match gateway.auth.token",
                password: "set gateway.remote.password to match gateway.auth.password",
            };
        }
        if ["openclaw-control-ui", "openclaw-tui", "webchat-ui"].contains(&id) || mode == "webchat"
        {
            return Self {
                token: "open the dashboard URL and paste the token in Control UI settings",
                password: "enter the password in Control UI settings",
            };
        }
        Self { token: "provide gateway auth token", password: "provide gateway auth password" }
    }
}
