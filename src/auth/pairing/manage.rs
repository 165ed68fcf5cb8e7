//! What somebody who may manage devices does with them.

use serde_json::Value;

use crate::auth::Principal;
use crate::protocol::{ErrorShape, Role, Scope};
use crate::store::DeviceRow;
use crate::support::{Secret, json, sort};

use super::decide::{ApproveError, approve, live};
use super::scopes::covers_all;
use super::{Pairing, since, unavailable, wire};

/// Why it was not done.
#[derive(Debug, Clone, PartialEq)]
pub enum ManageError {
    /// The caller may not do that, or not to this device; or there is no such token.
    Denied,
    /// No such request waits.
    UnknownRequest,
    /// No such device is paired.
    UnknownDevice,
    /// The caller has not got a scope that it would give.
    MissingScope(String),
    /// None of the roles asked for can have this scope.
    InvalidScope(String),
    /// The store failed.
    Failed(Box<ErrorShape>),
}

impl From<ErrorShape> for ManageError {
    fn from(error: ErrorShape) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl From<ApproveError> for ManageError {
    fn from(error: ApproveError) -> Self {
        match error {
            ApproveError::NoRequest => Self::UnknownRequest,
            ApproveError::MissingScope(scope) => Self::MissingScope(scope),
            ApproveError::InvalidScope(scope) => Self::InvalidScope(scope),
        }
    }
}

/// A token that was replaced.
#[derive(Debug)]
pub struct Rotated {
    /// What the new one is good for.
    pub scopes: Vec<String>,
    /// Milliseconds since the epoch.
    pub rotated_at_ms: u64,
    /// The new one, when its own device asked.
    pub token: Option<Secret>,
}

impl Pairing {
    /// Requests and devices that `caller` may see, the newest first.
    pub async fn list(&self, caller: &Principal, now_ms: u64) -> Result<Value, ErrorShape> {
        self.imported().await;
        let mut rows = self.store.devices(since(now_ms)).await.map_err(unavailable)?;
        rows.retain(|row| may_manage(caller, Some(&row.device_id)));
        let mut pending: Vec<_> =
            rows.iter().filter_map(|row| Some((row, row.pending.as_ref()?))).collect();
        sort::by_key(&mut pending, |(_, request)| std::cmp::Reverse(request.ts));
        let mut paired: Vec<_> =
            rows.iter().filter_map(|row| Some((row, row.paired.as_ref()?))).collect();
        sort::by_key(&mut paired, |(_, device)| std::cmp::Reverse(device.approved_at_ms));
        let pending: Vec<_> = pending
            .into_iter()
            .map(|(row, request)| wire::pending(&row.device_id, request))
            .collect();
        let paired: Vec<_> =
            paired.into_iter().map(|(row, device)| wire::paired(&row.device_id, device)).collect();
        Ok(json!({"pending": pending, "paired": paired}))
    }

    /// Approves a request; answers the device as it is then.
    pub async fn approve(
        &self,
        caller: &Principal,
        request_id: &str,
        now_ms: u64,
    ) -> Result<Value, ManageError> {
        let device_id = self.asking(caller, request_id, now_ms).await?;
        let (id, minter, caller) = (request_id.to_owned(), self.minter.clone(), caller.clone());
        let approve = move |row: &mut DeviceRow| {
            if row.pending.as_ref().is_none_or(|pending| pending.request_id != id) {
                return Err(ApproveError::NoRequest);
            }
            approve(row, &|scope| holds(&caller, scope), &minter, now_ms)?;
            Ok(row.paired.as_ref().map(|device| wire::paired(&row.device_id, device)))
        };
        let device = self.edit(&device_id, now_ms, approve).await??;
        tracing::info!(device = %device_id, "device approved");
        self.tell_resolved(request_id, &device_id, "approved", now_ms);
        Ok(json!({"requestId": request_id, "device": device}))
    }

    /// Drops a request; answers whose it was.
    pub async fn reject(
        &self,
        caller: &Principal,
        request_id: &str,
        now_ms: u64,
    ) -> Result<String, ManageError> {
        let device_id = self.asking(caller, request_id, now_ms).await?;
        let id = request_id.to_owned();
        let reject = move |row: &mut DeviceRow| {
            let pending = row.pending.take_if(|pending| pending.request_id == id);
            pending.map(|_| ()).ok_or(ManageError::UnknownRequest)
        };
        self.edit(&device_id, now_ms, reject).await??;
        self.tell_resolved(request_id, &device_id, "rejected", now_ms);
        Ok(device_id)
    }

