//! What every line of a session says of it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The version of Claude Code whose lines and frames these are.
pub const CLAUDE_CODE_VERSION: &str = "2.1.62";

/// What Claude Code calls the branch where there is none.
const NO_BRANCH: &str = "HEAD";
/// A file named `HEAD` or `.git` is one short line.
const GIT_FILE_MAX: u64 = 4096;

/// What the lines of one session have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFacts {
    /// `sessionId`: ours, or for a sub-agent that of the session that asked.
    pub session_id: String,
    /// The folder that the session works in.
    pub cwd: String,
    /// See [`git_branch`].
    pub git_branch: String,
    /// `default`, `acceptEdits`, `plan` or `bypassPermissions`.
    pub permission_mode: String,
    /// What is different when the session is a sub-agent's.
    pub sidechain: Option<Sidechain>,
    /// Ids of the compaction entries that a person asked for; others are
    /// automatic.
    pub manual_compactions: Vec<String>,
}

impl SessionFacts {
    /// A session in this folder, of which nothing else is known. Does not touch
    /// the disk.
    pub fn new(session_id: impl Into<String>, cwd: impl Into<String>) -> Self {
        Self {
            session_id: session_id.into(),
            cwd: cwd.into(),
            git_branch: NO_BRANCH.into(),
            permission_mode: "default".into(),
            sidechain: None,
            manual_compactions: Vec::new(),
        }
    }
}

/// A conversation beside the main one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidechain {
    /// Id of its own transcript, which its ids are made from.
    pub own_session_id: String,
    /// See [`super::Ids::agent`].
    pub agent_id: String,
    /// The call that began it, for live frames.
    pub parent_tool_use_id: Option<String>,
}

/// The branch that a folder is on, `HEAD` where there is none. Reads two small
/// files at most; to be called where that may block.
pub fn git_branch(folder: &Path) -> String {
    let head = folder.ancestors().find_map(|folder| {
        let git = folder.join(".git");
        read(&git.join("HEAD")).or_else(|| {
            // A work tree has a file that says where its folder is.
            let place = read(&git)?;
            read(&folder.join(place.strip_prefix("gitdir:")?.trim()).join("HEAD"))
        })
    });
    let branch = head.as_deref().and_then(|head| head.trim().strip_prefix("ref: refs/heads/"));
    branch.unwrap_or(NO_BRANCH).to_owned()
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(GIT_FILE_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The name of the folder below `projects` for sessions that work in `cwd`.
pub fn slug(cwd: &str) -> String {
    cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_branch_is_found_from_below_and_in_work_trees() {
        let home = tempfile::tempdir().unwrap();
        let (repo, tree) = (home.path().join("repo"), home.path().join("tree"));
        fs::create_dir_all(repo.join(".git/worktrees/tree")).unwrap();
        fs::create_dir_all(repo.join("a/b")).unwrap();
        fs::create_dir(&tree).unwrap();
        fs::write(repo.join(".git/HEAD"), "ref: refs/heads/feature/x\n").unwrap();
        assert_eq!(git_branch(&repo.join("a/b")), "feature/x");
        fs::write(
            tree.join(".git"),
            format!("gitdir: {}\n", repo.join(".git/worktrees/tree").display()),
        )
        .unwrap();
        fs::write(repo.join(".git/worktrees/tree/HEAD"), "ref: refs/heads/other\n").unwrap();
        assert_eq!(git_branch(&tree), "other");
        fs::write(repo.join(".git/HEAD"), "8bde4e3c\n").unwrap();
        assert_eq!(git_branch(&repo), "HEAD");
    }

    #[test]
    fn a_slug_is_the_path_with_dashes() {
        assert_eq!(slug("/tmp/my.app_v2"), "-tmp-my-app-v2");
    }
}
