//! The state directory and what is kept in it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::files::give;
use super::finding::{Finding, Severity};
use crate::app;
use crate::config::{Paths, Settings};
use crate::sessions::import::Indexes;
use crate::sessions::{SessionError, Source, StoredSession, lost_with_database, stored_sessions};
use crate::store;
use crate::support::in_shell;

/// With less than this nothing can be kept for long.
const DISK_LEAST: u64 = 100 * 1024 * 1024;
/// With less than this a few large files are the end.
const DISK_FEW: u64 = 1024 * 1024 * 1024;
/// Bytes of transcripts that are read; beyond that a file is only opened.
const READ_MAX: u64 = 256 * 1024 * 1024;
/// Longer lines are not ours.
const LINE_MAX: u64 = 64 * 1024 * 1024;
/// More names tell nothing new.
pub const NAMES_MAX: usize = 5;
/// A clock that differs by more is wrong.
const CLOCK_SLACK_SECONDS: i64 = 60;

/// Whether the directory is there and can be written to.
pub fn directory(paths: &Paths) -> Vec<Finding> {
    let dir = &paths.state_dir;
    let shown = dir.display();
    let facts = match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(why) = cannot_be_made(dir) {
                return vec![unusable(dir, &why)];
            }
            let title = format!("there is no state directory {shown} yet");
            let why = "the gateway makes it at its first start";
            return vec![Finding::new(
                "state.missing",
                Severity::Info,
                title,
                why,
                "clawgate gateway",
            )];
        }
        Err(error) => return vec![unusable(dir, &error.to_string())],
        Ok(facts) => facts,
    };
    if !facts.is_dir() {
        return vec![unusable(dir, "it is no directory")];
    }
    let mut findings = match tempfile::tempfile_in(dir) {
        Ok(_) => vec![Finding::ok("state.directory", format!("state directory {shown}"))],
        Err(error) => vec![unusable(dir, &error.to_string())],
    };
    findings.extend(lock(&paths.instance_lock()));
    findings.extend(space(dir));
    findings.extend(synced(dir));
    findings
}

/// Why a folder that is not there cannot be made: that is up to the last one on the way to it.
fn cannot_be_made(dir: &Path) -> Option<String> {
    let last = dir.ancestors().find(|folder| folder.exists())?;
    let error = access(last, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!("it is not there, and cannot be made in {}: {error}", last.display()))
}

/// Whether the file can be used by which there is one gateway only.
fn lock(path: &Path) -> Option<Finding> {
    let opened = File::options().read(true).write(true).open(path);
    let error = opened.err().filter(|error| error.kind() != io::ErrorKind::NotFound)?;
    Some(Finding::new(
        "state.lock",
        Severity::Critical,
        format!("{} cannot be opened: {error}", path.display()),
        "the gateway does not start without it",
        give(path),
    ))
}

fn unusable(dir: &Path, why: &str) -> Finding {
    Finding::new(
        "state.unusable",
        Severity::Critical,
        format!("the state directory {} cannot be used: {why}", dir.display()),
        "nothing can be kept, so the gateway does not start",
        "make it writable for the gateway's user, or set OPENCLAW_STATE_DIR to another one",
    )
}

fn space(dir: &Path) -> Option<Finding> {
    let facts = rustix::fs::statvfs(dir).ok()?;
    let free = facts.f_bavail.saturating_mul(facts.f_frsize);
    let title = format!("{} MB are free where the state directory is", free / (1024 * 1024));
    let severity = match free {
        0..DISK_LEAST => Severity::Critical,
        DISK_LEAST..DISK_FEW => Severity::Warn,
        _ => return Some(Finding::ok("state.disk", title)),
    };
    let why = "a message is only taken when it can be kept";
    Some(Finding::new("state.disk", severity, title, why, "free some, or move the state directory"))
}

/// Folders that others copy while the gateway writes.
fn synced(dir: &Path) -> Option<Finding> {
    let text = dir.display().to_string().to_lowercase();
    let known =
        ["dropbox", "onedrive", "mobile documents", "icloud", "google drive", "googledrive"];
    let found = known.iter().find(|name| text.contains(*name))?;
    Some(Finding::new(
        "fs.synced_dir",
        Severity::Warn,
        format!("the state directory seems to be in a folder that is synchronised ({found})"),
        "a database that is copied while it is written to breaks, and its secrets leave the machine",
        "move it, and set OPENCLAW_STATE_DIR",
    ))
}

