//! The trash of the user: `~/.Trash`, or one in the state directory.
//!
//! Promises: what is moved there can be moved back; nothing is deleted, and
//! nothing there is replaced.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::store::atomic::create_private_dir;

/// What it is called.
const TRASH: &str = ".Trash";
/// So many folders of one name can go in one millisecond.
const TRIES: usize = 100;

/// Moves what is at `path` there, and answers where it is now; `None` when
/// nothing is there. Where it cannot be moved there, as to another file system or by a
/// service that may write nowhere else, it goes to the `.Trash` in `near`.
///
/// # Errors
/// When it can be moved to neither; it stays then.
pub fn throw_away(
    path: &Path,
    home: &Path,
    near: &Path,
    now_ms: u64,
) -> io::Result<Option<PathBuf>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map(|_| ())?,
    }
    let moved = move_into(&home.join(TRASH), path, now_ms);
    moved
        .or_else(|error| {
            let trash = near.join(TRASH);
            // An agent may have made it, to have its files moved elsewhere.
            if trash.is_symlink() {
                return Err(error);
            }
            move_into(&trash, path, now_ms).map_err(|_| error)
        })
        .map(Some)
}

fn move_into(trash: &Path, path: &Path, now_ms: u64) -> io::Result<PathBuf> {
    create_private_dir(trash).map_err(io::Error::other)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for count in 0..TRIES {
        let suffix = if count == 0 { String::new() } else { format!("-{count}") };
        let place = trash.join(format!("{name}-{now_ms}{suffix}"));
        if fs::symlink_metadata(&place).is_err() {
            fs::rename(path, &place)?;
            return Ok(place);
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "the trash is full of this name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_thrown_away_lies_in_the_trash_beside_what_was_there() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("ws");
        let mut places = Vec::new();
        for text in ["one", "two"] {
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("a"), text).unwrap();
            places.push(throw_away(&dir, home.path(), home.path(), 7).unwrap().unwrap());
        }
        assert_eq!(fs::read_to_string(places[0].join("a")).unwrap(), "one");
        assert_eq!(fs::read_to_string(places[1].join("a")).unwrap(), "two");
        assert_eq!(throw_away(&dir, home.path(), home.path(), 7).unwrap(), None);
    }

    #[test]
    fn what_cannot_go_to_the_trash_of_the_user_goes_to_one_that_is_near() {
        let home = tempfile::tempdir().unwrap();
        // No folder can be made there, whoever asks.
        fs::write(home.path().join(TRASH), "a file").unwrap();
        let state = home.path().join("state");
        fs::create_dir_all(state.join("ws")).unwrap();
        let place = throw_away(&state.join("ws"), home.path(), &state, 7).unwrap().unwrap();
        assert_eq!(place, state.join(".Trash/ws-7"));
        assert!(place.is_dir() && !state.join("ws").exists());
        // Nor does it go to where a link leads.
        let linked = home.path().join("linked");
        fs::create_dir_all(linked.join("ws")).unwrap();
        std::os::unix::fs::symlink(&state, linked.join(TRASH)).unwrap();
        throw_away(&linked.join("ws"), home.path(), &linked, 7).unwrap_err();
        assert!(linked.join("ws").is_dir());
    }
}
