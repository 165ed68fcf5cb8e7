//! Putting the Control UI into its folder, and taking it away.

use std::fs::{self, Permissions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use super::folder::Filling;
use super::{Mark, PAGE, archive, installed_in, npm};
use crate::cli::output::note;
use crate::cli::{block_on, one_thread};
use crate::config::Settings;
use crate::store::atomic::{create_private_dir, sync_dir};
use crate::support::{Clock, SystemClock};

/// Beginning of the names of folders that are not finished.
const UNFINISHED: &str = ".control-ui-";
/// After this a folder that is not finished belongs to nobody any more.
const LEFT_AFTER: Duration = Duration::from_hours(2);
/// Most bytes of `package.json`.
const MAX_MANIFEST: u64 = 4 * 1024 * 1024;

/// Installs a version, or what lies somewhere.
pub(super) fn run(settings: &Settings, version: &str, from: Option<&Path>) -> anyhow::Result<()> {
    let state = &settings.paths.state_dir;
    create_private_dir(state)?;
    clear(state);
    let work = unfinished(state)?;
    let new = work.path().join("control-ui");
    let progress = Progress::new();
    let mut filling = Filling::new(&new)?;
    let known = match from {
        None => {
            progress.begin(&format!("fetching openclaw@{version} with npm"));
            let package = block_on(&one_thread()?, npm::pack(version, work.path()))?;
            unpack(&package, &mut filling, &progress)?.or_else(|| Some(version.to_owned()))
        }
        Some(from) => take(from, &mut filling, &progress)?,
    };
    let mark = Mark { version: known, installed_at_ms: SystemClock.now_ms() };
    let what = || from.map_or_else(|| "the package".to_owned(), |it| it.display().to_string());
    filling
        .finish(serde_json::to_string(&mark)?.as_bytes())
        .with_context(|| format!("{} has no Control UI", what()))?;
    swap(&new, &installed_in(settings))?;
    progress.clear();
    Ok(())
}

fn unpack(
    package: &Path,
    filling: &mut Filling,
    progress: &Progress,
) -> anyhow::Result<Option<String>> {
    archive::unpack(package, filling, &|files| {
        progress.say(&format!("unpacking: {files} files"));
    })
}

/// Takes what lies somewhere; its version, if it is told.
fn take(from: &Path, filling: &mut Filling, progress: &Progress) -> anyhow::Result<Option<String>> {
    let facts =
        fs::metadata(from).with_context(|| format!("cannot install from {}", from.display()))?;
    if facts.is_file() {
        return unpack(from, filling, progress);
    }
    let from = fs::canonicalize(from)?;
    let within = from.join("dist").join("control-ui");
    let (folder, package) = if within.join(PAGE).is_file() {
        (within, Some(from.clone()))
    } else if from.join(PAGE).is_file() {
        let above = from.ancestors().nth(2).map(Path::to_owned);
        (from.clone(), above.filter(|above| from == above.join("dist").join("control-ui")))
    } else {
        bail!(
            "{} is no package folder with dist/control-ui and no control-ui folder: there is no {PAGE}",
            from.display()
        );
    };
    progress.say("copying");
    filling.add_all(&folder)?;
    Ok(package.and_then(|package| version_of(&package)))
}

fn version_of(package: &Path) -> Option<String> {
    let path = package.join("package.json");
    let is_small = fs::metadata(&path).ok()?.len() <= MAX_MANIFEST;
    is_small.then(|| archive::version_in(&fs::read(path).ok()?)).flatten()
}

/// Removes what was installed; whether there was something.
pub(super) fn remove(settings: &Settings) -> anyhow::Result<bool> {
    let folder = installed_in(settings);
    if fs::symlink_metadata(&folder).is_err() {
        return Ok(false);
    }
    let work = unfinished(&settings.paths.state_dir)?;
    let failed = || format!("cannot remove {}", folder.display());
    // Gone at once; taking its files away takes longer.
    fs::rename(&folder, work.path().join("control-ui")).with_context(failed)?;
    work.close().with_context(failed)?;
    Ok(true)
}

fn unfinished(state: &Path) -> anyhow::Result<TempDir> {
    // It stays when this process is killed.
    let ours = Permissions::from_mode(0o700);
    let made = tempfile::Builder::new().prefix(UNFINISHED).permissions(ours).tempdir_in(state);
    made.with_context(|| format!("cannot make a folder in {}", state.display()))
}

/// Removes what installations have left that were cut off.
fn clear(state: &Path) {
    let old = |path: &Path| {
        let age = fs::symlink_metadata(path).and_then(|facts| facts.modified());
        age.ok().and_then(|time| time.elapsed().ok()).is_some_and(|age| age > LEFT_AFTER)
    };
    let entries = fs::read_dir(state).into_iter().flatten().filter_map(Result::ok);
    let ours = entries.filter(|it| it.file_name().to_string_lossy().starts_with(UNFINISHED));
    for path in ours.map(|entry| entry.path()).filter(|path: &PathBuf| old(path)) {
        // It only takes room.
        let _ = fs::remove_dir_all(path);
    }
}

/// Puts the new folder in the place of the old one, which is then where the new one
/// was.
fn swap(new: &Path, place: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot put the Control UI into {}", place.display());
    if fs::symlink_metadata(place).is_err() {
        fs::rename(new, place).with_context(failed)?;
    } else if renameat_with(CWD, new, CWD, place, RenameFlags::EXCHANGE).is_err() {
        // A file system that cannot do it in one step.
        let old = new.with_extension("old");
        fs::rename(place, &old).with_context(failed)?;
        if let Err(error) = fs::rename(new, place) {
            fs::rename(&old, place).with_context(failed)?;
            return Err(error).with_context(failed);
        }
    }
    let parent = place.parent().unwrap_or(place);
    sync_dir(parent).with_context(failed)
}

/// A line on the terminal that says what is going on.
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn new() -> Self {
        Self { is_shown: std::io::stderr().is_terminal() }
    }

    /// The same of what takes long: also told where there is no terminal.
    fn begin(&self, text: &str) {
        if self.is_shown {
            self.say(text);
        } else {
            note(text);
        }
    }

    fn say(&self, text: &str) {
        if self.is_shown {
            let mut err = std::io::stderr().lock();
            // A terminal that is gone is no reason to stop.
            let _ = write!(err, "\r{text}…\x1b[K").and_then(|()| err.flush());
        }
    }

    fn clear(&self) {
        if self.is_shown {
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finished_is_closed_to_other_users() {
        let state = tempfile::tempdir().unwrap();
        let made = unfinished(state.path()).unwrap();
        let rights = fs::metadata(made.path()).unwrap().permissions().mode();
        assert_eq!(rights & 0o777, 0o700);
    }
}