/// Whether the database is whole.
pub fn database(paths: &Paths) -> Option<Finding> {
    let path = paths.database();
    // One without a byte is not opened: that takes away what is beside it.
    if let Some(lost) = lost_database(paths, &path) {
        return Some(lost);
    }
    if !path.exists() {
        return None;
    }
    let why = "what it holds may be lost: sessions' settings, paired devices, jobs";
    let (place, whole) = (in_shell(&path), in_shell(&path.with_extension("new")));
    let fix = format!(
        "stop the gateway and copy {place} with its -wal and -shm to a safe place; then put what \
         `sqlite3 {place} .recover | sqlite3 {whole}` saves, or a backup, in the place of all \
         three. Where neither helps, move them away: sessions are found again in their \
         transcripts, and little else is; docs/operations.md, Backup"
    );
    let broken = |title: String| {
        Finding::new("store.database", Severity::Critical, title, why, fix.as_str())
    };
    Some(match store::check(&path) {
        Ok(complaints) if complaints.is_empty() => {
            Finding::ok("store.database", "the database is whole")
        }
        Ok(complaints) => {
            let named = complaints.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join("; ");
            broken(format!("the database is damaged: {named}"))
        }
        Err(error) => match error.help() {
            Some(help) => {
                let why = "the gateway does not start without it; it need not be damaged";
                let title = error.to_string();
                Finding::new("store.database", Severity::Critical, title, why, help)
            }
            None => broken(error.to_string()),
        },
    })
}

/// Whether there is none any more, or nothing in it, where there was one.
fn lost_database(paths: &Paths, path: &Path) -> Option<Finding> {
    let what = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => "there is no database",
        Ok(facts) if facts.is_file() && facts.len() == 0 => "nothing is in the database",
        _ => return None,
    };
    let lost = lost_with_database(&paths.state_dir)?;
    Some(Finding::new(
        "store.database",
        Severity::Critical,
        format!("{what} {}, beside conversations that were begun here", path.display()),
        format!("the next start lists these again; what else was in it is gone: {lost}"),
        format!(
            "before a gateway starts, copy what is left of it (its -wal) to a safe place, and put \
             a backup in the place of it all; then run `clawgate import --from {}`, for what is \
             newer; docs/operations.md, Backup",
            in_shell(&paths.state_dir)
        ),
    ))
}

/// Whether there are transcripts that no list of sessions shows.
pub fn unlisted(paths: &Paths, settings: &Settings) -> Option<Finding> {
    let indexes = app::indexes_of_openclaw(settings);
    let found = match indexes.unlisted(&app::key_rules(settings), &paths.database()) {
        Ok(found) => found,
        Err(error) => return Some(unknown(&error)),
    };
    let names: Vec<_> = found.iter().map(|path| path.display().to_string()).collect();
    (!names.is_empty()).then(|| {
        Finding::new(
            "sessions.unlisted",
            Severity::Warn,
            format!("{} transcripts are in no list of sessions: {}", names.len(), few(&names)),
            "nobody sees these conversations: the database is older than they are, as after a \
             restore, or its -wal was lost; or they were removed and their files kept, with \
             their agent or by an earlier release",
            format!(
                "stop the gateway, move those that are not wanted out of their folder, and run \
                 `clawgate import --from {}`",
                in_shell(&paths.state_dir)
            ),
        )
    })
}

