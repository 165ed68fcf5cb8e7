//! Where transcripts are: the same places and names as in the original.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{AgentId, SessionError, SessionId, SessionKey, time};
use crate::store::SessionEntry;
use crate::support::sort;

/// How a transcript is opened: what a link in its place leads to is not.
pub(super) const FLAGS: OFlags = OFlags::NOFOLLOW;
/// Why it is not opened.
const LINK: &str = "it is a link, and links are not followed here";
const NO_FILE: &str = "it is no file";

/// The folder of an agent's transcripts.
pub(super) fn folder(state_dir: &Path, agent: &AgentId) -> PathBuf {
    state_dir.join("agents").join(agent.as_str()).join("sessions")
}

/// OpenClaw's index of an agent, where its config names no other place.
pub(super) fn index(state_dir: &Path, agent: &AgentId) -> PathBuf {
    folder(state_dir, agent).join("sessions.json")
}

/// The transcript of an entry. OpenClaw may keep a file name over a reset, so
/// the name in `sessionFile` counts, but never its folder.
pub(super) fn transcript(
    folder: &Path,
    key: &SessionKey,
    entry: &SessionEntry,
) -> Result<PathBuf, SessionError> {
    let named = entry.session_file.as_deref().and_then(stem);
    let id = named
        .or_else(|| SessionId::parse(&entry.session_id))
        .ok_or_else(|| SessionError::BadId { key: key.clone(), id: entry.session_id.clone() })?;
    Ok(file(folder, &id))
}

/// The transcript with this id.
pub(super) fn file(folder: &Path, id: &SessionId) -> PathBuf {
    folder.join(format!("{id}.jsonl"))
}

/// Opens a transcript, or a file that came with a message, for reading; see [`open_by`]. Nobody
/// waits at a pipe.
///
/// # Errors
/// When it does not open, is a link, or no file.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let file = open_as(OpenOptions::new().read(true), FLAGS | OFlags::NONBLOCK, path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other(NO_FILE)) }
}

/// Opens a transcript as `options` say. Its folders may be links, to another disk of the user's;
/// itself it may not: commands of an agent can put a link in its place, and who may read sessions
/// may read neither every file nor the sessions of every agent.
///
/// # Errors
/// When it does not open, or is a link.
pub(super) fn open_by(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    open_as(options, FLAGS, path)
}

fn open_as(options: &mut OpenOptions, flags: OFlags, path: &Path) -> io::Result<File> {
    options.custom_flags(flags.bits().cast_signed()).open(path).map_err(|error| {
        let is_link = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
        if is_link { link() } else { error }
    })
}

fn link() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, LINK)
}

/// The id in the name of a transcript; `None` for other files.
pub(super) fn stem(path: &str) -> Option<SessionId> {
    let name = Path::new(path).file_name()?.to_str()?;
    let id = name.strip_suffix(".jsonl")?;
    let other = id.contains(".checkpoint.") || id.ends_with(".trajectory");
    SessionId::parse(id).filter(|_| !other)
}

/// A transcript that was put away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Archive {
    /// Its id.
    pub id: SessionId,
    /// `reset`, `deleted` or `bak`.
    pub reason: String,
    /// When it was put away, in milliseconds since the epoch.
    pub archived_at: u64,
}

/// Reads the name of a transcript that was put away; `None` for other files.
pub(super) fn archive(name: &str) -> Option<Archive> {
    let (id, suffix) = name.split_once(".jsonl.")?;
    let (reason, time) = suffix.split_once('.')?;
    if !matches!(reason, "reset" | "deleted" | "bak") {
        return None;
    }
    let (date, clock) = time.split_once('T')?;
    let archived_at = time::millis(&format!("{date}T{}", clock.replace('-', ":")));
    let id = SessionId::parse(id)?;
    (archived_at > 0).then(|| Archive { id, reason: reason.to_owned(), archived_at })
}

/// What is in a folder; nothing when there is no such folder.
pub(super) fn children(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder)?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// A file on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub path: PathBuf,
    pub bytes: u64,
    /// When it was changed last, in milliseconds since the epoch.
    pub modified_ms: u64,
}

/// Looks at a file of a folder of sessions; `None` when there is none (any more).
pub(super) fn look(path: PathBuf) -> io::Result<Option<Seen>> {
    let about = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        about => about?,
    };
    if about.is_symlink() {
        return Err(link());
    }
    if !about.is_file() {
        return Ok(None);
    }
    let modified_ms = modified_ms(&about)?;
    Ok(Some(Seen { path, bytes: about.len(), modified_ms }))
}

/// The files in a folder; one that cannot be looked at is left out and told.
pub(super) fn files(folder: &Path) -> io::Result<Vec<Seen>> {
    let look = |path: PathBuf| {
        let seen = look(path.clone());
        let told = seen.inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "left out, because it cannot be read");
        });
        told.ok().flatten()
    };
    Ok(children(folder)?.into_iter().filter_map(look).collect())
}

