//! Devices that OpenClaw paired: `devices/paired.json`.
//!
//! Promises: the file is only read; a device that was removed here does not
//! come back; a row that says less than it must is left out.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::protocol::Role;
use crate::store::{DeviceFacts, DeviceRow, DeviceToken, PairedDevice};
use crate::support::blocking;

use super::Pairing;
use super::scopes::{covers_all, normalized};
use super::token::hash;
use crate::auth::device::id_of_key;

/// Under this name the first start notes that it took devices over.
const MARK: &str = "devices imported";
/// The file of a gateway with as many devices as can be paired; a larger one is
/// none.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Devices of another program.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct PairedFile {
    /// Those that can be taken over.
    pub rows: Vec<DeviceRow>,
    /// Ids of those that cannot.
    pub left_out: Vec<String>,
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
        source: serde_json::Error,
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
        let path = folder.join("paired.json");
        let unreadable = |source| PairedFileError::Unreadable { path: path.clone(), source };
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unreadable(error)),
            Ok(about) if !about.is_file() || about.len() > LARGEST => {
                return Err(unreadable(io::Error::other("it is too large, or no file")));
            }
            Ok(_) => {}
        }
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        let malformed = |source| PairedFileError::Malformed { path: path.clone(), source };
        let found: BTreeMap<String, Value> = serde_json::from_str(&text).map_err(malformed)?;
        let mut file = Self::default();
        for (device_id, value) in found {
            match serde_json::from_value(value).ok().and_then(|known| row(&device_id, known)) {
                Some(row) => file.rows.push(row),
                None => file.left_out.push(device_id),
            }
        }
        Ok(file)
    }
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
    let tokens = tokens.collect();
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
        if self.store.is_marked(MARK).await.unwrap_or(true) {
            return;
        }
        let folder = self.original.clone();
        let read = blocking(move || PairedFile::read(&folder)).await;
        let file = match read {
            Ok(Ok(file)) => file,
            Ok(Err(error)) => return tracing::warn!(%error, "devices of OpenClaw not taken over"),
            Err(_) => return,
        };
        let left_out = file.left_out.len();
        match self.store.import_devices(file.rows, Some(MARK)).await {
            Ok(0) if left_out == 0 => {}
            Ok(devices) => tracing::info!(devices, left_out, "devices of OpenClaw taken over"),
            Err(error) => tracing::warn!(%error, "devices of OpenClaw not taken over"),
        }
    }
}
