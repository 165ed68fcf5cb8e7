//! The transcripts whose usage counts.

use std::io;
use std::path::{Path, PathBuf};

use super::super::paths::{self, Seen};
use super::super::{AgentId, SessionId};
use crate::support::sort;

/// A transcript on disk: a current one, or one put away by a reset or a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TranscriptFile {
    pub agent: AgentId,
    pub path: PathBuf,
    pub name: String,
    /// The id in its name.
    pub id: SessionId,
    pub length: u64,
    pub modified_ms: u64,
}

impl TranscriptFile {
    /// `None` when it is no such file.
    pub fn look(agent: &AgentId, path: &Path) -> io::Result<Option<Self>> {
        Ok(paths::look(path.to_owned())?.and_then(|seen| Self::of(agent, seen)))
    }

    fn of(agent: &AgentId, Seen { path, bytes, modified_ms }: Seen) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_owned();
        let (agent, id) = (agent.clone(), id_of(&name)?);
        Some(Self { agent, path, name, id, length: bytes, modified_ms })
    }

    /// How the store tells it.
    pub fn key(&self) -> (String, String) {
        (self.agent.as_str().to_owned(), self.name.clone())
    }
}

fn id_of(name: &str) -> Option<SessionId> {
    paths::stem(name).or_else(|| {
        // A `bak` is a copy of lines that count where they came from.
        paths::archive(name).filter(|archive| archive.reason != "bak").map(|archive| archive.id)
    })
}

/// All of them below a state folder, the last changed first. A folder that
/// cannot be read is left out and told.
pub(super) fn all(state_dir: &Path) -> io::Result<Vec<TranscriptFile>> {
    let mut found = Vec::new();
    for agent in paths::agents(state_dir)?.0 {
        let folder = paths::folder(state_dir, &agent);
        match paths::files(&folder) {
            Ok(seen) => {
                found.extend(seen.into_iter().filter_map(|seen| TranscriptFile::of(&agent, seen)));
            }
            Err(error) => {
                tracing::warn!(path = %folder.display(), %error, "usage here is left out");
            }
        }
    }
    sort::by(&mut found, |a, b| {
        b.modified_ms.cmp(&a.modified_ms).then_with(|| a.path.cmp(&b.path))
    });
    Ok(found)
}

/// The transcript with this id that was put away last, when there is no other.
pub(super) fn newest_archive(
    folder: &Path,
    agent: &AgentId,
    id: &SessionId,
) -> io::Result<Option<TranscriptFile>> {
    let mut newest = None;
    for path in paths::children(folder)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(archive) = paths::archive(name) else { continue };
        let is_newer = |(at, _): &(u64, PathBuf)| archive.archived_at > *at;
        if archive.id == *id && archive.reason != "bak" && newest.as_ref().is_none_or(is_newer) {
            newest = Some((archive.archived_at, path));
        }
    }
    newest.map_or(Ok(None), |(_, path)| TranscriptFile::look(agent, &path))
}
