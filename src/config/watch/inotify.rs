//! By inotify: no thread, and nothing is done while nothing happens.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

use super::places::{Places, places};

/// Whoever writes a file closes it then, so each single write need not count:
/// other files of the folder are written all the time.
const EVENTS: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MOVE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);
/// Room for some events with names of any length.
const ROOM: usize = 4096;

/// Watches files.
#[derive(Debug)]
pub struct Watch {
    queue: AsyncFd<OwnedFd>,
    places: Places,
    /// The folders, by the number that the system gave them.
    folders: BTreeMap<i32, PathBuf>,
}

impl Watch {
    /// Begins. Must be called inside of a runtime; blocks for a moment.
    ///
    /// # Errors
    /// When the system has no more of its means for this.
    pub fn start(files: &[PathBuf]) -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        #[expect(
            deprecated,
            reason = "its heir is unsafe; an `OwnedFd` is one descriptor for ever"
        )]
        let queue = AsyncFd::new(queue)?;
        let mut watch = Self { queue, places: Places::new(), folders: BTreeMap::new() };
        watch.follow(files)?;
        Ok(watch)
    }

    /// Watches these files from now on. To be called after every change, which
    /// may have put other folders in the way. Blocks for a moment.
    ///
    /// # Errors
    /// When the system has no more of its means for this.
    pub fn follow(&mut self, files: &[PathBuf]) -> io::Result<()> {
        let wanted = places(files);
        let mut folders = BTreeMap::new();
        for folder in wanted.keys() {
            // The same folder gets the same number again.
            match inotify::add_watch(self.queue.get_ref(), folder, EVENTS) {
                Ok(number) => drop(folders.insert(number, folder.clone())),
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for number in self.folders.keys().filter(|number| !folders.contains_key(number)) {
            // Gone already is as good.
            let _ = inotify::remove_watch(self.queue.get_ref(), *number);
        }
        (self.folders, self.places) = (folders, wanted);
        Ok(())
    }

    /// Waits until something has happened to one of the files. What happens while
    /// nobody waits is told to the next one who does.
    ///
    /// # Errors
    /// When the system fails.
    pub async fn changed(&self) -> io::Result<()> {
        loop {
            let mut ready = self.queue.readable().await?;
            match self.take() {
                Ok(true) => return Ok(()),
                Ok(false) => ready.clear_ready(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes what the system has told; whether any of it matters.
    fn take(&self) -> io::Result<bool> {
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut reader = inotify::Reader::new(self.queue.get_ref(), &mut room);
        let mut matters = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name();
                    let name = name.map(|name| OsStr::from_bytes(name.to_bytes()));
                    let of_itself = ReadFlags::DELETE_SELF
                        | ReadFlags::MOVE_SELF
                        | ReadFlags::QUEUE_OVERFLOW
                        | ReadFlags::IGNORED
                        | ReadFlags::UNMOUNT;
                    matters |=
                        event.events().intersects(of_itself) || self.is_wanted(event.wd(), name);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(matters),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn is_wanted(&self, number: i32, name: Option<&OsStr>) -> bool {
        let names = self.folders.get(&number).and_then(|folder| self.places.get(folder));
        names.zip(name).is_some_and(|(names, name)| names.contains::<OsString>(&name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    async fn is_told(watch: &mut Watch, file: &Path, change: impl FnOnce()) {
        change();
        tokio::time::timeout(Duration::from_secs(10), watch.changed()).await.unwrap().unwrap();
        watch.follow(&[file.to_owned()]).unwrap();
        // What belongs to the same change is taken with it.
        watch.take().unwrap();
    }

    #[tokio::test]
    async fn a_file_is_followed_through_whatever_editors_and_mounts_do_to_it() {
        let home = tempfile::tempdir().unwrap();
        let (file, real) = (home.path().join("c.json"), home.path().join("real"));
        let mut watch = Watch::start(std::slice::from_ref(&file)).unwrap();
        is_told(&mut watch, &file, || fs::write(&file, "1").unwrap()).await;
        is_told(&mut watch, &file, || fs::write(&file, "2").unwrap()).await;
        is_told(&mut watch, &file, || {
            fs::write(home.path().join("c.json.swp"), "3").unwrap();
            fs::rename(home.path().join("c.json.swp"), &file).unwrap();
        })
        .await;
        is_told(&mut watch, &file, || fs::remove_file(&file).unwrap()).await;
        fs::create_dir(&real).unwrap();
        fs::write(real.join("c"), "4").unwrap();
        is_told(&mut watch, &file, || symlink(real.join("c"), &file).unwrap()).await;
        is_told(&mut watch, &file, || fs::write(real.join("c"), "5").unwrap()).await;
        // A mounted folder is exchanged by a link that is renamed.
        for (folder, link) in [("..1", "..data"), ("..2", "..new")] {
            fs::create_dir(home.path().join(folder)).unwrap();
            fs::write(home.path().join(folder).join("c"), folder).unwrap();
            symlink(folder, home.path().join(link)).unwrap();
        }
        is_told(&mut watch, &file, || {
            fs::remove_file(&file).unwrap();
            symlink("..data/c", &file).unwrap();
        })
        .await;
        is_told(&mut watch, &file, || {
            fs::rename(home.path().join("..new"), home.path().join("..data")).unwrap();
        })
        .await;
        is_told(&mut watch, &file, || fs::write(home.path().join("..2/c"), "6").unwrap()).await;
    }

    #[tokio::test]
    async fn other_files_of_the_folder_wake_nobody() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("c.json");
        fs::write(&file, "1").unwrap();
        let watch = Watch::start(std::slice::from_ref(&file)).unwrap();
        fs::write(home.path().join("other"), "1").unwrap();
        assert!(!watch.take().unwrap());
        fs::read(&file).unwrap();
        assert!(!watch.take().unwrap());
        fs::write(&file, "2").unwrap();
        assert!(watch.take().unwrap());
    }
}
