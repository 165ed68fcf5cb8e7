//! Sessions as a web interface for Claude Code has them.

pub mod format;
mod routes;

use super::Dialect;
use crate::http::Manner;

/// Its tables.
pub static DIALECT: Dialect =
    Dialect { name: "claude", manner: Manner::Claude, routes: &routes::ROUTES, sockets: &[] };
