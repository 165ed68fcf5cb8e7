//! `bindings`: which agent answers whom.

use serde::Deserialize;

use super::access::PeerId;
use crate::config::ConfigError;
use crate::config::schema::Node;

/// One of `bindings`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Binding {
    /// Who answers.
    pub agent_id: String,
    /// On which channel.
    pub channel: String,
    /// Of which account: `None` is the default one, `*` any.
    pub account_id: Option<String>,
    /// Whom.
    pub peer: Option<BoundPeer>,
}

/// One person, group or room.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BoundPeer {
    /// `direct` (or `dm`), `group` or `channel`.
    pub kind: String,
    /// Its id, or `*`.
    pub id: PeerId,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    agent_id: String,
    r#match: WrittenMatch,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenMatch {
    channel: String,
    account_id: Option<String>,
    peer: Option<BoundPeer>,
}

pub(super) fn read(node: &Node<'_>) -> Result<Vec<Binding>, ConfigError> {
    let mut bindings = Vec::new();
    for item in node.items()? {
        let Written { agent_id, r#match } = item.deserialize()?;
        if agent_id.trim().is_empty() {
            return Err(item.member("agentId")?.wrong("is missing; it must be a string"));
        }
        if r#match.channel.trim().is_empty() {
            return Err(item.at("match.channel")?.wrong("is missing; it must be a string"));
        }
        bindings.push(Binding {
            agent_id: agent_id.trim().to_owned(),
            channel: r#match.channel.trim().to_lowercase(),
            account_id: r#match.account_id.map(|id| id.trim().to_owned()),
            peer: r#match.peer,
        });
    }
    Ok(bindings)
}
