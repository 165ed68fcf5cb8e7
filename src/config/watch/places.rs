//! Which names in which folders decide what a path leads to.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

/// Links that are followed on the way to one file; the system allows 40.
const MAX_LINKS: usize = 40;

/// The names that matter, by folder.
pub type Places = BTreeMap<PathBuf, BTreeSet<OsString>>;

/// The folder of each file and of each link on the way to it. Of a way that is
/// not there, the last folder that is. A device, such as `/dev/null`, is no file that
/// somebody writes anew: its folder does not matter. Blocks.
pub fn places<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Places {
    let mut found = Places::new();
    for file in files {
        follow(file, &mut found);
    }
    found
}

fn follow(file: &Path, found: &mut Places) {
    let mut left = MAX_LINKS;
    let mut wanted = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    'links: loop {
        let mut at = PathBuf::new();
        let mut parts = wanted.components().peekable();
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else {
                // A link may lead upwards: `..` of what is there is meant.
                if part == Component::ParentDir {
                    at.pop()
                } else {
                    at.push(part);
                    true
                };
                continue;
            };
            let place = at.join(name);
            let kind = std::fs::symlink_metadata(&place).map(|it| it.file_type());
            let is_last = parts.peek().is_none();
            let is_link = kind.as_ref().is_ok_and(FileType::is_symlink);
            let is_device =
                kind.as_ref().is_ok_and(|kind| kind.is_char_device() || kind.is_block_device());
            if (is_last && !is_device) || is_link || kind.is_err() {
                found.entry(at.clone()).or_default().insert(name.to_owned());
            }
            if is_link && left > 0 {
                left -= 1;
                let Ok(target) = std::fs::read_link(&place) else { return };
                wanted = at.join(target).join(parts.collect::<PathBuf>());
                // A path that ends in nothing would get a slash at its end.
                wanted = wanted.components().collect();
                continue 'links;
            }
            if kind.is_err() {
                return;
            }
            at = place;
        }
        return;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(found: &Places, folder: &Path) -> Vec<String> {
        let names = found.get(folder).into_iter().flatten();
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn every_link_on_the_way_counts_and_what_it_leads_to() {
        let home = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(home.path()).unwrap();
        let (mount, real) = (home.join("mount"), home.join("mount/..2026"));
        fs::create_dir_all(&real).unwrap();
        fs::write(real.join("openclaw.json"), "{}").unwrap();
        symlink("..2026", mount.join("..data")).unwrap();
        symlink("..data/openclaw.json", mount.join("openclaw.json")).unwrap();
        let found = places(&[mount.join("openclaw.json")]);
        assert_eq!(names(&found, &mount), ["..data", "openclaw.json"]);
        assert_eq!(names(&found, &real), ["openclaw.json"]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn of_a_way_that_is_not_there_its_beginning_counts() {
        let home = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(home.path()).unwrap();
        let found = places(&[home.join("a/b/openclaw.json")]);
        assert_eq!((names(&found, &home), found.len()), (vec!["a".to_owned()], 1));
        symlink(home.join("loop"), home.join("loop")).unwrap();
        assert_eq!(names(&places(&[home.join("loop/x")]), &home), ["loop"]);
    }

    #[test]
    fn the_folder_of_a_device_does_not_count_and_that_of_a_link_to_one_does() {
        let home = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(home.path()).unwrap();
        assert_eq!(places(&[PathBuf::from("/dev/null")]), Places::new());
        symlink("/dev/null", home.join("openclaw.json")).unwrap();
        let found = places(&[home.join("openclaw.json")]);
        assert_eq!((names(&found, &home), found.len()), (vec!["openclaw.json".to_owned()], 1));
    }
}
