//! Whether a gateway works, or only helps to mend its config file.

use std::path::PathBuf;

use tempfile::TempDir;

use super::AppError;
use crate::agent::Runs;
use crate::agent::roster::finish_removals;
use crate::config::secrets::ResolvedSecrets;
use crate::config::{Env, Paths, Settings};
use crate::registry::Repair;
use crate::sessions::SessionsOptions;

/// How a gateway is put together.
pub(super) struct Mode {
    /// Why it only mends, when it does.
    pub repair: Option<Repair>,
    /// Then nothing of the state is touched: under other settings it would be
    /// read otherwise. What the parts want to keep is kept here, and goes; but for the note
    /// of who has mended the file, which the next gateway tells.
    place: Option<TempDir>,
    /// What it has of secrets that are not to be had any more.
    pub kept: ResolvedSecrets,
}

impl Mode {
    /// As the config file allows.
    ///
    /// # Errors
    /// When there is no room for what only lives as long as the gateway.
    pub fn of(repair: Option<Repair>, kept: ResolvedSecrets) -> Result<Self, AppError> {
        let place = repair.as_ref().map(|_| TempDir::with_prefix("clawgate-repair-"));
        Ok(Self { repair, place: place.transpose().map_err(AppError::Place)?, kept })
    }

    /// Where the database is.
    pub fn database(&self, settings: &Settings) -> PathBuf {
        let own = self.place.as_ref().map(|place| place.path().join(Paths::DATABASE));
        own.unwrap_or_else(|| settings.paths.database())
    }

    /// Where conversations are looked for.
    pub fn confined(&self, options: SessionsOptions) -> SessionsOptions {
        let own = self.place.as_ref().map(|place| place.path().to_owned());
        SessionsOptions { state_dir: own.unwrap_or(options.state_dir), ..options }
    }

    /// Goes on with what the last process left, where anything is done.
    ///
    /// # Errors
    /// When that cannot be completed.
    pub async fn recover(&self, runs: &Runs, env: &Env) -> Result<(), AppError> {
        if self.repair.is_none() {
            runs.recover().await?;
            // After that: a message that had no place yet has made its session again.
            Box::pin(finish_removals(runs.parts(), env)).await?;
        }
        Ok(())
    }
}
