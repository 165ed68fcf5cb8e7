//! Writing an archive.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};
use tempfile::NamedTempFile;

use super::super::bar::Bar;
use super::super::output::note;
use super::{Found, verify};
use crate::config::Paths;
use crate::store;
use crate::store::atomic::sync_dir;
use crate::support::sort;

/// How often the folder is looked through for what came while it was written.
const LOOKS: usize = 4;
/// How the names of what is being written begin, and how that of an archive ends.
const UNFINISHED: (&str, &str) = (".clawgate-backup-", ".tmp");

/// Which file it is, whatever its name is by now. The number of one that is gone may be that of
/// a new one, which was not made at the same time.
type FileId = (u64, u64, Option<SystemTime>);

/// What goes into an archive beside the database.
struct Item {
    path: PathBuf,
    /// Relative to the state directory.
    name: PathBuf,
    about: Metadata,
}

/// What would be written, and which links lead to something.
pub(super) fn planned(root: &Path, database: &Path) -> anyhow::Result<(Found, Vec<PathBuf>)> {
    let items = items_of(root)?;
    let mut found = Found::default();
    if database.exists() {
        found = Found { files: 1, bytes: fs::metadata(database)?.len(), has_database: true };
    }
    count(&items, &mut found);
    Ok((found, links(&items)))
}

/// Adds what is in files.
fn count(items: &[Item], found: &mut Found) {
    for item in items.iter().filter(|item| item.about.is_file()) {
        found.files += 1;
        found.bytes += item.about.len();
    }
}

/// Writes an archive under another name, and gives it its own when all of it is on disk, and
/// verified where it `verifies`. Answers what it has, and which links lead to something.
pub(super) fn write(
    target: &Path,
    root: &Path,
    database: &Path,
    verifies: bool,
) -> anyhow::Result<(Found, Vec<PathBuf>)> {
    let failed = || format!("cannot write {}", target.display());
    let folder = target.parent().unwrap_or(Path::new("."));
    for left in sweep(folder) {
        note(&format!("removed {}, which a backup that was cut off has left", left.display()));
    }
    let mut archive = unfinished(folder)?;
    let copy = database.exists().then(|| copied(database, &archive)).transpose()?;
    let gzip = GzEncoder::new(BufWriter::new(archive.as_file_mut()), Compression::default());
    let mut writing = Writing::new(Builder::new(gzip));
    // First: a message may then be in a transcript and not in the index yet, which is put
    // right when it is used.
    if let Some(copy) = copy {
        writing.add_database(copy.path()).with_context(failed)?;
    }
    let links = writing.add_all(root)?;
    let (builder, found) = writing.end();
    let flushed = builder.into_inner()?.finish()?.into_inner();
    let synced = flushed.map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
    synced.with_context(failed)?;
    if verifies {
        let (read, _) = verify::verify(archive.path(), part_of(&archive)?)?;
        ensure!(read == found, "what was written for {} is not what is read", target.display());
    }
    keep(archive, target).with_context(failed)?;
    Ok((found, links))
}

/// Gives the archive its name, unless somebody has taken it meanwhile.
fn keep(archive: NamedTempFile, target: &Path) -> io::Result<()> {
    archive.persist_noclobber(target).map_err(|error| error.error)?;
    let folder = target.parent().unwrap_or(Path::new("."));
    sync_dir(folder)
}

/// Removes what backups have left in a folder that were cut off: the token and the keys are in
/// it. Answers which archives were to be.
fn sweep(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<_> = names.filter(|name| name.starts_with(UNFINISHED.0)).collect();
    let mut removed = Vec::new();
    for name in names.iter().filter(|name| name.ends_with(UNFINISHED.1)) {
        let path = folder.join(name);
        let is_file = fs::symlink_metadata(&path).is_ok_and(|about| about.is_file());
        let Some(file) = is_file.then(|| File::open(&path).ok()).flatten() else { continue };
        // Whoever still writes it holds its lock.
        if file.try_lock().is_err() {
            continue;
        }
        for part in names.iter().filter(|it| *it != name && it.starts_with(name.as_str())) {
            // The next backup finds what cannot be removed, as long as the archive is there.
            let _ = fs::remove_file(folder.join(part));
        }
        if fs::remove_file(&path).is_ok() {
            removed.push(path);
        }
    }
    removed
}

