//! The gateway's token or password.

use crate::config::{AuthMode, AuthSettings};
use crate::protocol::connect::ConnectAuth;
use crate::support::Secret;

use super::failure::AuthFailure;

/// Compares what the mode asks for; the other member is not looked at.
pub fn check(
    settings: &AuthSettings,
    mode: AuthMode,
    given: &ConnectAuth,
) -> Result<(), AuthFailure> {
    let compare = |secret: Option<&Secret>, given: Option<&str>, failures: [AuthFailure; 3]| {
        let [missing, mismatch, not_configured] = failures;
        let secret = secret.filter(|secret| !secret.is_empty()).ok_or(not_configured)?;
        if secret.matches(given.ok_or(missing)?) { Ok(()) } else { Err(mismatch) }
    };
    match mode {
        AuthMode::None => Ok(()),
        AuthMode::Token => compare(
            settings.token.as_ref(),
            given.token.as_deref(),
            [
                AuthFailure::TokenMissing,
                AuthFailure::TokenMismatch,
                AuthFailure::TokenNotConfigured,
            ],
        ),
        AuthMode::Password => compare(
            settings.password.as_ref(),
            given.password.as_deref(),
            [
                AuthFailure::PasswordMissing,
                AuthFailure::PasswordMismatch,
                AuthFailure::PasswordNotConfigured,
            ],
        ),
        AuthMode::TrustedProxy => Err(AuthFailure::Unauthorized),
    }
}

/// Whether the given credentials hold something to compare, so that a try has
/// to be paid for. A *missing* credential does not count.
pub fn is_a_try(mode: AuthMode, given: &ConnectAuth) -> bool {
    match mode {
        AuthMode::Token => given.token.is_some(),
        AuthMode::Password => given.password.is_some(),
        AuthMode::None | AuthMode::TrustedProxy => false,
    }
}
