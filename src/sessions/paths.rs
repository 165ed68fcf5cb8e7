//! Where transcripts are (`reference/state-layout.md`).

use std::path::{Path, PathBuf};

use super::{AgentId, SessionError, SessionId, SessionKey};
use crate::store::SessionEntry;

/// The folder of an agent's transcripts.
pub(super) fn folder(state_dir: &Path, agent: &AgentId) -> PathBuf {
    state_dir.join("agents").join(agent.as_str()).join("sessions")
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

/// The id in the name of a transcript; `None` for other files.
pub(super) fn stem(path: &str) -> Option<SessionId> {
    let name = Path::new(path).file_name()?.to_str()?;
    let id = name.strip_suffix(".jsonl")?;
    let other = id.contains(".checkpoint.") || id.ends_with(".trajectory");
    SessionId::parse(id).filter(|_| !other)
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
        assert_eq!(stem("/s/a.trajectory.jsonl"), None);
        assert_eq!(stem("/s/a.checkpoint.b.jsonl"), None);
    }
}
