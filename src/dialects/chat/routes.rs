//! What its clients ask for by HTTP.

use axum::http::Method;

use crate::http::{Entry, Place, Route};

use super::login;

/// The table.
pub static ROUTES: [Route; 1] = [Route {
    place: Place::Api("/api/auth/check"),
    methods: &[Method::POST],
    // From no page that is not allowed: it would be a way to try secrets.
    entry: Entry::Open,
    answer: |asked| Box::pin(login::check(asked)),
}];
