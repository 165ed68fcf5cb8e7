//! Notices what happens in the folder.
//!
//! Promises: one watch for all who follow something; it ends with the last of
//! them, and when it fails they all learn of that. By inotify where there is one:
//! nothing is done while nothing happens.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::broadcast;
use tokio::task::JoinHandle;

#[cfg(target_os = "linux")]
pub(super) use inotify::Watch;
#[cfg(not(target_os = "linux"))]
pub(super) use poll::Watch;

use crate::support::Tasks;

/// Changes that one who follows may be behind; beyond that everything counts as
/// changed.
const BEHIND_MAX: usize = 64;

/// The names of what has changed: files below the folder, such as
/// `<project>/<id>.jsonl`. None means that anything may have.
pub(super) type Changes = Arc<[PathBuf]>;

/// Tells of changes while somebody holds it.
pub(super) struct Feed {
    /// Its task has the other end: who listens hears when that ends.
    told: broadcast::WeakSender<Changes>,
    task: JoinHandle<Option<()>>,
}

impl Feed {
    pub(super) fn start(mut watch: Watch, tasks: &Tasks) -> Self {
        let (teller, _) = broadcast::channel(BEHIND_MAX);
        let told = teller.downgrade();
        let task = tasks.spawn("claude projects", async move {
            loop {
                match watch.changed().await {
                    // Nobody listening just now is no reason to stop.
                    Ok(changes) => drop(teller.send(changes.into())),
                    Err(error) => {
                        tracing::warn!(%error, "sessions of Claude Code are not watched any more");
                        return;
                    }
                }
            }
        });
        Self { told, task }
    }

    /// What changes from now on. Of a watch that has failed there is only its end.
    pub(super) fn listen(&self) -> broadcast::Receiver<Changes> {
        let told = self.told.upgrade();
        told.map_or_else(|| broadcast::channel(1).1, |told| told.subscribe())
    }

    /// Whether the watch has failed.
    pub(super) fn is_over(&self) -> bool {
        self.told.strong_count() == 0
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(target_os = "linux")]
mod inotify {
    use std::ffi::OsStr;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
    use rustix::io::Errno;
    use tokio::io::unix::AsyncFd;

    use super::{BTreeMap, Path, PathBuf, io};

    /// Each write counts, since whoever writes may keep the file open.
    const OF_FILES: WatchFlags = WatchFlags::MODIFY
        .union(WatchFlags::MOVE)
        .union(WatchFlags::CREATE)
        .union(WatchFlags::DELETE)
        .union(WatchFlags::DONT_FOLLOW)
        .union(WatchFlags::ONLYDIR);
    /// Of the folder itself only its folders matter; of those above it, whether it
    /// comes to be.
    const OF_FOLDERS: WatchFlags = WatchFlags::CREATE
        .union(WatchFlags::MOVE)
        .union(WatchFlags::DELETE)
        .union(WatchFlags::ONLYDIR);
    /// Room for many events with names of uuids.
    const ROOM: usize = 16 * 1024;
    /// Projects that are watched; the system has a bound of its own.
    const PROJECTS_MAX: usize = 4096;

    /// Watches the folder.
    pub(in super::super) struct Watch {
        queue: AsyncFd<OwnedFd>,
        folder: PathBuf,
        /// The projects by the number that the system gave them; the folder itself,
        /// or the nearest one above it, has an empty name.
        watched: BTreeMap<i32, PathBuf>,
    }

    impl Watch {
        /// Begins. Must be called inside of a runtime; blocks for a moment.
        pub(in super::super) fn start(folder: &Path) -> io::Result<Self> {
            let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            #[expect(
                deprecated,
                reason = "its heir is unsafe; an `OwnedFd` is one descriptor for ever"
            )]
            let queue = AsyncFd::new(queue)?;
            let mut watch = Self { queue, folder: folder.to_owned(), watched: BTreeMap::new() };
            watch.look_around()?;
            Ok(watch)
        }

