//! Which devices are paired, and what they were approved for.
//!
//! Owns: requests, approvals, device tokens, setup codes. Promises: what one
//! device gets is decided in one transaction; a token is good while its row
//! says so, and whoever came with it is found again when it no longer is.
//! Must not: know sockets; it says what happened to whoever listens.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{OnceCell, oneshot};
use tokio::time::timeout;

use crate::protocol::{ErrorKind, ErrorShape, Role};
use crate::store::{DeviceFacts, DeviceRow, DeviceToken, Store, StoreError};
use crate::support::{Secret, trouble};

mod decide;
mod import;
mod manage;
mod scopes;
mod setup;
#[cfg(test)]
mod tests;
mod token;
mod wire;

pub use decide::{Ask, Reason, Trust};
pub use import::{PairedFile, PairedFileError, forget_devices, paired_rows};
pub use manage::{ManageError, Rotated};
pub use scopes::{covers, normalized, worth};
pub use setup::{CodeFor, Issued, SetUp, SetupGrant};
pub use token::{Minter, hash};

use decide::{Outcome, arrive, live};
use scopes::covers_all;
use token::{is_text_of, issued_at};

/// How long a request waits.
pub const REQUEST_LIFE_MS: u64 = 300_000;
/// The time of the last use is noted this exactly, so that a device that comes
/// often does not write each time.
const USE_NOTED_EVERY_MS: u64 = 60_000;
/// How long a device waits for that: it may come although a disk hangs.
const NOTE_LIMIT: Duration = Duration::from_millis(500);

/// Something that happened, as the event's payload.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// A device asks.
    Requested(Value),
    /// Somebody has decided, or it needed nobody.
    Resolved(Value),
}

/// Told of what happens.
pub type Tell = Box<dyn Fn(&News) + Send + Sync>;

/// What a device stands on that is let in, to be looked at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    device_id: String,
    role: Role,
    hash: String,
    epoch: u64,
}

/// A device that is let in.
#[derive(Debug)]
pub struct LetIn {
    /// Its token; none when only the device itself has it.
    pub token: Option<Secret>,
    /// What the token is good for.
    pub scopes: Vec<String>,
    /// When the token was issued, in milliseconds since the epoch.
    pub issued_at_ms: u64,
    /// What it stands on.
    pub standing: Standing,
}

/// What is known of a paired device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its key.
    pub public_key: String,
    /// Its operating system, as it was approved.
    pub platform: Option<String>,
    /// Its kind, as it was approved.
    pub device_family: Option<String>,
    /// What its token is good for.
    pub scopes: Vec<String>,
}

/// The devices of a gateway.
pub struct Pairing {
    store: Arc<dyn Store>,
    minter: Minter,
    /// OpenClaw's folder of devices.
    original: PathBuf,
    imported: OnceCell<()>,
    tell: Tell,
    /// Grows after a token was taken away.
    epoch: AtomicU64,
}

impl Pairing {
    /// Over a store; `original` is where OpenClaw keeps its devices.
    pub fn new(store: Arc<dyn Store>, minter: Minter, original: PathBuf, tell: Tell) -> Self {
        let (imported, epoch) = (OnceCell::new(), AtomicU64::new(0));
        Self { store, minter, original, imported, tell, epoch }
    }