/// Whether there are conversations whose transcripts are gone.
pub fn gone(paths: &Paths, settings: &Settings) -> Option<Finding> {
    let source = Source {
        state_dir: paths.state_dir.clone(),
        database: paths.database(),
        rules: app::key_rules(settings),
    };
    // That sessions cannot be read is told elsewhere.
    let sessions = stored_sessions(&source).ok()?;
    let is_gone = |session: &&StoredSession| {
        let about = fs::symlink_metadata(&session.file);
        session.entry.transcript.message_count > 0
            && about.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let gone = sessions.iter().filter(is_gone);
    let names: Vec<_> = gone.map(|it| format!("{} ({})", it.key, it.file.display())).collect();
    (!names.is_empty()).then(|| {
        Finding::new(
            "sessions.gone",
            Severity::Warn,
            format!("{} conversations have no transcript any more: {}", names.len(), few(&names)),
            "they are listed, and what was said in them is not here: somebody has removed or \
             moved the files",
            "stop the gateway and put the files back, from a backup; a session that is not wanted \
             any more goes with `clawgate call sessions.delete '{\"key\":\"<key>\"}'`",
        )
    })
}

/// It cannot be told which transcripts are listed.
fn unknown(error: &SessionError) -> Finding {
    let (id, help) = match error {
        SessionError::Store(error) => ("store.database", error.help()),
        _ => ("sessions.unreadable", None),
    };
    Finding::new(
        id,
        Severity::Critical,
        format!("whether each conversation is listed cannot be told: {error}"),
        "some may be seen by nobody",
        help.unwrap_or("give it to the gateway's user, or take it from a backup"),
    )
}

/// Lists of sessions of OpenClaw that cannot be read.
pub fn unreadable_indexes(paths: &Paths, settings: Option<&Settings>) -> Vec<Finding> {
    let found = indexes(paths, settings).unreadable().into_iter().map(|(what, help)| {
        let why = "conversations of OpenClaw that were not taken over before are listed nowhere";
        Finding::new("sessions.index", Severity::Warn, what, why, help)
    });
    found.collect()
}

fn indexes(paths: &Paths, settings: Option<&Settings>) -> Indexes {
    let state_dir = paths.state_dir.clone();
    let usual = || Indexes { state_dir, named: None, agents: Vec::new() };
    settings.map_or_else(usual, app::indexes_of_openclaw)
}

/// Whether OpenClaw has run here since its files were taken over, or has some elsewhere.
pub fn openclaw(paths: &Paths, settings: Option<&Settings>) -> Option<Finding> {
    let notes = store::sources_beside(&paths.database()).ok()?;
    let (what, help) = app::not_taken_over(&indexes(paths, settings), &notes)?;
    let why = "what it has added is not here, and jobs may run in both places; \
        docs/operations.md, Back to OpenClaw";
    Some(Finding::new("state.openclaw", Severity::Warn, what, why, help))
}

/// What reading transcripts came to.
#[derive(Default)]
struct Transcripts {
    files: usize,
    read: u64,
    unreadable: Vec<String>,
    torn: Vec<String>,
}

/// Whether transcripts can be read.
pub fn transcripts(paths: &Paths) -> Vec<Finding> {
    let mut seen = Transcripts::default();
    for agent in folders(&paths.state_dir.join("agents")) {
        for file in folders(&agent.join("sessions")) {
            if file.extension().is_some_and(|kind| kind == "jsonl") {
                seen.look(&file);
            }
        }
    }
    let mut findings = Vec::new();
    if !seen.unreadable.is_empty() {
        findings.push(Finding::new(
            "sessions.unreadable",
            Severity::Critical,
            format!(
                "{} transcripts cannot be read: {}",
                seen.unreadable.len(),
                few(&seen.unreadable)
            ),
            "these conversations are missing until they can",
            "give them to the gateway's user, or take them from a backup",
        ));
    }
    if !seen.torn.is_empty() {
        findings.push(Finding::new(
            "sessions.damaged",
            Severity::Warn,
            format!(
                "{} transcripts have lines that are no JSON: {}",
                seen.torn.len(),
                few(&seen.torn)
            ),
            "such lines are passed over; a torn last line is usual after a power loss",
            "nothing has to be done; a backup may have the lines whole",
        ));
    }
    if findings.is_empty() && seen.files > 0 {
        let title = format!("{} transcripts can be read", seen.files);
        findings.push(Finding::ok("sessions.transcripts", title));
    }
    findings
}

fn few(names: &[String]) -> String {
    names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ")
}

impl Transcripts {
    fn look(&mut self, path: &Path) {
        self.files += 1;
        match self.lines(path) {
            Ok(0) => {}
            Ok(_) => self.torn.push(path.display().to_string()),
            Err(error) => self.unreadable.push(format!("{} ({error})", path.display())),
        }
    }

    /// How many lines are none of ours.
    fn lines(&mut self, path: &Path) -> io::Result<usize> {
        let mut file = BufReader::new(File::open(path)?);
        let (mut line, mut bad) = (Vec::new(), 0);
        while self.read < READ_MAX {
            line.clear();
            let length = (&mut file).take(LINE_MAX).read_until(b'\n', &mut line)?;
            if length == 0 {
                break;
            }
            self.read = self.read.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
            let is_blank = line.iter().all(u8::is_ascii_whitespace);
            let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_ok();
            bad += usize::from(!is_blank && !is_json);
        }
        Ok(bad)
    }
}

fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Whether the clock can be right: it is not before the last thing that was
/// written.
pub fn clock(paths: &Paths, now_ms: u64) -> Finding {
    let now = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX);
    let written = [paths.database(), paths.config_path.clone(), paths.instance_lock()];
    let times = written.iter().filter_map(|path| {
        let modified = fs::metadata(path).ok()?.modified().ok()?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    });
    let ahead = times.max().unwrap_or(0).saturating_sub(now);
    if ahead <= CLOCK_SLACK_SECONDS {
        return Finding::ok("machine.clock", "the clock is not behind the gateway's files");
    }
    Finding::new(
        "machine.clock",
        Severity::Critical,
        format!("the clock is {ahead} s behind the last thing that the gateway has written"),
        "devices cannot log in, certificates seem invalid, and jobs start at wrong times",
        "set the clock, for example with `timedatectl set-ntp true`",
    )
}
