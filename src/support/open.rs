//! Files that somebody else has put there.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// An empty file, wherever one is wanted.
const NOTHING: &str = "/dev/null";

/// Opens a file to read it, be it `/dev/null`, and nothing else: at a pipe one would wait for
/// ever.
///
/// # Errors
/// When it does not open, or is no file.
pub fn open_file(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    let found = file.metadata()?;
    if found.is_file() || is_nothing(&found) {
        Ok(file)
    } else {
        Err(io::Error::other("it is no file"))
    }
}

/// Whether this is `/dev/null`, by whatever name.
fn is_nothing(found: &Metadata) -> bool {
    found.file_type().is_char_device()
        && fs::metadata(NOTHING).is_ok_and(|nothing| nothing.rdev() == found.rdev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_at_a_pipe_and_a_folder_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        std::fs::write(&file, "text").unwrap();
        for other in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            assert_eq!(open_file(other).unwrap_err().to_string(), "it is no file");
        }
        let gone = open_file(&folder.path().join("gone")).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        assert_eq!(io::read_to_string(open_file(&file).unwrap()).unwrap(), "text");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(NOTHING, &link).unwrap();
        assert_eq!(io::read_to_string(open_file(&link).unwrap()).unwrap(), "");
    }
}
