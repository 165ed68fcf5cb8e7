//! `gateway.dialects`: the APIs of other software, and where else they are.

use std::path::{Path, PathBuf};

use super::ConfigError;
use super::control_ui::plain_path;
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// Most ports beside `gateway.port`: each is a socket, and clients with a fixed
/// one know one.
const MAX_PORTS: usize = 8;

/// Which there are, and where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)] // each is a key
pub struct DialectsSettings {
    /// Claude sessions.
    pub claude: bool,
    /// Whether links to single Claude sessions work, for whoever has one.
    pub claude_share: bool,
    /// Action chat.
    pub chat: bool,
    /// Whether it is shut but for the way to open it again.
    pub is_chat_locked: bool,
    /// Ports on which the gateway listens as on `gateway.port`.
    pub ports: Vec<u16>,
    /// A path below which their paths are too, such as `/compat`; empty for none.
    pub prefix: String,
    /// Where Claude Code itself keeps sessions that are shown beside ours.
    pub claude_projects: Option<PathBuf>,
}

impl DialectsSettings {
    /// Whether the one with this name is there.
    pub fn has(&self, name: &str) -> bool {
        match name {
            "claude" => self.claude,
            "chat" => self.chat,
            _ => false,
        }
    }
}

pub(super) fn read(
    node: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<DialectsSettings, ConfigError> {
    let node = node.member("dialects")?;
    let mut switch = |name: &str, default: bool| -> Result<bool, ConfigError> {
        let choice = Choice::file(file, node.at(name)?.boolean()?);
        Ok(ledger.settle(&format!("gateway.dialects.{name}"), choice, default))
    };
    let all = switch("enabled", true)?;
    let (claude, chat) = (switch("claude.enabled", true)?, switch("chat.enabled", true)?);
    let claude_share = switch("claude.share", false)?;
    let is_chat_locked = switch("chat.lockdown", false)?;
    let ports = Choice::file(file, ports(&node.member("ports")?)?);
    let ports = ledger.settle_list("gateway.dialects.ports", ports, Vec::new());
    let rule = "must be a path of letters, digits, -, _, ~ and ., such as /compat";
    let prefix = Choice::file(file, plain_path(&node.member("prefix")?, rule)?);
    let prefix = ledger.settle_optional("gateway.dialects.prefix", prefix);
    Ok(DialectsSettings {
        claude: all && claude,
        claude_share,
        chat: all && chat,
        is_chat_locked,
        ports,
        prefix: prefix.unwrap_or_default(),
        claude_projects: None,
    })
}

fn ports(node: &Node<'_>) -> Result<Option<Vec<u16>>, ConfigError> {
    if !node.is_set() {
        return Ok(None);
    }
    let items = node.items()?;
    if items.len() > MAX_PORTS {
        return Err(node.wrong(&format!("must have at most {MAX_PORTS} ports")));
    }
    let mut ports = Vec::new();
    for item in items {
        let port = item.integer(65_535)?.ok_or_else(|| item.wrong("must be a port"))?;
        if ports.contains(&port) {
            return Err(item.wrong("is there twice"));
        }
        ports.push(port);
    }
    Ok(Some(ports))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::support::json;

    use super::*;

    fn settings(dialects: &Value) -> Result<DialectsSettings, String> {
        let root = json!({"dialects": dialects});
        let file = Path::new("openclaw.json");
        let read = read(&Node::root(&root, file), file, &mut Ledger::default());
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn all_are_there_at_their_own_paths_unless_something_else_is_said() {
        let all = settings(&json!({})).unwrap();
        assert_eq!((all.claude, all.chat, all.ports, &*all.prefix), (true, true, vec![], ""));
        let one = settings(&json!({"claude": {"enabled": false}})).unwrap();
        assert_eq!((one.has("claude"), one.has("chat"), one.has("other")), (false, true, false));
        let none = settings(&json!({"enabled": false, "claude": {"enabled": true}})).unwrap();
        assert!(!none.claude && !none.chat);
        let shares = |value| settings(&json!({"claude": value})).unwrap().claude_share;
        assert_eq!((shares(json!({})), shares(json!({"share": true}))), (false, true));
        let placed = settings(&json!({"ports": [8000, 12345], "prefix": "compat/"})).unwrap();
        assert_eq!((placed.ports, &*placed.prefix), (vec![8000, 12345], "/compat"));
    }

    #[test]
    fn what_is_no_port_or_no_path_is_said_with_its_key() {
        for (wrong, told) in [
            (json!({"ports": [0]}), "dialects.ports[0]"),
            (json!({"ports": [70000]}), "dialects.ports[0]"),
            (json!({"ports": [8000, 8000]}), "dialects.ports[1]: is there twice"),
            (json!({"ports": (1..=9).collect::<Vec<_>>()}), "at most 8"),
            (json!({"ports": 8000}), "dialects.ports"),
            (json!({"prefix": "/a b"}), "dialects.prefix"),
            (json!({"prefix": "/../b"}), "dialects.prefix"),
            (json!({"chat": {"enabled": "no"}}), "dialects.chat.enabled"),
        ] {
            let error = settings(&wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
