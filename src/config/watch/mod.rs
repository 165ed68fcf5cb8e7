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

use std::io::{self, Read};
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::support::open_file;

#[cfg(target_os = "linux")]
pub use inotify::Watch;
#[cfg(not(target_os = "linux"))]
pub use poll::Watch;

/// No config file is as large; keeps a wrong path from being read for ever.
const FILE_LIMIT: u64 = 16 * 1024 * 1024;

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
