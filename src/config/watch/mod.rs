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

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use sha2::{Digest, Sha256};

#[cfg(target_os = "linux")]
pub use inotify::Watch;
#[cfg(not(target_os = "linux"))]
pub use poll::Watch;

/// No config file is as large; keeps a wrong path from being read for ever.
const FILE_LIMIT: u64 = 16 * 1024 * 1024;

/// Stands for what is in the files now, since when, and for which of them there are: what
/// was there for a moment may have been read, though it is now as it was before. Blocks.
pub fn fingerprint(files: &[PathBuf]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for file in files {
        let mut text = Vec::new();
        let read = File::open(file).and_then(|file| {
            let since = file.metadata()?.modified()?;
            Ok((file.take(FILE_LIMIT).read_to_end(&mut text)?, since))
        });
        // Each part says how long it is, so that none passes for another one.
        match read {
            Ok((length, since)) => digest.update(format!("file {length} {since:?}\n")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => digest.update("none\n"),
            Err(error) => digest.update(format!("unreadable {:?}\n", error.kind())),
        }
        digest.update(&text);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::fs::{File, write};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_file_that_is_as_it_was_before_shows_that_it_was_another_one() {
        let home = tempfile::tempdir().unwrap();
        let files = [home.path().join("c.json"), home.path().join("other")];
        let none = fingerprint(&files);
        let put = |text: &str, at: u64| {
            write(&files[0], text).unwrap();
            let file = File::options().write(true).open(&files[0]).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(at)).unwrap();
            fingerprint(&files)
        };
        let first = put("{}", 1);
        assert!(first != none && put("{}", 1) == first);
        assert!(put("[]", 1) != first && put("{}", 2) != first);
    }
}
