//! Devices that OpenClaw paired: `devices/paired.json`.
//!
//! Promises: the file is only read; a device that was removed here does not
//! come back, and one that OpenClaw has removed since does not stay; a row that
//! says less than it must is left out.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::protocol::Role;
use crate::store::{
    DeviceFacts, DeviceRow, DeviceToken, PairedDevice, SourceNote, Store, StoreError,
};
use crate::support::{blocking, json_file_of_javascript, reading, sort};

use super::Pairing;
use super::scopes::{covers_all, normalized};
use super::token::hash;
use crate::auth::device::id_of_key;

/// Under this name the first start notes that it took devices over.
const MARK: &str = "devices imported";
/// The file of a gateway with as many devices as can be paired, and more than that of any
/// nodes; a larger one is none.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Devices of another program.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct PairedFile {
    /// Those that can be taken over.
    pub rows: Vec<DeviceRow>,
    /// Ids of those that cannot.
    pub left_out: Vec<String>,
    /// The file as it was read, with those that can be taken over; none when there is none.
    note: Option<SourceNote>,
    /// Ids of all that it names.
    names: BTreeSet<String>,
}

/// Why there is nothing to take over.
#[derive(Debug, thiserror::Error)]
pub enum PairedFileError {
    /// The file is there and not readable.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is no such file.
    #[error("{} is no list of devices: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Original {
    #[serde(flatten)]
    facts: OriginalFacts,
    #[serde(default)]
    approved_scopes: Option<Vec<String>>,
    #[serde(default)]
    tokens: BTreeMap<String, OriginalToken>,
    #[serde(default)]
    created_at_ms: u64,
    #[serde(default)]
    approved_at_ms: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OriginalFacts {
    public_key: String,
    display_name: Option<String>,
    platform: Option<String>,
    device_family: Option<String>,
    client_id: Option<String>,
    client_mode: Option<String>,
    role: Option<String>,
    #[serde(default)]
    roles: Vec<String>,
    #[serde(default)]
    scopes: Vec<String>,
    remote_ip: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OriginalToken {
    token: String,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    created_at_ms: u64,
    rotated_at_ms: Option<u64>,
    revoked_at_ms: Option<u64>,
    last_used_at_ms: Option<u64>,
}

impl PairedFile {
    /// Reads `paired.json` in a folder of devices; nothing when there is none.
    /// Blocks.
    pub fn read(folder: &Path) -> Result<Self, PairedFileError> {
        let path = Self::path(folder);
        // Looked at first: what is written meanwhile is found to be another file.
        let mut note = SourceNote::of(&path);
        let found = paired_rows(&path).map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                PairedFileError::Malformed { path: path.clone(), source }
            }
            _ => PairedFileError::Unreadable { path: path.clone(), source },
        })?;
        let Some(found) = found else { return Ok(Self::default()) };
        let mut file = Self { names: found.keys().cloned().collect(), ..Self::default() };
        for (device_id, value) in found {
            match reading::of(&value).ok().and_then(|known| row(&device_id, known)) {
                Some(row) => file.rows.push(row),
                None => file.left_out.push(device_id),
            }
        }
        note.ids = file.rows.iter().filter_map(noted).collect();
        file.note = Some(note);
        Ok(file)
    }

    /// Where OpenClaw has it, in its folder of devices.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join("paired.json")
    }

    /// What is noted of this file once it is taken over, when this was noted before: what
    /// came from it stays noted as it came, also when it was removed here since.
    pub fn noted_after(&self, before: Option<&SourceNote>) -> Option<SourceNote> {
        let mut note = self.note.clone()?;
        let Some(before) = before else { return Some(note) };
        let known: HashSet<_> = before.ids.iter().map(|noted| id_of(noted)).collect();
        let new = note.ids.into_iter().filter(|noted| !known.contains(id_of(noted)));
        note.ids = self.still_named(before).into_iter().chain(new).collect();
        Some(note)
    }

    /// What came from this file before and is still in it.
    fn still_named(&self, before: &SourceNote) -> Vec<String> {
        before.ids.iter().filter(|noted| self.names.contains(id_of(noted))).cloned().collect()
    }

    /// The devices here that came from this file and are not in it any more. One that was
    /// approved here since is another one, and nothing goes with a file that is gone itself.
    ///
    /// # Errors
    /// When the database does not tell.
    pub async fn gone(
        &self,
        store: &dyn Store,
        before: &SourceNote,
    ) -> Result<Vec<String>, StoreError> {
        if self.note.is_none() {
            return Ok(Vec::new());
        }
        let came: HashSet<_> = before.ids.iter().map(String::as_str).collect();
        let mut here = store.devices(0).await?;
        here.retain(|row| {
            let is_theirs = noted(row).is_some_and(|noted| came.contains(noted.as_str()));
            is_theirs && !self.names.contains(&row.device_id)
        });
        Ok(here.into_iter().map(|row| row.device_id).collect())
    }

    /// Takes those out that came from this file before and are not here any more: somebody
    /// has removed them here. Answers which.
    ///
    /// # Errors
    /// When the database does not tell.
    pub async fn leave_removed(
        &mut self,
        store: &dyn Store,
        before: &SourceNote,
    ) -> Result<Vec<String>, StoreError> {
        let mut removed: HashSet<_> = before.ids.iter().map(|noted| id_of(noted)).collect();
        let here = store.devices(0).await?;
        for row in here.iter().filter(|row| row.paired.is_some()) {
            removed.remove(row.device_id.as_str());
        }
        let rows = std::mem::take(&mut self.rows).into_iter();
        let (out, rows): (Vec<_>, Vec<_>) =
            rows.partition(|row| removed.contains(row.device_id.as_str()));
        self.rows = rows;
        Ok(out.into_iter().map(|row| row.device_id).collect())
    }
}

