//! Where the log file is, and what it is called.
//!
//! Promises: a directory that others can write to is not used; files are
//! numbered by how much was logged before them, which their first line says.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::config::LoggingSettings;
use crate::support::sort;

/// First lines are short: they hold an opening, or a line of another program.
const FIRST_LINE_MAX: u64 = 2048;
/// Nobody else may look into or change it.
const OTHERS_WRITE: u32 = 0o022;

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPlace {
    /// One file; `None` has one per day in `dir`.
    pub file: Option<PathBuf>,
    /// For the files of days.
    pub dir: PathBuf,
    /// A file that would become larger is put away.
    pub max_bytes: u64,
}

/// A log file that is open.
pub(super) struct Opened {
    pub path: PathBuf,
    pub file: File,
    /// Bytes that were logged before it.
    pub base: u64,
    /// Its size.
    pub len: u64,
    /// Of the last change, in seconds since the epoch.
    pub changed: i64,
}

impl Opened {
    /// Bytes that were logged up to its end.
    pub fn end(&self) -> u64 {
        self.base + self.len
    }
}

impl LogPlace {
    /// What the settings say.
    pub fn of(settings: &LoggingSettings) -> Self {
        Self {
            file: settings.file.clone(),
            dir: settings.dir.clone(),
            max_bytes: settings.max_file_bytes,
        }
    }

    /// The place that lines went to last: a service keeps its log below the state
    /// directory, and a gateway that is started by hand where the settings say.
    pub fn last_used(settings: &LoggingSettings, state_dir: &Path, now_ms: u64) -> Self {
        let usual = Self::of(settings);
        if usual.file.is_some() {
            return usual;
        }
        let of_service = Self { dir: state_dir.join("logs"), ..usual.clone() };
        let changed = |place: &Self| {
            let files = place.files(now_ms).unwrap_or_default();
            files.iter().map(|file| file.changed).max()
        };
        if changed(&of_service) > changed(&usual) { of_service } else { usual }
    }