/// An empty file for the archive that is to be.
fn unfinished(folder: &Path) -> anyhow::Result<NamedTempFile> {
    let mut name = tempfile::Builder::new();
    let name = name.prefix(UNFINISHED.0).suffix(UNFINISHED.1);
    loop {
        let made = name.tempfile_in(folder);
        let made = made.with_context(|| format!("cannot write to {}", folder.display()))?;
        // Where nothing can be locked nothing is swept.
        let _ = made.as_file().lock();
        // Another backup may have swept it before.
        if made.path().exists() {
            return Ok(made);
        }
    }
}

/// An empty file beside an archive that is written, which is swept with it.
fn part_of(archive: &NamedTempFile) -> anyhow::Result<NamedTempFile> {
    let (path, mut name) = (archive.path(), tempfile::Builder::new());
    let folder = path.parent().unwrap_or(Path::new("."));
    let begin = path.file_name().unwrap_or_default();
    let made = name.prefix(begin).suffix(".sqlite").tempfile_in(folder);
    made.with_context(|| format!("cannot write to {}", folder.display()))
}

/// A copy of the database.
fn copied(database: &Path, archive: &NamedTempFile) -> anyhow::Result<NamedTempFile> {
    let copy = part_of(archive)?;
    let copying = store::copy_beside(database, copy.path());
    copying.with_context(|| format!("cannot copy the database to {}", copy.path().display()))?;
    Ok(copy)
}

/// An archive that is being written.
struct Writing<W: Write> {
    builder: Builder<W>,
    found: Found,
    /// What is in it.
    names: HashSet<PathBuf>,
    /// Its files.
    ids: HashSet<FileId>,
}

impl<W: Write> Writing<W> {
    fn new(builder: Builder<W>) -> Self {
        Self { builder, found: Found::default(), names: HashSet::new(), ids: HashSet::new() }
    }

    fn add_database(&mut self, copy: &Path) -> io::Result<()> {
        self.add_file(copy, Path::new(Paths::DATABASE), false)?;
        self.found.has_database = true;
        Ok(())
    }

    fn end(self) -> (Builder<W>, Found) {
        (self.builder, self.found)
    }

    /// Adds what is in the state directory, and what has come when that is done: a file that
    /// is put away meanwhile has another name afterwards. Answers the links to something.
    fn add_all(&mut self, root: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let bar = Bar::new();
        let progress = bar.progress();
        let mut items = items_of(root)?;
        let links = links(&items);
        let mut planned = self.found.clone();
        count(&items, &mut planned);
        for look in 1..=LOOKS {
            items.retain(|item| !self.names.contains(&item.name));
            if items.is_empty() {
                break;
            }
            for item in &items {
                self.add(item, look > 1)
                    .with_context(|| format!("cannot back up {}", item.path.display()))?;
                progress(self.found.bytes, planned.bytes);
            }
            items = items_of(root)?;
        }
        Ok(links)
    }

    /// What is gone by now is passed over; `is_later` where it was not there at first.
    fn add(&mut self, item: &Item, is_later: bool) -> io::Result<()> {
        let Item { path, name, about } = item;
        if about.is_file() {
            return self.add_file(path, name, is_later);
        }
        let mut header = Header::new_gnu();
        header.set_metadata(about);
        header.set_size(0);
        if about.is_dir() {
            self.builder.append_data(&mut header, name, io::empty())?;
        } else {
            let Some(to) = unless_gone(fs::read_link(path))? else { return Ok(()) };
            self.builder.append_link(&mut header, name, to)?;
        }
        self.names.insert(name.clone());
        Ok(())
    }

    /// A file as long as it is when its turn comes: transcripts and logs grow meanwhile.
    fn add_file(&mut self, path: &Path, name: &Path, is_later: bool) -> io::Result<()> {
        let Some(file) = unless_gone(File::open(path))? else { return Ok(()) };
        let about = file.metadata()?;
        self.names.insert(name.to_owned());
        // It has another name, under which it is in the archive.
        if !self.ids.insert((about.dev(), about.ino(), about.created().ok())) && is_later {
            return Ok(());
        }
        let mut header = Header::new_gnu();
        header.set_metadata(&about);
        // Of one that becomes shorter the rest is empty; the archive stays whole.
        let exactly = BufReader::new(file).chain(io::repeat(0)).take(about.len());
        self.builder.append_data(&mut header, name, exactly)?;
        self.found.files += 1;
        self.found.bytes += about.len();
        Ok(())
    }
}

/// `None` for what was there a moment ago.
fn unless_gone<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// What is in the state directory, in an order that stays the same.
fn items_of(root: &Path) -> anyhow::Result<Vec<Item>> {
    let mut items = Vec::new();
    collect(root, Path::new(""), &mut items)?;
    Ok(items)
}