/// What a `paired.json` says of devices or nodes, by their ids; `None` when there is none.
/// Blocks.
///
/// # Errors
/// When it cannot be read; `InvalidData` or `UnexpectedEof` when it is no such file.
pub fn paired_rows(path: &Path) -> io::Result<Option<Map<String, Value>>> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(about) if !about.is_file() || about.len() > LARGEST => {
            return Err(io::Error::other("it is too large, or no file"));
        }
        Ok(_) => {}
    }
    match json_file_of_javascript(path)? {
        Value::Object(rows) => Ok(Some(rows)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it has no ids")),
    }
}

/// Removes devices, as OpenClaw has done.
///
/// # Errors
/// When the database does not take it.
pub async fn forget_devices(store: &dyn Store, ids: &[String]) -> Result<(), StoreError> {
    for id in ids {
        let forget = |row: &mut DeviceRow| (row.paired, row.pending) = (None, None);
        store.edit_device(id, 0, Box::new(forget)).await?;
        tracing::warn!(device = %id, "device removed, as OpenClaw has removed it");
    }
    Ok(())
}

/// How it is noted that a device came: with its approval, since one that was approved here
/// is none of theirs.
fn noted(row: &DeviceRow) -> Option<String> {
    let paired = row.paired.as_ref()?;
    Some(format!("{} {}", row.device_id, paired.approved_at_ms))
}

/// The device of a note.
fn id_of(noted: &str) -> &str {
    noted.split_once(' ').map_or(noted, |(id, _)| id)
}

