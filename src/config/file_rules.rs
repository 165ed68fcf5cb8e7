//! `tools.fs` and `tools.exec.applyPatch`: how far the tools for files reach.

use std::path::Path;

use super::explain::{Choice, Ledger};
use super::schema::Node;
use super::{ConfigError, Settings};

/// As in the original: other tools may go where the gateway may.
const WORKSPACE_ONLY: bool = false;
/// As in the original.
const PATCH_ENABLED: bool = true;
/// As in the original: a patch stays in the workspace unless said otherwise.
const PATCH_WORKSPACE_ONLY: bool = true;

/// What an agent, or the file as a whole, says about files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileRules {
    /// `fs.workspaceOnly`: no file tool leaves the workspace.
    pub workspace_only: Option<bool>,
    /// `exec.applyPatch.enabled`: whether there is the tool `apply_patch`.
    pub patch_enabled: Option<bool>,
    /// `exec.applyPatch.workspaceOnly`: whether it stays in the workspace.
    pub patch_workspace_only: Option<bool>,
}

impl FileRules {
    /// What holds for an agent: its own rules before those of all.
    pub fn of(settings: &Settings, own: &Self) -> Self {
        let all = &settings.tools.policy.files;
        Self {
            workspace_only: own.workspace_only.or(all.workspace_only),
            patch_enabled: own.patch_enabled.or(all.patch_enabled),
            patch_workspace_only: own.patch_workspace_only.or(all.patch_workspace_only),
        }
    }

    /// Whether the agent is kept to its workspace.
    pub fn is_workspace_only(&self) -> bool {
        self.workspace_only.unwrap_or(WORKSPACE_ONLY)
    }

    /// Whether there is `apply_patch`.
    pub fn has_patch(&self) -> bool {
        self.patch_enabled.unwrap_or(PATCH_ENABLED)
    }

    /// Whether a patch is kept to the workspace.
    pub fn is_patch_workspace_only(&self) -> bool {
        self.is_workspace_only() || self.patch_workspace_only.unwrap_or(PATCH_WORKSPACE_ONLY)
    }
}

/// The rules in a `tools` member.
pub(super) fn read(tools: &Node<'_>) -> Result<FileRules, ConfigError> {
    Ok(FileRules {
        workspace_only: tools.at("fs.workspaceOnly")?.boolean()?,
        patch_enabled: tools.at("exec.applyPatch.enabled")?.boolean()?,
        patch_workspace_only: tools.at("exec.applyPatch.workspaceOnly")?.boolean()?,
    })
}

/// Lists what holds for every agent.
pub(super) fn explain(rules: FileRules, file: &Path, ledger: &mut Ledger) {
    for (key, written, standard) in [
        ("tools.fs.workspaceOnly", rules.workspace_only, WORKSPACE_ONLY),
        ("tools.exec.applyPatch.enabled", rules.patch_enabled, PATCH_ENABLED),
        ("tools.exec.applyPatch.workspaceOnly", rules.patch_workspace_only, PATCH_WORKSPACE_ONLY),
    ] {
        ledger.settle(key, Choice::file(file, written), standard);
    }
}
