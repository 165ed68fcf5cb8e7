//! `artifacts.*`.

use crate::protocol::decode::{Fields, Params, non_empty};

/// Params of `artifacts.list`: at least one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactsListParams {
    /// Those of this session.
    pub session_key: Option<String>,
    /// Those of this run.
    pub run_id: Option<String>,
    /// Those of this task: a run, or a sub-agent.
    pub task_id: Option<String>,
}

impl Params for ArtifactsListParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            session_key: f.optional("sessionKey", non_empty()),
            run_id: f.optional("runId", non_empty()),
            task_id: f.optional("taskId", non_empty()),
        }
    }
}

/// Params of `artifacts.get` and `artifacts.download`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactParams {
    /// Whose.
    pub scope: ArtifactsListParams,
    /// Which one.
    pub artifact_id: String,
}

impl Params for ArtifactParams {
    fn read(f: &mut Fields) -> Self {
        let scope = ArtifactsListParams::read(f);
        Self { scope, artifact_id: f.required("artifactId", non_empty()) }
    }
}
