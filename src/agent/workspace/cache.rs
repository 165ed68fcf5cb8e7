//! Texts of files that have not changed since they were read.
//!
//! Owns: the cache. Promises: a text is never older than the file, as far as
//! size, time and inode tell; memory is bounded.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::BootstrapFile;
use super::files::{self, FilesError, Stamp};
use crate::agent::reach::Guard;

/// Larger files are read again each time; they are rare.
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Eight files of 64 agents; then the cache begins anew.
const MAX_TEXTS: usize = 512;

/// Texts by path.
#[derive(Default)]
pub struct Texts(Mutex<HashMap<PathBuf, (Stamp, Arc<str>)>>);

impl Texts {
    /// The text of `file` in `dir`; `None` when it is not there.
    pub fn read(
        &self,
        dir: &Path,
        file: BootstrapFile,
        guard: &Guard,
    ) -> Result<Option<Arc<str>>, FilesError> {
        let Some(opened) = files::open(dir, file, guard)? else { return Ok(None) };
        let (path, stamp) = (dir.join(file.name()), Stamp::of(&opened.metadata));
        if let Some((known, text)) = self.0.lock().get(&path)
            && *known == stamp
        {
            return Ok(Some(Arc::clone(text)));
        }
        let text: Arc<str> = files::text(opened, file)?.into();
        let mut texts = self.0.lock();
        if text.len() > MAX_TEXT_BYTES {
            texts.remove(&path);
        } else {
            if texts.len() >= MAX_TEXTS {
                texts.clear();
            }
            texts.insert(path, (stamp, Arc::clone(&text)));
        }
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::agent::reach::testing::Scene;

    #[test]
    fn an_unchanged_file_is_read_once_and_a_changed_one_again() {
        let root = tempfile::tempdir().unwrap();
        let texts = Texts::default();
        let guard = Guard::new(&Scene::new().settings);
        let read = || texts.read(root.path(), BootstrapFile::Soul, &guard).unwrap();
        assert_eq!(read(), None);
        fs::write(root.path().join("SOUL.md"), "one").unwrap();
        let (first, second) = (read().unwrap(), read().unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        fs::write(root.path().join("SOUL.md"), "other").unwrap();
        assert_eq!(&*read().unwrap(), "other");
        fs::write(root.path().join("SOUL.md"), "x".repeat(MAX_TEXT_BYTES + 1)).unwrap();
        let (first, second) = (read().unwrap(), read().unwrap());
        assert!(!Arc::ptr_eq(&first, &second));
        fs::remove_file(root.path().join("SOUL.md")).unwrap();
        assert_eq!(read(), None);
    }
}
