//! Files of sound, which are there for a while.
//!
//! Owns: where they are, which is where the original puts them unless `TMPDIR`
//! names a place. Promises: nobody else can read or replace them; they are taken
//! away again, those of an earlier process too.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::blocking;

/// How long a file stays, as in the original: long enough to be sent.
const KEPT: Duration = Duration::from_mins(5);
/// What their directories begin with.
const PREFIX: &str = "tts-";
/// Directories that one sweep looks at; more is not from us.
const SWEEP_MAX: usize = 1000;

/// Writes a file of its own.
pub(super) fn keep(
    bytes: &[u8],
    extension: &str,
    now_ms: u64,
    tmp: Option<&Path>,
) -> io::Result<PathBuf> {
    let [shared, own] = places(tmp);
    let root = private(&shared).or_else(|_| private(&own))?;
    sweep(&root);
    let dir = tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(&root)?;
    let path = dir.path().join(format!("voice-{now_ms}{extension}"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(bytes)?;
    drop(dir.keep());
    Ok(path)
}

/// Takes it away when its time has come.
pub(super) async fn forget(path: PathBuf) {
    tokio::time::sleep(KEPT).await;
    let removed = blocking(move || path.parent().map(fs::remove_dir_all)).await;
    if let Ok(Some(Err(error))) = removed {
        tracing::debug!(%error, "a file of speech was not taken away");
    }
}

/// `openclaw` in the directory for such files if it is ours alone, as in the
/// original; else one with our number in its name.
fn places(tmp: Option<&Path>) -> [PathBuf; 2] {
    let tmp = tmp.unwrap_or(Path::new("/tmp"));
    [tmp.join("openclaw"), tmp.join(format!("openclaw-{}", rustix::process::geteuid().as_raw()))]
}

/// A directory that belongs to us and that nobody else can change.
fn private(path: &Path) -> io::Result<PathBuf> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => ours(path),
    }
}

/// The same, if it is there.
fn ours(path: &Path) -> io::Result<PathBuf> {
    let found = fs::symlink_metadata(path)?;
    let is_ours = found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & 0o022 == 0;
    if is_ours {
        Ok(path.to_owned())
    } else {
        Err(io::Error::other(format!("{} is open to others", path.display())))
    }
}

/// Takes away what an earlier process has left, wherever this one would put it: what
/// is not old enough now is, after as long as a file stays.
pub(super) async fn tidy(tmp: Option<PathBuf>) {
    let again = tmp.clone();
    // When the gateway stops, the next one does it.
    let _ = blocking(move || sweep_all(tmp.as_deref())).await;
    tokio::time::sleep(KEPT).await;
    let _ = blocking(move || sweep_all(again.as_deref())).await;
}

fn sweep_all(tmp: Option<&Path>) {
    for root in places(tmp).iter().filter_map(|place| ours(place).ok()) {
        sweep(&root);
    }
}

fn sweep(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten().take(SWEEP_MAX) {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let age = entry.metadata().and_then(|it| it.modified()).ok();
        let age = age.and_then(|modified| modified.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > KEPT) {
            // Somebody else may be doing the same.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_can_change_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let open = home.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert!(private(&open).is_err());
        let link = home.path().join("link");
        std::os::unix::fs::symlink(home.path(), &link).unwrap();
        assert!(private(&link).is_err());
        assert_eq!(private(&home.path().join("new")).unwrap(), home.path().join("new"));
    }

    /// Makes it an hour older.
    fn age(file: &Path) {
        let folder = fs::File::open(file.parent().unwrap()).unwrap();
        let made = folder.metadata().unwrap().modified().unwrap();
        folder.set_modified(made - Duration::from_hours(1)).unwrap();
    }

    #[test]
    fn files_are_where_the_environment_says_and_only_old_ones_are_taken_away() {
        let home = tempfile::tempdir().unwrap();
        let tmp = Some(home.path());
        sweep_all(tmp);
        assert!(!home.path().join("openclaw").exists(), "nothing is made to be tidied up");
        let (old, new) = (keep(b"a", ".mp3", 1, tmp).unwrap(), keep(b"b", ".mp3", 2, tmp).unwrap());
        assert!(old.starts_with(home.path().join("openclaw")), "{}", old.display());
        age(&old);
        sweep_all(tmp);
        assert!(!old.exists() && new.exists());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_left_just_before_a_start_is_taken_away_when_its_time_is_over() {
        let home = tempfile::tempdir().unwrap();
        let tmp = Some(home.path());
        let (old, new) = (keep(b"a", ".mp3", 1, tmp).unwrap(), keep(b"b", ".mp3", 2, tmp).unwrap());
        age(&old);
        let begun = async {
            while old.exists() {
                tokio::task::yield_now().await;
            }
            assert!(new.exists());
            age(&new);
        };
        tokio::join!(tidy(Some(home.path().to_owned())), begun);
        assert!(!new.exists());
    }
}