    /// Decides about a device that has shown the gateway's secret.
    pub async fn arrive(&self, ask: Ask, now_ms: u64) -> Result<LetIn, ErrorShape> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let request_id = self.minter.new_id();
        let row = self.look(&ask.device_id, now_ms).await?;
        let mut after = row.clone();
        let mut outcome = arrive(&mut after, &ask, &self.minter, &request_id, now_ms);
        if after != row {
            let (asked, minter) = (ask.clone(), self.minter.clone());
            let change =
                move |row: &mut DeviceRow| arrive(row, &asked, &minter, &request_id, now_ms);
            outcome = self.edit(&ask.device_id, now_ms, change).await?;
        }
        match outcome {
            Outcome::In { token, approved } => {
                if let Some(request_id) = approved {
                    tracing::info!(device = %ask.device_id, role = ask.role.as_str(), "device paired from this machine");
                    self.tell_resolved(&request_id, &ask.device_id, "approved", now_ms);
                }
                let shown = self.minter.reveal(&ask.device_id, ask.role, &token);
                Ok(standing(&ask.device_id, ask.role, token, shown, epoch))
            }
            Outcome::Waits { reason, request, is_new, approved } => {
                if is_new {
                    tracing::warn!(
                        device = %ask.device_id, reason = reason.as_str(),
                        "a device waits for approval: clawgate devices approve {}", request.request_id
                    );
                    let payload = wire::pending(&ask.device_id, &request);
                    (self.tell)(&News::Requested(payload));
                }
                Err(wire::refusal(&ask, reason, &request, approved))
            }
        }
    }

    /// Lets a device in that shows a token of its own; `None` when it is not
    /// good for that.
    pub async fn show_token(
        &self,
        ask: &Ask,
        text: &str,
        now_ms: u64,
    ) -> Result<Option<LetIn>, ErrorShape> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let row = self.look(&ask.device_id, now_ms).await?;
        let Some(token) = fitting(&row, ask, text) else { return Ok(None) };
        let noted = token.last_used_at_ms.unwrap_or_default();
        let mut token = Some(token.clone());
        if now_ms.saturating_sub(noted) >= USE_NOTED_EVERY_MS && !trouble::disk_hangs() {
            let (asked, text) = (ask.clone(), text.to_owned());
            let note = move |row: &mut DeviceRow| {
                fitting(row, &asked, &text)?;
                let role = asked.role.as_str();
                let token = row.paired.as_mut()?.tokens.get_mut(role)?;
                token.last_used_at_ms = Some(now_ms);
                Some(token.clone())
            };
            let noting = self.edit(&ask.device_id, now_ms, note);
            match timeout(NOTE_LIMIT, noting).await {
                Ok(Ok(noted)) => token = noted,
                // When it was last used is worth no refusal.
                Ok(Err(_)) => tracing::warn!(device = %ask.device_id, "use of a token not noted"),
                Err(_) => {}
            }
        }
        let shown = Some(Secret::new(text));
        Ok(token.map(|token| standing(&ask.device_id, ask.role, token, shown, epoch)))
    }

    /// What is known of a device that has a token for this role.
    pub async fn known(
        &self,
        device_id: &str,
        role: Role,
        now_ms: u64,
    ) -> Result<Option<Known>, ErrorShape> {
        let row = self.look(device_id, now_ms).await?;
        Ok(row.paired.and_then(|paired| {
            let scopes = live(&paired, role.as_str())?.scopes.clone();
            let DeviceFacts { public_key, platform, device_family, .. } = paired.facts;
            Some(Known { public_key, platform, device_family, scopes })
        }))
    }

    /// The paired device that has this token for operators, and what the token
    /// is good for.
    pub async fn holder(
        &self,
        text: &str,
        now_ms: u64,
    ) -> Result<Option<(String, LetIn)>, ErrorShape> {
        self.imported().await;
        let epoch = self.epoch.load(Ordering::Acquire);
        let rows = self.store.devices(since(now_ms)).await.map_err(unavailable)?;
        Ok(rows.into_iter().find_map(|row| {
            let token = live(row.paired.as_ref()?, Role::Operator.as_str())?;
            let token = is_text_of(token, text).then(|| token.clone())?;
            let let_in = standing(&row.device_id, Role::Operator, token, None, epoch);
            Some((row.device_id, let_in))
        }))
    }

    /// Whether what a device was let in with is still good. Cheap while
    /// nothing was taken away since.
    pub async fn still_stands(&self, standing: &Standing, now_ms: u64) -> bool {
        if self.epoch.load(Ordering::Acquire) == standing.epoch {
            return true;
        }
        let Ok(row) = self.look(&standing.device_id, now_ms).await else { return false };
        row.paired
            .as_ref()
            .and_then(|paired| live(paired, standing.role.as_str()))
            .is_some_and(|token| token.hash == standing.hash)
    }

    /// What is known of a device.
    async fn look(&self, device_id: &str, now_ms: u64) -> Result<DeviceRow, ErrorShape> {
        self.imported().await;
        let found = self.store.device(device_id, since(now_ms)).await.map_err(unavailable)?;
        let fresh = || DeviceRow { device_id: device_id.to_owned(), ..DeviceRow::default() };
        Ok(found.unwrap_or_else(fresh))
    }

    /// Changes what is known of a device, in one transaction.
    async fn edit<T: Send + 'static>(
        &self,
        device_id: &str,
        now_ms: u64,
        change: impl FnOnce(&mut DeviceRow) -> T + Send + 'static,
    ) -> Result<T, ErrorShape> {
        let (give, mut taken) = oneshot::channel();
        let edit = Box::new(move |row: &mut DeviceRow| {
            // Nobody waits any more when the connection has gone; it counts all the same.
            let _ = give.send(change(row));
        });
        let written = self.store.edit_device(device_id, since(now_ms), edit).await;
        if !written.map_err(unavailable)? {
            return Err(too_many());
        }
        taken
            .try_recv()
            .map_err(|_| ErrorShape::unavailable("the device was not changed; try again"))
    }

    fn tell_resolved(&self, request_id: &str, device_id: &str, decision: &str, now_ms: u64) {
        (self.tell)(&News::Resolved(wire::resolved(request_id, device_id, decision, now_ms)));
    }

    /// Notes that something was taken away; called after it is committed.
    fn taken_away(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }
}

/// From when requests still wait.
const fn since(now_ms: u64) -> u64 {
    now_ms.saturating_sub(REQUEST_LIFE_MS)
}

#[allow(clippy::needless_pass_by_value)] // the form that map_err asks for
fn unavailable(error: StoreError) -> ErrorShape {
    tracing::error!(%error, "devices are not readable");
    ErrorShape::unavailable(
        "the list of devices cannot be read or written; the gateway's log says why",
    )
}

fn too_many() -> ErrorShape {
    let text = "too many devices are paired or wait for approval; see `clawgate devices list` and `clawgate devices clear`";
    ErrorShape::unavailable(text).kind(ErrorKind::RateLimited)
}

fn standing(
    device_id: &str,
    role: Role,
    token: DeviceToken,
    shown: Option<Secret>,
    epoch: u64,
) -> LetIn {
    LetIn {
        token: shown,
        issued_at_ms: issued_at(&token),
        standing: Standing { device_id: device_id.to_owned(), role, hash: token.hash, epoch },
        scopes: token.scopes,
    }
}

/// The token of a device, when the text is that token and it is good for all
/// that the device asks for.
fn fitting<'a>(row: &'a DeviceRow, ask: &Ask, text: &str) -> Option<&'a DeviceToken> {
    let paired = row.paired.as_ref()?;
    let token = live(paired, ask.role.as_str())?;
    let fits = paired.facts.public_key == ask.facts.public_key
        && is_text_of(token, text)
        && covers_all(&token.scopes, &ask.facts.scopes);
    fits.then_some(token)
}
