//! What a request is called, so that its sender finds it in the log.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

use crate::support::Ids;
use crate::telemetry::asked::is_name;

use super::caller::once;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The name that its sender has given, if it is one that fits into a log, or a
/// new one.
pub(super) fn of(headers: &HeaderMap, ids: &dyn Ids) -> String {
    let given = once(headers, HEADER.as_str());
    given.filter(|given| is_name(given)).map_or_else(|| ids.uuid(), str::to_owned)
}

/// The answer with the name of its request.
pub(super) fn named(mut answer: Response, id: &str) -> Response {
    if let Ok(id) = HeaderValue::from_str(id) {
        answer.headers_mut().insert(HEADER, id);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::RandomIds;

    #[test]
    fn a_name_that_is_given_is_kept_unless_it_would_write_into_the_log() {
        let of = |given: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_bytes(given.as_bytes()).unwrap());
            of(&headers, &RandomIds)
        };
        assert_eq!(of("req-1_a.b:c"), "req-1_a.b:c");
        for wrong in ["", "a b", "a\tb", "a\"b", &"x".repeat(129), "é"] {
            assert_eq!(of(wrong).len(), 36, "{wrong:?}");
        }
    }
}
