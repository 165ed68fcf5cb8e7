//! A change of the config file that the gateway itself works out.
//!
//! Promises: the change is worked out from what the file says at that moment,
//! with no other writer of this process between reading and writing; what
//! another program wrote meanwhile is read, not overwritten.

use std::path::Path;

use serde_json::Value;

use super::ConfigIssue;
use super::write::{ConfigWriteError, Known, refused};
use crate::config::load::said;
use crate::config::save::{SaveError, write_with};
use crate::config::{Env, Paths, Settings, include, parse, preview};
use crate::store::atomic::System;

/// So often a change is worked out anew when another program was faster.
const TRIES: usize = 4;

/// Puts what `plan` makes of the file's content in its place, comments and
/// order kept; answers the settings that it means. `prepare` gets these before
/// anything is written, and can still refuse, as can `would_work`, which gets a
/// text that means something else. Blocks.
///
/// # Errors
/// What `plan`, `prepare` and `would_work` say; when the result is nothing that a gateway
/// would start with; when the file is not readable or not writable. Nothing is
/// written then.
pub fn change<E: From<ConfigWriteError> + From<SaveError>>(
    env: &Env,
    mut plan: impl FnMut(&Value) -> Result<Value, E>,
    mut prepare: impl FnMut(&Settings) -> Result<(), E>,
    would_work: impl Fn(&str) -> Result<(), ConfigIssue>,
) -> Result<Settings, E> {
    change_by(env, &mut plan, &mut prepare, &would_work)
}

/// The same, in the program once for all plans.
fn change_by<E: From<ConfigWriteError> + From<SaveError>>(
    env: &Env,
    plan: &mut dyn FnMut(&Value) -> Result<Value, E>,
    prepare: &mut dyn FnMut(&Settings) -> Result<(), E>,
    would_work: &dyn Fn(&str) -> Result<(), ConfigIssue>,
) -> Result<Settings, E> {
    let path = Paths::resolve(env).map_err(|error| refused(&error))?.config_path;
    let mut tries = 1;
    loop {
        let mut settings = None;
        let written = write_with(&System, &path, |before| -> Result<String, Raced<E>> {
            let (next, meant, known) =
                worked_out(before, env, &path, plan).map_err(Raced::Other)?;
            if meant.raw != known {
                would_work(&next)
                    .map_err(|wrong| Raced::Other(ConfigWriteError::from(wrong).into()))?;
            }
            prepare(&meant).map_err(Raced::Other)?;
            settings = Some(meant);
            Ok(next)
        });
        match (written, settings) {
            (Ok(_), Some(settings)) => return Ok(settings),
            (Err(Raced::Save(SaveError::Stale(_))), _) if tries < TRIES => tries += 1,
            (Err(Raced::Save(error)), _) => return Err(error.into()),
            (Err(Raced::Other(error)), _) => return Err(error),
            // What was written was worked out before.
            (Ok(_), None) => return Err(SaveError::Stale(path).into()),
        }
    }
}

/// The settings that a config means.
///
/// # Errors
/// What is wrong with it.
pub fn meaning(config: &Value, env: &Env) -> Result<Settings, ConfigWriteError> {
    preview(&config.to_string(), env).map_err(|error| refused(&error))
}

/// The next text, the settings that it means, and what the one before says.
fn worked_out<E: From<ConfigWriteError> + From<SaveError>>(
    before: Option<&[u8]>,
    env: &Env,
    path: &Path,
    plan: &mut dyn FnMut(&Value) -> Result<Value, E>,
) -> Result<(String, Settings, Value), E> {
    let text = said(before, path).map_err(|error| refused(&error))?;
    let whole = parse(text, path).and_then(|raw| include::whole(raw, path));
    whole.map_err(|error| refused(&error))?;
    let known = Known::of(text, path);
    let next = known.rewritten(text, plan(&known.whole)?)?;
    let meant = preview(&next, env).map_err(|error| refused(&error))?;
    Ok((next, meant, known.whole))
}

/// What came of one try.
enum Raced<E> {
    /// The file.
    Save(SaveError),
    /// The change.
    Other(E),
}

impl<E> From<SaveError> for Raced<E> {
    fn from(error: SaveError) -> Self {
        Self::Save(error)
    }
}
