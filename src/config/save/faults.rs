//! Every step of writing the config file fails once.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

use super::*;
use crate::config::{Env, Overrides, load};

/// A disk whose step number `fails` does not succeed.
struct Faulty {
    fails: usize,
    /// Whether nothing succeeds afterwards, as when the machine is gone.
    is_crash: bool,
    steps: Cell<usize>,
    log: RefCell<Vec<String>>,
}

impl Faulty {
    fn new(fails: usize, is_crash: bool) -> Self {
        Self { fails, is_crash, steps: Cell::new(0), log: RefCell::default() }
    }

    /// Notes a step; whether it fails.
    fn step(&self, name: &str) -> io::Result<()> {
        self.log.borrow_mut().push(name.to_owned());
        let step = self.steps.replace(self.steps.get() + 1);
        if step == self.fails || (self.is_crash && step > self.fails) {
            Err(io::Error::other("the disk is gone"))
        } else {
            Ok(())
        }
    }

    fn has_failed(&self) -> bool {
        self.steps.get() > self.fails
    }
}

impl Disk for Faulty {
    fn create(&self, dir: &Path, like: &Path) -> io::Result<NamedTempFile> {
        self.step("create")?;
        System.create(dir, like)
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        self.step("write").inspect_err(|_| {
            // Some of it is there.
            System.write(file, &bytes[..bytes.len() / 2]).unwrap();
        })?;
        System.write(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.step("sync")?;
        System.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let is_new =
            from.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".c"));
        self.step(if is_new { "put in place" } else { "make older" })?;
        System.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step("sync folder")?;
        System.sync_dir(dir)
    }
}

/// A disk on which an editor saves the file whenever another one is made.
struct Edited<'a>(&'a Path);

impl Disk for Edited<'_> {
    fn create(&self, dir: &Path, like: &Path) -> io::Result<NamedTempFile> {
        fs::write(self.0, version(9))?;
        System.create(dir, like)
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        System.write(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        System.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        System.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        System.sync_dir(dir)
    }
}

/// A disk without room for this file.
struct Full(&'static str);

impl Disk for Full {
    fn create(&self, dir: &Path, like: &Path) -> io::Result<NamedTempFile> {
        if like.ends_with(self.0) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        System.create(dir, like)
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        System.write(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        System.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        System.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        System.sync_dir(dir)
    }
}

fn version(number: usize) -> String {
    format!("// version {number}\n{{session: {{mainKey: \"v{number}\"}}}}\n")
}

fn put(disk: &dyn Disk, path: &Path, number: usize) -> Result<bool, SaveError> {
    write_with(disk, path, |_| Ok(version(number)))
}

/// Which versions there are: of the file, and of its backups.
fn versions(path: &Path) -> (usize, Vec<usize>) {
    let number = |path: &Path| {
        let text = fs::read_to_string(path).ok()?;
        // A mix would be none of them.
        Some((0..20).find(|number| version(*number) == text).expect("a whole version"))
    };
    let backups = (0..=OLDER).filter_map(|age| number(&backup(path, age))).collect();
    (number(path).unwrap(), backups)
}

#[test]
fn whichever_step_fails_the_file_is_the_old_or_the_new_one_and_no_version_is_lost() {
    for is_crash in [false, true] {
        let mut fails = 0;
        loop {
            let home = tempfile::tempdir().unwrap();
            let state = home.path().join(".openclaw");
            let path = state.join("openclaw.json");
            for number in 0..=6 {
                put(&System, &path, number).unwrap();
            }
            assert_eq!(versions(&path), (6, vec![5, 4, 3, 2, 1]));
            let disk = Faulty::new(fails, is_crash);
            let result = put(&disk, &path, 7);
            let (now, backups) = versions(&path);
            assert!([6, 7].contains(&now), "step {fails}: {now}");
            // Only the oldest may have gone, and only for a newer one.
            for kept in 2..now {
                assert!(backups.contains(&kept), "step {fails} lost {kept}: {backups:?}");
            }
            let env = Env::fixed([], home.path());
            let looking = Overrides { read_only: true, ..Overrides::default() };
            assert_eq!(load(&env, &looking).unwrap().session.main_key, format!("v{now}"));
            if !disk.has_failed() {
                assert!(result.unwrap());
                assert_eq!((now, backups), (7, vec![6, 5, 4, 3, 2]));
                break;
            }
            assert!(result.is_err(), "step {fails} failed unheard");
            assert!(
                now == 6
                    || fails
                        == disk.log.borrow().iter().rposition(|it| it == "sync folder").unwrap()
            );
            // The next one finds all as it should be.
            assert!(put(&System, &path, 8).unwrap());
            let (after, backups) = versions(&path);
            assert_eq!((after, backups[0]), (8, now), "step {fails}");
            fails += 1;
        }
        assert_eq!(fails, OLDER + 2 * 5, "each step has failed once");
    }
}

#[test]
fn writes_that_fail_one_after_the_other_cost_the_oldest_version_at_most() {
    for full in ["openclaw.json", "openclaw.json.bak"] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("openclaw.json");
        for number in 0..=6 {
            put(&System, &path, number).unwrap();
        }
        for _ in 0..=OLDER {
            put(&Full(full), &path, 7).unwrap_err();
        }
        let (now, backups) = versions(&path);
        assert_eq!(now, 6, "{full}");
        for kept in 2..now {
            assert!(backups.contains(&kept), "{full} lost {kept}: {backups:?}");
        }
        assert!(put(&System, &path, 7).unwrap());
        assert_eq!(versions(&path), (7, vec![6, 5, 4, 3, 2]), "{full}");
    }
}

#[test]
fn what_an_editor_saves_while_the_earlier_version_is_kept_is_not_lost() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("openclaw.json");
    put(&System, &path, 0).unwrap();
    let error = put(&Edited(&path), &path, 1).unwrap_err();
    assert!(matches!(error, SaveError::Stale(_)), "{error}");
    assert_eq!(versions(&path), (9, vec![0]));
}

#[test]
fn what_an_editor_saves_while_the_new_version_goes_to_the_disk_is_not_lost() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("openclaw.json");
    put(&System, &path, 0).unwrap();
    // It is kept already: the only file that is made is the new version.
    fs::write(backup(&path, 0), version(0)).unwrap();
    let error = put(&Edited(&path), &path, 1).unwrap_err();
    assert!(matches!(error, SaveError::Stale(_)), "{error}");
    assert_eq!(versions(&path), (9, vec![0]));
    let names = fs::read_dir(home.path()).unwrap().map(|it| it.unwrap().file_name());
    let half = names.filter(|name| atomic::is_staged(name.as_encoded_bytes()));
    assert_eq!(half.count(), 0, "what was not put in place is gone");
}

#[test]
fn a_file_has_its_name_only_once_it_is_on_the_disk() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("openclaw.json");
    for number in 0..=OLDER + 1 {
        put(&System, &path, number).unwrap();
    }
    let disk = Faulty::new(usize::MAX, false);
    put(&disk, &path, 9).unwrap();
    let (replaced, kept) =
        (["create", "write", "sync", "put in place", "sync folder"], "make older");
    let steps: Vec<_> = [kept; OLDER].into_iter().chain(replaced).chain(replaced).collect();
    assert_eq!(*disk.log.borrow(), steps);
}

#[test]
fn what_a_crash_left_behind_is_in_nobodys_way() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("openclaw.json");
    put(&System, &path, 0).unwrap();
    fs::write(home.path().join(".clawgate-left"), "{half").unwrap();
    assert!(put(&System, &path, 1).unwrap());
    assert_eq!(versions(&path), (1, vec![0]));
}
