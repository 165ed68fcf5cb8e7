//! What an import did.

use std::fmt::Display;

use serde::Serialize;

use crate::store::SourceNote;

/// Something that was not taken over, or not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The file or session.
    pub what: String,
    /// In words.
    pub why: String,
}

/// What was taken over of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentImport {
    /// Which.
    pub agent_id: String,
    /// Sessions that are new in the index.
    pub sessions: u64,
    /// Transcripts and archives that were copied.
    pub files: u64,
    /// Messages in them.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sessions that were here already.
    pub known_sessions: u64,
    /// Files that were here already.
    pub known_files: u64,
    /// What was not taken over, or not as it was.
    pub left_out: Vec<LeftOut>,
}

impl AgentImport {
    pub(super) fn leave_out(&mut self, what: &dyn Display, why: &dyn Display) {
        let one = LeftOut { what: what.to_string(), why: why.to_string() };
        // Looking at a file and copying it may fail for the same reason.
        if !self.left_out.contains(&one) {
            self.left_out.push(one);
        }
    }
}

/// What was taken over of all agents.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportReport {
    /// By agent, in order of their ids.
    pub agents: Vec<AgentImport>,
    /// What belongs to no agent.
    pub left_out: Vec<LeftOut>,
    /// The indexes that were written here, which are no work of an OpenClaw.
    #[serde(skip)]
    pub brought: Vec<SourceNote>,
    /// Ids of transcripts whose sessions are here now, and when each had changed last there.
    #[serde(skip)]
    pub seen: Vec<(String, u64)>,
}

impl ImportReport {
    /// Everything that was not taken over, or not as it was.
    pub fn all_left_out(&self) -> impl Iterator<Item = &LeftOut> {
        self.agents.iter().flat_map(|agent| &agent.left_out).chain(&self.left_out)
    }
}
