//! Transcripts that were put away when their session began anew.
//!
//! Promises: only those are found; what somebody has deleted stays out of sight.

use std::cmp::Reverse;
use std::path::PathBuf;

use serde_json::Value;

use super::error::At;
use super::service::Sessions;
use super::steps::blocking;
use super::transcript::{Position, position};
use super::{AgentId, HistoryOptions, SessionError, SessionId, history, paths};

/// A conversation that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// Whose it was.
    pub agent: AgentId,
    /// How many messages it has.
    pub messages: u64,
    /// The newest of them, in display form.
    pub newest: Vec<Value>,
}

impl Sessions {
    /// The conversation whose transcript had this id before its session began
    /// anew, with its newest messages; `None` when there is none.
    ///
    /// # Errors
    /// When transcripts cannot be read.
    pub async fn past(
        &self,
        id: &str,
        options: HistoryOptions,
    ) -> Result<Option<Past>, SessionError> {
        let Some(id) = SessionId::parse(id) else { return Ok(None) };
        let state_dir = self.state_dir().to_owned();
        let looking = blocking(move || {
            let (agents, _) = paths::agents(&state_dir).at("look for agents in", &state_dir)?;
            for agent in agents {
                let folder = paths::folder(&state_dir, &agent);
                let files = paths::children(&folder).at("look for transcripts in", &folder)?;
                if let Some(path) = newest_of(files, &id) {
                    return Ok(Some((agent, path)));
                }
            }
            Ok(None)
        });
        let Some((agent, path)) = looking.await? else { return Ok(None) };
        let turn = self.turn(&path).await;
        let reading = blocking(move || {
            let _turn = turn;
            let read = || {
                let file = paths::open(&path)?;
                let end = position(&file, file.metadata()?.len(), &Position::default())?;
                Ok((end.messages, history::newest(&file, &end, options)?))
            };
            read().at("read", &path)
        });
        let (messages, newest) = reading.await?;
        Ok(Some(Past { agent, messages, newest }))
    }
}

/// The file that was put away last under an id.
fn newest_of(files: Vec<PathBuf>, id: &SessionId) -> Option<PathBuf> {
    let times = files.into_iter().filter_map(|path| {
        let archive = paths::archive(path.file_name()?.to_str()?)?;
        (archive.id == *id && archive.reason == "reset").then_some((archive.archived_at, path))
    });
    times.min_by_key(|(archived_at, _)| Reverse(*archived_at)).map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_away_last_is_found_and_what_was_deleted_is_not() {
        let id = SessionId::parse("5c2a6b4e-0000-4000-8000-000000000000").unwrap();
        let path = |reason: &str, day: u8| {
            PathBuf::from(format!("/s/{id}.jsonl.{reason}.2026-11-{day:02}T03-46-28.004Z"))
        };
        let files = vec![path("reset", 2), path("reset", 9), path("deleted", 20), path("bak", 21)];
        assert_eq!(newest_of(files, &id), Some(path("reset", 9)));
        assert_eq!(newest_of(vec![path("deleted", 3)], &id), None);
    }
}
