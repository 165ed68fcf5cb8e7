//! Commands in the background that a killed gateway takes with it.
//!
//! Owns: a file for each in `exec-running`, from when nobody waits for it until its end is
//! told. Promises: what the last process could not tell is told by this one, which has the
//! command on the list as one that has ended. Must not: start or end commands.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exec::Process;
use super::parts::RunsParts;
use crate::sessions::SessionKey;
use crate::store::{JsonFile, NoticeRow, StoreError, Teller};
use crate::support::{blocking, json, reading};

/// A command, as its file has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Noted {
    id: String,
    command: String,
    cwd: PathBuf,
    session_key: String,
    started_at: u64,
    is_owner: bool,
}

impl RunsParts {
    /// Notes a command that nobody waits for any more; where, until its end is told.
    pub async fn note_command(&self, process: &Process, is_owner: bool) -> JsonFile {
        let noted = Noted {
            id: process.id.clone(),
            command: process.command.clone(),
            cwd: process.cwd.clone(),
            session_key: process.session.to_string(),
            started_at: process.started_at,
            is_owner,
        };
        let folder = self.settings.now().paths.exec_running_dir();
        let file = JsonFile::new(folder.join(format!("{}.json", process.id)));
        if let Err(error) = file.write(&json!(noted)).await {
            tracing::warn!(command = %process.id, %error, "nobody is told if a kill ends it");
        }
        file
    }

    /// Tells of the commands that ended with the last process, which could not do that.
    pub(super) async fn tell_cut_commands(&self) -> Result<(), StoreError> {
        let folder = self.settings.now().paths.exec_running_dir();
        let paths = blocking(move || paths_in(&folder)).await.unwrap_or_default();
        if paths.is_empty() {
            return Ok(());
        }
        let told = self.store.notices().await?;
        for path in paths {
            let file = JsonFile::new(path);
            let read =
                |value: &Value| reading::of::<Noted>(value).map_err(|error| error.to_string());
            match file.read(read).await {
                Ok(Some(noted)) => self.tell_cut_command(noted, &told).await?,
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "a command that has ended is not told"),
            }
            forget_command(&file).await;
        }
        Ok(())
    }

    async fn tell_cut_command(&self, noted: Noted, told: &[NoticeRow]) -> Result<(), StoreError> {
        let Noted { id, command, cwd, session_key, started_at, is_owner } = noted;
        let text = format!("Exec ended: the gateway was cut off ({id}, code unknown)");
        // The end of one that has ended before may be told already.
        let name = format!("({id}, ");
        let is_told =
            told.iter().any(|it| it.session_key == session_key && it.text.contains(&name));
        let session = SessionKey::from_canonical(session_key);
        if is_told || self.store.session(session.as_str()).await?.is_none() {
            return Ok(());
        }
        let now = self.clock.now_ms();
        let process = Process::lost(id, command, cwd, session.clone(), started_at, now);
        self.processes.add_lost(process);
        if !self.settings.now().exec.notify_on_exit {
            return Ok(());
        }
        self.remind(&session, &text, Teller::owner_if(is_owner)).await
    }
}

/// The end of a command is told.
pub async fn forget_command(file: &JsonFile) {
    if let Err(error) = file.remove().await {
        tracing::warn!(%error, "the end of a command may be told once more");
    }
}

/// The files of a folder, which there need not be.
fn paths_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}