/// When a file was changed last, in milliseconds since the epoch.
pub(super) fn modified_ms(about: &fs::Metadata) -> io::Result<u64> {
    let since_epoch = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

/// The agents that have folders below a state folder. What has no name of an
/// agent comes apart.
pub(super) fn agents(state_dir: &Path) -> io::Result<(Vec<AgentId>, Vec<PathBuf>)> {
    let (mut agents, mut others) = (Vec::new(), Vec::new());
    for folder in children(&state_dir.join("agents"))? {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let agent = AgentId::normalize(name);
        if agent.as_str() == name { agents.push(agent) } else { others.push(folder) }
    }
    sort::plain(&mut agents);
    Ok((agents, others))
}

/// The name that a transcript gets when it is put away.
pub(super) fn archived(path: &Path, reason: &str, iso_time: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{reason}.{}", iso_time.replace(':', "-")));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(session_id: &str, session_file: Option<&str>) -> Option<PathBuf> {
        let entry = SessionEntry {
            session_id: session_id.into(),
            session_file: session_file.map(Into::into),
            ..SessionEntry::default()
        };
        transcript(Path::new("/s"), &SessionKey::from_canonical("k"), &entry).ok()
    }

    #[test]
    fn a_transcript_stays_in_its_folder() {
        assert_eq!(path("new", None), Some("/s/new.jsonl".into()));
        assert_eq!(path("new", Some("/elsewhere/old.jsonl")), Some("/s/old.jsonl".into()));
        assert_eq!(path("new", Some("/etc/passwd")), Some("/s/new.jsonl".into()));
        assert_eq!(path("new", Some("../..")), Some("/s/new.jsonl".into()));
        assert_eq!(path("../x", None), None);
    }

    #[test]
    fn archives_are_named_as_the_original_names_them() {
        let name = archived(Path::new("/s/a.jsonl"), "reset", "2026-11-22T03:46:28.004Z");
        assert_eq!(name, Path::new("/s/a.jsonl.reset.2026-11-22T03-46-28.004Z"));
        assert_eq!(stem("/s/a.jsonl.reset.2026-11-22T03-46-28.004Z"), None);
        let read = archive("a.jsonl.reset.2026-11-22T03-46-28.004Z").unwrap();
        let expected = Archive {
            id: SessionId::parse("a").unwrap(),
            reason: "reset".into(),
            archived_at: time::millis("2026-11-22T03:46:28.004Z"),
        };
        assert_eq!(read, expected);
        for other in ["a.jsonl", "a.jsonl.lock", "a.jsonl.reset.soon", "a.jsonl.bak-7-9"] {
            assert_eq!(archive(other), None, "{other}");
        }
        assert_eq!(stem("/s/a.trajectory.jsonl"), None);
        assert_eq!(stem("/s/a.checkpoint.b.jsonl"), None);
    }

    #[test]
    fn a_link_in_the_place_of_a_transcript_is_none_wherever_it_leads() {
        use std::os::unix::fs::symlink;

        let home = tempfile::tempdir().unwrap();
        let place = |name: &str| home.path().join(name);
        // The folders of all agents, and that of this one, are on other disks.
        for folder in ["state", "disk/other/sessions", "main"] {
            fs::create_dir_all(place(folder)).unwrap();
        }
        symlink(place("disk"), place("state/agents")).unwrap();
        fs::create_dir(place("disk/main")).unwrap();
        symlink(place("main"), place("disk/main/sessions")).unwrap();
        let folder = folder(&place("state"), &AgentId::normalize("main"));
        let others = place("state/agents/other/sessions/b.jsonl");
        for file in [folder.join("a.jsonl"), place("state/openclaw.json"), others.clone()] {
            fs::write(file, "x").unwrap();
        }
        symlink("a.jsonl", folder.join("own.jsonl")).unwrap();
        symlink(others, folder.join("b.jsonl")).unwrap();
        symlink(place("state/openclaw.json"), folder.join("leak.jsonl")).unwrap();
        symlink(place("none"), folder.join("lost.jsonl")).unwrap();
        fs::create_dir(folder.join("folder.jsonl")).unwrap();
        let (here, all) = (rustix::fs::CWD, rustix::fs::Mode::RWXU);
        rustix::fs::mkfifoat(here, folder.join("pipe.jsonl"), all).unwrap();
        let refused = Err(io::ErrorKind::PermissionDenied);
        for (name, expected) in [
            ("a.jsonl", Ok(())),
            ("own.jsonl", refused),
            ("b.jsonl", refused),
            ("leak.jsonl", refused),
            ("lost.jsonl", refused),
            ("folder.jsonl", Err(io::ErrorKind::Other)),
            ("pipe.jsonl", Err(io::ErrorKind::Other)),
            ("none.jsonl", Err(io::ErrorKind::NotFound)),
        ] {
            let opened = open(&folder.join(name)).map(drop).map_err(|error| error.kind());
            assert_eq!(opened, expected, "{name}");
        }
        let seen: Vec<_> = files(&folder).unwrap().into_iter().map(|seen| seen.path).collect();
        assert_eq!(seen, [folder.join("a.jsonl")]);
    }
}