    /// The file that lines go to at this time.
    pub fn current(&self, now_ms: u64) -> PathBuf {
        if let Some(file) = &self.file {
            return file.clone();
        }
        let now = i64::try_from(now_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let day = now.unwrap_or_default().to_zoned(TimeZone::system()).date();
        self.usable_dir().join(format!("openclaw-{day}.log"))
    }

    /// `dir`, or one with our number where `dir` is somebody else's: anybody can
    /// make a directory in that of temporary files.
    fn usable_dir(&self) -> PathBuf {
        match fs::symlink_metadata(&self.dir) {
            Ok(found) if !is_ours(&found) => {
                let mut name = self.dir.file_name().unwrap_or_default().to_owned();
                name.push(format!("-{}", rustix::process::getuid().as_raw()));
                self.dir.with_file_name(name)
            }
            _ => self.dir.clone(),
        }
    }

    /// The directory that the files are in, made if need be.
    pub(super) fn make_dir(&self, current: &Path) -> io::Result<()> {
        let Some(dir) = current.parent() else { return Ok(()) };
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        if self.file.is_none() && !is_ours(&fs::symlink_metadata(dir)?) {
            let why = format!("{} can be changed by others", dir.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(())
    }

    /// The files that are there, oldest first, opened for reading.
    pub(super) fn files(&self, now_ms: u64) -> io::Result<Vec<Opened>> {
        let current = self.current(now_ms);
        let dir = current.parent().unwrap_or(Path::new("."));
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if self.is_one(&path, &current) {
                // Gone since, or not ours to read.
                files.extend(open_to_read(&path).ok());
            }
        }
        // Two of the same number: the empty one is older.
        sort::by_key(&mut files, |file| (file.base, file.end()));
        Ok(files)
    }

    /// Whether a file of this name is one of ours.
    fn is_one(&self, path: &Path, current: &Path) -> bool {
        if path == current {
            return true;
        }
        let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
        let Some((name, current)) = name(path).zip(name(current)) else { return false };
        if self.file.is_none() {
            let day = name.strip_prefix("openclaw-").and_then(|rest| rest.strip_suffix(".log"));
            return day
                .and_then(|day| day.get(..10))
                .is_some_and(|day| day.parse::<Date>().is_ok());
        }
        archive_number(&name, &current).is_some()
    }
}

/// The next free name for a file that is put away.
pub(super) fn archive(current: &Path) -> io::Result<PathBuf> {
    let dir = current.parent().unwrap_or(Path::new("."));
    let name = current.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut last = 0;
    for entry in fs::read_dir(dir)? {
        let other = entry?.file_name();
        last = last.max(archive_number(&other.to_string_lossy(), &name).unwrap_or(0));
    }
    let (stem, end) = split(&name);
    Ok(dir.join(format!("{stem}.{}{end}", last + 1)))
}

/// `7` for `gateway.7.log` beside `gateway.log`.
fn archive_number(name: &str, current: &str) -> Option<u64> {
    let (stem, end) = split(current);
    name.strip_prefix(stem)?.strip_prefix('.')?.strip_suffix(end)?.parse().ok()
}

fn split(name: &str) -> (&str, &str) {
    let at = name.rfind('.').filter(|at| *at > 0).unwrap_or(name.len());
    name.split_at(at)
}

/// Whether only this user can change what it is.
fn is_ours(found: &fs::Metadata) -> bool {
    found.is_dir()
        && found.uid() == rustix::process::getuid().as_raw()
        && found.mode() & OTHERS_WRITE == 0
}

fn flags() -> i32 {
    // Neither a link of somebody else, nor a pipe that nobody reads.
    i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default()
}

fn opened(path: &Path, file: File) -> io::Result<Opened> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let (len, changed) = (metadata.len(), metadata.mtime());
    Ok(Opened { path: path.to_owned(), base: 0, file, len, changed })
}

fn open_to_read(path: &Path) -> io::Result<Opened> {
    let file = OpenOptions::new().read(true).custom_flags(flags()).open(path)?;
    let mut opened = opened(path, file)?;
    opened.base = offset_of(&opened.file)?;
    Ok(opened)
}

/// The file for writing at its end, made if need be.
pub(super) fn open_to_write(path: &Path) -> io::Result<Opened> {
    let mut options = OpenOptions::new();
    let file = options.read(true).append(true).create(true).mode(0o600).custom_flags(flags());
    let mut opened = opened(path, file.open(path)?)?;
    opened.base = offset_of(&opened.file)?;
    Ok(opened)
}

/// What the first line says about what came before; 0 when it says nothing,
/// as in a file of another program.
fn offset_of(file: &File) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let mut first = vec![0; usize::try_from(FIRST_LINE_MAX).unwrap_or_default()];
    let mut read = 0;
    loop {
        match file.read_at(&mut first[read..], read as u64)? {
            0 => break,
            more => read += more,
        }
        if read == first.len() || first[..read].contains(&b'\n') {
            break;
        }
    }
    let line = first[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let said = serde_json::from_slice::<Value>(line).ok();
    Ok(said.and_then(|line| line.get("offset")?.as_u64()).unwrap_or(0))
}

/// Reads `len` bytes at `at`, or what there is of them.
pub(super) fn read_at(file: &File, at: u64, len: u64) -> io::Result<Vec<u8>> {
    use std::io::Seek;
    let mut bytes = Vec::new();
    let mut file = file;
    file.seek(io::SeekFrom::Start(at))?;
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::LogLevel;

    #[test]
    fn archives_are_numbered_beside_their_file() {
        assert_eq!(archive_number("gateway.12.log", "gateway.log"), Some(12));
        assert_eq!(archive_number("gateway.log", "gateway.log"), None);
        assert_eq!(archive_number("gateway.x.log", "gateway.log"), None);
        assert_eq!(archive_number("plain.3", "plain"), Some(3));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.log");
        assert_eq!(archive(&file).unwrap(), dir.path().join("a.1.log"));
        fs::write(dir.path().join("a.9.log"), "").unwrap();
        assert_eq!(archive(&file).unwrap(), dir.path().join("a.10.log"));
    }

    #[test]
    fn the_log_of_a_service_is_found_where_nobody_says_so() {
        let root = tempfile::tempdir().unwrap();
        let [tmp, state] = ["tmp", "state"].map(|name| root.path().join(name));
        fs::create_dir_all(state.join("logs")).unwrap();
        fs::create_dir(&tmp).unwrap();
        let mut settings = LoggingSettings {
            level: LogLevel::Info,
            console_level: LogLevel::Info,
            file: None,
            dir: tmp.clone(),
            max_file_bytes: 1,
        };
        let used = |settings: &LoggingSettings| LogPlace::last_used(settings, &state, 0).dir;
        assert_eq!(used(&settings), tmp, "nothing was logged yet");
        let of_service = File::create(state.join("logs/openclaw-2026-01-01.log")).unwrap();
        assert_eq!(used(&settings), state.join("logs"));
        let by_hand = File::create(tmp.join("openclaw-2026-01-01.log")).unwrap();
        let at = |seconds| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        of_service.set_modified(at(1000)).unwrap();
        by_hand.set_modified(at(2000)).unwrap();
        assert_eq!(used(&settings), tmp, "it is the newer one");
        by_hand.set_modified(at(500)).unwrap();
        assert_eq!(used(&settings), state.join("logs"));
        settings.file = Some(tmp.join("a.log"));
        assert_eq!(used(&settings), tmp, "the config names one file");
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("openclaw");
        let place = LogPlace { file: None, dir: dir.clone(), max_bytes: 1 };
        assert_eq!(place.current(0).parent(), Some(dir.as_path()));
        place.make_dir(&place.current(0)).unwrap();
        assert_eq!(place.current(0).parent(), Some(dir.as_path()));
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        let own = format!("openclaw-{}", rustix::process::getuid().as_raw());
        assert_eq!(place.current(0).parent(), Some(root.path().join(&own).as_path()));
        fs::remove_dir(&dir).unwrap();
        std::os::unix::fs::symlink(root.path(), &dir).unwrap();
        assert_eq!(place.current(0).parent(), Some(root.path().join(&own).as_path()));
    }
}
