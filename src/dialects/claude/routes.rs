//! What its clients ask for by HTTP.

use std::future::ready;

use axum::http::Method;
use serde_json::json;

use crate::http::{Entry, Place, Route, ok};

/// The table.
pub static ROUTES: [Route; 1] = [
    // Its page shows nothing before it has heard that somebody is logged in with
    // the provider. Here that is the gateway's own business.
    Route {
        place: Place::Api("/api/claude/auth-status"),
        methods: &[Method::GET],
        entry: Entry::Public,
        answer: |_| Box::pin(ready(ok(&json!({"loggedIn": true})))),
    },
];
