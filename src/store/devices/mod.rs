//! Devices: who is paired, who asks to be, and codes that set one up.
//!
//! Promises: what is known of a device changes in one transaction, so of two
//! who race only one wins; a secret is kept as its hash; requests that nobody
//! decided on go away by themselves.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::SqliteStore;
use super::traits::StoreFuture;

mod sql;
#[cfg(test)]
mod tests;

/// Most devices that are paired: far more than people have, few enough to list.
pub const MAX_PAIRED: usize = 10_000;
/// Most requests that wait; whoever decides on them should be able to read them.
pub const MAX_PENDING: usize = 200;
/// Most setup codes that are good at one time.
pub const MAX_SETUP_CODES: usize = 100;

/// What a device says of itself, and what it wants or has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceFacts {
    /// The raw public key as base64url without padding.
    pub public_key: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Operating system, as the client spelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Such as `Mac`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_family: Option<String>,
    /// Which program it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// In which mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_mode: Option<String>,
    /// The role it came with last.
    pub role: String,
    /// Every role of it.
    pub roles: Vec<String>,
    /// Every scope of it, in the order they came.
    pub scopes: Vec<String>,
    /// Where it came from, unless from this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_ip: Option<String>,
}

/// A token of a device for one role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceToken {
    /// Lowercase hex SHA-256 of the token.
    pub hash: String,
    /// What the token is made of together with the gateway's key; none for one
    /// that another program made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
    /// What it is good for.
    pub scopes: Vec<String>,
    /// Milliseconds since the epoch, as all times here.
    pub created_at_ms: u64,
    /// When it took the place of an older one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_at_ms: Option<u64>,
    /// Since when it is good for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at_ms: Option<u64>,
    /// When somebody came with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at_ms: Option<u64>,
}

/// A device that was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PairedDevice {
    /// What was approved.
    #[serde(flatten)]
    pub facts: DeviceFacts,
    /// Its tokens, by role.
    pub tokens: BTreeMap<String, DeviceToken>,
    /// When it was approved first.
    pub created_at_ms: u64,
    /// When it was approved last.
    pub approved_at_ms: u64,
}

/// A device that waits for somebody's approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingDevice {
    /// Id of the request.
    pub request_id: String,
    /// What it asks for.
    #[serde(flatten)]
    pub facts: DeviceFacts,
    /// Whether it need not wait.
    pub silent: bool,
    /// Whether the device was approved for something before.
    pub is_repair: bool,
    /// When it asked.
    pub ts: u64,
}

/// All that is known of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceRow {
    /// Lowercase hex SHA-256 of its raw public key.
    pub device_id: String,
    /// What was approved.
    pub paired: Option<PairedDevice>,
    /// What it asks for.
    pub pending: Option<PendingDevice>,
}

/// A code that sets up one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupCode {
    /// Lowercase hex SHA-256 of its secret.
    pub hash: String,
    /// What the device gets, as JSON.
    pub grant: String,
    /// Who issued it, as text.
    pub issued_by: String,
    /// When it ends.
    pub expires_at_ms: u64,
    /// Which device has used it, and what it got, as JSON.
    pub taken_by: Option<String>,
}

/// A change of what is known of a device, made inside the transaction that
/// reads and writes it.
pub type DeviceEdit = Box<dyn FnOnce(&mut DeviceRow) + Send>;

/// The same, by a setup code; answers what is noted as [`SetupCode::taken_by`].
pub type CodeUse = Box<dyn FnOnce(&mut DeviceRow, &SetupCode) -> Option<String> + Send>;

