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
        // Each agent and session may choose among all.
        f.newer(&["agentId", "sessionKey"]);
        Self { view: f.optional("view", literal(&["default", "configured", "all"])) }
    }
}