/// What is in a folder. Sockets and pipes are of running programs.
fn collect(root: &Path, at: &Path, items: &mut Vec<Item>) -> anyhow::Result<()> {
    let folder = root.join(at);
    let failed = || format!("cannot read {}", folder.display());
    let Some(entries) = unless_gone(fs::read_dir(&folder)).with_context(failed)? else {
        return Ok(());
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>().with_context(failed)?;
    sort::plain(&mut names);
    for name in names {
        if at.as_os_str().is_empty() && name.to_str().is_some_and(is_of_program) {
            continue;
        }
        let name = at.join(name);
        let path = root.join(&name);
        let about = unless_gone(fs::symlink_metadata(&path));
        let about = about.with_context(|| format!("cannot read {}", path.display()))?;
        let Some(about) = about else { continue };
        let is_folder = about.is_dir();
        if is_folder || about.is_file() || about.is_symlink() {
            items.push(Item { path, name: name.clone(), about });
        }
        if is_folder {
            collect(root, &name, items)?;
        }
    }
    Ok(())
}

/// Whether it is of the running program: its lock, its prompts for the CLI that answers, its
/// commands in the background, or the database, which comes as a copy.
fn is_of_program(name: &str) -> bool {
    let end = name.strip_prefix(Paths::DATABASE);
    let is_database = end.is_some_and(|end| ["", "-wal", "-shm", "-journal"].contains(&end));
    is_database || [Paths::LOCK, Paths::CLI_PROMPTS, Paths::EXEC_RUNNING].contains(&name)
}

/// The links to folders and files, of which the archive has no more than that.
fn links(items: &[Item]) -> Vec<PathBuf> {
    let links = items.iter().filter(|item| item.about.is_symlink() && item.path.exists());
    links.map(|item| item.path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_renamed_meanwhile_is_in_it_under_one_of_its_names() {
        let home = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::write(home.path().join(name), name).unwrap();
        }
        // Of the running gateway.
        fs::create_dir(home.path().join("cli-prompts")).unwrap();
        fs::write(home.path().join("cli-prompts/system-prompt-1"), "secret").unwrap();
        let mut writing = Writing::new(Builder::new(Vec::new()));
        let items = items_of(home.path()).unwrap();
        writing.add(&items[0], false).unwrap();
        for name in ["a", "b"] {
            fs::rename(home.path().join(name), home.path().join(format!("{name}.reset"))).unwrap();
        }
        writing.add(&items[1], false).unwrap();
        for item in items_of(home.path()).unwrap() {
            writing.add(&item, true).unwrap();
        }
        let bytes = writing.builder.into_inner().unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let names = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().into_owned().to_str().unwrap().to_owned());
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b.reset"]);
        assert_eq!((writing.found.files, writing.found.bytes), (2, 2));
    }

    #[test]
    fn what_comes_later_with_the_number_of_what_is_gone_is_in_it() {
        let home = tempfile::tempdir().unwrap();
        let [first, second] = ["a", "b"].map(|name| home.path().join(name));
        let mut writing = Writing::new(Builder::new(io::sink()));
        fs::write(&first, "first").unwrap();
        let born = fs::metadata(&first).unwrap().created();
        writing.add(&items_of(home.path()).unwrap()[0], false).unwrap();
        fs::remove_file(&first).unwrap();
        fs::write(&second, "second").unwrap();
        // Clocks of files are coarse.
        let Ok(born) = born else { return };
        while fs::metadata(&second).unwrap().created().unwrap() == born {
            fs::remove_file(&second).unwrap();
            fs::write(&second, "second").unwrap();
        }
        writing.add(&items_of(home.path()).unwrap()[0], true).unwrap();
        assert_eq!(writing.found.files, 2);
    }

    #[test]
    fn what_was_cut_off_is_removed_and_what_is_written_stays() {
        let shelf = tempfile::tempdir().unwrap();
        let written = unfinished(shelf.path()).unwrap();
        let part = part_of(&written).unwrap();
        let [left, of_left, other] =
            [".clawgate-backup-x.tmp", ".clawgate-backup-x.tmpy.sqlite", "mine.tmp"]
                .map(|name| shelf.path().join(name));
        for file in [&left, &of_left, &other] {
            fs::write(file, "").unwrap();
        }
        assert_eq!(sweep(shelf.path()), std::slice::from_ref(&left));
        assert!(!left.exists() && !of_left.exists() && other.exists());
        assert!(written.path().exists() && part.path().exists());
    }
}
