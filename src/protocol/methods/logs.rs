//! `logs.tail`.

use crate::protocol::decode::{Fields, Params, integer_from};

/// Most lines of one answer, as in the original.
const LIMIT_MAX: u64 = 5000;
/// Most bytes of one answer, as in the original.
const BYTES_MAX: u64 = 1_000_000;

/// Params of `logs.tail`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogsTailParams {
    /// The cursor of the last answer.
    pub cursor: Option<u64>,
    /// Most lines.
    pub limit: Option<u64>,
    /// Most bytes.
    pub max_bytes: Option<u64>,
}

impl Params for LogsTailParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            cursor: f.optional("cursor", integer_from(0)),
            limit: f.optional("limit", integer_from(1).max(LIMIT_MAX)),
            max_bytes: f.optional("maxBytes", integer_from(1).max(BYTES_MAX)),
        }
    }
}