/// What we keep of a device; none when its id is not that of its key.
fn row(device_id: &str, known: Original) -> Option<DeviceRow> {
    let Original { facts, approved_scopes, tokens, created_at_ms, approved_at_ms } = known;
    let (id, public_key) = id_of_key(&facts.public_key)?;
    if id != device_id {
        return None;
    }
    let scopes = approved_scopes.unwrap_or(facts.scopes);
    let mut roles = facts.roles;
    roles.retain(|role| Role::parse(role).is_some());
    let role = facts.role.filter(|role| Role::parse(role).is_some());
    let role = role.or_else(|| roles.first().cloned())?;
    if !roles.contains(&role) {
        roles.push(role.clone());
    }
    let set = |time: Option<u64>| time.filter(|time| *time > 0);
    let good = tokens.into_iter().filter(|(role, token)| {
        // A token can do no more than its device was approved for.
        Role::parse(role).is_some()
            && !token.token.trim().is_empty()
            && covers_all(&normalized(&scopes), &token.scopes)
    });
    let tokens = good.map(|(role, token)| {
        let kept = DeviceToken {
            hash: hash(&token.token),
            salt: None,
            scopes: normalized(&token.scopes),
            created_at_ms: token.created_at_ms,
            rotated_at_ms: set(token.rotated_at_ms),
            revoked_at_ms: set(token.revoked_at_ms),
            last_used_at_ms: set(token.last_used_at_ms),
        };
        (role, kept)
    });
    let tokens = sort::map(tokens);
    let facts = DeviceFacts {
        public_key,
        display_name: facts.display_name,
        platform: facts.platform,
        device_family: facts.device_family,
        client_id: facts.client_id,
        client_mode: facts.client_mode,
        role,
        roles,
        scopes,
        remote_ip: facts.remote_ip,
    };
    let paired = PairedDevice { facts, tokens, created_at_ms, approved_at_ms };
    Some(DeviceRow { device_id: id, paired: Some(paired), pending: None })
}

impl Pairing {
    /// Takes over what OpenClaw left in this state directory, once.
    pub(super) async fn imported(&self) {
        self.imported.get_or_init(|| self.import_original()).await;
    }

    async fn import_original(&self) {
        let taken = match self.store.is_marked(MARK).await {
            Ok(true) => self.follow_original().await,
            Ok(false) => self.take_original().await,
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            tracing::warn!(%error, "devices of OpenClaw not looked at");
        }
    }

    /// Looks whether OpenClaw has removed devices since they were taken over. New ones
    /// come by `clawgate import` only.
    async fn follow_original(&self) -> Result<(), StoreError> {
        let path = PairedFile::path(&self.original).display().to_string();
        let note = self.store.sources().await?.into_iter().find(|note| note.path == path);
        let (folder, known) = (self.original.clone(), note.clone());
        let read = blocking(move || {
            let is_same = known.is_some_and(|note| !note.has_changed());
            if is_same { Ok(PairedFile::default()) } else { PairedFile::read(&folder) }
        });
        let file = match read.await {
            Ok(Ok(file)) => file,
            Ok(Err(error)) => {
                tracing::warn!(%error, "devices of OpenClaw not looked at");
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        let noted = match (note, &file.note) {
            (Some(before), Some(_)) => {
                let gone = file.gone(&*self.store, &before).await?;
                forget_devices(&*self.store, &gone).await?;
                // That it is another file stays to be told until it is imported.
                SourceNote { ids: file.still_named(&before), ..before }
            }
            // A release that noted nothing has looked here, and nobody knows whether there
            // was a file then. One that was removed here since must not come back, so all
            // of them count as taken over; those that never came pair again.
            (None, Some(now)) => now.clone(),
            (_, None) => return Ok(()),
        };
        self.store.note_sources(vec![noted]).await
    }

    async fn take_original(&self) -> Result<(), StoreError> {
        let folder = self.original.clone();
        let read = blocking(move || PairedFile::read(&folder)).await;
        let file = match read {
            Ok(Ok(file)) => file,
            Ok(Err(error)) => {
                tracing::warn!(%error, "devices of OpenClaw not taken over");
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        let left_out = file.left_out.len();
        // Before the mark: without a note nobody would know later that it was another file.
        let none = SourceNote {
            path: PairedFile::path(&self.original).display().to_string(),
            print: String::new(),
            ids: Vec::new(),
        };
        self.store.note_sources(vec![file.note.unwrap_or(none)]).await?;
        let devices = self.store.import_devices(file.rows, Some(MARK)).await?;
        if devices > 0 || left_out > 0 {
            tracing::info!(devices, left_out, "devices of OpenClaw taken over");
        }
        Ok(())
    }
}
