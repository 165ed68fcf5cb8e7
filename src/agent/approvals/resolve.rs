//! Which file a command's first word is.
//!
//! Owns: the search along `PATH`, and which files are no ground for a standing
//! permission. Promises: what is found is named without symbolic links. Must
//! not: run anything.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Writable by everybody.
const OTHERS_WRITE: u32 = 0o002;
/// Executable by somebody.
const EXECUTABLE: u32 = 0o111;
/// Programs that are many programs: which one, their name decides.
const MANY_IN_ONE: [&str; 4] = ["busybox", "toybox", "coreutils", "uutils"];

/// A program on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The word it was found by.
    pub word: String,
    /// Its absolute path, as it was found.
    pub path: PathBuf,
    /// The same without symbolic links.
    pub real: PathBuf,
}

impl Found {
    /// Finds the program that this word starts in `cwd` with this `PATH`.
    pub fn find(word: &str, cwd: &Path, search: Option<&str>) -> Option<Self> {
        if word.contains('/') {
            return Self::at(word, &cwd.join(word));
        }
        // A relative place in PATH depends on where one stands; what stands
        // there is not what was meant.
        let places = search?.split(':').map(Path::new).take_while(|place| place.is_absolute());
        places.map(|place| place.join(word)).find_map(|path| Self::at(word, &path))
    }

    fn at(word: &str, path: &Path) -> Option<Self> {
        let real = fs::canonicalize(path).ok()?;
        let file = fs::metadata(&real).ok()?;
        let runs = file.is_file() && file.permissions().mode() & EXECUTABLE != 0;
        runs.then(|| Self { word: word.to_owned(), path: tidy(path), real })
    }

    /// Every name that it goes by.
    pub fn names(&self) -> Vec<&str> {
        let real = Some(&self.real).filter(|_| !self.is_many_in_one());
        let paths = [Some(Path::new(&self.word)), Some(&self.path), real.map(|real| &**real)];
        paths.into_iter().flatten().filter_map(name_of).collect()
    }

    /// Whether its file holds many programs, so that its path says nothing.
    pub fn is_many_in_one(&self) -> bool {
        name_of(&self.real).is_some_and(|real| MANY_IN_ONE.contains(&real))
    }

    /// Whether somebody who is not asked may put another program in its place.
    pub fn is_changeable(&self, workspaces: &[PathBuf]) -> bool {
        [&self.path, &self.real].into_iter().any(|path| is_changeable(path, workspaces))
    }
}

/// Whether somebody who is not asked may change what is there: an agent in a workspace,
/// anybody in a directory open to all.
pub(super) fn is_changeable(path: &Path, workspaces: &[PathBuf]) -> bool {
    let is_within = workspaces.iter().any(|it| path.starts_with(real(it)));
    let is_open = path.ancestors().any(|place| {
        fs::symlink_metadata(place)
            .map_or(true, |it| !it.file_type().is_symlink() && it.mode() & OTHERS_WRITE != 0)
    });
    is_within || is_open
}

/// The path without links; where nothing is there, that of its folder with its name.
pub(super) fn real(path: &Path) -> PathBuf {
    let of_folder = || Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    fs::canonicalize(path).ok().or_else(of_folder).unwrap_or_else(|| path.to_owned())
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name().and_then(std::ffi::OsStr::to_str)
}

/// Without `.` and `..`, which say nothing about the file that was found.
fn tidy(path: &Path) -> PathBuf {
    let is_plain = |part: std::path::Component<'_>| {
        !matches!(part, std::path::Component::CurDir | std::path::Component::ParentDir)
    };
    if path.components().all(is_plain) {
        path.components().collect()
    } else {
        fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
    }
}

#[cfg(test)]
pub(super) mod testing {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::{Path, PathBuf};

    use super::OTHERS_WRITE;

    pub fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Not below a directory that is open to all, as that for temporary files is:
    /// beside the sources, or at home when they are in such a place.
    pub fn closed_dir() -> tempfile::TempDir {
        let homes = std::env::var_os("HOME").map(PathBuf::from);
        let is_closed = |path: &PathBuf| {
            let mode = |place: &Path| fs::metadata(place).map_or(OTHERS_WRITE, |it| it.mode());
            path.ancestors().all(|place| mode(place) & OTHERS_WRITE == 0)
        };
        let places = [PathBuf::from(env!("CARGO_MANIFEST_DIR"))].into_iter().chain(homes);
        let place =
            places.into_iter().find(is_closed).expect("a directory that is not open to all");
        tempfile::tempdir_in(place).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::testing::{closed_dir, program};
    use super::*;

    #[test]
    fn a_name_is_searched_and_a_path_is_taken_from_where_one_stands() {
        let home = closed_dir();
        let root = fs::canonicalize(home.path()).unwrap();
        program(&root.join("a/tool"));
        program(&root.join("b/tool"));
        fs::write(root.join("b/text"), "").unwrap();
        let search = format!("{0}/a:{0}/b", root.display());
        let find = |word: &str| Found::find(word, &root, Some(&search)).map(|found| found.path);
        assert_eq!(find("tool"), Some(root.join("a/tool")));
        assert_eq!(find("./b/tool"), Some(root.join("b/tool")));
        assert_eq!(find("b/../b/tool"), Some(root.join("b/tool")));
        assert_eq!(find("text"), None);
        assert_eq!(find("a"), None);
        assert_eq!(find("nothing"), None);
        assert_eq!(Found::find("tool", &root, None), None);
    }

    #[test]
    fn a_relative_place_in_path_ends_the_search() {
        let home = closed_dir();
        let root = fs::canonicalize(home.path()).unwrap();
        program(&root.join("bin/tool"));
        for search in [":/x", ".:/x", "bin"] {
            let search = search.replace("/x", &root.join("bin").display().to_string());
            assert_eq!(Found::find("tool", &root, Some(&search)), None, "{search}");
        }
    }

    #[test]
    fn a_link_goes_by_both_names() {
        let home = closed_dir();
        let root = fs::canonicalize(home.path()).unwrap();
        program(&root.join("dash"));
        program(&root.join("busybox"));
        symlink(root.join("dash"), root.join("tool")).unwrap();
        symlink(root.join("busybox"), root.join("ls")).unwrap();
        let search = root.display().to_string();
        let find = |word: &str| Found::find(word, &root, Some(&search)).unwrap();
        assert!(find("tool").names().contains(&"dash"));
        assert!(!find("ls").names().contains(&"busybox"));
        assert!(find("ls").is_many_in_one() && find("busybox").names().contains(&"busybox"));
    }

    #[test]
    fn what_the_agent_or_anybody_can_replace_is_no_ground_to_stand_on() {
        let home = closed_dir();
        let root = fs::canonicalize(home.path()).unwrap();
        program(&root.join("work/tool"));
        program(&root.join("bin/tool"));
        program(&root.join("open/tool"));
        fs::set_permissions(root.join("open"), fs::Permissions::from_mode(0o777)).unwrap();
        symlink(root.join("bin/tool"), root.join("work/link")).unwrap();
        symlink(root.join("work/tool"), root.join("bin/link")).unwrap();
        // Of another agent, and by a link.
        program(&root.join("others/tool"));
        symlink(root.join("others"), root.join("theirs")).unwrap();
        let workspaces = [root.join("work"), root.join("theirs")];
        let is_changeable =
            |path: &str| Found::find(path, &root, None).unwrap().is_changeable(&workspaces);
        assert!(!is_changeable("./bin/tool"));
        for path in ["./work/tool", "./work/link", "./bin/link", "./open/tool", "./others/tool"] {
            assert!(is_changeable(path), "{path}");
        }
    }
}