        /// Watches what there is to watch now. A project that cannot be watched hides
        /// no other.
        fn look_around(&mut self) -> io::Result<()> {
            let mut watched = BTreeMap::new();
            let above = self.folder.ancestors().find(|folder| folder.is_dir());
            let Some(above) = above else { return Ok(()) };
            let queue = self.queue.get_ref();
            watched.insert(inotify::add_watch(queue, above, OF_FOLDERS)?, PathBuf::new());
            let mut unwatched = Vec::new();
            if above == self.folder {
                for entry in std::fs::read_dir(above)?.flatten().take(PROJECTS_MAX) {
                    if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        continue;
                    }
                    match inotify::add_watch(queue, entry.path(), OF_FILES) {
                        Ok(number) => drop(watched.insert(number, entry.file_name().into())),
                        Err(Errno::NOENT | Errno::NOTDIR) => {}
                        Err(error) => unwatched.push((entry.path(), error)),
                    }
                }
            }
            if let Some((first, error)) = unwatched.first() {
                let (count, first) = (unwatched.len(), first.display());
                tracing::warn!(count, %first, %error, "projects of Claude Code are not watched");
            }
            for number in self.watched.keys().filter(|number| !watched.contains_key(number)) {
                // Gone already is as good.
                let _ = inotify::remove_watch(queue, *number);
            }
            self.watched = watched;
            Ok(())
        }

        /// Waits for a change; answers the files, or none when anything may have
        /// changed. May be dropped at any time.
        pub(in super::super) async fn changed(&mut self) -> io::Result<Vec<PathBuf>> {
            loop {
                let mut ready = self.queue.readable().await?;
                let Some((files, is_of_folders)) = self.take()? else {
                    ready.clear_ready();
                    continue;
                };
                drop(ready);
                if is_of_folders {
                    self.look_around()?;
                    return Ok(Vec::new());
                }
                if !files.is_empty() {
                    return Ok(files);
                }
            }
        }

        /// Takes what the system has told: which files, and whether folders came
        /// or went. `None` when it has told nothing.
        fn take(&self) -> io::Result<Option<(Vec<PathBuf>, bool)>> {
            let mut room = [MaybeUninit::uninit(); ROOM];
            let mut reader = inotify::Reader::new(self.queue.get_ref(), &mut room);
            let (mut files, mut is_of_folders, mut is_any) = (Vec::new(), false, false);
            loop {
                match reader.next() {
                    Ok(event) => {
                        is_any = true;
                        let name = event.file_name();
                        let name = name.map(|name| OsStr::from_bytes(name.to_bytes()));
                        match (self.watched.get(&event.wd()), name) {
                            (Some(project), Some(name)) if !project.as_os_str().is_empty() => {
                                let file = project.join(name);
                                if !files.contains(&file) {
                                    files.push(file);
                                }
                            }
                            // The end of a watch that was given up.
                            (None, None) if event.events() == ReadFlags::IGNORED => {}
                            _ => is_of_folders = true,
                        }
                    }
                    Err(Errno::WOULDBLOCK) => {
                        return Ok(is_any.then_some((files, is_of_folders)));
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod poll {
    //! Where there is no inotify: anything may have changed, now and then.

    use std::time::Duration;

    use super::{Path, PathBuf, io};

    /// Whoever follows looks at his file then; that costs next to nothing.
    const EVERY: Duration = Duration::from_secs(1);

    /// Watches the folder.
    pub(in super::super) struct Watch;

    impl Watch {
        pub(in super::super) fn start(_: &Path) -> io::Result<Self> {
            Ok(Self)
        }

        pub(in super::super) async fn changed(&mut self) -> io::Result<Vec<PathBuf>> {
            tokio::time::sleep(EVERY).await;
            Ok(Vec::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::super::{Followed, Projects};
    use super::*;

    const ID: &str = "7afc3e49-d4dd-410a-8fc2-8d26cf6e1f80";

    #[tokio::test]
    async fn who_follows_learns_that_the_watch_has_failed_and_may_follow_again() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("-w").join(format!("{ID}.jsonl"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "{\"type\":\"user\",\"uuid\":\"a\"}\n").unwrap();
        let projects = Projects::new(home.path().to_owned(), Tasks::default());
        let end = projects.burst(ID).await.unwrap().unwrap().end;
        let mut follow = projects.follow(ID, end).await.unwrap().unwrap();
        let mut list = projects.follow_list().await.unwrap();
        projects.feed().await.unwrap().task.abort();
        assert!(list.changed().await.is_err());
        // What it has heard already it may tell before.
        while follow.next().await.is_ok() {}
        let mut again = projects.follow(ID, end).await.unwrap().unwrap();
        let mut file = OpenOptions::new().append(true).open(file).unwrap();
        file.write_all(b"{\"type\":\"user\",\"uuid\":\"b\"}\n").unwrap();
        let Followed::Lines(lines) = again.next().await.unwrap() else { panic!("no lines") };
        assert_eq!(lines[0].uuid.as_deref(), Some("b"));
    }
}
