//! `models.*`.

use crate::protocol::decode::{Fields, Params, literal};

/// Params of `models.list`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelsListParams {
    /// `default`, `configured` or `all`.
    pub view: Option<String>,
}

impl Params for ModelsListParams {
    fn read(f: &mut Fields) -> Self {
        Self { view: f.optional("view", literal(&["default", "configured", "all"])) }
    }
}
