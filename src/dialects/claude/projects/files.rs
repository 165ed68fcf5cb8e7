//! Files below the folder, and nothing else.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use std::os::unix::fs::MetadataExt;
use uuid::Uuid;

/// The folder. Links that lead out of it cannot be opened.
pub(super) struct Folder(Dir);

/// A file that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// Bytes.
    pub length: u64,
    /// Milliseconds since the epoch.
    pub modified_ms: u64,
}

impl Folder {
    /// Opens it; `None` when it is not there.
    pub(super) fn open(place: &Path) -> io::Result<Option<Self>> {
        match Dir::open_ambient_dir(place, ambient_authority()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(|dir| Some(Self(dir))),
        }
    }

    /// The names of the folders in it; links are none.
    pub(super) fn projects(&self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in self.0.entries()? {
            let entry = entry?;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            found.extend(entry.file_name().into_string().ok().filter(|_| is_folder));
        }
        Ok(found)
    }

    /// The ids of the sessions in a project.
    pub(super) fn sessions(&self, project: &str) -> Vec<String> {
        // A project that goes away meanwhile has none.
        let Ok(entries) = self.0.read_dir(project) else { return Vec::new() };
        let id = |name: String| session_id(name.strip_suffix(".jsonl")?);
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(id).collect()
    }

    /// Looks at a file; `None` for what is none, and for a link.
    pub(super) fn look(&self, file: &Path) -> Option<Seen> {
        let about = self.0.symlink_metadata(file).ok().filter(cap_std::fs::Metadata::is_file)?;
        let modified = about.modified().ok()?.into_std().duration_since(UNIX_EPOCH).ok()?;
        let modified_ms = u64::try_from(modified.as_millis()).ok()?;
        Some(Seen { length: about.len(), modified_ms })
    }

    /// Opens a file for reading; `None` when it is not there (any more).
    pub(super) fn file(&self, file: &Path) -> io::Result<Option<File>> {
        // To open a pipe would never end.
        if self.look(file).is_none() {
            return Ok(None);
        }
        match self.0.open(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(|file| Some(file.into_std())),
        }
    }
}

/// Which file it is, whatever it is called.
pub(super) fn identity(file: &File) -> io::Result<(u64, u64)> {
    let about = file.metadata()?;
    Ok((about.dev(), about.ino()))
}

/// The id of a session; `None` for what is none, such as a path.
pub(super) fn session_id(text: &str) -> Option<String> {
    let id = Uuid::try_parse(text).ok()?.hyphenated().to_string();
    // Other spellings of a uuid are no names of files.
    (id == text.to_ascii_lowercase()).then(|| text.to_owned())
}

/// The file of a session.
pub(super) fn path(project: &str, id: &str) -> PathBuf {
    Path::new(project).join(format!("{id}.jsonl"))
}
