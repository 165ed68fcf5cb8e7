//! What its clients ask for by HTTP.

use axum::http::Method;

use crate::http::{Entry, Place, Route};

use super::{login, media};

/// The table.
pub static ROUTES: [Route; 2] = [
    Route {
        place: Place::Api("/api/auth/check"),
        methods: &[Method::POST],
        // From no page that is not allowed: it would be a way to try secrets.
        entry: Entry::Open,
        answer: |asked| Box::pin(login::check(asked)),
    },
    Route {
        place: Place::Api(media::PATH),
        methods: &[Method::GET],
        // A ticket, or a credential: an `<img>` has no header.
        entry: Entry::Signed,
        answer: |asked| Box::pin(media::answer(asked)),
    },
];
