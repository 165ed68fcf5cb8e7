//! What a confined command can read and change.
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
    let mut sight =
        Sight { folders: reals(&private.folders), files: reals(&private.files), seen: 0 };
    let mut places = Vec::new();
    sight.cover(Path::new("/"), &mut places)?;
    places.extend(opened(private, private.open.iter().chain(writable))?);
    Ok(places)
}

/// The places of `wanted` that may be changed. One that holds something private
/// is taken apart: what lies beside that may be changed, and nothing may be made
/// there.
pub fn writable(private: &PrivatePlaces, wanted: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    opened(private, wanted.iter())
}

/// Whether a folder is, or lies in, another.
pub fn lies_in(folder: &Path, other: &Path) -> bool {
    real(folder).starts_with(real(other))
}

/// These places without what is private in them. What they lie in may be
/// private, and yet they are open.
fn opened<'a>(
    private: &PrivatePlaces,
    wanted: impl Iterator<Item = &'a PathBuf>,
) -> io::Result<Vec<PathBuf>> {
    let (folders, closed) = (reals(&private.folders), reals(&private.closed));
    let (files, mut places) = (reals(&private.files), Vec::new());
    for place in wanted.map(|it| real(it)) {
        let is_inside = |folder: &&PathBuf| folder.starts_with(&place) && **folder != place;
        let inner = folders.iter().filter(is_inside).chain(&closed).cloned();
        let mut sight = Sight { folders: inner.collect(), files: files.clone(), seen: 0 };
        sight.cover(&place, &mut places)?;
    }
    Ok(places)
}

fn reals(places: &[PathBuf]) -> Vec<PathBuf> {
    places.iter().map(|it| real(it)).collect()
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

    #[test]
    fn what_is_private_below_a_writable_place_is_not_writable_and_its_neighbours_are() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for folder in ["tmp/state/workspace/credentials", "tmp/other"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in ["tmp/state/token", "tmp/state/workspace/notes", "tmp/other/text"] {
            fs::write(at(file), "x").unwrap();
        }
        fs::write(at("tmp/state/workspace/credentials/key"), "x").unwrap();
        let private = PrivatePlaces {
            folders: vec![at("tmp/state")],
            open: vec![at("tmp/state/workspace")],
            closed: vec![at("tmp/state/workspace/credentials")],
            ..PrivatePlaces::default()
        };
        let wanted = [at("tmp/state/workspace"), at("tmp")];
        let places = writable(&private, &wanted).unwrap();
        for file in ["tmp/state/workspace/notes", "tmp/other/text"] {
            assert!(sees(&places, &at(file)), "{file} may be changed");
        }
        for file in ["tmp/state/token", "tmp/state/workspace/credentials/key"] {
            assert!(!sees(&places, &at(file)), "{file} may not be changed");
        }
        // It is open for reading, and nobody wants it to be writable.
        let only_temporary = writable(&private, &[at("tmp")]).unwrap();
        assert!(!sees(&only_temporary, &at("tmp/state/workspace/notes")));
        assert!(lies_in(&at("tmp/state"), &at("tmp")) && !lies_in(&at("tmp"), &at("tmp/state")));
    }
}
