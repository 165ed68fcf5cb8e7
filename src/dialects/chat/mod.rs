//! A chat whose frames are actions.

mod login;
mod routes;

use super::Dialect;
use crate::http::Manner;

/// Its tables.
pub static DIALECT: Dialect =
    Dialect { name: "chat", manner: Manner::Chat, routes: &routes::ROUTES, sockets: &[] };
