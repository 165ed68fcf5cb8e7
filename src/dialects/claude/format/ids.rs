//! Ids that are derived, never stored.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::support::hex;

/// Hex digits of ids that are no uuids.
const WORD: usize = 24;
/// Hex digits of the id of a sub-agent; Claude Code has as many after its `a`.
const AGENT_WORD: usize = 16;

/// The ids of what is in one session: uuids of RFC 9562 version 8, made from the
/// session's id, the entry's id, and which part of the entry is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    session_id: String,
}

impl Ids {
    /// The ids of this session.
    pub fn new(session_id: impl Into<String>) -> Self {
        Self { session_id: session_id.into() }
    }

    /// Of what a user said.
    pub fn user(&self, entry_id: &str) -> Uuid {
        self.uuid(["user", entry_id, ""])
    }

    /// Of a block of an assistant message; `index` counts all blocks of its
    /// content from 0 (`contentIndex` of stream events).
    pub fn block(&self, entry_id: &str, index: usize) -> Uuid {
        self.uuid(["block", entry_id, &index.to_string()])
    }

    /// Of the result of a call; `entry_id` is that of the assistant message that
    /// called, `tool_call_id` the id as the transcript has it. Models give several
    /// calls of a message one id; `number` counts those before it, from 0.
    pub fn tool_result(&self, entry_id: &str, tool_call_id: &str, number: usize) -> Uuid {
        match number {
            0 => self.uuid(["result", entry_id, tool_call_id]),
            _ => self.uuid([&format!("result {number}"), entry_id, tool_call_id]),
        }
    }

    /// Of the note that somebody has interrupted this assistant message or its
    /// tools.
    pub fn interrupt(&self, entry_id: &str) -> Uuid {
        self.uuid(["interrupt", entry_id, ""])
    }

    /// Of what says that the provider failed in this assistant message.
    pub fn failure(&self, entry_id: &str) -> Uuid {
        self.uuid(["failure", entry_id, ""])
    }

    /// Of the boundary that a compaction makes.
    pub fn boundary(&self, entry_id: &str) -> Uuid {
        self.uuid(["boundary", entry_id, ""])
    }

    /// Of the summary behind it.
    pub fn summary(&self, entry_id: &str) -> Uuid {
        self.uuid(["summary", entry_id, ""])
    }

    /// Of anything else that happens once in an entry, such as the stream event
    /// with this number.
    pub fn other(&self, kind: &str, entry_id: &str, number: usize) -> Uuid {
        self.uuid([kind, entry_id, &number.to_string()])
    }

    /// `message.id` of an assistant message.
    pub fn message(&self, entry_id: &str) -> String {
        format!("msg_{}", self.word("message", entry_id))
    }

    /// `requestId` of an assistant message.
    pub fn request(&self, entry_id: &str) -> String {
        format!("req_{}", self.word("request", entry_id))
    }

    /// `agentId` of a sub-agent, from the key of its session.
    pub fn agent(session_key: &str) -> String {
        let digest = hex(digest(["agent", session_key, "", ""]));
        format!("a{}", digest.get(..AGENT_WORD).unwrap_or_default())
    }

    fn uuid(&self, [kind, entry_id, part]: [&str; 3]) -> Uuid {
        let digest = digest([kind, &self.session_id, entry_id, part]);
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(digest).for_each(|(byte, new)| *byte = new);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }

    fn word(&self, kind: &str, entry_id: &str) -> String {
        let digest = hex(digest([kind, &self.session_id, entry_id, ""]));
        digest.get(..WORD).unwrap_or_default().to_owned()
    }
}

/// Each part says how long it is, so that none runs into the next one.
fn digest(parts: [&str; 4]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_depend_on_the_place_and_on_nothing_else() {
        let ids = Ids::new("s");
        let uuid = ids.block("e0f25e8a", 0);
        assert_eq!(uuid.to_string(), Ids::new("s").block("e0f25e8a", 0).to_string());
        assert_eq!((uuid.get_version_num(), uuid.get_variant()), (8, uuid::Variant::RFC4122));
        let others = [
            ids.block("e0f25e8a", 1),
            ids.block("e0f25e8", 0),
            ids.user("e0f25e8a"),
            ids.tool_result("e0f25e8a", "0", 0),
            ids.tool_result("e0f25e8a", "0", 1),
            ids.other("block", "e0f25e8a0", 0),
            Ids::new("se").block("0f25e8a", 0),
        ];
        for other in others {
            assert_ne!(uuid, other);
        }
    }

    #[test]
    fn words_have_the_form_of_the_provider() {
        let ids = Ids::new("s");
        assert_eq!(ids.message("a").len(), "msg_".len() + WORD);
        assert!(ids.request("a").starts_with("req_"));
        assert_eq!(Ids::agent("agent:main:subagent:x").len(), 17);
    }
}