    /// Forgets a device, its tokens and what it asks for.
    pub async fn remove(
        &self,
        caller: &Principal,
        device_id: &str,
        now_ms: u64,
    ) -> Result<(), ManageError> {
        self.imported().await;
        if !may_manage(caller, Some(device_id)) {
            return Err(ManageError::Denied);
        }
        let forget = |row: &mut DeviceRow| {
            let was_paired = row.paired.take().is_some();
            if was_paired {
                row.pending = None;
            }
            was_paired
        };
        if !self.edit(device_id, now_ms, forget).await? {
            return Err(ManageError::UnknownDevice);
        }
        self.taken_away();
        tracing::info!(device = %device_id, "device removed");
        Ok(())
    }

    /// Gives a device another token for a role, with the scopes of the one it
    /// has or fewer or more, but none that were not approved.
    pub async fn rotate(
        &self,
        caller: &Principal,
        (device_id, role): (&str, &str),
        scopes: Option<Vec<String>>,
        now_ms: u64,
    ) -> Result<Rotated, ManageError> {
        self.imported().await;
        let known_role = Role::parse(role).filter(|_| may_manage(caller, Some(device_id)));
        let known_role = known_role.ok_or(ManageError::Denied)?;
        let (minter, holder, role) = (self.minter.clone(), caller.clone(), role.to_owned());
        let rotate = move |row: &mut DeviceRow| {
            let paired = row.paired.as_mut()?;
            let token = live(paired, &role)?;
            let scopes = scopes.unwrap_or_else(|| token.scopes.clone());
            let fresh = minter.mint((&row.device_id, &role), &scopes, Some(token), now_ms);
            // What it replaces counts as well: it is taken away from the device.
            let may = covers_all(&paired.facts.scopes, &scopes)
                && token.scopes.iter().chain(&fresh.scopes).all(|scope| holds(&holder, scope));
            may.then(|| {
                paired.tokens.insert(role, fresh.clone());
                fresh
            })
        };
        let token = self.edit(device_id, now_ms, rotate).await?.ok_or(ManageError::Denied)?;
        self.taken_away();
        tracing::info!(device = %device_id, role = known_role.as_str(), "device token rotated");
        let is_own = caller.token_device() == Some(device_id);
        let shown = is_own.then(|| self.minter.reveal(device_id, known_role, &token)).flatten();
        Ok(Rotated { scopes: token.scopes, rotated_at_ms: now_ms, token: shown })
    }

    /// Makes the token of a device and role good for nothing; answers since when,
    /// in milliseconds since the epoch.
    pub async fn revoke(
        &self,
        caller: &Principal,
        (device_id, role): (&str, &str),
        now_ms: u64,
    ) -> Result<u64, ManageError> {
        self.imported().await;
        if !may_manage(caller, Some(device_id)) {
            return Err(ManageError::Denied);
        }
        let (holder, of_role) = (caller.clone(), role.to_owned());
        let revoke = move |row: &mut DeviceRow| {
            let token = row.paired.as_mut()?.tokens.get_mut(&of_role)?;
            let may = token.scopes.iter().all(|scope| holds(&holder, scope));
            may.then(|| *token.revoked_at_ms.get_or_insert(now_ms))
        };
        let revoked = self.edit(device_id, now_ms, revoke).await?.ok_or(ManageError::Denied)?;
        self.taken_away();
        tracing::info!(device = %device_id, role, "device token revoked");
        Ok(revoked)
    }

    /// The device of a request that `caller` may decide on.
    async fn asking(
        &self,
        caller: &Principal,
        request_id: &str,
        now_ms: u64,
    ) -> Result<String, ManageError> {
        let row = self.store.device_of_request(request_id, since(now_ms)).await;
        let row = row.map_err(unavailable)?;
        if !may_manage(caller, row.as_ref().map(|row| row.device_id.as_str())) {
            return Err(ManageError::Denied);
        }
        row.map(|row| row.device_id).ok_or(ManageError::UnknownRequest)
    }
}

/// A device with nothing but its own token manages itself only; `None` is no
/// device of anybody.
fn may_manage(caller: &Principal, device_id: Option<&str>) -> bool {
    match caller.token_device() {
        Some(own) => device_id == Some(own) || caller.allows(Scope::Admin),
        None => true,
    }
}

/// Whether the caller has a scope; one that has no name here takes an admin.
pub(super) fn holds(caller: &Principal, scope: &str) -> bool {
    caller.allows(Scope::parse(scope).unwrap_or(Scope::Admin))
}