/// Devices as the rest of the program sees them. A request from before
/// `pending_since` counts as gone.
pub trait DeviceStore: Send + Sync + 'static {
    /// What is known of a device.
    fn device<'a>(
        &'a self,
        device_id: &'a str,
        pending_since: u64,
    ) -> StoreFuture<'a, Option<DeviceRow>>;

    /// The device that asks with this request.
    fn device_of_request<'a>(
        &'a self,
        request_id: &'a str,
        pending_since: u64,
    ) -> StoreFuture<'a, Option<DeviceRow>>;

    /// Every device.
    fn devices(&self, pending_since: u64) -> StoreFuture<'_, Vec<DeviceRow>>;

    /// Changes what is known of a device; one of which nothing is known any
    /// more is forgotten, and one that is no longer paired is no node any more.
    /// False when there are too many for a new one, and nothing was written.
    fn edit_device<'a>(
        &'a self,
        device_id: &'a str,
        pending_since: u64,
        edit: DeviceEdit,
    ) -> StoreFuture<'a, bool>;

    /// Takes devices over from another program, those that are known already
    /// excepted; answers how many. With a mark it happens once for this mark.
    fn import_devices(
        &self,
        rows: Vec<DeviceRow>,
        mark: Option<&'static str>,
    ) -> StoreFuture<'_, usize>;

    /// Whether devices were taken over under this mark.
    fn is_marked(&self, mark: &'static str) -> StoreFuture<'_, bool>;

    /// Adds a setup code; false when there are too many.
    fn add_setup_code(&self, code: SetupCode, now_ms: u64) -> StoreFuture<'_, bool>;

    /// The setup code with this hash, if it is still good.
    fn setup_code<'a>(&'a self, hash: &'a str, now_ms: u64) -> StoreFuture<'a, Option<SetupCode>>;

    /// Changes what is known of a device by the setup code with this hash, as
    /// [`Self::edit_device`] does. Nothing happens when that code is not good any more.
    fn use_setup_code<'a>(
        &'a self,
        hash: &'a str,
        device_id: &'a str,
        now_ms: u64,
        pending_since: u64,
        code_use: CodeUse,
    ) -> StoreFuture<'a, bool>;

    /// Takes all setup codes away; answers how many were still good, for any device.
    fn clear_setup_codes(&self, now_ms: u64) -> StoreFuture<'_, usize>;
}

impl DeviceStore for SqliteStore {
    fn device<'a>(
        &'a self,
        device_id: &'a str,
        pending_since: u64,
    ) -> StoreFuture<'a, Option<DeviceRow>> {
        self.read_of("look up a device", device_id, move |c, id| sql::by_id(c, id, pending_since))
    }

    fn device_of_request<'a>(
        &'a self,
        request_id: &'a str,
        pending_since: u64,
    ) -> StoreFuture<'a, Option<DeviceRow>> {
        self.read_of("look up a pairing request", request_id, move |c, id| {
            sql::by_request(c, id, pending_since)
        })
    }

    fn devices(&self, pending_since: u64) -> StoreFuture<'_, Vec<DeviceRow>> {
        Box::pin(self.database.read("list devices", move |c| sql::all(c, pending_since)))
    }

    fn edit_device<'a>(
        &'a self,
        device_id: &'a str,
        pending_since: u64,
        edit: DeviceEdit,
    ) -> StoreFuture<'a, bool> {
        let id = device_id.to_owned();
        let change = move |c: &Connection| sql::edit(c, id, pending_since, edit);
        Box::pin(self.database.write("change a device", change))
    }

    fn import_devices(
        &self,
        rows: Vec<DeviceRow>,
        mark: Option<&'static str>,
    ) -> StoreFuture<'_, usize> {
        let import = move |c: &Connection| sql::import(c, &rows, mark);
        Box::pin(self.database.write("import devices", import))
    }

    fn is_marked(&self, mark: &'static str) -> StoreFuture<'_, bool> {
        Box::pin(self.database.read("look for a mark", move |c| sql::is_marked(c, mark)))
    }

    fn add_setup_code(&self, code: SetupCode, now_ms: u64) -> StoreFuture<'_, bool> {
        let add = move |c: &Connection| sql::add_code(c, &code, now_ms);
        Box::pin(self.database.write("add a setup code", add))
    }

    fn setup_code<'a>(&'a self, hash: &'a str, now_ms: u64) -> StoreFuture<'a, Option<SetupCode>> {
        self.read_of("look up a setup code", hash, move |c, id| sql::code(c, id, now_ms))
    }

    fn use_setup_code<'a>(
        &'a self,
        hash: &'a str,
        device_id: &'a str,
        now_ms: u64,
        pending_since: u64,
        code_use: CodeUse,
    ) -> StoreFuture<'a, bool> {
        let device_id = device_id.to_owned();
        self.write_of("use a setup code", hash, move |c, hash| {
            sql::use_code(c, (hash, now_ms), (device_id, pending_since), code_use)
        })
    }

    fn clear_setup_codes(&self, now_ms: u64) -> StoreFuture<'_, usize> {
        Box::pin(self.database.write("end setup codes", move |c| sql::clear_codes(c, now_ms)))
    }
}
