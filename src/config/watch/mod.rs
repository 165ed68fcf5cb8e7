//! Notices that config files have changed.
//!
//! Owns: which folders have to be looked at for a file, and how the system tells
//! of them. Promises: a file that is written, replaced, removed or reached by
//! another link is noticed, also when an editor renames a new one over it or a
//! folder of mounted files is exchanged below it. Must not: read what is in the
//! files, but for [`fingerprint`].

#[cfg(target_os = "linux")]
mod inotify;
mod places;
#[cfg(not(target_os = "linux"))]
mod poll;

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::support::open_file;

#[cfg(target_os = "linux")]
pub use inotify::Watch;
#[cfg(not(target_os = "linux"))]
pub use poll::Watch;

use places::places;

/// No config file is as large; keeps a wrong path from being read for ever.
const FILE_LIMIT: u64 = 16 * 1024 * 1024;

/// How often files are read at once while somebody goes on changing them.
pub const MOST_READS: usize = 3;
/// Stands for no files at all.
pub const UNKNOWN: [u8; 32] = [0; 32];

/// Files at one moment. Of two that are the same nobody has changed them in between: those
/// that were others meanwhile are told apart though they say what they said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Their [`fingerprint`].
    pub print: [u8; 32],
    /// What is there by each name that decides what they are, and when it was changed last.
    changed: Vec<Option<(u64, i64, i64)>>,
}

impl Seen {
    /// As they are now. Blocks.
    pub fn of(files: &[PathBuf]) -> Self {
        let changed = |path: PathBuf| {
            let found = fs::symlink_metadata(path).ok()?;
            Some((found.ino(), found.ctime(), found.ctime_nsec()))
        };
        let places = places(files).into_iter();
        let names =
            places.flat_map(|(folder, names)| names.into_iter().map(move |name| folder.join(name)));
        // Before they are read: what is changed after this is seen by the next.
        let changed = names.map(changed).collect();
        Self { print: fingerprint(files), changed }
    }
}

/// Stands for what is in the files now, and for which of them there are. Blocks.
pub fn fingerprint(files: &[PathBuf]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for file in files {
        let mut text = Vec::new();
        let read = open_file(file).and_then(|file| file.take(FILE_LIMIT).read_to_end(&mut text));
        // Each part says how long it is, so that none passes for another one.
        match read {
            Ok(length) => digest.update(format!("file {length}\n")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => digest.update("none\n"),
            Err(error) => digest.update(format!("unreadable {:?}\n", error.kind())),
        }
        digest.update(&text);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_was_something_else_in_between_is_not_what_it_was() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let files = [path("c")];
        let before = Seen::of(&files);
        fs::write(path("1"), "A").unwrap();
        symlink("1", path("c")).unwrap();
        let first = Seen::of(&files);
        assert_ne!(first, before);
        assert_eq!(Seen::of(&files), first);
        // By another file, and the one of before again. What is replaced stays: a new one does
        // not get its number.
        fs::write(path("2"), "B").unwrap();
        for target in ["2", "1"] {
            fs::rename(path("c"), path(&format!("before-{target}"))).unwrap();
            symlink(target, path("c")).unwrap();
        }
        let again = Seen::of(&files);
        assert_eq!(again.print, first.print);
        assert_ne!(again, first);
        // By another text, and that of before again.
        for text in ["B", "A"] {
            fs::rename(path("1"), path(&format!("before-{text}"))).unwrap();
            fs::write(path("1"), text).unwrap();
        }
        assert_eq!(Seen::of(&files).print, first.print);
        assert_ne!(Seen::of(&files), again);
    }
}
