//! What a confined command can read.
//!
//! Owns: which places that are, when those of the gateway are not among them.
//! Promises: nothing that is private is among them, under whatever name it is
//! reached. Must not: enforce it.
//!
//! The kernel only knows what is allowed. So where something private lies, its
//! neighbours are allowed, and the neighbours of each folder above it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::agent::reach::PrivatePlaces;

/// Neighbours that are looked at; each costs the start of a command some
/// microseconds and a rule in the kernel.
const NEIGHBOURS_MAX: usize = 20_000;

/// All places that may be read, and `writable` with them. What is made beside
/// something private later is not among them.
pub fn readable(private: &PrivatePlaces, writable: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let folders: Vec<PathBuf> = private.folders.iter().map(|it| real(it)).collect();
    let mut sight =
        Sight { folders, files: private.files.iter().map(|it| real(it)).collect(), seen: 0 };
    let mut places = Vec::new();
    sight.cover(Path::new("/"), &mut places)?;
    let closed = private.closed.iter().map(|it| real(it));
    let open: Vec<PathBuf> = private.open.iter().chain(writable).map(|it| real(it)).collect();
    for place in open {
        // What it lies in is private, and yet it is open.
        let is_inside = |folder: &PathBuf| folder.starts_with(&place) && *folder != place;
        let inner = sight.folders.iter().filter(|folder| is_inside(folder)).cloned();
        let folders = inner.chain(closed.clone()).collect();
        let mut of_open = Sight { folders, files: sight.files.clone(), seen: 0 };
        of_open.cover(&place, &mut places)?;
    }
    Ok(places)
}

struct Sight {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
    seen: usize,
}

impl Sight {
    /// Adds this place, or those parts of it that are not private.
    fn cover(&mut self, place: &Path, places: &mut Vec<PathBuf>) -> io::Result<()> {
        if self.folders.iter().any(|it| place.starts_with(it)) || self.is_file(place) {
            return Ok(());
        }
        let has_private = |it: &PathBuf| it.starts_with(place);
        if !self.folders.iter().chain(&self.files).any(has_private) {
            places.push(place.to_owned());
            return Ok(());
        }
        // A folder that cannot be listed has nothing to offer.
        let Ok(entries) = fs::read_dir(place) else { return Ok(()) };
        for entry in entries {
            self.seen += 1;
            if self.seen > NEIGHBOURS_MAX {
                let place = place.display();
                return Err(io::Error::other(format!(
                    "too many files lie beside those of the gateway (in {place}) to hide them"
                )));
            }
            let entry = entry?;
            // Where a link leads is judged there.
            if !entry.file_type()?.is_symlink() {
                self.cover(&entry.path(), places)?;
            }
        }
        Ok(())
    }

    /// Names that begin so are its backups and journals.
    fn is_file(&self, place: &Path) -> bool {
        let name = |path: &Path| path.file_name().map(|it| it.as_encoded_bytes().to_vec());
        self.files.iter().any(|file| {
            file.parent() == place.parent()
                && name(file)
                    .zip(name(place))
                    .is_some_and(|(own, this)| this.starts_with(own.as_slice()))
        })
    }
}

/// The path without links, as far as it is there.
fn real(path: &Path) -> PathBuf {
    if let Ok(path) = fs::canonicalize(path) {
        return path;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Whether a file is in one of the places, as the kernel would say it.
    fn sees(places: &[PathBuf], file: &Path) -> bool {
        let file = fs::canonicalize(file).unwrap();
        places.iter().any(|place| file.starts_with(place))
    }

    #[test]
    fn neighbours_are_seen_and_what_is_private_is_not() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for folder in ["home/state/workspace/credentials", "home/state/agents", "home/other"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        let files = [
            "home/state/token",
            "home/state/workspace/notes",
            "home/state/workspace/credentials/key",
            "home/other/text",
            "home/openclaw.json",
            "home/openclaw.json.bak",
            "home/open",
        ];
        for file in files {
            fs::write(at(file), "x").unwrap();
        }
        symlink(at("home/state"), at("home/link")).unwrap();
        symlink(at("home/state/token"), at("home/other/token")).unwrap();
        symlink(at("home"), at("by-link")).unwrap();
        let private = PrivatePlaces {
            folders: vec![at("by-link/state")],
            files: vec![at("by-link/openclaw.json")],
            open: vec![at("by-link/state/workspace")],
            closed: vec![at("home/state/workspace/credentials")],
        };
        let places = readable(&private, &[]).unwrap();
        for file in ["home/state/workspace/notes", "home/other/text", "home/open"] {
            assert!(sees(&places, &at(file)), "{file} is seen");
        }
        for file in [
            "home/state/token",
            "home/state/workspace/credentials/key",
            "home/openclaw.json",
            "home/openclaw.json.bak",
            "home/link/token",
            "home/other/token",
            "by-link/state/token",
        ] {
            assert!(!sees(&places, &at(file)), "{file} is not seen");
        }
        assert!(sees(&places, Path::new("/etc/passwd")));
    }

    #[test]
    fn what_is_writable_is_seen_even_when_the_state_lies_there() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("state")).unwrap();
        fs::create_dir_all(at("work")).unwrap();
        fs::write(at("state/token"), "x").unwrap();
        fs::write(at("work/mine"), "x").unwrap();
        let private = PrivatePlaces { folders: vec![at("state")], ..PrivatePlaces::default() };
        let places = readable(&private, &[root.path().to_owned()]).unwrap();
        assert!(sees(&places, &at("work/mine")));
        assert!(!sees(&places, &at("state/token")));
    }
}
