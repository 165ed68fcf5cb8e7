//! What stands above every answer.

use axum::http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::response::Response;

use crate::gateway::Gateway;

const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// The answer with the headers that every one has, as recorded.
pub fn secured(gateway: &Gateway, mut response: Response) -> Response {
    let headers = response.headers_mut();
    let settings = gateway.services.settings.now();
    if let Some(policy) = &settings.gateway.strict_transport_security
        && let Ok(policy) = HeaderValue::from_str(policy)
    {
        headers.insert(STRICT_TRANSPORT_SECURITY, policy);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let devices = HeaderValue::from_static("camera=(), microphone=(self), geolocation=()");
    headers.insert(PERMISSIONS_POLICY, devices);
    response
}

/// The answer as one of the Control UI: no page frames it, and it loads nothing
/// but its own. A policy that it has already stays.
pub(super) fn of_ui(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    if !headers.contains_key(CONTENT_SECURITY_POLICY)
        && let Ok(policy) = HeaderValue::from_str(&super::ui::policy(&[]))
    {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// The answer as a file that somebody else has made: opened by itself, it is a
/// page of nobody that loads nothing and runs nothing.
pub(super) fn of_file(mut response: Response) -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
        frame-ancestors 'none'; sandbox";
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}
