//! `commands.list`.

use crate::protocol::decode::{Fields, Params, boolean, literal, non_empty};

/// Params of `commands.list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandsListParams {
    /// Whose commands; the default agent's when absent.
    pub agent_id: Option<String>,
    /// Whether to tell what each takes; yes when absent.
    pub include_args: bool,
}

impl Params for CommandsListParams {
    fn read(f: &mut Fields) -> Self {
        f.optional("provider", non_empty());
        f.optional("scope", literal(&["text", "native", "both"]));
        Self {
            agent_id: f.optional("agentId", non_empty()),
            include_args: f.optional("includeArgs", boolean()).unwrap_or(true),
        }
    }
}
