//! Forgetting: all files that are memory go to the trash of the gateway's user.

use std::path::Path;

use super::files::{self, FOLDER, ROOT_FILES};
use crate::agent::reach::{Reach, ReachError};
use crate::agent::roster::throw_away;

/// Why memory is not cleared, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum ClearError {
    /// The files cannot be looked at.
    #[error("memory files: {0}")]
    Files(#[from] ReachError),
    /// There is no home folder, so no trash.
    #[error("there is no home folder whose trash could take the files")]
    NoHome,
    /// They cannot be moved.
    #[error("memory is not cleared: {0}")]
    Move(#[from] std::io::Error),
}

/// Moves the memory of a workspace to `~/.Trash`, or to `.Trash` in the workspace where
/// that cannot be, from where it can be taken back;
/// answers how many files of memory there were. The next search finds none of
/// them. Blocks.
///
/// # Errors
/// When they cannot be looked at or moved; what was moved before stays there.
pub fn clear(reach: &Reach, home: Option<&Path>, now_ms: u64) -> Result<usize, ClearError> {
    let found = files::list(&reach.limited(true))?;
    if found.is_empty() {
        return Ok(0);
    }
    let home = home.ok_or(ClearError::NoHome)?;
    for name in ROOT_FILES.iter().chain([&FOLDER]) {
        throw_away(&reach.workspace().join(name), home, reach.workspace(), now_ms)?;
    }
    Ok(found.len())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::agent::reach::testing::Scene;

    #[test]
    fn what_was_remembered_lies_in_the_trash_and_the_rest_stays() {
        let scene = Scene::new();
        for file in ["MEMORY.md", "memory/a.md", "memory/old/b.md", "AGENTS.md"] {
            scene.put(file, file);
        }
        let home = scene.at_home("");
        let clear = |now_ms| clear(&scene.reach(false), Some(&home), now_ms).unwrap();
        assert_eq!(clear(7), 3);
        assert!(scene.path("AGENTS.md").exists() && !scene.path("memory").exists());
        let kept = fs::read_to_string(scene.at_home(".Trash/memory-7/old/b.md")).unwrap();
        assert_eq!(kept, "memory/old/b.md");
        assert_eq!(clear(8), 0, "there is nothing more");
    }
}
