//! `auth-profiles.json`: the file with an agent's credentials, in OpenClaw's
//! format.
//!
//! Promises: what we do not understand stays as it is; a file that is not
//! readable is never overwritten; the file is private and replaced whole; of
//! changes by several processes at once none is lost.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::Profile;
use super::usage_stats::{self, ProfileRest};
use crate::config::models::{is_same_provider, provider_id};
use crate::config::profiles::ProfileMode;
use crate::config::secrets::SecretRef;
use crate::store::atomic::{self, FileError};
use crate::store::{WriteLock, WriteLockError};
use crate::support::{Secret, json, reading, sort};

/// The version that OpenClaw writes.
const VERSION: u64 = 1;
/// Order and usage of the profiles, in the same folder.
const STATE_FILE: &str = "auth-state.json";
/// Some hundred credentials; more is not such a file.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is there but not readable.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is no JSON object with profiles.
    #[error("{} is not a file of credentials; mend it or move it away", .0.display())]
    Malformed(PathBuf),
    /// Nobody else can be kept from writing it.
    #[error(transparent)]
    Lock(#[from] WriteLockError),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] FileError),
}

/// What is in the file.
#[derive(Debug, Clone, Default)]
pub struct ProfileFile {
    /// The credentials that we understand, in the order of the file.
    pub profiles: Vec<Profile>,
    /// The agent's own order, by provider.
    pub order: BTreeMap<String, Vec<String>>,
    /// Profiles that OpenClaw lets rest.
    pub rests: Vec<ProfileRest>,
}

impl ProfileFile {
    /// The file beside this one in which newer versions of OpenClaw keep what is
    /// no secret.
    pub fn state_path(path: &Path) -> PathBuf {
        path.with_file_name(STATE_FILE)
    }

    /// Reads the file and the one beside it; nothing when there is none.
    ///
    /// # Errors
    /// When it is there and not readable.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let whole = read_value(path)?;
        let entries = whole.get("profiles").and_then(Value::as_object);
        let profiles = entries.into_iter().flatten();
        let state = read_value(&Self::state_path(path)).unwrap_or_default();
        let orders = [&whole, &state].into_iter().filter_map(|file| file.get("order")?.as_object());
        let order = orders.flatten();
        Ok(Self {
            profiles: profiles.filter_map(|(id, value)| Profile::read(id, value)).collect(),
            order: sort::map(order.filter_map(|(provider, ids)| {
                let ids = reading::of(ids).ok()?;
                Some((provider_id(provider), ids))
            })),
            rests: usage_stats::read(&[&whole, &state]),
        })
    }

    /// Adds a credential, in place of one with the same id.
    ///
    /// # Errors
    /// When the file is not readable or not writable.
    pub fn add(
        path: &Path,
        id: &str,
        provider: &str,
        mode: ProfileMode,
        secret: &Secret,
    ) -> Result<(), StoreError> {
        let name = match mode {
            ProfileMode::ApiKey => "key",
            ProfileMode::Token => "token",
            ProfileMode::OAuth => "access",
        };
        let profile = json!({"type": mode.as_str(), "provider": provider, name: secret.expose()});
        change(path, |profiles| {
            profiles.insert(id.to_owned(), profile);
            true
        })
        .map(|_| ())
    }

    /// Adds a key that is kept elsewhere, in place of one with the same id.
    ///
    /// # Errors
    /// When the file is not readable or not writable.
    pub fn add_reference(
        path: &Path,
        id: &str,
        provider: &str,
        reference: &SecretRef,
    ) -> Result<(), StoreError> {
        let mode = ProfileMode::ApiKey.as_str();
        let profile = json!({"type": mode, "provider": provider, "keyRef": reference});
        change(path, |profiles| {
            profiles.insert(id.to_owned(), profile);
            true
        })
        .map(|_| ())
    }

    /// Has a credential tried first where the file, or the one beside it, has an order of
    /// its own for the provider.
    ///
    /// # Errors
    /// When one of them is not writable.
    pub fn put_first(path: &Path, id: &str, provider: &str) -> Result<(), StoreError> {
        let has_orders = |path: &PathBuf| read_value(path).is_ok_and(|it| it["order"].is_object());
        for path in [path.to_owned(), Self::state_path(path)].iter().filter(|it| has_orders(it)) {
            change_file(path, |members| {
                let orders = members.get_mut("order").and_then(Value::as_object_mut);
                let orders = orders.into_iter().flatten();
                let own = orders.filter(|(name, _)| is_same_provider(name, provider));
                for ids in own.filter_map(|(_, ids)| ids.as_array_mut()) {
                    ids.retain(|known| known != id);
                    ids.insert(0, json!(id));
                }
                Some(true)
            })?;
        }
        Ok(())
    }

    /// Removes a credential; whether it was there.
    ///
    /// # Errors
    /// When the file is not readable or not writable.
    pub fn remove(path: &Path, id: &str) -> Result<bool, StoreError> {
        change(path, |profiles| profiles.shift_remove(id).is_some())
    }
}

/// Changes the profiles and writes the file, if `edit` says that it did.
fn change(
    path: &Path,
    edit: impl FnOnce(&mut Map<String, Value>) -> bool,
) -> Result<bool, StoreError> {
    change_file(path, |members| {
        members.entry("version").or_insert(json!(VERSION));
        members.entry("profiles").or_insert_with(|| json!({})).as_object_mut().map(edit)
    })
}

/// Changes the members of a file and writes it, if `edit` says that it did; `None` is a file
/// of another form.
fn change_file(
    path: &Path,
    edit: impl FnOnce(&mut Map<String, Value>) -> Option<bool>,
) -> Result<bool, StoreError> {
    let _alone = WriteLock::acquire(path)?;
    let mut whole = read_value(path)?;
    let is_changed = whole.as_object_mut().and_then(edit);
    if !is_changed.ok_or_else(|| StoreError::Malformed(path.to_owned()))? {
        return Ok(false);
    }
    atomic::write_private(path, format!("{whole:#}\n").as_bytes())?;
    Ok(true)
}

fn read_value(path: &Path) -> Result<Value, StoreError> {
    let malformed = || StoreError::Malformed(path.to_owned());
    let unreadable = |source| StoreError::Unreadable { path: path.to_owned(), source };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(json!({})),
        Err(error) => return Err(unreadable(error)),
        Ok(facts) if !facts.is_file() || facts.len() > MAX_BYTES => return Err(malformed()),
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let value: Value = serde_json::from_str(&text).map_err(|_| malformed())?;
    let is_sound = value.get("profiles").is_none_or(Value::is_object) && value.is_object();
    if is_sound { Ok(value) } else { Err(malformed()) }
}
