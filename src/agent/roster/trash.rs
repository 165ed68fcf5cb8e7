//! The trash of the user: `~/.Trash`.
//!
//! Promises: what is moved there can be moved back; nothing is deleted, and
//! nothing there is replaced.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::store::atomic::create_private_dir;

/// So many folders of one name can go in one millisecond.
const TRIES: usize = 100;

/// Moves what is at `path` there, and answers where it is now; `None` when
/// nothing is there.
///
/// # Errors
/// When it cannot be moved, as from another file system; it stays then.
pub fn throw_away(path: &Path, home: &Path, now_ms: u64) -> io::Result<Option<PathBuf>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map(|_| ())?,
    }
    let trash = home.join(".Trash");
    create_private_dir(&trash).map_err(io::Error::other)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for count in 0..TRIES {
        let suffix = if count == 0 { String::new() } else { format!("-{count}") };
        let place = trash.join(format!("{name}-{now_ms}{suffix}"));
        if fs::symlink_metadata(&place).is_err() {
            fs::rename(path, &place)?;
            return Ok(Some(place));
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
            places.push(throw_away(&dir, home.path(), 7).unwrap().unwrap());
        }
        assert_eq!(fs::read_to_string(places[0].join("a")).unwrap(), "one");
        assert_eq!(fs::read_to_string(places[1].join("a")).unwrap(), "two");
        assert_eq!(throw_away(&dir, home.path(), 7).unwrap(), None);
    }
}
