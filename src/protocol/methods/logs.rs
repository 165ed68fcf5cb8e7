//! `logs.tail`.

use crate::protocol::decode::{Fields, Params, integer_from, one_of, text};

/// Most lines of one answer, as in the original.
pub const LIMIT_MAX: u64 = 5000;
/// Most bytes of one answer, as in the original.
const BYTES_MAX: u64 = 1_000_000;
/// How grave lines are, the least first, as log files number them from 1.
pub const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "fatal"];

/// Params of `logs.tail`; `level`, `sessionKey` and `lines` for `limit` are those of
/// dashboards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogsTailParams {
    /// The cursor of the last answer.
    pub cursor: Option<u64>,
    /// Most lines.
    pub limit: Option<u64>,
    /// Most bytes.
    pub max_bytes: Option<u64>,
    /// Lines that are less grave are left out.
    pub level: Option<String>,
    /// Lines that do not name this session are left out.
    pub session_key: Option<String>,
}

impl Params for LogsTailParams {
    fn read(f: &mut Fields) -> Self {
        f.alias("limit", "lines");
        Self {
            cursor: f.optional("cursor", integer_from(0)),
            limit: f.optional("limit", integer_from(1).max(LIMIT_MAX)),
            max_bytes: f.optional("maxBytes", integer_from(1).max(BYTES_MAX)),
            level: f.optional("level", one_of(&LEVELS)),
            session_key: f.optional("sessionKey", text()),
        }
    }
}
